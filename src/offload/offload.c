/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "offload/offload.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cpu/fallback.h"
#include "process/guest.h"
#include "offload/beside.h"
#include "offload/hosted.h"
#include "cache/cache.h"
#include "offload/keeper.h"
#include "offload/reach.h"
#include "base/log.h"
#include "base/options.h"
#include "offload/team.h"
#include "select/order.h"
#include "cuda/wait.h"

enum tb_status tb_offload_status(void) {
  const enum tb_status status = tb_gpus_status();
  if (status != TB_STATUS_ok || tb_gpus_are_open() || tb_keeper_may_open()) return status;
  return TB_STATUS_not_started;
}

bool tb_offload_is_open(void) { return tb_gpus_are_open(); }
void tb_offload_rest(void) { tb_pool_rest(); }

void tb_offload_describe(char *text, size_t size) { tb_gpus_describe(text, size); }

void tb_offload_forget(uintptr_t start, uintptr_t end) {
  /* What is kept is proven anyway, and a callback must not wait for a call that waits for it. */
  if (tb_reach_is_in_callback() || !tb_gpus_are_open() || !tb_keeper_enter()) return;
  struct tb_device *d;
  for (int i = 0; (d = tb_gpus_open_one(i)) != NULL; i++) {
    if (d->hangs || tb_cache_bytes(tb_device_cache(d)) == 0) continue; /* to free would wait for what hangs */
    if (tb_device_enter(d) != CUDA_SUCCESS) continue;
    tb_cache_give_back_range(tb_device_cache(d), start, end);
    tb_device_leave();
  }
  tb_keeper_leave();
}

void tb_offload_after_fork(void) {
  tb_keeper_after_fork();
  tb_gpus_after_fork();
  tb_cache_after_fork();
}

/* ---- one call ---- */

/* A call in parts: one, or those of several GPUs; and behind them what a GPU could not finish of another's. */
struct offload_job {
  const struct tb_call *call;
  const struct tb_places *places;
  bool timed, measured;  /* measured: what it takes is to be that of any call */
  struct tb_part *parts; /* `one`, or allocated */
  int count, sharing;    /* the first of them are the call's; others follow as GPUs fail at finishing those */
  bool rescued;          /* a GPU finished some of what another could not */
  double rescued_bytes;  /* that it moved */
  struct tb_reach_failed failed;
  struct tb_part one;
};

/* Whether several GPUs should share it. */
static bool should_share(const struct offload_job *job, struct tb_device *first) {
  static double saved_seconds;
  const int64_t mode = tb_option_number(TB_OPTION_share);
  const struct tb_call *const call = job->call;
  const int gpus = tb_gpus_usable();
  if (mode == TB_SHARE_NEVER || gpus < 2) return false;
  if (tb_call_is_trivial(call) || tb_reach_uses_gpu(job->places) || tb_share_pieces(call) < 2) return false;
  if (mode == TB_SHARE_ALWAYS) return true;
  const struct tb_choice whole = tb_part_choose(first, call, tb_part_ways(call, job->places));
  const double seconds = tb_share_alone_seconds(call, tb_part_flops_per_s(first, &whole), tb_part_link());
  if (!(seconds / gpus >= tb_share_common_seconds(call, tb_part_link()))) return false;
  const double open_seconds = tb_gpus_must_open_more() ? tb_gpus_open_seconds() : 0;
  return tb_share_pays(seconds, gpus, open_seconds, &saved_seconds);
}

static bool run_shared(struct offload_job *job) {
  struct tb_gpus_team team;
  tb_gpus_assemble(&team);
  if (team.count < 2) {
    tb_gpus_first(false); /* is alone again, and copies by all threads */
    return false;
  }
  struct tb_part *parts = malloc((size_t)team.count * sizeof *parts);
  if (parts == NULL) return false;
  job->count = job->sharing = tb_team_compute(parts, &team, job->call, job->places, job->timed, !job->measured);
  job->parts = parts;
  return true;
}

static void run_alone(struct offload_job *job, struct tb_device *device) {
  struct tb_ways ways = tb_part_ways(job->call, job->places);
  const struct tb_choice whole = tb_part_choose(device, job->call, ways);
  if (job->measured) ways.kept = TB_NOT_TO_BE_KEPT;
  job->parts = &job->one;
  job->count = job->sharing = 1;
  tb_part_run(&job->one, device, job->call, ways, &whole, job->timed, NULL);
}

/* ---- when it goes wrong ---- */

static bool is_unfinished(const struct tb_part *part) { return part->why != TB_STATUS_ok; }

static void give_up(struct offload_job *job, const struct tb_part *part) {
  tb_reach_note(&job->failed, part->device);
  tb_reach_give_up(part->device, part->failure, part->why);
}

/* Room for one more part. */
static bool grow_parts(struct offload_job *job) {
  const size_t count = (size_t)job->count;
  struct tb_part *grown = realloc(job->parts == &job->one ? NULL : job->parts, (count + 1) * sizeof *grown);
  if (grown == NULL) return false;
  if (job->parts == &job->one) *grown = job->one;
  job->parts = grown;
  return true;
}

/* What is left of a part, by another GPU. Adds a part if that fails, too. */
static void rescue_rest(struct offload_job *job, const struct tb_part *failed, struct tb_device *d,
                        const struct tb_call *rest) {
  struct tb_ways ways = tb_part_ways(rest, job->places);
  /* A small part of a pinned operand would be read in place, but the other one's may be in ordinary memory. */
  if (rest->twice && ways.a != ways.b) ways.a = ways.b = TB_STAGED;
  const struct tb_choice whole = failed->call.recipe == TB_MULTIPLY ? failed->whole : tb_part_choose(d, rest, ways);
  struct tb_part *const part = &job->parts[job->count];
  tb_part_run(part, d, rest, ways, &whole, false, NULL);
  job->rescued = job->rescued || part->committed;
  if (is_unfinished(part)) {
    job->count++;
    give_up(job, part);
  } else {
    job->rescued_bytes += part->bytes;
  }
}

/* What GPUs could not finish, by those that are left. One that fails at that leaves a part of its own, and what is left
 * of it comes first: of a triangle the next rest wants it. */
static void rescue(struct offload_job *job) {
  for (int i = job->count - 1; i >= 0;) {
    struct tb_device *d;
    struct tb_call rest;
    if (!is_unfinished(&job->parts[i]) || job->parts[i].handed_out) {
      i--;
      continue;
    }
    if ((d = tb_reach_survivor(&job->failed)) == NULL || !grow_parts(job)) return;
    if (tb_part_take_rest(&job->parts[i], &job->parts[i].call, &rest)) {
      rescue_rest(job, &job->parts[i], d, &rest);
      i = job->count - 1;
    }
  }
}

/* Everything that is not committed, computed by the CPU from operands that it reaches. Nothing may be under way on the
 * GPU. Without the lock: others need not wait, and a CPU BLAS with threads of its own may come back through our symbols
 * in one of them. False: there was nothing to do. */
static bool finish_on_cpu(struct tb_part *part, const struct tb_call *call) {
  struct tb_call missing;
  bool any = false;
  while (tb_part_take_rest(part, call, &missing)) {
    struct tb_guest *paused;
    tb_guest_pause_floats(&paused);
    tb_fallback_compute(&missing);
    tb_guest_resume_floats(paused);
    any = true;
  }
  return any;
}

static void finish_job(struct offload_job *job, struct tb_outcome *outcome) {
  if (!tb_reach_uses_gpu(job->places)) {
    for (int i = job->count - 1; i >= 0; i--) /* as rescue has them */
      if (finish_on_cpu(&job->parts[i], &job->parts[i].call)) outcome->by_cpu = true;
    return;
  }
  outcome->lost = tb_parts_are_lost(job->parts, job->count);
  if (outcome->lost) return;
  struct tb_hosted hosted;
  outcome->lost = !tb_hosted_begin(&hosted, job->call, job->places, true);
  if (outcome->lost) return;
  outcome->by_cpu = finish_on_cpu(job->parts, &hosted.call);
  outcome->lost = !tb_hosted_end(&hosted);
}

static double longer(double a, double b) { return a > b ? a : b; }

static void describe_outcome(const struct offload_job *job, struct tb_outcome *outcome) {
  size_t length = 0;
  outcome->why = TB_STATUS_ok;
  outcome->kernel = job->parts[0].kernel;
  for (int i = 0; i < job->sharing; i++)
    for (int of_b = 0; of_b < 2; of_b++) { /* what all have */
      const enum tb_proof proof = tb_keep_proof(&job->parts[i].keep, of_b);
      if (i == 0 || proof < outcome->proof[of_b]) outcome->proof[of_b] = proof;
    }
  outcome->committed = job->rescued;
  outcome->bytes = job->rescued_bytes;
  for (int i = 0; i < job->count; i++) {
    const struct tb_part *part = &job->parts[i];
    if (is_unfinished(part) && !outcome->failed) outcome->why = part->why;
    outcome->failed = outcome->failed || is_unfinished(part);
    outcome->committed = outcome->committed || part->committed;
    outcome->bytes += part->bytes;
    outcome->saved_bytes += part->keep.saved_bytes;
    outcome->up_ms = longer(outcome->up_ms, part->up_ms);
    outcome->compute_ms = longer(outcome->compute_ms, part->compute_ms);
    outcome->down_ms = longer(outcome->down_ms, part->down_ms);
    if (i < job->sharing) tb_team_name(outcome->gpus, sizeof outcome->gpus, &length, part->device);
  }
  outcome->gpu_count = job->sharing;
}

/* Of a triangle that no GPU has room for: then nothing was done. */
static bool is_too_large(const struct offload_job *job) {
  for (int i = 0; i < job->count; i++)
    if (!job->parts[i].triangular.too_large) return false;
  return true;
}

/* With the lock held. False: no GPU can take it, for the reason in the outcome. */
static bool run_job(struct offload_job *job, struct tb_outcome *outcome) {
  struct tb_device *device = tb_reach_find(job->places, tb_part_is_large(job->call), &outcome->why);
  if (device == NULL) return false;
  const double begun = tb_clock_seconds();
  if (!(should_share(job, device) && run_shared(job))) run_alone(job, device);
  outcome->too_large = is_too_large(job);
  if (outcome->too_large) {
    outcome->why = TB_STATUS_no_memory;
    return false;
  }
  for (int i = 0; i < job->sharing; i++)
    if (is_unfinished(&job->parts[i])) give_up(job, &job->parts[i]);
  if (!tb_reach_uses_gpu(job->places)) rescue(job);
  describe_outcome(job, outcome);
  for (int number = 0; (device = tb_gpus_open_one(number)) != NULL; number++) tb_part_tidy(device);
  tb_keeper_touch();
  outcome->seconds = tb_clock_seconds() - begun;
  return true;
}

/* ---- beside other calls ---- */

/* In a lane. False: nothing was done, and the call wants the GPUs to itself. */
static bool run_in_lane(struct offload_job *job, struct tb_device *d, struct tb_outcome *outcome) {
  const struct tb_part *const part = &job->one;
  const double begun = tb_clock_seconds();
  run_alone(job, d);
  if (part->crowded) return false;
  if (is_unfinished(part)) give_up(job, part);
  describe_outcome(job, outcome);
  tb_keeper_touch();
  outcome->seconds = tb_clock_seconds() - begun;
  if (part->why != TB_STATUS_interrupted) tb_part_tidy(d);
  return true;
}

/* What it left undone, by a GPU that is left. */
static void rescue_from_lane(struct offload_job *job, struct tb_outcome *outcome) {
  if (outcome->why == TB_STATUS_interrupted || !tb_gpus_are_open() || !tb_keeper_enter()) return;
  rescue(job);
  tb_keeper_leave();
  outcome->failed = false; /* said anew */
  describe_outcome(job, outcome);
}

/* ---- jobs ---- */

static _Atomic(struct offload_job *) spare_job; /* the latest call's: of 9 KB, for which a stack may be too small */

/* Calls of other threads may be under way when the process ends. */
__attribute__((destructor)) static void free_spare_job(void) { free(atomic_exchange(&spare_job, NULL)); }

static void put_job(struct offload_job *job) {
  if (job->parts != &job->one) free(job->parts);
  free(atomic_exchange(&spare_job, job));
}

struct offload_what {
  const struct tb_call *call;
  const struct tb_places *places;
  bool timed, measured;
};

/* Inside, so that no call has one that leaves while it waits. Of one that leaves by a jump later it is lost, for nobody
 * can tell that from one that comes back. NULL: there is no memory. */
static struct offload_job *begin_job(const struct offload_what *what) {
  struct offload_job *job = atomic_exchange(&spare_job, NULL);
  if (job == NULL) job = malloc(sizeof *job);
  if (job == NULL) return NULL;
  job->call = what->call, job->places = what->places, job->timed = what->timed, job->measured = what->measured;
  job->parts = &job->one, job->count = job->sharing = 0;
  job->rescued = false, job->rescued_bytes = 0;
  job->failed.count = 0;
  return job;
}

/* ---- all of it ---- */

enum way_in { IN_LANE, TO_BE_ALONE, NOT_IN };

/* In a lane, *job is the caller's to finish and to put back. */
static enum way_in run_beside(const struct offload_what *what, struct tb_outcome *outcome, struct offload_job **job) {
  const int room = tb_beside_room(what->call, what->places);
  if (room == TB_ENTRY_ALONE) return TO_BE_ALONE;
  const int lane = tb_keeper_enter_lane(room);
  if (lane < 0) return NOT_IN;
  struct tb_device *const d = tb_beside_find(lane);
  *job = d != NULL ? begin_job(what) : NULL;
  const bool done = *job != NULL && run_in_lane(*job, d, outcome);
  tb_keeper_leave_lane(lane);
  if (done) return IN_LANE;
  if (*job != NULL) put_job(*job);
  *job = NULL;
  return TO_BE_ALONE;
}

static bool run_with_gate(const struct offload_what *what, struct tb_outcome *outcome, struct offload_job **job) {
  if (!tb_keeper_enter()) return false;
  *job = begin_job(what);
  if (*job == NULL) outcome->why = TB_STATUS_no_memory;
  const bool taken = *job != NULL && run_job(*job, outcome);
  tb_keeper_leave();
  return taken;
}

static bool offload(const struct offload_what *what, struct tb_outcome *outcome) {
  *outcome = (struct tb_outcome){.why = TB_STATUS_callback};
  if (tb_reach_is_in_callback()) return false;
  tb_cuda_load(); /* which waits for the loader: not with the gate ours */
  outcome->why = TB_STATUS_busy;
  struct offload_job *job = NULL;
  const enum way_in way = what->measured ? TO_BE_ALONE : run_beside(what, outcome, &job);
  const bool taken = way == IN_LANE || (way == TO_BE_ALONE && run_with_gate(what, outcome, &job));
  if (way == IN_LANE && outcome->failed) rescue_from_lane(job, outcome);
  if (outcome->failed) finish_job(job, outcome);
  if (job != NULL) put_job(job);
  return taken;
}

bool tb_offload_call(const struct tb_call *call, const struct tb_places *places, bool timed,
                     struct tb_outcome *outcome) {
  return offload(&(struct offload_what){call, places, timed, false}, outcome);
}

bool tb_offload_is_one_sum(const struct tb_call *call, const struct tb_places *places) {
  if (!tb_call_is_one_sum(call) || tb_call_is_trivial(call)) return false;
  const struct tb_ways ways = tb_part_ways(call, places);
  return ways.a == ways.b;
}

bool tb_offload_call_alone(const struct tb_call *call, struct tb_outcome *outcome) {
  return offload(&(struct offload_what){call, NULL, false, true}, outcome);
}

/* ---- for the calibration ---- */

/* Kept figures are for kernels and staging as they were: to be raised when calls take another time than before. */
#define SPEED_VERSION 10

/* Not CUDA's ordinal, which the environment changes, but the place on the bus: the link is part of what is measured. */
static void identify(const struct tb_device *d, struct tb_gpu_identity *identity) {
  char driver[64];
  tb_device_driver_text(driver, sizeof driver);
  snprintf(identity->text, sizeof identity->text, "%s, %d SMs, PCI %04x:%02x:%02x, driver %s for CUDA %d.%d, speed %d",
           d->name, d->sm_count, (unsigned)tb_device_attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
           (unsigned)tb_device_attribute(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
           (unsigned)tb_device_attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID), driver, d->driver_version / 1000,
           d->driver_version % 1000 / 10, SPEED_VERSION);
  for (int type = 0; type < TB_TYPE_COUNT; type++)
    identity->peak_flops_per_s[type] = tb_device_peak_flops_per_s(d, (enum tb_type)type);
  identity->open_seconds = tb_gpus_open_seconds();
}

bool tb_offload_may_open_later(void) {
  const enum tb_status status = tb_gpus_status();
  return status == TB_STATUS_not_now || status == TB_STATUS_ok;
}

bool tb_offload_open(struct tb_gpu_identity *identity) {
  if (tb_reach_is_in_callback()) return false;
  enum tb_status why;
  tb_cuda_load();
  if (!tb_keeper_enter()) return false;
  const struct tb_device *device = tb_reach_find(NULL, true, &why);
  if (device != NULL) identify(device, identity);
  tb_keeper_leave();
  return device != NULL;
}

void tb_offload_set_link(double up_bytes_per_s) { tb_part_set_link(up_bytes_per_s); }
