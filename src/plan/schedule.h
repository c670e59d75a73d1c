/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In which order the panels of a block go up: pure arithmetic; thread safe.
 *
 * Each panel goes up in slices of k, and a tile's launch for a slice follows the later of the two slices that it wants.
 * The first half of the panels and one more, at most three of a side, go up slice by slice, all of them in turn: what
 * they bring is work for the whole leading part of C at once, so that the kernels keep up with the link from the first
 * slice on. The others follow whole, an A and a B in turn: each finishes a row or a column of tiles, which comes down
 * while the next goes up, so that little of C is left to fetch behind the last one. For 3 x 3 tiles and slices 0, 1:
 *
 *          B0  B1  B2
 *      A0   1   1   3       up: A0 B0 A1 B1 of slice 0 | A0 B0 A1 B1 of slice 1 | A2 whole | B2 whole
 *      A1   1   1   3       done behind:                                      1          2          3
 *      A2   2   2   3
 *
 * For the tensor cores, which want whole spans of k, there is one slice: panels of A and of B in turn. After x of all
 * panels x * x of C can be computed, so where the product takes T and the way up U, the kernels end at T + U * U / (4
 * T) at best, if T is U / 2 or more. Such products have two slices, and all panels go up by slices: that is T + U * U /
 * (8 T), and C comes down while the second one goes up. Where k is cut, all panels of one operand first, and in the
 * next chunk all of the other one: its first panels are then no longer needed, so that they go up while the chunk
 * before is still computed (of a block whose first chunk of A has room of its own, B in the first, then A); but in turn
 * in a call's last chunk.
 *
 * Where all panels are as large, the way up takes as long as the product, 1, and the way down half of that, no order of
 * slices ends before 9/8: as that one does. At 3/4 let the span of which the least is up have the share m of its
 * panels. Then m * m of C is complete at most, and the way down ends at 3/4 + (1 - m * m) / 2 or later; and of the
 * products 3/4 - m / 4 can be computed at most, by spans that are up whole or have m, so that the kernels end at 1 + m
 * / 4 or later. Both are 9/8 for m = 1/2, and for any other m one is more. 16384 cubed on an H200 is near that: 43 ms
 * each, and 22.
 *
 * In doubles, too: 8192 cubed, whose product takes 19.6 ms and whose operands 22.4 while C comes down beside them, is
 * bound to 9/8 of that, 25.2 ms, and takes 26.3 to 27.1 (H100s). Two slices of everything, which bench/overlap_model.py
 * takes for 2 % sooner, leave half of C to the end: 31.5 ms; complex doubles of 4096 cubed 15.5 instead of 14.7 (H200).
 *
 * All slices of everything first would feed the kernels best and leave all of C to the end; whole panels only, the
 * other way round. By bench/overlap_model.py this order reaches 0.73 of the floor at 4096 cubed with kernels of 50
 * TFLOP/s and 0.75 with 200, whole panels 0.66 and 0.73, slices of everything 0.71 and 0.68.
 */
#ifndef TB_SCHEDULE_H
#define TB_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Rows and columns of tiles, and slices of k, of a chunk of a block. */
struct tb_schedule {
  int64_t rows, columns, slices;
  enum tb_schedule_order {
    TB_IN_TURN,
    TB_BY_SLICES, /* all panels in turn, slice by slice */
    TB_A_FIRST,   /* of one slice: all panels of an operand before the other's */
    TB_B_FIRST
  } order;
};

/* A slice of a panel: of row `index` of tiles of A, or of column `index` of B. */
struct tb_step {
  bool of_b;
  int64_t index, slice;
};

int64_t tb_schedule_steps(const struct tb_schedule *schedule);

/* Panels of the operand that goes up first; in turn: 0. */
static inline int64_t tb_schedule_first(const struct tb_schedule *s) {
  return s->order == TB_A_FIRST ? s->rows : s->order == TB_B_FIRST ? s->columns : 0;
}

/* Step `number`, 0 <= number < steps. The slices of a panel come in their order. */
struct tb_step tb_schedule_step(const struct tb_schedule *schedule, int64_t number);

#endif
