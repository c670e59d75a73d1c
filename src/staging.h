/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between the program's memory and the device's, through pinned slots. Uploads pack: a stored block with any leading
 * dimension arrives with a padded one, so that kernels may load whole vectors. Downloads are cut into runs of columns.
 * Nothing here but tb_download_direct writes to the program's memory: that is pipeline.c's commit. Under offload.c's
 * lock.
 */
#ifndef TB_STAGING_H
#define TB_STAGING_H

#include "device.h"

/* A stored block on its way up: `rows` x `columns`, column-major, in slot-sized steps. */
struct tb_upload {
  const float *source;
  int64_t source_ld, rows, columns;
  CUdeviceptr target;
  int64_t target_ld;
  int64_t row, column; /* where the next step starts */
};

/* Copies the next part into a pinned slot and enqueues its copy to the device. *more tells whether anything is left. */
CUresult tb_upload_step(struct tb_device *device, struct tb_upload *upload, bool *more);

/* Enqueues a copy of all of it at once from pinned memory, whose pitch the GPU can do: for a source that the program
 * leaves alone until its call returns. */
CUresult tb_upload_direct(struct tb_device *device, const struct tb_upload *upload);

/* The same downwards: `rows` x `columns` from the device to pinned memory. */
CUresult tb_download_direct(struct tb_device *device, CUdeviceptr source, int64_t source_ld, float *target,
                            int64_t target_ld, int64_t rows, int64_t columns);

/* Columns of `ld` floats that one slot holds; at least one, because ld is at most TB_SLOT_BYTES / 4 for every tile. */
int64_t tb_download_columns(int64_t ld);

/* Enqueues a copy of `floats` floats from the device into the next pinned slot; `ticket` names it. */
CUresult tb_download_start(struct tb_device *device, CUdeviceptr source, int64_t floats, uint64_t *ticket);

/* True when a ticket need not be waited for. Errors show in the wait. */
bool tb_download_ready(struct tb_device *device, uint64_t ticket);

/* Waits for a ticket, and gives what arrived. The slot is free for the next download when the caller has read it. */
CUresult tb_download_wait(struct tb_device *device, uint64_t ticket, const float **arrived);

#endif
