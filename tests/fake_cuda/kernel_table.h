/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels that the CPU can run, by name, and how to hand them the driver's `void **kernelParams`. A file of
 * kernels_on_cpu/ is one fat binary's: the source that nvcc compiles for the GPU, compiled for the CPU, and a row for
 * each kernel of it. Constant data and pure functions: any number of threads.
 */
#ifndef FAKE_CUDA_KERNEL_TABLE_H
#define FAKE_CUDA_KERNEL_TABLE_H

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace fake {

struct KernelParameter {
  size_t bytes;
  bool is_pointer;
};

struct Kernel {
  const char *name;
  void (*invoke)(void *const *parameters); /* one thread's run */
  const KernelParameter *parameters;
  size_t parameter_count;
};

template <auto function> struct Trampoline;
template <class... A, void (*function)(A...)> struct Trampoline<function> {
  static constexpr KernelParameter parameters[sizeof...(A) + 1] = {{sizeof(A), std::is_pointer_v<A>}..., {0, false}};

  template <size_t... i> static void unpack(void *const *values, std::index_sequence<i...>) {
    (void)values;
    function(*static_cast<const std::remove_const_t<A> *>(values[i])...);
  }
  static void invoke(void *const *values) { unpack(values, std::index_sequence_for<A...>{}); }
  static constexpr Kernel row(const char *name) { return {name, invoke, parameters, sizeof...(A)}; }
};

struct Kernels {
  const Kernel *rows;
  size_t count;
};

/* The row of one kernel, whose source stands above. */
#define FAKE_CUDA_KERNEL(name) fake::Trampoline<&name>::row(#name),

/* At the end of its file: `rows` are NAME_kernels in kernel_table.cpp's list. */
#define FAKE_CUDA_FAMILY(name, rows)                                 \
  namespace fake {                                                   \
  extern const Kernels name##_kernels;                               \
  const Kernels name##_kernels = {rows, sizeof rows / sizeof *rows}; \
  }                                                                  \
  static_assert(sizeof rows > 0, "a semicolon's")

/* The kernel of that name, or null. */
const Kernel *find_kernel(const char *name);

} // namespace fake

#endif
