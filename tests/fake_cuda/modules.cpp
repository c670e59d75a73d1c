/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modules, functions and launches. The fat binary that a program loads is checked for what a driver would refuse; what
 * runs is the kernel of that name compiled for the CPU from the same source.
 */
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "extents.h"
#include "grid.h"
#include "streams.h"
#include "tensor_map.h"
#include "watch.h"

namespace fake {
namespace {

constexpr size_t DEFAULT_SHARED_BYTES = 48 * 1024, MULTIPROCESSOR_THREADS = 2048, MULTIPROCESSOR_BLOCKS = 32;
constexpr size_t MULTIPROCESSOR_REGISTERS = 65536, RESERVED_SHARED_BYTES = 1024;
constexpr size_t MOST_BLOCKS_OF_A_CLUSTER = 8; /* of what every device that has clusters can run */
constexpr size_t MOST_THREADS = 1024, MOST_BLOCKS_X = 2147483647, MOST_BLOCKS_YZ = 65535, MOST_THREADS_Z = 64;

/* Virtual architecture from which on there are an instruction to wait for earlier kernels, and clusters. */
constexpr int FIRST_TO_WAIT = 90, FIRST_WITH_CLUSTERS = 90;

/* A launch's own copy of its parameters, as the driver takes one at the call. */
struct Parameters {
  struct alignas(TENSOR_MAP_ALIGNMENT) Unit {
    char bytes[TENSOR_MAP_ALIGNMENT];
  };
  std::vector<std::vector<Unit>> values;
  std::vector<void *> pointers;

  Parameters(const Kernel &kernel, void **from) {
    for (size_t i = 0; i < kernel.parameter_count; ++i) {
      const size_t bytes = kernel.parameters[i].bytes;
      values.emplace_back((bytes + sizeof(Unit) - 1) / sizeof(Unit));
      memcpy(static_cast<void *>(values.back().data()), from[i], bytes);
      pointers.push_back(values.back().data());
    }
  }
};

bool sizes_are_possible(const Extent &blocks, const Extent &threads) {
  return blocks.x >= 1 && blocks.y >= 1 && blocks.z >= 1 && blocks.x <= MOST_BLOCKS_X && blocks.y <= MOST_BLOCKS_YZ &&
         blocks.z <= MOST_BLOCKS_YZ && threads.x >= 1 && threads.y >= 1 && threads.z >= 1 &&
         threads.x <= MOST_THREADS && threads.y <= MOST_THREADS && threads.z <= MOST_THREADS_Z &&
         threads.count() <= MOST_THREADS;
}

bool cluster_is_possible(const Extent &blocks, const Extent &cluster) {
  return cluster.count() >= 1 && cluster.count() <= MOST_BLOCKS_OF_A_CLUSTER && blocks.x % cluster.x == 0 &&
         blocks.y % cluster.y == 0 && blocks.z % cluster.z == 0;
}

bool may_touch(const Context &context, const Allocation &allocation) {
  return allocation.kind != MemoryKind::DEVICE || allocation.context->device == context.device ||
         context.peers.count(allocation.context->device);
}

/*
 * Finds the memory that the kernel may use: whatever its parameters, read word by word, point into. A parameter that is
 * a pointer and points nowhere makes the launch fail; the end of an allocation is still somewhere. Half of a struct's
 * last word may be padding, with anything in it, which makes no address of the member before: what would be another
 * device's memory there is left to the watch.
 */
bool find_uses(const Context &context, const Kernel &kernel, const Parameters &parameters, std::vector<Range> &uses) {
  for (size_t i = 0; i < kernel.parameter_count; ++i) {
    const char *const value = static_cast<const char *>(parameters.pointers[i]);
    for (size_t at = 0; at + sizeof(uintptr_t) <= kernel.parameters[i].bytes; at += sizeof(uintptr_t)) {
      uintptr_t word;
      memcpy(&word, value + at, sizeof word);
      const Allocation *allocation = find_memory(word, 0);
      const bool is_struct = kernel.parameters[i].bytes > sizeof word;
      const bool may_be_padding = is_struct && at + sizeof word == kernel.parameters[i].bytes;
      if (allocation && may_touch(context, *allocation))
        uses.push_back({allocation->start, allocation->bytes});
      else if ((allocation && !may_be_padding) || (kernel.parameters[i].is_pointer && word != 0))
        return false;
    }
  }
  return true;
}

/* Whether what a kernel touches by its arguments begins in that memory: the host's own, which the parameters may point
 * into, is not. */
bool reaches_all(const std::vector<Touch> &touches, const std::vector<Range> &uses) {
  return std::all_of(touches.begin(), touches.end(), [&](const Touch &touch) {
    if (touch.width == 0 || touch.height == 0) return true;
    return std::any_of(uses.begin(), uses.end(), [&](const Range &range) {
      return touch.start >= range.start && touch.start < range.start + range.bytes;
    });
  });
}

/* How a kernel is to be launched. */
struct Shape {
  Extent blocks, threads, cluster;
  size_t shared_bytes;
  bool early; /* before the kernels ahead have ended */
};

/* What a launch leaves to be run. */
Operation make_launch(const Kernel *kernel, const Shape &shape, std::shared_ptr<Parameters> parameters,
                      bool reaches_memory, std::vector<Range> uses) {
  Operation launch;
  launch.name = kernel->name;
  launch.uses = std::move(uses);
  if (watching() != Watch::OFF) {
    launch.touches = touches_of(*kernel, parameters->pointers.data(), launch.uses);
    const std::string broken = broken_vectors(*kernel, parameters->pointers.data(), launch.uses);
    if (!broken.empty()) misuse("%s", broken.c_str());
    if (reaches_memory && !reaches_all(launch.touches, launch.uses))
      misuse("%s is to touch memory that its device cannot", kernel->name);
  }
  launch.run = [=, reach = Reach{kernel->name, launch.uses, launch.touches}](bool half) {
    if (!reaches_memory) {
      misuse("%s is given a pointer to no memory of its device", kernel->name);
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    const uint64_t most_blocks = half ? shape.blocks.count() / 2 : shape.blocks.count();
    const std::string failure = run_watched(reach, [&] {
      return run_grid({kernel, shape.blocks, shape.threads, shape.cluster, shape.shared_bytes,
                       parameters->pointers.data(), shape.early, most_blocks});
    });
    if (!failure.empty()) {
      misuse("%s", failure.c_str());
      return CUDA_ERROR_LAUNCH_FAILED;
    }
    driver().happened[FAKE_CUDA_LAUNCHES] += !half;
    driver().launches[kernel->name] += !half;
    return CUDA_SUCCESS;
  };
  return launch;
}

CUresult enqueue_launch(Call &call, CUfunction handle, const Shape &shape, CUstream stream_handle, void **parameters,
                        void **extra) {
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Stream> stream = find_stream(*call.context, stream_handle);
  const std::shared_ptr<Function> function = driver().functions.find(handle);
  if (!stream || !function || function->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
  if (!sizes_are_possible(shape.blocks, shape.threads) || shape.shared_bytes > function->dynamic_shared_limit ||
      extra || (!parameters && function->kernel->parameter_count > 0))
    return CUDA_ERROR_INVALID_VALUE;
  if (!cluster_is_possible(shape.blocks, shape.cluster)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (shape.cluster.count() > 1 && function->compiled_for < FIRST_WITH_CLUSTERS) {
    misuse("%s is compiled for %d and knows of no clusters", function->kernel->name, function->compiled_for);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (shape.early && function->compiled_for < FIRST_TO_WAIT) {
    misuse("%s is compiled for %d and cannot wait for the kernels ahead of it", function->kernel->name,
           function->compiled_for);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto copied = std::make_shared<Parameters>(*function->kernel, parameters);
  std::vector<Range> uses;
  const bool reaches_memory = find_uses(*call.context, *function->kernel, *copied, uses);
  enqueue(call, stream, make_launch(function->kernel, shape, copied, reaches_memory, std::move(uses)));
  return CUDA_SUCCESS;
}

} // namespace
} // namespace fake

using namespace fake;

CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  Call call(Fn::cuModuleLoadData);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_shared<Module>();
  module->made = call.origin();
  module->context = call.context;
  if (!read_fatbin(image, module->entries)) return CUDA_ERROR_INVALID_IMAGE;
  if (fatbin_compiled_for(module->entries, settings().compute_major, settings().compute_minor) == 0)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *out = driver().modules.add(std::move(module));
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle) {
  Call call(Fn::cuModuleUnload);
  if (call.refused()) return call.status;
  const std::shared_ptr<Module> module = driver().modules.find(handle);
  if (!module) released_nothing("a module", call.origin());
  if (!module || module->context != call.context) return call.after_release(CUDA_ERROR_INVALID_HANDLE);
  for (const CUfunction function : module->functions) driver().functions.remove(function);
  check_owner("a module", module->made, call.origin());
  driver().modules.remove(handle);
  return call.after_release(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name) {
  Call call(Fn::cuModuleGetFunction);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Module> module = driver().modules.find(handle);
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  if (!module || module->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
  const Kernel *kernel = find_kernel(name);
  if (!kernel || !fatbin_may_have(module->entries, name)) return CUDA_ERROR_NOT_FOUND;
  const int compiled_for = fatbin_compiled_for(module->entries, settings().compute_major, settings().compute_minor);
  *out = driver().functions.add(
      std::make_shared<Function>(Function{call.context, handle, kernel, compiled_for, DEFAULT_SHARED_BYTES}));
  module->functions.push_back(*out);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  Call call(Fn::cuFuncSetAttribute);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Function> function = driver().functions.find(handle);
  if (!function || function->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      static_cast<size_t>(value) > settings().shared_memory_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  function->dynamic_shared_limit = static_cast<size_t>(value);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction handle) {
  Call call(Fn::cuFuncGetAttribute);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Function> function = driver().functions.find(handle);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!function || function->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = static_cast<int>(std::min(MOST_THREADS, MULTIPROCESSOR_REGISTERS / settings().registers_per_thread));
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = settings().registers_per_thread;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *out = static_cast<int>(function->dynamic_shared_limit);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *out = function->compiled_for;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *out = 0;
      return CUDA_SUCCESS;
    default: /* what only a compiled kernel can tell */
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

namespace {
int blocks_of_a_multiprocessor(const Function &function, size_t threads, size_t shared_bytes) {
  const size_t in_whole_warps = (threads + 31) / 32 * 32;
  const size_t by_registers = MULTIPROCESSOR_REGISTERS / (in_whole_warps * settings().registers_per_thread);
  const size_t by_shared =
      (settings().shared_memory_bytes + RESERVED_SHARED_BYTES) / (shared_bytes + RESERVED_SHARED_BYTES);
  if (in_whole_warps > MOST_THREADS || shared_bytes > function.dynamic_shared_limit) return 0;
  return static_cast<int>(
      std::min({MULTIPROCESSOR_BLOCKS, MULTIPROCESSOR_THREADS / in_whole_warps, by_registers, by_shared}));
}
} // namespace

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction handle, int threads, size_t shared_bytes) {
  Call call(Fn::cuOccupancyMaxActiveBlocksPerMultiprocessor);
  if (call.status != CUDA_SUCCESS) return call.status;
  const std::shared_ptr<Function> function = driver().functions.find(handle);
  if (!function || function->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || threads < 1) return CUDA_ERROR_INVALID_VALUE;
  *out = blocks_of_a_multiprocessor(*function, static_cast<size_t>(threads), shared_bytes);
  return CUDA_SUCCESS;
}

/* A device whose SMs are all beside each other. */
CUresult cuOccupancyMaxActiveClusters(int *out, CUfunction handle, const CUlaunchConfig *config) {
  Call call(Fn::cuOccupancyMaxActiveClusters);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!out || !config || config->numAttrs != 1 || !config->attrs) return CUDA_ERROR_INVALID_VALUE;
  if (config->attrs[0].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Function> function = driver().functions.find(handle);
  if (!function || function->context != call.context) return CUDA_ERROR_INVALID_HANDLE;
  const auto &size = config->attrs[0].value.clusterDim;
  const Extent blocks = {config->gridDimX, config->gridDimY, config->gridDimZ}, cluster = {size.x, size.y, size.z};
  if (!cluster_is_possible(blocks, cluster)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  const size_t threads = static_cast<size_t>(config->blockDimX) * config->blockDimY * config->blockDimZ;
  *out = blocks_of_a_multiprocessor(*function, threads, config->sharedMemBytes) * settings().multiprocessors /
         static_cast<int>(cluster.count());
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                        unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra) {
  Call call(Fn::cuLaunchKernel);
  const Shape shape = {
      {blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, {1, 1, 1}, shared_bytes, false};
  return enqueue_launch(call, function, shape, stream, parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
  Call call(Fn::cuLaunchKernelEx);
  if (call.status != CUDA_SUCCESS) return call.status;
  if (!config || (config->numAttrs > 0 && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  Shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 {1, 1, 1},
                 config->sharedMemBytes,
                 false};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttributeValue &value = config->attrs[i].value;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      shape.early = value.programmaticStreamSerializationAllowed != 0;
    else if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      shape.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    else
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return enqueue_launch(call, function, shape, config->hStream, parameters, extra);
}
