/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cache knows of operands. For this room. */
#ifndef TB_CACHE_INTERNAL_H
#define TB_CACHE_INTERNAL_H

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
  bool chosen;                /* by the program, when it was seen last */
  uint64_t seen, seen_before; /* the latest calls that had it; of a copy: that were handed it */
  atomic_uint users;          /* whose calls under way have the copy: a bit for each */
};

/* Of a call: A and B. */
enum { HANDED_MOST = 2 };

struct tb_cache {
  bool may_track, hash_pays;
  int unused; /* copies that have not been used, but for some for each that was */
  uint64_t call;
  const struct tb_cached *other; /* of the operand that is looked for, on another GPU; or NULL */
  _Atomic int64_t bytes;
  struct tb_sighting *handed[TB_CACHE_USERS][HANDED_MOST]; /* each user's own, but for what it points to */
  int next;                                                /* the place that is used again next */
  const char *at[OPERANDS_MOST];  /* of each, apart from the rest because it is what is looked for; NULL: no operand */
  const char *end[OPERANDS_MOST]; /* of each that has a copy, else NULL */
  struct tb_sighting sighting[OPERANDS_MOST];
};

/* ---- worth.c: which operands are worth a copy ---- */

/* Whether all bytes may be looked at in each call: then it is kept where nobody can watch, too. */
static inline bool tb_worth_hash(const struct tb_cache *cache, const struct tb_sighting *s) {
  return cache->hash_pays || s->chosen;
}

/* An operand without a copy is seen. True: it is worth one. */
bool tb_worth_see(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand);

/* There is one, before it is filled; it was used for `operand`, which it is or has; it is none any more, or could not
 * be had. */
void tb_worth_made(struct tb_cache *cache, struct tb_sighting *s);
void tb_worth_used(struct tb_cache *cache, struct tb_sighting *s, const struct tb_stored *operand);
void tb_worth_end(const struct tb_cache *cache, struct tb_sighting *s);

/* Whether there is no use in proving a copy: it has changed, as far as a sample tells, or is written too often. */
bool tb_worth_no_proof(const struct tb_cache *cache, const struct tb_sighting *s, const struct tb_stored *operand);

#endif
