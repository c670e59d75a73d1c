/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What seldom happens, and no other test's subject is: memory of a pool, which belongs to no context; memory of a GPU
 * that may not be used; choices that no kernel has; values of the environment too long to keep; what the verbose line
 * says of predictions; products that move so much that rings grow, or so little that lines leave the caches; GPUs that
 * fail while they finish the part of another one.
 *
 * Each case that calls the GPU is a process of its own. Seen to fail when: a copy of memory without a context goes to
 * no device; memory of a forbidden GPU is computed on the first one; the predictions change places in the line; the
 * part of a GPU that fails while it finishes another's is forgotten.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"
#include "fake.h"
#include "offload/hosted.h"
#include "sanitized.h"
#include "select/kernels.h"
#include "base/options.h"
#include "placed.h"
#include "pipeline/widening.h"
#include "process.h"
#include "cpu/reference.h"
#include "synthetic.h"
#include "tileblas.h"

/* One call through cblas_sgemm, exact. */
static bool call_once(struct tst_problem p, enum tst_kind kind) {
  struct tst_operands x;
  struct tst_expected e;
  struct tst_placed a, b, c;
  uint64_t rng = 3;
  p.trans_a = 'N', p.trans_b = 'T', p.alpha = -1, p.beta = 2;
  tst_set_leading(&p, 0);
  tst_operands_create(&x, &p, TST_INTEGERS, &rng);
  tst_expect(&e, &p, &x);
  memset(e.bound, 0, sizeof *e.bound * (size_t)(p.m * p.n));
  tst_place(&a, &x.a, kind, 0), tst_place(&b, &x.b, kind, 0), tst_place(&c, &x.c, kind, 0);
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), &p, a.data, b.data, c.data);
  const bool back = tst_take_back(&a) & tst_take_back(&b) & tst_take_back(&c);
  const char *wrong = tst_verify(&p, &x, &e);
  if (wrong) printf("%s: %s\n", tst_describe(symbol, &p), wrong);
  tst_expected_destroy(&e);
  tst_operands_destroy(&x);
  return back && !wrong;
}

/* Runs it in a process; returns what it wrote to stderr, to be freed. */
static char *live(int (*life)(void *), void *argument) {
  struct tst_output o;
  tst_fork(&o, life, argument);
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  free(o.out);
  return o.err;
}

/* ---- memory ---- */

/* Copied down and up again on the device that is named, or for want of that on the first. */
static int pool_memory(void *nothing) {
  (void)nothing;
  float host[6] = {1, 2, 3, 4, 5, 6};
  tst_cuda_begin(0);
  if (!tb_cuda_load()) return 6;
  float *memory = tst_cuda_allocate(TST_DEVICE, sizeof host);
  tst_cuda_write(TST_DEVICE, memory, host, sizeof host);
  for (int device = -1; device < 1; device++) {
    const struct tb_call call = {.m = 2, .n = 2, .c = memory, .ldc = 3, .beta = {1}};
    const struct tb_places places = {.c = {.place = TB_DEVICE, .device = device}};
    struct tb_hosted hosted;
    if (!tb_places_need_gpu(&places) || !tb_hosted_begin(&hosted, &call, &places, false)) return 1;
    float *const copied = hosted.call.c;
    if (copied[0] != host[0] || copied[hosted.call.ldc + 1] != host[4]) return 2;
    copied[0] = host[0] = 7 + (float)device;
    if (!tb_hosted_end(&hosted)) return 3;
    float back[6];
    if (!tst_cuda_read(TST_DEVICE, back, memory, sizeof back) || memcmp(back, host, sizeof back) != 0) return 4;
  }
  tst_cuda_free(TST_DEVICE, memory);
  tst_cuda_end(0);
  return tst_fake()->get(FAKE_CUDA_PUSHED) == 0 && tst_fake()->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 5;
}

static void memory_without_a_context(void **state) {
  (void)state;
  free(live(pool_memory, NULL));
}

static int forbidden(void *nothing) {
  (void)nothing;
  tst_cuda_begin(1);
  const bool right = call_once((struct tst_problem){.m = 33, .n = 20, .k = 41}, TST_DEVICE);
  tst_cuda_end(1);
  return right && tst_fake()->calls_on(1, "cuLaunchKernel") == 0 && tst_fake()->calls_on(1, "cuLaunchKernelEx") == 0
             ? 0
             : 1;
}

/* Memory of the second GPU, where the first alone may be used. */
static void memory_of_a_forbidden_gpu(void **state) {
  (void)state;
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  tileblas_option_set("TILEBLAS_DEVICES", "0");
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  free(live(forbidden, NULL));
  unsetenv("FAKE_CUDA_DEVICES");
  tileblas_option_set("TILEBLAS_DEVICES", "");
}

/* ---- choices and names ---- */

/* Nothing is launched: there is nothing to launch. */
static void choices_of_no_kernel(void **state) {
  (void)state;
  static struct tb_kernels kernels;
  const struct tb_sgemm_args args = {.m = 500, .n = 500, .k = 500, .lda = 500, .ldb = 500, .ldd = 500};
  const struct tb_choice unknown = {.family = (enum tb_family)99},
                         thin = {.family = TB_FAMILY_SKINNY, .skinny = {.splits = 1}};
  assert_int_equal(tb_kernels_launch(&kernels, &unknown, false, false, &args, 0, NULL), CUDA_ERROR_NO_BINARY_FOR_GPU);
  assert_int_equal(tb_kernels_launch(&kernels, &thin, false, false, &args, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

static int unknown_code(void *nothing) {
  (void)nothing;
  char text[128];
  tb_cuda_describe_failure((CUresult)31415, text, sizeof text); /* no driver is loaded */
  if (strcmp(text, "CUDA: an unknown CUDA error") != 0) return 1;
  tb_cuda_failed_call = "tb_cuda.cuSomething(x)";
  if (!tb_cuda_load()) return 2;
  tb_cuda_describe_failure((CUresult)31415, text, sizeof text); /* it has no name for it */
  return strcmp(text, "cuSomething: an unknown CUDA error") == 0 ? 0 : 3;
}

static void errors_without_a_name(void **state) {
  (void)state;
  free(live(unknown_code, NULL));
}

/* A GPU whose parts of a call do not overlap: what the largest measured product takes without its copies is the
 * kernels'. */
static void kernels_rate(void **state) {
  (void)state;
  static struct tb_model model;
  const double flops_per_s = 30e12, bytes_per_s = 50e9;
  struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  for (int node = 0; node < TB_NODES; node++) {
    const struct tb_node_sizes s = tb_node_sizes(node);
    const double m = (double)s.m, n = (double)s.n, k = (double)s.k;
    c.seconds[TB_GPU][node] = 40e-6 + 4 * (m * k + k * n + m * n) / bytes_per_s + 2 * m * n * k / flops_per_s;
  }
  tb_model_fit(&model, TB_S, &c, 16);
  assert_in_range(model.rates.gpu_flops_per_s, 28e12, 32e12);
}

static void the_version(void **state) {
  (void)state;
  int major, minor, patch, end = 0;
  assert_int_equal(sscanf(tileblas_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
  assert_int_equal(tileblas_version()[end], '\0');
}

/* Who defines no xerbla is told by a line. */
static int refused(void *nothing) {
  (void)nothing;
  tb_reference_xerbla(TB_SYMBOL_cblas_sgemm, 9);
  tb_reference_xerbla_batch(TB_SYMBOL_cblas_dgemm_batch, 7);
  return 0;
}

static void no_xerbla(void **state) {
  (void)state;
  char *said = live(refused, NULL);
  assert_int_equal(tst_count_lines(said, "On entry to cblas_sgemm parameter number 9 had an illegal value"), 1);
  assert_int_equal(tst_count_lines(said, "On entry to DGEMM_BATCH parameter number 7 had an illegal value"), 1);
  free(said);
}

/* ---- options ---- */

static int load_options(void *nothing) {
  (void)nothing;
  static char value[2 * TB_OPTION_TEXT_MAX];
  memset(value, 'x', sizeof value - 1);
  setenv("TILEBLAS_REPORT", value, 1);
  tb_options_load();
  tb_options_complain();
  char text[TB_OPTION_TEXT_MAX] = "something";
  const bool kept_none = tb_option_get("TILEBLAS_REPORT", text, sizeof text) == 0 && text[0] == '\0';
  tb_option_set("TILEBLAS_REPORT", "");
  return kept_none ? 0 : 1;
}

static void a_text_too_long(void **state) {
  (void)state;
  char *said = live(load_options, NULL);
  char expected[64];
  snprintf(expected, sizeof expected, "is not one of: text of less than %d bytes; using \"\"", TB_OPTION_TEXT_MAX);
  assert_int_equal(tst_count_lines(said, expected), 1);
  free(said);
}

/* ---- calls ---- */

static int predicted(void *nothing) {
  (void)nothing;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  bool right = call_once((struct tst_problem){.m = 40, .n = 50, .k = 60}, TST_PAGEABLE);
  tileblas_option_set("TILEBLAS_ROUTE", "auto");
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  right &= call_once((struct tst_problem){.m = 400, .n = 420, .k = 430}, TST_PAGEABLE);
  return right ? 0 : 1;
}

void cblas_sgemm_batch(int layout, const int *trans_a, const int *trans_b, const int *m, const int *n, const int *k,
                       const float *alpha, const float *const *a, const int *lda, const float *const *b, const int *ldb,
                       const float *beta, float *const *c, const int *ldc, int groups, const int *sizes);

/* The same of a batch, of which each product is one of ones. */
static int batch_predicted(void *nothing) {
  enum { LENGTH = 64, COUNT = 200 };
  static float x[LENGTH * LENGTH], c[COUNT * LENGTH * LENGTH];
  const int no_trans = 111, length = LENGTH, count = COUNT;
  const float alpha = 1, beta = 0, *as[COUNT], *bs[COUNT];
  float *cs[COUNT];
  (void)nothing;
  for (int i = 0; i < LENGTH * LENGTH; i++) x[i] = 1;
  for (int i = 0; i < COUNT; i++) as[i] = bs[i] = x, cs[i] = c + i * LENGTH * LENGTH;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  bool right = call_once((struct tst_problem){.m = 40, .n = 50, .k = 60}, TST_PAGEABLE);
  tileblas_option_set("TILEBLAS_ROUTE", "auto");
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  cblas_sgemm_batch(102, &no_trans, &no_trans, &length, &length, &length, &alpha, as, &length, bs, &length, &beta, cs,
                    &length, 1, &count);
  for (int i = 0; i < COUNT * LENGTH * LENGTH; i++) right = right && c[i] == LENGTH;
  return right ? 0 : 1;
}

/* Both sides' predictions, and the reason that follows from them. */
static void expect_predictions(int (*life)(void *)) {
  char *said = live(life, NULL);
  const char *cpu = strstr(said, ": cpu "), *gpu = cpu ? strstr(cpu, " ms, gpu ") : NULL;
  assert_non_null(gpu);
  const bool sooner = strtod(gpu + strlen(" ms, gpu "), NULL) < strtod(cpu + strlen(": cpu "), NULL);
  const bool tried = strstr(said, "(tried, ") != NULL; /* where it is not predicted to be sooner */
  assert_int_equal(sooner, (strstr(said, "-> gpu") != NULL) != tried);
  free(said);
}

static void predictions_are_told(void **state) {
  (void)state;
  expect_predictions(predicted);
  expect_predictions(batch_predicted);
}

/* So many calls that bring up an A of ones, of some KiB, line by line. */
struct moving {
  int calls;
  int64_t k;
  bool no_slots; /* for a ring that would grow */
};

static int move(void *argument) {
  enum { M = 4096 };
  const struct moving *moving = argument;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_problem p = {.trans_a = 'N',
                                .trans_b = 'N',
                                .m = M,
                                .n = 1,
                                .k = moving->k,
                                .alpha = 2,
                                .lda = M,
                                .ldb = moving->k,
                                .beta = 1,
                                .ldc = M};
  static float c[M];
  float *a = malloc((size_t)(M * p.k) * sizeof *a), *b = malloc((size_t)p.k * sizeof *b);
  for (int64_t i = 0; i < M * p.k; i++) a[i] = 1;
  for (int64_t l = 0; l < p.k; l++) b[l] = (float)(l % 2);
  bool right = tileblas_option_set("TILEBLAS_ROUTE", "gpu") == 0;
  right &= tileblas_option_set("TILEBLAS_CACHE", "off") == 0; /* all of it is to move each time */
  for (int i = 0; i < moving->calls; i++) {
    tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
    if (i == 0 && moving->no_slots) tst_fake()->inject("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
    right &= tb_widening_settle(); /* so that the next call finds what this one has earned */
  }
  if (moving->no_slots) right &= tst_fake()->get(FAKE_CUDA_FAILURES) == 1;
  for (int i = 0; i < M; i++) right = right && c[i] == (float)(moving->calls * p.k);
  free(a), free(b);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  right &= stats.gpu_calls == (uint64_t)moving->calls && stats.gpu_failures == 0;
  return right && tst_fake()->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* 8 MiB, of which what comes last leaves the caches. */
static void lines_leave_the_caches(void **state) {
  (void)state;
  free(live(move, &(struct moving){.calls = 1, .k = 512}));
}

/* A GiB and more, 32 MiB a call. */
static void rings_grow(void **state) {
  (void)state;
  if (TST_SANITIZED) return; /* unit.emulated_panels lets them grow by less */
  free(live(move, &(struct moving){.calls = 34, .k = 2048}));
  free(live(move, &(struct moving){.calls = 34, .k = 2048, .no_slots = true}));
}

/* The second GPU fails in its own part, the first in launch number *nth: its own, or when it finishes the other's. */
static int failing(void *nth) {
  const struct tst_fake *fake = tst_fake();
  bool right = fake->inject_on(1, "cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, 0) == 0 &&
               fake->inject_on(1, "cuLaunchKernelEx", 1, CUDA_ERROR_LAUNCH_FAILED, 0) == 0;
  right &= fake->inject_on(0, "cuLaunchKernel", *(unsigned long *)nth, CUDA_ERROR_LAUNCH_FAILED, 0) == 0;
  right &= call_once((struct tst_problem){.m = 300, .n = 2000, .k = 30}, TST_PAGEABLE);
  return right && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

static void who_finishes_fails_too(void **state) {
  (void)state;
  setenv("FAKE_CUDA_DEVICES", "3", 1);
  tileblas_option_set("TILEBLAS_SHARE", "always");
  tileblas_option_set("TILEBLAS_PRECISION", "ieee");
  for (unsigned long nth = 1; nth <= 8; nth++) free(live(failing, &nth));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_without_a_context),
      cmocka_unit_test(memory_of_a_forbidden_gpu),
      cmocka_unit_test(choices_of_no_kernel),
      cmocka_unit_test(errors_without_a_name),
      cmocka_unit_test(the_version),
      cmocka_unit_test(no_xerbla),
      cmocka_unit_test(kernels_rate),
      cmocka_unit_test(a_text_too_long),
      cmocka_unit_test(predictions_are_told),
      cmocka_unit_test(lines_leave_the_caches),
      cmocka_unit_test(rings_grow),
      cmocka_unit_test(who_finishes_fails_too),
  };
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
