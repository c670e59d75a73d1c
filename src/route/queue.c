/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/queue.h"

/* A share is between these. Some overlap is always possible; and when a call takes twice what was predicted, the wait
 * for it is twice as long, too. */
#define SHARE_LEAST 0.1 /* of what is expected, as what follows */
#define SHARE_MOST 4.0
/* How far one call moves it, and at most as if it had been so much off: a call may have been held up by anything. */
#define SHARE_GAIN 0.1
#define SHARE_OFF 1.0

/* A call is forgotten when it takes so many times what it and those before it should, and a second. */
#define FORGOTTEN_TIMES 20

static double share_within(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

double tb_queue_seconds(const struct tb_queue *q, double now) {
  double sum = 0;
  for (int i = 0; i < TB_QUEUE_MOST; i++)
    if (q->place[i].until > now) sum += q->place[i].seconds;
  return sum;
}

/* It fades like what is learned of a class. */
static double share_waited(const struct tb_queue *q, double now) {
  return 1 + q->share.value * tb_faded(now - q->share.at, TB_CLASS_HALF_SECONDS);
}

/* Four threads reach 2.5 to 2.8 times one thread's products a second up to 512 cubed, two 1.4 to 1.5 times up to 2048
 * (H200). Where more threads call the share is larger, for no more of them are there at once. */
double tb_queue_expected(const struct tb_call *call) {
  static const double share[] = {[TB_SMALL_ONES] = 0.5, [TB_A_PAIR] = 0.75, [TB_ALONE] = 1};
  return share[tb_call_company(call)];
}

double tb_queue_wait_seconds(const struct tb_queue *q, double expected, double now) {
  return expected * share_waited(q, now) * tb_queue_seconds(q, now);
}

int tb_queue_join(struct tb_queue *q, double seconds, double now) {
  q->joined++;
  const double most = FORGOTTEN_TIMES * (tb_queue_seconds(q, now) + seconds) + 1;
  for (int i = 0; i < TB_QUEUE_MOST; i++) {
    if (q->place[i].until > now) continue;
    q->place[i].seconds = seconds;
    q->place[i].until = now + most;
    return i + 1;
  }
  return 0;
}

void tb_queue_leave(struct tb_queue *q, int place) {
  if (place > 0) q->place[place - 1].until = 0;
}

void tb_queue_learn(struct tb_queue *q, double expected, double found_seconds, double waited_seconds, double now) {
  if (!(found_seconds > 0)) return;
  const double before = share_waited(q, now);
  const double off = share_within(waited_seconds / (expected * found_seconds) - before, -SHARE_OFF, SHARE_OFF);
  q->share.value = share_within(before + SHARE_GAIN * off, SHARE_LEAST, SHARE_MOST) - 1;
  q->share.at = now;
}
