/* SPDX-License-Identifier: BSD-3-Clause */
#include "order.h"

#include <stdbool.h>

#include "integers.h"
#include "sgemm_args.h"
#include "thin_plan.h"

/*
 * A k that is split stores a sum for each group of each of its parts, so long groups are cheap, and a part should have
 * few; but k is split between groups, so there must be enough of them. These are the parts that a large GPU would
 * make of k: so many that its tiles of 128 x 128 are once as many as it holds at a time, or, where that leaves much
 * of it idle, twice. The numbers are an H200's, 132 multiprocessors with two tiles each. They belong to the order of
 * summation now, and stay as they are on other GPUs.
 */
#define TILE 128
#define TILES_AT_ONCE 264
/* Chunks of a group at most, by the error of a sum of so many; and at least, by the sums of D, which blocks that have
 * several groups read and write for each, when k is not split after all. A short k is one group. */
#define CHUNKS_MAX 16
#define CHUNKS_MIN 2
#define SHORT_K_CHUNKS_MIN 3
#define SHORT_K_CHUNKS 8
#define ONE_GROUP_CHUNKS 4
/* Chunks of a group where k need not be split: but between groups k is split for a last round of tiles, and cut on its
 * way from ordinary memory, at 4096 cubed into thirds (plan.h). */
#define CHUNKS_OF_WHOLE_K 4
#define CHUNKS_OF_LONG_WHOLE_K 6
#define LONG_K_CHUNKS 32

static int64_t group_chunks(int64_t tiles, int64_t chunks) {
  const int64_t once = TILES_AT_ONCE / tiles, twice = 2 * TILES_AT_ONCE / tiles;
  const bool idle = 4 * twice > 10 * once; /* by a quarter more of it is busy in two rounds than in one */
  const int64_t parts = idle ? twice : once;
  if (parts <= 1) return chunks >= LONG_K_CHUNKS ? CHUNKS_OF_LONG_WHOLE_K : CHUNKS_OF_WHOLE_K;
  if (chunks <= ONE_GROUP_CHUNKS) return ONE_GROUP_CHUNKS;
  const int64_t least = chunks <= SHORT_K_CHUNKS ? SHORT_K_CHUNKS_MIN : CHUNKS_MIN;
  return tb_max(least, tb_ceil_div(chunks, tb_max(parts, tb_ceil_div(chunks, CHUNKS_MAX))));
}

int64_t tb_group_k(int64_t m, int64_t n, int64_t k) {
  if (tb_thin_takes(m, n)) return TB_SGEMM_GROUP_K;
  const int64_t tiles = tb_ceil_div(m, TILE) * tb_ceil_div(n, TILE);
  return group_chunks(tiles, tb_ceil_div(k, TB_SGEMM_CHUNK_K)) * TB_SGEMM_CHUNK_K;
}

int64_t tb_gemm_group_k(const struct tb_gemm *call) {
  return call->group_k > 0 ? call->group_k : tb_group_k(call->m, call->n, call->k);
}
