/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Warps that move what a solve in doubles wants and has made (solve64.cuh): rows of A' and B, and D divided by the
 * diagonal, from memory, and X to it. They meet the others once a step, and have all of it for what they do in it.
 */
#ifndef TB_TRIANGLE_SOLVE64_MOVERS_CUH
#define TB_TRIANGLE_SOLVE64_MOVERS_CUH

#include "triangle/solve64_memory.cuh"

namespace triangle_leaf {

template <typename Stored, bool lower> struct Mover64 : Memory64<Stored, lower> {
  using Memory = Memory64<Stored, lower>;
  using Memory::args, Memory::at, Memory::COLUMNS, Memory::meet_all, Memory::d_of, Memory::divisor,
      Memory::first_column, Memory::is_of_a, Memory::lane, Memory::LDA, Memory::ldx, Memory::LDZ, Memory::MOVERS,
      Memory::panel_of, Memory::ROWS, Memory::rough_of, Memory::rows, Memory::sums_of, Memory::WIDENS, Memory::x;
  using typename Memory::Element;
  static constexpr int THREADS = 32 * MOVERS, FORWARD = lower ? ROWS : -ROWS; /* from a step to the next one */
  const int mover, thread;                                                    /* of so many */

  __device__ Mover64(const tb_triangle_leaf_args &arguments, unsigned char *shared, int number)
      : Memory(arguments, shared), mover(number), thread(32 * number + lane) {}

  /* ---- A' ---- */

  /* A thread copies 16 bytes of a column, which so many of them have, and goes on so many columns behind. */
  static constexpr int PER_COPY = 16 / sizeof(Stored), OF_COLUMN = ROWS / PER_COPY, AT_ONCE = THREADS / OF_COLUMN;

  /* Of a step's rows, all columns before the step's, where all rows are A's: most steps are such. */
  __device__ void copy_whole_panel(int row) const {
    const int first = (lower ? row : rows - ROWS - row) + thread % OF_COLUMN * PER_COPY, column = thread / OF_COLUMN;
    const Stored *from = static_cast<const Stored *>(args.a) + first + at(column) * args.lda;
    Stored *to = panel_of(row) + column * LDA + thread % OF_COLUMN * PER_COPY;
    const int64_t step = (lower ? AT_ONCE : -AT_ONCE) * args.lda;
#pragma unroll 4
    for (int left = row - column; left > 0; left -= AT_ONCE, from += step, to += AT_ONCE * LDA)
      async_copy<16>(to, from);
  }
  __device__ void copy_part_of_panel(int row) const {
    const int first = (lower ? row : rows - ROWS - row) + thread % OF_COLUMN * PER_COPY, left = args.m - first;
    const unsigned bytes = static_cast<unsigned>(left < 0 ? 0 : left < PER_COPY ? left : PER_COPY) * sizeof(Stored);
    const Stored *const a = static_cast<const Stored *>(args.a);
    Stored *const to = panel_of(row) + thread % OF_COLUMN * PER_COPY;
#pragma unroll 1
    for (int column = thread / OF_COLUMN; column < row; column += AT_ONCE) {
      const bool there = bytes > 0 && at(column) < args.m;
      async_copy<16>(to + column * LDA, there ? a + first + at(column) * args.lda : a, there ? bytes : 0);
    }
  }
  __device__ void copy_panel(int row) const {
    if (row < rows && rows == args.m)
      copy_whole_panel(row);
    else if (row < rows)
      copy_part_of_panel(row);
    async_commit();
  }

  /* ---- D ---- */

  /* Whether an element divided by what has a reciprocal, and that times a sum, is what it should be: neither too large
   * nor too small, as what comes of floats never is. By the exponent: the units for doubles are the multipliers'. */
  __device__ static bool is_in_range(double b) {
    constexpr unsigned least = (1023 - 600) << 20, most = (1023 + 600) << 20;
    const unsigned high = static_cast<unsigned>(__double2hiint(b)) & 0x7fffffffu;
    return WIDENS || high - least < most - least || b == 0;
  }
  __device__ static bool is_in_range(Plain<double> z) { return is_in_range(z.re); }
  __device__ static bool is_in_range(Complex<double> z) { return is_in_range(z.re) && is_in_range(z.im); }

  /* A thread's elements of a step's, by columns. */
  static constexpr int OF_D = ROWS * ROWS / THREADS;
  __device__ int row_of_d() const { return thread % ROWS; }
  __device__ int column_of_d(int i) const { return thread / ROWS + i * (THREADS / ROWS); }
  __device__ const Stored *place_of_d(int row) const {
    return static_cast<const Stored *>(args.a) + at(row + row_of_d()) + at(row + column_of_d(0)) * args.lda;
  }
  template <bool whole> __device__ void load_d(int row, const Stored *from, Stored (&ahead)[OF_D]) const {
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < OF_D; i++) {
      const bool there = whole || is_of_a(row + row_of_d(), row + column_of_d(i));
      ahead[i] = there && row_of_d() > column_of_d(i) ? from[i * (FORWARD / 2) * args.lda] : Stored::from(0);
    }
  }
  __device__ void show_d(int row, const Stored (&ahead)[OF_D]) const {
    if (row >= rows) return;
    bool good = true;
#pragma unroll
    for (int i = 0; i < OF_D; i++) {
      const Divisor<double> by = divisor(row + column_of_d(i));
      const Element a = widened(ahead[i]), above = args.unit ? a : numerator(a, by);
      d_of(row)[column_of_d(i) * ROWS + row_of_d()] = args.unit ? above : times(above, by.r);
      good = good && by.r != 0 && is_in_range(above);
    }
    if (!good) static_cast<volatile int &>(rough_of(row)) = row + ROWS;
  }

  /* ---- B ---- */

  /* A warp has eight columns, a lane one row of every other one, so that half a warp has a whole line. */
  static constexpr int OF_B = COLUMNS / MOVERS * ROWS / 32;
  __device__ int column_of_b(int i) const { return (mover * OF_B + i) * (32 / ROWS) + lane / ROWS; }
  __device__ bool is_of_b(int row, int i) const {
    return at(row + lane % ROWS) < args.m && first_column + column_of_b(i) < args.n;
  }
  __device__ Stored *place_in_b(int row, int i) const {
    return static_cast<Stored *>(args.b) + at(row + lane % ROWS) + (first_column + column_of_b(i)) * args.ldb;
  }
  /* All rows and columns of the block are B's, and aligned to an element. */
  __device__ bool is_whole_block() const {
    return rows == args.m && first_column + COLUMNS <= args.n && is_whole<Stored>(args.b);
  }

  /* `b`: the places of this step's elements. */
  template <bool whole_block> __device__ void load_b(int row, Stored *const (&b)[OF_B], Stored (&ahead)[OF_B]) const {
    if (row >= rows) return;
    const bool whole = whole_block || is_whole<Stored>(args.b);
#pragma unroll
    for (int i = 0; i < OF_B; i++) ahead[i] = whole_block || is_of_b(row, i) ? fetch(b[i], whole) : Stored::from(0);
  }
  __device__ void show_b(int row, const Stored (&ahead)[OF_B]) const {
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < OF_B; i++) sums_of(row)[lane % ROWS * LDZ + column_of_b(i)] = widened(ahead[i]);
  }
  /* `b`: those of a step that is so many behind it. */
  template <bool whole_block> __device__ void store_b(int row, Stored *const (&b)[OF_B], int steps) const {
    const bool whole = whole_block || is_whole<Stored>(args.b);
#pragma unroll
    for (int i = 0; i < OF_B; i++) {
      const Stored solved = narrowed(x[column_of_b(i) * ldx + row + lane % ROWS], Stored{});
      if (whole_block || is_of_b(row, i)) store(b[i] - steps * FORWARD, solved, whole);
    }
  }

  /* ---- a leaf ---- */

  /* Loads are a step ahead of who shows what they brought, two steps ahead of the solver: nobody waits for them. */
  template <bool whole_block> __device__ void run_on() const {
    Stored of_b[OF_B], of_d[OF_D], *b[OF_B];
    const Stored *d = place_of_d(0);
#pragma unroll
    for (int i = 0; i < OF_B; i++) b[i] = place_in_b(0, i);
    const auto load_next = [&](int row) {
      load_b<whole_block>(row, b, of_b);
      load_d<whole_block>(row, d, of_d);
      d += FORWARD + FORWARD * args.lda;
#pragma unroll
      for (int i = 0; i < OF_B; i++) b[i] += FORWARD;
    };
    load_next(0);
    copy_panel(ROWS);
    if (thread < 3) rough_of(thread * ROWS) = 0;
    meet_all(); /* there are reciprocals */
#pragma unroll 1
    for (int row = 0; row < 2 * ROWS; row += ROWS) {
      show_b(row, of_b);
      show_d(row, of_d);
      load_next(row + ROWS);
    }
#pragma unroll 1
    for (int row = 0; row < rows; row += ROWS) {
      async_wait<0>();
      meet_all(); /* the solver begins */
      copy_panel(row + 2 * ROWS);
      show_b(row + 2 * ROWS, of_b);
      show_d(row + 2 * ROWS, of_d);
      load_next(row + 3 * ROWS);
      if (row > 0) store_b<whole_block>(row - ROWS, b, 5);
    }
    meet_all(); /* all is solved */
    store_b<whole_block>(rows - ROWS, b, 4);
  }

  __device__ void run() const {
    if (is_whole_block())
      run_on<true>();
    else
      run_on<false>();
  }
};

} // namespace triangle_leaf

#endif
