/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy that is to stay goes up, whole or what was written of it: by slots that threads fill and digest. */
#include <string.h>

#include "base/integers.h"
#include "cuda/wait.h"
#include "pipeline/keep_internal.h"
#include "pipeline/staging.h"

/* What goes up by one slot: some whole columns, or a part of one. Of a triangle what it has in any of the columns. */
struct copied_piece {
  struct tb_kept *kept;
  char *slot;
  int64_t first, count;        /* cells */
  struct tb_stored_run rows;   /* in bytes */
  int64_t columns, slot_pitch; /* from a column to the next */
  uint64_t job;                /* of the pool */
};

static int64_t column_of_cell(const struct tb_kept *kept, int64_t cell) {
  return cell / kept->cells.in_column * kept->cells.columns_each;
}

static void copy_cell(const struct copied_piece *p, int64_t cell) {
  struct tb_kept *const kept = p->kept;
  const int64_t column = column_of_cell(kept, cell) - column_of_cell(kept, p->first);
  const struct tb_stored from = tb_cell(&kept->stored, &kept->cells, cell);
  const int64_t row = (from.data - kept->stored.data) - column_of_cell(kept, cell) * kept->stored.pitch_bytes;
  struct tb_stored to = from;
  if (from.column_bytes > 0) { /* else the triangle has nothing there */
    char *const start = p->slot + column * p->slot_pitch + row - p->rows.first;
    to.data = start;
    to.pitch_bytes = p->slot_pitch;
    for (int64_t c = 0; c < from.columns; c++)
      memcpy(start + c * to.pitch_bytes, from.data + c * from.pitch_bytes, (size_t)from.column_bytes);
  }
  /* What is digested is what goes up, whatever becomes of the program's memory meanwhile. */
  if (kept->digested) kept->digests[cell] = tb_hash_cell(&to);
}

/* To digest takes the threads about as long as to copy. (H200, 16 cores, 246 MB: digested 7.5 to 9 ms by tasks of a
 * cell, 10 to 15 by larger ones; else 6.3 by tasks of a cell, 5.2 by these.) */
#define CELLS_COPIED_AT_ONCE 8

static int64_t cells_of_task(const struct tb_kept *kept) { return kept->digested ? 1 : CELLS_COPIED_AT_ONCE; }

static void copy_cells(void *context, int task) {
  const struct copied_piece *const p = context;
  const int64_t each = cells_of_task(p->kept), begin = task * each;
  for (int64_t i = begin; i < tb_min(begin + each, p->count); i++) copy_cell(p, p->first + i);
}

/* Cells of the piece that begins with `first`, of so many: whole columns, or what fits of one. */
static int64_t cells_of_piece(const struct tb_kept *kept, int64_t first, int64_t count) {
  const struct tb_cells *const cells = &kept->cells;
  const int64_t columns_bytes = cells->columns_each * kept->copy_pitch_bytes;
  const int64_t left_of_column = tb_min(cells->in_column - first % cells->in_column, count);
  if (columns_bytes > TB_SLOT_BYTES) return tb_min(TB_SLOT_BYTES / TB_CELL_BYTES, left_of_column);
  if (left_of_column < cells->in_column) return left_of_column;
  return tb_min(TB_SLOT_BYTES / columns_bytes, count / cells->in_column) * cells->in_column;
}

static struct copied_piece copied_piece_of(struct tb_kept *kept, int64_t first, int64_t count, char *slot) {
  const struct tb_stored *const s = &kept->stored;
  const int64_t column = column_of_cell(kept, first);
  const struct tb_cells *const cells = &kept->cells;
  const int64_t end = tb_min(column_of_cell(kept, first + count - 1) + cells->columns_each, s->columns);
  struct copied_piece p = {.kept = kept, .slot = slot, .first = first, .count = count, .columns = end - column};
  p.rows = (struct tb_stored_run){tb_stored_column(s, column).first, tb_stored_column(s, end - 1).end};
  if (first % cells->in_column > 0) p.rows.first = first % cells->in_column * TB_CELL_BYTES;
  if (count < cells->in_column) p.rows.end = tb_min(p.rows.end, p.rows.first + count * TB_CELL_BYTES);
  /* As they lie on the GPU, to which one run goes; but of a triangle the columns' own parts. */
  p.slot_pitch = s->part == TB_STORED_ALL ? kept->copy_pitch_bytes : p.rows.end - p.rows.first;
  return p;
}

/* Until a slot's copy up is over. */
static CUresult await_slot(struct tb_device *d, int slot) {
  struct tb_patience patience = {.seconds = d->patience_seconds};
  CUresult result;
  while ((result = tb_upload_sent(d, slot)) == CUDA_ERROR_NOT_READY) {
    result = tb_patience_try(&patience);
    if (result != CUDA_SUCCESS) break;
  }
  if (result == CUDA_ERROR_TIMEOUT) d->hangs = true;
  return result;
}

/* Pieces that threads copy at once: by one they would wait for the last of them with each. */
#define PIECES_AT_ONCE 4

static CUresult begin_copied_piece(struct tb_device *d, struct copied_piece *p, struct tb_kept *kept, int64_t first,
                                   int64_t number) {
  const int slot = (int)(number % d->up_ring.slots);
  const int64_t count = p->count;
  if (number >= d->up_ring.slots) TB_TRY(await_slot(d, slot));
  *p = copied_piece_of(kept, first, count, tb_slot(&d->up_ring, slot));
  p->job = tb_pool_start(d->pool, copy_cells, p, (int)tb_ceil_div(count, cells_of_task(kept)));
  return CUDA_SUCCESS;
}

/* To the end of its last column's elements: what is behind them in the slot is an older piece's. */
static CUresult send_copied_piece(struct tb_device *d, const struct copied_piece *p, int64_t number) {
  const struct tb_kept *const kept = p->kept;
  const int64_t at = column_of_cell(kept, p->first) * kept->copy_pitch_bytes + p->rows.first;
  const int64_t column_bytes = p->rows.end - p->rows.first;
  const struct tb_piece piece = {.target = (CUdeviceptr)kept->copy + (CUdeviceptr)at,
                                 .bytes = (p->columns - 1) * p->slot_pitch + column_bytes,
                                 .columns = kept->stored.part == TB_STORED_ALL ? 1 : p->columns,
                                 .column_bytes = column_bytes,
                                 .slot_pitch = p->slot_pitch,
                                 .target_pitch = kept->copy_pitch_bytes};
  return tb_upload_send(d, (int)(number % d->up_ring.slots), &piece);
}

/* So many cells from one on, by as many slots as they take; a slot's last piece was sent before it has another. */
static CUresult send_cells_up(struct tb_device *d, struct tb_kept *kept, int64_t first, int64_t count,
                              int64_t *number) {
  struct copied_piece piece[PIECES_AT_ONCE];
  const int64_t most = tb_min(PIECES_AT_ONCE, d->up_ring.slots);
  CUresult result = CUDA_SUCCESS;
  int64_t begun = *number;
  for (int64_t sent = begun; sent < begun || (count > 0 && result == CUDA_SUCCESS);) {
    while (result == CUDA_SUCCESS && count > 0 && begun - sent < most) {
      struct copied_piece *const next = &piece[begun % PIECES_AT_ONCE];
      next->count = cells_of_piece(kept, first, count);
      result = begin_copied_piece(d, next, kept, first, begun);
      if (result == CUDA_SUCCESS) first += next->count, count -= next->count, begun++;
    }
    if (sent == begun) break;
    const struct copied_piece *const oldest = &piece[sent % PIECES_AT_ONCE];
    tb_pool_wait(d->pool, oldest->job);
    if (result == CUDA_SUCCESS) result = send_copied_piece(d, oldest, sent);
    sent++;
  }
  *number = begun;
  return result;
}

static CUresult fill_copy(struct tb_device *d, struct tb_kept *kept) {
  int64_t number = 0;
  TB_TRY(send_cells_up(d, kept, 0, kept->cells.count, &number));
  return tb_device_wait(d, d->up);
}

CUresult tb_keep_send_stale(struct tb_device *d, struct tb_kept *kept) {
  const struct tb_stale *const stale = kept->stale;
  int64_t number = 0;
  for (int i = 0; i < stale->runs; i++)
    TB_TRY(send_cells_up(d, kept, stale->run[i].first, stale->run[i].count, &number));
  return tb_device_wait(d, d->up);
}

int64_t tb_keep_stale_bytes(const struct tb_kept *kept) {
  int64_t bytes = 0;
  for (int i = 0; i < kept->stale->runs; i++)
    for (int64_t n = 0; n < kept->stale->run[i].count; n++) {
      const struct tb_stored cell = tb_cell(&kept->stored, &kept->cells, kept->stale->run[i].first + n);
      bytes += cell.columns * cell.column_bytes;
    }
  return bytes;
}

/* Whether CUDA has some of what the kernel watches already, from an address on. */
struct question_to_cuda {
  const struct tb_kept *kept;
  uintptr_t from;
  bool done, found;
};

static void look_for_cudas(void *context, int unused) {
  struct question_to_cuda *const q = context;
  (void)unused;
  q->found = tb_kept_has_cudas(q->kept, q->from);
  q->done = true;
}

typedef CUresult send_up(struct tb_device *d, struct tb_kept *kept);

/* Beside the way up, of which the caller has to see, CUDA is asked about what is watched from an address on. */
static bool send_and_look(struct tb_device *d, struct tb_kept *kept, send_up *send, uintptr_t from, bool *has_cudas) {
  struct question_to_cuda q = {.kept = kept, .from = from};
  const int place = tb_pool_start_behind(d->pool, look_for_cudas, &q, 1);
  const bool sent = send(d, kept) == CUDA_SUCCESS;
  tb_pool_end_behind(d->pool, place);
  if (sent && !q.done) look_for_cudas(&q, 0);
  *has_cudas = q.found;
  return sent;
}

/* Behind one that was not sent nothing is under way any more. No failure is the call's. */
static bool is_up(struct tb_device *d, bool sent) {
  if (!sent) tb_device_settle(d);
  tb_cuda_failed_call = NULL;
  return sent;
}

/* What lies at the ends, in pages of others, was digested before. */
bool tb_keep_fill(struct tb_device *d, struct tb_kept *kept) {
  if (kept->tracked.number == 0) return is_up(d, fill_copy(d, kept) == CUDA_SUCCESS);
  const bool sent = send_and_look(d, kept, fill_copy, kept->tracked.start, &kept->unwatchable);
  return is_up(d, sent && !kept->unwatchable && tb_kept_has_same_edges(kept));
}

/* ---- a copy that grows ---- */

/* To its new memory. */
static CUresult move_copy(struct tb_device *d, const struct tb_kept *kept, const struct tb_outgrown *old) {
  const CUDA_MEMCPY2D move = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = old->copy,
                              .srcPitch = (size_t)kept->copy_pitch_bytes,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = (CUdeviceptr)kept->copy,
                              .dstPitch = (size_t)kept->copy_pitch_bytes,
                              .WidthInBytes = (size_t)kept->copy_pitch_bytes,
                              .Height = (size_t)old->columns};
  return old->copy == 0 ? CUDA_SUCCESS : tb_cuda.cuMemcpy2DAsync(&move, d->up);
}

/* `watched_end`: of what was watched before. About a copy that waits CUDA is asked later. Where it has some of the
 * rest, or somebody writes at the end, digests must do. */
static bool send_rest(struct tb_device *d, struct tb_kept *kept, uintptr_t watched_end) {
  bool has_cudas;
  if (kept->tracked.number == 0 || kept->unasked) return tb_keep_send_stale(d, kept) == CUDA_SUCCESS;
  if (!send_and_look(d, kept, tb_keep_send_stale, watched_end, &has_cudas)) return false;
  const bool watched = !has_cudas && tb_kept_has_same_edge(kept, true);
  if (!watched) tb_kept_forget_pages(kept);
  return watched || kept->digested;
}

bool tb_keep_grow(struct tb_device *d, struct tb_kept *kept, const struct tb_stored *operand, int64_t *went_up) {
  struct tb_cache *const cache = tb_device_cache(d);
  const uintptr_t watched_end = kept->tracked.end;
  struct tb_outgrown old = {.copy = 0};
  size_t free_bytes = 0, total_bytes = 0;
  bool grown = tb_cuda.cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
               tb_cache_grow(cache, kept, operand, (int64_t)free_bytes, tb_keep_limit(d, (int64_t)free_bytes), &old);
  if (grown) *went_up = tb_keep_stale_bytes(kept);
  grown = grown && move_copy(d, kept, &old) == CUDA_SUCCESS && send_rest(d, kept, watched_end);
  is_up(d, grown);
  if (!d->hangs) tb_cache_end_outgrown(cache, &old);
  if (grown) tb_kept_end_mending(kept);
  return grown;
}
