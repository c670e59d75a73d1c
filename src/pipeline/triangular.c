/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/triangular.h"

#include <stdlib.h>

#include "base/options.h"
#include "cuda/launch.h"
#include "pipeline/triangular_internal.h"
#include "select/commit.h"

/* ---- where things lie ---- */

static CUdeviceptr triangular_place(const struct tb_triangular *t, int64_t block) {
  return t->d->arena + (CUdeviceptr)(t->plan->b_offset_bytes + block % t->plan->places * t->plan->b_bytes);
}

/* The first element of a block as the program has B. */
static void *block_of_b(const struct tb_triangular *t, int64_t block) {
  const int64_t first = tb_triangular_first(t->plan, block);
  return t->plan->turns ? tb_call_c(t->call, first, 0) : tb_call_c(t->call, 0, first);
}

struct tb_triangular_stored tb_triangular_stored(const struct tb_triangular *t, int64_t portion) {
  const struct tb_triangular_plan *plan = t->plan;
  const int64_t block = tb_triangular_block_of(plan, portion), sides = tb_triangular_size(plan, block);
  const struct tb_triangular_rows rows = tb_triangular_rows_of(plan, tb_triangular_band_of(plan, portion));
  const int64_t first = tb_triangular_first(plan, block), size = tb_call_bytes(t->call);
  if (!plan->turns)
    return (struct tb_triangular_stored){{rows.first, rows.size, first, sides},
                                         {triangular_place(t, block) + (CUdeviceptr)(rows.first * size), plan->b_ld}};
  const int64_t at = plan->stored_offset_bytes + block % plan->places * plan->stored_bytes;
  return (struct tb_triangular_stored){
      {first, sides, rows.first, rows.size},
      {t->d->arena + (CUdeviceptr)(at + rows.first * plan->stored_ld * size), plan->stored_ld}};
}

/* The block as it is computed. */
static struct tb_triangular_columns columns_of(const struct tb_triangular *t, int64_t block) {
  const struct tb_triangular_plan *plan = t->plan;
  const CUdeviceptr there = plan->places == 0 ? (CUdeviceptr)block_of_b(t, block) : triangular_place(t, block);
  return (struct tb_triangular_columns){there, plan->b_ld, tb_triangular_size(plan, block)};
}

/* ---- what is waited for ---- */

/* One for each portion of bands. Blocks take turns, for there are few places for them, and so do panels, which are
 * formed in turn: who meets a later one's event waits for more than it need. */
#define EVENTS_OF_A_KIND (TB_TRIANGULAR_STREAMS * TB_TRIANGULAR_BANDS_MAX)
_Static_assert(EVENTS_OF_A_KIND >= TB_TRIANGULAR_PLACES_MAX, "a place's event is not another one's");
_Static_assert(3 * EVENTS_OF_A_KIND <= TB_TILES_MAX * TB_TILES_MAX, "as many as a device has");

static CUresult event_of(struct tb_triangular *t, enum tb_triangular_event kind, int64_t number, CUevent *event) {
  return tb_device_tile_event(t->d, kind * EVENTS_OF_A_KIND + number % EVENTS_OF_A_KIND, event);
}

CUresult tb_triangular_record(struct tb_triangular *t, enum tb_triangular_event kind, int64_t number, CUstream stream) {
  CUevent event;
  TB_TRY(event_of(t, kind, number, &event));
  TB_TRY(tb_cuda.cuEventRecord(event, stream));
  return CUDA_SUCCESS;
}

CUresult tb_triangular_await(struct tb_triangular *t, enum tb_triangular_event kind, int64_t number, CUstream stream) {
  CUevent event;
  TB_TRY(event_of(t, kind, number, &event));
  TB_TRY(tb_cuda.cuStreamWaitEvent(stream, event, 0));
  return CUDA_SUCCESS;
}

/* ---- a block ---- */

CUresult tb_triangular_mark_begin(struct tb_triangular *t, CUstream stream) {
  if (t->timed && !t->marked_compute) TB_TRY(tb_cuda.cuEventRecord(t->d->marks[TB_COMPUTE_BEGIN], stream));
  t->marked_compute = true;
  return CUDA_SUCCESS;
}

static struct tb_triangular_room room_for(const struct tb_triangular *t, int64_t block) {
  const struct tb_triangular_plan *const plan = t->plan;
  const int64_t stream = block % plan->streams;
  return (struct tb_triangular_room){
      .workspace = t->d->arena + (CUdeviceptr)(plan->workspace_offset_bytes + stream * plan->workspace_bytes),
      .apart = t->d->arena + (CUdeviceptr)(plan->apart_offset_bytes + stream * plan->apart_bytes)};
}

static CUstream stream_for(const struct tb_triangular *t, int64_t portion) {
  return t->d->compute[tb_triangular_block_of(t->plan, portion) % t->plan->streams];
}

static struct tb_triangular_rows all_rows(const struct tb_triangular *t) {
  return (struct tb_triangular_rows){0, t->plan->shape.order};
}

static CUresult scale_rows(struct tb_triangular *t, const struct tb_triangular_columns *b,
                           struct tb_triangular_rows rows, CUstream stream) {
  const struct tb_call *call = t->call;
  const struct tb_commit scaled = {.type = call->type,
                                   .c = tb_triangular_row_of_block(t, b, rows.first),
                                   .ldc = b->ld,
                                   .m = rows.size,
                                   .n = b->sides,
                                   .beta = call->alpha};
  if (tb_scalar_is_one(call->type, call->alpha)) return CUDA_SUCCESS;
  return tb_kernels_commit(&t->d->kernels, t->d->commit, &scaled, stream);
}

/* `stored` has the first of these rows. On the way back a product that is made apart from the block is read there. */
static CUresult turn_rows(struct tb_triangular *t, int64_t block, struct tb_triangular_rows rows,
                          struct tb_matrix stored, bool back) {
  struct tb_triangular_columns b = columns_of(t, block);
  if (back && t->plan->how != TB_BY_HALVES) b.address = room_for(t, block).apart, b.ld = t->plan->apart_ld;
  const CUdeviceptr there = tb_triangular_row_of_block(t, &b, rows.first);
  struct tb_triangle_turn_args args = {.from = (const void *)(back ? there : stored.address),
                                       .to = (void *)(back ? stored.address : there),
                                       .from_ld = back ? b.ld : stored.ld,
                                       .to_ld = back ? stored.ld : b.ld,
                                       .rows = back ? rows.size : b.sides,
                                       .columns = back ? b.sides : rows.size};
  return tb_solve_turn(&t->d->kernels.solve, t->call->type, &args, stream_for(t, block));
}

/* Panels of A' that a portion waits for: with bands what it needs, and else all that there are by now. */
static int64_t panels_awaited(const struct tb_triangular *t, int64_t portion) {
  return t->plan->depth > 0 ? tb_triangular_band_of(t->plan, portion) + 1 : t->formed;
}

/* Behind what is formed of A', and of an A in place behind what the program has enqueued. */
static CUresult await_formed(struct tb_triangular *t, int64_t portion) {
  const int64_t panels = panels_awaited(t, portion);
  if (panels > 0) TB_TRY(tb_triangular_await(t, TB_TRIANGULAR_FORMED, panels - 1, stream_for(t, portion)));
  t->awaited = panels;
  return CUDA_SUCCESS;
}

static CUresult end_portion(struct tb_triangular *t, int64_t portion) {
  if (t->timed) TB_TRY(tb_cuda.cuEventRecord(t->d->marks[TB_COMPUTE_END], stream_for(t, portion)));
  return CUDA_SUCCESS;
}

static CUresult launch_step(struct tb_triangular *t, int64_t block, const struct tb_triangular_step *step) {
  const struct tb_triangular_columns b = columns_of(t, block);
  return tb_triangular_launch(t, &b, step, room_for(t, block), stream_for(t, block));
}

/* ---- portions that go by slots ---- */

CUresult tb_triangular_take_portion(struct tb_triangular *t) {
  TB_TRY(tb_triangular_record(t, TB_TRIANGULAR_ARRIVED, t->arrived, t->d->up));
  t->arrived++;
  return CUDA_SUCCESS;
}

static CUresult start_portion(struct tb_triangular *t, int64_t portion) {
  const struct tb_triangular_stored stored = tb_triangular_stored(t, portion);
  const struct tb_triangular_rows rows = tb_triangular_rows_of(t->plan, tb_triangular_band_of(t->plan, portion));
  const int64_t block = tb_triangular_block_of(t->plan, portion);
  const struct tb_triangular_columns b = columns_of(t, block);
  TB_TRY(tb_triangular_await(t, TB_TRIANGULAR_ARRIVED, portion, stream_for(t, portion)));
  TB_TRY(await_formed(t, portion));
  TB_TRY(tb_triangular_mark_begin(t, stream_for(t, portion)));
  if (t->plan->turns) TB_TRY(turn_rows(t, block, rows, stored.there, false));
  return scale_rows(t, &b, rows, stream_for(t, portion));
}

static CUresult complete_portion(struct tb_triangular *t, int64_t portion) {
  const struct tb_triangular_stored stored = tb_triangular_stored(t, portion);
  const struct tb_triangular_rows rows = tb_triangular_rows_of(t->plan, tb_triangular_band_of(t->plan, portion));
  const int64_t block = tb_triangular_block_of(t->plan, portion);
  if (t->plan->turns) TB_TRY(turn_rows(t, block, rows, stored.there, true));
  TB_TRY(end_portion(t, portion));
  tb_keep_copy_tile(t->keep, stored.of_b, stored.there, stream_for(t, portion));
  TB_TRY(tb_triangular_record(t, TB_TRIANGULAR_DONE, portion, stream_for(t, portion)));
  t->down.complete++;
  t->computed++;
  t->step = 0;
  return CUDA_SUCCESS;
}

/* To enqueue all of a block takes the host a millisecond, in which the link would come to the end of what there is in
 * slots. So a turn has some steps: 50 us or so. */
#define STEPS_OF_TURN 12

/* Whether what it reads of A' is formed, or will be. */
static bool can_launch(const struct tb_triangular *t, int64_t number) {
  return tb_triangular_panels_for(t->plan, t->call, t->computed, number) <= t->formed;
}

static CUresult compute_turn(struct tb_triangular *t, bool *something) {
  const struct tb_triangular_plan *const plan = t->plan;
  const int64_t portion = t->computed;
  if (portion == t->arrived || !can_launch(t, t->step)) return CUDA_SUCCESS;
  const struct tb_triangular_node band = tb_triangular_node_of(plan, tb_triangular_band_of(plan, portion));
  const int64_t steps = tb_triangular_node_steps(&plan->shape, band);
  *something = true;
  if (t->step == 0) TB_TRY(start_portion(t, portion));
  if (t->awaited < panels_awaited(t, portion)) TB_TRY(await_formed(t, portion));
  const int64_t end = tb_min(steps, t->step + STEPS_OF_TURN);
  for (; t->step < end && can_launch(t, t->step); t->step++) {
    const struct tb_triangular_step step = tb_triangular_node_step(&plan->shape, band, t->step);
    TB_TRY(launch_step(t, tb_triangular_block_of(plan, portion), &step));
  }
  return t->step == steps ? complete_portion(t, portion) : CUDA_SUCCESS;
}

/* ---- where B lies on the GPU ---- */

/* A step counts when it is enqueued: should it fail, so does all memory there. One that the driver refuses in the
 * midst, as for want of memory, leaves the block neither as it was nor as it will be. */
static CUresult make_step_in_place(struct tb_triangular *t, int64_t block, const struct tb_triangular_step *step) {
  const uint64_t before = tb_results_launched();
  const CUresult launched = launch_step(t, block, step);
  if (launched != CUDA_SUCCESS)
    t->progress->torn = t->plan->how == TB_BY_HALVES && tb_results_launched() > before; /* others are made apart */
  else
    t->progress->steps[block % TB_TRIANGULAR_STREAMS]++;
  return launched;
}

/* Has what follows in the stream wait for the first panels of A', so many; where A lies on the GPU these are formed by
 * now, and one more is beside what follows. */
static CUresult reach_panels(struct tb_triangular *t, int64_t panels, CUstream stream) {
  if (t->plan->ways.a == TB_IN_PLACE) TB_TRY(tb_triangular_form_in_place(t, panels + 1));
  return tb_triangular_await(t, TB_TRIANGULAR_FORMED, panels - 1, stream);
}

/* Behind what a step of these blocks reads of A'. */
static CUresult reach_step(struct tb_triangular *t, int64_t first, int64_t end, int64_t number) {
  const int64_t panels = tb_triangular_panels_for(t->plan, t->call, 0, number);
  if (panels <= t->awaited) return CUDA_SUCCESS;
  for (int64_t block = first; block < end; block++) TB_TRY(reach_panels(t, panels, stream_for(t, block)));
  t->awaited = panels;
  return CUDA_SUCCESS;
}

/* Behind a panel of A' in any case, and with that behind what the program has enqueued, of which B may be. */
static CUresult begin_blocks(struct tb_triangular *t, int64_t first, int64_t end) {
  t->awaited = 0;
  TB_TRY(reach_step(t, first, end, 0));
  return tb_triangular_mark_begin(t, stream_for(t, first));
}

/* Of each block in turn a step, so that the streams have something to do beside each other. */
static CUresult run_blocks_in_place(struct tb_triangular *t, int64_t first, int64_t end) {
  const int64_t steps = tb_triangular_steps(&t->plan->shape);
  TB_TRY(begin_blocks(t, first, end));
  for (int64_t block = first; block < end; block++) {
    const struct tb_triangular_columns b = columns_of(t, block);
    TB_TRY(scale_rows(t, &b, all_rows(t), stream_for(t, block)));
    t->progress->steps[block % TB_TRIANGULAR_STREAMS] = 1;
    t->progress->begun = true;
  }
  for (int64_t number = 0; number < steps; number++) {
    const struct tb_triangular_step step = tb_triangular_step(&t->plan->shape, number);
    TB_TRY(reach_step(t, first, end, number));
    for (int64_t block = first; block < end; block++) TB_TRY(make_step_in_place(t, block, &step));
  }
  return CUDA_SUCCESS;
}

/* As many at once as there are streams: there are more where a product is made apart, and memory is short. */
static CUresult run_in_place(struct tb_triangular *t) {
  const int64_t blocks = t->plan->blocks;
  for (int64_t first = 0; first < blocks; first += TB_TRIANGULAR_STREAMS) {
    t->progress->portion = first;
    for (int i = 0; i < TB_TRIANGULAR_STREAMS; i++) t->progress->steps[i] = 0;
    TB_TRY(run_blocks_in_place(t, first, tb_min(blocks, first + TB_TRIANGULAR_STREAMS)));
  }
  return CUDA_SUCCESS;
}

/* Transposed: a block is what it was until it is back. */
static CUresult run_turned(struct tb_triangular *t) {
  for (int64_t block = 0; block < t->plan->blocks; block++) {
    const struct tb_matrix b = {(uint64_t)block_of_b(t, block), t->call->ldc};
    const struct tb_triangular_columns there = columns_of(t, block);
    TB_TRY(begin_blocks(t, block, block + 1));
    TB_TRY(turn_rows(t, block, all_rows(t), b, false));
    TB_TRY(scale_rows(t, &there, all_rows(t), stream_for(t, block)));
    for (int64_t number = 0; number < tb_triangular_steps(&t->plan->shape); number++) {
      const struct tb_triangular_step step = tb_triangular_step(&t->plan->shape, number);
      TB_TRY(reach_step(t, block, block + 1, number));
      TB_TRY(launch_step(t, block, &step));
    }
    TB_TRY(turn_rows(t, block, all_rows(t), b, true));
    t->progress->portion = block + 1;
    t->progress->begun = true;
  }
  return CUDA_SUCCESS;
}

static CUresult finish_in_place(struct tb_triangular *t) {
  for (int64_t block = 0; block < t->plan->streams; block++) {
    TB_TRY(end_portion(t, block));
    TB_TRY(tb_device_wait(t->d, stream_for(t, block)));
  }
  return CUDA_SUCCESS;
}

/* ---- rounds ---- */

static CUresult look_at_signals(struct tb_triangular *t) {
  if (t->d->in_team || !tb_rounds_wanted(&t->rounds)) return CUDA_SUCCESS;
  tb_pool_settle(t->d->pool);
  tb_triangular_down_count(t);
  return tb_rounds_open_window(t->d);
}

static bool is_over(const struct tb_triangular *t) {
  return tb_triangular_up_is_over(t) && (t->plan->ways.c == TB_IN_PLACE || tb_triangular_down_is_over(t));
}

/* Until all that goes by slots has gone. */
static CUresult go_triangular_rounds(struct tb_triangular *t) {
  while (!is_over(t)) {
    bool something = false;
    const CUresult looked = look_at_signals(t);
    if (looked != CUDA_SUCCESS) return looked;
    TB_TRY(tb_triangular_up_turn(t, &something));
    TB_TRY(compute_turn(t, &something));
    TB_TRY(tb_triangular_down_turn(t, &something));
    if (something)
      tb_rounds_went_on(&t->rounds);
    else if (!tb_rounds_help(&t->rounds, t->d))
      TB_TRY(tb_rounds_rest(&t->rounds, t->d));
  }
  return CUDA_SUCCESS;
}

static CUresult run_all(struct tb_triangular *t) {
  const struct tb_ways *ways = &t->plan->ways;
  if (ways->a == TB_IN_PLACE && ways->c != TB_IN_PLACE) TB_TRY(tb_triangular_form_in_place(t, t->plan->panels));
  const CUresult gone = go_triangular_rounds(t);
  if (gone != CUDA_SUCCESS || ways->c != TB_IN_PLACE) return gone;
  TB_TRY(t->plan->turns ? run_turned(t) : run_in_place(t));
  return finish_in_place(t);
}

static void prepare_slots(struct tb_triangular *t) {
  const double order = (double)t->call->k, bytes = (double)tb_call_bytes(t->call);
  const double a = t->plan->ways.a == TB_STAGED ? order * order / 2 * bytes : 0;
  const double b = t->plan->ways.c == TB_STAGED ? order * (double)t->plan->sides * bytes : 0;
  t->is_large = a + 2 * b >= TB_LARGE_BYTES;
  t->rounds = tb_rounds_begin(t->d, t->is_large);
  t->down.rest_bytes = (int64_t)b;
  tb_rounds_prepare_rings(t->d, a + b, b, t->is_large);
}

CUresult tb_triangular_run(struct tb_device *d, const struct tb_call *call, const struct tb_triangular_plan *plan,
                           bool timed, struct tb_keep *keep, struct tb_triangular_progress *progress) {
  if (d->triangular == NULL) d->triangular = malloc(sizeof *d->triangular);
  struct tb_triangular *const t = d->triangular;
  if (t == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool a_is_programs = plan->ways.a == TB_IN_PLACE && plan->ways.kept != TB_ARE_COPIES;
  const bool in_place = a_is_programs || plan->ways.c == TB_IN_PLACE;
  *t = (struct tb_triangular){.d = d,
                              .call = call,
                              .plan = plan,
                              .keep = keep,
                              .progress = progress,
                              .timed = timed,
                              .forming = in_place ? d->ordered : d->packing,
                              .precision = tb_option_number(TB_OPTION_precision),
                              .up = {.sent_job = -1}};
  prepare_slots(t);
  const CUresult result = run_all(t);
  if (result != CUDA_SUCCESS && result != TB_INTERRUPTED) {
    tb_triangular_up_abandon(t);
    tb_triangular_down_abandon(t);
  }
  return result;
}

const char *tb_triangular_kernel(const struct tb_device *d) {
  return d->triangular != NULL && d->triangular->kernel != NULL ? d->triangular->kernel : "triangle";
}
