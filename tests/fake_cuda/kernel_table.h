/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels that the CPU can run, by name, and how to hand them the driver's `void **kernelParams`.
 * Constant data and pure functions: any number of threads.
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

/* The row of one kernel; its source stands above, see kernels_on_cpu.cpp. */
#define FAKE_CUDA_KERNEL(name) fake::Trampoline<&name>::row(#name),

/* The kernel of that name, or null. */
const Kernel *find_kernel(const char *name);

} // namespace fake

#endif
