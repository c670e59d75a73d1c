/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the kernel begins to watch a copy's memory, and what CUDA is asked about it. The driver is asked about each page,
 * 0.05 to 0.1 us each, and by one thread, for several hold each other up: 20 ms for the operands of 8192 cubed. So it
 * is asked beside products, in the time in which who minds the link waits, of one call after another.
 *
 *   pages are protected -> who else writes unseen is looked for -> CUDA is asked -> all bytes are looked at
 *
 * In this order the answers go for the time since: memory that is registered when CUDA is asked is found; what wrote to
 * it and had let it go before shows in the bytes; and who registers it later takes a fault.
 */
#include "base/integers.h"
#include "cache/kept.h"
#include "cache/writers.h"

/* In a look, by the way: 0.1 to 0.2 ms. */
#ifndef TB_ASKED_AT_ONCE_BYTES /* a build for fuzz_kept has less */
#define TB_ASKED_AT_ONCE_BYTES ((uintptr_t)8 << 20)
#endif
/* Of one turn in which there is nothing else to do: 3 to 6 us. */
#ifndef TB_ASKED_IN_A_TURN_BYTES
#define TB_ASKED_IN_A_TURN_BYTES ((uintptr_t)256 << 10)
#endif
/* Turns after which what was found is noted, for which nobody else may be inside. */
#define TURNS_NOTED_AT_ONCE 16

/* ---- pages ---- */

/* Memory between the columns is watched, too, where the columns are not so far apart that it is most of all. */
#define WATCHED_TIMES 2

static bool is_too_wide(const struct tb_stored *s) {
  return tb_stored_span_bytes(s) > WATCHED_TIMES * s->columns * s->column_bytes;
}

/* Before all bytes are looked at: what is written from then on shows. To protect pages in vain takes as long as to
 * digest them, so it is looked around first; CUDA is asked behind that. */
void tb_kept_begin_watch(struct tb_kept *kept) {
  const struct tb_stored *const s = &kept->stored;
  kept->replaced = false;
  kept->tracked = tb_track_pages(tb_stored_start(s), tb_stored_end(s));
  if (is_too_wide(s) || !tb_writers_may_ask()) return;
  if (!tb_writers_seem_to_fault()) return;
  struct tb_tracked mapping;
  if (!tb_writers_find_mapping(kept->tracked, &mapping)) mapping = kept->tracked; /* several are no one's to move */
  if (!tb_track_begin(&kept->tracked, mapping)) return;
  if (!tb_writers_fault_but_cuda(&kept->tracked, 1)) tb_kept_forget_pages(kept);
  kept->unasked = kept->tracked.number != 0;
  kept->asked_end = kept->tracked.start;
  tb_kept_digest_edges(kept);
}

/* ---- edges ---- */

/* Of what is kept and in no page of its own: before its whole pages, and behind. */
static struct tb_digest hash_edge(const struct tb_kept *kept, bool behind) {
  const struct tb_tracked *const pages = &kept->tracked;
  return behind ? tb_hash_between(&kept->stored, pages->end, tb_stored_end(&kept->stored))
                : tb_hash_between(&kept->stored, tb_stored_start(&kept->stored), pages->start);
}

bool tb_kept_has_same_edge(const struct tb_kept *kept, bool behind) {
  const struct tb_digest now = hash_edge(kept, behind);
  return tb_digests_are_equal(&now, &kept->edges[behind]);
}

bool tb_kept_has_same_edges(const struct tb_kept *kept) {
  return tb_kept_has_same_edge(kept, false) && tb_kept_has_same_edge(kept, true);
}

void tb_kept_digest_edges(struct tb_kept *kept) {
  kept->edges[0] = hash_edge(kept, false);
  kept->edges[1] = hash_edge(kept, true);
}

/* The edge behind what was watched is among the pages now, and there is another one. */
bool tb_kept_extend_watch(struct tb_kept *kept) {
  const uintptr_t end = tb_track_pages(tb_stored_start(&kept->stored), tb_stored_end(&kept->stored)).end;
  const struct tb_tracked more = {kept->tracked.end, end, 0}, all = {kept->tracked.start, end, 0};
  struct tb_tracked mapping;
  if (is_too_wide(&kept->stored) || !tb_writers_may_ask()) return false;
  if (!tb_writers_find_mapping(all, &mapping)) mapping = more;
  if (!tb_track_extend(&kept->tracked, end, mapping)) return false;
  if (more.start < more.end && !tb_writers_fault_but_cuda(&more, 1)) return false;
  kept->edges[1] = hash_edge(kept, true);
  return true;
}

/* ---- CUDA ---- */

static void ask(struct tb_asking *asking, uintptr_t bytes) {
  struct tb_tracked part = {.start = asking->at, .end = asking->end};
  if (part.end - part.start > bytes) part.end = part.start + bytes;
  asking->found = tb_writers_have_cudas(part);
  asking->at = part.end;
  asking->turns++;
}

bool tb_asking_begin(struct tb_asking *asking, struct tb_kept *kept) {
  *asking = (struct tb_asking){.kept = NULL};
  if (!kept->unasked || kept->has_cudas || kept->asked_end >= kept->tracked.end) return false;
  *asking =
      (struct tb_asking){.kept = kept, .number = kept->tracked.number, .at = kept->asked_end, .end = kept->tracked.end};
  return true;
}

static bool is_done(const struct tb_asking *asking) { return asking->found || asking->at >= asking->end; }

bool tb_asking_go_on(struct tb_asking *asking) {
  if (asking->kept == NULL || is_done(asking)) return false;
  ask(asking, TB_ASKED_IN_A_TURN_BYTES);
  return true;
}

bool tb_asking_wants_note(const struct tb_asking *asking) {
  return asking->kept != NULL && (is_done(asking) || asking->turns >= TURNS_NOTED_AT_ONCE);
}

void tb_asking_note(struct tb_asking *asking) {
  struct tb_kept *const kept = asking->kept;
  if (kept == NULL) return;
  const bool counts = kept->unasked && kept->tracked.number == asking->number; /* else it is not watched since then */
  if (counts && asking->found) kept->has_cudas = true;
  if (counts && !asking->found && asking->at > kept->asked_end) kept->asked_end = asking->at;
  if (!counts || is_done(asking)) asking->kept = NULL;
  asking->turns = 0;
}

bool tb_kept_is_asked_about(struct tb_kept *kept) {
  struct tb_asking asking;
  if (tb_asking_begin(&asking, kept)) {
    ask(&asking, TB_ASKED_AT_ONCE_BYTES);
    tb_asking_note(&asking);
  }
  return kept->has_cudas || kept->asked_end >= kept->tracked.end;
}
