/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of several threads on one GPU at once, of all sizes: each has the bits that it has alone; where memory is short
 * or limited, too; lanes are there when they are wanted, and given back. And one driver call after another fails in one
 * lane while others are busy: every answer right, one line at most, nothing hangs, nothing stays.
 *
 * Seen to fail when: lanes share a ring or an arena; a lane's kernels are not those that were loaded since; a GPU is
 * closed while others use it, or not closed when they have left; a call that finds the memory taken is cut otherwise
 * than alone; calls go beside each other under a limit of memory; further lanes stay for ever, or are refused for
 * ever; TILEBLAS_IDLE that is set later is not looked at.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define THREADS 6
#define ROUNDS_MOST TST_UNLESS_SANITIZED(4, 2)
#define STREAMS_OF_A_LANE 12

/* What is called. Of C alone much is moved where k is small: a call of the middling kind costs little here. */
static const struct shape {
  const char *name;
  char trans_a, trans_b;
  int64_t m, n, k;
} shapes[] = {
    {"cblas_sgemm", 'N', 'N', 60, 50, 40},  {"cblas_sgemm", 'T', 'N', 200, 150, 30},
    {"cblas_sgemm", 'N', 'T', 40, 30, 700}, {"cblas_sgemm", 'T', 'T', 1050, 1000, 1},
    {"cblas_dgemm", 'N', 'N', 70, 60, 50},  {"cblas_dgemm", 'N', 'T', 500, 400, 1},
    {"cblas_cgemm", 'N', 'C', 50, 40, 20},  {"cblas_zgemm", 'T', 'N', 30, 20, 40},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The operands of each shape, and what one call alone makes of them. */
static struct product {
  const struct tst_symbol *symbol;
  void *function;
  struct tst_problem problem;
  size_t c_bytes;
  void *a, *b, *c, *alone;
} products[SHAPES];

static pthread_barrier_t start;
static atomic_int wrong, left_to_do;
static bool whole_numbers;
static int rounds = ROUNDS_MOST;

/* Whole numbers, of which every sum is exact whoever adds them, or any numbers, whose sums show the order. */
static void *numbers(size_t count, bool doubles, bool whole, uint64_t *rng) {
  void *const x = malloc(count * (doubles ? sizeof(double) : sizeof(float)));
  if (x == NULL) abort();
  for (size_t i = 0; i < count; i++) {
    const double value = whole ? tst_random_below(rng, 9) - 4.0 : tst_random_below(rng, 2000001) * 1e-6 - 1.0;
    if (doubles)
      ((double *)x)[i] = value;
    else
      ((float *)x)[i] = (float)value;
  }
  return x;
}

static void call_into(const struct product *p, void *c) {
  memcpy(c, p->c, p->c_bytes);
  tst_call(p->symbol, p->function, &p->problem, p->a, p->b, c);
}

static void prepare(struct product *p, const struct shape *s, bool whole, uint64_t *rng) {
  p->symbol = tst_find_symbol(s->name);
  p->function = tst_resolve(p->symbol);
  p->problem = (struct tst_problem){
      .trans_a = s->trans_a, .trans_b = s->trans_b, .m = s->m, .n = s->n, .k = s->k, .alpha = 1, .beta = 2};
  p->problem.lda = s->trans_a == 'N' ? s->m : s->k;
  p->problem.ldb = s->trans_b == 'N' ? s->k : s->n;
  p->problem.ldc = s->m;
  const size_t parts = (size_t)tst_parts(p->symbol->type);
  const bool doubles = tst_is_double(p->symbol->type);
  p->c_bytes = parts * (size_t)(s->m * s->n) * (size_t)tst_part_bytes(p->symbol->type);
  p->a = numbers(parts * (size_t)(s->m * s->k), doubles, whole, rng);
  p->b = numbers(parts * (size_t)(s->k * s->n), doubles, whole, rng);
  p->c = numbers(parts * (size_t)(s->m * s->n), doubles, whole, rng);
  if ((p->alone = malloc(p->c_bytes)) == NULL) abort();
}

/* With one call of each shape, by one thread, if they are to be the first. */
static void prepare_all(bool whole, bool alone_first) {
  uint64_t rng = 5;
  whole_numbers = whole;
  for (int i = 0; i < SHAPES; i++) prepare(&products[i], &shapes[i], whole, &rng);
  for (int i = 0; alone_first && i < SHAPES; i++) call_into(&products[i], products[i].alone);
}

/* Of whole numbers zeros may have either sign, for the CPU may have added them. */
static bool is_right(const struct product *p, const void *c) {
  if (!whole_numbers) return memcmp(c, p->alone, p->c_bytes) == 0;
  const size_t count = p->c_bytes / (size_t)tst_part_bytes(p->symbol->type);
  for (size_t i = 0; i < count; i++)
    if (tst_is_double(p->symbol->type) ? ((const double *)c)[i] != ((const double *)p->alone)[i]
                                       : ((const float *)c)[i] != ((const float *)p->alone)[i])
      return false;
  return true;
}

static void *call_all(void *number) {
  const int first = (int)(uintptr_t)number;
  pthread_barrier_wait(&start);
  for (int i = 0; i < rounds * SHAPES; i++) {
    const struct product *const p = &products[(first + i + i / SHAPES) % SHAPES];
    void *const c = malloc(p->c_bytes);
    if (c == NULL) abort();
    call_into(p, c);
    if (!is_right(p, c)) atomic_fetch_add(&wrong, 1);
    free(c);
  }
  atomic_fetch_sub(&left_to_do, 1);
  return NULL;
}

/* Returns the most streams that were seen meanwhile. */
static uint64_t call_at_once(const struct tst_fake *fake) {
  pthread_t ids[THREADS];
  uint64_t most = 0;
  pthread_barrier_init(&start, NULL, THREADS);
  left_to_do = THREADS;
  for (uintptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&ids[i], NULL, call_all, (void *)i) != 0) abort();
  while (atomic_load(&left_to_do) > 0) {
    usleep(1000);
    const uint64_t now = fake->get(FAKE_CUDA_STREAMS);
    if (now > most) most = now;
  }
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  pthread_barrier_destroy(&start);
  return most;
}

static bool all_counted(bool by_gpu) {
  tileblas_stats s;
  tileblas_stats_get(&s);
  return s.gpu_calls + s.cpu_calls == SHAPES + (unsigned)(THREADS * rounds * SHAPES) && (!by_gpu || s.cpu_calls == 0);
}

/* ---- what goes well ---- */

static int bits_of_single_calls(void *unused) {
  (void)unused;
  const struct tst_fake *const fake = tst_fake();
  prepare_all(false, true);
  if (fake->get(FAKE_CUDA_STREAMS) != STREAMS_OF_A_LANE) return 2; /* who calls alone needs no lane */
  const uint64_t pinned = fake->get(FAKE_CUDA_PINNED_BYTES), streams = call_at_once(fake);
  if (wrong) return 3;
  if (streams < 2 * STREAMS_OF_A_LANE || streams > 4 * STREAMS_OF_A_LANE) return 4;
  if (!all_counted(true)) return 5;
  for (int i = 0; i < 60 && (fake->get(FAKE_CUDA_STREAMS) > STREAMS_OF_A_LANE || fake->get(FAKE_CUDA_PUSHED) > 0); i++)
    usleep(100000);
  const bool given_back = fake->get(FAKE_CUDA_STREAMS) == STREAMS_OF_A_LANE &&
                          fake->get(FAKE_CUDA_PINNED_BYTES) == pinned && fake->get(FAKE_CUDA_ALLOCATIONS) == 0;
  return given_back ? 0 : 6;
}

/* The first calls of the process, in which the GPU is opened and kernels are loaded. */
static int from_the_beginning(void *unused) {
  (void)unused;
  const struct tst_fake *const fake = tst_fake();
  prepare_all(true, false);
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  for (int i = 0; i < SHAPES; i++) call_into(&products[i], products[i].alone);
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  call_at_once(fake);
  return wrong ? 3 : all_counted(false) ? 0 : 5;
}

/* Of the GPU's memory as much as the largest call takes, and little more. */
static int short_memory(void *unused) {
  (void)unused;
  setenv("FAKE_CUDA_MEMORY", "7000000", 1);
  prepare_all(false, true);
  call_at_once(tst_fake());
  return wrong ? 3 : all_counted(true) ? 0 : 5;
}

/* What was short when a lane was wanted may be there behind a pause: until then nobody asks again. */
static int refused_for_a_while(void *unused) {
  (void)unused;
  const struct tst_fake *const fake = tst_fake();
  prepare_all(false, true);
  fake->inject("cuStreamCreate", 1, 2, 0);
  if (call_at_once(fake) > STREAMS_OF_A_LANE) return 4;
  fake->clear_failures();
  for (int i = 0; i < 60 && (fake->get(FAKE_CUDA_ALLOCATIONS) > 0 || fake->get(FAKE_CUDA_PUSHED) > 0); i++)
    usleep(100000);
  if (call_at_once(fake) < 2 * STREAMS_OF_A_LANE) return 10;
  tileblas_stats s;
  tileblas_stats_get(&s);
  return wrong ? 3 : s.cpu_calls == 0 ? 0 : 5;
}

/* An option that the program sets between calls, of which none needs the GPU to itself. */
static int idle_later(void *unused) {
  (void)unused;
  const struct tst_fake *const fake = tst_fake();
  prepare_all(false, true);
  tileblas_option_set("TILEBLAS_IDLE", "1");
  call_into(&products[0], products[0].alone);
  for (int i = 0; i < 80 && fake->get(FAKE_CUDA_CONTEXTS) > 0; i++) usleep(100000);
  return fake->get(FAKE_CUDA_CONTEXTS) == 0 ? 0 : 8;
}

#define LIMIT 2500000

static int limited_memory(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", tst_format("%d", LIMIT));
  prepare_all(false, true);
  call_at_once(tst_fake());
  if (tst_fake()->get(FAKE_CUDA_PEAK_BYTES) > LIMIT) return 7;
  return wrong ? 3 : all_counted(true) ? 0 : 5;
}

/* A call under a limit that was not there before; whether all that is kept is within it then. */
static bool keeps_within(uint64_t limit) {
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", tst_format("%llu", (unsigned long long)limit));
  call_into(&products[0], products[0].alone);
  return tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES) <= limit;
}

/* Threads that have a lane each, and then a limit: what lanes keep counts, too, be it that the first one's own arena
 * may stay, or not. */
static int limited_later(void *unused) {
  (void)unused;
  const struct tst_fake *const fake = tst_fake();
  prepare_all(false, true);
  const uint64_t alone = fake->get(FAKE_CUDA_ALLOCATED_BYTES);
  call_at_once(fake);
  if (fake->get(FAKE_CUDA_ALLOCATED_BYTES) <= alone || alone <= LIMIT) return 9; /* nothing could be seen */
  return !keeps_within(alone) || !keeps_within(LIMIT) ? 7 : wrong ? 3 : 0;
}

/* ---- what fails ---- */

static const struct failure {
  const char *function;
  int code;
  unsigned flags;
} failures[] = {
    {"cuMemcpyHtoDAsync", 999, FAKE_CUDA_STICKY},
    {"cuMemcpyHtoDAsync", 999, 0},
    {"cuMemcpyHtoDAsync", 700, FAKE_CUDA_ASYNC},
    {"cuLaunchKernel", 999, FAKE_CUDA_STICKY},
    {"cuLaunchKernel", 2, 0},
    {"cuMemcpyDtoHAsync", 999, 0},
    {"cuMemcpyDtoHAsync", 700, FAKE_CUDA_ASYNC},
    {"cuEventQuery", 999, 0},
    {"cuStreamQuery", 999, FAKE_CUDA_STICKY},
    {"cuMemAlloc", 2, 0},
    {"cuMemAlloc", 999, 0},
    {"cuStreamCreate", 2, 0},
    {"cuStreamCreate", 999, FAKE_CUDA_STICKY},
    {"cuMemHostAlloc", 2, 0},
    {"cuEventCreate", 2, 0},
    {"cuModuleLoadData", 2, 0},
    {"cuCtxPushCurrent", 999, 0},
    {"cuMemsetD8Async", 999, 0},
};

struct failing {
  const struct failure *what;
  unsigned long nth;
};

static int while_one_fails(void *argument) {
  const struct failing *const f = argument;
  const struct tst_fake *const fake = tst_fake();
  alarm(100);
  rounds = 1;
  prepare_all(true, true);
  if (fake->inject(f->what->function, f->nth, f->what->code, f->what->flags) != 0) return 2;
  call_at_once(fake);
  if (wrong) return 3;
  if (!all_counted(false)) return 5;
  tileblas_stats s;
  tileblas_stats_get(&s);
  /* Given up: every later call is the CPU's, and nothing is left of the GPU, once slots that are being pinned are. */
  for (int i = 0; i < 2000 && s.cpu_calls > 4 && fake->get(FAKE_CUDA_CONTEXTS) != 0; i++) usleep(1000);
  if (s.cpu_calls > 4 && fake->get(FAKE_CUDA_CONTEXTS) != 0) return 8;
  return fake->get(FAKE_CUDA_CONTEXTS) != 0 || fake->get(FAKE_CUDA_STREAMS) == 0 ? 0 : 9;
}

static void expect_child(int (*body)(void *), void *argument, size_t warnings_most, const char *what) {
  struct tst_output o;
  wrong = 0;
  tst_fork(&o, body, argument);
  const size_t warnings = tst_count_lines(o.err, "tileblas: warning");
  size_t lines = 0;
  for (const char *c = o.err; *c != 0; c++) lines += *c == '\n';
  if (o.status != 0 || warnings > warnings_most || lines > warnings)
    fail_msg("%s: status %d\n%s%s", what, o.status, o.out, o.err);
  tst_output_destroy(&o);
}

static void one_after_another_fails(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i += TST_UNLESS_SANITIZED(1, 3))
    for (unsigned long late = 0; late < TST_UNLESS_SANITIZED(2, 1); late++) {
      struct failing f = {&failures[i], 1 + i + late * (20 + 2 * i)};
      expect_child(while_one_fails, &f, 1, tst_format("%s %lu: %d", f.what->function, f.nth, f.what->code));
    }
}

static void all_goes_well(void **state) {
  (void)state;
  expect_child(bits_of_single_calls, NULL, 0, "bits");
  expect_child(from_the_beginning, NULL, 0, "from the beginning");
  expect_child(short_memory, NULL, 0, "short memory");
  expect_child(refused_for_a_while, NULL, 0, "refused for a while");
  expect_child(idle_later, NULL, 0, "idle later");
  expect_child(limited_memory, NULL, 0, "limited memory");
  expect_child(limited_later, NULL, 0, "limited later");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_goes_well),
      cmocka_unit_test(one_after_another_fails),
  };
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("needs the fake driver");
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
