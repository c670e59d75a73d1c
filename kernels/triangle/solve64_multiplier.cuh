/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A warp that multiplies by the FP64 tensor cores (common/mma64.cuh) for a solve in doubles (solve64.cuh).
 *
 * Three multiply A' by what was solved: each has all columns of B, four tiles of 16 x 8, and every third slice of A',
 * so that shared memory is read for half of the time only. Behind each step a warp, a fourth too, has a tile of its
 * own, its first one: it multiplies E, and adds B and what the others hand over to it.
 */
#ifndef TB_TRIANGLE_SOLVE64_MULTIPLIER_CUH
#define TB_TRIANGLE_SOLVE64_MULTIPLIER_CUH

#include "triangle/solve64_memory.cuh"
#include "common/mma64.cuh"

namespace triangle_leaf {

template <typename Stored, bool lower> struct Multiplier64 : Memory64<Stored, lower> {
  using Memory = Memory64<Stored, lower>;
  using Memory::COLUMNS, Memory::lane, Memory::LDA, Memory::ldx, Memory::LDZ, Memory::meet_all,
      Memory::meet_when_solved, Memory::Memory64, Memory::MULTIPLIERS, Memory::panel_of, Memory::PARTS, Memory::ROWS,
      Memory::rows, Memory::sums_by, Memory::sums_of, Memory::warp, Memory::x;
  using typename Memory::Element;
  static constexpr int N = TB_TRIANGLE_SOLVE64_TILE, TILES = COLUMNS / N;
  static constexpr int K = 8 / PARTS;                              /* columns of A' of one multiplication */
  static constexpr int OF_SLICE = 2 / PARTS, SLICE = OF_SLICE * K; /* so many of them, and their columns */
  static constexpr int OF_E = ROWS / SLICE;                        /* slices */

  using Sums = double[PARTS][TILES][4];
  struct OfA {
    double of[OF_SLICE][2][2];
  };
  using E = OfA[OF_E];
  template <int Tiles> struct OfX { double of[OF_SLICE][Tiles][2]; };

  /* Which lanes have which of a tile's rows and columns, and which columns of A', is free. So that they read 16 bytes
   * at once and no bank twice, of what is beside each other in a fragment rows and columns of A' are neighbours, and
   * columns of B four apart. */
  const int g = lane / 4, t = lane % 4;
  __device__ int tile(int j) const { return (warp + j) % TILES * N; }
  __device__ int column_of_x(int j) const { return tile(j) + g / 2 + g % 2 * (N / 2); }
  __device__ int column_of_sum(int j, int i) const { return tile(j) + t + i % 2 * (N / 2); }
  __device__ int row_of_sum(int i) const { return PARTS == 1 ? 2 * g + i / 2 : g + i / 2 * (ROWS / 2); }
  __device__ int place_of_sum(int j, int i) const { return row_of_sum(i) * LDZ + column_of_sum(j, i); }

  /* ---- fragments of one multiplication: A' from its first column on, X from its first row on ---- */

  template <typename R> __device__ void load(double (&of_a)[2][2], const Plain<R> *from) const {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const Plain<R> *const at = from + (2 * t + h) * LDA + (lower ? 2 * g : ROWS - 2 - 2 * g);
      const auto both = *reinterpret_cast<const Several<Plain<R>, 2> *>(at);
#pragma unroll
      for (int e = 0; e < 2; e++) of_a[e][h] = widened(both.of[lower ? e : 1 - e]).re;
    }
  }
  template <typename R> __device__ void load(double (&of_a)[2][2], const Complex<R> *from) const {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int row = g + e * (ROWS / 2);
      const Complex<double> z = widened(from[t * LDA + (lower ? row : ROWS - 1 - row)]);
      of_a[e][0] = z.re, of_a[e][1] = z.im;
    }
  }
  __device__ void load(double (&of_x)[2], const Plain<double> *from) const {
    const auto both = *reinterpret_cast<const Several<double, 2> *>(from + 2 * t);
    of_x[0] = both.of[0], of_x[1] = both.of[1];
  }
  __device__ void load(double (&of_x)[2], const Complex<double> *from) const {
    const Complex<double> z = from[t];
    of_x[0] = z.re, of_x[1] = z.im;
  }

  /* ---- and of a slice ---- */

  __device__ void load(OfA &of_a, const Stored *from) const {
#pragma unroll
    for (int s = 0; s < OF_SLICE; s++) load(of_a.of[s], from + s * K * LDA);
  }
  template <int Tiles> __device__ void load(OfX<Tiles> &of_x, int row) const {
#pragma unroll
    for (int s = 0; s < OF_SLICE; s++)
#pragma unroll
      for (int j = 0; j < Tiles; j++) load(of_x.of[s][j], x + column_of_x(j) * ldx + row + s * K);
  }

  /* ---- sums ---- */

  /* What the first rows of X, so many, give for the rows of a panel, of the warp's slices. Loads are ahead of products.
   */
  __device__ void accumulate(Sums &sums, const Stored *panel, int end) const {
    int column = warp * SLICE;
    if (column >= end) return;
    OfA of_a;
    OfX<TILES> of_x;
    load(of_a, panel + column * LDA);
    load(of_x, column);
#pragma unroll OF_SLICE
    for (; column < end; column += MULTIPLIERS * SLICE) {
      const int coming = column + MULTIPLIERS * SLICE < end ? column + MULTIPLIERS * SLICE : column;
      OfA next_of_a;
      OfX<TILES> next_of_x;
      load(next_of_a, panel + coming * LDA);
      load(next_of_x, coming);
#pragma unroll
      for (int s = 0; s < OF_SLICE; s++) multiply64_at_once(sums, of_a.of[s], of_x.of[s]);
      of_a = next_of_a;
      of_x = next_of_x;
    }
  }

  template <int Tiles> __device__ static Plain<double> get(const double (&sums)[1][Tiles][4], int j, int i) {
    return {sums[0][j][i]};
  }
  template <int Tiles> __device__ static Complex<double> get(const double (&sums)[2][Tiles][4], int j, int i) {
    return {sums[0][j][i], sums[1][j][i]};
  }

  __device__ void hand_over(const Sums &sums) const {
#pragma unroll
    for (int j = 1; j < TILES; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums_by(warp)[place_of_sum(j, i)] = get<TILES>(sums, j, i);
  }

  __device__ void load_e(E &e, int row) const {
#pragma unroll
    for (int s = 0; s < OF_E; s++) load(e[s], panel_of(row) + (row - ROWS + s * SLICE) * LDA);
  }

  /* The warp's own tile is whole: B, what each multiplier has, the warp's own not by way of memory, and E's products,
   * in this order for every tile. */
  __device__ void finish(const Sums &sums, const E &e, int row) const {
    double of_e[OF_SLICE][PARTS][1][4] = {}; /* sums that do not wait for each other */
    OfX<1> of_x[OF_E];
    Element sum[4];
#pragma unroll
    for (int s = 0; s < OF_E; s++) load(of_x[s], row - ROWS + s * SLICE);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      sum[i] = sums_of(row)[place_of_sum(0, i)];
#pragma unroll
      for (int by = 0; by < MULTIPLIERS; by++)
        plus(sum[i], by == warp ? get<TILES>(sums, 0, i) : sums_by(by)[place_of_sum(0, i)]);
    }
#pragma unroll
    for (int s = 0; s < OF_E; s++)
#pragma unroll
      for (int o = 0; o < OF_SLICE; o++) multiply64_at_once(of_e[o], e[s].of[o], of_x[s].of[o]);
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int s = 0; s < OF_SLICE; s++) plus(sum[i], get<1>(of_e[s], 0, i));
      sums_of(row)[place_of_sum(0, i)] = sum[i];
    }
  }

  __device__ void run() const {
    meet_all(); /* there are reciprocals */
#pragma unroll 1
    for (int row = 0; row < rows; row += ROWS) {
      Sums sums = {};
      E e;
      meet_all(); /* the solver begins */
      if (row + ROWS < rows) {
        accumulate(sums, panel_of(row + ROWS), row);
        hand_over(sums);
        load_e(e, row + ROWS);
      }
      meet_when_solved();
      if (row + ROWS < rows) finish(sums, e, row + ROWS);
    }
    meet_all(); /* all is solved */
  }
};

/* The fourth: it makes the diagonal's reciprocals, three steps ahead of the solver, for D two steps ahead. */
template <typename Stored, bool lower> struct Diagonal64 : Multiplier64<Stored, lower> {
  using Multiplier = Multiplier64<Stored, lower>;
  using Multiplier::args, Multiplier::at, Multiplier::finish, Multiplier::lane, Multiplier::load_e,
      Multiplier::meet_all, Multiplier::meet_when_solved, Multiplier::Multiplier64, Multiplier::ROWS, Multiplier::rows,
      Multiplier::set_divisor;
  using typename Multiplier::E, typename Multiplier::Sums;

  /* A lane's row of a step. */
  __device__ Stored load(int row) const {
    const int mine = row + lane % ROWS;
    return row < rows && at(mine) < args.m && args.unit == 0 ? Multiplier::element_of_a(mine, mine) : Stored::from(1);
  }
  __device__ void show(int row, Stored ahead) const {
    if (row < rows && lane < ROWS) set_divisor(row + lane, divisor_of(widened(ahead)));
  }

  __device__ void run() const {
    const Sums none = {};
    const Stored first[3] = {load(0), load(ROWS), load(2 * ROWS)};
    Stored ahead = load(3 * ROWS);
#pragma unroll 1
    for (int i = 0; i < 3; i++) show(i * ROWS, i == 0 ? first[0] : i == 1 ? first[1] : first[2]);
    meet_all(); /* there are reciprocals */
#pragma unroll 1
    for (int row = 0; row < rows; row += ROWS) {
      E e;
      meet_all(); /* the solver begins */
      if (row + ROWS < rows) load_e(e, row + ROWS);
      show(row + 3 * ROWS, ahead);
      ahead = load(row + 4 * ROWS);
      meet_when_solved();
      if (row + ROWS < rows) finish(none, e, row + ROWS);
    }
    meet_all(); /* all is solved */
  }
};

} // namespace triangle_leaf

#endif
