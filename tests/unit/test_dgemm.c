/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Double precision from the exported functions to C: random calls of every spelling, layout and transpose, against sums
 * in long double; in one piece and cut for want of memory, which has the same bits; on the GPU's own memory, where a
 * kernel commits; and with a driver that fails.
 *
 * Seen to fail when: panels lie where those of floats would; the commit on the GPU is that of single precision; a
 * pointer to no partial sums is counted from (under UBSan); a product with less memory has the plan for more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

typedef void cblas_function(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t, const double *,
                            int64_t, double, double *, int64_t);
typedef void fortran_function(const char *, const char *, const void *, const void *, const void *, const double *,
                              const double *, const void *, const double *, const void *, const double *, double *,
                              const void *);

#define SPELLINGS(cblas, fortran)                                                                          \
  cblas(32, cblas_dgemm) cblas(32, scipy_cblas_dgemm) cblas(64, cblas_dgemm64_) cblas(64, cblas_dgemm_64)  \
      cblas(64, scipy_cblas_dgemm64_) fortran(32, dgemm_) fortran(32, scipy_dgemm_) fortran(64, dgemm_64_) \
          fortran(64, dgemm_64) fortran(64, scipy_dgemm_64_)
#define DECLARE_CBLAS(bits, name) extern cblas_function name;
#define DECLARE_FORTRAN(bits, name) extern fortran_function name;
SPELLINGS(DECLARE_CBLAS, DECLARE_FORTRAN)
#define ROW_CBLAS(bits, name) {#name, bits, name, NULL},
#define ROW_FORTRAN(bits, name) {#name, bits, NULL, name},
static const struct {
  const char *name;
  int bits;
  cblas_function *cblas;
  fortran_function *fortran;
} spellings[] = {SPELLINGS(ROW_CBLAS, ROW_FORTRAN)};
enum { COUNT = sizeof spellings / sizeof *spellings };

/* ---- one product ---- */

struct product {
  int spelling;
  bool row_major;
  char ta, tb;
  int64_t m, n, k, lda, ldb, ldc;
  double alpha, beta;
  double *a, *b, *c, *before; /* with a column of padding behind the last */
  int64_t a_count, b_count, c_count;
};

static double *numbers(int64_t count, uint64_t *rng) {
  double *x = malloc((size_t)count * sizeof *x);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) x[i] = ((double)tst_random_below(rng, 1 << 20) - (1 << 19)) * 0x1p-20;
  return x;
}

static bool stored_by_rows(const struct product *p, char trans) { return (trans != 'N') != p->row_major; }

static struct product random_product(int spelling, int64_t most, uint64_t *rng) {
  static const double scalars[] = {1, 0, -2.5, 0x1p-40, -0.0}; /* a zero of either sign reads nothing */
  struct product p = {.spelling = spelling,
                      .row_major = spellings[spelling].cblas != NULL && tst_random_below(rng, 2) == 1,
                      .ta = "NTC"[tst_random_below(rng, 3)],
                      .tb = "NTC"[tst_random_below(rng, 3)],
                      .m = 1 + tst_random_below(rng, most),
                      .n = 1 + tst_random_below(rng, most),
                      .k = 1 + tst_random_below(rng, most),
                      .alpha = scalars[tst_random_below(rng, 5)],
                      .beta = scalars[tst_random_below(rng, 5)]};
  const int64_t a_rows = stored_by_rows(&p, p.ta) ? p.k : p.m, a_columns = stored_by_rows(&p, p.ta) ? p.m : p.k;
  const int64_t b_rows = stored_by_rows(&p, p.tb) ? p.n : p.k, b_columns = stored_by_rows(&p, p.tb) ? p.k : p.n;
  const int64_t c_rows = p.row_major ? p.n : p.m, c_columns = p.row_major ? p.m : p.n;
  p.lda = a_rows + tst_random_below(rng, 4), p.ldb = b_rows + tst_random_below(rng, 4);
  p.ldc = c_rows + tst_random_below(rng, 4);
  p.a_count = p.lda * a_columns, p.b_count = p.ldb * b_columns, p.c_count = p.ldc * (c_columns + 1);
  p.a = numbers(p.a_count, rng), p.b = numbers(p.b_count, rng), p.c = numbers(p.c_count, rng);
  if (p.beta == 0)
    for (int64_t i = 0; i < p.c_count; i++) p.c[i] = NAN;
  p.before = malloc((size_t)p.c_count * sizeof *p.before);
  assert_non_null(p.before);
  memcpy(p.before, p.c, (size_t)p.c_count * sizeof *p.c);
  return p;
}

static void destroy(struct product *p) { free(p->a), free(p->b), free(p->c), free(p->before); }

static int cblas_of(char trans) { return trans == 'N' ? 111 : trans == 'T' ? 112 : 113; }

static void call(const struct product *p, const double *a, const double *b, double *c) {
  const int64_t s[6] = {p->m, p->n, p->k, p->lda, p->ldb, p->ldc};
  const int32_t n[6] = {(int32_t)s[0], (int32_t)s[1], (int32_t)s[2], (int32_t)s[3], (int32_t)s[4], (int32_t)s[5]};
  const void *at[6];
  for (int i = 0; i < 6; i++) at[i] = spellings[p->spelling].bits == 64 ? (const void *)&s[i] : (const void *)&n[i];
  if (spellings[p->spelling].cblas != NULL)
    spellings[p->spelling].cblas(p->row_major ? 101 : 102, cblas_of(p->ta), cblas_of(p->tb), s[0], s[1], s[2], p->alpha,
                                 a, s[3], b, s[4], p->beta, c, s[5]);
  else
    spellings[p->spelling].fortran(&p->ta, &p->tb, at[0], at[1], at[2], &p->alpha, a, at[3], b, at[4], &p->beta, c,
                                   at[5]);
}

static long double element(const struct product *p, int64_t i, int64_t j, long double *size) {
  long double sum = 0;
  *size = 0;
  for (int64_t l = 0; l < p->k; l++) {
    const long double x = p->a[stored_by_rows(p, p->ta) ? l + i * p->lda : i + l * p->lda];
    const long double y = p->b[stored_by_rows(p, p->tb) ? j + l * p->ldb : l + j * p->ldb];
    sum += x * y, *size += fabsl(x * y);
  }
  return sum;
}

/* Each element within the bound of one chain, and what is none of C as it was. */
static void expect_right(const struct product *p, const double *c) {
  const int64_t rows = p->row_major ? p->n : p->m, columns = p->row_major ? p->m : p->n;
  for (int64_t at = 0; at < p->c_count; at++) {
    const int64_t row = at % p->ldc, column = at / p->ldc;
    if (row >= rows || column >= columns) {
      if (memcmp(&c[at], &p->before[at], sizeof *c) != 0) fail_msg("%s wrote padding", spellings[p->spelling].name);
      continue;
    }
    long double size, want = element(p, p->row_major ? column : row, p->row_major ? row : column, &size);
    want = p->alpha * want + (p->beta == 0 ? 0 : (long double)p->beta * p->before[at]);
    size = fabsl(p->alpha * size) + (p->beta == 0 ? 0 : fabsl((long double)p->beta * p->before[at]));
    if (!(fabsl(c[at] - want) <= (long double)(p->k + 2) * 0x1p-53L * size))
      fail_msg("%s %c%c %d x %d x %d: (%d, %d) is %.17g, not %.17Lg", spellings[p->spelling].name, p->ta, p->tb,
               (int)p->m, (int)p->n, (int)p->k, (int)row, (int)column, c[at], want);
  }
}

static int64_t gpu_calls(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return (int64_t)stats.gpu_calls;
}

/* ---- tests ---- */

static void every_spelling(void **state) {
  (void)state;
  uint64_t rng = 1;
  int64_t forced = 0;
  const int64_t begun = gpu_calls();
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "gpu"), 0);
  for (int i = 0; i < 24 * COUNT; i++) {
    struct product p = random_product(i % COUNT, i < 20 * COUNT ? 40 : 170, &rng);
    call(&p, p.a, p.b, p.c);
    expect_right(&p, p.c);
    forced += p.alpha != 0;
    destroy(&p);
  }
  assert_int_equal(gpu_calls() - begun, forced);
}

/* Of a product that has its sizes. */
static void draw_numbers(struct product *p, uint64_t *rng) {
  p->a = numbers(p->a_count, rng), p->b = numbers(p->b_count, rng), p->c = numbers(p->c_count, rng);
  p->before = malloc((size_t)p->c_count * sizeof *p->before);
  assert_non_null(p->before);
  memcpy(p->before, p->c, (size_t)p->c_count * sizeof *p->c);
}

/* Several panels of each operand, and tiles of C, one behind the other in the arena. */
static void several_tiles(void **state) {
  (void)state;
  uint64_t rng = 5;
  for (int i = 0; i < 4; i++) {
    struct product p = random_product(i, 1, &rng);
    destroy(&p);
    p.ta = i & 1 ? 'T' : 'N', p.tb = i & 2 ? 'T' : 'N', p.row_major = false;
    p.m = 1100, p.n = 700, p.k = 20, p.alpha = 1.5, p.beta = i % 2;
    p.lda = p.ldb = p.ldc = 1103;
    p.a_count = p.lda * 1100, p.b_count = p.ldb * 1100, p.c_count = p.ldc * (p.n + 1);
    draw_numbers(&p, &rng);
    call(&p, p.a, p.b, p.c);
    expect_right(&p, p.c);
    destroy(&p);
  }
}

/* However little memory there is, the bits are those of a product in one piece. */
static void the_same_bits_in_pieces(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < 12; i++) {
    struct product p = random_product(i % COUNT, 300, &rng);
    double *whole = malloc((size_t)p.c_count * sizeof *whole);
    assert_non_null(whole);
    call(&p, p.a, p.b, p.c);
    memcpy(whole, p.c, (size_t)p.c_count * sizeof *whole);
    memcpy(p.c, p.before, (size_t)p.c_count * sizeof *p.c);
    assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "300K"), 0);
    call(&p, p.a, p.b, p.c);
    assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0"), 0);
    assert_memory_equal(whole, p.c, (size_t)p.c_count * sizeof *whole);
    expect_right(&p, p.c);
    free(whole);
    destroy(&p);
  }
}

static double *put(const double *x, int64_t count) {
  double *there = tst_cuda_allocate(TST_DEVICE, (size_t)count * sizeof *x);
  tst_cuda_write(TST_DEVICE, there, x, (size_t)count * sizeof *x);
  return there;
}

static int in_gpu_memory(void *unused) {
  (void)unused;
  uint64_t rng = 3;
  tst_cuda_begin(0);
  for (int i = 0; i < 40; i++) {
    struct product p = random_product(i % COUNT, 90, &rng);
    double *a = put(p.a, p.a_count), *b = put(p.b, p.b_count), *c = put(p.c, p.c_count);
    call(&p, a, b, c);
    if (!tst_cuda_read(TST_DEVICE, p.c, c, (size_t)p.c_count * sizeof *c)) return 1;
    expect_right(&p, p.c);
    tst_cuda_free(TST_DEVICE, a), tst_cuda_free(TST_DEVICE, b), tst_cuda_free(TST_DEVICE, c);
    destroy(&p);
  }
  tst_cuda_end(0);
  return gpu_calls() >= 40 ? 0 : 2;
}

/* The same product again with memory for none of its sums: it has another plan. */
static int with_less_memory(void *unused) {
  (void)unused;
  uint64_t rng = 6;
  signal(SIGSEGV, SIG_DFL); /* cmocka's goes on, with the driver's lock held */
  tst_cuda_begin(0);
  struct product p = {
      .ta = 'N', .tb = 'N', .m = 40, .n = 40, .k = 2000, .alpha = 1.5, .lda = 43, .ldb = 2003, .ldc = 43};
  p.a_count = p.lda * p.k, p.b_count = p.ldb * p.n, p.c_count = p.ldc * (p.n + 1);
  draw_numbers(&p, &rng);
  double *a = put(p.a, p.a_count), *b = put(p.b, p.b_count), *c = put(p.c, p.c_count);
  static const char *const limits[] = {"0", "8K", "0"};
  for (int i = 0; i < 3; i++) {
    tst_cuda_write(TST_DEVICE, c, p.before, (size_t)p.c_count * sizeof *c);
    if (tileblas_option_set("TILEBLAS_MEMORY_LIMIT", limits[i]) != 0) return 1;
    call(&p, a, b, c);
    if (!tst_cuda_read(TST_DEVICE, p.c, c, (size_t)p.c_count * sizeof *c)) return 2;
    expect_right(&p, p.c);
  }
  tst_cuda_free(TST_DEVICE, a), tst_cuda_free(TST_DEVICE, b), tst_cuda_free(TST_DEVICE, c);
  destroy(&p);
  tst_cuda_end(0);
  return gpu_calls() == 3 ? 0 : 3;
}

static void operands_on_the_gpu(void **state) {
  (void)state;
  static int (*const bodies[])(void *) = {in_gpu_memory, with_less_memory};
  for (int i = 0; i < 2; i++) {
    struct tst_output o;
    tst_fork(&o, bodies[i], NULL);
    if (o.status != 0) fail_msg("body %d: status %d\n%s%s", i, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

static const struct {
  const char *function;
  unsigned long nth;
} failing[] = {{"cuLaunchKernel", 1},       {"cuMemcpyHtoDAsync_v2", 2},  {"cuMemcpyDtoHAsync_v2", 1},
               {"cuMemcpyDtoHAsync_v2", 3}, {"cuModuleGetFunction", 150}, {"cuEventQuery", 4}};

static int with_failure(void *number) {
  const int i = (int)(intptr_t)number;
  uint64_t rng = (uint64_t)i + 4;
  struct product p = random_product(i % COUNT, 280, &rng);
  p.alpha = -1;
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

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_on_the_gpu),     cmocka_unit_test(failures),
      cmocka_unit_test(every_spelling),          cmocka_unit_test(several_tiles),
      cmocka_unit_test(the_same_bits_in_pieces),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
