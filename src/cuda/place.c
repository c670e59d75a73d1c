/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "cuda/place.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "process/libraries.h"

/* ---- is there a driver that could know a pointer? ---- */

static atomic_bool out_of_use;    /* the driver is unusable here: too old, or a fork's parent used it */
static atomic_llong looked_at_ns; /* the tick in which the latest look began that found none */
static atomic_bool hangs;         /* no GPU answers any more: a question to the driver might not be answered either */
static bool cycles_are_time;      /* the processor's counter never stops. Written once, before it is read */
static atomic_ullong libraries;   /* loaded by then since the process began; 0: never looked */

struct library_look {
  unsigned long long libraries, known;
  bool found;
};

static int look_at_library(struct dl_phdr_info *info, size_t size, void *opaque) {
  (void)size;
  struct library_look *look = opaque;
  look->libraries = info->dlpi_adds;
  if (look->libraries == look->known) return 1;
  look->found = info->dlpi_name != NULL && strstr(info->dlpi_name, "libcuda.so") != NULL;
  return look->found;
}

static bool is_the_driver(const char *line) { return strstr(line, "/libcuda.so") != NULL; }

/* Not by dlopen: it waits for the loader, which may be waiting for us in a constructor; this walk does not. What it
 * stores is stored when it is over, so that a thread which skips the look relies on a whole one. */
static bool driver_appeared(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  long long now_ns = (long long)t.tv_sec * 1000000000 + t.tv_nsec;
  if (now_ns == atomic_load_explicit(&looked_at_ns, memory_order_acquire)) return false;
  struct library_look look = {.known = atomic_load_explicit(&libraries, memory_order_relaxed)};
  const bool looked = tb_libraries_visit(look_at_library, &look);
  if (look.found || (!looked && tb_libraries_may_map(is_the_driver))) return true;
  atomic_store_explicit(&libraries, look.libraries, memory_order_relaxed);
  atomic_store_explicit(&looked_at_ns, now_ns, memory_order_release);
  return false;
}

/* It stops in the sleep of old processors alone; a hypervisor may be silent about it, but has none of those. */
static bool counter_never_stops(void) {
#ifdef __x86_64__
  unsigned a, b, c = 0, d = 0;
  const bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
  const bool hypervisor = __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 31);
  return invariant || hypervisor;
#else
  return false;
#endif
}

static bool driver_is_there(void) {
  const uint64_t now = tb_cycles();
  bool there = !atomic_load_explicit(&out_of_use, memory_order_relaxed) && (tb_cuda_is_loaded() || driver_appeared());
  if (!there && cycles_are_time) tb_thread.looked_at_cycles = now;
  return there;
}

static bool can_ask(void) {
  if (tb_cuda_load()) return true;
  atomic_store(&out_of_use, true);
  return false;
}

void tb_places_avoid_driver(void) { atomic_store(&hangs, true); }

void tb_places_after_fork(void) { atomic_store(&out_of_use, true); }

/* ---- the process's own memory ---- */

/* Variables that glibc exports: what sbrk(0) returns, without the call, and the start of the main thread's stack. */
extern void *__curbrk __attribute__((weak));
extern void *__libc_stack_end __attribute__((weak));

/* Written once, before it is read. No heap is one that begins where all memory ends. */
static void *const end_of_memory = (void *)UINTPTR_MAX;
struct tb_own_memory tb_own_memory = {.heap_start = UINTPTR_MAX, .heap_end = &end_of_memory};

/* The mapping of a /proc/self/maps, read piece by piece, that holds an address; its start, or 0. */
static uintptr_t start_of_mapping(int maps, uintptr_t address) {
  enum { START, END, REST } part = START;
  char text[1024];
  uintptr_t number = 0, start = 0;
  for (ssize_t length; (length = read(maps, text, sizeof text)) > 0;) {
    for (const char *c = text; c < text + length; c++) {
      if (*c == '\n') {
        part = START;
        number = 0;
      } else if (part == START && *c == '-') {
        part = END;
        start = number;
        number = 0;
      } else if (part == END && *c == ' ') {
        part = REST;
        if (address < number) return address >= start ? start : 0;
      } else if (part != REST) {
        number = number << 4 | (uintptr_t)(*c <= '9' ? *c - '0' : *c - 'a' + 10);
      }
    }
  }
  return 0;
}

/* Where nobody has asked for any, it begins at the break; otherwise where the last mapping below that begins now. It
 * shrinks and grows at its end alone. */
static void find_heap(void) {
  if (&__curbrk == NULL) return;
  if (__curbrk == NULL) {
    const intptr_t here = (intptr_t)sbrk(0);
    if (here == -1 || __curbrk == NULL) return;
    tb_own_memory.heap_start = (uintptr_t)here;
    tb_own_memory.heap_end = &__curbrk;
    return;
  }
  int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return;
  uintptr_t start = start_of_mapping(maps, (uintptr_t)__curbrk - 1);
  close(maps);
  if (start == 0) return;
  tb_own_memory.heap_start = start;
  tb_own_memory.heap_end = &__curbrk;
}

/* The last writable segment of the program itself, which unlike a library is there as long as the process. */
static void find_data(void) {
  const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR), *table = NULL, *data = NULL;
  for (size_t i = 0; headers != NULL && i < getauxval(AT_PHNUM); i++) {
    if (headers[i].p_type == PT_PHDR) table = &headers[i];
    if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_W)) data = &headers[i];
  }
  if (table == NULL || data == NULL) return;
  tb_own_memory.data_start = (uintptr_t)headers - table->p_vaddr + data->p_vaddr;
  tb_own_memory.data_bytes = data->p_memsz;
}

void tb_places_initialise(void) {
  int saved_errno = errno; /* BLAS calls do not change errno */
  find_heap();
  find_data();
  if (&__libc_stack_end != NULL) tb_own_memory.stack_start = (uintptr_t)__libc_stack_end;
  cycles_are_time = counter_never_stops();
  errno = saved_errno;
}

/* ---- what is this pointer? ---- */

/* Whether the CPU can read there, found out without reading: the kernel fails with EFAULT where it cannot, and with
 * EINVAL for the impossible first argument where it can. */
static bool is_readable(const void *p) {
  const uintptr_t word = (uintptr_t)p & ~(uintptr_t)7;
  const size_t kernel_sigset_bytes = 8;
  int saved_errno = errno; /* BLAS calls do not change errno */
  bool readable = syscall(SYS_rt_sigprocmask, -1, word, NULL, kernel_sigset_bytes) == 0 || errno != EFAULT;
  errno = saved_errno;
  return readable;
}

/* *initialised becomes false when nobody has called cuInit: then no pointer is CUDA's. */
static struct tb_location location_of(const void *p, bool *initialised) {
  struct tb_location l = {.place = TB_PAGEABLE, .device = -1};
  *initialised = true;
  if (atomic_load_explicit(&hangs, memory_order_relaxed) && is_readable(p)) return l; /* nothing is up to the GPU */
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

bool tb_places_is_cudas(const void *p) {
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void *value = &type;
  return tb_cuda.cuPointerGetAttributes(1, &attribute, &value, (CUdeviceptr)p) != CUDA_SUCCESS || type != 0;
}

/* A matrix of `columns` stored columns. Memory that was pinned in part is as good as pageable. */
static struct tb_location matrix_location(enum tb_type type, const void *p, int64_t rows, int64_t columns, int64_t ld,
                                          bool *initialised) {
  struct tb_location l = location_of(p, initialised);
  const void *last = tb_elements_behind(type, p, (columns - 1) * ld + rows - 1);
  if (l.place == TB_PINNED && location_of(last, initialised).place != TB_PINNED) l.place = TB_PAGEABLE;
  return l;
}

static struct tb_location view_location(struct tb_view x, int64_t rows, int64_t columns) {
  bool initialised;
  return x.transposed ? matrix_location(x.type, x.data, columns, rows, x.ld, &initialised)
                      : matrix_location(x.type, x.data, rows, columns, x.ld, &initialised);
}

/* Whether what the driver could say of the operands, that they are pinned, would change next to nothing. */
static bool are_own_and_few(const struct tb_call *call) {
  const char mark = 0;
  const uintptr_t here = (uintptr_t)&mark;
  return (double)call->m * (double)call->n * (double)call->k <= TB_OWN_TERMS_MOST && tb_is_own(call->a.data, here) &&
         tb_is_own(call->b.data, here) && tb_is_own(call->c, here);
}

bool tb_places_are_plain(const struct tb_call *call) {
  return call->m == 0 || call->n == 0 || are_own_and_few(call) || !driver_is_there();
}

bool tb_places_find(const struct tb_call *call, struct tb_places *places) {
  if (tb_places_are_plain(call) || !can_ask()) return false;
  bool initialised;
  memset(places, 0, sizeof *places);
  places->c = matrix_location(call->type, call->c, call->m, call->n, call->ldc, &initialised);
  if (!initialised) return false;
  if (!tb_call_is_trivial(call)) {
    places->a = view_location(call->a, tb_call_a_rows(call), call->k);
    places->b = view_location(call->b, tb_call_b_rows(call), call->n);
  }
  return places->a.place != TB_PAGEABLE || places->b.place != TB_PAGEABLE || places->c.place != TB_PAGEABLE;
}

const char *tb_place_text(enum tb_place place) {
  static const char *const text[] = {"host", "pinned", "managed", "device"};
  return text[place];
}
