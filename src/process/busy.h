/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the program's threads keep the cores busy. Nobody is asked: who waits for a core notices. A thread that is
 * woken where cores are free is there after 15 to 40 microseconds, and later when others woke it (16 cores of a virtual
 * machine). Thread-safe.
 */
#ifndef TB_BUSY_H
#define TB_BUSY_H

#include <stdbool.h>

/* Who comes so late to a core has found it busy; and who was kept so long at a task of some ten microseconds. */
#define TB_BUSY_LATE_SECONDS 300e-6
#define TB_BUSY_HELD_UP_SECONDS 1e-3

/* How long cores are taken for busy that were found so. To find it again costs a call a millisecond or two. */
#define TB_BUSY_SECONDS 1.0

/* A core was found busy. */
void tb_busy_found(double now);

/* Whether one was, lately. */
bool tb_busy_lately(double now);

/*
 * The calling thread, which has nothing to do, offers its core: others may have it for a moment. OpenBLAS's threads,
 * which offer it themselves, give it back in 10 microseconds. One of GNU OpenMP's keeps it for a millisecond and up to
 * eight; then the core is found busy, and this thread makes no offer for a while.
 */
void tb_busy_offer_core(void);

#endif
