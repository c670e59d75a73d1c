/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a call's operands lie. A program that uses CUDA itself may pass pointers to device, managed or pinned memory;
 * the CPU must not touch the first, and none of them needs staging. Thread-safe and lock-free.
 *
 * Asking costs the small call of a program without CUDA one reading of the coarse clock (some nanoseconds). No memory
 * is CUDA's before libcuda.so is loaded and initialised, which takes a driver tens of milliseconds; so it is enough to
 * look for it among the loaded libraries once a tick of that clock (1 to 10 ms), and only when a library was loaded
 * since the last look. From then on every pointer is the driver's to name, one call each.
 */
#ifndef TB_PLACE_H
#define TB_PLACE_H

#include "blas_call.h"

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
bool tb_places_find(const struct tb_gemm *call, struct tb_places *places);

/* Whether the CPU cannot reach one of them. */
static inline bool tb_places_need_gpu(const struct tb_places *p) {
  return p->a.place == TB_DEVICE || p->b.place == TB_DEVICE || p->c.place == TB_DEVICE;
}

/* "device", "pinned" and so on, for the verbose line. */
const char *tb_place_text(enum tb_place place);

/* In the child of a fork: the driver is not asked any more. */
void tb_places_after_fork(void);

#endif
