/* SPDX-License-Identifier: BSD-3-Clause */
/* trmm and trsm of triangles of any size: those that do not fit a GPU's memory as smaller ones and products.
 * Thread-safe.
 */
#ifndef TB_LEVEL3_TRIANGULAR_H
#define TB_LEVEL3_TRIANGULAR_H

#include "offload/offload.h"

/*
 * As tb_offload_call. A triangle that is too large is halved: each half is a smaller call of the same routine,
 * and between them is a product, on several GPUs where they pay. Each is complete, by whomever, before the next begins,
 * so the call is as safe as they are; once the first is in B the rest is computed whatever becomes of the GPUs.
 */
bool tb_level3_triangular(const struct tb_call *call, const struct tb_places *places, bool timed,
                          struct tb_outcome *outcome);

#endif
