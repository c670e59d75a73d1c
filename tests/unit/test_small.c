/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small calls, which take a way of their own once a thread and a symbol have been through the long one: what arrives at
 * the CPU BLAS, what is refused, what the options change from one call to the next, and that every call is counted
 * once, whatever threads do. The CPU BLAS is an echo (echo_blas.h).
 *
 * Seen to fail when: a leading dimension is compared with the wrong size; alpha = 0 goes the short way; the options are
 * read only once; a call from inside the CPU BLAS is counted; two threads share sums; a reset forgets the small calls;
 * gemmt's B stands for its A.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "echo_blas.h"
#include "process.h"
#include "report.h"
#include "tileblas.h"
#include "triangle_call.h"

static __typeof__(echo_heard) *heard;
static __typeof__(echo_nested) *nested;
static __typeof__(echo_factorise) *factorise;
static float a[1], b[1], c[1]; /* the echo reads none of them */

static tileblas_stats stats_now(void) {
  tileblas_stats s;
  tileblas_stats_get(&s);
  return s;
}

static void set_option(const char *name, const char *value) { assert_int_equal(tileblas_option_set(name, value), 0); }

/* Sends this thread's calls through the symbol the short way from now on. */
static void warm(const struct tst_symbol *symbol) {
  const struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = 1, .n = 1, .k = 1, .alpha = 1, .lda = 1, .ldb = 1, .ldc = 1};
  for (int i = 0; i < 2; i++) tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
}

static void call(const struct tst_symbol *symbol, const struct tst_problem *p) {
  tst_call(symbol, tst_resolve(symbol), p, a, b, c);
}

/* ---- arguments ---- */

static int cblas_number(char letter) {
  return letter == 'N' ? 111 : letter == 'T' ? 112 : letter == 'C' ? 113 : letter;
}

static void expect_echo(const struct tst_symbol *symbol, const struct tst_problem *p) {
  const struct echo *e = heard();
  bool fortran = tst_is_fortran(symbol);
  assert_int_equal(e->layout, fortran ? 0 : p->row_major ? 101 : 102);
  assert_int_equal(e->trans_a, fortran ? p->trans_a : cblas_number(p->trans_a));
  assert_int_equal(e->trans_b, fortran ? p->trans_b : cblas_number(p->trans_b));
  assert_true(e->m == p->m && e->n == p->n && e->k == p->k);
  assert_true(e->lda == p->lda && e->ldb == p->ldb && e->ldc == p->ldc);
  const float alpha = (float)p->alpha;
  assert_true(memcmp(&e->alpha, &alpha, sizeof alpha) == 0 && e->beta == p->beta);
  assert_true(e->a == a && e->b == b && e->c == c);
}

static bool transposes(char letter) { return strchr("TtCc", letter) != NULL; }

/* The reference's rules, by what each operand stores: columns of length ld, or rows in a row-major call. */
static bool is_legal(const struct tst_symbol *symbol, const struct tst_problem *p) {
  const char *letters = tst_is_fortran(symbol) ? "NnTtCc" : "NTC";
  if (!strchr(letters, p->trans_a) || !strchr(letters, p->trans_b)) return false;
  if (p->m < 0 || p->n < 0 || p->k < 0) return false;
  int64_t a_lines[] = {p->m, p->k}, b_lines[] = {p->k, p->n}, c_lines[] = {p->m, p->n};
  bool swap_a = transposes(p->trans_a) != p->row_major, swap_b = transposes(p->trans_b) != p->row_major;
  int64_t need_a = a_lines[swap_a], need_b = b_lines[swap_b], need_c = c_lines[p->row_major];
  return p->lda >= (need_a > 1 ? need_a : 1) && p->ldb >= (need_b > 1 ? need_b : 1) &&
         p->ldc >= (need_c > 1 ? need_c : 1);
}

/* One call: it reaches the echo as it was made, and counts as what it is. */
static void check_call(const struct tst_symbol *symbol, const struct tst_problem *p) {
  tileblas_stats before = stats_now();
  uint64_t calls = heard()->calls;
  call(symbol, p);
  tileblas_stats after = stats_now();
  assert_int_equal(heard()->calls, calls + 1);
  assert_int_equal(after.cpu_calls, before.cpu_calls + 1);
  assert_int_equal(after.gpu_calls, before.gpu_calls);
  bool legal = is_legal(symbol, p), trivial = p->m == 0 || p->n == 0 || p->k == 0 || p->alpha == 0;
  double flops = legal && !trivial ? 2.0 * (double)p->m * (double)p->n * (double)p->k : 0;
  if (!(after.cpu_flops - before.cpu_flops == flops))
    fail_msg("%s %c%c m=%ld n=%ld k=%ld lda=%ld ldb=%ld ldc=%ld: %s, but counted with %g operations", symbol->name,
             p->trans_a, p->trans_b, (long)p->m, (long)p->n, (long)p->k, (long)p->lda, (long)p->ldb, (long)p->ldc,
             legal ? "legal" : "not legal", after.cpu_flops - before.cpu_flops);
  struct tst_problem arrives = *p;
  if (legal && (p->alpha == 0 || p->k == 0)) arrives.alpha = 0, arrives.k = 0;
  expect_echo(symbol, &arrives);
}

/* Sizes and leading dimensions by number, all small enough that each comparison is met on both sides. */
static void every_argument(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 4}, {4, 2, 3},  {3, 4, 2},  {2, 2, 5}, {0, 2, 2},
                                     {2, 0, 2}, {2, 2, 0}, {-1, 2, 2}, {2, -1, 2}, {2, 2, -1}};
  for (size_t s = 0; s < TST_SPELLINGS; s++) {
    const struct tst_symbol *symbol = &tst_symbols[s];
    const char *letters = tst_is_fortran(symbol) ? "NnTtCcX.\xce" : "NTCX";
    warm(symbol);
    for (const char *ta = letters; *ta; ta++)
      for (const char *tb = letters; *tb; tb++)
        for (int rows = 0; rows < 2 - tst_is_fortran(symbol); rows++)
          for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int ld = 0; ld < 5 * 5 * 5; ld += 1 + (int)i % 3) {
              const struct tst_problem p = {rows,           *ta,         *tb,        sizes[i][0],
                                            sizes[i][1],    sizes[i][2], 2.5f,       ld % 5 + 1,
                                            ld / 5 % 5 + 1, -1,          ld / 25 + 1};
              check_call(symbol, &p);
            }
  }
}

/* Small calls are not timed, and all others are. */
static bool check_timed_call(const struct tst_symbol *symbol, const struct tst_problem *p) {
  double before = stats_now().cpu_seconds;
  check_call(symbol, p);
  return stats_now().cpu_seconds > before;
}

/* alpha = 0 keeps the BLAS from A and B, NaN does not; and where small ends. */
static void values_and_borders(void **state) {
  (void)state;
  static const float alphas[] = {1, NAN, INFINITY, 1e-45f, 0, -0.0f};
  static const int64_t sides[] = {1, 2, 159, 160}; /* forced calls teach nothing: small ends where it does at first */
  const char *const names[] = {"cblas_sgemm", "sgemm_", "sgemm_64_"};
  set_option("TILEBLAS_ROUTE", "cpu"); /* so that no call is the GPU's */
  for (size_t s = 0; s < sizeof names / sizeof names[0]; s++) {
    const struct tst_symbol *symbol = tst_find_symbol(names[s]);
    warm(symbol);
    for (size_t i = 0; i < sizeof alphas / sizeof alphas[0]; i++)
      for (size_t side = 0; side < 4; side++) {
        const int64_t n = sides[side];
        const struct tst_problem p = {0, 'N', 'T', n, n, n, alphas[i], n, n, 0, n};
        assert_int_equal(check_timed_call(symbol, &p), n == 160);
      }
    check_call(symbol, &(struct tst_problem){0, 'N', 'N', 1 << 20, 1, 1, 1, 1 << 20, 1, 0, 1 << 20});
    check_call(symbol, &(struct tst_problem){0, 'N', 'N', 1, 1 << 21, 1, 1, 1, 1, 0, 1});
  }
  set_option("TILEBLAS_ROUTE", "auto");
}

/* m n = 2^64 + 1 and, of sides below 2^40, 2^64 + 2: no small products. */
static void sizes_that_overflow(void **state) {
  (void)state;
  const struct tst_symbol *symbol = tst_find_symbol("sgemm_64_");
  const int64_t sides[2][2] = {{274177, 67280421310721}, {239075442, 77158673929}};
  set_option("TILEBLAS_ROUTE", "cpu");
  warm(symbol);
  for (int i = 0; i < 2; i++) {
    const int64_t m = sides[i][0], n = sides[i][1];
    tileblas_stats before = stats_now();
    call(symbol, &(struct tst_problem){0, 'N', 'N', m, n, 1, 1, m, 1, 0, m});
    assert_true(stats_now().cpu_seconds > before.cpu_seconds);
    assert_true(heard()->m == m && heard()->n == n);
  }
  set_option("TILEBLAS_ROUTE", "auto");
}

/* Through a symbol with 64-bit integers to a BLAS with 32: what does not fit is computed without that BLAS. */
static void wide_leading_dimensions(void **state) {
  (void)state;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm64_");
  const int64_t wide = ((int64_t)1 << 32) + 1;
  warm(symbol);
  a[0] = 2, b[0] = 3;
  for (int which = 0; which < 3; which++) {
    uint64_t calls = heard()->calls;
    c[0] = 0;
    const struct tst_problem p = {.trans_a = 'N',
                                  .trans_b = 'N',
                                  .m = 1,
                                  .n = 1,
                                  .k = 1,
                                  .alpha = 1,
                                  .lda = which == 0 ? wide : 1,
                                  .ldb = which == 1 ? wide : 1,
                                  .ldc = which == 2 ? wide : 1};
    call(symbol, &p);
    assert_true(c[0] == 6);
    assert_int_equal(heard()->calls, calls);
  }
}

/* ---- gemmt ---- */

/* Many a BLAS lacks it; one that has it gets the call as it was made, also through gemmtr. */
static void expect_triangle(const struct tst_triangle_call *p) {
  const struct echo *e = heard();
  const bool fortran = !p->name.cblas;
  const float alpha = (float)p->alpha[0], beta = (float)p->beta[0];
  const int uplo = fortran ? p->uplo : p->uplo == 'U' ? 121 : 122;
  const int ta = fortran ? p->ta : cblas_number(p->ta), tb = fortran ? p->tb : cblas_number(p->tb);
  if (e->layout != (fortran ? 0 : 101 + !p->row_major) || e->uplo != uplo || e->trans_a != ta || e->trans_b != tb ||
      e->n != p->n || e->k != p->k || e->lda != p->lda || e->ldb != p->ldb || e->ldc != p->ldc)
    fail_msg("%s: arrives as layout %d, %d %d %d, n=%ld k=%ld lda=%ld ldb=%ld ldc=%ld", p->name.name, e->layout,
             e->uplo, e->trans_a, e->trans_b, (long)e->n, (long)e->k, (long)e->lda, (long)e->ldb, (long)e->ldc);
  assert_true(e->alpha == alpha && e->beta == beta);
  assert_true(e->a == p->a.data && e->b == p->b.data && e->c == p->c.data);
}

static void gemmt_arrives(void **state) {
  (void)state;
  uint64_t rng = 5;
  for (int number = 0; number < TST_TRIANGLE_NAMES; number++)
    for (int again = 0; again < 12; again++) {
      struct tst_triangle_call p;
      struct tst_typed_name name;
      tst_triangle_find(number, &name);
      if (name.shape != GEMMT || name.type != 's') continue;
      tst_triangle_create_sized(&p, number, 1 + again % 3, 2 + again % 5, &rng);
      set_option("TILEBLAS_REPORT", again % 4 == 3 ? "0" : ""); /* which is the long way */
      const uint64_t calls = heard()->calls;
      tst_triangle_make(&p);
      assert_int_equal(heard()->calls, calls + 1);
      expect_triangle(&p);
      tst_triangle_destroy(&p);
    }
  set_option("TILEBLAS_REPORT", "");
}

/* ---- the route, and who watches ---- */

static int forced_to_the_gpu(void *expected) {
  const struct tst_problem p = {0, 'N', 'N', 1, 1, 1, 1, 1, 1, 0, 1};
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  warm(symbol);
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 2;
  uint64_t before = stats_now().gpu_calls;
  call(symbol, &p);
  bool by_gpu = stats_now().gpu_calls == before + 1;
  return by_gpu == (strcmp(expected, "gpu") == 0) ? 0 : 1;
}

static void the_smallest_call_can_be_forced(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, forced_to_the_gpu, (void *)tst_setting("TB_TEST_EXPECT"));
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);
}

static int verbose_lines(void *unused) {
  (void)unused;
  const struct tst_problem p = {0, 'N', 'N', 2, 2, 2, 1, 2, 2, 0, 2};
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  for (int i = 0; i < 6; i++) {
    if (tileblas_option_set("TILEBLAS_VERBOSE", i % 2 ? "1" : "0") != 0) return 1;
    call(symbol, &p);
  }
  return 0;
}

static void verbose_from_the_next_call_on(void **state) {
  (void)state;
  struct tst_output o;
  warm(tst_find_symbol("cblas_sgemm"));
  tst_fork(&o, verbose_lines, NULL);
  assert_int_equal(o.status, 0);
  assert_int_equal(tst_count_lines(o.err, "tileblas: cblas_sgemm NN m=2"), 3);
  tst_output_destroy(&o);
}

static unsigned long long reported(const char *why) {
  char *text = tst_report_read(tileblas_report);
  unsigned long long calls = tst_report_calls(text, "cpu", why);
  free(text);
  return calls;
}

/* The reason is the one of the moment; a report wants every call's time. */
static void route_and_report(void **state) {
  (void)state;
  const struct tst_symbol *symbol = tst_find_symbol("sgemm_");
  const struct tst_problem p = {0, 'N', 'N', 2, 2, 2, 1, 2, 2, 0, 2};
  warm(symbol);
  tileblas_stats_reset();
  for (int i = 0; i < 5; i++) call(symbol, &p);
  set_option("TILEBLAS_ROUTE", "cpu");
  for (int i = 0; i < 7; i++) call(symbol, &p);
  set_option("TILEBLAS_ROUTE", "auto");
  assert_int_equal(reported("too small for a GPU"), 5);
  assert_int_equal(reported("TILEBLAS_ROUTE=cpu"), 7);
  assert_true(stats_now().cpu_seconds == 0);
  set_option("TILEBLAS_REPORT", "0");
  call(symbol, &p);
  set_option("TILEBLAS_REPORT", "");
  assert_true(stats_now().cpu_seconds > 0 && stats_now().cpu_calls == 13);
}

/* ---- counting ---- */

static void call_back(void) {
  call(tst_find_symbol("sgemm_"), &(struct tst_problem){0, 'N', 'N', 3, 3, 3, 1, 3, 3, 0, 3});
}

/* As netlib's cblas_sgemm calls sgemm_, which is ours: the program made one call. */
static void calls_from_inside_the_blas(void **state) {
  (void)state;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  warm(tst_find_symbol("sgemm_"));
  warm(symbol);
  tileblas_stats_reset();
  *(void **)nested = tst_resolve(tst_find_symbol("sgemm_"));
  uint64_t calls = heard()->calls;
  call(symbol, &(struct tst_problem){0, 'N', 'N', 2, 2, 2, 1, 2, 2, 0, 2});
  *nested = NULL;
  assert_int_equal(heard()->calls, calls + 2);
  assert_int_equal(stats_now().cpu_calls, 1);
  assert_true(stats_now().cpu_flops == 16);
  call_back();
  assert_int_equal(stats_now().cpu_calls, 2);
}

/* A call that the BLAS makes of its own accord is one of the program's, also behind small calls that it answered. */
static void calls_of_the_blas_itself(void **state) {
  (void)state;
  *(void **)nested = tst_resolve(tst_find_symbol("sgemm_"));
  for (size_t s = 0; s < TST_SPELLINGS; s++) {
    warm(tst_find_symbol("sgemm_"));
    warm(&tst_symbols[s]);
    const uint64_t before = stats_now().cpu_calls;
    call(&tst_symbols[s], &(struct tst_problem){0, 'N', 'N', 2, 2, 2, 1, 2, 2, 0, 2});
    factorise();
    assert_int_equal(stats_now().cpu_calls, before + 2);
  }
  *nested = NULL;
}

enum { THREADS = 8, CALLS = 20000, SHORT_LIVED = 1100 }; /* more than there are sums to give */
static atomic_bool running;

static void *many_calls(void *number) {
  const struct tst_symbol *symbol = tst_find_symbol((uintptr_t)number % 2 ? "cblas_sgemm" : "sgemm_64_");
  const struct tst_problem p = {0, 'N', 'N', 1, 2, 3, 1, 1, 3, 0, 1};
  void *function = tst_resolve(symbol);
  for (int i = 0; i < CALLS; i++) tst_call(symbol, function, &p, a, b, c);
  return NULL;
}

static void *watch(void *unused) {
  for (uint64_t before = 0; running;) {
    uint64_t calls = stats_now().cpu_calls;
    if (calls < before || calls > (uint64_t)THREADS * CALLS) return (void *)1;
    before = calls;
  }
  return unused;
}

static void counted_once_in_every_thread(void **state) {
  (void)state;
  pthread_t ids[THREADS], watcher;
  void *wrong;
  tileblas_stats_reset();
  running = true;
  assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
  for (uintptr_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&ids[i], NULL, many_calls, (void *)i), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
  running = false;
  pthread_join(watcher, &wrong);
  assert_null(wrong);
  assert_int_equal(stats_now().cpu_calls, THREADS * CALLS);
  assert_true(stats_now().cpu_flops == 12.0 * THREADS * CALLS);
}

static void *three_calls(void *unused) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  for (int i = 0; i < 3; i++) call(symbol, &(struct tst_problem){0, 'N', 'N', 1, 2, 3, 1, 1, 3, 0, 1});
  return unused;
}

/* What a thread counted stays when it ends, even of more threads than there are sums. */
static void counted_in_threads_that_ended(void **state) {
  (void)state;
  tileblas_stats_reset();
  for (int i = 0; i < SHORT_LIVED; i++) {
    pthread_t id;
    assert_int_equal(pthread_create(&id, NULL, three_calls, NULL), 0);
    pthread_join(id, NULL);
  }
  assert_int_equal(stats_now().cpu_calls, 3 * SHORT_LIVED);
  assert_true(stats_now().cpu_flops == 12.0 * 3 * SHORT_LIVED);
}

static int counts_its_own(void *unused) {
  (void)unused;
  if (stats_now().cpu_calls != 0) return 1;
  three_calls(NULL);
  return stats_now().cpu_calls == 3 ? 0 : 2;
}

static void a_child_counts_its_own(void **state) {
  (void)state;
  struct tst_output o;
  warm(tst_find_symbol("cblas_sgemm"));
  tst_fork(&o, counts_its_own, NULL);
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);
}

static int begin(void **state) {
  (void)state;
  const char *path = tst_format("%s/libecho_blas.so", tst_setting("TB_TEST_BUILD_DIR"));
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return -1;
  void *found[] = {dlsym(library, "echo_heard"), dlsym(library, "echo_nested"), dlsym(library, "echo_factorise")};
  memcpy(&heard, &found[0], sizeof heard);
  memcpy(&nested, &found[1], sizeof nested);
  memcpy(&factorise, &found[2], sizeof factorise);
  return heard && nested && factorise && tileblas_option_set("TILEBLAS_FALLBACK", path) == 0 ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_argument),
      cmocka_unit_test(values_and_borders),
      cmocka_unit_test(sizes_that_overflow),
      cmocka_unit_test(wide_leading_dimensions),
      cmocka_unit_test(gemmt_arrives),
      cmocka_unit_test(the_smallest_call_can_be_forced),
      cmocka_unit_test(verbose_from_the_next_call_on),
      cmocka_unit_test(route_and_report),
      cmocka_unit_test(calls_from_inside_the_blas),
      cmocka_unit_test(calls_of_the_blas_itself),
      cmocka_unit_test(counted_once_in_every_thread),
      cmocka_unit_test(counted_in_threads_that_ended),
      cmocka_unit_test(a_child_counts_its_own),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
