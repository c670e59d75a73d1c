/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which calls are small: what the short way (interface/short_way.h) must know of the options and of the model, gathered
 * where it is read by a relaxed load. Thread-safe.
 */
#ifndef TB_SMALL_H
#define TB_SMALL_H

#include <stdatomic.h>

#include "blas/type.h"

extern struct tb_small {
  atomic_ullong terms[TB_TYPE_COUNT]; /* of each type, products of fewer terms m n k may go the short way:
                                         tb_route_small_terms, or 1 for none */
  atomic_ullong which;                /* of the thread's sums counts them */
} tb_small;

/* After any change of an option or of tb_route_small_terms. */
void tb_small_update(void);

/* The child of a fork starts with an unlocked lock. */
void tb_small_after_fork(void);

#endif
