/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a product in double precision is spread over a GPU (kernels/fp64/dgemm.cu): arithmetic alone, tested without one,
 * and a table of what was found (fp64_kept.c). Knows nothing of CUDA. Thread safe.
 */
#ifndef TB_FP64_PLAN_H
#define TB_FP64_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "fp64/fp64_args.h"

/* The tiles in the order of tiles.def: TB_FP64_d128x128 and so on. */
enum {
#define TB_FP64_TILE(letter, name, ...) TB_FP64_##letter##name,
#include "fp64/tiles.def"
#undef TB_FP64_TILE
  TB_FP64_TILE_COUNT
};

/* One row of tiles.def. */
struct tb_fp64_tile {
  const char *name;
  bool complex; /* its elements */
  int block_m, block_n, threads, stage_bytes, sum_bytes;
  int blocks; /* that an SM holds by registers */
};
extern const struct tb_fp64_tile tb_fp64_tiles[TB_FP64_TILE_COUNT];

/* What a plan has to know of the GPU. */
struct tb_fp64_device {
  int sm_count;
  int64_t block_shared_bytes, sm_shared_bytes; /* that a block may have, that an SM has */
  bool fast;                                   /* doubles have tensor cores, at half of fp32's FMA rate or above */
  double flops_per_second;                     /* the nominal rate of all its FP64 units */
  double bytes_per_second;                     /* of its memory */
};

struct tb_fp64_plan {
  int tile;        /* of tiles.def */
  bool complex;    /* the elements */
  bool units;      /* operands are copied in units of 16 bytes */
  int64_t m, n, k; /* of the product */
  int group_k;
  struct tb_tiles_wanted wanted; /* for counting tiles; the kernels have it from the call */
  int64_t tiles, whole;          /* in all, and with k whole */
  int splits;                    /* parts of k of the other tiles; 1: there are none */
  int groups_per_split;          /* groups of a part */
  int64_t jobs;                  /* whole tiles, and parts */
  int64_t blocks;                /* at most as many as the GPU holds at once: they take one job after another */
  int shared_bytes;
  int64_t partials_bytes; /* room for tb_fp64_args.partials; 0 without splits */
  double seconds;         /* predicted, launches included */
};

/* A product, or a part of one that has groups of group_k. */
struct tb_fp64_product {
  bool complex, units;
  int64_t m, n, k;
  int group_k;
  struct tb_tiles_wanted wanted; /* of its result; whether it is Hermitian makes no difference */
};

/* Products of a group for a product of this shape, whatever part of it is then computed where: the bits depend on it
 * (fp64_order.c). */
int tb_fp64_group_k(bool complex, int64_t m, int64_t n, int64_t k);

/* Its plan, of which no way is chosen yet. */
struct tb_fp64_plan tb_fp64_plan_of(const struct tb_fp64_product *product);

/*
 * The quickest way to compute a product of m x k by k x n. k is split only if the groups' sums fit into partials_bytes.
 * False: no tile fits this GPU's shared memory (40 KiB are enough), or a size is above 2^31 - 1024.
 */
bool tb_fp64_plan_make(struct tb_fp64_plan *plan, const struct tb_fp64_device *device,
                       const struct tb_fp64_product *product, int64_t partials_bytes);

/* A product whose result is computed in pieces, each of all k, one after another: where tiles along an edge would lie
 * beyond it for the most part, or blocks would have no tile in the last round, what is left is a piece with tiles of
 * its own. More than one only if all of the result is wanted. Plans of pieces have it that they are copied in units
 * where the product is: of an odd product whose memory is aligned the first piece may be, too, and is sooner than
 * predicted. */
enum { TB_FP64_PIECES_MAX = 3 };
struct tb_fp64_cut {
  int count;
  struct tb_fp64_piece {
    int64_t row, column; /* of the piece's first element */
    struct tb_fp64_plan plan;
  } piece[TB_FP64_PIECES_MAX];
  double seconds; /* predicted */
};

/* Likewise, in as many pieces as is quickest, if it is worth their launches; partials_bytes are for each of them. */
bool tb_fp64_cut_make(struct tb_fp64_cut *cut, const struct tb_fp64_device *device,
                      const struct tb_fp64_product *product, int64_t partials_bytes);

/* The same, kept for the next time, by all threads (fp64_kept.c). */
bool tb_fp64_cut_find(struct tb_fp64_cut *cut, const struct tb_fp64_device *device,
                      const struct tb_fp64_product *product, int64_t partials_bytes);

/* That way with this tile, which is one for the plan's elements, `whole` tiles with k whole, and the others' k in so
 * many parts; seconds included. False: the tile does not fit, or there are not so many groups. */
bool tb_fp64_plan_way(struct tb_fp64_plan *plan, const struct tb_fp64_device *device, int tile, int64_t whole,
                      int splits);

/* Fills in what of the kernels' arguments is the plan's: m, n, k, group_k, whole, jobs and groups_per_split. */
void tb_fp64_arguments(struct tb_fp64_args *args, const struct tb_fp64_plan *plan);

#endif
