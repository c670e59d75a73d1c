/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What BLAS refuses of symm, hemm, trmm and trsm, in every spelling and both layouts: the program's handler hears the
 * routine that it called and the number of the first bad argument in the reference's order; of a row-major call m and n
 * have changed places in that order. C is untouched, and a valid call is right afterwards.
 *
 *   test_refused_sides none      without a CPU BLAS: by the numbers written out here
 *   test_refused_sides LIBRARY   behind that BLAS: what it tells itself
 *
 * Each is counted with the operations that it has. Seen to fail when: the leading dimension of a B is checked against
 * A's order; m and n of a row-major call are told by each other's number; a diagonal is not looked at.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <string.h>

#include "heard.h"
#include "process.h"
#include "rng.h"
#include "sided_call.h"
#include "tileblas.h"

enum { M = 4, N = 5 };

/* What is wrong with a legal call of tight leading dimensions, and its number in Fortran's counting, symm's and
 * trmm's, 0 where they do not have it; of a row-major call another is the first. */
static const struct fault {
  char side, uplo, trans, diag; /* 0: legal */
  bool m, n, a, b, c;           /* negative, or one too short */
  int of_symm, of_trmm, row_of_symm, row_of_trmm;
} faults[] = {
    {'X', 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1},   {0, 'X', 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2},
    {0, 0, 'X', 0, 0, 0, 0, 0, 0, 0, 3, 0, 3},   {0, 0, 0, 'X', 0, 0, 0, 0, 0, 0, 4, 0, 4},
    {0, 0, 0, 0, 1, 0, 0, 0, 0, 3, 5, 3, 5},     {0, 0, 0, 0, 0, 1, 0, 0, 0, 4, 6, 4, 6},
    {0, 0, 0, 0, 0, 0, 1, 0, 0, 7, 9, 7, 9},     {0, 0, 0, 0, 0, 0, 0, 1, 0, 9, 0, 9, 0},
    {0, 0, 0, 0, 0, 0, 0, 0, 1, 12, 11, 12, 11}, {0, 0, 0, 0, 1, 1, 0, 0, 0, 3, 5, 4, 6},
    {'X', 'X', 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 1, 1, 1, 7, 9, 7, 9},
    {'+', 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1},   {0, '+', 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2},
    {0, 0, 0, '+', 0, 0, 0, 0, 0, 0, 4, 0, 4},
};

static int number_of(const struct tst_sided_call *call, const struct fault *f) {
  const bool triangular = call->name.shape >= TRMM;
  return call->row_major ? (triangular ? f->row_of_trmm : f->row_of_symm) : triangular ? f->of_trmm : f->of_symm;
}

static struct tst_sided_call with_fault(const struct tst_sided_call *legal, const struct fault *f) {
  struct tst_sided_call call = *legal;
  const int64_t line = call.row_major ? call.n : call.m;
  call.lda = tst_sided_order(&call) - f->a;
  call.ldb = line - f->b;
  call.ldc = line - f->c;
  if (f->side) call.side = f->side;
  if (f->uplo) call.uplo = f->uplo;
  if (f->trans) call.trans = f->trans;
  if (f->diag) call.diag = f->diag;
  if (f->m) call.m = -1;
  if (f->n) call.n = -1;
  return call;
}

static struct heard expected(const struct tst_sided_call *call, int number) {
  void *const function = in_library(&call->name);
  if (function == NULL) return to_be_heard(&call->name, number);
  struct tst_sided_call direct = *call;
  direct.name.function = function;
  direct.name.wide = false;
  heard = (struct heard){0};
  tst_sided_make(&direct);
  tst_sided_restore(&direct);
  return heard;
}

/* ---- counting ---- */

/* Of a term of each element: 2, or 8 of complex numbers; a triangle has half of the terms. */
static double operations(const struct tst_sided_call *call) {
  const double each = tst_typed_is_complex(&call->name) ? 8 : 2;
  return each * (double)(call->m * call->n * tst_sided_order(call)) / (call->name.shape >= TRMM ? 2 : 1);
}

static void check(struct tst_sided_call *call, int number) {
  const struct heard want = expected(call, number);
  tileblas_stats was;
  if (want.calls == 0) return; /* some take in CBLAS what they refuse in Fortran */
  heard = (struct heard){0};
  tileblas_stats_get(&was);
  tst_sided_make(call);
  expect_counted(call->name.name, call->row_major, &was, 0);
  expect_heard(&call->name, call->row_major, &want);
  assert_memory_equal(call->c.data, call->c.before, call->c.bytes);
}

/* Netlib's CBLAS goes on behind the report of an illegal diagonal, with what lies on its stack for a letter: by chance
 * it is a legal one. */
static bool is_left_to_chance(const struct tst_sided_call *call, const struct fault *f) {
  return f->diag != 0 && call->name.cblas && !alone() && strstr(library, "openblas") == NULL;
}

static void every_fault(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 4 * TST_SIDED_NAMES; i++) {
    struct tst_sided_call legal;
    tst_sided_create_sized(&legal, i, M, N, &rng);
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
      struct tst_sided_call call = with_fault(&legal, &faults[f]);
      const int number = number_of(&legal, &faults[f]);
      if (number != 0 && !is_left_to_chance(&call, &faults[f])) check(&call, number);
    }
    tileblas_stats was;
    tileblas_stats_get(&was);
    tst_sided_make(&legal);
    expect_counted(legal.name.name, legal.row_major, &was, operations(&legal));
    const char *wrong = tst_sided_wrong(&legal);
    if (wrong != NULL) fail_msg("%s", wrong);
    tst_sided_destroy(&legal);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_fault)};
  if (argc != 2) return 2;
  library = argv[1];
  if (!alone()) {
    if (!dlopen(library, RTLD_NOW | RTLD_LOCAL)) tst_skip("%s is not installed", library);
    tileblas_option_set("TILEBLAS_FALLBACK", library);
  }
  return cmocka_run_group_tests_name(library, tests, NULL, NULL);
}
