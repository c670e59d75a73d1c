/* SPDX-License-Identifier: BSD-3-Clause */
/* What call.h draws, see also chance.h. */
#include <complex.h>
#include <math.h>

#include "call.h"

static int64_t bytes_of(const struct fuzz_call *call) {
  const struct tst_problem *p = &call->p;
  const enum tst_type type = call->symbol->type;
  return (p->m * p->k + p->k * p->n + p->m * p->n) * tst_parts(type) * tst_part_bytes(type);
}

static bool fits(const struct fuzz_call *call, double most) {
  const enum tst_type type = call->symbol->type;
  const double parts = tst_parts(type), limit = tst_part_bytes(type) == 8 ? fmin(most, FUZZ_MOST_OF_DOUBLES) : most;
  return parts * parts * (double)call->p.m * (double)call->p.n * (double)call->p.k <= limit &&
         bytes_of(call) <= FUZZ_BYTES_MAX;
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
  const bool sparse = call->values == FUZZ_INTEGERS && call->layout != FUZZ_A_OVER_B && fuzz_one_in(rng, 4);
  const bool lone = sparse && fuzz_one_in(rng, 2); /* one product, of long words */
  call->stride_k = lone ? k : sparse ? (k + fuzz_below(rng, 4)) / (1 + fuzz_below(rng, 4)) : 1;
  if (call->stride_k < 1) call->stride_k = 1;
  const int64_t products = (k + call->stride_k - 1) / call->stride_k * tst_parts(type);
  int64_t a, b;
  do {
    a = lone ? lone_words[type][0] : fuzz_draw_amplitude(rng, type);
    b = lone ? lone_words[type][1] : fuzz_draw_amplitude(rng, type);
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
    const bool aligned = fuzz_one_in(rng, 2);
    const int64_t least = call->len[i] > 1 ? call->len[i] : 1;
    *ld[i] = least + (fuzz_one_in(rng, 2) ? fuzz_below(rng, 70) : 0);
    if (aligned) *ld[i] = (*ld[i] + 3) / 4 * 4;
    call->lead[i] = aligned ? 32 * (1 + fuzz_below(rng, 4)) : 16 + fuzz_below(rng, 100);
    if (call->kind[i] == FUZZ_FENCED_BEFORE) call->lead[i] = 0;
    together += *ld[i];
  }
  if (call->layout != FUZZ_SUBMATRICES) return;
  for (int i = 0; i < 3; i++)
    if (call->lines[i] * together * bytes > FUZZ_BYTES_MAX) call->layout = FUZZ_ONE_BLOCK;
  for (int i = 0; i < 3 && call->layout == FUZZ_SUBMATRICES; i++) *ld[i] = together;
}

static void draw_memory(struct fuzz_call *call, uint64_t *rng, bool own) {
  static const enum fuzz_layout layouts[] = {FUZZ_A_OVER_B, FUZZ_ONE_BLOCK, FUZZ_SUBMATRICES};
  call->layout = fuzz_one_in(rng, 5) ? layouts[fuzz_below(rng, 3)] : FUZZ_APART;
  for (int i = 0; i < 3; i++) {
    call->kind[i] = (enum fuzz_kind)fuzz_below(rng, own ? FUZZ_PINNED : FUZZ_KINDS);
    call->fresh[i] = fuzz_one_in(rng, 10);
  }
  if (call->layout != FUZZ_APART) call->kind[1] = call->kind[0];
  if (call->layout == FUZZ_ONE_BLOCK || call->layout == FUZZ_SUBMATRICES) call->kind[2] = call->kind[0];
}

/* Names of sgemm, which has the most ways to go, more often than others; of gemm3m, which is another name alone, less.
 */
static const struct tst_symbol *draw_symbol(uint64_t *rng) {
  static const int routines[] = {0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5}; /* s, d, c, z, c3m, z3m */
  return &tst_symbols[routines[fuzz_below(rng, 11)] * TST_SPELLINGS + fuzz_below(rng, TST_SPELLINGS)];
}

void fuzz_draw(struct fuzz_call *call, uint64_t *rng, const struct fuzz_limits *limits) {
  static const enum fuzz_values values[] = {FUZZ_INTEGERS, FUZZ_INTEGERS, FUZZ_INTEGERS,  FUZZ_SIGNED, FUZZ_SIGNED,
                                            FUZZ_POSITIVE, FUZZ_WIDE,     FUZZ_SUBNORMAL, FUZZ_SPECIAL};
  *call = (struct fuzz_call){.symbol = draw_symbol(rng)};
  struct tst_problem *p = &call->p;
  const bool fortran = tst_is_fortran(call->symbol);
  p->row_major = !fortran && fuzz_one_in(rng, 2);
  p->trans_a = "NTCntc"[fuzz_below(rng, fortran ? 6 : 3)];
  p->trans_b = "NTCntc"[fuzz_below(rng, fortran ? 6 : 3)];
  do {
    int64_t size[3];
    fuzz_draw_sizes(rng, size);
    p->m = size[0], p->n = size[1], p->k = size[2];
  } while (!fits(call, limits->most));
  call->values = values[fuzz_below(rng, 9)];
  p->alpha = fuzz_draw_scalar(rng, call->symbol->type, call->values == FUZZ_INTEGERS);
  p->beta = fuzz_draw_scalar(rng, call->symbol->type, call->values == FUZZ_INTEGERS);
  call->c_unread = p->beta == 0 && fuzz_one_in(rng, 2);
  draw_shapes(call);
  draw_memory(call, rng, limits->own_memory);
  draw_amplitudes(call, rng);
  draw_alignment(call, rng);
  /* Pieces of 128 x 128 x 256 pass. */
  fuzz_draw_options(&call->options, rng, bytes_of(call), fuzz_least_kib(call->symbol->type));
}
