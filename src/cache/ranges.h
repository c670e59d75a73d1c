/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of which the program has said that its matrices are worth a copy on the GPU (tileblas_keep). What is in it is
 * proven as everything else is. Thread-safe; touches no GPU and none of that memory.
 */
#ifndef TB_RANGES_H
#define TB_RANGES_H

#include "cache/stored.h"

/* Adds [start, end). False: there are too many ranges apart from each other. */
bool tb_ranges_keep(uintptr_t start, uintptr_t end);

/* Takes [start, end) out, of whatever ranges it is a part of. False: as above, for a range may become two. */
bool tb_ranges_forget(uintptr_t start, uintptr_t end);

/* Whether all of a matrix lies in them. Lock-free while there are none. */
bool tb_ranges_have(const struct tb_stored *operand);

void tb_ranges_after_fork(void);

#endif
