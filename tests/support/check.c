/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#include "balanced.h"
#include "process.h"
#include "rng.h"
#include "tileblas.h"

static void *reference; /* OpenBLAS's cblas_sgemm, reached past every preloaded or linked symbol */
static bool expect_gpu, trace;

void tst_check_setup(void) {
  void *openblas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!openblas) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  reference = dlsym(openblas, "cblas_sgemm");
  expect_gpu = strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  trace = getenv("TB_TEST_TRACE") != NULL; /* names the product at hand when a test crashes */
}

bool tst_expect_gpu(void) { return expect_gpu; }

static void fail_with(const struct tst_symbol *symbol, const struct tst_problem *p, const char *what) {
  fail_msg("%s: %s", tst_describe(symbol, p), what);
}

static void check_route(const struct tst_symbol *symbol, const struct tst_problem *p, const tileblas_stats *before) {
  bool gpu = expect_gpu && p->m > 0 && p->n > 0 && p->k > 0 && p->alpha != 0;
  tileblas_stats after;
  tileblas_stats_get(&after);
  if (after.gpu_calls - before->gpu_calls != gpu || after.cpu_calls - before->cpu_calls != !gpu)
    fail_with(symbol, p, gpu ? "no GPU answered" : "the CPU BLAS did not answer exactly once");
  if (after.gpu_failures != before->gpu_failures) fail_with(symbol, p, "the GPU failed");
}

/* The reference takes only 32-bit integers and capital letters; C is left as it was before. Small products with alpha
 * or k zero are given to it with both zero: on some processors it would multiply by NaNs that nobody may read. */
static void check_reference(const struct tst_symbol *symbol, const struct tst_problem *p, struct tst_operands *x,
                            const struct tst_expected *e) {
  struct tst_problem q = *p;
  q.trans_a = (char)(p->trans_a & ~0x20); /* ASCII upper case */
  q.trans_b = (char)(p->trans_b & ~0x20);
  if (p->alpha == 0 || p->k == 0) q.alpha = 0, q.k = 0;

  size_t bytes = x->c.inner_bytes;
  float *ours = malloc(bytes + 1), *swap = (float *)x->c.inner;
  if (!ours) abort();
  memcpy(ours, swap, bytes);
  tst_matrix_restore(&x->c);
  tst_call(tst_find_symbol("cblas_sgemm"), reference, &q, x->a.data, x->b.data, x->c.data);
  float *theirs = malloc(bytes + 1);
  if (!theirs) abort();
  memcpy(theirs, swap, bytes);
  memcpy(swap, ours, bytes);

  const char *what = tst_verify_against(p, x, e, theirs + (x->c.data - swap), "OpenBLAS");
  free(ours);
  free(theirs);
  if (what) fail_with(symbol, p, what);
}

void tst_check_operands(const struct tst_symbol *symbol, const struct tst_problem *p, struct tst_operands *x,
                        bool exact) {
  struct tst_expected e;
  tileblas_stats before;

  if (trace) fprintf(stderr, "%s\n", tst_describe(symbol, p));
  tst_expect(&e, p, x);
  if (exact) memset(e.bound, 0, sizeof *e.bound * (size_t)(p->m * p->n));
  tileblas_stats_get(&before);
  tst_call_balanced(symbol, tst_resolve(symbol), p, x->a.data, x->b.data, x->c.data);
  check_route(symbol, p, &before);
  const char *what = tst_verify(p, x, &e);
  if (what) fail_with(symbol, p, what);
  check_reference(symbol, p, x, &e);
  tst_expected_destroy(&e);
}

void tst_check(const struct tst_symbol *symbol, const struct tst_problem *p, enum tst_values values, uint64_t seed) {
  struct tst_operands x;
  tst_operands_create(&x, p, values, &seed);
  tst_check_operands(symbol, p, &x, values == TST_INTEGERS);
  tst_operands_destroy(&x);
}
