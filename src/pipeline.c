/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline.h"

#include <string.h>

#include "commit.h"
#include "copy.h"
#include "staging.h"

/* A run of columns of a tile on its way down. */
struct download {
  int64_t tile, column, columns;
  uint64_t ticket;
};

struct pipeline {
  struct tb_device *d;
  const struct tb_choice *choice;
  bool timed, marked_up, marked_compute, marked_down;
  struct tb_progress *progress;
  const CUstream *streams; /* the launches alternate between these */
  int stream_count;

  struct tb_layout layout;        /* of the current block */
  int64_t a_resident, b_resident; /* first row, first column of the operands' parts on the device; -1: none */
  int16_t order[TB_TILES_MAX * TB_TILES_MAX]; /* tiles in the order of their last launch */
  int64_t launched, fetched;       /* how many of them are launched; how many are wholly enqueued for download */
  int64_t fetched_columns;         /* of tile order[fetched] */
  struct download queue[TB_SLOTS]; /* oldest first, from `head` on */
  unsigned head, queued;
};

static bool reads_in_place(const struct tb_plan *plan) {
  return plan->ways.a == TB_IN_PLACE || plan->ways.b == TB_IN_PLACE;
}

/* ---- down: fetch and commit ---- */

static void count_committed(struct pipeline *p, int64_t tile, int64_t columns) {
  p->progress->committed_columns[tile] += columns;
  p->progress->committed = true;
}

static void count_all_committed(struct pipeline *p) {
  for (int64_t tile = 0; tile < p->layout.rows * p->layout.columns; tile++)
    count_committed(p, tile, tb_layout_tile(&p->layout, tile).n);
}

/* C = arrived + beta C for some columns of a tile. */
static void commit(struct pipeline *p, const struct download *w, const float *arrived) {
  struct tb_block t = tb_layout_tile(&p->layout, w->tile);
  const struct tb_gemm *call = p->layout.call;
  int64_t ld = tb_padded(t.m);
  float *c = tb_layout_c(&p->layout, w->tile) + w->column * call->ldc;
  tb_copy_commit(p->d->pool, c, call->ldc, call->beta, arrived, ld, t.m, w->columns);
  count_committed(p, w->tile, w->columns);
  p->progress->down_bytes += (double)(w->columns * ld) * sizeof(float);
}

static CUresult commit_oldest(struct pipeline *p) {
  const struct download *w = &p->queue[p->head];
  const float *arrived;
  TB_TRY(tb_download_wait(p->d, w->ticket, &arrived));
  commit(p, w, arrived);
  p->head = (p->head + 1) % TB_SLOTS;
  p->queued--;
  return CUDA_SUCCESS;
}

/* Down waits for the tile's last launch. */
static CUresult await_tile(struct pipeline *p, int64_t tile) {
  CUevent done;
  TB_TRY(tb_device_tile_event(p->d, tile, &done));
  TB_TRY(tb_cuda.cuStreamWaitEvent(p->d->down, done, 0));
  if (p->timed && !p->marked_down) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[TB_DOWN_BEGIN], p->d->down));
  p->marked_down = true;
  return CUDA_SUCCESS;
}

/* A whole tile, into a pinned C that nobody needs any more. */
static CUresult fetch_direct(struct pipeline *p, int64_t tile) {
  struct tb_block t = tb_layout_tile(&p->layout, tile);
  struct tb_matrix d = tb_layout_d(&p->layout, tile);
  TB_TRY(tb_download_direct(p->d, d.address, d.ld, tb_layout_c(&p->layout, tile), p->layout.call->ldc, t.m, t.n));
  p->progress->down_bytes += (double)(t.m * t.n) * sizeof(float);
  p->fetched_columns = t.n;
  return CUDA_SUCCESS;
}

/* The next run of columns, into a slot. */
static CUresult fetch_staged(struct pipeline *p, int64_t tile) {
  struct tb_matrix d = tb_layout_d(&p->layout, tile);
  struct tb_block t = tb_layout_tile(&p->layout, tile);
  struct download *w = &p->queue[(p->head + p->queued) % TB_SLOTS];
  *w = (struct download){.tile = tile, .column = p->fetched_columns};
  w->columns = tb_min(tb_download_columns(d.ld), t.n - w->column);
  int64_t floats = (w->columns - 1) * d.ld + t.m;
  TB_TRY(tb_download_start(p->d, tb_float_address(d.address, w->column * d.ld), floats, &w->ticket));
  p->queued++;
  p->fetched_columns += w->columns;
  return CUDA_SUCCESS;
}

/* Enqueues the next download of the oldest tile that is launched and not wholly fetched. */
static CUresult fetch(struct pipeline *p) {
  int64_t tile = p->order[p->fetched];
  if (p->fetched_columns == 0) TB_TRY(await_tile(p, tile));
  TB_TRY(p->layout.plan->ways.c == TB_DIRECT ? fetch_direct(p, tile) : fetch_staged(p, tile));
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(p->d->marks[TB_DOWN_END], p->d->down));
  if (p->fetched_columns == tb_layout_tile(&p->layout, tile).n) {
    p->fetched++;
    p->fetched_columns = 0;
  }
  return CUDA_SUCCESS;
}

/* Keeps downloads going between other work: commits what has arrived, and enqueues what there is room for. */
static CUresult keep_fetching(struct pipeline *p) {
  while (p->queued > 0 && tb_download_ready(p->d, p->queue[p->head].ticket)) TB_TRY(commit_oldest(p));
  while (p->queued < TB_SLOTS && p->fetched < p->launched) TB_TRY(fetch(p));
  return CUDA_SUCCESS;
}

static CUresult fetch_rest(struct pipeline *p) {
  TB_TRY(keep_fetching(p));
  while (p->queued > 0) {
    TB_TRY(commit_oldest(p));
    TB_TRY(keep_fetching(p));
  }
  return CUDA_SUCCESS;
}

/* Until C has all of the block, and nothing of it is under way. */
static CUresult finish(struct pipeline *p) {
  if (p->layout.plan->ways.c != TB_IN_PLACE) TB_TRY(fetch_rest(p));
  if (p->layout.plan->ways.c == TB_DIRECT) TB_TRY(tb_cuda.cuStreamSynchronize(p->d->down));
  if (p->layout.plan->ways.c == TB_IN_PLACE)
    for (int s = 0; s < p->stream_count; s++) TB_TRY(tb_cuda.cuStreamSynchronize(p->streams[s]));
  bool counted =
      p->layout.plan->ways.c == TB_STAGED || (p->layout.plan->ways.c == TB_IN_PLACE && p->layout.call->beta != 0);
  if (!counted) count_all_committed(p); /* what a failure before this point left in C is overwritten by the CPU */
  return CUDA_SUCCESS;
}

/* ---- up ---- */

/* One panel of an operand: `x` is its view, `rows` x `columns` what the view shows, `target` where it goes. */
static CUresult upload(struct pipeline *p, struct tb_view x, int64_t rows, int64_t columns, enum tb_way way,
                       struct tb_matrix target) {
  struct tb_device *d = p->d;
  struct tb_upload u = {.source = x.data, .source_ld = x.ld, .target = target.address, .target_ld = target.ld};
  u.rows = x.transposed ? columns : rows;
  u.columns = x.transposed ? rows : columns;
  if (p->timed && !p->marked_up) TB_TRY(tb_cuda.cuEventRecord(d->marks[TB_UP_BEGIN], d->up));
  p->marked_up = true;
  if (way == TB_DIRECT) TB_TRY(tb_upload_direct(d, &u));
  for (bool more = way == TB_STAGED; more;) {
    TB_TRY(tb_upload_step(d, &u, &more));
    TB_TRY(keep_fetching(p));
  }
  p->progress->up_bytes += (double)(u.rows * u.columns) * sizeof(float);
  TB_TRY(tb_cuda.cuEventRecord(d->uploaded, d->up));
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(d->marks[TB_UP_END], d->up));
  return CUDA_SUCCESS;
}

static CUresult upload_a(struct pipeline *p, int64_t row, struct tb_extent k) {
  const struct tb_layout *l = &p->layout;
  return upload(p, tb_layout_a_view(l, row, k), tb_layout_rows(l, row).size, k.size, l->plan->ways.a,
                tb_layout_a(l, row, k));
}

static CUresult upload_b(struct pipeline *p, int64_t column, struct tb_extent k) {
  const struct tb_layout *l = &p->layout;
  return upload(p, tb_layout_b_view(l, column, k), k.size, tb_layout_columns(l, column).size, l->plan->ways.b,
                tb_layout_b(l, column, k));
}

/* The next chunk's panels overwrite this one's: not before every launch that reads them is over. */
static CUresult hold_uploads(struct pipeline *p) {
  for (int s = 0; s < p->stream_count; s++) {
    TB_TRY(tb_cuda.cuEventRecord(p->d->drained[s], p->streams[s]));
    TB_TRY(tb_cuda.cuStreamWaitEvent(p->d->up, p->d->drained[s], 0));
  }
  return CUDA_SUCCESS;
}

/* ---- compute ---- */

/* C = D + beta C, behind the tile's last launch. */
static CUresult enqueue_commit(struct pipeline *p, int64_t tile, CUstream stream) {
  struct tb_block t = tb_layout_tile(&p->layout, tile);
  struct tb_matrix d = tb_layout_d(&p->layout, tile);
  struct tb_commit_args args = {.c = tb_layout_c(&p->layout, tile),
                                .d = (const float *)d.address,
                                .ldc = p->layout.call->ldc,
                                .ldd = d.ld,
                                .m = t.m,
                                .n = t.n,
                                .beta = p->layout.call->beta};
  TB_TRY(tb_commit_launch(p->d->commit, &args, stream));
  count_committed(p, tile, t.n);
  return CUDA_SUCCESS;
}

/* What follows the launch that completes a tile's product. */
static CUresult deliver(struct pipeline *p, int64_t tile, CUstream stream) {
  if (p->layout.plan->ways.c == TB_IN_PLACE)
    return p->layout.call->beta == 0 ? CUDA_SUCCESS : enqueue_commit(p, tile, stream);
  CUevent done;
  TB_TRY(tb_device_tile_event(p->d, tile, &done));
  TB_TRY(tb_cuda.cuEventRecord(done, stream));
  p->order[p->launched++] = (int16_t)tile;
  return CUDA_SUCCESS;
}

static CUresult launch(struct pipeline *p, int64_t row, int64_t column, struct tb_extent k) {
  struct tb_device *d = p->d;
  const struct tb_gemm *call = p->layout.call;
  int64_t tile = row * p->layout.columns + column;
  struct tb_matrix pa = tb_layout_a(&p->layout, row, k), pb = tb_layout_b(&p->layout, column, k),
                   pd = tb_layout_d(&p->layout, tile);
  struct tb_sgemm_args args = {
      .a = (const float *)pa.address,
      .b = (const float *)pb.address,
      .d = (float *)pd.address,
      .lda = pa.ld,
      .ldb = pb.ld,
      .ldd = pd.ld,
      .m = tb_layout_rows(&p->layout, row).size,
      .n = tb_layout_columns(&p->layout, column).size,
      .k = k.size,
      .alpha = call->alpha,
      .first = k.start == 0,
      .last = k.start + k.size == call->k,
      .padded = !reads_in_place(p->layout.plan),
  };
  CUstream stream = p->streams[tile % p->stream_count]; /* a tile's chunks follow each other in one stream */
  if (p->marked_up) TB_TRY(tb_cuda.cuStreamWaitEvent(stream, d->uploaded, 0));
  if (p->timed && !p->marked_compute) TB_TRY(tb_cuda.cuEventRecord(d->marks[TB_COMPUTE_BEGIN], stream));
  p->marked_compute = true;
  TB_TRY(tb_kernels_launch(&d->kernels, p->choice, call->a.transposed, call->b.transposed, &args,
                           tb_layout_workspace(&p->layout, tile), stream));
  if (args.last) TB_TRY(deliver(p, tile, stream));
  if (p->timed) TB_TRY(tb_cuda.cuEventRecord(d->marks[TB_COMPUTE_END], stream));
  return CUDA_SUCCESS;
}

/*
 * One chunk of k for every tile of the block. Panels go up in turn, and each tile is launched with the later of its two
 * panels:
 *
 *          B0  B1  B2
 *      A0   1   3   5       up: A0 B0 | A1 | B1 | A2 | B2
 *      A1   2   3   5       launched behind: 1 | 2 | 3 3 | 4 4 | 5 5 5
 *      A2   4   4   5
 */
static CUresult run_chunk(struct pipeline *p, struct tb_extent k, bool a_there, bool b_there) {
  for (int64_t step = 0; step < tb_max(p->layout.rows, p->layout.columns); step++) {
    if (step < p->layout.rows) {
      if (!a_there) TB_TRY(upload_a(p, step, k));
      for (int64_t column = 0; column < tb_min(step, p->layout.columns); column++) TB_TRY(launch(p, step, column, k));
    }
    if (step < p->layout.columns) {
      if (!b_there) TB_TRY(upload_b(p, step, k));
      for (int64_t row = 0; row <= tb_min(step, p->layout.rows - 1); row++) TB_TRY(launch(p, row, step, k));
    }
  }
  return CUDA_SUCCESS;
}

static CUresult run_block(struct pipeline *p, int64_t number) {
  const struct tb_plan *plan = p->layout.plan;
  tb_layout_enter(&p->layout, number);
  p->launched = p->fetched = p->fetched_columns = 0;
  memset(p->progress->committed_columns, 0, (size_t)(p->layout.rows * p->layout.columns) * sizeof(int64_t));
  bool whole_k = plan->chunk_k == p->layout.call->k;
  bool a_there = plan->ways.a == TB_IN_PLACE || (whole_k && p->a_resident == p->layout.block.i);
  bool b_there = plan->ways.b == TB_IN_PLACE || (whole_k && p->b_resident == p->layout.block.j);
  for (int64_t start = 0; start < p->layout.call->k; start += plan->chunk_k) {
    if (start > 0) TB_TRY(hold_uploads(p));
    struct tb_extent k = {start, tb_min(plan->chunk_k, p->layout.call->k - start)};
    TB_TRY(run_chunk(p, k, a_there, b_there));
  }
  p->a_resident = p->layout.block.i;
  p->b_resident = p->layout.block.j;
  /* Nothing of this block is under way when the next one overwrites its panels and tiles. */
  return finish(p);
}

CUresult tb_pipeline_run(struct tb_device *device, const struct tb_gemm *call, const struct tb_plan *plan,
                         const struct tb_choice *choice, bool timed, struct tb_progress *progress) {
  struct pipeline p = {.d = device,
                       .layout = {.call = call, .plan = plan, .arena = device->arena},
                       .choice = choice,
                       .timed = timed,
                       .progress = progress,
                       .streams = device->compute,
                       .stream_count = TB_COMPUTE_STREAMS,
                       .a_resident = -1,
                       .b_resident = -1};
  if (reads_in_place(plan) || plan->ways.c == TB_IN_PLACE) {
    p.streams = &device->ordered;
    p.stream_count = 1;
  }
  const int64_t blocks = tb_layout_blocks(call, plan);
  for (progress->block = 0; progress->block < blocks; progress->block++) TB_TRY(run_block(&p, progress->block));
  return CUDA_SUCCESS;
}

CUresult tb_pipeline_scale(struct tb_device *device, const struct tb_gemm *call, struct tb_progress *progress) {
  struct tb_commit_args args = {.c = call->c, .ldc = call->ldc, .m = call->m, .n = call->n, .beta = call->beta};
  if (call->beta != 1) TB_TRY(tb_commit_launch(device->commit, &args, device->ordered));
  progress->committed_columns[0] = call->n;
  progress->committed = true;
  TB_TRY(tb_cuda.cuStreamSynchronize(device->ordered));
  return CUDA_SUCCESS;
}
