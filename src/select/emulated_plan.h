/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fp32 products on the tensor cores (kernels/emulated/emulated_args.h) in numbers: what device memory they take, into
 * how many parts their k is best split, and how long they take. Pure arithmetic; knows no CUDA; thread-safe.
 *
 * Packed operands and workspaces start at multiples of TB_EMULATED_ALIGNMENT_BYTES, and their sizes are such multiples.
 */
#ifndef TB_EMULATED_PLAN_H
#define TB_EMULATED_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulated/emulated_args.h"
#include "select/choice.h"
#include "select/product.h"

#define TB_EMULATED_ALIGNMENT_BYTES 128
/* Planes of an element: of fp16, of bf16. */
#define TB_EMULATED_HALF_PLANES 2
#define TB_EMULATED_BFLOAT_PLANES 3
/* Most blocks that multiply at a time, however many SMs there are: each has room for the sums of a tile. */
#define TB_EMULATED_BLOCKS_MAX 160

/* Blocks that multiply at a time, in pairs, each with an SM for itself. */
int64_t tb_emulated_blocks(int sm_count);

int64_t tb_emulated_padded_sides(bool of_b, int64_t sides);
int64_t tb_emulated_groups(int64_t k);
int64_t tb_emulated_tiles(int64_t m, int64_t n);

/* A packed operand's planes, scales, and what was seen in it, one behind the other. */
struct tb_emulated_room {
  int64_t planes_bytes, scale_bytes, seen_words, bytes;
};
struct tb_emulated_room tb_emulated_room_for(int planes, bool of_b, int64_t sides, int64_t k);

/* Device memory for op(A), or op(B) (of_b), with so many sides, its rows or columns, in fp16 planes. */
int64_t tb_emulated_packed_bytes(bool of_b, int64_t sides, int64_t k);

/*
 * The spans of a product. A large one with a long k has several: they need less memory, panels of a part of k can be
 * multiplied while others are on their way, and a k that is cut between them does not show in the result, for which
 * planes are chosen span by span. So they must not depend on the machine. Of C, each span reads and writes all: at
 * 16384 cubed 2 GB for each but the first one, 0.4 ms.
 */
#define TB_EMULATED_SPAN_K 4096
#define TB_EMULATED_SPAN_TILES_MIN 512
int64_t tb_emulated_span_k(int64_t m, int64_t n, int64_t k);
static inline int64_t tb_emulated_first_span(const struct tb_emulated_way *way, int64_t k) {
  return way->span_k > 0 && way->span_k < k ? way->span_k : k;
}

/* What a span's product needs beside its packed operands while it is under way, one behind the other: the operands in
 * bf16 planes, marks of blocks, two of each tile, from bf16 planes the groups' sums of the tile that each block is at,
 * and those of the tiles whose k is split. */
struct tb_emulated_workspace {
  struct tb_emulated_room a, b;
  int64_t left_bytes, tile_marks_bytes, sums_bytes, partials_bytes, bytes;
};
struct tb_emulated_workspace tb_emulated_workspace_for(int64_t m, int64_t n, int64_t k,
                                                       const struct tb_emulated_way *way);
int64_t tb_emulated_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_emulated_way *way);

/* Both packed operands and the workspace, of one span. */
int64_t tb_emulated_bytes(int64_t m, int64_t n, int64_t k, const struct tb_emulated_way *way);
static inline int64_t tb_emulated_choice_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  return tb_emulated_bytes(m, n, k, &choice->emulated);
}

/* ---- for the selector ---- */

/* The ways that a product may gain from and that there is room for, the first of them with k whole; none if there is no
 * room or the device or the product forbids it. */
#define TB_EMULATED_CANDIDATES_MAX 4
/* Of fewer products along k, what the planes leave out and what the tensor cores cut off does not average out: the mean
 * error would be larger than that of a chain of fp32 (PRECISION.md). */
#define TB_EMULATED_K_MIN 128
int tb_emulated_candidates(const struct tb_select_device *device, const struct tb_product *product,
                           struct tb_choice candidate[]);
void tb_emulated_offer(const struct tb_select_device *device, const struct tb_product *product, struct tb_best *best);

/* For data that fp16 planes are enough for. */
double tb_emulated_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                              const struct tb_product *product, const struct tb_choice *choice);

/* "emulated", or "emulated-fast"; and with k split in four "emulated/4", with "+" when that is for the last tiles. */
const char *tb_emulated_name(const struct tb_choice *choice);
void tb_emulated_describe(const struct tb_choice *choice, char *text, size_t size);

#endif
