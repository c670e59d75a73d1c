/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tile of D in the fp64 kernels: where it lies, what of it a thread has, and the way of a group's sums to D.
 *
 * A warp has warp_m x warp_n of the tile, in regions of 16 x 16, of two instructions of 16 x 8 each. With lane = 4 g +
 * t a thread has of each region
 *
 *   reals     rows 2 g and 2 g + 1 of columns 4 t to 4 t + 3      (the tensor cores' rows g and g + 8; of instruction e
 *                                                                  columns 4 t + e and 4 t + 2 + e, its 2 t and 2 t +
 * 1) complex   rows g and g + 8 of columns 2 t, 2 t + 1, 8 + 2 t and 8 + 2 t + 1      (as the tensor cores have them)
 *
 * and keeps them as units of 16 bytes, two neighbouring rows or a complex element; eight lanes have a line of D. Shared
 * memory and the partial sums hold units in the order of the threads, whatever their places in D: unit u of all threads
 * side by side, then unit u + 1.
 */
#ifndef TB_FP64_TILE_CUH
#define TB_FP64_TILE_CUH

#include "common/mma64.cuh"
#include "fp64/panel.cuh"

namespace fp64 {
namespace {

template <class E, int BM, int BN, int WM, int WN, int Stages, int Blocks, bool Triangle = false> struct Geometry {
  using Element = E;
  static constexpr int block_m = BM, block_n = BN, stages = Stages;
  static constexpr bool triangle = Triangle;      /* op(A) is one */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800 /* a SM has half the threads there */
  static constexpr int blocks_per_sm = (Blocks + 1) / 2;
#else
  static constexpr int blocks_per_sm = Blocks;
#endif
  static constexpr int warp_m = WM, warp_n = WN, warps_m = BM / WM, warps_n = BN / WN;
  static constexpr int threads = 32 * warps_m * warps_n;
  static constexpr int regions_m = WM / 16, regions_n = WN / 16;
  static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 16 == 0, "whole regions");
  /* Units: of a tile; and of a thread, in each column of its part, so many rows apart. */
  static constexpr int tile_units = BM * BN * E::bytes / kUnitBytes;
  static constexpr int unit_rows = regions_m * E::doubles, unit_step = 16 / E::doubles;
};

/* What of D's tile a thread has. */
template <class G> struct Owner {
  int row, column; /* of the warp, within the tile */
  int lane;
  __device__ __forceinline__ explicit Owner(int thread)
      : row(thread / 32 % G::warps_m * G::warp_m), column(thread / 32 / G::warps_m * G::warp_n), lane(thread % 32) {}
};

/* ---- a job: a tile, or a part of its k ---- */

struct Job {
  int64_t row, column;  /* of the tile's first element */
  int k_first, k_count; /* so many k from k_first on; of a triangle that may lie within a group */
  int64_t partial;      /* tiles in `partials` ahead of its first group's; -1: k is whole */
  unsigned tile;
};

__device__ __forceinline__ int groups_of(const tb_fp64_args &args) {
  return static_cast<int>((args.k + args.group_k - 1) / args.group_k);
}

/* Down the rows of a band of tile columns, then on to the next columns. */
template <class G> __device__ __forceinline__ tb_tile_bands bands_of(const tb_fp64_args &args) {
  const int band = G::triangle ? args.band : TB_FP64_BAND;
  return tb_tile_bands_of(args.m, args.n, G::block_m, G::block_n, 0, band, args.wanted);
}

/* First row and column of its tile. Of a D that is a triangle they are searched for, some hundred cycles long. */
template <class G> __device__ __forceinline__ void locate(const tb_fp64_args &args, Job &job) {
  const tb_tile_bands bands = bands_of<G>(args);
  const tb_tile_place place = tb_tile_place_of(&bands, static_cast<int>(job.tile));
  job.row = static_cast<int64_t>(place.line) * G::block_m;
  job.column = static_cast<int64_t>(place.along) * G::block_n;
}

/* Of a triangle a tile has the k that its rows have, and zeros up to the tile's edge. The longest ones come first. */
template <class G> __device__ __forceinline__ void keep_to_triangle(const tb_fp64_args &args, Job &job) {
  const int64_t last_row = (args.m - 1) / G::block_m * G::block_m, end = G::block_m;
  if (args.lower != 0) {
    job.row = last_row - job.row;
    if (job.row + end < args.k) job.k_count = static_cast<int>(job.row + end);
  } else {
    job.k_first = static_cast<int>(job.row);
    job.k_count -= job.k_first;
  }
}

/* All but its row and column, of which a triangle's k is made. */
template <class G> __device__ __forceinline__ Job k_of(const tb_fp64_args &args, unsigned number) {
  Job job = {0, 0, 0, static_cast<int>(args.k), -1, number};
  const unsigned whole = static_cast<unsigned>(args.whole);
  if (G::triangle) {
    locate<G>(args, job);
    keep_to_triangle<G>(args, job);
  } else if (number >= whole) {
    const unsigned split = static_cast<unsigned>(args.tiles) - whole, tile = (number - whole) % split,
                   part = (number - whole) / split;
    job.tile = whole + tile;
    const int first_group = static_cast<int>(part) * args.groups_per_split;
    const int64_t from = static_cast<int64_t>(first_group) * args.group_k;
    const int64_t most = static_cast<int64_t>(args.groups_per_split) * args.group_k;
    job.k_first = static_cast<int>(from);
    job.k_count = static_cast<int>(args.k - from < most ? args.k - from : most);
    job.partial = static_cast<int64_t>(tile) * groups_of(args) + first_group;
  }
  return job;
}

template <class G> __device__ __forceinline__ Job job_of(const tb_fp64_args &args, unsigned number) {
  Job job = k_of<G>(args, number);
  if (!G::triangle) locate<G>(args, job);
  return job;
}

/* ---- D ---- */

/* This thread's elements of D, for those that exist. */
struct Target {
  double *d;
  int64_t ld_doubles;
  int rows, columns; /* from there on */
  bool whole;        /* all are wanted, and 16 bytes may be moved at a time */
  int of, diagonal; /* wanted are of these as struct tb_tiles_wanted has it, counted from this thread's first element */
  bool hermitian;
  int32_t *unfit; /* of kernels of triangles: the flag of the first element's column */

  /* The rows of a column that are there and wanted: [first(c), end(c)). */
  __device__ __forceinline__ int first(int column) const { return of == TB_TILES_LOWER ? column + diagonal : 0; }
  __device__ __forceinline__ int end(int column) const {
    const int there = column < columns ? rows : 0;
    return of == TB_TILES_UPPER ? min(there, column + diagonal + 1) : there;
  }
};

template <class G>
__device__ __forceinline__ Target target_of(const tb_fp64_args &args, const Job &job, const Owner<G> &owner) {
  using E = typename G::Element;
  const int64_t rows = args.m - job.row, columns = args.n - job.column;
  const int row = owner.row + owner.lane / 4 * E::elems, column = owner.column + owner.lane % 4 * 2 * E::elems;
  Target t;
  t.ld_doubles = args.ldd * E::doubles;
  t.d = args.d + (job.row + row) * E::doubles + (job.column + column) * t.ld_doubles;
  t.rows = static_cast<int>(rows < G::block_m ? rows : G::block_m) - row;
  t.columns = static_cast<int>(columns < G::block_n ? columns : G::block_n) - column;
  if (G::triangle) t.unfit = args.unfit + job.column + column;
  t.of = args.wanted.of;
  t.hermitian = args.wanted.hermitian != 0 && args.last != 0; /* bare sums have yet to be multiplied */
  const int diagonal = args.wanted.diagonal + static_cast<int>(job.column - job.row); /* of the tile */
  t.diagonal = diagonal + column - row;
  const bool all =
      t.of == TB_TILES_ALL || (t.of == TB_TILES_LOWER ? diagonal + G::block_n <= 0 : diagonal >= G::block_m);
  t.whole = all && rows >= G::block_m && columns >= G::block_n &&
            reinterpret_cast<uintptr_t>(args.d) % kUnitBytes == 0 && t.ld_doubles % 2 == 0;
  return t;
}

/* Whether a unit's half is among a column's rows [first, end), counted from this thread's first element. */
template <class G> __device__ __forceinline__ bool is_there(int unit, int half, int first, int end) {
  const int row = unit * G::unit_step + half * (G::Element::elems - 1);
  return row >= first && row < end;
}

/* A diagonal's imaginary part. */
__device__ __forceinline__ double2 without_imaginary(Real, const Target &, int, int, double2 v) { return v; }
__device__ __forceinline__ double2 without_imaginary(Complex, const Target &t, int row, int column, double2 v) {
  if (t.hermitian && row == column + t.diagonal) v.y = 0;
  return v;
}

/* What multiplies a sum that goes to D; 1 for one that is not complete. */
struct Scale {
  double re, im;
  __device__ __forceinline__ explicit Scale(const tb_fp64_args &args)
      : re(args.last ? args.alpha : 1), im(args.last ? args.alpha_im : 0) {}
};

__device__ __forceinline__ double2 scaled(Real, const Scale &by, double2 v) {
  v.x = by.re * v.x, v.y = by.re * v.y;
  return v;
}

__device__ __forceinline__ double2 scaled(Complex, const Scale &by, double2 v) {
  if (by.im == 0) return scaled(Real(), by, v);
  double2 z;
  z.x = __dadd_rn(__dmul_rn(by.re, v.x), -__dmul_rn(by.im, v.y));
  z.y = __dadd_rn(__dmul_rn(by.re, v.y), __dmul_rn(by.im, v.x));
  return z;
}

/* Where a group's sums come from and go to. This thread's first unit; the next is a unit for each thread behind. */
struct Way {
  double2 *sums;     /* in shared memory */
  double2 *partials; /* or NULL: k is whole */
  bool from_sums, from_d, to_d;
  Scale scale; /* of what goes to D */
};

/* One thread's sums. */
template <class G> struct Accumulators {
  using E = typename G::Element;
  static constexpr int columns = 4 * G::regions_n, batch = 2; /* columns that go at once */
  static constexpr int at_once = batch * G::unit_rows;
  static constexpr int units = G::unit_rows * columns; /* unit r + unit_rows * c: unit r of column c */
  /* Of each region along m, as multiply64 has them. */
  double sum[G::regions_m][E::parts][2 * G::regions_n][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < G::regions_m; r++)
#pragma unroll
      for (int i = 0; i < E::parts * 8 * G::regions_n; i++)
        sum[r][i / 4 / (2 * G::regions_n)][i / 4 % (2 * G::regions_n)][i % 4] = 0;
  }

  /* sum += what was kept, or D, or 0, so that none is a negative zero; and goes on. A few columns at a time, with a
   * pointer that steps from one to the next, so that not all of it occupies registers at once. */
  __device__ __forceinline__ void pass_on(const Way &way, const Target &t) {
    double *d = t.d;
    double2 *sums = way.sums, *partials = way.partials;
#pragma unroll
    for (int first = 0; first < columns; first += batch) {
      double2 v[batch][G::unit_rows] = {};
      if (way.from_sums) {
#pragma unroll
        for (int u = 0; u < at_once; u++) v[u / G::unit_rows][u % G::unit_rows] = sums[u * G::threads];
      }
      double *from = d;
#pragma unroll
      for (int c = 0; c < batch; c++) {
        if (way.from_d) load_column(v[c], t, from, place_of(first + c));
        if (c + 1 < batch) from = opaque(from + (place_of(first + c + 1) - place_of(first + c)) * t.ld_doubles);
#pragma unroll
        for (int r = 0; r < G::unit_rows; r++) add(v[c][r], r, first + c);
      }
#pragma unroll
      for (int c = 0; c < batch; c++) {
        if (way.to_d) store_column(v[c], t, d, place_of(first + c), way.scale);
        if (G::triangle && way.to_d) look_at(v[c], t, place_of(first + c));
        if (first + c + 1 < columns) d = opaque(d + (place_of(first + c + 1) - place_of(first + c)) * t.ld_doubles);
      }
      if (way.partials != nullptr) {
#pragma unroll
        for (int u = 0; u < at_once; u++) partials[u * G::threads] = v[u / G::unit_rows][u % G::unit_rows];
        partials += at_once * G::threads;
      } else if (!way.to_d) {
#pragma unroll
        for (int u = 0; u < at_once; u++) sums[u * G::threads] = v[u / G::unit_rows][u % G::unit_rows];
      }
      sums += at_once * G::threads;
    }
  }

  /* Columns of the tile from a thread's first to its others. */
  static __device__ __forceinline__ constexpr int place_of(int column) {
    return column / 4 * 16 + (E::parts == 1 ? column % 4 : column % 4 / 2 * 8 + column % 2);
  }

private:
  __device__ __forceinline__ void add(double2 &v, int unit, int column) const {
    const int region = unit / E::doubles;
    if (E::parts == 1) {
      const double(&of)[4] = sum[region][0][column / 4 * 2 + column % 2];
      v.x = v.x + of[column % 4 / 2], v.y = v.y + of[column % 4 / 2 + 2];
    } else {
      const int instruction = column / 4 * 2 + column % 4 / 2, element = unit % 2 * 2 + column % 2;
      v.x = v.x + sum[region][0][instruction][element];
      v.y = v.y + sum[region][E::parts - 1][instruction][element];
    }
  }
  static __device__ __forceinline__ void load_column(double2 (&v)[G::unit_rows], const Target &t, const double *d,
                                                     int column) {
    const int first = t.first(column), end = t.end(column);
#pragma unroll
    for (int r = 0; r < G::unit_rows; r++) {
      if (is_there<G>(r, 0, first, end)) v[r].x = d[16 * r];
      if (is_there<G>(r, 1, first, end)) v[r].y = d[16 * r + 1];
    }
  }
  static __device__ __forceinline__ void look_at(const double2 (&v)[G::unit_rows], const Target &t, int column) {
    bool some = false;
#pragma unroll
    for (int r = 0; r < G::unit_rows; r++) some |= !(v[r].x - v[r].x == 0) || !(v[r].y - v[r].y == 0);
    if (some && column < t.columns) t.unfit[column] = 1;
  }
  static __device__ __forceinline__ void store_column(double2 (&v)[G::unit_rows], const Target &t, double *d,
                                                      int column, const Scale &scale) {
    const int first = t.first(column), end = t.end(column);
#pragma unroll
    for (int r = 0; r < G::unit_rows; r++) {
      v[r] = without_imaginary(E(), t, r * G::unit_step, column, scaled(E(), scale, v[r]));
      if (t.whole) {
        *reinterpret_cast<double2 *>(d + 16 * r) = v[r];
      } else {
        if (is_there<G>(r, 0, first, end)) d[16 * r] = v[r].x;
        if (is_there<G>(r, 1, first, end)) d[16 * r + 1] = v[r].y;
      }
    }
  }
};

} // namespace
} // namespace fp64

#endif
