/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The elements of C that a routine computes: all of them, or those of a triangle, whose diagonal is counted in. Of a
 * part of C it may be any piece of a triangle. Elements outside are neither read nor written. Pure; thread-safe.
 *
 *   upper, diagonal = 1      lower, diagonal = 1
 *
 *      x x x x                   . . . .
 *      x x x x                   x . . .
 *      . x x x                   x x . .
 *
 * Column j meets the diagonal in row j + diagonal; in a part it may be above the first row, or below the last one.
 */
#ifndef TB_REGION_H
#define TB_REGION_H

#include <stdbool.h>
#include <stdint.h>

struct tb_region {
  enum tb_region_of { TB_WHOLE, TB_UPPER_TRIANGLE, TB_LOWER_TRIANGLE } of;
  bool hermitian; /* beta is real, and imaginary parts on the diagonal are not read and become zero */
  int64_t diagonal;
};

/* Rows from `first` on, `end` not counted. */
struct tb_region_rows {
  int64_t first, end;
};

static inline int64_t tb_region_clamp(int64_t row, int64_t m) { return row < 0 ? 0 : row > m ? m : row; }

/* The rows of column j, of m rows, that are the region's; first == end: none. */
static inline struct tb_region_rows tb_region_rows(struct tb_region region, int64_t m, int64_t j) {
  if (region.of == TB_WHOLE) return (struct tb_region_rows){0, m};
  const int64_t row = j + region.diagonal;
  if (region.of == TB_UPPER_TRIANGLE) return (struct tb_region_rows){0, tb_region_clamp(row + 1, m)};
  return (struct tb_region_rows){tb_region_clamp(row, m), m};
}

/* What it is of the part of C that begins at element (i, j). */
static inline struct tb_region tb_region_at(struct tb_region region, int64_t i, int64_t j) {
  region.diagonal += j - i;
  return region;
}

/* Whether m x n elements of C have nothing of it; and whether all of them are its own. */
static inline bool tb_region_misses(struct tb_region region, int64_t m, int64_t n) {
  if (region.of == TB_UPPER_TRIANGLE) return n - 1 + region.diagonal < 0;
  return region.of == TB_LOWER_TRIANGLE && region.diagonal > m - 1;
}
static inline bool tb_region_covers(struct tb_region region, int64_t m, int64_t n) {
  if (region.of == TB_UPPER_TRIANGLE) return region.diagonal >= m - 1;
  return region.of == TB_WHOLE || n - 1 + region.diagonal <= 0;
}

/* Whether an element of the diagonal is among m x n elements. */
static inline bool tb_region_has_diagonal(struct tb_region region, int64_t m, int64_t n) {
  return region.of != TB_WHOLE && region.diagonal < m && region.diagonal > -n;
}

/* 1 + 2 + ... + x. */
static inline double tb_region_sum_to(int64_t x) { return x > 0 ? 0.5 * (double)x * ((double)x + 1) : 0; }

/* How many of m x n elements are the region's. */
static inline double tb_region_elems(struct tb_region region, int64_t m, int64_t n) {
  const double all = (double)m * (double)n;
  if (region.of == TB_WHOLE) return all;
  /* Of column j those above row j + d, without those below row m that it would have. */
  const int64_t d = region.diagonal + (region.of == TB_UPPER_TRIANGLE ? 1 : 0);
  const double above = tb_region_sum_to(n - 1 + d) - tb_region_sum_to(d - 1) -
                       (tb_region_sum_to(n - 1 + d - m) - tb_region_sum_to(d - 1 - m));
  return region.of == TB_UPPER_TRIANGLE ? above : all - above;
}

#endif
