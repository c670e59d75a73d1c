/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Panels of an operand for the fp64 kernels: global memory -> a stage in shared memory -> fragments.
 *
 * A panel element is (side, k), with side = row of op(A) or column of op(B). Memory runs along the side (MN-major) or
 * along k (K-major), and so does a stage, in units of 16 bytes: two reals, or a complex number. A step is 128 bytes of
 * k: 16 reals, 8 complex numbers.
 *
 *                                                              unit u of row r is at    reals            complex
 *   MN-major   a row for each k, Side / E::elems units long                             u ^ 2 (r % 4)    the same
 *   K-major    a row for each side, 8 units = 128 bytes long                            u ^ 2 (r / 2 % 4)    u ^ 4 (r %
 * 2)
 *
 * Nothing is padded, and no read meets a bank twice. A copy of 16 bytes is one of a unit. Where an operand is not
 * aligned to that, it comes by copies of 8, and neighbouring threads copy neighbouring bytes there, too.
 *
 * A lane's fragment is of 16 sides, from a multiple of 16 on, and a block of k; with lane = 4 g + t
 *
 *   reals     of[e][h]      side 2 g + e, k = t + 4 h, of 8 k
 *   complex   of[e][part]   side g + 8 e, k = t, of 4 k; part 0 is real, 1 imaginary
 *
 * Where memory runs along the side the fragment of reals is two reads of a unit each; eight lanes go at a time, two
 * values of g and four of t. Where it runs along k it is four reads of 8 bytes; 16 lanes go at a time, four values of
 * g. (Two k of a side in one read would have to change registers with two of another side before they are multiplied,
 * which cost a tenth of the time.) A complex fragment is two reads of a unit.
 */
#ifndef TB_FP64_PANEL_CUH
#define TB_FP64_PANEL_CUH

#include "common/ptx.cuh"
#include "fp64/fp64_args.h"

namespace fp64 {
namespace {

constexpr int kUnitBytes = 16, kRowUnits = TB_FP64_SIDE_BYTES / kUnitBytes;
constexpr int kThreadBits = 10; /* of a thread's number: a block has 1024 at most */

struct Real {
  static constexpr int bytes = 8, doubles = 1, parts = 1;
  static constexpr int elems = kUnitBytes / bytes; /* of a unit */
  static constexpr int step_k = TB_FP64_SIDE_BYTES / bytes;
  static constexpr int blocks = step_k / 8; /* of k, what a fragment has */
};

struct Complex {
  static constexpr int bytes = 16, doubles = 2, parts = 2;
  static constexpr int elems = kUnitBytes / bytes;
  static constexpr int step_k = TB_FP64_SIDE_BYTES / bytes;
  static constexpr int blocks = step_k / 4;
};

/* What a 16-byte unit is exchanged by, in a row. */
template <class E, bool AlongK> __device__ __forceinline__ int swizzle(int row) {
  if (!AlongK) return row % 4 * 2;
  return E::parts == 1 ? row / 2 % 4 * 2 : row % 2 * 4;
}

/* A stage's part of one operand. */
template <class E, int Side, bool AlongK> struct Stage {
  static constexpr int row_units = AlongK ? kRowUnits : Side / E::elems;
  static constexpr int units = Side * kRowUnits;
};

/* ---- global memory -> stage ---- */

/*
 * What a thread copies of an operand's steps: a piece of each so many rows, a unit or half of one. Which of them exist
 * is a bit for each. Whole units are copied where all are whole, and aligned.
 */
template <class E, int Side, int Threads, bool AlongK, bool Whole> class Loader {
  using S = Stage<E, Side, AlongK>;
  static constexpr int piece_doubles = Whole ? 2 : 1, piece_bytes = 8 * piece_doubles;
  static constexpr int row_pieces = S::row_units * 2 / piece_doubles;
  static constexpr int rows = Threads / row_pieces; /* that the threads copy at a time */
  static constexpr int copies = S::units * 2 / piece_doubles / Threads;
  static_assert(Threads % row_pieces == 0 && copies * Threads * piece_doubles == S::units * 2, "all copy the same");
  static_assert((rows & (rows - 1)) == 0, "a power of two");
  static_assert(copies < 32, "a bit for each");

  const char *from;  /* this thread's next piece */
  int64_t row_bytes; /* of memory, from a copy to the thread's next of the step */
  int at;            /* double of a stage that its first copy goes to */
  int ahead;         /* of the step's k, those ahead of its first copy's first */
  unsigned there;    /* bits of copies whose sides exist */

public:
  /* `first` is the block's first side, of `sides` in all; the first step starts at k_first. */
  __device__ __forceinline__ void begin(const double *operand, int64_t ld, int64_t first, int64_t sides,
                                        int64_t k_first, int thread) {
    const char *const first_byte = reinterpret_cast<const char *>(operand);
    const int64_t ld_bytes = ld * E::bytes;
    const int row = thread / row_pieces, piece = thread % row_pieces, number = piece * piece_doubles;
    const int elem = number / E::doubles; /* of the row, that the piece is or begins */
    at = 2 * row * S::row_units + (number ^ 2 * swizzle<E, AlongK>(row));
    ahead = AlongK ? elem : row;
    /* No thread adds anything. But what ptxas sees to be the same for all it keeps in uniform registers, moves it from
     * there ahead of each copy, and reads fragments later. */
    row_bytes = rows * ld_bytes + (static_cast<unsigned>(thread) >> kThreadBits);
    from = AlongK ? first_byte + (first + row) * ld_bytes + k_first * E::bytes + piece * piece_bytes
                  : first_byte + first * E::bytes + (k_first + row) * ld_bytes + piece * piece_bytes;
    there = 0;
#pragma unroll
    for (int c = 0; c < copies; c++)
      if (first + (AlongK ? row + c * rows : elem) < sides) there |= 1u << c;
  }

  static constexpr int count = copies;

  /* Copies number `from` to `end` of the next step to a stage, of which k_left products exist; the others become zeros,
   * and so do missing sides. Copy `count` - 1 is the step's last. */
  __device__ __forceinline__ void load(double2 *stage, int k_left, int begin, int end) {
    const unsigned bits = bits_of(k_left);
    double *const doubles = reinterpret_cast<double *>(stage);
#pragma unroll
    for (int c = begin; c < end; c++) {
      /* Of the first row's number and of c * rows none has a bit of the other's. */
      double *const to = doubles + (at ^ 2 * swizzle<E, AlongK>(c * rows)) + 2 * c * rows * S::row_units;
      async_copy_if<piece_bytes>(to, from, bits, 1u << c);
      from += row_bytes;
      if (c == copies - 1 && AlongK) from += TB_FP64_SIDE_BYTES - copies * row_bytes;
    }
  }

private:
  __device__ __forceinline__ unsigned bits_of(int k_left) const {
    const int left = k_left - ahead;
    if (AlongK) return left <= 0 ? 0 : there;
    return there & ((1u << min((max(left, 0) + rows - 1) / rows, copies)) - 1);
  }
};

/* ---- stage -> fragments ---- */

struct Fragment {
  double of[2][2];
};

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
  __device__ __forceinline__ void read(Fragment &f, const double2 *stage, int region, int block) const {
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

template <int Side, bool AlongK> class Reader<Complex, Side, AlongK> {
  using S = Stage<Complex, Side, AlongK>;
  int at; /* this lane's first unit */

public:
  /* Of sides from `first` on, a multiple of 16. */
  __device__ __forceinline__ Reader(int first, int lane) {
    const int g = lane / 4, t = lane % 4;
    at = AlongK ? (first + g) * S::row_units + (t ^ swizzle<Complex, true>(g))
                : t * S::row_units + first + (g ^ swizzle<Complex, false>(t));
  }
  /* The fragment of 16 sides, 16 * region behind the first. */
  __device__ __forceinline__ void read(Fragment &f, const double2 *stage, int region, int block) const {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int side = 16 * region + 8 * e;
      const double2 v =
          AlongK ? stage[(opaque(at) ^ 4 * block) + side * S::row_units] : stage[at + side + 4 * block * S::row_units];
      f.of[e][0] = v.x, f.of[e][1] = v.y;
    }
  }
};

} // namespace
} // namespace fp64

#endif
