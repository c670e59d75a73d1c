/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the program has registered any page of what the kernel watches with CUDA. The driver is asked about each
 * page, 0.05 to 0.1 us each, and by one thread, for several hold each other up: 20 ms for the operands of 8192 cubed.
 * So it is asked beside products, in the time in which who minds the link waits, of one call after another.
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
#define ASKED_IN_A_TURN_BYTES (TB_ASKED_AT_ONCE_BYTES / 32)

static void ask(struct tb_asking *asking, uintptr_t bytes) {
  struct tb_tracked part = {.start = asking->at, .end = asking->end};
  if (part.end - part.start > bytes) part.end = part.start + bytes;
  asking->found = tb_writers_have_cudas(part);
  asking->at = part.end;
}

bool tb_asking_begin(struct tb_asking *asking, struct tb_kept *kept) {
  *asking = (struct tb_asking){.kept = NULL};
  if (!kept->unasked || kept->has_cudas || kept->asked_end >= kept->tracked.end) return false;
  *asking =
      (struct tb_asking){.kept = kept, .number = kept->tracked.number, .at = kept->asked_end, .end = kept->tracked.end};
  return true;
}

void tb_asking_go_on(struct tb_asking *asking) { ask(asking, ASKED_IN_A_TURN_BYTES); }

void tb_asking_note(struct tb_asking *asking) {
  struct tb_kept *const kept = asking->kept;
  const bool counts = kept->unasked && kept->tracked.number == asking->number; /* else it is not watched since then */
  if (counts && asking->found) kept->has_cudas = true;
  if (counts && !asking->found && asking->at > kept->asked_end) kept->asked_end = asking->at;
  if (!counts || asking->found || asking->at >= asking->end) asking->kept = NULL;
}

bool tb_kept_is_asked_about(struct tb_kept *kept) {
  struct tb_asking asking;
  if (tb_asking_begin(&asking, kept)) {
    ask(&asking, TB_ASKED_AT_ONCE_BYTES);
    tb_asking_note(&asking);
  }
  return kept->has_cudas || kept->asked_end >= kept->tracked.end;
}
