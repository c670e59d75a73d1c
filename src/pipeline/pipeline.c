/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/pipeline.h"

#include <stdlib.h>

#include "select/commit.h"
#include "pipeline/lines.h"
#include "pipeline/pipeline_internal.h"
#include "cuda/wait.h"

/* Whether an operand is read where the program has it, by the product or by what forms its panels. */
static bool reads_in_place(const struct tb_plan *plan) {
  return (!tb_way_is_by_link(plan->ways.a) || !tb_way_is_by_link(plan->ways.b)) && plan->ways.kept != TB_ARE_COPIES;
}

/* ---- one block ---- */

/* What is on the device of the operands is there for the next block, too. */
static void leave_block(struct tb_pipeline *p) {
  p->resident[TB_OF_A] = p->layout.block.i;
  p->resident[TB_OF_B] = p->layout.block.j;
}

/* While the rest of a block comes down, panels of the next one go up. Its launches wait, for they write to the tiles
 * that come down; so this is for a C of which the host knows when those are free. */
static void go_ahead(struct tb_pipeline *p) {
  if (p->pass != NULL || p->layout.plan->ways.c != TB_STAGED || p->layout.is_last) return;
  leave_block(p);
  tb_layout_enter(&p->layout, tb_layout_next_block(p->layout.call, p->layout.plan, p->progress->block + 1));
  tb_up_enter_chunk(p, true);
}

/* Members of a team are not alone: their signals wait until the call ends. */
static CUresult look_for_signals(struct tb_pipeline *p) {
  if (p->pass != NULL || !tb_rounds_wanted(&p->rounds)) return CUDA_SUCCESS;
  tb_pages_end(&p->pages);
  tb_keep_pause_asker(p->keep);
  tb_pool_settle(p->d->pool);
  tb_down_count_committed(p);
  const CUresult opened = tb_rounds_open_window(p->d); /* if it is interrupted *p is another call's */
  if (opened == CUDA_SUCCESS && p->keep != NULL) tb_keep_begin_asker(p->keep, p->d);
  return opened;
}

/* Of a C that comes down by slots: when the first pieces of the operands are the threads' to copy, for a thread that
 * finds none of those first has a huge page, which takes half a millisecond. */
static void begin_pages_of_c(struct tb_pipeline *p) {
  if (p->began_pages || p->down.layout.plan->ways.c != TB_STAGED) return;
  p->began_pages = true;
  tb_pages_begin(&p->pages, p->d->pool, p->down.layout.call);
}

/* What goes up, where the caller copies it alone: then threads are free for pages from the beginning. */
#define LITTLE_UP_BYTES (2 * TB_COPY_ALONE_BYTES)

/* All chunks of k, until every launch is enqueued and all that is to come down by slots is committed. */
static CUresult go_round(struct tb_pipeline *p) {
  for (bool more = true; more || !tb_down_is_over(p);) {
    enum tb_turn turn = TB_NOTHING;
    const CUresult looked = look_for_signals(p);
    if (looked != CUDA_SUCCESS) return looked;
    if (p->pass != NULL) TB_TRY(tb_pass_offer(p->pass, false));
    if (p->staged_bytes <= LITTLE_UP_BYTES) begin_pages_of_c(p);
    if (more || p->up.ahead) TB_TRY(tb_up_turn(p, &turn));
    begin_pages_of_c(p);
    TB_TRY(tb_down_turn(p, &turn));
    if (more && tb_up_is_over(p)) {
      more = tb_layout_next_chunk(&p->layout);
      if (more)
        tb_up_enter_chunk(p, false);
      else
        go_ahead(p);
    } else if (turn == TB_NOTHING) {
      if (!tb_rounds_help(&p->rounds, p->d) && !tb_keep_ask(p->keep)) TB_TRY(tb_rounds_rest(&p->rounds, p->d));
    } else {
      tb_rounds_went_on(&p->rounds);
    }
  }
  return CUDA_SUCCESS;
}

/* Of a triangle a GPU's share may have panels that no tile wants, and for which nothing has waited. */
static CUresult await_spare_panels(struct tb_pipeline *p) {
  if (!p->d->in_team || p->layout.call->region.of == TB_WHOLE) return CUDA_SUCCESS;
  TB_TRY(tb_device_wait(p->d, p->d->up));
  if (p->pass != NULL && p->pass->fetched) TB_TRY(tb_device_wait(p->d, p->d->fetching));
  return tb_plan_prepares(p->layout.plan) ? tb_device_wait(p->d, p->packing) : CUDA_SUCCESS;
}

/* Of a result that stays; the next block's tiles replace them. */
static CUresult await_copied_tiles(struct tb_pipeline *p) {
  const bool copies = p->keep != NULL && p->keep->result != NULL;
  for (int s = 0; copies && s < p->stream_count; s++) TB_TRY(tb_device_wait(p->d, p->streams[s]));
  return CUDA_SUCCESS;
}

/* Until C has all of the block, and nothing of it is under way. */
static CUresult finish_block(struct tb_pipeline *p) {
  const struct tb_layout *l = &p->down.layout;
  const enum tb_way way = l->plan->ways.c;
  TB_TRY(await_spare_panels(p));
  TB_TRY(await_copied_tiles(p));
  if (way == TB_DIRECT) TB_TRY(tb_device_wait(p->d, p->d->down));
  for (int s = 0; way == TB_IN_PLACE && s < p->stream_count; s++) TB_TRY(tb_device_wait(p->d, p->streams[s]));
  bool counted = way == TB_STAGED || (way == TB_IN_PLACE && !tb_kernels_write_c(&l->plan->ways, l->call));
  /* What a failure before this point left in C is overwritten by the CPU. */
  for (int64_t tile = 0; !counted && tile < l->rows * l->columns; tile++)
    tb_down_count(p, tile, tb_layout_tile(l, tile).n);
  return CUDA_SUCCESS;
}

static CUresult run_block(struct tb_pipeline *p, int64_t number) {
  if (!p->up.ahead) {
    tb_layout_enter(&p->layout, number);
    tb_up_enter_chunk(p, false);
  }
  tb_down_enter_block(p);
  if (p->layout.plan->one_slot) return tb_one_slot_run(p);
  tb_up_catch_up(p);
  TB_TRY(go_round(p));
  if (p->pass != NULL) TB_TRY(tb_pass_offer(p->pass, true));
  if (!p->up.ahead) leave_block(p);
  /* Nothing of this block is under way when the next one overwrites its tiles. */
  return finish_block(p);
}

/* ---- one call ---- */

/* Bytes of the operands of calls of middling size: smaller ones are wholly streamed, and so little of them comes
 * down that to drop lines takes what it gains (768 cubed 0.28 and 0.27 ms without). */
#define CLEANED_BYTES_MIN ((int64_t)8 << 20)
#define CLEANED_BYTES_MAX ((int64_t)28 << 20)

/* By what goes by slots. */
static void prepare_staging(struct tb_pipeline *p, const struct tb_call *call, const struct tb_plan *plan) {
  const struct tb_ways *const ways = &plan->ways;
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  const double bytes = (double)tb_call_bytes(call);
  double a = ways->a == TB_STAGED ? m * k : 0, b = ways->b == TB_STAGED && !plan->twins ? k * n : 0;
  *(tb_plan_unfolds(plan, call, TB_OF_A) ? &a : &b) *= plan->stored_ld > 0 ? 0.5 : 1;
  const double up = (a + b) * bytes;
  const double down = ways->c == TB_STAGED ? tb_call_elems(call) * bytes : 0;
  p->staged_bytes = (int64_t)up;
  p->cleans_lines =
      p->staged_bytes >= CLEANED_BYTES_MIN && p->staged_bytes <= CLEANED_BYTES_MAX && tb_lines_can_leave();
  p->is_large = up + down >= TB_LARGE_BYTES;
  p->turn.wanted = p->d->beside_others && up + down >= TB_TURN_BYTES;
  p->rounds = tb_rounds_begin(p->d, p->is_large);
  tb_rounds_prepare_rings(p->d, up, down, p->is_large);
}

/* What comes down by slots. Of a triangle whole tiles do. */
static int64_t down_bytes_of(const struct tb_pipeline *p) {
  struct tb_layout l = p->layout;
  int64_t elems = 0;
  if (l.call->region.of == TB_WHOLE) return l.call->m * l.call->n * tb_call_bytes(l.call);
  if (l.plan->ways.c != TB_STAGED) return 0;
  for (int64_t block = 0; block < tb_layout_blocks(l.call, l.plan); block++) {
    tb_layout_enter(&l, block);
    for (int64_t tile = 0; tile < l.rows * l.columns; tile++) {
      const struct tb_block t = tb_layout_tile(&l, tile);
      if (!tb_layout_misses(&l, tile)) elems += t.m * t.n;
    }
  }
  return elems * tb_call_bytes(l.call);
}

static CUresult run_blocks(struct tb_pipeline *p, const struct tb_call *call, const struct tb_plan *plan) {
  struct tb_progress *progress = p->progress;
  const int64_t blocks = tb_layout_blocks(call, plan);
  progress->block = tb_layout_next_block(call, plan, 0);
  for (; progress->block < blocks; progress->block = tb_layout_next_block(call, plan, progress->block + 1))
    TB_TRY(run_block(p, progress->block));
  return CUDA_SUCCESS;
}

/* Several streams begin when the program's own work is done. */
static CUresult begin_behind_program(struct tb_pipeline *p) {
  const CUevent there = p->d->drained[0];
  TB_TRY(tb_cuda.cuEventRecord(there, p->d->ordered));
  for (int s = 0; s < p->stream_count; s++) TB_TRY(tb_cuda.cuStreamWaitEvent(p->streams[s], there, 0));
  TB_TRY(tb_cuda.cuStreamWaitEvent(p->packing, there, 0));
  return CUDA_SUCCESS;
}

CUresult tb_pipeline_run(struct tb_device *device, const struct tb_call *call, const struct tb_plan *plan,
                         const struct tb_choice *choice, bool timed, struct tb_pass *pass, struct tb_keep *keep,
                         struct tb_progress *progress) {
  if (device->pipeline == NULL) device->pipeline = malloc(sizeof *device->pipeline);
  struct tb_pipeline *const p = device->pipeline;
  if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = (struct tb_pipeline){.d = device,
                            .layout = {.call = call, .plan = plan, .arena = device->arena},
                            .choice = choice,
                            .pass = pass,
                            .keep = keep,
                            .timed = timed,
                            .progress = progress,
                            .streams = device->compute,
                            .stream_count = plan->emulated ? plan->streams : TB_COMPUTE_STREAMS,
                            .packing = device->packing,
                            .resident = {-1, -1}};
  for (int of_b = 0; of_b < 2 && keep != NULL; of_b++) p->layout.packed[of_b] = keep->planes[of_b].at;
  if (call->twice) p->again = tb_call_exchanged(call);
  p->layout.other = &p->again;
  p->down.all_bytes = p->down.rest_bytes = down_bytes_of(p);
  prepare_staging(p, call, plan);
  if ((reads_in_place(plan) || plan->ways.c == TB_IN_PLACE) && !plan->triangle_in_place) {
    p->streams = &device->ordered;
    p->stream_count = 1;
    p->packing = device->ordered;
  }
  CUresult result = plan->triangle_in_place ? begin_behind_program(p) : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS) result = run_blocks(p, call, plan);
  if (result == TB_INTERRUPTED) return result; /* *p is another call's, and so is the turn */
  tb_upward_end(device, &p->turn);
  tb_pages_end(&p->pages);
  if (result != CUDA_SUCCESS) {
    tb_up_abandon(p);
    tb_down_abandon(p);
  }
  return result;
}

CUresult tb_pipeline_scale(struct tb_device *device, const struct tb_call *call, struct tb_progress *progress) {
  const struct tb_commit scaled = {.type = call->type,
                                   .c = (CUdeviceptr)call->c,
                                   .ldc = call->ldc,
                                   .m = call->m,
                                   .n = call->n,
                                   .beta = call->beta,
                                   .region = call->region};
  if (!tb_scalar_is_one(call->type, call->beta))
    TB_TRY(tb_kernels_commit(&device->kernels, device->commit, &scaled, device->ordered));
  progress->committed_columns[0] = call->n;
  progress->committed = true;
  TB_TRY(tb_device_wait(device, device->ordered));
  return CUDA_SUCCESS;
}
