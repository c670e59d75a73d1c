/* SPDX-License-Identifier: BSD-3-Clause */
/* What the pieces of a call, one behind another, come to together; and one of them by the CPU. Thread-safe. */
#ifndef TB_PIECES_H
#define TB_PIECES_H

#include "offload/offload.h"

/* Bytes and times add up. */
void tb_pieces_add(struct tb_outcome *sum, const struct tb_outcome *next);

/* A piece that no GPU takes any more, by the CPU: the one before is in C. */
void tb_pieces_finish(const struct tb_call *call, const struct tb_places *places, struct tb_outcome *outcome);

#endif
