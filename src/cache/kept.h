/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One operand's copy on a GPU, and the proof that it still has the bytes of the program's memory. Under offload.c's
 * lock.
 */
#ifndef TB_KEPT_H
#define TB_KEPT_H

#include <stdatomic.h>

#include "cache/hash.h"
#include "cache/proof.h"
#include "cache/track.h"
#include "process/pool.h"

/* How an operand is packed for the tensor cores: which one it is, whether its stored columns run along k, its sides and
 * k, and the sides of a panel and the k of a span, of which each is packed apart. */
struct tb_planes_shape {
  bool of_b, along_k;
  int64_t sides, k, panel_sides, span_k;
};

/* All panels of a copy, packed, one behind the other. */
struct tb_kept_planes {
  struct tb_planes_shape shape;
  uint64_t at; /* on the GPU; 0: there are none */
  int64_t bytes;
  atomic_int others;  /* uses of the copy, one after another, by which it was to be packed otherwise */
  atomic_bool packed; /* they are what is in the copy */
};

/* Cells that may have other bytes than were copied, in runs, in order. */
struct tb_stale {
  int runs;
  struct {
    int64_t first, count;
  } run[TB_TRACK_RUNS_MOST];
};

struct tb_kept {
  struct tb_stored stored; /* what it is a copy of */
  struct tb_cells cells;
  struct tb_digest *digests; /* of all cells, as they were copied */
  bool digested;             /* else there are none: it was watched before it was copied */
  uint64_t copy;             /* on the GPU; 0: there is none */
  int64_t copy_pitch_bytes, copy_bytes;
  struct tb_kept_planes planes;
  struct tb_tracked tracked;
  bool unasked;        /* while it is tracked: CUDA is not asked about all of it, so that this proves nothing yet */
  bool has_cudas;      /* and has some of it, */
  uintptr_t asked_end; /* or nothing before here */
  struct tb_digest edges[2]; /* while it is tracked: of what lies before its whole pages, and behind */
  int track_uses;            /* proofs by the kernel's word since it is tracked */
  int track_failures;        /* times, one after another, that it was written too soon for tracking to pay */
  struct tb_stale *stale;    /* what is to go up before it is used; NULL: nothing */
  int mends;                 /* so often, less one for each time that nothing was written since */
  int asked_first;           /* proofs for which the kernel is asked before the call begins, for it was mended */
  bool unwatchable;          /* it cannot be tracked, where it lies */
  bool replaced;             /* what was tracked was not written, but gave way to another mapping */
  struct tb_tracked probe;   /* with a copy or without: a page of it */
  int proofs;                /* by the hash, since it was made or written */
  bool is_result;            /* of ours: watched a proof later than an operand */
  bool proven;               /* it was, since it was made */
  atomic_bool awaited;       /* one that is not whole yet: it is no copy */
};

/* Cells that were found to have other bytes than were copied, in any order; of more than there is room for the number
 * alone. */
struct tb_differing {
  atomic_int count;
  int64_t cell[TB_TRACK_RUNS_MOST];
};

/* Whether nobody has written to a part of what is kept, as a question to the kernel, or whether its bytes have their
 * digests: it takes a while, and may be asked beside other work. */
struct tb_question {
  struct tb_kept *kept;    /* NULL: there is no question */
  bool by_hash;            /* then the cells, else the pages */
  int64_t first, count;    /* cells */
  uint64_t number;         /* under which its pages were tracked then */
  struct tb_tracked pages; /* those of the part that are */
  bool whole;              /* it is about all that is kept, of which therefore anything may be read */
  bool edges[2];           /* the part has some of what lies before these, or behind */
  uintptr_t each;          /* bytes of pages, or cells, that are a task's */
  uint64_t job;            /* of the pool */
  atomic_bool written;
  struct tb_differing *differing; /* to be found, all of them; NULL: one is enough */
};

/* Uses that make up for a copy, the look at all of its bytes and their being watched, where nobody has taken a fault
 * for that. */
#define TB_REPLACED_USES_ENOUGH 4

/* Pieces of an operand for threads: tasks of so many bytes, or more, and at most as many as a job may have. */
#define TB_PROOF_TASK_BYTES ((int64_t)256 << 10)

/* What a proof may do: track what can be tracked and is worth it; look at all bytes each time, and not only when
 * tracking begins; leave a few pieces to be mended; and CUDA to be asked beside the call. */
struct tb_prove {
  bool may_track, hash_pays, may_mend, asks_later;
};

/*
 * Whether `part`, some of what is kept, has the bytes that were copied; TB_NOT_KEPT: it has others, or it cannot be
 * told. TB_MENDED: all but kept->stale has, which the caller brings up, and digests: tb_kept_end_mending.
 */
enum tb_proof tb_kept_prove(struct tb_kept *kept, const struct tb_stored *part, struct tb_prove how,
                            struct tb_pool *pool);

/* ---- watch.c: how the kernel begins to watch, and what CUDA is to be asked about it ---- */

/* Before all bytes are looked at. kept->tracked is none where it cannot. */
void tb_kept_begin_watch(struct tb_kept *kept);

/* It has got more columns, which are watched as well: before they are copied. False: they cannot be. CUDA is asked
 * behind that, too. */
bool tb_kept_extend_watch(struct tb_kept *kept);

/* Of what is tracked: digests what lies in pages of others, at its two ends, and whether that is the same. */
void tb_kept_digest_edges(struct tb_kept *kept);
bool tb_kept_has_same_edge(const struct tb_kept *kept, bool behind);
bool tb_kept_has_same_edges(const struct tb_kept *kept);

/* Of one call, from a page on. */
struct tb_asking {
  struct tb_kept *kept; /* NULL: nothing is to be asked any more */
  uint64_t number;      /* under which its pages were tracked then */
  uintptr_t at, end;
  int turns;  /* since it was noted */
  bool found; /* CUDA has one of those before `at` */
};

/* What is left to be asked. False: nothing is. */
bool tb_asking_begin(struct tb_asking *asking, struct tb_kept *kept);

/* Asks about the next 64 pages; not inside, with the GPU's context current. False: nothing is left. */
bool tb_asking_go_on(struct tb_asking *asking);

/* Whether what was found is to be noted now; and that, inside: it goes for the copy, if it is watched as it was. */
bool tb_asking_wants_note(const struct tb_asking *asking);
void tb_asking_note(struct tb_asking *asking);

/* Whether it is known if CUDA has any of it, or of so much as is asked about by the way. */
bool tb_kept_is_asked_about(struct tb_kept *kept);

/* ---- */

/* Whether a proof that another GPU's copy got in this call, of some of it, goes for this copy, too: it has the same
 * bytes, as its digests say, or is watched, too, and was never protected anew since. */
bool tb_kept_is_proven_by(struct tb_kept *kept, const struct tb_kept *other, enum tb_proof proof);

/* The question whether `part` is what was copied. False: the kernel does not watch it. */
bool tb_kept_question(struct tb_question *question, struct tb_kept *kept, const struct tb_stored *part);

/* The same by all its bytes. False: it is no result, or not made of whole cells; or the kernel watches it, or is to. */
bool tb_kept_question_by_hash(struct tb_question *question, struct tb_kept *kept, const struct tb_stored *part,
                              bool may_track);

/* Asks, by all threads of the pool, and whether they have; not inside. What is asked speaks for the bytes as they are
 * between the two. */
void tb_question_ask(struct tb_question *question, struct tb_pool *pool);
bool tb_question_is_asked(const struct tb_question *question, const struct tb_pool *pool);

/* The answer, when it is asked. False: somebody has written, or nobody can tell any more; it is not tracked then. */
bool tb_kept_answer(struct tb_question *question);

/* The kernel watches from now on, before it is copied, so that no proof by its bytes is wanted, nor digests of these;
 * if CUDA has none of it, which takes a while to find out. False: it cannot, or it was written too often. */
bool tb_kept_watch(struct tb_kept *kept);
bool tb_kept_has_cudas(const struct tb_kept *kept, uintptr_t from); /* in what is watched from an address on */

/* Whether anything can be tracked in this process. */
bool tb_kept_may_be_watched(void);

/* Whether it can be told, whatever the kernel says: of whole cells. */
bool tb_kept_can_prove(const struct tb_kept *kept, const struct tb_stored *part);

/* From now on the kernel is asked about one page of it, with a copy or without; and whether that was written, as far as
 * can be told: a program that writes an operand before each call may write what was there. */
void tb_kept_begin_probe(struct tb_kept *kept);
bool tb_kept_probe_is_written(const struct tb_kept *kept);

/* ---- mend.c: a copy whose program's memory was written in a few places ---- */

/* Of one all of which is an operand: finds these, has the kernel watch them again, and notes down the cells in
 * kept->stale. False: there are too many, or it cannot be told which; kept->stale is NULL then. */
bool tb_kept_begin_mending(struct tb_kept *kept);

/* The same by the cells that were found when the kernel had begun to watch. */
bool tb_kept_begin_mending_cells(struct tb_kept *kept, struct tb_differing *differing);

/* It is a copy of these columns from now on, of which it had the first ones, proven, and has room for all: the rest is
 * in kept->stale, too, which there is, and watched where these were and it can be. False: it has no digests, either. */
bool tb_kept_grow(struct tb_kept *kept, const struct tb_stored *all);

/* Whether it takes less than to bring all up: not for ever where it is small. */
bool tb_kept_mending_pays(const struct tb_kept *kept);

/* Whether there are few enough, as far as the kernel tells now. */
bool tb_kept_may_be_mended(const struct tb_kept *kept);

/* They are up; or what is up is not to be used, and the copy ends. */
void tb_kept_end_mending(struct tb_kept *kept);

/* The kernel is not asked about it any more. */
void tb_kept_forget_pages(struct tb_kept *kept);

/* ---- results ---- */

/* What it is a copy of is about to be written by a call of ours, which gives the copy the same bytes. */
void tb_kept_begin_result(struct tb_kept *kept);

/* An operand's copy that comes to be beside a call that brings it up, and is whole. */
static inline void tb_kept_await(struct tb_kept *kept) {
  atomic_store_explicit(&kept->awaited, true, memory_order_release);
}
static inline void tb_kept_is_whole(struct tb_kept *kept) {
  atomic_store_explicit(&kept->awaited, false, memory_order_release);
}

static inline bool tb_kept_is_awaited(const struct tb_kept *kept) {
  return atomic_load_explicit(&kept->awaited, memory_order_acquire);
}

#endif
