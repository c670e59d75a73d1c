/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/ending.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* The C library's, which runs what belongs to no library when the process ends alone. */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *library);

/*
 * By then this library may be gone, and so may any memory of its own. So a function of the C library's leaves the mark
 * in a variable of the C library's: the level of concurrency, which it keeps and never uses.
 */
#define MARK 0x7b1a5

static atomic_bool watched;

bool tb_process_is_ending(void) { return !watched || pthread_getconcurrency() == MARK; }

void tb_process_watch(void) {
  void (*const leave_mark)(void *) = (void (*)(void *))(void (*)(void))pthread_setconcurrency;
  watched = __cxa_atexit(leave_mark, (void *)(uintptr_t)MARK, NULL) == 0;
}
