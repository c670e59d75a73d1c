/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a call's operands lie. A program that uses CUDA itself may pass pointers to device, managed or pinned memory;
 * the CPU must not touch the first, and none of them needs staging. Thread-safe and lock-free.
 *
 * The driver can name any pointer, in a tenth of a microsecond: three of them take longer than a tiny product. Two
 * things are certain without it, and tb_places_are_harmless knows both; all other memory is the driver's to name, in
 * every call.
 *
 * No driver. No memory is CUDA's before libcuda.so is loaded and initialised, which takes a driver tens of
 * milliseconds; so it is enough to look for it among the loaded libraries once a tick of the coarse clock (1 to 10 ms),
 * and only when a library was loaded since the last look. A thread lets its own look count for TB_LOOK_CYCLES of the
 * processor's counter, which takes a quarter of the clock's instructions to read.
 *
 * Own memory. Device and managed memory lies in mappings that the driver makes, at addresses that are free. So it never
 * lies in memory that the process has and keeps, whoever frees what in it: in the heap, as far as brk says that it
 * reaches at the moment of the call; in the variables of the program itself; in the part of the main thread's stack
 * that is in use. Not meant are what malloc maps apart, the arenas and stacks of other threads, and the variables of
 * libraries: those come and go. Nothing is remembered of any pointer, so no allocation at an old address is mistaken
 * for what was there. What the program pinned of its own memory is not recognised, but pinned memory alone keeps no
 * small product from the CPU; of products of more than TB_OWN_TERMS_MOST terms the driver is asked about own memory,
 * too.
 */
#ifndef TB_PLACE_H
#define TB_PLACE_H

#include "blas/call.h"
#include "base/inline.h"
#include "base/thread.h"

/* Of products of at most so many terms m n k, memory that is the process's own is not looked at any further. */
#define TB_OWN_TERMS_MOST (160.0 * 160 * 160)

enum tb_place {
  TB_PAGEABLE, /* ordinary memory: everything that CUDA does not know */
  TB_PINNED,   /* the host's, and the GPUs reach it by the same address */
  TB_MANAGED,  /* moves to where it is used */
  TB_DEVICE    /* a GPU's own: the CPU must not touch it */
};

struct tb_location {
  enum tb_place place;
  int device;          /* CUDA's number; -1: unknown. Of device memory alone */
  const void *context; /* that it was allocated in; NULL: in none, as memory of a pool is. Of device memory alone */
};

struct tb_places {
  struct tb_location a, b, c;
};

/*
 * Finds where the operands that the call touches lie; the others count as pageable. False: all are pageable, and
 * *places is unspecified.
 */
bool tb_places_find(const struct tb_call *call, struct tb_places *places);

/* Whether that takes no question to a driver, and is false. */
bool tb_places_are_plain(const struct tb_call *call);

/* Once, before the others: looks where the process's own memory lies. */
void tb_places_initialise(void);

/* Where own memory lies. Of what is not known, nothing. */
extern struct tb_own_memory {
  uintptr_t data_start, data_bytes; /* the program's variables */
  uintptr_t heap_start;
  void *const *heap_end;
  uintptr_t stack_start; /* of the main thread: it grows downwards from here */
} tb_own_memory;

/* The kernel keeps at least 128 MiB below the main thread's stack's start free of everything that is not mapped by
 * address; half of it is near enough to tell that stack from another. */
#define TB_STACK_BYTES_MAX ((uintptr_t)64 << 20)

TB_ALWAYS_INLINE bool tb_is_in_heap_or_data(const void *p) {
  const uintptr_t at = (uintptr_t)p;
  const struct tb_own_memory *own = &tb_own_memory;
  return at < (uintptr_t)*own->heap_end && (at >= own->heap_start || at - own->data_start < own->data_bytes);
}

/* In the part of the main thread's stack that is in use, if that is the stack we are on; `here` is an address in it. */
static inline bool tb_is_in_stack(const void *p, uintptr_t here) {
  const uintptr_t used_bytes = tb_own_memory.stack_start - here;
  return used_bytes < TB_STACK_BYTES_MAX && (uintptr_t)p - here < used_bytes;
}

/* No processor counts more slowly than 0.5 GHz: 8 ms at most. */
#define TB_LOOK_CYCLES ((uint64_t)1 << 22)

TB_ALWAYS_INLINE uint64_t tb_cycles(void) {
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  return TB_LOOK_CYCLES; /* so that a look is never taken for a fresh one */
#endif
}

/* In memory that the process has and keeps; `here` as above. */
static inline bool tb_is_own(const void *p, uintptr_t here) {
  return tb_is_in_heap_or_data(p) || tb_is_in_stack(p, here);
}

/*
 * True when it is certain, without a question to the driver, that the CPU may touch all three and none is managed
 * memory: tb_places_find would find nothing that keeps a small product from the CPU. False: ask it.
 */
TB_ALWAYS_INLINE bool tb_places_are_harmless(const void *a, const void *b, const void *c) {
  if (tb_is_in_heap_or_data(a) && tb_is_in_heap_or_data(b) && tb_is_in_heap_or_data(c)) return true;
  if (tb_cycles() - tb_thread.looked_at_cycles < TB_LOOK_CYCLES) return true;
  const char mark = 0;
  const uintptr_t here = (uintptr_t)&mark;
  return tb_is_own(a, here) && tb_is_own(b, here) && tb_is_own(c, here);
}

/* Whether the CPU cannot reach one of them. */
static inline bool tb_places_need_gpu(const struct tb_places *p) {
  return p->a.place == TB_DEVICE || p->b.place == TB_DEVICE || p->c.place == TB_DEVICE;
}

/* Whether CUDA knows the memory there, so that a GPU may write to it; or cannot say. The driver is loaded. */
bool tb_places_is_cudas(const void *p);

/* "device", "pinned" and so on, for the verbose line. */
const char *tb_place_text(enum tb_place place);

/* From now on the driver is asked of memory alone that the CPU cannot read: it may have a lock of its own for as long
 * as a GPU hangs. */
void tb_places_avoid_driver(void);

/* In the child of a fork: the driver is not asked any more. */
void tb_places_after_fork(void);

#endif
