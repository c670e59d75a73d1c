/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strmm and ctrmm as one product on the tensor cores, from the exported functions, on a GPU so small that products of
 * these sizes are for it: every side, triangle, transpose and diagonal in several groups of k, with whole numbers,
 * which are exact, and others, within a chain's bound row by row; numbers that fp16 planes, or no planes, have room
 * for; Inf and NaN; alpha; blocks of B; little memory, where a call is computed by halves; and on the GPU's memory,
 * where A is read as it is stored, with the bits of an A that is brought into form.
 *
 * Seen to fail when: a tile's k ends early; a corner is left out, added twice where FMAs have computed its tile, or
 * begins in another row; what is not finite meets a zero; a call by halves is taken for one product; of an A that lies
 * on the GPU the other triangle is read, a unit diagonal, or rows for columns; B is written before all is computed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

extern void cblas_strmm(int layout, int side, int uplo, int trans, int diag, int m, int n, float alpha, const float *a,
                        int lda, float *b, int ldb);
extern void cblas_ctrmm(int layout, int side, int uplo, int trans, int diag, int m, int n, const void *alpha,
                        const void *a, int lda, void *b, int ldb);

/* ---- a call ---- */

struct call {
  int parts; /* of an element */
  bool right, lower, unit;
  char trans;
  int order, sides, lda;
  float alpha[2];
  float *a, *b, *before;
};

static int ld_of(const struct call *c) { return (c->right ? c->sides : c->order) + 3; }
static int columns_of(const struct call *c) { return c->right ? c->order : c->sides; }
static size_t words_of(const struct call *c) { return (size_t)c->parts * (size_t)ld_of(c) * (size_t)columns_of(c); }

static float *floats(size_t count) {
  float *const all = malloc(count * sizeof *all);
  assert_non_null(all);
  for (size_t i = 0; i < count; i++) all[i] = NAN;
  return all;
}

/* B's element of side j, row k as op(A) on the left sees it. */
static float *b_at(const struct call *c, float *b, int k, int j) {
  const int64_t ld = ld_of(c);
  return b + c->parts * (c->right ? j + k * ld : k + j * ld);
}

typedef float value(uint64_t *rng, bool of_b, int64_t side, int64_t k);

/* A real GPU has so many SMs that products for them are larger. */
static int by_gpu(int fake, int real) { return tst_fake() != NULL ? fake : real; }
static int an_order(int number) {
  static const int fake[] = {1100, 300, 1290, 1030}, real[] = {2200, 1300, 3100, 2078};
  return by_gpu(fake[number % 4], real[number % 4]);
}
static int some_sides(void) { return by_gpu(180, 720); }

/* By the bits of `variant`: side, triangle, transpose, diagonal, type; the transpose of complex ones conjugates. */
static void create(struct call *c, int variant, int order, int sides, value *draw) {
  uint64_t rng = 1 + (uint64_t)variant;
  *c = (struct call){.right = variant & 1,
                     .lower = variant & 2,
                     .trans = "NTNC"[variant >> 2 & 1 ? 1 + 2 * (variant >> 4 & 1) : 0],
                     .unit = variant & 8,
                     .parts = 1 + (variant >> 4 & 1),
                     .order = order,
                     .sides = sides,
                     .lda = variant % 3 ? order + 5 : (order + 8) / 4 * 4,
                     .alpha = {1, 0}};
  const int64_t ld = c->lda;
  c->a = floats((size_t)c->parts * (size_t)ld * (size_t)order);
  c->b = floats(words_of(c)), c->before = floats(words_of(c));
  for (int64_t j = 0; j < order; j++)
    for (int64_t i = 0; i < order; i++)
      for (int p = 0; p < c->parts; p++)
        if ((c->lower ? i > j : i < j) || (i == j && !c->unit))
          c->a[c->parts * (i + j * ld) + p] = draw(&rng, false, i, j);
  for (int j = 0; j < sides; j++)
    for (int k = 0; k < order; k++)
      for (int p = 0; p < c->parts; p++) b_at(c, c->b, k, j)[p] = draw(&rng, true, j, k);
  memcpy(c->before, c->b, words_of(c) * sizeof *c->b);
}

static void destroy(struct call *c) { free(c->a), free(c->b), free(c->before); }

static void make(struct call *c) {
  const int m = c->right ? c->sides : c->order, n = c->right ? c->order : c->sides;
  const int side = c->right ? 142 : 141, uplo = c->lower ? 122 : 121, diag = c->unit ? 132 : 131;
  const int trans = c->trans == 'N' ? 111 : c->trans == 'T' ? 112 : 113;
  if (c->parts == 1)
    cblas_strmm(102, side, uplo, trans, diag, m, n, c->alpha[0], c->a, c->lda, c->b, ld_of(c));
  else
    cblas_ctrmm(102, side, uplo, trans, diag, m, n, c->alpha, c->a, c->lda, c->b, ld_of(c));
}

/* ---- what it must be ---- */

/* A' of A' B, as it is seen from the left: element (i, k), and whether it is one of the triangle's. */
static bool lower_of(const struct call *c) { return (c->lower != (c->trans != 'N')) != c->right; }
static bool has(const struct call *c, int i, int k) { return lower_of(c) ? k <= i : k >= i; }
static void element_of_a(const struct call *c, int i, int k, double z[2]) {
  const bool turned = (c->trans != 'N') != c->right;
  const int64_t ld = c->lda;
  const float *const at = c->a + c->parts * (turned ? k + i * ld : i + k * ld);
  z[0] = i == k && c->unit ? 1 : (double)at[0];
  z[1] = c->parts == 1 || (i == k && c->unit) ? 0 : (double)at[1] * (c->trans == 'C' ? -1 : 1);
}

/* A row of A', from `first` to `end` of k. */
struct row {
  double *z;
  int first, end;
};
static void read_row(const struct call *c, int i, struct row *row) {
  row->first = lower_of(c) ? 0 : i, row->end = lower_of(c) ? i + 1 : c->order;
  for (int k = row->first; k < row->end; k++) element_of_a(c, i, k, row->z + 2 * k);
}

/* Of one part, the value and the size of its terms. */
struct sum {
  double value, size;
};
static void add_term(struct sum *sum, double x, double y) { sum->value += x * y, sum->size += fabs(x * y); }

static void sum_of(const struct call *c, const struct row *row, int j, struct sum sum[2]) {
  const int64_t step = c->parts * (c->right ? ld_of(c) : 1);
  const float *b = b_at(c, c->before, 0, j);
  sum[0] = sum[1] = (struct sum){0, 0};
  for (int k = row->first; k < row->end; k++) {
    const double *const z = row->z + 2 * k;
    const float *const x = b + k * step;
    add_term(&sum[0], z[0], (double)x[0]);
    if (c->parts == 1) continue;
    add_term(&sum[0], -z[1], (double)x[1]);
    add_term(&sum[1], z[0], (double)x[1]);
    add_term(&sum[1], z[1], (double)x[0]);
  }
}

/* Within so many units of the size of an element's own terms for each of them. */
static void expect_right(const struct call *c, double units) {
  struct row row = {.z = malloc(2 * (size_t)c->order * sizeof(double))};
  assert_non_null(row.z);
  for (int i = 0; i < c->order; i++) {
    read_row(c, i, &row);
    for (int j = i % by_gpu(3, 5); j < c->sides; j += by_gpu(3, 5)) { /* of so many all would take minutes */
      struct sum sum[2];
      sum_of(c, &row, j, sum);
      const double bound = units * (c->parts * (row.end - row.first) + 3) * 0x1p-24 * fabs((double)c->alpha[0]);
      for (int p = 0; p < c->parts; p++) {
        const double got = (double)b_at(c, c->b, i, j)[p], want = (double)c->alpha[0] * sum[p].value;
        if (!(fabs(got - want) <= bound * sum[p].size))
          fail_msg("%d parts, order %d, %c%c%c%c: (%d, %d) is %.9g, not %.9g", c->parts, c->order, "LR"[c->right],
                   "UL"[c->lower], c -> trans, "NU"[c->unit], i, j, got, want);
      }
    }
  }
  free(row.z);
  for (int64_t at = 0; at < columns_of(c); at++) /* padding */
    assert_memory_equal(c->b + c->parts * (ld_of(c) - 3 + at * ld_of(c)),
                        c->before + c->parts * (ld_of(c) - 3 + at * ld_of(c)), 12 * (size_t)c->parts);
}

/* Launches of one product: panels brought into form, packing, and what a block has; by halves there are many more. */
static uint64_t launches(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_LAUNCHES); }
enum { MOST_LAUNCHES = 24 };

static void make_in_blocks(struct call *c, uint64_t most) {
  const uint64_t before = launches();
  make(c);
  if (tst_fake() != NULL) assert_in_range(launches() - before, 10, most);
}

static void make_as_one(struct call *c) { make_in_blocks(c, MOST_LAUNCHES); }

/* ---- variants ---- */

static float whole(uint64_t *rng, bool of_b, int64_t side, int64_t k) {
  (void)of_b, (void)side, (void)k;
  return (float)(tst_random_below(rng, 17) - 8);
}
static float ordinary(uint64_t *rng, bool of_b, int64_t side, int64_t k) {
  (void)of_b, (void)side, (void)k;
  return (float)(tst_random_below(rng, 1 << 24) - (1 << 23)) * 0x1p-23f;
}

static void every_variant(void **state) {
  (void)state;
  for (int variant = 0; variant < 32; variant += TST_UNLESS_SANITIZED(1, 7)) {
    struct call c;
    create(&c, variant, an_order(variant) >> (variant >> 4 & 1), some_sides() + variant % 3 * 10, whole);
    if (variant % 3 == 1) c.alpha[0] = -0.5f;
    make_as_one(&c);
    expect_right(&c, 0);
    destroy(&c);
    if (variant % 2) continue;
    create(&c, variant, an_order(variant + 1) >> (variant >> 4 & 1), some_sides(), ordinary);
    make_as_one(&c);
    expect_right(&c, 1);
    destroy(&c);
  }
}

/* ---- numbers ---- */

/* For bf16 planes, or for none: a column of B, or a row of A, is far from what fp16 has room for. */
static float wide(uint64_t *rng, bool of_b, int64_t side, int64_t k) {
  const int exponent = of_b == (k % 2 != 0) ? 0 : (int)tst_random_below(rng, 60);
  return ldexpf(ordinary(rng, of_b, side, k), side % 7 == 3 ? -exponent : 0);
}
static float wider(uint64_t *rng, bool of_b, int64_t side, int64_t k) {
  return ldexpf(ordinary(rng, of_b, side, k), of_b && side == 9 ? -(int)tst_random_below(rng, 120) : 0);
}

static void numbers_far_apart(void **state) {
  (void)state;
  for (int variant = 0; variant < 32; variant += TST_UNLESS_SANITIZED(5, 7)) {
    struct call c;
    create(&c, variant, an_order(variant) >> (variant >> 4 & 1), some_sides(), variant % 2 ? wide : wider);
    make_as_one(&c);
    expect_right(&c, 1);
    destroy(&c);
  }
}

/* In every corner of what there is, and beside groups' and tiles' edges: only rows that have it are reached. */
static void what_is_not_finite(void **state) {
  (void)state;
  const int order = an_order(0), at[] = {0, 1, 127, 128, 300, 1023, 1024, order - 1};
  for (int i = 0; i < 32; i += TST_UNLESS_SANITIZED(3, 7)) {
    struct call c;
    create(&c, i, i >> 4 ? order / 2 : order, some_sides(), ordinary);
    const int row = i >> 4 ? at[i % 8] / 2 : at[i % 8], line = 7;
    b_at(&c, c.b, row, line)[0] = i % 2 ? INFINITY : NAN;
    memcpy(c.before, c.b, words_of(&c) * sizeof *c.b);
    make_as_one(&c);
    for (int r = 0; r < c.order; r++) {
      if (isfinite(b_at(&c, c.b, r, line)[0]) == has(&c, r, row))
        fail_msg("variant %d, row %d: (%d) is %g", i, row, r, (double)b_at(&c, c.b, r, line)[0]);
      if (!has(&c, r, row)) continue;
      for (int p = 0; p < c.parts; p++) b_at(&c, c.b, r, line)[p] = 0; /* seen */
    }
    b_at(&c, c.before, row, line)[0] = 0;
    /* Rows that are reached are judged no more. */
    struct row of = {.z = malloc(2 * (size_t)c.order * sizeof(double))};
    assert_non_null(of.z);
    for (int r = 0; r < c.order; r++)
      for (int j = line - 1; j <= line + 1; j++) {
        struct sum sum[2];
        read_row(&c, r, &of);
        sum_of(&c, &of, j, sum);
        for (int p = 0; p < c.parts && !(j == line && has(&c, r, row)); p++) {
          const double bound = (c.parts * c.order + 3) * 0x1p-24 * sum[p].size;
          assert_true(fabs((double)b_at(&c, c.b, r, j)[p] - sum[p].value) <= bound);
        }
      }
    free(of.z);
    destroy(&c);
  }
}

/* alpha = 0 and NaN: as the reference, B becomes 0, or NaN. */
static void any_alpha(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct call c;
    create(&c, i % 2 ? 17 : 2, i % 2 ? 300 : 600, 200, whole);
    c.alpha[0] = i / 2 ? NAN : 3;
    if (i == 1) c.alpha[0] = 0, c.alpha[1] = 2; /* a rotation */
    make_as_one(&c);
    if (i / 2 == 0 && i == 0) expect_right(&c, 0);
    if (i == 1) {
      for (size_t at = 0; at < words_of(&c); at++) c.before[at] *= 2; /* 2i x: (-2 im, 2 re) */
      struct row row = {.z = malloc(2 * (size_t)c.order * sizeof(double))};
      assert_non_null(row.z);
      for (int r = 0; r < c.order; r++)
        for (int j = 0; j < c.sides; j++) {
          struct sum sum[2];
          read_row(&c, r, &row);
          sum_of(&c, &row, j, sum);
          assert_true((double)b_at(&c, c.b, r, j)[0] == -sum[1].value &&
                      (double)b_at(&c, c.b, r, j)[1] == sum[0].value);
        }
      free(row.z);
    }
    for (int r = 0; i / 2 && r < c.order; r++)
      for (int j = 0; j < c.sides; j++) assert_true(isnan(b_at(&c, c.b, r, j)[0]));
    destroy(&c);
  }
}

/* ---- memory ---- */

/* In narrower blocks, of whole tiles, the bits are the same; and where these do not fit, a call is computed by halves.
 */
static void little_memory(void **state) {
  (void)state;
  for (int variant = 0; variant < 32; variant += 9) {
    struct call c, other;
    const int order = variant >> 4 ? 260 : 520;
    create(&c, variant, order, 700, ordinary);
    create(&other, variant, order, 700, ordinary);
    const uint64_t begun = launches();
    make_in_blocks(&c, 2 * MOST_LAUNCHES);
    expect_right(&c, 1);
    const uint64_t before = launches();
    assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "12M"), 0);
    make(&other);
    if (tst_fake() != NULL) assert_true(launches() - before > before - begun);
    assert_memory_equal(c.b, other.b, words_of(&c) * sizeof *c.b);
    memcpy(other.b, other.before, words_of(&c) * sizeof *c.b);
    assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "4M"), 0);
    make(&other);
    if (tst_fake() != NULL) assert_memory_not_equal(c.b, other.b, words_of(&c) * sizeof *c.b);
    expect_right(&other, 1);
    assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0"), 0);
    destroy(&c), destroy(&other);
  }
}

/* ---- on the GPU: test_whole_triangles there ---- */

/* Puts A, with so many words before it, that it is aligned to a float alone, and B there. */
static void put_there(struct call *c, int before) {
  const size_t a_bytes = (size_t)c->lda * (size_t)c->order * sizeof(float), b_bytes = words_of(c) * sizeof(float);
  float *const a = (float *)tst_cuda_allocate(TST_DEVICE, a_bytes + (size_t)before * sizeof(float)) + before;
  float *const b = tst_cuda_allocate(TST_DEVICE, b_bytes);
  tst_cuda_write(TST_DEVICE, a, c->a, a_bytes);
  tst_cuda_write(TST_DEVICE, b, c->b, b_bytes);
  c->a = a, c->b = b;
}
static void take_back(struct call *c, const struct call *host, int before) {
  assert_true(tst_cuda_read(TST_DEVICE, host->b, c->b, words_of(c) * sizeof(float)));
  tst_cuda_free(TST_DEVICE, c->a - before), tst_cuda_free(TST_DEVICE, c->b);
  c->a = host->a, c->b = host->b;
}

/* Two that pack, three from planes, one that forms, FMAs, corners, and repairs; a copy, or two that turn B; and alpha.
 */
static uint64_t launches_there(const struct call *c) { return 9 + (c->right ? 2 : 1) + (c->alpha[0] == 1 ? 0 : 1); }

static void same_bits_on_the_gpu(void **state) {
  (void)state;
  value *const values[] = {ordinary, wide, wider, whole};
  tst_cuda_begin(0);
  for (int i = 0; i < 64; i += TST_UNLESS_SANITIZED(3, 17)) {
    struct call c, other;
    const int variant = i % 16, order = an_order(i / 16 + i), sides = some_sides() + i % 3 * 10, before = i / 16 % 2;
    create(&c, variant, order, sides, values[i / 16]);
    create(&other, variant, order, sides, values[i / 16]);
    if (i % 5 == 4) c.alpha[0] = other.alpha[0] = 3;
    if (i % 4 == 1)
      b_at(&c, c.b, i * 37 % order, 5)[0] = b_at(&other, other.b, i * 37 % order, 5)[0] = i % 8 == 1 ? INFINITY : NAN;
    make(&other);
    const struct call host = c;
    put_there(&c, before);
    make_in_blocks(&c, launches_there(&c));
    take_back(&c, &host, before);
    if (memcmp(c.b, other.b, words_of(&c) * sizeof *c.b) != 0) fail_msg("variant %d of order %d", i, order);
    destroy(&c), destroy(&other);
  }
  tst_cuda_end(0);
}

/* Four blocks in two streams, for which A is brought into form and packed ahead. */
static void blocks_on_the_gpu(void **state) {
  (void)state;
  if (tst_fake() == NULL) return; /* another workspace */
  tst_cuda_begin(0);
  for (int variant = 0; variant < 16; variant += TST_UNLESS_SANITIZED(5, 9)) {
    struct call c, other;
    create(&c, variant, 520, 700, wide);
    create(&other, variant, 520, 700, wide);
    make(&other);
    const struct call host = c;
    put_there(&c, 0);
    assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "9600K"), 0);
    const uint64_t begun = launches();
    make(&c);
    assert_int_equal(launches() - begun, 2 + 4 * (launches_there(&c) - 2));
    assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0"), 0);
    take_back(&c, &host, 0);
    assert_memory_equal(c.b, other.b, words_of(&c) * sizeof *c.b);
    destroy(&c), destroy(&other);
  }
  tst_cuda_end(0);
}

#define CUDA_ERROR_UNKNOWN 999

/* Whichever launch of a call fails, what is behind it finds the B that was. */
struct failure {
  const char *function;
  unsigned long nth;
};
static int one_launch_fails(void *which) {
  const struct failure *const f = which;
  struct call c;
  create(&c, 2, 300, 180, whole);
  const struct call host = c;
  tst_cuda_begin(0);
  put_there(&c, 0);
  if (tst_fake()->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, 0) != 0) return 2;
  make(&c);
  const bool failed = tst_fake()->get(FAKE_CUDA_FAILURES) > 0;
  tst_fake()->clear_failures();
  take_back(&c, &host, 0);
  expect_right(&c, 0);
  destroy(&c);
  tst_cuda_end(0);
  return failed ? 0 : 3;
}

static void launches_that_fail(void **state) {
  (void)state;
  static const struct {
    const char *function;
    unsigned long calls;
  } all[] = {{"cuLaunchKernel", 4}, {"cuLaunchKernelEx", 6}};
  if (tst_fake() == NULL) return;
  for (int i = 0; i < 2; i++)
    for (unsigned long nth = 1; nth <= all[i].calls + 1; nth++) {
      struct tst_output o;
      tst_fork(&o, one_launch_fails, &(struct failure){all[i].function, nth});
      if (o.status != (nth <= all[i].calls ? 0 : 3))
        fail_msg("%s %lu: status %d\n%s%s", all[i].function, nth, o.status, o.out, o.err);
      tst_output_destroy(&o);
    }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_variant), cmocka_unit_test(numbers_far_apart), cmocka_unit_test(what_is_not_finite),
      cmocka_unit_test(any_alpha),     cmocka_unit_test(little_memory),
  };
  const struct CMUnitTest there[] = {
      cmocka_unit_test(launches_that_fail), /* in children, before a GPU is opened here */
      cmocka_unit_test(same_bits_on_the_gpu),
      cmocka_unit_test(blocks_on_the_gpu),
  };
  if (argc > 1 && strcmp(argv[1], "there") == 0) return tst_result(cmocka_run_group_tests(there, NULL, NULL));
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
