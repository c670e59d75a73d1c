/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room on the stack. A CPU BLAS gets along with the smallest stack that a thread may have, 16 KiB; the CUDA driver does
 * not, nor do those who read files and measure. Where there is less room than TB_STACK_BYTES, such work is done by a
 * thread of our own, for which the caller waits. Thread-safe.
 */
#ifndef TB_STACK_H
#define TB_STACK_H

#include <stdbool.h>
#include <stddef.h>

/* That must be left of the caller's stack. Threads of Java, the smallest in which the driver is widely used, have twice
 * as much. */
#define TB_STACK_BYTES ((size_t)512 << 10)

/* Whether the caller's stack has room. False, too, where it is not the one that the thread began with (a coroutine's, a
 * signal handler's): nobody knows where that ends. */
bool tb_stack_has_room(void);

/* Calls work(context) in a thread with a stack of a usual size, in the caller's stead if it is within a call (guest.h),
 * and waits for its end. False: there is no thread to be had. */
bool tb_stack_run(void (*work)(void *context), void *context);

#endif
