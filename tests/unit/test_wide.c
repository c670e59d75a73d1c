/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 64-bit calls in front of a CPU BLAS whose integers have 32 bits (echo_blas.h): what these cannot express never
 * reaches it cut. Leading dimensions beyond them are computed without it; sizes beyond them go to it in pieces, which
 * cover the product once, each at its place, the first of k with the program's beta and the others with 1.
 *
 * Seen to fail when: a leading dimension is unchecked, by the short way or the long; beta is applied to each piece of
 * k; a piece of B starts at the wrong row; symm's and trsm's columns end after the first piece.
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

#include "abi.h"
#include "echo_blas.h"
#include "process.h"
#include "tileblas.h"

static __typeof__(echo_heard) *heard;
static __typeof__(echo_hook) *hook;
static float a[2], b[2], c[2];

static void call(const struct tst_symbol *symbol, const struct tst_problem *p) {
  tst_call(symbol, tst_resolve(symbol), p, a, b, c);
}

/* ---- leading dimensions ---- */

/* Cut to 32 bits, some are legal, some negative, some zero. */
static const int64_t wide[] = {(int64_t)1 << 31, ((int64_t)1 << 32) + 1, (int64_t)1 << 33, ((int64_t)1 << 40) + 7};

static const char *letters_of(const struct tst_symbol *symbol) { return tst_is_fortran(symbol) ? "NTCntc" : "NTC"; }

/* Of 1 x 1 x 1, whose answer needs no leading dimension: 5 = 2 * 3 - 1. */
static void check_leading(const struct tst_symbol *symbol, struct tst_problem p, int which, int64_t value) {
  const uint64_t calls = heard()->calls;
  p.lda = which & 1 ? value : 1;
  p.ldb = which & 2 ? value : 1;
  p.ldc = which & 4 ? value : 1;
  a[0] = 2, b[0] = 3, c[0] = 1;
  call(symbol, &p);
  if (heard()->calls != calls || c[0] != 5)
    fail_msg("%s %c%c lda=%lld ldb=%lld ldc=%lld: %s, C = %g", symbol->name, p.trans_a, p.trans_b, (long long)p.lda,
             (long long)p.ldb, (long long)p.ldc, heard()->calls != calls ? "the 32-bit BLAS was asked" : "wrong",
             (double)c[0]);
}

/* Any of the three; by the short way, and by the long, which a call goes that somebody watches. */
static void leading_dimensions(void **state) {
  (void)state;
  for (size_t s = 0; s < TST_SPELLINGS; s++) {
    const struct tst_symbol *symbol = &tst_symbols[s];
    const char *letters = letters_of(symbol);
    if (!tst_is_64bit(symbol)) continue;
    for (int watched = 0; watched < 2; watched++) {
      assert_int_equal(tileblas_option_set("TILEBLAS_REPORT", watched ? "0" : ""), 0);
      struct tst_problem p = {.m = 1, .n = 1, .k = 1, .alpha = 1, .lda = 1, .ldb = 1, .beta = -1, .ldc = 1};
      p.trans_a = p.trans_b = 'N';
      for (int i = 0; i < 2; i++) call(symbol, &p); /* the short way is open from here on */
      for (const char *ta = letters; *ta; ta++)
        for (const char *tb = letters; *tb; tb++)
          for (int rows = 0; rows < 2 - tst_is_fortran(symbol); rows++)
            for (int which = 1; which < 8; which++)
              for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
                p.trans_a = *ta, p.trans_b = *tb, p.row_major = rows;
                check_leading(symbol, p, which, wide[i]);
              }
    }
  }
  assert_int_equal(tileblas_option_set("TILEBLAS_REPORT", ""), 0);
}

/* ---- pieces ---- */

enum { PIECES_MOST = 4096 };
static struct echo piece[PIECES_MOST];
static int pieces;

static void keep_piece(void) {
  if (pieces < PIECES_MOST) piece[pieces] = *heard();
  pieces++;
}

/* Sizes around those where pieces begin, and around 2^31 and 2^32. */
static const int64_t sizes[] = {1,
                                3,
                                (1 << 30) - 1,
                                1 << 30,
                                (1 << 30) + 1,
                                INT32_MAX,
                                (int64_t)1 << 31,
                                ((int64_t)1 << 32) - 1,
                                (int64_t)1 << 32,
                                ((int64_t)1 << 32) + 4};

static bool is_letter(int said, bool transposed) {
  return transposed ? said == 'T' || said == 't' || said == 'C' || said == 'c' || said == 112 || said == 113
                    : said == 'N' || said == 'n' || said == 111;
}

/* The pieces of a column-major product of one row: columns in order, and of each of their groups all of k in order. */
static const char *wrong_with(const struct tst_problem *p, bool ta, bool tb) {
  int64_t j = 0, l = 0;
  for (int i = 0; i < pieces; i++) {
    const struct echo *e = &piece[i];
    if (e->layout != 0 && e->layout != 102) return "another layout";
    if (e->m != p->m || e->n < 1 || e->k < 1) return "a size";
    if (!is_letter(e->trans_a, ta) || !is_letter(e->trans_b, tb)) return "a transpose";
    if (e->lda != p->lda || e->ldb != p->ldb || e->ldc != p->ldc) return "a leading dimension";
    if (e->a != a + l * (ta ? 1 : p->lda)) return "where a piece of A starts";
    if (e->b != b + (tb ? j + l * p->ldb : l + j * p->ldb)) return "where a piece of B starts";
    if (e->c != c + j * p->ldc) return "where a piece of C starts";
    if (e->alpha != p->alpha || e->beta != (l == 0 ? p->beta : 1)) return "alpha or beta";
    l += e->k;
    if (l > p->k) return "more than all of k";
    if (l == p->k) l = 0, j += e->n;
  }
  return l == 0 && j == p->n ? NULL : "not all of the product";
}

/* A call of one row (or of one column, row-major: its transpose), n and k of any size that the 32-bit leading
 * dimensions allow: k when A is not transposed and B is, n when B is not. The echo reads nothing. */
static void check_pieces(const struct tst_symbol *symbol, int64_t n, int64_t k, bool ta, bool tb, bool rows) {
  struct tst_problem p = {.m = 1, .n = n, .k = k, .alpha = 2, .beta = 3, .ldc = 1};
  p.lda = ta ? k : 1;
  p.ldb = tb ? n : k;
  if (p.lda > INT32_MAX || p.ldb > INT32_MAX) return;
  if (n <= INT32_MAX && k <= INT32_MAX) return; /* goes as it was made */
  struct tst_problem made = p;
  made.row_major = rows;
  made.trans_a = ta ? 'T' : 'N', made.trans_b = tb ? 'T' : 'N';
  if (rows) { /* the transposed product, its operands exchanged */
    made.m = p.n, made.n = p.m, made.lda = p.ldb, made.ldb = p.lda;
    made.trans_a = tb ? 'T' : 'N', made.trans_b = ta ? 'T' : 'N';
  }
  pieces = 0;
  tst_call(symbol, tst_resolve(symbol), &made, rows ? b : a, rows ? a : b, c);
  const char *wrong = pieces > PIECES_MOST ? "too many pieces" : wrong_with(&p, ta, tb);
  if (wrong)
    fail_msg("%s%s n=%lld k=%lld %d%d: %s (%d pieces)", symbol->name, rows ? " row-major" : "", (long long)n,
             (long long)k, ta, tb, wrong, pieces);
}

static void sizes_in_pieces(void **state) {
  (void)state;
#ifdef __SANITIZE_ADDRESS__
  TST_LEAVE_OUT("sizes in pieces: no memory is as large, and the sanitizer minds addresses beyond it");
#endif
  const size_t count = sizeof sizes / sizeof *sizes;
  *hook = keep_piece;
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "cpu"), 0);
  for (size_t s = 0; s < TST_SPELLINGS; s++)
    for (size_t i = 0; i < count * count * 4; i++)
      for (int rows = 0; rows < 2; rows++)
        if (tst_is_64bit(&tst_symbols[s]) && !(rows && tst_is_fortran(&tst_symbols[s])))
          check_pieces(&tst_symbols[s], sizes[i % count], sizes[i / count % count], i / count / count % 2,
                       i / count / count / 2, rows);
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "auto"), 0);
  *hook = NULL;
}

/* ---- with a side ---- */

/* An A of order 3 on the left of a B of more columns than 32 bits count: B goes in pieces of columns, and A with each;
 * of a row-major call B's rows are those columns. */
typedef void wide_cblas_symm(int, int, int, int64_t, int64_t, float, const void *, int64_t, const void *, int64_t,
                             float, void *, int64_t);
typedef void wide_cblas_trsm(int, int, int, int, int, int64_t, int64_t, float, const void *, int64_t, void *, int64_t);
typedef void wide_fortran_symm(const char *, const char *, const int64_t *, const int64_t *, const float *,
                               const void *, const int64_t *, const void *, const int64_t *, const float *, void *,
                               const int64_t *, size_t, size_t);
typedef void wide_fortran_trsm(const char *, const char *, const char *, const char *, const int64_t *, const int64_t *,
                               const float *, const void *, const int64_t *, void *, const int64_t *, size_t, size_t,
                               size_t, size_t);

static void *of(const char *name) {
  void *const function = dlsym(RTLD_DEFAULT, name);
  assert_non_null(function);
  return function;
}

enum { ORDER = 3, LDA = 5, LDB = 4, LDC = 6 };

static void call_sided(bool solves, int way, int64_t columns) { /* column-major, row-major, Fortran */
  const int64_t order = ORDER, lda = LDA, ldb = LDB, ldc = LDC;
  const float alpha = 2, beta = 3;
  const int64_t m = way == 1 ? columns : order, n = way == 1 ? order : columns;
  const int layout = way == 1 ? 101 : 102, side = way == 1 ? 142 : 141;
  if (way == 2 && solves)
    ((wide_fortran_trsm *)of("strsm_64_"))("L", "U", "T", "U", &order, &columns, &alpha, a, &lda, c, &ldc, 1, 1, 1, 1);
  else if (way == 2)
    ((wide_fortran_symm *)of("ssymm_64_"))("L", "U", &order, &columns, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
  else if (solves)
    ((wide_cblas_trsm *)of("cblas_strsm64_"))(layout, side, way == 1 ? 122 : 121, 112, 132, m, n, alpha, a, lda, c,
                                              ldc);
  else
    ((wide_cblas_symm *)of("cblas_ssymm64_"))(layout, side, way == 1 ? 122 : 121, m, n, alpha, a, lda, b, ldb, beta, c,
                                              ldc);
}

static const char *wrong_piece(const struct echo *e, bool solves, int64_t column) {
  const bool fortran = e->layout == 0;
  if (!fortran && e->layout != 102) return "another layout";
  if (e->side != (fortran ? 'L' : 141) || e->uplo != (fortran ? 'U' : 121)) return "side or triangle";
  if (solves && (e->trans_a != (fortran ? 'T' : 112) || e->diag != (fortran ? 'U' : 132)))
    return "transpose or diagonal";
  if (e->m != ORDER || e->n < 1) return "a size";
  if (e->lda != LDA || e->ldb != (solves ? LDC : LDB) || e->ldc != LDC) return "a leading dimension";
  if (e->a != a) return "where A starts";
  if (e->c != c + column * LDC) return "where a piece of C starts";
  if (!solves && e->b != b + column * LDB) return "where a piece of B starts";
  return e->alpha == 2 && (solves || e->beta == 3) ? NULL : "alpha or beta";
}

static void columns_in_pieces(void **state) {
  (void)state;
#ifdef __SANITIZE_ADDRESS__
  TST_LEAVE_OUT("columns in pieces: no memory is as large, and the sanitizer minds addresses beyond it");
#endif
  static const int64_t counts[] = {(int64_t)1 << 31, ((int64_t)1 << 31) + 1, ((int64_t)1 << 32) + 7};
  *hook = keep_piece;
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "cpu"), 0);
  for (int i = 0; i < 3 * 2 * 3; i++) {
    const bool solves = i / 3 % 2;
    const int64_t columns = counts[i / 6];
    int64_t column = 0;
    const char *wrong = NULL;
    pieces = 0;
    call_sided(solves, i % 3, columns);
    for (int p = 0; p < pieces && p < PIECES_MOST && wrong == NULL; p++) {
      wrong = wrong_piece(&piece[p], solves, column);
      column += piece[p].n;
    }
    if (wrong == NULL && column != columns) wrong = "not all of the columns";
    if (wrong != NULL)
      fail_msg("%s, way %d, %lld columns: %s", solves ? "strsm" : "ssymm", i % 3, (long long)columns, wrong);
  }
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "auto"), 0);
  *hook = NULL;
}

/* ---- triangles ---- */

/* Of the wide calls each argument in its place, with another type's scalars. */
static void triangles_of_each_type(void **state) {
  (void)state;
  typedef void wide_cblas_dgemmt(int, int, int, int, int64_t, int64_t, double, const void *, int64_t, const void *,
                                 int64_t, double, void *, int64_t);
  typedef void wide_cblas_zgemmt(int, int, int, int, int64_t, int64_t, const double *, const void *, int64_t,
                                 const void *, int64_t, const double *, void *, int64_t);
  static const double alpha[2] = {5, 2}, beta[2] = {7, 3};
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "cpu"), 0);
  for (int complex = 0; complex < 2; complex++) {
    const uint64_t before = heard()->calls;
    if (complex)
      ((wide_cblas_zgemmt *)of("cblas_zgemmt64_"))(102, 122, 111, 112, 4, 9, alpha, a, 6, b, 7, beta, c, 8);
    else
      ((wide_cblas_dgemmt *)of("cblas_dgemmt64_"))(102, 122, 111, 112, 4, 9, alpha[1], a, 6, b, 7, beta[1], c, 8);
    const struct echo *const e = heard();
    assert_int_equal(e->calls - before, 1);
    assert_true(e->layout == 102 && e->uplo == 122 && e->trans_a == 111 && e->trans_b == 112);
    assert_true(e->n == 4 && e->k == 9 && e->lda == 6 && e->ldb == 7 && e->ldc == 8);
    assert_true(e->a == a && e->b == b && e->c == c && e->alpha == 2 && e->beta == 3);
  }
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "auto"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(leading_dimensions), cmocka_unit_test(sizes_in_pieces),
                                     cmocka_unit_test(columns_in_pieces), cmocka_unit_test(triangles_of_each_type)};
  const char *echo = tst_format("%s/libecho_narrow.so", tst_setting("TB_TEST_BUILD_DIR"));
  tileblas_option_set("TILEBLAS_FALLBACK", echo);
  void *library = dlopen(echo, RTLD_NOW | RTLD_LOCAL);
  if (!library) abort();
  *(void **)&heard = dlsym(library, "echo_heard");
  hook = (__typeof__(hook))dlsym(library, "echo_hook");
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
