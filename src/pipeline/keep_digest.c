/* SPDX-License-Identifier: BSD-3-Clause */
/* Digests of a copy that came to be on the GPU, of an operand's panels or a result's tiles, by the GPU. */
#include <string.h>

#include "base/integers.h"
#include "pipeline/keep_internal.h"
#include "pipeline/staging.h"
#include "select/digest.h"

#define KEY_ALIGNMENT_BYTES 256 /* of what lies behind the key */

/* Where the call's panels were, and its first slot, there is nothing that anybody wants. */
static CUresult fetch_digests(struct tb_device *d, struct tb_kept *kept, CUdeviceptr from) {
  const int64_t bytes = kept->cells.count * (int64_t)sizeof *kept->digests;
  void *const slot = tb_slot(&d->up_ring, 0);
  for (int64_t at = 0; at < bytes; at += TB_SLOT_BYTES) {
    const int64_t part = tb_min(TB_SLOT_BYTES, bytes - at);
    TB_TRY(tb_cuda.cuMemcpyDtoHAsync(slot, from + (CUdeviceptr)at, (size_t)part, d->up));
    TB_TRY(tb_device_wait(d, d->up));
    memcpy((char *)kept->digests + at, slot, (size_t)part);
  }
  return CUDA_SUCCESS;
}

CUresult tb_keep_digest(struct tb_device *d, struct tb_kept *kept) {
  const struct tb_stored *const s = &kept->stored;
  int64_t key_bytes;
  const uint64_t *const key = tb_hash_key(&key_bytes);
  const int64_t behind_key = tb_round_up(key_bytes, KEY_ALIGNMENT_BYTES);
  const int64_t digest_bytes = kept->cells.count * (int64_t)sizeof *kept->digests;
  if (behind_key + digest_bytes > d->arena_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  struct tb_digest_args args = {.copy = (const unsigned char *)kept->copy,
                                .key = (const uint64_t *)d->arena,
                                .digests = (uint64_t *)(d->arena + (CUdeviceptr)behind_key),
                                .pitch = kept->copy_pitch_bytes,
                                .column_bytes = s->column_bytes,
                                .columns = s->columns,
                                .in_column = kept->cells.in_column,
                                .columns_each = kept->cells.columns_each,
                                .cell_bytes = TB_CELL_BYTES,
                                .count = kept->cells.count};
  memcpy(tb_slot(&d->up_ring, 0), key, (size_t)key_bytes);
  TB_TRY(tb_cuda.cuMemcpyHtoDAsync(d->arena, tb_slot(&d->up_ring, 0), (size_t)key_bytes, d->up));
  TB_TRY(tb_digest_launch(d->digest, d->sm_count, &args, d->up));
  return fetch_digests(d, kept, d->arena + (CUdeviceptr)behind_key);
}
