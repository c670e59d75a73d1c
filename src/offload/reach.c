/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/reach.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "offload/gpus.h"
#include "offload/keeper.h"
#include "pipeline/lanes.h"
#include "pipeline/rounds.h"
#include "pipeline/widening.h"

bool tb_reach_is_in_callback(void) { return tb_cuda_is_loaded() && tb_cuda_refuses_thread(); }

bool tb_reach_uses_gpu(const struct tb_places *p) {
  return p != NULL &&
         (tb_places_need_gpu(p) || p->a.place == TB_MANAGED || p->b.place == TB_MANAGED || p->c.place == TB_MANAGED);
}

/* The number of the GPU whose memory is used; -1: of none, or of several. */
static int gpu_of(const struct tb_places *p) {
  const struct tb_location *all[] = {&p->a, &p->b, &p->c};
  int found = -1;
  for (int i = 0; i < 3; i++) {
    if (all[i]->place != TB_DEVICE) continue;
    if (found >= 0 && all[i]->device != found) return -1;
    found = all[i]->device;
  }
  return found;
}

static bool is_ours(const struct tb_device *d, const struct tb_location *l) {
  return l->place != TB_DEVICE || (l->device == d->ordinal && (l->context == NULL || l->context == d->context));
}

struct tb_device *tb_reach_find(const struct tb_places *p, bool is_for_large, enum tb_status *why) {
  const bool bound = p != NULL && tb_places_need_gpu(p);
  struct tb_device *d = bound ? tb_gpus_numbered(gpu_of(p)) : tb_gpus_first(is_for_large);
  if (tb_gpus_are_open() || tb_widening_has_begun()) tb_keeper_begin(); /* who ends all that was begun */
  *why = tb_gpus_status();
  if (*why != TB_STATUS_ok || !bound) return d;
  if (d != NULL && is_ours(d, &p->a) && is_ours(d, &p->b) && is_ours(d, &p->c)) return d;
  *why = TB_STATUS_elsewhere;
  return NULL;
}

void tb_reach_give_up(struct tb_device *d, const char *failure, enum tb_status why) {
  char name[sizeof d->name];
  const int ordinal = d->ordinal;
  if (why == TB_STATUS_interrupted || why == TB_STATUS_ending) return; /* by what the program wanted */
  snprintf(name, sizeof name, "%s", d->name);
  if (why == TB_STATUS_no_memory) {
    static atomic_bool told;
    const char *who = tb_gpus_usable() > 1 ? "another GPU or the CPU" : "the CPU";
    if (!atomic_exchange(&told, true))
      tb_warn("GPU %d (%s): not enough memory for a call; %s computes what is missing", ordinal, name, who);
    return;
  }
  if (!tb_gpus_give_up(d, failure)) return; /* by another call in another lane, which has said so */
  if (tb_gpus_status() == TB_STATUS_gpu_lost)
    tb_warn("GPU %d (%s): %s; the CPU computes what is missing and all later calls", ordinal, name, failure);
  else
    tb_warn("GPU %d (%s): %s; it is not used again, and another GPU or the CPU computes what is missing", ordinal, name,
            failure);
}

static bool has_failed(const struct tb_reach_failed *failed, const struct tb_device *d) {
  for (int i = 0; i < failed->count; i++)
    if (failed->device[i] == d) return true;
  return false;
}

void tb_reach_note(struct tb_reach_failed *failed, const struct tb_device *d) {
  if (!has_failed(failed, d)) failed->device[failed->count++] = d;
}

struct tb_device *tb_reach_survivor(const struct tb_reach_failed *failed) {
  struct tb_device *d;
  for (int number = 0; (d = tb_gpus_open_one(number)) != NULL; number++)
    if (!has_failed(failed, d)) return d;
  return NULL;
}

enum tb_status tb_reach_why(CUresult result) {
  return result == CUDA_SUCCESS               ? TB_STATUS_ok
         : result == TB_INTERRUPTED           ? TB_STATUS_interrupted
         : result == CUDA_ERROR_OUT_OF_MEMORY ? TB_STATUS_no_memory
         : result == TB_CROWDED               ? TB_STATUS_no_memory
         : result == CUDA_ERROR_DEINITIALIZED ? TB_STATUS_ending
                                              : TB_STATUS_gpu_failed;
}
