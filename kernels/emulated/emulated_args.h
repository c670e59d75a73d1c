/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument blocks of the kernels that compute fp32 products on the tensor cores (split.cu), and how their operands
 * are packed; shared by host C and CUDA C.
 *
 *   D = alpha * ([D +] op(A) op(B))       column-major, as in sgemm_args.h
 *
 * Every operand word becomes the sum of two fp16 numbers, or of three bf16 ones, its planes, and a product of words the
 * sum of three, or six, products of planes. PRECISION.md derives what is left out, and when fp16 is enough.
 *
 * Order of summation, the same on any grid: a chunk is TB_EMULATED_CHUNK_K of k, summed up by the tensor cores, which
 * round toward zero, products of low planes first; chunks are added in order in fp32, which gives a group's sum (bf16:
 * and what rounding takes from that is added to the next chunk's low planes; products of high planes are added apart
 * where some side of the tile has few large words); the groups' sums of a span are added in order, to 0; the spans'
 * sums are added in order; alpha multiplies last. A span is what one product of packed operands has of k: all of it, or
 * equal parts of a long one (emulated_plan.h). Whether a tile of D is computed from fp16 or from bf16 planes depends on
 * its own rows of op(A) and columns of op(B) in the span alone, and so does all else that depends on words; so the bits
 * are the same wherever C is cut between tiles, and k between spans.
 *
 * A packed operand has a word for each side (row of op(A), column of op(B)) and k, sides filled up with zeros to whole
 * tiles, k to whole chunks:
 *
 *   planes   [k / 16][side / 8][plane][k / 8 % 2][side % 8][k % 8]   16-bit words: eight sides by eight k, 128 bytes
 *            that lie together, are what the tensor cores read at a time (PTX ISA, wgmma, core matrix); the sides of a
 *            tile and a step of 16 k lie together, too, and reach shared memory by one bulk copy
 *   scale    [k / TB_EMULATED_GROUP_K][side]            what a group's sums are multiplied by, a power of two
 *   seen     [k / TB_EMULATED_GROUP_K][side / 8]        what the packing kernel found there (TB_EMULATED_WILD ...)
 */
#ifndef TB_EMULATED_ARGS_H
#define TB_EMULATED_ARGS_H

#include <stdint.h>

#include "common/region_tiles.h"
#include "common/sgemm_args.h"

#if defined(__cplusplus)
#define _Alignas alignas
#endif

/* The tile of D of a block of threads; C is cut at multiples of these. */
#define TB_EMULATED_TILE_M 128
#define TB_EMULATED_TILE_N 192
#define TB_EMULATED_STEP_K 16
#define TB_EMULATED_CHUNK_K 32
#define TB_EMULATED_GROUP_K 1024

/* Threads of a block that multiplies: two warpgroups, and one that copies; and of one that packs, the sides that it
 * packs of a group of k, and how many such blocks an SM holds, by their registers. */
#define TB_EMULATED_THREADS 384
#define TB_EMULATED_PACK_THREADS 256
#define TB_EMULATED_PACK_SIDES 8
#define TB_EMULATED_PACK_BLOCKS 3
/* Rows of tiles that are computed together, column by column: their part of A stays in the L2. */
#define TB_EMULATED_BAND 12
/* The same of pairs of tiles of a triangle, whose lengths are to be much the same. */
#define TB_EMULATED_TRIANGLE_BAND 2
/* Blocks that multiply together: neighbouring tiles, whose columns are copied once where they are the same. */
#define TB_EMULATED_CLUSTER 2

/* Bytes of a step's words of eight sides; steps of a stage of the ring in shared memory, and its bytes, with the scales
 * of a tile's rows and columns; how many stages there are: those of three chunks, or of two and a half; bytes of a
 * tile's sums of former groups, which stay there where there is room; and all that a block has of it, with two barriers
 * for each stage, seven, and eight words for what is to be done. */
#define TB_EMULATED_ROWS_BYTES(planes) ((planes)*256)
#define TB_EMULATED_STAGE_STEPS(planes) ((planes) == 2 ? 2 : 1)
#define TB_EMULATED_STAGE_BYTES(planes)        \
  ((TB_EMULATED_TILE_M + TB_EMULATED_TILE_N) * \
   (TB_EMULATED_STAGE_STEPS(planes) * TB_EMULATED_ROWS_BYTES(planes) / 8 + 4))
#define TB_EMULATED_STAGES(planes) ((planes) == 2 ? 3 : 5)
#define TB_EMULATED_KEPT_BYTES(planes) ((planes) == 2 ? TB_EMULATED_TILE_M * TB_EMULATED_TILE_N * 4 : 0)
#define TB_EMULATED_SHARED_BYTES(planes) \
  (TB_EMULATED_STAGES(planes) * (TB_EMULATED_STAGE_BYTES(planes) + 16) + TB_EMULATED_KEPT_BYTES(planes) + 88)

/* What was seen in the words of TB_EMULATED_PACK_SIDES sides and a group of k: in 1024ths, the most small ones that a
 * side has (below 2^-5 to 2^-4 of its largest); fp16: above them, likewise, the most faint ones (below 2^-15 to 2^-14),
 * and, in 256ths but no more than fit, the most that are cut (below 2^-17 to 2^-16, where the low plane loses bits; but
 * zeros, which lose none, are not); and in the highest bits, */
#define TB_EMULATED_SMALL_MASK 0x7ffu
#define TB_EMULATED_FAINT (1u << 11) /* so much for each 1024th */
#define TB_EMULATED_FAINT_MASK (0x7ffu * TB_EMULATED_FAINT)
#define TB_EMULATED_CUT (1u << 22) /* so much for each 256th */
#define TB_EMULATED_CUT_MAX 127u
#define TB_EMULATED_CUT_MASK (TB_EMULATED_CUT_MAX * TB_EMULATED_CUT)
#define TB_EMULATED_FEW_LARGE (1u << 28) /* bf16: few of some side's words are not small; fp16: a bit of CUT */
#define TB_EMULATED_LOW                                                                                                \
  (1u << 29)                         /* fp16: some word has a low plane, and two such words a product that is left out \
                                      */
#define TB_EMULATED_LOSSY (1u << 30) /* fp16: some word is not the sum of its planes */
#define TB_EMULATED_WILD (1u << 31)  /* some word has no place in such planes: too large, too small, Inf or NaN */
/* Few words are fewer than one of so many. */
#define TB_EMULATED_MANY_OF 128
/* bf16: a side's words that are more binades apart than TB_EMULATED_NEAR, and more of which are small than
 * TB_EMULATED_SMALL_MAX, but not all but a few, are wild, too, if k is shorter than TB_EMULATED_FAR_K. */
#define TB_EMULATED_NEAR 32
#define TB_EMULATED_FAR_K 512
/* Of a row and a column of a product together, most small words with which lossy ones do no harm. */
#define TB_EMULATED_SMALL_MAX 896u
/* With more of them: so many products there must be in all of k, one more for each 1024, of a word that is not faint
 * and one that is not small; and of a group's 1024 so many for each 256th that is cut. */
#define TB_EMULATED_PRODUCTS_MIN 74
#define TB_EMULATED_PRODUCTS_OF_CUT 8

/* bf16, of a triangle: words far apart, as above, but whether k is short depends on the row. */
#define TB_EMULATED_FAR_APART TB_EMULATED_FAINT

/* op(A), of k rows, as a triangle: lower, or upper. `parts`: 2 where an element of it has two rows and columns here, as
 * a complex matrix made real has; else 1. 0: op(A) is no triangle. */
struct tb_emulated_triangle {
  int32_t parts, lower;
};

/*
 * What the planes have of a row of a triangle, [first, end) of k. Rounding errors of planes are for sums of many
 * products, and the test of a group has to see enough of it (PRECISION.md). So a row whose part of its own group, the
 * one that the diagonal crosses, is TB_EMULATED_CORNER_K or less has none of that group: that is the corner, which
 * tb_triangle_corner_? adds by FMAs. Nor has one that would have less than so much in all.
 *
 *     k:  0      1024     2048          k:  0      1024     2048
 *         \........                         #x o o o x o o o      x: rows of the corner, their part of the group
 *         x\                                 \# o o x o o o      o: in planes
 *         o o\                                 \o o x o o o
 *         o o o x\ ...   lower                  ... #    upper
 */
struct tb_emulated_extent {
  int32_t first, end;
};
#define TB_EMULATED_CORNER_K 128
TB_TILES_INLINE struct tb_emulated_extent tb_emulated_extent_of(struct tb_emulated_triangle t, int k, int row) {
  struct tb_emulated_extent x;
  const int element = row / t.parts * t.parts, group = row / TB_EMULATED_GROUP_K * TB_EMULATED_GROUP_K;
  x.first = 0, x.end = k;
  if (t.lower) {
    x.end = element + t.parts;
    if (x.end - group <= TB_EMULATED_CORNER_K) x.end = group;
  } else {
    const int group_end = k - group < TB_EMULATED_GROUP_K ? k : group + TB_EMULATED_GROUP_K;
    x.first = group_end - element <= TB_EMULATED_CORNER_K ? group_end : element;
    if (k - x.first < TB_EMULATED_CORNER_K) x.first = k;
  }
  return x;
}

/* k of a pair of tiles above each other, which share their columns: what their rows have of the triangle, and zeros. */
TB_TILES_INLINE struct tb_emulated_extent tb_emulated_pair_extent(struct tb_emulated_triangle t, int k, int pair) {
  struct tb_emulated_extent x;
  const int rows = 2 * TB_EMULATED_TILE_M;
  x.first = t.lower ? 0 : pair * rows;
  x.end = t.lower && k - pair * rows > rows ? (pair + 1) * rows : k;
  return x;
}

/* One packed operand. */
struct tb_emulated_packed {
  void *planes;
  float *scale;
  uint32_t *seen;
};

struct tb_emulated_pack_operand {
  const float *from; /* as struct tb_sgemm_args has it */
  struct tb_emulated_packed to;
  int64_t ld, sides, padded_sides;
  int32_t along_k; /* 1: memory runs along k, (side, k) is from[k + side * ld]; 0: from[side + k * ld] */
  int32_t vectors; /* along_k: from and ld are multiples of 16 bytes */
  int32_t *unfit;  /* [group][padded side]: 1 if something of it is Inf or NaN; NULL: nobody asks */
  struct tb_emulated_triangle triangle; /* of kernels for triangles: what is beside it is not read */
  int32_t unit;                         /* of a triangle, with parts 1: its diagonal is 1, and not read */
};

struct tb_emulated_pack_args {
  struct tb_emulated_pack_operand x[2]; /* the second may have no sides */
  int64_t k;
  /* To bf16 planes, which are packed only if tb_emulated_multiply_half left something: its marks, one for each block.
   */
  const uint32_t *left;
  int32_t left_words;
};

struct tb_emulated_args {
  struct tb_emulated_packed a, b; /* in the planes of this kernel */
  uint32_t *left;  /* [block of tb_emulated_multiply_half]: 1 if it has left a tile to the other kernel */
  uint32_t *taken; /* [tile of D]: 1 if tb_emulated_multiply_half computes it */
  uint32_t *again; /* [tile of D]: 1 if it is to be computed from the operands themselves */
  float *d;
  float *sums;     /* tb_emulated_multiply_bfloat, k of several groups: room for a tile for each block */
  float *partials; /* split k: [split tile][group] a tile's words, which tb_emulated_gather adds up */
  int64_t ldd;
  int64_t m, n, k;
  struct tb_tiles_wanted wanted;    /* tiles that have nothing of it are not computed */
  int32_t tiles;                    /* that have */
  int32_t left_words;               /* tb_emulated_multiply_half's blocks */
  int32_t whole;                    /* so many tiles, the first ones, have k whole */
  int32_t splits, groups_per_split; /* parts of k, of the others, that different blocks compute */
  float alpha;                      /* applied by the launch with `last` set */
  int32_t first; /* 1: the sum starts here (D is not read); 0: it continues from the earlier spans' in D */
  int32_t last;  /* 1: multiply by alpha when storing; 0: store the bare sums */
  int32_t fast;  /* 1: fp16 planes for all tiles that have room in them */
  struct tb_emulated_triangle triangle; /* of kernels for triangles: op(A), and no k is split */
};

/* Of an m x n result. */
TB_TILES_INLINE struct tb_tile_bands tb_emulated_bands(int64_t m, int64_t n, struct tb_tiles_wanted wanted) {
  const int pairs = wanted.pairs != 0;
  return tb_tile_bands_of(m >> pairs, n, TB_EMULATED_TILE_M >> pairs, TB_EMULATED_TILE_N, 1, TB_EMULATED_BAND, wanted);
}

/* The other parameter of the kernels that multiply, a CUtensorMap: b's planes as rows of so many bytes, and boxes of so
 * many rows, half of what a tile has of a step. */
struct tb_emulated_map {
  _Alignas(64) uint64_t words[16];
};
#define TB_EMULATED_MAP_BYTES 1024
#define TB_EMULATED_MAP_ROWS(planes) \
  (TB_EMULATED_TILE_N / 8 * TB_EMULATED_ROWS_BYTES(planes) / 2 / TB_EMULATED_MAP_BYTES)

#define TB_EMULATED_GATHER_THREADS 128
#define TB_EMULATED_GATHER_BLOCKS 16 /* for each split tile */

/* tb_sgemm_again_{nn,nt,tn,tt} (sgemm.cu): the product in plain fp32, for the marked tiles. A block has a
 * marked tile, part after part. */
struct tb_emulated_again {
  const uint32_t *left, *marks; /* struct tb_emulated_args's `left` and `again` */
  struct tb_tiles_wanted wanted;
  int32_t left_words;
  struct tb_emulated_triangle triangle; /* op(A), if it is one: has zeros beside the diagonal in the tile's rows */
};
#define TB_EMULATED_AGAIN_TILE 64
#define TB_EMULATED_AGAIN_DEPTH 16
#define TB_EMULATED_AGAIN_STAGES 2
#define TB_EMULATED_AGAIN_THREADS 128
#define TB_EMULATED_AGAIN_SHARED_BYTES                                                           \
  TB_SGEMM_SHARED_BYTES(TB_EMULATED_AGAIN_TILE, TB_EMULATED_AGAIN_TILE, TB_EMULATED_AGAIN_DEPTH, \
                        TB_EMULATED_AGAIN_STAGES)

#endif
