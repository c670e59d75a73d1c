/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/staging.h"

#include "cuda/wait.h"

/* A last piece of a column would keep slots for nothing. */
static int64_t even_part(int64_t columns, int64_t most) { return tb_ceil_div(columns, tb_ceil_div(columns, most)); }

bool tb_upload_cut(struct tb_upload *u, int64_t most, void *slot, struct tb_copy *copy, struct tb_piece *piece) {
  const int64_t ld = u->apart ? tb_leading(u->type, u->rows) : u->target_ld, size = tb_type_bytes(u->type);
  const bool whole_columns = ld <= tb_slot_elems(u->type);
  const int64_t columns = whole_columns ? even_part(u->columns - u->column, tb_max(most / ld, 1)) : 1;
  const int64_t rows = whole_columns ? u->rows : tb_min(most, u->rows - u->row);
  *copy = (struct tb_copy){.type = u->type, .to = slot, .to_ld = ld, .from_ld = u->source_ld};
  copy->from = tb_elements_behind(u->type, u->source, u->row + u->column * u->source_ld);
  copy->rows = rows;
  copy->columns = columns;
  const struct tb_region stored = tb_region_at(u->stored, u->row, u->column);
  const bool lacks = !tb_region_covers(stored, rows, columns);
  /* Columns apart are a part of what is stored, from which a kernel makes the rest. */
  copy->mirrored = lacks && !u->apart;
  if (lacks || (stored.hermitian && tb_region_has_diagonal(stored, rows, columns))) copy->region = stored;
  if (whole_columns && copy->region.of == TB_WHOLE) copy->pad = tb_min(ld - rows, tb_line_elems(u->type));
  /* Each column lands at a multiple of the padded leading dimension. */
  *piece = (struct tb_piece){.target = u->target + (CUdeviceptr)((u->row + u->column * u->target_ld) * size),
                             .bytes = ((columns - 1) * ld + rows) * size,
                             .columns = u->apart ? columns : 1,
                             .column_bytes = rows * size,
                             .slot_pitch = ld * size,
                             .target_pitch = u->target_ld * size};
  u->row += rows;
  if (u->row == u->rows) {
    u->row = 0;
    u->column += columns;
  }
  return u->column == u->columns;
}

/* Of pinned memory, whose pitch the GPU can do. */
static CUresult copy_columns_up(struct tb_device *d, const void *from, size_t from_pitch, CUdeviceptr to,
                                size_t to_pitch, size_t column_bytes, int64_t columns) {
  CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = from_pitch,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = to,
                        .dstPitch = to_pitch,
                        .WidthInBytes = column_bytes,
                        .Height = (size_t)columns};
  return tb_cuda.cuMemcpy2DAsync(&copy, d->up);
}

CUresult tb_upload_send(struct tb_device *d, int slot, const struct tb_piece *piece) {
  struct tb_ring *ring = &d->up_ring;
  if (piece->columns == 1)
    TB_TRY(tb_cuda.cuMemcpyHtoDAsync(piece->target, ring->slot[slot], (size_t)piece->bytes, d->up));
  else
    TB_TRY(copy_columns_up(d, ring->slot[slot], (size_t)piece->slot_pitch, piece->target, (size_t)piece->target_pitch,
                           (size_t)piece->column_bytes, piece->columns));
  TB_TRY(tb_cuda.cuEventRecord(ring->moved[slot], d->up));
  return CUDA_SUCCESS;
}

static CUresult moved(const struct tb_ring *ring, int slot) { return tb_ask_event(ring->moved[slot]); }

CUresult tb_upload_sent(struct tb_device *d, int slot) { return moved(&d->up_ring, slot); }

CUresult tb_upload_direct(struct tb_device *d, const struct tb_upload *u) {
  const size_t size = (size_t)tb_type_bytes(u->type);
  return copy_columns_up(d, u->source, (size_t)u->source_ld * size, u->target, (size_t)u->target_ld * size,
                         (size_t)u->rows * size, u->columns);
}

CUresult tb_download_direct(struct tb_device *d, const struct tb_download *x) {
  const size_t size = (size_t)tb_type_bytes(x->type);
  CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = x->source,
                        .srcPitch = (size_t)x->source_ld * size,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = x->target,
                        .dstPitch = (size_t)x->target_ld * size,
                        .WidthInBytes = (size_t)x->rows * size,
                        .Height = (size_t)x->columns};
  TB_TRY(tb_cuda.cuMemcpy2DAsync(&copy, d->down));
  return CUDA_SUCCESS;
}

int64_t tb_download_columns(int64_t ld, int64_t most, int64_t left, bool even) {
  const int64_t columns = tb_max(most / ld, 1);
  return even ? even_part(left, columns) : tb_min(left, columns);
}

CUresult tb_download_start(struct tb_device *d, int slot, CUdeviceptr source, int64_t bytes) {
  struct tb_ring *ring = &d->down_ring;
  TB_TRY(tb_cuda.cuMemcpyDtoHAsync(ring->slot[slot], source, (size_t)bytes, d->down));
  TB_TRY(tb_cuda.cuEventRecord(ring->moved[slot], d->down));
  return CUDA_SUCCESS;
}

CUresult tb_download_start_apart(struct tb_device *d, int slot, const struct tb_download *x) {
  struct tb_ring *ring = &d->down_ring;
  struct tb_download to_slot = *x;
  to_slot.target = ring->slot[slot];
  TB_TRY(tb_download_direct(d, &to_slot));
  TB_TRY(tb_cuda.cuEventRecord(ring->moved[slot], d->down));
  return CUDA_SUCCESS;
}

CUresult tb_download_arrived(struct tb_device *d, int slot) { return moved(&d->down_ring, slot); }
