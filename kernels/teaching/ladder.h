/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ladder as data: what a host program has to know to launch a step and to say what it should cost.
 *
 * The steps come from ladder.def. Everything here is a constant or a pure function of its arguments, for C and CUDA C++
 * alike; nothing here touches a GPU. Any number of threads may use it.
 */
#ifndef TB_TEACHING_LADDER_H
#define TB_TEACHING_LADDER_H

#include <stdint.h>

/* How many blocks a launch needs. */
enum tb_ladder_grid {
  TB_GRID_THREADS, /* one thread per element of C: blocks of block_y x block_x elements, in two dimensions */
  TB_GRID_TILES,   /* one block per tile of C, in two dimensions */
  TB_GRID_STRIDE   /* any number of blocks, in one dimension: the blocks walk over the tiles until all are done */
};

/* Which m, n, k a step takes. */
enum tb_ladder_sizes {
  TB_SIZES_ANY,      /* every m, n, k >= 1 */
  TB_SIZES_MULTIPLES /* m of tile_m, n of tile_n, k of tile_k; nothing checks it on the device */
};

/* Who multiplies in a tile that reaches over the edge of C or over the end of k. */
enum tb_ladder_work {
  TB_WORK_OWNERS,  /* only threads that own an element of C, only up to k: 2 m n k operations */
  TB_WORK_EVERYONE /* all threads, over the zeros that fill the tile: as if m, n, k were rounded up to whole tiles */
};

struct tb_ladder_step {
  const char *name;  /* of the kernel */
  const char *title; /* for people */
  int block_x, block_y;
  int tile_m, tile_n, tile_k; /* what a block keeps in shared memory: tile_m x tile_k of A, tile_k x tile_n of B */
  int thread_m, thread_n;     /* elements of C per thread */
  enum tb_ladder_grid grid;
  enum tb_ladder_sizes sizes;
  enum tb_ladder_work work;
};

/* What a kernel did. Filled when the kernels run on the CPU, see count.cuh; set it to zero before a launch. */
struct tb_ladder_counts {
  uint64_t bytes_read, bytes_written; /* of global memory */
  uint64_t flops;
};

static const struct tb_ladder_step tb_ladder[] = {
#define TB_LADDER_STEP(name, function, title, block_x, block_y, resident, tile_m, tile_n, tile_k, thread_m, thread_n, \
                       grid, sizes, work)                                                                             \
  {#name, title, block_x, block_y, tile_m, tile_n, tile_k, thread_m, thread_n, grid, sizes, work},
#include "ladder.def"
#undef TB_LADDER_STEP
};
enum { TB_LADDER_STEPS = sizeof tb_ladder / sizeof tb_ladder[0] };

static inline int64_t tb_ladder_ceil_div(int64_t x, int64_t by) { return (x + by - 1) / by; }

/*
 * Floating-point operations per byte read from global memory, away from the edges.
 *
 * In one step of p, a tile reads tile_m elements of A and tile_n of B and does tile_m * tile_n multiply-adds with them:
 *   2 tile_m tile_n / (4 (tile_m + tile_n)) flop/byte,
 * which is T / 4 for a square tile T, and 1 / 4 for the naive kernel, whose tile is 1 x 1.
 */
static inline double tb_ladder_intensity(const struct tb_ladder_step *s) {
  return 2.0 * s->tile_m * s->tile_n / (4.0 * (s->tile_m + s->tile_n));
}

/*
 * What a launch costs, exactly: A is read once per column of tiles, B once per row of tiles, C is written once, and
 * what lies outside the matrices is neither read nor written.
 */
static inline struct tb_ladder_counts tb_ladder_expected(const struct tb_ladder_step *s, int64_t m, int64_t n,
                                                         int64_t k) {
  const int64_t rows = tb_ladder_ceil_div(m, s->tile_m), cols = tb_ladder_ceil_div(n, s->tile_n);
  const int64_t depth = tb_ladder_ceil_div(k, s->tile_k);
  const int64_t multiply_adds =
      s->work == TB_WORK_OWNERS ? m * n * k : rows * s->tile_m * (cols * s->tile_n) * (depth * s->tile_k);
  struct tb_ladder_counts c;
  c.bytes_read = (uint64_t)(sizeof(float) * (m * k * cols + k * n * rows));
  c.bytes_written = (uint64_t)(sizeof(float) * m * n);
  c.flops = (uint64_t)(2 * multiply_adds);
  return c;
}

/* Whether the step takes the problem: m, n, k from 1 to INT_MAX and as sizes says, and a grid that CUDA can launch. */
static inline int tb_ladder_takes(const struct tb_ladder_step *s, int64_t m, int64_t n, int64_t k) {
  enum { GRID_Y_MAX = 65535 }; /* gridDim.y on every GPU so far; gridDim.x goes up to INT_MAX */
  if (m < 1 || n < 1 || k < 1 || m > INT32_MAX || n > INT32_MAX || k > INT32_MAX) return 0;
  if (s->sizes == TB_SIZES_MULTIPLES && (m % s->tile_m || n % s->tile_n || k % s->tile_k)) return 0;
  if (s->grid == TB_GRID_STRIDE) return 1;
  return tb_ladder_ceil_div(m, s->grid == TB_GRID_THREADS ? s->block_y : s->tile_m) <= GRID_Y_MAX;
}

/* The grid for C of m x n; `stride_blocks` >= 1 is the most that TB_GRID_STRIDE may launch. */
static inline void tb_ladder_grid_size(const struct tb_ladder_step *s, int64_t m, int64_t n, int64_t stride_blocks,
                                       unsigned *grid_x, unsigned *grid_y) {
  const int per_thread = s->grid == TB_GRID_THREADS;
  const int64_t rows = tb_ladder_ceil_div(m, per_thread ? s->block_y : s->tile_m);
  const int64_t cols = tb_ladder_ceil_div(n, per_thread ? s->block_x : s->tile_n);
  const int64_t blocks = rows * cols < stride_blocks ? rows * cols : stride_blocks;
  *grid_x = (unsigned)(s->grid == TB_GRID_STRIDE ? blocks : cols);
  *grid_y = (unsigned)(s->grid == TB_GRID_STRIDE ? 1 : rows);
}

#endif
