/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the CPU BLAS that fallback.c found, as the program made them or as products. Thread-safe. */
#include "base/integers.h"
#include "cpu/fallback_internal.h"
#include "cpu/reference.h"
#include "cpu/signatures.h"

/*
 * Always by 64-bit integers, which a BLAS with 32-bit ones takes as well: it looks at the lower half of a register, a
 * stack slot or a little-endian variable. So a BLAS that has 64-bit integers under the plain names (libblas64,
 * libopenblas64, MKL's ilp64) gets numbers that it can read, too.
 */
_Static_assert(sizeof(void *) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "integer arguments of either width are passed alike");

static void call_function(const struct tb_target *t, const struct tb_arguments *x) {
  const struct tb_routine_info *const routine = tb_routine_of(t->as);
  if (tb_symbols[t->as].abi == TB_ABI_CBLAS)
    tb_call_cblas(t->behind.function, routine->signature, routine->type, x, &x->alpha, &x->beta);
  else
    tb_call_fortran(t->behind.function, routine->signature, x);
}

static bool all_fit(const struct tb_target *t, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  return t->wide || (tb_fits_int32(m) && tb_fits_int32(n) && tb_fits_int32(k) && tb_fits_int32(lda) &&
                     tb_fits_int32(ldb) && tb_fits_int32(ldc));
}

/*
 * The reference reads neither A nor B when alpha or k is zero. OpenBLAS's kernels for small matrices (which
 * it has for processors with AVX-512) multiply all the same: 0 * NaN comes in from A and B, and alpha = NaN in spite of
 * k = 0. With both zero nothing is left to multiply. For valid calls alone: what is wrong with another may lie in k.
 */
static void read_nothing_needless(enum tb_type type, struct tb_arguments *x) {
  if (!tb_scalar_is_zero(type, x->alpha) && x->k != 0) return;
  x->alpha = tb_scalar_of(type, 0);
  x->k = 0;
}

/* A view as the option of a call, in CBLAS's numbering or Fortran's letters. */
static int trans_of(enum tb_abi abi, struct tb_view x) {
  static const int said[2][3] = {
      [TB_ABI_CBLAS] = {TB_NO_TRANS, TB_TRANS, TB_CONJ_TRANS}, [TB_ABI_FORTRAN] = {'N', 'T', 'C'}};
  return said[abi][x.transposed + x.conjugated];
}

/* What of a call with a symmetric, Hermitian or triangular operand is said otherwise: that operand is A, on its side.
 */
static void say_structure(struct tb_arguments *x, enum tb_abi abi, const struct tb_call *g) {
  static const int sides[][2] = {[TB_ABI_CBLAS] = {TB_SAID_LEFT, TB_SAID_RIGHT}, [TB_ABI_FORTRAN] = {'L', 'R'}};
  static const int uplos[][2] = {[TB_ABI_CBLAS] = {TB_SAID_UPPER, TB_SAID_LOWER}, [TB_ABI_FORTRAN] = {'U', 'L'}};
  static const int diags[][2] = {[TB_ABI_CBLAS] = {TB_SAID_NON_UNIT, TB_SAID_UNIT}, [TB_ABI_FORTRAN] = {'N', 'U'}};
  const bool second = tb_view_is_mirrored(&g->b);
  const struct tb_view *const a = second ? &g->b : &g->a, *const b = second ? &g->a : &g->b;
  x->side = sides[abi][second || g->on_right];
  x->uplo = uplos[abi][a->uplo];
  x->diag = diags[abi][a->unit];
  x->a = a->data, x->lda = a->ld;
  x->b = b->data, x->ldb = b->ld;
}

/* A valid column-major call that the target's integers can express. */
static void call_target(const struct tb_target *t, const struct tb_call *g) {
  const enum tb_abi abi = tb_symbols[t->as].abi;
  struct tb_arguments x = {.layout = TB_COL_MAJOR,
                           .transa = trans_of(abi, g->a),
                           .transb = trans_of(abi, g->b),
                           .m = g->m,
                           .n = g->n,
                           .k = g->k,
                           .alpha = g->alpha,
                           .beta = g->beta,
                           .a = g->a.data,
                           .b = g->b.data,
                           .c = g->c,
                           .lda = g->a.ld,
                           .ldb = g->b.ld,
                           .ldc = g->ldc};
  if (tb_has_side(tb_routine_of(t->as)->signature)) say_structure(&x, abi, g);
  read_nothing_needless(g->type, &x);
  tb_thread.cpu_depth++;
  call_function(t, &x);
  tb_thread.cpu_depth--;
}

static void compute_by_loops(const struct tb_call *g) {
  if (g->recipe == TB_MULTIPLY)
    tb_reference_gemm(g);
  else
    tb_reference_triangular(g);
}

/* As much of a size as a BLAS with 32 bits is given at once. */
#define STEP ((int64_t)1 << 30)

/* A matrix that is not general is not cut, and it is smaller than that. */
static void call_in_pieces_with_side(const struct tb_target *t, const struct tb_call *g) {
  const bool on_right = g->on_right || tb_view_is_mirrored(&g->b);
  for (int64_t i = 0; i < (on_right ? g->m : g->n); i += STEP) {
    const struct tb_call piece = on_right ? tb_call_part(g, i, tb_min(STEP, g->m - i), 0, g->n)
                                          : tb_call_part(g, 0, g->m, i, tb_min(STEP, g->n - i));
    call_target(t, &piece);
  }
}

/* Sizes beyond 32 bits in pieces that a 32-bit BLAS can express; leading dimensions beyond them by the plain loops. */
static void call_in_pieces(const struct tb_target *t, const struct tb_call *g) {
  if (!tb_fits_int32(g->a.ld) || !tb_fits_int32(g->b.ld) || !tb_fits_int32(g->ldc)) {
    compute_by_loops(g);
    return;
  }
  if (tb_has_side(tb_routine_of(t->as)->signature)) {
    call_in_pieces_with_side(t, g);
    return;
  }
  for (int64_t j = 0; j < g->n; j += STEP) {
    for (int64_t i = 0; i < g->m; i += STEP) {
      struct tb_call part = tb_call_part(g, i, tb_min(STEP, g->m - i), j, tb_min(STEP, g->n - j));
      for (int64_t l = 0; l == 0 || l < g->k; l += STEP) {
        struct tb_call piece = part;
        piece.k = tb_min(STEP, g->k - l);
        piece.a = tb_view_at(part.a, 0, l);
        piece.b = tb_view_at(part.b, l, 0);
        piece.beta = l == 0 ? g->beta : tb_scalar_of(g->type, 1);
        call_target(t, &piece);
      }
    }
  }
}

/* Conjugated and not transposed, of which the reference's gemm knows nothing: a batch's operand may be (batch.h). */
static bool is_only_conjugated(struct tb_view x) { return x.conjugated && !x.transposed; }

void tb_fallback_compute(const struct tb_call *g) {
  if (g->region.of != TB_WHOLE) {
    tb_fallback_triangle(g);
    return;
  }
  if (tb_call_is_mirrored(g) && !tb_has_all_of_mirrored(g)) {
    tb_fallback_mirrored(g);
    return;
  }
  const struct tb_target *t = tb_fallback_target(g->symbol);
  if (t->behind.function == NULL || is_only_conjugated(g->a) || is_only_conjugated(g->b))
    compute_by_loops(g);
  else if (all_fit(t, g->m, g->n, g->k, g->a.ld, g->b.ld, g->ldc))
    call_target(t, g);
  else
    call_in_pieces(t, g);
}

/* Of its own, so that its arguments do not lie on the stack while a target is searched for. */
static __attribute__((noinline)) void call_as_made(const struct tb_target *t, bool valid,
                                                   const struct tb_arguments *made) {
  struct tb_arguments x = *made;
  if (valid) read_nothing_needless(tb_routine_of(t->as)->type, &x);
  tb_thread.cpu_depth += valid;
  call_function(t, &x);
  tb_thread.cpu_depth -= valid;
}

static __attribute__((noinline)) void call_from_views(enum tb_symbol symbol, const struct tb_arguments *made) {
  struct tb_call call;
  tb_call_from(&call, symbol, made);
  tb_fallback_compute(&call);
}

/* Whether the target can be handed the arguments as they are, and says of wrong ones what the program expects. */
static bool takes(const struct tb_target *t, enum tb_symbol symbol, int refused, const struct tb_arguments *x) {
  return t->behind.function != NULL && tb_takes_the_same(t->as, symbol) &&
         (refused == 0 || tb_symbols[t->as].routine == tb_symbols[symbol].routine) &&
         all_fit(t, x->m, x->n, x->k, x->lda, x->ldb, x->ldc);
}

void tb_fallback_as_made(enum tb_symbol symbol, int refused, const struct tb_arguments *x) {
  const struct tb_target *t = tb_fallback_target(symbol);
  if (takes(t, symbol, refused, x))
    call_as_made(t, refused == 0, x);
  else if (refused == 0)
    call_from_views(symbol, x);
  else
    tb_reference_xerbla(symbol, refused);
}
