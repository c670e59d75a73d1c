/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that are cancelled at any moment, deferred and asynchronously, in their first calls and in later ones: none
 * ends within a call of ours, none takes anything along that others need, and the process goes on using the GPU.
 *
 * Seen to fail when: cancellation is not held on the long way.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"
#include "rng.h"
#include "tileblas.h"

#define SIDE 180 /* weighed: the first call looks for kept figures */
#define TIME_LIMIT_S 100

struct victim {
  int type;
  float *memory; /* the process's, whatever becomes of the thread */
  int calls;
  bool came_back;
};

/* One that is cancelled before it calls meets no cancellation point in the call. */
static void *cancelled_before(void *opaque) {
  struct victim *v = opaque;
  pthread_cancel(pthread_self());
  for (int i = 0; i < v->calls; i++) tst_guest_call(v->memory, SIDE, 0);
  v->came_back = true;
  return NULL;
}

static void *cancelled_meanwhile(void *opaque) {
  const struct victim *v = opaque;
  pthread_setcanceltype(v->type, NULL);
  for (;;) {
    tst_guest_call(v->memory, SIDE, 0);
    pthread_testcancel();
  }
  return NULL;
}

static int first_call(void) {
  struct victim v = {.memory = malloc(3 * sizeof(float) * SIDE * SIDE), .calls = 2};
  pthread_t id;
  alarm(TIME_LIMIT_S);
  tst_guest_fill(v.memory, SIDE);
  if (pthread_create(&id, NULL, cancelled_before, &v) != 0) return 2;
  pthread_join(id, NULL);
  const bool right = v.came_back && tst_guest_is_right(v.memory, SIDE, 0);
  free(v.memory);
  if (!right) return 3;
  return tst_guest_product(SIDE) ? 0 : 4;
}

/* The CPU BLAS is not meant to be ended in its midst: calls are the GPU's. */
static int any_moment(void) {
  uint64_t rng = 1;
  alarm(TIME_LIMIT_S);
  float *const memory = malloc(3 * sizeof(float) * SIDE * SIDE);
  tst_guest_fill(memory, SIDE);
  for (int i = 0; i < 16; i++) {
    struct victim v = {.type = i % 2 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, .memory = memory};
    pthread_t id;
    void *result;
    if (pthread_create(&id, NULL, cancelled_meanwhile, &v) != 0) return 2;
    usleep((useconds_t)tst_random_below(&rng, 20000));
    pthread_cancel(id);
    pthread_join(id, &result);
    if (result != PTHREAD_CANCELED) return 3;
  }
  free(memory);
  const unsigned long long before = tst_guest_gpu_calls();
  if (!tst_guest_product(SIDE)) return 4;
  return tst_guest_expects_gpu() && tst_guest_gpu_calls() != before + 1 ? 5 : 0;
}

/* The state and the type of who is not cancelled are his own again. */
static int kept(void) {
  int state, type;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  if (!tst_guest_product(SIDE)) return 2;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  if (!tst_guest_product(SIDE)) return 3;
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  if (state != PTHREAD_CANCEL_DISABLE || type != PTHREAD_CANCEL_ASYNCHRONOUS) return 4;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  return state == PTHREAD_CANCEL_ENABLE ? 0 : 5;
}

static void all(void **state) {
  (void)state;
  const char *const forced[] = {"TILEBLAS_ROUTE=gpu", NULL}, *const weighed[] = {"TILEBLAS_ROUTE=auto", NULL};
  tst_guest_run("first", weighed, 0);
  tst_guest_run("first", forced, 0);
  if (tst_guest_expects_gpu()) tst_guest_run("any", forced, 0);
  tst_guest_run("kept", forced, 0);
  tst_guest_run("kept", weighed, 0);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "first") == 0) return first_call();
  if (argc == 2 && strcmp(argv[1], "any") == 0) return any_moment();
  if (argc == 2 && strcmp(argv[1], "kept") == 0) return kept();
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
