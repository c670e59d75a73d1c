/* SPDX-License-Identifier: BSD-3-Clause */
/* The link to a GPU, measured for the calibration. */
#include "base/clock.h"
#include "offload/keeper.h"
#include "offload/offload.h"
#include "offload/reach.h"
#include "offload/gpus.h"

/* Slots that are copied to the arena, one after another, and back. */
#define SLOTS_TO_MEASURE TB_SLOTS_FIRST

static CUresult measure_link(struct tb_device *d, double seconds[2]) {
  TB_TRY(tb_device_reserve(d, (int64_t)(SLOTS_TO_MEASURE * TB_SLOT_BYTES)));
  TB_TRY(tb_device_wait(d, d->up));
  for (int down = 0; down < 2; down++) {
    const double begun = tb_clock_seconds();
    for (int slot = 0; slot < SLOTS_TO_MEASURE; slot++) {
      const CUdeviceptr there = d->arena + (CUdeviceptr)slot * TB_SLOT_BYTES;
      if (down)
        TB_TRY(tb_cuda.cuMemcpyDtoHAsync(d->down_ring.slot[slot], there, TB_SLOT_BYTES, d->down));
      else
        TB_TRY(tb_cuda.cuMemcpyHtoDAsync(there, d->up_ring.slot[slot], TB_SLOT_BYTES, d->up));
    }
    TB_TRY(tb_device_wait(d, down ? d->down : d->up));
    seconds[down] = tb_clock_seconds() - begun;
  }
  return CUDA_SUCCESS;
}

/* With the lock held and a GPU open. */
static bool link_seconds(struct tb_device *d, double seconds[2]) {
  char failure[160];
  tb_cuda_failed_call = NULL;
  CUresult result = tb_device_enter(d);
  const bool entered = result == CUDA_SUCCESS;
  if (entered) result = measure_link(d, seconds);
  if (result != CUDA_SUCCESS) tb_device_settle(d);
  if (entered) tb_device_leave();
  if (result == CUDA_SUCCESS) return true;
  tb_cuda_describe_failure(result, failure, sizeof failure);
  tb_reach_give_up(d, failure, result == CUDA_ERROR_OUT_OF_MEMORY ? TB_STATUS_no_memory : TB_STATUS_gpu_failed);
  return false;
}

bool tb_offload_measure_link(double *up_bytes_per_s, double *down_bytes_per_s) {
  double seconds[2];
  if (tb_reach_is_in_callback()) return false;
  if (!tb_keeper_enter()) return false;
  const bool measured = tb_gpus_are_open() && link_seconds(tb_gpus_first(false), seconds);
  tb_keeper_leave();
  if (!measured) return false;
  *up_bytes_per_s = SLOTS_TO_MEASURE * TB_SLOT_BYTES / seconds[0];
  *down_bytes_per_s = SLOTS_TO_MEASURE * TB_SLOT_BYTES / seconds[1];
  return true;
}
