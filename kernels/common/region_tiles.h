/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tiles of D that have elements of a region, all of D or a triangle, numbered in the order in which they are
 * computed. Shared by host C and CUDA C; pure arithmetic. Sides are at most 2^31 - 1024, and no D has so many elements
 * that the sum of both were more than 2^31 - 512: 32 bits are enough.
 *
 * Tiles come in bands: so many neighbours along one side of D, the band's, and line after line along the other, so that
 * what a band wants of one operand stays in the L2. Within a line they follow each other along the band. A triangle has
 * whole lines of a band, and some, where the diagonal crosses it, that begin late or end early:
 *
 *   after:  x x x x      before:  . . . .      line 0            a band of four; lines go down.
 *           x x x x               x . . .                        After: an element is the triangle's if it is as far
 *           . x x x               x x x .                        along the band as its line + diagonal, or farther.
 *           . . . x               x x x x                        Before: if its line is as far as that of its place
 *           . . . .               x x x x                        along the band + diagonal, or farther.
 */
#ifndef TB_REGION_TILES_H
#define TB_REGION_TILES_H

#include <stdint.h>

#if defined(__CUDACC__)
#define TB_TILES_INLINE static __host__ __device__ __forceinline__
#define TB_TILES_LOOP _Pragma("unroll 1")
#else
#define TB_TILES_INLINE static inline
#define TB_TILES_LOOP
#endif

/* Which elements of D are wanted, as src/blas/region.h has it: all; those with row <= column + diagonal; those with row
 * >= column + diagonal. A tile that has none of them is not computed. */
enum { TB_TILES_ALL, TB_TILES_UPPER, TB_TILES_LOWER };
struct tb_tiles_wanted {
  int32_t of;
  int32_t diagonal;  /* from -n to m: beyond, all or nothing is wanted */
  int32_t pairs;     /* 1: an element has two rows of D, for D is a complex matrix made real */
  int32_t hermitian; /* 1: imaginary parts on the diagonal become 0, of what alpha has multiplied */
};

/* Of D's tiles, for the bands of a kernel. */
struct tb_tile_bands {
  int diagonal;
  int band;                    /* tiles */
  int along, lines;            /* tiles of D along the band, and across */
  int along_elems, line_elems; /* of a tile */
  int of;                      /* TB_TILES_ALL; or the triangle is */
  int after;                   /* after the diagonal, as above; else before */
};

/* Bands along D's rows (of_rows), or along its columns, of m x n elements in tiles of so many rows and columns. */
TB_TILES_INLINE struct tb_tile_bands tb_tile_bands_of(int64_t m, int64_t n, int tile_m, int tile_n, int of_rows,
                                                      int band, struct tb_tiles_wanted wanted) {
  const int down = (int)((m + tile_m - 1) / tile_m), across = (int)((n + tile_n - 1) / tile_n);
  const int lower = wanted.of == TB_TILES_LOWER;
  struct tb_tile_bands b;
  b.diagonal = lower ? wanted.diagonal : -wanted.diagonal;
  b.band = band;
  b.along = of_rows ? down : across, b.lines = of_rows ? across : down;
  b.along_elems = of_rows ? tile_m : tile_n, b.line_elems = of_rows ? tile_n : tile_m;
  b.of = wanted.of;
  b.after = of_rows ? lower : !lower;
  return b;
}

/* x / y rounded down, and not below 0. */
TB_TILES_INLINE int tb_tiles_floor(int x, int y) { return x < 0 ? 0 : x / y; }
TB_TILES_INLINE int tb_tiles_clamp(int x, int most) { return x < most ? x : most; }

/* The lines of a band that are whole, and those of which it has a part: [whole, end) and [part, part_end). */
struct tb_tile_lines {
  int first, width; /* the band's tiles */
  int whole, whole_end, part, part_end;
};

TB_TILES_INLINE struct tb_tile_lines tb_tile_lines_of(const struct tb_tile_bands *b, int first) {
  struct tb_tile_lines l;
  l.first = first, l.width = b->along - first < b->band ? b->along - first : b->band;
  if (b->of == TB_TILES_ALL) {
    l.whole = l.part = l.part_end = 0, l.whole_end = b->lines;
    return l;
  }
  /* Elements along the band: of its first tile but one, its last, and the next band's first. */
  const int second = (first + 1) * b->along_elems, last = (first + l.width - 1) * b->along_elems;
  if (b->after) {
    l.whole = 0;
    l.whole_end = l.part =
        tb_tiles_clamp(tb_tiles_floor(second - b->diagonal + b->line_elems - 1, b->line_elems), b->lines);
    l.part_end = tb_tiles_clamp(tb_tiles_floor(last + b->along_elems - b->diagonal + b->line_elems - 1, b->line_elems),
                                b->lines);
  } else {
    l.part = tb_tiles_clamp(tb_tiles_floor(second - b->along_elems + b->diagonal, b->line_elems), b->lines);
    l.part_end = l.whole = tb_tiles_clamp(tb_tiles_floor(last + b->diagonal, b->line_elems), b->lines);
    l.whole_end = b->lines;
  }
  return l;
}

/* Tiles of a line that a band has a part of. */
TB_TILES_INLINE int tb_tiles_of_part(const struct tb_tile_bands *b, const struct tb_tile_lines *l, int line) {
  const int at = line * b->line_elems;
  if (b->after) {
    const int from = tb_tiles_floor(at + b->diagonal, b->along_elems) - l->first;
    return l->width - tb_tiles_clamp(from < 0 ? 0 : from, l->width);
  }
  const int end = tb_tiles_floor(at + b->line_elems - 1 - b->diagonal + b->along_elems, b->along_elems) - l->first;
  return tb_tiles_clamp(end < 0 ? 0 : end, l->width);
}

TB_TILES_INLINE int tb_tiles_of_band(const struct tb_tile_bands *b, const struct tb_tile_lines *l) {
  int count = (l->whole_end - l->whole) * l->width;
  TB_TILES_LOOP
  for (int line = l->part; line < l->part_end; line++) count += tb_tiles_of_part(b, l, line);
  return count;
}

/* All of them. */
TB_TILES_INLINE int64_t tb_tiles_count(const struct tb_tile_bands *b) {
  int64_t count = 0;
  if (b->of == TB_TILES_ALL) return (int64_t)b->along * b->lines;
  TB_TILES_LOOP
  for (int first = 0; first < b->along; first += b->band) {
    const struct tb_tile_lines l = tb_tile_lines_of(b, first);
    count += tb_tiles_of_band(b, &l);
  }
  return count;
}

/* One of them: its place along the band's side of D, and its line; the how manieth of its line in the band it is, and
 * of how many. */
struct tb_tile_place {
  int along, line, number, of;
};

TB_TILES_INLINE struct tb_tile_place tb_tile_in_whole(const struct tb_tile_lines *l, int number) {
  struct tb_tile_place p;
  p.number = number % l->width, p.of = l->width;
  p.along = l->first + p.number, p.line = l->whole + number / l->width;
  return p;
}

TB_TILES_INLINE struct tb_tile_place tb_tile_place_of(const struct tb_tile_bands *b, int number) {
  struct tb_tile_lines l;
  if (b->of == TB_TILES_ALL) {
    const int each = b->band * b->lines;
    l = tb_tile_lines_of(b, number / each * b->band);
    return tb_tile_in_whole(&l, number % each);
  }
  TB_TILES_LOOP
  for (int first = 0;; first += b->band) {
    l = tb_tile_lines_of(b, first);
    const int tiles = tb_tiles_of_band(b, &l);
    if (number < tiles) break;
    number -= tiles;
  }
  const int whole = (l.whole_end - l.whole) * l.width;
  if (b->after && number < whole) return tb_tile_in_whole(&l, number);
  if (b->after) number -= whole;
  TB_TILES_LOOP
  for (int line = l.part; line < l.part_end; line++) {
    struct tb_tile_place p;
    p.of = tb_tiles_of_part(b, &l, line);
    if (number < p.of) {
      p.number = number, p.line = line;
      p.along = l.first + number + (b->after ? l.width - p.of : 0);
      return p;
    }
    number -= p.of;
  }
  return tb_tile_in_whole(&l, number);
}

#endif
