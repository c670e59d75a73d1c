/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a product with few rows or few columns is spread over a GPU (kernels/skinny/skinny.cu): pure arithmetic, tested
 * without one. Knows nothing of CUDA. Thread safe.
 */
#ifndef TB_SKINNY_PLAN_H
#define TB_SKINNY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "select/choice.h"
#include "select/product.h"
#include "skinny/skinny_args.h"

#define TB_SKINNY(...) +1
enum {
  TB_SKINNY_ROW_COUNT = 0
#include "skinny/skinny.def"
};
#undef TB_SKINNY

/* One row of skinny.def. */
struct tb_skinny_row {
  int columns, rows, batch, side_threads, k_threads, stages;
};

extern const struct tb_skinny_row tb_skinny_rows[TB_SKINNY_ROW_COUNT];

struct tb_skinny_plan {
  int row;         /* of skinny.def */
  bool exchanged;  /* the large operand X is op(B)^T, and D's transpose is computed; else it is op(A) */
  bool along_k;    /* X's memory runs along k */
  bool vectors;    /* X is to be read 16 bytes at a time */
  int64_t m, n, k; /* of the product */
  int64_t x_rows;  /* m, or n when exchanged */
  int columns;     /* n, or m when exchanged */
  int block_rows, block_chunks, buffers, groups_per_split; /* as in tb_skinny_args */
  int threads, shared_bytes;
  int64_t blocks;
  int splits;      /* 1: k is not split; else tb_sgemm_gather has to follow */
  double sm_bytes; /* time, counted in bytes that an SM's share of the memory bandwidth moves in it */
};

/* Rows of X that one thread multiplies. */
int tb_skinny_thread_rows(const struct tb_skinny_plan *plan);

/* True when the kernels take an m x n product: one side is short enough. */
static inline bool tb_skinny_takes(int64_t m, int64_t n) {
  return m <= TB_SKINNY_COLUMNS_MAX || n <= TB_SKINNY_COLUMNS_MAX;
}

/*
 * The quickest way to compute op(A) op(B), m x k by k x n, that the kernels have; ta and tb: transposed; vectors: the
 * larger operand is aligned to 16 bytes and so are its columns, and where they run along m or n, the last 16 bytes may
 * be read. k is split only if the groups' sums, tb_skinny_partials_bytes, fit into partials_bytes. False: the kernels
 * do not take it, or it does not fit this GPU's shared memory (64 KiB are enough).
 */
bool tb_skinny_plan_make(struct tb_skinny_plan *plan, const struct tb_sm_limits *limits, bool ta, bool tb, int64_t m,
                         int64_t n, int64_t k, bool vectors, int64_t partials_bytes);

/* Room that the plan's split wants in tb_sgemm_args.partials. */
static inline int64_t tb_skinny_partials_bytes(const struct tb_skinny_plan *plan) {
  const int64_t groups = (plan->k + TB_SGEMM_GROUP_K - 1) / TB_SGEMM_GROUP_K;
  return plan->splits > 1 ? groups * plan->m * plan->n * (int64_t)sizeof(float) : 0;
}

/* Predicted time, launches included, on a GPU whose memory moves bytes_per_second. */
static inline double tb_skinny_seconds(const struct tb_skinny_plan *plan, const struct tb_sm_limits *limits,
                                       double bytes_per_second) {
  return plan->sm_bytes * limits->sm_count / bytes_per_second;
}

/* ---- for the selector ---- */

/* Whether the device has the kernels and they take the product; they know groups of one length alone. */
static inline bool tb_skinny_is_for(const struct tb_select_device *device, const struct tb_product *p) {
  return device->skinny && tb_skinny_takes(p->m, p->n) && p->group_k == TB_SGEMM_GROUP_K;
}

/* At most one way: into how many parts k is split the plan knows, and here whether there is room for the groups' sums.
 */
#define TB_SKINNY_CANDIDATES_MAX 1
int tb_skinny_candidates(const struct tb_select_device *device, const struct tb_product *product,
                         struct tb_choice candidate[]);
void tb_skinny_offer(const struct tb_select_device *device, const struct tb_product *product, struct tb_best *best);

/* Less exact than the plan's, and quicker to have. */
double tb_skinny_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *product, const struct tb_choice *choice);
int64_t tb_skinny_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice);
const char *tb_skinny_name(const struct tb_choice *choice);

/* ---- for the launch ---- */

/* The kernels' arguments for args->a, b, d and so on; the product is the plan's. */
void tb_skinny_arguments(struct tb_skinny_args *skinny, const struct tb_skinny_plan *plan, bool ta, bool tb,
                         const struct tb_sgemm_args *args);

#endif
