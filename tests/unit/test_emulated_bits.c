/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products by the tensor cores' kernels have the bits of contract_emulated.c, an independent model of what PRECISION.md
 * promises: planes, which of their products, chunk after chunk, what rounding takes and gives, groups, spans, alpha;
 * for words of every kind, at the edges of tiles, with k whole and in parts. The bits of a sum tell in which order it
 * was added, so each problem's are compared with those of all other planes, too, and have to be others.
 *
 * Tensor cores are the fake driver's here, so this is skipped on a real GPU.
 *
 * Seen to fail when: one of the three or six partial products is missing, doubled or in another's place; products of
 * low planes come behind those of high ones, or in another order; a chunk's rest is dropped or has the other sign; the
 * correction is another chunk's, or that of sums which are exact; few large words are seen in rows alone; groups are
 * added in another order.
 */
#include "contract_emulated.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "rng.h"

/* ---- values ---- */

/* Of 24 bits: 2 x - 1 has 23, of which planes lose nothing. */
static float of_full_length(uint64_t *rng) {
  const float x = tst_random_unit(rng);
  return tst_random_below(rng, 2) ? x : -x;
}

static float of_either_sign(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return of_full_length(rng);
}

static float positive(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return tst_random_unit(rng);
}

/* Words of 17 bits and of eight: sums that no plane loses anything of, but fp32 rounds. */
static float long_and_short(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)side, (void)l;
  return (float)(tst_random_below(rng, of_b ? 255 : 131071) - (of_b ? 127 : 65535));
}

/* Over 29 binades, which is not far. */
static float wide(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  const float x = 1 + tst_random_unit(rng);
  return ldexpf(tst_random_below(rng, 2) ? x : -x, (int)tst_random_below(rng, 29) - 14);
}

/* One word of 200 is far larger than the others, of op(A) alone, or of op(B). */
static float huge_of(bool wanted, uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = of_full_length(rng);
  return of_b == wanted && l % 200 == side * 7 % 200 ? ldexpf(x + 2, 24) : x;
}
static float huge_in_rows(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  return huge_of(false, rng, of_b, side, l);
}
static float huge_in_columns(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  return huge_of(true, rng, of_b, side, l);
}

/* The first tiles of both operands have what fp16 planes hold; a row behind them takes bf16 planes; and the last row
 * and column neither. */
static float any_kind(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = of_full_length(rng);
  const int64_t tile = of_b ? TB_EMULATED_TILE_N : TB_EMULATED_TILE_M;
  if (side == tile + 7 && !of_b) return ldexpf(x, (int)(l % 28) - 14);
  if (side == 2 * tile + 1 && l % 16 == 3) return of_b ? NAN : INFINITY;
  return x;
}

/* Sums that leave the range in the third row, and are otherwise those of bf16 planes. */
static float leaving(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = 1 + tst_random_unit(rng);
  (void)l;
  return of_b ? ldexpf(side % 2 ? -x : x, 24) : ldexpf(x, side == 2 ? 100 : 90);
}

/* ---- problems ---- */

struct problem {
  const char *name;
  tst_emulated_value *value;
  enum tst_planes planes; /* of its first tile and span */
  int64_t m, n, k, span_k;
  int splits, whole;
  bool fast;
};

static const struct problem problems[] = {
    {"fp16", of_either_sign, TST_FP16_CORRECTED, 9, 11, 33, 0, 1, 0, false},
    {"fp16, 13 chunks", positive, TST_FP16_CORRECTED, 9, 10, 400, 0, 1, 0, false},
    {"fp16, groups", positive, TST_FP16_CORRECTED, 10, 9, 2060, 0, 1, 0, false},
    {"fp16, parts", of_either_sign, TST_FP16_CORRECTED, 10, 9, 2060, 0, 3, 0, false},
    {"fp16, spans", of_either_sign, TST_FP16_CORRECTED, 10, 9, 1060, 1024, 1, 0, false},
    {"fp16, exact planes", long_and_short, TST_FP16, 12, 11, 300, 0, 1, 0, false},
    {"fp16, exact planes, groups", long_and_short, TST_FP16, 9, 17, 1060, 0, 1, 0, false},
    {"bf16", wide, TST_BF16, 17, 9, 64, 0, 1, 0, false},
    {"bf16, odd chunks", wide, TST_BF16, 9, 12, 130, 0, 1, 0, false},
    {"bf16, a chunk", wide, TST_BF16, 9, 12, 20, 0, 1, 0, false},
    {"bf16, groups", wide, TST_BF16, 9, 10, 1040, 0, 1, 0, false},
    {"bf16, parts", wide, TST_BF16, 9, 10, 2060, 0, 3, 0, false},
    {"bf16, spans", wide, TST_BF16, 9, 10, 1060, 1024, 1, 0, false},
    {"bf16 apart, rows", huge_in_rows, TST_BF16_APART, 9, 10, 544, 0, 1, 0, false},
    {"bf16 apart, columns", huge_in_columns, TST_BF16_APART, 9, 10, 512, 0, 1, 0, false},
    {"bf16 apart, groups", huge_in_rows, TST_BF16_APART, 9, 10, 1100, 0, 2, 0, false},
    {"fast", wide, TST_FP16_CORRECTED, 9, 10, 300, 0, 1, 0, true},
    {"out of the range", leaving, TST_BF16, 9, 10, 40, 0, 1, 0, false},
    {"tiles", any_kind, TST_FP16_CORRECTED, 258, 386, 20, 0, 1, 0, false},
    {"tiles, parts", any_kind, TST_FP16_CORRECTED, 130, 194, 1030, 0, 2, 1, false},
    {"tiles, spans", any_kind, TST_FP16_CORRECTED, 258, 2, 1060, 1024, 1, 0, false},
};

static struct tst_emulated_problem problem_of(const struct problem *p, size_t number) {
  return (struct tst_emulated_problem){.transpose_a = number & 1,
                                       .transpose_b = number & 2,
                                       .m = p->m,
                                       .n = p->n,
                                       .k = p->k,
                                       .alpha = number % 3 ? -0.7f : 1,
                                       .splits = p->splits,
                                       .whole = p->whole,
                                       .fast = p->fast,
                                       .span_k = p->span_k,
                                       .pad = (int64_t)number % 4};
}

static bool same(const float *x, const float *y, int64_t count) { return memcmp(x, y, (size_t)count * sizeof *x) == 0; }

/* From other planes it has other bits; but those that leave the range are plain fp32's in the end. */
static void check_others(const struct problem *p, const struct tst_emulated_product *t, const float *right) {
  for (enum tst_planes planes = 0; planes < TST_PLANES; planes++) {
    if (planes == p->planes || (p->value == leaving && planes >= TST_BF16)) continue;
    float *other = tst_contract_emulated(t, planes);
    if (same(other, right, p->m * p->n)) fail_msg("%s: the same bits from %s", p->name, tst_planes_name[planes]);
    free(other);
  }
}

static void bits_of_the_contract(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    const struct problem *p = &problems[i];
    const struct tst_emulated_problem problem = problem_of(p, i);
    struct tst_emulated_product t;
    tst_emulated_create(&t, &problem, p->value, i);
    const enum tst_planes planes = tst_contract_planes(&t, 0, 0, 0);
    if (planes != p->planes) fail_msg("%s: %s", p->name, tst_planes_name[planes]);
    float *want = tst_contract_emulated(&t, TST_PLANES), *got = tst_emulated_compute(&t, 0, 0);
    print_message("%s\n", p->name);
    tst_emulated_assert_same(got, want, p->m, 0, p->m, 0, p->n);
    if (p->m * p->n < 1000) check_others(p, &t, want);
    free(want), free(got);
    tst_emulated_destroy(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits_of_the_contract)};
  tst_emulated_open();
  if (!tst_fake()) {
    puts("skipped: the bits are those of the fake driver's tensor cores");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
