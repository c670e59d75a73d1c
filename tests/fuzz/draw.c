/* SPDX-License-Identifier: BSD-3-Clause */
/* What call.h draws. Chances stand where they are used; together they keep the work of a call bounded. */
#include <complex.h>
#include <math.h>
#include <stdio.h>

#include "call.h"
#include "rng.h"

#define BYTES_MAX 160000000 /* of the three operands: they are filled, sent, widened and compared */

static int64_t below(uint64_t *rng, int64_t n) { return tst_random_below(rng, n); }

static bool one_in(uint64_t *rng, int64_t n) { return below(rng, n) == 0; }

/* From low to high, each binade as likely as the next. */
static int64_t between(uint64_t *rng, double low, double high) {
  return (int64_t)(low * pow(high / low, tst_random_unit(rng)));
}

static int64_t edge(uint64_t *rng) {
  static const int64_t edges[] = {16, 32, 64, 96, 128, 192, 256, 384};
  return edges[below(rng, 8)] + below(rng, 5) - 2;
}

/* Sizes of a class: tiny ones, edges of tiles, middling, thin, a long k, the tensor cores', large. */
static void draw_sizes(uint64_t *rng, int64_t size[3]) {
  const int64_t class = below(rng, 1000);
  for (int i = 0; i < 3; i++) {
    if (class < 250)
      size[i] = below(rng, 41);
    else if (class < 550)
      size[i] = one_in(rng, 3) ? 1 + below(rng, 300) : edge(rng);
    else if (class < 840)
      size[i] = between(rng, 20, 700);
    else if (class < 920)
      size[i] = between(rng, 30, 12000);
    else if (class < 959)
      size[i] = between(rng, 1, 200);
    else if (class < 999)
      size[i] = between(rng, 250, 2300);
    else
      size[i] = between(rng, 2000, 6000);
  }
  if (class >= 840 && class < 920) size[below(rng, 3)] = 1 + below(rng, 9);
  if (class >= 920 && class < 959) size[2] = between(rng, 1000, 60000);
}

static int64_t bytes_of(const struct fuzz_call *call) {
  const struct tst_problem *p = &call->p;
  const enum tst_type type = call->symbol->type;
  return (p->m * p->k + p->k * p->n + p->m * p->n) * tst_parts(type) * tst_part_bytes(type);
}

/* Of doubles: the product in twice their precision takes a core seconds then. */
#define MOST_OF_DOUBLES 4e8

static bool fits(const struct fuzz_call *call, double most) {
  const enum tst_type type = call->symbol->type;
  const double parts = tst_parts(type), limit = tst_part_bytes(type) == 8 ? fmin(most, MOST_OF_DOUBLES) : most;
  return parts * parts * (double)call->p.m * (double)call->p.n * (double)call->p.k <= limit &&
         bytes_of(call) <= BYTES_MAX;
}

static double draw_real(uint64_t *rng, enum tst_type type, bool exact) {
  static const double scalars[] = {0, 1, 1, 1, -1, -1, 2, -0.5, 0.7, -1.3};
  const double x = one_in(rng, 50) ? NAN : scalars[below(rng, exact ? 8 : 10)];
  return tst_is_double(type) ? x : (float)x;
}

/* Not 0 + NaN i: OpenBLAS takes such a beta for 0. */
static double complex draw_scalar(uint64_t *rng, enum tst_type type, bool exact) {
  const double re = draw_real(rng, type, exact);
  const double im = tst_parts(type) == 2 && one_in(rng, 2) ? draw_real(rng, type, exact) : 0;
  return CMPLX(re == 0 && isnan(im) ? 1 : re, im);
}

static int64_t draw_amplitude(uint64_t *rng, enum tst_type type) {
  static const int64_t amplitudes[] = {1, 3, 15, 60, 255, 1023, 2895, 4095};
  return tst_is_double(type) ? ((int64_t)1 << (1 + below(rng, 26))) - 1 : amplitudes[below(rng, 8)];
}

static double whole(double x) { return x == -0.5 ? -1 : x; }

/* With p significant bits, sums of all products times alpha, and C's words times beta, stay below 2^p in whole halves:
 * a scalar doubles, or of two parts of 2 each takes four times as much. So sums are at most 2^(p-2), or in complex ones
 * 2^(p-3), and 2^(p-1) if they are neither doubled nor halved; C's words are short. A few products only, in an A that
 * is mostly 0, leave room for a word of 12 bits, which the tensor cores have to take apart, or of doubles one of 25. */
static void draw_amplitudes(struct fuzz_call *call, uint64_t *rng) {
  static const int64_t lone_words[TST_TYPES][2] = {
      {2895, 2895}, {(1 << 25) - 1, (1 << 25) - 1}, {4095, 1023}, {(1 << 25) - 1, (1 << 25) - 1}};
  const enum tst_type type = call->symbol->type;
  const int64_t k = call->p.k > 0 ? call->p.k : 1, room = (int64_t)1 << (tst_is_double(type) ? 51 : 23);
  const bool sparse = call->values == FUZZ_INTEGERS && call->layout != FUZZ_A_OVER_B && one_in(rng, 4);
  const bool lone = sparse && one_in(rng, 2); /* one product, of long words */
  call->stride_k = lone ? k : sparse ? (k + below(rng, 4)) / (1 + below(rng, 4)) : 1;
  if (call->stride_k < 1) call->stride_k = 1;
  const int64_t products = (k + call->stride_k - 1) / call->stride_k * tst_parts(type);
  int64_t a, b;
  do {
    a = lone ? lone_words[type][0] : draw_amplitude(rng, type);
    b = lone ? lone_words[type][1] : draw_amplitude(rng, type);
  } while (a * b > room / products && (a > 1 || b > 1));
  if (call->layout == FUZZ_A_OVER_B) a = b = a < b ? a : b; /* one's words are the other's, too */
  call->amplitude[0] = a, call->amplitude[1] = b, call->amplitude[2] = tst_is_double(type) ? ((int64_t)1 << 40) : 255;
  if (call->values != FUZZ_INTEGERS || a * b * products <= room / (2 * tst_parts(type))) return;
  call->p.alpha = 1;
  call->p.beta = CMPLX(whole(creal(call->p.beta)), whole(cimag(call->p.beta)));
}

static void draw_shapes(struct fuzz_call *call) {
  const struct tst_problem *p = &call->p;
  const int64_t rows[3] = {p->m, p->k, p->m}, columns[3] = {p->k, p->n, p->n};
  const char letters[3] = {p->trans_a, p->trans_b, 'N'};
  for (int i = 0; i < 3; i++) {
    const bool swapped = p->row_major != ((letters[i] | 0x20) != 'n'); /* ASCII lower case */
    call->len[i] = swapped ? columns[i] : rows[i];
    call->lines[i] = swapped ? rows[i] : columns[i];
  }
}

/* Leading dimensions and first addresses: tight or padded, aligned to whole vectors or to a part alone. */
static void draw_alignment(struct fuzz_call *call, uint64_t *rng) {
  const int64_t bytes = tst_parts(call->symbol->type) * tst_part_bytes(call->symbol->type);
  int64_t *ld[3] = {&call->p.lda, &call->p.ldb, &call->p.ldc};
  int64_t together = 0;
  for (int i = 0; i < 3; i++) {
    const bool aligned = one_in(rng, 2);
    const int64_t least = call->len[i] > 1 ? call->len[i] : 1;
    *ld[i] = least + (one_in(rng, 2) ? below(rng, 70) : 0);
    if (aligned) *ld[i] = (*ld[i] + 3) / 4 * 4;
    call->lead[i] = aligned ? 32 * (1 + below(rng, 4)) : 16 + below(rng, 100);
    if (call->kind[i] == FUZZ_FENCED_BEFORE) call->lead[i] = 0;
    together += *ld[i];
  }
  if (call->layout != FUZZ_SUBMATRICES) return;
  for (int i = 0; i < 3; i++)
    if (call->lines[i] * together * bytes > BYTES_MAX) call->layout = FUZZ_ONE_BLOCK;
  for (int i = 0; i < 3 && call->layout == FUZZ_SUBMATRICES; i++) *ld[i] = together;
}

static void draw_memory(struct fuzz_call *call, uint64_t *rng, bool own) {
  static const enum fuzz_layout layouts[] = {FUZZ_A_OVER_B, FUZZ_ONE_BLOCK, FUZZ_SUBMATRICES};
  call->layout = one_in(rng, 5) ? layouts[below(rng, 3)] : FUZZ_APART;
  for (int i = 0; i < 3; i++) {
    call->kind[i] = (enum fuzz_kind)below(rng, own ? FUZZ_PINNED : FUZZ_KINDS);
    call->fresh[i] = one_in(rng, 10);
  }
  if (call->layout != FUZZ_APART) call->kind[1] = call->kind[0];
  if (call->layout == FUZZ_ONE_BLOCK || call->layout == FUZZ_SUBMATRICES) call->kind[2] = call->kind[0];
}

/* Without a limit; with the least that lets pieces of 128 x 128 x 256 pass, or somewhat more; and with a part of the
 * operands, a fiftieth at least, so that pieces are not many thousands. */
static void draw_limit(struct fuzz_call *call, uint64_t *rng) {
  const int64_t kib = bytes_of(call) >> 10, least = 340 * tst_part_bytes(call->symbol->type) / 4;
  int64_t limit = 0;
  if (one_in(rng, 3))
    limit = least + kib / 50 + below(rng, 900);
  else if (one_in(rng, 3))
    limit = least + kib / 50 + below(rng, kib + 1);
  snprintf(call->memory_limit, sizeof call->memory_limit, "%lldK", (long long)limit);
}

static void draw_options(struct fuzz_call *call, uint64_t *rng) {
  static const char *const routes[] = {"gpu", "auto", "cpu"}, *const precisions[] = {"fp32", "ieee", "fast"};
  static const char *const shares[] = {"always", "never", "auto"};
  const int64_t chance = below(rng, 10);
  call->route = routes[chance < 7 ? 0 : chance < 9 ? 1 : 2];
  call->precision = precisions[one_in(rng, 2) ? 0 : 1 + below(rng, 2)];
  call->share = shares[one_in(rng, 2) ? 0 : 1 + below(rng, 2)];
  call->verbose = one_in(rng, 400);
  draw_limit(call, rng);
}

/* Names of sgemm, which has the most ways to go, more often than others; of gemm3m, which is another name alone, less.
 */
static const struct tst_symbol *draw_symbol(uint64_t *rng) {
  static const int routines[] = {0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5}; /* s, d, c, z, c3m, z3m */
  return &tst_symbols[routines[below(rng, 11)] * TST_SPELLINGS + below(rng, TST_SPELLINGS)];
}

void fuzz_draw(struct fuzz_call *call, uint64_t *rng, const struct fuzz_limits *limits) {
  static const enum fuzz_values values[] = {FUZZ_INTEGERS, FUZZ_INTEGERS, FUZZ_INTEGERS,  FUZZ_SIGNED, FUZZ_SIGNED,
                                            FUZZ_POSITIVE, FUZZ_WIDE,     FUZZ_SUBNORMAL, FUZZ_SPECIAL};
  *call = (struct fuzz_call){.symbol = draw_symbol(rng)};
  struct tst_problem *p = &call->p;
  const bool fortran = tst_is_fortran(call->symbol);
  p->row_major = !fortran && one_in(rng, 2);
  p->trans_a = "NTCntc"[below(rng, fortran ? 6 : 3)];
  p->trans_b = "NTCntc"[below(rng, fortran ? 6 : 3)];
  do {
    int64_t size[3];
    draw_sizes(rng, size);
    p->m = size[0], p->n = size[1], p->k = size[2];
  } while (!fits(call, limits->most));
  call->values = values[below(rng, 9)];
  p->alpha = draw_scalar(rng, call->symbol->type, call->values == FUZZ_INTEGERS);
  p->beta = draw_scalar(rng, call->symbol->type, call->values == FUZZ_INTEGERS);
  call->c_unread = p->beta == 0 && one_in(rng, 2);
  draw_shapes(call);
  draw_memory(call, rng, limits->own_memory);
  draw_amplitudes(call, rng);
  draw_alignment(call, rng);
  draw_options(call, rng);
}
