/* SPDX-License-Identifier: BSD-3-Clause */
/* A call on the GPUs as the products that it is made of, one behind another. Thread-safe. */
#ifndef TB_PRODUCTS_H
#define TB_PRODUCTS_H

#include "offload/offload.h"

/*
 * As tb_offload_call, of a call that may be two products: syr2k's and her2k's that are no one sum. Each is complete, by
 * whomever, before the next begins, so the call is as safe as its products. Once the first is in C the rest is computed
 * whatever becomes of the GPUs. The outcome is that of all of them: bytes and times add up.
 */
bool tb_level3_offload(const struct tb_call *call, const struct tb_places *places, bool timed,
                       struct tb_outcome *outcome);

#endif
