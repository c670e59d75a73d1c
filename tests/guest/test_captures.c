/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 2: a program captures a CUDA graph, and meanwhile calls the BLAS: in each of the three modes, on a stream that
 * the default stream waits for and on one that it does not, by the same thread and another, with operands everywhere.
 * Before the GPU is open and after, and while memory is given back. The capture holds what the program put into it and
 * nothing else, the products are right, and the GPU stays in use.
 *
 * Each case is a process of its own. Seen to fail when: driver calls are not made in relaxed mode; the default stream
 * is named.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "cuda_program.h"
#include "process.h"
#include "tileblas.h"

/* Longer than the library keeps device memory without a call (offload.c). */
#define UNTIL_MEMORY_IS_GIVEN_BACK_SECONDS 3

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};

struct capture {
  CUstream stream;
  CUdeviceptr memory;
};

static void begin(struct capture *c, CUstreamCaptureMode mode, unsigned flags) {
  GUEST_OK(guest_cuda.cuStreamCreate(&c->stream, flags));
  GUEST_OK(guest_cuda.cuMemAlloc(&c->memory, 64));
  GUEST_OK(guest_cuda.cuStreamBeginCapture(c->stream, mode));
  GUEST_OK(guest_cuda.cuMemsetD8Async(c->memory, 1, 64, c->stream));
}

/* Whether it holds the one operation that was put into it. */
static bool end(struct capture *c) {
  CUgraph graph = NULL;
  size_t nodes = 0;
  const CUresult result = guest_cuda.cuStreamEndCapture(c->stream, &graph);
  if (result == CUDA_SUCCESS) {
    GUEST_OK(guest_cuda.cuGraphGetNodes(graph, NULL, &nodes));
    GUEST_OK(guest_cuda.cuGraphDestroy(graph));
  }
  GUEST_OK(guest_cuda.cuMemFree(c->memory));
  GUEST_OK(guest_cuda.cuStreamDestroy(c->stream));
  if (result != CUDA_SUCCESS || nodes != 1) printf("the capture ended with %d and %zu operations\n", result, nodes);
  return result == CUDA_SUCCESS && nodes == 1;
}

static void *call_in_thread(void *product) {
  guest_product_call(product);
  return NULL;
}

static void call(const struct guest_product *product, bool other_thread) {
  pthread_t thread;
  if (!other_thread) {
    guest_product_call(product);
    return;
  }
  if (pthread_create(&thread, NULL, call_in_thread, (void *)product) != 0) _exit(1);
  pthread_join(thread, NULL);
}

/* A product during a capture of every sort. */
static bool during_captures(int64_t n, enum tst_kind kind) {
  bool right = true;
  for (int sort = 0; sort < 12; sort++) {
    struct guest_product product;
    struct capture capture;
    const bool other_thread = sort / 6, blocking = sort / 3 % 2;
    guest_product_make(&product, n, kind, (uint64_t)sort);
    begin(&capture, modes[sort % 3], blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
    call(&product, other_thread);
    const bool well = end(&capture) & guest_product_is_right(&product);
    if (!well)
      printf("mode %d, %s stream, called by %s, memory %d\n", modes[sort % 3], blocking ? "blocking" : "non-blocking",
             other_thread ? "another thread" : "the same thread", kind);
    right &= well;
  }
  return right;
}

/* The first product opens the GPU while something is captured. */
static int products_are_computed(void *kind) {
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  guest_begin();
  bool right = during_captures(40, *(enum tst_kind *)kind) && guest_gpu_calls() == 12;
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "178K"); /* in many pieces */
  right = right && during_captures(150, *(enum tst_kind *)kind) && guest_gpu_calls() == 24;
  return right ? 0 : 1;
}

/* By copies to the host and back. */
static int products_are_copied(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  guest_begin();
  return during_captures(40, TST_DEVICE) ? 0 : 1;
}

static int memory_is_given_back(void *unused) {
  (void)unused;
  struct guest_product product;
  struct capture capture;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  guest_begin();
  guest_product_make(&product, 150, TST_PAGEABLE, 1);
  guest_product_call(&product);
  begin(&capture, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING);
  sleep(UNTIL_MEMORY_IS_GIVEN_BACK_SECONDS);
  return end(&capture) & guest_product_is_right(&product) && guest_gpu_calls() == 1 ? 0 : 1;
}

static void expect_success(int (*body)(void *), void *argument) {
  struct tst_output o;
  tst_fork(&o, body, argument);
  if (o.status != 0 || o.err[0] != '\0') print_error("status %d\n%s%s", o.status, o.out, o.err);
  assert_true(o.status == 0 && o.err[0] == '\0');
  tst_output_destroy(&o);
}

static void products_during_captures(void **state) {
  (void)state;
  for (enum tst_kind kind = TST_PAGEABLE; kind < TST_KINDS; kind++) expect_success(products_are_computed, &kind);
}

static void copies_during_captures(void **state) {
  (void)state;
  expect_success(products_are_copied, NULL);
}

static void memory_given_back_during_a_capture(void **state) {
  (void)state;
  expect_success(memory_is_given_back, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products_during_captures),
                                     cmocka_unit_test(copies_during_captures),
                                     cmocka_unit_test(memory_given_back_during_a_capture)};
  return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
