/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "pipeline/pipeline_internal.h"

/* A call's first pieces are small, so that the link starts soon: 256 KiB take the threads and the link some
 * microseconds each. Each later one is at most as large as all before it. */
#define FIRST_PIECE_BYTES ((int64_t)256 << 10)

/*
 * By which stores elements get into the slots. Streaming stores go to memory, where they are in the way of what is read
 * and of the GPU's own reading: 44 GB/s up instead of 50 alone, 38 instead of 44 while C comes down. Others leave the
 * elements in a core's own caches, from which the GPU reads at 20 GB/s, until later copies have driven them out into
 * the cache that the cores share. So the first pieces, for which nothing would do that, go by streaming stores. (H200,
 * 16 cores: 4096 cubed 4.4 ms by streaming stores alone, 3.8 ms with this; 1024 cubed 0.43 ms, and 0.60 by others
 * alone. Lines that are told to go to the shared cache, by cldemote: 8192 cubed 15.8 to 16.5 ms, and 13.8 to 14.3
 * without.)
 *
 * Where little more follows, nothing drives them out: of calls of middling size all that is not streamed is written
 * back at once. Threads that do so reach no more than the link, so that it would hold up larger products. (H200, 16
 * cores, with this, and what down.c drops, and without: 1024 cubed 0.31 and 0.34 ms, 1280 0.47 and 0.54, 1536 0.63 and
 * 0.69, 1792 0.79 and 0.85. Tried: 2048 on one host 1.00 and 1.06, on another 1.04 and 1.01; of larger ones the first
 * 32 MiB, 2560 1.61 and 1.54, 4096 3.48 and 3.42.)
 */
#define STREAMED_BYTES ((int64_t)8 << 20)
#define STREAMED_OF_CLEANED_BYTES ((int64_t)4 << 20)
#define STREAMED_OF_CLEANED_SHARE 4

/* Nor are those of short columns written back: thirteen threads do so at 38 GB/s, and write past the caches at 90,
 * since they write the lines' ends as well (copy.c). (H200's host, columns of 296 bytes.) */
#define SHORT_COLUMN_BYTES 1024

static enum tb_stores stores_now(const struct tb_pipeline *p) {
  const struct tb_upload *const u = &p->up.upload;
  const int64_t begun = p->up.begun_bytes;
  if (!p->cleans_lines) return begun < STREAMED_BYTES ? TB_STORES_STREAMED : TB_STORES_CACHED;
  if (u->rows * tb_type_bytes(u->type) < SHORT_COLUMN_BYTES) return TB_STORES_STREAMED;
  return begun < tb_max(STREAMED_OF_CLEANED_BYTES, p->staged_bytes / STREAMED_OF_CLEANED_SHARE)
             ? TB_STORES_STREAMED
             : TB_STORES_WRITTEN_BACK;
}

static int up_slot_of(const struct tb_pipeline *p, uint64_t number) { return tb_slot_of(&p->d->up_ring, number); }

static struct tb_up_entry *up_entry_of(struct tb_pipeline *p, uint64_t number) {
  return &p->up.entry[up_slot_of(p, number)];
}

static bool is_full(const struct tb_pipeline *p) {
  return p->up.begun - p->up.freed == (uint64_t)tb_ring_pieces(&p->d->up_ring);
}

static bool needs_slot(const struct tb_up_entry *e) { return e->way == TB_STAGED && !e->from_other; }

/* Whether the panels of one operand go up before the other's. Not in the end, when tiles should be complete one after
 * another, for nothing but C is left to move. */
static bool has_order(const struct tb_pipeline *p) {
  const struct tb_layout *l = &p->layout;
  const bool at_end = l->is_last && tb_layout_is_last_chunk(l);
  return tb_plan_packs(l->plan) && l->plan->chunk_k < l->call->k && tb_way_is_by_link(l->plan->ways.a) &&
         tb_way_is_by_link(l->plan->ways.b) && !at_end;
}

/* Where one operand's panels go up first: a mirrored A's ahead of strips; else those of the one whose panels did not in
 * the chunk before. Where the first chunk of A has room of its own, A's in the second: they replace nothing that the
 * first one's launches read, of which there may be many to run, for of that only B may have gone up. */
static enum tb_schedule_order order_of(const struct tb_pipeline *p) {
  const struct tb_layout *l = &p->layout;
  if (!tb_plan_packs(l->plan)) return l->plan->by_slices ? TB_BY_SLICES : TB_IN_TURN;
  if (l->plan->strips && l->plan->stored_ld > 0) return TB_A_FIRST;
  if (!has_order(p)) return TB_BY_SLICES;
  if (l->plan->a_kept_bytes > 0 && l->chunk.start <= l->plan->chunk_k)
    return l->chunk.start == 0 ? TB_B_FIRST : TB_A_FIRST;
  return p->up.schedule.order == TB_A_FIRST ? TB_B_FIRST : TB_A_FIRST;
}

void tb_up_enter_chunk(struct tb_pipeline *p, bool ahead) {
  struct tb_up *up = &p->up;
  const struct tb_plan *plan = p->layout.plan;
  /* Two products that do not share their panels replace each other's. */
  const bool whole_k = plan->chunk_k == p->layout.call->k && (!p->layout.call->twice || plan->both);
  const int64_t first[2] = {p->layout.block.i, p->layout.block.j};
  for (int of_b = 0; of_b < 2; of_b++) {
    const bool same_part = p->resident[of_b] == first[of_b], resident = whole_k && same_part;
    const bool kept = !of_b && plan->a_kept_bytes > 0 && p->layout.chunk.start == 0 && same_part;
    up->operand[of_b].there = tb_way_of(&plan->ways, of_b) == TB_IN_PLACE || resident || kept;
    /* Other chunks were packed where what is kept was. */
    const bool stays = p->keep != NULL && p->keep->planes[of_b].packed;
    up->operand[of_b].packed = !tb_plan_prepares(plan) || resident || stays;
  }
  const enum tb_schedule_order before = up->schedule.order, order = order_of(p);
  up->schedule = (struct tb_schedule){p->layout.rows, p->layout.columns, tb_layout_slices(&p->layout), order};
  up->begun_steps = up->ended_steps = up->computed_steps = 0;
  up->ahead = ahead;
  up->must_hold = ahead || p->layout.chunk.start > 0 || p->layout.exchanged;
  /* What is made of a panel in place replaces what launches may read, and no upload waits for these. */
  const bool by_link = tb_way_is_by_link(plan->ways.a) && tb_way_is_by_link(plan->ways.b);
  const bool unheld = !by_link && p->packing != p->streams[0] && (p->layout.chunk.start > 0 || p->layout.exchanged);
  up->must_hold_packing = unheld || (plan->a_kept_bytes > 0 && p->layout.chunk.start == plan->chunk_k);
  up->free_panels = order != before ? up->freed_panels : 0; /* of the operand that goes up first now */
  up->freed_panels = 0;
  up->awaited_half = false;
  memset(p->slices, 0, sizeof p->slices);
}

/* ---- beginning ---- */

/* Whether the same has gone up as a panel of A, whose step is ahead in every order without a cut. */
static bool is_twin(const struct tb_layout *l, const struct tb_step *step) { return l->plan->twins && step->of_b; }

/* What panel `index` of a mirrored operand brings: the columns of the triangle that meet the diagonal in the panel. Of
 * the square on the diagonal the other half is not read, and what goes up in its place is nothing that anybody wants.
 */
static struct tb_upload stored_part(const struct tb_layout *l, bool of_b, int64_t index) {
  const struct tb_extent sides = tb_layout_sides(l, of_b, index);
  const struct tb_view operand = tb_operand_of(l->call, of_b);
  const bool lower = operand.uplo == TB_LOWER;
  const struct tb_view x = tb_view_at(operand, lower ? sides.start : 0, sides.start);
  const struct tb_matrix to = tb_layout_stored(l, lower ? sides.start : 0, sides.start);
  return (struct tb_upload){.type = x.type,
                            .source = x.data,
                            .source_ld = x.ld,
                            .rows = lower ? l->call->k - sides.start : sides.start + sides.size,
                            .columns = sides.size,
                            .target = to.address,
                            .target_ld = to.ld,
                            .apart = true,
                            .stored = tb_view_stored(&x)};
}

struct tb_upload tb_up_panel(const struct tb_layout *l, const struct tb_step *step) {
  const struct tb_extent k = tb_layout_slice(l, step->slice);
  const struct tb_view x = tb_layout_view(l, step->of_b, step->index, k);
  const struct tb_matrix to = tb_layout_panel(l, step->of_b, step->index, k);
  const int64_t across = tb_layout_sides(l, step->of_b, step->index).size;
  const bool along = tb_runs_along_k(l->call, step->of_b);
  struct tb_upload u = {.type = x.type, .source = x.data, .source_ld = x.ld, .target = to.address, .target_ld = to.ld};
  u.rows = along ? k.size : across;
  u.columns = along ? across : k.size;
  if (tb_view_is_mirrored(&x)) u.stored = tb_view_stored(&x);
  return u;
}

enum tb_way tb_up_of_step(const struct tb_pipeline *p, const struct tb_step *step, struct tb_upload *u) {
  const struct tb_layout *l = &p->layout;
  const bool unfolds = tb_plan_unfolds(l->plan, l->call, step->of_b);
  if (p->up.operand[step->of_b].there || is_twin(l, step) || (unfolds && step->slice > 0)) return TB_IN_PLACE;
  *u = unfolds ? stored_part(l, step->of_b, step->index) : tb_up_panel(l, step);
  return tb_way_of(&l->plan->ways, step->of_b);
}

static enum tb_operand operand_of(const struct tb_step *step) { return step->of_b ? TB_OPERAND_B : TB_OPERAND_A; }

/* A step, each GPU beginning with its own panels of an operand that is shared. Of an upper triangle that goes up as it
 * is stored the last panel is the first that needs no other's part. */
static struct tb_step step_at(const struct tb_pipeline *p, int64_t number) {
  const struct tb_layout *l = &p->layout;
  struct tb_step step = tb_schedule_step(&p->up.schedule, number);
  if (tb_plan_unfolds(l->plan, l->call, step.of_b) && tb_operand_of(l->call, step.of_b).uplo == TB_UPPER)
    step.index = (step.of_b ? l->columns : l->rows) - 1 - step.index;
  step.index = tb_pass_turn(p->pass, operand_of(&step), step.index);
  return step;
}

/* Of a step that begins: where it comes from. False: another GPU has the panel in hand, and has not offered it yet. */
static bool find_source(struct tb_pipeline *p, struct tb_up_entry *e) {
  e->way = tb_up_of_step(p, &e->step, &p->up.upload);
  e->whole = p->up.upload;
  e->from_other = false;
  if (e->way == TB_IN_PLACE || tb_pass_is_own(p->pass, operand_of(&e->step), e->step.index)) return true;
  const enum tb_panel_state state = tb_pass_look(p->pass, e->step.index, e->step.slice);
  e->from_other = state == TB_PANEL_OFFERED;
  return state != TB_PANEL_AWAITED;
}

/* With a step end those behind it whose panels are twins of such as went up. */
static int64_t steps_ending(const struct tb_pipeline *p) {
  const int64_t all = tb_schedule_steps(&p->up.schedule), first = p->up.begun_steps;
  int64_t end = first + 1;
  for (; end < all; end++) {
    const struct tb_step step = step_at(p, end);
    if (!is_twin(&p->layout, &step)) break;
  }
  return end - first;
}

/* False: there is something to wait for first. */
static bool begin_piece(struct tb_pipeline *p) {
  struct tb_up *up = &p->up;
  struct tb_up_entry *e = up_entry_of(p, up->begun);
  e->step = step_at(p, up->begun_steps);
  e->way = TB_STAGED;
  e->from_other = false;
  if (!up->within_step && !find_source(p, e)) return false;
  bool last = true;
  if (needs_slot(e)) {
    const int64_t most = tb_min(tb_ring_piece_bytes(&p->d->up_ring), tb_max(FIRST_PIECE_BYTES, up->begun_bytes));
    last = tb_upload_cut(&up->upload, most / tb_type_bytes(up->upload.type),
                         tb_slot(&p->d->up_ring, up_slot_of(p, up->begun)), &e->copy, &e->piece);
    e->copy.stores = stores_now(p);
    e->copy.cut = tb_tasks_up(p->is_large, e->copy.stores, tb_copy_bytes(&e->copy), p->staged_bytes);
    tb_copy_start(p->d->pool, &e->copy);
    up->begun_bytes += tb_copy_bytes(&e->copy);
  }
  up->within_step = !last;
  e->steps = last ? steps_ending(p) : 0;
  up->begun_steps += e->steps;
  up->begun++;
  return true;
}

/* ---- sending ---- */

static CUresult mark_up(struct tb_pipeline *p, enum tb_mark which) {
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[which], p->d->up));
  return CUDA_SUCCESS;
}

/* An own panel of an operand that is shared is under way: others will want it. */
static CUresult announce(struct tb_pipeline *p, const struct tb_step *step) {
  if (p->pass == NULL || p->pass->operand != operand_of(step) ||
      !tb_pass_is_own(p->pass, operand_of(step), step->index))
    return CUDA_SUCCESS;
  const struct tb_layout *l = &p->layout;
  const struct tb_extent k = tb_layout_slice(l, step->slice);
  const struct tb_matrix at = tb_layout_panel(l, step->of_b, step->index, k);
  return tb_pass_sent(p->pass, step->index, step->slice, at.address);
}

static CUresult send_piece(struct tb_pipeline *p, int slot, const struct tb_up_entry *e) {
  if (!p->marked_up) TB_TRY(mark_up(p, TB_UP_BEGIN));
  p->marked_up = true;
  TB_TRY(e->way == TB_DIRECT ? tb_upload_direct(p->d, &e->whole) : tb_upload_send(p->d, slot, &e->piece));
  const int64_t direct_bytes = e->whole.rows * e->whole.columns * tb_type_bytes(e->whole.type);
  p->progress->up_bytes += (double)(e->way == TB_DIRECT ? direct_bytes : tb_copy_bytes(&e->copy));
  if (e->steps == 0) return CUDA_SUCCESS;
  p->uploaded = e->way == TB_DIRECT ? p->d->uploaded : p->d->up_ring.moved[slot];
  if (e->way == TB_DIRECT) TB_TRY(tb_cuda.cuEventRecord(p->uploaded, p->d->up));
  TB_TRY(announce(p, &e->step));
  TB_TRY(mark_up(p, TB_UP_END));
  if (p->keep != NULL && p->keep->coming[e->step.of_b] != NULL) {
    const struct tb_upload panel = tb_up_panel(&p->layout, &e->step);
    tb_keep_copy_panel(p->keep, e->step.of_b, &panel, p->d->up);
  }
  return CUDA_SUCCESS;
}

static CUresult fetch_panel(struct tb_pipeline *p, const struct tb_up_entry *e) {
  const int64_t elems = (e->whole.columns - 1) * e->whole.target_ld + e->whole.rows;
  return tb_pass_fetch(p->pass, e->step.index, e->step.slice, e->whole.target, elems * tb_type_bytes(e->whole.type));
}

/* A's panels of the first chunk and those of the second, where they do not share their room: all launches that read
 * what they replace were over before the chunk's block began, or held up another panel. */
static bool replaces_nothing(const struct tb_pipeline *p, const struct tb_step *step) {
  return p->layout.plan->a_kept_bytes > 0 && !step->of_b && p->layout.chunk.start <= p->layout.plan->chunk_k;
}

/* Before a piece of the step that goes up: no launch may need what it replaces. */
static CUresult hold_for_step(struct tb_pipeline *p, const struct tb_step *step) {
  struct tb_up *up = &p->up;
  if (replaces_nothing(p, step)) return CUDA_SUCCESS;
  if (up->ended_steps < tb_min(up->free_panels, tb_schedule_first(&up->schedule))) {
    if (!up->awaited_half) TB_TRY(tb_compute_hold_until_mark(p));
    up->awaited_half = true;
    return CUDA_SUCCESS;
  }
  up->must_hold = false;
  return tb_compute_hold_uploads(p);
}

/* A step is computed. When half of the panels that go up last are, they are free. */
static CUresult end_step(struct tb_pipeline *p) {
  struct tb_up *up = &p->up;
  const int64_t first = tb_schedule_first(&up->schedule), last = tb_schedule_steps(&up->schedule) - first;
  up->computed_steps++;
  if (first == 0 || last < 2 || up->computed_steps != first + last / 2) return CUDA_SUCCESS;
  up->freed_panels = last / 2;
  return tb_compute_mark(p);
}

/* A launch of the steps that have ended. One takes the host 8 to 70 us, and a panel may bring a dozen of them, in which
 * the link would come to the end of what there is in slots. (One H100, ms, three turns, all launches of a panel at once
 * and one a turn: csyrk 8192 18.1 and 17.0, csyr2k 34.3 and 32.6.) */
static CUresult launch_turn(struct tb_pipeline *p, enum tb_turn *turn) {
  struct tb_up *up = &p->up;
  bool over;
  if (up->ahead || up->computed_steps == up->ended_steps) return CUDA_SUCCESS;
  const struct tb_step step = step_at(p, up->computed_steps);
  *turn = TB_SOMETHING;
  TB_TRY(tb_compute_step(p, &step, &over));
  return over ? end_step(p) : CUDA_SUCCESS;
}

void tb_up_catch_up(struct tb_pipeline *p) { p->up.ahead = false; }

/* Of a copy of ours, in the stream of what goes up, behind which the panel is awaited as all others are; of what the
 * program has there, in the one stream behind the program's own work. */
static CUresult form_mirrored(struct tb_pipeline *p, const struct tb_up_entry *e) {
  if (p->layout.plan->ways.kept != TB_ARE_COPIES) return tb_compute_form(p, &e->whole, p->streams[0]);
  TB_TRY(tb_compute_form(p, &e->whole, p->d->up));
  p->uploaded = p->d->uploaded;
  TB_TRY(tb_cuda.cuEventRecord(p->uploaded, p->d->up));
  return CUDA_SUCCESS;
}

/* Whether it replaces a panel that launches in other streams may read. */
static bool replaces_panel(const struct tb_pipeline *p, const struct tb_up_entry *e) {
  return tb_way_is_by_link(e->way) || (e->way == TB_FORMED && p->layout.plan->ways.kept == TB_ARE_COPIES);
}

static CUresult send_oldest(struct tb_pipeline *p) {
  struct tb_up *up = &p->up;
  const struct tb_up_entry *e = up_entry_of(p, up->sent);
  if (replaces_panel(p, e) && up->must_hold) TB_TRY(hold_for_step(p, &e->step));
  if (e->from_other)
    TB_TRY(fetch_panel(p, e));
  else if (e->way == TB_FORMED)
    TB_TRY(form_mirrored(p, e));
  else if (e->way != TB_IN_PLACE)
    TB_TRY(send_piece(p, up_slot_of(p, up->sent), e));
  up->sent++;
  up->ended_steps += e->steps;
  return CUDA_SUCCESS;
}

/* ---- turns ---- */

/* Makes room for another piece, if there is none and the GPU is done with the oldest. */
static CUresult free_oldest(struct tb_pipeline *p) {
  struct tb_up *up = &p->up;
  if (!is_full(p) || up->freed == up->sent) return CUDA_SUCCESS;
  if (needs_slot(up_entry_of(p, up->freed))) {
    const CUresult result = tb_upload_sent(p->d, up_slot_of(p, up->freed));
    if (result == CUDA_ERROR_NOT_READY) return CUDA_SUCCESS;
    TB_TRY(result);
  }
  up->freed++;
  return CUDA_SUCCESS;
}

/* Who waits for others' ways up is not held up by the GPU. */
static bool may_go_up(struct tb_pipeline *p) {
  const bool may = tb_upward_is_ours(p->d, &p->turn);
  if (may)
    tb_upward_used(p->d, &p->turn);
  else
    tb_rounds_wait_for_others(&p->rounds);
  return may;
}

static bool is_copied(const struct tb_pipeline *p, const struct tb_up_entry *e) {
  return !needs_slot(e) || tb_copy_done(p->d->pool, &e->copy);
}

/* A call's first pieces are begun before anything is sent: what is to be launched for an operand that is there already
 * takes the host as long as the threads take to wake. */
#define FIRST_PIECES 3

static void begin_first_pieces(struct tb_pipeline *p) {
  struct tb_up *const up = &p->up;
  while (up->sent == 0 && up->begun < FIRST_PIECES && up->begun_steps < tb_schedule_steps(&up->schedule))
    if (is_full(p) || !may_go_up(p) || !begin_piece(p)) return;
}

static bool all_has_gone(const struct tb_pipeline *p) {
  return p->up.ended_steps == tb_schedule_steps(&p->up.schedule) && p->layout.is_last &&
         tb_layout_is_last_chunk(&p->layout);
}

CUresult tb_up_turn(struct tb_pipeline *p, enum tb_turn *turn) {
  struct tb_up *up = &p->up;
  begin_first_pieces(p);
  while (up->sent < up->begun && is_copied(p, up_entry_of(p, up->sent))) {
    TB_TRY(send_oldest(p));
    *turn = TB_SOMETHING;
  }
  if (all_has_gone(p)) tb_upward_end(p->d, &p->turn);
  TB_TRY(launch_turn(p, turn));
  if (up->begun_steps == tb_schedule_steps(&up->schedule)) return CUDA_SUCCESS;
  TB_TRY(free_oldest(p));
  if (is_full(p) || !may_go_up(p)) return CUDA_SUCCESS;
  if (begin_piece(p)) *turn = TB_SOMETHING;
  return CUDA_SUCCESS;
}

bool tb_up_is_over(const struct tb_pipeline *p) { return p->up.computed_steps == tb_schedule_steps(&p->up.schedule); }

void tb_up_abandon(struct tb_pipeline *p) {
  for (uint64_t number = p->up.sent; number < p->up.begun; number++) {
    const struct tb_up_entry *e = up_entry_of(p, number);
    if (needs_slot(e)) tb_copy_wait(p->d->pool, &e->copy);
  }
}
