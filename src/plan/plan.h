/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a product is cut so that it fits the device: pure arithmetic, tested without a GPU.
 *
 *            n                C is cut into blocks of block_m x block_n. While a block is computed, its rows of op(A),
 *      +-----+-----+          its columns of op(B) and its result are on the device; when they do not fit for all of k,
 *      |1 1 3|     |          k is cut into chunks, and the partial sums stay in the result's buffer between them.
 *    m |1 1 3|block|          A block is cut into tiles of tile_m x tile_n. op(A) goes up in panels of tile_m rows,
 * op(B) |2 2 3|     |          in panels of tile_n columns, both in slices of slice_k; a tile is launched once for each
 *      +-----+-----+          slice, and comes down when it is complete. schedule.h has the order (the numbers).
 *      |     |     |
 *      +-----+-----+
 *
 * Sizes, by bench/overlap_model.py: at 4096 cubed, kernels of 50 and of 200 TFLOP/s, tiles of 1024 and slices of 1408
 * reach 0.73 and 0.75 of the floor; tiles of 2048 finish too late (0.67, 0.66), launches of 512 x 512 do not fill a GPU
 * (0.50, 0.79). A product whose operands fit into one slot together is not cut at all: it goes up by one copy, packed
 * as in the arena.
 *
 * Strips. Where the kernels compute all of C in the time that the larger operand takes on its way up, the smaller one
 * goes up first, as a single panel, and then the larger one in narrow panels. Each completes a strip of C, which comes
 * down while the next ones go up, and what is left behind the last panel is a strip, not a quarter of C. (H200,
 * medians, squares of tiles and strips in turns in one process: 2048 cubed 1.19 and 1.01 ms, 4096 3.56 and 3.31,
 * 6144 7.77 and 7.13, 8192 13.1 and 12.0; strips twice as wide 2 to 4 % slower, half as wide 22 % at 4096. The model
 * has 3.27 and 3.13 ms, 12.8 and 12.1 with pieces of 2 MiB, as they were then.) Where the product takes longer, the
 * kernels must not wait for half of what goes up.
 *
 * Twins. Of a triangle of op(A) op(A)^T, or op(A) op(A)^H, that is not cut, a panel of A is also the panel of B with
 * its number, as it is stored. It goes up once, so tiles are squares: as many elements go up as in a product of half
 * the k.
 *
 * Both. Of syr2k and her2k, A B^T + B A^T, that are not cut, a panel of A is also the second product's panel of B with
 * its number, and the other way round. All panels go up once and stay, and a tile whose four are there has the second
 * product added to its sum; so tiles are squares here, too. Where C or k is cut, or the operands do not lie alike, the
 * chunks of the second product follow those of the first, and all panels go up again. (One H100's host, 8192, ms as
 * two calls and so: ssyr2k 43, 22.5; dsyr2k 64, 32.7; csyr2k 88, 41; zsyr2k 127, 98. The link alone takes 9.8 and 19.5
 * in s and d; behind it are a sixth (s) or two ninths of the product, which the last two panels bring, and their C.)
 *
 * Unfolded. A large symmetric or Hermitian operand in ordinary memory goes up as it is stored, into a square behind the
 * tiles of C: with panel number i the columns of the triangle that meet the diagonal in the panel. With those of the
 * panels before (of an upper triangle, which begins with the last panel, of those behind) they are all that a kernel
 * forms the panel of. So half of it goes up, and no thread turns what the other triangle mirrors. Where the product
 * takes no longer than B's way up, A is up first, in a few panels, and B in strips.
 *
 * For the tensor cores (select/emulated.h) k is cut between spans only, and a chunk has one slice or two: what is up is
 * packed once, and a tile is one launch for each span from two packed panels. Blocks and tiles start at multiples of
 * the tensor cores' own tiles of C, because a result's bits depend on where those lie. The arena then is
 *
 *      A's panels | B's panels | tiles of C | A's panels packed | B's panels packed | a workspace for each stream
 *
 * A complex product is computed as a real one of twice the rows and twice the k (kernels/complex/complex_args.h), which
 * C and most B in memory are without a change. Panels of A, and of a B that is transposed, are made real ones when they
 * are up, and have room for that behind the tiles of C:
 *
 *      A's panels | B's panels | tiles of C | A's real panels | B's real panels | ...
 *
 * Where both C and k are cut, all of A and B goes up for each block; but where there is room for a chunk's panels of A
 * twice, those of the first chunk stay for the other blocks of the row: ahead of A's panels, as many more. Launches are
 * of one stream then, whose workspace leaves the room, and may be where k alone is cut: in order they leave the link
 * less to wait for.
 *
 * By the same model (--split), kernels of 205 TFLOP/s: 0.78, 0.81 and 0.81 of the floor at 4096, 8192 and 16384 cubed,
 * the first two in strips; by squares 0.75 and 0.77.
 * Last panels of half the size, and half of that, so that less is left to compute and fetch behind the last one, gain
 * nothing (H200, 2026-11-22: 4096 cubed 3.86 to 4.02 ms, and 3.82 to 3.98 without; 8192 cubed 14.4 to 16.2, and 14.9 to
 * 15.4). Nor do smaller tiles (8192 cubed by 768 x 768 15.6 to 16.0 ms, by these 13.9 to 15.5 in the same run).
 */
#ifndef TB_PLAN_H
#define TB_PLAN_H

#include "base/integers.h"
#include "cuda/place.h"
#include "select/emulated_plan.h"

/* Device buffers: panels and tiles start on lines, and so do columns of this length and more. */
#define TB_LINE_BYTES ((int64_t)128)
/* Most tiles along one side of a block. */
#define TB_TILES_MAX 32
/* Slices of a plan for the tensor cores, at most; so many can be passed on to other GPUs (exchange.h). */
#define TB_EMULATED_SLICES_MAX 2
/* Launches alternate between at most so many streams, so that the tail of one tile's blocks overlaps the next tile's
 * head. A power of two. */
#define TB_COMPUTE_STREAMS 8
/* Of one pinned staging slot. */
#ifndef TB_SLOT_BYTES /* so does one for fuzz_kept, cache/cache.h */
#define TB_SLOT_BYTES ((int64_t)2 << 20)
#endif

/* How an operand comes to the kernels, or C from them. */
enum tb_way {
  TB_STAGED,  /* copied by the CPU to or from pinned slots, and by the GPU from or to there */
  TB_DIRECT,  /* copied by the GPU from or to where it lies, pinned memory */
  TB_FORMED,  /* of a symmetric or Hermitian operand on the GPU: a kernel makes its panels, general ones */
  TB_IN_PLACE /* the kernels read or write it where it lies */
};

struct tb_ways {
  enum tb_way a, b, c;
  bool passed; /* panels of an operand are passed on between GPUs, of which each brings up some */
  /* Up, as it was measured; 0: it was not. It decides about sizes and orders, never about what is computed. */
  double link_bytes_per_s;
  /* Of operands that the GPU may keep from call to call: they are not to be; or what is in place are such copies, which
   * no stream of the program's concerns. */
  enum tb_kept_ways { TB_MAY_BE_KEPT, TB_NOT_TO_BE_KEPT, TB_ARE_COPIES } kept;
};

/* The ways for operands that lie in these places (NULL: all pageable); device memory must be the computing GPU's. */
struct tb_ways tb_plan_ways(const struct tb_call *call, const struct tb_places *places);

/* What is kept for each of the operands, in arrays of two: an index says of which, and so does `of_b` of a step. */
enum { TB_OF_A, TB_OF_B };

/* Whether what is on a way has the link to cross. */
static inline bool tb_way_is_by_link(enum tb_way way) { return way == TB_STAGED || way == TB_DIRECT; }

/* Whether it is read where the program has it on the GPU, perhaps behind work that the program has enqueued. */
static inline bool tb_way_is_programs(enum tb_way way) { return way == TB_FORMED || way == TB_IN_PLACE; }

/* The way of an operand. */
static inline enum tb_way tb_way_of(const struct tb_ways *ways, bool of_b) { return of_b ? ways->b : ways->a; }

/* Whether the kernels leave the result in C: one that is overwritten where it lies. Of a triangle those for fp64 write
 * nothing else; the others' result has yet to be committed. */
static inline bool tb_kernels_write_c(const struct tb_ways *ways, const struct tb_call *call) {
  return ways->c == TB_IN_PLACE && tb_call_overwrites(call) &&
         (call->region.of == TB_WHOLE || tb_type_is_double(call->type));
}

/* The operand, and whether its stored columns run along k. */
static inline struct tb_view tb_operand_of(const struct tb_call *call, bool of_b) { return of_b ? call->b : call->a; }
static inline bool tb_runs_along_k(const struct tb_call *call, bool of_b) {
  return tb_operand_of(call, of_b).transposed != of_b;
}

/* Of the panels of an operand. */
struct tb_plan_operand {
  int64_t offset_bytes; /* in the arena: A's, then B's, then the result's tiles */
  int64_t panel_elems;  /* room for one, padding included */
  int64_t real_elems;   /* of a complex product: for one made real, in reals; 0: it is taken as it is */
  int64_t packed_bytes; /* emulated: for one's span; 0 when at once: then a launch packs both */
};

struct tb_plan {
  int64_t block_m, block_n, chunk_k; /* chunk_k is k, or a multiple of cut_k */
  int64_t group_k;                   /* of the product: between groups cuts of k do not show in the result (order.h) */
  int64_t cut_k;                     /* whole groups that fill lines of the arena */
  int64_t slice_k;                   /* chunk_k, or a multiple of cut_k */
  int64_t tile_m, tile_n;
  struct tb_plan_operand operand[2];
  int64_t d_offset_bytes, tile_elems; /* of the result's tiles; room for one, padding included */
  int64_t stored_offset_bytes;        /* of a mirrored operand as it is stored: a square, from which a kernel forms */
  int64_t stored_ld;                  /* its panels; 0: they go up as panels */
  bool no_square;                     /* there is no room for that */
  int64_t a_kept_bytes; /* emulated: of the first chunk's panels of A, ahead of the others'; 0: they are among them */
  int64_t real_offset_bytes;      /* A's panels made real, then B's */
  int64_t workspace_offset_bytes; /* and last, where there is room, for what kernels note down */
  int64_t workspace_bytes;        /* for each tile of the block; may be 0. emulated: for each stream */
  int64_t arena_bytes;
  bool at_once;           /* everything is in place: one launch computes a block */
  bool triangle_in_place; /* so it is, but of a triangle, whose tiles are launched in several streams */
  bool strips;    /* one operand is up first, mostly a single panel, and each panel of the other completes tiles */
  bool by_slices; /* of twins: all panels go up by slices */
  bool twins;     /* B's panels are A's: of op(A) op(A)^T one goes up for both */
  bool both;      /* of a call that is two products: the panels that are up serve both */
  int64_t again_real_bytes;    /* both: from what is made real for the first to the same for the second */
  int64_t again_packed_bytes;  /* likewise of what is packed */
  bool one_slot;               /* one tile, and A's and B's panels fit into one slot together, C into another */
  bool emulated;               /* for the tensor cores */
  struct tb_emulated_way way;  /* emulated: of every launch */
  int streams;                 /* emulated: that the launches alternate between, a power of two */
  int64_t span_k;              /* emulated: of the product, not of the plan (emulated_plan.h); a chunk has whole ones */
  int64_t packed_offset_bytes; /* emulated: of A's packed panels, then B's */
  struct tb_ways
      ways; /* what is in place has no room in the arena; a C with beta does: the product, before its commit */
};

/* Cuts `call` (m, n, k >= 1) for at most budget_bytes of device memory. False: not even the smallest pieces fit. */
bool tb_plan_make(struct tb_plan *plan, const struct tb_call *call, struct tb_ways ways, int64_t budget_bytes);

/* The same for the tensor cores, and never for one slot. `whole`: how the product would be computed as a whole. */
bool tb_plan_make_emulated(struct tb_plan *plan, const struct tb_call *call, struct tb_ways ways,
                           const struct tb_emulated_way *whole, int64_t budget_bytes);

/* Whether such a plan's pieces are not so small that the other kernels in larger ones would be sooner. It decides about
 * the bits: to be asked of a plan whose ways have no measured link. */
bool tb_plan_emulated_pays(const struct tb_plan *plan, const struct tb_call *call);

/* Whether all of a call's product is computed while its operands go up, also without the tensor cores. Where nothing is
 * read in place a function of its sizes and transposes alone, for the result's bits depend on it. */
bool tb_plan_is_hidden(const struct tb_call *call, struct tb_ways ways);

/* Whether a call goes by one slot when there is memory for it. */
bool tb_plan_fits_one_slot(const struct tb_call *call, struct tb_ways ways);

/* Spans of a chunk. */
static inline int64_t tb_plan_spans(const struct tb_plan *plan) { return tb_ceil_div(plan->chunk_k, plan->span_k); }

/* Whether panels are packed for the tensor cores one by one. */
static inline bool tb_plan_packs(const struct tb_plan *plan) { return plan->emulated && !plan->at_once; }

/* Whether panels are made real ones, and whether anything is to be done with a panel that is up. */
static inline bool tb_plan_expands(const struct tb_plan *plan) { return plan->operand[TB_OF_A].real_elems > 0; }
static inline bool tb_plan_prepares(const struct tb_plan *plan) {
  return tb_plan_packs(plan) || tb_plan_expands(plan) || plan->stored_ld > 0;
}

/* Whether an operand goes up as it is stored. At most one is mirrored. */
static inline bool tb_plan_unfolds(const struct tb_plan *plan, const struct tb_call *call, bool of_b) {
  const struct tb_view x = tb_operand_of(call, of_b);
  return plan->stored_ld > 0 && tb_view_is_mirrored(&x);
}

/* Elements of a line, and of a slot. */
static inline int64_t tb_line_elems(enum tb_type type) { return TB_LINE_BYTES / tb_type_bytes(type); }
static inline int64_t tb_slot_elems(enum tb_type type) { return TB_SLOT_BYTES / tb_type_bytes(type); }

/* n elements rounded up to whole lines. */
static inline int64_t tb_padded(enum tb_type type, int64_t n) {
  const int64_t line = tb_line_elems(type);
  return (n + line - 1) / line * line;
}

/* The leading dimension of stored columns of n elements. Those of half a line and less share one, and none straddles
 * two; an eighth of a line, 16 bytes, is what the kernels load at once. Longer ones start on lines, unless the link
 * would have to bring more than an eighth for nothing: then on quarters, what memory moves at once. */
static inline int64_t tb_leading(enum tb_type type, int64_t n) {
  const int64_t line = tb_line_elems(type), quarter = line / 4, whole = tb_padded(type, n);
  if (n <= line / 2) return n > line / 4 ? line / 2 : n > line / 8 ? line / 4 : line / 8;
  return 8 * (whole - n) > n ? (n + quarter - 1) / quarter * quarter : whole;
}

#endif
