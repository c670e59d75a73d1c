/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "typed.h"

#include <ctype.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

/* ---- names ---- */

static const struct {
  const char *format;
  bool cblas, wide;
} spellings[] = {{"cblas_%s", true, false},   {"%s_", false, false},   {"scipy_cblas_%s", true, false},
                 {"cblas_%s64_", true, true}, {"%s_64_", false, true}, {"scipy_cblas_%s64_", true, true},
                 {"cblas_%s_64", true, true}, {"%s_64", false, true},  {"scipy_%s_64_", false, true},
                 {"scipy_%s_", false, false}};
_Static_assert(sizeof spellings / sizeof *spellings == TST_TYPED_SPELLINGS, "as many as the header says");

void tst_typed_find(struct tst_typed_name *name, const char *const routines[], int count, int number) {
  const int spelling = number / count % TST_TYPED_SPELLINGS;
  name->routine = routines[number % count];
  snprintf(name->name, sizeof name->name, spellings[spelling].format, name->routine);
  name->type = name->routine[0];
  name->cblas = spellings[spelling].cblas;
  name->wide = spellings[spelling].wide;
  name->function = dlsym(RTLD_DEFAULT, name->name);
  if (name->function == NULL) {
    fprintf(stderr, "no symbol %s\n", name->name);
    abort();
  }
}

/* ---- elements ---- */

double tst_typed_get(const struct tst_typed_name *n, const void *data, int64_t at, int part) {
  const int64_t i = tst_typed_is_complex(n) ? 2 * at + part : at;
  return tst_typed_is_double(n) ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

void tst_typed_set(const struct tst_typed_name *n, void *data, int64_t at, int part, double x) {
  const int64_t i = tst_typed_is_complex(n) ? 2 * at + part : at;
  if (tst_typed_is_double(n))
    ((double *)data)[i] = x;
  else
    ((float *)data)[i] = (float)x;
}

struct tst_number tst_typed_number(const struct tst_typed_name *n, const void *data, int64_t at) {
  return (struct tst_number){tst_typed_get(n, data, at, 0),
                             tst_typed_is_complex(n) ? tst_typed_get(n, data, at, 1) : 0};
}

/* ---- operands ---- */

void tst_typed_fill(const struct tst_typed_name *n, struct tst_typed_memory *x, int64_t lines, int64_t len, int64_t ld,
                    bool poisoned, uint64_t *rng) {
  x->bytes = (size_t)((lines + 1) * ld) * tst_typed_bytes(n);
  x->data = malloc(x->bytes), x->before = malloc(x->bytes);
  if (x->data == NULL || x->before == NULL) abort();
  for (int64_t at = 0; at < (lines + 1) * ld; at++)
    for (int part = 0; part < 1 + tst_typed_is_complex(n); part++) {
      const double number = ((double)tst_random_below(rng, 1 << 20) - (1 << 19)) * 0x1p-20;
      tst_typed_set(n, x->data, at, part, poisoned || at % ld >= len || at / ld >= lines ? NAN : number);
    }
}

void tst_typed_keep(struct tst_typed_memory *const all[3]) {
  for (int i = 0; i < 3; i++)
    if (all[i]->data != NULL) memcpy(all[i]->before, all[i]->data, all[i]->bytes);
}

void tst_typed_free(struct tst_typed_memory *const all[3]) {
  for (int i = 0; i < 3; i++) free(all[i]->data), free(all[i]->before);
}

bool tst_typed_is_as_it_was(const struct tst_typed_name *n, const struct tst_typed_memory *x, int64_t at) {
  const size_t size = tst_typed_bytes(n), offset = (size_t)at * size;
  return memcmp((char *)x->data + offset, (char *)x->before + offset, size) == 0;
}

/* ---- arguments ---- */

char tst_typed_letter(const struct tst_typed_name *n, const char *letters, uint64_t *rng) {
  const char letter = letters[tst_random_below(rng, (int64_t)strlen(letters))];
  return !n->cblas && tst_random_below(rng, 2) ? (char)tolower((unsigned char)letter) : letter;
}

union tst_scalar tst_typed_scalar(const struct tst_typed_name *n, const double x[2]) {
  return tst_typed_is_double(n) ? (union tst_scalar){.d = {x[0], x[1]}}
                                : (union tst_scalar){.s = {(float)x[0], (float)x[1]}};
}

int64_t tst_typed_passed(const struct tst_typed_name *n, int64_t x) {
  return n->wide ? x : (int64_t)((uint64_t)x & UINT32_MAX) | (int64_t)0x5a5a5a5a << 32;
}
