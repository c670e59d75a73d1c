/* SPDX-License-Identifier: BSD-3-Clause */
#include "commit.h"
#include "pipeline_parts.h"

/* Neighbours of a tile in its row and in its column are launched together: they get different streams. */
static CUstream stream_of(const struct tb_pipeline *p, int64_t row, int64_t column) {
  return p->streams[(3 * row + column) % p->stream_count]; /* a tile's launches follow each other in one stream */
}

CUresult tb_compute_hold_uploads(struct tb_pipeline *p) {
  for (int s = 0; s < p->stream_count; s++) {
    TB_TRY(tb_cuda.cuEventRecord(p->d->drained[s], p->streams[s]));
    TB_TRY(tb_cuda.cuStreamWaitEvent(p->d->up, p->d->drained[s], 0));
  }
  return CUDA_SUCCESS;
}

/* C = D + beta C, behind the tile's last launch. */
static CUresult enqueue_commit(struct tb_pipeline *p, int64_t tile, CUstream stream) {
  struct tb_block t = tb_layout_tile(&p->layout, tile);
  struct tb_matrix d = tb_layout_d(&p->layout, tile);
  struct tb_commit_args args = {.c = tb_layout_c(&p->layout, tile),
                                .d = (const float *)d.address,
                                .ldc = p->layout.call->ldc,
                                .ldd = d.ld,
                                .m = t.m,
                                .n = t.n,
                                .beta = p->layout.call->beta};
  TB_TRY(tb_commit_launch(p->d->commit, &args, stream));
  tb_down_count(p, tile, t.n);
  return CUDA_SUCCESS;
}

/* What follows the launch that completes a tile's product. */
static CUresult deliver(struct tb_pipeline *p, int64_t tile, CUstream stream) {
  if (p->layout.plan->one_slot) return CUDA_SUCCESS;
  if (p->layout.plan->ways.c != TB_IN_PLACE) return tb_down_add(p, tile, stream);
  return p->layout.call->beta == 0 ? CUDA_SUCCESS : enqueue_commit(p, tile, stream);
}

static struct tb_sgemm_args args_of(const struct tb_pipeline *p, int64_t row, int64_t column, struct tb_extent k) {
  const struct tb_layout *l = &p->layout;
  const struct tb_matrix a = tb_layout_a(l, row, k), b = tb_layout_b(l, column, k);
  const struct tb_matrix d = tb_layout_d(l, row * l->columns + column);
  return (struct tb_sgemm_args){
      .a = (const float *)a.address,
      .b = (const float *)b.address,
      .d = (float *)d.address,
      .lda = a.ld,
      .ldb = b.ld,
      .ldd = d.ld,
      .m = tb_layout_rows(l, row).size,
      .n = tb_layout_columns(l, column).size,
      .k = k.size,
      .alpha = l->call->alpha,
      .first = k.start == 0,
      .last = k.start + k.size == l->call->k,
      .padded = l->plan->ways.a != TB_IN_PLACE && l->plan->ways.b != TB_IN_PLACE,
  };
}

CUresult tb_compute_launch(struct tb_pipeline *p, int64_t row, int64_t column, struct tb_extent k) {
  struct tb_device *d = p->d;
  const struct tb_gemm *call = p->layout.call;
  const int64_t tile = row * p->layout.columns + column;
  const struct tb_sgemm_args args = args_of(p, row, column, k);
  const CUstream stream = stream_of(p, row, column);
  if (p->timed && !p->marked_compute) TB_TRY(tb_cuda.cuEventRecord(d->marks[TB_COMPUTE_BEGIN], stream));
  p->marked_compute = true;
  TB_TRY(tb_kernels_launch(&d->kernels, p->choice, call->a.transposed, call->b.transposed, &args,
                           tb_layout_workspace(&p->layout, tile), stream));
  if (args.last) TB_TRY(deliver(p, tile, stream));
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(d->marks[TB_COMPUTE_END], stream));
  return CUDA_SUCCESS;
}

CUresult tb_compute_step(struct tb_pipeline *p, const struct tb_step *step) {
  const struct tb_extent k = tb_layout_slice(&p->layout, step->slice);
  const int64_t others = step->of_b ? p->layout.rows : p->layout.columns;
  const int64_t *other_slices = step->of_b ? p->a_slices : p->b_slices;
  (step->of_b ? p->b_slices : p->a_slices)[step->index] = step->slice + 1;
  for (int64_t other = 0; other < others; other++) {
    if (other_slices[other] <= step->slice) continue;
    const int64_t row = step->of_b ? other : step->index, column = step->of_b ? step->index : other;
    if (p->uploaded != NULL) TB_TRY(tb_cuda.cuStreamWaitEvent(stream_of(p, row, column), p->uploaded, 0));
    if (p->pass != NULL && p->pass->fetched)
      TB_TRY(tb_cuda.cuStreamWaitEvent(stream_of(p, row, column), p->d->fetched, 0));
    TB_TRY(tb_compute_launch(p, row, column, k));
  }
  return CUDA_SUCCESS;
}
