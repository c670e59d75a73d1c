/* SPDX-License-Identifier: BSD-3-Clause */
/* What keep.c does for calls of one GPU, and keep_shared.c for those that several have. */
#ifndef TB_KEEP_INTERNAL_H
#define TB_KEEP_INTERNAL_H

#include "cache/cache.h"
#include "pipeline/keep.h"

/* A call's operands, and which of them may be kept; and whether a proof may wait. */
struct tb_kept_operands {
  struct tb_stored stored[2];
  bool may[2], may_wait;
};
struct tb_kept_operands tb_keep_operands(const struct tb_call *call, const struct tb_ways *ways);

static inline bool tb_keep_are_same(const struct tb_kept_operands *x) {
  return x->may[TB_OF_A] && x->may[TB_OF_B] && tb_stored_is(&x->stored[TB_OF_A], &x->stored[TB_OF_B]);
}

/* Whether the call is one whose operands may stay on the device; gives back what is not to be kept any more. */
bool tb_keep_may_begin(struct tb_device *device, const struct tb_call *call, const struct tb_ways *ways,
                       const struct tb_kept_operands *operands);

/* The same whatever its operands are. */
bool tb_keep_may_stay(struct tb_device *device, const struct tb_call *call, const struct tb_ways *ways);

/* Behind the look at its operands, which has entered the cache already, or there was none: whether C is to stay. */
void tb_keep_begin_result(struct tb_keep *keep, struct tb_device *device, const struct tb_ways *ways, bool entered);

/* Inside the cache: a call of the device's begins. False: it has no memory for a cache. */
bool tb_keep_enter_cache(struct tb_device *device);

/* The memory of a copy, inside; what an operand's is to have, in any thread, when the device is entered; and if that
 * failed the end of it, inside. That says CUDA_ERROR_TIMEOUT of a device that hangs. */
enum tb_keep_what { TB_KEEP_OPERAND, TB_KEEP_RESULT };
bool tb_keep_make(struct tb_device *device, struct tb_kept *kept, enum tb_keep_what what);
bool tb_keep_fill(struct tb_device *device, struct tb_kept *kept);
CUresult tb_keep_drop(struct tb_device *device, struct tb_kept *kept);

/* A copy that has an operand's beginning gets the rest, so many bytes. False: as tb_cache_grow. */
bool tb_keep_grow(struct tb_device *device, struct tb_kept *kept, const struct tb_stored *operand, int64_t *went_up);

/* What was written of a copy goes up; and how much that is. */
CUresult tb_keep_send_stale(struct tb_device *device, struct tb_kept *kept);
int64_t tb_keep_stale_bytes(const struct tb_kept *kept);

/* keep_digest.c: digests a copy that is whole, on the GPU, when a call is over: nothing is wanted any more of its
 * arena's beginning, nor of its first slot. Nothing may be under way to the copy. */
CUresult tb_keep_digest(struct tb_device *device, struct tb_kept *kept);

/* What copies may take of the device's memory, of which so many bytes are free beside them. */
int64_t tb_keep_limit(const struct tb_device *device, int64_t free_bytes);

/* The call has what was found of an operand. */
void tb_keep_take(struct tb_keep *keep, bool of_b, const struct tb_stored *operand, const struct tb_cached *found);

/* Whether one operand that must go up alone takes longer so than both would take together, as whole columns. */
bool tb_keep_is_sooner_without(const struct tb_keep *keep, const struct tb_call *call);

/* Of a copy that is up. */
static inline struct tb_cached tb_keep_found_anew(struct tb_kept *kept) {
  return (struct tb_cached){
      .proof = TB_KEPT_ANEW, .address = (CUdeviceptr)kept->copy, .pitch_bytes = kept->copy_pitch_bytes, .kept = kept};
}

/* When all is found: without copies if that is sooner. `call` and `ways`: without them. */
void tb_keep_settle(struct tb_keep *keep, struct tb_device *device, const struct tb_call *call, struct tb_ways ways);

/* When all is found: what is in place are copies. `ways`: the call's, without them. */
void tb_keep_say_copies(struct tb_keep *keep, const struct tb_ways *ways);

#endif
