/* SPDX-License-Identifier: BSD-3-Clause */
/* cuTensorMapEncodeTiled: refuses what the driver refuses, and keeps in the map what tensor_map.h says. */
#include "tensor_map.h"

#include <cstring>

#include "calls.h"

namespace fake {
namespace {

constexpr unsigned MOST_DIMENSIONS = 5, MOST_ELEMENTS_OF_A_BOX = 256, MOST_STEPS = 8, UNIT_BYTES = 16;
constexpr uint64_t MOST_ELEMENTS = uint64_t{1} << 32, STRIDE_LIMIT_BYTES = uint64_t{1} << 40;
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap), "one stands where the other is expected");

struct Tensor {
  CUtensorMapDataType type;
  unsigned dimensions;
  uintptr_t address;
  const cuuint64_t *size, *strides_bytes;
  const cuuint32_t *box, *steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

/* 0 for what is smaller than a byte. */
unsigned bytes_of(CUtensorMapDataType type) {
  static constexpr unsigned char bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return static_cast<size_t>(type) < sizeof bytes ? bytes[type] : 0;
}

bool is_real(CUtensorMapDataType type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

/* What cuda.h demands of all maps that are not interleaved. */
bool is_possible(const Tensor &t) {
  if (t.address % UNIT_BYTES != 0) return false;
  for (unsigned i = 0; i < t.dimensions; ++i)
    if (t.size[i] < 1 || t.size[i] > MOST_ELEMENTS || t.box[i] < 1 || t.box[i] > MOST_ELEMENTS_OF_A_BOX ||
        t.steps[i] < 1 || t.steps[i] > MOST_STEPS)
      return false;
  uint64_t least = t.size[0] * bytes_of(t.type);
  for (unsigned i = 0; i + 1 < t.dimensions; ++i) {
    const uint64_t stride = t.strides_bytes[i];
    if (stride % UNIT_BYTES != 0 || stride >= STRIDE_LIMIT_BYTES || stride < least) return false;
    least = stride;
  }
  return t.box[0] * bytes_of(t.type) % UNIT_BYTES == 0 &&
         (t.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || is_real(t.type));
}

/* What the copies of async.cpp can do. */
bool is_known(const Tensor &t) {
  return t.type == CU_TENSOR_MAP_DATA_TYPE_UINT32 && t.dimensions == 2 && t.steps[1] == 1 &&
         t.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE;
}

} // namespace
} // namespace fake

using namespace fake;

CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t dimensions, void *address,
                                const cuuint64_t *size, const cuuint64_t *strides_bytes, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  Call call(Fn::cuTensorMapEncodeTiled);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out || reinterpret_cast<uintptr_t>(out) % TENSOR_MAP_ALIGNMENT != 0 || dimensions < 1 ||
      dimensions > MOST_DIMENSIONS || !size || !box || !steps || (dimensions > 1 && !strides_bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const Tensor tensor = {
      type,    dimensions, reinterpret_cast<uintptr_t>(address), size, strides_bytes, box, steps, interleave,
      swizzle, fill};
  const bool plain = bytes_of(type) > 0 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE; /* others have other rules */
  if (plain && !is_possible(tensor)) return CUDA_ERROR_INVALID_VALUE;
  if (!plain || !is_known(tensor)) {
    misuse("cuTensorMapEncodeTiled: the fake knows maps of two dimensions and 32-bit words alone, neither interleaved "
           "nor swizzled");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  TensorMap map = {};
  map.mark = TENSOR_MAP_MARK, map.end_mark = ~TENSOR_MAP_MARK;
  map.address = tensor.address;
  map.row_bytes = size[0] * bytes_of(type), map.rows = size[1], map.stride_bytes = strides_bytes[0];
  map.box_row_bytes = box[0] * bytes_of(type), map.box_rows = box[1];
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}
