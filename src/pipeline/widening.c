/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "pipeline/widening.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "process/background.h"
#include "process/sandbox.h"

/* Rings that wait at once. Another one's call orders again. */
#define ORDERS_MOST 32

#define SETTLE_SECONDS 2.0
#define SETTLE_LOOK_SECONDS 1e-3

/* Slots are had a piece's at a time. */
#define PART_SLOTS TB_PIECE_SLOTS
#define PARTS_MOST (TB_SLOTS / PART_SLOTS)
#define PART_BYTES ((size_t)(PART_SLOTS * TB_SLOT_BYTES))

struct order {
  enum { NO_ORDER, ORDERED, BEING_PINNED, PINNED, REFUSED } state;
  struct tb_ring *ring; /* NULL: it was closed while they were being pinned */
  CUdevice gpu;
  CUcontext context; /* with a reference of the order's, until they are pinned */
  int parts;
  void *memory[PARTS_MOST];
};

static pthread_mutex_t orders_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; no driver is called with it */
static struct order orders[ORDERS_MOST];
static struct tb_idle *pinner; /* NULL: not started */
static bool starts_pinner, pins;

static struct order *order_in_state(int state) {
  for (int i = 0; i < ORDERS_MOST; i++)
    if ((int)orders[i].state == state) return &orders[i];
  return NULL;
}

static struct order *order_for(const struct tb_ring *ring) {
  for (int i = 0; i < ORDERS_MOST; i++)
    if (orders[i].state != NO_ORDER && orders[i].ring == ring) return &orders[i];
  return NULL;
}

static void release_context(CUdevice gpu) { tb_cuda.cuDevicePrimaryCtxRelease(gpu); }

/* ---- in a thread of ours ---- */

static struct order *next_to_pin(void) {
  pthread_mutex_lock(&orders_lock);
  struct order *const o = order_in_state(ORDERED);
  if (o != NULL) o->state = BEING_PINNED;
  pins = o != NULL;
  pthread_mutex_unlock(&orders_lock);
  return o;
}

static bool still_wanted(const struct order *o) {
  pthread_mutex_lock(&orders_lock);
  const bool wanted = o->ring != NULL;
  pthread_mutex_unlock(&orders_lock);
  return wanted;
}

/* False: nobody wants them any more. */
static bool deliver_slots(struct order *o, bool pinned) {
  pthread_mutex_lock(&orders_lock);
  const bool wanted = o->ring != NULL;
  o->state = !wanted ? NO_ORDER : pinned ? PINNED : REFUSED;
  pthread_mutex_unlock(&orders_lock);
  return wanted;
}

/* The child of a fork has no such pages: a page that both had would be copied for who writes it, and the GPU's would be
 * the other one's. */
static void *pin_part(void) {
  void *const memory = mmap(NULL, PART_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  bool pinned = madvise(memory, PART_BYTES, MADV_DONTFORK) == 0;
  if (pinned) memset(memory, 0, PART_BYTES);
  pinned = pinned && tb_cuda.cuMemHostRegister(memory, PART_BYTES, 0) == CUDA_SUCCESS;
  if (!pinned) munmap(memory, PART_BYTES);
  return pinned ? memory : NULL;
}

/* What a driver that fails still takes for registered stays mapped: the program's next memory there would be taken for
 * pinned, and copied from pages that are no longer its own. */
void tb_widening_give_back(void *memory) {
  if (tb_cuda.cuMemHostUnregister(memory) == CUDA_SUCCESS) munmap(memory, PART_BYTES);
}

static void give_back_parts(void *const memory[], int parts) {
  for (int i = 0; i < parts; i++) tb_widening_give_back(memory[i]);
}

/* How many came. */
static int pin_parts(const struct order *o, void *memory[]) {
  for (int i = 0; i < o->parts; i++) {
    memory[i] = still_wanted(o) ? pin_part() : NULL;
    if (memory[i] == NULL) return i;
  }
  return o->parts;
}

static void pin(struct order *o) {
  const CUdevice gpu = o->gpu;
  const int parts = o->parts;
  void *memory[PARTS_MOST];
  const bool entered = tb_cuda_enter(o->context) == CUDA_SUCCESS;
  const int pinned = entered ? pin_parts(o, memory) : 0;
  for (int i = 0; i < pinned; i++) o->memory[i] = memory[i];
  if (!deliver_slots(o, pinned == parts) || pinned < parts) give_back_parts(memory, pinned);
  if (entered) tb_cuda_leave();
  release_context(gpu);
}

static void pin_all(void) {
  for (struct order *o; (o = next_to_pin()) != NULL;) pin(o);
}

/* ---- in calls ---- */

void tb_widening_earn(struct tb_ring *ring, int slots) {
  if (slots > ring->earned_slots) ring->earned_slots = slots;
}

static void earn_anew(struct tb_ring *ring) {
  ring->earned_slots = ring->slots;
  ring->credit_bytes = -TB_WIDENING_PATIENCE_BYTES;
}

/* False: there is no room. */
static bool place_order(struct tb_ring *ring, CUdevice gpu, CUcontext context) {
  pthread_mutex_lock(&orders_lock);
  struct order *const o = order_in_state(NO_ORDER);
  if (o != NULL)
    *o = (struct order){.state = ORDERED,
                        .ring = ring,
                        .gpu = gpu,
                        .context = context,
                        .parts = (ring->earned_slots - ring->slots) / PART_SLOTS};
  pthread_mutex_unlock(&orders_lock);
  return o != NULL;
}

/* No thread is to be had. */
static bool refuse_one(void) {
  pthread_mutex_lock(&orders_lock);
  struct order *const o = order_in_state(ORDERED);
  const CUdevice gpu = o != NULL ? o->gpu : 0;
  if (o != NULL) o->state = REFUSED;
  pthread_mutex_unlock(&orders_lock);
  if (o != NULL) release_context(gpu);
  return o != NULL;
}

static struct tb_idle *start_pinner(void) {
  struct tb_idle *const started = tb_idle_open(0, pin_all);
  pthread_mutex_lock(&orders_lock);
  pinner = started;
  starts_pinner = false;
  pthread_mutex_unlock(&orders_lock);
  while (started == NULL && refuse_one()) continue;
  return started;
}

/* A thread is started without the lock: the loader may be waited for. */
static void wake_pinner(void) {
  pthread_mutex_lock(&orders_lock);
  struct tb_idle *const there = pinner;
  const bool starts = there == NULL && !starts_pinner; /* else who starts it wakes it, too */
  starts_pinner = starts_pinner || starts;
  pthread_mutex_unlock(&orders_lock);
  tb_idle_touch(starts ? start_pinner() : there);
}

void tb_widening_order(struct tb_ring *ring, CUdevice gpu, CUcontext context) {
  CUcontext retained;
  if (ring->earned_slots <= ring->slots || ring->ordered || tb_sandboxed()) return;
  if (tb_cuda.cuDevicePrimaryCtxRetain(&retained, gpu) != CUDA_SUCCESS) return earn_anew(ring);
  ring->ordered = place_order(ring, gpu, context);
  if (ring->ordered)
    wake_pinner();
  else
    release_context(gpu);
}

static void add_parts(struct tb_ring *ring, const struct order *come) {
  for (int i = 0; i < come->parts; i++) {
    ring->registered |= 1u << ring->slots;
    tb_ring_add(ring, come->memory[i], PART_SLOTS);
  }
}

void tb_widening_take(struct tb_ring *ring) {
  if (!ring->ordered) return;
  pthread_mutex_lock(&orders_lock);
  struct order *const o = order_for(ring);
  const bool waits = o != NULL && (o->state == ORDERED || o->state == BEING_PINNED);
  const struct order come = o != NULL ? *o : (struct order){.state = REFUSED};
  if (o != NULL && !waits) o->state = NO_ORDER;
  pthread_mutex_unlock(&orders_lock);
  if (waits) return;
  ring->ordered = false;
  if (come.state == PINNED)
    add_parts(ring, &come);
  else
    earn_anew(ring);
}

/* ---- closing ---- */

void tb_widening_cancel(struct tb_ring *ring) {
  if (!ring->ordered) return;
  pthread_mutex_lock(&orders_lock);
  struct order *const o = order_for(ring);
  const struct order was = o != NULL ? *o : (struct order){.state = NO_ORDER};
  if (was.state == BEING_PINNED)
    o->ring = NULL;
  else if (o != NULL)
    o->state = NO_ORDER;
  pthread_mutex_unlock(&orders_lock);
  ring->ordered = false;
  if (was.state == ORDERED) release_context(was.gpu);
  if (was.state == PINNED) give_back_parts(was.memory, was.parts);
}

bool tb_widening_has_begun(void) {
  pthread_mutex_lock(&orders_lock);
  const bool begun = pinner != NULL || starts_pinner;
  pthread_mutex_unlock(&orders_lock);
  return begun;
}

static bool is_settled(void) {
  pthread_mutex_lock(&orders_lock);
  const bool settled = !pins && order_in_state(ORDERED) == NULL;
  pthread_mutex_unlock(&orders_lock);
  return settled;
}

bool tb_widening_settle(void) {
  const struct timespec look = {.tv_nsec = (long)(SETTLE_LOOK_SECONDS * 1e9)};
  for (int i = 0; i < (int)(SETTLE_SECONDS / SETTLE_LOOK_SECONDS) && !is_settled(); i++) nanosleep(&look, NULL);
  return is_settled();
}

void tb_widening_end(void) {
  if (!tb_widening_settle()) return;
  tb_idle_close(pinner);
  pinner = NULL;
}

void tb_widening_after_fork(void) {
  pthread_mutex_init(&orders_lock, NULL);
  for (int i = 0; i < ORDERS_MOST; i++) orders[i].state = NO_ORDER;
  pinner = NULL;
  starts_pinner = pins = false;
}
