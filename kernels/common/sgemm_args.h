/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument block of the production sgemm kernels: one struct by value, shared by host C and CUDA C.
 *
 *   D = alpha * ([D +] op(A) op(B))       column-major, op(X) = X or X^T
 *
 * A is m x k after op, B is k x n after op, D is m x n. Leading dimensions are in elements. Nothing outside the stated
 * shapes is read or written; A, B and D must not overlap. beta is not here: the host adds beta * C when it commits.
 *
 * Order of summation, the same for every kernel, tile and split: a chunk is TB_SGEMM_CHUNK_K products, or what is left
 * of its group, one chain of FMAs that starts at zero, k ascending; the chunks of a group are added in order, which
 * gives the group's sum; the groups' sums are added in order, to 0; alpha multiplies last. A group is `group_k`
 * products, of the whole product and of all its parts, and nothing but the product's shape decides how many
 * (src/select/order.h). All chains are short, and so
 * are the errors: with N products of either sign the variance is about N (128 + group_k / 128 + N / group_k) / 2
 * roundings, where one chain has N N / 2.
 *
 * To 0, because products may underflow to -0, and a kernel may fill k up with zeros, as many as suit it, which turn a
 * chain of only such products from -0 into 0. Behind the 0 that starts the groups' sums nobody can tell: among the
 * terms of a sum, the sign of a zero shows only where all of them are -0. A partial sum may be a zero of either sign.
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
  float *partials; /* split k: room for ceil(k / unit_k) sums of m x n, dense; tb_sgemm_gather adds them. Else NULL */
  int32_t group_k; /* products of a group, a multiple of TB_SGEMM_GROUP_STEP_K */
  int32_t unit_k;  /* split k: group_k, or if that is a multiple of it, TB_SGEMM_CHUNK_K: the products in one sum of
                      `partials` */
  int32_t units_per_split; /* split k: how many of them one block computes; blockIdx.y counts the splits */
  float alpha;             /* applied by the launch with `last` set */
  int32_t first;    /* 1: the sum starts here (D is not read); 0: it continues from the sums of earlier chunks in D */
  int32_t last;     /* 1: multiply by alpha when storing; 0: store the bare sums */
  int32_t beside;   /* packed tiles: 1: the kernel ahead computes another part of D from the same panels, and need not
                       have ended before this one starts */
  int32_t together; /* split k: not 0: so many parts of one group each, TB_SGEMM_TOGETHER_MAX at most, those of a tile a
                       cluster; units_per_split is 1, unit_k is group_k, and there are no partials: the cluster adds
                       them itself. blockIdx.x counts the parts of a tile, and then the tiles */
  int32_t padded;   /* for the launcher: m and n may be read up to the next multiple of four, into what stands there */
};

/* Products of one chain, and of a group in the thin kernels, which have no others, and where a tile of a product on the
 * tensor cores is computed again. A k that is cut to fit the memory is cut between groups. */
#define TB_SGEMM_CHUNK_K 128
#define TB_SGEMM_GROUP_K 512
/* What a group is a multiple of in all others: whole steps of every tile. */
#define TB_SGEMM_GROUP_STEP_K 16

/* Blocks of a cluster, as many as all devices that have clusters can run. */
#define TB_SGEMM_TOGETHER_MAX 8

/* Words by which a stage's rows are longer than what they hold; sgemm.cu says why. */
#define TB_SGEMM_PAD 4

/* Packed operands (packed.cu): the width of their panels, of which there are whole pairs; and the depth of a step, of
 * which a panel has whole ones. */
#define TB_SGEMM_PANEL 64
#define TB_SGEMM_PACKED_K 16

/* One operand, and where its panels go. */
struct tb_sgemm_pack_operand {
  const float *from; /* as struct tb_sgemm_args has it */
  float *to;         /* room for whole pairs of panels, aligned to 128 bytes */
  int64_t ld, sides; /* sides: rows of op(A), or columns of op(B) */
  int32_t along_k;   /* 1: memory runs along k, (side, k) is from[k + side * ld]; 0: from[side + k * ld] */
};
struct tb_sgemm_pack_args {
  struct tb_sgemm_pack_operand a, b;
  int64_t k, rows; /* rows: k rounded up to TB_SGEMM_PACKED_K, the length of a panel */
};

/* Products along k that a block of tb_sgemm_pack packs of a pair of panels, and its threads. */
#define TB_SGEMM_PACK_K 32
#define TB_SGEMM_PACK_THREADS 256

/* Dynamic shared memory of a kernel, in bytes: the stages of both panels, and the sums of a group. A
 * panel has a row, and its padding, for each k or for each four sides: room for whichever are more. */
#define TB_SGEMM_PANEL_WORDS(sides, block_k) \
  ((sides) * (block_k) + TB_SGEMM_PAD * ((block_k) > (sides) / 4 ? (block_k) : (sides) / 4))
#define TB_SGEMM_SHARED_BYTES(block_m, block_n, block_k, stages)                                       \
  (4 * ((stages) * (TB_SGEMM_PANEL_WORDS(block_m, block_k) + TB_SGEMM_PANEL_WORDS(block_n, block_k)) + \
        (block_m) * (block_n)))

/* And of one that takes packed operands: the stages, a group's sums, a barrier for each stage. */
#define TB_SGEMM_PACKED_SHARED_BYTES(block_m, block_n, block_k, stages) \
  (4 * ((stages) * (block_k) * ((block_m) + (block_n)) + (block_m) * (block_n)) + 8 * (stages))

#endif
