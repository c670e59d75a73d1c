/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPUs of this process: opened when one is wanted, given up when one fails, closed at the end. What is said of them
 * in the report comes from here too. Under offload.c's lock, but for what says that it is lock-free.
 */
#ifndef TB_GPUS_H
#define TB_GPUS_H

#include "device.h"

/* Whether a GPU can answer: TB_STATUS_gpu_sooner when it can or has not been tried, else why not. Lock-free. */
enum tb_status tb_gpus_status(void);

/* True once a GPU is open. Lock-free. */
bool tb_gpus_are_open(void);

/* In words, or why there is none. Lock-free. */
void tb_gpus_describe(char *text, size_t size);

/* The GPU that computes, opened if none is open yet. NULL: there is none; tb_gpus_status says why. */
struct tb_device *tb_gpus_open(void);

/* Seconds that opening it took. */
double tb_gpus_open_seconds(void);

/* After a failure that may have left its context broken: it is closed, and not used again. `failure` in words. */
void tb_gpus_give_up(struct tb_device *device, const char *failure);

/* Closes what is open. `why` is what tb_gpus_status says from then on. */
void tb_gpus_close(enum tb_status why);

/* In the child of a fork: what the parent opened cannot be used here. */
void tb_gpus_after_fork(void);

#endif
