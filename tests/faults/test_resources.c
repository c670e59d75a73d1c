/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and threads that the process cannot have: each request that the library makes during a call fails once, one
 * life after another, and all from some point on. The answer is right whoever computes it; where memory for a copy of
 * device memory is missing, C is as it was and a line says so. And a process in which no CPU BLAS can be found: the
 * library's own loops answer, and refuse as the reference does.
 *
 * The library's objects are linked into the program, whose link puts the functions below before malloc and its like.
 * Each life is a process of its own. Seen to fail when: a missing copy in hosted.c, parts in offload.c or pool in
 * pool.c is used unasked; beta counts for each piece of a k beyond 32 bits.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "process/cores.h"
#include "route/cpu_side.h"
#include "fake.h"
#include "cpu/fallback.h"
#include "placed.h"
#include "process.h"
#include "report.h"
#include "tileblas.h"

/* ---- what the library asks for ---- */

/* During a call: requests are counted, and number `fails` gets nothing, nor with `all` any behind it. */
static struct {
  bool watching, all;
  atomic_ulong count;
  unsigned long fails;
} requests;
static bool no_affinity, no_blas;

static bool refuses(void) {
  if (!requests.watching) return false;
  const unsigned long number = atomic_fetch_add(&requests.count, 1) + 1;
  return number == requests.fails || (requests.all && number > requests.fails);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *context);
int __real_pthread_setaffinity_np(pthread_t thread, size_t bytes, const void *set);
void *__real_dlopen(const char *path, int mode);
void *__real_dlsym(void *library, const char *name);

void *__wrap_malloc(size_t bytes) { return refuses() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return refuses() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *memory, size_t bytes) { return refuses() ? NULL : __real_realloc(memory, bytes); }

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *context) {
  return refuses() ? EAGAIN : __real_pthread_create(thread, attributes, main, context);
}

int __wrap_pthread_setaffinity_np(pthread_t thread, size_t bytes, const void *set) {
  return no_affinity ? EINVAL : __real_pthread_setaffinity_np(thread, bytes, set);
}

void *__wrap_dlopen(const char *path, int mode) {
  return no_blas && requests.watching && path && strstr(path, "blas") ? NULL : __real_dlopen(path, mode);
}

void *__wrap_dlsym(void *library, const char *name) {
  return no_blas && requests.watching && strstr(name, "gemm") ? NULL : __real_dlsym(library, name);
}

/* ---- lives ---- */

/* One call with operands in memory of some kinds; exact. -1: C is as it was. */
static int call_once(struct tst_problem p, const enum tst_kind kinds[3]) {
  struct tst_operands x;
  struct tst_expected e;
  struct tst_placed a, b, c;
  uint64_t rng = 3;
  int64_t where;
  p.trans_a = 'N', p.trans_b = 'T', p.alpha = -1, p.beta = 2;
  tst_set_leading(&p, 3);
  tst_operands_create(&x, &p, TST_INTEGERS, &rng);
  tst_expect(&e, &p, &x);
  memset(e.bound, 0, sizeof *e.bound * (size_t)(p.m * p.n));
  tst_place(&a, &x.a, kinds[0], 0), tst_place(&b, &x.b, kinds[1], 0), tst_place(&c, &x.c, kinds[2], 0);
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  void *function = tst_resolve(symbol);
  requests.watching = true;
  tst_call(symbol, function, &p, a.data, b.data, c.data);
  requests.watching = false;
  bool right = tst_take_back(&a) & tst_take_back(&b) & tst_take_back(&c);
  const bool untouched = right && tst_matrix_unchanged(&x.c, true, &where);
  const char *wrong = tst_verify(&p, &x, &e);
  if (wrong && !untouched) printf("%s: %s\n", tst_describe(symbol, &p), wrong);
  tst_expected_destroy(&e);
  tst_operands_destroy(&x);
  return untouched ? -1 : right && !wrong;
}

enum {
  WRONG = 1,
  REACHED = 101,
  OVER
}; /* a life's status: the failing request was made, or there are not so
        many. Others are cmocka's, of a life that crashed */

static int ends(bool right) { return !right ? WRONG : requests.count >= requests.fails ? REACHED : OVER; }

/* A product shared by three GPUs, which fail or not; then one that the first computes in pieces. */
static int shared(void *nothing) {
  (void)nothing;
  const enum tst_kind kinds[3] = {TST_PAGEABLE, TST_PAGEABLE, TST_PAGEABLE};
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tileblas_option_set("TILEBLAS_SHARE", "always");
  bool right = call_once((struct tst_problem){.m = 300, .n = 2000, .k = 30}, kinds) == 1;
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "340K");
  right = right && call_once((struct tst_problem){.m = 150, .n = 20, .k = 300}, kinds) == 1;
  const struct tst_fake *fake = tst_fake();
  const bool used = fake->calls_on(2, "cuLaunchKernel") + fake->calls_on(2, "cuLaunchKernelEx") > 0;
  return ends(right && (used || requests.count >= requests.fails));
}

/* The same when a GPU fails during the call: others finish its part, or the CPU. */
static int rescued(void *nothing) {
  const struct tst_fake *fake = tst_fake();
  const int launch_failed = 719; /* CUDA_ERROR_LAUNCH_FAILED */
  if (fake->inject_on(1, "cuLaunchKernelEx", 1, launch_failed, 0) != 0) return WRONG;
  if (fake->inject_on(1, "cuLaunchKernel", 1, launch_failed, 0) != 0) return WRONG;
  return shared(nothing);
}

void cblas_sgemm_batch(int layout, const int *trans_a, const int *trans_b, const int *m, const int *n, const int *k,
                       const float *alpha, const float *const *a, const int *lda, const float *const *b, const int *ldb,
                       const float *beta, float *const *c, const int *ldc, int groups, const int *sizes);

/* A batch: where memory for its list, or for what is known of its parts, is missing, the CPU has it, and that is told.
 */
static int batched(void *nothing) {
  enum { SIDE = 9, COUNT = 5 };
  static float x[SIDE * SIDE], c[COUNT * SIDE * SIDE];
  const int no_trans = 111, side = SIDE, count = COUNT;
  const float alpha = 2, beta = 3, *as[COUNT], *bs[COUNT];
  float *cs[COUNT];
  tileblas_stats stats;
  bool right = true;
  (void)nothing;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < SIDE * SIDE; i++) x[i] = 1;
  for (int i = 0; i < COUNT * SIDE * SIDE; i++) c[i] = 1;
  for (int i = 0; i < COUNT; i++) as[i] = bs[i] = x, cs[i] = c + i * SIDE * SIDE;
  requests.watching = true;
  cblas_sgemm_batch(102, &no_trans, &no_trans, &side, &side, &side, &alpha, as, &side, bs, &side, &beta, cs, &side, 1,
                    &count);
  requests.watching = false;
  for (int i = 0; i < COUNT * SIDE * SIDE; i++) right = right && c[i] == 2 * SIDE + 3;
  tileblas_stats_get(&stats);
  char *const report = tst_report_read(tileblas_report);
  const unsigned long long told = tst_report_calls(report, "cpu", tb_status_text(TB_STATUS_no_memory)) +
                                  tst_report_calls(report, "cpu", tb_status_text(TB_STATUS_forced_gpu));
  free(report);
  return ends(right && stats.gpu_calls + stats.cpu_calls == 1 && told == stats.cpu_calls);
}

/* Device memory that no GPU is to compute in: copies on the host. */
static int hosted(void *nothing) {
  (void)nothing;
  const enum tst_kind kinds[3] = {TST_DEVICE, TST_MANAGED, TST_DEVICE};
  tst_cuda_begin(0);
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  const int how = call_once((struct tst_problem){.m = 70, .n = 50, .k = 30}, kinds);
  if (how < 0) fprintf(stderr, "untouched\n");
  return ends(how != 0);
}

/* How many lives it took until no request was left to fail. */
static unsigned long live(int (*life)(void *), bool all) {
  bool over = false;
  requests.all = all;
  for (requests.fails = 1; !over && requests.fails < 200; requests.fails++) {
    struct tst_output o;
    tst_fork(&o, life, NULL);
    if (o.status != REACHED && o.status != OVER)
      fail_msg("request %lu fails%s: status %d\n%s%s", requests.fails, all ? " and all behind it" : "", o.status, o.out,
               o.err);
    if (tst_count_lines(o.err, "untouched") != tst_count_lines(o.err, "cannot be reached"))
      fail_msg("request %lu fails: %s", requests.fails, o.err);
    over = o.status == OVER;
    tst_output_destroy(&o);
  }
  assert_true(over);
  return requests.fails - 1;
}

/* The library's requests alone: more than one in each of these lives. */
static void shared_lives(void **state) {
  (void)state;
  setenv("FAKE_CUDA_DEVICES", "3", 1);
  assert_true(live(shared, false) > 2);
  assert_true(live(shared, true) > 2);
}

static void rescued_lives(void **state) {
  (void)state;
  setenv("FAKE_CUDA_DEVICES", "3", 1);
  assert_true(live(rescued, false) > 2);
}

static void hosted_lives(void **state) {
  (void)state;
  assert_true(live(hosted, false) > 2);
  assert_true(live(hosted, true) > 2);
}

static void batched_lives(void **state) {
  (void)state;
  assert_true(live(batched, false) > 2);
  assert_true(live(batched, true) > 2);
}

/* ---- a thread that must not choose its core ---- */

/* It has none afterwards, and the one that it wanted is free for others. */
static void a_core_that_cannot_be_had(void **state) {
  (void)state;
  struct tb_core core = {.number = TB_NO_CORE}, other = {.number = TB_NO_CORE};
  no_affinity = true;
  for (int i = 0; i < 3; i++) tb_core_take(&core, pthread_self(), -1);
  assert_int_equal(core.number, TB_NO_CORE);
  no_affinity = false;
  tb_core_take(&other, pthread_self(), -1);
  assert_int_not_equal(other.number, TB_NO_CORE);
  tb_core_leave(&other);
}

/* ---- no CPU BLAS at all ---- */

static int refused_parameter; /* that xerbla was told of */

/* As a program has its own. */
void xerbla_(const char *routine, const int *info, size_t length);
void xerbla_(const char *routine, const int *info, size_t length) {
  if (length >= 5 && memcmp(routine, "SGEMM", 5) == 0) refused_parameter = *info;
}

void cblas_xerbla(int info, const char *routine, const char *form, ...);
void cblas_xerbla(int info, const char *routine, const char *form, ...) {
  if (strcmp(routine, "cblas_sgemm") == 0 && form) refused_parameter = info;
}

/* Which parameter is refused when that one is illegal. -1: C was written. */
static int refused(const char *name, bool row_major, int parameter) {
  const struct tst_symbol *symbol = tst_find_symbol(name);
  void *function = tst_resolve(symbol);
  float x = 3;
  struct tst_problem p = {.row_major = row_major, .trans_a = 'N', .trans_b = 'N', .m = 4, .n = 5, .k = 6};
  tst_set_leading(&p, 0);
  if (parameter == 2) p.trans_a = 'X';
  if (parameter == 3) p.trans_b = 'X';
  if (parameter == 4) p.m = -1;
  if (parameter == 5) p.n = -1;
  if (parameter == 6) p.k = -1;
  if (parameter == 9) p.lda--;
  if (parameter == 11) p.ldb--;
  if (parameter == 14) p.ldc--;
  refused_parameter = 0;
  requests.watching = true;
  tst_call(symbol, function, &p, &x, &x, &x);
  requests.watching = false;
  return x == 3 ? refused_parameter : -1;
}

/* As they are numbered in cblas.h; Fortran has no layout before them. */
static bool refuses_as_the_reference(void) {
  static const int parameters[] = {2, 3, 4, 5, 6, 9, 11, 14};
  bool right = true;
  for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
    const int number = parameters[i];
    right = right && refused("cblas_sgemm", false, number) == number && refused("cblas_sgemm", true, number) == number;
    right = right && refused("sgemm_", false, number) == number - 1;
  }
  return right;
}

static int plain_loops(void *nothing) {
  (void)nothing;
  const enum tst_kind kinds[3] = {TST_PAGEABLE, TST_PAGEABLE, TST_PAGEABLE};
  no_blas = true;
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  bool right = call_once((struct tst_problem){.m = 7, .n = 5, .k = 11}, kinds) == 1;
  right = right && call_once((struct tst_problem){.row_major = true, .m = 7, .n = 5, .k = 11}, kinds) == 1;
  struct tb_cpu_side side;
  tb_cpu_side_look(&side, TB_SYMBOL_cblas_sgemm);
  right = right && strcmp(side.blas, "plain loops") == 0;
  char text[256];
  tb_fallback_describe(text, sizeof text);
  right = right && strstr(text, "no CPU BLAS found") != NULL;
  return right && refuses_as_the_reference() ? 0 : 1;
}

static void no_cpu_blas(void **state) {
  (void)state;
  tst_in_a_process(plain_loops, NULL, "plain loops");
}

/* More products than 32 bits can say, none of which is to be made: beta counts once. */
static void pieces_of_a_long_k(void **state) {
  (void)state;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm64_");
  const struct tst_problem p = {.trans_a = 'N',
                                .trans_b = 'T',
                                .m = 1,
                                .n = 1,
                                .k = ((int64_t)1 << 31) + 5,
                                .lda = 1,
                                .ldb = 1,
                                .beta = 2,
                                .ldc = 1};
  float x = 0, c = 3;
  tst_call(symbol, tst_resolve(symbol), &p, &x, &x, &c);
  assert_float_equal(c, 6, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shared_lives),
      cmocka_unit_test(rescued_lives),
      cmocka_unit_test(hosted_lives),
      cmocka_unit_test(batched_lives),
      cmocka_unit_test(a_core_that_cannot_be_had),
      cmocka_unit_test(no_cpu_blas),
      cmocka_unit_test(pieces_of_a_long_k),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
