/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/lanes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "select/triangle.h"

/* Who has a lock of these is in the driver, which may be waiting for the loader, which may be waiting for us: a thread
 * in a library's constructor. Nor need a driver that hangs ever come back. So nobody waits for long. */
#define LOCK_SECONDS 2

static bool lock_in_time(pthread_mutex_t *lock) {
  struct timespec until;
  if (pthread_mutex_trylock(lock) == 0) return true;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += LOCK_SECONDS;
  return pthread_mutex_timedlock(lock, &until) == 0;
}

void tb_lanes_begin(struct tb_lanes *l, struct tb_device *gpu) {
  pthread_mutex_init(&l->loading, NULL);
  pthread_mutex_init(&l->memory, NULL);
  l->of[0] = gpu;
  l->refused = false;
  atomic_store(&l->further, 0);
  gpu->lanes = l;
  gpu->all_lanes = l->of;
}

/* ---- kernels ---- */

/* Functions and figures; the modules stay lane 0's. With the lock of who loads. */
static void share_kernels(struct tb_device *d) {
  if (d != d->lanes->of[0]) d->kernels = d->lanes->of[0]->kernels;
}

static CUresult load_into(struct tb_kernels *kernels, enum tb_type type, bool triangle) {
  TB_TRY(tb_kernels_ready(kernels, type));
  return triangle ? tb_triangle_load(&kernels->triangle) : CUDA_SUCCESS;
}

CUresult tb_lanes_load(struct tb_device *d, enum tb_type type, bool triangle) {
  struct tb_lanes *const l = d->lanes;
  if (!d->beside_others) return load_into(&d->kernels, type, triangle);
  if (!lock_in_time(&l->loading)) return TB_CROWDED;
  const CUresult loaded = load_into(&l->of[0]->kernels, type, triangle);
  share_kernels(d);
  pthread_mutex_unlock(&l->loading);
  return loaded;
}

/* ---- opening and closing ---- */

/* What is chosen for a call shall not depend on its lane, so a new one has the figures at once. With the memory's lock
 * held. A failure that is not for want of memory shows to who has the GPU alone. */
static CUresult open_lane(struct tb_lanes *l, int lane) {
  if (l->spare[lane] == NULL) l->spare[lane] = malloc(sizeof *l->spare[lane]);
  struct tb_device *const d = l->spare[lane];
  if (d == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(d, 0, sizeof *d);
  d->lane = lane;
  d->lanes = l;
  d->all_lanes = l->of;
  if (!lock_in_time(&l->loading)) return CUDA_ERROR_NOT_READY;
  share_kernels(d);
  pthread_mutex_unlock(&l->loading);
  TB_TRY(tb_device_enter(l->of[0]));
  const CUresult opened = tb_device_open_lane(d, l->of[0]);
  if (opened != CUDA_SUCCESS) tb_device_close_lane(d);
  tb_device_leave();
  if (opened != CUDA_SUCCESS) return opened;
  l->of[lane] = d;
  atomic_fetch_add(&l->further, 1);
  return CUDA_SUCCESS;
}

struct tb_device *tb_lanes_device(struct tb_lanes *l, int lane) {
  int left = lane + 1;
  atomic_compare_exchange_strong(&l->turn.lane, &left, 0); /* by a call that lost the lane at a window */
  if (lane > 0 && !lock_in_time(&l->memory)) return NULL;
  if (l->of[lane] == NULL && !l->refused && open_lane(l, lane) != CUDA_SUCCESS) {
    tb_cuda_failed_call = NULL;
    l->refused = true;
  }
  struct tb_device *const d = l->of[lane];
  if (lane > 0) pthread_mutex_unlock(&l->memory);
  if (d != NULL) d->beside_others = true;
  return d;
}

bool tb_lanes_hold_memory(struct tb_lanes *l) { return lock_in_time(&l->memory); }

void tb_lanes_release_memory(struct tb_lanes *l) { pthread_mutex_unlock(&l->memory); }

bool tb_lanes_are_open(const struct tb_lanes *l) { return atomic_load(&l->further) > 0; }

void tb_lanes_be_alone(struct tb_lanes *l) { l->of[0]->beside_others = false; }

bool tb_lanes_close(struct tb_lanes *l) {
  bool closed = true;
  const bool entered = tb_lanes_are_open(l) && tb_device_enter(l->of[0]) == CUDA_SUCCESS;
  for (int lane = 1; lane < TB_LANES; lane++) {
    if (l->of[lane] == NULL) continue;
    tb_device_close_lane(l->of[lane]);
    if (!l->of[lane]->hangs) tb_cache_end_call(tb_device_cache(l->of[0]), lane);
    closed = closed && !l->of[lane]->hangs;
    l->of[lane] = NULL;
  }
  if (entered) tb_device_leave();
  l->refused = false;
  atomic_store(&l->further, 0);
  atomic_store(&l->turn.lane, 0);
  return closed;
}

void tb_lanes_give_back(struct tb_lanes *l) {
  tb_lanes_close(l);
  if (!tb_device_has_memory(l->of[0]) || tb_device_enter(l->of[0]) != CUDA_SUCCESS) return;
  tb_device_give_back(l->of[0]);
  tb_device_leave();
}

void tb_lanes_settle(struct tb_lanes *l, int lane) {
  if (l->of[lane] == NULL || tb_device_enter(l->of[lane]) != CUDA_SUCCESS) return;
  tb_device_settle(l->of[lane]);
  if (!l->of[lane]->hangs) tb_cache_end_call(tb_device_cache(l->of[lane]), lane);
  tb_device_leave();
}

void tb_lanes_end(struct tb_lanes *l) {
  for (int lane = 1; lane < TB_LANES; lane++) {
    free(l->spare[lane]);
    l->spare[lane] = NULL;
  }
}

/* ---- turns ---- */

/* With nothing done for so long, a turn is anybody's. */
#define TURN_PATIENCE_SECONDS 0.1

bool tb_upward_is_ours(struct tb_device *d, struct tb_upward_wait *w) {
  if (!w->wanted || w->had) return true;
  struct tb_upward *const turn = &d->lanes->turn;
  int holder = 0;
  if (!atomic_compare_exchange_strong(&turn->lane, &holder, d->lane + 1)) {
    const unsigned alive = atomic_load_explicit(&turn->alive, memory_order_relaxed);
    const double now = tb_clock_seconds();
    if (w->since == 0 || alive != w->alive) w->alive = alive, w->since = now;
    if (now - w->since < TURN_PATIENCE_SECONDS) return false;
    if (!atomic_compare_exchange_strong(&turn->lane, &holder, d->lane + 1)) return false;
  }
  w->had = true;
  return true;
}

void tb_upward_used(struct tb_device *d, const struct tb_upward_wait *w) {
  if (w->wanted) atomic_fetch_add_explicit(&d->lanes->turn.alive, 1, memory_order_relaxed);
}

void tb_upward_end(struct tb_device *d, struct tb_upward_wait *w) {
  int ours = d->lane + 1;
  if (w->wanted && w->had) atomic_compare_exchange_strong(&d->lanes->turn.lane, &ours, 0);
  w->wanted = false;
}
