/* SPDX-License-Identifier: BSD-3-Clause */
/* One product at a time on resident, rotating operands: launched, checked and timed, by one of our kernels or by
 * cuBLAS. What kernels.c, accuracy.c, tune.c and ladder.c share. Not thread-safe. */
#ifndef TB_BENCH_WORK_H
#define TB_BENCH_WORK_H

#include "data.h"
#include "gpu.h"
#include "select/kernels.h"
#include "base/options.h"
#include "peers/nvidia.h"
#include "shapes.h"

/* cuBLAS's arithmetic, fp32 twice and TF32. */
enum tb_peer { TB_PEER_PEDANTIC, TB_PEER_DEFAULT, TB_PEER_TF32, TB_PEER_COUNT };
extern const int tb_peer_math[TB_PEER_COUNT];
extern const char *const tb_peer_name[TB_PEER_COUNT];

/* Device memory for packed operands and for the partial sums of a split k: as much as the library takes for them at
 * most, where there is that much. */
#define TB_BENCH_WORKSPACE_BYTES_MAX ((int64_t)8 << 30)

struct tb_bench {
  struct tb_gpu gpu;
  struct tb_kernels kernels;
  CUdeviceptr workspace;
  int64_t workspace_bytes;
  tb_cublas_handle cublas; /* NULL: peer missing */
};

/* A product as the selector sees it, in a precision of the library's. */
struct tb_product tb_bench_product(const struct tb_bench *bench, bool transpose_a, bool transpose_b,
                                   const struct tb_sgemm_args *args, enum tb_precision precision);

/* Completes a way of which only family, tile and splits are given. False: this product cannot be computed so. */
bool tb_bench_complete(const struct tb_bench *bench, const struct tb_product *product, struct tb_choice *way);

/* Whether two choices for one product are the same way. */
bool tb_bench_is_way(const struct tb_choice *x, const struct tb_choice *y);

/* Opens GPU 0 with the production kernels; and cuBLAS, if wanted and installed. */
void tb_bench_open(struct tb_bench *bench, bool cublas);
void tb_bench_close(struct tb_bench *bench);

/* A long device buffer filled with a shorter pool of random values, again and again. */
struct tb_arena {
  CUdeviceptr gpu;
  float *pool;
  size_t pool_len, len; /* floats */
};

struct tb_work {
  const struct tb_bench *bench;
  struct tb_arena a, b;
  CUdeviceptr c;
  size_t rotate_bytes;
  int pad;                     /* elements by which leading dimensions are longer than need be */
  int group_k;                 /* products of a sum, a multiple of 16 (order.h); 0: the library's own */
  enum tb_precision precision; /* TB_PRECISION_IEEE when opened */
  /* The product at hand. */
  struct tb_shape shape;
  bool by_cublas;                /* in its current mode; else as chosen */
  struct tb_choice choice;       /* by default the library's */
  size_t a_step, b_step, c_step; /* floats between copies */
  long copies;
};

/* Buffers for any of the shapes, `rotate_bytes` of copies of the operands and more, of this kind of data; 0: one copy.
 */
void tb_work_open(struct tb_work *work, const struct tb_bench *bench, const struct tb_shape *shape, int shapes,
                  enum tb_data_kind kind, size_t rotate_bytes, int pad);
void tb_work_close(struct tb_work *work);

/* The product at hand is now this one, computed as the library chooses in this precision. */
void tb_work_set(struct tb_work *work, struct tb_shape shape);
void tb_work_set_precision(struct tb_work *work, enum tb_precision precision);
struct tb_product tb_work_product(const struct tb_work *work);

/* Its first copy. */
struct tb_sgemm_args tb_work_arguments(const struct tb_work *work);

/* Compares a sample of one result, C poisoned before, with fp64. False: wrong, which stands on stderr. */
bool tb_work_check(struct tb_work *work, struct tb_error *error);

/* Median microseconds; see gpu.h. */
double tb_work_median_us(struct tb_work *work, double budget_s);

#endif
