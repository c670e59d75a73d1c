/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A diagonal block of A' and the rows of B beside it, solved in doubles by the FP64 tensor cores (common/mma64.cuh),
 * see solve_args.h. Rows are solved 16 at a time, a step. A block of threads has 32 columns of B: four warps that
 * multiply have eight of them each; the solver, a warp, has all of them, a lane a column; and four more warps move what
 * these want and what they have made.
 *
 *     A'              X
 *   | D         |   | solved        |   multipliers, while the solver is at a step: A' times what was solved before
 *   | E D       |   | solved        |       that step, for the next step's rows; and behind it E times that step's
 *   | A E D     |   | this step     |   solver: this step's rows by D
 *   | A A E D   |   | the next one  |   movers: B's rows, chunks of A', D; and X's last rows to memory
 *
 * Of floats all is computed in doubles, from A' and B as they are, and X is rounded to a float where it goes to memory.
 * How a step is solved: solve64_solver.cuh; where all stands: solve64_memory.cuh.
 */
#ifndef TB_TRIANGLE_SOLVE64_CUH
#define TB_TRIANGLE_SOLVE64_CUH

#include "triangle/solve64_solver.cuh"
#include "common/mma64.cuh"

namespace triangle_leaf {

template <typename Stored, bool lower> struct Solve64 : Solver64<Stored, lower> {
  using Solver = Solver64<Stored, lower>;
  using Solver::args, Solver::at, Solver::CHUNK, Solver::d, Solver::divisor, Solver::element_of_a, Solver::g,
      Solver::lane, Solver::LDA, Solver::LDX, Solver::LDZ, Solver::make_divisors, Solver::mover, Solver::N,
      Solver::PARTS, Solver::ROWS, Solver::rough, Solver::rows, Solver::run_solver, Solver::Solver64, Solver::STAGES,
      Solver::stages, Solver::sums_of, Solver::t, Solver::thread, Solver::warp, Solver::warps, Solver::WIDENS,
      Solver::x;
  using typename Solver::Element;
  static constexpr int K = 8 / PARTS; /* that one multiplication has */
  static constexpr int SUMS = 4 / PARTS;
  using Sums = double[PARTS][1][4];

  /* ---- A' by chunks ---- */

  /* 16 rows from position `row` on, and so many columns from position `column` on; a step's last one is E. */
  struct Chunk {
    int row, column, slot;
    __device__ bool is_e() const { return column == row - ROWS; }
    __device__ int columns() const {
      const int left = row - ROWS - column;
      return is_e() ? ROWS : left < CHUNK ? left : CHUNK;
    }
    __device__ void next() {
      slot = slot + 1 < STAGES ? slot + 1 : 0;
      const int end = column + columns();
      if (is_e())
        row += ROWS, column = 0;
      else
        column = end;
    }
  };

  __device__ const Stored *stage(const Chunk &chunk) const { return stages + chunk.slot * CHUNK * LDA; }
  /* Where a stage has the element at a position of its 16 rows, of a column's. */
  __device__ static int row_in_stage(int row) { return lower ? row : ROWS - 1 - row; }

  /* Where a mover's copies of a chunk begin, of which a column has so many, and the next one is so many columns on. */
  static constexpr int PER_LOAD = 16 / sizeof(Stored), OF_COLUMN = ROWS / PER_LOAD;
  static constexpr int AT_ONCE = 32 * TB_TRIANGLE_SOLVE64_WARPS / OF_COLUMN;
  __device__ int row_of_copies() const { return thread % OF_COLUMN * PER_LOAD; }
  __device__ int column_of_copies() const { return thread / OF_COLUMN; }
  __device__ const Stored *from_of_copies(const Chunk &chunk) const {
    const int row = (lower ? chunk.row : rows - ROWS - chunk.row) + row_of_copies();
    return static_cast<const Stored *>(args.a) + row + at(chunk.column + column_of_copies()) * args.lda;
  }
  __device__ Stored *to_of_copies(const Chunk &chunk) const {
    return stages + (chunk.slot * CHUNK + column_of_copies()) * LDA + row_of_copies();
  }

  /* All of whose columns and rows are A's, by as many warps as there may be: most chunks are such. */
  __device__ void fetch_whole(const Chunk &chunk) const {
    const Stored *from = from_of_copies(chunk);
    Stored *const to = to_of_copies(chunk);
    const int64_t step = (lower ? AT_ONCE : -AT_ONCE) * args.lda;
#pragma unroll
    for (int j = 0; j < CHUNK; j += AT_ONCE, from += step) async_copy<16>(to + j * LDA, from);
  }

  __device__ void fetch_part(const Chunk &chunk, int columns) const {
    const int at_once = 32 * warps / OF_COLUMN;
    const int left = args.m - (lower ? chunk.row : rows - ROWS - chunk.row) - row_of_copies();
    const unsigned bytes = (left < 0 ? 0 : left < PER_LOAD ? left : PER_LOAD) * static_cast<unsigned>(sizeof(Stored));
    const Stored *from = from_of_copies(chunk);
    Stored *to = to_of_copies(chunk);
    const int64_t step = (lower ? at_once : -at_once) * args.lda;
#pragma unroll 1
    for (int j = column_of_copies(); j < columns; j += at_once, from += step, to += at_once * LDA) {
      const bool there = bytes > 0 && at(chunk.column + j) < args.m;
      async_copy<16>(to, there ? from : static_cast<const Stored *>(args.a), there ? bytes : 0);
    }
  }

  __device__ void fetch_chunk(const Chunk &chunk) const {
    if (chunk.row < rows) {
      const int columns = chunk.columns();
      if (columns == CHUNK && rows == args.m && warps == TB_TRIANGLE_SOLVE64_WARPS)
        fetch_whole(chunk);
      else
        fetch_part(chunk, columns);
    }
    async_commit();
  }

  /* ---- sums ---- */

  __device__ static void put(double (&fragment)[2], int h, Plain<double> z) { fragment[h] = z.re; }
  __device__ static void put(double (&fragment)[2], int, Complex<double> z) { fragment[0] = z.re, fragment[1] = z.im; }
  __device__ static Plain<double> get(const double (&sums)[1][1][4], int i) { return {sums[0][0][i]}; }
  __device__ static Complex<double> get(const double (&sums)[2][1][4], int i) { return {sums[0][0][i], sums[1][0][i]}; }

  /* sums += A' X, of K columns, which the stage has from `from` on; X's rows from `row` on. */
  __device__ void multiply(Sums &sums, const Stored *from, int row) const {
    double of_a[2][2], of_x[1][2];
#pragma unroll
    for (int h = 0; h < 2 / PARTS; h++) {
#pragma unroll
      for (int e = 0; e < 2; e++) put(of_a[e], h, widened(from[(t + 4 * h) * LDA + row_in_stage(g + 8 * e)]));
      put(of_x[0], h, x[(warp * N + g) * LDX + row + t + 4 * h]);
    }
    multiply64(sums, of_a, of_x, Signs64{0, 0});
  }

  /* Of 16 columns at a time, those of one multiplication after another in one sum after another, for each waits for the
   * one before. */
  __device__ void multiply_chunk(Sums (&sums)[SUMS], const Chunk &chunk) const {
    const Stored *const from = stage(chunk);
    const int columns = chunk.columns();
#pragma unroll
    for (int first = 0; first < CHUNK; first += ROWS) {
      if (first >= columns) break;
#pragma unroll
      for (int k = first; k < first + ROWS; k += K) multiply(sums[k / K % SUMS], from + k * LDA, chunk.column + k);
    }
  }

  __device__ void add_sums(const Sums (&sums)[SUMS], int row) const {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      Element *const to = sums_of(row) + (g + i / 2 * 8) * LDZ + warp * N + 2 * t + i % 2;
      Element sum = get(sums[0], i);
#pragma unroll
      for (int s = 1; s < SUMS; s++) plus(sum, get(sums[s], i));
      Element all = *to;
      plus(all, sum);
      *to = all;
    }
  }

  __device__ void run_multiplier() const {
    Chunk here = {ROWS, 0, 0};
    Sums sums[SUMS] = {};
#pragma unroll 1
    for (int row = 0; row < rows; row += ROWS) {
      if (row > 0) {
        multiply_chunk(sums, here);
        here.next();
        add_sums(sums, row);
      }
      __syncthreads(); /* the solver begins */
#pragma unroll
      for (int s = 0; s < SUMS; s++)
#pragma unroll
        for (int i = 0; i < 4 * PARTS; i++) sums[s][i / 4][0][i % 4] = 0;
#pragma unroll 1
      for (; here.row < rows && !here.is_e(); here.next()) {
        meet_over_chunk();
        multiply_chunk(sums, here);
      }
      __syncthreads(); /* the solver has ended, and all see E */
    }
  }

  /* ---- movers: D ---- */

  /* Whether an element divided by what has a reciprocal, and that times a sum, is what it should be: neither too large
   * nor too small, as what comes of floats never is. */
  __device__ static bool is_in_range(double b) {
    const double size = fabs(b);
    return WIDENS || size == 0 || (size >= 1 / Range<double>::number && size <= Range<double>::number);
  }
  __device__ static bool is_in_range(Plain<double> z) { return is_in_range(z.re); }
  __device__ static bool is_in_range(Complex<double> z) { return is_in_range(z.re) && is_in_range(z.im); }

  /* A thread's elements of a step's, by columns: those of a block with all its warps, and behind them others. */
  static constexpr int OF_D = ROWS * ROWS / (32 * TB_TRIANGLE_SOLVE64_WARPS);
  __device__ Stored stored_d(int row, int number) const {
    return element_of_a(row + number % ROWS, row + number / ROWS);
  }
  __device__ void set_d(int row, int number, Stored a) const {
    const Divisor<double> by = divisor(row + number / ROWS);
    const Element above = args.unit ? widened(a) : numerator(widened(a), by);
    d[row / ROWS % 2 * ROWS * ROWS + number] = args.unit ? above : times(above, by.r);
    if (number % ROWS > number / ROWS && !is_in_range(above))
      static_cast<volatile int *>(rough)[row / ROWS % 2] = row + ROWS;
  }
  __device__ void load_d(int row, Stored (&ahead)[OF_D]) const {
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < OF_D; i++) ahead[i] = stored_d(row, i * 32 * warps + thread);
  }
  __device__ void store_d(int row, const Stored (&ahead)[OF_D]) const {
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < OF_D; i++) set_d(row, i * 32 * warps + thread, ahead[i]);
#pragma unroll 1
    for (int i = OF_D * 32 * warps + thread; i < ROWS * ROWS; i += 32 * warps) set_d(row, i, stored_d(row, i));
  }

  /* ---- movers: B ---- */

  /* A mover has a multiplier's columns, a lane one row of every other one, so that half a warp has a whole line. */
  static constexpr int OF_B = N / 2;
  __device__ int column_of_b(int i) const { return mover * N + lane / ROWS + 2 * i; }
  __device__ bool is_of_b(int row, int i) const {
    return at(row + lane % ROWS) < args.m && blockIdx.x * static_cast<int64_t>(warps) * N + column_of_b(i) < args.n;
  }
  __device__ Stored *place_in_b(int row, int i) const {
    return static_cast<Stored *>(args.b) + at(row + lane % ROWS) +
           (blockIdx.x * static_cast<int64_t>(warps) * N + column_of_b(i)) * args.ldb;
  }
  /* All rows and columns of the block are B's, and aligned to an element. */
  __device__ bool is_whole_block() const {
    return rows == args.m && (blockIdx.x + static_cast<int64_t>(1)) * warps * N <= args.n && is_whole<Stored>(args.b);
  }

  template <bool whole_block> __device__ void load_b(int row, Stored (&ahead)[OF_B]) const {
    if (row >= rows) return;
    const bool whole = whole_block || is_whole<Stored>(args.b);
#pragma unroll
    for (int i = 0; i < OF_B; i++)
      ahead[i] = whole_block || is_of_b(row, i) ? fetch(place_in_b(row, i), whole) : Stored::from(0);
  }
  __device__ void show_b(int row, const Stored (&ahead)[OF_B]) const {
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < OF_B; i++) sums_of(row)[lane % ROWS * LDZ + column_of_b(i)] = widened(ahead[i]);
  }
  template <bool whole_block> __device__ void store_b(int row) const {
    const bool whole = whole_block || is_whole<Stored>(args.b);
#pragma unroll
    for (int i = 0; i < OF_B; i++) {
      const Stored solved = narrowed(x[column_of_b(i) * LDX + row + lane % ROWS], Stored{});
      if (whole_block || is_of_b(row, i)) store(place_in_b(row, i), solved, whole);
    }
  }

  /* ---- movers ---- */

  /* The multipliers see the chunk, and are done with the one before, in whose place another comes. */
  __device__ void meet_over_chunk() const { part_meet(1, static_cast<unsigned>(64 * warps)); }

  template <bool whole_block> __device__ void run_mover() const {
    Chunk here = {ROWS, 0, 0}, coming = here;
    Stored of_b[OF_B], of_d[OF_D];
    load_b<whole_block>(0, of_b);
    load_d(0, of_d);
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++, coming.next()) fetch_chunk(coming);
    show_b(0, of_b);
    store_d(0, of_d);
#pragma unroll 1
    for (int row = 0; row < rows; row += ROWS) {
      __syncthreads(); /* the solver begins */
      load_b<whole_block>(row + ROWS, of_b);
      load_d(row + ROWS, of_d);
      if (row > 0) store_b<whole_block>(row - ROWS);
#pragma unroll 1
      for (; here.row < rows && !here.is_e(); here.next(), coming.next()) {
        async_wait<STAGES - 2>();
        meet_over_chunk();
        fetch_chunk(coming);
      }
      show_b(row + ROWS, of_b);
      store_d(row + ROWS, of_d);
      async_wait<STAGES - 2>();
      __syncthreads();     /* the solver has ended, and all see E */
      fetch_chunk(coming); /* in place of the one before E */
      coming.next();
      here.next();
    }
    store_b<whole_block>(rows - ROWS);
  }

  __device__ void run() const {
    if (threadIdx.x < 2) rough[threadIdx.x] = 0;
    const bool careful = __syncthreads_or(make_divisors());
    if (warp < warps)
      run_multiplier();
    else if (warp == warps)
      run_solver(careful);
    else if (is_whole_block())
      run_mover<true>();
    else
      run_mover<false>();
  }
};

} // namespace triangle_leaf

#endif
