/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A way to compute a product: which family of kernels, and what that family has to know. Each family reads its own
 * member alone; what all of them answer, a name or the memory that a way takes, family.h asks. Pure data; thread-safe.
 */
#ifndef TB_CHOICE_H
#define TB_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/* In the order of preference among equals. */
enum tb_family {
  TB_FAMILY_NONE,     /* the device runs none of our kernels */
  TB_FAMILY_EMULATED, /* the tensor cores (emulated_plan.h); has one tile, its own */
  TB_FAMILY_SKINNY,   /* one short side, limited by memory (skinny_plan.h); has no tile */
  TB_FAMILY_FP64,     /* double precision, on every device (fp64_plan.h) */
  TB_FAMILY_FMA,      /* every device; a grid of one block a tile (fma_plan.h) */
  TB_FAMILY_COUNT
};

struct tb_fma_way {
  int tile;       /* index in tb_tiles */
  int splits;     /* parts of k that different blocks compute; 1: k is not split */
  int unit_k;     /* of a split k: TB_SGEMM_CHUNK_K or the product's group_k */
  int64_t pack_k; /* of packed operands: products along k that are packed, and multiplied, at once; a k that is split is
                     all packed at once. 0: the operands are taken as they are */
  /* Of a packed tile with k split: so many rows or columns of tiles, the first ones, are computed with k whole, as many
   * as fill the GPU a few times over; the split is for the others. One of both is 0. */
  int32_t whole_rows, whole_columns;
};

struct tb_skinny_way {
  int splits; /* more than 1: there is room for the groups' sums, and skinny_plan.h may split k */
};

/*
 * The first `whole` tiles with k whole, and with k in so many parts, of whole groups, the others; where splits is 1, k
 * is whole for all. fast: by fp16 planes even where they make the error larger than that of fp32, but for what does not
 * fit into them. All of that is for one span of k: so many products along it, whole groups, are packed and multiplied,
 * and then the next; 0: all at once. beside: launches of other streams are on the GPU, too.
 */
struct tb_emulated_way {
  int splits, whole;
  bool fast, beside;
  int64_t span_k;
};

struct tb_fp64_way {
  int64_t room_bytes; /* for the sums of a split k, of each element of the result */
};

struct tb_choice {
  enum tb_family family;
  union {
    struct tb_fma_way fma;
    struct tb_skinny_way skinny;
    struct tb_emulated_way emulated;
    struct tb_fp64_way fp64;
  };
};

/* No product has more ways, of all families together. */
#define TB_CANDIDATES_MAX 384

/* The quickest way so far. */
struct tb_best {
  struct tb_choice choice;
  double us;
};

/* Of equals the one that came first stays. */
static inline void tb_best_take(struct tb_best *best, const struct tb_choice *choice, double us) {
  if (best->choice.family == TB_FAMILY_NONE || us < best->us) *best = (struct tb_best){*choice, us};
}

#endif
