/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving four neighbours of a row at a time: what steps 06 to 08 fill their tiles with.
 *
 * A 16-byte access is one instruction where four 4-byte ones were. It needs a 16-byte aligned address, which the fours
 * of a row have when the matrix starts at one and its rows are multiples of four long. Any other matrix, and a four
 * that hangs over an edge, is moved element by element under the boundary conditions of step 03.
 */
#ifndef TB_TEACHING_FOURS_CUH
#define TB_TEACHING_FOURS_CUH

#include "count.cuh"

namespace teaching {

/* Whether every four of a row-major matrix (from a column that is a multiple of four) is aligned and complete. */
__device__ inline bool has_whole_fours(const float *matrix, int cols) {
  return cols % 4 == 0 && reinterpret_cast<uintptr_t>(matrix) % sizeof(float4) == 0;
}

/* matrix[row][col .. col + 3], with zeros for what lies outside of rows x cols. col is a multiple of four. */
__device__ inline float4 load_four(const float *matrix, int64_t row, int64_t col, int rows, int cols, bool whole) {
  float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
  if (row >= rows || col >= cols) return four;
  const float *from = &matrix[row * cols + col];
  if (whole) return load_global_four(from);
  four.x = load_global(from);
  if (col + 1 < cols) four.y = load_global(from + 1);
  if (col + 2 < cols) four.z = load_global(from + 2);
  if (col + 3 < cols) four.w = load_global(from + 3);
  return four;
}

/* matrix[row][col .. col + 3] = four, as far as it lies inside of rows x cols. col is a multiple of four. */
__device__ inline void store_four(float *matrix, int64_t row, int64_t col, int rows, int cols, bool whole,
                                  float4 four) {
  if (row >= rows || col >= cols) return;
  float *to = &matrix[row * cols + col];
  if (whole) return store_global_four(to, four);
  store_global(to, four.x);
  if (col + 1 < cols) store_global(to + 1, four.y);
  if (col + 2 < cols) store_global(to + 2, four.z);
  if (col + 3 < cols) store_global(to + 3, four.w);
}

/*
 * The tile of A lies transposed in shared memory, A_tile[p][row]: what the multiplying loop reads in one go, a piece of
 * a column of A, is then a piece of a row. PITCH is the length of such a row with its padding; each step says why.
 */
template <int TK, int PITCH>
__device__ void put_four_transposed(float (&A_tile)[TK][PITCH], int row, int p, float4 four) {
  A_tile[p][row] = four.x;
  A_tile[p + 1][row] = four.y;
  A_tile[p + 2][row] = four.z;
  A_tile[p + 3][row] = four.w;
}

template <int TK, int PITCH> __device__ void put_four(float (&B_tile)[TK][PITCH], int p, int col, float4 four) {
  *reinterpret_cast<float4 *>(&B_tile[p][col]) = four;
}

/* Fills A_tile with A[row0 .. row0 + TM - 1][p0 .. p0 + TK - 1]: the fours are dealt out to the block's threads. */
template <int TM, int THREADS, int TK, int PITCH>
__device__ void fill_A_tile(float (&A_tile)[TK][PITCH], const float *A, int64_t row0, int64_t p0, int m, int k,
                            int id) {
  const bool whole = has_whole_fours(A, k);
  for (int i = id; i < TM * TK / 4; i += THREADS) {
    const int row = i / (TK / 4), p = i % (TK / 4) * 4;
    put_four_transposed(A_tile, row, p, load_four(A, row0 + row, p0 + p, m, k, whole));
  }
}

/* Fills B_tile with B[p0 .. p0 + TK - 1][col0 .. col0 + TN - 1]. */
template <int TN, int THREADS, int TK, int PITCH>
__device__ void fill_B_tile(float (&B_tile)[TK][PITCH], const float *B, int64_t p0, int64_t col0, int k, int n,
                            int id) {
  const bool whole = has_whole_fours(B, n);
  for (int i = id; i < TK * TN / 4; i += THREADS) {
    const int p = i / (TN / 4), col = i % (TN / 4) * 4;
    put_four(B_tile, p, col, load_four(B, p0 + p, col0 + col, k, n, whole));
  }
}

} // namespace teaching

#endif
