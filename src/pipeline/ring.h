/* SPDX-License-Identifier: BSD-3-Clause */
/* The pinned slots by which a GPU's copies go one way, used in turn. Each is one call's at a time. */
#ifndef TB_RING_H
#define TB_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/driver.h"
#include "plan/plan.h"

/* Pinned staging: a few slots keep the link busy while the CPU fills the next. */
/* Of a direction. What the threads write stays in their cores' own caches, from which the GPU reads at 20 GB/s, until
 * what they write later drives it out: with so many slots between, 16384 cubed comes up at 44 GB/s, with half as many
 * at 39 (H200, 16 cores of 2 MiB; with twice as many 8192 cubed takes 12.3 instead of 11.7 ms, 16384 54.5 instead of
 * 55.5). To pin memory takes time, so a ring has only some of them before it has use for all. */
#define TB_SLOTS 16
#define TB_SLOTS_FIRST 8
/* A further lane has so many for small calls, TB_SLOTS_FIRST from its first larger one on, and all from its first large
 * one on. */
#define TB_SLOTS_SMALL 4
/*
 * Slots of a piece in large calls: neighbours, which follow each other in memory. Between two copies the link waits
 * some 3 us, so that of its 55.4 GB/s copies of 1, 2, 4 and 8 MiB one after another reach 49, 52, 53.5 and 54.4, and
 * 42, 46, 48 and 49 each way when both ways are busy (H200; by several streams in turns no more). In smaller calls
 * there would be too few of them: the link would wait for the first ones.
 */
#define TB_PIECE_SLOTS 2
_Static_assert(TB_SLOTS_SMALL % TB_PIECE_SLOTS == 0 && TB_SLOTS_FIRST % TB_PIECE_SLOTS == 0 &&
                   TB_SLOTS % TB_PIECE_SLOTS == 0,
               "a piece's slots are of one allocation");

struct tb_ring {
  int slots;               /* that there are */
  int earned_slots;        /* that there are to be: the others are had beside calls (widening.h) */
  bool ordered;            /* they are */
  int piece_slots;         /* of a piece of the call at hand: 1 or TB_PIECE_SLOTS */
  double credit_bytes;     /* that went by it; less than none since slots were refused: then it earns none */
  char *slot[TB_SLOTS];    /* pinned, TB_SLOT_BYTES each */
  uint32_t allocated;      /* a bit for each slot with which an allocation begins */
  uint32_t registered;     /* of them those that are the process's memory, not the driver's (widening.h) */
  CUevent moved[TB_SLOTS]; /* recorded behind the copy that uses the slot, or it and those behind it */
};

static inline void *tb_slot(const struct tb_ring *ring, int slot) { return ring->slot[slot]; }

/* Of a ring round which pieces go: how many there are at a time; the most bytes of one; and the first slot of the
 * piece of this number. */
static inline int tb_ring_pieces(const struct tb_ring *ring) { return ring->slots / ring->piece_slots; }
static inline int64_t tb_ring_piece_bytes(const struct tb_ring *ring) { return ring->piece_slots * TB_SLOT_BYTES; }
static inline int tb_slot_of(const struct tb_ring *ring, uint64_t number) {
  return (int)(number % (uint64_t)tb_ring_pieces(ring)) * ring->piece_slots;
}

/* Gives a ring so many slots more, of pinned memory that is one allocation, and closes with it. */
static inline void tb_ring_add(struct tb_ring *ring, void *memory, int slots) {
  for (int i = 0; i < slots; i++) ring->slot[ring->slots + i] = (char *)memory + i * TB_SLOT_BYTES;
  ring->allocated |= 1u << ring->slots;
  ring->slots += slots;
}

#endif
