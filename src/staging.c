/* SPDX-License-Identifier: BSD-3-Clause */
#include "staging.h"

#include "copy.h"

/* Waits until the copy that last used the ring's next slot is over. */
static CUresult next_slot(struct tb_ring *ring, int *slot) {
  *slot = (int)(ring->used % TB_SLOTS);
  if (ring->used >= TB_SLOTS) TB_TRY(tb_cuda.cuEventSynchronize(ring->moved[*slot]));
  return CUDA_SUCCESS;
}

static CUresult push(struct tb_device *d, int slot, CUdeviceptr target, int64_t floats) {
  struct tb_ring *ring = &d->up_ring;
  TB_TRY(tb_cuda.cuMemcpyHtoDAsync(target, ring->slot[slot], (size_t)floats * sizeof(float), d->up));
  TB_TRY(tb_cuda.cuEventRecord(ring->moved[slot], d->up));
  ring->used++;
  return CUDA_SUCCESS;
}

/* Whole columns, as many as fit; each lands at a multiple of the padded leading dimension. */
static CUresult push_columns(struct tb_device *d, struct tb_upload *u, int slot) {
  int64_t columns = tb_min(TB_SLOT_ELEMS / u->target_ld, u->columns - u->column);
  const float *from = u->source + u->column * u->source_ld;
  float *to = d->up_ring.slot[slot];
  tb_copy_in(d->pool, to, u->target_ld, from, u->source_ld, u->rows, columns);
  int64_t floats = (columns - 1) * u->target_ld + u->rows;
  TB_TRY(push(d, slot, u->target + (CUdeviceptr)(u->column * u->target_ld) * sizeof(float), floats));
  u->column += columns;
  return CUDA_SUCCESS;
}

/* A column longer than a slot, a part at a time. */
static CUresult push_rows(struct tb_device *d, struct tb_upload *u, int slot) {
  int64_t rows = tb_min(TB_SLOT_ELEMS, u->rows - u->row);
  tb_copy_in(d->pool, d->up_ring.slot[slot], rows, u->source + u->row + u->column * u->source_ld, rows, rows, 1);
  TB_TRY(push(d, slot, u->target + (CUdeviceptr)(u->row + u->column * u->target_ld) * sizeof(float), rows));
  u->row += rows;
  if (u->row == u->rows) {
    u->row = 0;
    u->column++;
  }
  return CUDA_SUCCESS;
}

CUresult tb_upload_step(struct tb_device *d, struct tb_upload *u, bool *more) {
  int slot;
  TB_TRY(next_slot(&d->up_ring, &slot));
  TB_TRY(u->target_ld <= TB_SLOT_ELEMS ? push_columns(d, u, slot) : push_rows(d, u, slot));
  *more = u->column < u->columns;
  return CUDA_SUCCESS;
}

CUresult tb_upload_direct(struct tb_device *d, const struct tb_upload *u) {
  CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = u->source,
                        .srcPitch = (size_t)u->source_ld * sizeof(float),
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = u->target,
                        .dstPitch = (size_t)u->target_ld * sizeof(float),
                        .WidthInBytes = (size_t)u->rows * sizeof(float),
                        .Height = (size_t)u->columns};
  TB_TRY(tb_cuda.cuMemcpy2DAsync(&copy, d->up));
  return CUDA_SUCCESS;
}

CUresult tb_download_direct(struct tb_device *d, CUdeviceptr source, int64_t source_ld, float *target,
                            int64_t target_ld, int64_t rows, int64_t columns) {
  CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = source,
                        .srcPitch = (size_t)source_ld * sizeof(float),
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = target,
                        .dstPitch = (size_t)target_ld * sizeof(float),
                        .WidthInBytes = (size_t)rows * sizeof(float),
                        .Height = (size_t)columns};
  TB_TRY(tb_cuda.cuMemcpy2DAsync(&copy, d->down));
  return CUDA_SUCCESS;
}

int64_t tb_download_columns(int64_t ld) { return TB_SLOT_ELEMS / ld; }

CUresult tb_download_start(struct tb_device *d, CUdeviceptr source, int64_t floats, uint64_t *ticket) {
  struct tb_ring *ring = &d->down_ring;
  int slot = (int)(ring->used % TB_SLOTS);
  TB_TRY(tb_cuda.cuMemcpyDtoHAsync(ring->slot[slot], source, (size_t)floats * sizeof(float), d->down));
  TB_TRY(tb_cuda.cuEventRecord(ring->moved[slot], d->down));
  *ticket = ring->used++;
  return CUDA_SUCCESS;
}

bool tb_download_ready(struct tb_device *d, uint64_t ticket) {
  return tb_cuda.cuEventQuery(d->down_ring.moved[ticket % TB_SLOTS]) != CUDA_ERROR_NOT_READY;
}

CUresult tb_download_wait(struct tb_device *d, uint64_t ticket, const float **arrived) {
  struct tb_ring *ring = &d->down_ring;
  TB_TRY(tb_cuda.cuEventSynchronize(ring->moved[ticket % TB_SLOTS]));
  *arrived = ring->slot[ticket % TB_SLOTS];
  return CUDA_SUCCESS;
}
