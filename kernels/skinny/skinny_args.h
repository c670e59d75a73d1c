/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument block of the kernels for thin products: one struct by value, shared by host C and CUDA C.
 *
 *   D = alpha * ([D +] X Y)       X is rows x k and large, Y is k x columns, with at most TB_SKINNY_COLUMNS_MAX columns
 *
 * X is op(A) of a product with few columns. Of one with few rows it is op(B)^T, and D is then the result's transpose;
 * the strides say where things are. The order of summation is that of sgemm_args.h, and so are the bits.
 */
#ifndef TB_SKINNY_ARGS_H
#define TB_SKINNY_ARGS_H

#include <stdint.h>

#include "common/sgemm_args.h"

#define TB_SKINNY_COLUMNS_MAX 8

struct tb_skinny_args {
  const float
      *x; /* device pointers, 4-byte aligned; not for tb_skinny_..._any: x 16-byte aligned, x_ld a multiple of 4 */
  const float *y;
  float *d;
  int64_t x_ld;          /* element (i, k) of X: x[i + k * x_ld], or for tb_skinny_k_... x[k + i * x_ld] */
  int64_t y_k, y_column; /* element (k, j) of Y: y[k * y_k + j * y_column] */
  int64_t d_row, d_column;
  int64_t d_group; /* split k: group g's bare sums go to d + g * d_group, for tb_sgemm_gather; else 0 */
  int64_t rows, k; /* from 1 to 2^31 - 1024 */
  int32_t columns;
  int32_t block_rows;       /* rows of X that a block computes: a multiple of TB_SKINNY_ROWS */
  int32_t block_chunks;     /* chunks of k that it computes at a time: whole groups */
  int32_t buffers;          /* panels of Y: 2, or 1 for a block that has no more chunks or no more room */
  int32_t groups_per_split; /* groups that a block computes; blockIdx.y counts the splits */
  float alpha;
  int32_t first, last; /* as in tb_sgemm_args; with a split k they are the gather's */
};

/* Blocks have a multiple of these rows: whole warps, two rows a thread, and no sector of 32 bytes is read by two
 * blocks. */
#define TB_SKINNY_ROWS 16

/* Where X runs along its side: the batches of words that a thread has on their way in turn; and where these words come
 * as vectors, the rows of a thread, and the k of a batch. */
#define TB_SKINNY_BATCHES 4
#define TB_SKINNY_SIDE_ROWS 4
#define TB_SKINNY_SIDE_BATCH 4

/* Chunks of a group. */
#define TB_SKINNY_GROUP_CHUNKS (TB_SGEMM_GROUP_K / TB_SGEMM_CHUNK_K)

/* The ring of the kernels whose X runs along k: words along k of one row's chunk in a stage. */
#define TB_SKINNY_STAGE_K 32
/* Words by which rows and chunks in shared memory are longer, so that neighbours start in different banks. */
#define TB_SKINNY_PAD 4

/* Words in shared memory of a chunk of Y, and of a row's chunk in a stage. */
#define TB_SKINNY_CHUNK_WORDS(columns) ((columns)*TB_SGEMM_CHUNK_K + TB_SKINNY_PAD)
#define TB_SKINNY_SEGMENT_WORDS (TB_SKINNY_STAGE_K + TB_SKINNY_PAD)

/*
 * Words of dynamic shared memory, in this order: the ring (where X runs along k), the panels of Y, the sums of chunks,
 * the sums so far.
 */
#define TB_SKINNY_RING_WORDS(block_rows, block_chunks, stages) \
  ((block_rows) * (block_chunks) * (stages)*TB_SKINNY_SEGMENT_WORDS)
#define TB_SKINNY_PANEL_WORDS(columns, block_chunks) ((block_chunks)*TB_SKINNY_CHUNK_WORDS(columns))
#define TB_SKINNY_SUM_WORDS(columns, block_rows, block_chunks) ((block_rows) * (block_chunks) * (columns))

#endif
