/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every PTX instruction that the kernels use and CUDA C has no word for, each behind one small named function.
 *
 * Asynchronous copies (PTX ISA, cp.async): global -> shared memory without a register, in groups. Up to `bytes` bytes,
 * of which the first `valid` are read and the rest become zero. Both addresses are aligned to `bytes`.
 *   async_copy<Bytes>(dst, src, valid)   joins the thread's open group
 *   async_copy_if<Bytes>(dst, src, bits, bit)   the same, of all bytes if `bits` has this bit, else of none. The
 *                                        compiler moves seven bits at a time to predicates
 *   async_commit()                       closes the group
 *   async_wait<N>()                      until at most N of the thread's newest groups are unfinished; this thread sees
 *                                        the data then, and the block behind a __syncthreads
 *
 * Before compute capability 8.0 the copy happens at once, through a register.
 *
 * Bulk copies (PTX ISA, cp.async.bulk and mbarrier; from compute capability 9.0 on, where TB_BULK_COPIES is defined):
 * one thread has many bytes copied from global to shared memory, past the registers and the other threads, and a
 * barrier in shared memory tells when they are there. A barrier goes through phases 0, 1, 2 ..., each over when so many
 * arrivals have come as it was made for, and all bytes that they expect. Addresses and sizes are multiples of 16 bytes.
 *   barrier_init(b, arrivals)          by one thread; then barriers_ready(), and a __syncthreads
 *   barrier_expect(b, bytes)           arrives, and has the phase wait for so many bytes
 *   bulk_copy(dst, src, bytes, b)      they count for b
 *   barrier_arrive(b)                  arrives; what this thread has read or written is done before
 *   barrier_wait(b, parity)            until the phase of this parity is over; this thread sees the data then
 * Who has them written over must know that what was read there has arrived in registers, which no barrier says: the
 * loads of shared memory and these copies do not wait for each other.
 *
 * Parts of a block (PTX ISA, bar.sync): whole warps of it wait for each other, as all of them do at __syncthreads.
 *   part_meet(number, threads)         until so many threads have come to the block's barrier of that number, 1 to 15;
 *                                      behind it all of these see what any has written before
 *
 * Clusters (PTX ISA, barrier.cluster, mapa, cp.async.bulk.tensor; where TB_BULK_COPIES is defined): blocks that run at
 * the same time, on SMs that are near each other, and reach each other's shared memory. A kernel that is launched in
 * clusters has its shared memory at the same offsets in every block.
 *   cluster_rank()                     the block's place in its cluster; 0 where there are none
 *   cluster_meet()                     waits for all threads of the cluster that have not ended. Before the first
 *                                      arrival at, or copy to, another block, which must have begun and made its
 *                                      barriers (barriers_ready() shows them to the others; what else was written is
 *                                      not: that would wait for all that was ever stored); and after the last, for a
 *                                      block must not end while others still write or read there
 *   cluster_share()                    waits, too, and behind it all see what any has written to shared memory before
 *   ClusterWords(p, rank)[i]           word i behind the one that stands where p does, in the cluster's block `rank`
 *   ClusterWords(p, rank).four(i)      four of them from word i on, a multiple of four, if p is aligned to 16 bytes
 *   barrier_arrive_at(b, rank)         arrives at the barrier that stands where b does, in the cluster's block `rank`;
 *                                      what this thread has read there or written is done before
 *   box_copy(dst, map, row, b, ranks)  a bulk copy of the box of a tensor map (CUtensorMap, two dimensions, a kernel's
 *                                      parameter) that begins at column 0 and at `row`, to where dst is, in every block
 *                                      whose bit is set in `ranks`, the own one's too or not; in each its bytes count
 *                                      for the barrier that stands where b does. What the map has no row for becomes
 *                                      zero. dst is aligned to 128 bytes
 *
 * A kernel that is launched with programmatic stream serialisation may start before the one ahead of it has ended:
 *   let_next_start()            the kernel ahead: once all its blocks have called this (or ended), the next may start
 *   wait_for_earlier_kernels()  the next: until those ahead have ended, and all that they wrote is seen
 * Before compute capability 9.0 there is no such launch, and nothing to do.
 *
 * Words that nobody writes during the kernel. These stay where they stand among the other instructions of this file.
 *   load_word(p)            one; its sector stays in the L1, for neighbours may want the rest
 *   load_word_if(p, there)  the same, or without reading zero
 *   load_words4(p)          four; their sectors stay in the L1
 *   load_once4(p)           four that this block reads once; they leave the L1 to others
 */
#ifndef TB_PTX_CUH
#define TB_PTX_CUH

#include <stdint.h>

#include "common/device.cuh"

/* The order of independent instructions matters to a GPU; compilers for a CPU vectorise the plainest one best. */
#if defined(TB_ON_CPU)
constexpr bool kRegisterBanks = false;
#else
constexpr bool kRegisterBanks = true;
#endif

#if defined(TB_ON_CPU)

template <int Bytes> __device__ __forceinline__ void async_copy(void *dst, const void *src, unsigned valid) {
  tb_cpu_cp_async(dst, src, Bytes, valid);
}
__device__ __forceinline__ void async_commit() { tb_cpu_cp_async_commit(); }
template <int N> __device__ __forceinline__ void async_wait() { tb_cpu_cp_async_wait(N); }

#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

template <int Bytes> __device__ __forceinline__ void async_copy(void *dst, const void *src, unsigned valid) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "what cp.async copies");
  unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  if (Bytes == 16) /* .cg: past the L1, which these panels would only flush */
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(src), "r"(valid));
  else if (Bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(target), "l"(src), "r"(valid));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(src), "r"(valid));
}
/* Without the fourth operand: the whole width is read, and the compiler has no predicate to keep. */
template <int Bytes> __device__ __forceinline__ void async_copy(void *dst, const void *src) {
  unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  if (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(src));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(target), "l"(src));
}
template <int Bytes>
__device__ __forceinline__ void async_copy_if(void *dst, const void *src, unsigned bits, unsigned bit) {
  unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  if (Bytes == 16)
    asm volatile("{ .reg .pred no; .reg .b32 there; and.b32 there, %2, %3; setp.eq.u32 no, there, 0;\n\t"
                 "cp.async.cg.shared.global [%0], [%1], 16, no; }" ::"r"(target),
                 "l"(src), "r"(bits), "r"(bit));
  else if (Bytes == 8)
    asm volatile("{ .reg .pred no; .reg .b32 there; and.b32 there, %2, %3; setp.eq.u32 no, there, 0;\n\t"
                 "cp.async.ca.shared.global [%0], [%1], 8, no; }" ::"r"(target),
                 "l"(src), "r"(bits), "r"(bit));
  else
    asm volatile("{ .reg .pred no; .reg .b32 there; and.b32 there, %2, %3; setp.eq.u32 no, there, 0;\n\t"
                 "cp.async.ca.shared.global [%0], [%1], 4, no; }" ::"r"(target),
                 "l"(src), "r"(bits), "r"(bit));
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#else

template <int Bytes> __device__ __forceinline__ void async_copy(void *dst, const void *src, unsigned valid) {
  float *to = static_cast<float *>(dst);
  const float *from = static_cast<const float *>(src);
  if (Bytes == 16 && valid == 16) {
    *reinterpret_cast<float4 *>(to) = *reinterpret_cast<const float4 *>(from);
  } else {
#pragma unroll
    for (unsigned w = 0; w < Bytes / 4; w++) to[w] = w < valid / 4 ? from[w] : 0.0f;
  }
}
__device__ __forceinline__ void async_commit() {}
template <int N> __device__ __forceinline__ void async_wait() {}

#endif

#if defined(TB_ON_CPU) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800
template <int Bytes>
__device__ __forceinline__ void async_copy_if(void *dst, const void *src, unsigned bits, unsigned bit) {
  async_copy<Bytes>(dst, src, (bits & bit) != 0 ? Bytes : 0);
}
#endif

#if defined(TB_ON_CPU)
__device__ __forceinline__ void part_meet(unsigned number, unsigned threads) { tb_cpu_part_barrier(number, threads); }
#else
__device__ __forceinline__ void part_meet(unsigned number, unsigned threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
#endif

#if defined(TB_ON_CPU)

#define TB_BULK_COPIES
__device__ __forceinline__ void barrier_init(uint64_t *b, unsigned arrivals) { tb_cpu_mbarrier_init(b, arrivals); }
__device__ __forceinline__ void barriers_ready() {}
__device__ __forceinline__ void barrier_expect(uint64_t *b, unsigned bytes) { tb_cpu_mbarrier_expect(b, bytes); }
__device__ __forceinline__ void barrier_arrive(uint64_t *b) { tb_cpu_mbarrier_arrive(b); }
__device__ __forceinline__ void barrier_wait(uint64_t *b, unsigned parity) { tb_cpu_mbarrier_wait(b, parity); }
__device__ __forceinline__ void bulk_copy(void *dst, const void *src, unsigned bytes, uint64_t *b) {
  tb_cpu_bulk_copy(dst, src, bytes, b);
}
__device__ __forceinline__ unsigned cluster_rank() { return tb_cpu_cluster_rank(); }
__device__ __forceinline__ void cluster_meet() { tb_cpu_cluster_meeting(); }
__device__ __forceinline__ void cluster_share() { tb_cpu_cluster_barrier(); }
class ClusterWords {
  const float *const first;
  const unsigned rank;

public:
  ClusterWords(const float *p, unsigned rank_) : first(p), rank(rank_) {}
  float operator[](unsigned word) const { return *tb_cpu_word_at(first + word, rank); }
  float4 four(unsigned word) const {
    const ClusterWords &w = *this;
    return make_float4(w[word], w[word + 1], w[word + 2], w[word + 3]);
  }
};
__device__ __forceinline__ void barrier_arrive_at(uint64_t *b, unsigned rank) { tb_cpu_mbarrier_arrive_at(b, rank); }
__device__ __forceinline__ void box_copy(void *dst, const void *map, int row, uint64_t *b, unsigned ranks) {
  tb_cpu_box_copy(dst, map, row, b, ranks);
}

#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

#define TB_BULK_COPIES
__device__ __forceinline__ unsigned shared_address(const void *p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void barrier_init(uint64_t *b, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
/* Bulk copies, which see memory by a way of their own, see the barriers too. */
__device__ __forceinline__ void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(uint64_t *b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t *b, unsigned parity) {
  asm volatile("{ .reg .pred over;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
               "@over bra done;\n"
               "bra again;\n"
               "done: }" ::"r"(shared_address(b)),
               "r"(parity)
               : "memory");
}
__device__ __forceinline__ void bulk_copy(void *dst, const void *src, unsigned bytes, uint64_t *b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(dst)),
               "l"(src), "r"(bytes), "r"(shared_address(b))
               : "memory");
}
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_meet() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
  asm volatile("barrier.cluster.wait;" ::: "memory");
}
__device__ __forceinline__ void cluster_share() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
class ClusterWords {
  unsigned first;

public:
  __device__ __forceinline__ ClusterWords(const float *p, unsigned rank) {
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(first) : "r"(shared_address(p)), "r"(rank));
  }
  __device__ __forceinline__ float operator[](unsigned word) const {
    float there;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(there) : "r"(first + 4 * word));
    return there;
  }
  __device__ __forceinline__ float4 four(unsigned word) const {
    float4 there;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(there.x), "=f"(there.y), "=f"(there.z), "=f"(there.w)
                 : "r"(first + 4 * word));
    return there;
  }
};
__device__ __forceinline__ void barrier_arrive_at(uint64_t *b, unsigned rank) {
  asm volatile("{ .reg .b32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(b)),
               "r"(rank)
               : "memory");
}
__device__ __forceinline__ void box_copy(void *dst, const void *map, int row, uint64_t *b, unsigned ranks) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
               "[%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(dst)),
               "l"(map), "r"(0), "r"(row), "r"(shared_address(b)), "h"(static_cast<unsigned short>(ranks))
               : "memory");
}

#endif

__device__ __forceinline__ float load_word(const float *p) {
#if defined(TB_ON_CPU) || !defined(__CUDA_ARCH__)
  return *p;
#else
  float word;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(word) : "l"(p));
  return word;
#endif
}

/* Written out, so that the register is seen to be set in either case: by
 * what the compiler makes of a condition, it would be occupied all around the loop. */
__device__ __forceinline__ float load_word_if(const float *p, bool there) {
#if defined(TB_ON_CPU) || !defined(__CUDA_ARCH__)
  return there ? *p : 0;
#else
  float word;
  asm volatile("{ .reg .pred there;\n"
               "setp.ne.u32 there, %2, 0;\n"
               "mov.f32 %0, 0f00000000;\n"
               "@there ld.global.nc.f32 %0, [%1]; }"
               : "=f"(word)
               : "l"(p), "r"(static_cast<unsigned>(there)));
  return word;
#endif
}

/* Four neighbouring words; p is aligned to 16 bytes. */
__device__ __forceinline__ float4 load_words4(const float *p) { return __ldg(reinterpret_cast<const float4 *>(p)); }
__device__ __forceinline__ float4 load_once4(const float *p) {
#if defined(TB_ON_CPU) || !defined(__CUDA_ARCH__)
  return *reinterpret_cast<const float4 *>(p);
#else
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p));
  return v;
#endif
}

#if defined(TB_ON_CPU)
__device__ __forceinline__ void let_next_start() {}
__device__ __forceinline__ void wait_for_earlier_kernels() { tb_cpu_wait_for_earlier_kernels(); }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ void let_next_start() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ __forceinline__ void wait_for_earlier_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
__device__ __forceinline__ void let_next_start() {}
__device__ __forceinline__ void wait_for_earlier_kernels() {}
#endif

/* The same value, of which the compiler knows nothing: what depends on it is computed here and not, say, ahead of a
 * loop where it would occupy registers throughout. */
__device__ __forceinline__ int opaque(int x) {
#if !defined(TB_ON_CPU)
  asm volatile("" : "+r"(x));
#endif
  return x;
}
__device__ __forceinline__ float opaque(float x) {
#if !defined(TB_ON_CPU)
  asm volatile("" : "+f"(x));
#endif
  return x;
}
template <class T> __device__ __forceinline__ T *opaque(T *p) {
#if !defined(TB_ON_CPU)
  asm volatile("" : "+l"(p));
#endif
  return p;
}

#if defined(TB_ON_CPU) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800
template <int Bytes> __device__ __forceinline__ void async_copy(void *dst, const void *src) {
  async_copy<Bytes>(dst, src, Bytes);
}
#endif

#endif
