/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/batch.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/options.h"
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

/* Some of the products on one GPU. */
struct batch_part {
  struct tb_device *device;
  struct tb_batch_progress progress;
  enum tb_status why; /* TB_STATUS_ok: they are complete */
  char failure[160];
  double up_ms, compute_ms, down_ms;
};

/* A batch in parts: one, or those of several GPUs; and behind them those that failed at finishing what others left. */
struct batch_job {
  const struct tb_batch *batch;
  unsigned char *state;
  const struct tb_places *places;
  bool timed;
  struct batch_part part[2 * TB_GPUS_MAX];
  int count, sharing;
  struct tb_team_cut cut;
  struct tb_reach_failed failed;
};

/* ---- one GPU ---- */

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

static void measure_batch(struct batch_part *part, const struct tb_device *d) {
  if (!part->progress.committed) return;
  part->compute_ms = tb_part_elapsed_ms(d, TB_COMPUTE_BEGIN, TB_COMPUTE_END);
  if (part->progress.down_bytes == 0) return;
  part->up_ms = tb_part_elapsed_ms(d, TB_UP_BEGIN, TB_UP_END);
  part->down_ms = tb_part_elapsed_ms(d, TB_DOWN_BEGIN, TB_DOWN_END);
}

static CUresult run_entered(const struct batch_job *job, struct batch_part *part, struct tb_device *d) {
  TB_TRY(tb_batch_load(&d->kernels.batch, job->batch->type, d->kernels.device.fp64.block_shared_bytes));
  TB_TRY(tb_batch_run_in_place(d, job->batch, job->timed, &part->progress));
  const CUresult result = tb_batch_run_staged(d, job->batch, job->timed, &part->progress);
  if (result == CUDA_SUCCESS && job->timed) measure_batch(part, d);
  return result;
}

static void run_batch_part(const struct batch_job *job, struct batch_part *part, struct tb_device *d, int64_t first,
                           int64_t end) {
  *part = (struct batch_part){.device = d, .progress = {.state = job->state, .first = first, .end = end}};
  d->patience_seconds = tb_wait_seconds(job->batch->flops, tb_device_peak_flops_per_s(d, job->batch->type));
  tb_cuda_failed_call = NULL;
  CUresult result = tb_device_enter(d);
  if (result == CUDA_SUCCESS) {
    result = run_entered(job, part, d);
    if (result != CUDA_SUCCESS && result != TB_INTERRUPTED) tb_device_settle(d);
    if (result != TB_INTERRUPTED) tb_device_leave();
  }
  part->why = tb_part_judge(d, result, part->failure, sizeof part->failure);
}

static void run_batch_alone(struct batch_job *job, struct tb_device *d) {
  leave_to_tensor_cores(d, job->batch, job->state);
  job->count = job->sharing = 1;
  run_batch_part(job, &job->part[0], d, 0, job->batch->products);
}

/* ---- several ---- */

/* Elements that go up and come down for a product: the way to the host is what batches wait for. */
static int64_t elems_of(const struct tb_call *call) {
  return call->m * call->k + call->k * call->n + call->m * call->n;
}

/* Those that are to be packed: how many, and all their elements. */
static int64_t count_staged(const struct batch_job *job, int64_t *elems) {
  struct tb_batch_cursor cursor;
  int64_t count = 0;
  *elems = 0;
  tb_batch_begin(&cursor, job->batch);
  while (tb_batch_next(&cursor)) {
    if (job->state[cursor.number] != TB_BATCH_STAGED) continue;
    *elems += elems_of(&cursor.call);
    count++;
  }
  return count;
}

/* Whether several GPUs should share it: of products on the host alone. */
static bool should_share_batch(const struct batch_job *job, const struct tb_device *first) {
  static double saved_by_sharing;
  const struct tb_batch *const batch = job->batch;
  const int64_t mode = tb_option_number(TB_OPTION_share);
  if (mode == TB_SHARE_NEVER || tb_gpus_usable() < 2 || job->places != NULL) return false;
  if (mode == TB_SHARE_ALWAYS) return true;
  const struct tb_choice by = {.family = tb_type_is_double(batch->type) ? TB_FAMILY_FP64 : TB_FAMILY_FMA};
  const double seconds = tb_share_bytes_seconds(batch->flops, batch->up_bytes, batch->down_bytes,
                                                tb_part_flops_per_s(first, &by), tb_part_link());
  const double open_seconds = tb_gpus_must_open_more() ? tb_gpus_open_seconds() : 0;
  return tb_share_pays(seconds, tb_gpus_usable(), open_seconds, &saved_by_sharing);
}

/* A member has the products that begin in its run of elements. */
static void give_out_products(struct batch_job *job) {
  struct tb_batch_cursor cursor;
  int64_t elems = 0;
  int member = 0;
  job->part[0].progress.first = 0;
  tb_batch_begin(&cursor, job->batch);
  while (tb_batch_next(&cursor)) {
    if (job->state[cursor.number] != TB_BATCH_STAGED) continue;
    while (elems >= job->cut.first[member] + job->cut.size[member]) {
      job->part[member].progress.end = cursor.number;
      job->part[++member].progress.first = cursor.number;
    }
    elems += elems_of(&cursor.call);
  }
  while (member < job->cut.members) {
    job->part[member].progress.end = job->batch->products;
    job->part[++member].progress.first = job->batch->products;
  }
}

static double drive_batch(void *context, int member, struct tb_device *d) {
  struct batch_job *const job = context;
  struct batch_part *const part = &job->part[member];
  run_batch_part(job, part, d, part->progress.first, part->progress.end);
  return part->why == TB_STATUS_ok ? part->progress.up_bytes + part->progress.down_bytes : 0;
}

static bool run_batch_shared(struct batch_job *job) {
  struct tb_gpus_team team;
  int64_t elems;
  if (count_staged(job, &elems) < 2) return false;
  tb_gpus_assemble(&team);
  if (team.count < 2) return false;
  tb_team_cut(&job->cut, &team, elems, 1);
  give_out_products(job);
  job->count = job->sharing = job->cut.members;
  tb_team_run(&job->cut, drive_batch, job);
  return true;
}

/* ---- when it goes wrong ---- */

static void give_up_batch(struct batch_job *job, const struct batch_part *part) {
  tb_reach_note(&job->failed, part->device);
  tb_reach_give_up(part->device, part->failure, part->why);
}

static bool is_left(const struct batch_job *job) {
  for (int64_t i = 0; i < job->batch->products; i++)
    if (job->state[i] == TB_BATCH_STAGED) return true;
  return false;
}

/* What GPUs left of products on the host, by one of those that are left. */
static void rescue_batch(struct batch_job *job) {
  struct tb_device *d;
  while (job->failed.count > 0 && job->places == NULL && is_left(job) &&
         (d = tb_reach_survivor(&job->failed)) != NULL) {
    struct batch_part *const part = &job->part[job->count++];
    run_batch_part(job, part, d, 0, job->batch->products);
    if (part->why != TB_STATUS_ok) give_up_batch(job, part);
  }
}

/* ---- all of it ---- */

static double longest(double a, double b) { return a > b ? a : b; }

static void describe_batch(const struct batch_job *job, struct tb_outcome *outcome) {
  size_t length = 0;
  outcome->why = TB_STATUS_ok;
  outcome->kernel = "batch";
  for (int i = 0; i < job->count; i++) {
    const struct batch_part *const part = &job->part[i];
    if (part->why != TB_STATUS_ok && !outcome->failed) outcome->why = part->why;
    outcome->failed = outcome->failed || part->why != TB_STATUS_ok;
    outcome->committed = outcome->committed || part->progress.committed;
    outcome->bytes += part->progress.up_bytes + part->progress.down_bytes;
    outcome->up_ms = longest(outcome->up_ms, part->up_ms);
    outcome->compute_ms = longest(outcome->compute_ms, part->compute_ms);
    outcome->down_ms = longest(outcome->down_ms, part->down_ms);
    if (i >= job->sharing || part->progress.first == part->progress.end) continue; /* or it had no product */
    outcome->gpu_count++;
    tb_team_name(outcome->gpus, sizeof outcome->gpus, &length, part->device);
  }
}

static void run_batch_job(struct batch_job *job, struct tb_device *d, struct tb_outcome *outcome) {
  const double begun = tb_clock_seconds();
  if (!(should_share_batch(job, d) && run_batch_shared(job))) run_batch_alone(job, d);
  for (int i = 0; i < job->sharing; i++)
    if (job->part[i].why != TB_STATUS_ok) give_up_batch(job, &job->part[i]);
  rescue_batch(job);
  describe_batch(job, outcome);
  for (int number = 0; (d = tb_gpus_open_one(number)) != NULL; number++) tb_part_tidy(d);
  tb_keeper_touch();
  outcome->seconds = tb_clock_seconds() - begun;
}

bool tb_offload_batch(const struct tb_batch *batch, unsigned char *state, const struct tb_places *places, bool timed,
                      struct tb_outcome *outcome) {
  *outcome = (struct tb_outcome){.why = TB_STATUS_callback};
  if (tb_reach_is_in_callback()) return false;
  tb_cuda_load(); /* which waits for the loader: not with the gate ours */
  outcome->why = TB_STATUS_busy;
  if (!tb_keeper_enter()) return false;
  struct batch_job *const job = malloc(sizeof *job); /* of 9 KB, for which a stack may be too small */
  struct tb_device *const d = tb_reach_find(places, false, &outcome->why);
  const bool taken = job != NULL && d != NULL;
  if (taken) {
    *job = (struct batch_job){.batch = batch, .state = state, .places = places, .timed = timed};
    run_batch_job(job, d, outcome);
  } else if (d != NULL) {
    outcome->why = TB_STATUS_no_memory;
  }
  tb_keeper_leave();
  free(job);
  return taken;
}
