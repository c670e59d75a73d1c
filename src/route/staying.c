/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/staying.h"

#include <pthread.h>
#include <stddef.h>

#include "cache/hash.h"
#include "cache/ranges.h"
#include "plan/plan.h"

/* The first call shows the operand to the GPU, the second makes a copy, the third or a later one has all bytes looked
 * at; each takes about as long as the operand's way up. */
#define TRIES 4
#define TRIES_MOST (TRIES + 2)
/* A call must be so much sooner with a copy. */
#define CLEARLY_SOONER 0.8
/* A copy that served fewer calls was not worth it. */
#define STAY_USES_ENOUGH 8
#define STAY_FAILURES_MOST 20

enum stay_state { WATCHED, TRIED, STAYS };

struct operand {
  struct tb_stored stored;
  struct tb_digest sample;
  enum stay_state state;
  double saved_seconds; /* that calls would have gained, since it is watched */
  int tries, uses, failures;
  int64_t m, n, k;     /* the sizes of the latest call that had a copy, */
  double kept_seconds; /* and what it took; 0: none yet */
  uint64_t used;
};

#define OPERANDS 64
static struct operand seen_operands[OPERANDS];
static uint64_t calls;
static pthread_mutex_t operands_lock = PTHREAD_MUTEX_INITIALIZER; /* guards both; held for less than a microsecond */

void tb_staying_after_fork(void) {
  pthread_mutex_init(&operands_lock, NULL);
  tb_hash_after_fork();
  tb_ranges_after_fork();
}

static struct tb_stored stored_operand(const struct tb_call *call, enum tb_stay which) {
  return which == TB_A_STAYS ? tb_stored_of(&call->a, call->m, call->k) : tb_stored_of(&call->b, call->k, call->n);
}

/* What fits into a slot goes up at once, and is not kept. */
enum tb_stay tb_staying_operand(const struct tb_call *call) {
  const enum tb_stay which = call->m >= call->n ? TB_A_STAYS : TB_B_STAYS;
  const struct tb_view *const x = which == TB_A_STAYS ? &call->a : &call->b;
  if (call->recipe != TB_MULTIPLY || x->structure != TB_GENERAL) return TB_NONE_STAYS;
  const struct tb_stored stored = stored_operand(call, which);
  return tb_stored_bytes(&stored) > TB_SLOT_BYTES ? which : TB_NONE_STAYS;
}

/* With the lock held. */
static struct operand *find(const struct tb_stored *stored) {
  for (int i = 0; i < OPERANDS; i++)
    if (seen_operands[i].used > 0 && tb_stored_is(&seen_operands[i].stored, stored)) return &seen_operands[i];
  return NULL;
}

/* In the place of the one that was not used for longest. With the lock held. */
static struct operand *find_or_make(const struct tb_stored *stored) {
  struct operand *o = find(stored), *oldest = seen_operands;
  if (o != NULL) return o;
  for (int i = 1; i < OPERANDS; i++)
    if (seen_operands[i].used < oldest->used) oldest = &seen_operands[i];
  *oldest = (struct operand){.stored = *stored};
  return oldest;
}

/* Its copy, if there was one, is none any more. */
static void watch_again(struct operand *o) {
  if (o->state != WATCHED && o->uses < STAY_USES_ENOUGH && o->failures < STAY_FAILURES_MOST) o->failures++;
  if (o->uses >= STAY_USES_ENOUGH) o->failures = 0;
  o->state = WATCHED;
  o->saved_seconds = 0;
  o->tries = o->uses = 0;
}

static bool is_of(const struct operand *o, const struct tb_call *call) {
  return o->m == call->m && o->n == call->n && o->k == call->k;
}

static bool pays(const struct tb_staying_times *t) { return t->kept_seconds < CLEARLY_SOONER * t->cpu_seconds; }

/* Of an operand without a copy: whether what was saved is enough for one. The program's choice needs no savings, but
 * for what was found not to stay. */
static bool is_worth_it(struct operand *o, const struct tb_staying_times *t) {
  const bool free = o->failures == 0 && tb_ranges_have(&o->stored);
  const double price = free ? 0 : TRIES * t->gpu_seconds + t->open_seconds;
  o->saved_seconds += t->cpu_seconds - t->kept_seconds;
  if (o->saved_seconds < price * (double)(1 << o->failures)) return false;
  o->state = TRIED;
  return true;
}

/* What a copy was found to be worth is believed less with each call that it sends to the CPU: it may have been an
 * accident. */
#define DOUBT 0.005

/* With the lock held. */
static bool decide_of(struct operand *o, const struct tb_call *call, struct tb_staying_times *t) {
  const double predicted = t->kept_seconds;
  if (o->kept_seconds > 0 && is_of(o, call)) t->kept_seconds = o->kept_seconds;
  if (pays(t)) return o->state != WATCHED || is_worth_it(o, t);
  o->kept_seconds += DOUBT * (predicted - o->kept_seconds);
  return false;
}

bool tb_staying_decide(const struct tb_call *call, enum tb_stay which, struct tb_staying_times *times) {
  const struct tb_stored stored = stored_operand(call, which);
  if (!pays(times) || !tb_hash_begin()) return false;
  const struct tb_digest sample = tb_hash_sample(&stored, TB_SAMPLE_LINES);
  pthread_mutex_lock(&operands_lock);
  struct operand *const o = find_or_make(&stored);
  if (o->used > 0 && !tb_digests_are_equal(&o->sample, &sample)) watch_again(o);
  o->sample = sample;
  o->used = ++calls;
  const bool stays = decide_of(o, call, times);
  pthread_mutex_unlock(&operands_lock);
  return stays;
}

/* With the lock held. */
static void learn_of(struct operand *o, const struct tb_call *call, enum tb_proof proof, double seconds) {
  if (proof == TB_KEPT_LATER) return; /* it is being seen to */
  if (!tb_proof_is_kept(proof)) {
    if (o->state == STAYS || ++o->tries >= TRIES_MOST) watch_again(o);
    return;
  }
  /* What looks at all bytes may be the last time that this is done. */
  if (proof >= TB_BY_TRACKING || o->state == STAYS) {
    o->kept_seconds = o->kept_seconds > 0 && is_of(o, call) ? (o->kept_seconds + seconds) / 2 : seconds;
    o->m = call->m, o->n = call->n, o->k = call->k;
  }
  o->state = STAYS;
  o->uses++;
}

void tb_staying_learn(const struct tb_call *call, enum tb_stay which, enum tb_proof proof, double seconds) {
  if (which == TB_NONE_STAYS) return;
  const struct tb_stored stored = stored_operand(call, which);
  pthread_mutex_lock(&operands_lock);
  struct operand *const o = find(&stored);
  if (o != NULL) learn_of(o, call, proof, seconds);
  pthread_mutex_unlock(&operands_lock);
}
