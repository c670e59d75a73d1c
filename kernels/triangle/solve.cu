/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What trmm and trsm have of their own, see solve_args.h: a triangle brought into form, matrices transposed, and the
 * blocks on the diagonal (leaf.cuh). All else of them are products. The first two are bound by memory: a block has a
 * tile of 32 x 32 in shared memory, so that it reads and writes whole lines whichever way the tile is turned.
 */
#include "fp64/gemm.cuh"
#include "triangle/corner.cuh"
#include "triangle/leaf.cuh"
#include "triangle/solve64.cuh"

namespace triangle_solve {

using triangle_corner::corner;
using triangle_leaf::Complex;
using triangle_leaf::fetch;
using triangle_leaf::is_whole;
using triangle_leaf::Leaf;
using triangle_leaf::Plain;
using triangle_leaf::Several;
using triangle_leaf::solve64;
using triangle_leaf::store;

constexpr int TILE = TB_TRIANGLE_TILE, ROW = TILE + 1, STEP = TB_TRIANGLE_TILE_THREADS;

/* ---- the form of A' ---- */

template <typename R> __device__ inline Plain<R> changed(Plain<R> x, bool negated, bool) {
  return {negated ? -x.re : x.re};
}
template <typename R> __device__ inline Complex<R> changed(Complex<R> x, bool negated, bool conjugated) {
  return {negated ? -x.re : x.re, negated != conjugated ? -x.im : x.im};
}

/* Element (i, j) of the stored matrix as A' has it. */
template <typename Element>
__device__ Element formed(const tb_triangle_form_args &args, const Element *from, int64_t i, int64_t j) {
  using Real = typename Element::Real;
  const bool whole = is_whole<Element>(args.from);
  if (i == j) return args.unit ? Element::from(1) : changed(fetch(from, whole), false, args.conjugated != 0);
  if (args.lower ? i < j : i > j) return Element::from(static_cast<Real>(0));
  return changed(fetch(from, whole), args.negated != 0, args.conjugated != 0);
}

template <typename Element> __device__ void put(void *to, int64_t ld, int64_t i, int64_t j, Element z) {
  static_cast<Element *>(to)[i + j * ld] = z;
}
/* As a real matrix. */
__device__ void put(void *to, int64_t ld, int64_t i, int64_t j, Complex<float> z) {
  Complex<float> *const at = reinterpret_cast<Complex<float> *>(static_cast<float *>(to) + 2 * (i + j * ld));
  *at = z;
  float *const odd = reinterpret_cast<float *>(at) + ld;
  odd[0] = -z.im;
  odd[1] = z.re;
}

/* All threads of a block. */
__device__ inline bool is_wanted(const tb_triangle_form_args &args) {
  int some = 0;
  if (args.left == nullptr) return true;
  for (int i = static_cast<int>(threadIdx.y * TILE + threadIdx.x); i < args.left_words; i += TILE * STEP)
    some |= args.left[i] != 0;
  return __syncthreads_or(some) != 0;
}

/* Whether a tile's elements are beside all squares, in the other triangle. */
__device__ inline bool is_beyond_squares(const tb_triangle_form_args &args, int64_t row, int64_t column) {
  const int64_t i = args.first_row + row, j = args.first_column + column, edge = TB_FP64_TRIANGLE_EDGE;
  if (args.squares == 0) return false;
  return args.lower ? (i + TILE - 1) / edge < j / edge : (j + TILE - 1) / edge < i / edge;
}

template <typename Element> __device__ void form(const tb_triangle_form_args &args, unsigned char *shared) {
  Element *const tile = reinterpret_cast<Element *>(shared);
  if (!is_wanted(args)) return;
  const int64_t row = blockIdx.x * static_cast<int64_t>(TILE), x = threadIdx.x;
  for (int64_t column = blockIdx.y * static_cast<int64_t>(TILE); column < args.columns;
       column += static_cast<int64_t>(gridDim.y) * TILE) {
    if (is_beyond_squares(args, row, column)) continue;
    Element z[TILE / STEP] = {}; /* all are asked for before the first one is stored */
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
      const int64_t y = threadIdx.y + i * STEP;
      const Element *const from = static_cast<const Element *>(args.from) + row + x + (column + y) * args.from_ld;
      if (row + x < args.rows && column + y < args.columns)
        z[i] = formed(args, from, args.first_row + row + x, args.first_column + column + y);
    }
#pragma unroll
    for (int i = 0; i < TILE / STEP; i++) {
      const int64_t y = threadIdx.y + i * STEP;
      if (args.transposed)
        tile[y * ROW + x] = z[i];
      else if (row + x < args.rows && column + y < args.columns)
        put(args.to, args.to_ld, args.first_row + row + x, args.first_column + column + y, z[i]);
    }
    if (!args.transposed) continue;
    __syncthreads();
    for (int64_t y = threadIdx.y; y < TILE; y += STEP)
      if (row + y < args.rows && column + x < args.columns)
        put(args.to, args.to_ld, args.first_column + column + x, args.first_row + row + y, tile[x * ROW + y]);
    __syncthreads();
  }
}

/* ---- transposes ---- */

template <typename Element> __device__ void turn(const tb_triangle_turn_args &args, unsigned char *shared) {
  Element *const tile = reinterpret_cast<Element *>(shared);
  const Element *const from = static_cast<const Element *>(args.from);
  Element *const to = static_cast<Element *>(args.to);
  const bool whole_from = is_whole<Element>(from), whole_to = is_whole<Element>(to);
  const int64_t row = blockIdx.x * static_cast<int64_t>(TILE), x = threadIdx.x;
  for (int64_t column = blockIdx.y * static_cast<int64_t>(TILE); column < args.columns;
       column += static_cast<int64_t>(gridDim.y) * TILE) {
    for (int64_t y = threadIdx.y; y < TILE; y += STEP)
      if (row + x < args.rows && column + y < args.columns)
        tile[y * ROW + x] = fetch(from + row + x + (column + y) * args.from_ld, whole_from);
    __syncthreads();
    for (int64_t y = threadIdx.y; y < TILE; y += STEP)
      if (row + y < args.rows && column + x < args.columns)
        store(to + column + x + (row + y) * args.to_ld, tile[x * ROW + y], whole_to);
    __syncthreads();
  }
}

/* ---- a triangle as a product ---- */

template <typename R> __device__ inline bool is_finite(Plain<R> x) { return x.re - x.re == 0; }
template <typename R> __device__ inline bool is_finite(Complex<R> x) { return x.re - x.re == 0 && x.im - x.im == 0; }
template <typename R> __device__ inline bool is_nan(Plain<R> x) { return x.re != x.re; }
template <typename R> __device__ inline bool is_nan(Complex<R> x) { return x.re != x.re || x.im != x.im; }

/* A lane's pieces of a column that has so many for the warp. Some are asked for before the first one is stored: the
 * compiler cannot know that they are not overwritten. */
template <typename Piece> __device__ void copy_pieces(const Piece *from, Piece *to, int64_t count, int lane) {
  constexpr int AT_ONCE = 4;
  for (int64_t at = lane; at < count; at += 32 * AT_ONCE) {
    Piece piece[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (at + 32 * i < count) piece[i] = from[at + 32 * i];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
      if (at + 32 * i < count) to[at + 32 * i] = piece[i];
  }
}

/* A warp a column: as reals, 16 bytes of them together where a column begins with such. */
template <typename Element> __device__ void copy(const tb_triangle_copy_args &args, unsigned char *) {
  using Real = typename Element::Real;
  using Piece = Several<Real, 16 / sizeof(Real)>;
  using One = Several<Real, 1>;
  constexpr int COLUMNS = TB_TRIANGLE_COPY_THREADS / 32, PARTS = Element::parts;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t column = blockIdx.x * static_cast<int64_t>(COLUMNS) + warp;
  if (column >= args.columns) return;
  const Real *const from = static_cast<const Real *>(args.from) + PARTS * column * args.from_ld;
  Real *const to = static_cast<Real *>(args.to) + PARTS * column * args.to_ld;
  const bool whole = is_whole<Piece>(from) && is_whole<Piece>(to);
  const int64_t pieces = whole ? PARTS * args.rows / Piece::N : 0, done = pieces * Piece::N;
  copy_pieces(reinterpret_cast<const Piece *>(from), reinterpret_cast<Piece *>(to), pieces, lane);
  copy_pieces(reinterpret_cast<const One *>(from + done), reinterpret_cast<One *>(to + done), PARTS * args.rows - done,
              lane);
}

/* Columns of B that are repaired together, so that an element of A' is loaded once for all; beyond the last one the
 * first of them once more. */
template <typename Element> struct Columns {
  static constexpr int N = TB_TRIANGLE_REPAIR_AT_ONCE;
  const tb_triangle_repair_args &args;
  int64_t first;
  bool whole;

  __device__ int64_t number(int c) const { return first + (first + c < args.columns ? c : 0); }
  __device__ Element b(int c, int64_t row) const {
    return fetch(static_cast<const Element *>(args.b) + number(c) * args.ldb + row, whole);
  }
  __device__ Element *product(int c, int64_t row) const {
    return static_cast<Element *>(args.product) + number(c) * args.product_ld + row;
  }
  __device__ bool is_unfit(int c) const {
    int some = 0;
    for (int part = 0; part < args.unfit_parts; part++) some |= args.unfit[number(c) + part * args.unfit_ld];
    return some != 0;
  }
  __device__ bool any_is_unfit() const {
    bool some = false;
    for (int c = 0; c < N; c++) some |= is_unfit(c);
    return some;
  }

  /* Whether Inf or NaN has met a zero in this row: of the other triangle, beside the diagonal, or the imaginary part of
   * a diagonal that is 1, by which nothing is to be multiplied. Then the product is NaN. */
  __device__ bool is_spoilt(int c, int64_t row) const {
    const int64_t edge = row / TB_FP64_TRIANGLE_EDGE * TB_FP64_TRIANGLE_EDGE, end = edge + TB_FP64_TRIANGLE_EDGE;
    if (!is_unfit(c) || !is_nan(*product(c, row))) return false;
    if (args.unit && !is_finite(b(c, row))) return true;
    for (int64_t k = args.lower ? row + 1 : edge; k < (args.lower ? end : row) && k < args.rows; k++)
      if (!is_finite(b(c, k))) return true;
    return false;
  }

  /* Elements of A' B in a row, their terms in the order of the columns of A'. */
  __device__ void multiply(int64_t row, Element (&sum)[N]) const {
    const Element *const a = static_cast<const Element *>(args.a) + (args.transposed ? row * args.lda : row);
    const int64_t end = args.lower ? row + 1 : args.rows, next = args.transposed ? 1 : args.lda;
#pragma unroll
    for (int c = 0; c < N; c++) sum[c] = Element::from(0);
    for (int64_t k = args.lower ? 0 : row; k < end; k++) {
      const bool is_one = k == row && args.unit;
      const Element of_a = is_one ? Element::from(1) : a[k * next];
#pragma unroll
      for (int c = 0; c < N; c++)
        if (is_one)
          plus(sum[c], b(c, k));
        else
          add(sum[c], of_a, b(c, k));
    }
  }

  __device__ void repair(int64_t row) const {
    unsigned spoilt = 0;
    for (int c = 0; c < N; c++) spoilt |= is_spoilt(c, row) ? 1u << c : 0;
    if (spoilt == 0) return;
    Element sum[N];
    multiply(row, sum);
#pragma unroll
    for (int c = 0; c < N; c++)
      if (spoilt >> c & 1) *product(c, row) = sum[c];
  }
};

template <typename Element> __device__ void repair(const tb_triangle_repair_args &args, unsigned char *) {
  constexpr int ACROSS = TB_TRIANGLE_REPAIR_COLUMNS, PARTS_AT_ONCE = TB_TRIANGLE_REPAIR_ROWS / ACROSS;
  const int64_t begin = blockIdx.x * static_cast<int64_t>(ACROSS), mine = begin + threadIdx.x % ACROSS;
  int some = 0;
  for (int part = static_cast<int>(threadIdx.x) / ACROSS; part < args.unfit_parts; part += PARTS_AT_ONCE)
    if (mine < args.columns) some |= args.unfit[mine + part * args.unfit_ld];
  if (!__syncthreads_or(some)) return;
  for (int64_t first = begin; first < args.columns && first < begin + ACROSS; first += TB_TRIANGLE_REPAIR_AT_ONCE) {
    const Columns<Element> columns = {args, first, is_whole<Element>(args.b)};
    if (!columns.any_is_unfit()) continue;
    for (int64_t row = blockIdx.y * static_cast<int64_t>(TB_TRIANGLE_REPAIR_ROWS) + threadIdx.x; row < args.rows;
         row += static_cast<int64_t>(gridDim.y) * TB_TRIANGLE_REPAIR_ROWS)
      columns.repair(row);
  }
}

template <typename Element, bool solves, bool lower>
__device__ void leaf(const tb_triangle_leaf_args &args, unsigned char *shared) {
  Leaf<Element, solves, lower> block;
  block.run(args, shared);
}

} // namespace triangle_solve

#define TB_TRIANGLE_SOLVE_KERNELS(name, threads, blocks, args, ...)                          \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const args arguments) { \
    TB_DYNAMIC_SHARED(unsigned char, shared);                                                \
    triangle_solve::__VA_ARGS__(arguments, shared);                                          \
  }
#define TB_TRIANGLE_SOLVE_KERNEL(name, threads, args, ...) \
  TB_TRIANGLE_SOLVE_KERNELS(name, threads, 1, args, __VA_ARGS__)
#define TB_TRIANGLE_TILE_BLOCK (TB_TRIANGLE_TILE * TB_TRIANGLE_TILE_THREADS)
#define TB_TRIANGLE_LEAF_BLOCK TB_TRIANGLE_LEAF_THREADS(TB_TRIANGLE_LEAF)

#define TB_TRIANGLE_SOLVE_TYPE(letter, ...)                                                               \
  TB_TRIANGLE_SOLVE_KERNEL(tb_triangle_form_##letter, TB_TRIANGLE_TILE_BLOCK, tb_triangle_form_args,      \
                           form<__VA_ARGS__>)                                                             \
  TB_TRIANGLE_SOLVE_KERNEL(tb_triangle_turn_##letter, TB_TRIANGLE_TILE_BLOCK, tb_triangle_turn_args,      \
                           turn<__VA_ARGS__>)                                                             \
  TB_TRIANGLE_SOLVE_KERNEL(tb_triangle_copy_##letter, TB_TRIANGLE_COPY_THREADS, tb_triangle_copy_args,    \
                           copy<__VA_ARGS__>)                                                             \
  TB_TRIANGLE_SOLVE_KERNEL(tb_triangle_repair_##letter, TB_TRIANGLE_REPAIR_ROWS, tb_triangle_repair_args, \
                           repair<__VA_ARGS__>)
TB_TRIANGLE_SOLVE_TYPE(s, triangle_leaf::Plain<float>)
TB_TRIANGLE_SOLVE_TYPE(d, triangle_leaf::Plain<double>)
TB_TRIANGLE_SOLVE_TYPE(c, triangle_leaf::Complex<float>)
TB_TRIANGLE_SOLVE_TYPE(z, triangle_leaf::Complex<double>)

/* Solved by the tensor cores of doubles, from either. */
#define TB_TRIANGLE_SOLVE64_TYPE(name, letter, ...)                                                        \
  TB_TRIANGLE_SOLVE_KERNEL(tb_##name##_upper_##letter, TB_TRIANGLE_SOLVE64_THREADS, tb_triangle_leaf_args, \
                           solve64<__VA_ARGS__, false>)                                                    \
  TB_TRIANGLE_SOLVE_KERNEL(tb_##name##_lower_##letter, TB_TRIANGLE_SOLVE64_THREADS, tb_triangle_leaf_args, \
                           solve64<__VA_ARGS__, true>)
TB_TRIANGLE_SOLVE64_TYPE(trsm, d, triangle_leaf::Plain<double>)
TB_TRIANGLE_SOLVE64_TYPE(trsm, z, triangle_leaf::Complex<double>)
TB_TRIANGLE_SOLVE64_TYPE(trsm64, s, triangle_leaf::Plain<float>)
TB_TRIANGLE_SOLVE64_TYPE(trsm64, c, triangle_leaf::Complex<float>)

/* Multiplied and solved by leaves, or multiplied as a whole by tensor cores for 16 bits, which leave corners. */
#define TB_TRIANGLE_SINGLE_TYPE(letter, ...)                                                                \
  TB_TRIANGLE_SOLVE_KERNEL(tb_trsm_upper_##letter, TB_TRIANGLE_LEAF_BLOCK, tb_triangle_leaf_args,           \
                           leaf<__VA_ARGS__, true, false>)                                                  \
  TB_TRIANGLE_SOLVE_KERNEL(tb_trsm_lower_##letter, TB_TRIANGLE_LEAF_BLOCK, tb_triangle_leaf_args,           \
                           leaf<__VA_ARGS__, true, true>)                                                   \
  TB_TRIANGLE_SOLVE_KERNEL(tb_trmm_upper_##letter, TB_TRIANGLE_LEAF_BLOCK, tb_triangle_leaf_args,           \
                           leaf<__VA_ARGS__, false, false>)                                                 \
  TB_TRIANGLE_SOLVE_KERNEL(tb_trmm_lower_##letter, TB_TRIANGLE_LEAF_BLOCK, tb_triangle_leaf_args,           \
                           leaf<__VA_ARGS__, false, true>)                                                  \
  TB_TRIANGLE_SOLVE_KERNELS(tb_triangle_corner_##letter, TB_TRIANGLE_CORNER_THREADS(__VA_ARGS__::parts), 2, \
                            tb_triangle_corner_args, corner<__VA_ARGS__>)
TB_TRIANGLE_SINGLE_TYPE(s, triangle_leaf::Plain<float>)
TB_TRIANGLE_SINGLE_TYPE(c, triangle_leaf::Complex<float>)

#define TB_TRMM_ELEMENT_d fp64::Real
#define TB_TRMM_ELEMENT_z fp64::Complex
#define TB_FP64_TRIANGLE(letter, name, ...) \
  TB_FP64_TRIANGLES(tb_##letter##trmm, name, TB_TRMM_ELEMENT_##letter, __VA_ARGS__)
#include "fp64/triangles.def"
#undef TB_FP64_TRIANGLE
