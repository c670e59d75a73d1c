/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for the GPU, but not for ever: a GPU that hangs, or that a kernel of the program keeps to itself, must not
 * take the program with it. The driver's own waits cannot be left, so it is
 * asked again and again instead. Nothing is
 * owned; any thread, with the stream's context current.
 */
#ifndef TB_WAIT_H
#define TB_WAIT_H

#include "cuda/driver.h"

/* How long nothing may happen in a call: TILEBLAS_TIMEOUT, and the time that a GPU of this nominal speed takes for so
 * many operations when others have nearly all of it. Infinite when the option is 0. */
double tb_wait_seconds(double flops, double peak_flops_per_s);

/* Since when nothing has happened. */
struct tb_patience {
  double seconds; /* that nothing may happen */
  double since;   /* 0: something has just happened */
};

/* To be called when nothing could be done: CUDA_ERROR_TIMEOUT when that has been so for too long. Reads the clock. */
CUresult tb_patience_try(struct tb_patience *patience);

/* Whether what the event was recorded behind is done; CUDA_ERROR_NOT_READY: not yet. */
CUresult tb_ask_event(CUevent event);

/* Returns when everything in the stream is done, or has failed, or CUDA_ERROR_TIMEOUT after so many seconds. */
CUresult tb_wait_for_stream(CUstream stream, double seconds);

#endif
