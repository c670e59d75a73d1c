/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPUs of this process: which may be used, opened when they are wanted, given up when they fail, closed at the end;
 * and the copying threads that they use. What the report says of them comes from here too. Under offload.c's lock, but
 * for what says that it is lock-free.
 */
#ifndef TB_GPUS_H
#define TB_GPUS_H

#include "cuda/allowed.h"
#include "pipeline/lanes.h"
#include "plan/share.h"

/* Whether a GPU can answer: TB_STATUS_ok when it can or has not been tried, else why not. Lock-free. */
enum tb_status tb_gpus_status(void);

/* True while a GPU is open. Lock-free. */
bool tb_gpus_are_open(void);

/* In words, of at most TB_LOG_TEXT_MAX bytes, or why there is none. Lock-free. */
void tb_gpus_describe(char *text, size_t size);

/* ---- one at a time ---- */

/* The GPU that computes alone: of those that are open the most preferred one; if none is, the first that can be opened,
 * for a large call or for any. It may use all copying threads. NULL: there is none; tb_gpus_status says why. */
struct tb_device *tb_gpus_first(bool is_for_large);

/* The same for the GPU of this number, if it may be used. */
struct tb_device *tb_gpus_numbered(int ordinal);

/* Of those that are open, number 0, 1, 2, ... in order of preference. NULL: there are no more. */
struct tb_device *tb_gpus_open_one(int number);

/* For a call beside others, in this lane (lanes.h): the most preferred GPU that is open. NULL: none is, or it has no
 * memory for a lane. Any number of threads, each in its lane. */
struct tb_device *tb_gpus_lane(int lane);

/* Seconds that opening the first took. */
double tb_gpus_open_seconds(void);

/* Gives back what device memory is kept between calls, and all lanes but the first. */
void tb_gpus_give_back(void);

/* ---- several at once ---- */

/* How many there may be, open or not yet tried. 0 before any was opened. */
int tb_gpus_usable(void);

/* All that are open. */
struct tb_gpus_team {
  int count;
  struct tb_device *device[TB_GPUS_MAX];
  struct tb_pace *pace[TB_GPUS_MAX];
  bool connected; /* each reaches the others' memory directly */
};

/* Opens those that were not tried, all at the same time, unless all are open; then gives all, each with its own copying
 * threads, which are fewer than one has that computes alone. At most as many as there are threads to drive them. */
void tb_gpus_assemble(struct tb_gpus_team *team);

/* Whether tb_gpus_assemble would have to open any. */
bool tb_gpus_must_open_more(void);

/* Threads that drive a team, one a GPU, its caller included. */
struct tb_pool *tb_gpus_drivers(void);

/* ---- the end ---- */

/* After a failure that may have left its context broken: it is closed, and not used again. Of a lane, whose call others
 * may be beside, it is closed by the next one who is alone. `failure` in words. False: it was given up before. */
bool tb_gpus_give_up(struct tb_device *device, const char *failure);

/* Whether one is to be closed, lock-free; and has it closed. */
bool tb_gpus_have_lost(void);
void tb_gpus_close_lost(void);

/* Closes what is open, to be opened anew when it is wanted. */
void tb_gpus_close_for_now(void);

/* Closes what is open. `why` is what tb_gpus_status says from then on. */
void tb_gpus_close(enum tb_status why);

/* With the library about to leave, when nothing is open: memory of the host's. */
void tb_gpus_end(void);

/* In the child of a fork: what the parent opened cannot be used here. */
void tb_gpus_after_fork(void);

/* Waits for what an abandoned call left in a lane's streams. */
void tb_gpus_settle(int lane);

/* Uses no GPU any more, and closes none: nobody knows in what state they are. False: none was open. */
bool tb_gpus_abandon(void);

#endif
