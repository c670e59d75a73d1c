/* SPDX-License-Identifier: BSD-3-Clause */
/* The matrices of level3.h in memory. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "level3.h"
#include "real_product.h"
#include "solvable.h"

#define GUARD 64 /* parts behind the last matrix of a block */

static struct fuzz_block blocks[FUZZ_SETS][3][FUZZ_KINDS];

/* ---- elements ---- */

double complex fuzz_read(const struct fuzz_level3 *call, const struct fuzz_matrix *x, char *memory, int64_t i,
                         int64_t j) {
  const void *const at = fuzz_element(call, x, memory, i, j);
  const double *const d = at;
  const float *const s = at;
  if (tst_is_double(call->type)) return tst_parts(call->type) == 2 ? CMPLX(d[0], d[1]) : CMPLX(d[0], 0);
  return tst_parts(call->type) == 2 ? CMPLX(s[0], s[1]) : CMPLX(s[0], 0);
}

void fuzz_write(const struct fuzz_level3 *call, const struct fuzz_matrix *x, char *memory, int64_t i, int64_t j,
                double complex value) {
  void *const at = fuzz_element(call, x, memory, i, j);
  const double parts[2] = {creal(value), cimag(value)};
  for (int part = 0; part < tst_parts(call->type); part++)
    if (tst_is_double(call->type))
      ((double *)at)[part] = parts[part];
    else
      ((float *)at)[part] = (float)parts[part];
}

double complex fuzz_meant(const struct fuzz_level3 *call, const struct fuzz_matrix *x, char trans, char *memory,
                          int64_t i, int64_t j) {
  const bool transposed = fuzz_upper(trans) != 'N';
  const int64_t row = transposed ? j : i, column = transposed ? i : j;
  const bool stored = fuzz_is_stored(x, row, column), mirrored = !stored && x->structure != FUZZ_TRIANGULAR;
  if (!stored && !mirrored) return row == column;
  double complex value = mirrored ? fuzz_read(call, x, memory, column, row) : fuzz_read(call, x, memory, row, column);
  if (fuzz_upper(trans) == 'C' || (mirrored && x->structure == FUZZ_HERMITIAN)) value = conj(value);
  return row == column && x->real_diagonal ? creal(value) : value;
}

/* ---- what is in them ---- */

/* For a part that must not be read: what would show if it were. A signalling NaN among them, by its bits. */
static void put_garbage(char *at, enum tst_type type, uint64_t *rng) {
  static const uint32_t narrow[] = {0x7ffabada, 0x7fa5a5a5, 0x7f800000, 0xff800000, 0x7e967699, 0xc2280000};
  static const uint64_t wide[] = {0x7ffabada7ffabada, 0x7ff5a5a5a5a5a5a5, 0x7ff0000000000000,
                                  0xfff0000000000000, 0x7e37e43c8800759c, 0xc045000000000000};
  const int64_t which = fuzz_below(rng, 6);
  if (tst_is_double(type))
    memcpy(at, &wide[which], sizeof *wide);
  else
    memcpy(at, &narrow[which], sizeof *narrow);
}

static void poison(const struct fuzz_level3 *call, const struct fuzz_matrix *x, uint64_t *rng) {
  const int64_t bytes = tst_part_bytes(call->type);
  char *const image = x->block->image;
  for (int64_t i = 0; i < x->rows; i++)
    for (int64_t j = 0; j < x->columns; j++) {
      const bool whole = x->unread || !fuzz_is_stored(x, i, j);
      if (whole) put_garbage(fuzz_element(call, x, image, i, j), call->type, rng);
      if (tst_parts(call->type) == 2 && (whole || (i == j && x->real_diagonal)))
        put_garbage(fuzz_element(call, x, image, i, j) + bytes, call->type, rng);
    }
}

static void fill_matrix(const struct fuzz_level3 *call, const struct fuzz_matrix *x, int which, uint64_t *rng) {
  const bool solved_with = call->shape == FUZZ_TRSM && which == FUZZ_A;
  const struct fuzz_filling filling = {solved_with && call->values == FUZZ_WIDE ? FUZZ_SIGNED : call->values,
                                       call->type, call->amplitude[which],
                                       which == FUZZ_B || fuzz_is_triangular(call->shape)};
  fuzz_fill(x->block->image + x->at, &filling, fuzz_length(call, x), fuzz_lines(call, x), x->ld, rng);
  if (solved_with) fuzz_make_solvable(call, x, rng);
}

static void fill_product(const struct fuzz_level3 *call, const struct fuzz_product *p, uint64_t *rng) {
  for (int i = 0; i < 3; i++)
    if (p->x[i].block) fill_matrix(call, &p->x[i], i, rng);
  if (fuzz_is_exact_solve(call, p)) fuzz_make_right_hand_side(call, p);
  for (int i = 0; i < 3; i++)
    if (p->x[i].block) poison(call, &p->x[i], rng);
}

/* ---- where they are ---- */

/* Operands of a set have a block each, but for those that there are not, or that lie in C's. */
static bool has_block(const struct fuzz_level3 *call, int set, int which) {
  if (set > 0 && !fuzz_is_batch(call->shape)) return false;
  if (call->together) return which == FUZZ_C;
  return which != FUZZ_B || !fuzz_lacks_b(call->shape);
}

/* In parts, padding behind the last line left out. */
static int64_t extent(const struct fuzz_level3 *call, const struct fuzz_matrix *x) {
  const int64_t lines = fuzz_lines(call, x), length = fuzz_length(call, x);
  return lines == 0 || length == 0 ? 0 : ((lines - 1) * x->ld + length) * tst_parts(call->type);
}

/* Operands of a strided batch lie at equal distances; A or B may be the same one for all. */
static void draw_strides(struct fuzz_level3 *call, uint64_t *rng) {
  for (int i = 0; i < 3; i++) {
    const struct fuzz_matrix *const x = &call->product[0].x[i];
    const int64_t elements = call->products ? extent(call, x) / tst_parts(call->type) : 0;
    call->stride[i] = i < FUZZ_C && fuzz_one_in(rng, 4) ? 0 : elements + fuzz_below(rng, 40);
  }
}

/* Returns the parts that a block needs. */
static int64_t lay_out(struct fuzz_level3 *call, int set, int which, uint64_t *rng) {
  const int64_t bytes = tst_part_bytes(call->type), lead = call->lead[set][which];
  const bool shared = which < FUZZ_C && call->shape == FUZZ_BATCH && fuzz_one_in(rng, 5);
  int64_t next = lead, end = lead;
  for (int group = 0, number = 0; group < (fuzz_is_batch(call->shape) ? call->groups : 1); group++)
    for (int i = 0; i < (fuzz_is_batch(call->shape) ? call->group_size[group] : 1); i++, number++) {
      struct fuzz_matrix *const x = &call->product[number].x[which];
      if (group % FUZZ_SETS != set) continue;
      if (call->shape == FUZZ_STRIDED) next = lead + i * call->stride[which] * tst_parts(call->type);
      if (shared && i > 0) next = call->product[number - 1].x[which].at / bytes;
      x->block = &blocks[set][which][call->kind[set][which]];
      x->at = next * bytes;
      if (next + extent(call, x) > end) end = next + extent(call, x);
      next = end + x->step;
    }
  return end + (call->kind[set][which] == FUZZ_FENCED_BEHIND ? 0 : GUARD);
}

/* The same of operands that are one matrix. */
static int64_t lay_together(struct fuzz_level3 *call) {
  struct fuzz_block *const block = &blocks[0][FUZZ_C][call->kind[0][FUZZ_C]];
  int64_t next = call->lead[0][FUZZ_C], end = next;
  for (int i = 0; i < 3; i++) {
    struct fuzz_matrix *const x = &call->product[0].x[i];
    if (i == FUZZ_B && fuzz_lacks_b(call->shape)) continue;
    x->block = block;
    x->at = next * tst_part_bytes(call->type);
    if (next + extent(call, x) > end) end = next + extent(call, x);
    next += fuzz_length(call, x) * tst_parts(call->type);
  }
  return end + (call->kind[0][FUZZ_C] == FUZZ_FENCED_BEHIND ? 0 : GUARD);
}

int fuzz_level3_blocks(const struct fuzz_level3 *call, struct fuzz_block *used[], int which[]) {
  int count = 0;
  for (int set = 0; set < FUZZ_SETS; set++)
    for (int i = 0; i < 3; i++)
      if (has_block(call, set, i)) used[count] = &blocks[set][i][call->kind[set][i]], which[count++] = i;
  return count;
}

void fuzz_level3_place(struct fuzz_level3 *call, uint64_t *rng) {
  const int64_t bytes = tst_part_bytes(call->type);
  if (call->shape == FUZZ_STRIDED) draw_strides(call, rng);
  for (int set = 0; set < FUZZ_SETS; set++)
    for (int i = 0; i < 3; i++) {
      if (!has_block(call, set, i)) continue;
      const int64_t parts = call->together ? lay_together(call) : lay_out(call, set, i, rng);
      fuzz_block_take(&blocks[set][i][call->kind[set][i]], call->kind[set][i], (size_t)(parts * bytes),
                      call->fresh[set][i]);
    }
  for (int i = 0; i < call->products; i++) fill_product(call, &call->product[i], rng);
  struct fuzz_block *used[FUZZ_SETS * 3];
  int which[FUZZ_SETS * 3];
  for (int i = 0, count = fuzz_level3_blocks(call, used, which); i < count; i++) fuzz_block_send(used[i]);
}

void fuzz_level3_drop(void) {
  for (int set = 0; set < FUZZ_SETS; set++)
    for (int i = 0; i < 3; i++)
      for (int kind = 0; kind < FUZZ_KINDS; kind++) fuzz_block_drop(&blocks[set][i][kind]);
}
