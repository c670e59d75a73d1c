/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/router.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "route/calibrate.h"
#include "route/calibration_file.h"
#include "base/clock.h"
#include "route/cpu_side.h"
#include "process/guest.h"
#include "route/kept.h"
#include "route/learn.h"
#include "base/log.h"
#include "offload/offload.h"
#include "route/small.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; held for some hundred nanoseconds */
static struct tb_model model;
static bool have_model;
static double
    saved_seconds; /* what a GPU would have saved by calls that were sent to the CPU for the price of opening */

/* The thread that brings the stage forward alone uses what follows. */
static atomic_int stage;
enum { NOTHING_KNOWN, LOOKING_FOR_KEPT, NOT_MEASURED, MEASURING, SETTLED };
static struct tb_cpu_side cpu_side;
static struct tb_calibration fitted; /* that the model rests on; all zero: on assumptions */
static struct tb_calibration found;  /* three kilobytes, for which a thread's stack is too small */

void tb_router_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  int unfinished = LOOKING_FOR_KEPT;
  atomic_compare_exchange_strong(&stage, &unfinished, NOTHING_KNOWN);
  unfinished = MEASURING;
  atomic_compare_exchange_strong(&stage, &unfinished, NOT_MEASURED);
}

static bool advance(int from, int to) { return atomic_compare_exchange_strong(&stage, &from, to); }

/* ---- the model ---- */

/* With the lock held. */
static void publish_small(void) {
  atomic_store_explicit(&tb_route_small_terms, (long long)(tb_model_small_flops(&model) / 2), memory_order_relaxed);
  tb_small_update();
}

/* Opening a GPU will then have a price on top. */
static void assume(int cores, bool measuring) {
  pthread_mutex_lock(&lock);
  if (!have_model) tb_model_assume(&model, cores);
  have_model = true;
  if (measuring) model.rates.open_seconds += TB_CALIBRATION_SECONDS;
  publish_small();
  pthread_mutex_unlock(&lock);
}

static void fit(const struct tb_calibration *calibration) {
  if (memcmp(calibration, &fitted, sizeof fitted) == 0) return; /* what was learned since stays */
  fitted = *calibration;
  pthread_mutex_lock(&lock);
  tb_model_fit(&model, calibration, cpu_side.cores);
  have_model = true;
  publish_small();
  pthread_mutex_unlock(&lock);
}

/* ---- where its figures come from ---- */

static bool read_kept(const char *gpu, struct tb_calibration *calibration) {
  char folder[TB_CALIBRATION_PATH_MAX];
  const struct tb_machine_key key = {cpu_side.processor, cpu_side.blas, gpu};
  if (tb_option_number(TB_OPTION_calibration) != TB_CALIBRATION_KEEP) return false;
  return tb_calibration_folder(folder) && tb_kept_read(folder, &key, calibration);
}

/* Before a GPU is open, one can only guess that it will be the one that was used the last time. */
static void look_for_kept(enum tb_symbol symbol) {
  if (!advance(NOTHING_KNOWN, LOOKING_FOR_KEPT)) return;
  const int saved_errno = errno; /* BLAS calls do not change errno */
  tb_cpu_side_look(&cpu_side, symbol);
  if (read_kept(NULL, &found))
    fit(&found);
  else
    assume(cpu_side.cores, tb_option_number(TB_OPTION_calibration) != TB_CALIBRATION_OFF);
  errno = saved_errno;
  atomic_store(&stage, NOT_MEASURED);
}

static void keep(const char *gpu, const struct tb_calibration *calibration, double seconds) {
  char folder[TB_CALIBRATION_PATH_MAX], path[TB_CALIBRATION_PATH_MAX];
  const struct tb_machine_key key = {cpu_side.processor, cpu_side.blas, gpu};
  const bool kept = tb_calibration_folder(folder) && tb_kept_write(folder, &key, calibration, path);
  if (tb_option_number(TB_OPTION_verbose))
    tb_say("both sides measured in %.3f ms, %s%.500s", seconds * 1e3, kept ? "kept in " : "not kept", kept ? path : "");
}

/* As if it were no call of the program's: its calls on either side have our floating point, and no signal ends them. */
static bool measure(const struct tb_gpu_identity *gpu, enum tb_symbol symbol) {
  struct tb_guest *const guest = tb_thread.guest;
  tb_thread.guest = NULL;
  const bool measured = tb_calibrate(&found, gpu, symbol);
  tb_thread.guest = guest;
  return measured;
}

/* False: no GPU could be opened, but one may be later. */
static bool measure_or_read(enum tb_symbol symbol) {
  struct tb_gpu_identity gpu;
  if (!tb_offload_open(&gpu)) return !tb_offload_may_open_later();
  tb_cpu_side_look(&cpu_side, symbol); /* the BLAS may have other threads by now */
  if (read_kept(gpu.text, &found)) {
    fit(&found);
    return true;
  }
  const double begun = tb_clock_seconds();
  if (!measure(&gpu, symbol)) return true;
  found.cpu_threads = tb_cpu_side_threads();
  fit(&found);
  keep(gpu.text, &found, tb_clock_seconds() - begun);
  return true;
}

/* Sees to it that the figures are those of the GPU at hand. False: they were before, or another thread is at it. */
static bool settle(enum tb_symbol symbol) {
  if (atomic_load_explicit(&stage, memory_order_relaxed) != NOT_MEASURED || !advance(NOT_MEASURED, MEASURING))
    return false;
  bool settled = true;
  if (tb_option_number(TB_OPTION_calibration) != TB_CALIBRATION_OFF) {
    const int saved_errno = errno;
    settled = measure_or_read(symbol);
    errno = saved_errno;
  }
  atomic_store(&stage, settled ? SETTLED : NOT_MEASURED);
  return true;
}

/* ---- calls that follow ---- */

/* To weigh a call and to learn from it takes half a microsecond. Of a row of short ones of one shape that are clearly
 * the CPU's, so many therefore follow each one that is weighed. */
#define FOLLOWERS 7
#define SHORT_SECONDS 100e-6

static bool is_followed(const struct tb_followed *f, const struct tb_gemm *call) {
  return f->m == call->m && f->n == call->n && f->k == call->k && f->transpose_a == call->a.transposed &&
         f->transpose_b == call->b.transposed;
}

/* One that is weighed: whether others may follow it, and how many have followed the one before. */
static void lead(const struct tb_gemm *call, struct tb_decision *decision) {
  struct tb_followed *f = &tb_thread.followed;
  if (is_followed(f, call)) decision->followers = f->followers;
  *f = (struct tb_followed){.m = call->m, .n = call->n, .k = call->k};
  f->transpose_a = call->a.transposed, f->transpose_b = call->b.transposed;
  f->may_follow = decision->clear && decision->cpu_seconds < SHORT_SECONDS ? FOLLOWERS : 0;
}

/* ---- decisions ---- */

static struct tb_decision weigh(const struct tb_gemm *call, const struct tb_places *places, struct tb_machine machine) {
  const int threads = tb_cpu_side_threads();
  machine.gpu = tb_offload_status();
  machine.gpu_open = tb_offload_is_open();
  machine.model = &model;
  machine.now = tb_clock_seconds();
  pthread_mutex_lock(&lock);
  if (!have_model) tb_model_assume(&model, tb_cpu_side_cores());
  have_model = true;
  if (threads > 0 && tb_model_set_threads(&model, threads)) publish_small();
  machine.saved_seconds = saved_seconds;
  struct tb_decision decision = tb_route(call, places, &machine);
  pthread_mutex_unlock(&lock);
  decision.at = machine.now;
  return decision;
}

bool tb_router_follows(const struct tb_gemm *call, enum tb_route_mode mode, struct tb_decision *decision) {
  struct tb_followed *const followed = &tb_thread.followed;
  if (mode != TB_ROUTE_AUTO || tb_offload_status() != TB_STATUS_ok) return false;
  if (followed->followers >= followed->may_follow || !is_followed(followed, call)) return false;
  followed->followers++;
  *decision = (struct tb_decision){.where = TB_CPU, .why = TB_STATUS_cpu_sooner, .follows = true};
  return true;
}

struct tb_decision tb_router_decide(const struct tb_gemm *call, const struct tb_places *places,
                                    enum tb_route_mode mode) {
  struct tb_machine machine = {.mode = mode, .gpu = tb_offload_status()};
  if (mode != TB_ROUTE_AUTO || machine.gpu != TB_STATUS_ok) return tb_route(call, places, &machine);
  look_for_kept(call->symbol);
  struct tb_decision decision = weigh(call, places, machine);
  if (decision.where == TB_GPU && settle(call->symbol)) decision = weigh(call, places, machine);
  if (places == NULL) lead(call, &decision);
  return decision;
}

void tb_router_learn(const struct tb_gemm *call, const struct tb_places *places, const struct tb_decision *d,
                     enum tb_where where, double seconds, double now) {
  if (!(d->cpu_seconds > 0 && d->gpu_seconds > 0)) return;
  const struct tb_observation observation = {.where = where,
                                             .seconds = seconds,
                                             .probe = d->why == TB_STATUS_tried,
                                             .followers = d->followers,
                                             .best_predicted_seconds =
                                                 d->cpu_seconds < d->gpu_seconds ? d->cpu_seconds : d->gpu_seconds};
  pthread_mutex_lock(&lock);
  tb_model_observe(&model, call, places, &observation, now);
  if (d->why == TB_STATUS_not_yet) saved_seconds += seconds - d->gpu_seconds;
  pthread_mutex_unlock(&lock);
}
