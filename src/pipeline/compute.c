/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/commit.h"
#include "select/made_real.h"
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
static CUresult hold_stream(struct tb_pipeline *p, CUstream stream) {
  for (int s = 0; s < p->stream_count; s++) {
    TB_TRY(tb_cuda.cuEventRecord(p->d->drained[s], p->streams[s]));
    TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->d->drained[s], 0));
  }
  return CUDA_SUCCESS;
}

/* Of a triangle there may be panels that no tile wants: no launch has waited for what is made of them. */
static CUresult hold_for_spare_panels(struct tb_pipeline *p) {
  if (p->packed && p->layout.call->region.of != TB_WHOLE) TB_TRY(tb_cuda.cuStreamWaitEvent(p->d->up, p->d->packed, 0));
  return CUDA_SUCCESS;
}

CUresult tb_compute_hold_uploads(struct tb_pipeline *p) {
  TB_TRY(hold_for_spare_panels(p));
  return hold_stream(p, p->d->up);
}

CUresult tb_compute_mark(struct tb_pipeline *p) {
  for (int s = 0; s < p->stream_count; s++) TB_TRY(tb_cuda.cuEventRecord(p->d->half[s], p->streams[s]));
  return CUDA_SUCCESS;
}

CUresult tb_compute_hold_until_mark(struct tb_pipeline *p) {
  TB_TRY(hold_for_spare_panels(p));
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
                                   .beta = call->beta,
                                   .region = tb_layout_region(&p->layout, tile)};
  TB_TRY(tb_kernels_commit(&p->d->kernels, p->d->commit, &commit, stream));
  tb_down_count(p, tile, t.n);
  return CUDA_SUCCESS;
}

/* What follows the launch that completes a tile's product. */
static CUresult deliver(struct tb_pipeline *p, int64_t tile, CUstream stream) {
  if (p->layout.plan->one_slot) return CUDA_SUCCESS;
  if (p->layout.plan->ways.c != TB_IN_PLACE) return tb_down_add(p, tile, stream);
  return tb_kernels_write_c(&p->layout.plan->ways, p->layout.call) ? CUDA_SUCCESS : enqueue_commit(p, tile, stream);
}

/* Whether the kernels see the panels as real ones. */
static bool is_made_real(const struct tb_pipeline *p) { return tb_is_made_real(p->layout.call->type); }

/* A slice of a panel as the kernels read it. */
static struct tb_matrix kernel_panel(const struct tb_pipeline *p, bool of_b, int64_t panel, struct tb_extent k) {
  return is_made_real(p) ? tb_layout_real(&p->layout, of_b, panel, k) : tb_layout_panel(&p->layout, of_b, panel, k);
}

/* A kernel counts it in 32 bits; beyond the sides there is nothing to tell. */
static struct tb_tiles_wanted wanted_of(const struct tb_layout *l, int64_t tile) {
  const struct tb_region region = tb_layout_region(l, tile);
  const struct tb_block t = tb_layout_tile(l, tile);
  return (struct tb_tiles_wanted){.of = (int32_t)region.of,
                                  .diagonal = (int32_t)tb_min(tb_max(region.diagonal, -t.n), t.m),
                                  .pairs = tb_is_made_real(l->call->type),
                                  .hermitian = region.hermitian};
}

/* In elements as the kernels see them. */
static struct tb_multiply product_of(const struct tb_pipeline *p, int64_t row, int64_t column, struct tb_extent k) {
  const struct tb_layout *l = &p->layout;
  const int parts = tb_kernel_parts(l->call->type);
  const struct tb_matrix a = kernel_panel(p, TB_OF_A, row, k), b = kernel_panel(p, TB_OF_B, column, k);
  const struct tb_matrix d = tb_layout_d(l, row * l->columns + column);
  return (struct tb_multiply){
      .type = tb_kernel_type(l->call->type),
      .transpose_a = l->call->a.transposed,
      .transpose_b = l->call->b.transposed,
      .conjugate_a = l->call->a.conjugated,
      .conjugate_b = l->call->b.conjugated,
      .a = a.address,
      .b = b.address,
      .d = d.address,
      .lda = a.ld,
      .ldb = b.ld,
      .ldd = parts * d.ld,
      .m = parts * tb_layout_rows(l, row).size,
      .n = tb_layout_columns(l, column).size,
      .k = parts * k.size,
      .group_k = parts * l->plan->group_k,
      .wanted = wanted_of(l, row * l->columns + column),
      .alpha = tb_real_alpha(l->call),
      .first = tb_layout_begins_sum(l, k),
      .last = tb_layout_ends_sum(l, k),
      .padded = is_made_real(p) || (l->plan->ways.a != TB_IN_PLACE && l->plan->ways.b != TB_IN_PLACE),
  };
}

static CUresult mark_begin(struct tb_pipeline *p, CUstream stream) {
  if (p->timed && !p->marked_compute) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[TB_COMPUTE_BEGIN], stream));
  p->marked_compute = true;
  return CUDA_SUCCESS;
}

/* From packed panels, span after span of the k that starts there. Spans are elements of the call, the rest is real. */
static CUresult multiply(struct tb_pipeline *p, int64_t row, int64_t column, int64_t k_start,
                         const struct tb_multiply *product) {
  const struct tb_layout *l = &p->layout;
  const struct tb_sgemm_args args = tb_sgemm_args_of(product);
  const bool transpose_a = product->transpose_a, transpose_b = product->transpose_b;
  const int64_t number = stream_number(p, row, column), span_k = l->plan->span_k,
                parts = tb_kernel_parts(l->call->type);
  for (int64_t start = 0; parts * start < args.k; start += span_k) {
    const struct tb_sgemm_args span =
        tb_kernels_part_of_k(&args, transpose_a, transpose_b, parts * start, parts * span_k);
    TB_TRY(tb_emulated_multiply(&p->d->kernels.emulated, transpose_a, transpose_b, &span, product->wanted,
                                tb_layout_packed(l, TB_OF_A, row, k_start + start),
                                tb_layout_packed(l, TB_OF_B, column, k_start + start), tb_layout_workspace(l, number),
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

/* Has `stream` wait for the latest panel that went up, and for the latest that came from another GPU: of a launch that
 * lags its own, or one behind that, of what the ring has. */
static CUresult await_panels(struct tb_pipeline *p, CUstream stream) {
  if (p->uploaded != NULL) TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->uploaded, 0));
  if (p->pass != NULL && p->pass->fetched) TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->d->fetched, 0));
  return CUDA_SUCCESS;
}

CUresult tb_compute_form(struct tb_pipeline *p, const struct tb_upload *panel, CUstream stream) {
  struct tb_triangle_mirror_args args = {.to = (void *)panel->target,
                                         .from = panel->source,
                                         .to_ld = panel->target_ld,
                                         .from_ld = panel->source_ld,
                                         .m = panel->rows,
                                         .n = panel->columns,
                                         .diagonal = panel->stored.diagonal,
                                         .lower = panel->stored.of == TB_LOWER_TRIANGLE,
                                         .hermitian = panel->stored.hermitian};
  TB_TRY(mark_begin(p, stream));
  return tb_triangle_mirror(&p->d->kernels.triangle, panel->type, &args, stream);
}

/* Of one that is up as it is stored. */
static CUresult unfold_panel(struct tb_pipeline *p, const struct tb_step *step, struct tb_extent k) {
  const int64_t side = tb_layout_sides(&p->layout, step->of_b, step->index).start;
  const struct tb_matrix from =
      step->of_b ? tb_layout_stored(&p->layout, k.start, side) : tb_layout_stored(&p->layout, side, k.start);
  struct tb_upload panel = tb_up_panel(&p->layout, step);
  panel.source = (const void *)from.address;
  panel.source_ld = from.ld;
  return tb_compute_form(p, &panel, p->packing);
}

static CUresult expand_a(struct tb_pipeline *p, int64_t row, struct tb_extent k, CUstream stream) {
  const struct tb_layout *l = &p->layout;
  const struct tb_call *call = l->call;
  const struct tb_matrix from = tb_layout_panel(l, TB_OF_A, row, k), to = tb_layout_real(l, TB_OF_A, row, k);
  const int64_t sides = tb_layout_rows(l, row).size;
  const bool along = call->a.transposed;
  struct tb_complex_expand_args args = {.from = (const void *)from.address,
                                        .to = (void *)to.address,
                                        .from_ld = from.ld,
                                        .to_ld = to.ld,
                                        .rows = along ? k.size : sides,
                                        .columns = along ? sides : k.size,
                                        .along_k = along,
                                        .conjugate_a = call->a.conjugated,
                                        .conjugate_b = call->b.conjugated,
                                        .scaled = !tb_scalar_is_real(call->type, call->alpha)};
  tb_expand_alpha(call, args.alpha);
  return tb_complex_expand(&p->d->kernels.complex, &args, stream);
}

static CUresult part_b(struct tb_pipeline *p, int64_t column, struct tb_extent k, CUstream stream) {
  const struct tb_layout *l = &p->layout;
  const struct tb_matrix from = tb_layout_panel(l, TB_OF_B, column, k), to = tb_layout_real(l, TB_OF_B, column, k);
  struct tb_complex_part_args args = {.from = (const void *)from.address,
                                      .to = (void *)to.address,
                                      .from_ld = from.ld,
                                      .to_ld = to.ld,
                                      .rows = tb_layout_columns(l, column).size,
                                      .columns = k.size};
  return tb_complex_part(&p->d->kernels.complex, &args, stream);
}

CUresult tb_compute_make_real(struct tb_pipeline *p, bool of_b, int64_t index, struct tb_extent k, CUstream stream) {
  if (!is_made_real(p)) return CUDA_SUCCESS;
  if (!of_b) return expand_a(p, index, k, stream);
  return p->layout.plan->operand[TB_OF_B].real_elems > 0 ? part_b(p, index, k, stream) : CUDA_SUCCESS;
}

/* For the tensor cores, span after span. */
static CUresult pack_panel(struct tb_pipeline *p, bool of_b, int64_t index, struct tb_extent k) {
  const struct tb_layout *l = &p->layout;
  const int64_t parts = tb_kernel_parts(l->call->type);
  const struct tb_matrix x = kernel_panel(p, of_b, index, k);
  const int64_t sides = (of_b ? 1 : parts) * tb_layout_sides(l, of_b, index).size;
  struct tb_emulated_operand operand =
      tb_emulated_operand_at(x.address, x.ld, sides, of_b, tb_runs_along_k(l->call, of_b));
  for (int64_t start = 0; start < k.size; start += l->plan->span_k) {
    const CUdeviceptr to = tb_layout_packed(l, of_b, index, k.start + start);
    const int64_t span_k = parts * tb_min(l->plan->span_k, k.size - start);
    TB_TRY(tb_emulated_pack(&p->d->kernels.emulated, &operand, to, NULL, 0, span_k, p->packing));
    operand.from += operand.along_k ? span_k : span_k * operand.ld;
  }
  return CUDA_SUCCESS;
}

/* As an operand's panel of the product that the layout is at. */
static CUresult prepare_as(struct tb_pipeline *p, bool of_b, int64_t index, struct tb_extent k) {
  TB_TRY(tb_compute_make_real(p, of_b, index, k, p->packing));
  return tb_plan_packs(p->layout.plan) ? pack_panel(p, of_b, index, k) : CUDA_SUCCESS;
}

/* As the other operand's, which it is in the second product. */
static CUresult prepare_for_second(struct tb_pipeline *p, const struct tb_step *step, struct tb_extent k) {
  tb_layout_exchange(&p->layout);
  const CUresult result = prepare_as(p, !step->of_b, step->index, k);
  tb_layout_exchange(&p->layout);
  return result;
}

/* A slice of a panel that is there: made real, packed. In a stream of its own: the GPU may have no multiprocessor free
 * for it yet, and neither the link nor launches from other panels need wait for that. */
static CUresult prepare_panel(struct tb_pipeline *p, const struct tb_step *step) {
  const struct tb_extent k = tb_layout_slice(&p->layout, step->slice);
  TB_TRY(await_panels(p, p->packing));
  if (p->up.must_hold_packing) TB_TRY(hold_stream(p, p->packing));
  p->up.must_hold_packing = false;
  TB_TRY(mark_begin(p, p->packing));
  if (tb_plan_unfolds(p->layout.plan, p->layout.call, step->of_b)) TB_TRY(unfold_panel(p, step, k));
  TB_TRY(prepare_as(p, step->of_b, step->index, k));
  if (p->layout.plan->both) TB_TRY(prepare_for_second(p, step, k));
  TB_TRY(tb_cuda.cuEventRecord(p->d->packed, p->packing));
  p->packed = true;
  return CUDA_SUCCESS;
}

/* What the launches of a step want to have happened. */
static CUresult await_step(struct tb_pipeline *p, CUstream stream) {
  if (!tb_plan_prepares(p->layout.plan)) return await_panels(p, stream);
  if (p->packed && stream != p->packing) TB_TRY(tb_cuda.cuStreamWaitEvent(stream, p->d->packed, 0));
  return CUDA_SUCCESS;
}

/* The launches of a tile for the second product, slice after slice, behind all of the first one's. */
static CUresult launch_second(struct tb_pipeline *p, int64_t row, int64_t column) {
  CUresult result = CUDA_SUCCESS;
  tb_layout_exchange(&p->layout);
  for (int64_t slice = 0; slice < tb_layout_slices(&p->layout) && result == CUDA_SUCCESS; slice++)
    result = tb_compute_launch(p, row, column, tb_layout_slice(&p->layout, slice));
  tb_layout_exchange(&p->layout);
  return result;
}

/* Whether all of a row's and a column's panels of either product is there. */
static bool has_both(const struct tb_pipeline *p, int64_t row, int64_t column) {
  const int64_t all = tb_layout_slices(&p->layout);
  const int64_t *const a = p->slices[TB_OF_A], *const b = p->slices[TB_OF_B];
  return a[row] == all && b[row] == all && a[column] == all && b[column] == all;
}

/* Of a step's panel and one of the other operand's, if that is there. */
static CUresult launch_with(struct tb_pipeline *p, const struct tb_step *step, int64_t other, bool *launched) {
  const int64_t row = step->of_b ? other : step->index, column = step->of_b ? step->index : other;
  if (p->slices[!step->of_b][other] <= step->slice) return CUDA_SUCCESS;
  if (tb_layout_misses(&p->layout, row * p->layout.columns + column)) return CUDA_SUCCESS;
  *launched = true;
  TB_TRY(await_step(p, stream_of(p, row, column)));
  return tb_compute_launch(p, row, column, tb_layout_slice(&p->layout, step->slice));
}

/* The second product of a tile in a panel's row, or in its column, if the panel is the last thing that was missing. */
static CUresult add_second(struct tb_pipeline *p, int64_t index, int64_t other, bool in_column, bool *launched) {
  const int64_t row = in_column ? other : index, column = in_column ? index : other;
  if (!has_both(p, row, column) || (in_column && other == index)) return CUDA_SUCCESS;
  if (tb_layout_misses(&p->layout, row * p->layout.columns + column)) return CUDA_SUCCESS;
  *launched = true;
  TB_TRY(await_step(p, stream_of(p, row, column)));
  return launch_second(p, row, column);
}

static CUresult begin_launches(struct tb_pipeline *p, const struct tb_step *step) {
  if (!p->up.operand[step->of_b].packed) TB_TRY(prepare_panel(p, step));
  p->slices[step->of_b][step->index] = step->slice + 1;
  return CUDA_SUCCESS;
}

CUresult tb_compute_step(struct tb_pipeline *p, const struct tb_step *step, bool *over) {
  const int64_t others = step->of_b ? p->layout.rows : p->layout.columns;
  const int64_t all = others + (p->layout.plan->both ? 2 * p->layout.rows : 0);
  bool launched = false;
  if (p->next_launch == 0) TB_TRY(begin_launches(p, step));
  while (!launched && p->next_launch < all) {
    const int64_t number = p->next_launch++, second = number - others;
    TB_TRY(second < 0 ? launch_with(p, step, number, &launched)
                      : add_second(p, step->index, second / 2, second % 2 == 1, &launched));
  }
  *over = p->next_launch == all;
  if (*over) p->next_launch = 0;
  return CUDA_SUCCESS;
}
