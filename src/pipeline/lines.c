/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/lines.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>

#define LINE_BYTES 64

/* CPUID, leaf 7, EBX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID). */
enum { CAN_DROP = 1 << 23, CAN_WRITE_BACK = 1 << 24, ASKED = 1 };

static unsigned can(void) {
  static atomic_uint known; /* the instruction takes microseconds where a hypervisor answers it */
  unsigned answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer != 0) return answer;
  unsigned a, b = 0, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) b = 0;
  answer = ASKED | (b & (CAN_DROP | CAN_WRITE_BACK));
  atomic_store_explicit(&known, answer, memory_order_relaxed);
  return answer;
}

__attribute__((target("clwb"))) static void write_back(uintptr_t line, uintptr_t end) {
  for (; line < end; line += LINE_BYTES) _mm_clwb((void *)line);
}

__attribute__((target("clflushopt"))) static void drop(uintptr_t line, uintptr_t end) {
  for (; line < end; line += LINE_BYTES) _mm_clflushopt((void *)line);
}

static uintptr_t first_line(const void *address) { return (uintptr_t)address / LINE_BYTES * LINE_BYTES; }

bool tb_lines_can_leave(void) {
  const unsigned both = CAN_DROP | CAN_WRITE_BACK;
  return (can() & both) == both;
}

void tb_lines_write_back(const void *address, size_t bytes) {
  if (can() & CAN_WRITE_BACK) write_back(first_line(address), (uintptr_t)address + bytes);
}

void tb_lines_drop(const void *address, size_t bytes) {
  if (can() & CAN_DROP) drop(first_line(address), (uintptr_t)address + bytes);
}

#else

bool tb_lines_can_leave(void) { return false; }
void tb_lines_write_back(const void *address, size_t bytes) { (void)address, (void)bytes; }
void tb_lines_drop(const void *address, size_t bytes) { (void)address, (void)bytes; }

#endif
