/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A diagonal block of A' and the rows of B beside it, solved in doubles by the FP64 tensor cores (common/mma64.cuh),
 * see solve_args.h. A warp has eight columns of B, which no other warp wants, and goes along the rows 16 at a time:
 *
 *     A'            X
 *   | D       |   | solved  |   sum: B's 16 rows, and A' beside the diagonal times what is solved, by the tensor cores
 *   | A D     |   | solved  |   substitute: by D; the lanes that have a row's sums show them to all, and these take the
 *   | A A D   |   | 16 rows |   row from those behind it
 *   |       D |   |         |
 *
 * A substitution is a chain of a row's sum that is shown, its quotient, and the next row's sum. So the chain goes on
 * with the product with a reciprocal, and a row's true quotients, which are X, are made of all 16 rows at once at the
 * end. Both differ by a unit or two in the last place (bounds: PRECISION.md). Where a row of the leaf has a reciprocal
 * that would not do (elements.cuh) the chain has true quotients, too.
 *
 * The warps of a block share what comes of A': chunks of 16 rows by 64 columns (32 complex ones) in a ring of shared
 * memory, with a barrier for each. X stands in shared memory, too, a warp's columns side by side.
 *
 * Positions. An upper triangle is a lower one whose rows and columns are counted from the end. All here counts
 * positions; only who copies from or to global memory knows of rows and columns. Behind the last row of A' it goes on
 * with a diagonal of 1 and zeros beside it, up to a multiple of 16, and B with zeros.
 */
#ifndef TB_TRIANGLE_SOLVE64_CUH
#define TB_TRIANGLE_SOLVE64_CUH

#include "triangle/elements.cuh"
#include "triangle/solve_args.h"
#include "common/mma64.cuh"

namespace triangle_leaf {

template <typename Element, bool lower> struct Solve64 {
  static constexpr int PARTS = Element::parts;
  static constexpr int ROWS = TB_TRIANGLE_SOLVE64_STEP, N = TB_TRIANGLE_SOLVE64_COLUMNS;
  static constexpr int K = 8 / PARTS; /* that one multiplication has */
  static constexpr int CHUNK = TB_TRIANGLE_SOLVE64_CHUNK(PARTS), STAGES = TB_TRIANGLE_SOLVE64_STAGES;
  /* No 16 lanes that read together meet a bank twice (of complex elements eight). */
  static constexpr int LDA = TB_TRIANGLE_SOLVE64_LDA(PARTS), LDX = TB_TRIANGLE_SOLVE64_LDX(PARTS);
  static constexpr int SUMS = 4 / PARTS;
  static constexpr int PER_LOAD = 16 / sizeof(Element);
  using Sums = double[PARTS][1][4];

  const tb_triangle_leaf_args &args;
  const int warp, lane, g, t, warps, rows; /* rows: with those that are filled up */
  Element *stages, *x;                     /* x: the warp's */
  Divisor<double> *by;

  __device__ Solve64(const tb_triangle_leaf_args &arguments, unsigned char *shared)
      : args(arguments), warp(static_cast<int>(threadIdx.x) / 32), lane(static_cast<int>(threadIdx.x) % 32),
        g(lane / 4), t(lane % 4), warps(static_cast<int>(blockDim.x) / 32),
        rows((arguments.m + ROWS - 1) / ROWS * ROWS) {
    by = reinterpret_cast<Divisor<double> *>(shared);
    stages = reinterpret_cast<Element *>(shared + TB_TRIANGLE_SOLVE64_DIVISORS_BYTES(PARTS));
    x = stages + STAGES * CHUNK * LDA + warp * N * LDX;
  }

  /* The row or column at a position, and the reverse. */
  __device__ int at(int position) const { return lower ? position : rows - 1 - position; }

  /* ---- A' ---- */

  /* 16 rows from position `row` on, and so many columns from position `column` on; the last of a step's chunks has the
   * diagonal. */
  struct Chunk {
    int row, column, slot;
    __device__ bool is_last() const { return column + CHUNK >= row + ROWS; }
    __device__ void next() {
      slot = slot + 1 < STAGES ? slot + 1 : 0;
      if (is_last())
        row += ROWS, column = 0;
      else
        column += CHUNK;
    }
  };

  __device__ const Element *stage(const Chunk &chunk) const { return stages + chunk.slot * CHUNK * LDA; }
  /* Where a stage has the element at a position of its 16 rows, of a column's. */
  __device__ static int row_in_stage(int row) { return lower ? row : ROWS - 1 - row; }

  /* Where the thread's copies of a chunk begin, of which a column has so many, and the next one is so many columns on.
   */
  static constexpr int OF_COLUMN = ROWS / PER_LOAD, AT_ONCE = 32 * TB_TRIANGLE_SOLVE64_WARPS / OF_COLUMN;
  __device__ int row_of_copies() const { return static_cast<int>(threadIdx.x) % OF_COLUMN * PER_LOAD; }
  __device__ int column_of_copies() const { return static_cast<int>(threadIdx.x) / OF_COLUMN; }
  __device__ const Element *from_of_copies(const Chunk &chunk) const {
    const int row = (lower ? chunk.row : rows - ROWS - chunk.row) + row_of_copies();
    return static_cast<const Element *>(args.a) + row + at(chunk.column + column_of_copies()) * args.lda;
  }
  __device__ Element *to_of_copies(const Chunk &chunk) const {
    return stages + (chunk.slot * CHUNK + column_of_copies()) * LDA + row_of_copies();
  }

  /* All of whose columns and rows are A's, by as many warps as there may be: most chunks are such. */
  __device__ void fetch_whole(const Chunk &chunk) const {
    const Element *from = from_of_copies(chunk);
    Element *const to = to_of_copies(chunk);
    const int64_t step = (lower ? AT_ONCE : -AT_ONCE) * args.lda;
#pragma unroll
    for (int j = 0; j < CHUNK; j += AT_ONCE, from += step) async_copy<16>(to + j * LDA, from);
  }

  __device__ void fetch_part(const Chunk &chunk, int columns) const {
    const int at_once = static_cast<int>(blockDim.x) / OF_COLUMN;
    const int left = args.m - (lower ? chunk.row : rows - ROWS - chunk.row) - row_of_copies();
    const unsigned bytes = (left < 0 ? 0 : left < PER_LOAD ? left : PER_LOAD) * static_cast<unsigned>(sizeof(Element));
    const Element *from = from_of_copies(chunk);
    Element *to = to_of_copies(chunk);
    const int64_t step = (lower ? at_once : -at_once) * args.lda;
#pragma unroll 1
    for (int j = column_of_copies(); j < columns; j += at_once, from += step, to += at_once * LDA) {
      const bool there = bytes > 0 && at(chunk.column + j) < args.m;
      async_copy<16>(to, there ? from : static_cast<const Element *>(args.a), there ? bytes : 0);
    }
  }

  __device__ void fetch_chunk(const Chunk &chunk) const {
    const int columns = chunk.row + ROWS - chunk.column;
    if (chunk.row < rows) {
      if (columns >= CHUNK && rows == args.m && warps == TB_TRIANGLE_SOLVE64_WARPS)
        fetch_whole(chunk);
      else
        fetch_part(chunk, columns < CHUNK ? columns : CHUNK);
    }
    async_commit();
  }

  /* Whether one has no reciprocal. */
  __device__ bool make_divisors() const {
    bool some = false;
#pragma unroll 2
    for (int p = static_cast<int>(threadIdx.x); p < rows; p += static_cast<int>(blockDim.x)) {
      const bool there = at(p) < args.m && args.unit == 0;
      by[p] = divisor_of(there ? static_cast<const Element *>(args.a)[at(p) + at(p) * args.lda] : Element::from(1));
      some |= by[p].r == 0;
    }
    return some;
  }

  /* ---- B ---- */

  /* The warp's first column, and how many of them B has. */
  __device__ int64_t first_column() const { return (blockIdx.x * static_cast<int64_t>(warps) + warp) * N; }
  __device__ int columns_of_b() const {
    const int64_t left = args.n - first_column();
    return left < 0 ? 0 : left < N ? static_cast<int>(left) : N;
  }
  /* A number as it lies in B, aligned to a real. */
  __device__ static void copy(Element *to, const Element *from, bool whole) {
    if (whole) {
      async_copy<sizeof(Element)>(to, from, sizeof(Element));
    } else {
#pragma unroll
      for (int part = 0; part < PARTS; part++)
        async_copy<8>(reinterpret_cast<double *>(to) + part, reinterpret_cast<const double *>(from) + part, 8);
    }
  }

  /* Asynchronously, with the first chunk. */
  template <bool whole_block> __device__ void load_b(bool whole, int columns) const {
#pragma unroll 1
    for (int p = lane; p < rows; p += 32) {
      const Element *from = static_cast<const Element *>(args.b) + at(p) + first_column() * args.ldb;
#pragma unroll
      for (int j = 0; j < N; j++, from += args.ldb)
        if (whole_block || (j < columns && at(p) < args.m))
          copy(x + j * LDX + p, from, whole);
        else
          x[j * LDX + p] = Element::from(0);
    }
  }

  template <bool whole_block> __device__ void store_b(bool whole, int columns) const {
#pragma unroll 1
    for (int p = lane; p < rows; p += 32) {
      Element *to = static_cast<Element *>(args.b) + at(p) + first_column() * args.ldb;
#pragma unroll
      for (int j = 0; j < N; j++, to += args.ldb)
        if (whole_block || (j < columns && at(p) < args.m)) store(to, x[j * LDX + p], whole);
    }
  }

  /* ---- sums ---- */

  __device__ static void put(double (&fragment)[2], int h, Plain<double> z) { fragment[h] = z.re; }
  __device__ static void put(double (&fragment)[2], int, Complex<double> z) { fragment[0] = z.re, fragment[1] = z.im; }
  __device__ static Plain<double> get(const double (&sums)[1][1][4], int i) { return {sums[0][0][i]}; }
  __device__ static Complex<double> get(const double (&sums)[2][1][4], int i) { return {sums[0][0][i], sums[1][0][i]}; }

  /* Where X has the lane's element i of the sums of the 16 rows from `row` on. */
  __device__ Element *of_x(int row, int i) const { return x + (2 * t + i % 2) * LDX + row + g + i / 2 * 8; }

  /* sums += A' X, of K columns: the stage's from `slot` on, X's rows from `row` on. */
  __device__ void multiply(Sums &sums, const Element *from, int slot, int row) const {
    double of_a[2][2], of_x[1][2];
#pragma unroll
    for (int h = 0; h < 2 / PARTS; h++) {
#pragma unroll
      for (int e = 0; e < 2; e++) put(of_a[e], h, from[(slot + t + 4 * h) * LDA + row_in_stage(g + 8 * e)]);
      put(of_x[0], h, x[g * LDX + row + t + 4 * h]);
    }
    multiply64(sums, of_a, of_x, Signs64{0, 0});
  }

  /* A step's columns before the diagonal that this chunk has; those of one multiplication after another in one sum
   * after another, for each waits for the one before. */
  __device__ void multiply_chunk(Sums (&sums)[SUMS], const Chunk &chunk) const {
    const Element *const from = stage(chunk);
    const int columns = chunk.row - chunk.column;
    if (columns >= CHUNK) {
#pragma unroll
      for (int k = 0; k < CHUNK; k += K) multiply(sums[k / K % SUMS], from, k, chunk.column + k);
    } else {
#pragma unroll
      for (int first = 0; first < CHUNK - ROWS; first += ROWS) {
        if (first >= columns) break;
#pragma unroll
        for (int k = first; k < first + ROWS; k += K) multiply(sums[k / K % SUMS], from, k, chunk.column + k);
      }
    }
  }

  /* ---- substitution ---- */

  __device__ static Plain<double> shown(Plain<double> z, int from) { return {__shfl_sync(~0u, z.re, from)}; }
  __device__ static Complex<double> shown(Complex<double> z, int from) {
    return {__shfl_sync(~0u, z.re, from), __shfl_sync(~0u, z.im, from)};
  }
  __device__ static Plain<double> times(Plain<double> z, double r) { return {z.re * r}; }
  __device__ static Complex<double> times(Complex<double> z, double r) { return {z.re * r, z.im * r}; }

  /* x's quotient, or nearly. */
  template <bool careful> __device__ static Element nearly(Element z, const Divisor<double> &divisor) {
    const Element above = numerator(z, divisor);
    return careful ? quotients(above, divisor.d, divisor.r) : times(above, divisor.r);
  }

  /* Whether quick() has the quotient by what has a reciprocal: is_quick(), in fewer instructions of doubles. (There
   * this made strsm of 4096 6 % slower.) */
  __device__ static bool is_in_range(double b) {
    const double size = fabs(b);
    return size <= Range<double>::number && (size >= 1 / Range<double>::number || size == 0);
  }
  __device__ static bool is_in_range(Plain<double> z) { return is_in_range(z.re); }
  __device__ static bool is_in_range(Complex<double> z) { return is_in_range(z.re) && is_in_range(z.im); }

  /* True quotients; mostly all of them are quick. */
  template <bool careful> __device__ void divide(Element (&z)[2][2], int row) const {
    bool quick = !careful;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      z[i / 2][i % 2] = numerator(z[i / 2][i % 2], by[row + g + i / 2 * 8]);
      quick = quick && is_in_range(z[i / 2][i % 2]);
    }
    if (quick)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const Divisor<double> &divisor = by[row + g + i / 2 * 8];
        z[i / 2][i % 2] = quicks(z[i / 2][i % 2], divisor.d, divisor.r);
      }
    else
#pragma unroll 1
      for (int e = 0; e < 2; e++) {
        const Divisor<double> divisor = by[row + g + 8 * e];
#pragma unroll
        for (int c = 0; c < 2; c++) {
          const Element quotient = quotients(e == 0 ? z[0][c] : z[1][c], divisor.d, divisor.r);
          (e == 0 ? z[0][c] : z[1][c]) = quotient;
        }
      }
  }

  /* z[e][c]: the lane's elements of the 16 rows, row g + 8 e; in, sums, out, X. `diagonal`: the stage's column of the
   * first of them. Four rows at a time are shown, and what they take from one another every lane finds out for itself:
   * to be shown takes longer. */
  template <bool careful, bool unit>
  __device__ void substitute(Element (&z)[2][2], const Element *diagonal, int row) const {
    constexpr int ROWS_SHOWN = 4;
#pragma unroll(careful ? 1 : ROWS / ROWS_SHOWN)
    for (int first = 0; first < ROWS; first += ROWS_SHOWN) {
      Element xs[ROWS_SHOWN][2];
#pragma unroll
      for (int j = 0; j < ROWS_SHOWN; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) xs[j][c] = shown(first < 8 ? z[0][c] : z[1][c], (first + j) % 8 * 4 + t);
#pragma unroll
      for (int j = 0; j < ROWS_SHOWN; j++) {
        const Element *const column = diagonal + (first + j) * LDA;
#pragma unroll
        for (int c = 0; c < 2; c++) {
          if (!unit) xs[j][c] = nearly<careful>(xs[j][c], by[row + first + j]);
#pragma unroll
          for (int i = j + 1; i < ROWS_SHOWN; i++) add(xs[i][c], column[row_in_stage(first + i)], xs[j][c]);
        }
#pragma unroll
        for (int e = 0; e < 2; e++)
          if (8 * e + 7 > first + j && g + 8 * e > first + j)
#pragma unroll
            for (int c = 0; c < 2; c++) add(z[e][c], column[row_in_stage(g + 8 * e)], xs[j][c]);
      }
    }
    if (!unit) divide<careful>(z, row);
  }

  __device__ void solve_step(const Sums (&sums)[SUMS], const Chunk &chunk, bool careful) const {
    Element z[2][2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      z[i / 2][i % 2] = *of_x(chunk.row, i);
#pragma unroll
      for (int s = 0; s < SUMS; s++) plus(z[i / 2][i % 2], get(sums[s], i));
    }
    const Element *const diagonal = stage(chunk) + (chunk.row - chunk.column) * LDA;
    if (args.unit)
      substitute<false, true>(z, diagonal, chunk.row);
    else if (careful)
      substitute<true, false>(z, diagonal, chunk.row);
    else
      substitute<false, false>(z, diagonal, chunk.row);
#pragma unroll
    for (int i = 0; i < 4; i++) *of_x(chunk.row, i) = z[i / 2][i % 2];
    __syncwarp();
  }

  __device__ void run() const {
    Chunk coming = {0, 0, 0}, here = coming;
    const bool whole = is_whole<Element>(args.b);
    const int columns = columns_of_b();
    const bool whole_block = columns == N && rows == args.m && whole;
    if (whole_block)
      load_b<true>(true, N);
    else
      load_b<false>(whole, columns);
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++, coming.next()) fetch_chunk(coming);
    const bool careful = __syncthreads_or(make_divisors());
#pragma unroll 1
    while (here.row < rows) {
      Sums sums[SUMS] = {};
#pragma unroll 1
      for (bool last = false; !last; here.next()) {
        async_wait<STAGES - 2>();
        __syncthreads(); /* all see the chunk, and are done with the one before, in whose place another comes */
        fetch_chunk(coming);
        coming.next();
        multiply_chunk(sums, here);
        last = here.is_last();
        if (last) solve_step(sums, here, careful);
      }
    }
    if (whole_block)
      store_b<true>(true, N);
    else
      store_b<false>(whole, columns);
  }
};

} // namespace triangle_leaf

#endif
