/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's arguments of a routine as it passed them, whichever of the two interfaces they came by, and what the
 * reference says of them. Pure; thread-safe.
 */
#ifndef TB_ARGUMENTS_H
#define TB_ARGUMENTS_H

#include "blas/region.h"
#include "blas/symbols.h"

/* CBLAS's values, repeated here because the library builds without anybody's cblas.h. */
enum { TB_ROW_MAJOR = 101, TB_COL_MAJOR = 102, TB_NO_TRANS = 111, TB_TRANS = 112, TB_CONJ_TRANS = 113 };
enum { TB_SAID_UPPER = 121, TB_SAID_LOWER = 122, TB_SAID_NON_UNIT = 131, TB_SAID_UNIT = 132 };
enum { TB_SAID_LEFT = 141, TB_SAID_RIGHT = 142 };

/* A routine with one size for C has it as both; one with a single operand has that as both A and B, its transpose, as
 * it is, with A, and nothing in transb. Of one with a side k is the order of A, which that side says; one that
 * overwrites B has it as both B and C. */
struct tb_arguments {
  int layout;         /* of a CBLAS call; Fortran's are TB_COL_MAJOR */
  int transa, transb; /* of a CBLAS call its values, of a Fortran call letters */
  int uplo;           /* likewise; here, so that nothing in between is to be cleared in a small call */
  int side, diag;
  int64_t m, n, k;
  union tb_scalar alpha, beta;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc;
};

/* What a transpose says, of either interface. */
enum tb_trans { TB_TRANS_UNKNOWN, TB_TRANS_N, TB_TRANS_T, TB_TRANS_C };

/* In CBLAS's numbering or Fortran's letters. */
static inline enum tb_trans tb_trans_of(enum tb_abi abi, int said) {
  if (abi == TB_ABI_CBLAS)
    return said >= TB_NO_TRANS && said <= TB_CONJ_TRANS ? (enum tb_trans)(said - TB_NO_TRANS + TB_TRANS_N)
                                                        : TB_TRANS_UNKNOWN;
  const int upper = said & ~('a' - 'A');
  return upper == 'N' ? TB_TRANS_N : upper == 'T' ? TB_TRANS_T : upper == 'C' ? TB_TRANS_C : TB_TRANS_UNKNOWN;
}

/* What is said of a side, and of a triangle's diagonal. */
enum tb_side { TB_SIDE_UNKNOWN, TB_LEFT, TB_RIGHT };
enum tb_diag { TB_DIAG_UNKNOWN, TB_NON_UNIT, TB_UNIT };
static inline enum tb_side tb_side_of(enum tb_abi abi, int said) {
  const int left = abi == TB_ABI_CBLAS ? TB_SAID_LEFT : 'L', right = abi == TB_ABI_CBLAS ? TB_SAID_RIGHT : 'R';
  const int as_upper = abi == TB_ABI_CBLAS ? said : said & ~('a' - 'A');
  return as_upper == left ? TB_LEFT : as_upper == right ? TB_RIGHT : TB_SIDE_UNKNOWN;
}
static inline enum tb_diag tb_diag_of(enum tb_abi abi, int said) {
  const int no = abi == TB_ABI_CBLAS ? TB_SAID_NON_UNIT : 'N', yes = abi == TB_ABI_CBLAS ? TB_SAID_UNIT : 'U';
  const int as_upper = abi == TB_ABI_CBLAS ? said : said & ~('a' - 'A');
  return as_upper == no ? TB_NON_UNIT : as_upper == yes ? TB_UNIT : TB_DIAG_UNKNOWN;
}

/* What is said of a triangle. */
static inline enum tb_region_of tb_triangle_of(enum tb_abi abi, int said) {
  const int upper = abi == TB_ABI_CBLAS ? (said == TB_SAID_UPPER   ? 'U'
                                           : said == TB_SAID_LOWER ? 'L'
                                                                   : 0)
                                        : said & ~('a' - 'A');
  return upper == 'U' ? TB_UPPER_TRIANGLE : upper == 'L' ? TB_LOWER_TRIANGLE : TB_WHOLE;
}

/* Whether the leading dimensions of a column-major gemm of sizes that are not zero are long enough. */
TB_ALWAYS_INLINE bool tb_gemm_lds_fit(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
                                      int64_t lda, int64_t ldb, int64_t ldc) {
  return lda >= (a_transposed ? k : m) && ldb >= (b_transposed ? n : k) && ldc >= m;
}

/* A program's arguments as those of a column-major product with two operands. Of one with a side, A and B are still
 * the program's. */
struct tb_column_major {
  enum tb_region_of triangle; /* TB_WHOLE: there is none, or it was not said which */
  enum tb_side side;
  enum tb_diag diag;
  enum tb_trans transa, transb;
  int64_t m, n, k, lda, ldb, ldc;
  const void *a, *b;
};
struct tb_column_major tb_arguments_column_major(enum tb_symbol symbol, const struct tb_arguments *arguments);

/*
 * The number, from 1, of the first argument of symbol's routine that the reference refuses, as its xerbla would name
 * it: Fortran's by their places, CBLAS's by one more, for the layout. 0: it refuses none. Of a row-major call the
 * transposed product is checked, in that product's order, as the reference's CBLAS does.
 */
int tb_arguments_refused(enum tb_symbol symbol, const struct tb_arguments *arguments);

#endif
