/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cache knows of operands. For this room. */
#ifndef TB_CACHE_INTERNAL_H
#define TB_CACHE_INTERNAL_H

#include <stddef.h>

#include "cache/cache.h"

/* Operands that are known, with a copy or without. A large model has some hundred matrices. */
#define OPERANDS_MOST 1024

/* An operand that was seen. */
struct tb_sighting {
  struct tb_kept kept;
  struct tb_digest glance, sample;
  bool sampled;               /* at the latest sight; else there is a glance alone */
  int sights;                 /* one after another that had this sample */
  int uses;                   /* of the copy */
  double saved_bytes;         /* that did not go up, by these */
  int failures;               /* copies, one after another, that were of no use */
  bool returns;               /* the latest was, and then the memory was given back: so will be what comes there next */
  bool chosen;                /* by the program, when it was seen last */
  int result_kind;            /* of a copy of a result, plus 1; 0: an operand's, or none */
  bool refuted;               /* one that was used, in vain */
  int grown_uses;             /* since it has got more of its operand, plus 1; 0: it has not */
  bool has_no_room;           /* for more of it */
  uint64_t seen, seen_before; /* the latest calls that had it; of a copy: that were handed it */
  atomic_uint users;          /* whose calls under way have the copy: a bit for each */
};

/* Of a call: A, B and its result. */
enum { HANDED_RESULT = 2, HANDED_MOST };

/* Results of one shape, by products of one k: a place in the program, nearly. */
struct tb_result_kind {
  int64_t column_bytes, columns, pitch_bytes, k;
  bool chains;  /* one was an operand of a later call */
  int proven;   /* that were unchanged then, one after another, as far as a few lines tell */
  int failures; /* copies of them, less those that were used */
};

/* The latest results, by where they lie. */
struct tb_result_note {
  struct tb_stored stored;
  int kind;
  bool fresh;              /* it was no operand yet */
  int idle;                /* times, one after another, that one which lay there was none */
  bool glanced;            /* and then: */
  struct tb_digest glance; /* when it was committed */
};

#define RESULT_KINDS 16
#define RESULT_NOTES 32

struct tb_results {
  struct tb_result_kind kind[RESULT_KINDS];
  struct tb_result_note note[RESULT_NOTES];
  int next_kind, next_note; /* the places that are used again next */
};

struct tb_cache {
  bool may_track, hash_pays, results_pay, may_mend, asks_later;
  int unused;        /* copies that have not been used, but for some for each that was */
  int grown_in_vain; /* that had grown and were written soon, but for some for each that was not */
  uint64_t call;
  const struct tb_cached *other; /* of the operand that is looked for, on another GPU; or NULL */
  _Atomic int64_t bytes;
  struct tb_kept parked; /* the memory of a copy that is none any more, until it is another's; copy 0: there is none */
  struct tb_sighting *handed[TB_CACHE_USERS][HANDED_MOST]; /* each user's own, but for what it points to */
  int next;                                                /* the place that is used again next */
  const char *at[OPERANDS_MOST];  /* of each, apart from the rest because it is what is looked for; NULL: no operand */
  const char *end[OPERANDS_MOST]; /* of each that has a copy, else NULL */
  struct tb_sighting sighting[OPERANDS_MOST];
  struct tb_results results;
};

static inline struct tb_sighting *tb_sighting_of(struct tb_kept *kept) {
  return (struct tb_sighting *)((char *)kept - offsetof(struct tb_sighting, kept));
}

static inline bool tb_is_in_use(const struct tb_sighting *s) { return atomic_load(&s->users) != 0; }

/* Where a call's next operand stands among what it was handed; and hands it a copy. */
static inline int tb_cache_next_place(const struct tb_cache *cache, int user) { return cache->handed[user][0] != NULL; }
void tb_cache_hand_out(struct tb_cache *cache, int user, int place, struct tb_sighting *s);

/* Of copies that the program has chosen, or of the others, gives back the one that was used longest ago, if that was
 * before this call, and none under way has it. False: there is none. */
bool tb_cache_give_back_before(struct tb_cache *cache, uint64_t call, bool chosen);

/* A copy's planes are given back; unless `frees` they are the driver's to take. */
void tb_planes_forget(struct tb_cache *cache, struct tb_sighting *s, bool frees);

/* Inside: gives back those of one copy that no call under way has. False: there are none. */
bool tb_planes_give_back_one(struct tb_cache *cache);

/* Whether `part` lies in `all`, as a rectangle of it. */
bool tb_cache_has_part(const struct tb_stored *all, const struct tb_stored *part);

/* ---- worth.c: which operands are worth a copy ---- */

/* Whether all bytes may be looked at in each call: then it is kept where nobody can watch, too. */
static inline bool tb_worth_hash(const struct tb_cache *cache, const struct tb_sighting *s) {
  return cache->hash_pays || s->chosen || (s->result_kind != 0 && cache->results_pay);
}

/* An operand without a copy is seen. True: it is worth one. */
bool tb_worth_see(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand);

/* There is one, before it is filled; it was used for `operand`, which it is or has; it is none any more, or could not
 * be had. */
void tb_worth_made(struct tb_cache *cache, struct tb_sighting *s);
void tb_worth_used(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand);
void tb_worth_end(struct tb_cache *cache, struct tb_sighting *s);

/* Whether there is no use in proving a copy: it has changed, as far as a sample tells, or is written too often. */
bool tb_worth_no_proof(const struct tb_cache *cache, const struct tb_sighting *s, const struct tb_stored *operand);

/* The lines of an operand of which nothing much is expected. */
#define TB_GLANCE_LINES 4

/* ---- room.c ---- */

/* Gives copies back until so many bytes more may be had, if that can be. */
bool tb_room_make(struct tb_cache *cache, const struct tb_sighting *s, int64_t bytes, int64_t *free_bytes,
                  int64_t limit_bytes);

/* A copy that is none any more: its memory is for the next one of the same sizes; and the end of that, if there is any.
 * Unless `frees` it is the driver's to take. */
void tb_room_park(struct tb_cache *cache, struct tb_sighting *s);
bool tb_room_end_parked(struct tb_cache *cache, bool frees);

/* ---- grow.c: operands of which a copy has the beginning ---- */

/* A copy that may get the rest of an operand, and what it has of that, which is to be proven first; NULL: there is
 * none. And whether that is worth it for one that was not seen before; others wait as for a copy of their own. */
struct tb_sighting *tb_grow_find(struct tb_cache *cache, const struct tb_stored *operand, struct tb_stored *beginning);
bool tb_grow_may_at_once(const struct tb_cache *cache, const struct tb_sighting *s);

/* Where one was seen without a copy that had fewer columns and looks as it did: it is the operand's place from now on.
 * NULL: there is none. */
struct tb_sighting *tb_grow_sighting(struct tb_cache *cache, const struct tb_stored *operand);

/* A copy, which may have grown, is used; or was written. */
void tb_grow_used(struct tb_cache *cache, struct tb_sighting *s);
void tb_grow_refuted(struct tb_cache *cache, struct tb_sighting *s);

/* ---- results.c: which results are worth one ---- */

/* A call is about to write one, of products of this k. Returns its kind, plus 1, if it is worth a copy; else 0. */
int tb_results_begin(struct tb_cache *cache, const struct tb_stored *c, int64_t k);

/* A call has an operand: a result, perhaps. */
void tb_results_look(struct tb_cache *cache, const struct tb_stored *operand);

/* A copy is none any more, or could not be had. */
void tb_results_end(struct tb_cache *cache, const struct tb_sighting *s);

#endif
