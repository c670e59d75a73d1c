/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument block of the production sgemm kernels: one struct by value, shared by host C and CUDA C.
 *
 *   D = alpha * ([D +] op(A) op(B))       column-major, op(X) = X or X^T
 *
 * A is m x k after op, B is k x n after op, D is m x n. Leading dimensions are in elements. Nothing outside the stated
 * shapes is read or written; A, B and D must not overlap. beta is not here: the host adds beta * C when it commits.
 *
 * Order of summation, the same for every kernel, tile and split: k is cut into chunks of chunk_k; each chunk is one
 * chain of FMAs that starts at zero, k ascending; the chunks' sums are added in order by ordinary additions. Short
 * chains are what makes a long sum accurate: OpenBLAS gets its accuracy from blocks of 320 to 384.
 */
#ifndef TB_SGEMM_ARGS_H
#define TB_SGEMM_ARGS_H

#include <stdint.h>

struct tb_sgemm_args {
  const float *a; /* device pointers, 4-byte aligned */
  const float *b;
  float *d;
  int64_t lda, ldb, ldd; /* elements between stored columns */
  int64_t m, n, k;       /* each from 1 to 2^31 - 1024 */
  int64_t chunk_k;       /* tb_sgemm_chunk_k of the whole product's k */
  float *partials; /* split k: room for ceil(k / chunk_k) sums of m x n, dense; tb_sgemm_gather adds them. Else NULL */
  int32_t chunks_per_split; /* split k: chunks that one block computes; blockIdx.y counts the splits */
  float alpha;              /* applied by the launch with `last` set */
  int32_t first;  /* 1: the sum starts here (D is not read); 0: it continues from the sums of earlier chunks in D */
  int32_t last;   /* 1: multiply by alpha when storing; 0: store the bare sums */
  int32_t padded; /* for the launcher: m and n may be read up to the next multiple of four, into what stands there */
};

/* Chunks start at multiples of this, and so may the parts of a k that is cut to fit the memory. */
#define TB_SGEMM_CHUNK_MIN 256
/* Most chunks of a product: a longer k has longer chunks, so that a split has few sums to add. */
#define TB_SGEMM_CHUNKS_MAX 32

/* Length of a chunk for a product with this k. A multiple of TB_SGEMM_CHUNK_MIN. */
static inline int64_t tb_sgemm_chunk_k(int64_t k) {
  const int64_t longest = TB_SGEMM_CHUNK_MIN * (int64_t)TB_SGEMM_CHUNKS_MAX;
  return (k + longest - 1) / longest * TB_SGEMM_CHUNK_MIN;
}

/* Stages of the ring in shared memory. */
#define TB_SGEMM_STAGES 3

/* Words by which a stage's rows are longer than the tile; sgemm.cu says why. */
#define TB_SGEMM_PAD 8

/* Dynamic shared memory of a kernel, in bytes: the stages of both panels. */
#define TB_SGEMM_SHARED_BYTES(block_m, block_n, block_k) \
  (TB_SGEMM_STAGES * (block_k) * ((block_m) + (block_n) + 2 * TB_SGEMM_PAD) * 4)

#endif
