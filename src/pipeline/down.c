/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/integers.h"
#include "cuda/wait.h"
#include "pipeline/pipeline_internal.h"

/* A call's last pieces are small, so that little is left to commit behind the link: each is at most half of what is
 * still to come, down to 256 KiB. */
#define LAST_PIECE_BYTES ((int64_t)256 << 10)
#define PIECES_OF_REST 2

/* A C of which little would be left in the caches when the program comes to read it is written past them: ordinary
 * stores would first read it. (H200, 16 cores, cache of 300 MiB: 8192 cubed 14.8 instead of 16.1 ms, 4096 cubed 4.1
 * instead of 3.8.) */
#define STREAMED_C_BYTES ((int64_t)128 << 20)

/* Of a C of middling size what leaves the caches when it is committed: into those slots the next call's C comes down
 * sooner. (H200, 16 cores: 1024 cubed 0.34 and 0.37 ms without; with all of C 1536 cubed 0.72 and 0.67, for to drop
 * lines takes its time.) */
#define DROPPED_BYTES ((int64_t)4 << 20)

static int down_slot_of(const struct tb_pipeline *p, uint64_t number) { return tb_slot_of(&p->d->down_ring, number); }

static struct tb_down_entry *down_entry_of(struct tb_pipeline *p, uint64_t number) {
  return &p->down.entry[down_slot_of(p, number)];
}

void tb_down_enter_block(struct tb_pipeline *p) {
  p->down.layout = p->layout;
  p->down.complete = p->down.fetched = p->down.fetched_columns = 0;
  memset(p->progress->committed_columns, 0, (size_t)(p->layout.rows * p->layout.columns) * sizeof(int64_t));
}

static struct tb_block place_in_c(const struct tb_pipeline *p, int64_t tile) {
  const struct tb_layout *const l = &p->down.layout;
  const struct tb_block t = tb_layout_tile(l, tile);
  return (struct tb_block){l->block.i + t.i, t.m, l->block.j + t.j, t.n};
}

CUresult tb_down_add(struct tb_pipeline *p, int64_t tile, CUstream stream) {
  CUevent done;
  TB_TRY(tb_device_tile_event(p->d, tile, &done));
  TB_TRY(tb_cuda.cuEventRecord(done, stream));
  if (p->keep != NULL && p->keep->result != NULL)
    tb_keep_copy_tile(p->keep, place_in_c(p, tile), tb_layout_d(&p->down.layout, tile), stream);
  p->down.order[p->down.complete++] = (int16_t)tile;
  return CUDA_SUCCESS;
}

void tb_down_count(struct tb_pipeline *p, int64_t tile, int64_t columns) {
  p->progress->committed_columns[tile] += columns;
  p->progress->committed = true;
}

/* ---- asking ---- */

/* Down waits for the tile's last launch. */
static CUresult await_tile(struct tb_pipeline *p, int64_t tile) {
  CUevent done;
  TB_TRY(tb_device_tile_event(p->d, tile, &done));
  TB_TRY(tb_cuda.cuStreamWaitEvent(p->d->down, done, 0));
  if (p->timed && !p->marked_down) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[TB_DOWN_BEGIN], p->d->down));
  p->marked_down = true;
  return CUDA_SUCCESS;
}

/* A whole tile, into a pinned C that nobody needs any more. */
static CUresult fetch_direct(struct tb_pipeline *p, int64_t tile) {
  struct tb_block t = tb_layout_tile(&p->down.layout, tile);
  struct tb_matrix d = tb_layout_d(&p->down.layout, tile);
  const struct tb_call *call = p->down.layout.call;
  const struct tb_download whole = {call->type, d.address, d.ld, tb_layout_c(&p->down.layout, tile),
                                    call->ldc,  t.m,       t.n};
  TB_TRY(tb_download_direct(p->d, &whole));
  p->progress->down_bytes += (double)(t.m * t.n * tb_call_bytes(call));
  p->down.fetched_columns = t.n;
  return CUDA_SUCCESS;
}

/* The next run of columns, into a slot. Its commit is prepared, to be started when it has arrived. */
static CUresult fetch_staged(struct tb_pipeline *p, int64_t tile) {
  struct tb_down *down = &p->down;
  const struct tb_call *call = p->down.layout.call;
  const struct tb_matrix d = tb_layout_d(&p->down.layout, tile);
  const struct tb_block t = tb_layout_tile(&p->down.layout, tile);
  const int slot = down_slot_of(p, down->asked);
  const int64_t size = tb_call_bytes(call), c_bytes = call->m * call->n * size;
  const int64_t whole = tb_ring_piece_bytes(&p->d->down_ring);
  const int64_t most = tb_min(whole, tb_max(LAST_PIECE_BYTES, down->rest_bytes / PIECES_OF_REST));
  const int64_t columns = tb_download_columns(d.ld, most / size, t.n - down->fetched_columns, most == whole);
  const int64_t bytes = ((columns - 1) * d.ld + t.m) * size;
  struct tb_down_entry *e = down_entry_of(p, down->asked);
  *e = (struct tb_down_entry){.tile = tile, .columns = columns, .bytes = bytes};
  e->copy = (struct tb_copy){.type = call->type, .beta = call->beta, .from_ld = d.ld, .to_ld = call->ldc};
  e->copy.stores = c_bytes >= STREAMED_C_BYTES ? TB_STORES_STREAMED : TB_STORES_CACHED;
  e->copy.drops = p->cleans_lines && down->all_bytes - down->rest_bytes < DROPPED_BYTES;
  e->copy.cut = tb_tasks_down(p->is_large, most == whole, c_bytes);
  e->copy.from = tb_slot(&p->d->down_ring, slot);
  e->copy.to = (char *)tb_layout_c(&p->down.layout, tile) + down->fetched_columns * call->ldc * size;
  e->copy.rows = t.m;
  e->copy.columns = columns;
  e->copy.pages = &p->pages;
  e->copy.region = tb_region_at(tb_layout_region(&p->down.layout, tile), 0, down->fetched_columns);
  TB_TRY(tb_download_start(p->d, slot, tb_address_behind(call, d.address, down->fetched_columns * d.ld), bytes));
  down->asked++;
  down->fetched_columns += columns;
  down->rest_bytes -= t.m * columns * size;
  return CUDA_SUCCESS;
}

/*
 * Of tiles that were launched together, in several streams, the GPU may end the first one last, and what it ended
 * meanwhile would wait for that. So a large call asks for one that is done, if any is: as many as there are streams are
 * looked at, the oldest first. (H100, two turns: dgemm 8192 28.3, 27.4 ms without and 26.7, 26.3; dsyrk 8192 14.2, 14.0
 * and 14.1, 13.9.) The copies of a smaller one, whose tiles take microseconds, are ordered ahead instead, and those of
 * one stream's tiles.
 */
static bool takes_what_is_done(const struct tb_pipeline *p) {
  return p->is_large && p->stream_count > 1 && p->down.layout.plan->ways.c == TB_STAGED;
}

static CUresult next_is_done(struct tb_pipeline *p) {
  struct tb_down *down = &p->down;
  int16_t *const next = down->order + down->fetched;
  const int64_t looked = takes_what_is_done(p) ? tb_min(down->complete - down->fetched, p->stream_count) : 0;
  CUresult result = looked > 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  for (int64_t i = 0; i < looked && result == CUDA_ERROR_NOT_READY; i++) {
    const int16_t tile = next[i];
    CUevent done;
    TB_TRY(tb_device_tile_event(p->d, tile, &done));
    result = tb_ask_event(done);
    if (result != CUDA_SUCCESS) continue;
    memmove(next + 1, next, (size_t)i * sizeof *next);
    next[0] = tile;
  }
  return result;
}

/* Asks for the next columns of a tile that is complete and not wholly fetched. */
static CUresult fetch_columns(struct tb_pipeline *p) {
  struct tb_down *down = &p->down;
  const int64_t tile = down->order[down->fetched];
  if (down->fetched_columns == 0) TB_TRY(await_tile(p, tile));
  TB_TRY(p->down.layout.plan->ways.c == TB_DIRECT ? fetch_direct(p, tile) : fetch_staged(p, tile));
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[TB_DOWN_END], p->d->down));
  if (down->fetched_columns < tb_layout_tile(&p->down.layout, tile).n) return CUDA_SUCCESS;
  down->fetched++;
  down->fetched_columns = 0;
  return CUDA_SUCCESS;
}

/* ---- committing ---- */

static void count_oldest(struct tb_pipeline *p) {
  const struct tb_down_entry *e = down_entry_of(p, p->down.committed);
  tb_down_count(p, e->tile, e->columns);
  p->progress->down_bytes += (double)e->bytes;
  p->down.committed++;
}

static bool oldest_is_committed(struct tb_pipeline *p) {
  return p->down.committed < p->down.arrived && tb_copy_done(p->d->pool, &down_entry_of(p, p->down.committed)->copy);
}

/* Whether what comes down may be committed, or CUDA_ERROR_NOT_READY. The kernel is asked about operands that stay when
 * a tile's last launch is enqueued: what is to go up for it has gone then, and the GPU computes. */
static CUresult look_at_proofs(struct tb_pipeline *p) {
  const bool is_early = p->down.complete == 0 && p->down.asked == 0;
  return p->keep == NULL || is_early ? CUDA_SUCCESS : tb_keep_confirm(p->keep, p->d);
}

/* ---- turns ---- */

CUresult tb_down_turn(struct tb_pipeline *p, enum tb_turn *turn) {
  struct tb_down *down = &p->down;
  const CUresult proof = look_at_proofs(p);
  if (proof != CUDA_SUCCESS && proof != CUDA_ERROR_NOT_READY) return proof;
  while (oldest_is_committed(p)) {
    count_oldest(p);
    *turn = TB_SOMETHING;
  }
  while (proof == CUDA_SUCCESS && down->arrived < down->asked) {
    const CUresult result = tb_download_arrived(p->d, down_slot_of(p, down->arrived));
    if (result == CUDA_ERROR_NOT_READY) break;
    TB_TRY(result);
    tb_copy_start(p->d->pool, &down_entry_of(p, down->arrived)->copy);
    down->arrived++;
    *turn = TB_SOMETHING;
  }
  while (down->asked - down->committed < (uint64_t)tb_ring_pieces(&p->d->down_ring) && down->fetched < down->complete) {
    const CUresult done = down->fetched_columns > 0 ? CUDA_SUCCESS : next_is_done(p);
    if (done == CUDA_ERROR_NOT_READY) break;
    TB_TRY(done);
    TB_TRY(fetch_columns(p));
    *turn = TB_SOMETHING;
  }
  return CUDA_SUCCESS;
}

bool tb_down_is_over(const struct tb_pipeline *p) {
  return p->down.fetched == p->down.complete && p->down.committed == p->down.asked;
}

void tb_down_count_committed(struct tb_pipeline *p) {
  while (oldest_is_committed(p)) count_oldest(p);
}

void tb_down_abandon(struct tb_pipeline *p) {
  while (p->down.committed < p->down.arrived) {
    tb_copy_wait(p->d->pool, &down_entry_of(p, p->down.committed)->copy);
    count_oldest(p);
  }
}
