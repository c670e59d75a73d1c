/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How trmm and trsm become products and small triangles, and where their parts lie on a GPU: pure arithmetic, tested
 * without one.
 *
 * Steps. Seen from the left, A' = op(A), or op(A)^T where op(A) stands on the right and B is transposed, is lower or
 * upper. It is halved, again and again, at multiples of a leaf:
 *
 *      A11  0      B1     solve:     X1 = A11^-1 B1,  B2 = B2 - A21 X1,  X2 = A22^-1 B2
 *      A21 A22     B2     multiply:  B2 = A22 B2,     B2 = B2 + A21 B1,  B1 = A11 B1
 *
 * and for an upper one with 1 and 2 in each other's places. All of that is in place. A half that is done is not
 * touched again, and what a half needs of the other is there when it needs it, so after any step the rest of the steps
 * gives the result, by whomever.
 *
 * Where a kernel knows of the triangle, in doubles, a multiplication is one step: B = A' B, made apart from B.
 *
 * Blocks. The columns of B, seen from the left, have nothing to do with each other. They are taken in blocks, so that
 * one goes up while another is computed and a third comes down, each in one of a few places in the arena:
 *
 *      A' | two panels of A on their way | places of blocks | and as B is stored, on the right | workspaces | of each
 *                                                                                            stream a product
 *
 * B's first block goes up, then A, in panels of stored columns, in the order in which that block's steps want them, and
 * of each what the triangle has: its rows from the panel's first column on, or up to its last.
 *
 * Bands. Of a large solve all blocks are on the GPU at once, and go by slots in bands of rows: what the halving has at
 * some depth. They come in the order in which they are solved, each behind the rows of A' that it needs. The last one
 * goes in its halves, for behind it there is nothing that could hide it. What the halving adds to more bands than one
 * is added to each when its turn comes. So every element has its terms in the order and the groups that it has in the
 * steps above, and the same bits. The first rows are solved while others go up, and come down while others are solved:
 *
 *      A'    1 .         B    1      of band 4, behind bands 1 to 3:  B4 = B4 - (A41 A42) (X1 X2)^T
 *            2 2 .            2                                       B4 = B4 - A43 X3
 *            3 3 3 .          3                                       X4 = A44^-1 B4
 *            4 4 4 4          4
 *
 * A portion is what of B goes by slots at once: a block, or a block's rows of a band.
 */
#ifndef TB_PLAN_TRIANGULAR_H
#define TB_PLAN_TRIANGULAR_H

#include "blas/triangular.h"
#include "plan/plan.h"

/* A step: a leaf's rows [first, first + size) of B, or the product that adds to them A' times the rows from `source`
 * on, of which there are source_size. The product may be a part of one with whole_size rows. */
struct tb_triangular_step {
  bool is_leaf;
  int64_t first, size, source, source_size, whole_size;
};

/* What a call is, seen from the left. */
struct tb_triangular_shape {
  bool solves, lower; /* lower: A' */
  int64_t order, leaf;
};

/* Steps of it, and step `number` of them. */
int64_t tb_triangular_steps(const struct tb_triangular_shape *shape);
struct tb_triangular_step tb_triangular_step(const struct tb_triangular_shape *shape, int64_t number);

/* Rows of B, seen from the left. */
struct tb_triangular_rows {
  int64_t first, size;
};

/* What the halving has at a depth, of which there are 2^depth, numbered in the order in which they are solved. */
struct tb_triangular_node {
  int depth;
  int64_t number;
};
struct tb_triangular_rows tb_triangular_node_rows(const struct tb_triangular_shape *shape,
                                                  struct tb_triangular_node node);

/* Steps of its rows, behind those of the rows before them; and step `number` of them. At depth 0 these are all. */
int64_t tb_triangular_node_steps(const struct tb_triangular_shape *shape, struct tb_triangular_node node);
struct tb_triangular_step tb_triangular_node_step(const struct tb_triangular_shape *shape,
                                                  struct tb_triangular_node node, int64_t number);

/* Blocks begin at multiples of so many columns: there the bits do not show it (select/emulated_plan.h). */
#define TB_TRIANGULAR_BLOCK_STEP 192
#define TB_TRIANGULAR_PLACES_MAX 4
#define TB_TRIANGULAR_STREAMS 2
#define TB_TRIANGULAR_DEPTH_MAX 4 /* of bands */
#define TB_TRIANGULAR_BANDS_MAX ((1 << TB_TRIANGULAR_DEPTH_MAX) + 1)

/* By leaves and products of halves; or a multiplication as one product that knows of the triangle: in doubles, or on
 * the tensor cores from planes, all of A' packed once. */
enum tb_triangular_how { TB_BY_HALVES, TB_BY_DOUBLES, TB_BY_PLANES };

struct tb_triangular_plan {
  struct tb_triangular_shape shape;
  struct tb_ways ways;        /* of A and C; b's is C's */
  enum tb_triangular_how how; /* one product is made apart from the block */
  bool turns;                 /* op(A) is on the right: blocks are transposed on the device, both ways */
  int64_t sides;              /* columns of B, seen from the left */
  int64_t block;              /* of a block, at most */
  int64_t blocks;
  int depth;        /* of bands; 0: B goes by slots in blocks, of all rows */
  bool halves_last; /* of bands */
  int places;       /* for blocks in the arena; 0: they are computed where B lies */
  int streams;
  int64_t panel, panels; /* stored columns of A that go up, or are read, at once; 0 with bands: a band's rows of A' */
  int64_t a_ld;          /* of A', as tb_triangle_form_args has it */
  int64_t packed_offset_bytes, packed_bytes;            /* of its planes */
  int64_t raw_offset_bytes, raw_bytes;                  /* of one of two buffers for panels on their way */
  int64_t b_ld, b_offset_bytes, b_bytes;                /* of a place: a block as it is computed */
  int64_t stored_ld, stored_offset_bytes, stored_bytes; /* and as B has it, where it is transposed and goes by slots */
  int64_t workspace_offset_bytes, workspace_bytes;      /* of each stream */
  int64_t apart_ld, apart_offset_bytes, apart_bytes;    /* likewise: for one product; and within that */
  int64_t unfit_at_bytes, planes_at_bytes, work_at_bytes; /* what was seen of its columns; planes; a workspace */
  int64_t arena_bytes;
};

/* The ways for operands that lie in these places (NULL: all pageable). B is overwritten, so what the program has of it
 * is needed until the result is certain: a pinned B is the host's to commit. */
struct tb_ways tb_triangular_ways(const struct tb_places *places);

/* How the call (m, n >= 1) is seen from the left, with leaves of so many rows. */
struct tb_triangular_shape tb_triangular_shape_of(const struct tb_call *call, int64_t leaf);

/* Columns of a block of a call for which there is memory enough. */
int64_t tb_triangular_block_wish(const struct tb_call *call, struct tb_ways ways, enum tb_triangular_how how);

/* Cuts a call for at most budget_bytes of device memory, in blocks of so many columns or fewer; by halves with leaves
 * of so many rows, and a stream's workspace would like to have `workspace_bytes` of it. False: not even the narrowest
 * blocks fit beside A'. */
bool tb_triangular_plan_make(struct tb_triangular_plan *plan, const struct tb_call *call, struct tb_ways ways,
                             enum tb_triangular_how how, int64_t leaf, int64_t block, int64_t workspace_bytes,
                             int64_t budget_bytes);

/* A block's columns, seen from the left. */
static inline int64_t tb_triangular_first(const struct tb_triangular_plan *plan, int64_t block) {
  return block * plan->block;
}
static inline int64_t tb_triangular_size(const struct tb_triangular_plan *plan, int64_t block) {
  return tb_min(plan->block, plan->sides - block * plan->block);
}

/* Bands, one where B goes in blocks; and which node of the halving one of them is. */
static inline int64_t tb_triangular_bands(const struct tb_triangular_plan *plan) {
  return ((int64_t)1 << plan->depth) + plan->halves_last;
}
static inline struct tb_triangular_node tb_triangular_node_of(const struct tb_triangular_plan *plan, int64_t band) {
  const int64_t last = ((int64_t)1 << plan->depth) - 1;
  if (!plan->halves_last || band < last) return (struct tb_triangular_node){plan->depth, band};
  return (struct tb_triangular_node){plan->depth + 1, last + band};
}

/* B's portions; of one its block and its band, which are those of others, too. */
static inline int64_t tb_triangular_portions(const struct tb_triangular_plan *plan) {
  return plan->blocks * tb_triangular_bands(plan);
}
static inline int64_t tb_triangular_block_of(const struct tb_triangular_plan *plan, int64_t portion) {
  return portion % plan->blocks;
}
static inline int64_t tb_triangular_band_of(const struct tb_triangular_plan *plan, int64_t portion) {
  return portion / plan->blocks;
}
static inline struct tb_triangular_rows tb_triangular_rows_of(const struct tb_triangular_plan *plan, int64_t band) {
  return tb_triangular_node_rows(&plan->shape, tb_triangular_node_of(plan, band));
}

/* Whether between a portion's stored columns there are those of others. */
static inline bool tb_triangular_is_apart(const struct tb_triangular_plan *plan) {
  return plan->depth > 0 && !plan->turns;
}

/* What of the stored columns from `first` on goes up: rows [row, row + rows). */
struct tb_triangular_panel {
  int64_t first, columns, row, rows;
};
struct tb_triangular_panel tb_triangular_panel(const struct tb_triangular_plan *plan, const struct tb_call *call,
                                               int64_t number);

/* The panel that is wanted behind so many others: steps that go down begin with the first stored columns, others with
 * the last. */
int64_t tb_triangular_wanted(const struct tb_triangular_plan *plan, int64_t number);

/* How many panels, in that order, are to be there before this step of a portion, and those before it. */
int64_t tb_triangular_panels_for(const struct tb_triangular_plan *plan, const struct tb_call *call, int64_t portion,
                                 int64_t step);

/* ---- what is left ---- */

/* How far a call has come. Each of B's portions goes by slots: then stored columns of it are committed one after
 * another, where op(A) is on the right in the order in which they are done. Or a portion is a block, in the arena to be
 * computed, and complete when it is back; or computed where it lies, step by step. */
struct tb_triangular_progress {
  bool begun;      /* B is not what it was: else all the rest means nothing */
  int64_t portion; /* those before this one are complete; where they lie, those that are not of one of the streams */
  int64_t lines;   /* of this portion: stored columns that are committed */
  int64_t steps[TB_TRIANGULAR_STREAMS]; /* of each block where it lies: to be alpha B is the first, then the plan's */
  bool torn; /* of a step where a block lies some is enqueued and some was refused: nobody can finish that */
  double up_bytes, down_bytes;
  int handed; /* of the rest: parts that were handed out */
};

/* What is left of a call as calls to be made one after another, of which this hands out the next. False: there is no
 * more. */
bool tb_triangular_take_rest(const struct tb_triangular_plan *plan, const struct tb_call *call,
                             struct tb_triangular_progress *progress, struct tb_call *rest);

#endif
