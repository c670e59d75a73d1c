/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument blocks of the kernels that trmm and trsm have of their own (solve.cu): structs by value, shared by host
 * C and CUDA C. All matrices are column-major.
 *
 * tb_triangle_form_? brings a triangle into the form that the others read. With x(i, j) the stored elements of it, and
 * their conjugates where `conjugated` is set, A' of the same order is x, or x^T where `transposed` is set, but for
 *
 *   the diagonal            1 where `unit` is set; x's is not read then
 *   what is beside it       -x where `negated` is set: for a solve, whose updates then are sums
 *   the other triangle      not read; of A' it is zero in the rows that are formed, or in the squares of those
 *                           (`squares`), else has any value
 *
 * A complex A' of floats is a real matrix of twice the order, for each element z two pairs of reals:
 *
 *      |  re z  -im z |        rows 2i and 2i + 1, columns 2j and 2j + 1; its columns with even numbers are the complex
 *      |  im z   re z |        matrix itself, of a leading dimension half as large in complex elements as 2 columns are
 *
 * tb_triangle_turn_? transposes a matrix. tb_trmm_?_? and tb_trsm_?_? replace m rows of B by what a diagonal block of
 * A' makes of them: A' B, or A'^-1 B with true quotients. They read A' on the diagonal and on its one side alone, so
 * each term of the reference is there and no other: Inf and NaN go where they go there.
 *
 * In doubles all of A' B is one product (tb_dtrmm_?, tb_ztrmm_?: fp64/triangles.def), with zeros beside the diagonal,
 * of which one times Inf or NaN is a term that the reference has not. The product is made apart from B, and notes of
 * each of its columns whether all of it is finite (fp64_args.h: unfit): where it is, no such term was in it.
 * tb_triangle_repair_? computes in it what zeros have spoilt anew; then tb_triangle_copy_? copies it, or
 * tb_triangle_turn_? transposes it back. So B is what it was until the last launch. From planes what packs B notes
 * where that is not finite (emulated_args.h: unfit).
 */
#ifndef TB_TRIANGLE_SOLVE_ARGS_H
#define TB_TRIANGLE_SOLVE_ARGS_H

#include <stdint.h>

/* Some of the stored columns, and of each the rows from first_row on: `from` has element (first_row, first_column). */
struct tb_triangle_form_args {
  const void *from; /* device pointers, aligned to a real, that do not overlap */
  void *to;         /* all of A', aligned to 16 bytes */
  int64_t from_ld;  /* elements between stored columns */
  int64_t to_ld;    /* the same of `to`, where of a complex A' of floats they are reals */
  int64_t first_row, first_column, rows, columns;
  int32_t lower, transposed, conjugated, unit, negated;
  int32_t squares; /* 1: of the other triangle only what squares on the diagonal have of it is formed, of
                      TB_FP64_TRIANGLE_EDGE rows; `first_row` and `first_column` begin a tile then */
  int32_t left_words;
  const uint32_t *left; /* if not NULL, so many words: nothing is formed unless one of them is not 0 */
};

/* to(j, i) = from(i, j); both aligned to a real. */
struct tb_triangle_turn_args {
  const void *from;
  void *to;
  int64_t from_ld, to_ld, rows, columns;
};

/* to = from; both aligned to a real. */
struct tb_triangle_copy_args {
  const void *from;
  void *to;
  int64_t from_ld, to_ld, rows, columns;
};

/* A' as tb_triangle_leaf_args has it; or, of floats, as the program does, aligned to a real, with memory along its rows
 * where `transposed` is set. */
struct tb_triangle_repair_args {
  const void *a;
  const void *b;        /* aligned to a real */
  void *product;        /* A' B, aligned to 16 bytes */
  const int32_t *unfit; /* [part][column of unfit_ld]: 0 where all rows of the part are finite, those of the product,
                           or else those of B; a column's rows are so many parts */
  int64_t lda, ldb, product_ld, rows, columns, unfit_ld;
  int32_t unfit_parts, unit, lower, transposed;
};

/* Threads of a block that copies, a warp a column; and a block that repairs has so many rows at a time, a thread a row,
 * and so many columns, of which some are computed together. */
#define TB_TRIANGLE_COPY_THREADS 256
#define TB_TRIANGLE_REPAIR_ROWS 256
#define TB_TRIANGLE_REPAIR_COLUMNS 32
#define TB_TRIANGLE_REPAIR_AT_ONCE 8

/* product += the corners of A' times B (emulated_args.h: TB_EMULATED_CORNER_K), but for tiles with a mark there. A' as
 * above; what is beside the triangle is not read. */
struct tb_triangle_corner_args {
  const void *a;
  const void *b;         /* aligned to a real */
  void *product;         /* aligned to 16 bytes */
  const uint32_t *again; /* struct tb_emulated_args's */
  int64_t lda, ldb, product_ld, rows, columns;
  int32_t unit, lower, transposed;
};

/* Of a block of it: columns of B, one for each lane; and so many of the products along k at a time. A warp has a leaf's
 * rows; and a block has those of a group's corner, and is one of as many as there are groups. */
#define TB_TRIANGLE_CORNER_COLUMNS 32
#define TB_TRIANGLE_CORNER_STEP 32
#define TB_TRIANGLE_CORNER_ROWS(parts) (128 / (parts))
#define TB_TRIANGLE_CORNER_THREADS(parts) (TB_TRIANGLE_CORNER_ROWS(parts) / TB_TRIANGLE_LEAF_ROWS * 32)

struct tb_triangle_leaf_args {
  const void *a; /* the diagonal block of A', aligned to 16 bytes */
  void *b;       /* aligned to a real */
  int64_t lda; /* elements between columns of A', of a complex A' of floats complex elements from one even column on */
  int64_t ldb;
  int64_t n;    /* columns of B, from 1 to 2^31 - 1024 */
  int32_t m;    /* rows of B, from 1 to the type's leaf */
  int32_t unit; /* the diagonal is 1: nothing is multiplied or divided by it, not even Inf and NaN */
};

/* Tiles of tb_triangle_form_? and tb_triangle_turn_?, and the threads along their columns. */
#define TB_TRIANGLE_TILE 32
#define TB_TRIANGLE_TILE_THREADS 8

/* Of a leaf's kernel, but for solves in doubles: a warp's rows; columns of B of a block of threads, one for each lane;
 * and rows of a whole leaf. A smaller m has as many warps as it needs. (H200, order 4096: a leaf of 192 rows takes 23
 * us in s, and its products have sizes that fill the GPU less evenly than powers of two.) */
#define TB_TRIANGLE_LEAF_ROWS 8
#define TB_TRIANGLE_LEAF_COLUMNS 32
#define TB_TRIANGLE_LEAF 128
#define TB_TRIANGLE_LEAF_THREADS(m) (((m) + TB_TRIANGLE_LEAF_ROWS - 1) / TB_TRIANGLE_LEAF_ROWS * 32)

/* Its dynamic shared memory: two blocks of the triangle for each warp and two warps' rows of B with a pad, or before
 * and after all these a piece of 32 bytes of B's columns for each warp; behind them the blocks of the diagonal, and
 * four reals of each row for quotients. */
#define TB_TRIANGLE_LEAF_STEPS_BYTES(real_bytes, parts) \
  ((real_bytes) * (parts)*TB_TRIANGLE_LEAF_ROWS * (2 * TB_TRIANGLE_LEAF + 2 * (TB_TRIANGLE_LEAF_COLUMNS + 1)))
#define TB_TRIANGLE_LEAF_PIECES_BYTES(real_bytes, parts) \
  (TB_TRIANGLE_LEAF / TB_TRIANGLE_LEAF_ROWS * 32 * (TB_TRIANGLE_LEAF_COLUMNS + 1))
#define TB_TRIANGLE_LEAF_DIAGONAL_AT(real_bytes, parts)                                               \
  (TB_TRIANGLE_LEAF_STEPS_BYTES(real_bytes, parts) > TB_TRIANGLE_LEAF_PIECES_BYTES(real_bytes, parts) \
       ? TB_TRIANGLE_LEAF_STEPS_BYTES(real_bytes, parts)                                              \
       : TB_TRIANGLE_LEAF_PIECES_BYTES(real_bytes, parts))
#define TB_TRIANGLE_LEAF_SHARED_BYTES(real_bytes, parts) \
  (TB_TRIANGLE_LEAF_DIAGONAL_AT(real_bytes, parts) +     \
   (real_bytes)*TB_TRIANGLE_LEAF * ((parts)*TB_TRIANGLE_LEAF_ROWS + 4))

/* Of solves in doubles (solve64.cuh): rows of a whole leaf, a half of which, or less, a GPU has whose blocks may have
 * less shared memory; rows of a step; columns of B of a block, one for each lane of the warp that solves, and of a tile
 * of sums; and warps: three that multiply, one for the diagonal, four that move, and the solver. */
#define TB_TRIANGLE_SOLVE64_ROWS(parts) (256 / (parts))
#define TB_TRIANGLE_SOLVE64_STEP 16
#define TB_TRIANGLE_SOLVE64_COLUMNS 32
#define TB_TRIANGLE_SOLVE64_TILE 8
#define TB_TRIANGLE_SOLVE64_MULTIPLIERS 3
#define TB_TRIANGLE_SOLVE64_MOVERS 4
#define TB_TRIANGLE_SOLVE64_THREADS (32 * (TB_TRIANGLE_SOLVE64_MULTIPLIERS + TB_TRIANGLE_SOLVE64_MOVERS + 2))

/* Distances in shared memory, in elements: of columns of A', of X, and of rows of sums. */
#define TB_TRIANGLE_SOLVE64_LDA(real_bytes) (TB_TRIANGLE_SOLVE64_STEP + 16 / (real_bytes))
#define TB_TRIANGLE_SOLVE64_LDX(parts, rows) ((rows) + 2 / (parts))
#define TB_TRIANGLE_SOLVE64_LDZ(parts) (TB_TRIANGLE_SOLVE64_COLUMNS + 2 * (parts))

/* Columns of A' that are there at a time, beside `rows` on the diagonal, a multiple of a step: of the last step with an
 * odd number, counted from 0, and of the last one with an even number. */
#define TB_TRIANGLE_SOLVE64_ODD(rows)                                         \
  ((rows) / (2 * TB_TRIANGLE_SOLVE64_STEP) * (2 * TB_TRIANGLE_SOLVE64_STEP) - \
   TB_TRIANGLE_SOLVE64_STEP * ((rows) > TB_TRIANGLE_SOLVE64_STEP))
#define TB_TRIANGLE_SOLVE64_EVEN(rows) \
  (((rows)-TB_TRIANGLE_SOLVE64_STEP) / (2 * TB_TRIANGLE_SOLVE64_STEP) * (2 * TB_TRIANGLE_SOLVE64_STEP))

/* Places for 16 rows of sums: three steps', and what multipliers hand over, if there is anything to multiply. */
#define TB_TRIANGLE_SOLVE64_SUMS(rows) (3 + TB_TRIANGLE_SOLVE64_MULTIPLIERS * ((rows) > TB_TRIANGLE_SOLVE64_STEP))

/* Shared memory, of a real of A' so many bytes: of three steps which D is not to be divided, and of four two reals of
 * each row for quotients (four of complex rows); D of three; sums; the columns; and A' as it is stored. */
#define TB_TRIANGLE_SOLVE64_ROUGH_BYTES 16
#define TB_TRIANGLE_SOLVE64_DIVISORS (4 * TB_TRIANGLE_SOLVE64_STEP)
#define TB_TRIANGLE_SOLVE64_SHARED_BYTES(real_bytes, parts, rows)                                    \
  (TB_TRIANGLE_SOLVE64_ROUGH_BYTES +                                                                 \
   8 * (parts) *                                                                                     \
       (2 * TB_TRIANGLE_SOLVE64_DIVISORS + 3 * TB_TRIANGLE_SOLVE64_STEP * TB_TRIANGLE_SOLVE64_STEP + \
        TB_TRIANGLE_SOLVE64_SUMS(rows) * TB_TRIANGLE_SOLVE64_STEP * TB_TRIANGLE_SOLVE64_LDZ(parts) + \
        TB_TRIANGLE_SOLVE64_COLUMNS * TB_TRIANGLE_SOLVE64_LDX(parts, rows)) +                        \
   (real_bytes) * (parts)*TB_TRIANGLE_SOLVE64_LDA(real_bytes) *                                      \
       (TB_TRIANGLE_SOLVE64_ODD(rows) + TB_TRIANGLE_SOLVE64_EVEN(rows)))

#endif
