/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that calls sgemm through names given to it, for tests of what stands behind a name. It prints one line a
 * call, "NAME ok" or "NAME wrong", and exits with 1 after a wrong one. Arguments, in the order in which they are
 * obeyed:
 *
 *   local:PATH   dlopen with RTLD_LOCAL, as Python loads an extension module
 *   global:PATH  dlopen with RTLD_GLOBAL
 *   fallback:PATH  sets TILEBLAS_FALLBACK by tileblas_option_set
 *   times:N      how often each following name is called; 1 to begin with
 *   threads:N    in how many threads at once; 1 to begin with
 *   loaded:PART  prints "loaded PART" or "not loaded PART": whether a library whose path contains PART is in the
 * process NAME         finds the symbol as the program would, and calls it
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "abi.h"

static int times = 1, threads = 1, wrong;

static void open_library(const char *path, int flags) {
  if (!dlopen(path, RTLD_NOW | flags)) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
}

static void set_fallback(const char *path) {
  int (*set)(const char *, const char *);
  *(void **)&set = dlsym(RTLD_DEFAULT, "tileblas_option_set");
  if (!set || set("TILEBLAS_FALLBACK", path) != 0) exit(2);
}

static void print_loaded(const char *part) {
  char *maps = tst_read_file("/proc/self/maps");
  printf("%sloaded %s\n", strstr(maps, part) ? "" : "not ", part);
  free(maps);
}

/* C (2 x 2) = 2 A (2 x 3) B (3 x 2) + 3 C in whole numbers, column-major. */
static int call_is_right(const struct tst_symbol *symbol) {
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, -1, 2, 1, 1},
              right[] = {2 * -4 + 3, 2 * -4 + 6, 2 * 10 + 9, 2 * 14 + 12};
  float c[] = {1, 2, 3, 4};
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = 2, .n = 2, .k = 3, .alpha = 2, .beta = 3};
  p.lda = 2, p.ldb = 3, p.ldc = 2;
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  return memcmp(c, right, sizeof c) == 0;
}

static void *call_times(void *symbol) {
  for (int i = 0; i < times; i++) {
    int right = call_is_right(symbol);
    printf("%s %s\n", ((const struct tst_symbol *)symbol)->name, right ? "ok" : "wrong");
    if (!right) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void call_name(const char *name) {
  pthread_t ids[64];
  void *symbol = (void *)tst_find_symbol(name);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&ids[i], NULL, call_times, symbol) != 0) abort();
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *colon = strchr(argv[i], ':'), *value = colon ? colon + 1 : NULL;
    if (!colon)
      call_name(argv[i]);
    else if (strncmp(argv[i], "local:", 6) == 0)
      open_library(value, RTLD_LOCAL);
    else if (strncmp(argv[i], "global:", 7) == 0)
      open_library(value, RTLD_GLOBAL);
    else if (strncmp(argv[i], "fallback:", 9) == 0)
      set_fallback(value);
    else if (strncmp(argv[i], "times:", 6) == 0)
      times = atoi(value);
    else if (strncmp(argv[i], "threads:", 8) == 0)
      threads = atoi(value);
    else if (strncmp(argv[i], "loaded:", 7) == 0)
      print_loaded(value);
    else
      return 2;
  }
  return wrong;
}
