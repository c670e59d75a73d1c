/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that stay: of a C whose like was a later call's operand the GPU has a copy, tile by tile, while the tiles
 * come down, and digests it when all are there. So the digests are those of the copy's bytes, whatever becomes of C,
 * and it is C that is compared with them before the copy is used.
 *
 *      tile --down--> slot --threads--> C
 *           \-- on the GPU --> copy --on the GPU--> digests      proof: C, when it is an operand, has these
 */
#include "base/options.h"
#include "pipeline/keep_internal.h"

static struct tb_stored stored_c_of(const struct tb_call *call) {
  const int64_t size = tb_call_bytes(call);
  return (struct tb_stored){.data = call->c,
                            .column_bytes = call->m * size,
                            .columns = call->n,
                            .pitch_bytes = call->ldc * size,
                            .part = TB_STORED_ALL};
}

/* What a thread digests a second, and a link moves of which nothing is known. */
#define DIGESTED_BYTES_PER_S 12e9
#define LINK_BYTES_PER_S 50e9

/* Whether the threads digest a result, when it is an operand, no slower than it would go up. Where copies have a size,
 * that is the program's choice. */
static bool results_pay(const struct tb_device *d, const struct tb_ways *ways) {
  if (tb_option_number(TB_OPTION_cache) != TB_CACHE_AUTO) return true;
  const double link = ways->link_bytes_per_s > 0 ? ways->link_bytes_per_s : LINK_BYTES_PER_S;
  return tb_pool_threads(d->pool) * DIGESTED_BYTES_PER_S >= link;
}

/* With beta, or of a triangle, C has more than the tiles. A solution and a triangle's product are all of B, whatever
 * was in it. */
static bool is_all_of_c(const struct tb_call *call) {
  if (call->recipe != TB_MULTIPLY) return true;
  return !call->twice && call->region.of == TB_WHOLE && tb_scalar_is_zero(call->type, call->beta);
}

static bool may_result(struct tb_device *d, const struct tb_call *call, const struct tb_ways *ways) {
  if (!is_all_of_c(call) || ways->c != TB_STAGED) return false;
  if (call->m * call->n * tb_call_bytes(call) < TB_CACHE_LEAST_BYTES) return false;
  return ways->kept != TB_NOT_TO_BE_KEPT && results_pay(d, ways) && tb_keep_may_stay(d, call, ways);
}

void tb_keep_begin_result(struct tb_keep *keep, struct tb_device *d, const struct tb_ways *ways, bool entered) {
  if (!may_result(d, &keep->call, ways) || !tb_cache_enter()) return;
  if (entered ? tb_device_cache(d) != NULL : tb_keep_enter_cache(d)) {
    const struct tb_stored c = stored_c_of(&keep->call);
    tb_cache_allow_results(tb_device_cache(d), true);
    struct tb_kept *const worth = tb_cache_begin_result(tb_device_cache(d), &c, keep->call.k);
    if (worth != NULL && tb_keep_make(d, worth, TB_KEEP_RESULT)) keep->result = worth;
    keep->may_stay = true;
  }
  tb_cache_leave();
}

/* What fails here costs the copy, which is not finished then. */
void tb_keep_copy_tile(struct tb_keep *keep, struct tb_block tile, struct tb_matrix d, CUstream stream) {
  struct tb_kept *const kept = keep->result;
  if (kept == NULL) return;
  const int64_t size = tb_call_bytes(&keep->call), row = tile.i * size;
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = d.address,
                              .srcPitch = (size_t)(d.ld * size),
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice =
                                  (CUdeviceptr)kept->copy + (CUdeviceptr)(tile.j * kept->copy_pitch_bytes + row),
                              .dstPitch = (size_t)kept->copy_pitch_bytes,
                              .WidthInBytes = (size_t)(tile.m * size),
                              .Height = (size_t)tile.n};
  if (tb_cuda.cuMemcpy2DAsync(&copy, stream) == CUDA_SUCCESS) keep->copied_bytes += tile.m * tile.n * size;
  tb_cuda_failed_call = NULL;
}

/* False: a tile is missing, or it could not be. */
static bool try_to_digest(struct tb_keep *keep, struct tb_device *d) {
  const bool whole = keep->copied_bytes == tb_stored_bytes(&keep->result->stored);
  const bool digested = whole && tb_keep_digest(d, keep->result) == CUDA_SUCCESS;
  if (whole && !digested && !d->hangs) tb_device_wait(d, d->up);
  tb_cuda_failed_call = NULL; /* no failure of the call's */
  return digested;
}

CUresult tb_keep_end_result(struct tb_keep *keep, struct tb_device *d) {
  const struct tb_stored c = stored_c_of(&keep->call);
  if (!keep->may_stay) return CUDA_SUCCESS;
  if (keep->result != NULL) {
    if (try_to_digest(keep, d)) tb_cache_finish_result(keep->result);
  } else if (tb_cache_enter()) {
    tb_cache_end_result(tb_device_cache(d), &c);
    tb_cache_leave();
  }
  return d->hangs ? CUDA_ERROR_TIMEOUT : CUDA_SUCCESS;
}

void tb_keep_drop_result(struct tb_keep *keep, struct tb_device *d) {
  struct tb_kept *const kept = keep->result;
  keep->result = NULL;
  const bool entered = kept != NULL && tb_cache_enter(); /* before it is left: then others may have its place */
  tb_cache_leave_result(tb_device_cache(d), d->lane);
  if (!entered) return; /* it is never whole, and makes way as any other */
  tb_cache_drop(tb_device_cache(d), kept);
  tb_cache_leave();
}
