/* SPDX-License-Identifier: BSD-3-Clause */
/* What both ways of a batch share: pieces, their lists and their launches. Under offload.c's lock. */
#ifndef TB_PIPELINE_BATCH_INTERNAL_H
#define TB_PIPELINE_BATCH_INTERNAL_H

#include "base/integers.h"
#include "pipeline/batch.h"
#include "pipeline/copy.h"

/* Products of a piece: of smaller ones more would fit, of which a piece then is smaller. */
#define TB_BATCH_PIECE_PRODUCTS 1024

/* One product of a piece. */
struct tb_batch_item {
  struct tb_call call;
  struct tb_batch_place place;
  int64_t number; /* in the batch */
  int variant;
  bool shares_a, shares_b; /* with the item before, of which it has the same matrix */
};

/*
 * A piece, and what of the device is its own, in bytes behind its region's start:
 *
 *      operands and list, as they come up | operands made real | results
 */
struct tb_batch_piece {
  struct tb_batch_item item[TB_BATCH_PIECE_PRODUCTS];
  int count;
  int64_t up_bytes, real_bytes, down_bytes, list_at;
  uint64_t job; /* of the pool: its packing, then its commit; */
  int tasks;    /* so many */
  enum tb_stores stores;
  struct tb_pages *pages; /* of new results */
  char *slot_up, *slot_down;
};

/* Room of a region for each of the three. */
struct tb_batch_room {
  int64_t up_bytes, real_bytes, down_bytes;
};
static inline int64_t tb_batch_region_bytes(const struct tb_batch_room *room) {
  return room->up_bytes + room->real_bytes + room->down_bytes;
}

/* A stored operand. */
struct tb_batch_stored {
  int64_t rows, columns, ld, bytes; /* ld as it lies in a slot */
};

static inline struct tb_batch_stored tb_batch_stored(const struct tb_call *call, bool of_b) {
  const int64_t sides = of_b ? call->n : call->m;
  const bool along = tb_runs_along_k(call, of_b);
  struct tb_batch_stored s = {.rows = along ? call->k : sides, .columns = along ? sides : call->k};
  s.ld = tb_leading(call->type, s.rows);
  s.bytes = tb_round_up(s.ld * s.columns * tb_call_bytes(call), TB_LINE_BYTES);
  return s;
}

/* The least that a region is made for, and what it has for operands made real beside twice their memory. */
#define TB_BATCH_LEAST_BYTES ((int64_t)64 << 10)

/* Kept from call to call, of the device. */
struct tb_batch_pipeline {
  struct tb_batch_piece piece[TB_SLOTS];
};

/* The device's; NULL: there is no memory for it. */
struct tb_batch_pipeline *tb_batch_pipeline_of(struct tb_device *device);

/* Has an arena for as many regions as `most`, a power of two, or fewer; for less memory each is made smaller, too. */
CUresult tb_batch_reserve(struct tb_device *device, struct tb_batch_room *room, int *regions, int most);

/* Adds the product that the cursor is at, if the piece has room for it. in_place: for its list and its result alone. */
bool tb_batch_add(struct tb_batch_piece *piece, const struct tb_batch_room *room, const struct tb_batch_cursor *cursor,
                  bool in_place, uint64_t region);

/* Writes the list, sorted by variants, behind what the slot holds. */
void tb_batch_write_list(struct tb_batch_piece *piece);

/* Enqueues the launches of a piece whose list is in its region. in_place: also the commit of each C that is added to,
 * whose product is done when that is enqueued; NULL: the results are to come down. */
CUresult tb_batch_launch_piece(struct tb_device *device, const struct tb_batch_piece *piece,
                               const struct tb_batch_room *room, uint64_t region, struct tb_batch_progress *in_place,
                               CUstream stream);

/* The next of those products that has this state; false: there is none. */
bool tb_batch_seek(struct tb_batch_cursor *cursor, const struct tb_batch_progress *progress, enum tb_batch_state state);

#endif
