/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Complex products from the exported functions to C, gemm and gemm3m in both precisions: random calls of every
 * spelling, layout and transpose with complex scalars, against sums in long double, and of whole numbers to the bit; in
 * one piece and cut for want of memory, which has the same bits; on the GPU's own memory, where a kernel commits; on
 * the tensor cores; and with a driver that fails.
 *
 *     test_complex          all but the tensor cores
 *     test_complex tensor   on a GPU with few multiprocessors (FAKE_CUDA_SMS), for which these products are large
 *
 * Seen to fail when: an imaginary part has the wrong sign, of a conjugated B alone, too; a panel made real is as long
 * as the one that it is made of; alpha multiplies twice; a slice of a panel is made real where the first one lies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complex_product.h"
#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

/* ---- tests ---- */

static void every_spelling(void **state) {
  (void)state;
  uint64_t rng = 1;
  int64_t forced = 0;
  const int64_t begun = gpu_calls();
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < 12 * COUNT; i++) {
    struct product p = random_product(i % COUNT, i < 11 * COUNT ? 24 : 90, &rng);
    call(&p, p.a, p.b, p.c);
    expect_right(&p, p.c);
    forced += tst_size_of(p.alpha) != 0;
    destroy(&p);
  }
  assert_int_equal(gpu_calls() - begun, forced);
}

/* Several panels of each operand, and tiles of C, one behind the other in the arena. */
static void several_tiles(void **state) {
  (void)state;
  uint64_t rng = 5;
  for (int i = 0; i < 8; i++) {
    struct product p = {.spelling = i < 4 ? C_CBLAS : Z_CBLAS,
                        .ta = "NTNC"[i % 4],
                        .tb = "NCTN"[i % 4],
                        .m = 700,
                        .n = 600,
                        .k = 9,
                        .alpha = {1.5, i % 2},
                        .beta = {0, i % 3}};
    fill(&p, 3, &rng);
    call(&p, p.a, p.b, p.c);
    expect_right(&p, p.c);
    destroy(&p);
  }
}

/* However little memory there is, the bits are those of a product in one piece. */
static void the_same_bits_in_pieces(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < COUNT; i++) {
    struct product p = random_product(i, 190, &rng);
    void *whole = malloc((size_t)p.c_count * bytes(&p));
    assert_non_null(whole);
    call(&p, p.a, p.b, p.c);
    memcpy(whole, p.c, (size_t)p.c_count * bytes(&p));
    memcpy(p.c, p.before, (size_t)p.c_count * bytes(&p));
    set("TILEBLAS_MEMORY_LIMIT", "300K");
    call(&p, p.a, p.b, p.c);
    set("TILEBLAS_MEMORY_LIMIT", "0");
    assert_memory_equal(whole, p.c, (size_t)p.c_count * bytes(&p));
    expect_right(&p, p.c);
    free(whole);
    destroy(&p);
  }
}

static void *put(const struct product *p, const void *x, int64_t count) {
  void *there = tst_cuda_allocate(TST_DEVICE, (size_t)count * bytes(p));
  tst_cuda_write(TST_DEVICE, there, x, (size_t)count * bytes(p));
  return there;
}

/* Some operands on the GPU, or all, by the bits of `which`; the same bits as from the host's memory. */
static bool is_right_from_gpu(struct product *p, int which) {
  void *const host = malloc((size_t)p->c_count * bytes(p));
  memcpy(host, p->c, (size_t)p->c_count * bytes(p));
  call(p, p->a, p->b, host);
  void *a = which & 1 ? put(p, p->a, p->a_count) : p->a, *b = which & 2 ? put(p, p->b, p->b_count) : p->b;
  void *c = which & 4 ? put(p, p->c, p->c_count) : p->c;
  call(p, a, b, c);
  const bool read = !(which & 4) || tst_cuda_read(TST_DEVICE, p->c, c, (size_t)p->c_count * bytes(p));
  expect_right(p, p->c);
  const bool same = memcmp(host, p->c, (size_t)p->c_count * bytes(p)) == 0;
  if (which & 1) tst_cuda_free(TST_DEVICE, a);
  if (which & 2) tst_cuda_free(TST_DEVICE, b);
  if (which & 4) tst_cuda_free(TST_DEVICE, c);
  free(host);
  return read && same;
}

static int in_gpu_memory(void *unused) {
  (void)unused;
  uint64_t rng = 3;
  tst_cuda_begin(0);
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 3;
  for (int i = 0; i < 56; i++) {
    struct product p = random_product(i % COUNT, 60, &rng);
    if (!is_right_from_gpu(&p, i % 7 + 1)) return 1;
    destroy(&p);
  }
  tst_cuda_end(0);
  return gpu_calls() >= 56 ? 0 : 2;
}

static void operands_on_the_gpu(void **state) {
  (void)state;
  tst_in_a_process(in_gpu_memory, NULL, "memory of the GPU");
}

static const struct {
  const char *function;
  unsigned long nth;
} failing[] = {{"cuLaunchKernel", 1},       {"cuLaunchKernel", 2},       {"cuLaunchKernel", 3},
               {"cuMemcpyHtoDAsync_v2", 2}, {"cuMemcpyDtoHAsync_v2", 1}, {"cuMemcpyDtoHAsync_v2", 3},
               {"cuModuleLoadData", 5},     {"cuEventRecord", 4},        {"cuEventQuery", 4}};

static int with_failure(void *number) {
  const int i = (int)(intptr_t)number;
  uint64_t rng = (uint64_t)i + 4;
  struct product p = random_product(i % 2 ? C_CBLAS : Z_CBLAS, 200, &rng);
  p.alpha = (struct tst_number){-1, 2};
  if (tst_fake()->inject(failing[i].function, failing[i].nth, CUDA_ERROR_UNKNOWN, 0) != 0) return 1;
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 2;
  call(&p, p.a, p.b, p.c);
  expect_right(&p, p.c);
  destroy(&p);
  return 0;
}

/* Whatever fails, the CPU has the rest, once. */
static void failures(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver fails on no command");
  for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
    tst_in_a_process(with_failure, (void *)i, failing[i].function);
  }
}

/* ---- on the tensor cores ---- */

static int on_tensor_cores(void *number) {
  const int i = (int)(intptr_t)number;
  uint64_t rng = (uint64_t)i + 20;
  struct product p = {.spelling = C_CBLAS, .ta = "NTC"[i % 3], .tb = "NCT"[i / 3], .m = 130, .n = 390, .k = 160};
  if (tst_fake() == NULL) p.m = 206, p.n = 3107, p.k = 284; /* a GPU with more SMs takes other kernels for the former */
  p.alpha = i % 2 ? (struct tst_number){-0.5, 2} : (struct tst_number){1, 0},
  p.beta = i < 5 ? (struct tst_number){0, 0} : (struct tst_number){0, 3};
  tst_cuda_begin(0);
  fill(&p, i % 4, &rng);
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0 || tileblas_option_set("TILEBLAS_PRECISION", "ieee") != 0)
    return 1;
  void *const a = put(&p, p.a, p.a_count), *const b = put(&p, p.b, p.b_count);
  void *const ieee = malloc((size_t)p.c_count * bytes(&p));
  memcpy(ieee, p.c, (size_t)p.c_count * bytes(&p));
  call(&p, a, b, ieee);
  expect_right(&p, ieee);
  if (tileblas_option_set("TILEBLAS_PRECISION", "fp32") != 0) return 2;
  void *const c = put(&p, p.c, p.c_count);
  call(&p, a, b, c); /* at once */
  if (!tst_cuda_read(TST_DEVICE, p.c, c, (size_t)p.c_count * bytes(&p))) return 3;
  expect_right(&p, p.c);
  if (memcmp(ieee, p.c, (size_t)p.c_count * bytes(&p)) == 0) return 4; /* other bits show that it was they */
  memcpy(p.c, p.before, (size_t)p.c_count * bytes(&p));
  call(&p, a, p.b, p.c); /* a panel that goes up, and is packed */
  expect_right(&p, p.c);
  /* Over a real link other kernels have computed this by the time that the panel is up. */
  if (tst_fake() != NULL && memcmp(ieee, p.c, (size_t)p.c_count * bytes(&p)) == 0) return 5;
  tst_cuda_free(TST_DEVICE, a), tst_cuda_free(TST_DEVICE, b), tst_cuda_free(TST_DEVICE, c);
  tst_cuda_end(0);
  free(ieee);
  destroy(&p);
  return 0;
}

static void tensor_cores(void **state) {
  (void)state;
  for (intptr_t i = 0; i < 9; i += TST_UNLESS_SANITIZED(1, 4)) {
    struct tst_output o;
    tst_fork(&o, on_tensor_cores, (void *)i);
    if (o.status != 0) fail_msg("case %d: status %d\n%s%s", (int)i, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_on_the_gpu),     cmocka_unit_test(failures),
      cmocka_unit_test(every_spelling),          cmocka_unit_test(several_tiles),
      cmocka_unit_test(the_same_bits_in_pieces),
  };
  const struct CMUnitTest of_tensor_cores[] = {cmocka_unit_test(tensor_cores)};
  return tst_result(argc > 1 ? cmocka_run_group_tests(of_tensor_cores, NULL, NULL)
                             : cmocka_run_group_tests(tests, NULL, NULL));
}
