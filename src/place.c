/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "place.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cuda_driver.h"

/* ---- is there a driver that could know a pointer? ---- */

static atomic_bool out_of_use;    /* the driver is unusable here: too old, or a fork's parent used it */
static atomic_llong looked_at_ns; /* the tick in which the latest look began that found none */
static atomic_ullong libraries;   /* loaded by then since the process began; 0: never looked */

struct look {
  unsigned long long libraries, known;
  bool found;
};

static int look_at_library(struct dl_phdr_info *info, size_t size, void *opaque) {
  (void)size;
  struct look *look = opaque;
  look->libraries = info->dlpi_adds;
  if (look->libraries == look->known) return 1;
  look->found = info->dlpi_name != NULL && strstr(info->dlpi_name, "libcuda.so") != NULL;
  return look->found;
}

/* Not by dlopen: it waits for the loader, which may be waiting for us in a constructor; this walk does not. What it
 * stores is stored when it is over, so that a thread which skips the look relies on a whole one. */
static bool driver_appeared(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  long long now_ns = (long long)t.tv_sec * 1000000000 + t.tv_nsec;
  if (now_ns == atomic_load_explicit(&looked_at_ns, memory_order_acquire)) return false;
  struct look look = {.known = atomic_load_explicit(&libraries, memory_order_relaxed)};
  dl_iterate_phdr(look_at_library, &look);
  if (look.found) {
    if (tb_cuda_load()) return true;
    atomic_store(&out_of_use, true);
    return false;
  }
  atomic_store_explicit(&libraries, look.libraries, memory_order_relaxed);
  atomic_store_explicit(&looked_at_ns, now_ns, memory_order_release);
  return false;
}

static bool driver_is_there(void) {
  if (atomic_load_explicit(&out_of_use, memory_order_relaxed)) return false;
  return tb_cuda_is_loaded() || driver_appeared();
}

void tb_places_after_fork(void) { atomic_store(&out_of_use, true); }

/* ---- what is this pointer? ---- */

/* Whether the CPU can read there, found out without reading: the kernel fails with EFAULT where it cannot, and with
 * EINVAL for the impossible first argument where it can. */
static bool is_readable(const float *p) {
  const uintptr_t word = (uintptr_t)p & ~(uintptr_t)7;
  const size_t kernel_sigset_bytes = 8;
  int saved_errno = errno; /* BLAS calls do not change errno */
  bool readable = syscall(SYS_rt_sigprocmask, -1, word, NULL, kernel_sigset_bytes) == 0 || errno != EFAULT;
  errno = saved_errno;
  return readable;
}

/* *initialised becomes false when nobody has called cuInit: then no pointer is CUDA's. */
static struct tb_location location_of(const float *p, bool *initialised) {
  struct tb_location l = {.place = TB_PAGEABLE, .device = -1};
  unsigned type = 0, managed = 0;
  CUdeviceptr on_device = 0;
  CUcontext context = NULL;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_CONTEXT,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void *values[] = {&type, &managed, &on_device, &context, &l.device};
  CUresult result =
      tb_cuda.cuPointerGetAttributes(sizeof attributes / sizeof attributes[0], attributes, values, (CUdeviceptr)p);
  *initialised = result != CUDA_ERROR_NOT_INITIALIZED;
  if (result != CUDA_SUCCESS) { /* with a context that broke, say: it is past answering */
    if (*initialised && !is_readable(p)) l.place = TB_DEVICE;
    l.device = -1;
    return l;
  }
  if (managed)
    l.place = TB_MANAGED;
  else if (type == CU_MEMORYTYPE_DEVICE)
    l.place = TB_DEVICE;
  else if (type == CU_MEMORYTYPE_HOST && on_device == (CUdeviceptr)p) /* by another address it is of no use to us */
    l.place = TB_PINNED;
  l.context = context;
  return l;
}

/* A matrix of `columns` stored columns. Memory that was pinned in part is as good as pageable. */
static struct tb_location matrix_location(const float *p, int64_t rows, int64_t columns, int64_t ld,
                                          bool *initialised) {
  struct tb_location l = location_of(p, initialised);
  if (l.place == TB_PINNED && location_of(p + (columns - 1) * ld + rows - 1, initialised).place != TB_PINNED)
    l.place = TB_PAGEABLE;
  return l;
}

static struct tb_location view_location(struct tb_view x, int64_t rows, int64_t columns) {
  bool initialised;
  return x.transposed ? matrix_location(x.data, columns, rows, x.ld, &initialised)
                      : matrix_location(x.data, rows, columns, x.ld, &initialised);
}

bool tb_places_find(const struct tb_gemm *call, struct tb_places *places) {
  if (call->m == 0 || call->n == 0 || !driver_is_there()) return false;
  bool initialised;
  memset(places, 0, sizeof *places);
  places->c = matrix_location(call->c, call->m, call->n, call->ldc, &initialised);
  if (!initialised) return false;
  if (!tb_gemm_is_trivial(call)) {
    places->a = view_location(call->a, call->m, call->k);
    places->b = view_location(call->b, call->k, call->n);
  }
  return places->a.place != TB_PAGEABLE || places->b.place != TB_PAGEABLE || places->c.place != TB_PAGEABLE;
}

const char *tb_place_text(enum tb_place place) {
  static const char *const text[] = {"host", "pinned", "managed", "device"};
  return text[place];
}
