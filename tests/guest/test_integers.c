/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 7: a program with 64-bit integers and a BLAS that has such integers under plain names. What we do not take
 * reaches that BLAS uncut, by either way, valid or not; what we take is computed as it was meant. Before a BLAS that
 * only listens, and before Debian's, as before one of 32 bits whose callers leave anything in the upper halves.
 *
 * Seen to fail when: the width behind is not asked; the upper halves of a 32-bit caller are believed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "tileblas.h"
#include "wide_blas.h"

void sgemm_(const char *ta, const char *tb, const int64_t *m, const int64_t *n, const int64_t *k, const float *alpha,
            const float *a, const int64_t *lda, const float *b, const int64_t *ldb, const float *beta, float *c,
            const int64_t *ldc);
void cblas_sgemm(int layout, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

#define WIDE ((int64_t)1 << 32) /* of which 32 bits are 0 */

static float a[4] = {1, 2, 3, 4}, b[4] = {2}, c[4];

static void call(bool fortran, const int64_t s[6]) {
  const float alpha = 1, beta = 0;
  if (fortran)
    sgemm_("N", "N", &s[0], &s[1], &s[2], &alpha, a, &s[3], b, &s[4], &beta, c, &s[5]);
  else
    cblas_sgemm(102, 111, 111, s[0], s[1], s[2], alpha, a, s[3], b, s[4], beta, c, s[5]);
}

/* Leading dimensions; sizes that the reference refuses, and small ones. */
static const int64_t made[][6] = {{3, 1, 1, 3, 1, 3},       {3, 1, 1, WIDE, 1, 3},       {3, 1, 1, 3, WIDE, 3},
                                  {3, 1, 1, 3, 1, WIDE},    {3, 1, 1, WIDE, WIDE, WIDE}, {-WIDE, 1, 1, 1, 1, 1},
                                  {1, -WIDE, 1, 1, 1, 1},   {1, 1, -WIDE, 1, 1, 1},      {3, 1, 1, -WIDE + 3, 1, 3},
                                  {WIDE + 3, 1, 1, 3, 1, 3}};

static void everything_arrives(void **state) {
  (void)state;
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "cpu"), 0);
  for (int fortran = 0; fortran < 2; fortran++)
    for (int again = 0; again < 3; again++)
      for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        const int before = wide_heard.calls;
        call(fortran, made[i]);
        assert_int_equal(wide_heard.calls, before + 1);
        assert_memory_equal(wide_heard.sizes, made[i], sizeof made[i]);
      }
}

static void a_gpu_computes_it_as_it_was_meant(void **state) {
  (void)state;
  tileblas_stats stats;
  const bool gpu = strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "gpu"), 0);
  for (int fortran = 0; fortran < 2; fortran++)
    for (size_t i = 0; i < 5; i++) {
      const int before = wide_heard.calls;
      memset(c, 0, sizeof c);
      call(fortran, made[i]);
      assert_int_equal(wide_heard.calls, before + !gpu);
      if (gpu) assert_true(c[0] == 2 && c[1] == 4 && c[2] == 6);
    }
  tileblas_stats_get(&stats);
  assert_int_equal(stats.gpu_calls, gpu ? 10 : 0);
}

/* ---- whole programs ---- */

static char *said(const char *library, const char *preload, const char *argument) {
  const char *const command[] = {tst_setting("TB_TEST_WIDE_INTEGERS"), argument, NULL};
  const char *const environment[] = {tst_format("LD_PRELOAD=%s%s", library, preload), "OPENBLAS_NUM_THREADS=1", NULL};
  struct tst_output o;
  tst_run(&o, command, environment);
  if (o.status != 0 || tst_count_lines(o.out, "right") == 0 || tst_count_lines(o.out, "wrong") > 0)
    fail_msg("%s%s: status %d\n%s%s", library, preload, o.status, o.out, o.err);
  return o.out;
}

static void same_as_without_us(const char *blas, const char *argument) {
  if (tst_setting("TB_TEST_WIDE_INTEGERS")[0] == '\0') return; /* under a sanitizer nothing can be preloaded */
  const char *plain = said("", blas, argument);
  assert_string_equal(said(tst_format("%s:", tst_setting("TB_TEST_LIBRARY")), blas, argument), plain);
}

static void debians_wide_blas(void **state) {
  (void)state;
  if (!dlopen("libblas64.so.3", RTLD_LAZY) || !dlopen("libopenblas64.so.0", RTLD_LAZY))
    TST_LEAVE_OUT("Debian's: %s", dlerror());
  same_as_without_us("libblas64.so.3", NULL);
  same_as_without_us("libopenblas64.so.0", NULL);
}

static void a_narrow_blas(void **state) {
  (void)state;
  same_as_without_us("libopenblas.so.0", "narrow");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everything_arrives),
      cmocka_unit_test(a_gpu_computes_it_as_it_was_meant),
      cmocka_unit_test(debians_wide_blas),
      cmocka_unit_test(a_narrow_blas),
  };
  alarm(60);
  return tst_result(cmocka_run_group_tests_name("integers", tests, NULL, NULL));
}
