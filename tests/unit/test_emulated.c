/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products by the tensor cores' kernels, as src/select/emulated.h enqueues them: whole numbers, whose sums leave
 * nothing to round, in every transpose, at the edges of tiles, chunks, groups and spans, with k whole and split, with
 * alpha; of a triangle; and that the bits of an element do not depend on how C or k is cut, whatever the data. Operands
 * are allocated to the element, what stands in padding is NaN, and D's padding must keep its bits.
 */
#include "emulated_product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sanitized.h"
#include "wanted.h"

/* ---- values ---- */

/* Whole numbers: |op(A)| up to largest_a, |op(B)| up to largest_b, of which one in `rarity` is not 0. */
static int64_t largest_a = 4, largest_b = 4, rarity = 1;

static float whole(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)side, (void)l;
  const int64_t largest = of_b ? largest_b : largest_a;
  if (of_b && tst_random_below(rng, rarity) != 0) return 0;
  return (float)(tst_random_below(rng, 2 * largest + 1) - largest);
}

/* op(B) is the identity, turned by a row; op(A) has words of full length. */
static float identity(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  return of_b ? (float)(l == side + 1) : 1 + (float)tst_random_below(rng, 1 << 23) * 0x1p-23f;
}

static float signed_unit(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return 2 * tst_random_unit(rng) - 1;
}

/* The first tiles of both operands have what fp16 planes hold; a row and a column behind them take bf16 planes; and the
 * last row and column neither. */
static float any_kind(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = 2 * tst_random_unit(rng) - 1;
  const int64_t tile = of_b ? TB_EMULATED_TILE_N : TB_EMULATED_TILE_M;
  if (side == tile + 7) return ldexpf(x, (int)(l % 64) - 32);
  if (side == 2 * tile + 1 && l % 16 == 3) return of_b ? NAN : INFINITY;
  return x;
}

/* What takes bf16 planes alone. */
static float wide(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return ldexpf(2 * tst_random_unit(rng) - 1, (int)tst_random_below(rng, 60) - 30);
}

/* ---- exact answers ---- */

static void check_exact(const struct tst_emulated_problem *p, tst_emulated_value *value, uint64_t seed) {
  struct tst_emulated_product t;
  struct tst_emulated_expected e;
  tst_emulated_create(&t, p, value, seed);
  tst_emulated_expect(&e, &t);
  float *d = tst_emulated_compute(&t, 0, 0);
  tst_emulated_assert_exact(&t, &e, d);
  free(d);
  tst_emulated_expected_destroy(&e);
  tst_emulated_destroy(&t);
}

static void every_transpose(void **state) {
  (void)state;
  for (int variant = 0; variant < 4; variant++) {
    struct tst_emulated_problem p = {.transpose_a = variant & 1, .transpose_b = variant & 2, .alpha = 1, .splits = 1};
    p.m = 129, p.n = 193, p.k = 33, p.pad = 3, p.skip = 1;
    check_exact(&p, whole, (uint64_t)variant);
    p.m = 31, p.n = 45, p.k = 70, p.pad = variant, p.skip = 0;
    check_exact(&p, whole, (uint64_t)variant);
  }
}

/* At and about the sides of tiles, warps' parts of them, and chunks. */
static void edges(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{1, 1, 1},     {128, 192, 32}, {127, 191, 31}, {8, 200, 16},
                                      {260, 7, 100}, {136, 64, 15},  {5, 390, 17},   {64, 8, 64}};
  for (int64_t i = 0; i < 8; i++)
    check_exact(&(struct tst_emulated_problem){.transpose_a = i & 1,
                                               .transpose_b = i & 2,
                                               .m = shapes[i][0],
                                               .n = shapes[i][1],
                                               .k = shapes[i][2],
                                               .alpha = 1,
                                               .splits = 1,
                                               .pad = i % 5,
                                               .skip = i % 3},
                whole, (uint64_t)i);
}

/* The tile of an Inf is computed from the operands themselves, wherever these lie. */
static void aligned_and_not(void **state) {
  (void)state;
  for (int i = 0; i < 25; i += 3) {
    const struct tst_emulated_problem p = {.transpose_a = i & 1,
                                           .transpose_b = i & 2,
                                           .m = 36,
                                           .n = 44,
                                           .k = 40,
                                           .alpha = 1,
                                           .splits = 1,
                                           .pad = i / 5,
                                           .skip = i % 5};
    struct tst_emulated_product t;
    check_exact(&p, whole, (uint64_t)i);
    tst_emulated_create(&t, &p, signed_unit, (uint64_t)i);
    *tst_emulated_at(&t.a, 3, 7) = INFINITY;
    float *d = tst_emulated_compute(&t, 0, 0), *plain = tst_emulated_plain(&t);
    tst_emulated_assert_same(d, plain, p.m, 0, p.m, 0, p.n);
    free(d), free(plain);
    tst_emulated_destroy(&t);
  }
}

/* k at the edges of groups, whole and in parts of as many groups, or not. */
static void several_groups(void **state) {
  (void)state;
  static const int64_t cases[][2] = {{1023, 1}, {1025, 1}, {1025, 2}, {2049, 2}};
  for (int i = 0; i < 4; i++)
    check_exact(&(struct tst_emulated_problem){.transpose_a = i % 2,
                                               .transpose_b = i % 2,
                                               .m = 19,
                                               .n = 21,
                                               .k = cases[i][0],
                                               .alpha = 1,
                                               .splits = (int)cases[i][1],
                                               .pad = 1},
                whole, (uint64_t)i);
}

/* Spans of a group and of two, whole and in parts; alpha is the last one's. */
static void spans(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++)
    check_exact(&(struct tst_emulated_problem){.transpose_a = i & 1,
                                               .transpose_b = i & 2,
                                               .m = 19,
                                               .n = 21,
                                               .k = i < 2 ? 2100 : 2048 + 1025,
                                               .alpha = -2.5f,
                                               .splits = 1 + i / 2,
                                               .span_k = i < 2 ? 1024 : 2048,
                                               .pad = i,
                                               .skip = 1},
                whole, (uint64_t)i);
}

/* With k split alpha is the gathering kernel's. */
static void alphas(void **state) {
  (void)state;
  static const float alpha[] = {-1.7f, 3e30f, 1e-40f};
  struct tst_emulated_problem p = {.m = 9, .n = 11, .k = 40, .splits = 1};
  for (int i = 0; i < 3; i++) {
    p.alpha = alpha[i];
    check_exact(&p, whole, (uint64_t)i);
  }
  p.k = 1030;
  check_exact(&p, whole, 5);
  p.splits = 2;
  check_exact(&p, whole, 5);
}

/* Words with the bits of one plane, of two, and with all that a float has. */
static void long_words(void **state) {
  (void)state;
  if (TST_SANITIZED) return; /* other numbers, as in the next two */
  const struct tst_emulated_problem p = {.m = 70, .n = 90, .k = 128, .alpha = 1, .splits = 1, .pad = 3};
  largest_a = 2048, largest_b = 4;
  check_exact(&p, whole, 1);
  largest_a = 4, largest_b = 2048;
  check_exact(&p, whole, 2);
  largest_a = 2048, largest_b = 2048, rarity = 256; /* so few that no sum has more than fp32 holds */
  check_exact(&p, whole, 3);
  largest_a = largest_b = 4, rarity = 1;
}

static void identity_gives_the_words(void **state) {
  (void)state;
  if (TST_SANITIZED) return;
  check_exact(&(struct tst_emulated_problem){.m = 140, .n = 90, .k = 100, .alpha = 1, .splits = 1}, identity, 1);
}

/* ---- the same bits ---- */

/* The product whole, and in pieces whose panels are packed on their own, or with k split. */
static void check_same(const struct tst_emulated_problem *p, tst_emulated_value *value, const int64_t pieces[][2],
                       int count, int most_splits) {
  struct tst_emulated_product t;
  tst_emulated_create(&t, p, value, 1);
  float *whole_d = tst_emulated_compute(&t, 0, 0);
  for (int i = 0; i < count; i++) {
    float *d = tst_emulated_compute(&t, pieces[i][0], pieces[i][1]);
    tst_emulated_assert_same(d, whole_d, p->m, 0, p->m, 0, p->n);
    free(d);
  }
  for (t.problem.splits = 2; t.problem.splits <= most_splits; t.problem.splits++) {
    float *d = tst_emulated_compute(&t, 0, 0);
    tst_emulated_assert_same(d, whole_d, p->m, 0, p->m, 0, p->n);
    free(d);
  }
  free(whole_d);
  tst_emulated_destroy(&t);
}

static void pieces_have_the_bits_of_the_whole(void **state) {
  (void)state;
  if (TST_SANITIZED) return;
  static const int64_t pieces[][2] = {{128, 192}};
  struct tst_emulated_problem p = {.m = 260, .n = 390, .k = 60, .alpha = -0.7f, .splits = 1};
  check_same(&p, any_kind, pieces, 1, 1);
  p.transpose_a = true, p.transpose_b = true, p.fast = true;
  check_same(&p, any_kind, pieces, 1, 1);
}

static void splits_have_the_bits_of_the_whole(void **state) {
  (void)state;
  if (TST_SANITIZED) return; /* spans and several_groups have some */
  struct tst_emulated_problem p = {.m = 60, .n = 70, .k = 3080, .alpha = 1.3f, .splits = 1};
  check_same(&p, signed_unit, NULL, 0, 3);
  p.k = 1040, p.transpose_b = true;
  check_same(&p, wide, NULL, 0, 2);
  p.m = 140, p.n = 200, p.whole = 1; /* of four tiles */
  check_same(&p, any_kind, NULL, 0, 2);
}

/* Tiles of every kind, of which some continue in D from what other planes have left there. */
static void pieces_of_spans(void **state) {
  (void)state;
  if (TST_SANITIZED) return;
  static const int64_t pieces[][2] = {{128, 192}};
  check_same(&(struct tst_emulated_problem){.m = 140, .n = 200, .k = 1040, .alpha = 1.3f, .splits = 1, .span_k = 1024},
             any_kind, pieces, 1, 1);
}

/* ---- of a triangle ---- */

static bool tile_is_wanted(const struct tst_emulated_problem *p, int64_t i, int64_t j) {
  const int64_t row = i / TB_EMULATED_TILE_M * TB_EMULATED_TILE_M, column = j / TB_EMULATED_TILE_N * TB_EMULATED_TILE_N;
  for (int64_t x = row; x < row + TB_EMULATED_TILE_M; x++)
    for (int64_t y = column; y < column + TB_EMULATED_TILE_N; y++)
      if (tst_is_wanted(p->wanted, x, y)) return true;
  return false;
}

/* Tiles that have nothing of it are not written; all others have the bits of the whole product. */
static void check_triangle(const struct tst_emulated_product *t, const float *whole_d) {
  const struct tst_emulated_problem *p = &t->problem;
  float *d = tst_emulated_compute(t, 0, 0);
  for (int64_t i = 0; i < p->m; i += TB_EMULATED_TILE_M)
    for (int64_t j = 0; j < p->n; j += TB_EMULATED_TILE_N) {
      const int64_t rows = i + TB_EMULATED_TILE_M < p->m ? i + TB_EMULATED_TILE_M : p->m;
      const int64_t columns = j + TB_EMULATED_TILE_N < p->n ? j + TB_EMULATED_TILE_N : p->n;
      if (tile_is_wanted(p, i, j)) {
        tst_emulated_assert_same(d, whole_d, p->m, i, rows, j, columns);
        continue;
      }
      uint32_t bits;
      for (int64_t at = i + j * p->m; at < rows + j * p->m; at++) {
        memcpy(&bits, &d[at], sizeof bits);
        assert_int_equal(bits, 0xffffffff);
      }
    }
  free(d);
}

/* Tiles of every kind, and pairs of tiles in one column and in two. */
static void triangles(void **state) {
  (void)state;
  static const struct tb_tiles_wanted wanted[] = {{TB_TILES_LOWER, 0, 0, 0},   {TB_TILES_UPPER, 0, 0, 0},
                                                  {TB_TILES_LOWER, 150, 0, 0}, {TB_TILES_UPPER, -200, 0, 0},
                                                  {TB_TILES_LOWER, 0, 1, 0},   {TB_TILES_UPPER, -64, 1, 0}};
  struct tst_emulated_product t;
  const struct tst_emulated_problem p = {.m = 400, .n = 400, .k = 40, .alpha = 1.5f, .splits = 1, .pad = 2};
  tst_emulated_create(&t, &p, any_kind, 1);
  float *whole_d = tst_emulated_compute(&t, 0, 0);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    t.problem.wanted = wanted[i];
    check_triangle(&t, whole_d);
  }
  free(whole_d);
  tst_emulated_destroy(&t);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(triangles),
      cmocka_unit_test(every_transpose),
      cmocka_unit_test(edges),
      cmocka_unit_test(aligned_and_not),
      cmocka_unit_test(several_groups),
      cmocka_unit_test(spans),
      cmocka_unit_test(alphas),
      cmocka_unit_test(long_words),
      cmocka_unit_test(identity_gives_the_words),
      cmocka_unit_test(pieces_have_the_bits_of_the_whole),
      cmocka_unit_test(splits_have_the_bits_of_the_whole),
      cmocka_unit_test(pieces_of_spans),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  tst_emulated_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
