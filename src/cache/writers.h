/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether everybody who can write to some memory would take a fault there, so that the kernel's word of what was
 * written is enough (track.h). docs/residency.md goes through the cases. Where anything is unknown the answer is no,
 * and the bytes are digested. Thread-safe.
 */
#ifndef TB_WRITERS_H
#define TB_WRITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/track.h"

/* Whether the kernel may be asked to track at all: where system calls are filtered, one more may end the process. */
bool tb_writers_may_ask(void);

/* The private anonymous mapping that has all of some pages, whole. False: there is none. */
bool tb_writers_find_mapping(struct tb_tracked pages, struct tb_tracked *mapping);

/* Whether nobody is known who could write unseen: who was not found the last time, or is not by a look at what the
 * process has open. To be asked again behind that. */
bool tb_writers_seem_to_fault(void);

/* To be asked when the pages, of some runs in order, are write-protected: who pins them later takes a fault, who has
 * pinned them before is what is looked for. */
bool tb_writers_of_runs_all_fault(const struct tb_tracked runs[], int count);

/* The same in two parts: all but CUDA, in some 0.1 ms; and whether the program has registered any of the pages with
 * CUDA, for which the driver is asked about each: 0.1 us, by one thread, for several hold each other up. The latter is
 * to be asked beside other work. */
bool tb_writers_fault_but_cuda(const struct tb_tracked runs[], int count);
bool tb_writers_have_cudas(struct tb_tracked pages);

#endif
