/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/triangular_internal.h"

/* The link starts after so much, and then with all that was begun before. */
#define FIRST_TRIANGULAR_PIECE_BYTES ((int64_t)256 << 10)
/* The first pieces pass the caches (up.c has what that gains). */
#define STREAMED_TRIANGULAR_BYTES ((int64_t)8 << 20)

static int triangular_up_slot(const struct tb_triangular *t, uint64_t number) {
  return tb_slot_of(&t->d->up_ring, number);
}

static struct tb_triangular_up_entry *triangular_up_entry(struct tb_triangular *t, uint64_t number) {
  return &t->up.entry[triangular_up_slot(t, number)];
}

/* Where both go up, A's panels do behind B's first block, whose steps want them one after another. But not of a large
 * solve, where two blocks that are computed at the same time are worth more. (H100, with A behind the block and ahead:
 * strsm 4096 4.1 and 4.7 ms, 8192 14.9 and 14.3; dtrsm 7.1 and 6.9, 28.7 and 28.0; strmm 3.9 and 4.7, 13.7 and 14.1;
 * dtrmm 6.3 and 6.4, 26.8 and 27.2.) */
#define LEADING_SOLVE_MOST 6144
static bool first_block_leads(const struct tb_triangular *t) {
  const struct tb_triangular_shape *const s = &t->plan->shape;
  return t->plan->ways.a != TB_IN_PLACE && t->plan->ways.c != TB_IN_PLACE &&
         (!s->solves || s->order <= LEADING_SOLVE_MOST);
}
/* With bands a panel and the portions that need it are a group of jobs. */
static bool is_in_groups(const struct tb_triangular *t) { return t->plan->depth > 0; }
static int64_t group_size(const struct tb_triangular *t) { return 1 + t->plan->blocks; }

static bool is_of_a(const struct tb_triangular *t, int64_t job) {
  if (is_in_groups(t)) return job % group_size(t) == 0;
  return first_block_leads(t) ? job > 0 && job <= t->plan->panels : job < t->plan->panels;
}
static int64_t portion_of_job(const struct tb_triangular *t, int64_t job) {
  if (is_in_groups(t)) return job - job / group_size(t) - 1;
  return job == 0 ? 0 : job - t->plan->panels;
}

/* How many panels were before it. */
static int64_t panel_of_job(const struct tb_triangular *t, int64_t job) {
  return is_in_groups(t) ? job / group_size(t) : job - first_block_leads(t);
}

/* Jobs in all; those of an operand that is in place count as sent. */
static int64_t first_job(const struct tb_triangular *t) { return t->plan->ways.a == TB_IN_PLACE ? t->plan->panels : 0; }
static int64_t end_of_jobs(const struct tb_triangular *t) {
  return t->plan->panels + (t->plan->ways.c == TB_IN_PLACE ? 0 : tb_triangular_portions(t->plan));
}

static struct tb_upload upload_of(const struct tb_triangular *t, int64_t job) {
  const struct tb_triangular_plan *plan = t->plan;
  const struct tb_call *call = t->call;
  struct tb_upload u = {.type = call->type};
  if (is_of_a(t, job)) {
    const int64_t number = panel_of_job(t, job);
    const struct tb_triangular_panel p = tb_triangular_panel(plan, call, tb_triangular_wanted(plan, number));
    u.source = tb_elements_behind(call->type, call->a.data, p.row + p.first * call->a.ld);
    u.source_ld = call->a.ld, u.rows = p.rows, u.columns = p.columns;
    u.target = t->d->arena + (CUdeviceptr)(plan->raw_offset_bytes + number % 2 * plan->raw_bytes);
    u.target_ld = tb_leading(call->type, p.rows);
    return u;
  }
  const struct tb_triangular_stored b = tb_triangular_stored(t, portion_of_job(t, job));
  u.source = tb_call_c(call, b.of_b.i, b.of_b.j), u.source_ld = call->ldc;
  u.rows = b.of_b.m, u.columns = b.of_b.n;
  u.target = b.there.address, u.target_ld = b.there.ld;
  u.apart = tb_triangular_is_apart(t->plan);
  return u;
}

/* ---- beginning ---- */

/* False: there is something to wait for first, or no more to do. */
static bool begin_triangular_piece(struct tb_triangular *t) {
  struct tb_triangular_up *up = &t->up;
  if (up->job < first_job(t)) up->job = first_job(t);
  if (up->job == end_of_jobs(t)) return false;
  if (!up->within) {
    const int64_t portion = is_of_a(t, up->job) ? -1 : portion_of_job(t, up->job);
    const bool in_blocks = t->plan->depth == 0; /* of which another one may be in the place, on its way down */
    if (in_blocks && portion >= t->down.emptied + t->plan->places) return false;
    up->upload = upload_of(t, up->job);
  }
  struct tb_triangular_up_entry *e = triangular_up_entry(t, up->begun);
  const int64_t most =
      tb_min(tb_ring_piece_bytes(&t->d->up_ring), tb_max(FIRST_TRIANGULAR_PIECE_BYTES, up->begun_bytes));
  e->job = up->job;
  e->last = tb_upload_cut(&up->upload, most / tb_type_bytes(up->upload.type),
                          tb_slot(&t->d->up_ring, triangular_up_slot(t, up->begun)), &e->copy, &e->piece);
  e->copy.stores = up->begun_bytes < STREAMED_TRIANGULAR_BYTES ? TB_STORES_STREAMED : TB_STORES_CACHED;
  if (t->is_large && e->copy.stores == TB_STORES_CACHED) e->copy.cut = TB_TASKS_FEW;
  tb_copy_start(t->d->pool, &e->copy);
  up->begun_bytes += tb_copy_bytes(&e->copy);
  up->within = !e->last;
  if (e->last) up->job++;
  up->begun++;
  return true;
}

/* ---- sending ---- */

static CUresult mark_triangular_up(struct tb_triangular *t, enum tb_mark which) {
  if (t->timed) TB_TRY(tb_cuda.cuEventRecord(t->d->marks[which], t->d->up));
  return CUDA_SUCCESS;
}

/* A panel's first piece: the panel that was in its buffer before is to have been read. */
static CUresult hold_for_panel(struct tb_triangular *t, int64_t job) {
  if (!is_of_a(t, job) || panel_of_job(t, job) < 2 || job == t->up.sent_job) return CUDA_SUCCESS;
  TB_TRY(tb_cuda.cuStreamWaitEvent(t->d->up, t->d->half[panel_of_job(t, job) % 2], 0));
  return CUDA_SUCCESS;
}

static CUresult send_oldest_piece(struct tb_triangular *t) {
  const int slot = triangular_up_slot(t, t->up.sent);
  const struct tb_triangular_up_entry *e = triangular_up_entry(t, t->up.sent);
  if (!t->marked_up) TB_TRY(mark_triangular_up(t, TB_UP_BEGIN));
  t->marked_up = true;
  TB_TRY(hold_for_panel(t, e->job));
  TB_TRY(tb_upload_send(t->d, slot, &e->piece));
  t->up.sent_job = e->job;
  t->progress->up_bytes += (double)tb_copy_bytes(&e->copy);
  t->up.sent++;
  if (!e->last) return CUDA_SUCCESS;
  TB_TRY(mark_triangular_up(t, TB_UP_END));
  if (!is_of_a(t, e->job)) return tb_triangular_take_portion(t);
  return tb_triangular_take_panel(t, panel_of_job(t, e->job), t->d->up_ring.moved[slot]);
}

/* ---- turns ---- */

static CUresult free_oldest_piece(struct tb_triangular *t) {
  struct tb_triangular_up *up = &t->up;
  if (up->begun - up->freed < (uint64_t)tb_ring_pieces(&t->d->up_ring) || up->freed == up->sent) return CUDA_SUCCESS;
  const CUresult result = tb_upload_sent(t->d, triangular_up_slot(t, up->freed));
  if (result == CUDA_ERROR_NOT_READY) return CUDA_SUCCESS;
  TB_TRY(result);
  up->freed++;
  return CUDA_SUCCESS;
}

CUresult tb_triangular_up_turn(struct tb_triangular *t, bool *something) {
  struct tb_triangular_up *up = &t->up;
  while (up->sent < up->begun && tb_copy_done(t->d->pool, &triangular_up_entry(t, up->sent)->copy)) {
    TB_TRY(send_oldest_piece(t));
    *something = true;
  }
  TB_TRY(free_oldest_piece(t));
  if (up->begun - up->freed == (uint64_t)tb_ring_pieces(&t->d->up_ring)) return CUDA_SUCCESS;
  if (begin_triangular_piece(t)) *something = true;
  return CUDA_SUCCESS;
}

bool tb_triangular_up_is_over(const struct tb_triangular *t) {
  return t->up.sent == t->up.begun && tb_max(t->up.job, first_job(t)) == end_of_jobs(t);
}

void tb_triangular_up_abandon(struct tb_triangular *t) {
  for (uint64_t number = t->up.sent; number < t->up.begun; number++)
    tb_copy_wait(t->d->pool, &triangular_up_entry(t, number)->copy);
}
