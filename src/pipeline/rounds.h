/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a loop that keeps copies and launches going does between its turns: it takes part in the copying, lets others
 * have the core, gives up a GPU that hangs, and lets waiting signals in. Under offload.c's lock, with the device
 * entered.
 */
#ifndef TB_ROUNDS_H
#define TB_ROUNDS_H

#include "cuda/wait.h"
#include "pipeline/device.h"

/* No result of the driver's: a signal was waiting, its handler took its time, and another call has had the GPU since.
 * The device is not entered any more; it may be closed. */
#define TB_INTERRUPTED ((CUresult)-1)

struct tb_rounds {
  bool is_large; /* much goes by slots: then the caller, where it has threads enough, minds the link alone */
  int turns;     /* without anything to do */
  struct tb_patience patience;
  double next_look; /* for signals */
};

struct tb_rounds tb_rounds_begin(const struct tb_device *device, bool is_large);

/* Something could be done in this turn. */
void tb_rounds_went_on(struct tb_rounds *rounds);

/* Nothing could, and that is not the GPU's fault. */
void tb_rounds_wait_for_others(struct tb_rounds *rounds);

/* Nothing could: takes part in the copying. False: there is nothing to copy, or the caller minds the link alone. */
bool tb_rounds_help(struct tb_rounds *rounds, struct tb_device *device);

/* Nor was there anything to copy. CUDA_ERROR_TIMEOUT: the device hangs. */
CUresult tb_rounds_rest(struct tb_rounds *rounds, struct tb_device *device);

/* Whether signals wait, and it is time to look. Then the caller sees to it that nothing of the call is under way in the
 * program's memory, for a handler may leave by siglongjmp, and opens a window. What is in streams concerns slots and
 * the arena alone, or memory that the driver gave the program. CUDA_SUCCESS: the call goes on. */
bool tb_rounds_wanted(struct tb_rounds *rounds);
CUresult tb_rounds_open_window(struct tb_device *device);

/* Has the rings ready for a call that moves so many bytes through them, and counts them. Of the first that moves any
 * the slots are ordered that it has earned. */
void tb_rounds_prepare_rings(struct tb_device *device, double up_bytes, double down_bytes, bool is_large);

/* Bytes that make a call a large one; and one that goes up in turns, where others are on the GPU (lanes.h). */
#define TB_LARGE_BYTES 64e6
#define TB_TURN_BYTES 8e6

/* With so many threads, of which ten others fill the link both ways, the caller of a large product does not copy: it
 * comes back late from each task, to a link that has waited. (H200, 12 threads: 8192 cubed 14.5 ms with its help, 14.2
 * without.) */
#define TB_THREADS_ENOUGH 11

#endif
