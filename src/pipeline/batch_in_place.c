/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of a batch that lie on the GPU with everything: lists of them go up, in the stream that is ordered with the
 * program's own work, and are computed there. */
#include "pipeline/batch_internal.h"
#include "pipeline/pipeline_internal.h"

struct in_place {
  struct tb_device *d;
  struct tb_batch_progress *progress;
  struct tb_batch_room room;
  bool timed, marked;
};

static CUresult mark_in_place(const struct in_place *x, enum tb_mark which) {
  if (x->timed) TB_TRY(tb_cuda.cuEventRecord(x->d->marks[which], x->d->ordered));
  return CUDA_SUCCESS;
}

static CUresult enqueue_piece(struct in_place *x, struct tb_batch_piece *piece) {
  struct tb_device *const d = x->d;
  const size_t bytes = (size_t)piece->count * sizeof(struct tb_batch_product);
  piece->list_at = 0;
  tb_batch_write_list(piece);
  TB_TRY(tb_cuda.cuMemcpyHtoDAsync(d->arena, piece->slot_up, bytes, d->ordered));
  x->progress->up_bytes += (double)bytes;
  if (!x->marked) TB_TRY(mark_in_place(x, TB_COMPUTE_BEGIN));
  x->marked = true;
  TB_TRY(tb_batch_launch_piece(d, piece, &x->room, d->arena, x->progress, d->ordered));
  return mark_in_place(x, TB_COMPUTE_END);
}

static void count_in_place(struct in_place *x, const struct tb_batch_piece *piece) {
  for (int i = 0; i < piece->count; i++) x->progress->state[piece->item[i].number] = TB_BATCH_DONE;
  x->progress->committed = true;
}

/* Piece after piece: a list and what it needs of the device are free when the one before is over. */
static CUresult run_pieces(struct in_place *x, struct tb_batch_piece *piece, const struct tb_batch *batch) {
  struct tb_batch_cursor cursor;
  tb_batch_begin(&cursor, batch);
  bool more = tb_batch_seek(&cursor, x->progress, TB_BATCH_IN_PLACE);
  while (more) {
    piece->count = 0;
    piece->up_bytes = piece->real_bytes = piece->down_bytes = 0;
    piece->slot_up = tb_slot(&x->d->up_ring, 0);
    while (more && tb_batch_add(piece, &x->room, &cursor, true, x->d->arena))
      more = tb_batch_seek(&cursor, x->progress, TB_BATCH_IN_PLACE);
    if (piece->count == 0) { /* for the little memory there is */
      x->progress->state[cursor.number] = TB_BATCH_ALONE;
      more = tb_batch_seek(&cursor, x->progress, TB_BATCH_IN_PLACE);
      continue;
    }
    TB_TRY(enqueue_piece(x, piece));
    TB_TRY(tb_device_wait(x->d, x->d->ordered));
    count_in_place(x, piece);
  }
  return CUDA_SUCCESS;
}

/* Room for the results that are to be added to a C, and for operands made real. */
#define RESULTS_BYTES ((int64_t)32 << 20)

CUresult tb_batch_run_in_place(struct tb_device *d, const struct tb_batch *batch, bool timed,
                               struct tb_batch_progress *progress) {
  struct tb_batch_pipeline *const p = tb_batch_pipeline_of(d);
  struct in_place x = {.d = d, .progress = progress, .timed = timed};
  struct tb_batch_cursor cursor;
  int regions;
  tb_batch_begin(&cursor, batch);
  if (!tb_batch_seek(&cursor, progress, TB_BATCH_IN_PLACE)) return CUDA_SUCCESS;
  if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  x.room = (struct tb_batch_room){TB_SLOT_BYTES, tb_is_made_real(batch->type) ? RESULTS_BYTES : 0, RESULTS_BYTES};
  TB_TRY(tb_batch_reserve(d, &x.room, &regions, 1));
  return run_pieces(&x, &p->piece[0], batch);
}
