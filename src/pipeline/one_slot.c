/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipeline_internal.h"

static CUresult mark_slot(struct tb_pipeline *p, enum tb_mark which) {
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[which], p->streams[0]));
  return CUDA_SUCCESS;
}

/* Both operands into one slot, each where it lies in the arena. */
static void fill_one_slot(struct tb_pipeline *p) {
  char *slot = tb_slot(&p->d->up_ring, 0);
  struct tb_copy copies[2];
  for (int b = 0; b < 2; b++) {
    const struct tb_step step = {.of_b = b};
    struct tb_upload u;
    struct tb_piece piece;
    tb_up_of_step(p, &step, &u);
    char *to = slot + p->layout.plan->operand[b].offset_bytes;
    tb_upload_cut(&u, tb_slot_elems(u.type), to, &copies[b], &piece);
    copies[b].stores = TB_STORES_STREAMED;
    tb_copy_start(p->d->pool, &copies[b]);
    p->progress->up_bytes += (double)tb_copy_bytes(&copies[b]);
  }
  for (int b = 0; b < 2; b++) tb_copy_wait(p->d->pool, &copies[b]);
}

static void commit(struct tb_pipeline *p, const void *arrived) {
  const struct tb_call *call = p->layout.call;
  struct tb_copy copy = {.type = call->type, .beta = call->beta, .to = call->c, .to_ld = call->ldc};
  copy.from = arrived;
  copy.from_ld = tb_leading(call->type, call->m);
  copy.rows = call->m;
  copy.columns = call->n;
  copy.region = call->region;
  tb_copy_start(p->d->pool, &copy);
  tb_copy_wait(p->d->pool, &copy);
  tb_down_count(p, 0, call->n);
}

static CUresult multiply_slot(struct tb_pipeline *p, CUstream stream) {
  TB_TRY(tb_compute_make_real(p, false, 0, p->layout.chunk, stream));
  TB_TRY(tb_compute_make_real(p, true, 0, p->layout.chunk, stream));
  return tb_compute_launch(p, 0, 0, p->layout.chunk);
}

static CUresult multiply_slot_again(struct tb_pipeline *p, CUstream stream) {
  tb_layout_exchange(&p->layout);
  const CUresult result = multiply_slot(p, stream);
  tb_layout_exchange(&p->layout);
  return result;
}

CUresult tb_one_slot_run(struct tb_pipeline *p) {
  struct tb_device *d = p->d;
  const CUstream stream = p->streams[0];
  const size_t bytes_up = (size_t)p->layout.plan->d_offset_bytes;
  const struct tb_matrix result = tb_layout_d(&p->layout, 0);
  const struct tb_call *call = p->layout.call;
  const size_t bytes_down = (size_t)(((call->n - 1) * result.ld + call->m) * tb_call_bytes(call));
  void *arrived = tb_slot(&d->down_ring, 0);
  fill_one_slot(p);
  TB_TRY(mark_slot(p, TB_UP_BEGIN));
  TB_TRY(tb_cuda.cuMemcpyHtoDAsync(p->layout.arena, d->up_ring.slot[0], bytes_up, stream));
  TB_TRY(mark_slot(p, TB_UP_END));
  TB_TRY(multiply_slot(p, stream));
  if (p->layout.plan->both) TB_TRY(multiply_slot_again(p, stream));
  TB_TRY(mark_slot(p, TB_DOWN_BEGIN));
  TB_TRY(tb_cuda.cuMemcpyDtoHAsync(arrived, result.address, bytes_down, stream));
  TB_TRY(mark_slot(p, TB_DOWN_END));
  TB_TRY(tb_device_wait(d, stream));
  commit(p, arrived);
  p->progress->down_bytes += (double)bytes_down;
  return CUDA_SUCCESS;
}
