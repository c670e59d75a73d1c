/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands of call.h in memory. Values come from pools, line by line from a random place: to make each anew would take
 * longer than the product. */
#include <math.h>
#include <string.h>

#include "call.h"
#include "rng.h"

#define POOL 65536
#define GUARD 64 /* words behind the last operand of a block */

static struct fuzz_block blocks[3][FUZZ_KINDS];

/* ---- values ---- */

static float signed_unit(uint64_t *rng) { return 2 * tst_random_unit(rng) - 1; }

static float special(uint64_t *rng) {
  switch (tst_random_below(rng, 512)) {
    case 0:
      return INFINITY;
    case 1:
      return -INFINITY;
    case 2:
      return NAN;
    default:
      return tst_random_below(rng, 16) == 0 ? 0 : signed_unit(rng);
  }
}

static float draw_value(uint64_t *rng, enum fuzz_values values, int amplitude, bool is_b) {
  switch (values) {
    case FUZZ_INTEGERS:
      return (float)(tst_random_below(rng, 2 * amplitude + 1) - amplitude);
    case FUZZ_POSITIVE:
      return tst_random_unit(rng);
    case FUZZ_WIDE:
      return ldexpf(signed_unit(rng), (int)tst_random_below(rng, 81) - 40);
    case FUZZ_SUBNORMAL:
      return is_b ? signed_unit(rng) : ldexpf(signed_unit(rng), -126);
    case FUZZ_SPECIAL:
      return special(rng);
    default:
      return signed_unit(rng);
  }
}

/* One pool at a time: to make it takes a tenth of a millisecond or so, and small operands need a part of it alone. */
static void fill(float *image, const struct fuzz_call *call, int which, int64_t ld, uint64_t *rng) {
  static float pool[POOL];
  const int64_t elements = call->len[which] * call->lines[which];
  const int64_t ready = elements < POOL / 2 ? 2 * elements + 1 : POOL;
  const int amplitude = which == 0 ? call->amplitude_a : which == 1 ? call->amplitude_b : 255;
  for (int64_t i = 0; i < ready; i++) pool[i] = draw_value(rng, call->values, amplitude, which == 1);
  for (int64_t line = 0; line < call->lines[which]; line++)
    for (int64_t done = 0; done < call->len[which];) {
      const int64_t from = tst_random_below(rng, ready);
      int64_t count = ready - from;
      if (count > call->len[which] - done) count = call->len[which] - done;
      memcpy(image + line * ld + done, pool + from, (size_t)count * sizeof *image);
      done += count;
    }
}

/* Leaves every so many k of A. */
static void thin_out(float *image, const struct fuzz_call *call) {
  const bool along_k = call->p.row_major == ((call->p.trans_a | 0x20) == 'n'); /* ASCII lower case */
  for (int64_t line = 0; line < call->lines[0]; line++)
    for (int64_t i = 0; i < call->len[0]; i++)
      if ((along_k ? i : line) % call->stride_k != 0) image[line * call->p.lda + i] = 0;
}

/* ---- places ---- */

static int64_t extent(const struct fuzz_call *call, int which, int64_t ld) {
  const bool empty = call->lines[which] == 0 || call->len[which] == 0;
  return empty ? 0 : (call->lines[which] - 1) * ld + call->len[which];
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Offsets into blocks, of which operand i has number owner[i]; words[] of each block, guards included. */
static void lay_out(const struct fuzz_call *call, const int64_t ld[3], int owner[3], int64_t at[3], int64_t words[3]) {
  int64_t end = 0, first = 0;
  memset(words, 0, 3 * sizeof *words);
  for (int i = 0; i < 3; i++) {
    const int64_t size = extent(call, i, ld[i]);
    owner[i] = call->layout == FUZZ_APART || (call->layout == FUZZ_A_OVER_B && i == 2) ? i : 0;
    at[i] = call->lead[i];
    if (call->layout == FUZZ_A_OVER_B && i == 1) at[i] = at[0] + (call->lead[1] % 2 ? 0 : call->lead[1]);
    if (call->layout == FUZZ_ONE_BLOCK) at[i] = end + call->lead[i];
    if (call->layout == FUZZ_SUBMATRICES) at[i] = call->lead[0] + first;
    first += call->len[i];
    end = at[i] + size;
    words[owner[i]] = larger(words[owner[i]], end + GUARD);
  }
}

void fuzz_place(struct fuzz_operands *x, const struct fuzz_call *call, uint64_t *rng) {
  const int64_t ld[3] = {call->p.lda, call->p.ldb, call->p.ldc};
  int owner[3];
  int64_t words[3];
  lay_out(call, ld, owner, x->at, words);
  for (int i = 0; i < 3; i++) {
    x->block[i] = &blocks[owner[i]][call->kind[i]];
    if (owner[i] == i) fuzz_block_take(x->block[i], call->kind[i], (size_t)words[i], call->fresh[i]);
  }
  for (int i = 0; i < 3; i++)
    if (i < 2 || !call->c_unread) fill(x->block[i]->image + x->at[i], call, i, ld[i], rng);
  if (call->stride_k > 1) thin_out(x->block[0]->image + x->at[0], call);
  for (int i = 0; i < 3; i++)
    if (owner[i] == i) fuzz_block_send(x->block[i]);
}

void fuzz_drop_blocks(void) {
  for (int i = 0; i < 3; i++)
    for (int kind = 0; kind < FUZZ_KINDS; kind++) fuzz_block_drop(&blocks[i][kind]);
}
