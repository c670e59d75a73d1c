/* SPDX-License-Identifier: BSD-3-Clause */
/* What a routine of level 3 is, and a call of it as Fortran has it; see level3.h. */
#include "level3.h"

#include <dlfcn.h>
#include <string.h>

const struct tb_level3_routine tb_level3_routines[TB_LEVEL3_ROUTINES] = {
    {"gemm", TB_FORM_GEMM, false},    {"symm", TB_FORM_SYMM, false},   {"hemm", TB_FORM_SYMM, true},
    {"syrk", TB_FORM_RANK_K, false},  {"herk", TB_FORM_RANK_K, true},  {"syr2k", TB_FORM_RANK_2K, false},
    {"her2k", TB_FORM_RANK_2K, true}, {"gemmt", TB_FORM_GEMMT, false}, {"trmm", TB_FORM_TRMM, false},
    {"trsm", TB_FORM_TRSM, false},
};

/* Of a rank update: C is square, and k is free. */
static bool has_square_c(enum tb_form form) {
  return form == TB_FORM_GEMMT || form == TB_FORM_RANK_K || form == TB_FORM_RANK_2K;
}
static bool has_triangle(enum tb_form form) {
  return form == TB_FORM_SYMM || form == TB_FORM_TRMM || form == TB_FORM_TRSM;
}

/* What the routine calls a transpose: herk has C alone, and a complex syrk T alone. */
static char transpose_of(const struct tb_level3_routine *routine, char trans) {
  if (trans == 'N' || routine->form == TB_FORM_GEMM || routine->form == TB_FORM_SYMM) return 'N';
  if (routine->hermitian) return 'C';
  return has_square_c(routine->form) ? 'T' : trans;
}

struct tb_level3 tb_level3_make(const struct tb_level3_routine *routine, enum tb_type type, const char variant[4],
                                int order, int sides) {
  struct tb_level3 x = {.routine = routine, .type = type, .m = order, .n = sides, .k = order};
  x.right = variant[0] == 'R' && has_triangle(routine->form);
  x.upper = variant[1] == 'U';
  x.trans = transpose_of(routine, variant[2]);
  x.unit = variant[3] == 'U' && tb_level3_in_place(&x);
  if (x.right) x.m = sides, x.n = order;
  if (has_square_c(routine->form)) x.n = order, x.k = sides;
  return x;
}

enum tb_region_of tb_level3_region(const struct tb_level3 *x) {
  if (!has_square_c(x->routine->form)) return TB_WHOLE;
  return x->upper ? TB_UPPER_TRIANGLE : TB_LOWER_TRIANGLE;
}

struct tb_extent tb_level3_a(const struct tb_level3 *x) {
  if (has_triangle(x->routine->form)) return (struct tb_extent){x->k, x->k};
  return x->trans == 'N' ? (struct tb_extent){x->m, x->k} : (struct tb_extent){x->k, x->m};
}

struct tb_extent tb_level3_b(const struct tb_level3 *x) {
  const enum tb_form form = x->routine->form;
  if (form == TB_FORM_RANK_K) return (struct tb_extent){0, 0};
  if (form == TB_FORM_GEMM) return (struct tb_extent){x->k, x->n};
  return has_square_c(form) ? tb_level3_a(x) : (struct tb_extent){x->m, x->n};
}

double tb_level3_flops(const struct tb_level3 *x) {
  const enum tb_form form = x->routine->form;
  const bool half = form == TB_FORM_GEMMT || form == TB_FORM_RANK_K || tb_level3_in_place(x);
  return (half ? 0.5 : 1) * tb_type_flops(x->type) * x->m * x->n * (double)x->k;
}

static double triangle_elems(double order) { return order * (order + 1) / 2; }

double tb_level3_up_bytes(const struct tb_level3 *x) {
  const double a = has_triangle(x->routine->form) ? triangle_elems(x->k) : (double)tb_extent_elems(tb_level3_a(x));
  return (a + (double)tb_extent_elems(tb_level3_b(x))) * (double)tb_type_bytes(x->type);
}

double tb_level3_down_bytes(const struct tb_level3 *x) {
  const double c = has_square_c(x->routine->form) ? triangle_elems(x->m) : (double)x->m * x->n;
  return c * (double)tb_type_bytes(x->type);
}

/* ---- calls ---- */

tb_level3_function *tb_level3_find(void *library, const struct tb_level3 *x) {
  char symbol[16];
  snprintf(symbol, sizeof symbol, "%c%s_", tb_type_letter(x->type), x->routine->name);
  return (tb_level3_function *)dlsym(library, symbol);
}

typedef const char *character;
typedef const int *integer;
typedef void gemm_function(character, character, integer, integer, integer, const void *, const void *, integer,
                           const void *, integer, const void *, void *, integer);
typedef void gemmt_function(character, character, character, integer, integer, const void *, const void *, integer,
                            const void *, integer, const void *, void *, integer);
typedef void rank_k_function(character, character, integer, integer, const void *, const void *, integer, const void *,
                             void *, integer);
typedef void rank_2k_function(character, character, integer, integer, const void *, const void *, integer, const void *,
                              integer, const void *, void *, integer); /* symm's, too */
typedef void triangular_function(character, character, character, character, integer, integer, const void *,
                                 const void *, integer, void *, integer);

void tb_level3_call(const struct tb_level3 *x, tb_level3_function *f, const void *a, const void *b, void *c) {
  const void *const one = tb_one(x->type), *const zero = tb_zero(x->type); /* and herk's, which are real */
  const char *const side = x->right ? "R" : "L", *const uplo = x->upper ? "U" : "L", *const diag = x->unit ? "U" : "N";
  const char trans[] = {x->trans, '\0'};
  const int lda = tb_level3_a(x).rows, ldb = tb_level3_b(x).rows;
  switch (x->routine->form) {
    case TB_FORM_GEMM:
      ((gemm_function *)f)("N", "N", &x->m, &x->n, &x->k, one, a, &lda, b, &ldb, zero, c, &x->m);
      break;
    case TB_FORM_GEMMT:
      ((gemmt_function *)f)(uplo, trans, x->trans == 'N' ? "T" : "N", &x->n, &x->k, one, a, &lda, b, &ldb, zero, c,
                            &x->m);
      break;
    case TB_FORM_RANK_K:
      ((rank_k_function *)f)(uplo, trans, &x->n, &x->k, one, a, &lda, zero, c, &x->m);
      break;
    case TB_FORM_RANK_2K:
      ((rank_2k_function *)f)(uplo, trans, &x->n, &x->k, one, a, &lda, b, &ldb, zero, c, &x->m);
      break;
    case TB_FORM_SYMM:
      ((rank_2k_function *)f)(side, uplo, &x->m, &x->n, one, a, &lda, b, &ldb, zero, c, &x->m);
      break;
    case TB_FORM_TRMM:
    case TB_FORM_TRSM:
      ((triangular_function *)f)(side, uplo, trans, diag, &x->m, &x->n, one, a, &lda, c, &x->m);
      break;
  }
}
