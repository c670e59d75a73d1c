/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands that stay on two GPUs, or three, that share calls: on each the operand that all want, as a whole, and its
 * own block of the other. The bits are those of one GPU that keeps nothing; nothing goes up for what is kept, and
 * nothing between the GPUs; an element that is changed in any GPU's block, or in what all have, shows in the next
 * result. What one GPU's copy was proven by is no proof of another's that is older. Whatever fails on one GPU costs its
 * own copies alone.
 *
 * Each case is a process of its own. Seen to fail when: what proves one GPU's copy, or its watch, goes for all; blocks
 * of rows are kept; what is not to be kept any more is given back inside the cache.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "fake.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999
#define GPUS_MOST 3

void cblas_dsymm(int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
void cblas_dtrmm(int, int, int, int, int, int, int, double, const double *, int, double *, int);

static const struct tst_fake *fake;
static int gpus;
static const char *cache_option;

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

/* In the child, before anything else. `how`: "2auto", the number of GPUs and TILEBLAS_CACHE. */
static void begin(const char *how) {
  gpus = how[0] - '0';
  cache_option = how + 1;
  setenv("FAKE_CUDA_DEVICES", tst_format("%d", gpus), 1);
  setenv("FAKE_CUDA_PEERS", "1", 1);
  set("TILEBLAS_ROUTE", "gpu"), set("TILEBLAS_SHARE", "always"), set("TILEBLAS_CACHE", cache_option);
  fake = tst_fake();
  if (fake == NULL) exit(2);
}

/* ---- a product ---- */

/* dgemm, whose A has 1 MiB, and of whose B each GPU has 128 columns, or rows, of another. */
struct call {
  struct tst_problem p;
  double *a, *b, *c, *wanted;
  int64_t a_count, b_count, c_count;
  bool of_rows; /* C is cut between its rows, and A with it */
};

static double *numbers(int64_t count, uint64_t *seed) {
  double *const x = malloc((size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++) x[i] = (double)tst_random_below(seed, 9) - 4 + 0.25;
  return x;
}

enum { SHORT_SIDE = 64, K = 2064 };

static struct call make(bool of_rows, char ta, char tb, int64_t pad, uint64_t seed) {
  struct call x = {.of_rows = of_rows};
  const int64_t cut = 128 * gpus - 3, m = of_rows ? cut : SHORT_SIDE, n = of_rows ? SHORT_SIDE : cut;
  x.p = (struct tst_problem){.trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = K, .alpha = 1.5, .beta = 0.5};
  x.p.lda = (ta == 'N' ? m : K) + pad, x.p.ldb = (tb == 'N' ? K : n) + pad, x.p.ldc = m + pad;
  x.a_count = x.p.lda * (ta == 'N' ? K : m), x.b_count = x.p.ldb * (tb == 'N' ? n : K), x.c_count = x.p.ldc * n;
  x.a = numbers(x.a_count, &seed), x.b = numbers(x.b_count, &seed);
  x.c = malloc((size_t)x.c_count * sizeof *x.c), x.wanted = malloc((size_t)x.c_count * sizeof *x.c);
  return x;
}

static void drop(struct call *x) { free(x->a), free(x->b), free(x->c), free(x->wanted); }

static void run_into(const struct call *x, double *c) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_dgemm");
  for (int64_t i = 0; i < x->c_count; i++) c[i] = (double)(i % 7);
  tst_call(symbol, tst_resolve(symbol), &x->p, x->a, x->b, c);
}

/* By one GPU that keeps nothing. TILEBLAS_CACHE=off gives back what is kept: so what comes next begins anew. */
static void find_wanted(struct call *x) {
  set("TILEBLAS_SHARE", "never"), set("TILEBLAS_CACHE", "off");
  run_into(x, x->wanted);
  set("TILEBLAS_SHARE", "always");
  run_into(x, x->wanted);
  set("TILEBLAS_CACHE", cache_option);
}

/* The same by whole numbers, of which every sum is exact, and no call of the library's. */
static void expect_exactly(struct call *x) {
  const bool ta = x->p.trans_a != 'N', tb = x->p.trans_b != 'N';
  for (int64_t i = 0; i < x->c_count; i++) x->wanted[i] = (double)(i % 7);
  for (int64_t j = 0; j < x->p.n; j++)
    for (int64_t i = 0; i < x->p.m; i++) {
      double sum = 0;
      for (int64_t l = 0; l < K; l++)
        sum += x->a[ta ? l + i * x->p.lda : i + l * x->p.lda] * x->b[tb ? j + l * x->p.ldb : l + j * x->p.ldb];
      double *const c = &x->wanted[i + j * x->p.ldc];
      *c = 1.5 * sum + 0.5 * *c;
    }
}

static bool complain(const struct call *x, const char *what, int step) {
  printf("%s of %d GPUs, %c%c, cache %s, step %d: %s\n", x->of_rows ? "rows" : "columns", gpus, x->p.trans_a,
         x->p.trans_b, cache_option, step, what);
  return false;
}

static bool is_right(struct call *x, int step) {
  run_into(x, x->c);
  return memcmp(x->c, x->wanted, (size_t)x->c_count * sizeof *x->c) == 0 || complain(x, "wrong", step);
}

/* ---- what moves ---- */

static uint64_t moved_up, moved_between;

static void begin_counting(void) {
  moved_up = fake->get(FAKE_CUDA_BYTES_UP), moved_between = fake->get(FAKE_CUDA_BYTES_PEER);
}

static void end_counting(void) {
  moved_up = fake->get(FAKE_CUDA_BYTES_UP) - moved_up;
  moved_between = fake->get(FAKE_CUDA_BYTES_PEER) - moved_between;
}

/* Whether the operand that is cut is so between its stored columns. */
static bool has_blocks_of_columns(const struct call *x) {
  return x->of_rows ? x->p.trans_a != 'N' : x->p.trans_b == 'N';
}

static uint64_t bytes_of_cut(const struct call *x) {
  return 8 * (uint64_t)K * (uint64_t)(x->of_rows ? x->p.m : x->p.n);
}

/* Columns in a slot may be padded. */
static bool is_about(uint64_t bytes, uint64_t expected) { return bytes >= expected && bytes <= expected / 50 * 51; }

/* Calls until what is kept does not go up any more. */
enum { CALLS_UNTIL_KEPT = 12 };

static bool keep(struct call *x) {
  const uint64_t expected = has_blocks_of_columns(x) ? 0 : bytes_of_cut(x);
  bool right = true;
  for (int i = 0; i < CALLS_UNTIL_KEPT; i++) {
    begin_counting();
    right &= is_right(x, i);
    end_counting();
    if (is_about(moved_up, expected) && moved_between == 0) return right;
  }
  printf("%llu bytes up and %llu between\n", (unsigned long long)moved_up, (unsigned long long)moved_between);
  return complain(x, "not all is kept", CALLS_UNTIL_KEPT);
}

/* ---- cases ---- */

static const struct {
  bool of_rows;
  char ta, tb;
} ways[] = {{false, 'N', 'N'}, {true, 'T', 'N'}, {false, 'T', 'T'}, {true, 'N', 'T'}};
enum { WAYS = sizeof ways / sizeof *ways };

static int all_is_kept(void *how) {
  bool right = true;
  begin(how);
  for (int way = 0; way < WAYS; way++) {
    struct call x = make(ways[way].of_rows, ways[way].ta, ways[way].tb, way % 2 ? 3 : 0, (uint64_t)way + 1);
    find_wanted(&x);
    right &= keep(&x);
    expect_exactly(&x);
    right &= is_right(&x, 9);
    drop(&x);
  }
  tileblas_stats s;
  tileblas_stats_get(&s);
  return right && s.gpu_failures == 0 && s.cpu_calls == 0 && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* Of A, which is another matrix in each call, panels are passed on, while B's blocks stay. Then A stays as well, and
 * nothing is passed. */
static int panels_beside_blocks(void *how) {
  bool right = true;
  begin(how);
  enum { M = 1300, N = 2600, LESS_K = 110 };
  const int n = N;
  uint64_t seed = 9;
  double *const a = numbers((int64_t)M * LESS_K, &seed), *const b = numbers((int64_t)n * LESS_K, &seed);
  double *const c = malloc(sizeof *c * M * (size_t)n), *const wanted = malloc(sizeof *c * M * (size_t)n);
  const struct tst_symbol *symbol = tst_find_symbol("cblas_dgemm");
  const struct tst_problem p = {.trans_a = 'T',
                                .trans_b = 'N',
                                .m = M,
                                .n = n,
                                .k = LESS_K,
                                .alpha = 1,
                                .beta = 0,
                                .lda = LESS_K,
                                .ldb = LESS_K,
                                .ldc = M};
  const uint64_t a_bytes = 8 * M * LESS_K;
  bool passed = false, kept = false;
  for (int i = 0; i < 2 * CALLS_UNTIL_KEPT && !kept; i++) {
    for (int64_t l = 0; l < (int64_t)M * LESS_K && !passed; l++) a[l] += 1;
    begin_counting();
    tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
    end_counting();
    passed = passed || (is_about(moved_up, a_bytes) && moved_between > 0);
    kept = passed && moved_up == 0 && moved_between == 0;
  }
  if (!passed) right = false, printf("panels are not passed on\n");
  if (!kept) right = false, printf("not all is kept\n");
  set("TILEBLAS_SHARE", "never"), set("TILEBLAS_CACHE", "off");
  tst_call(symbol, tst_resolve(symbol), &p, a, b, wanted);
  if (memcmp(c, wanted, sizeof *c * M * (size_t)n) != 0) right = false, printf("wrong\n");
  free(a), free(b), free(c), free(wanted);
  return right ? 0 : 1;
}

/* An element of each GPU's block, at its ends and within, and of what all have. Each time of other matrices. */
static int a_write_is_seen(void *how) {
  enum { MOST = 3 * GPUS_MOST + 1 };
  static struct call x[MOST];
  bool right = true;
  begin(how);
  const int step = *(const char *)how == '2' && !TST_SANITIZED ? 1 : 3;
  for (int place = 0; place <= 3 * gpus; place += step) {
    struct call *const y = &x[place];
    *y = make(false, 'N', 'N', 0, (uint64_t)place);
    const int64_t column = 128 * (place / 3) + (place % 3 == 0 ? 0 : place % 3 == 1 ? 61 : 124);
    double *const element = place == 3 * gpus ? &y->a[y->a_count / 3] : &y->b[column * y->p.ldb + (place * 977) % K];
    expect_exactly(y);
    right &= keep(y);
    *element += 1;
    double *const before = y->wanted;
    y->wanted = malloc((size_t)y->c_count * sizeof *y->wanted);
    expect_exactly(y);
    if (memcmp(before, y->wanted, (size_t)y->c_count * sizeof *before) == 0) right = complain(y, "no change", place);
    free(before);
    for (int i = 0; i < 3; i++) right &= is_right(y, 10 + place);
  }
  set("TILEBLAS_CACHE", "off"); /* which gives back what would be left in the end */
  right &= is_right(&x[0], 99);
  for (int place = 0; place < MOST; place++) drop(&x[place]);
  return right ? 0 : 1;
}

/* What the program has chosen is copied in the first call of all, when the GPUs have done nothing else yet. */
static int chosen_at_once(void *how) {
  bool right = true;
  begin(how);
  struct call x = make(false, 'N', 'N', 0, 1);
  expect_exactly(&x);
  if (tileblas_keep(x.a, sizeof *x.a * (uint64_t)x.a_count) != 0) return 4;
  if (tileblas_keep(x.b, sizeof *x.b * (uint64_t)x.b_count) != 0) return 4;
  moved_up = 1;
  for (int i = 0; i < 4 && moved_up > 0; i++) { /* where GPUs are held up the cut is another now and then */
    begin_counting();
    right &= is_right(&x, i);
    end_counting();
  }
  if (moved_up > 0) right = complain(&x, "the chosen go up again", 4);
  x.a[9] += 1;
  expect_exactly(&x);
  for (int i = 0; i < 3; i++) right &= is_right(&x, 90 + i);
  if (tileblas_forget(x.a, sizeof *x.a * (uint64_t)x.a_count) != 0) return 4;
  for (int i = 0; i < 2; i++) right &= is_right(&x, 95 + i);
  drop(&x);
  tileblas_stats s;
  tileblas_stats_get(&s);
  return right && s.gpu_failures == 0 && s.cpu_calls == 0 ? 0 : 1;
}

/* A and B are changed while GPU 0 computes alone, often enough that it has them anew and proven. The others' copies are
 * what was there before. */
static int one_gpu_goes_on_alone(void *how) {
  bool right = true;
  begin(how);
  struct call x = make(false, 'N', 'N', 0, 1);
  expect_exactly(&x);
  right &= keep(&x);
  for (int round = 0; round < 2; round++) {
    x.a[(round * 7919 + 13) % x.a_count] += 1;
    x.b[(128 * (gpus - 1) + round) * x.p.ldb + 100] += 1;
    expect_exactly(&x);
    set("TILEBLAS_SHARE", "never");
    for (int i = 0; i < 12 << round; i++) right &= is_right(&x, 100 + i);
    begin_counting();
    right &= is_right(&x, 120);
    end_counting();
    if (moved_up > 0) right = complain(&x, "one GPU does not keep it", round);
    set("TILEBLAS_SHARE", "always");
    for (int i = 0; i < 3; i++) right &= is_right(&x, 130 + i);
  }
  drop(&x);
  return right ? 0 : 1;
}

/* One thread's operand is rewritten before each of its calls, while another's calls have what stays. */
struct caller {
  struct call *x;
  bool wrong;
};

static void *call_again(void *opaque) {
  struct caller *const caller = opaque;
  for (int i = 0; i < TST_UNLESS_SANITIZED(10, 5); i++)
    if (!is_right(caller->x, 200 + i)) caller->wrong = true;
  return NULL;
}

static int writes_beside_calls(void *how) {
  bool right = true;
  begin(how);
  struct call x = make(false, 'N', 'N', 0, 1), y = make(false, 'N', 'N', 0, 2);
  free(y.a);
  y.a = x.a; /* which both have */
  expect_exactly(&x), expect_exactly(&y);
  right &= keep(&x);
  struct caller other = {&x, false};
  pthread_t thread;
  if (pthread_create(&thread, NULL, call_again, &other) != 0) return 4;
  for (int i = 0; i < TST_UNLESS_SANITIZED(10, 5); i++) {
    right &= is_right(&y, 300 + i);
    if (i % 2 == 0) continue;
    y.b[(i * 131 % y.p.n) * y.p.ldb + 7] += 1;
    expect_exactly(&y);
  }
  pthread_join(thread, NULL);
  y.a = NULL;
  drop(&x), drop(&y);
  return right && !other.wrong ? 0 : 1;
}

/* Room for one of a GPU's two copies, or for none; and given back as a whole. */
static int little_memory(void *how) {
  static const char *const sizes[] = {"1500K", "8M", "100K", "off"};
  bool right = true;
  begin(how);
  struct call x = make(false, 'N', 'N', 0, 1);
  expect_exactly(&x);
  right &= keep(&x);
  const uint64_t kept = fake->get(FAKE_CUDA_ALLOCATED_BYTES);
  for (int size = 0; size < 4; size++) {
    cache_option = sizes[size];
    set("TILEBLAS_CACHE", cache_option);
    for (int i = 0; i < 5; i++) right &= is_right(&x, 400 + i);
    if (size == 1) right &= is_right(&x, 409);
  }
  set("TILEBLAS_CACHE", "auto"), set("TILEBLAS_MEMORY_LIMIT", "3M");
  for (int i = 0; i < 5; i++) right &= is_right(&x, 410 + i);
  set("TILEBLAS_MEMORY_LIMIT", "0"), set("TILEBLAS_CACHE", "off");
  right &= is_right(&x, 420);
  const uint64_t off = fake->get(FAKE_CUDA_ALLOCATED_BYTES);
  if (off + bytes_of_cut(&x) > kept) right = complain(&x, "copies are not given back", 420);
  drop(&x);
  return right ? 0 : 1;
}

enum { ORDER = 520 };

/* B = A B, of a triangle, or C = A B, of a symmetric matrix, of which the other half is not read. */
static void multiply_half(bool triangular, int n, const double *a, const double *b, double *c) {
  const size_t bytes = sizeof *c * (size_t)(ORDER * n);
  memcpy(c, b, bytes);
  if (triangular)
    cblas_dtrmm(102, 141, 121, 111, 131, ORDER, n, 1, a, ORDER, c, ORDER);
  else
    cblas_dsymm(102, 141, 121, ORDER, n, 1, a, ORDER, b, ORDER, 0, c, ORDER);
}

/* The same by whole numbers and quarters, of which every sum is exact. */
static void find_half(bool triangular, int n, const double *a, const double *b, double *c) {
  for (int j = 0; j < n; j++)
    for (int i = 0; i < ORDER; i++) {
      double sum = 0;
      for (int l = triangular ? i : 0; l < ORDER; l++)
        sum += (l < i ? a[l + i * ORDER] : a[i + l * ORDER]) * b[l + j * ORDER];
      c[i + j * ORDER] = sum;
    }
}

/* On each GPU, as a whole: it goes up no more, until it is written. What it is multiplied with is another each time. */
static bool half_stays(bool triangular) {
  enum { STEPS = 9, WRITTEN = 7 };
  bool right = true;
  uint64_t seed = 3;
  const int n = triangular ? 200 * gpus : 550, count = ORDER * n;
  const size_t bytes = sizeof(double) * (size_t)count;
  double *const a = numbers((int64_t)ORDER * ORDER, &seed), *const b = numbers(count, &seed);
  double *const c = malloc(bytes), *const wanted = malloc(bytes);
  for (int step = 0; step < STEPS; step++) {
    if (step == WRITTEN) a[20 + ORDER * 300] += 1;
    for (int i = 0; i < count; i++) b[i] += 1;
    begin_counting();
    multiply_half(triangular, n, a, b, c);
    end_counting();
    if (step < WRITTEN - 1) continue;
    if (step == WRITTEN - 1 && !is_about(moved_up, bytes)) {
      right = false;
      printf("%s: %llu bytes go up\n", triangular ? "triangle" : "symmetric", (unsigned long long)moved_up);
    }
    find_half(triangular, n, a, b, wanted);
    if (memcmp(c, wanted, bytes) != 0) right = false, printf("wrong in step %d\n", step);
  }
  free(a), free(b), free(c), free(wanted);
  return right;
}

static int halves_stay(void *how) {
  begin(how);
  const bool triangle = half_stays(true), symmetric = half_stays(false);
  return triangle && symmetric ? 0 : 1;
}

/* ---- a GPU that fails ---- */

static const char *const functions[] = {"cuMemAlloc",      "cuMemGetInfo",      "cuMemcpyHtoDAsync", "cuEventRecord",
                                        "cuEventQuery",    "cuStreamWaitEvent", "cuLaunchKernel",    "cuCtxPushCurrent",
                                        "cuMemcpy2DAsync", "cuMemcpyDtoHAsync", "cuCtxPopCurrent",   "cuMemFree",
                                        "cuStreamQuery",   "cuMemcpyPeerAsync"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

struct failure {
  const char *how, *function;
  int gpu, call;     /* in the midst of this one */
  uint64_t position; /* of the function's calls, in that */
};

enum { CALLS_BEHIND = 3 };

/* Calls of each function on the GPU, in call number `call`. */
static uint64_t counts[FUNCTIONS];

static int fail_in_a_call(void *opaque) {
  const struct failure *const f = opaque;
  bool right = true;
  begin(f->how);
  struct call x = make(false, 'N', 'N', 0, 1);
  expect_exactly(&x);
  for (int i = 0; i <= f->call + CALLS_BEHIND; i++) {
    if (i == f->call && f->function != NULL) fake->inject_on(f->gpu, f->function, f->position, CUDA_ERROR_UNKNOWN, 0);
    for (int j = 0; i == f->call && j < FUNCTIONS; j++) counts[j] = fake->calls_on(f->gpu, functions[j]);
    right &= is_right(&x, 500 + i);
    for (int j = 0; i == f->call && j < FUNCTIONS; j++) counts[j] = fake->calls_on(f->gpu, functions[j]) - counts[j];
    fake->clear_failures();
    if (i != f->call || f->function == NULL) continue;
    x.a[55] += 1; /* and what was proven before counts no more */
    expect_exactly(&x);
  }
  tileblas_stats s;
  tileblas_stats_get(&s);
  if (fake->get(FAKE_CUDA_MISUSES) != 0 || s.cpu_calls != 0) right = complain(&x, "it is not as it should be", 500);
  drop(&x);
  if (f->function == NULL) printf("counts");
  for (int j = 0; j < FUNCTIONS && f->function == NULL; j++) printf(" %llu", (unsigned long long)counts[j]);
  return right ? 0 : 1;
}

static void fail_at_each(const char *how, int gpu, int call) {
  struct failure f = {how, NULL, gpu, call, 1};
  struct tst_output o;
  tst_fork(&o, fail_in_a_call, &f);
  if (o.status != 0) fail_msg("without a failure: status %d\n%s%s", o.status, o.out, o.err);
  char *at = strstr(o.out, "counts") + strlen("counts");
  uint64_t count[FUNCTIONS];
  for (int j = 0; j < FUNCTIONS; j++) count[j] = strtoull(at, &at, 10);
  tst_output_destroy(&o);
  for (int j = 0; j < FUNCTIONS; j++)
    for (uint64_t i = 0; i < 2 && i < count[j]; i += TST_UNLESS_SANITIZED(1, 2)) {
      if (TST_SANITIZED && (j + call) % 2 != 0) continue;
      f.function = functions[j];
      f.position = i == 0 ? 1 : count[j];
      tst_fork(&o, fail_in_a_call, &f);
      if (o.status != 0)
        fail_msg("%s, call %d, GPU %d, number %d: status %d\n%s%s", f.function, call, gpu, (int)f.position, o.status,
                 o.out, o.err);
      tst_output_destroy(&o);
    }
}

/* ---- each in a process ---- */

static void in_processes(int (*body)(void *), bool all) {
  static const char *const hows[] = {"2auto", "38G", "3auto", "28G"};
  for (int i = 0; i < (TST_SANITIZED ? 1 : all ? 4 : 2); i++)
    tst_in_a_process(body, (void *)(uintptr_t)hows[i], hows[i]);
}

static void kept_by_all(void **state) {
  (void)state;
  in_processes(all_is_kept, true);
}
static void panels(void **state) {
  (void)state;
  tst_in_a_process(panels_beside_blocks, (void *)(uintptr_t) "2auto", "2auto");
}
static void writes(void **state) {
  (void)state;
  in_processes(a_write_is_seen, false);
}
static void chosen(void **state) {
  (void)state;
  in_processes(chosen_at_once, false);
}
static void older_copies(void **state) {
  (void)state;
  in_processes(one_gpu_goes_on_alone, false);
}
static void threads(void **state) {
  (void)state;
  in_processes(writes_beside_calls, false);
}
static void memory(void **state) {
  (void)state;
  in_processes(little_memory, false);
}
static void halves(void **state) {
  (void)state;
  in_processes(halves_stay, false);
}
static void failures_as_copies_are_made(void **state) {
  (void)state;
  fail_at_each("2auto", 1, 1);
  fail_at_each("28G", 0, 1);
}
static void failures_as_copies_are_used(void **state) {
  (void)state;
  fail_at_each("2auto", 1, 3);
  fail_at_each("28G", 0, 2);
}

int main(int argc, char **argv) {
  const struct CMUnitTest failures[] = {
      cmocka_unit_test(failures_as_copies_are_made),
      cmocka_unit_test(failures_as_copies_are_used),
  };
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_by_all),  cmocka_unit_test(panels),  cmocka_unit_test(chosen), cmocka_unit_test(writes),
      cmocka_unit_test(older_copies), cmocka_unit_test(threads), cmocka_unit_test(memory), cmocka_unit_test(halves),
  };
  if (argc > 1 && strcmp(argv[1], "failures") == 0) return tst_result(cmocka_run_group_tests(failures, NULL, NULL));
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
