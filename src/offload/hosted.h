/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last resort for operands in GPU memory: copies in the host's, so that a call which our GPU cannot take goes any
 * way that an ordinary one can, the CPU's included. Slow and always right. Thread-safe; needs no GPU of ours.
 */
#ifndef TB_HOSTED_H
#define TB_HOSTED_H

#include "cuda/place.h"

struct tb_hosted {
  struct tb_call call; /* of what the original asks, on operands that the CPU reaches; C holds what C holds */
  void *copy_a, *copy_b, *copy_c;
  void *c; /* the original's, and where it lies */
  int64_t ldc;
  struct tb_location c_location;
};

/*
 * Copies down what the GPU holds: device memory and, with managed_too, managed memory, which the CPU may not reach
 * after a GPU failed. False: it cannot be copied; nothing is kept, and a line on stderr says that C is not computed.
 */
bool tb_hosted_begin(struct tb_hosted *hosted, const struct tb_call *call, const struct tb_places *places,
                     bool managed_too);

/* Copies C up if it was copied down, and frees the copies. False: it could not be, and a line on stderr says so. */
bool tb_hosted_end(struct tb_hosted *hosted);

#endif
