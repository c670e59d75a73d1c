/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operands of a product that stay on the GPU: those of which it has a copy are read there, and those that have come
 * back are copied to stay. What goes wrong here costs the copies and nothing else. Under offload.c's lock, with the
 * device entered.
 */
#ifndef TB_KEEP_H
#define TB_KEEP_H

#include "cache/cache.h"
#include "pipeline/device.h"
#include "pipeline/staging.h"
#include "plan/layout.h"

/* The program has written to what was kept: nothing of the call is committed, and it is to be computed anew. No CUDA
 * error. */
#define TB_REFUTED ((CUresult)-3)

/* Of A, of B: whether there is a copy about which not all is asked yet, and what this call asks. */
struct tb_keep_later {
  bool is[2];
  struct tb_asking asking[2];
};

/* A thread that asks CUDA about copies of A and of B, which are watched and come to be meanwhile. */
struct tb_keep_asker {
  struct tb_pool *pool;
  struct tb_asking asking[2];
  int place;        /* of the pool's job; 0: there is none */
  atomic_bool over; /* it is to stop */
};

/* A call as the GPU computes it. */
struct tb_keep {
  struct tb_call call; /* operands that are kept stand where their copies are */
  struct tb_ways ways;
  enum tb_proof proof[2];         /* of A, of B */
  double saved_bytes;             /* that need not go up */
  double made_bytes;              /* that have gone up, to stay */
  struct tb_question question[2]; /* of copies that are not proven yet */
  struct tb_keep_later later;     /* copies that will be used in later calls */
  struct tb_kept *whole[2];       /* whose copies are A and B, if they are all of them; NULL: none's */
  struct tb_planes planes[2];     /* of these; at 0: there are none */
  struct tb_kept *coming[2];      /* copies of A and B, as they come to be; NULL: there will be none */
  int64_t come_bytes[2];          /* of these, in the copies */
  struct tb_keep_asker asker;
  struct tb_kept *result; /* C's copy, as it comes to be; NULL: there will be none */
  int64_t copied_bytes;   /* of C, to there */
  bool may_stay;          /* C could, and was noted */
  CUresult failed;        /* of a call that several GPUs share: this one hangs since it has begun */
  enum { TB_ALL_PROVEN, TB_NOT_ASKED, TB_ASKED } doubt;
};

/* Finds what there is of a call's operands, and proves it. may_wait: what the kernel is to be asked may be left to
 * tb_keep_confirm. CUDA_ERROR_TIMEOUT: the device hangs. */
CUresult tb_keep_begin(struct tb_keep *keep, struct tb_device *device, const struct tb_call *call, struct tb_ways ways,
                       bool may_wait);

/* One of several GPUs that share a call, with its part of it; `found` and what is below are its own. */
struct tb_keep_member {
  struct tb_keep *keep;
  struct tb_device *device;
  struct tb_call call;
  struct tb_ways ways;
  struct tb_cached found[2];
  struct tb_kept *made[2];
  bool looks, filled[2];
};

/* The same for all members, of one thread, with none of the devices entered: all is proven on return. `common`: what
 * all parts have the whole of; it is used on all of them, or on none. `drivers`: a thread for each, where copies are
 * made. What a member's device failed at is in its keep. */
enum tb_keep_common { TB_KEEP_COMMON_A, TB_KEEP_COMMON_B };
void tb_keep_begin_shared(struct tb_keep_member members[], int count, enum tb_keep_common common,
                          struct tb_pool *drivers);

/* ---- keep_coming.c: an operand that is to stay, of a product that brings it up ---- */

static inline bool tb_keep_is_coming(const struct tb_keep *keep) {
  return keep->coming[TB_OF_A] != NULL || keep->coming[TB_OF_B] != NULL;
}

/* Whether a product that is computed by this plan brings up each part of an operand once. */
bool tb_keep_comes_once(const struct tb_call *call, const struct tb_plan *plan);

/* Else, or where there is no memory for both a copy and what the product brings up, the copies go up ahead of it, and
 * are what it is computed from. `call` and `ways`: without them. */
CUresult tb_keep_bring_up(struct tb_keep *keep, struct tb_device *device, const struct tb_call *call,
                          struct tb_ways ways);

/* Before the product that brings them up begins, and again behind a pause: of copies that are watched CUDA is asked
 * meanwhile. To pause takes until who asks stops, or is back from a task of others that it helped with. */
void tb_keep_begin_asker(struct tb_keep *keep, struct tb_device *device);
void tb_keep_pause_asker(struct tb_keep *keep);

/* A panel of an operand that is coming is up behind what is in the stream, where it is to be in the copy, too. */
void tb_keep_copy_panel(struct tb_keep *keep, bool of_b, const struct tb_upload *panel, CUstream stream);

/* All has been computed and committed: what is whole is a copy from now on. CUDA_ERROR_TIMEOUT: the device hangs. */
CUresult tb_keep_end_coming(struct tb_keep *keep, struct tb_device *device);

/* ---- keep_planes.c: what need not be packed again ---- */

/* Before a product is computed by this plan; and when it is, all of it, and nothing is under way any more. */
void tb_keep_begin_planes(struct tb_keep *keep, struct tb_device *device, const struct tb_plan *plan);
void tb_keep_end_planes(struct tb_keep *keep);

/* Those of the call's own copies go, for its memory is wanted; before they are read. False: there are none, or other
 * calls have the copies, too. */
bool tb_keep_drop_planes(struct tb_keep *keep, struct tb_device *device);

/* ---- keep_result.c: what one GPU computes of a C in ordinary memory, with beta = 0 ---- */

/* The tile of C that this is, with nothing more to come, is to be in C's copy, too: behind what is in the stream. */
void tb_keep_copy_tile(struct tb_keep *keep, struct tb_block tile, struct tb_matrix d, CUstream stream);

/* All of C is committed, and nothing is under way any more: it may be a later call's operand. CUDA_ERROR_TIMEOUT: the
 * device hangs. */
CUresult tb_keep_end_result(struct tb_keep *keep, struct tb_device *device);

/* C's copy is not to be: its memory is wanted. */
void tb_keep_drop_result(struct tb_keep *keep, struct tb_device *device);

/* Proves the rest beside other work: CUDA_ERROR_NOT_READY until that is done; TB_REFUTED. Nothing may be committed
 * before. It is to be called first when threads have little else to do. */
CUresult tb_keep_confirm(struct tb_keep *keep, struct tb_device *device);

/* When there is nothing else to do: asks CUDA about some pages of a copy that will be used later. False: there is none.
 */
bool tb_keep_ask(struct tb_keep *keep);

/* What became of an operand, for those who want to know. */
static inline enum tb_proof tb_keep_proof(const struct tb_keep *keep, bool of_b) {
  return keep->proof[of_b] == TB_NOT_KEPT && keep->later.is[of_b] ? TB_KEPT_LATER : keep->proof[of_b];
}

/* Nothing of the call's is under way on the GPU, nor will be, by what was found. */
void tb_keep_end(struct tb_keep *keep, struct tb_device *device);

/* As if nothing was kept, nor could be; and that with the memory of what was. */
void tb_keep_nothing(struct tb_keep *keep, const struct tb_call *call, struct tb_ways ways);
void tb_keep_give_up(struct tb_keep *keep, struct tb_device *device, const struct tb_call *call, struct tb_ways ways);

/* Whether launches write to what others may be handed when the call ends: a copy that comes to be, or planes. */
static inline bool tb_keep_is_written(const struct tb_keep *keep) {
  bool packs = false;
  for (int of_b = 0; of_b < 2; of_b++) packs = packs || (keep->planes[of_b].at != 0 && !keep->planes[of_b].packed);
  return packs || keep->result != NULL || tb_keep_is_coming(keep);
}

static inline bool tb_keep_any(const struct tb_keep *keep) {
  return keep->proof[0] != TB_NOT_KEPT || keep->proof[1] != TB_NOT_KEPT;
}

#endif
