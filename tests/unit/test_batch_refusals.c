/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What of a batch is refused, by OpenBLAS's numbers, and that nothing of it is computed then; and a CPU BLAS that has
 * batches: it gets the program's own arrays, of what is strided a group made of it, and never a product that has
 * nothing to multiply. A valid batch is right afterwards.
 *
 * Seen to fail when: a number counts the layout; a row-major call is checked in its own order; a good group ahead of a
 * bad one is computed; a bad group of no products is let pass; a strided call keeps its A for all, or its addresses;
 * arrays of 64-bit integers are handed to a BLAS with 32; what that BLAS calls within is counted.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch_blas.h"
#include "heap.h"
#include "heard.h"
#include "process.h"
#include "tileblas.h"

typedef void cblas_batch(int, const int *, const int *, const int *, const int *, const int *, const float *,
                         const float **, const int *, const float **, const int *, const float *, float **, const int *,
                         int, const int *);
typedef void fortran_batch(const char *, const char *, const int *, const int *, const int *, const float *,
                           const float **, const int *, const float **, const int *, const float *, float **,
                           const int *, const int *, const int *);
typedef void wide_cblas_batch(int, const int *, const int *, const int64_t *, const int64_t *, const int64_t *,
                              const float *, const float **, const int64_t *, const float **, const int64_t *,
                              const float *, float **, const int64_t *, int64_t, const int64_t *);
typedef void wide_fortran_batch(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
                                const float *, const float **, const int64_t *, const float **, const int64_t *,
                                const float *, float **, const int64_t *, const int64_t *, const int64_t *);
typedef void cblas_strided(int, int, int, int, int, int, float, const float *, int, int, const float *, int, int, float,
                           float *, int, int, int);

static void *of(const char *name) {
  void *const function = dlsym(RTLD_DEFAULT, name);
  assert_non_null(function);
  return function;
}

/* Two groups of 2 x 3 x 4 products, the second with a fault. */
struct batch {
  int layout, ta[2], tb[2], m[2], n[2], k[2], lda[2], ldb[2], ldc[2], size[2], groups;
  float alpha[2], beta[2], a[3][12], b[3][12], c[3][12];
};

static struct batch legal(int layout) {
  const bool row = layout == 101;
  struct batch x = {.layout = layout, .groups = 2, .alpha = {1, 1}, .beta = {2, 2}, .size = {1, 2}};
  for (int g = 0; g < 2; g++) {
    x.ta[g] = x.tb[g] = 111;
    x.m[g] = 2, x.n[g] = 3, x.k[g] = 4;
    x.lda[g] = row ? 4 : 2, x.ldb[g] = row ? 3 : 4, x.ldc[g] = row ? 3 : 2;
  }
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < 12; i++) x.a[p][i] = 1, x.b[p][i] = (float)p, x.c[p][i] = 5;
  return x;
}

static void call(struct batch *x, bool fortran) {
  const float *a[3] = {x->a[0], x->a[1], x->a[2]}, *b[3] = {x->b[0], x->b[1], x->b[2]};
  float *c[3] = {x->c[0], x->c[1], x->c[2]};
  char letters[2][2];
  for (int g = 0; g < 2; g++) letters[0][g] = x->ta[g] == 111 ? 'N' : 'X', letters[1][g] = x->tb[g] == 111 ? 'n' : 'X';
  if (fortran)
    ((fortran_batch *)of("sgemm_batch_"))(letters[0], letters[1], x->m, x->n, x->k, x->alpha, a, x->lda, b, x->ldb,
                                          x->beta, c, x->ldc, &x->groups, x->size);
  else
    ((cblas_batch *)of("cblas_sgemm_batch"))(x->layout, x->ta, x->tb, x->m, x->n, x->k, x->alpha, a, x->lda, b, x->ldb,
                                             x->beta, c, x->ldc, x->groups, x->size);
}

static void expect_refused(struct batch *x, bool fortran, int number) {
  const struct batch before = *x;
  heard = (struct heard){0};
  call(x, fortran);
  if (heard.calls != 1 || heard.info != number || strcmp(heard.name, "SGEMM_BATCH") != 0)
    fail_msg("told %d times, of %s number %d, not %d", heard.calls, heard.name, heard.info, number);
  assert_memory_equal(before.c, x->c, sizeof x->c);
}

/* The argument of the second group that is wrong, and its number in a column-major and in a row-major call. */
static const struct {
  size_t at;
  int value, column_major, row_major;
} faults[] = {
    {offsetof(struct batch, ta), 7, 1, 2},   {offsetof(struct batch, tb), 7, 2, 1},
    {offsetof(struct batch, m), -1, 3, 4},   {offsetof(struct batch, n), -1, 4, 3},
    {offsetof(struct batch, k), -1, 5, 5},   {offsetof(struct batch, lda), 1, 8, 10},
    {offsetof(struct batch, ldb), 2, 10, 8}, {offsetof(struct batch, ldc), 1, 13, 13},
};

static void every_number(void **state) {
  (void)state;
  for (int way = 0; way < 3; way++) /* column-major, row-major, Fortran */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
      for (int empty = 0; empty < 2; empty++) {
        struct batch x = legal(way == 1 ? 101 : 102);
        ((int *)((char *)&x + faults[i].at))[1] = faults[i].value;
        if (empty) x.size[1] = 0;
        expect_refused(&x, way == 2, way == 1 ? faults[i].row_major : faults[i].column_major);
      }
  struct batch x = legal(102);
  x.layout = 100;
  expect_refused(&x, false, 0);
}

static void strided_ones(void **state) {
  (void)state;
  struct batch x = legal(102);
  cblas_strided *const function = (cblas_strided *)of("cblas_sgemm_batch_strided");
  heard = (struct heard){0};
  function(102, 111, 111, 2, 3, 4, 1, x.a[0], 1, 12, x.b[0], 4, 12, 0, x.c[0], 2, 12, 3);
  assert_int_equal(heard.info, 8);
  assert_string_equal(heard.name, "SGEMM_BATCH_STRIDED");
  heard = (struct heard){0};
  function(102, 111, 111, 2, 3, 4, 1, x.a[0], 1, 12, x.b[0], 4, 12, 0, x.c[0], 2, 12, 0); /* no product */
  assert_int_equal(heard.calls, 0);
}

static void right_afterwards(void **state) {
  (void)state;
  struct batch x = legal(102);
  call(&x, false);
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < 6; i++) assert_true(x.c[p][i] == (float)(4 * p + 10));
  assert_true(x.c[0][6] == 5);
}

/* Leading dimensions of 0, where nothing is stored: accepted, and no gemm that is asked instead hears of them. */
static void nothing_stored(void **state) {
  (void)state;
  struct batch x = legal(102);
  x.ta[1] = 112, x.k[1] = x.lda[1] = x.ldb[1] = 0, x.beta[1] = 3;
  heard = (struct heard){0};
  call(&x, false);
  assert_int_equal(heard.calls, 0);
  for (int p = 1; p <= x.size[1]; p++)
    for (int i = 0; i < 6; i++) assert_true(x.c[p][i] == 15);
}

/* ---- a BLAS with batches ---- */

static struct batch_blas *behind;

static void gets_the_programs_own_arrays(void **state) {
  (void)state;
  for (int fortran = 0; fortran < 2; fortran++) {
    struct batch x = legal(101 + fortran);
    *behind = (struct batch_blas){0};
    x.size[1] = 1, x.size[0] = 2;
    call(&x, fortran);
    assert_int_equal(behind->batches, 1);
    assert_int_equal(behind->products_alone, 0);
    assert_int_equal(behind->groups, 2);
    assert_int_equal(behind->layout, fortran ? 0 : 101);
    assert_ptr_equal(behind->m, x.m);
    assert_ptr_equal(behind->last[2], x.c[1]);
  }
}

static void gets_a_group_of_what_is_strided(void **state) {
  (void)state;
  struct batch x = legal(102);
  size_t blocks[2], bytes;
  for (int i = 0; i < 2; i++) { /* what it has allocated is given back */
    *behind = (struct batch_blas){0};
    ((cblas_strided *)of("cblas_sgemm_batch_strided"))(102, 111, 111, 2, 3, 4, 1, x.a[0], 2, 0, x.b[0], 4, 12, 0,
                                                       x.c[0], 2, 12, 3);
    blocks[i] = tst_heap_blocks(&bytes);
  }
  assert_int_equal(blocks[1], blocks[0]);
  assert_int_equal(behind->batches, 1);
  assert_int_equal(behind->products, 3);
  assert_ptr_equal(behind->last[0], x.a[0]);
  assert_ptr_equal(behind->last[1], x.b[2]);
  assert_ptr_equal(behind->last[2], x.c[2]);
}

static void gets_nothing_that_is_trivial(void **state) {
  (void)state;
  struct batch x = legal(102);
  *behind = (struct batch_blas){0};
  x.k[1] = 0;
  call(&x, false);
  assert_int_equal(behind->batches, 0);
  assert_int_equal(behind->products_alone, 3);
  x = legal(102);
  x.size[1] = -1;
  *behind = (struct batch_blas){0};
  call(&x, false);
  assert_int_equal(behind->batches, 0);
  assert_int_equal(behind->products_alone, 1);
}

/* Arrays of integers that it would not understand it does not get: their products go to its gemm, one by one. */
static void gets_no_arrays_of_other_width(void **state) {
  (void)state;
  for (int fortran = 0; fortran < 2; fortran++) {
    struct batch x = legal(102);
    const float *a[3] = {x.a[0], x.a[1], x.a[2]}, *b[3] = {x.b[0], x.b[1], x.b[2]};
    float *c[3] = {x.c[0], x.c[1], x.c[2]};
    int64_t m[2] = {2, 2}, n[2] = {3, 3}, k[2] = {4, 4}, lda[2] = {2, 2}, ldb[2] = {4, 4}, ldc[2] = {2, 2};
    int64_t groups = 2, size[2] = {1, 2};
    *behind = (struct batch_blas){0};
    if (fortran)
      ((wide_fortran_batch *)of("sgemm_batch_64_"))("NN", "NN", m, n, k, x.alpha, a, lda, b, ldb, x.beta, c, ldc,
                                                    &groups, size);
    else
      ((wide_cblas_batch *)of("cblas_sgemm_batch64_"))(102, x.ta, x.tb, m, n, k, x.alpha, a, lda, b, ldb, x.beta, c,
                                                       ldc, groups, size);
    assert_int_equal(behind->batches, 0);
    assert_int_equal(behind->products_alone, 3);
    assert_ptr_equal(behind->last[2], x.c[2]);
  }
}

/* As one that is made of others: what it calls within is its own business, and the program made one call. */
static void calls_from_inside(void **state) {
  (void)state;
  tileblas_stats was, is;
  for (int again = 0; again < 2; again++) {
    struct batch x = legal(101);
    *behind = (struct batch_blas){.nested = of("cblas_sgemm_batch")};
    tileblas_stats_get(&was);
    call(&x, false);
    tileblas_stats_get(&is);
    assert_int_equal(behind->batches, 2);
    assert_int_equal(behind->products_alone, 0);
    assert_int_equal(is.cpu_calls - was.cpu_calls, 1);
    assert_true(is.cpu_flops - was.cpu_flops == 3 * 2 * 2 * 3 * 4);
  }
}

/* It reports what it refuses itself. */
static void gets_what_is_refused(void **state) {
  (void)state;
  struct batch x = legal(102);
  *behind = (struct batch_blas){0};
  heard = (struct heard){0};
  x.ldc[0] = 0;
  call(&x, false);
  assert_int_equal(behind->batches, 1);
  assert_int_equal(heard.calls, 0);
}

static int refusals(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_number), cmocka_unit_test(strided_ones),
                                     cmocka_unit_test(right_afterwards), cmocka_unit_test(nothing_stored)};
  return cmocka_run_group_tests_name(library, tests, NULL, NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(gets_the_programs_own_arrays),
                                     cmocka_unit_test(gets_a_group_of_what_is_strided),
                                     cmocka_unit_test(gets_nothing_that_is_trivial),
                                     cmocka_unit_test(gets_no_arrays_of_other_width),
                                     cmocka_unit_test(calls_from_inside),
                                     cmocka_unit_test(gets_what_is_refused)};
  if (argc != 2) return 2;
  library = argv[1];
  if (alone()) return refusals();
  tst_heap_watch((const void *)(uintptr_t)main); /* the library's files are this program's */
  void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) tst_skip("%s is not there", library);
  behind = dlsym(handle, "batch_blas");
  tileblas_option_set("TILEBLAS_FALLBACK", library);
  return behind ? cmocka_run_group_tests_name("a BLAS with batches", tests, NULL, NULL) : refusals();
}
