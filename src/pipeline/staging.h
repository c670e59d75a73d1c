/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between the program's memory and the device's, through pinned slots: what fits into a slot, and the copies that the
 * GPU does. Uploads pack: a stored block with any leading dimension arrives with a padded one, so that kernels may load
 * whole vectors. Downloads are cut into runs of columns. Nothing here but tb_download_direct writes to the program's
 * memory: that is the pipeline's commit. Under offload.c's lock.
 */
#ifndef TB_STAGING_H
#define TB_STAGING_H

#include "pipeline/copy.h"
#include "pipeline/device.h"

/* A stored block on its way up: `rows` x `columns`, column-major, piece by piece. */
struct tb_upload {
  enum tb_type type;
  const void *source;
  int64_t source_ld, rows, columns;
  CUdeviceptr target;
  int64_t target_ld;
  bool apart;              /* what lies between the target's columns is others': only columns are written */
  struct tb_region stored; /* of a symmetric or Hermitian matrix: its triangle; the others are read from there, or stay
                            * undefined where columns are apart */
  int64_t row, column;     /* where the next piece starts */
};

/* What a slot holds on its way to the device: one run of bytes, or columns apart. */
struct tb_piece {
  CUdeviceptr target;
  int64_t bytes;
  int64_t columns, column_bytes, slot_pitch, target_pitch; /* columns = 1: one run */
};

/*
 * Cuts the next piece off an upload that is not done: at most `most` elements, which there is room for at `slot`, or
 * one column if that is longer and fits into a slot. Fills in *copy, which brings it into `slot`, and leaves it to be
 * started; by which stores, the caller says. True when nothing of the upload is left.
 */
bool tb_upload_cut(struct tb_upload *upload, int64_t most, void *slot, struct tb_copy *copy, struct tb_piece *piece);

/* Enqueues a slot's copy to the device; and whether it is over: CUDA_SUCCESS, or CUDA_ERROR_NOT_READY. */
CUresult tb_upload_send(struct tb_device *device, int slot, const struct tb_piece *piece);
CUresult tb_upload_sent(struct tb_device *device, int slot);

/* Enqueues a copy of all of it at once from pinned memory, whose pitch the GPU can do: for a source that the program
 * leaves alone until its call returns. */
CUresult tb_upload_direct(struct tb_device *device, const struct tb_upload *upload);

/* A matrix on its way down: `rows` x `columns` from the device to pinned memory. */
struct tb_download {
  enum tb_type type;
  CUdeviceptr source;
  int64_t source_ld;
  void *target;
  int64_t target_ld, rows, columns;
};

CUresult tb_download_direct(struct tb_device *device, const struct tb_download *download);

/* Of so many columns of `ld` elements that are left, those of the next piece: of `most` elements at most, but at least
 * one, which every slot can hold; even: no more than the pieces that are left have each. */
int64_t tb_download_columns(int64_t ld, int64_t most, int64_t left, bool even);

/* Enqueues a copy of so many bytes from the device into a slot, or of columns between which there are others; and
 * whether it has arrived. */
CUresult tb_download_start(struct tb_device *device, int slot, CUdeviceptr source, int64_t bytes);
CUresult tb_download_start_apart(struct tb_device *device, int slot, const struct tb_download *download);
CUresult tb_download_arrived(struct tb_device *device, int slot);

#endif
