/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fake keeps in a CUtensorMap: cuTensorMapEncodeTiled (tensor_map.cpp) writes it, a copy of a box (async.cpp)
 * reads it from a kernel's parameter. Plain data.
 */
#ifndef FAKE_CUDA_TENSOR_MAP_H
#define FAKE_CUDA_TENSOR_MAP_H

#include <cstdint>

namespace fake {

/* Where a kernel's parameters begin, so that a map among them stands as a GPU wants it. */
constexpr uintptr_t TENSOR_MAP_ALIGNMENT = 64;

/* Rows of bytes, and the box of them that is copied at a time. The address is a word by itself: by that a launch is
 * found to use the memory (modules.cpp). */
struct TensorMap {
  uint64_t mark;
  uint64_t address;
  uint64_t row_bytes, rows, stride_bytes; /* from one row to the next */
  uint64_t box_row_bytes, box_rows;
  uint64_t unused[8];
  uint64_t end_mark;
};
static_assert(sizeof(TensorMap) == 128, "it fits where a program keeps it");
constexpr uint64_t TENSOR_MAP_MARK = 0x616d726f736e6574;

inline bool is_tensor_map(const TensorMap &map) {
  return map.mark == TENSOR_MAP_MARK && map.end_mark == ~TENSOR_MAP_MARK;
}

} // namespace fake

#endif
