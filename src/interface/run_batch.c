/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "interface/run_batch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "cpu/batch.h"
#include "cpu/fallback.h"
#include "interface/caller.h"
#include "interface/run.h"
#include "interface/stats.h"
#include "level3/batches.h"
#include "process/guest.h"
#include "process/sandbox.h"
#include "process/stack.h"
#include "route/batches.h"

/* A batch that is the CPU's, or that a GPU has answered. */
struct batch_run {
  const struct tb_batch *batch;
  struct tb_decision decision;
  double started; /* seconds; 0: it is not timed */
  bool done;
};

/* ---- the verbose line ---- */

/* "cblas_sgemm_batch row-major groups=2 products=100, the first NT m=.. n=.. k=.." */
static void describe_batch_call(const struct tb_batch *batch, char *text, size_t size) {
  struct tb_batch_cursor cursor;
  tb_batch_begin(&cursor, batch);
  const int length = snprintf(text, size, "%s%s groups=%lld products=%lld", tb_symbols[batch->symbol].name,
                              batch->made->layout == TB_ROW_MAJOR ? " row-major" : "", (long long)batch->made->groups,
                              (long long)batch->products);
  if (!tb_batch_next(&cursor) || length < 0 || (size_t)length >= size) return;
  const struct tb_call *const g = &cursor.call;
  const struct tb_view *const a = g->row_major ? &g->b : &g->a, *const b = g->row_major ? &g->a : &g->b;
  snprintf(text + length, size - (size_t)length, ", the first %c%c m=%lld n=%lld k=%lld",
           "NTC"[a->transposed + a->conjugated], "NTC"[b->transposed + b->conjugated],
           (long long)(g->row_major ? g->n : g->m), (long long)(g->row_major ? g->m : g->n), (long long)g -> k);
}

static void describe_why(const struct tb_decision *d, enum tb_status why, char *text, size_t size) {
  if (d->cpu_seconds > 0)
    snprintf(text, size, "%s: cpu %.3f ms, gpu %.3f ms", tb_status_text(why), d->cpu_seconds * 1e3,
             d->gpu_seconds * 1e3);
  else
    snprintf(text, size, "%s", tb_status_text(why));
}

/* `o`: of a GPU; NULL: the CPU answered. */
static void say_batch(const struct batch_run *run, enum tb_status status, const struct tb_outcome *o, double seconds) {
  char call[256], why[192];
  const double tflops = seconds > 0 ? run->batch->flops / seconds * 1e-12 : 0;
  describe_batch_call(run->batch, call, sizeof call);
  describe_why(&run->decision, status, why, sizeof why);
  if (o == NULL)
    tb_say("%s -> cpu (%s) total %.3f ms %.3f TFLOP/s", call, why, seconds * 1e3, tflops);
  else
    tb_say("%s -> gpu%s %s (%s) up %.3f ms compute %.3f ms down %.3f ms total %.3f ms %.3f TFLOP/s%s", call, o->gpus,
           o->kernel ? o->kernel : "", why, o->up_ms, o->compute_ms, o->down_ms, seconds * 1e3, tflops,
           o->lost     ? ", lost"
           : o->by_cpu ? ", completed by the cpu"
           : o->failed ? ", completed by another gpu"
                       : "");
}

/* ---- one batch ---- */

static bool is_observed(void) { return tb_option_number(TB_OPTION_verbose) || tb_option_number(TB_OPTION_report); }

static void count_batch_on_cpu(const struct batch_run *run) {
  const double seconds = run->started > 0 ? tb_clock_seconds() - run->started : 0;
  tb_stats_add(run->batch->symbol, TB_CPU, run->decision.why, run->batch->flops, 0, seconds);
  tb_batch_learn(run->batch, &run->decision, TB_CPU, 0, seconds);
  if (tb_option_number(TB_OPTION_verbose)) say_batch(run, run->decision.why, NULL, seconds);
}

static void count_batch_on_gpu(const struct batch_run *run, const struct tb_outcome *o, double seconds) {
  const enum tb_status why = o->failed ? o->why : run->decision.why;
  tb_stats_add(run->batch->symbol, o->committed ? TB_GPU : TB_CPU, why, run->batch->flops, o->bytes, seconds);
  if (o->failed)
    tb_stats_add_failure();
  else
    tb_batch_learn(run->batch, &run->decision, TB_GPU, o->gpu_count, seconds);
  if (tb_option_number(TB_OPTION_verbose)) say_batch(run, why, o->committed ? o : NULL, seconds);
}

/* What needs no look at the operands. */
static bool decide_at_once(struct batch_run *run) {
  const bool nothing = run->batch->products == 0;
  if (!nothing && run->batch->flops > 0) return false;
  run->decision = (struct tb_decision){.where = TB_CPU, .why = TB_STATUS_trivial};
  return nothing;
}

static struct tb_decision decide_batch(const struct tb_batch *batch, const struct tb_batch_places *places) {
  const enum tb_route_mode mode = (enum tb_route_mode)tb_option_number(TB_OPTION_route);
  if (places->need_gpu)
    return (struct tb_decision){.where = TB_GPU,
                                .why = mode == TB_ROUTE_CPU ? TB_STATUS_forced_cpu : TB_STATUS_resident};
  if (tb_sandboxed()) return (struct tb_decision){.where = TB_CPU, .why = TB_STATUS_sandboxed};
  if (batch->flops == 0) return (struct tb_decision){.where = TB_CPU, .why = TB_STATUS_trivial};
  struct tb_decision d = tb_batch_decide(batch, mode);
  if (places->none || places->state == NULL) d.where = TB_CPU;
  return d;
}

/* TILEBLAS_ROUTE=cpu leaves to copies what lies on a GPU. */
static void keep_from_gpu(const struct tb_batch *batch, struct tb_batch_places *places) {
  for (int64_t i = 0; i < batch->products; i++)
    if (places->state[i] != TB_BATCH_DONE) places->state[i] = TB_BATCH_ON_CPU;
}

/* Answers it, or leaves it to the CPU BLAS. */
static void run_batch_on_gpu(void *context) {
  struct batch_run *const run = context;
  struct tb_batch_places places;
  struct tb_outcome outcome;
  tb_batch_look(&places, run->batch);
  run->decision = decide_batch(run->batch, &places);
  const double started = run->decision.at > 0 ? run->decision.at : tb_clock_seconds();
  if (run->decision.where == TB_GPU && places.state != NULL) {
    if (run->decision.why == TB_STATUS_forced_cpu) keep_from_gpu(run->batch, &places);
    run->done = tb_level3_batch(run->batch, &places, tb_option_number(TB_OPTION_verbose), &outcome);
    if (run->done)
      count_batch_on_gpu(run, &outcome, tb_clock_seconds() - started);
    else
      run->decision = (struct tb_decision){.where = TB_CPU, .why = outcome.why};
  }
  free(places.state);
  if (!run->done) run->started = run->decision.cpu_seconds > 0 || is_observed() ? tb_clock_seconds() : 0;
}

static void answer_batch(struct batch_run *run) {
  struct tb_guest guest;
  tb_guest_enter(&guest);
  if (!decide_at_once(run)) {
    if (tb_stack_has_room() || tb_sandboxed() || !tb_stack_run(run_batch_on_gpu, run)) run_batch_on_gpu(run);
  }
  tb_guest_leave(&guest);
  if (run->done) return;
  tb_fallback_batch(run->batch);
  tb_guest_enter(&guest);
  count_batch_on_cpu(run);
  tb_guest_leave(&guest);
}

static void count_refused_batch(enum tb_symbol symbol) {
  const uint32_t control = tb_arithmetic_begin();
  tb_stats_add(symbol, TB_CPU, TB_STATUS_refused, 0, 0, 0);
  if (tb_option_number(TB_OPTION_verbose))
    tb_say("%s -> cpu (%s)", tb_symbols[symbol].name, tb_status_text(TB_STATUS_refused));
  tb_arithmetic_end(control);
}

void tb_run_batch(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *made) {
  struct tb_batch batch;
  struct batch_run run = {.batch = &batch};
  const int refused = tb_batch_from(&batch, symbol, made);
  const bool ours = !tb_in_fallback() || !tb_caller_is_cpu_blas(caller);
  if (ours) tb_thread.cpu_depth = 0; /* a handler may have left the CPU BLAS */
  if (refused != TB_BATCH_ACCEPTED) {
    if (ours) count_refused_batch(symbol);
    tb_fallback_refuse_batch(symbol, refused, made);
  } else if (ours) {
    answer_batch(&run);
  } else {
    tb_fallback_batch(&batch);
  }
}
