/* SPDX-License-Identifier: BSD-3-Clause */
#include "level3/pieces.h"

#include <string.h>

#include "cpu/fallback.h"
#include "offload/hosted.h"
#include "process/guest.h"

static void compute_on_cpu(const struct tb_call *call) {
  struct tb_guest *paused;
  tb_guest_pause_floats(&paused);
  tb_fallback_compute(call);
  tb_guest_resume_floats(paused);
}

/* Several GPUs, and none, are no measure of what one takes. */
void tb_pieces_finish(const struct tb_call *call, const struct tb_places *places, struct tb_outcome *outcome) {
  struct tb_hosted hosted;
  outcome->by_cpu = true;
  outcome->gpu_count = 0;
  if (places == NULL || !tb_places_need_gpu(places)) {
    compute_on_cpu(call);
    return;
  }
  if (!tb_hosted_begin(&hosted, call, places, false)) {
    outcome->lost = true;
    return;
  }
  compute_on_cpu(&hosted.call);
  if (!tb_hosted_end(&hosted)) outcome->lost = true; /* what was lost before stays so */
}

void tb_pieces_add(struct tb_outcome *sum, const struct tb_outcome *next) {
  if (next->failed && !sum->failed) sum->why = next->why;
  sum->failed = sum->failed || next->failed;
  sum->by_cpu = sum->by_cpu || next->by_cpu;
  sum->committed = sum->committed || next->committed;
  sum->lost = sum->lost || next->lost;
  if (next->gpu_count != sum->gpu_count) sum->gpu_count = 0;
  if (sum->kernel == NULL) sum->kernel = next->kernel;
  if (sum->gpus[0] == '\0') memcpy(sum->gpus, next->gpus, sizeof sum->gpus);
  sum->bytes += next->bytes;
  sum->saved_bytes += next->saved_bytes;
  sum->seconds += next->seconds;
  sum->up_ms += next->up_ms, sum->compute_ms += next->compute_ms, sum->down_ms += next->down_ms;
}
