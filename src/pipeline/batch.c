/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/batch.h"

#include "base/clock.h"
#include "cuda/wait.h"
#include "pipeline/batch_internal.h"
#include "pipeline/rounds.h"
#include "process/busy.h"
#include "process/gate.h"
#include "process/guest.h"

/* ---- the threads' part ---- */

/* So that a task copies some hundred kilobytes. */
#define BATCH_TASK_BYTES ((int64_t)128 << 10)

static int first_of_task(const struct tb_batch_piece *piece, int task) {
  return (int)((int64_t)piece->count * task / piece->tasks);
}

/* Copies of one thread. */
static void copy_alone(struct tb_copy *copy) { tb_copy_start(NULL, copy); }

static void pack_matrix(const struct tb_batch_piece *piece, const struct tb_batch_item *item, bool of_b) {
  const struct tb_batch_stored s = tb_batch_stored(&item->call, of_b);
  const struct tb_view x = tb_operand_of(&item->call, of_b);
  struct tb_copy copy = {.type = x.type, .stores = piece->stores, .from = x.data, .from_ld = x.ld, .to_ld = s.ld};
  copy.to = piece->slot_up + (of_b ? item->place.b : item->place.a);
  copy.rows = s.rows, copy.columns = s.columns;
  copy_alone(&copy);
}

static void pack_task(void *context, int task) {
  const struct tb_batch_piece *const piece = context;
  for (int i = first_of_task(piece, task); i < first_of_task(piece, task + 1); i++) {
    const struct tb_batch_item *const item = &piece->item[i];
    if (!item->shares_a) pack_matrix(piece, item, false);
    if (!item->shares_b) pack_matrix(piece, item, true);
  }
}

static void commit_task(void *context, int task) {
  const struct tb_batch_piece *const piece = context;
  const int64_t results_at = piece->item[0].place.d;
  for (int i = first_of_task(piece, task); i < first_of_task(piece, task + 1); i++) {
    const struct tb_call *const call = &piece->item[i].call;
    struct tb_copy copy = {.type = call->type, .beta = call->beta, .to = call->c, .to_ld = call->ldc};
    copy.from = piece->slot_down + (piece->item[i].place.d - results_at);
    copy.from_ld = piece->item[i].place.ldd;
    copy.rows = call->m, copy.columns = call->n;
    copy.pages = piece->pages;
    copy_alone(&copy);
  }
}

static void start_tasks(struct tb_pool *pool, struct tb_batch_piece *piece, void (*task)(void *, int), int64_t bytes) {
  const int64_t most = tb_min(2 * tb_pool_threads(pool), piece->count);
  piece->tasks = (int)tb_max(1, tb_min(most, bytes / BATCH_TASK_BYTES));
  piece->job = tb_pool_start(pool, task, piece, piece->tasks);
}

/* ---- the round ---- */

struct staged {
  struct tb_device *d;
  struct tb_batch_pipeline *p;
  struct tb_batch_progress *progress;
  struct tb_batch_room room;
  struct tb_batch_cursor cursor;
  struct tb_call results; /* all of them, if they lie as one, */
  struct tb_pages pages;  /* and its pages, if it has none yet */
  bool more;              /* the cursor is at a product that is to be packed */
  bool is_large, timed, marked;
  int regions;
  uint64_t begun, sent, arrived, committed;
  int64_t begun_bytes;
  double next_look;
};

static int region_of(const struct staged *s, uint64_t number) { return (int)(number % (uint64_t)s->regions); }
static struct tb_batch_piece *piece_numbered(struct staged *s, uint64_t number) {
  return &s->p->piece[region_of(s, number)];
}
static int ring_slot(const struct staged *s, uint64_t number) {
  return region_of(s, number) * s->d->up_ring.piece_slots;
}
static uint64_t address_of(const struct staged *s, uint64_t number) {
  return s->d->arena + (uint64_t)(region_of(s, number) * tb_batch_region_bytes(&s->room));
}

/* By streaming stores where nothing would drive the lines out of a core's caches (up.c). */
#define BATCH_STREAMED_BYTES ((int64_t)8 << 20)

/* Small pieces first, so that the link starts soon: each is at most as large as all before it. */
#define BATCH_FIRST_BYTES ((int64_t)256 << 10)

static void begin_piece_of_batch(struct staged *s) {
  struct tb_batch_piece *const piece = piece_numbered(s, s->begun);
  struct tb_batch_room room = s->room;
  piece->count = 0;
  piece->up_bytes = piece->real_bytes = piece->down_bytes = 0;
  piece->pages = &s->pages;
  piece->slot_up = tb_slot(&s->d->up_ring, ring_slot(s, s->begun));
  piece->slot_down = tb_slot(&s->d->down_ring, ring_slot(s, s->begun));
  piece->stores = s->begun_bytes < BATCH_STREAMED_BYTES ? TB_STORES_STREAMED : TB_STORES_CACHED;
  const int64_t enough = tb_max(BATCH_FIRST_BYTES, s->begun_bytes);
  while (s->more && piece->up_bytes < enough && tb_batch_add(piece, &room, &s->cursor, false, address_of(s, s->begun)))
    s->more = tb_batch_seek(&s->cursor, s->progress, TB_BATCH_STAGED);
  if (piece->count == 0) { /* for the little memory there is */
    s->progress->state[s->cursor.number] = TB_BATCH_ALONE;
    s->more = tb_batch_seek(&s->cursor, s->progress, TB_BATCH_STAGED);
    return;
  }
  piece->list_at = piece->up_bytes;
  tb_batch_write_list(piece);
  s->begun_bytes += piece->up_bytes;
  start_tasks(s->d->pool, piece, pack_task, piece->up_bytes);
  s->begun++;
}

static CUresult mark_batch(const struct staged *s, enum tb_mark which, CUstream stream) {
  if (s->timed) TB_TRY(tb_cuda.cuEventRecord(s->d->marks[which], stream));
  return CUDA_SUCCESS;
}

static CUresult send_up(struct staged *s, const struct tb_batch_piece *piece, int slot, uint64_t region) {
  struct tb_device *const d = s->d;
  const int64_t bytes = piece->list_at + piece->count * (int64_t)sizeof(struct tb_batch_product);
  if (!s->marked) TB_TRY(mark_batch(s, TB_UP_BEGIN, d->up));
  TB_TRY(tb_cuda.cuMemcpyHtoDAsync(region, piece->slot_up, (size_t)bytes, d->up));
  TB_TRY(tb_cuda.cuEventRecord(d->up_ring.moved[slot], d->up));
  s->progress->up_bytes += (double)bytes;
  return mark_batch(s, TB_UP_END, d->up);
}

static CUresult compute_there(struct staged *s, const struct tb_batch_piece *piece, uint64_t region, CUevent up,
                              CUevent done, CUstream stream) {
  TB_TRY(tb_cuda.cuStreamWaitEvent(stream, up, 0));
  if (!s->marked) TB_TRY(mark_batch(s, TB_COMPUTE_BEGIN, stream));
  TB_TRY(tb_batch_launch_piece(s->d, piece, &s->room, region, NULL, stream));
  TB_TRY(mark_batch(s, TB_COMPUTE_END, stream));
  TB_TRY(tb_cuda.cuEventRecord(done, stream));
  return CUDA_SUCCESS;
}

static CUresult ask_down(struct staged *s, const struct tb_batch_piece *piece, int slot, uint64_t region,
                         CUevent done) {
  struct tb_device *const d = s->d;
  const CUdeviceptr from = region + (uint64_t)(s->room.up_bytes + s->room.real_bytes);
  TB_TRY(tb_cuda.cuStreamWaitEvent(d->down, done, 0));
  if (!s->marked) TB_TRY(mark_batch(s, TB_DOWN_BEGIN, d->down));
  TB_TRY(tb_cuda.cuMemcpyDtoHAsync(piece->slot_down, from, (size_t)piece->down_bytes, d->down));
  TB_TRY(tb_cuda.cuEventRecord(d->down_ring.moved[slot], d->down));
  s->progress->down_bytes += (double)piece->down_bytes;
  return mark_batch(s, TB_DOWN_END, d->down);
}

/* The whole way of a piece on the GPU: nothing of its region is in use, for what was there before has arrived. */
static CUresult send_piece_of_batch(struct staged *s) {
  struct tb_batch_piece *const piece = piece_numbered(s, s->sent);
  const int slot = ring_slot(s, s->sent);
  const uint64_t region = address_of(s, s->sent);
  CUevent done;
  TB_TRY(tb_device_tile_event(s->d, region_of(s, s->sent), &done));
  TB_TRY(send_up(s, piece, slot, region));
  TB_TRY(compute_there(s, piece, region, s->d->up_ring.moved[slot], done, s->d->compute[s->sent % TB_COMPUTE_STREAMS]));
  TB_TRY(ask_down(s, piece, slot, region, done));
  s->marked = true;
  s->sent++;
  return CUDA_SUCCESS;
}

static void count_piece(struct staged *s) {
  const struct tb_batch_piece *const piece = piece_numbered(s, s->committed);
  for (int i = 0; i < piece->count; i++) s->progress->state[piece->item[i].number] = TB_BATCH_DONE;
  s->progress->committed = true;
  s->committed++;
}

static CUresult turn_batch(struct staged *s, bool *something) {
  *something = false;
  for (; s->committed < s->arrived && tb_pool_done(s->d->pool, piece_numbered(s, s->committed)->job); *something = true)
    count_piece(s);
  for (; s->arrived < s->sent; *something = true) {
    const CUresult result = tb_ask_event(s->d->down_ring.moved[ring_slot(s, s->arrived)]);
    if (result == CUDA_ERROR_NOT_READY) break;
    TB_TRY(result);
    struct tb_batch_piece *const piece = piece_numbered(s, s->arrived++);
    start_tasks(s->d->pool, piece, commit_task, piece->down_bytes);
  }
  for (; s->sent < s->begun && tb_pool_done(s->d->pool, piece_numbered(s, s->sent)->job); *something = true)
    TB_TRY(send_piece_of_batch(s));
  if (s->more && s->begun - s->committed < (uint64_t)s->regions) {
    begin_piece_of_batch(s);
    *something = true;
  }
  return CUDA_SUCCESS;
}

/* Waits for what threads do in the program's memory, and counts it. */
static void settle_threads(struct staged *s) {
  for (uint64_t number = s->sent; number < s->begun; number++) tb_pool_wait(s->d->pool, piece_numbered(s, number)->job);
  while (s->committed < s->arrived) {
    tb_pool_wait(s->d->pool, piece_numbered(s, s->committed)->job);
    count_piece(s);
  }
}

/* For signals, as pipeline.c's. */
#define BATCH_LOOK_SECONDS 1e-3

static CUresult let_signals_in(struct staged *s) {
  const double now = tb_clock_seconds();
  if (s->d->in_team || now < s->next_look) return CUDA_SUCCESS;
  const bool is_first = s->next_look == 0;
  s->next_look = now + BATCH_LOOK_SECONDS;
  if (is_first || !tb_guest_is_wanted()) return CUDA_SUCCESS;
  tb_pages_end(&s->pages);
  settle_threads(s);
  tb_device_leave();
  if (!tb_gate_window(s->d->lane)) return TB_INTERRUPTED; /* and the pieces are another call's */
  TB_TRY(tb_device_enter(s->d));
  return CUDA_SUCCESS;
}

/* Whether the caller copied something. Not where it has the link to mind (pipeline_internal.h). */
static bool helps(const struct staged *s) {
  return !(s->is_large && tb_pool_threads(s->d->pool) >= TB_THREADS_ENOUGH) && tb_pool_help(s->d->pool);
}

static CUresult go_round_batch(struct staged *s) {
  struct tb_patience patience = {.seconds = s->d->patience_seconds};
  while (s->more || s->committed < s->begun) {
    bool something;
    const CUresult looked = let_signals_in(s);
    if (looked != CUDA_SUCCESS) return looked;
    TB_TRY(turn_batch(s, &something));
    if (something || helps(s)) {
      patience.since = 0;
      continue;
    }
    tb_busy_offer_core();
    const CUresult result = tb_patience_try(&patience);
    if (result == CUDA_ERROR_TIMEOUT) s->d->hangs = true;
    TB_TRY(result);
  }
  return CUDA_SUCCESS;
}

/* Results one behind another, as a stack of matrices has them, are one of all their columns. */
static bool lie_as_one(const struct tb_batch *batch, const struct tb_batch_progress *progress, struct tb_call *all) {
  struct tb_batch_cursor cursor;
  tb_batch_begin(&cursor, batch);
  all->n = 0;
  while (cursor.number + 1 < progress->end && tb_batch_next(&cursor)) {
    const struct tb_call *const next = &cursor.call;
    if (cursor.number < progress->first) continue;
    if (all->n == 0)
      *all = *next;
    else if (next->m == all->m && next->ldc == all->ldc && next->c == tb_call_c(all, 0, all->n))
      all->n += next->n;
    else
      return false;
    if (!tb_call_overwrites(next)) return false;
  }
  return all->n > 0;
}

/* To look at all results takes a hundredth of the call's time: if one of those that come first is new. */
static void begin_pages(struct staged *s, const struct tb_batch *batch) {
  const struct tb_call *const one = &s->cursor.call;
  if (tb_pages_lacks(tb_call_c(one, one->m / 2, one->n / 2)) && lie_as_one(batch, s->progress, &s->results))
    tb_pages_begin(&s->pages, s->d->pool, &s->results);
}

CUresult tb_batch_run_staged(struct tb_device *d, const struct tb_batch *batch, bool timed,
                             struct tb_batch_progress *progress) {
  struct staged s = {.d = d, .p = tb_batch_pipeline_of(d), .progress = progress, .timed = timed};
  tb_batch_begin(&s.cursor, batch);
  s.more = tb_batch_seek(&s.cursor, progress, TB_BATCH_STAGED);
  if (!s.more) return CUDA_SUCCESS;
  if (s.p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  const double share = (double)(progress->end - progress->first) / (double)batch->products;
  s.is_large = share * (batch->up_bytes + batch->down_bytes) >= TB_LARGE_BYTES;
  tb_rounds_prepare_rings(d, share * batch->up_bytes, share * batch->down_bytes, s.is_large);
  const int64_t bytes = tb_ring_piece_bytes(&d->up_ring);
  s.room = (struct tb_batch_room){bytes, tb_is_made_real(batch->type) ? 2 * bytes + TB_BATCH_LEAST_BYTES : 0, bytes};
  const int pieces = (int)tb_min(tb_ring_pieces(&d->up_ring), tb_ring_pieces(&d->down_ring));
  TB_TRY(tb_batch_reserve(d, &s.room, &s.regions, pieces));
  begin_pages(&s, batch);
  const CUresult result = go_round_batch(&s);
  if (result == TB_INTERRUPTED) return result;
  tb_pages_end(&s.pages);
  if (result != CUDA_SUCCESS) settle_threads(&s);
  return result;
}
