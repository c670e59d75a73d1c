/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls go in to a GPU beside others, and how many at once. Thread-safe. */
#ifndef TB_BESIDE_H
#define TB_BESIDE_H

#include "cuda/place.h"
#include "pipeline/device.h"

/*
 * The room that a call takes among TB_LANES (process/entry.h), by its company (blas/call.h). Alone goes
 * what is no product, what has operands on the GPU, what opens one, and all calls while TILEBLAS_MEMORY_LIMIT is set.
 *
 *   bytes moved        at once   fp32
 *   up to 8 MB              4    816 cubed
 *   up to 1 GiB             2    9459 cubed; they go up in turns (pipeline/lanes.h)
 *   more                    1
 *
 * On an H200 four threads that go in all at once reach 2.8 times one thread's products a second at 256 cubed, 2.5 at
 * 512, 1.1 at 1024, and 0.8 at 4096; two reach 1.9, 1.9, 1.5 and 0.9.
 */
int tb_beside_room(const struct tb_call *call, const struct tb_places *places);

/* The GPU for it, in a lane that is the caller's. NULL: it has to go in alone. */
struct tb_device *tb_beside_find(int lane);

#endif
