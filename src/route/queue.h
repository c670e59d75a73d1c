/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that were sent to the GPU and have not come back, and how long a further one waits for them. Pure but for
 * the queue that it is given; a queue that several threads use wants a lock (router.c has it).
 *
 * A program whose threads call at once is done soonest when each call goes where it is finished first, given the calls
 * before it. On the GPU it waits for
 *
 *   share x the sum of the times that were predicted for the calls that are there
 *
 * A share of 1 means that they take turns, less that they overlap, more that all take longer than predicted. What it is
 * for calls of a size is expected (tb_queue_expected); how far that is off is learned from calls that found others
 * there. Such calls teach nothing else of the GPU, nor does one that others joined: how long they took alone cannot be
 * told.
 *
 * A call that never comes back (its thread left it by siglongjmp) is forgotten after a while.
 */
#ifndef TB_QUEUE_H
#define TB_QUEUE_H

#include "route/model.h"

/* So many are counted; of the others it is not known that they are there. */
#define TB_QUEUE_MOST 64

struct tb_queue {
  struct {
    double seconds, until; /* that were predicted for it alone, 0: nobody's; when it is forgotten */
  } place[TB_QUEUE_MOST];
  uint64_t joined;          /* calls so far */
  struct tb_follower share; /* what was expected times this, and 1; so that a queue may begin with zeros */
};

/* What was predicted for all that are there, each alone. */
double tb_queue_seconds(const struct tb_queue *queue, double now);

/* The share for calls on the host of this size, until more is known: up to four small ones are on a GPU at once, two
 * larger ones, and one of the largest (offload/beside.h). */
double tb_queue_expected(const struct tb_call *call);

/* How long a further call waits for them, of which this share is expected. */
double tb_queue_wait_seconds(const struct tb_queue *queue, double expected, double now);

/* A call that takes so long goes there. Returns its place, from 1 on; 0: there is none left. */
int tb_queue_join(struct tb_queue *queue, double seconds, double now);

/* It is back. Of place 0 nothing is done. */
void tb_queue_leave(struct tb_queue *queue, int place);

/* A call that found `found_seconds` there took so much longer than was predicted for it alone. */
void tb_queue_learn(struct tb_queue *queue, double expected, double found_seconds, double waited_seconds, double now);

#endif
