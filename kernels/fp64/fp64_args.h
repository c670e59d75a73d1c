/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument blocks of the fp64 kernels (dgemm.cu, zgemm.cu): one struct by value, shared by host C and CUDA C.
 *
 *   D = alpha * ([D +] op(A) op(B))       column-major, op(X) = X or X^T, of complex elements also their conjugates
 *
 * A is m x k after op, B is k x n after op, D is m x n. Leading dimensions are in elements. Nothing outside the stated
 * shapes is read or written; A, B and D must not overlap. beta is not here: the host, or tb_dgemm_commit, adds
 * beta * C.
 *
 * Order of summation, the same for every tile, cut and split: a group is `group_k` products, or what is left of k, one
 * chain of FMAs that starts at zero, k ascending (common/mma64.cuh says what the tensor cores have to do with it, and
 * how each four k of complex elements are taken); the groups' sums are added in order, to 0. alpha multiplies last: by
 * parts, or where it is complex by the textbook's two products and a sum, each rounded. A chain may be filled up with
 * zeros. Nothing but the
 * product's shape decides group_k (tb_fp64_group_k in src/select/fp64_plan.h), and the parts of a product that is cut
 * have that of the whole; k is cut between groups.
 *
 * With N products of either sign the variance of a sum's error is about N (group_k + N / group_k) / 2 roundings, where
 * one chain has N N / 2.
 */
#ifndef TB_FP64_ARGS_H
#define TB_FP64_ARGS_H

#include <stdint.h>

#include "common/region_tiles.h"

struct tb_fp64_args {
  const double *a; /* device pointers, 8-byte aligned; of complex elements, the real part first */
  const double *b;
  double *d;
  int64_t lda, ldb, ldd; /* elements between stored columns */
  int64_t m, n, k;       /* each from 1 to 2^31 - 1024 */
  double *partials; /* split k: room for the sums of every group of the tiles that are split, a tile each; aligned to 16
                       bytes; tb_dgemm_gather_<tile> adds them. Else NULL */
  int32_t *unfit; /* of kernels of triangles.def, of each column of D: something is Inf or NaN. They write 1, never 0 */
  struct tb_tiles_wanted wanted; /* of D; nothing else of it is read or written */
  double alpha;                  /* applied by the launch with `last` set */
  double alpha_im;               /* its imaginary part; dgemm does not look, nor at the next two */
  int32_t conjugate_a, conjugate_b;
  int32_t group_k; /* products of a group, a multiple of TB_FP64_GROUP_STEP_K, or of half of it for complex ones */
  int32_t tiles;   /* that have something of what is wanted */
  int32_t whole;   /* so many tiles, the first, have k whole, and are a job each; without splits all */
  uint32_t jobs;   /* these, then the others' first parts, then their second ones. Blocks take each so many-th job as
                      the grid has blocks */
  int32_t groups_per_split; /* groups of a part */
  int32_t lower; /* of kernels of triangles.def: op(A), of m x m, is lower, and has zeros beside the diagonal in
                    each TB_FP64_TRIANGLE_EDGE rows and columns of it; 0: upper. Beyond these nothing is read */
  int32_t band;  /* of these: tile columns that are computed together, in place of TB_FP64_BAND. A band begins with its
                    longest tiles: at the end of a narrow last one the GPU would wait for them */
  int32_t first; /* 1: the sum starts here (D is not read); 0: it continues from the bare sums in D */
  int32_t last;  /* 1: multiply by alpha when storing; 0: store the bare sums */
};

/* Tile columns that are computed together, so that the L2 still holds their panels of B for the next tile row. */
#define TB_FP64_BAND 8

/* The longest edge of a tile of theirs. */
#define TB_FP64_TRIANGLE_EDGE 128

/* What a group is a multiple of. */
#define TB_FP64_GROUP_STEP_K 16

/* Bytes of a stage, of each row of op(A) and column of op(B): a step of 16 k, or of 8 complex ones. */
#define TB_FP64_SIDE_BYTES 128

/* Dynamic shared memory of a kernel, in bytes: the stages of both panels; and where a block computes several groups of
 * a tile that is not split, the sums of those it has. */
#define TB_FP64_STAGE_BYTES(block_m, block_n, stages) (TB_FP64_SIDE_BYTES * ((block_m) + (block_n)) * (stages))
#define TB_FP64_SUM_BYTES(elem_bytes, block_m, block_n) ((elem_bytes) * (block_m) * (block_n))

/* A tile that is split is gathered by so many blocks. */
#define TB_FP64_GATHER_BLOCKS 8

/* C = D + beta * C for a C on the GPU, as struct tb_commit_args has it (fma/commit_args.h), in doubles. */
struct tb_fp64_commit_args {
  double *c; /* device pointers, 8-byte aligned, that do not overlap */
  const double *d;
  int64_t ldc, ldd; /* elements between stored columns */
  int64_t m, n;     /* each from 1 to 2^31 - 1024 */
  double beta;
};

/* A block's threads, along the rows and along the columns; blockIdx.x counts the rows' blocks, .y strides over columns.
 */
#define TB_FP64_COMMIT_THREADS_M 32
#define TB_FP64_COMMIT_THREADS_N 8

#endif
