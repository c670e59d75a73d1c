/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every condition of PRECISION.md by which a tile of D is computed in one way and not in another, with a case just
 * inside and one just outside. Each row says from which planes; contract_emulated.c says what these, and the wrong
 * ones, give for the row's words. The wrong ones' bits must be others, and where the condition is there for the
 * answer's sake, they must be off by more than a chain of as many products may be: so a kernel that does not look
 * fails. The library's must be the right ones': to the bit on the fake driver, in any case by the kernels that had
 * something to do, and within the bound.
 *
 * Seen to fail when: a condition is left out of half_is_enough, or has the other bound; of two operands one is looked
 * at; the vote leaves out lanes, strips, groups; what is seen is another tile's or another span's; a limit in
 * scale_for is off by one; and on a GPU of two multiprocessors, a block remembers of its last tile alone that it left
 * it.
 *
 *   test_emulated_choice [part of a row's name]
 */
#include "contract_emulated.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "rng.h"

/* ---- words ---- */

#define ALL INT64_MAX /* words are large */
#define ZEROS 1000    /* the others, instead of so many binades below */

/* One operand's words: random ones of so many bits in [2^exponent, 2^(exponent + 1)), the last bit set, of either sign;
 * the first or last `large` of them, and the others `drop` binades below. Sides but one may be without that; one word
 * may be another. */
struct words {
  int bits, exponent;
  int64_t large;
  int drop;
  bool at_end;      /* the large ones are the last */
  int64_t only;     /* not 0: other sides' words are all large */
  float special;    /* not 0: one word is this */
  int64_t side, at; /* its place */
};

static struct words words_of[2]; /* of the row that is computed */
static int64_t depth;

static float value(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const struct words *w = &words_of[of_b];
  const int64_t top = INT64_C(1) << (w->bits - 1);
  const int64_t whole = top + (w->bits > 1 ? tst_random_below(rng, top) | 1 : 0);
  const bool large = (w->only != 0 && side != w->only) || (w->at_end ? depth - 1 - l : l) < w->large;
  const float x = ldexpf((float)(tst_random_below(rng, 2) ? whole : -whole), w->exponent - (w->bits - 1));
  if (w->special != 0 && side == w->side && l == w->at) return w->special;
  return large ? x : w->drop == ZEROS ? copysignf(0, x) : ldexpf(x, -w->drop);
}

/* ---- the conditions ---- */

/* What wrong planes are to be off by. */
enum wrong {
  OTHER_BITS,
  BEYOND, /* more than the bound */
  NOTHING /* they would do, too: nothing but the kernels that have work tells */
};

struct row {
  const char *name;
  struct words a, b;
  int64_t m, n, k, span_k;
  bool fast;
  enum tst_planes first, last; /* of the first tile and span, and of the last; there are at most two */
  enum tst_planes wrong;       /* of all */
  enum wrong off;
};

/* Its planes make a word that is larger by the last bit, to which the correction adds. */
#define LOSSY_WORD (1 + 2051 * 0x1p-23f)

static const struct row rows[] = {
#define FULL(b, e) .bits = b, .exponent = e, .large = ALL
#define FIRST(b, e, n, d) .bits = b, .exponent = e, .large = n, .drop = d
#define LAST(b, e, n, d) FIRST(b, e, n, d), .at_end = true
#define WITH(word, s, l) .special = word, .side = s, .at = l
#define WORDS(...) __VA_ARGS__
#define ROW(name, a, b, ...) {name, {a}, {b}, __VA_ARGS__},
#include "emulated_choice.def"
#undef FULL
#undef FIRST
#undef LAST
#undef WITH
#undef WORDS
#undef ROW
};

/* ---- checks ---- */

static struct tst_emulated_problem problem_of(const struct row *r, size_t number) {
  return (struct tst_emulated_problem){.transpose_a = number & 1,
                                       .transpose_b = number & 2,
                                       .m = r->m,
                                       .n = r->n,
                                       .k = r->k,
                                       .alpha = 1,
                                       .splits = 1,
                                       .span_k = r->span_k,
                                       .fast = r->fast};
}

static bool same(const struct row *r, const float *x, const float *y) {
  for (int64_t i = 0; i < r->m * r->n; i++)
    if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i]))) return false;
  return true;
}

/* In units, what PRECISION.md has for sums of k products from such planes ("The bounds"). */
static double bound_of(enum tst_planes planes, bool counts_products, int64_t k) {
  const double chunks = ceil((double)(k < 1024 ? k : 1024) / 32), groups = (double)k / 1024 + 1;
  if (planes == TST_PLAIN) return (double)k + 1;
  if (planes <= TST_FP16_CORRECTED) return 2 + 2 + 4 + (counts_products ? 8 : 0.25) + 21 + 0.1 + 2 + chunks + groups;
  return 1 + 21 + 1 + 3 + groups + (planes == TST_BF16_APART ? chunks : 0);
}

/* How many of an element's products are not 0. */
static int64_t products_of(const struct tst_emulated_product *t, int64_t element) {
  int64_t products = 0;
  for (int64_t l = 0; l < t->problem.k; l++)
    products +=
        *tst_emulated_at(&t->a, element % t->problem.m, l) * *tst_emulated_at(&t->b, element / t->problem.m, l) != 0;
  return products;
}

/* Whether some element is off by more units, or of the wrong kind; units 0: more than so few products allow, a unit for
 * each, and two. */
static bool is_beyond(const struct tst_emulated_product *t, const struct tst_emulated_expected *e, const float *d,
                      double units) {
  bool beyond = false;
  for (int64_t i = 0; i < t->problem.m * t->problem.n; i++) {
    const double want = e->value[i], got = (double)d[i];
    const double most = units > 0 ? units : (double)products_of(t, i) + 2;
    if (isnan(want))
      beyond |= !isnan(got);
    else if (isinf(want))
      beyond |= got != (want > 0 ? (double)INFINITY : -(double)INFINITY);
    else if (e->size[i] <= (double)FLT_MAX) /* else some orders of summation leave the range, and some do not */
      beyond |= !(fabs(got - want) <= most * 0x1p-24 * e->size[i]);
  }
  return beyond;
}

static void check_wrong(const struct row *r, const struct tst_emulated_product *t,
                        const struct tst_emulated_expected *e, const float *right) {
  if (r->off == NOTHING) return;
  float *wrong = tst_contract_emulated(t, r->wrong);
  if (same(r, wrong, right)) fail_msg("%s: %s has the same bits", r->name, tst_planes_name[r->wrong]);
  if (r->off == BEYOND && !is_beyond(t, e, wrong, 0))
    fail_msg("%s: %s would be good enough", r->name, tst_planes_name[r->wrong]);
  free(wrong);
}

/* Where the last tile and span of a row's product begin. */
struct last {
  int64_t row, column, start;
};

static struct last last_of(const struct row *r) {
  return (struct last){.row = (r->m - 1) / TB_EMULATED_TILE_M * TB_EMULATED_TILE_M,
                       .column = (r->n - 1) / TB_EMULATED_TILE_N * TB_EMULATED_TILE_N,
                       .start = r->span_k > 0 ? (r->k - 1) / r->span_k * r->span_k : 0};
}

static double bound_of_row(const struct row *r, const struct tst_emulated_product *t) {
  const struct last at = last_of(r);
  return fmax(bound_of(r->first, tst_contract_counts_products(t, 0, 0, 0), r->k),
              bound_of(r->last, tst_contract_counts_products(t, at.row, at.column, at.start), r->k));
}

/* Those that the contract has for the first tile and span, and for the last; where sums leave the range, those that
 * they leave it from. */
static void check_planes(const struct row *r, const struct tst_emulated_product *t,
                         const struct tst_emulated_expected *e) {
  const struct last at = last_of(r);
  const enum tst_planes first = tst_contract_planes(t, 0, 0, 0);
  const enum tst_planes last = tst_contract_planes(t, at.row, at.column, at.start);
  const bool leaves = first == TST_BF16 && r->first == TST_PLAIN && e->size[0] > (double)FLT_MAX;
  if (!leaves && (first != r->first || last != r->last))
    fail_msg("%s: by the contract from %s and %s, not %s and %s", r->name, tst_planes_name[first],
             tst_planes_name[last], tst_planes_name[r->first], tst_planes_name[r->last]);
}

static void check_ways(const struct row *r, bool two) {
  const struct tst_emulated_ways ways = tst_emulated_ways_taken();
  const bool bfloat = r->first >= TST_BF16 || r->last >= TST_BF16;
  const int64_t again = (r->first == TST_PLAIN) + (two && r->last == TST_PLAIN);
  if (ways.bfloat != bfloat || ways.again != again)
    fail_msg("%s: bf16 planes %s, %ld tiles again", r->name, ways.bfloat ? "packed" : "not packed", (long)ways.again);
}

static void check_row(const struct row *r, size_t number) {
  const struct tst_emulated_problem problem = problem_of(r, number);
  struct tst_emulated_product t;
  struct tst_emulated_expected e;
  words_of[0] = r->a, words_of[1] = r->b, depth = r->k;
  tst_emulated_create(&t, &problem, value, number);
  tst_emulated_expect(&e, &t);
  check_planes(r, &t, &e);
  float *want = tst_contract_emulated(&t, TST_PLANES);
  check_wrong(r, &t, &e, want);
  float *got = tst_emulated_compute(&t, 0, 0);
  print_message("%s\n", r->name);
  check_ways(r, r->m > TB_EMULATED_TILE_M || r->n > TB_EMULATED_TILE_N || r->span_k > 0);
  if (tst_fake()) tst_emulated_assert_same(got, want, r->m, 0, r->m, 0, r->n);
  if (!r->fast && is_beyond(&t, &e, got, bound_of_row(r, &t))) fail_msg("%s: beyond the bound", r->name);
  free(want), free(got);
  tst_emulated_expected_destroy(&e);
  tst_emulated_destroy(&t);
}

static const char *which = ""; /* rows whose names have this */

static void every_condition(void **state) {
  (void)state;
  int found = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strstr(rows[i].name, which)) check_row(&rows[i], i), found++;
  assert_true(found > 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_condition)};
  if (argc > 1) which = argv[1];
  tst_emulated_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
