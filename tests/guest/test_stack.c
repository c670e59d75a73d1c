/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on the smallest stack that a thread may have, the process's first among them: forced to the GPU, weighed,
 * and small. And painted stacks: so much deeper than OpenBLAS's own calls do ours reach.
 *
 * Seen to fail when: the caller's stack does the work that wants room.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "process.h"

#define PAINTED_BYTES ((size_t)256 << 10) /* too few for the work that wants room (stack.h) */
#define PAINT 0xa5
/* What the first call finds out (symbols, the loader's part included), and what hands it to another thread. */
#define DEEPER_BYTES_MAX 6144
#define PAGE ((size_t)4096)
#define SIDE 180

static int side;
static float *memory;
static void (*openblas)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                        int);

static void *call_ours(void *unused) {
  (void)unused;
  for (int i = 0; i < 3; i++) tst_guest_call(memory, side, 0);
  return NULL;
}

static void *call_openblas(void *unused) {
  (void)unused;
  const float *b = memory + (size_t)side * (size_t)side;
  float *c = memory + 2 * (size_t)side * (size_t)side;
  for (int i = 0; i < 3; i++) openblas(102, 111, 111, side, side, side, 1, memory, side, b, side, 0, c, side);
  return NULL;
}

/* The bytes of a painted stack that such a thread has touched. */
static size_t depth_of(void *(*body)(void *)) {
  unsigned char *stack = mmap(NULL, PAINTED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_t id;
  if (stack == MAP_FAILED) exit(2);
  memset(stack, PAINT, PAINTED_BYTES);
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, PAINTED_BYTES);
  if (pthread_create(&id, &attributes, body, NULL) != 0) exit(3);
  pthread_join(id, NULL);
  size_t untouched = 0;
  while (untouched < PAINTED_BYTES && stack[untouched] == PAINT) untouched++;
  munmap(stack, PAINTED_BYTES);
  return PAINTED_BYTES - untouched;
}

static void prepare(int n) {
  alarm(100);
  side = n;
  memory = malloc(3 * sizeof(float) * (size_t)(n * n));
  tst_guest_fill(memory, n);
}

static void find_openblas(void) {
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, "cblas_sgemm") : NULL;
  if (!found) exit(6);
  memcpy(&openblas, &found, sizeof found);
  call_openblas(NULL);
}

static int measured(int n) {
  prepare(n);
  find_openblas();
  const size_t theirs = depth_of(call_openblas), ours = depth_of(call_ours);
  printf("side %d: OpenBLAS %zu bytes, TileBLAS %zu\n", n, theirs, ours);
  return ours <= theirs + DEEPER_BYTES_MAX && tst_guest_is_right(memory, n, 0) ? 0 : 5;
}

static bool runs_in(size_t bytes, void *(*body)(void *)) {
  pthread_attr_t attributes;
  pthread_t id;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, bytes) != 0 || pthread_create(&id, &attributes, body, NULL) != 0)
    return false; /* less than the libraries' variables for each thread take */
  pthread_join(id, NULL);
  return true;
}

/* The smallest in which a thread's calls of OpenBLAS alone come back, found in children, and a page. */
static int smallest(int n) {
  prepare(n);
  find_openblas();
  for (size_t bytes = PTHREAD_STACK_MIN; bytes < PAINTED_BYTES; bytes += PAGE) {
    const pid_t child = fork();
    int status;
    if (child == 0) _exit(runs_in(bytes, call_openblas) ? 0 : 1);
    if (waitpid(child, &status, 0) != child || status != 0) continue;
    printf("side %d: stacks of %zu bytes\n", n, bytes + PAGE);
    return runs_in(bytes + PAGE, call_ours) && tst_guest_is_right(memory, n, 0) ? 0 : 4;
  }
  return 5;
}

static const struct {
  const char *name;
  int (*body)(int);
  int side;
} parts[] = {{"measured", measured, SIDE},
             {"smallest", smallest, SIDE},
             {"measured small", measured, 8},
             {"smallest small", smallest, 8}};

static void all(void **state) {
  (void)state;
  static const char *const routes[] = {"TILEBLAS_ROUTE=gpu", "TILEBLAS_ROUTE=auto", "TILEBLAS_ROUTE=cpu"};
  for (size_t route = 0; route < 3; route++)
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
      tst_guest_run(parts[i].name, (const char *const[]){routes[route], NULL}, 0);
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts && argc == 2; i++)
    if (strcmp(argv[1], parts[i].name) == 0) return parts[i].body(parts[i].side);
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
