/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What BLAS refuses of gemmt, syrk, herk, syr2k and her2k, in every spelling and both layouts: the program's handler
 * hears the routine that it called and the number of the first bad argument in the reference's order, also where that
 * BLAS has no such routine and products compute the valid calls; C is untouched. A product of a complex A with itself
 * takes A^T or A^H, not both. A valid call is right afterwards.
 *
 *   test_refused_triangles none      without a CPU BLAS: by the numbers written out here
 *   test_refused_triangles LIBRARY   behind that BLAS: what it tells itself of a routine that it has
 *
 * Each is counted with the operations that it has. Seen to fail when: a number is that of gemm's row; herk takes a T;
 * the leading dimension of a row-major A is checked against its columns' length; gemm reports for gemmt.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

#include "heard.h"
#include "process.h"
#include "rng.h"
#include "tileblas.h"
#include "triangle_call.h"

/* ---- calls ---- */

enum { N = 4, K = 5 };

/* Of a legal call what is put in the place of an argument, and the number in Fortran's counting: gemmt's, that of syrk
 * and herk, and that of the ranks 2k; 0: they do not have it, or go another way. A letter of 0, or a size of LEGAL,
 * stays. */
enum { LEGAL = -9 };
struct fault {
  char uplo, ta, tb;
  int64_t n, k, lda, ldb, ldc;
  int of_gemmt, of_rank_k, of_rank_2k;
};
static const struct fault faults[] = {
    {'X', 0, 0, LEGAL, LEGAL, LEGAL, LEGAL, LEGAL, 1, 1, 1}, {0, 'X', 0, LEGAL, LEGAL, LEGAL, LEGAL, LEGAL, 2, 2, 2},
    {0, 0, 'X', LEGAL, LEGAL, LEGAL, LEGAL, LEGAL, 3, 0, 0}, {0, 0, 0, -1, LEGAL, LEGAL, LEGAL, LEGAL, 4, 3, 3},
    {0, 0, 0, LEGAL, -1, LEGAL, LEGAL, LEGAL, 5, 4, 4},      {0, 0, 0, LEGAL, LEGAL, -1, LEGAL, LEGAL, 8, 7, 7},
    {0, 0, 0, LEGAL, LEGAL, LEGAL, -1, LEGAL, 10, 0, 9},     {0, 0, 0, LEGAL, LEGAL, LEGAL, LEGAL, -1, 13, 10, 12},
    {'X', 0, 0, -1, LEGAL, LEGAL, LEGAL, LEGAL, 1, 1, 1},    {0, 0, 0, LEGAL, -1, LEGAL, LEGAL, -1, 5, 4, 4},
    {0, 0, 0, LEGAL, LEGAL, -1, LEGAL, -1, 8, 7, 7},         {0, 0, 0, LEGAL, LEGAL, -1, -1, LEGAL, 0, 0, 7},
    {'+', 0, 0, LEGAL, LEGAL, LEGAL, LEGAL, LEGAL, 1, 1, 1},
};

static int number_of(const struct tst_triangle_call *call, const struct fault *fault) {
  if (call->name.shape == GEMMT) return fault->of_gemmt;
  return call->name.shape == SYRK || call->name.shape == HERK ? fault->of_rank_k : fault->of_rank_2k;
}

/* A size one too small: what the stored operand needs, less one. */
static int64_t put_size(int64_t legal, int64_t fault) {
  return fault == LEGAL ? legal : fault == -1 ? legal - 1 : fault;
}

static bool along_k(const struct tst_triangle_call *call, char trans, bool of_b) {
  return ((toupper((unsigned char)trans) != 'N') != call->row_major) != of_b;
}

/* The call with leading dimensions that are just long enough. */
static void make_tight(struct tst_triangle_call *call) {
  call->lda = along_k(call, call->ta, false) ? call->k : call->n;
  call->ldb = along_k(call, call->tb, call->name.shape == GEMMT) ? call->k : call->n;
  call->ldc = call->n;
}

static struct tst_triangle_call with_fault(const struct tst_triangle_call *legal, const struct fault *fault) {
  struct tst_triangle_call call = *legal;
  if (fault->uplo != 0) call.uplo = fault->uplo;
  if (fault->ta != 0) call.ta = fault->ta;
  if (fault->tb != 0) call.tb = fault->tb;
  if (fault->n != LEGAL) call.n = -1;
  if (fault->k != LEGAL) call.k = -1;
  call.lda = put_size(call.lda, fault->lda);
  call.ldb = put_size(call.ldb, fault->ldb);
  call.ldc = put_size(call.ldc, fault->ldc);
  return call;
}

static struct heard expected(const struct tst_triangle_call *call, int number) {
  void *const function = in_library(&call->name);
  if (function == NULL) return to_be_heard(&call->name, number);
  struct tst_triangle_call direct = *call;
  direct.name.function = function;
  direct.name.wide = false;
  heard = (struct heard){0};
  tst_triangle_make(&direct);
  tst_triangle_restore(&direct);
  return heard;
}

/* ---- counting ---- */

/* Of a term of each element of the triangle: 2, or 8 of complex numbers; a rank 2k has as many again. */
static double operations(const struct tst_triangle_call *call) {
  const double each = tst_typed_is_complex(&call->name) ? 8 : 2;
  const bool twice = call->name.shape == SYR2K || call->name.shape == HER2K;
  return each * (double)(call->n * (call->n + 1) / 2 * call->k) * (twice ? 2 : 1);
}

static void check(struct tst_triangle_call *call, int number) {
  const struct heard want = expected(call, number);
  tileblas_stats was;
  if (want.calls == 0) return; /* some take in CBLAS what they refuse in Fortran */
  heard = (struct heard){0};
  tileblas_stats_get(&was);
  tst_triangle_make(call);
  expect_counted(call->name.name, call->row_major, &was, 0);
  expect_heard(&call->name, call->row_major, &want);
  assert_memory_equal(call->c.data, call->c.before, call->c.bytes);
}

/* ---- tests ---- */

static void every_fault(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 4 * TST_TRIANGLE_NAMES; i++) {
    struct tst_triangle_call legal;
    tst_triangle_create_sized(&legal, i, N, K, &rng);
    struct tst_triangle_call tight = legal; /* and of as much memory */
    make_tight(&tight);
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
      struct tst_triangle_call call = with_fault(&tight, &faults[f]);
      const int number = number_of(&legal, &faults[f]);
      if (number != 0) check(&call, number);
    }
    tileblas_stats was;
    tileblas_stats_get(&was);
    tst_triangle_make(&legal);
    expect_counted(legal.name.name, legal.row_major, &was, operations(&legal));
    const char *wrong = tst_triangle_wrong(&legal);
    if (wrong != NULL) fail_msg("%s", wrong);
    tst_triangle_destroy(&legal);
  }
}

/* A complex syrk has no C, a herk no T. */
static void transposes_of_complex_ones(void **state) {
  (void)state;
  uint64_t rng = 2;
  for (int i = 0; i < TST_TRIANGLE_NAMES; i++) {
    struct tst_triangle_call call;
    tst_triangle_create_sized(&call, i, N, K, &rng);
    call.ta = call.tb = call.name.shape == HERK || call.name.shape == HER2K ? 'T' : 'C';
    make_tight(&call);
    if (tst_typed_is_complex(&call.name) && call.name.shape != GEMMT) check(&call, 2);
    tst_triangle_destroy(&call);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_fault), cmocka_unit_test(transposes_of_complex_ones)};
  if (argc != 2) return 2;
  library = argv[1];
  if (!alone()) {
    if (!dlopen(library, RTLD_NOW | RTLD_LOCAL)) tst_skip("%s is not installed", library);
    tileblas_option_set("TILEBLAS_FALLBACK", library);
  }
  return cmocka_run_group_tests_name(library, tests, NULL, NULL);
}
