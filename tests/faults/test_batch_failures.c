/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches with every driver function that the library calls failed once at positions all over its life (see
 * next_position): every product is right and committed once, a failing one loses none of the others, at most one
 * line of warning is printed, nothing is left behind in the driver, and the next batch is right too.
 *
 *   test_batch_failures once|async|resident
 *     once      the call fails, the driver is well
 *     async     the call succeeds, and what it enqueued fails later
 *     resident  as once, with all operands in device memory
 *
 * Seen to fail when: a piece is counted before it is committed, or not at all; what a failure left is committed twice;
 * a module stays; a large product behind the small ones is forgotten.
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

#include "offload_call.h"
#include "placed.h"
#include "process.h"
#include "rng.h"

static const char *const functions[] = {
#define TB_CUDA(name) #name,
#include "cuda/driver.def"
#undef TB_CUDA
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

#define CUDA_ERROR_UNKNOWN 999
#define CALLS 2
/* Several pieces a batch, and two regions of the device for them. */
#define LIMIT "300K"

struct failure {
  const char *function; /* NULL: none */
  unsigned long nth;
  unsigned flags;
};

static bool resident;
static unsigned mode_flags;

/* ---- a batch of whole numbers: exact, whoever computes ---- */

/* Two groups of many small products, of different kernels, and one product that is none of the small. */
enum { GROUPS = 3, PRODUCTS = 12 + 12 + 1 };
static const int sizes[GROUPS] = {12, 12, 1};
static const int shape[GROUPS][3] = {{40, 17, 33}, {16, 32, 40}, {1, 1500, 380}};

struct memory {
  int parts; /* numbers in an element: 1 or 2 */
  size_t count[3];
  float *host[3], *passed[3], *expected;
};

static size_t elems(int g, int o) {
  const int *s = shape[g];
  return (size_t)(o == 0 ? s[0] * s[2] : o == 1 ? s[2] * s[1] : s[0] * s[1]);
}

static int group_of(int product) { return product < 12 ? 0 : product < 24 ? 1 : 2; }

static void make(struct memory *x, int product, int parts, uint64_t *seed) {
  const int g = group_of(product), m = shape[g][0], n = shape[g][1], k = shape[g][2];
  x->parts = parts;
  for (int o = 0; o < 3; o++) {
    x->count[o] = elems(g, o) * (size_t)parts;
    x->host[o] = malloc(x->count[o] * sizeof(float));
    for (size_t i = 0; i < x->count[o]; i++) x->host[o][i] = (float)(tst_random_below(seed, 7) - 3);
    x->passed[o] = x->host[o];
    if (!resident) continue;
    x->passed[o] = tst_cuda_allocate(TST_DEVICE, x->count[o] * sizeof(float));
    tst_cuda_write(TST_DEVICE, x->passed[o], x->host[o], x->count[o] * sizeof(float));
  }
  /* C = -A op(B) + 2 C, B transposed in the second group. */
  x->expected = malloc(x->count[2] * sizeof(float));
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      double sum[2] = {0, 0};
      for (int l = 0; l < k; l++) {
        const float *a = x->host[0] + parts * (i + l * m), *b = x->host[1] + parts * (g == 1 ? j + l * n : l + j * k);
        sum[0] += (double)a[0] * b[0] - (parts == 2 ? (double)a[1] * b[1] : 0);
        if (parts == 2) sum[1] += (double)a[0] * b[1] + (double)a[1] * b[0];
      }
      for (int p = 0; p < parts; p++)
        x->expected[parts * (i + j * m) + p] = (float)(2 * x->host[2][parts * (i + j * m) + p] - sum[p]);
    }
}

static bool judge_product(struct memory *x) {
  bool right = true;
  if (resident) right = tst_cuda_read(TST_DEVICE, x->host[2], x->passed[2], x->count[2] * sizeof(float));
  for (size_t i = 0; right && i < x->count[2]; i++) right = x->host[2][i] == x->expected[i]; /* a zero of either sign */
  for (int o = 0; o < 3; o++) {
    if (resident) tst_cuda_free(TST_DEVICE, x->passed[o]);
    free(x->host[o]);
  }
  free(x->expected);
  return right;
}

static void call_batch(const struct tst_library *library, struct memory all[PRODUCTS], int parts) {
  const int trans_a[GROUPS] = {111, 111, 111}, trans_b[GROUPS] = {111, 112, 111};
  int m[GROUPS], n[GROUPS], k[GROUPS], ldb[GROUPS];
  float alpha[GROUPS * 2] = {0}, beta[GROUPS * 2] = {0};
  void *matrix[3][PRODUCTS];
  for (int g = 0; g < GROUPS; g++) {
    m[g] = shape[g][0], n[g] = shape[g][1], k[g] = shape[g][2];
    ldb[g] = g == 1 ? n[g] : k[g];
    alpha[parts * g] = -1, beta[parts * g] = 2;
  }
  for (int i = 0; i < PRODUCTS; i++)
    for (int o = 0; o < 3; o++) matrix[o][i] = all[i].passed[o];
  typedef void batch(int, const int *, const int *, const int *, const int *, const int *, const void *, const void *,
                     const int *, const void *, const int *, const void *, const void *, const int *, int, const int *);
  batch *const function = (batch *)dlsym(library->handle, parts == 2 ? "cblas_cgemm_batch" : "cblas_sgemm_batch");
  function(102, trans_a, trans_b, m, n, k, alpha, matrix[0], m, matrix[1], ldb, beta, matrix[2], m, GROUPS, sizes);
}

/* ---- a life of the library ---- */

static int life(void *argument) {
  const struct failure *f = argument;
  static struct memory all[CALLS][PRODUCTS];
  struct tst_library library;
  tileblas_stats stats;
  uint64_t seed = 5;
  bool right = true;
  const struct tst_fake *fake = tst_fake();
  if (!fake) return 2;
  if (resident) tst_cuda_begin(0);
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  library.option_set("TILEBLAS_VERBOSE", "1"); /* adds the calls that measure */
  library.option_set("TILEBLAS_MEMORY_LIMIT", LIMIT);
  for (int c = 0; c < CALLS; c++)
    for (int i = 0; i < PRODUCTS; i++) make(&all[c][i], i, c == 1 ? 2 : 1, &seed);
  if (resident) fake->reset_calls();
  if (f->function && fake->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, f->flags) != 0) return 3;
  for (int c = 0; c < CALLS; c++) call_batch(&library, all[c], c == 1 ? 2 : 1);
  library.stats_get(&stats);
  const unsigned long long injected = fake->get(FAKE_CUDA_FAILURES);
  for (size_t i = 0; !f->function && i < FUNCTIONS; i++)
    printf("calls %s %llu\n", functions[i], (unsigned long long)fake->calls(functions[i]));
  fake->clear_failures();
  for (int c = 0; c < CALLS; c++)
    for (int i = 0; i < PRODUCTS; i++)
      if (!judge_product(&all[c][i])) right = false, printf("call %d, product %d is wrong\n", c, i);
  tst_library_close(&library);
  if (resident) tst_cuda_end(0);
  printf("stats gpu=%llu cpu=%llu failures=%llu injected=%llu\n", (unsigned long long)stats.gpu_calls,
         (unsigned long long)stats.cpu_calls, (unsigned long long)stats.gpu_failures, injected);
  return right && tst_nothing_left(fake) ? 0 : 1;
}

static const char *judge(const struct failure *f, const struct tst_output *o) {
  const unsigned long long failed = tst_number_after(o->out, "failures="), gpu = tst_number_after(o->out, "gpu=");
  const size_t warnings = tst_count_lines(o->err, "tileblas: warning: ");
  if (o->status != 0) return "wrong answer, crash or leak";
  if (gpu + tst_number_after(o->out, " cpu=") != CALLS) return "a call was counted twice or not at all";
  if (tst_count_lines(o->err, " -> ") != CALLS) return "not one verbose line a call";
  if (tst_count_lines(o->err, "\n") != warnings + CALLS) return "something else was printed";
  if (!f->function) return failed == 0 && gpu == CALLS && warnings == 0 ? NULL : "a failure without a cause";
  if (tst_number_after(o->out, "injected=") == 0) return "the failure did not come to pass";
  return failed > 1 || warnings > 1 ? "the GPU failed twice" : NULL;
}

static unsigned failures;

static void run_case(const struct failure *f, unsigned long counts[FUNCTIONS]) {
  struct tst_output o;
  tst_fork(&o, life, (void *)f);
  const char *what = judge(f, &o);
  if (what) {
    print_error("%s number %lu: %s (status %d)\n%s%s", f->function ? f->function : "nothing", f->nth, what, o.status,
                o.out, o.err);
    failures++;
  }
  for (size_t i = 0; counts && i < FUNCTIONS; i++) {
    char key[96];
    snprintf(key, sizeof key, "calls %s ", functions[i]);
    counts[i] = tst_number_after(o.out, key);
  }
  tst_output_destroy(&o);
}

/* Those of opening are test_driver_failures': modules and functions come with the first batch, too. */
static bool is_of_interest(const char *name) {
  static const char *const asynchronous[] = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuLaunchKernel"};
  static const char *const others[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc",       "cuEventRecord",
                                       "cuEventQuery",     "cuStreamWaitEvent",   "cuCtxPushCurrent", "cuStreamQuery"};
  if (tst_is_listed(name, asynchronous, sizeof asynchronous / sizeof asynchronous[0])) return true;
  return !(mode_flags & FAKE_CUDA_ASYNC) && tst_is_listed(name, others, sizeof others / sizeof others[0]);
}

/* Fewer than tst_next_position: what opens a GPU, loads kernels and is called for each piece is much alike. */
static unsigned long next_position(unsigned long nth, unsigned long count) {
#if defined(__SANITIZE_ADDRESS__)
  const unsigned long next = nth + (nth < 2 ? 1 : 67);
#else
  const unsigned long next = nth + (nth < 4 ? 1 : 29);
#endif
  return next > count && nth < count ? count : next;
}

static void every_function_at_every_position(void **state) {
  (void)state;
  unsigned long counts[FUNCTIONS], cases = 0;
  run_case(&(struct failure){NULL, 0, 0}, counts);
  assert_int_equal(failures, 0);
  for (size_t i = 0; i < FUNCTIONS; i++)
    for (unsigned long nth = 1; is_of_interest(functions[i]) && nth <= counts[i];
         nth = next_position(nth, counts[i]), cases++)
      run_case(&(struct failure){functions[i], nth, mode_flags}, NULL);
  printf("%lu cases\n", cases);
  assert_true(cases > 6);
  assert_int_equal(failures, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_at_every_position)};
  if (argc != 2) return 2;
  resident = strcmp(argv[1], "resident") == 0;
  mode_flags = strcmp(argv[1], "async") == 0 ? FAKE_CUDA_ASYNC : 0;
  return cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
}
