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
#include "route/queue.h"
#include "route/small.h"

static pthread_mutex_t router_lock = PTHREAD_MUTEX_INITIALIZER; /* guards models; held for some hundred nanoseconds */

/* What a GPU would have saved by calls that were sent to the CPU for the price of opening. */
static double saved_seconds;

static struct tb_queue queue; /* with the lock, too */

/* What is known of products of one element type. */
struct knowledge {
  struct tb_model model;
  bool have_model;
  double unweighed_seconds; /* that the CPU took for calls which assumptions alone gave to it */
  /* The thread that brings the stage forward alone uses what follows. */
  atomic_int stage;
  struct tb_cpu_side cpu_side;
  struct tb_calibration fitted; /* that the model rests on; all zero: on assumptions */
  struct tb_calibration found;  /* three kilobytes, for which a thread's stack is too small */
};
enum { NOTHING_KNOWN, LOOKING_FOR_KEPT, NOT_MEASURED, MEASURING, SETTLED };

static struct knowledge of_type[TB_TYPE_COUNT];

static bool advance(struct knowledge *of, int from, int to) {
  return atomic_compare_exchange_strong(&of->stage, &from, to);
}

void tb_router_after_fork(void) {
  pthread_mutex_init(&router_lock, NULL);
  tb_staying_after_fork();
  queue = (struct tb_queue){0}; /* they are the parent's */
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    advance(&of_type[type], LOOKING_FOR_KEPT, NOTHING_KNOWN);
    advance(&of_type[type], MEASURING, NOT_MEASURED);
  }
}

static enum tb_type type_of(const struct knowledge *of) { return (enum tb_type)(of - of_type); }

/* ---- the model ---- */

/* With the lock held. */
static void publish_small(const struct knowledge *of) {
  const enum tb_type type = type_of(of);
  const double terms = tb_model_small_flops(&of->model) / tb_type_flops(type);
  atomic_store_explicit(&tb_route_small_terms[type], (long long)terms, memory_order_relaxed);
  tb_small_update();
}

/* With the lock held. */
static void assume_if_unknown(struct knowledge *of, int cores) {
  if (!of->have_model) tb_model_assume(&of->model, type_of(of), cores);
  of->have_model = true;
}

/* Opening a GPU will then have a price on top. */
static void assume(struct knowledge *of, bool measuring) {
  pthread_mutex_lock(&router_lock);
  assume_if_unknown(of, of->cpu_side.cores);
  if (measuring) of->model.rates.open_seconds += TB_CALIBRATION_SECONDS;
  publish_small(of);
  pthread_mutex_unlock(&router_lock);
}

static void fit(struct knowledge *of) {
  if (memcmp(&of->found, &of->fitted, sizeof of->fitted) == 0) return; /* what was learned since stays */
  of->fitted = of->found;
  tb_offload_set_link(of->found.link_up_bytes_per_s);
  pthread_mutex_lock(&router_lock);
  tb_model_fit(&of->model, type_of(of), &of->found, of->cpu_side.cores);
  of->have_model = true;
  publish_small(of);
  pthread_mutex_unlock(&router_lock);
}

/* ---- where its figures come from ---- */

static struct tb_machine_key key_of(const struct knowledge *of, const char *gpu) {
  return (struct tb_machine_key){of->cpu_side.processor, of->cpu_side.blas, gpu, type_of(of)};
}

static bool read_kept(struct knowledge *of, const char *gpu) {
  char folder[TB_CALIBRATION_PATH_MAX];
  const struct tb_machine_key key = key_of(of, gpu);
  if (tb_option_number(TB_OPTION_calibration) != TB_CALIBRATION_KEEP) return false;
  return tb_calibration_folder(folder) && tb_kept_read(folder, &key, &of->found);
}

/* Before a GPU is open, one can only guess that it will be the one that was used the last time. */
static void look_for_kept(struct knowledge *of, enum tb_symbol symbol) {
  if (!advance(of, NOTHING_KNOWN, LOOKING_FOR_KEPT)) return;
  const int saved_errno = errno; /* BLAS calls do not change errno */
  tb_cpu_side_look(&of->cpu_side, symbol);
  if (read_kept(of, NULL))
    fit(of);
  else
    assume(of, tb_option_number(TB_OPTION_calibration) != TB_CALIBRATION_OFF);
  errno = saved_errno;
  atomic_store(&of->stage, NOT_MEASURED);
}

static void keep(const struct knowledge *of, const char *gpu, double seconds) {
  char folder[TB_CALIBRATION_PATH_MAX], path[TB_CALIBRATION_PATH_MAX];
  const struct tb_machine_key key = key_of(of, gpu);
  const bool kept = tb_calibration_folder(folder) && tb_kept_write(folder, &key, &of->found, path);
  if (tb_option_number(TB_OPTION_verbose))
    tb_say("both sides measured in %.3f ms, %s%.500s", seconds * 1e3, kept ? "kept in " : "not kept", kept ? path : "");
}

/* As if it were no call of the program's: its calls on either side have our floating point, and no signal ends them. */
static bool measure(struct knowledge *of, const struct tb_gpu_identity *gpu, enum tb_symbol symbol) {
  struct tb_guest *const guest = tb_thread.guest;
  tb_thread.guest = NULL;
  const bool measured = tb_calibrate(&of->found, gpu, symbol);
  tb_thread.guest = guest;
  return measured;
}

/* False: no GPU could be opened, but one may be later. */
static bool measure_or_read(struct knowledge *of, enum tb_symbol symbol) {
  struct tb_gpu_identity gpu;
  if (!tb_offload_open(&gpu)) return !tb_offload_may_open_later();
  tb_cpu_side_look(&of->cpu_side, symbol); /* the BLAS may have other threads by now */
  if (read_kept(of, gpu.text)) {
    fit(of);
    return true;
  }
  const double begun = tb_clock_seconds();
  if (!measure(of, &gpu, symbol)) return true;
  of->found.cpu_threads = tb_cpu_side_threads();
  fit(of);
  keep(of, gpu.text, tb_clock_seconds() - begun);
  return true;
}

/* Sees to it that the figures are those of the GPU at hand. False: they were before, or another thread is at it. */
static bool settle(struct knowledge *of, enum tb_symbol symbol) {
  if (atomic_load_explicit(&of->stage, memory_order_relaxed) != NOT_MEASURED || !advance(of, NOT_MEASURED, MEASURING))
    return false;
  bool settled = true;
  if (tb_option_number(TB_OPTION_calibration) != TB_CALIBRATION_OFF) {
    const int saved_errno = errno;
    settled = measure_or_read(of, symbol);
    errno = saved_errno;
  }
  atomic_store(&of->stage, settled ? SETTLED : NOT_MEASURED);
  return true;
}

/*
 * Assumptions are cautious of the GPU, whose double precision may have a thirtieth of its fp32's rate, or a half. So
 * what the CPU takes for calls that they give to it is rent, too: when it comes to so many times the price of a look,
 * both sides are measured. Shorter calls do not count, which no GPU can do much sooner.
 */
#define LOOK_TIMES 2
#define LOOK_CALL_SECONDS 300e-6

/* With the lock held. */
static bool is_unweighed(const struct knowledge *of, const struct tb_decision *decision) {
  return decision->why == TB_STATUS_cpu_sooner && of->model.assumed;
}

static bool is_worth_a_look(struct knowledge *of, const struct tb_decision *decision) {
  if (decision->why != TB_STATUS_cpu_sooner) return false;
  if (atomic_load_explicit(&of->stage, memory_order_relaxed) != NOT_MEASURED)
    return false; /* there is nothing to see */
  pthread_mutex_lock(&router_lock);
  const bool is = is_unweighed(of, decision) && decision->cpu_seconds >= LOOK_CALL_SECONDS &&
                  of->unweighed_seconds >= LOOK_TIMES * of->model.rates.open_seconds;
  pthread_mutex_unlock(&router_lock);
  return is;
}

/* ---- calls that follow ---- */

/* To weigh a call and to learn from it takes half a microsecond. Of a row of short ones of one shape that are clearly
 * the CPU's, so many therefore follow each one that is weighed. */
#define FOLLOWERS 7
#define SHORT_SECONDS 100e-6

static bool is_followed(const struct tb_followed *f, const struct tb_call *call) {
  return f->m == call->m && f->n == call->n && f->k == call->k && f->type == (int)call->type &&
         f->form == tb_call_form(call) && f->transpose_a == call->a.transposed && f->transpose_b == call->b.transposed;
}

/* One that is weighed: whether others may follow it, and how many have followed the one before. */
static void lead(const struct tb_call *call, struct tb_decision *decision) {
  struct tb_followed *f = &tb_thread.followed;
  if (is_followed(f, call)) decision->followers = f->followers;
  *f = (struct tb_followed){.m = call->m, .n = call->n, .k = call->k, .type = (int)call->type};
  f->transpose_a = call->a.transposed, f->transpose_b = call->b.transposed, f->form = tb_call_form(call);
  f->may_follow = decision->clear && decision->cpu_seconds < SHORT_SECONDS ? FOLLOWERS : 0;
}

/* ---- decisions ---- */

/* With the lock held. Who opens the GPU keeps the others waiting for that, too. */
static void join(struct tb_decision *d, const struct tb_machine *machine) {
  const double open_seconds = machine->gpu_open ? 0 : machine->model->rates.open_seconds;
  d->found_seconds = tb_queue_seconds(&queue, machine->now);
  d->place = tb_queue_join(&queue, d->gpu_seconds - d->wait_seconds + open_seconds, machine->now);
  d->joined = queue.joined;
}

void tb_router_leave(struct tb_decision *decision) {
  if (decision->place == 0) return;
  pthread_mutex_lock(&router_lock);
  tb_queue_leave(&queue, decision->place);
  pthread_mutex_unlock(&router_lock);
  decision->place = 0;
}

static struct tb_decision weigh_with_model(const struct tb_call *call, const struct tb_places *places,
                                           struct tb_machine machine) {
  struct knowledge *const of = &of_type[call->type];
  const int threads = tb_cpu_side_threads();
  machine.gpu = tb_offload_status();
  machine.gpu_open = tb_offload_is_open();
  machine.model = &of->model;
  machine.now = tb_clock_seconds();
  pthread_mutex_lock(&router_lock);
  if (!of->have_model) assume_if_unknown(of, tb_cpu_side_cores());
  if (threads > 0 && tb_model_set_threads(&of->model, threads)) publish_small(of);
  machine.saved_seconds = saved_seconds;
  const double expected = places == NULL ? tb_queue_expected(call) : 1;
  machine.wait_seconds = tb_queue_wait_seconds(&queue, expected, machine.now);
  struct tb_decision decision = tb_route(call, places, &machine);
  if (decision.where == TB_GPU) join(&decision, &machine);
  pthread_mutex_unlock(&router_lock);
  decision.at = machine.now;
  decision.expected = expected;
  return decision;
}

/* ---- operands that may stay on the GPU ---- */

/* To look at an operand takes some microseconds. Longer than SHORT_SECONDS, so that no call follows one which may stay.
 */
#define STAY_CALL_SECONDS 200e-6

static struct tb_places places_with(enum tb_stay which) {
  struct tb_places places = {0};
  (which == TB_A_STAYS ? &places.a : &places.b)->place = TB_DEVICE;
  return places;
}

/* What it takes when that operand need not go up. */
static void predict_kept(struct knowledge *of, const struct tb_call *call, enum tb_stay which, double now,
                         struct tb_staying_times *times) {
  const struct tb_places places = places_with(which);
  const struct tb_cell cell = tb_model_cell(call);
  pthread_mutex_lock(&router_lock);
  times->kept_seconds = tb_model_class_seconds(&of->model, TB_GPU, call, &cell, &places, now);
  if (!tb_offload_is_open()) times->open_seconds = of->model.rates.open_seconds;
  pthread_mutex_unlock(&router_lock);
}

static void join_to_stay(struct knowledge *of, struct tb_decision *decision) {
  const struct tb_machine machine = {.gpu_open = tb_offload_is_open(), .model = &of->model, .now = decision->at};
  pthread_mutex_lock(&router_lock);
  join(decision, &machine);
  pthread_mutex_unlock(&router_lock);
}

/* A call that is the CPU's because it is sooner: whether it had not better go to the GPU for an operand that stays. */
static void weigh_stay(struct knowledge *of, const struct tb_call *call, struct tb_decision *decision) {
  if (decision->why != TB_STATUS_cpu_sooner || decision->cpu_seconds < STAY_CALL_SECONDS) return;
  if (decision->wait_seconds > 0 || tb_option_number(TB_OPTION_cache) == 0) return;
  const enum tb_stay which = tb_staying_operand(call);
  if (which == TB_NONE_STAYS) return;
  struct tb_staying_times times = {.cpu_seconds = decision->cpu_seconds, .gpu_seconds = decision->gpu_seconds};
  predict_kept(of, call, which, decision->at, &times);
  if (!tb_staying_decide(call, which, &times)) return;
  decision->where = TB_GPU;
  decision->why = TB_STATUS_stays;
  decision->gpu_seconds = times.kept_seconds;
  decision->stays = which;
  decision->clear = false;
  join_to_stay(of, decision);
}

bool tb_router_follows(const struct tb_call *call, enum tb_route_mode mode, struct tb_decision *decision) {
  struct tb_followed *const followed = &tb_thread.followed;
  if (mode != TB_ROUTE_AUTO || tb_offload_status() != TB_STATUS_ok) return false;
  if (followed->followers >= followed->may_follow || !is_followed(followed, call)) return false;
  followed->followers++;
  *decision = (struct tb_decision){.where = TB_CPU, .why = TB_STATUS_cpu_sooner, .follows = true};
  return true;
}

static struct tb_decision weigh_all(struct knowledge *of, const struct tb_call *call, const struct tb_places *places,
                                    struct tb_machine machine) {
  struct tb_decision decision = weigh_with_model(call, places, machine);
  if (places == NULL) weigh_stay(of, call, &decision);
  return decision;
}

struct tb_decision tb_router_decide(const struct tb_call *call, const struct tb_places *places,
                                    enum tb_route_mode mode) {
  struct tb_machine machine = {.mode = mode, .gpu = tb_offload_status()};
  if (mode != TB_ROUTE_AUTO || machine.gpu != TB_STATUS_ok) return tb_route(call, places, &machine);
  struct knowledge *const of = &of_type[call->type];
  look_for_kept(of, tb_gemm_of(call->symbol));
  struct tb_decision decision = weigh_all(of, call, places, machine);
  if ((decision.where == TB_GPU || is_worth_a_look(of, &decision)) && settle(of, tb_gemm_of(call->symbol))) {
    tb_router_leave(&decision);
    decision = weigh_all(of, call, places, machine);
  }
  if (places == NULL) lead(call, &decision);
  return decision;
}

void tb_router_learn(const struct tb_call *call, const struct tb_places *places, const struct tb_decision *d,
                     enum tb_where where, double seconds, double now) {
  if (!(d->cpu_seconds > 0 && d->gpu_seconds > 0)) return;
  struct tb_observation observation = {.where = where,
                                       .seconds = seconds,
                                       .probe = d->why == TB_STATUS_tried,
                                       .followers = d->followers,
                                       .crowded = d->wait_seconds > 0,
                                       .best_predicted_seconds =
                                           d->cpu_seconds < d->gpu_seconds ? d->cpu_seconds : d->gpu_seconds};
  struct knowledge *const of = &of_type[call->type];
  pthread_mutex_lock(&router_lock);
  if (d->joined != 0 && d->joined != queue.joined) observation.crowded = true; /* others came while it was there */
  if (is_unweighed(of, d) && seconds >= LOOK_CALL_SECONDS) of->unweighed_seconds += seconds;
  tb_model_observe(&of->model, call, places, &observation, now);
  if (where == TB_GPU)
    tb_queue_learn(&queue, d->expected, d->found_seconds, seconds - (d->gpu_seconds - d->wait_seconds), now);
  if (d->why == TB_STATUS_not_yet) saved_seconds += seconds - d->gpu_seconds;
  pthread_mutex_unlock(&router_lock);
}

struct tb_rates tb_router_rates(enum tb_type type, enum tb_symbol symbol) {
  struct knowledge *const of = &of_type[type];
  look_for_kept(of, symbol);
  pthread_mutex_lock(&router_lock);
  assume_if_unknown(of, tb_cpu_side_cores());
  const struct tb_rates rates = of->model.rates;
  pthread_mutex_unlock(&router_lock);
  return rates;
}
