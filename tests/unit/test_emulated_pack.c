/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How operands are packed for the tensor cores (kernels/emulated/emulated_args.h): every word of every plane at its
 * place, words and planes adding up to the operand, zeros where there is nothing, scales, and what was seen, at the
 * boundary values of all that decides. Operands and packed ones are allocated to the element; what nobody wrote is NaN.
 */
#include "emulated_product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

/* The contract's numbers, written out: a change in kernels/emulated/emulated_args.h must fail a test. */
enum { GROUP_K = 1024, CHUNK_K = 32, STRIP = 8, HALF = 2, BFLOAT = 3 };

static int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

/* ---- packing ---- */

struct packed {
  int planes;
  int64_t padded_sides, padded_k, groups;
  uint16_t *word;
  float *scale;
  uint32_t *seen;
  CUdeviceptr device[3]; /* of these */
};

static size_t bytes_of(const struct packed *p, int part) {
  const int64_t words = p->padded_sides * p->padded_k * p->planes, sides = p->groups * p->padded_sides;
  return (size_t)(part == 0 ? 2 * words : part == 1 ? 4 * sides : 4 * (sides / STRIP));
}

static struct packed make_packed(const struct tst_emulated_matrix *x, int planes, int64_t padding) {
  struct packed p = {.planes = planes, .padded_sides = round_up(x->sides, padding)};
  p.padded_k = round_up(x->k, CHUNK_K), p.groups = (x->k + GROUP_K - 1) / GROUP_K;
  void *part[3];
  for (int i = 0; i < 3; i++) {
    part[i] = malloc(bytes_of(&p, i));
    assert_non_null(part[i]);
    OK(tb_cuda.cuMemAlloc(&p.device[i], bytes_of(&p, i)));
    OK(tb_cuda.cuMemsetD8Async(p.device[i], 0xff, bytes_of(&p, i), NULL)); /* NaN: what is not written shows */
    OK(tb_cuda.cuStreamSynchronize(NULL));
  }
  p.word = part[0], p.scale = part[1], p.seen = part[2];
  return p;
}

static void destroy_packed(struct packed *p) {
  free(p->word), free(p->scale), free(p->seen);
  for (int i = 0; i < 3; i++) OK(tb_cuda.cuMemFree(p->device[i]));
}

static struct tb_emulated_pack_operand operand_of(const struct tst_emulated_matrix *x, const struct packed *p) {
  const struct tb_emulated_operand from = tst_emulated_operand(x, false, 0, x->sides);
  return (struct tb_emulated_pack_operand){.from = from.from,
                                           .to = {.planes = (void *)(uintptr_t)p->device[0],
                                                  .scale = (float *)(uintptr_t)p->device[1],
                                                  .seen = (uint32_t *)(uintptr_t)p->device[2]},
                                           .ld = x->ld,
                                           .sides = x->sides,
                                           .padded_sides = p->padded_sides,
                                           .along_k = x->along_k,
                                           .vectors = x->along_k && x->ld % 4 == 0 && (uintptr_t)from.from % 16 == 0};
}

/* The blocks of the kernel before bf16 planes are packed, which leave marks. */
enum { MARKS = 132 };

/* Packs one operand or two by one launch of so many blocks; bf16 planes after the block `left` left a tile; -1: none
 * did. */
static void pack(const struct tst_emulated_matrix *const x[2], struct packed *const p[2], int blocks, int left) {
  uint32_t marks[MARKS] = {0};
  CUdeviceptr device_marks;
  if (left >= 0) marks[left] = 1;
  OK(tb_cuda.cuMemAlloc(&device_marks, sizeof marks));
  OK(tb_cuda.cuMemcpyHtoDAsync(device_marks, marks, sizeof marks, NULL));
  struct tb_emulated_pack_args args = {.k = x[0]->k, .left = (uint32_t *)(uintptr_t)device_marks, .left_words = MARKS};
  for (int i = 0; i < 2 && x[i]; i++) {
    tst_emulated_upload(x[i]);
    args.x[i] = operand_of(x[i], p[i]);
  }
  void *parameters[] = {&args};
  const struct tb_emulated_kernels *split = tst_emulated_open();
  OK(tb_cuda.cuLaunchKernel(p[0]->planes == HALF ? split->pack_half[0] : split->pack_bfloat[0], (unsigned)blocks, 1, 1,
                            TB_EMULATED_PACK_THREADS, 1, 1, 0, NULL, parameters, NULL));
  for (int i = 0; i < 2 && x[i]; i++) {
    void *const part[3] = {p[i]->word, p[i]->scale, p[i]->seen};
    for (int j = 0; j < 3; j++) OK(tb_cuda.cuMemcpyDtoHAsync(part[j], p[i]->device[j], bytes_of(p[i], j), NULL));
  }
  OK(tb_cuda.cuStreamSynchronize(NULL));
  OK(tb_cuda.cuMemFree(device_marks));
}

static struct packed pack_one(const struct tst_emulated_matrix *x, int planes) {
  struct packed p = make_packed(x, planes, 128);
  pack((const struct tst_emulated_matrix *const[2]){x}, (struct packed *const[2]){&p}, 3, 0);
  return p;
}

/* ---- what is there ---- */

static double value_of(int planes, uint16_t bits) {
  if (planes == HALF) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31 ? NAN : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
  }
  const uint32_t whole = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &whole, sizeof value);
  return (double)value;
}

static const uint16_t *plane_at(const struct packed *p, int64_t side, int64_t l, int plane) {
  const int64_t rows = l / 16 * (p->padded_sides / 8) + side / 8;
  return &p->word[(((rows * p->planes + plane) * 2 + l / 8 % 2) * 8 + side % 8) * 8 + l % 8];
}

static float scale_at(const struct packed *p, int64_t side, int64_t l) {
  return p->scale[l / GROUP_K * p->padded_sides + side];
}

/* The word that the planes make. */
static double unpacked(const struct packed *p, int64_t side, int64_t l) {
  double sum = 0;
  for (int plane = 0; plane < p->planes; plane++) sum += value_of(p->planes, *plane_at(p, side, l, plane));
  return sum * (double)scale_at(p, side, l);
}

static float word_of(const struct tst_emulated_matrix *x, int64_t side, int64_t l) {
  return side < x->sides && l < x->k ? *tst_emulated_at(x, side, l) : 0;
}

/* Of the words of a side and a group. */
static float largest_of(const struct tst_emulated_matrix *x, int64_t side, int64_t group) {
  float largest = 0;
  for (int64_t l = group * GROUP_K; l < (group + 1) * GROUP_K && l < x->k; l++) {
    const float size = fabsf(word_of(x, side, l));
    if (!(size <= largest) && !isnan(largest)) largest = size; /* a NaN stays */
  }
  return largest;
}

/* Of all but zeros. */
static float smallest_of(const struct tst_emulated_matrix *x, int64_t side, int64_t group) {
  float smallest = INFINITY;
  for (int64_t l = group * GROUP_K; l < (group + 1) * GROUP_K && l < x->k; l++) {
    const float size = fabsf(word_of(x, side, l));
    if (size > 0 && size < smallest) smallest = size;
  }
  return smallest;
}

/* By how many binades bf16 planes have such a side's words moved: its largest comes to lie between 2^-30 and 2^61. */
static int bfloat_move(float largest) {
  const int exponent = ilogbf(largest);
  return exponent > 60 ? 60 - exponent : exponent < -30 ? -30 - exponent : 0;
}

/* Words of a group that exist. */
static int64_t existing_of(const struct tst_emulated_matrix *x, int64_t group) {
  const int64_t left = x->k - group * GROUP_K;
  return left < GROUP_K ? left : GROUP_K;
}

/* How many words of a side are small beside its largest; and in 1024ths, up. */
static int64_t small_count(const struct tst_emulated_matrix *x, int64_t side, int64_t group) {
  const float largest = largest_of(x, side, group), bound = ldexpf(1, ilogbf(largest) - 4);
  int64_t count = 0;
  for (int64_t l = group * GROUP_K; l < (group + 1) * GROUP_K && l < x->k; l++)
    count += largest >= 0x1p-122f && fabsf(word_of(x, side, l)) < bound; /* no bound is subnormal */
  return count;
}
static uint32_t small_of(const struct tst_emulated_matrix *x, int64_t side, int64_t group) {
  const int64_t existing = existing_of(x, group);
  return (uint32_t)((small_count(x, side, group) * 1024 + existing - 1) / existing);
}

/* How many words of a side are below so much of the power of two of its largest; in so many parts of all, up. */
static uint32_t part_below(const struct tst_emulated_matrix *x, int64_t side, int64_t group, float bound, bool zeros,
                           int64_t parts) {
  const int64_t existing = existing_of(x, group);
  const float power = ldexpf(1, ilogbf(largest_of(x, side, group)));
  int64_t count = 0;
  for (int64_t l = group * GROUP_K; l < group * GROUP_K + existing; l++) {
    const float size = fabsf(word_of(x, side, l));
    count += size < bound * power && (zeros || size > 0);
  }
  return (uint32_t)((count * parts + existing - 1) / existing);
}

/* Whether fewer than one of 128 of a side's words are not small. */
static bool has_few_large(const struct tst_emulated_matrix *x, int64_t side, int64_t group) {
  const int64_t existing = existing_of(x, group);
  return (existing - small_count(x, side, group)) * 128 < existing;
}

/* Whether such planes are not for a side: fp16, by its largest word; bf16, by its smallest, once moved, above all down,
 * or because k is short, most words are small, but not all but a few, and the smallest is far from the largest. */
static bool is_wild(const struct tst_emulated_matrix *x, int planes, int64_t side, int64_t group) {
  const float largest = largest_of(x, side, group);
  if (largest == 0) return false;
  if (!isfinite(largest)) return true;
  if (planes == HALF) return !(largest >= 0x1p-48f && largest < 0x1p53f);
  const int least = ilogbf(smallest_of(x, side, group)), move = bfloat_move(largest);
  const bool far = ilogbf(largest) - least > 32 && small_of(x, side, group) > 896;
  return least + move < (move < 0 ? -11 : -109) || (far && !has_few_large(x, side, group) && x->k < 512);
}

/* What must have been seen of a side and a group, in the contract's words. */
static uint32_t seen_of_side(const struct tst_emulated_matrix *x, const struct packed *p, int64_t side, int64_t group) {
  const float largest = largest_of(x, side, group);
  if (is_wild(x, p->planes, side, group)) return 1u << 31;
  if (largest == 0) return 0;
  uint32_t flags = p->planes == BFLOAT && has_few_large(x, side, group) ? 1u << 28 : 0;
  for (int64_t l = group * GROUP_K; l < (group + 1) * GROUP_K && l < x->k; l++) {
    if (unpacked(p, side, l) != (double)word_of(x, side, l)) flags |= 1u << 30;
    if (value_of(p->planes, *plane_at(p, side, l, 1)) != 0) flags |= 1u << 29; /* has a low plane */
  }
  if (p->planes == BFLOAT) return flags | small_of(x, side, group);
  const uint32_t faint = part_below(x, side, group, 0x1p-14f, true, 1024),
                 cut = part_below(x, side, group, 0x1p-16f, false, 256);
  return flags | (cut > 127 ? 127 : cut) << 22 | faint << 11 | small_of(x, side, group);
}

static uint32_t seen_of_strip(const struct tst_emulated_matrix *x, const struct packed *p, int64_t strip,
                              int64_t group) {
  uint32_t flags = 0, small = 0, faint = 0, cut = 0;
  for (int64_t side = strip * STRIP; side < (strip + 1) * STRIP; side++) {
    const uint32_t seen = seen_of_side(x, p, side, group);
    flags |= seen & 7u << 29;
    small = (seen & 0x7ff) > small ? seen & 0x7ff : small;
    faint = (seen >> 11 & 0x7ff) > faint ? seen >> 11 & 0x7ff : faint;
    cut = (seen >> 22 & 127) > cut ? seen >> 22 & 127 : cut; /* bf16: or a flag */
  }
  return flags | cut << 22 | faint << 11 | small;
}

static void fail_word(const struct tst_emulated_matrix *x, const struct packed *p, int64_t side, int64_t l) {
  fail_msg("%s, %ld sides, k=%ld, ld %ld, skip %ld, %d planes: word (%ld,%ld) is %a, scale %a, not %a",
           x->along_k ? "along k" : "along sides", (long)x->sides, (long)x->k, (long)x->ld, (long)x->skip, p->planes,
           (long)side, (long)l, unpacked(p, side, l), (double)scale_at(p, side, l), (double)word_of(x, side, l));
}

/* The largest word comes to lie between 2^14 and 2^15, words are off by 2^-23 of themselves, or by half of the least
 * step that fp16 has; bf16: in the window, and words are not off at all. */
static bool scale_is_right(int planes, float largest, float scale) {
  if (largest == 0) return scale == 1;
  if (planes == BFLOAT) return scale == ldexpf(1, -bfloat_move(largest));
  int exponent;
  return frexpf(scale, &exponent) == 0.5f && largest >= 0x1p14f * scale && largest < 0x1p15f * scale;
}

static void check_words(const struct tst_emulated_matrix *x, const struct packed *p) {
  float largest = 0;
  for (int64_t side = 0; side < p->padded_sides; side++)
    for (int64_t l = 0; l < p->padded_k; l++) {
      const double word = (double)word_of(x, side, l), scale = (double)scale_at(p, side, l);
      if (l % GROUP_K == 0) {
        const bool exists = side < x->sides;
        largest = exists ? largest_of(x, side, l / GROUP_K) : 0;
        if (exists && is_wild(x, p->planes, side, l / GROUP_K)) {
          l += GROUP_K - 1; /* the planes of a wild side may be anything */
          continue;
        }
      }
      const double least = 0x1p-25 * scale, part = 0x1p-23 * fabs(word);
      const double bound = p->planes == BFLOAT ? 0 : part > least ? part : least;
      bool well = scale_is_right(p->planes, largest, (float)scale) && fabs(unpacked(p, side, l) - word) <= bound;
      if (word == 0)
        for (int plane = 0; plane < p->planes; plane++) well &= value_of(p->planes, *plane_at(p, side, l, plane)) == 0;
      if (!well) fail_word(x, p, side, l);
    }
}

static void check_seen(const struct tst_emulated_matrix *x, const struct packed *p) {
  const int64_t strips = p->padded_sides / STRIP;
  for (int64_t i = 0; i < p->groups * strips; i++) {
    const uint32_t want = seen_of_strip(x, p, i % strips, i / strips);
    if (p->seen[i] != want)
      fail_msg("k=%ld, group %ld, strip %ld: seen %#x, not %#x", (long)x->k, (long)(i / strips), (long)(i % strips),
               p->seen[i], want);
  }
}

static void check(const struct tst_emulated_matrix *x) {
  struct packed half = pack_one(x, HALF), bfloat = pack_one(x, BFLOAT);
  check_words(x, &half);
  check_seen(x, &half);
  check_words(x, &bfloat);
  check_seen(x, &bfloat);
  destroy_packed(&half);
  destroy_packed(&bfloat);
}

/* ---- operands ---- */

static void fill(struct tst_emulated_matrix *x, uint64_t seed) {
  uint64_t rng = seed;
  for (int64_t side = 0; side < x->sides; side++)
    for (int64_t l = 0; l < x->k; l++) *tst_emulated_at(x, side, l) = 2 * tst_random_unit(&rng) - 1;
}

static void every_place(void **state) {
  (void)state;
  static const int64_t sides[] = {1, 33, 128, 130}, depths[] = {1, 31, 33, 70};
  for (int i = 0; i < 32; i++) {
    struct tst_emulated_matrix x;
    tst_emulated_matrix_create(&x, sides[i / 2 % 4], depths[i / 8], i % 2, i % 5, i % 3);
    fill(&x, (uint64_t)i);
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

static void every_alignment(void **state) {
  (void)state;
  for (int i = 0; i < 50; i++) {
    struct tst_emulated_matrix x;
    tst_emulated_matrix_create(&x, 36, 44, i % 2, i / 2 % 5, i / 10);
    fill(&x, (uint64_t)i);
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

/* A side has a scale for each group, and what is seen in one says nothing of the others. */
static void every_group(void **state) {
  (void)state;
  static const int64_t depths[] = {1023, 1024, 1025, 2100};
  for (int i = 0; i < 8; i++) {
    struct tst_emulated_matrix x;
    tst_emulated_matrix_create(&x, 35, depths[i / 2], i % 2, 1, 0);
    fill(&x, (uint64_t)i);
    for (int64_t l = 1024; l < x.k; l++) *tst_emulated_at(&x, 34, l) *= 0x1p-20f;
    *tst_emulated_at(&x, 3, x.k - 1) = INFINITY;
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

/* A and B by one launch, with any number of blocks. */
static void two_at_once(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct tst_emulated_matrix x[2];
    const int planes = i < 2 ? HALF : BFLOAT;
    tst_emulated_matrix_create(&x[0], 70, 1030, i % 2, 0, 0);
    tst_emulated_matrix_create(&x[1], 200, 1030, i % 3 == 0, 3, 1);
    fill(&x[0], 1), fill(&x[1], 2);
    struct packed a = make_packed(&x[0], planes, 128), b = make_packed(&x[1], planes, 192);
    pack((const struct tst_emulated_matrix *const[2]){&x[0], &x[1]}, (struct packed *const[2]){&a, &b}, i % 2 ? 5 : 200,
         7);
    check_words(&x[0], &a);
    check_words(&x[1], &b);
    if (planes == HALF) check_seen(&x[0], &a), check_seen(&x[1], &b);
    destroy_packed(&a), destroy_packed(&b);
    tst_emulated_matrix_destroy(&x[0]), tst_emulated_matrix_destroy(&x[1]);
  }
}

/* ---- boundary values ---- */

/* One word among ordinary ones: at both ends of what fp16 planes hold, about where a word becomes small or loses bits,
 * and all that is no ordinary number. */
static void single_words(void **state) {
  (void)state;
  static const float words[] = {0x1p53f,         0x1.fffffep52f,  0x1p127f,   0x1.fffffep127f,
                                INFINITY,        -INFINITY,       NAN,        0,
                                -0.0f,           0x1p-126f,       0x1p-149f,  -0x1.fffffcp-127f,
                                0x1p-5f,         0x1.fffffep-6f,  0x1p-4f,    0x1.fffffep-5f,
                                0x1p-17f,        0x1.fffffep-17f, 0x1.8p-16f, 0x1.fffffep-16f,
                                0x1.000002p-15f, 0x1.fffffep-30f, 0x1p-39f,   0x1p-40f};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct tst_emulated_matrix x;
    tst_emulated_matrix_create(&x, 40, 50, i % 2, 0, 0);
    fill(&x, i);
    *tst_emulated_at(&x, 33, 17) = words[i];
    *tst_emulated_at(&x, 33, 18) = 0.75f;
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

/* Whole sides of one size: the smallest and the largest that fp16 planes take, and beyond; all zero; all subnormal. */
static void whole_sides(void **state) {
  (void)state;
  static const float sizes[] = {0,       0x1p-149f,       0x1p-126f, 0x1.fffffep-49f, 0x1p-48f, 0x1.fffffep52f,
                                0x1p53f, 0x1.fffffep119f, 0x1p120f,  0x1.fffffep127f};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct tst_emulated_matrix x;
    tst_emulated_matrix_create(&x, 40, 50, i % 2, 0, 0);
    fill(&x, i);
    for (int64_t l = 0; l < x.k; l++) *tst_emulated_at(&x, 35, l) = l % 2 ? sizes[i] : -sizes[i];
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

/* Sides that reach far: bf16 planes have a place for them down to the word that, once moved, keeps its lowest bit, and
 * where they are moved down, all its products. What they are multiplied by must not make a small word vanish unseen,
 * either. */
static void whole_range(void **state) {
  (void)state;
  static const float ends[][2] = {{0x1.fffffep60f, 0x1.fffffep-109f},
                                  {0x1.fffffep60f, 0x1.fffffep-110f},
                                  {0x1p61f, 0x1p-10f},
                                  {0x1p61f, 0x1.fffffep-11f},
                                  {0x1.fffffep127f, 0x1p56f},
                                  {0x1.fffffep127f, 0x1.fffffep55f},
                                  {0x1.fffffep-30f, 0x1.fffffep-109f},
                                  {0x1.fffffep-31f, 0x1.fffffep-110f},
                                  {0x1.fffffep-31f, 0x1.fffffep-111f},
                                  {0x1p-70f, 0x1p-149f},
                                  {0x1.fffffep-70f, 0x1p-148f},
                                  {0x1p-69f, 0x1p-149f},
                                  {0x1p-68f, 0x1p-149f},
                                  {0x1.fffffep52f, 0x1p-112f},
                                  {0x1.fffffep52f, 0x1p-126f},
                                  {0x1.fffffep52f, 0x1p-149f},
                                  {0x1p-47f, 0x1p-149f},
                                  {0x1.fffffep127f, 0x1p-149f}};
  static const bool wild[] = {false, true,  false, true, false, true, false, false, true,
                              false, false, true,  true, true,  true, true,  true,  true};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    struct tst_emulated_matrix x;
    tst_emulated_matrix_create(&x, 1, 50, false, 0, 0);
    for (int64_t l = 0; l < x.k; l++) *tst_emulated_at(&x, 0, l) = 0.75f * ends[i][0];
    *tst_emulated_at(&x, 0, 3) = ends[i][0], *tst_emulated_at(&x, 0, 40) = -ends[i][1];
    if (is_wild(&x, BFLOAT, 0, 0) != wild[i]) fail_msg("%a and %a", (double)ends[i][0], (double)ends[i][1]);
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

/* Words far apart: 32 binades, or one more; and most of them small: 7 of 8, or one more; zeros are small, too. */
static void few_words_far_from_others(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    struct tst_emulated_matrix x;
    const int large = i & 1 ? 7 : 8, binades = i & 2 ? 33 : 32;
    tst_emulated_matrix_create(&x, 1, 64, i & 1, 0, 0);
    for (int64_t l = 0; l < x.k; l++) *tst_emulated_at(&x, 0, l) = l < large ? -0x1p-4f : i & 4 ? 0 : 0x1.ap-9f;
    *tst_emulated_at(&x, 0, 3) = 1, *tst_emulated_at(&x, 0, 50) = ldexpf(1.5f, -binades);
    assert_int_equal(is_wild(&x, BFLOAT, 0, 0), (i & 3) == 3);
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

/* Whether the group of which so many words, of `existing`, are not small is said to have few large ones. */
static bool is_seen_with_few(int64_t large, int64_t existing) {
  struct tst_emulated_matrix x;
  tst_emulated_matrix_create(&x, 1, existing, large & 1, 0, 0);
  for (int64_t l = 0; l < x.k; l++)
    *tst_emulated_at(&x, 0, l) = l * 37 % existing < large ? -0x1.8p3f : l % 2 ? 0 : 0x1p-2f;
  struct packed p = pack_one(&x, BFLOAT);
  const bool few = p.seen[0] >> 28 & 1;
  destroy_packed(&p);
  check(&x);
  tst_emulated_matrix_destroy(&x);
  return few;
}

static void few_large_words(void **state) {
  (void)state;
  assert_true(is_seen_with_few(7, 1024) && !is_seen_with_few(8, 1024));
  assert_true(is_seen_with_few(1, 129) && !is_seen_with_few(1, 128));
  assert_true(is_seen_with_few(4, 513) && !is_seen_with_few(5, 640));
}

/* Far apart and mostly small is left to plain fp32 only where k, all of it, is short and more than a few are large. */
static void far_and_long(void **state) {
  (void)state;
  static const struct {
    int64_t k, large;
    bool wild;
  } rows[] = {{511, 4, true}, {511, 3, false}, {512, 4, false}, {1100, 60, false}, {100, 1, true}, {200, 1, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct tst_emulated_matrix x;
    tst_emulated_matrix_create(&x, 1, rows[i].k, i & 1, 0, 0);
    for (int64_t l = 0; l < x.k; l++) *tst_emulated_at(&x, 0, l) = l < rows[i].large ? 1.5f : 0x1p-40f;
    assert_int_equal(is_wild(&x, BFLOAT, 0, 0), rows[i].wild);
    check(&x);
    tst_emulated_matrix_destroy(&x);
  }
}

/* ---- when bf16 planes are packed ---- */

static bool is_packed(int left) {
  struct tst_emulated_matrix x;
  tst_emulated_matrix_create(&x, 3, 5, false, 0, 0);
  fill(&x, 1);
  struct packed p = make_packed(&x, BFLOAT, 128);
  pack((const struct tst_emulated_matrix *const[2]){&x}, (struct packed *const[2]){&p}, 2, left);
  const bool packed = !isnan(value_of(BFLOAT, p.word[0]));
  for (int64_t i = 0; i < p.padded_sides * p.padded_k * p.planes; i++)
    assert_true(isnan(value_of(BFLOAT, p.word[i])) == !packed);
  destroy_packed(&p);
  tst_emulated_matrix_destroy(&x);
  return packed;
}

static void only_where_needed(void **state) {
  (void)state;
  assert_false(is_packed(-1));
  for (int block = 0; block < MARKS; block += 131) assert_true(is_packed(block));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_place),       cmocka_unit_test(every_alignment),
      cmocka_unit_test(every_group),       cmocka_unit_test(two_at_once),
      cmocka_unit_test(single_words),      cmocka_unit_test(whole_sides),
      cmocka_unit_test(whole_range),       cmocka_unit_test(few_words_far_from_others),
      cmocka_unit_test(few_large_words),   cmocka_unit_test(far_and_long),
      cmocka_unit_test(only_where_needed),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  tst_emulated_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
