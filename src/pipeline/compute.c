/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/commit.h"
#include "pipeline/pipeline_internal.h"

/* Neighbours of a tile in its row and in its column are launched together: they get different streams. A tile's
 * launches follow each other in one. */
static int64_t stream_number(const struct tb_pipeline *p, int64_t row, int64_t column) {
  return (3 * row + column) % p->stream_count;
}

static CUstream stream_of(const struct tb_pipeline *p, int64_t row, int64_t column) {
  return p->streams[stream_number(p, row, column)];
}

/* Has `stream` wait for all launches so far. */
static CUresult hold(struct tb_pipeline *p, CUstream stream) {
  for (int s = 0; s < p->stream_count; s++) {
    TB_TRY(tb_cuda.cuEventRecord(p->d->drained[s], p->streams[s]));
    TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->d->drained[s], 0));
  }
  return CUDA_SUCCESS;
}

CUresult tb_compute_hold_uploads(struct tb_pipeline *p) { return hold(p, p->d->up); }

CUresult tb_compute_mark(struct tb_pipeline *p) {
  for (int s = 0; s < p->stream_count; s++) TB_TRY(tb_cuda.cuEventRecord(p->d->half[s], p->streams[s]));
  return CUDA_SUCCESS;
}

CUresult tb_compute_hold_until_mark(struct tb_pipeline *p) {
  for (int s = 0; s < p->stream_count; s++) TB_TRY(tb_cuda.cuStreamWaitEvent(p->d->up, p->d->half[s], 0));
  return CUDA_SUCCESS;
}

/* C = D + beta C, behind the tile's last launch. */
static CUresult enqueue_commit(struct tb_pipeline *p, int64_t tile, CUstream stream) {
  struct tb_block t = tb_layout_tile(&p->layout, tile);
  struct tb_matrix d = tb_layout_d(&p->layout, tile);
  const struct tb_call *call = p->layout.call;
  const struct tb_commit commit = {.type = call->type,
                                   .c = (CUdeviceptr)tb_layout_c(&p->layout, tile),
                                   .d = d.address,
                                   .ldc = call->ldc,
                                   .ldd = d.ld,
                                   .m = t.m,
                                   .n = t.n,
                                   .beta = call->beta};
  TB_TRY(tb_kernels_commit(&p->d->kernels, p->d->commit, &commit, stream));
  tb_down_count(p, tile, t.n);
  return CUDA_SUCCESS;
}

/* What follows the launch that completes a tile's product. */
static CUresult deliver(struct tb_pipeline *p, int64_t tile, CUstream stream) {
  if (p->layout.plan->one_slot) return CUDA_SUCCESS;
  if (p->layout.plan->ways.c != TB_IN_PLACE) return tb_down_add(p, tile, stream);
  return tb_call_overwrites(p->layout.call) ? CUDA_SUCCESS : enqueue_commit(p, tile, stream);
}

static struct tb_multiply product_of(const struct tb_pipeline *p, int64_t row, int64_t column, struct tb_extent k) {
  const struct tb_layout *l = &p->layout;
  const struct tb_matrix a = tb_layout_a(l, row, k), b = tb_layout_b(l, column, k);
  const struct tb_matrix d = tb_layout_d(l, row * l->columns + column);
  return (struct tb_multiply){
      .type = l->call->type,
      .transpose_a = l->call->a.transposed,
      .transpose_b = l->call->b.transposed,
      .a = a.address,
      .b = b.address,
      .d = d.address,
      .lda = a.ld,
      .ldb = b.ld,
      .ldd = d.ld,
      .m = tb_layout_rows(l, row).size,
      .n = tb_layout_columns(l, column).size,
      .k = k.size,
      .group_k = l->plan->group_k,
      .alpha = l->call->alpha,
      .first = k.start == 0,
      .last = k.start + k.size == l->call->k,
      .padded = l->plan->ways.a != TB_IN_PLACE && l->plan->ways.b != TB_IN_PLACE,
  };
}

static CUresult mark_begin(struct tb_pipeline *p, CUstream stream) {
  if (p->timed && !p->marked_compute) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[TB_COMPUTE_BEGIN], stream));
  p->marked_compute = true;
  return CUDA_SUCCESS;
}

/* From packed panels, span after span of the k that starts there. */
static CUresult multiply(struct tb_pipeline *p, int64_t row, int64_t column, int64_t k_start,
                         const struct tb_multiply *product) {
  const struct tb_layout *l = &p->layout;
  const struct tb_sgemm_args args = tb_sgemm_args_of(product);
  const bool transpose_a = product->transpose_a, transpose_b = product->transpose_b;
  const int64_t number = stream_number(p, row, column), span_k = l->plan->span_k;
  for (int64_t start = 0; start < args.k; start += span_k) {
    const struct tb_sgemm_args span = tb_kernels_part_of_k(&args, transpose_a, transpose_b, start, span_k);
    TB_TRY(tb_emulated_multiply(&p->d->kernels.emulated, transpose_a, transpose_b, &span,
                                tb_layout_packed_a(l, row, k_start + start),
                                tb_layout_packed_b(l, column, k_start + start), tb_layout_workspace(l, number),
                                &l->plan->way, p->streams[number]));
  }
  return CUDA_SUCCESS;
}

CUresult tb_compute_launch(struct tb_pipeline *p, int64_t row, int64_t column, struct tb_extent k) {
  struct tb_device *d = p->d;
  const int64_t tile = row * p->layout.columns + column;
  const struct tb_multiply product = product_of(p, row, column, k);
  const CUstream stream = stream_of(p, row, column);
  TB_TRY(mark_begin(p, stream));
  if (tb_plan_packs(p->layout.plan))
    TB_TRY(multiply(p, row, column, k.start, &product));
  else
    TB_TRY(tb_kernels_multiply(&d->kernels, p->choice, &product, tb_layout_workspace(&p->layout, tile), stream));
  if (product.last) TB_TRY(deliver(p, tile, stream));
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(d->marks[TB_COMPUTE_END], stream));
  return CUDA_SUCCESS;
}

/* Has `stream` wait for the latest panel that went up, and for the latest that came from another GPU. */
static CUresult await_panels(struct tb_pipeline *p, CUstream stream) {
  if (p->uploaded != NULL) TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->uploaded, 0));
  if (p->pass != NULL && p->pass->fetched) TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->d->fetched, 0));
  return CUDA_SUCCESS;
}

/* A slice of a panel that is there, for the tensor cores, span after span. In a stream of its own: the GPU may have no
 * multiprocessor free for it yet, and neither the link nor launches from other panels need wait for that. */
static CUresult pack(struct tb_pipeline *p, const struct tb_step *step) {
  const struct tb_layout *l = &p->layout;
  const struct tb_extent k = tb_layout_slice(l, step->slice);
  const struct tb_matrix x = step->of_b ? tb_layout_b(l, step->index, k) : tb_layout_a(l, step->index, k);
  struct tb_emulated_operand operand = {.from = (const float *)x.address,
                                        .ld = x.ld,
                                        .sides = step->of_b ? tb_layout_columns(l, step->index).size
                                                            : tb_layout_rows(l, step->index).size,
                                        .of_b = step->of_b,
                                        .along_k = step->of_b ? !l->call->b.transposed : l->call->a.transposed};
  TB_TRY(await_panels(p, p->packing));
  if (p->up.must_hold_packing) TB_TRY(hold(p, p->packing));
  p->up.must_hold_packing = false;
  TB_TRY(mark_begin(p, p->packing));
  for (int64_t start = 0; start < k.size; start += l->plan->span_k) {
    const CUdeviceptr to = step->of_b ? tb_layout_packed_b(l, step->index, k.start + start)
                                      : tb_layout_packed_a(l, step->index, k.start + start);
    const int64_t span_k = tb_min(l->plan->span_k, k.size - start);
    TB_TRY(tb_emulated_pack(&p->d->kernels.emulated, &operand, to, NULL, 0, span_k, p->packing));
    operand.from += operand.along_k ? span_k : span_k * operand.ld;
  }
  TB_TRY(tb_cuda.cuEventRecord(p->d->packed, p->packing));
  p->packed = true;
  return CUDA_SUCCESS;
}

/* What the launches of a step want to have happened. */
static CUresult await_step(struct tb_pipeline *p, CUstream stream) {
  if (!tb_plan_packs(p->layout.plan)) return await_panels(p, stream);
  if (p->packed && stream != p->packing) TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->d->packed, 0));
  return CUDA_SUCCESS;
}

CUresult tb_compute_step(struct tb_pipeline *p, const struct tb_step *step) {
  const struct tb_extent k = tb_layout_slice(&p->layout, step->slice);
  const int64_t others = step->of_b ? p->layout.rows : p->layout.columns;
  const int64_t *other_slices = step->of_b ? p->a_slices : p->b_slices;
  if (!(step->of_b ? p->up.b_packed : p->up.a_packed)) TB_TRY(pack(p, step));
  (step->of_b ? p->b_slices : p->a_slices)[step->index] = step->slice + 1;
  for (int64_t other = 0; other < others; other++) {
    if (other_slices[other] <= step->slice) continue;
    const int64_t row = step->of_b ? other : step->index, column = step->of_b ? step->index : other;
    TB_TRY(await_step(p, stream_of(p, row, column)));
    TB_TRY(tb_compute_launch(p, row, column, k));
  }
  return CUDA_SUCCESS;
}
