/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products with a part of a symmetric or Hermitian matrix, which a BLAS has no routine for: what a GPU left of a symm.
 * A part has a square of the diagonal, or none, and rectangles of either triangle, which are plain operands: those of
 * the one that is not stored are read from their mirror images.
 *
 *      u u u u u
 *      d d d u u      bands of C: the rows above the square, those of it, those below; of the columns, where
 *      l d d u u      the operand is on the right
 *      l l l l l
 *
 * Thread-safe; allocates nothing.
 */
#include "base/integers.h"
#include "cpu/fallback_internal.h"

static bool is_on_left(const struct tb_call *call) { return tb_view_is_mirrored(&call->a); }

bool tb_has_all_of_mirrored(const struct tb_call *call) {
  return is_on_left(call) ? call->a.diagonal == 0 && call->m == call->k : call->b.diagonal == 0 && call->n == call->k;
}

/* From one index of a part on, so many. */
struct span {
  int64_t at, count;
};

/* A band of C from so many terms of k; `adds`: to what others have left there. */
static __attribute__((noinline)) void compute_piece(const struct tb_call *call, struct span band, struct span terms,
                                                    bool adds) {
  const bool left = is_on_left(call);
  if (band.count <= 0 || terms.count <= 0) return;
  struct tb_call piece =
      left ? tb_call_part(call, band.at, band.count, 0, call->n) : tb_call_part(call, 0, call->m, band.at, band.count);
  piece.a = tb_view_at(piece.a, 0, terms.at);
  piece.b = tb_view_at(piece.b, terms.at, 0);
  piece.k = terms.count;
  if (adds) piece.beta = tb_scalar_of(call->type, 1);
  struct tb_view *const mirrored = left ? &piece.a : &piece.b;
  if (mirrored->diagonal != 0 || band.count != terms.count) {
    if (!tb_view_stores(mirrored, 0, 0)) *mirrored = tb_view_mirrored(*mirrored);
    mirrored->structure = TB_GENERAL;
    piece.symbol = tb_gemm_of(call->symbol);
  }
  tb_fallback_compute(&piece);
}

/* Along C the square begins at `ahead`, or along k at -ahead. */
void tb_fallback_mirrored(const struct tb_call *call) {
  const bool left = is_on_left(call);
  const int64_t along_c = left ? call->m : call->n, k = call->k, ahead = left ? call->a.diagonal : -call->b.diagonal;
  const int64_t first = tb_max(0, tb_min(ahead, along_c)), end = tb_max(first, tb_min(along_c, k + ahead));
  const int64_t before = tb_max(0, tb_min(k, -ahead));
  const struct span square = {first, end - first}, all = {0, k};
  const int64_t behind = before + square.count;
  compute_piece(call, (struct span){0, first}, all, false);
  compute_piece(call, square, (struct span){0, before}, false);
  compute_piece(call, square, (struct span){before, square.count}, before > 0);
  compute_piece(call, square, (struct span){behind, k - behind}, true);
  compute_piece(call, (struct span){end, along_c - end}, all, false);
}
