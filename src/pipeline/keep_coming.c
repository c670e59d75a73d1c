/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operand that is to stay, of a product that brings it up in panels as any other: each panel is copied on the GPU
 * when it is up, and the GPU digests the copy when the call is over.
 *
 *      operand --up--> panel --> product
 *                         \-- on the GPU --> copy --on the GPU--> digests
 *
 * So the call takes as long as others. What goes up ahead of a product, digested by the threads, takes as long again.
 * What the kernel watches already, because it was expected (cache/worth.c), is not digested: a thread asks CUDA about
 * its pages while it goes up.
 */
#include "pipeline/keep_internal.h"
#include "pipeline/staging.h"

bool tb_keep_comes_once(const struct tb_call *call, const struct tb_plan *plan) {
  return plan->block_m == call->m && plan->block_n == call->n && plan->chunk_k == call->k && !plan->one_slot;
}

/* ---- what is watched ---- */

/* A task. What is to be copied meanwhile comes first. */
static void ask_cuda_beside(void *context, int unused) {
  struct tb_keep_asker *const asker = context;
  (void)unused;
  for (int of_b = 0; of_b < 2; of_b++)
    while (!atomic_load(&asker->over) && tb_asking_go_on(&asker->asking[of_b]))
      while (!atomic_load(&asker->over) && tb_pool_help(asker->pool)) continue;
}

void tb_keep_begin_asker(struct tb_keep *keep, struct tb_device *d) {
  struct tb_keep_asker *const asker = &keep->asker;
  bool any = false;
  for (int of_b = 0; of_b < 2; of_b++) {
    struct tb_kept *const kept = keep->coming[of_b];
    if (kept == NULL || kept->tracked.number == 0) continue;
    kept->unasked = true;
    any |= asker->asking[of_b].kept != NULL || tb_asking_begin(&asker->asking[of_b], kept);
  }
  if (!any) return;
  asker->pool = d->pool;
  atomic_store(&asker->over, false);
  asker->place = tb_pool_start_behind(d->pool, ask_cuda_beside, asker, 1);
}

void tb_keep_pause_asker(struct tb_keep *keep) {
  if (keep == NULL || keep->asker.place == 0) return;
  atomic_store(&keep->asker.over, true);
  tb_pool_end_behind(keep->asker.pool, keep->asker.place);
  keep->asker.place = 0;
}

/* When all of it is there: nobody has waited for the last panel's copy. What CUDA was not asked about yet it is asked
 * now: who asks has had less time than the product took, or none. */
static bool is_proven_by_watch(struct tb_keep *keep, struct tb_device *d, bool of_b) {
  struct tb_kept *const kept = keep->coming[of_b];
  struct tb_asking *const asking = &keep->asker.asking[of_b];
  if (tb_device_wait(d, d->up) != CUDA_SUCCESS) return false;
  while (tb_asking_go_on(asking)) continue;
  tb_asking_note(asking);
  kept->unasked = false;
  kept->unwatchable = kept->has_cudas;
  const bool has_none = kept->asked_end >= kept->tracked.end; /* of CUDA's: else it ends before that */
  return has_none && tb_kept_has_same_edges(kept);
}

static bool is_proven(struct tb_keep *keep, struct tb_device *d, bool of_b) {
  struct tb_kept *const kept = keep->coming[of_b];
  if (kept->tracked.number != 0) return is_proven_by_watch(keep, d, of_b);
  return tb_keep_digest(d, kept) == CUDA_SUCCESS;
}

/* ---- beside the call ---- */

void tb_keep_copy_panel(struct tb_keep *keep, bool of_b, const struct tb_upload *panel, CUstream stream) {
  const struct tb_kept *const kept = keep->coming[of_b];
  const int64_t size = tb_type_bytes(panel->type);
  const int64_t offset = (const char *)panel->source - kept->stored.data;
  const int64_t column = offset / kept->stored.pitch_bytes, row = offset % kept->stored.pitch_bytes;
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = panel->target,
                              .srcPitch = (size_t)(panel->target_ld * size),
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice =
                                  (CUdeviceptr)kept->copy + (CUdeviceptr)(column * kept->copy_pitch_bytes + row),
                              .dstPitch = (size_t)kept->copy_pitch_bytes,
                              .WidthInBytes = (size_t)(panel->rows * size),
                              .Height = (size_t)panel->columns};
  if (tb_cuda.cuMemcpy2DAsync(&copy, stream) == CUDA_SUCCESS)
    keep->come_bytes[of_b] += panel->rows * panel->columns * size;
  tb_cuda_failed_call = NULL; /* what fails here costs the copy, which is not finished then */
}

/* What is not whole is given back when it is looked at, or its memory is another's: nothing may be under way to it. */
CUresult tb_keep_end_coming(struct tb_keep *keep, struct tb_device *d) {
  tb_keep_pause_asker(keep); /* and what is left is asked here: others may have copies for the asker without end */
  for (int of_b = 0; of_b < 2; of_b++) {
    struct tb_kept *const kept = keep->coming[of_b];
    if (kept == NULL || d->hangs || keep->come_bytes[of_b] != tb_stored_bytes(&kept->stored)) continue;
    if (is_proven(keep, d, of_b)) {
      tb_kept_is_whole(kept);
      keep->coming[of_b] = NULL;
      keep->proof[of_b] = TB_KEPT_ANEW;
    }
  }
  if (tb_keep_is_coming(keep) && !d->hangs) tb_device_wait(d, d->up);
  tb_cuda_failed_call = NULL; /* no failure of the call's */
  return d->hangs ? CUDA_ERROR_TIMEOUT : CUDA_SUCCESS;
}

/* ---- ahead of the call ---- */

/* Inside. */
static CUresult give_up_coming(struct tb_keep *keep, struct tb_device *d, bool of_b) {
  struct tb_kept *const kept = keep->coming[of_b];
  keep->coming[of_b] = NULL;
  return tb_keep_drop(d, kept);
}

CUresult tb_keep_bring_up(struct tb_keep *keep, struct tb_device *d, const struct tb_call *call, struct tb_ways ways) {
  const struct tb_kept_operands x = tb_keep_operands(call, &ways);
  CUresult result = CUDA_SUCCESS;
  if (!tb_cache_enter()) { /* whoever is inside may be at it for long */
    tb_keep_end(keep, d);
    tb_keep_nothing(keep, call, ways);
    return CUDA_SUCCESS;
  }
  for (int of_b = 0; of_b < 2 && result == CUDA_SUCCESS; of_b++) {
    struct tb_kept *const kept = keep->coming[of_b];
    if (kept == NULL) continue;
    if (!tb_keep_fill(d, kept)) {
      result = give_up_coming(keep, d, of_b);
      continue;
    }
    const struct tb_cached found = tb_keep_found_anew(kept);
    tb_kept_is_whole(kept);
    keep->coming[of_b] = NULL;
    tb_keep_take(keep, of_b, &x.stored[of_b], &found);
    if (of_b == TB_OF_A && tb_keep_are_same(&x)) tb_keep_take(keep, TB_OF_B, &x.stored[TB_OF_B], &found);
  }
  tb_cache_leave();
  keep->call.again_a = keep->call.b.data, keep->call.again_b = keep->call.a.data;
  tb_keep_settle(keep, d, call, ways);
  return result;
}
