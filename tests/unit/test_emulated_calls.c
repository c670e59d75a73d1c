/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TILEBLAS_PRECISION over whole calls: ieee gives the bits of kernels/common/sgemm_args.h's order, wherever the
 * operands lie and whatever the GPU is; fp32 takes the tensor cores for a product that is large enough for the GPU,
 * with every transpose, layout and beta, and is as good as a chain of fp32, also when the driver fails; a GPU without
 * such tensor cores computes as ieee does.
 *
 * The GPU is one with a pair of multiprocessors (FAKE_CUDA_SMS), for which a product that this machine computes in a
 * second is a large one. Each case is a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract_order.h"
#include "fake.h"
#include "placed.h"
#include "process.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

/* Launches of a product on the tensor cores. */
#define EMULATED_LAUNCHES 5

enum { M = 250, N = 380, K = 300, GROUP_K = 64 }; /* a group as src/select/order.c has it for that shape */

/* Does one call, all operands in memory of a kind, and verifies it; whole numbers to the bit. C, dense and column-major
 * if the call is, is to be freed; NULL if something is wrong. */
static float *compute(const char *precision, struct tst_problem p, enum tst_kind kind, enum tst_values values,
                      uint64_t *launches) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  struct tst_operands x;
  struct tst_expected e;
  struct tst_placed a, b, c;
  uint64_t rng = 7;
  tst_operands_create(&x, &p, values, &rng);
  tst_expect(&e, &p, &x);
  if (values == TST_INTEGERS) memset(e.bound, 0, sizeof *e.bound * (size_t)(p.m * p.n));
  tst_place(&a, &x.a, kind, 0), tst_place(&b, &x.b, kind, 1), tst_place(&c, &x.c, kind, 2);
  const uint64_t before = tst_fake()->get(FAKE_CUDA_LAUNCHES);
  bool right = tileblas_option_set("TILEBLAS_PRECISION", precision) == 0;
  tst_call(symbol, tst_resolve(symbol), &p, a.data, b.data, c.data);
  *launches = tst_fake()->get(FAKE_CUDA_LAUNCHES) - before;
  right &= tst_take_back(&a) & tst_take_back(&b) & tst_take_back(&c);
  const char *wrong = tst_verify(&p, &x, &e);
  if (wrong) right = false, printf("%s: %s: %s\n", precision, tst_describe(symbol, &p), wrong);
  float *result = malloc(sizeof *result * (size_t)(p.m * p.n));
  for (int64_t i = 0; result && i < p.m * p.n; i++)
    result[i] = p.row_major ? x.c.data[i / p.n * p.ldc + i % p.n] : x.c.data[i % p.m + i / p.m * p.ldc];
  tst_expected_destroy(&e);
  tst_operands_destroy(&x);
  if (!right) free(result);
  return right ? result : NULL;
}

/* The contract's bits for what compute() is given. */
static float *in_order(const struct tst_problem *p, enum tst_values values) {
  struct tst_operands x;
  uint64_t rng = 7;
  tst_operands_create(&x, p, values, &rng);
  float *d = malloc(sizeof *d * (size_t)(p->m * p->n));
  const struct tst_contract product = {false,    false,  p->m,   p->n, p->k,    p->alpha, x.a.data,
                                       x.b.data, p->lda, p->ldb, p->m, GROUP_K, true,     true};
  if (d) tst_contract_product(&product, d);
  tst_operands_destroy(&x);
  return d;
}

static struct tst_problem problem(int variant, float beta) {
  struct tst_problem p = tst_variant(variant, M, N, K, -0.7f, beta);
  tst_set_leading(&p, variant % 4);
  return p;
}

static bool same(const float *x, const float *y) { return x && y && memcmp(x, y, sizeof *x * M * N) == 0; }

static bool begin(void) {
  tst_cuda_begin(0);
  return tileblas_option_set("TILEBLAS_ROUTE", "gpu") == 0;
}

static bool clean(void) {
  tst_cuda_end(0);
  tileblas_stats s;
  tileblas_stats_get(&s);
  return s.gpu_calls > 0 && s.gpu_failures == 0 && tst_fake()->get(FAKE_CUDA_MISUSES) == 0;
}

/* ---- the cases ---- */

static int ieee_is_the_order(void *nothing) {
  (void)nothing;
  bool right = begin();
  const struct tst_problem p = problem(0, 0);
  float *const want = in_order(&p, TST_SIGNED);
  for (int kind = 0; kind < TST_KINDS; kind++) {
    uint64_t launches;
    float *got = compute("ieee", p, (enum tst_kind)kind, TST_SIGNED, &launches);
    if (!same(got, want)) right = false, printf("operands of kind %d: other bits than the contract's\n", kind);
    free(got);
  }
  free(want);
  return right && clean() ? 0 : 1;
}

/* Other bits than ieee's show that it was the tensor cores, and so do the launches. */
static int fp32_takes_the_tensor_cores(void *precision) {
  bool right = begin();
  uint64_t launches;
  const struct tst_problem p = problem(0, 0);
  float *const want = in_order(&p, TST_SIGNED);
  float *const got = compute(precision, p, TST_DEVICE, TST_SIGNED, &launches);
  float *const again = compute(precision, p, TST_DEVICE, TST_SIGNED, &launches);
  right &= launches == EMULATED_LAUNCHES && got && !same(got, want) && same(got, again);
  free(want), free(got), free(again);
  return right && clean() ? 0 : 1;
}

static int whole_numbers(void *precision) {
  bool right = begin();
  for (int variant = 0; variant < 18; variant += 5) {
    const float beta = variant % 2 ? 2.5f : 0;
    struct tst_problem p = problem(variant, beta);
    p.alpha = -2;
    uint64_t launches;
    float *c = compute(precision, p, TST_DEVICE, TST_INTEGERS, &launches);
    right &= c && launches == EMULATED_LAUNCHES + (beta != 0);
    free(c);
  }
  return right && clean() ? 0 : 1;
}

static int specials(void *precision) {
  bool right = begin();
  uint64_t launches;
  float *c = compute(precision, problem(3, 1), TST_DEVICE, TST_SPECIAL, &launches);
  right &= c && launches == EMULATED_LAUNCHES + 1;
  free(c);
  return right && clean() ? 0 : 1;
}

/* A product that is small for the GPU has the same bits whatever the precision. */
static int small_products_are_ieee(void *nothing) {
  (void)nothing;
  bool right = begin();
  const struct tst_problem p = tst_variant(0, 40, 50, 60, 1, 0);
  uint64_t launches;
  float *const ieee = compute("ieee", p, TST_DEVICE, TST_SIGNED, &launches);
  float *const fp32 = compute("fp32", p, TST_DEVICE, TST_SIGNED, &launches);
  right &= ieee && fp32 && memcmp(ieee, fp32, sizeof *ieee * (size_t)(p.m * p.n)) == 0;
  free(ieee), free(fp32);
  return right && clean() ? 0 : 1;
}

static int another_gpu(void *capability) {
  setenv("FAKE_CUDA_CC", capability, 1);
  bool right = begin();
  uint64_t launches;
  const struct tst_problem p = problem(0, 0);
  float *const want = in_order(&p, TST_SIGNED), *const got = compute("fp32", p, TST_DEVICE, TST_SIGNED, &launches);
  right &= same(got, want);
  free(want), free(got);
  return right && clean() ? 0 : 1;
}

struct failure {
  const char *function;
  unsigned long nth;
};

/* One call to the driver fails, and the CPU has the answer. */
static int driver_fails(void *failure) {
  const struct failure *f = failure;
  bool right = begin();
  struct tst_problem p = problem(1, 2);
  p.alpha = -2;
  uint64_t launches;
  right &= tst_fake()->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, 0) == 0;
  float *c = compute("fp32", p, TST_DEVICE, TST_INTEGERS, &launches);
  right &= c && tst_fake()->get(FAKE_CUDA_FAILURES) == 1;
  free(c);
  tst_cuda_end(0);
  return right && tst_fake()->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

static void expect(size_t warnings, int (*body)(void *), void *argument) {
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') TST_LEAVE_OUT("a real GPU has more multiprocessors");
  struct tst_output o;
  setenv("FAKE_CUDA_SMS", "2", 1);
  tst_fork(&o, body, argument);
  const bool well = o.status == 0 && tst_count_lines(o.err, "tileblas: warning: ") == warnings &&
                    tst_count_lines(o.err, "\n") == warnings;
  if (!well) print_error("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
  assert_true(well);
}

static void a_driver_that_fails(void **state) {
  (void)state;
  static struct failure failures[] = {
      {"cuTensorMapEncodeTiled", 1}, {"cuTensorMapEncodeTiled", 2}, {"cuLaunchKernelEx", 1}, {"cuLaunchKernelEx", 2},
      {"cuLaunchKernelEx", 3},       {"cuLaunchKernelEx", 4},       {"cuLaunchKernelEx", 5}};
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) expect(1, driver_fails, &failures[i]);
}

#define CASE(name, body, argument)       \
  static void name(void **state) {       \
    (void)state;                         \
    expect(0, body, (void *)(argument)); \
  }
CASE(ieee, ieee_is_the_order, NULL)
CASE(fp32, fp32_takes_the_tensor_cores, "fp32")
CASE(fast, fp32_takes_the_tensor_cores, "fast")
CASE(whole_numbers_in_fp32, whole_numbers, "fp32")
CASE(specials_in_fp32, specials, "fp32")
CASE(specials_in_fast, specials, "fast")
CASE(small_products, small_products_are_ieee, NULL)
CASE(an_older_gpu, another_gpu, "8.0")
CASE(a_newer_gpu, another_gpu, "10.0")

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ieee),
      cmocka_unit_test(fp32),
      cmocka_unit_test(fast),
      cmocka_unit_test(whole_numbers_in_fp32),
      cmocka_unit_test(specials_in_fp32),
      cmocka_unit_test(specials_in_fast),
      cmocka_unit_test(a_driver_that_fails),
      cmocka_unit_test(small_products),
      cmocka_unit_test(an_older_gpu),
      cmocka_unit_test(a_newer_gpu),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
