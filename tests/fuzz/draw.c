/* SPDX-License-Identifier: BSD-3-Clause */
/* What call.h draws. Chances stand where they are used; together they keep the work of a call bounded. */
#include <math.h>
#include <stdio.h>

#include "call.h"
#include "rng.h"

#define ELEMENTS_MAX 40000000 /* of the three operands: they are filled, sent, widened and compared */

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

static bool fits(const struct tst_problem *p, int64_t most) {
  return (double)p->m * (double)p->n * (double)p->k <= (double)most &&
         p->m * p->k + p->k * p->n + p->m * p->n <= ELEMENTS_MAX;
}

static float draw_scalar(uint64_t *rng, bool exact) {
  const float scalars[] = {0, 1, 1, 1, -1, -1, 2, -0.5f, 0.7f, -1.3f};
  return one_in(rng, 50) ? NAN : scalars[below(rng, exact ? 8 : 10)];
}

/* Sums of all products, doubled, and C's words of up to 255, doubled, stay below 2^24 in whole halves: sums are at most
 * 2^22, or 2^23 if they are neither doubled nor halved. A few products only, in an A that is mostly 0, leave room for
 * two words of 12 bits, which the tensor cores have to take apart. */
static void draw_amplitudes(struct fuzz_call *call, uint64_t *rng) {
  static const int amplitudes[] = {1, 3, 15, 60, 255, 1023, 2895, 4095};
  const int64_t k = call->p.k > 0 ? call->p.k : 1;
  const bool sparse = call->values == FUZZ_INTEGERS && call->layout != FUZZ_A_OVER_B && one_in(rng, 4);
  const bool lone = sparse && one_in(rng, 2); /* one product, of words of 12 bits */
  call->stride_k = lone ? k : sparse ? (k + below(rng, 4)) / (1 + below(rng, 4)) : 1;
  if (call->stride_k < 1) call->stride_k = 1;
  const int64_t products = (k + call->stride_k - 1) / call->stride_k, most = (1 << 23) / products;
  int a, b;
  do {
    a = amplitudes[lone ? 6 : below(rng, 8)], b = amplitudes[lone ? 6 : below(rng, 8)];
  } while ((int64_t)a * b > most && (a > 1 || b > 1));
  if (call->layout == FUZZ_A_OVER_B) a = b = a < b ? a : b; /* one's words are the other's, too */
  call->amplitude_a = a, call->amplitude_b = b;
  if (call->values != FUZZ_INTEGERS || a * (int64_t)b * products <= 1 << 22) return;
  call->p.alpha = 1;
  if (call->p.beta == -0.5f) call->p.beta = -1;
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

/* Leading dimensions and first addresses: tight or padded, aligned to whole vectors or to 4 bytes alone. */
static void draw_alignment(struct fuzz_call *call, uint64_t *rng) {
  int64_t *ld[3] = {&call->p.lda, &call->p.ldb, &call->p.ldc};
  int64_t together = 0;
  for (int i = 0; i < 3; i++) {
    const bool aligned = one_in(rng, 2);
    const int64_t least = call->len[i] > 1 ? call->len[i] : 1;
    *ld[i] = least + (one_in(rng, 2) ? below(rng, 70) : 0);
    if (aligned) *ld[i] = (*ld[i] + 3) / 4 * 4;
    call->lead[i] = aligned ? 32 * (1 + below(rng, 4)) : 16 + below(rng, 100);
    together += *ld[i];
  }
  if (call->layout != FUZZ_SUBMATRICES) return;
  for (int i = 0; i < 3; i++)
    if (call->lines[i] * together > ELEMENTS_MAX) call->layout = FUZZ_ONE_BLOCK;
  for (int i = 0; i < 3 && call->layout == FUZZ_SUBMATRICES; i++) *ld[i] = together;
}

static void draw_memory(struct fuzz_call *call, uint64_t *rng) {
  static const enum fuzz_layout layouts[] = {FUZZ_A_OVER_B, FUZZ_ONE_BLOCK, FUZZ_SUBMATRICES};
  call->layout = one_in(rng, 5) ? layouts[below(rng, 3)] : FUZZ_APART;
  for (int i = 0; i < 3; i++) {
    call->kind[i] = (enum fuzz_kind)below(rng, FUZZ_KINDS);
    call->fresh[i] = one_in(rng, 10);
  }
  if (call->layout != FUZZ_APART) call->kind[1] = call->kind[0];
  if (call->layout == FUZZ_ONE_BLOCK || call->layout == FUZZ_SUBMATRICES) call->kind[2] = call->kind[0];
}

/* Without a limit; with the least that lets pieces of 128 x 128 x 256 pass, or somewhat more; and with a part of the
 * operands, a fiftieth at least, so that pieces are not many thousands. */
static void draw_limit(struct fuzz_call *call, uint64_t *rng) {
  const struct tst_problem *p = &call->p;
  const int64_t kib = (p->m * p->k + p->k * p->n + p->m * p->n) * (int64_t)sizeof(float) >> 10;
  int64_t limit = 0;
  if (one_in(rng, 3))
    limit = 340 + kib / 50 + below(rng, 900);
  else if (one_in(rng, 3))
    limit = 340 + kib / 50 + below(rng, kib + 1);
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

void fuzz_draw(struct fuzz_call *call, uint64_t *rng, int64_t most) {
  static const enum fuzz_values values[] = {FUZZ_INTEGERS, FUZZ_INTEGERS, FUZZ_INTEGERS,  FUZZ_SIGNED, FUZZ_SIGNED,
                                            FUZZ_POSITIVE, FUZZ_WIDE,     FUZZ_SUBNORMAL, FUZZ_SPECIAL};
  *call = (struct fuzz_call){.symbol = &tst_symbols[below(rng, TST_SPELLINGS)]};
  struct tst_problem *p = &call->p;
  const bool fortran = tst_is_fortran(call->symbol);
  p->row_major = !fortran && one_in(rng, 2);
  p->trans_a = "NTCntc"[below(rng, fortran ? 6 : 3)];
  p->trans_b = "NTCntc"[below(rng, fortran ? 6 : 3)];
  do {
    int64_t size[3];
    draw_sizes(rng, size);
    p->m = size[0], p->n = size[1], p->k = size[2];
  } while (!fits(p, most));
  call->values = values[below(rng, 9)];
  p->alpha = draw_scalar(rng, call->values == FUZZ_INTEGERS);
  p->beta = draw_scalar(rng, call->values == FUZZ_INTEGERS);
  call->c_unread = p->beta == 0 && one_in(rng, 2);
  draw_shapes(call);
  draw_memory(call, rng);
  draw_amplitudes(call, rng);
  draw_alignment(call, rng);
  draw_options(call, rng);
}
