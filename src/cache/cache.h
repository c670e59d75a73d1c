/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a GPU keeps of the program's matrices: which it has, by where they lie and how they are shaped; which are worth
 * it; and how much of the device's memory they may take. Nothing kept is handed out without a proof in the same call.
 *
 * With the GPU's context current. Calls of several users may be under way at once, each with the copies that it was
 * handed; one at a time looks, between tb_cache_enter and tb_cache_leave. What needs that says so; the rest is
 * thread-safe.
 */
#ifndef TB_CACHE_H
#define TB_CACHE_H

#include "cache/kept.h"
#include "cuda/driver.h"

/* Smaller operands are not looked at: to bring one up takes less than 40 us, which is what a look may cost. */
#ifndef TB_CACHE_LEAST_BYTES /* a build for fuzz_kept has less */
#define TB_CACHE_LEAST_BYTES ((int64_t)1 << 20)
#endif

/* Of one GPU. */
struct tb_cache;

/* Who may have a call under way: numbers below this. */
enum { TB_CACHE_USERS = 32 };

/* False: somebody else is looking, which may take as long as a proof, and is not waited for. */
bool tb_cache_enter(void);
void tb_cache_leave(void);

/* In the child of a fork. */
void tb_cache_after_fork(void);

/* Inside. `may_track`: its GPU reaches no memory of the process but what it was given. NULL: there is no memory. */
struct tb_cache *tb_cache_open(bool may_track);

/* `frees`: the copies are given back, else they are the driver's to take. NULL is allowed. */
void tb_cache_close(struct tb_cache *cache, bool frees);

/* The first one inside: a user's call begins. What it is handed stays until it ends, or the user's next one begins, for
 * a call may be left by a jump. NULL is allowed at the end. */
void tb_cache_begin_call(struct tb_cache *cache, int user);
void tb_cache_end_call(struct tb_cache *cache, int user);

/* Inside: whether a digest of all bytes in each call is worth it. Else only what the kernel can watch is kept, and
 * digested once, when it begins to. So it is until this is said. */
void tb_cache_allow_hash(struct tb_cache *cache, bool hash_pays);

/* Inside: whether results may be kept, which are proven by a digest when they are used. Not until this is said. */
void tb_cache_allow_results(struct tb_cache *cache, bool results_pay);

/* Inside: whether the call mends copies (kept.h) that tb_cache_look hands it as such, and has copies grow, before the
 * cache is left. Not until this is said of a call. */
void tb_cache_allow_mending(struct tb_cache *cache);

/* Inside: whether the call asks CUDA, beside its product, about what it is handed as unasked. Not until this is said of
 * a call. */
void tb_cache_allow_asking(struct tb_cache *cache);

/* What an operand is handed. */
struct tb_cached {
  enum tb_proof proof;
  struct tb_kept *unasked; /* a copy that would be proven sooner if it was asked about (kept.h); or NULL */
  CUdeviceptr address;     /* of its first element */
  int64_t pitch_bytes;
  struct tb_kept *kept; /* whose copy it is, or is in */
  int64_t mended_bytes; /* of it, that went up again */
  bool grows;           /* it has the operand's beginning alone: tb_cache_grow */
};

/* Inside, of several GPUs that have a call: what was found of its next operand on another GPU, for which the proof may
 * go here, too. NULL: nothing; so it is when a call begins. */
void tb_cache_compare(struct tb_cache *cache, const struct tb_cached *other);

/* Inside: looks an operand up. TB_NOT_KEPT: there is no copy, or none that is certain; then what is returned is where
 * to make one, and what to give tb_cache_make, or NULL. `later`, unless NULL: for a question that may wait; the copy is
 * certain when it is asked, and answered (kept.h), and nothing that is computed from it may be used before. */
struct tb_kept *tb_cache_look(struct tb_cache *cache, int user, const struct tb_stored *operand, struct tb_pool *pool,
                              struct tb_cached *found, struct tb_question *later);

/* Inside: gets memory for a copy of one that is worth it, and for its digests, which the caller fills. Bytes free on
 * the device at the moment; limit_bytes: what copies may take altogether. False: there is no room for it. */
bool tb_cache_make(struct tb_cache *cache, int user, struct tb_kept *kept, int64_t free_bytes, int64_t limit_bytes);

/* Inside: of what was made and could not be filled. */
void tb_cache_drop(struct tb_cache *cache, struct tb_kept *kept);

/* ---- grow.c: a copy that gets the rest of an operand, of which it has the beginning ---- */

/* The memory that such a copy had, whole columns from its start; at 0: it has it still. */
struct tb_outgrown {
  CUdeviceptr copy;
  int64_t bytes, columns;
};

/* Inside, of a copy that was found so (struct tb_cached): gets memory for all, and notes in kept->stale what is to go
 * up. The caller copies there what the old memory has, brings that up, and gives the old memory back. False: there is
 * no room, and the copy is what it was; or, where kept->stale is not NULL, it is to be dropped. */
bool tb_cache_grow(struct tb_cache *cache, struct tb_kept *kept, const struct tb_stored *operand, int64_t free_bytes,
                   int64_t limit_bytes, struct tb_outgrown *old);
void tb_cache_end_outgrown(struct tb_cache *cache, struct tb_outgrown *old);

/* Inside: a call goes on without the copy that it was handed, which did not grow: it may be given back. */
void tb_cache_leave_operand(struct tb_cache *cache, int user, struct tb_kept *kept);

/* Inside: what the copy has of the operand, which is all of it now. */
struct tb_cached tb_cache_found_grown(struct tb_kept *kept, const struct tb_stored *operand);

/* ---- planes.c: copies that stay packed ---- */

struct tb_planes {
  CUdeviceptr at;
  bool packed; /* else they are the call's to pack, all of them, and nobody else's */
};

/* Planes of so many bytes of a copy that a user's call was handed whole, packed; at 0: there are none. Not inside: all
 * GPUs that share a call look at once. */
struct tb_planes tb_cache_packed_planes(struct tb_kept *kept, const struct tb_planes_shape *shape, int64_t bytes);

/* Inside: else such as the call may pack; at 0: it has to do without. Memory for them is had when the copy has been
 * used some times, where there is much of it: no copy makes way. */
struct tb_planes tb_cache_planes(struct tb_cache *cache, int user, struct tb_kept *kept,
                                 const struct tb_planes_shape *shape, int64_t bytes, int64_t free_bytes,
                                 int64_t limit_bytes);

/* The call has packed them, and is over. Not inside. */
void tb_cache_finish_planes(struct tb_kept *kept);

/* Inside: frees them for a call that has the copy and does not read them yet. False: there are none, or another call
 * has the copy, too. */
bool tb_cache_drop_planes(struct tb_cache *cache, int user, struct tb_kept *kept);

/* ---- results.c ---- */

/* Inside, behind the looks at its operands: a call is about to write all of a matrix, whatever it holds, by a product
 * of this k. Returns what to give tb_cache_make_result if it is worth a copy; or NULL. */
struct tb_kept *tb_cache_begin_result(struct tb_cache *cache, const struct tb_stored *c, int64_t k);

/* Inside: as tb_cache_make. The copy is the caller's to fill, and to digest, while the call lasts. */
bool tb_cache_make_result(struct tb_cache *cache, int user, struct tb_kept *kept, int64_t free_bytes,
                          int64_t limit_bytes);

/* It has all of what was committed, and so have its digests: from now on it is a copy, which nobody writes to. Not
 * inside; of one of which this is not said nothing is ever computed. */
void tb_cache_finish_result(struct tb_kept *kept);

/* The call goes on without it: it may be given back. */
void tb_cache_leave_result(struct tb_cache *cache, int user);

/* Inside, when a call is over: a result of which there is no copy is committed. */
void tb_cache_end_result(struct tb_cache *cache, const struct tb_stored *c);

/* Bytes that copies take. NULL is allowed, here and below. */
int64_t tb_cache_bytes(const struct tb_cache *cache);

/* Gives back planes, or else the copy that was used longest ago, of those that no call under way has. False: there is
 * none. */
bool tb_cache_give_back_one(struct tb_cache *cache);

/* Gives back all that no call under way has. */
void tb_cache_give_back(struct tb_cache *cache);

/* The same but for copies that the program has chosen (ranges.h), when nobody calls. Packed they need not stay. */
void tb_cache_rest(struct tb_cache *cache);

/* Whether copies have gone by that, of any cache, since it was asked last. */
bool tb_cache_has_rested(void);

/* The same of what has bytes of [start, end). */
void tb_cache_give_back_range(struct tb_cache *cache, uintptr_t start, uintptr_t end);

#endif
