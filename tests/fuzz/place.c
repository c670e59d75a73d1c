/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands of call.h in memory. */
#include <string.h>

#include "call.h"

#define GUARD 64 /* parts behind the last operand of a block */

static struct fuzz_block blocks[3][FUZZ_KINDS];

/* Leaves every so many k of A. */
static void thin_out(char *image, const struct fuzz_call *call) {
  const bool along_k = call->p.row_major == ((call->p.trans_a | 0x20) == 'n'); /* ASCII lower case */
  const int64_t bytes = tst_parts(call->symbol->type) * tst_part_bytes(call->symbol->type);
  for (int64_t line = 0; line < call->lines[0]; line++)
    for (int64_t i = 0; i < call->len[0]; i++)
      if ((along_k ? i : line) % call->stride_k != 0)
        memset(image + (line * call->p.lda + i) * bytes, 0, (size_t)bytes);
}

/* ---- places ---- */

/* In parts. */
static int64_t extent(const struct fuzz_call *call, int which, int64_t ld) {
  const bool empty = call->lines[which] == 0 || call->len[which] == 0;
  return empty ? 0 : ((call->lines[which] - 1) * ld + call->len[which]) * tst_parts(call->symbol->type);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Offsets into blocks, of which operand i has number owner[i]; the size of each block, guards included. In parts. */
static void lay_out(const struct fuzz_call *call, const int64_t ld[3], int owner[3], int64_t at[3], int64_t size[3]) {
  int64_t end = 0, first = 0;
  memset(size, 0, 3 * sizeof *size);
  for (int i = 0; i < 3; i++) {
    owner[i] = call->layout == FUZZ_APART || (call->layout == FUZZ_A_OVER_B && i == 2) ? i : 0;
    at[i] = call->lead[i];
    if (call->layout == FUZZ_A_OVER_B && i == 1) at[i] = at[0] + (call->lead[1] % 2 ? 0 : call->lead[1]);
    if (call->layout == FUZZ_ONE_BLOCK) at[i] = end + call->lead[i];
    if (call->layout == FUZZ_SUBMATRICES) at[i] = call->lead[0] + first;
    first += call->len[i] * tst_parts(call->symbol->type);
    end = at[i] + extent(call, i, ld[i]);
    size[owner[i]] = larger(size[owner[i]], end + (call->kind[i] == FUZZ_FENCED_BEHIND ? 0 : GUARD));
  }
}

void fuzz_place(struct fuzz_operands *x, const struct fuzz_call *call, uint64_t *rng) {
  const int64_t ld[3] = {call->p.lda, call->p.ldb, call->p.ldc}, bytes = tst_part_bytes(call->symbol->type);
  int owner[3];
  int64_t size[3];
  lay_out(call, ld, owner, x->at, size);
  for (int i = 0; i < 3; i++) {
    x->at[i] *= bytes;
    x->block[i] = &blocks[owner[i]][call->kind[i]];
    if (owner[i] == i) fuzz_block_take(x->block[i], call->kind[i], (size_t)(size[i] * bytes), call->fresh[i]);
  }
  for (int i = 0; i < 3; i++)
    if (i < 2 || !call->c_unread) {
      const struct fuzz_filling filling = {call->values, call->symbol->type, call->amplitude[i], i == 1};
      fuzz_fill(x->block[i]->image + x->at[i], &filling, call->len[i], call->lines[i], ld[i], rng);
    }
  if (call->stride_k > 1) thin_out(x->block[0]->image + x->at[0], call);
  for (int i = 0; i < 3; i++)
    if (owner[i] == i) fuzz_block_send(x->block[i]);
}

void fuzz_drop_blocks(void) {
  for (int i = 0; i < 3; i++)
    for (int kind = 0; kind < FUZZ_KINDS; kind++) fuzz_block_drop(&blocks[i][kind]);
}
