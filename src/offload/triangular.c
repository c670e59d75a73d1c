/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/triangular.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/options.h"
#include "cpu/fallback.h"
#include "cuda/wait.h"
#include "base/log.h"
#include "offload/gpus.h"
#include "offload/hosted.h"
#include "offload/keeper.h"
#include "offload/offload.h"
#include "offload/part.h"
#include "offload/reach.h"
#include "process/guest.h"

/* As part.c has them. */
#define TRIANGULAR_SPARE_FRACTION 10
#define TRIANGULAR_RESERVE_TRIES 5

struct triangular_job {
  const struct tb_call *call;
  const struct tb_places *places;
  bool timed;
  struct tb_triangular_plan plan;
  struct tb_triangular_progress progress;
  bool too_large; /* not even the smallest blocks fit beside A */
  enum tb_status why;
  char failure[160];
  bool hangs;
};

/* ---- on the GPU ---- */

static bool plan_job(struct triangular_job *job, struct tb_device *d, int64_t budget) {
  const struct tb_ways ways = tb_triangular_ways(job->places);
  const int64_t block = tb_triangular_block_wish(job->call, ways);
  job->too_large = !tb_triangular_plan_make(&job->plan, job->call, ways, tb_solve_leaf(job->call->type),
                                            tb_triangular_workspace(d, job->call, block), budget);
  return !job->too_large;
}

/* CUDA_ERROR_OUT_OF_MEMORY: it cannot be done, or is too large. */
static CUresult plan_and_reserve(struct triangular_job *job, struct tb_device *d) {
  const int64_t limit = tb_option_number(TB_OPTION_memory_limit);
  int64_t free_bytes, budget = limit > 0 ? limit : INT64_MAX;
  tb_device_trim(d, budget); /* the limit may be younger than the arena */
  if (!plan_job(job, d, budget)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (job->plan.arena_bytes <= d->arena_bytes) return CUDA_SUCCESS;
  TB_TRY(tb_device_free_bytes(d, &free_bytes));
  budget = tb_min(budget, free_bytes - free_bytes / TRIANGULAR_SPARE_FRACTION);
  for (int attempt = 0; attempt < TRIANGULAR_RESERVE_TRIES && plan_job(job, d, budget); attempt++) {
    const CUresult reserved = tb_device_reserve(d, job->plan.arena_bytes);
    if (reserved != CUDA_ERROR_OUT_OF_MEMORY) return reserved;
    tb_cuda_failed_call = NULL; /* no failure yet: there is another try */
    budget = job->plan.arena_bytes / 2;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/* alpha = 0: neither A nor B is read. */
static CUresult zero_in_place(struct triangular_job *job, struct tb_device *d) {
  const struct tb_call *call = job->call;
  const struct tb_commit zero = {
      .type = call->type, .c = (CUdeviceptr)call->c, .ldc = call->ldc, .m = call->m, .n = call->n, .beta = call->alpha};
  TB_TRY(tb_kernels_commit(&d->kernels, d->commit, &zero, d->ordered));
  TB_TRY(tb_device_wait(d, d->ordered));
  return CUDA_SUCCESS;
}

static CUresult run_entered(struct triangular_job *job, struct tb_device *d) {
  TB_TRY(tb_kernels_ready(&d->kernels, job->call->type));
  if (tb_call_is_trivial(job->call)) return zero_in_place(job, d);
  TB_TRY(tb_solve_load(&d->kernels.solve));
  const CUresult planned = plan_and_reserve(job, d);
  if (planned != CUDA_SUCCESS) return planned;
  return tb_triangular_run(d, job->call, &job->plan, job->timed, &job->progress);
}

static void run_triangular(struct triangular_job *job, struct tb_device *d) {
  d->patience_seconds = tb_wait_seconds(tb_call_flops(job->call), tb_device_peak_flops_per_s(d, job->call->type));
  tb_cuda_failed_call = NULL;
  CUresult result = tb_device_enter(d);
  if (result == CUDA_SUCCESS) {
    result = run_entered(job, d);
    if (result != CUDA_SUCCESS && result != TB_INTERRUPTED) tb_device_settle(d);
    if (result != TB_INTERRUPTED) tb_device_leave();
  }
  job->why = tb_reach_why(result);
  job->hangs = d->hangs;
  if (result == CUDA_SUCCESS || result == TB_INTERRUPTED) return;
  tb_cuda_describe_failure(result, job->failure, sizeof job->failure);
  if (d->hangs) snprintf(job->failure, sizeof job->failure, "no progress for %.0f s", d->patience_seconds);
}

/* ---- what a failure left ---- */

/* Without the lock. False: there was nothing to do. */
static bool finish_triangular(struct triangular_job *job, const struct tb_call *call) {
  struct tb_call rest;
  bool any = false;
  while (tb_triangular_take_rest(&job->plan, call, &job->progress, &rest)) {
    struct tb_guest *paused;
    tb_guest_pause_floats(&paused);
    tb_fallback_compute(&rest);
    tb_guest_resume_floats(paused);
    any = true;
  }
  return any;
}

static void finish_anywhere(struct triangular_job *job, struct tb_outcome *outcome) {
  struct tb_hosted hosted;
  if (!tb_reach_uses_gpu(job->places)) {
    outcome->by_cpu = finish_triangular(job, job->call);
    return;
  }
  outcome->lost = job->hangs;
  if (job->hangs) {
    tb_warn("operands in GPU memory cannot be reached (the GPU hangs): a triangle's product is not computed");
    return;
  }
  outcome->lost = !tb_hosted_begin(&hosted, job->call, job->places, true);
  if (outcome->lost) return;
  outcome->by_cpu = finish_triangular(job, &hosted.call);
  outcome->lost = !tb_hosted_end(&hosted);
}

/* ---- all of it ---- */

static double marked_ms(const struct tb_device *d, bool marked, enum tb_mark begin, enum tb_mark end) {
  float milliseconds = 0;
  if (!marked || tb_cuda.cuEventElapsedTime(&milliseconds, d->marks[begin], d->marks[end]) != CUDA_SUCCESS) return 0;
  return milliseconds;
}

static void describe_triangular(struct triangular_job *job, struct tb_device *d, struct tb_outcome *outcome) {
  const struct tb_triangular_progress *p = &job->progress;
  const bool timed = job->timed && job->why == TB_STATUS_ok && !tb_call_is_trivial(job->call);
  outcome->why = job->why;
  outcome->failed = job->why != TB_STATUS_ok;
  outcome->committed = !outcome->failed || p->begun;
  outcome->bytes = p->up_bytes + p->down_bytes;
  outcome->kernel = outcome->failed ? NULL : tb_triangular_kernel(d);
  outcome->gpu_count = 1;
  snprintf(outcome->gpus, sizeof outcome->gpus, "%d", d->ordinal);
  if (timed && tb_device_enter(d) == CUDA_SUCCESS) {
    outcome->up_ms = marked_ms(d, p->up_bytes > 0, TB_UP_BEGIN, TB_UP_END);
    outcome->compute_ms = marked_ms(d, true, TB_COMPUTE_BEGIN, TB_COMPUTE_END);
    outcome->down_ms = marked_ms(d, p->down_bytes > 0, TB_DOWN_BEGIN, TB_DOWN_END);
    tb_device_leave();
  }
}

/* With the lock held. False: no GPU can take it, for the reason in the outcome. */
static bool run_triangular_job(struct triangular_job *job, struct tb_outcome *outcome) {
  struct tb_device *const d = tb_reach_find(job->places, &outcome->why);
  if (d == NULL) return false;
  const double begun = tb_clock_seconds();
  run_triangular(job, d);
  outcome->too_large = job->too_large;
  if (job->too_large) {
    outcome->why = TB_STATUS_no_memory;
    return false;
  }
  describe_triangular(job, d, outcome);
  if (outcome->failed) tb_reach_give_up(d, job->failure, job->why);
  struct tb_device *open;
  for (int number = 0; (open = tb_gpus_open_one(number)) != NULL; number++) tb_part_tidy(open);
  tb_keeper_touch();
  outcome->seconds = tb_clock_seconds() - begun;
  return true;
}

bool tb_offload_triangular(const struct tb_call *call, const struct tb_places *places, bool timed,
                           struct tb_outcome *outcome) {
  *outcome = (struct tb_outcome){.why = TB_STATUS_callback};
  if (tb_reach_is_in_callback()) return false;
  tb_cuda_load(); /* which waits for the loader: not with the gate ours */
  outcome->why = TB_STATUS_busy;
  if (!tb_keeper_enter()) return false;
  struct triangular_job job = {.call = call, .places = places, .timed = timed};
  const bool taken = run_triangular_job(&job, outcome);
  tb_keeper_leave();
  if (outcome->failed) finish_anywhere(&job, outcome);
  return taken;
}
