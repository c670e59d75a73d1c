/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symm, hemm, trmm and trsm from the exported functions: random calls of every spelling and type, on the CPU by its
 * BLAS, or by plain loops without one.
 *
 *   test_sided LIBRARY   behind that BLAS; "none" without
 *
 * Seen to fail when: of a row-major call the side stays, or the triangle; a part of a symmetric matrix is read as if it
 * were the whole; plain loops read a Hermitian diagonal's imaginary part.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "blas/call.h"
#include "cpu/fallback.h"
#include "heard.h"
#include "process.h"
#include "rng.h"
#include "sided_call.h"
#include "tileblas.h"

static void every_spelling(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 12 * TST_SIDED_NAMES; i++) {
    struct tst_sided_call call;
    tst_sided_create(&call, i, i % 5 == 0 ? 3 : 40, &rng);
    tst_sided_make(&call);
    const char *wrong = tst_sided_wrong(&call);
    if (wrong != NULL) fail_msg("%s", wrong);
    tst_sided_destroy(&call);
  }
}

/* The views of a column-major call. */
static struct tb_call call_of(const struct tst_sided_call *p) {
  struct tb_arguments x = {.layout = TB_COL_MAJOR,
                           .transa = p->trans,
                           .uplo = p->uplo,
                           .side = p->side,
                           .diag = p->diag,
                           .m = p->m,
                           .n = p->n,
                           .k = tst_sided_order(p),
                           .a = p->a.data,
                           .b = p->b.data != NULL ? p->b.data : p->c.data,
                           .c = p->c.data,
                           .lda = p->lda,
                           .ldb = p->ldb,
                           .ldc = p->ldc};
  const bool wide = p->name.type == 'd' || p->name.type == 'z';
  for (int i = 0; i < 2; i++) {
    if (wide)
      x.alpha.z[i] = p->alpha[i], x.beta.z[i] = p->beta[i];
    else
      x.alpha.c[i] = (float)p->alpha[i], x.beta.c[i] = (float)p->beta[i];
  }
  struct tb_call call;
  for (int s = 0; s < TB_SYMBOL_COUNT; s++)
    if (strcmp(tb_symbols[s].name, p->name.name) == 0) assert_int_equal(tb_call_from(&call, (enum tb_symbol)s, &x), 0);
  return call;
}

/* What a GPU left: C in rectangles, or slices of what a triangle changes. */
static void in_parts(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < 40 * TST_SIDED_ROUTINES; i++) {
    struct tst_sided_call p;
    tst_sided_create(&p, TST_SIDED_ROUTINES + i % TST_SIDED_ROUTINES, 30, &rng); /* Fortran's plain names */
    const struct tb_call call = call_of(&p);
    const int64_t rows = 1 + tst_random_below(&rng, p.m), columns = 1 + tst_random_below(&rng, p.n);
    const bool left = !call.on_right && call.recipe != TB_MULTIPLY;
    const int64_t step_m = left ? p.m : rows, step_n = call.on_right ? p.n : columns;
    for (int64_t at_m = 0; at_m < p.m; at_m += step_m)
      for (int64_t at_n = 0; at_n < p.n; at_n += step_n) {
        const struct tb_call part = tb_call_part(&call, at_m, step_m < p.m - at_m ? step_m : p.m - at_m, at_n,
                                                 step_n < p.n - at_n ? step_n : p.n - at_n);
        tb_fallback_compute(&part);
      }
    const char *wrong = tst_sided_wrong(&p);
    if (wrong != NULL) fail_msg("in parts of %d x %d: %s", (int)step_m, (int)step_n, wrong);
    tst_sided_destroy(&p);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_spelling), cmocka_unit_test(in_parts)};
  if (argc != 2) return 2;
  library = argv[1];
  if (!alone()) {
    if (!dlopen(library, RTLD_NOW | RTLD_LOCAL)) tst_skip("%s is not installed", library);
    tileblas_option_set("TILEBLAS_FALLBACK", library);
  }
  return cmocka_run_group_tests_name(library, tests, NULL, NULL);
}
