/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "offload/gpus.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "offload/copying.h"
#include "offload/peers.h"
#include "process/environment.h"
#include "base/log.h"
#include "base/options.h"
#include "cuda/place.h"
#include "process/retry.h"

/* One that may be used. */
struct gpu {
  _Atomic enum { UNTRIED, OPEN, UNUSABLE, LOST, GIVEN_UP } state; /* LOST: given up, and not closed yet */
  int ordinal;
  struct tb_retry retry;   /* while it could not be opened */
  struct tb_device device; /* when open or lost; and its lanes */
  struct tb_lanes lanes;
  struct tb_pace pace;
  struct tb_pool *copying; /* that it uses in a team */
  char text[200];          /* what the report says of it; empty: nothing */
  struct tb_peers peers;   /* by their place here */
};

static struct gpu gpus[TB_GPUS_MAX]; /* most preferred first */
static int gpu_count;
static bool listed; /* the two are filled in */
static struct tb_retry listing;
static struct tb_local_rank local_rank = {-1, NULL};

static struct tb_pool *copying; /* of one that computes alone, for all its lanes */
static struct tb_pool *drivers;
static double open_seconds;                                   /* that opening the first took */
static pthread_mutex_t giving_up = PTHREAD_MUTEX_INITIALIZER; /* guards states and texts among calls in lanes */

static char gpus_text[TB_LOG_TEXT_MAX] = "not needed so far";
static atomic_int status = TB_STATUS_ok; /* why no GPU can answer; this one: it can, or nobody has tried */
static _Atomic double again_at;          /* while status is TB_STATUS_not_now: before then nothing is tried */
static atomic_bool is_open, any_lost;    /* lost: to be closed by the next one who is alone */
static atomic_bool touched;              /* the driver was called in this process: a child of it cannot use a GPU */

enum tb_status tb_gpus_status(void) {
  const enum tb_status now = (enum tb_status)atomic_load_explicit(&status, memory_order_relaxed);
  if (now == TB_STATUS_not_now && tb_clock_seconds() >= atomic_load(&again_at)) return TB_STATUS_ok;
  return now;
}

bool tb_gpus_are_open(void) { return atomic_load_explicit(&is_open, memory_order_relaxed); }

void tb_gpus_describe(char *text, size_t size) { snprintf(text, size, "%s", gpus_text); }

double tb_gpus_open_seconds(void) { return open_seconds; }

static int count_in_state(int state) {
  int count = 0;
  for (int i = 0; i < gpu_count; i++) count += (int)gpus[i].state == state;
  return count;
}

int tb_gpus_usable(void) { return count_in_state(OPEN) + count_in_state(UNTRIED); }

static bool is_due(const struct gpu *g) {
  return g->state == UNTRIED && tb_retry_is_due(&g->retry, tb_clock_seconds());
}

bool tb_gpus_must_open_more(void) {
  for (int i = 0; i < gpu_count; i++)
    if (is_due(&gpus[i])) return true;
  return false;
}

/* After anything has changed: what others see without the lock. `why` if no GPU is left. */
static void publish_gpus(enum tb_status why) {
  char text[TB_LOG_TEXT_MAX] = "";
  size_t length = 0;
  for (int i = 0; i < gpu_count; i++) {
    if (gpus[i].text[0] == '\0') continue;
    int added = snprintf(text + length, sizeof text - length, "%s%s", length > 0 ? "; " : "", gpus[i].text);
    if (added > 0) length = length + (size_t)added < sizeof text ? length + (size_t)added : sizeof text - 1;
  }
  if (length > 0) snprintf(gpus_text, sizeof gpus_text, "%s", text);
  atomic_store(&is_open, count_in_state(OPEN) > 0);
  if (tb_gpus_usable() == 0) atomic_store(&status, why);
}

/* ---- what may fare better another time ---- */

/* After a try that failed with TB_STATUS_not_now: whether there is to be another. Says so when there is none. */
static bool try_later(struct tb_retry *retry, const char *detail) {
  if (tb_retry_later(retry, tb_clock_seconds())) return true;
  tb_warn("%s; tried %d times, and given up", detail, TB_RETRY_TRIES);
  return false;
}

/* Until then all calls are the CPU's. */
static void pause_until(double when, const char *detail) {
  snprintf(gpus_text, sizeof gpus_text, "%s: %s", tb_status_text(TB_STATUS_not_now), detail);
  atomic_store(&again_at, when);
  atomic_store(&status, TB_STATUS_not_now);
}

/* When none is open, and one could not be opened that may be another time. */
static void pause_if_none(const char *detail) {
  double first = 0;
  if (count_in_state(OPEN) > 0) return;
  for (int i = 0; i < gpu_count; i++)
    if (gpus[i].state == UNTRIED && (first == 0 || gpus[i].retry.again_at < first)) first = gpus[i].retry.again_at;
  if (first > 0) pause_until(first, detail);
}

/* ---- opening ---- */

static void describe_open(struct gpu *g) {
  const int length = tb_device_describe(&g->device, g->text, sizeof g->text);
  if (local_rank.rank >= 0 && length > 0 && (size_t)length < sizeof g->text)
    snprintf(g->text + length, sizeof g->text - (size_t)length, ", taken as local rank %d (%s)", local_rank.rank,
             local_rank.variable);
}

/* Of any thread: touches nothing but the GPU. One that cannot be opened now stays untried. */
static enum tb_status open_gpu(struct gpu *g, bool is_for_large, char *detail, size_t detail_size) {
  tb_cuda_failed_call = NULL;
  enum tb_status opened = tb_device_open(&g->device, g->ordinal, is_for_large, detail, detail_size);
  if (opened == TB_STATUS_not_now && try_later(&g->retry, detail)) return opened;
  if (opened == TB_STATUS_not_now) opened = TB_STATUS_no_device;
  g->state = opened == TB_STATUS_ok ? OPEN : UNUSABLE;
  if (g->state != OPEN) return opened;
  tb_lanes_begin(&g->lanes, &g->device);
  g->pace = (struct tb_pace){.flops_per_s = tb_device_peak_flops_per_s(&g->device, TB_S)};
  describe_open(g);
  return opened;
}

/* Fills in the GPUs that may be used. */
static enum tb_status list(char *detail, size_t detail_size) {
  int count, ordinals[TB_GPUS_MAX];
  atomic_store(&touched, true);
  tb_cuda_failed_call = NULL;
  enum tb_status counted = tb_device_count(&count, detail, detail_size);
  if (counted != TB_STATUS_ok) return counted;
  char allowed[TB_OPTION_TEXT_MAX];
  tb_option_text(TB_OPTION_devices, allowed);
  if (allowed[0] == '\0') local_rank = tb_local_rank(tb_environment);
  gpu_count = tb_allowed(allowed, count, local_rank.rank, ordinals);
  for (int i = 0; i < gpu_count; i++) gpus[i] = (struct gpu){.state = UNTRIED, .ordinal = ordinals[i]};
  if (gpu_count > 0) return TB_STATUS_ok;
  snprintf(detail, detail_size, "TILEBLAS_DEVICES=%.100s names none of the %d GPUs", allowed, count);
  return TB_STATUS_no_device;
}

static bool has_list(void) {
  char detail[160] = "";
  if (listed) return true;
  enum tb_status why = list(detail, sizeof detail);
  if (why == TB_STATUS_not_now && try_later(&listing, detail)) {
    pause_until(listing.again_at, detail);
    return false;
  }
  if (why == TB_STATUS_not_now) why = TB_STATUS_no_device;
  listed = true;
  if (why == TB_STATUS_ok) return true;
  snprintf(gpus_text, sizeof gpus_text, "%s: %s", tb_status_text(why), detail);
  atomic_store(&status, why);
  return false;
}

/* Opens one for use alone. */
static struct tb_device *open_alone(struct gpu *g, bool is_for_large) {
  char detail[160] = "";
  const enum tb_status why = open_gpu(g, is_for_large, detail, sizeof detail);
  publish_gpus(why);
  if (why == TB_STATUS_ok) {
    atomic_store(&status, TB_STATUS_ok); /* it may have been another before */
    return &g->device;
  }
  if (!tb_gpus_are_open()) snprintf(gpus_text, sizeof gpus_text, "%s: %s", tb_status_text(why), detail);
  pause_if_none(detail);
  return NULL;
}

static struct tb_device *alone(struct tb_device *d) {
  if (copying == NULL) copying = tb_copying_open(1);
  d->pool = copying;
  d->in_team = false;
  tb_lanes_be_alone(d->lanes);
  return d;
}

struct tb_device *tb_gpus_lane(int lane) {
  for (int i = 0; i < gpu_count; i++) {
    if (gpus[i].state != OPEN) continue;
    struct tb_device *const d = tb_lanes_device(&gpus[i].lanes, lane);
    if (d != NULL) d->pool = copying;
    return d;
  }
  return NULL;
}

struct tb_device *tb_gpus_open_one(int number) {
  for (int i = 0; i < gpu_count; i++)
    if (gpus[i].state == OPEN && number-- == 0) return alone(&gpus[i].device);
  return NULL;
}

struct tb_device *tb_gpus_first(bool is_for_large) {
  struct tb_device *d = tb_gpus_open_one(0);
  if (d != NULL) return d;
  if (tb_gpus_status() != TB_STATUS_ok) return NULL;
  const double begun = tb_clock_seconds();
  if (!has_list()) return NULL;
  for (int i = 0; i < gpu_count && d == NULL; i++)
    if (is_due(&gpus[i])) d = open_alone(&gpus[i], is_for_large);
  if (d == NULL) return NULL;
  alone(d);
  open_seconds = tb_clock_seconds() - begun;
  return d;
}

struct tb_device *tb_gpus_numbered(int ordinal) {
  if (tb_gpus_status() != TB_STATUS_ok || !has_list()) return NULL;
  for (int i = 0; i < gpu_count; i++) {
    if (gpus[i].ordinal != ordinal) continue;
    if (is_due(&gpus[i])) open_alone(&gpus[i], false);
    return gpus[i].state == OPEN ? alone(&gpus[i].device) : NULL;
  }
  return NULL;
}

/* ---- several at once ---- */

struct tb_pool *tb_gpus_drivers(void) {
  return drivers;
}

static void open_untried(void *unused, int index) {
  char detail[160];
  (void)unused;
  if (is_due(&gpus[index])) open_gpu(&gpus[index], true, detail, sizeof detail);
}

static void connect_all(void) {
  for (int i = 0; i < gpu_count; i++)
    for (int j = 0; j < gpu_count; j++)
      if (i != j && gpus[i].state == OPEN && gpus[j].state == OPEN)
        tb_peers_connect(&gpus[i].peers, &gpus[i].device, j, &gpus[j].device);
  tb_cuda_failed_call = NULL; /* who cannot be reached gets along without */
}

static void open_rest(void) {
  if (drivers == NULL) drivers = tb_pool_open(gpu_count, false);
  tb_pool_run(drivers, open_untried, NULL, gpu_count);
  publish_gpus(TB_STATUS_no_device);
  connect_all();
  const int sharing = count_in_state(OPEN);
  for (int i = 0; i < gpu_count; i++)
    if (gpus[i].state == OPEN && gpus[i].copying == NULL) gpus[i].copying = tb_copying_open(sharing);
}

void tb_gpus_assemble(struct tb_gpus_team *team) {
  if (tb_gpus_must_open_more()) open_rest();
  *team = (struct tb_gpus_team){.connected = true};
  int place[TB_GPUS_MAX];
  for (int i = 0; i < gpu_count && team->count < tb_pool_threads(drivers); i++) {
    if (gpus[i].state != OPEN) continue;
    for (int j = 0; j < team->count; j++)
      if (!gpus[i].peers.reaches[place[j]] || !gpus[place[j]].peers.reaches[i]) team->connected = false;
    gpus[i].device.pool = gpus[i].copying;
    gpus[i].device.in_team = true;
    tb_lanes_be_alone(&gpus[i].lanes);
    team->device[team->count] = &gpus[i].device;
    team->pace[team->count] = &gpus[i].pace;
    place[team->count++] = i;
  }
}

void tb_gpus_give_back(void) {
  for (int i = 0; i < gpu_count; i++)
    if (gpus[i].state == OPEN) tb_lanes_give_back(&gpus[i].lanes);
}

/* ---- closing ---- */

static void close_gpu(struct gpu *g) {
  const int place = (int)(g - gpus);
  for (int i = 0; i < gpu_count && !g->device.hangs; i++) {
    tb_peers_disconnect(&gpus[i].peers, &gpus[i].device, place, &g->device);
    tb_peers_disconnect(&g->peers, &g->device, i, &gpus[i].device);
  }
  if (!tb_lanes_close(&g->lanes)) g->device.hangs = true;
  tb_device_close(&g->device);
  tb_pool_close(g->copying);
  g->copying = NULL;
  g->state = GIVEN_UP;
}

static void close_pools(void) {
  tb_pool_close(copying);
  tb_pool_close(drivers);
  copying = drivers = NULL;
}

static void close_open(int next) {
  atomic_store(&is_open, false);
  for (int i = 0; i < gpu_count; i++) {
    if (gpus[i].state != OPEN) continue;
    close_gpu(&gpus[i]);
    gpus[i].state = next;
    gpus[i].retry = (struct tb_retry){0};
  }
  close_pools();
}

void tb_gpus_close_for_now(void) { close_open(UNTRIED); }

bool tb_gpus_have_lost(void) { return atomic_load_explicit(&any_lost, memory_order_relaxed); }

void tb_gpus_close_lost(void) {
  if (!tb_gpus_have_lost()) return;
  for (int i = 0; i < gpu_count; i++)
    if (gpus[i].state == LOST) close_gpu(&gpus[i]);
  atomic_store(&any_lost, false);
  if (!tb_gpus_are_open()) close_pools();
}

void tb_gpus_close(enum tb_status why) {
  atomic_store(&status, why);
  close_open(GIVEN_UP);
}

void tb_gpus_end(void) {
  for (int i = 0; i < gpu_count; i++) tb_lanes_end(&gpus[i].lanes);
}

/* In a lane it is left to who is alone to close the GPU: others use it. */
static void give_up_gpu(struct gpu *g, const struct tb_device *d, const char *failure) {
  snprintf(g->text, sizeof g->text, "GPU %d, %.60s, given up after %.100s", d->ordinal, d->name, failure);
  if (d->beside_others) {
    g->state = LOST;
    atomic_store(&any_lost, true);
  } else {
    close_gpu(g);
  }
}

bool tb_gpus_give_up(struct tb_device *d, const char *failure) {
  bool was_open = false;
  pthread_mutex_lock(&giving_up);
  for (int i = 0; i < gpu_count; i++) {
    if (d->lanes != &gpus[i].lanes || gpus[i].state != OPEN) continue;
    give_up_gpu(&gpus[i], d, failure);
    was_open = true;
  }
  publish_gpus(TB_STATUS_gpu_lost);
  if (d->hangs && tb_gpus_usable() == 0) tb_places_avoid_driver();
  if (!tb_gpus_are_open() && !tb_gpus_have_lost()) close_pools();
  pthread_mutex_unlock(&giving_up);
  return was_open;
}

void tb_gpus_settle(int lane) {
  for (int i = 0; i < gpu_count; i++)
    if (gpus[i].state == OPEN) tb_lanes_settle(&gpus[i].lanes, lane);
}

bool tb_gpus_abandon(void) {
  const bool any = tb_gpus_are_open();
  pthread_mutex_lock(&giving_up);
  atomic_store(&any_lost, false);
  for (int i = 0; i < gpu_count; i++) {
    if (gpus[i].state != OPEN && gpus[i].state != LOST) continue;
    gpus[i].state = GIVEN_UP;
    snprintf(gpus[i].text, sizeof gpus[i].text, "GPU %d, %.60s, given up after a thread left a call in its midst",
             gpus[i].ordinal, gpus[i].device.name);
  }
  atomic_store(&status, TB_STATUS_gpu_lost);
  publish_gpus(TB_STATUS_gpu_lost);
  pthread_mutex_unlock(&giving_up);
  return any;
}

/* Without this, the child would use handles that mean nothing in its process. */
void tb_gpus_after_fork(void) {
  tb_cuda_after_fork();
  if (!atomic_load(&touched)) return;
  tb_places_after_fork();
  pthread_mutex_init(&giving_up, NULL);
  atomic_store(&is_open, false);
  atomic_store(&any_lost, false);
  atomic_store(&status, TB_STATUS_forked);
  for (int i = 0; i < gpu_count; i++) gpus[i].state = UNUSABLE;
  snprintf(gpus_text, sizeof gpus_text, "%s", tb_status_text(TB_STATUS_forked));
}
