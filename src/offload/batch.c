/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "offload/batch.h"

#include <stdio.h>

#include "base/clock.h"
#include "cuda/wait.h"
#include "offload/keeper.h"
#include "offload/reach.h"
#include "offload/part.h"
#include "offload/team.h"
#include "pipeline/batch.h"

static bool is_in_host_memory(enum tb_place place) { return place == TB_PAGEABLE || place == TB_PINNED; }

enum tb_batch_state tb_offload_batch_way(const struct tb_call *call, const struct tb_places *p) {
  if (call->m == 0 || call->n == 0) return TB_BATCH_DONE;
  const bool on_host =
      p == NULL || (is_in_host_memory(p->a.place) && is_in_host_memory(p->b.place) && is_in_host_memory(p->c.place));
  if (tb_call_is_trivial(call)) return on_host ? TB_BATCH_ON_CPU : TB_BATCH_ALONE;
  if (!tb_batch_fits(call)) return TB_BATCH_ALONE;
  if (on_host) return TB_BATCH_STAGED;
  const bool on_device = p->a.place == TB_DEVICE && p->b.place == TB_DEVICE && p->c.place == TB_DEVICE;
  const bool together = on_device && p->a.device == p->c.device && p->b.device == p->c.device &&
                        p->a.context == p->c.context && p->b.context == p->c.context;
  return together ? TB_BATCH_IN_PLACE : TB_BATCH_ALONE;
}

/* What alone would go to the tensor cores goes alone: its bits are theirs. Of a group all do, or none. */
static void leave_to_tensor_cores(struct tb_device *d, const struct tb_batch *batch, unsigned char *state) {
  struct tb_batch_cursor cursor;
  int64_t group = -1;
  bool leaves = false;
  tb_batch_begin(&cursor, batch);
  while (tb_batch_next(&cursor)) {
    if (state[cursor.number] != TB_BATCH_IN_PLACE) continue;
    const struct tb_ways ways = {.a = TB_IN_PLACE, .b = TB_IN_PLACE, .c = TB_IN_PLACE};
    if (cursor.group != group) leaves = tb_part_choose(d, &cursor.call, ways).family == TB_FAMILY_EMULATED;
    group = cursor.group;
    if (leaves) state[cursor.number] = TB_BATCH_ALONE;
  }
}

static CUresult run_batch_on(struct tb_device *d, const struct tb_batch *batch, bool timed,
                             struct tb_batch_progress *progress) {
  TB_TRY(tb_batch_load(&d->kernels.batch, batch->type, d->kernels.device.fp64.block_shared_bytes));
  TB_TRY(tb_batch_run_in_place(d, batch, timed, progress));
  return tb_batch_run_staged(d, batch, timed, progress);
}

static double batch_elapsed_ms(const struct tb_device *d, enum tb_mark begin, enum tb_mark end) {
  float milliseconds = 0;
  if (tb_cuda.cuEventElapsedTime(&milliseconds, d->marks[begin], d->marks[end]) != CUDA_SUCCESS) return 0;
  return milliseconds;
}

static void describe_batch(const struct tb_device *d, const struct tb_batch_progress *progress, bool timed,
                           struct tb_outcome *outcome) {
  outcome->committed = progress->committed;
  outcome->kernel = "batch";
  outcome->bytes = progress->up_bytes + progress->down_bytes;
  outcome->gpu_count = 1;
  snprintf(outcome->gpus, sizeof outcome->gpus, "%d", d->ordinal);
  if (!timed || outcome->failed || !progress->committed) return;
  outcome->compute_ms = batch_elapsed_ms(d, TB_COMPUTE_BEGIN, TB_COMPUTE_END);
  if (progress->down_bytes == 0) return;
  outcome->up_ms = batch_elapsed_ms(d, TB_UP_BEGIN, TB_UP_END);
  outcome->down_ms = batch_elapsed_ms(d, TB_DOWN_BEGIN, TB_DOWN_END);
}

/* What is said of a failure; then the device may be gone. */
static void fail_batch(struct tb_device *d, CUresult result, struct tb_outcome *outcome) {
  char failure[160];
  outcome->failed = true;
  outcome->why = result == TB_INTERRUPTED             ? TB_STATUS_interrupted
                 : result == CUDA_ERROR_OUT_OF_MEMORY ? TB_STATUS_no_memory
                 : result == CUDA_ERROR_DEINITIALIZED ? TB_STATUS_ending
                                                      : TB_STATUS_gpu_failed;
  if (result == TB_INTERRUPTED) return;
  tb_cuda_describe_failure(result, failure, sizeof failure);
  if (d->hangs) snprintf(failure, sizeof failure, "no progress for %.0f s", d->patience_seconds);
  tb_reach_give_up(d, failure, outcome->why);
}

static void run_on_device(struct tb_device *d, const struct tb_batch *batch, unsigned char *state, bool timed,
                          struct tb_outcome *outcome) {
  struct tb_batch_progress progress = {.state = state};
  d->patience_seconds = tb_wait_seconds(batch->flops, tb_device_peak_flops_per_s(d, batch->type));
  tb_cuda_failed_call = NULL;
  leave_to_tensor_cores(d, batch, state);
  CUresult result = tb_device_enter(d);
  if (result == CUDA_SUCCESS) {
    result = run_batch_on(d, batch, timed, &progress);
    if (result != CUDA_SUCCESS && result != TB_INTERRUPTED) tb_device_settle(d);
    if (result == CUDA_SUCCESS) describe_batch(d, &progress, timed, outcome);
    if (result != TB_INTERRUPTED) tb_device_leave();
  }
  if (result == CUDA_SUCCESS) return;
  outcome->failed = true;
  describe_batch(d, &progress, timed, outcome);
  fail_batch(d, result, outcome);
}

bool tb_offload_batch(const struct tb_batch *batch, unsigned char *state, const struct tb_places *places, bool timed,
                      struct tb_outcome *outcome) {
  *outcome = (struct tb_outcome){.why = TB_STATUS_callback};
  if (tb_reach_is_in_callback()) return false;
  tb_cuda_load(); /* which waits for the loader: not with the gate ours */
  outcome->why = TB_STATUS_busy;
  if (!tb_keeper_enter()) return false;
  struct tb_device *d = tb_reach_find(places, &outcome->why);
  if (d != NULL) {
    const double begun = tb_clock_seconds();
    outcome->why = TB_STATUS_ok;
    run_on_device(d, batch, state, timed, outcome);
    for (int number = 0; (d = tb_gpus_open_one(number)) != NULL; number++) tb_part_tidy(d);
    tb_keeper_touch();
    outcome->seconds = tb_clock_seconds() - begun;
    tb_keeper_leave();
    return true;
  }
  tb_keeper_leave();
  return false;
}
