/* SPDX-License-Identifier: BSD-3-Clause */
/* How many threads copy for a GPU. Pure but for what the machine is; thread-safe. */
#ifndef TB_COPYING_H
#define TB_COPYING_H

#include "process/pool.h"

/* Threads for one of `sharing` GPUs: the cores that the process may use, shared out, at most as many as it takes to
 * fill a link. NULL: there are none but the caller. */
struct tb_pool *tb_copying_open(int sharing);

#endif
