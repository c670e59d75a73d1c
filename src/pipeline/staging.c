/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/staging.h"

bool tb_upload_cut(struct tb_upload *u, int64_t most, float *slot, struct tb_copy *copy, struct tb_piece *piece) {
  const bool whole_columns = u->target_ld <= TB_SLOT_ELEMS;
  const int64_t columns = whole_columns ? tb_min(tb_max(most / u->target_ld, 1), u->columns - u->column) : 1;
  const int64_t rows = whole_columns ? u->rows : tb_min(most, u->rows - u->row);
  *copy = (struct tb_copy){.to = slot, .to_ld = u->target_ld, .from_ld = u->source_ld};
  copy->from = u->source + u->row + u->column * u->source_ld;
  copy->rows = rows;
  copy->columns = columns;
  /* Each column lands at a multiple of the padded leading dimension. */
  piece->target = u->target + (CUdeviceptr)(u->row + u->column * u->target_ld) * sizeof(float);
  piece->floats = (columns - 1) * u->target_ld + rows;
  u->row += rows;
  if (u->row == u->rows) {
    u->row = 0;
    u->column += columns;
  }
  return u->column == u->columns;
}

CUresult tb_upload_send(struct tb_device *d, int slot, const struct tb_piece *piece) {
  struct tb_ring *ring = &d->up_ring;
  TB_TRY(tb_cuda.cuMemcpyHtoDAsync(piece->target, ring->slot[slot], (size_t)piece->floats * sizeof(float), d->up));
  TB_TRY(tb_cuda.cuEventRecord(ring->moved[slot], d->up));
  return CUDA_SUCCESS;
}

static CUresult moved(const struct tb_ring *ring, int slot) {
  CUresult result = tb_cuda.cuEventQuery(ring->moved[slot]);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) tb_cuda_failed_call = "cuEventQuery";
  return result;
}

CUresult tb_upload_sent(struct tb_device *d, int slot) { return moved(&d->up_ring, slot); }

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

int64_t tb_download_columns(int64_t ld, int64_t most) { return tb_max(most / ld, 1); }

CUresult tb_download_start(struct tb_device *d, int slot, CUdeviceptr source, int64_t floats) {
  struct tb_ring *ring = &d->down_ring;
  TB_TRY(tb_cuda.cuMemcpyDtoHAsync(ring->slot[slot], source, (size_t)floats * sizeof(float), d->down));
  TB_TRY(tb_cuda.cuEventRecord(ring->moved[slot], d->down));
  return CUDA_SUCCESS;
}

CUresult tb_download_arrived(struct tb_device *d, int slot) { return moved(&d->down_ring, slot); }
