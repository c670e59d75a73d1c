/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands that the program has chosen to keep (tileblas_keep): nothing of one goes up from its second product on; a
 * change of it is seen; it stays through seconds without calls, and before others where there is room for one, but not
 * before a product; by hash where the kernel may not be asked; and it is forgotten at a word, by threads beside calls.
 *
 * Each case is a process of its own. Seen to fail when: the choice does not count at the first sight, or not where
 * nobody watches; copies are made in vain, or never again; a copy is used unproven; others' copies displace it, or it
 * does not displace theirs; it goes with idleness; a part that is forgotten, or the GPU's memory of it, is not;
 * TILEBLAS_CACHE=off does not rule it; arguments are not looked at.
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
#include "placed.h"
#include "process.h"
#include "tileblas.h"

/* C = A B in double, of whole numbers: A has 2.18 MB, more than a slot. */
enum { M = 34, N = 3, K = 8000, A_BYTES = M * K * 8, B_BYTES = K * N * 8 };

struct call {
  double *a, *b, c[M * N];
  int round;
};

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

static struct call make(int seed) {
  struct call x = {.a = malloc(A_BYTES), .b = malloc(B_BYTES)};
  for (int i = 0; i < M * K; i++) x.a[i] = (i * 7 + seed) % 9 - 4;
  return x;
}

static void drop(struct call *x) { free(x->a), free(x->b); }

/* Not instrumented: most of the test's time. */
__attribute__((no_sanitize("address", "undefined"))) static bool is_right(const struct call *x) {
  for (int j = 0; j < N; j++)
    for (int i = 0; i < M; i++) {
      double sum = 0;
      for (int l = 0; l < K; l++) sum += x->a[i + l * M] * x->b[l + j * K];
      if (x->c[i + j * M] != sum) return false;
    }
  return true;
}

/* With another B each time: it is only A that comes back. False: C is not A B. B lies on the GPU: what the program has
 * enqueued is to bring it there. */
static bool run_from(struct call *x, bool b_is_on_its_way) {
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_dgemm");
  const struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = M, .n = N, .k = K, .alpha = 1, .lda = M, .ldb = K, .ldc = M};
  void *there = NULL, *source = NULL;
  x->round++;
  for (int i = 0; i < K * N; i++) x->b[i] = (i * 5 + x->round) % 7 - 3;
  if (b_is_on_its_way) {
    tst_fake()->set_order(FAKE_CUDA_LAZY, 0);
    there = tst_cuda_allocate(TST_DEVICE, B_BYTES);
    source = tst_cuda_write_later(there, x->b, B_BYTES);
  }
  tst_call(symbol, tst_resolve(symbol), &p, x->a, there != NULL ? there : x->b, x->c);
  if (there != NULL) {
    if (!tst_cuda_read(TST_DEVICE, x->b, there, B_BYTES)) exit(6);
    tst_cuda_free(TST_DEVICE, source);
    tst_cuda_free(TST_DEVICE, there);
  }
  return is_right(x);
}

static bool run(struct call *x) { return run_from(x, false); }

static uint64_t counter(enum fake_cuda_count which) { return tst_fake()->get(which); }

#define MUST(condition)                                         \
  do                                                            \
    if (!(condition)) return printf("not %s\n", #condition), 1; \
  while (0)

/* Whether A goes up in the next call; MUST be right in any case. */
static int goes_up(struct call *x) {
  const uint64_t before = counter(FAKE_CUDA_BYTES_UP);
  if (!run(x)) exit(5);
  return counter(FAKE_CUDA_BYTES_UP) - before >= A_BYTES;
}

static int keep(const struct call *x) { return tileblas_keep(x->a, A_BYTES); }

/* ---- cases ---- */

static int from_the_second_product_on(void *cache) {
  struct call x = make(1), other = make(2);
  set("TILEBLAS_CACHE", cache);
  MUST(keep(&x) == 0);
  MUST(goes_up(&x) && !goes_up(&x) && !goes_up(&x));
  MUST(goes_up(&other) && goes_up(&other)); /* and no longer than any other, if that is not chosen */
  for (int i = 0; i < 3; i++) {
    x.a[M * K / 2 + i] += 1;
    MUST(run(&x)); /* the change is seen */
    MUST(run(&x) && !goes_up(&x));
  }
  drop(&x), drop(&other);
  return 0;
}

/* A's copy is all that is used of what went up, and B is waited for all the same. */
static int b_on_its_way(void *unused) {
  (void)unused;
  tst_cuda_begin(0);
  struct call x = make(1);
  MUST(keep(&x) == 0 && run(&x) && !goes_up(&x));
  for (int i = 0; i < 3; i++) {
    const uint64_t before = counter(FAKE_CUDA_BYTES_UP);
    MUST(run_from(&x, true) && counter(FAKE_CUDA_BYTES_UP) - before < A_BYTES);
  }
  MUST(tileblas_forget(x.a, A_BYTES) == 0);
  drop(&x);
  tst_cuda_end(0);
  return 0;
}

static bool has_copy(uint64_t bytes_without) { return counter(FAKE_CUDA_ALLOCATED_BYTES) >= bytes_without + A_BYTES; }

/* One that the program is wrong about: of a matrix that it rewrites before each product no copies are made for nothing;
 * when it stays as it is after all, it is kept at the second sight, and from then on at the first. */
static int wrongly(void *unused) {
  (void)unused;
  struct call x = make(1), other = make(2);
  MUST(run(&other));
  const uint64_t without = counter(FAKE_CUDA_ALLOCATED_BYTES);
  MUST(keep(&x) == 0 && run(&x) && has_copy(without));
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < M * K; j++) x.a[j] += 1;
    MUST(goes_up(&x) && !has_copy(without));
  }
  MUST(goes_up(&x) && has_copy(without));
  for (int i = 0; i < 3; i++) {
    MUST(!goes_up(&x) && !goes_up(&x));
    for (int j = 0; j < M * K; j++) x.a[j] -= 2;
    MUST(goes_up(&x) && has_copy(without));
  }
  drop(&x), drop(&other);
  return 0;
}

static int off(void *unused) {
  (void)unused;
  struct call x = make(1);
  set("TILEBLAS_CACHE", "off");
  MUST(keep(&x) == 0 && goes_up(&x) && goes_up(&x));
  drop(&x);
  return 0;
}

/* `part`: of A that is forgotten, in bytes from its start; NULL: all. */
static int forgotten(void *part) {
  struct call x = make(1);
  const int64_t from = part == NULL ? 0 : strtoll(part, NULL, 10), bytes = part == NULL ? A_BYTES : 1;
  MUST(keep(&x) == 0 && run(&x) && !goes_up(&x));
  const uint64_t before = counter(FAKE_CUDA_ALLOCATED_BYTES);
  MUST(tileblas_forget((char *)x.a + from, (uint64_t)bytes) == 0);
  const uint64_t behind = counter(FAKE_CUDA_ALLOCATED_BYTES);
  const bool is_its = from >= 0 && from < A_BYTES;
  MUST(is_its ? before - behind >= A_BYTES : before == behind);
  MUST(goes_up(&x) == is_its); /* and is seen as any other from now on */
  if (is_its) MUST(goes_up(&x) && !goes_up(&x));
  drop(&x);
  return 0;
}

/* What nobody chose is given back as well. */
static int forgotten_unchosen(void *unused) {
  (void)unused;
  struct call x = make(1);
  MUST(run(&x) && run(&x) && !goes_up(&x));
  const uint64_t before = counter(FAKE_CUDA_ALLOCATED_BYTES);
  MUST(tileblas_forget(x.a, A_BYTES) == 0 && before - counter(FAKE_CUDA_ALLOCATED_BYTES) >= A_BYTES);
  MUST(goes_up(&x));
  drop(&x);
  return 0;
}

static int through_idleness(void *unused) {
  (void)unused;
  struct call x = make(1), y = make(2);
  MUST(keep(&x) == 0);
  for (int i = 0; i < 3; i++) MUST(run(&y) && run(&x));
  const uint64_t before = counter(FAKE_CUDA_ALLOCATED_BYTES);
  for (int i = 0; i < 60 && counter(FAKE_CUDA_ALLOCATED_BYTES) == before; i++) usleep(100000);
  usleep(100000);
  MUST(counter(FAKE_CUDA_ALLOCATED_BYTES) >= A_BYTES && counter(FAKE_CUDA_ALLOCATED_BYTES) < 2 * A_BYTES);
  MUST(!goes_up(&x) && goes_up(&y));
  MUST(tileblas_forget(x.a, A_BYTES) == 0);
  drop(&x), drop(&y);
  return 0;
}

/* There is room for one copy. */
static int before_others(void *unused) {
  (void)unused;
  struct call x = make(1), y = make(2), z = make(3);
  set("TILEBLAS_CACHE", "3M");
  for (int i = 0; i < 3; i++) MUST(run(&y));
  MUST(!goes_up(&y));
  MUST(keep(&x) == 0 && goes_up(&x) && !goes_up(&x)); /* in y's place */
  for (int i = 0; i < 8; i++) MUST(goes_up(&y));
  MUST(!goes_up(&x));
  MUST(keep(&z) == 0);
  MUST(goes_up(&z) && goes_up(&z) && !goes_up(&z) && goes_up(&x)); /* whichever comes back sooner */
  drop(&x), drop(&y), drop(&z);
  return 0;
}

/* A product that has no room otherwise. */
static int not_before_a_product(void *unused) {
  (void)unused;
  enum { SIDE = 1900 };
  struct call x[5];
  double *const operand = calloc(SIDE * 3, 8), *const c = calloc(SIDE * SIDE, 8);
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_dgemm");
  const struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = SIDE, .n = SIDE, .k = 3, .alpha = 1, .lda = SIDE, .ldb = 3, .ldc = SIDE};
  uint64_t took[2];
  for (int i = 0; i < 5; i++) x[i] = make(i);
  for (int i = 0; i < 5; i++) MUST(keep(&x[i]) == 0 && run(&x[i]) && !goes_up(&x[i]));
  for (int without = 0; without < 2; without++) {
    for (int i = 0; without && i < 5; i++) MUST(tileblas_forget(x[i].a, A_BYTES) == 0);
    const uint64_t before = counter(FAKE_CUDA_LAUNCHES);
    tst_call(symbol, tst_resolve(symbol), &p, operand, operand, c);
    took[without] = counter(FAKE_CUDA_LAUNCHES) - before;
  }
  printf("launches: %d with copies, %d without\n", (int)took[0], (int)took[1]);
  MUST(took[0] == took[1]);
  for (int i = 0; i < 5; i++) drop(&x[i]);
  free(operand), free(c);
  tileblas_stats s;
  tileblas_stats_get(&s);
  return s.cpu_calls == 0 && s.gpu_failures == 0 ? 0 : 1;
}

static int bad_arguments(void *unused) {
  (void)unused;
  const char *const end = (const char *)UINTPTR_MAX;
  static char matrices[2 * 4096 + 8];
  for (int forgets = 0; forgets < 2; forgets++) {
    int (*const f)(const void *, uint64_t) = forgets ? tileblas_forget : tileblas_keep;
    MUST(f(matrices, 0) == -1 && f(end - 5, 7) == -1 && f(matrices, UINT64_MAX) == -1);
    MUST(f(end - 5, 5) == 0 && f(NULL, 1) == 0);
  }
  for (int i = 0; i < 4096; i++) MUST(tileblas_keep(&matrices[2 * i], 1) == 0);
  MUST(tileblas_keep(&matrices[2 * 4096 + 4], 1) == -1 && tileblas_forget(matrices, sizeof matrices) == 0);
  return 0;
}

/* ---- threads ---- */

static atomic_bool over;

static void *call_again(void *opaque) {
  struct call *const x = opaque;
  bool right = true;
  for (int i = 0; i < 12; i++) right = run(x) && right;
  atomic_store(&over, true);
  return right ? x : NULL;
}

static int beside_calls(void *unused) {
  (void)unused;
  struct call x[3];
  pthread_t thread[3];
  bool right = true;
  for (int i = 0; i < 3; i++) x[i] = make(i);
  for (int i = 0; i < 3; i++)
    if (pthread_create(&thread[i], NULL, call_again, &x[i]) != 0) return 4;
  for (int i = 0; !atomic_load(&over); i++) {
    right = keep(&x[i % 3]) == 0 && right;
    usleep(3000);
    right = tileblas_forget(x[i % 3].a, i % 2 ? A_BYTES : 8) == 0 && right;
  }
  for (int i = 0; i < 3; i++) {
    void *result;
    pthread_join(thread[i], &result);
    right = result != NULL && right;
  }
  for (int i = 0; i < 3; i++) drop(&x[i]);
  return right ? 0 : 1;
}

/* ---- where the kernel may not be asked ---- */

static const char *self;

static void by_hash(void **state) {
  (void)state;
  const char *const command[] = {self, "forbidden", NULL};
  struct tst_output o;
  tst_run(&o, command, NULL);
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

/* ---- each in a process ---- */

static void in_process(int (*body)(void *), const char *argument) {
  struct tst_output o;
  set("TILEBLAS_ROUTE", "gpu");
  tst_fork(&o, body, (void *)(uintptr_t)argument);
  if (o.status != 0) fail_msg("status %d for %s\n%s%s", o.status, argument ? argument : "", o.out, o.err);
  if (o.err[0] != '\0') fail_msg("it says: %s", o.err);
  tst_output_destroy(&o);
}

static void used(void **state) {
  (void)state;
  in_process(from_the_second_product_on, "auto");
  in_process(from_the_second_product_on, "1G");
  in_process(wrongly, NULL);
  in_process(b_on_its_way, NULL);
  in_process(off, NULL);
}
static void given_back(void **state) {
  (void)state;
  const char *const parts[] = {NULL, "0", "700000", "2175999", "-1", "2176000"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) in_process(forgotten, parts[i]);
  in_process(forgotten_unchosen, NULL);
}
static void stays(void **state) {
  (void)state;
  in_process(through_idleness, NULL);
  in_process(before_others, NULL);
}
static void makes_way(void **state) {
  (void)state;
  setenv("FAKE_CUDA_MEMORY", "36000000", 1);
  in_process(not_before_a_product, NULL);
  unsetenv("FAKE_CUDA_MEMORY");
}
static void arguments(void **state) {
  (void)state;
  in_process(bad_arguments, NULL);
}
static void threads(void **state) {
  (void)state;
  in_process(beside_calls, NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(used),      cmocka_unit_test(given_back), cmocka_unit_test(stays),  cmocka_unit_test(makes_way),
      cmocka_unit_test(arguments), cmocka_unit_test(threads),    cmocka_unit_test(by_hash)};
  self = argv[0];
  if (tst_fake() == NULL) tst_skip("a real driver does not count");
  if (argc > 1 && strcmp(argv[1], "forbidden") == 0) { /* the library finds a filter when it is loaded */
    const char *const again[] = {self, "auto", NULL};
    tst_forbid_userfaultfd();
    execv(self, (char **)(uintptr_t)again);
    return 4;
  }
  if (argc > 1) {
    set("TILEBLAS_ROUTE", "gpu");
    return from_the_second_product_on(argv[1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
