/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fp32 products on the tensor cores as the host sees them (kernels/emulated/emulated.cu, kernels/PRECISION.md): loaded
 * from the embedded fat binary, packed, multiplied. Under offload.c's lock.
 *
 *   tb_emulated_pack(A), tb_emulated_pack(B)    once for each operand, or panel of one
 *   tb_emulated_multiply                     once for each product of packed panels
 *
 * The second enqueues all that may be needed: the product from fp16 planes; for tiles of D whose data they cannot hold,
 * bf16 planes and the product from those; and for what is left (Inf, NaN, overflow) the product in plain fp32. Kernels
 * that find nothing to do end at once. The host waits for nothing.
 */
#ifndef TB_EMULATED_H
#define TB_EMULATED_H

#include "select/emulated_plan.h"
#include "select/shared.h"

struct tb_emulated_kernels {
  bool there; /* the device has these kernels: compute capability 9.0 */
  CUmodule module;
  CUfunction pack_half[2], pack_bfloat[2], multiply_half[2], multiply_bfloat[2]; /* [op(A) is a triangle] */
  CUfunction gather;
  CUfunction again[2][2]; /* sgemm's: [A transposed][B transposed] */
  int sm_count;
};

/* Loads the kernels into the current context, which is the device's; `there` stays false where they cannot run. Nothing
 * is left behind on failure. */
CUresult tb_emulated_load(struct tb_emulated_kernels *emulated, const struct tb_shared *shared, CUdevice device);

/* Nothing may be running. Does nothing after a load that failed. */
void tb_emulated_unload(struct tb_emulated_kernels *emulated);

/* One operand of m x k or k x n, as `from` and `ld` of struct tb_sgemm_args and a transpose have it. */
struct tb_emulated_operand {
  const float *from;
  int64_t ld, sides;
  bool of_b, along_k; /* along_k: a column of memory runs along k */
  struct tb_emulated_triangle triangle;
  int32_t *unfit; /* these two as struct tb_emulated_pack_operand has them */
  bool unit;
};

/* An operand that lies there on the device. */
static inline struct tb_emulated_operand tb_emulated_operand_at(uint64_t address, int64_t ld, int64_t sides, bool of_b,
                                                                bool along_k) {
  return (struct tb_emulated_operand){
      .from = (const float *)address, .ld = ld, .sides = sides, .of_b = of_b, .along_k = along_k};
}

/* Packs one operand, or (b not NULL) both of a product by one launch. */
CUresult tb_emulated_pack(const struct tb_emulated_kernels *emulated, const struct tb_emulated_operand *a,
                          CUdeviceptr packed_a, const struct tb_emulated_operand *b, CUdeviceptr packed_b, int64_t k,
                          CUstream stream);

/* D = alpha ([D +] op(A) op(B)) from packed operands, which are `args`' own operands, a span of k; but not those tiles
 * of D that have nothing of what is wanted. The workspace has room for tb_emulated_workspace_bytes. */
CUresult tb_emulated_multiply(const struct tb_emulated_kernels *emulated, bool transpose_a, bool transpose_b,
                              const struct tb_sgemm_args *args, struct tb_tiles_wanted wanted, CUdeviceptr packed_a,
                              CUdeviceptr packed_b, CUdeviceptr workspace, const struct tb_emulated_way *way,
                              CUstream stream);

/* The same where op(A), k x k, is a triangle, and nothing is transposed: all of k at once, none of it split (the way
 * says whether it is fast). The planes leave corners of A out (TB_EMULATED_CORNER_K), but not in tiles that are
 * computed again. */
struct tb_emulated_triangle_product {
  struct tb_emulated_triangle triangle;
  const struct tb_sgemm_args *args;
  CUdeviceptr packed_a, packed_b, workspace;
  const struct tb_emulated_way *way;
};
/* Words in the workspace: whether a block has left tiles; whether a tile is computed again (of D, column by column). */
struct tb_emulated_marks {
  const uint32_t *left, *again;
  int32_t left_words;
};
/* In two parts. The first one reads packed operands alone. What it leaves takes the operands themselves: zeros lie
 * beside A's diagonal, in the squares of 128 rows and columns that it crosses. */
CUresult tb_emulated_multiply_triangle(const struct tb_emulated_kernels *emulated,
                                       const struct tb_emulated_triangle_product *product,
                                       struct tb_emulated_marks *marks, CUstream stream);
CUresult tb_emulated_multiply_triangle_rest(const struct tb_emulated_kernels *emulated,
                                            const struct tb_emulated_triangle_product *product, CUstream stream);

/* A whole product: for each span two packed operands by one launch, and what multiplies them, five launches in all and
 * one more with a split k. */
CUresult tb_emulated_launch(const struct tb_emulated_kernels *emulated, const struct tb_launch *launch);

#endif
