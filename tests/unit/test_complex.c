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
 * as the one that it is made of; alpha multiplies twice; a slice of a panel is made real where the first one lies; a
 * beta of 1 multiplies C's infinities by its imaginary part, on the host or on the GPU.
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

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

typedef void cblas_function(int, int, int, int64_t, int64_t, int64_t, const void *, const void *, int64_t, const void *,
                            int64_t, const void *, void *, int64_t);
typedef void fortran_function(const char *, const char *, const void *, const void *, const void *, const void *,
                              const void *, const void *, const void *, const void *, const void *, void *,
                              const void *);

#define SPELLINGS_OF(x, routine, cblas, fortran)                                                             \
  cblas(x, 32, cblas_##routine) cblas(x, 32, scipy_cblas_##routine) cblas(x, 64, cblas_##routine##64_)       \
      cblas(x, 64, cblas_##routine##_64) cblas(x, 64, scipy_cblas_##routine##64_) fortran(x, 32, routine##_) \
          fortran(x, 32, scipy_##routine##_) fortran(x, 64, routine##_64_) fortran(x, 64, routine##_64)      \
              fortran(x, 64, scipy_##routine##_64_)
#define SPELLINGS(x, cblas, fortran) SPELLINGS_OF(x, x##gemm, cblas, fortran) SPELLINGS_OF(x, x##gemm3m, cblas, fortran)
#define DECLARE_CBLAS(x, bits, name) extern cblas_function name;
#define DECLARE_FORTRAN(x, bits, name) extern fortran_function name;
SPELLINGS(c, DECLARE_CBLAS, DECLARE_FORTRAN)
SPELLINGS(z, DECLARE_CBLAS, DECLARE_FORTRAN)
#define ROW_CBLAS(x, bits, name) {#name, #x[0] == 'z', bits, name, NULL},
#define ROW_FORTRAN(x, bits, name) {#name, #x[0] == 'z', bits, NULL, name},
static const struct {
  const char *name;
  bool doubles;
  int bits;
  cblas_function *cblas;
  fortran_function *fortran;
} spellings[] = {SPELLINGS(c, ROW_CBLAS, ROW_FORTRAN) SPELLINGS(z, ROW_CBLAS, ROW_FORTRAN)};
enum { COUNT = sizeof spellings / sizeof *spellings, C_CBLAS = 0, Z_CBLAS = COUNT / 2 };

/* ---- one product ---- */

struct pair {
  long double re, im;
};

static struct pair times(struct pair x, struct pair y) {
  return (struct pair){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
static long double size_of(struct pair x) { return fabsl(x.re) + fabsl(x.im); }

struct product {
  int spelling;
  bool row_major, whole; /* whole: small whole numbers, of which every sum is exact */
  char ta, tb;
  int64_t m, n, k, lda, ldb, ldc;
  struct pair alpha, beta;
  void *a, *b, *c, *before; /* C with a column of padding behind the last */
  int64_t a_count, b_count, c_count;
};

static bool doubles(const struct product *p) { return spellings[p->spelling].doubles; }
static size_t bytes(const struct product *p) { return doubles(p) ? 2 * sizeof(double) : 2 * sizeof(float); }

static void put_element(bool is_double, void *x, int64_t i, struct pair value) {
  if (is_double)
    ((double *)x)[2 * i] = (double)value.re, ((double *)x)[2 * i + 1] = (double)value.im;
  else
    ((float *)x)[2 * i] = (float)value.re, ((float *)x)[2 * i + 1] = (float)value.im;
}

static struct pair element(bool is_double, const void *x, int64_t i) {
  if (is_double) return (struct pair){((const double *)x)[2 * i], ((const double *)x)[2 * i + 1]};
  return (struct pair){((const float *)x)[2 * i], ((const float *)x)[2 * i + 1]};
}

static long double number(bool whole, uint64_t *rng) {
  if (whole) return (long double)tst_random_below(rng, 9) - 4;
  return ((long double)tst_random_below(rng, 1 << 20) - (1 << 19)) * 0x1p-20L;
}

static void *numbers(const struct product *p, int64_t count, uint64_t *rng) {
  void *x = malloc((size_t)count * bytes(p));
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) {
    const long double re = number(p->whole, rng);
    put_element(doubles(p), x, i, (struct pair){re, number(p->whole, rng)});
  }
  return x;
}

static bool stored_by_rows(const struct product *p, char trans) { return (trans != 'N') != p->row_major; }

/* Operands of p's sizes, whose columns are so much longer than need be. */
static void fill(struct product *p, int64_t longer, uint64_t *rng) {
  const int64_t a_rows = stored_by_rows(p, p->ta) ? p->k : p->m, a_columns = stored_by_rows(p, p->ta) ? p->m : p->k;
  const int64_t b_rows = stored_by_rows(p, p->tb) ? p->n : p->k, b_columns = stored_by_rows(p, p->tb) ? p->k : p->n;
  const int64_t c_rows = p->row_major ? p->n : p->m, c_columns = p->row_major ? p->m : p->n;
  p->lda = a_rows + longer, p->ldb = b_rows + longer / 2, p->ldc = c_rows + longer;
  p->a_count = p->lda * a_columns, p->b_count = p->ldb * b_columns, p->c_count = p->ldc * (c_columns + 1);
  p->a = numbers(p, p->a_count, rng), p->b = numbers(p, p->b_count, rng), p->c = numbers(p, p->c_count, rng);
  if (p->beta.re == 0 && p->beta.im == 0)
    for (int64_t i = 0; i < p->c_count; i++) put_element(doubles(p), p->c, i, (struct pair){NAN, INFINITY});
  p->before = malloc((size_t)p->c_count * bytes(p));
  assert_non_null(p->before);
  memcpy(p->before, p->c, (size_t)p->c_count * bytes(p));
}

static struct product random_product(int spelling, int64_t most, uint64_t *rng) {
  static const struct pair scalars[] = {{1, 0}, {0, 0}, {-2, 0}, {0, 1}, {3, -2}};
  struct product p = {.spelling = spelling,
                      .row_major = spellings[spelling].cblas != NULL && tst_random_below(rng, 2) == 1,
                      .whole = tst_random_below(rng, 2) == 1,
                      .ta = "NTC"[tst_random_below(rng, 3)],
                      .tb = "NTC"[tst_random_below(rng, 3)],
                      .m = 1 + tst_random_below(rng, most),
                      .n = 1 + tst_random_below(rng, most),
                      .k = 1 + tst_random_below(rng, most),
                      .alpha = scalars[tst_random_below(rng, 5)],
                      .beta = scalars[tst_random_below(rng, 5)]};
  fill(&p, tst_random_below(rng, 4), rng);
  return p;
}

static void destroy(struct product *p) { free(p->a), free(p->b), free(p->c), free(p->before); }

static int cblas_of(char trans) { return trans == 'N' ? 111 : trans == 'T' ? 112 : 113; }

static void call(const struct product *p, const void *a, const void *b, void *c) {
  const int64_t s[6] = {p->m, p->n, p->k, p->lda, p->ldb, p->ldc};
  const int32_t n[6] = {(int32_t)s[0], (int32_t)s[1], (int32_t)s[2], (int32_t)s[3], (int32_t)s[4], (int32_t)s[5]};
  const void *at[6];
  double alpha[2], beta[2];
  put_element(doubles(p), alpha, 0, p->alpha), put_element(doubles(p), beta, 0, p->beta);
  for (int i = 0; i < 6; i++) at[i] = spellings[p->spelling].bits == 64 ? (const void *)&s[i] : (const void *)&n[i];
  if (spellings[p->spelling].cblas != NULL)
    spellings[p->spelling].cblas(p->row_major ? 101 : 102, cblas_of(p->ta), cblas_of(p->tb), s[0], s[1], s[2], alpha, a,
                                 s[3], b, s[4], beta, c, s[5]);
  else
    spellings[p->spelling].fortran(&p->ta, &p->tb, at[0], at[1], at[2], alpha, a, at[3], b, at[4], beta, c, at[5]);
}

static struct pair stored(const struct product *p, const void *x, char trans, int64_t row, int64_t column, int64_t ld) {
  struct pair e = element(doubles(p), x, stored_by_rows(p, trans) ? column + row * ld : row + column * ld);
  if (trans == 'C') e.im = -e.im;
  return e;
}

/* Element (i, j) of the result; *size: of all that is added, by absolute values. */
static struct pair expected(const struct product *p, int64_t i, int64_t j, int64_t at, long double *size) {
  struct pair sum = {0, 0};
  *size = 0;
  for (int64_t l = 0; l < p->k; l++) {
    const struct pair x = stored(p, p->a, p->ta, i, l, p->lda), y = stored(p, p->b, p->tb, l, j, p->ldb);
    const struct pair xy = times(x, y);
    sum.re += xy.re, sum.im += xy.im, *size += size_of(x) * size_of(y);
  }
  sum = times(p->alpha, sum), *size *= size_of(p->alpha);
  if (size_of(p->beta) == 0) return sum;
  const struct pair c = element(doubles(p), p->before, at), kept = times(p->beta, c);
  *size += size_of(p->beta) * size_of(c);
  return (struct pair){sum.re + kept.re, sum.im + kept.im};
}

/* Each element within the bound of one chain, or exact; and what is none of C as it was. */
static void expect_right(const struct product *p, const void *c) {
  const int64_t rows = p->row_major ? p->n : p->m, columns = p->row_major ? p->m : p->n;
  const long double unit = doubles(p) ? 0x1p-53L : 0x1p-24L;
  for (int64_t at = 0; at < p->c_count; at++) {
    const int64_t row = at % p->ldc, column = at / p->ldc;
    if (row >= rows || column >= columns) {
      if (memcmp((const char *)c + at * bytes(p), (const char *)p->before + at * bytes(p), bytes(p)) != 0)
        fail_msg("%s wrote padding", spellings[p->spelling].name);
      continue;
    }
    long double size;
    const struct pair got = element(doubles(p), c, at);
    const struct pair want = expected(p, p->row_major ? column : row, p->row_major ? row : column, at, &size);
    const long double most = p->whole ? 0 : (long double)(2 * p->k + 8) * unit * size;
    if (!(fabsl(got.re - want.re) <= most && fabsl(got.im - want.im) <= most))
      fail_msg("%s %c%c %d x %d x %d alpha %Lg %+Lgi beta %Lg %+Lgi: (%d, %d) is %.9Lg %+.9Lgi, not %.9Lg %+.9Lgi",
               spellings[p->spelling].name, p->ta, p->tb, (int)p->m, (int)p->n, (int)p->k, p->alpha.re, p->alpha.im,
               p->beta.re, p->beta.im, (int)row, (int)column, got.re, got.im, want.re, want.im);
  }
}

static int64_t gpu_calls(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return (int64_t)stats.gpu_calls;
}

static void set(const char *option, const char *value) { assert_int_equal(tileblas_option_set(option, value), 0); }

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
    forced += size_of(p.alpha) != 0;
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

/* 1 times a number is that number: what lies beside an infinity in C stays. */
static bool keeps_infinity(int spelling, bool on_gpu) {
  uint64_t rng = 9;
  struct product p = {.spelling = spelling, .whole = true, .ta = 'N', .tb = 'T', .m = 20, .n = 17, .k = 33};
  const int64_t at = 5; /* in the first column */
  long double size;
  p.alpha.re = p.beta.re = 1;
  fill(&p, 2, &rng);
  const struct pair want = expected(&p, at, 0, at, &size);
  put_element(doubles(&p), p.c, at, (struct pair){element(doubles(&p), p.before, at).re, INFINITY});
  void *const c = on_gpu ? put(&p, p.c, p.c_count) : p.c;
  call(&p, p.a, p.b, c);
  const bool read = !on_gpu || tst_cuda_read(TST_DEVICE, p.c, c, (size_t)p.c_count * bytes(&p));
  if (on_gpu) tst_cuda_free(TST_DEVICE, c);
  const struct pair got = element(doubles(&p), p.c, at);
  destroy(&p);
  return read && got.re == want.re && isinf(got.im);
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
  if (!keeps_infinity(C_CBLAS, true) || !keeps_infinity(Z_CBLAS, true)) return 4;
  tst_cuda_end(0);
  return gpu_calls() >= 56 ? 0 : 2;
}

static void operands_on_the_gpu(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, in_gpu_memory, NULL);
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
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
  p.alpha = (struct pair){-1, 2};
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
  for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
    struct tst_output o;
    tst_fork(&o, with_failure, (void *)i);
    if (o.status != 0) fail_msg("%s: status %d\n%s%s", failing[i].function, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

/* Infinities and NaNs come through where they are read, and from nowhere else. */
static void not_numbers(void **state) {
  (void)state;
  uint64_t rng = 8;
  for (int i = 0; i < 4; i++) {
    struct product p = {.spelling = i % 2 ? C_CBLAS : Z_CBLAS, .ta = i < 2 ? 'N' : 'C', .tb = i < 2 ? 'T' : 'N'};
    p.m = 20, p.n = 17, p.k = 33, p.alpha.re = 1;
    fill(&p, 2, &rng);
    const bool by_rows = stored_by_rows(&p, p.ta);
    put_element(doubles(&p), p.a, by_rows ? 5 + 7 * p.lda : 7 + 5 * p.lda, (struct pair){NAN, 1}); /* of row 7 */
    call(&p, p.a, p.b, p.c);
    for (int64_t j = 0; j < p.n; j++)
      for (int64_t row = 0; row < p.m; row++) {
        const struct pair got = element(doubles(&p), p.c, row + j * p.ldc);
        assert_int_equal(isnan(got.re) && isnan(got.im), row == 7);
      }
    destroy(&p);
  }
  assert_true(keeps_infinity(C_CBLAS, false) && keeps_infinity(Z_CBLAS, false));
}

/* ---- on the tensor cores ---- */

static int on_tensor_cores(void *number) {
  const int i = (int)(intptr_t)number;
  uint64_t rng = (uint64_t)i + 20;
  struct product p = {.spelling = C_CBLAS, .ta = "NTC"[i % 3], .tb = "NCT"[i / 3], .m = 130, .n = 390, .k = 160};
  p.alpha = i % 2 ? (struct pair){-0.5, 2} : (struct pair){1, 0},
  p.beta = i < 5 ? (struct pair){0, 0} : (struct pair){0, 3};
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
  if (memcmp(ieee, p.c, (size_t)p.c_count * bytes(&p)) == 0) return 5;
  tst_cuda_free(TST_DEVICE, a), tst_cuda_free(TST_DEVICE, b), tst_cuda_free(TST_DEVICE, c);
  tst_cuda_end(0);
  free(ieee);
  destroy(&p);
  return 0;
}

static void tensor_cores(void **state) {
  (void)state;
  for (intptr_t i = 0; i < 9; i++) {
    struct tst_output o;
    tst_fork(&o, on_tensor_cores, (void *)i);
    if (o.status != 0) fail_msg("case %d: status %d\n%s%s", (int)i, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_on_the_gpu), cmocka_unit_test(failures),    cmocka_unit_test(every_spelling),
      cmocka_unit_test(several_tiles),       cmocka_unit_test(not_numbers), cmocka_unit_test(the_same_bits_in_pieces),
  };
  const struct CMUnitTest of_tensor_cores[] = {cmocka_unit_test(tensor_cores)};
  return argc > 1 ? cmocka_run_group_tests(of_tensor_cores, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
