/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One GPU as the offload uses it: primary context (shared with the program's own CUDA code), kernels, streams, events,
 * pinned rings and one arena of device memory, kept from call to call. Calls that are on a GPU at once have a lane each
 * (lanes.h): a struct tb_device with streams, events, rings and an arena of its own. Each is one call's at a time,
 * which the gate sees to; every function but tb_device_count, tb_device_open and tb_device_close wants the device
 * entered (its context current).
 */
#ifndef TB_DEVICE_H
#define TB_DEVICE_H

#include <stddef.h>

#include "select/kernels.h"
#include "plan/plan.h"
#include "process/entry.h"
#include "process/pool.h"
#include "base/status.h"

/* Pinned staging: a few slots keep the link busy while the CPU fills the next. */
/* Of a direction. What the threads write stays in their cores' own caches, from which the GPU reads at 20 GB/s, until
 * what they write later drives it out: with so many slots between, 16384 cubed comes up at 44 GB/s, with half as many
 * at 39 (H200, 16 cores of 2 MiB; with twice as many 8192 cubed takes 12.3 instead of 11.7 ms, 16384 54.5 instead of
 * 55.5). To pin memory takes time, so a ring has only some of them before it has use for all. */
#define TB_SLOTS 16
#define TB_SLOTS_FIRST 8
/* A further lane has so many for small calls, TB_SLOTS_FIRST from its first larger one on, and never more. */
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
  int slots, most_slots;   /* that there are, and that there may be */
  int earned_slots;        /* that there are to be: the others are had beside calls (widening.h) */
  bool ordered;            /* they are */
  int piece_slots;         /* of a piece of the call at hand: 1 or TB_PIECE_SLOTS */
  double staged_bytes;     /* in all calls, by which the others are earned */
  char *slot[TB_SLOTS];    /* pinned, TB_SLOT_BYTES each */
  uint32_t allocated;      /* a bit for each slot with which an allocation begins */
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

enum tb_mark { TB_UP_BEGIN, TB_UP_END, TB_COMPUTE_BEGIN, TB_COMPUTE_END, TB_DOWN_BEGIN, TB_DOWN_END, TB_MARK_COUNT };

/* The latest product that kernels were selected for: a call's, and a tile's of it. */
enum tb_selected_for { TB_SELECTED_FOR_CALL, TB_SELECTED_FOR_TILE, TB_SELECTED_COUNT };
struct tb_selected {
  struct tb_product product; /* m = 0: none yet */
  struct tb_choice choice;
};

struct tb_device {
  int lane;               /* whose gate the call under way holds; 0: the GPU itself, which has the context */
  struct tb_lanes *lanes; /* of the GPU, and those that are open; NULL: it has no others */
  struct tb_device *const *all_lanes;
  bool beside_others; /* the call under way is: others may be on the GPU in other lanes */
  int ordinal;        /* CUDA's number */
  char name[96];
  int sm_count, driver_version;
  CUdevice handle;
  CUcontext context;
  struct tb_kernels kernels;
  struct tb_pipeline *pipeline;     /* pipeline.c's memory for a call */
  struct tb_triangular *triangular; /* and triangular.c's */
  struct tb_batch_pipeline *batch;  /* the same of a batch */
  CUfunction commit;
  CUstream up, down, compute[TB_COMPUTE_STREAMS];
  CUstream packing; /* packs panels that are up, for the tensor cores */
  CUstream ordered; /* computes when operands are in place: ordered with the program's work in the default stream */
  struct tb_ring up_ring, down_ring;
  bool in_team;         /* others have parts of the call: no signal is let in, whose handler might leave it */
  struct tb_pool *pool; /* copies between the program's memory and the rings; gpus.c's */
  CUevent uploaded;     /* behind a panel that was copied directly */
  CUevent packed;       /* behind the latest panel that was packed */
  CUevent drained[TB_COMPUTE_STREAMS];            /* behind the launches that read the operands' buffers */
  CUevent half[TB_COMPUTE_STREAMS];               /* behind those of the first half of a chunk's panels */
  CUevent tile_done[TB_TILES_MAX * TB_TILES_MAX]; /* behind each tile's last launch; made when first needed */
  CUevent marks[TB_MARK_COUNT];                   /* with timing, for the verbose line */
  /* For panels that are passed between GPUs (exchange.h), made when first needed. */
  CUstream fetching; /* copies from other GPUs */
  CUevent fetched;   /* behind the latest of them */
  /* behind the upload of each slice of a panel that others will fetch */
  CUevent sent[TB_EMULATED_SLICES_MAX * TB_TILES_MAX];
  CUdeviceptr arena;
  int64_t arena_bytes;
  struct tb_selected selected[TB_SELECTED_COUNT]; /* part.c's */
  int64_t memory_bytes;                           /* all that the device has; 0 before it was asked for */
  double patience_seconds;                        /* that nothing may happen in the call under way */
  bool hangs;                                     /* nothing did: the driver may not be asked to wait any more */
};

/* Nominal, of fp32 or fp64. */
static inline double tb_device_peak_flops_per_s(const struct tb_device *d, enum tb_type type) {
  if (tb_type_is_double(type)) return d->kernels.device.fp64.flops_per_second;
  return 2e6 * d->kernels.device.fma_per_us * d->kernels.device.sm_count;
}

/* Starts the driver and counts the GPUs, one or more. On failure returns why, and writes the failing function and error
 * into detail. TB_STATUS_not_now: another try may fare better. */
enum tb_status tb_device_count(int *count, char *detail, size_t detail_size);

/* Opens the GPU of this number. On failure returns why as above, with nothing left open. */
enum tb_status tb_device_open(struct tb_device *device, int ordinal, char *detail, size_t detail_size);

/* Gives everything back. Safe after any failure, the loss of the device included. Of a device that hangs nothing can be
 * given back: all of it stays where it is. */
void tb_device_close(struct tb_device *device);

/* Makes the device's context current in this thread, and restores what was. */
CUresult tb_device_enter(struct tb_device *device);
void tb_device_leave(void);

/* The same of the other lanes' arenas. The caller is alone. */
void tb_device_trim_others(struct tb_device *device);

/* Opens a further lane of a GPU that is entered; and gives back what it has. A lane that could not be opened is closed,
 * too. */
CUresult tb_device_open_lane(struct tb_device *lane, const struct tb_device *gpu);
void tb_device_close_lane(struct tb_device *lane);

/* What the driver says is free, in bytes, the arena counted as free. Of who is alone the other lanes' are given back.
 */
CUresult tb_device_free_bytes(struct tb_device *device, int64_t *bytes);

/* Makes the arena at least `bytes` large. On failure there is no arena. */
CUresult tb_device_reserve(struct tb_device *device, int64_t bytes);

/* Gives a ring so many slots more, of pinned memory that is one allocation, and closes with it. */
void tb_ring_add(struct tb_ring *ring, void *memory, int slots);

/* Gives the arena back if it is larger than keep_bytes. */
void tb_device_trim(struct tb_device *device, int64_t keep_bytes);

/* Waits for what is enqueued in a stream. CUDA_ERROR_TIMEOUT: the device hangs, and says so. */
CUresult tb_device_wait(struct tb_device *device, CUstream stream);

/* Waits for everything that was enqueued, whatever it comes to, unless the device hangs. */
void tb_device_settle(struct tb_device *device);

/* The event behind tile number `tile`, made when first needed. */
CUresult tb_device_tile_event(struct tb_device *device, int64_t tile, CUevent *event);

/* The same behind the upload of a slice of a panel. */
CUresult tb_device_panel_event(struct tb_device *device, int64_t panel, int64_t slice, CUevent *event);

/* Has device->fetching and device->fetched made. */
CUresult tb_device_open_fetching(struct tb_device *device);

/* -1: it does not tell. */
int tb_device_attribute(const struct tb_device *device, CUdevice_attribute which);

/* In words, as snprintf has it. */
int tb_device_describe(const struct tb_device *device, char *text, size_t size);

/* The driver's version, as the kernel has it; "unknown". */
void tb_device_driver_text(char *text, size_t size);

#endif
