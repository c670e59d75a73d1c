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

#include "cache/cache.h"
#include "select/kernels.h"
#include "pipeline/ring.h"
#include "plan/plan.h"
#include "process/entry.h"
#include "process/pool.h"
#include "base/status.h"

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
  CUfunction commit, digest;
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
  struct tb_cache *_Atomic cache; /* of operands that stay, for all lanes in lane 0; NULL: none has yet */
  struct tb_selected selected[TB_SELECTED_COUNT]; /* part.c's */
  int64_t memory_bytes;                           /* all that the device has; 0 before it was asked for */
  double patience_seconds;                        /* that nothing may happen in the call under way */
  bool hangs;                                     /* nothing did: the driver may not be asked to wait any more */
};

/* The GPU's operands that stay. */
static inline struct tb_cache *_Atomic *tb_device_cache_place(struct tb_device *d) {
  return d->all_lanes != NULL ? &d->all_lanes[0]->cache : &d->cache;
}
static inline struct tb_cache *tb_device_cache(const struct tb_device *d) {
  return d->all_lanes != NULL ? d->all_lanes[0]->cache : d->cache;
}

/* Nominal, of fp32 or fp64. */
static inline double tb_device_peak_flops_per_s(const struct tb_device *d, enum tb_type type) {
  if (tb_type_is_double(type)) return d->kernels.device.fp64.flops_per_second;
  return 2e6 * d->kernels.device.fma_per_us * d->kernels.device.sm_count;
}

/* Starts the driver and counts the GPUs, one or more. On failure returns why, and writes the failing function and error
 * into detail. TB_STATUS_not_now: another try may fare better. */
enum tb_status tb_device_count(int *count, char *detail, size_t detail_size);

/* Opens the GPU of this number; for a large call its rings' slots are all on their way. On failure returns why as
 * above, with nothing left open. */
enum tb_status tb_device_open(struct tb_device *device, int ordinal, bool is_for_large, char *detail,
                              size_t detail_size);

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

/* What the driver says is free, in bytes, the arena and copies of operands counted as free. Of who is alone the other
 * lanes' are given back. */
CUresult tb_device_free_bytes(struct tb_device *device, int64_t *bytes);

/* Makes the arena at least `bytes` large, by the memory of copies of operands if need be. On failure there is no arena.
 */
CUresult tb_device_reserve(struct tb_device *device, int64_t bytes);

/* Has the slots ordered that its rings have earned (widening.h): behind a call, or in a GPU's first. */
void tb_device_order_slots(struct tb_device *device);

/* Gives the arena back if it is larger than keep_bytes. */
void tb_device_trim(struct tb_device *device, int64_t keep_bytes);

/* Gives back copies of operands until those that are left take no more than this. False: the call under way uses them.
 */
bool tb_device_keep_within(struct tb_device *device, int64_t bytes);

/* Gives back all memory that is kept between calls; and whether there is any. */
void tb_device_give_back(struct tb_device *device);
static inline bool tb_device_has_memory(const struct tb_device *device) {
  return device->arena_bytes > 0 || tb_cache_bytes(tb_device_cache(device)) > 0;
}

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
