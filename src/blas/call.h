/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One BLAS call, whatever symbol it came through: column-major, 64-bit sizes, operands as views. Pure, thread-safe.
 *
 *   C = alpha * op(A) * op(B) + beta * C      op(A) is m x k, op(B) is k x n, C is m x n
 *
 * or a triangle of C alone: gemmt's, and syrk's and herk's, whose B is A once more. syr2k's and her2k's is the sum of
 * two such products, the second with the operands in each other's places: C = alpha A B^T + alpha B A^T + beta C. Of
 * symm's and hemm's one operand is symmetric or Hermitian: A on the left, B on the right.
 *
 * trmm and trsm overwrite an m x n matrix with what a triangle makes of it: C = alpha op(A) C, or the X of
 * op(A) X = alpha C; with the triangle on the right alpha C op(A), or X op(A) = alpha C. A is k x k, B a view of C.
 */
#ifndef TB_BLAS_CALL_H
#define TB_BLAS_CALL_H

#include "blas/arguments.h"
#include "blas/region.h"

/* What of an operand is stored; the other half of a symmetric or Hermitian one follows from it, and that of a
 * triangular one is zero. */
enum tb_structure { TB_GENERAL, TB_SYMMETRIC, TB_HERMITIAN, TB_TRIANGULAR };
enum tb_uplo { TB_UPPER, TB_LOWER };

/* What is done with the operands. */
enum tb_recipe { TB_MULTIPLY, TB_TRIANGULAR_MULTIPLY, TB_TRIANGULAR_SOLVE };

/* An operand as it lies in memory: element (i, j) of op(X) is data[i + j * ld], or data[j + i * ld] when transposed,
 * and its conjugate when conjugated. */
struct tb_view {
  const void *data;
  int64_t ld; /* in elements */
  bool transposed, conjugated;
  bool unit;             /* of a triangular one: the diagonal is 1, and not read */
  enum tb_type type : 8; /* in so few bits because a call lies on the caller's stack */
  enum tb_structure structure : 8;
  enum tb_uplo uplo : 8; /* of one that is not general: the triangle that is stored, of X as it lies in memory */
  int64_t diagonal;      /* likewise: column j of op(X) meets its matrix's diagonal in row j + diagonal */
};

struct tb_call {
  enum tb_symbol symbol; /* the CPU's BLAS is looked up by it; nothing else looks */
  enum tb_type type;     /* of all elements and scalars */
  int64_t m, n, k;
  union tb_scalar alpha, beta;
  struct tb_view a, b;
  const void *again_a, *again_b; /* twice: the data of the second product's A and B (tb_call_exchanged) */
  void *c;
  int64_t ldc;
  struct tb_region region; /* of C, that is computed */
  int64_t group_k; /* of a part of a product: the whole's, in which its elements are added (order.h). 0: not a part */
  int64_t whole_sides; /* of a part of a triangular recipe: the whole's (triangular.h). 0: not a part */
  enum tb_recipe recipe : 8;
  bool on_right;  /* of a triangular operand: op(A) stands there */
  bool twice;     /* a second product is added */
  bool row_major; /* the program's call was; kept so that the verbose line can speak of the call as it was made */
};

/*
 * Fills *call from a program's arguments of symbol's routine, or returns the number of the first argument that the
 * reference refuses, as its xerbla would name it (then *call is unspecified); 0: none. A row-major product is its
 * transpose: C^T = op(B)^T op(A)^T, so operands and sizes change places.
 */
int tb_call_from(struct tb_call *call, enum tb_symbol symbol, const struct tb_arguments *arguments);

/* True when C = beta * C is all there is to do: an empty product or alpha = 0 (A and B are then not read). */
static inline bool tb_call_is_trivial(const struct tb_call *call) {
  return call->m == 0 || call->n == 0 || call->k == 0 || tb_scalar_is_zero(call->type, call->alpha);
}

/* Whether what is computed of C is overwritten, and never read; and whether all of C is. */
static inline bool tb_call_overwrites(const struct tb_call *call) { return tb_scalar_is_zero(call->type, call->beta); }
static inline bool tb_call_overwrites_all(const struct tb_call *call) {
  return call->region.of == TB_WHOLE && tb_call_overwrites(call);
}

/* Elements of C that are computed. */
static inline double tb_call_elems(const struct tb_call *call) {
  return tb_region_elems(call->region, call->m, call->n);
}

/* Floating-point operations of a call: a multiplication and an addition for each of the k terms of an element, of which
 * a triangular operand leaves half. */
static inline double tb_call_flops(const struct tb_call *call) {
  const double times = call->twice ? 2 : call->recipe == TB_MULTIPLY ? 1 : 0.5;
  return times * tb_type_flops(call->type) * tb_call_elems(call) * (double)call->k;
}

/* The rows of op(A) and of op(B). Their columns are k and n. */
static inline int64_t tb_call_a_rows(const struct tb_call *call) {
  return call->recipe == TB_MULTIPLY ? call->m : call->k;
}
static inline int64_t tb_call_b_rows(const struct tb_call *call) {
  return call->recipe == TB_MULTIPLY ? call->k : call->m;
}

/* The elements of op(X) that are stored, of one that is not general. */
static inline struct tb_region tb_view_stored(const struct tb_view *x) {
  const bool upper = (x->uplo == TB_UPPER) != x->transposed;
  return (struct tb_region){upper ? TB_UPPER_TRIANGLE : TB_LOWER_TRIANGLE, x->structure == TB_HERMITIAN, x->diagonal};
}

/* Whether an operand's other half follows from the stored one. */
static inline bool tb_view_is_mirrored(const struct tb_view *x) {
  return x->structure == TB_SYMMETRIC || x->structure == TB_HERMITIAN;
}
static inline bool tb_call_is_mirrored(const struct tb_call *call) {
  return tb_view_is_mirrored(&call->a) || tb_view_is_mirrored(&call->b);
}

/* Whether the panels of both operands of a triangle, op(A) op(A)^T or op(A) op(A)^H, are the same memory. */
static inline bool tb_call_has_twins(const struct tb_call *call) {
  return call->region.of != TB_WHOLE && call->m == call->n && call->a.data == call->b.data &&
         call->a.ld == call->b.ld && call->a.transposed != call->b.transposed && call->recipe == TB_MULTIPLY &&
         !tb_call_is_mirrored(call);
}

/* Of an element. */
static inline int64_t tb_call_bytes(const struct tb_call *call) { return tb_type_bytes(call->type); }

/* The address so many elements behind another. */
static inline const void *tb_elements_behind(enum tb_type type, const void *data, int64_t elements) {
  return (const char *)data + elements * tb_type_bytes(type);
}

/* The view whose (0, 0) is element (i, j) of op(X). */
static inline struct tb_view tb_view_at(struct tb_view x, int64_t i, int64_t j) {
  x.data = tb_elements_behind(x.type, x.data, x.transposed ? j + i * x.ld : i + j * x.ld);
  x.diagonal += j - i;
  return x;
}

/* Whether element (i, j) of op(X), which is not general, is on the diagonal or on the stored side of it. */
static inline bool tb_view_stores(const struct tb_view *x, int64_t i, int64_t j) {
  const int64_t below = i - j - x->diagonal;
  return below == 0 || (below > 0) == ((x->uplo == TB_LOWER) != x->transposed);
}

/* The view of a symmetric or Hermitian matrix that begins where this one does and reads every element from its mirror
 * image; general, so for elements that are not stored. */
static inline struct tb_view tb_view_mirrored(struct tb_view x) {
  x.data = tb_elements_behind(x.type, x.data, -x.diagonal * (x.transposed ? 1 - x.ld : x.ld - 1));
  x.transposed = !x.transposed;
  x.conjugated = x.conjugated != (x.structure == TB_HERMITIAN);
  x.structure = TB_GENERAL;
  return x;
}

/* Where element (i, j) of C lies. */
static inline void *tb_call_c(const struct tb_call *call, int64_t i, int64_t j) {
  return (char *)call->c + (i + j * call->ldc) * tb_call_bytes(call);
}

/* The product itself of a call that is two, and the second one, which adds to what the first has left. */
struct tb_call tb_call_once(const struct tb_call *call);
struct tb_call tb_call_again(const struct tb_call *call);

/* A call that is two with the second product's operands as A and B, stored, transposed and conjugated as the first's,
 * and those as its second. */
struct tb_call tb_call_exchanged(const struct tb_call *call);

/* Whether the two products of a call are one sum, multiplied by one alpha. */
static inline bool tb_call_is_one_sum(const struct tb_call *call) {
  return call->twice && !(call->region.hermitian && !tb_scalar_is_real(call->type, call->alpha));
}

/* Whether each product's operands are the other's in each other's places: not of a part, whose rows and columns are
 * others. */
static inline bool tb_call_exchanges_all(const struct tb_call *call) {
  return call->twice && call->m == call->n && call->again_a == call->b.data && call->again_b == call->a.data;
}

/* How many calls of a size gain by being on a GPU at once, by the bytes that it moves over the link: small ones up to 8
 * MB (816 cubed, fp32), pairs up to 1 GiB (9459 cubed). trmm and trsm, and what is larger, go alone. */
enum tb_company { TB_SMALL_ONES, TB_A_PAIR, TB_ALONE };
enum tb_company tb_call_company(const struct tb_call *call);

/* What tells calls of the same sizes apart by the time that they take: 0: all of C, 1: a triangle, 2: one twice; from 3
 * on trmm and trsm, on the left and on the right; 7: with an operand that is mirrored. */
static inline int tb_call_form(const struct tb_call *call) {
  if (call->recipe != TB_MULTIPLY) return 1 + 2 * (int)call->recipe + call->on_right;
  if (tb_call_is_mirrored(call)) return 7;
  return (call->region.of != TB_WHOLE) + call->twice;
}

/* The rows [i, i + m) and columns [j, j + n) of a call's C, as a call of its own. Of a triangular recipe they must be
 * all of C's rows where the triangle is on the left, and else all of its columns. */
struct tb_call tb_call_part(const struct tb_call *call, int64_t i, int64_t m, int64_t j, int64_t n);

#endif
