/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tensor cores of compute capability 9.0 (PTX ISA, wgmma.mma_async), each instruction behind one small function. A
 * warpgroup is four neighbouring warps, 128 threads, all of which call these together.
 *
 *   D[64][192] [+]= A[64][16] B[192][16]^T        D in fp32, A and B in fp16 or bf16
 *
 *   operand<Apart>(p)          A or B in shared memory: words of eight rows by eight k lie together, 128 bytes, k after
 * k of a row; those of the other eight k follow, and those of the next eight rows are Apart bytes behind
 *   begin_products()           before the first product of a few: what other instructions did to D and to shared memory
 *                              is done
 *   multiply<Word>(d, a, b, add)   starts one; without `add` the former D does not count
 *   end_products()             after the last; wait_for_products(d) then waits until D is there. At each of these a
 *                              warp's threads meet
 *
 * D of a thread: of warp w and lane l of the warpgroup, d[4 j + e] is row 16 w + l / 4 + e / 2 * 8 and column
 * 8 j + l % 4 * 2 + e % 2.
 *
 * The sums are those of aligned products, cut off toward zero, not rounded (PRECISION.md).
 *
 *   registers_take<N>(), registers_leave<N>()   a warpgroup's registers for each thread become N, more or fewer than
 * they were; a block has 65536, and those that take wait for those that leave
 */
#ifndef TB_WGMMA_CUH
#define TB_WGMMA_CUH

#include "common/ptx.cuh"

constexpr int kWgmmaM = 64, kWgmmaN = 192, kWgmmaK = 16, kWgmmaThreads = 128;
/* Of D, in each thread. */
constexpr int kWgmmaWords = kWgmmaM * kWgmmaN / kWgmmaThreads;
/* Bytes of eight rows by eight k. */
constexpr int kWgmmaCore = 128;

/* The words' kinds. */
struct Half {
  static constexpr int planes = 2;
};
struct Bfloat {
  static constexpr int planes = 3;
};

#if defined(TB_ON_CPU)

#define TB_TENSOR_CORES
__device__ __forceinline__ uint16_t to_bits(Half, float x) { return tb_cpu_half_of(x); }
TB_CPU_WITHIN float from_bits(Half, uint16_t bits) { return tb_cpu_float_of_half(bits); }
__device__ __forceinline__ uint16_t to_bits(Bfloat, float x) { return tb_cpu_bfloat_of(x); }
TB_CPU_WITHIN float from_bits(Bfloat, uint16_t bits) { return tb_cpu_float_of_bfloat(bits); }
template <class Word> __device__ __forceinline__ uint32_t to_pair(Word, float low, float high) {
  return to_bits(Word(), low) | static_cast<uint32_t>(to_bits(Word(), high)) << 16;
}

struct WgmmaOperand {
  const unsigned char *at;
  int apart;
};
template <int Apart> __device__ __forceinline__ WgmmaOperand operand(const void *p) {
  return {static_cast<const unsigned char *>(p), Apart};
}
__device__ __forceinline__ WgmmaOperand behind(const WgmmaOperand &x, int bytes) { return {x.at + bytes, x.apart}; }
/* `.sync`: threads of a warp wait for each other here. */
__device__ __forceinline__ void begin_products() { __syncwarp(); }
__device__ __forceinline__ void end_products() { __syncwarp(); }
/* The warp's threads multiply one after another here, but none may go on while others still read the operands. */
__device__ __forceinline__ void wait_for_products(float (&)[kWgmmaWords]) {
  tb_cpu_products_done();
  __syncwarp();
}
template <int N> __device__ __forceinline__ void registers_take() {}
template <int N> __device__ __forceinline__ void registers_leave() {}

/* What a thread multiplies: the words of its rows, and of its columns. */
struct WgmmaWordsOnCpu {
  uint16_t rows[2][kWgmmaK], columns[kWgmmaN / 4][kWgmmaK];
};

/* Of a double: where its exponent stands, and that of 1 and of infinity. */
constexpr uint64_t kDoublePlace = 52, kDoubleOne = 1023, kDoubleInfinity = 2047;

/* Local arithmetic without a sanitizer's checks, and with innermost loops over the columns, so that it is vectorised:
 * by builtins, for a function with a sanitizer's checks would be called for each element. */
template <class Word> TB_REGISTERS_ONLY void multiply_words(float *d, const WgmmaWordsOnCpu &x, bool add) {
  constexpr int columns = kWgmmaN / 4;
  float values[kWgmmaK][columns];
  for (int column = 0; column < columns; column++)
    for (int k = 0; k < kWgmmaK; k++) values[k][column] = from_bits(Word(), x.columns[column][k]);
  for (int e = 0; e < 2; e++) {
    double product[kWgmmaK + 1][columns], largest[columns], per_quantum[columns], quantum[columns];
    for (int column = 0; column < columns; column++) {
      product[kWgmmaK][column] = add ? static_cast<double>(d[column / 2 * 4 + e * 2 + column % 2]) : 0;
      largest[column] = __builtin_fabs(product[kWgmmaK][column]);
    }
    for (int k = 0; k < kWgmmaK; k++) {
      const double word = static_cast<double>(from_bits(Word(), x.rows[e][k]));
      for (int column = 0; column < columns; column++) {
        product[k][column] = word * static_cast<double>(values[k][column]);
        const double size = __builtin_fabs(product[k][column]);
        largest[column] = size > largest[column] ? size : largest[column];
      }
    }
    /* What is added is lined up with the largest of it, and cut off 2 bits behind that one's place in fp32. Products of
     * these words have no denormal: the exponent is that of the bits, without a call for each. */
    for (int column = 0; column < columns; column++) {
      const uint64_t exponent =
          largest[column] > 0 ? __builtin_bit_cast(uint64_t, largest[column]) >> kDoublePlace : kDoubleOne;
      per_quantum[column] = __builtin_bit_cast(double, (2 * kDoubleOne + 25 - exponent) << kDoublePlace);
      quantum[column] =
          exponent == kDoubleInfinity ? HUGE_VAL : __builtin_bit_cast(double, (exponent - 25) << kDoublePlace);
    }
    double sum[columns] = {};
    for (int k = 0; k <= kWgmmaK; k++)
      for (int column = 0; column < columns; column++)
        sum[column] +=
            quantum[column] * static_cast<double>(static_cast<int>(product[k][column] * per_quantum[column]));
    for (int column = 0; column < columns; column++)
      d[column / 2 * 4 + e * 2 + column % 2] = tb_cpu_toward_zero(sum[column]);
  }
}

/* Columns' words, and as floats: eight lanes of each warp have the same, one after another. */
struct WgmmaColumnsOnCpu {
  uint16_t words[kWgmmaN / 4][kWgmmaK];
  float values[kWgmmaK][kWgmmaN / 4];
};

template <class Word> TB_REGISTERS_ONLY void read_columns(WgmmaColumnsOnCpu &of, const WgmmaWordsOnCpu &x) {
  if (std::memcmp(of.words, x.columns, sizeof of.words) == 0) return;
  std::memcpy(of.words, x.columns, sizeof of.words);
  for (int column = 0; column < kWgmmaN / 4; column++)
    for (int k = 0; k < kWgmmaK; k++) of.values[k][column] = from_bits(Word(), of.words[column][k]);
}

/*
 * The same in floats, eight at a time. Products of words have 22 bits at most: they are exact, unless they are beyond a
 * float's exponents. What is left of each before the cut is a whole number below 2^26, and seventeen of these add up in
 * an int. The largest has an exponent for which a factor of 2 to the cut's is a float; what is then too small for one
 * is behind the cut. False: it has another, and nothing is done.
 */
template <class Word>
TB_REGISTERS_ONLY bool multiply_in_floats(float *d, const WgmmaWordsOnCpu &x, const WgmmaColumnsOnCpu &of, bool add) {
  constexpr int columns = kWgmmaN / 4, places = 25; /* that are kept behind the leading one */
  constexpr uint32_t place = 23, one = 127, least = one - 90, infinity = 255;
  float result[2][columns];
  for (int e = 0; e < 2; e++) {
    float former[columns], largest[columns], per_quantum[columns], words[kWgmmaK];
    double quantum[columns];
    int sum[columns], odd = 0;
    for (int k = 0; k < kWgmmaK; k++) words[k] = from_bits(Word(), x.rows[e][k]);
    for (int column = 0; column < columns; column++) {
      former[column] = add ? d[column / 2 * 4 + e * 2 + column % 2] : 0;
      largest[column] = __builtin_fabsf(former[column]);
    }
    for (int k = 0; k < kWgmmaK; k++)
      for (int column = 0; column < columns; column++) {
        const float size = __builtin_fabsf(words[k] * of.values[k][column]);
        largest[column] = size > largest[column] ? size : largest[column];
      }
    for (int column = 0; column < columns; column++) {
      const uint32_t exponent = largest[column] > 0 ? __builtin_bit_cast(uint32_t, largest[column]) >> place : one;
      odd |= exponent < least || exponent == infinity;
      per_quantum[column] = __builtin_bit_cast(float, (2 * one + places - exponent) << place);
      quantum[column] =
          __builtin_bit_cast(double, static_cast<uint64_t>(exponent - one + kDoubleOne - places) << kDoublePlace);
      sum[column] = static_cast<int>(former[column] * per_quantum[column]);
    }
    if (odd) return false;
    for (int k = 0; k < kWgmmaK; k++)
      for (int column = 0; column < columns; column++)
        sum[column] += static_cast<int>(words[k] * of.values[k][column] * per_quantum[column]);
    for (int column = 0; column < columns; column++)
      result[e][column] = tb_cpu_toward_zero(quantum[column] * sum[column]);
  }
  for (int e = 0; e < 2; e++)
    for (int column = 0; column < columns; column++) d[column / 2 * 4 + e * 2 + column % 2] = result[e][column];
  return true;
}

template <class Word>
__device__ inline void multiply(float (&d)[kWgmmaWords], WgmmaOperand a, WgmmaOperand b, bool add) {
  const int thread = static_cast<int>(threadIdx.x) % kWgmmaThreads, lane = thread % 32;
  const auto read = [](uint16_t *words, WgmmaOperand x, int row) {
    for (int k = 0; k < kWgmmaK; k += 8) {
      const unsigned char *const from = x.at + row / 8 * x.apart + k / 8 * kWgmmaCore + row % 8 * 16;
      std::memcpy(words + k, from, 16);
      tb_cpu_products_read(from);
    }
  };
  WgmmaWordsOnCpu words;
  for (int e = 0; e < 2; e++) read(words.rows[e], a, thread / 32 * 16 + lane / 4 + e * 8);
  for (int column = 0; column < kWgmmaN / 4; column++)
    read(words.columns[column], b, column / 2 * 8 + lane % 4 * 2 + column % 2);
  static thread_local WgmmaColumnsOnCpu latest[4]; /* of lanes that are as far from a multiple of four */
  read_columns<Word>(latest[lane % 4], words);
  if (!multiply_in_floats<Word>(d, words, latest[lane % 4], add)) multiply_words<Word>(d, words, add);
}

#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define TB_TENSOR_CORES
__device__ __forceinline__ uint16_t to_bits(Half, float x) { return __half_as_ushort(__float2half_rn(x)); }
__device__ __forceinline__ float from_bits(Half, uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ uint16_t to_bits(Bfloat, float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
__device__ __forceinline__ float from_bits(Bfloat, uint16_t bits) {
  return __bfloat162float(__ushort_as_bfloat16(bits));
}

/* Two words at once, which takes one instruction. */
__device__ __forceinline__ uint32_t to_pair(Half, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return static_cast<uint32_t>(__half_as_ushort(pair.x)) | static_cast<uint32_t>(__half_as_ushort(pair.y)) << 16;
}
__device__ __forceinline__ uint32_t to_pair(Bfloat, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return static_cast<uint32_t>(__bfloat16_as_ushort(pair.x)) | static_cast<uint32_t>(__bfloat16_as_ushort(pair.y))
                                                                   << 16;
}

/* The matrix descriptor, without swizzling: the address, and the bytes from one core matrix to the next along k and
 * along the rows, all in units of 16 bytes and 14 bits wide. */
using WgmmaOperand = uint64_t;
template <int Apart> __device__ __forceinline__ WgmmaOperand operand(const void *p) {
  static_assert(Apart % 16 == 0 && Apart / 16 < 1 << 14, "fits its field");
  constexpr uint64_t along_k = kWgmmaCore / 16, along_rows = Apart / 16;
  /* Shared memory has less than 2^18 bytes; above them stands the block's rank in its cluster. */
  return (shared_address(p) & 0x3ffff) / 16 | along_k << 16 | along_rows << 32;
}
/* The same so many bytes further, in the same shared memory. */
__device__ __forceinline__ WgmmaOperand behind(WgmmaOperand x, int bytes) {
  return (x & ~static_cast<uint64_t>(~0u)) | (static_cast<unsigned>(x) + static_cast<unsigned>(bytes / 16));
}
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* D is named, so that nothing that reads it comes before this. */
__device__ __forceinline__ void wait_for_products(float (&d)[kWgmmaWords]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kWgmmaWords; i++) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> __device__ __forceinline__ void registers_take() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "what setmaxnreg takes");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void registers_leave() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "what setmaxnreg takes");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

#define TB_WGMMA_REGISTERS                                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, " \
  "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, " \
  "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, " \
  "%92, %93, %94, %95"
#define TB_WGMMA_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TB_WGMMA_16(i) TB_WGMMA_4(i), TB_WGMMA_4(i + 4), TB_WGMMA_4(i + 8), TB_WGMMA_4(i + 12)
#define TB_WGMMA_96 TB_WGMMA_16(0), TB_WGMMA_16(16), TB_WGMMA_16(32), TB_WGMMA_16(48), TB_WGMMA_16(64), TB_WGMMA_16(80)
#define TB_WGMMA(type)                                                                                              \
  asm volatile("{ .reg .pred add;\n"                                                                                \
               "setp.ne.u32 add, %98, 0;\n"                                                                         \
               "wgmma.mma_async.sync.aligned.m64n192k16.f32." type "." type " {" TB_WGMMA_REGISTERS "}, %96, %97, " \
               "add, 1, 1, 0, 0; }"                                                                                 \
               : TB_WGMMA_96                                                                                        \
               : "l"(a), "l"(b), "r"(static_cast<unsigned>(add)))
template <class Word>
__device__ __forceinline__ void multiply(float (&d)[kWgmmaWords], WgmmaOperand a, WgmmaOperand b, bool add) {
  if constexpr (Word::planes == Half::planes)
    TB_WGMMA("f16");
  else
    TB_WGMMA("bf16");
}
#undef TB_WGMMA
#undef TB_WGMMA_REGISTERS
#undef TB_WGMMA_4
#undef TB_WGMMA_16
#undef TB_WGMMA_96

#endif

#endif
