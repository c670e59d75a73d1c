/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with error handlers of its own, which calls sgemm with every illegal argument and prints what it is told:
 * "CASE: NAME parameter N", one line a call, with "C was changed" behind it if that happened. The lines must be the
 * same with and without TileBLAS. An argument "longjmp" makes the handlers leave by longjmp, as interpreters do;
 * "legal" adds, after each illegal call, a legal one, and prints when that is wrong.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"

extern void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *,
                        int);

static jmp_buf back;
static int use_longjmp, check_legal, told;

static void tell(const char *name, size_t length, int info) {
  while (length > 0 && (name[length - 1] == ' ' || name[length - 1] == '\0')) length--;
  printf(" %.*s parameter %d", (int)length, name, info);
  told++;
  if (use_longjmp) longjmp(back, 1);
}

/* The reference's Fortran error handler; the name is padded with blanks, its length hidden. */
void xerbla_(const char *name, const int *info, size_t length) { tell(name, length, *info); }

/* netlib's C handler. */
void cblas_xerbla(int info, const char *name, const char *format, ...) {
  (void)format;
  tell(name, strlen(name), info);
}

static float a[64], b[64], c[64];

static void fill(void) {
  for (int i = 0; i < 64; i++) a[i] = (float)(i % 5), b[i] = (float)(i % 3), c[i] = (float)i;
}

/* 2 x 2 x 2 with leading dimension 8. */
static void legal_call(const struct tst_symbol *symbol) {
  struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = 2, .n = 2, .k = 2, .alpha = 1, .lda = 8, .ldb = 8, .ldc = 8};
  fill();
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  if (c[0] != a[0] * b[0] + a[8] * b[1] || c[9] != a[1] * b[8] + a[9] * b[9]) printf(" and a legal call is wrong");
}

static void illegal_call(const struct tst_symbol *symbol, const char *label, const struct tst_problem *p, int layout) {
  float before[64];
  fill();
  memcpy(before, c, sizeof c);
  printf("%s %s:", symbol->name, label);
  told = 0;
  if (setjmp(back) == 0) {
    if (layout != 0) /* a layout that tst_call cannot express */
      cblas_sgemm(layout, 111, 111, 2, 2, 2, 1, a, 8, b, 8, 1, c, 8);
    else
      tst_call(symbol, tst_resolve(symbol), p, a, b, c);
  }
  if (told == 0) printf(" nothing was told");
  if (memcmp(before, c, sizeof c) != 0) printf(" C was changed");
  if (check_legal) legal_call(symbol);
  printf("\n");
}

static void every_illegal_argument(const struct tst_symbol *symbol, bool row_major) {
  const struct tst_problem good = {.row_major = row_major,
                                   .trans_a = 'N',
                                   .trans_b = 'N',
                                   .m = 4,
                                   .n = 5,
                                   .k = 6,
                                   .alpha = 1,
                                   .lda = 8,
                                   .ldb = 8,
                                   .beta = 2,
                                   .ldc = 8};
  struct tst_problem p;
  const char *order = row_major ? "row" : "column";
  char label[64];
#define CASE(text, change)                                   \
  snprintf(label, sizeof label, "%s-major %s", order, text); \
  p = good;                                                  \
  change;                                                    \
  illegal_call(symbol, label, &p, 0)
  CASE("transa", p.trans_a = '/');
  CASE("transb", p.trans_b = '/');
  CASE("m", p.m = -1);
  CASE("n", p.n = -1);
  CASE("k", p.k = -1);
  CASE("lda NN", p.lda = row_major ? 5 : 3);
  CASE("lda TN", (p.trans_a = 'T', p.lda = row_major ? 3 : 5));
  CASE("lda CN", (p.trans_a = 'C', p.lda = row_major ? 3 : 5));
  CASE("ldb NN", p.ldb = row_major ? 4 : 5);
  CASE("ldb NT", (p.trans_b = 'T', p.ldb = row_major ? 5 : 4));
  CASE("ldc", p.ldc = row_major ? 4 : 3);
  CASE("lda 0 with m = n = k = 0", (p.m = p.n = p.k = 0, p.lda = 0));
  CASE("ldc with k = 0", (p.k = 0, p.ldc = 1));
  CASE("ldb with alpha = 0", (p.alpha = 0, p.ldb = 1));
  CASE("m and ldc", (p.m = -1, p.ldc = 1));
  CASE("all", (p.trans_a = 'x', p.m = p.n = p.k = -1, p.lda = p.ldb = p.ldc = -1));
#undef CASE
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    use_longjmp |= strcmp(argv[i], "longjmp") == 0;
    check_legal |= strcmp(argv[i], "legal") == 0;
  }
  every_illegal_argument(tst_find_symbol("sgemm_"), false);
  every_illegal_argument(tst_find_symbol("cblas_sgemm"), false);
  every_illegal_argument(tst_find_symbol("cblas_sgemm"), true);
  illegal_call(tst_find_symbol("cblas_sgemm"), "layout", NULL, 100);
  return 0;
}
