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
#define TB_TILES_UNROLLED _Pragma("unroll")
#else
#define TB_TILES_INLINE static inline
#define TB_TILES_LOOP
#define TB_TILES_UNROLLED
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

/* Before the diagonal the first line that has the tile at a place along the band; after it the line behind the last. */
TB_TILES_INLINE int tb_tiles_edge_elems(const struct tb_tile_bands *b, int along) {
  return b->after ? (along + 1) * b->along_elems - b->diagonal + b->line_elems - 1
                  : along * b->along_elems + b->diagonal;
}
TB_TILES_INLINE int tb_tiles_edge(const struct tb_tile_bands *b, int along) {
  return tb_tiles_clamp(tb_tiles_floor(tb_tiles_edge_elems(b, along), b->line_elems), b->lines);
}

/* The sum of (from + i * step) / by, each rounded down, for i from 0 to n - 1. Terms with as many places between them
 * as bring a whole number rise evenly: one, two or three series for the tiles that there are. */
TB_TILES_INLINE int64_t tb_tiles_sum(int n, int from, int step, int by) {
  int64_t sum = 0;
  int every = 1;
  while (every * step % by != 0) every++;
  TB_TILES_UNROLLED
  for (int i = 0; i < every; i++) {
    const int64_t terms = n > i ? (n - i + every - 1) / every : 0;
    sum += terms * ((from + i * step) / by) + terms * (terms - 1) / 2 * (every * step / by);
  }
  return sum;
}

/* Tiles at places along the band ahead of this one, in all lines. */
TB_TILES_INLINE int64_t tb_tiles_ahead(const struct tb_tile_bands *b, int along) {
  if (b->of == TB_TILES_ALL) return (int64_t)along * b->lines;
  /* Edges are 0 at places below `low`, and the last line from `high` on. */
  const int first = tb_tiles_edge_elems(b, 0), to_end = b->lines * b->line_elems - first;
  const int low = tb_tiles_clamp(tb_tiles_floor(b->along_elems - 1 - first, b->along_elems), along);
  const int end = tb_tiles_clamp(tb_tiles_floor(to_end + b->along_elems - 1, b->along_elems), along);
  const int high = end < low ? low : end;
  const int64_t edges = tb_tiles_sum(high - low, first + low * b->along_elems, b->along_elems, b->line_elems) +
                        (int64_t)(along - high) * b->lines;
  return b->after ? edges : (int64_t)along * b->lines - edges;
}

/* All of them. */
TB_TILES_INLINE int64_t tb_tiles_count(const struct tb_tile_bands *b) { return tb_tiles_ahead(b, b->along); }

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
  l.part = tb_tiles_edge(b, first), l.part_end = tb_tiles_edge(b, first + l.width - 1);
  l.whole = b->after ? 0 : l.part_end;
  l.whole_end = b->after ? l.part : b->lines;
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

/* Of the so many tiles of a band. */
TB_TILES_INLINE struct tb_tile_place tb_tile_in_band(const struct tb_tile_bands *b, const struct tb_tile_lines *l,
                                                     int tiles, int number) {
  const int whole = (l->whole_end - l->whole) * l->width, part = tiles - whole;
  if (b->after ? number < whole : number >= part) return tb_tile_in_whole(l, b->after ? number : number - part);
  if (b->after) number -= whole;
  struct tb_tile_place p;
  TB_TILES_LOOP
  for (p.line = l->part;; p.line++) {
    p.of = tb_tiles_of_part(b, l, p.line);
    if (number < p.of) break;
    number -= p.of;
  }
  p.number = number;
  p.along = l->first + number + (b->after ? l->width - p.of : 0);
  return p;
}

TB_TILES_INLINE struct tb_tile_place tb_tile_place_in_all(const struct tb_tile_bands *b, int number) {
  const int each = b->band * b->lines;
  const struct tb_tile_lines l = tb_tile_lines_of(b, number / each * b->band);
  return tb_tile_in_whole(&l, number % each);
}

/* Band after band, line after line: some 50 cycles for each line ahead that is not whole, and few registers. */
TB_TILES_INLINE struct tb_tile_place tb_tile_place_walked(const struct tb_tile_bands *b, int number) {
  if (b->of == TB_TILES_ALL) return tb_tile_place_in_all(b, number);
  TB_TILES_LOOP
  for (int first = 0;; first += b->band) {
    const struct tb_tile_lines l = tb_tile_lines_of(b, first);
    const int tiles = tb_tiles_of_band(b, &l);
    if (number < tiles) return tb_tile_in_band(b, &l, tiles, number);
    number -= tiles;
  }
}

/* The same by halves: for a kernel whose threads all wait for it. */
TB_TILES_INLINE struct tb_tile_place tb_tile_place_of(const struct tb_tile_bands *b, int number) {
  if (b->of == TB_TILES_ALL) return tb_tile_place_in_all(b, number);
  /* The last band that has no more than `number` tiles ahead of it, and the one behind it, as far as is known. */
  int band = 0, behind = (b->along + b->band - 1) / b->band, ahead = 0, end = (int)tb_tiles_count(b);
  TB_TILES_LOOP
  while (behind - band > 1) {
    const int middle = (band + behind) / 2, tiles = (int)tb_tiles_ahead(b, middle * b->band);
    if (tiles <= number)
      band = middle, ahead = tiles;
    else
      behind = middle, end = tiles;
  }
  const struct tb_tile_lines l = tb_tile_lines_of(b, band * b->band);
  return tb_tile_in_band(b, &l, end - ahead, number - ahead);
}

#endif
