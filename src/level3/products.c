/* SPDX-License-Identifier: BSD-3-Clause */
#include "level3/products.h"

#include "base/log.h"
#include "cpu/fallback.h"
#include "offload/hosted.h"
#include "process/guest.h"

static void compute_on_cpu(const struct tb_call *call) {
  struct tb_guest *paused;
  tb_guest_pause_floats(&paused);
  tb_fallback_gemm(call);
  tb_guest_resume_floats(paused);
}

/* Several GPUs, and none, are no measure of what one takes. */
void tb_level3_finish(const struct tb_call *call, const struct tb_places *places, struct tb_outcome *outcome) {
  struct tb_hosted hosted;
  outcome->by_cpu = true;
  outcome->gpu_count = 0;
  if (places == NULL || !tb_places_need_gpu(places)) {
    compute_on_cpu(call);
    return;
  }
  outcome->lost = !tb_hosted_begin(&hosted, call, places, false);
  if (outcome->lost) return;
  compute_on_cpu(&hosted.call);
  outcome->lost = !tb_hosted_end(&hosted);
}

void tb_level3_add(struct tb_outcome *sum, const struct tb_outcome *next) {
  if (next->failed && !sum->failed) sum->why = next->why;
  sum->failed = sum->failed || next->failed;
  sum->by_cpu = sum->by_cpu || next->by_cpu;
  sum->committed = sum->committed || next->committed;
  sum->lost = sum->lost || next->lost;
  if (next->gpu_count != sum->gpu_count) sum->gpu_count = 0;
  sum->bytes += next->bytes;
  sum->seconds += next->seconds;
  sum->up_ms += next->up_ms, sum->compute_ms += next->compute_ms, sum->down_ms += next->down_ms;
}

/* With A and B in each other's places. */
static void offload_again(const struct tb_call *call, const struct tb_places *places, bool timed,
                          struct tb_outcome *outcome) {
  const struct tb_call again = tb_call_again(call);
  struct tb_places exchanged;
  struct tb_outcome second;
  if (places != NULL) exchanged = (struct tb_places){.a = places->b, .b = places->a, .c = places->c};
  if (places != NULL) places = &exchanged;
  if (tb_offload_gemm(&again, places, timed, &second))
    tb_level3_add(outcome, &second);
  else
    tb_level3_finish(&again, places, outcome);
}

bool tb_level3_offload(const struct tb_call *call, const struct tb_places *places, bool timed,
                       struct tb_outcome *outcome) {
  const struct tb_call once = tb_call_once(call);
  if (!tb_offload_gemm(&once, places, timed, outcome)) return false;
  if (call->twice && !tb_call_is_trivial(call) && !outcome->lost) offload_again(call, places, timed, outcome);
  return true;
}
