/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Panels of an operand for the fp64 kernels: global memory -> a stage in shared memory -> fragments.
 *
 * A panel element is (side, k), with side = row of op(A) or column of op(B). Memory runs along the side (MN-major) or
 * along k (K-major), and so does a stage, in units of 16 bytes: Real::elems neighbours. A step is 16 k.
 *
 *   MN-major   a row for each k, Side / 2 units long          unit u of row k is at    u ^ 2 (k % 4)
 *   K-major    a row for each side, 8 units = 128 bytes long  unit u of row s is at    u ^ 2 (s / 2 % 4)
 *
 * Nothing is padded, and no read meets a bank twice. A copy of 16 bytes is one of a unit; where an operand is not
 * aligned to that, the unit comes as two copies of 8.
 *
 * A lane's fragment of 16 sides, from a multiple of 16 on, and of 8 k, with lane = 4 g + t: sides 2 g + e and
 * k = t + 4 h, e and h from 0 to 1. Where memory runs along the side that is two reads of a unit each; eight lanes go
 * at a time, two values of g and four of t. Where it runs along k it is four reads of 8 bytes; 16 lanes go at a time,
 * four values of g. (Two k of a side in one read would have to change registers with two of another side before they
 * are multiplied, which cost a tenth of the time.)
 */
#ifndef TB_FP64_PANEL_CUH
#define TB_FP64_PANEL_CUH

#include "common/ptx.cuh"
#include "fp64/fp64_args.h"

namespace fp64 {
namespace {

constexpr int kUnitBytes = 16, kRowUnits = TB_FP64_SIDE_BYTES / kUnitBytes;

struct Real {
  static constexpr int bytes = 8, elems = kUnitBytes / bytes; /* of a unit */
  static constexpr int step_k = TB_FP64_SIDE_BYTES / bytes;
  static constexpr int blocks = step_k / 8; /* of 8 k, what one instruction multiplies */
};

/* What a 16-byte unit is exchanged by, in a row. */
template <class E, bool AlongK> __device__ __forceinline__ int swizzle(int row) {
  return (AlongK ? row / 2 : row) % 4 * 2;
}

/* A stage's part of one operand. */
template <class E, int Side, bool AlongK> struct Stage {
  static constexpr int row_units = AlongK ? kRowUnits : Side / E::elems;
  static constexpr int units = Side * kRowUnits;
};

/* ---- global memory -> stage ---- */

/*
 * What a thread copies of an operand's steps: a unit of each so many rows. Which of them exist is a bit for each, of
 * the units' first and second halves. Whole units are copied where all are whole, and aligned.
 */
template <class E, int Side, int Threads, bool AlongK, bool Whole, bool Stepwise> class Loader {
  using S = Stage<E, Side, AlongK>;
  static constexpr int rows = Threads / S::row_units; /* that the threads copy at a time */
  static constexpr int copies = S::units / Threads;
  static_assert(Threads % S::row_units == 0 && S::units % Threads == 0, "all threads copy the same");
  static_assert((rows & (rows - 1)) == 0, "a power of two");
  static_assert(copies <= 16, "a bit for each");

  const char *from;  /* this thread's next unit */
  int64_t row_bytes; /* of memory, from a copy to the thread's next of the step */
  int at;            /* unit of a stage that its first copy goes to */
  int ahead;         /* of the step's k, those ahead of its first copy's first */
  unsigned there;    /* bits of copies whose sides exist; those of second halves are 16 bits higher */

public:
  /* `first` is the block's first side, of `sides` in all; the first step starts at k_first. */
  __device__ __forceinline__ void begin(const double *operand, int64_t ld, int64_t first, int64_t sides,
                                        int64_t k_first, int thread) {
    const char *const first_byte = reinterpret_cast<const char *>(operand);
    const int64_t ld_bytes = ld * E::bytes;
    const int row = thread / S::row_units, unit = thread % S::row_units;
    at = row * S::row_units + (unit ^ swizzle<E, AlongK>(row));
    ahead = AlongK ? unit * E::elems : row;
    row_bytes = rows * ld_bytes;
    from = AlongK ? first_byte + (first + row) * ld_bytes + k_first * E::bytes + unit * kUnitBytes
                  : first_byte + first * E::bytes + (k_first + row) * ld_bytes + unit * kUnitBytes;
    there = 0;
#pragma unroll
    for (int c = 0; c < copies; c++) {
      const int64_t side = first + (AlongK ? row + c * rows : unit * E::elems);
      if (side < sides) there |= 1u << c;
      if (side + (AlongK ? 0 : E::elems - 1) < sides) there |= 0x10000u << c;
    }
  }

  static constexpr int count = copies;

  /* Copies number `from` to `end` of the next step to a stage, of which k_left products exist; the others become zeros,
   * and so do missing sides. Copy `count` - 1 is the step's last. */
  __device__ __forceinline__ void load(double2 *stage, int k_left, int begin, int end) {
    const unsigned bits = bits_of(k_left);
#pragma unroll
    for (int c = begin; c < end; c++) {
      /* Of the first row's number and of c * rows none has a bit of the other's. */
      double2 *const unit = stage + (at ^ swizzle<E, AlongK>(c * rows)) + c * rows * S::row_units;
      if (Whole) {
        async_copy_if<16>(unit, from, bits, 1u << c);
      } else {
        async_copy_if<8>(&unit->x, from, bits, 1u << c);
        async_copy_if<8>(&unit->y, from + 8, bits, 0x10000u << c);
      }
      from += row_bytes;
      if (Stepwise) from = opaque(from);
      if (c == copies - 1 && AlongK) from += TB_FP64_SIDE_BYTES - copies * row_bytes;
    }
  }

private:
  __device__ __forceinline__ unsigned bits_of(int k_left) const {
    const int left = k_left - ahead;
    if (AlongK) return left <= 0 ? 0 : !Whole && left < E::elems ? there & 0xffff : there;
    const unsigned mask = (1u << min((max(left, 0) + rows - 1) / rows, copies)) - 1;
    return there & (mask | mask << 16);
  }
};

/* ---- stage -> fragments ---- */

template <class E> struct Fragment;
template <> struct Fragment<Real> { double of[2][2]; }; /* [e][h] */

template <class E, int Side, bool AlongK> class Reader;

template <int Side, bool AlongK> class Reader<Real, Side, AlongK> {
  using S = Stage<Real, Side, AlongK>;
  int at; /* this lane's first element */

public:
  /* Of sides from `first` on, a multiple of 16. */
  __device__ __forceinline__ Reader(int first, int lane) {
    const int g = lane / 4, t = lane % 4;
    at = AlongK ? ((first + 2 * g) * S::row_units + swizzle<Real, true>(2 * g)) * Real::elems + t
                : (t * S::row_units + first / 2 + (g ^ swizzle<Real, false>(t))) * Real::elems;
  }
  /* The fragment of 16 sides, 16 * region behind the first. */
  __device__ __forceinline__ void read(Fragment<Real> &f, const double2 *stage, int region, int block) const {
    constexpr int row = S::row_units * Real::elems;
    const double *const elems = reinterpret_cast<const double *>(stage) + region * 16 * (AlongK ? row : 1);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (AlongK) { /* four k are two units, whose place in the row is exchanged as a whole */
        const double *const from = elems + (opaque(at) ^ 4 * (2 * block + h));
        f.of[0][h] = from[0], f.of[1][h] = from[row];
      } else {
        const double2 v = *reinterpret_cast<const double2 *>(elems + at + (8 * block + 4 * h) * row);
        f.of[0][h] = v.x, f.of[1][h] = v.y;
      }
    }
  }
};

} // namespace
} // namespace fp64

#endif
