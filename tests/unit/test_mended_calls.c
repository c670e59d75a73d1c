/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products with an operand of which the program writes a little between them: the same bits as without TILEBLAS_CACHE,
 * wherever that was and however it is stored; only pieces of it go up; the next product is asked about it first, and
 * computed once. What is packed for the tensor cores is packed anew. Where a piece does not arrive the copy is gone,
 * and the result right. The verbose line and the report say it.
 *
 * Each case is a process of its own. Seen to fail when: a piece lands elsewhere, or is shorter than what was written;
 * what fails to go up counts as if it was there; old planes are used; a call is computed twice each time; bytes that
 * went up again are said not to have, or calls not to be mended. Left out where the kernel does not tell.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "hurry.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_UNKNOWN 999
#define PAGE ((int64_t)4096)
#define OFFSET 40 /* of A in its first page */
#define CELL_BYTES ((int64_t)16 << 10)

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

#define MUST(condition)                                                            \
  do                                                                               \
    if (!(condition)) return printf("line %d: not %s\n", __LINE__, #condition), 1; \
  while (0)

static uint64_t counter(enum fake_cuda_count which) { return tst_fake()->get(which); }

/* ---- a product ---- */

struct shape {
  bool single; /* precision */
  char trans_a;
  int64_t m, n, k, pad;
  bool square; /* A is both operands */
};

/* Columns that are much shorter than a cell, or nearly one; of several cells; longer than a slot. */
static const struct shape shapes[] = {{.trans_a = 'N', .m = 34, .n = 3, .k = 8000},
                                      {.trans_a = 'N', .m = 300, .n = 5, .k = 900, .pad = 13},
                                      {.trans_a = 'T', .m = 200, .n = 3, .k = 1300, .pad = 1},
                                      {.trans_a = 'T', .m = 40, .n = 3, .k = 8000, .pad = 5},
                                      {.trans_a = 'T', .m = 2, .n = 1, .k = 270000, .pad = 7},
                                      {.trans_a = 'N', .m = 32, .n = 32, .k = 4200, .pad = 2, .square = true}};

struct call {
  struct shape s;
  struct tst_problem p;
  char *mapped, *a, *b, *c, *original;
  int64_t element_bytes, a_bytes, b_bytes, c_bytes;
};

static void fill(char *x, int64_t bytes, bool single, uint64_t seed) {
  for (int64_t i = 0; i < bytes; i += single ? 4 : 8) {
    const float value = tst_random_unit(&seed) - 0.5f;
    single ? memcpy(x + i, &value, 4) : memcpy(x + i, &(double){(double)value}, 8);
  }
}

static struct call make(struct shape s) {
  struct call x = {.s = s, .element_bytes = s.single ? 4 : 8};
  const bool trans = s.trans_a == 'T';
  x.p = (struct tst_problem){.trans_a = s.trans_a, .trans_b = s.square ? 'T' : 'N', .m = s.m, .n = s.n, .k = s.k};
  x.p.alpha = 1.25, x.p.beta = 0, x.p.lda = (trans ? s.k : s.m) + s.pad, x.p.ldb = s.k, x.p.ldc = s.m;
  x.a_bytes = x.p.lda * (trans ? s.m : s.k) * x.element_bytes;
  x.b_bytes = s.k * s.n * x.element_bytes, x.c_bytes = s.m * s.n * x.element_bytes;
  x.mapped =
      mmap(NULL, (size_t)x.a_bytes + 2 * (size_t)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  x.a = x.mapped + OFFSET;
  x.b = s.square ? x.a : malloc((size_t)x.b_bytes);
  x.c = malloc((size_t)x.c_bytes), x.original = malloc((size_t)x.a_bytes);
  if (!s.square) fill(x.b, x.b_bytes, s.single, 2);
  if (s.square) x.p.ldb = x.p.lda;
  fill(x.a, x.a_bytes, s.single, 1);
  memcpy(x.original, x.a, (size_t)x.a_bytes);
  return x;
}

static void drop(struct call *x) {
  munmap(x->mapped, (size_t)x->a_bytes + 2 * (size_t)PAGE);
  if (!x->s.square) free(x->b);
  free(x->c), free(x->original);
}

/* Returns the bytes that went up. */
static int64_t run(struct call *x) {
  const struct tst_symbol *const symbol = tst_find_symbol(x->s.single ? "cblas_sgemm" : "cblas_dgemm");
  const uint64_t before = counter(FAKE_CUDA_BYTES_UP);
  tst_call(symbol, tst_resolve(symbol), &x->p, x->a, x->b, x->c);
  return (int64_t)(counter(FAKE_CUDA_BYTES_UP) - before);
}

/* Until A is watched, and what goes up then. */
static int64_t keep(struct call *x) {
  for (int i = 0; i < 5; i++) run(x);
  return run(x);
}

/* A byte of a fraction, by which the result is another. */
static void change(struct call *x, int64_t at) {
  const int64_t element = at / x->element_bytes * x->element_bytes;
  x->a[element + x->element_bytes - 2] ^= 4;
}

/* ---- bits ---- */

/* Whatever is done to A and what comes of it is done again without copies. */
enum { STEPS = TST_UNLESS_SANITIZED(10, 8) };
struct step {
  int64_t at[3];
  int places;
  char *c;
};

static void take(struct call *x, const struct step *step) {
  for (int i = 0; i < step->places; i++) change(x, step->at[i]);
}

/* In pages that are watched: the first one's beginning, the last one's end, at a border, behind the last element of a
 * column, in two columns, in three places. */
static void plan(const struct call *x, struct step step[]) {
  const int64_t first = PAGE - OFFSET,
                behind = (x->a_bytes - x->s.pad * x->element_bytes + OFFSET) / PAGE * PAGE - OFFSET;
  const int64_t ld_bytes = x->p.lda * x->element_bytes;
  uint64_t seed = 5;
  for (int i = 0; i < STEPS; i++) {
    const int64_t any = first + tst_random_below(&seed, behind - first), page = (any + OFFSET) / PAGE * PAGE - OFFSET;
    const int64_t column_end = first + (behind - first) / 3 / ld_bytes * ld_bytes + ld_bytes - 1;
    step[i] = (struct step){.at = {any}, .places = 1};
    if (i == 0) step[i].at[0] = first;
    if (i == 1) step[i].at[0] = behind - x->element_bytes;
    if (i == 2) step[i].at[0] = page > first ? page : first;
    if (i == 3) step[i].at[0] = (page > first ? page : first + PAGE) - 1;
    if (i == 4 || i == 5) step[i].at[0] = column_end < behind ? column_end : any; /* the same page again */
    if (i == 6) step[i].at[1] = any + ld_bytes < behind ? any + ld_bytes : first, step[i].places = 2;
    if (i == 7) step[i].at[1] = first, step[i].at[2] = behind - 1, step[i].places = 3;
  }
}

static int the_same_bits(void *shape_of) {
  struct call x = make(*(const struct shape *)shape_of);
  struct step step[STEPS];
  const int steps = x.s.k > 100000 ? 4 : STEPS; /* a second each */
  plan(&x, step);
  const int64_t usual = keep(&x);
  MUST(usual < x.a_bytes / 2 + x.b_bytes);
  for (int i = 0; i < steps; i++) {
    take(&x, &step[i]);
    const int64_t up = run(&x) - usual;
    /* The product may have begun before it is known, and what goes up each time then does so twice. */
    const int64_t most = usual + step[i].places * 4 * CELL_BYTES;
    if (up <= 0 || up > most) return printf("step %d: %lld bytes went up again\n", i, (long long)up), 1;
    step[i].c = malloc((size_t)x.c_bytes);
    memcpy(step[i].c, x.c, (size_t)x.c_bytes);
    MUST(run(&x) == usual && memcmp(x.c, step[i].c, (size_t)x.c_bytes) == 0);
  }
  set("TILEBLAS_CACHE", "off");
  memcpy(x.a, x.original, (size_t)x.a_bytes);
  for (int i = 0; i < steps; i++) {
    take(&x, &step[i]);
    run(&x);
    if (memcmp(x.c, step[i].c, (size_t)x.c_bytes) != 0) return printf("step %d: other bits\n", i), 1;
    free(step[i].c);
  }
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  MUST(stats.gpu_failures == 0 && stats.cpu_calls == 0);
  drop(&x);
  return 0;
}

/* At the ends, in others' pages, and of many pages: all of it goes up. */
static int what_is_not_mended(void *opaque) {
  const int which = *(const int *)opaque;
  struct call x = make(shapes[0]);
  const int64_t usual = keep(&x);
  MUST(usual < x.a_bytes);
  if (which == 0) change(&x, 0);
  if (which == 1) change(&x, x.a_bytes - 1);
  for (int64_t at = PAGE; which == 2 && at < x.a_bytes; at += 20 * PAGE) change(&x, at);
  MUST(run(&x) >= usual + x.a_bytes);
  char *const kept = malloc((size_t)x.c_bytes);
  memcpy(kept, x.c, (size_t)x.c_bytes);
  set("TILEBLAS_CACHE", "off");
  run(&x);
  MUST(memcmp(kept, x.c, (size_t)x.c_bytes) == 0);
  free(kept), drop(&x);
  return 0;
}

static double bytes_moved(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return stats.gpu_bytes;
}

/* That is found beside the first product, which is computed anew, and before the next ones. What goes up again counts
 * as moved: a page's cell, of 60 columns. */
static int asked_first(void *unused) {
  (void)unused;
  struct call x = make(shapes[0]);
  keep(&x);
  uint64_t launches[4];
  double moved[4];
  for (int i = 0; i < 4; i++) {
    launches[i] = counter(FAKE_CUDA_LAUNCHES), moved[i] = bytes_moved();
    if (i > 0) change(&x, 100 * PAGE + i * 64);
    run(&x);
    launches[i] = counter(FAKE_CUDA_LAUNCHES) - launches[i], moved[i] = bytes_moved() - moved[i];
  }
  printf("launches: %d, %d, %d, %d; bytes moved: %.0f, %.0f, %.0f, %.0f\n", (int)launches[0], (int)launches[1],
         (int)launches[2], (int)launches[3], moved[0], moved[1], moved[2], moved[3]);
  MUST(launches[1] > launches[0] && launches[2] == launches[0] && launches[3] == launches[0]);
  const double cell_bytes = 60.0 * 34 * 8;
  MUST(moved[2] == moved[0] + cell_bytes && moved[3] == moved[0] + cell_bytes);
  drop(&x);
  return 0;
}

/* ---- the tensor cores ---- */

static int on_tensor_cores(void *unused) {
  (void)unused;
  struct call x = make((struct shape){.single = true, .trans_a = 'N', .m = 120, .n = 110, .k = 2750});
  char *results[3];
  uint64_t launches[9];
  for (int i = 0; i < 9; i++) {
    const uint64_t before = counter(FAKE_CUDA_LAUNCHES);
    run(&x);
    launches[i] = counter(FAKE_CUDA_LAUNCHES) - before;
  }
  MUST(launches[8] < launches[2]); /* it is not packed again */
  for (int i = 0; i < 3; i++) {
    change(&x, (60 + 100 * i) * PAGE);
    MUST(run(&x) < 2 * x.b_bytes + 8 * CELL_BYTES);
    results[i] = malloc((size_t)x.c_bytes);
    memcpy(results[i], x.c, (size_t)x.c_bytes);
    run(&x);
    MUST(memcmp(results[i], x.c, (size_t)x.c_bytes) == 0);
  }
  set("TILEBLAS_CACHE", "off");
  memcpy(x.a, x.original, (size_t)x.a_bytes);
  for (int i = 0; i < 3; i++) {
    change(&x, (60 + 100 * i) * PAGE);
    run(&x);
    MUST(memcmp(results[i], x.c, (size_t)x.c_bytes) == 0);
    free(results[i]);
  }
  drop(&x);
  return 0;
}

/* ---- failures ---- */

/* C by the library that keeps nothing, in another process. */
struct wanted {
  char *c; /* shared memory */
  struct call *x;
};

static int compute_without(void *opaque) {
  struct wanted *const w = opaque;
  set("TILEBLAS_CACHE", "off");
  run(w->x);
  memcpy(w->c, w->x->c, (size_t)w->x->c_bytes);
  return 0;
}

static struct wanted without(struct call *x) {
  struct wanted w = {.x = x};
  struct tst_output o;
  w.c = mmap(NULL, (size_t)x->c_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  tst_fork(&o, compute_without, &w);
  if (o.status != 0) exit(7);
  tst_output_destroy(&o);
  return w;
}

static bool is_as(const struct wanted *w) {
  double error = 0;
  for (int64_t i = 0; i < w->x->c_bytes; i += 8) {
    double is, should;
    memcpy(&is, w->x->c + i, 8), memcpy(&should, w->c + i, 8);
    error = is - should > error || should - is > error ? (is > should ? is - should : should - is) : error;
  }
  return error < 1e-9; /* the CPU adds in another order; a change of A is some 1e-1 */
}

/* A product before which two places of A are written; it is asked first. */
static struct call about_to_be_mended(struct wanted *w, struct call *x) {
  keep(x);
  change(x, 100 * PAGE);
  run(x);
  change(x, 100 * PAGE + 64), change(x, 300 * PAGE);
  *w = without(x);
  return *x;
}

struct failure {
  const char *function;
  unsigned long nth;
};

/* What fails as pieces go up costs the copy alone; there is another one later. */
static int a_piece_that_fails(void *opaque) {
  const struct failure *const f = opaque;
  struct call x = make(shapes[0]);
  struct wanted w;
  about_to_be_mended(&w, &x);
  const uint64_t before = counter(FAKE_CUDA_ALLOCATED_BYTES);
  tst_fake()->inject(f->function, f->nth, CUDA_ERROR_OUT_OF_MEMORY, 0);
  MUST(run(&x) >= x.a_bytes && is_as(&w));
  MUST(counter(FAKE_CUDA_FAILURES) == 1 && before >= counter(FAKE_CUDA_ALLOCATED_BYTES) + (uint64_t)x.a_bytes);
  for (int i = 0; i < 8; i++) {
    run(&x);
    MUST(is_as(&w));
  }
  MUST(run(&x) < x.a_bytes && is_as(&w));
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  MUST(stats.gpu_failures == 0 && stats.cpu_calls == 0);
  drop(&x);
  return 0;
}

/* With all of the GPU, when the copy runs. */
static int a_gpu_that_fails(void *unused) {
  (void)unused;
  struct call x = make(shapes[0]);
  struct wanted w;
  about_to_be_mended(&w, &x);
  tst_fake()->inject("cuMemcpyHtoDAsync", 1, CUDA_ERROR_UNKNOWN, FAKE_CUDA_ASYNC);
  run(&x);
  MUST(is_as(&w));
  tst_fake()->clear_failures();
  run(&x);
  MUST(is_as(&w));
  drop(&x);
  return 0;
}

static int a_gpu_that_hangs(void *operations) {
  struct call x = make(shapes[0]);
  struct wanted w;
  alarm(60);
  about_to_be_mended(&w, &x);
  tst_fake()->set_order(FAKE_CUDA_HANGING, (uint64_t)(uintptr_t)operations);
  tst_hurry(true);
  run(&x);
  tst_hurry(false);
  tst_fake()->set_order(FAKE_CUDA_LAZY, 0);
  MUST(is_as(&w));
  run(&x);
  MUST(is_as(&w) && counter(FAKE_CUDA_MISUSES) == 0);
  drop(&x);
  return 0;
}

/* ---- what is said ---- */

static int some_calls(void *unused) {
  (void)unused;
  struct call x = make(shapes[2]);
  set("TILEBLAS_VERBOSE", "1"), set("TILEBLAS_REPORT", "1");
  keep(&x);
  for (int i = 0; i < 3; i++) {
    change(&x, 100 * PAGE + 64 * i); /* a page of one cell, which is a column of 10,400 bytes */
    run(&x);
  }
  drop(&x);
  return 0;
}

static void expect_lines(const struct tst_output *o, const char *part, size_t count) {
  if (tst_count_lines(o->err, part) == count) return;
  fail_msg("%zu lines with \"%s\" instead of %zu in\n%s", tst_count_lines(o->err, part), part, count, o->err);
}

/* ---- each in a process ---- */

static void in_process(int (*body)(void *), const void *argument, size_t lines_said) {
  struct tst_output o;
  tst_fork(&o, body, (void *)(uintptr_t)argument);
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  if (tst_count_lines(o.err, "\n") != lines_said) fail_msg("it says: %s", o.err);
  tst_output_destroy(&o);
}

static void bits(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += TST_UNLESS_SANITIZED(1, 2))
    in_process(the_same_bits, &shapes[i], 0);
}
static void bits_where_digests_count(void **state) {
  (void)state;
  set("TILEBLAS_CACHE", "8G");
  in_process(the_same_bits, &shapes[3], 0);
  set("TILEBLAS_CACHE", "auto");
}
static void not_mended(void **state) {
  (void)state;
  for (int which = 0; which < 3; which++) in_process(what_is_not_mended, &which, 0);
}
static void when_it_is_asked(void **state) {
  (void)state;
  in_process(asked_first, NULL, 0);
}
static void tensor_cores(void **state) {
  (void)state;
  in_process(on_tensor_cores, NULL, 0);
}
static void pieces_that_fail(void **state) {
  static const struct failure failures[] = {{"cuMemcpyHtoDAsync", 1}, {"cuMemcpyHtoDAsync", 2}};
  (void)state;
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) in_process(a_piece_that_fails, &failures[i], 0);
}
static void gpus_that_fail(void **state) {
  (void)state;
  in_process(a_gpu_that_fails, NULL, 1);
  for (uintptr_t operations = 0; operations < 2; operations++)
    in_process(a_gpu_that_hangs, (const void *)operations, 1);
}
static void what_is_said(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, some_calls, NULL);
  assert_int_equal(o.status, 0);
  expect_lines(&o, "A=kept (mended) B=host C=host saved 2.070 MB", 3);
  expect_lines(&o, "of these, with pieces that went up again, for they had been written: 3", 1);
  tst_output_destroy(&o);
}

static void is_possible(void) {
  struct tst_output o;
  tst_fork(&o, some_calls, NULL);
  if (tst_count_lines(o.err, "A=kept (tracked)") == 0) tst_skip("the kernel does not tell which pages were written");
  tst_output_destroy(&o);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bits),
                                     cmocka_unit_test(bits_where_digests_count),
                                     cmocka_unit_test(not_mended),
                                     cmocka_unit_test(when_it_is_asked),
                                     cmocka_unit_test(pieces_that_fail),
                                     cmocka_unit_test(gpus_that_fail),
                                     cmocka_unit_test(what_is_said)};
  const struct CMUnitTest tensor_alone[] = {cmocka_unit_test(tensor_cores)};
  if (tst_fake() == NULL) tst_skip("a real driver does not count");
  set("TILEBLAS_ROUTE", "gpu");
  is_possible();
  if (argc > 1 && strcmp(argv[1], "tensor") == 0) return cmocka_run_group_tests(tensor_alone, NULL, NULL);
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
