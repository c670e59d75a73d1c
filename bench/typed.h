/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One product of d, c or z elements on resident operands, as the pipeline computes it when they lie on the GPU: of
 * c elements A is made real first, and a transposed B (kernels/complex/complex_args.h); or by cuBLAS. What types.c and
 * types_accuracy.c share. s has work.h. Not thread-safe.
 */
#ifndef TB_BENCH_TYPED_H
#define TB_BENCH_TYPED_H

#include "problem.h"
#include "work.h"

#include <stdio.h>

/* Who computes. cuBLAS by three real products: cublasCgemm3m, cublasZgemm3m. */
enum tb_typed_by { TB_TYPED_OURS, TB_TYPED_CUBLAS, TB_TYPED_CUBLAS_3M, TB_TYPED_BY_COUNT };

/* Random elements on the GPU, a shorter pool again and again. */
struct tb_typed_arena {
  CUdeviceptr gpu;
  void *pool;
  size_t pool_len, len; /* elements */
};

struct tb_typed {
  const struct tb_bench *bench;
  enum tb_type type;
  enum tb_precision precision; /* of c: TB_PRECISION_IEEE or TB_PRECISION_FP32 */
  struct tb_typed_arena a, b;
  CUdeviceptr c, real_a, real_b;
  size_t rotate_bytes;
  /* The product at hand. */
  struct tb_shape shape;
  struct tb_choice choice; /* the library's */
  enum tb_typed_by by;
  size_t a_step, b_step, c_step; /* elements between copies */
  long copies;
};

/* Buffers for any of the shapes, filled with data of a kind, `rotate_bytes` of copies of the operands and more; 0: one
 * copy. */
void tb_typed_open(struct tb_typed *work, struct tb_bench *bench, enum tb_type type, const struct tb_shape *shape,
                   int shapes, enum tb_data_kind kind, size_t rotate_bytes);
void tb_typed_close(struct tb_typed *work);

/* The product at hand is now this one, by us in this precision. */
void tb_typed_set(struct tb_typed *work, struct tb_shape shape, enum tb_precision precision);

/* Fills the first copy of both operands, whole matrices then, and their pools with this kind of data. */
void tb_typed_fill(struct tb_typed *work, enum tb_data_kind kind, unsigned draw);

/* Computes the first copy into a C that was NaN, by whoever is set, and says its error in a sample. */
struct tb_error tb_typed_error(struct tb_typed *work);

/* The same of a C of the host's, column-major without padding. */
struct tb_error tb_typed_error_of(const struct tb_typed *work, const void *c);

/* What a right result has at most; how ours is computed: "fp64", "emulated", "128x128/2". */
double tb_typed_bound_u(const struct tb_typed *work);
void tb_typed_way(const struct tb_typed *work, char *text, size_t size);

/* Median microseconds, see gpu.h: of the product, and of making its operands real alone (0: nothing is). */
double tb_typed_median_us(struct tb_typed *work, double budget_s);
double tb_typed_prepare_us(struct tb_typed *work, double budget_s);

/* types_accuracy.c: the errors on all kinds of data, n x n results, beside cuBLAS and OpenBLAS; short_list: the two
 * smallest k. False: one of ours was wrong. csv may be NULL. */
bool tb_typed_accuracy(struct tb_bench *bench, enum tb_type type, int n, bool short_list, FILE *csv);

#endif
