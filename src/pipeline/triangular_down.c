/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/triangular_internal.h"

/* As of a product's C (down.c). */
#define LAST_TRIANGULAR_PIECE_BYTES ((int64_t)256 << 10)
#define STREAMED_B_BYTES ((int64_t)128 << 20)

static int triangular_down_slot(const struct tb_triangular *t, uint64_t number) {
  return tb_slot_of(&t->d->down_ring, number);
}

static struct tb_triangular_down_entry *triangular_down_entry(struct tb_triangular *t, uint64_t number) {
  return &t->down.entry[triangular_down_slot(t, number)];
}

/* ---- asking ---- */

static CUresult await_portion(struct tb_triangular *t, int64_t portion) {
  TB_TRY(tb_triangular_await(t, TB_TRIANGULAR_DONE, portion, t->d->down));
  if (t->timed && !t->marked_down) TB_TRY(tb_cuda.cuEventRecord(t->d->marks[TB_DOWN_BEGIN], t->d->down));
  t->marked_down = true;
  return CUDA_SUCCESS;
}

/* Stored columns come down in the order in which they are done, where that is an order of columns: what the CPU may
 * have to finish must be a smaller call of the same kind. */
static int64_t next_column(const struct tb_triangular *t, int64_t columns, int64_t all) {
  const bool from_last = t->plan->turns && !tb_triangular_is_downward(t->call);
  return from_last ? all - t->down.fetched_columns - columns : t->down.fetched_columns;
}

static CUresult fetch_run(struct tb_triangular *t) {
  struct tb_triangular_down *down = &t->down;
  const struct tb_triangular_stored stored = tb_triangular_stored(t, down->fetched);
  const struct tb_block b = stored.of_b;
  const int64_t size = tb_call_bytes(t->call), whole = tb_ring_piece_bytes(&t->d->down_ring);
  const int64_t most = tb_min(whole, tb_max(LAST_TRIANGULAR_PIECE_BYTES, down->rest_bytes / 2));
  const bool apart = tb_triangular_is_apart(t->plan);
  const int64_t ld = apart ? tb_leading(t->call->type, b.m) : stored.there.ld; /* in the slot */
  const int64_t columns = tb_download_columns(ld, most / size, b.n - down->fetched_columns, most == whole);
  const int64_t first = next_column(t, columns, b.n), bytes = ((columns - 1) * ld + b.m) * size;
  const struct tb_download run = {.type = t->call->type,
                                  .source = stored.there.address + (CUdeviceptr)(first * stored.there.ld * size),
                                  .source_ld = stored.there.ld,
                                  .target_ld = ld,
                                  .rows = b.m,
                                  .columns = columns};
  const int slot = triangular_down_slot(t, down->asked);
  struct tb_triangular_down_entry *e = triangular_down_entry(t, down->asked);
  if (down->fetched_columns == 0) TB_TRY(await_portion(t, down->fetched));
  *e = (struct tb_triangular_down_entry){.columns = columns, .bytes = bytes};
  e->copy = (struct tb_copy){.type = t->call->type, .from_ld = ld, .to_ld = t->call->ldc};
  e->copy.stores = down->rest_bytes >= STREAMED_B_BYTES ? TB_STORES_STREAMED : TB_STORES_CACHED;
  e->copy.cut = tb_tasks_down(t->is_large, most == whole, t->call->m * t->call->n * size);
  e->copy.from = tb_slot(&t->d->down_ring, slot);
  e->copy.to = tb_call_c(t->call, b.i, b.j + first);
  e->copy.rows = b.m, e->copy.columns = columns;
  TB_TRY(apart ? tb_download_start_apart(t->d, slot, &run) : tb_download_start(t->d, slot, run.source, bytes));
  if (t->timed) TB_TRY(tb_cuda.cuEventRecord(t->d->marks[TB_DOWN_END], t->d->down));
  down->asked++;
  down->fetched_columns += columns;
  down->rest_bytes -= b.m * columns * size;
  e->last = down->fetched_columns == b.n;
  if (!e->last) return CUDA_SUCCESS;
  down->fetched++;
  down->fetched_columns = 0;
  return CUDA_SUCCESS;
}

/* ---- committing ---- */

static bool next_is_committed(struct tb_triangular *t) {
  return t->down.committed < t->down.arrived &&
         tb_copy_done(t->d->pool, &triangular_down_entry(t, t->down.committed)->copy);
}

static void count_run(struct tb_triangular *t) {
  const struct tb_triangular_down_entry *e = triangular_down_entry(t, t->down.committed);
  struct tb_triangular_progress *p = t->progress;
  p->begun = true;
  p->lines += e->columns;
  p->down_bytes += (double)e->bytes;
  if (e->last) p->portion++, p->lines = 0;
  t->down.committed++;
}

void tb_triangular_down_count(struct tb_triangular *t) {
  while (next_is_committed(t)) count_run(t);
}

/* ---- turns ---- */

CUresult tb_triangular_down_turn(struct tb_triangular *t, bool *something) {
  struct tb_triangular_down *down = &t->down;
  for (; next_is_committed(t); *something = true) count_run(t);
  while (down->arrived < down->asked) {
    const CUresult result = tb_download_arrived(t->d, triangular_down_slot(t, down->arrived));
    if (result == CUDA_ERROR_NOT_READY) break;
    TB_TRY(result);
    struct tb_triangular_down_entry *e = triangular_down_entry(t, down->arrived);
    if (e->last) down->emptied++;
    tb_copy_start(t->d->pool, &e->copy);
    down->arrived++;
    *something = true;
  }
  while (down->asked - down->committed < (uint64_t)tb_ring_pieces(&t->d->down_ring) && down->fetched < down->complete) {
    TB_TRY(fetch_run(t));
    *something = true;
  }
  return CUDA_SUCCESS;
}

bool tb_triangular_down_is_over(const struct tb_triangular *t) {
  return t->progress->portion == tb_triangular_portions(t->plan);
}

void tb_triangular_down_abandon(struct tb_triangular *t) {
  for (; t->down.committed < t->down.arrived; count_run(t))
    tb_copy_wait(t->d->pool, &triangular_down_entry(t, t->down.committed)->copy);
}
