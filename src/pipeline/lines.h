/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of memory that leave a core's caches when the program says so. A GPU reads at 20 to 30 GB/s what lies changed
 * in the caches of cores, and writes as slowly where cores have just read; where they have not, or where the lines were
 * made to leave, at 50 (H200, 16 cores; 16 MiB in copies of 2: up behind ordinary stores 23 GB/s, written back 51, as
 * behind streaming stores; down over lines that were read 20 to 39, over dropped ones 53). Each line takes its time,
 * though: where there are many megabytes of them, cores that copy are then slower than the link. Any address, any
 * length; what the memory holds stays as it is. Thread safe.
 */
#ifndef TB_LINES_H
#define TB_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the processor has both instructions. On one that has not, what follows has no effect. */
bool tb_lines_can_leave(void);

/* To memory; the caches may keep them, unchanged. */
void tb_lines_write_back(const void *address, size_t bytes);

/* To memory, and out of all caches. */
void tb_lines_drop(const void *address, size_t bytes);

#endif
