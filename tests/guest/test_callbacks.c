/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 14: a product from a callback that a stream runs (cuLaunchHostFunc), where a program may call nothing of
 * CUDA's. The CPU answers, whether the GPU is open or not, and while another product waits for that very callback, and
 * the GPU stays in use.
 *
 * Each case is a process of its own. Seen to fail when: the driver is called in a callback; our lock is waited for
 * there.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda_program.h"
#include "process.h"
#include "tileblas.h"

static struct guest_product product;

static void CUDA_CB multiply(void *unused) {
  (void)unused;
  guest_product_call(&product);
}

static bool call_in_callback(unsigned flags) {
  CUstream stream;
  guest_product_make(&product, 150, TST_PAGEABLE, 1);
  GUEST_OK(guest_cuda.cuStreamCreate(&stream, flags));
  GUEST_OK(guest_cuda.cuLaunchHostFunc(stream, multiply, NULL));
  GUEST_OK(guest_cuda.cuStreamSynchronize(stream));
  GUEST_OK(guest_cuda.cuStreamDestroy(stream));
  return guest_product_is_right(&product);
}

static bool call_outside(enum tst_kind kind) {
  struct guest_product outside;
  guest_product_make(&outside, 40, kind, 2);
  guest_product_call(&outside);
  return guest_product_is_right(&outside);
}

static int callbacks(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  guest_begin();
  bool right = call_in_callback(CU_STREAM_NON_BLOCKING);
  right = right && guest_gpu_calls() == 0 && call_outside(TST_PAGEABLE) && guest_gpu_calls() == 1;
  right = right && call_in_callback(CU_STREAM_DEFAULT) && guest_gpu_calls() == 1;
  return right && call_outside(TST_DEVICE) && guest_gpu_calls() == 2 ? 0 : 1;
}

static void CUDA_CB multiply_later(void *unused) {
  (void)unused;
  usleep(200000); /* by then the other thread waits, with our lock in hand */
  guest_product_call(&product);
}

/* A product of device memory is ordered behind the default stream, and waits for its callback. */
static int callback_behind_a_product(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  guest_begin();
  bool right = call_outside(TST_DEVICE);
  guest_product_make(&product, 150, TST_PAGEABLE, 1);
  GUEST_OK(guest_cuda.cuLaunchHostFunc(NULL, multiply_later, NULL));
  right = right && call_outside(TST_DEVICE);
  GUEST_OK(guest_cuda.cuStreamSynchronize(NULL));
  return right && guest_product_is_right(&product) && guest_gpu_calls() == 2 ? 0 : 1;
}

static void expect_success(int (*body)(void *)) {
  struct tst_output o;
  tst_fork(&o, body, NULL);
  if (o.status != 0 || o.err[0] != '\0') print_error("status %d\n%s%s", o.status, o.out, o.err);
  assert_true(o.status == 0 && o.err[0] == '\0');
  tst_output_destroy(&o);
}

static void a_product_in_a_callback(void **state) {
  (void)state;
  expect_success(callbacks);
}

static void a_product_that_waits_for_a_callback(void **state) {
  (void)state;
  expect_success(callback_behind_a_product);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_product_in_a_callback),
                                     cmocka_unit_test(a_product_that_waits_for_a_callback)};
  return cmocka_run_group_tests_name("callbacks", tests, NULL, NULL);
}
