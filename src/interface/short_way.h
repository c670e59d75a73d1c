/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The short way: a small call that the CPU BLAS answers without further thought, which is what most programs make most
 * of. It decides and counts as run.c does, in a third of the instructions (bench/run overhead), because it is inline
 * where the arguments arrive, hands them on once, and leaves every rare case to the long way: the first call of a
 * thread or through a symbol, arguments to be refused, nothing to multiply, memory that may be a GPU's, a call that
 * somebody looks at, a call from inside the CPU BLAS. Takes no lock, allocates nothing, reads no environment.
 * Thread-safe.
 */
#ifndef TB_SHORT_WAY_H
#define TB_SHORT_WAY_H

#include "base/inline.h"
#include "cpu/fallback.h"
#include "cuda/place.h"
#include "interface/stats.h"
#include "route/small.h"

/* A condition by itself, and what follows it out of the way. */
#define TB_RARELY(condition) __builtin_expect(condition, 0)

/* Sizes below this: their product is no overflow. */
#define TB_SMALL_SIDE_MAX ((int64_t)1 << 20)

/* Whether it is a small product: no size is negative or zero, nor is alpha. *terms is m n k, or of a triangle, where m
 * is n, what of it is computed, or half of them where an operand is a triangle. */
TB_ALWAYS_INLINE bool tb_small_sizes(enum tb_signature signature, enum tb_type type, int64_t m, int64_t n, int64_t k,
                                     union tb_scalar alpha, uint64_t *terms) {
  if (TB_RARELY((uint64_t)(m | n | k) >= (uint64_t)TB_SMALL_SIDE_MAX)) return false;
  if (TB_RARELY(tb_scalar_is_zero(type, alpha))) return false;
  const uint64_t elems = signature == TB_SIGNATURE_gemm || tb_has_side(signature) ? (uint64_t)m * (uint64_t)n
                                                                                  : (uint64_t)n * ((uint64_t)n + 1) / 2;
  *terms = elems * (uint64_t)k * (tb_is_of_rank_2k(signature) ? 2 : 1);
  if (tb_is_triangular(signature)) *terms = (*terms + 1) / 2;
  return !TB_RARELY(*terms - 1 >= atomic_load_explicit(&tb_small.terms[type], memory_order_relaxed) - 1);
}

/*
 * For a valid call of such a product whose leading dimensions, too, the function can express: the function that answers
 * it, from `direct`, which has the symbol's own ABI; the call is counted. NULL: the call must go the long way, and is
 * not counted. The caller sets tb_thread.cpu_depth to 1 around the function's call.
 */
TB_ALWAYS_INLINE void *tb_small_begin(_Atomic(void *) *direct, enum tb_symbol symbol, enum tb_type type, const void *a,
                                      const void *b, const void *c, uint64_t terms) {
  void *function = atomic_load_explicit(&direct[symbol], memory_order_acquire);
  if (TB_RARELY(function == NULL)) return NULL;
  struct tb_small_sums *sums = tb_thread.small_sums;
  if (TB_RARELY(sums == NULL)) return NULL;
  if (TB_RARELY(tb_in_fallback())) return NULL;
  if (TB_RARELY(!tb_places_are_harmless(a, b, c))) return NULL;
  sums += atomic_load_explicit(&tb_small.which, memory_order_relaxed);
  tb_stats_add_small(sums, symbol, (uint64_t)tb_type_flops(type) * terms);
  return function;
}

#endif
