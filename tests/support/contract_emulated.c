/* SPDX-License-Identifier: BSD-3-Clause */
#include "contract_emulated.h"

#include <math.h>
#include <stdlib.h>

#include "contract_order.h"

/* The contract's numbers, written out: a change in kernels/emulated/emulated_args.h must fail a test. */
enum { TILE_M = 128, TILE_N = 192, GROUP_K = 1024, CHUNK_K = 32, STEP_K = 16, AGAIN_GROUP_K = 512, PLANES = 3 };

const char *const tst_planes_name[TST_PLANES] = {"fp16", "fp16 corrected", "bf16", "bf16 apart", "plain"};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes);
  assert_non_null(memory);
  return memory;
}

/* A tile's rows or columns in a span. */
struct part {
  const struct tst_emulated_matrix *x;
  int64_t first, sides, start, size;
};

static float word_of(const struct part *p, int64_t side, int64_t l) {
  return *tst_emulated_at(p->x, p->first + side, p->start + l);
}

static int64_t groups_of(const struct part *p) { return (p->size + GROUP_K - 1) / GROUP_K; }

/* k of a group that exist. */
static int64_t group_size(const struct part *p, int64_t group) { return smaller(GROUP_K, p->size - group * GROUP_K); }

/* ---- words and planes ---- */

/* To so many bits, the last of them 2^least or more; to nearest, to even. */
static double rounded(double x, int bits, int least) {
  if (x == 0 || !isfinite(x)) return x;
  const int last = ilogb(x) - (bits - 1);
  const double place = ldexp(1, last > least ? last : least);
  return rint(x / place) * place;
}

/* A word, once moved, as a sum of planes; what is left is the result. */
static double split_word(bool half, float moved, float plane[PLANES]) {
  double rest = (double)moved;
  for (int p = 0; p < PLANES; p++) {
    plane[p] = half && p == 2 ? 0 : (float)(half ? rounded(rest, 11, -24) : rounded(rest, 8, -133));
    rest -= (double)plane[p];
  }
  return rest;
}

/* What is known of a side's words of a group before they are split. */
struct sizes {
  float largest, smallest; /* smallest: but for zeros */
  int64_t count, small, faint, cut;
};

static struct sizes sizes_of(const struct part *p, int64_t side, int64_t group) {
  struct sizes s = {.smallest = INFINITY, .count = group_size(p, group)};
  for (int64_t l = 0; l < s.count; l++) {
    const float size = fabsf(word_of(p, side, group * GROUP_K + l));
    if (!(size <= s.largest) && !isnan(s.largest)) s.largest = size; /* a NaN stays */
    if (size > 0 && size < s.smallest) s.smallest = size;
  }
  if (!(s.largest >= 0x1p-122f)) return s; /* no bound is subnormal */
  for (int64_t l = 0; l < s.count; l++) {
    const float size = fabsf(word_of(p, side, group * GROUP_K + l)), power = ldexpf(1, ilogbf(s.largest));
    s.small += size < power * 0x1p-4f;
    s.faint += size < power * 0x1p-14f;
    s.cut += size > 0 && size < power * 0x1p-16f;
  }
  return s;
}

/* By how many binades its words are moved. */
static int move_of(bool half, const struct sizes *s) {
  if (s->largest == 0 || !isfinite(s->largest)) return 0;
  const int exponent = ilogbf(s->largest);
  if (half) return 14 - exponent;
  return exponent > 60 ? 60 - exponent : exponent < -30 ? -30 - exponent : 0;
}

/* ---- which planes ---- */

/* In a tile's sides: `small` and `faint` in 1024ths, `cut` in 256ths, at most 127. */
struct seen {
  bool wild, lossy, low, few_large;
  int64_t small, faint, cut;
};

static bool is_wild(bool half, const struct part *p, const struct sizes *s, const struct seen *seen) {
  if (!isfinite(s->largest)) return true;
  if (half) return !(s->largest >= 0x1p-48f && s->largest < 0x1p53f);
  const int move = move_of(false, s), least = ilogbf(s->smallest);
  const bool far = ilogbf(s->largest) - least > 32 && seen->small > 896 && !seen->few_large && p->size < 512;
  return far || least + move < (move < 0 ? -11 : -109);
}

static struct seen seen_of_side(bool half, const struct part *p, int64_t side, int64_t group) {
  const struct sizes s = sizes_of(p, side, group);
  struct seen seen = {.small = (s.small * 1024 + s.count - 1) / s.count,
                      .faint = (s.faint * 1024 + s.count - 1) / s.count,
                      .cut = smaller((s.cut * 256 + s.count - 1) / s.count, 127)};
  if (s.largest == 0) return (struct seen){0};
  seen.few_large = !half && (s.count - s.small) * 128 < s.count;
  if (is_wild(half, p, &s, &seen)) return (struct seen){.wild = true};
  for (int64_t l = 0; half && l < s.count; l++) {
    const float word = word_of(p, side, group * GROUP_K + l), moved = ldexpf(word, move_of(half, &s));
    float plane[PLANES];
    seen.lossy |= split_word(half, moved, plane) != 0 || (moved == 0 && word != 0);
    seen.low |= plane[1] != 0;
  }
  return seen;
}

static struct seen seen_of(bool half, const struct part *p) {
  struct seen all = {0};
  for (int64_t side = 0; side < p->sides; side++)
    for (int64_t group = 0; group < groups_of(p); group++) {
      const struct seen one = seen_of_side(half, p, side, group);
      all.wild |= one.wild, all.lossy |= one.lossy, all.low |= one.low, all.few_large |= one.few_large;
      if (one.small > all.small) all.small = one.small;
      if (one.faint > all.faint) all.faint = one.faint;
      if (one.cut > all.cut) all.cut = one.cut;
    }
  return all;
}

/* Whether products of a word that is not faint and one that is not small are at least 74 in so many k, and one for each
 * 1024 of them, and 8 of 1024 for each 256th that is cut. */
static bool has_products(const struct seen *x, const struct seen *y, int64_t k) {
  const int64_t of_1024 = 1024 - smaller(x->small + y->faint, x->faint + y->small);
  return k * of_1024 >= 74 * 1024 + k && of_1024 >= 8 * (x->cut + y->cut);
}

static bool few_are_small(const struct seen *x, const struct seen *y) { return x->small + y->small <= 896; }

static bool is_exact(const struct seen *x, const struct seen *y) {
  return !x->lossy && !y->lossy && !(x->low && y->low);
}

static enum tst_planes planes_of(const struct part *a, const struct part *b, bool fast) {
  const struct seen x = seen_of(true, a), y = seen_of(true, b);
  const bool enough = few_are_small(&x, &y) || has_products(&x, &y, a->size);
  if (!x.wild && !y.wild && (fast || is_exact(&x, &y) || enough))
    return x.lossy || y.lossy ? TST_FP16_CORRECTED : TST_FP16;
  const struct seen u = seen_of(false, a), v = seen_of(false, b);
  if (u.wild || v.wild) return TST_PLAIN;
  return u.few_large || v.few_large ? TST_BF16_APART : TST_BF16;
}

/* ---- sums ---- */

/* An operand's part in planes. */
struct packed {
  float *word; /* [side][plane][k] */
  int *move;   /* [side][group] */
};

static struct packed pack(bool half, const struct part *p) {
  const int64_t groups = groups_of(p);
  struct packed to = {.word = allocate((size_t)(p->sides * PLANES * p->size) * sizeof(float)),
                      .move = allocate((size_t)(p->sides * groups) * sizeof(int))};
  for (int64_t side = 0; side < p->sides; side++)
    for (int64_t l = 0; l < p->size; l++) {
      int *move = &to.move[side * groups + l / GROUP_K];
      if (l % GROUP_K == 0) {
        const struct sizes s = sizes_of(p, side, l / GROUP_K);
        *move = move_of(half, &s);
      }
      float plane[PLANES];
      split_word(half, ldexpf(word_of(p, side, l), *move), plane);
      for (int i = 0; i < PLANES; i++) to.word[(side * PLANES + i) * p->size + l] = plane[i];
    }
  return to;
}

static void destroy(struct packed *p) { free(p->word), free(p->move); }

static float cut_off(double x) {
  const float nearest = (float)x;
  return fabs((double)nearest) > fabs(x) ? nextafterf(nearest, 0) : nearest;
}

/* An instruction: d and up to 16 products, lined up with the largest and cut off two bits behind its last place. */
static float add_products(float d, const float *a, const float *b, int64_t count) {
  double largest = fabs((double)d), sum = 0;
  for (int64_t l = 0; l < count; l++) largest = fmax(largest, fabs((double)a[l] * (double)b[l]));
  if (largest == 0) return 0;
  const double place = ldexp(1, ilogb(largest) - 25);
  for (int64_t l = 0; l < count; l++) sum += trunc((double)a[l] * (double)b[l] / place);
  return cut_off((trunc((double)d / place) + sum) * place);
}

/* A chunk of an element's two sides, in planes. */
struct chunk {
  const float *a, *b;
  int64_t apart, size; /* of planes; k */
};

static float add_planes(float d, const struct chunk *c, int plane_a, int plane_b) {
  for (int64_t l = 0; l < c->size; l += STEP_K)
    d = add_products(d, c->a + plane_a * c->apart + l, c->b + plane_b * c->apart + l, smaller(STEP_K, c->size - l));
  return d;
}

static float fp16_group(struct chunk c, int64_t size, bool corrected) {
  float sum = 0;
  for (int64_t left = (size + CHUNK_K - 1) / CHUNK_K; left > 0; left--, size -= CHUNK_K) {
    c.size = smaller(CHUNK_K, size);
    const float low = add_planes(add_planes(0, &c, 1, 0), &c, 0, 1), all = add_planes(low, &c, 0, 0);
    sum = fmaf(all, corrected && left % 8 < 5 ? 1 + 0x1p-23f : 1, sum);
    c.a += CHUNK_K, c.b += CHUNK_K;
  }
  return sum;
}

static float bf16_group(struct chunk c, int64_t size, bool apart) {
  static const int low[][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}};
  const int64_t chunks = (size + CHUNK_K - 1) / CHUNK_K;
  float sum = 0, carry = 0;
  for (int64_t i = 0; i < chunks; i++, size -= CHUNK_K) {
    c.size = smaller(CHUNK_K, size);
    float part = carry;
    for (int p = 0; p < 5; p++) part = add_planes(part, &c, low[p][0], low[p][1]);
    if (apart) sum += part, part = 0;
    part = add_planes(part, &c, 0, 0);
    const float before = sum;
    sum = before + part;
    carry = part + (before - sum);
    c.a += CHUNK_K, c.b += CHUNK_K;
  }
  return chunks % 2 == 1 ? sum + carry : sum; /* they come in twos: the second one's rest is not added */
}

/* The span's sum of the element (i, j) of a tile. False: a group's has left the range. */
static bool element_sum(enum tst_planes planes, const struct part *a, const struct packed *x, const struct part *b,
                        const struct packed *y, int64_t i, int64_t j, float *total) {
  const int64_t groups = groups_of(a);
  *total = 0;
  for (int64_t g = 0; g < groups; g++) {
    const struct chunk c = {.a = x->word + i * PLANES * a->size + g * GROUP_K,
                            .b = y->word + j * PLANES * b->size + g * GROUP_K,
                            .apart = a->size};
    const bool half = planes <= TST_FP16_CORRECTED;
    float sum = half ? fp16_group(c, group_size(a, g), planes == TST_FP16_CORRECTED)
                     : bf16_group(c, group_size(a, g), planes == TST_BF16_APART);
    sum *= ldexpf(1, -x->move[i * groups + g]) * ldexpf(1, -y->move[j * groups + g]);
    if (!half && !isfinite(sum)) return false;
    *total += sum;
  }
  return true;
}

/* ---- tiles ---- */

static void add_plain(const struct tst_emulated_product *t, const struct part *a, const struct part *b, float *d) {
  const struct tst_emulated_problem *p = &t->problem;
  const struct tst_contract plain = {.transpose_a = p->transpose_a,
                                     .transpose_b = p->transpose_b,
                                     .m = a->sides,
                                     .n = b->sides,
                                     .k = a->size,
                                     .alpha = p->alpha,
                                     .a = tst_emulated_at(&t->a, a->first, a->start),
                                     .b = tst_emulated_at(&t->b, b->first, b->start),
                                     .lda = t->a.ld,
                                     .ldb = t->b.ld,
                                     .ldd = p->m,
                                     .group_k = AGAIN_GROUP_K,
                                     .first = a->start == 0,
                                     .last = a->start + a->size == p->k};
  tst_contract_product(&plain, d);
}

/* D's tile, which begins at d, from such planes; false: it is as it was. */
static bool add_tile(const struct tst_emulated_product *t, enum tst_planes planes, const struct part *a,
                     const struct part *b, float *d) {
  const struct tst_emulated_problem *p = &t->problem;
  struct packed x = pack(planes <= TST_FP16_CORRECTED, a), y = pack(planes <= TST_FP16_CORRECTED, b);
  float *sums = allocate((size_t)(a->sides * b->sides) * sizeof *sums);
  bool there = true;
  for (int64_t e = 0; there && e < a->sides * b->sides; e++)
    there = element_sum(planes, a, &x, b, &y, e % a->sides, e / a->sides, &sums[e]);
  for (int64_t e = 0; there && e < a->sides * b->sides; e++) {
    float *const at = &d[e / a->sides * p->m + e % a->sides];
    const float sum = (a->start == 0 ? 0 : *at) + sums[e];
    *at = a->start + a->size == p->k ? p->alpha * sum : sum;
  }
  free(sums);
  destroy(&x), destroy(&y);
  return there;
}

static struct part part_of(const struct tst_emulated_problem *p, const struct tst_emulated_matrix *x, int64_t tile,
                           int64_t first, int64_t start) {
  const int64_t span_k = p->span_k > 0 ? p->span_k : p->k;
  return (struct part){x, first, smaller(tile, x->sides - first), start, smaller(span_k, p->k - start)};
}

enum tst_planes tst_contract_planes(const struct tst_emulated_product *t, int64_t row, int64_t column, int64_t start) {
  const struct part a = part_of(&t->problem, &t->a, TILE_M, row, start);
  const struct part b = part_of(&t->problem, &t->b, TILE_N, column, start);
  return planes_of(&a, &b, t->problem.fast);
}

bool tst_contract_counts_products(const struct tst_emulated_product *t, int64_t row, int64_t column, int64_t start) {
  const struct part a = part_of(&t->problem, &t->a, TILE_M, row, start);
  const struct part b = part_of(&t->problem, &t->b, TILE_N, column, start);
  const struct seen x = seen_of(true, &a), y = seen_of(true, &b);
  return !is_exact(&x, &y) && !few_are_small(&x, &y);
}

float *tst_contract_emulated(const struct tst_emulated_product *t, enum tst_planes forced) {
  const struct tst_emulated_problem *p = &t->problem;
  float *d = allocate((size_t)(p->m * p->n) * sizeof *d);
  const int64_t span_k = p->span_k > 0 ? p->span_k : p->k;
  for (int64_t start = 0; start < p->k; start += span_k)
    for (int64_t column = 0; column < p->n; column += TILE_N)
      for (int64_t row = 0; row < p->m; row += TILE_M) {
        const struct part a = part_of(p, &t->a, TILE_M, row, start), b = part_of(p, &t->b, TILE_N, column, start);
        const enum tst_planes planes = forced < TST_PLANES ? forced : planes_of(&a, &b, p->fast);
        float *const tile = d + row + column * p->m;
        if (planes == TST_PLAIN || !add_tile(t, planes, &a, &b, tile)) add_plain(t, &a, &b, tile);
      }
  return d;
}
