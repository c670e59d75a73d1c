/* SPDX-License-Identifier: BSD-3-Clause */
/* What level3.h draws, see also chance.h. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../unit/sided_call.h"
#include "../unit/triangle_call.h"
#include "level3.h"

/* Of multiplications of parts, where each may have to be made on its own, not to multiply a zero by an Inf. */
#define MOST_ONE_BY_ONE 4e6
#define ORDER_OF_GROWTH 150

static char any_letter(const struct fuzz_level3 *call, uint64_t *rng, const char *letters) {
  const char letter = letters[fuzz_below(rng, (int64_t)strlen(letters))];
  return !call->cblas && fuzz_one_in(rng, 2) ? (char)(letter | 0x20) : letter; /* ASCII lower case */
}

/* ---- which ---- */

static enum tst_type type_of(char letter) { return (enum tst_type)(strchr("sdcz", letter) - "sdcz"); }

static void draw_triangle_routine(struct fuzz_level3 *call, uint64_t *rng) {
  static const enum fuzz_shape shapes[] = {
      [GEMMT] = FUZZ_GEMMT, [SYRK] = FUZZ_SYRK, [HERK] = FUZZ_HERK, [SYR2K] = FUZZ_SYR2K, [HER2K] = FUZZ_HER2K};
  struct tst_typed_name name;
  call->number = (int)fuzz_below(rng, TST_TRIANGLE_NAMES);
  tst_triangle_find(call->number, &name);
  snprintf(call->name, sizeof call->name, "%s", name.name);
  call->shape = shapes[name.shape];
  call->type = type_of(name.type), call->cblas = name.cblas, call->wide = name.wide;
}

static void draw_sided_routine(struct fuzz_level3 *call, uint64_t *rng, bool triangular) {
  static const enum fuzz_shape shapes[] = {
      [SYMM] = FUZZ_SYMM, [HEMM] = FUZZ_HEMM, [TRMM] = FUZZ_TRMM, [TRSM] = FUZZ_TRSM};
  struct tst_typed_name name;
  do call->number = (int)fuzz_below(rng, TST_SIDED_NAMES);
  while ((call->number % TST_SIDED_ROUTINES >= TST_SIDED_MIRRORED) != triangular);
  tst_sided_find(call->number, &name);
  snprintf(call->name, sizeof call->name, "%s", name.name);
  call->shape = shapes[name.shape];
  call->type = type_of(name.type), call->cblas = name.cblas, call->wide = name.wide;
}

static void draw_batch_routine(struct fuzz_level3 *call, uint64_t *rng) {
  static const struct {
    const char *format;
    bool cblas, wide;
  } spellings[] = {{"cblas_%cgemm_batch%s", true, false},         {"%cgemm_batch%s_", false, false},
                   {"cblas_%cgemm_batch%s64_", true, true},       {"%cgemm_batch%s_64_", false, true},
                   {"cblas_%cgemm_batch%s_64", true, true},       {"%cgemm_batch%s_64", false, true},
                   {"scipy_cblas_%cgemm_batch%s", true, false},   {"scipy_%cgemm_batch%s_", false, false},
                   {"scipy_cblas_%cgemm_batch%s64_", true, true}, {"scipy_%cgemm_batch%s_64_", false, true}};
  const int64_t spelling = fuzz_below(rng, sizeof spellings / sizeof *spellings);
  call->type = (enum tst_type)fuzz_below(rng, TST_TYPES);
  call->shape = fuzz_one_in(rng, 2) ? FUZZ_BATCH : FUZZ_STRIDED;
  call->cblas = spellings[spelling].cblas, call->wide = spellings[spelling].wide;
  snprintf(call->name, sizeof call->name, spellings[spelling].format, "sdcz"[call->type],
           call -> shape == FUZZ_STRIDED ? "_strided" : "");
}

static void draw_routine(struct fuzz_level3 *call, uint64_t *rng) {
  const int64_t chance = fuzz_below(rng, 20);
  if (chance < 8)
    draw_triangle_routine(call, rng);
  else if (chance < 11)
    draw_sided_routine(call, rng, false);
  else if (chance < 17)
    draw_sided_routine(call, rng, true);
  else
    draw_batch_routine(call, rng);
}

/* ---- scalars and transposes ---- */

/* Of a solve of whole numbers a power of two, by which they can be divided. */
static double complex power_of_two(uint64_t *rng, bool is_complex) {
  static const double powers[] = {1, 1, -1, 2, 0.5};
  const double x = powers[fuzz_below(rng, 5)];
  return is_complex && fuzz_one_in(rng, 3) ? CMPLX(0, x) : x;
}

static double complex draw_scaled_by(const struct fuzz_level3 *call, uint64_t *rng, bool real) {
  const double complex x = fuzz_draw_scalar(rng, call->type, call->values == FUZZ_INTEGERS);
  return real ? creal(x) : x;
}

static void draw_arguments(const struct fuzz_level3 *call, struct fuzz_product *p, uint64_t *rng) {
  const enum fuzz_shape shape = call->shape;
  const bool is_complex = tst_parts(call->type) == 2, hermitian = shape == FUZZ_HERK || shape == FUZZ_HER2K;
  const bool rank = hermitian || shape == FUZZ_SYRK || shape == FUZZ_SYR2K;
  p->ta = any_letter(call, rng, hermitian ? "NC" : rank && is_complex ? "NT" : "NTC");
  p->tb = rank ? p->ta : any_letter(call, rng, "NTC");
  if (shape == FUZZ_SYMM || shape == FUZZ_HEMM) p->ta = p->tb = 'N';
  p->alpha = draw_scaled_by(call, rng, shape == FUZZ_HERK);
  p->beta = draw_scaled_by(call, rng, hermitian);
  if (fuzz_is_triangular(shape)) p->beta = 0;
  if (shape != FUZZ_TRSM || call->values != FUZZ_INTEGERS) return;
  const bool divides = creal(p->alpha) == 0 || cimag(p->alpha) == 0;
  if (!fuzz_one_in(rng, 20) || (!divides && !isnan(creal(p->alpha)) && !isnan(cimag(p->alpha))))
    p->alpha = power_of_two(rng, is_complex);
}

/* ---- sizes ---- */

static double work(const struct fuzz_level3 *call, const struct fuzz_product *p) {
  const double parts = tst_parts(call->type), twice = fuzz_is_of_rank_2k(call->shape) ? 2 : 1;
  return twice * parts * parts * (double)p->m * (double)p->n * (double)p->k;
}

static int64_t bytes_of(const struct fuzz_level3 *call, const struct fuzz_product *p) {
  const int64_t bytes = tst_parts(call->type) * tst_part_bytes(call->type);
  return (p->m * p->k + p->k * p->n + 2 * p->m * p->n) * bytes;
}

static void draw_single(struct fuzz_level3 *call, uint64_t *rng, const struct fuzz_limits *limits) {
  struct fuzz_product *p = &call->product[0];
  const double most = tst_is_double(call->type) ? fmin(limits->most, FUZZ_MOST_OF_DOUBLES) : limits->most;
  call->products = 1;
  do {
    int64_t size[3];
    fuzz_draw_sizes(rng, size);
    p->m = size[0], p->n = size[1], p->k = size[2];
    if (fuzz_has_side(call->shape))
      p->k = fuzz_is_left(call) ? p->m : p->n;
    else
      p->m = p->n;
  } while (work(call, p) > most || bytes_of(call, p) > FUZZ_BYTES_MAX);
}

/* A product of a batch: mostly small; some are calls of their own, some have nothing to do. */
static void draw_batch_sizes(uint64_t *rng, struct fuzz_product *p) {
  const int64_t chance = fuzz_below(rng, 20), most = chance < 11 ? 41 : chance < 18 ? 150 : 600;
  p->m = fuzz_below(rng, most), p->n = fuzz_below(rng, most), p->k = fuzz_below(rng, most);
}

static void draw_groups(struct fuzz_level3 *call, uint64_t *rng, const struct fuzz_limits *limits) {
  double all = 0;
  const double most = fmin(limits->most, FUZZ_MOST_OF_DOUBLES);
  call->groups = call->shape == FUZZ_STRIDED ? 1 : (int)(fuzz_one_in(rng, 20) ? 0 : 1 + fuzz_below(rng, FUZZ_GROUPS));
  for (int group = 0; group < call->groups; group++) {
    struct fuzz_product one = {0};
    const int64_t wish = fuzz_one_in(rng, 12) ? 0 : 1 + fuzz_below(rng, FUZZ_PRODUCTS / FUZZ_GROUPS);
    do draw_batch_sizes(rng, &one);
    while (work(call, &one) * (double)wish > most / FUZZ_GROUPS ||
           bytes_of(call, &one) > FUZZ_BYTES_MAX / FUZZ_PRODUCTS);
    all += work(call, &one) * (double)wish;
    call->group_size[group] = (int)wish;
    for (int i = 0; i < wish; i++) call->product[call->products++] = one;
  }
}

/* ---- values ---- */

/* Sums of products times alpha, and C's words times beta, stay whole or halves that the type has: a scalar takes four
 * times as much at most, and half of it is left to C. */
static void draw_amplitudes(struct fuzz_level3 *call, uint64_t *rng) {
  const int64_t room = (int64_t)1 << (tst_is_double(call->type) ? 48 : 20);
  const bool alone = call->shape == FUZZ_SYRK || call->shape == FUZZ_HERK, triangular = fuzz_is_triangular(call->shape);
  int64_t terms = 1, a, b;
  for (int i = 0; i < call->products; i++)
    if (call->product[i].k > terms) terms = call->product[i].k;
  terms *= tst_parts(call->type) * (fuzz_is_of_rank_2k(call->shape) ? 2 : 1);
  if (terms > room) call->values = FUZZ_SIGNED;
  do {
    a = fuzz_draw_amplitude(rng, call->type);
    b = alone ? a : fuzz_draw_amplitude(rng, call->type);
  } while (a * b > room / terms && (a > 1 || b > 1));
  const int64_t words = tst_is_double(call->type) ? ((int64_t)1 << 40) : 255;
  call->amplitude[FUZZ_A] = a, call->amplitude[FUZZ_B] = b, call->amplitude[FUZZ_C] = triangular ? b : words;
}

static void draw_values(struct fuzz_level3 *call, uint64_t *rng) {
  static const enum fuzz_values values[] = {FUZZ_INTEGERS, FUZZ_INTEGERS, FUZZ_INTEGERS,  FUZZ_SIGNED, FUZZ_SIGNED,
                                            FUZZ_POSITIVE, FUZZ_WIDE,     FUZZ_SUBNORMAL, FUZZ_SPECIAL};
  const struct fuzz_product *p = &call->product[0];
  call->values = values[fuzz_below(rng, 9)];
  if (!fuzz_is_triangular(call->shape)) return;
  if (call->shape == FUZZ_TRSM && call->values == FUZZ_SUBNORMAL) call->values = FUZZ_SIGNED;
  if (call->values == FUZZ_SPECIAL && work(call, p) > MOST_ONE_BY_ONE) call->values = FUZZ_SIGNED;
  call->grows =
      call->shape == FUZZ_TRSM && call->values == FUZZ_SIGNED && p->k <= ORDER_OF_GROWTH && fuzz_one_in(rng, 2);
}

/* ---- matrices ---- */

static bool is_transposed(char letter) { return fuzz_upper(letter) != 'N'; }

static void shape_product(const struct fuzz_level3 *call, struct fuzz_product *p) {
  const enum fuzz_shape shape = call->shape;
  const bool hermitian = shape == FUZZ_HERK || shape == FUZZ_HER2K, upper = fuzz_upper(call->uplo) == 'U';
  const bool read = p->alpha != 0 && p->k > 0, of_c = shape < FUZZ_SYMM, ta = is_transposed(p->ta);
  const bool like_a = shape != FUZZ_GEMMT && of_c; /* B is as A is, of syr2k and her2k */
  const bool tb = is_transposed(p->tb) != like_a;
  struct fuzz_matrix *const a = &p->x[FUZZ_A], *const b = &p->x[FUZZ_B], *const c = &p->x[FUZZ_C];
  *a = (struct fuzz_matrix){.rows = ta ? p->k : p->m, .columns = ta ? p->m : p->k, .unread = !read};
  *b = (struct fuzz_matrix){.rows = tb ? p->n : p->k, .columns = tb ? p->k : p->n, .unread = !read};
  *c = (struct fuzz_matrix){.rows = p->m, .columns = p->n, .unread = p->beta == 0};
  if (of_c) c->structure = FUZZ_TRIANGULAR, c->upper = upper, c->real_diagonal = hermitian;
  if (!fuzz_has_side(shape)) return;
  a->rows = a->columns = p->k;
  b->rows = p->m, b->columns = p->n;
  a->structure = fuzz_is_triangular(shape) ? FUZZ_TRIANGULAR : shape == FUZZ_HEMM ? FUZZ_HERMITIAN : FUZZ_SYMMETRIC;
  a->upper = upper, a->real_diagonal = shape == FUZZ_HEMM;
  a->unit = fuzz_is_triangular(shape) && fuzz_upper(call->diag) == 'U';
  if (fuzz_is_triangular(shape)) c->unread = p->alpha == 0;
}

static void draw_alignment(const struct fuzz_level3 *call, struct fuzz_product *p, uint64_t *rng) {
  for (int i = 0; i < 3; i++) {
    struct fuzz_matrix *const x = &p->x[i];
    const bool aligned = fuzz_one_in(rng, 2);
    const int64_t length = fuzz_length(call, x);
    x->ld = (length > 1 ? length : 1) + (fuzz_one_in(rng, 2) ? fuzz_below(rng, 70) : 0);
    if (aligned) x->ld = (x->ld + 3) / 4 * 4;
    x->step = aligned ? 32 * fuzz_below(rng, 3) : fuzz_below(rng, 40);
  }
}

/* Products of a group have all but their memory in common. */
static void draw_products(struct fuzz_level3 *call, uint64_t *rng) {
  for (int group = 0, first = 0; group < (fuzz_is_batch(call->shape) ? call->groups : 1); group++) {
    const int count = fuzz_is_batch(call->shape) ? call->group_size[group] : 1;
    struct fuzz_product p = call->product[first];
    draw_arguments(call, &p, rng);
    shape_product(call, &p);
    draw_alignment(call, &p, rng);
    for (int i = 0; i < count; i++) call->product[first + i] = p;
    first += count;
  }
}

static void draw_memory(struct fuzz_level3 *call, uint64_t *rng, bool own) {
  for (int set = 0; set < FUZZ_SETS; set++)
    for (int i = 0; i < 3; i++) {
      call->kind[set][i] = (enum fuzz_kind)fuzz_below(rng, own ? FUZZ_PINNED : FUZZ_KINDS);
      if (set > 0 && fuzz_one_in(rng, 2)) call->kind[set][i] = call->kind[0][i];
      call->fresh[set][i] = fuzz_one_in(rng, 10);
      call->lead[set][i] = fuzz_one_in(rng, 2) ? 32 * (1 + fuzz_below(rng, 4)) : 16 + fuzz_below(rng, 100);
      if (call->kind[set][i] == FUZZ_FENCED_BEFORE) call->lead[set][i] = 0;
      if (i == FUZZ_B && fuzz_lacks_b(call->shape)) call->kind[set][i] = call->kind[set][FUZZ_A];
    }
}

/* A common leading dimension, if that does not make them too large. */
static void draw_together(struct fuzz_level3 *call, uint64_t *rng) {
  struct fuzz_product *const p = &call->product[0];
  const int64_t bytes = tst_parts(call->type) * tst_part_bytes(call->type);
  int64_t all = fuzz_below(rng, 4), lines = 0;
  if (fuzz_is_batch(call->shape) || !fuzz_one_in(rng, 5)) return;
  for (int i = 0; i < 3; i++) {
    if (i == FUZZ_B && fuzz_lacks_b(call->shape)) continue;
    all += fuzz_length(call, &p->x[i]);
    if (fuzz_lines(call, &p->x[i]) > lines) lines = fuzz_lines(call, &p->x[i]);
  }
  if (all * lines * bytes > FUZZ_BYTES_MAX) return;
  call->together = true;
  for (int i = 0; i < 3; i++) p->x[i].ld = all > 1 ? all : 1, call->kind[0][i] = call->kind[0][FUZZ_C];
}

void fuzz_level3_draw(struct fuzz_level3 *call, uint64_t *rng, const struct fuzz_limits *limits) {
  *call = (struct fuzz_level3){0};
  draw_routine(call, rng);
  call->row_major = call->cblas && fuzz_one_in(rng, 2);
  call->side = any_letter(call, rng, "LR");
  call->uplo = any_letter(call, rng, "UL");
  call->diag = any_letter(call, rng, "NU");
  if (fuzz_is_batch(call->shape))
    draw_groups(call, rng, limits);
  else
    draw_single(call, rng, limits);
  draw_values(call, rng);
  draw_amplitudes(call, rng);
  draw_products(call, rng);
  draw_memory(call, rng, limits->own_memory);
  draw_together(call, rng);
  int64_t bytes = 0;
  for (int i = 0; i < call->products; i++) bytes += bytes_of(call, &call->product[i]);
  fuzz_draw_options(&call->options, rng, bytes, fuzz_least_kib(call->type));
}
