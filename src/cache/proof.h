/* SPDX-License-Identifier: BSD-3-Clause */
/* What became of an operand that may be kept on the GPU. Pure. */
#ifndef TB_PROOF_H
#define TB_PROOF_H

#include <stdbool.h>

enum tb_proof {
  TB_NOT_KEPT,    /* it went up as any other */
  TB_KEPT_LATER,  /* so it did, and there is a copy about which not all is asked yet */
  TB_KEPT_ANEW,   /* it went up, and stays */
  TB_BY_HASH,     /* it was there, and all its bytes were looked at */
  TB_BY_TRACKING, /* it was there, and the kernel says that nobody wrote to it */
  TB_MENDED,      /* it was there, and the few pieces that somebody wrote to went up */
  TB_GROWN,       /* its beginning was there, and the rest went up */
};

static inline bool tb_proof_is_kept(enum tb_proof proof) { return proof >= TB_BY_HASH; }

/* Whether A's or B's is this one. */
static inline bool tb_proof_is_any(const enum tb_proof proof[2], enum tb_proof wanted) {
  return proof[0] == wanted || proof[1] == wanted;
}

/* "kept (hash)" and so on, for the verbose line. */
static inline const char *tb_proof_text(enum tb_proof proof) {
  if (proof == TB_MENDED) return "kept (mended)";
  if (proof == TB_GROWN) return "kept (in part)";
  if (proof == TB_KEPT_LATER) return "kept (not proven yet)";
  return proof == TB_BY_TRACKING ? "kept (tracked)" : proof == TB_BY_HASH ? "kept (hash)" : "kept (anew)";
}

#endif
