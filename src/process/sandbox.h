/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the program has shut itself in: a seccomp filter may end a process that opens a file. A filter that was there
 * when the library was loaded, a container's, is none of our business: it let the loader open the library. One that
 * came later is the program's own, and from then on its thread opens nothing on our behalf.
 *
 * Under a filter from the start a second one cannot be seen, unless the thread has given up gaining rights meanwhile,
 * as a program without privileges must before it sets one.
 */
#ifndef TB_SANDBOX_H
#define TB_SANDBOX_H

#include <stdbool.h>

/* When the library is loaded. */
void tb_sandbox_at_load(void);

/* The calling thread, now: one call of the system, or two where the thread has shut itself in. Thread-safe. */
bool tb_sandboxed(void);

#endif
