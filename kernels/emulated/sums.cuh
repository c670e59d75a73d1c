/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sum of a group of k, which a warpgroup of emulated.cu makes in registers: chunks from the ring, their products by
 * the tensor cores, low planes' first, and chunk after chunk added up. The last chunk of a group stays held, for its
 * scales. The order of all that is emulated_args.h's.
 */
#ifndef TB_EMULATED_SUMS_CUH
#define TB_EMULATED_SUMS_CUH

#include "emulated/ring.cuh"

#if defined(TB_TENSOR_CORES)

namespace emulated {
namespace {

/* A chunk's operands, of its two steps, planes side by side. */
struct Operands {
  WgmmaOperand rows[2], columns[2];
};
template <class Word, int PlaneA, int PlaneB>
__device__ __forceinline__ void multiply_planes(float (&d)[kWgmmaWords], const Operands &x, bool add) {
#pragma unroll
  for (int s = 0; s < 2; s++)
    multiply<Word>(d, behind(x.rows[s], PlaneA * 2 * kWgmmaCore), behind(x.columns[s], PlaneB * 2 * kWgmmaCore),
                   add || s > 0);
}
/* sum += factor times the chunk's, rounded once. */
__device__ __forceinline__ void add(float (&sum)[kWgmmaWords], const float (&chunk)[kWgmmaWords], float factor) {
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) sum[i] = __fmaf_rn(chunk[i], factor, sum[i]);
}
/* to = from + the chunk's, which becomes what that has rounded away (Fast2Sum): all of it where the chunk's was the
 * smaller one, else up to a rounding of its own. `from` is used up. A few elements go behind the others, upward or
 * downward, so that those of `to` get the registers of former ones of `from`. */
template <bool Upward>
__device__ __forceinline__ void add_and_carry(float (&to)[kWgmmaWords], float (&from)[kWgmmaWords],
                                              float (&chunk)[kWgmmaWords]) {
  constexpr int few = 8;
#pragma unroll
  for (int n = 0; n < kWgmmaWords; n += few) {
    const int first = Upward ? n : kWgmmaWords - few - n;
#pragma unroll
    for (int i = first; i < first + few; i++) to[i] = from[i] + chunk[i];
#pragma unroll
    for (int i = first; i < first + few; i++) from[i] -= to[i];
#pragma unroll
    for (int i = first; i < first + few; i++) chunk[i] += from[i];
  }
}
/* What the tensor cores cut off makes a chunk's sum too small by some 1.4 of 2^-24 of itself (PRECISION.md). Five of
 * eight chunks are made larger by 2^-23, unless words are the sums of their planes: there the sum may be exact. */
__device__ __forceinline__ float correction(int number, int steps_left) {
  return number & kLossy && steps_left / 2 % 8 < 5 ? 1 + 0x1p-23f : 1;
}

/* What a warpgroup is supplied with, chunk by chunk: its rows, and all columns. */
template <class Word> class Chunks {
  using R = Ring<Word>;
  static constexpr int count = 2 / R::steps; /* stages of a chunk */
  const R &ring;
  const WgmmaOperand first_rows, first_columns;
  const int warpgroup, lane;
  Cursor<R::stages> stage, held[count];
  unsigned turn;

public:
  __device__ __forceinline__ Chunks(const R &of, int warpgroup_, int lane_)
      : ring(of), first_rows(operand<R::rows_bytes>(of.first + warpgroup_ * (kWgmmaM / 8) * R::rows_bytes)),
        first_columns(operand<R::rows_bytes>(of.first + R::a_bytes)), warpgroup(warpgroup_), lane(lane_),
        turn(warpgroup_ == 0) /* the first one begins */ {}

  /* The next one, which is held until it is released. */
  __device__ __forceinline__ Operands next() {
    Operands x;
#pragma unroll
    for (int s = 0; s < 2; s++) {
      if (s % R::steps == 0) {
        barrier_wait(&ring.full[stage.at], stage.parity);
        held[s / R::steps] = stage;
      }
      const int offset = stage.at * R::stage_bytes + s % R::steps * R::step_bytes;
      x.rows[s] = behind(first_rows, offset), x.columns[s] = behind(first_columns, offset);
      if (s % R::steps == R::steps - 1) stage.next();
    }
    return x;
  }
  __device__ __forceinline__ void release() const { ring.release(held, lane); }
  /* What came with the one that is held, a group's last. */
  __device__ __forceinline__ const float *scales(bool of_columns) const {
    return ring.scales_at(ring.stage_at(held[count - 1]), of_columns);
  }

  /* Before a chunk's products are asked for, and after: then all threads of the warp, which met when they asked, have
   * seen that it was their turn. */
  __device__ __forceinline__ void await_turn() {
    barrier_wait(&ring.turn[warpgroup], turn);
    turn ^= 1;
  }
  __device__ __forceinline__ void pass_turn() const {
    if (lane == 0) barrier_arrive(&ring.turn[1 - warpgroup]);
  }
};

/* A group's sum: its chunks' sums by the tensor cores, low planes' products first. The last chunk stays held. */
__device__ __forceinline__ void sum_up(Half, float (&sum)[kWgmmaWords], Chunks<Half> &chunks, int number, int steps) {
  float chunk[kWgmmaWords];
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) sum[i] = 0;
  for (int left = steps; left > 0; left -= 2) {
    const Operands x = chunks.next();
    chunks.await_turn();
    begin_products();
    multiply_planes<Half, 1, 0>(chunk, x, false);
    multiply_planes<Half, 0, 1>(chunk, x, true);
    multiply_planes<Half, 0, 0>(chunk, x, true);
    end_products();
    chunks.pass_turn();
    wait_for_products(chunk);
    if (left > 2) chunks.release();
    add(sum, chunk, correction(number, left));
  }
}

__device__ __forceinline__ void multiply_low_planes(float (&chunk)[kWgmmaWords], const Operands &x) {
  multiply_planes<Bfloat, 2, 0>(chunk, x, true);
  multiply_planes<Bfloat, 0, 2>(chunk, x, true);
  multiply_planes<Bfloat, 1, 1>(chunk, x, true);
  multiply_planes<Bfloat, 1, 0>(chunk, x, true);
  multiply_planes<Bfloat, 0, 1>(chunk, x, true);
}
/* bf16: a chunk begins with what rounding took from the sum before. Where few words of a side are large, one product
 * may be far larger than all others: then the high planes' sum alone is exact, and only that of the low ones, which is
 * far smaller, is cut off; that goes to the group's sum at once. */
template <bool FewLarge>
__device__ __forceinline__ void multiply_chunk(float (&sum)[kWgmmaWords], float (&chunk)[kWgmmaWords],
                                               Chunks<Bfloat> &chunks, bool last) {
  const Operands x = chunks.next();
  chunks.await_turn();
  begin_products();
  multiply_low_planes(chunk, x);
  if (FewLarge) {
    end_products();
    wait_for_products(chunk);
    add(sum, chunk, 1);
    begin_products();
  }
  multiply_planes<Bfloat, 0, 0>(chunk, x, !FewLarge);
  end_products();
  chunks.pass_turn();
  wait_for_products(chunk);
  if (!last) chunks.release();
}
template <bool FewLarge>
__device__ __forceinline__ void sum_up_chunks(float (&sum)[kWgmmaWords], Chunks<Bfloat> &chunks, int steps) {
  float chunk[kWgmmaWords], other[kWgmmaWords];
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) sum[i] = chunk[i] = 0;
  for (int left = steps; left > 0; left -= 4) {
    multiply_chunk<FewLarge>(sum, chunk, chunks, left == 2);
    add_and_carry<true>(other, sum, chunk);
    if (left > 2) multiply_chunk<FewLarge>(other, chunk, chunks, left == 4);
    add_and_carry<false>(sum, other, chunk);
  }
}
__device__ __forceinline__ void sum_up(Bfloat, float (&sum)[kWgmmaWords], Chunks<Bfloat> &chunks, int number,
                                       int steps) {
  if (number & kFewLarge)
    sum_up_chunks<true>(sum, chunks, steps);
  else
    sum_up_chunks<false>(sum, chunks, steps);
}

} // namespace
} // namespace emulated

#endif

#endif
