/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of operands in memory that CUDA gave, with every driver function that the library calls for them failed once
 * at every position (many are sampled, see tst_next_position): C is right, for what only one call refused can still be
 * copied; or it is as it was, and a line says so, when the copies fail too. Nothing is left behind in the driver.
 *
 *   test_resident_failures once|memory|copies|beside
 *     once    one call fails: the answer is right, by whatever way
 *     memory  the same for want of memory, after which the GPU is still used
 *     copies  one call fails, and from then on no copy between host and device succeeds
 *     beside  one call fails while another GPU is open and well, which does not reach the operands
 *
 * Seen to fail when: the commit of a tile is counted before it is enqueued; beta is applied twice; the copies leak; a
 * product is lost and nobody is told; a call that fails leaves work on the GPU; another GPU is to finish the product.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balanced.h"
#include "offload_call.h"
#include "placed.h"
#include "process.h"

static const char *const functions[] = {
#define TB_CUDA(name) #name,
#include "cuda/driver.def"
#include "sanitized.h"
#undef TB_CUDA
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_UNKNOWN 999

/* Where A, B and C lie; with the limit below, some products take several blocks and chunks of k. */
static const enum tst_kind cases[][3] = {
    {TST_DEVICE, TST_DEVICE, TST_DEVICE},    {TST_PINNED, TST_DEVICE, TST_DEVICE},
    {TST_DEVICE, TST_PINNED, TST_PINNED},    {TST_PINNED, TST_PINNED, TST_PINNED},
    {TST_PAGEABLE, TST_DEVICE, TST_DEVICE},  {TST_DEVICE, TST_PAGEABLE, TST_MANAGED},
    {TST_PAGEABLE, TST_PAGEABLE, TST_DEVICE}};
#define CASES (sizeof cases / sizeof cases[0])
#define LIMIT "270K"

struct failure {
  const char *function; /* NULL: none */
  unsigned long nth;
};

static bool copies_fail, beside;      /* the mode */
static int code = CUDA_ERROR_UNKNOWN; /* of the first failure */

struct product {
  struct tst_problem p;
  struct tst_operands x;
  struct tst_expected e;
  struct tst_placed a, b, c;
};

static void make(struct product *t, size_t number, float beta) {
  uint64_t seed = number + 1;
  /* A pinned A of 260 x 64 is copied by the GPU, and so is a C; k = 1100 is cut. */
  static const int64_t shapes[CASES][3] = {{20, 33, 5}, {34, 33, 1100}, {260, 64, 5}, {260, 64, 64},
                                           {20, 33, 5}, {20, 9, 5},     {20, 9, 5}};
  t->p = tst_variant(0, shapes[number][0], shapes[number][1], shapes[number][2], -1, beta);
  tst_operands_create(&t->x, &t->p, TST_INTEGERS, &seed);
  tst_expect(&t->e, &t->p, &t->x);
  memset(t->e.bound, 0, sizeof *t->e.bound * (size_t)(t->p.m * t->p.n));
  tst_place(&t->a, &t->x.a, cases[number][0], 0);
  tst_place(&t->b, &t->x.b, cases[number][1], 1);
  tst_place(&t->c, &t->x.c, cases[number][2], 2);
}

/* Takes the operands back. Right, or with `may_be_lost` as it was; a C that beta = 0 gives up may hold anything then.
 */
static bool judge_product(struct product *t, bool may_be_lost, unsigned *lost) {
  int64_t where;
  bool back = tst_take_back(&t->a) & tst_take_back(&t->b) & tst_take_back(&t->c);
  const char *wrong = back ? tst_verify(&t->p, &t->x, &t->e) : "the operands do not come back";
  if (back && wrong && may_be_lost && tst_matrix_unchanged(&t->x.a, true, &where) &&
      tst_matrix_unchanged(&t->x.b, true, &where) && tst_matrix_unchanged(&t->x.c, t->p.beta != 0, &where))
    wrong = NULL, (*lost)++;
  if (wrong) printf("%s: %s\n", tst_describe(tst_find_symbol("cblas_sgemm"), &t->p), wrong);
  tst_expected_destroy(&t->e);
  tst_operands_destroy(&t->x);
  return !wrong;
}

/* A product that both GPUs share, and so both are open. */
static bool open_both(const struct tst_library *library, const struct tst_fake *fake) {
  const struct tst_problem shared = tst_variant(0, 300, 2000, 30, -1, 2);
  library->option_set("TILEBLAS_SHARE", "always");
  return tst_call_exactly(library, shared, 1) && fake->calls_on(1, "cuMemAlloc") > 0;
}

/* In the child: every case without and with beta, the failure in the whole of it. */
static int life(void *argument) {
  const struct failure *f = argument;
  struct tst_library library;
  struct product products[2 * CASES];
  bool right = true;

  setenv("FAKE_CUDA_POOLED", beside || f->nth % 4 < 2 ? "0" : "1", 1); /* then the library finds the context */
  setenv("FAKE_CUDA_DEVICES", beside ? "2" : "1", 1);
  setenv("FAKE_CUDA_PEERS", "0", 1);
  const struct tst_fake *fake = tst_fake();
  if (!fake) return 2;
  tst_cuda_begin(0);
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  if (beside && !open_both(&library, fake)) return 4;
  library.option_set("TILEBLAS_MEMORY_LIMIT", LIMIT);
  for (size_t i = 0; i < 2 * CASES; i++) make(&products[i], i / 2, i % 2 ? 2 : 0);
  fake->reset_calls();
  if (f->function && fake->inject(f->function, f->nth, code, 0) != 0) return 3;
  /* Every copy, or every other one: then some operands have copies already when the next has none. */
  const bool all = f->nth % 2 != 0;
  for (unsigned long nth = all ? 0 : 2; f->function && copies_fail && nth < (all ? 1 : 40); nth += 2)
    fake->inject("cuMemcpy2DAsync", nth, CUDA_ERROR_UNKNOWN, 0);
  for (size_t i = 0; i < 2 * CASES; i++) {
    const struct product *t = &products[i];
    tst_call_balanced(tst_find_symbol("cblas_sgemm"), library.cblas_sgemm, &t->p, t->a.data, t->b.data, t->c.data);
    if (fake->get(FAKE_CUDA_QUEUED) > 0) right = false, printf("something is under way behind call %zu\n", i);
  }
  for (size_t i = 0; i < FUNCTIONS; i++)
    printf("calls %s %llu\n", functions[i], (unsigned long long)fake->calls(functions[i]));
  printf("injected=%llu\n", (unsigned long long)fake->get(FAKE_CUDA_FAILURES));
  fake->clear_failures();
  unsigned lost = 0;
  for (size_t i = 0; i < 2 * CASES; i++) right &= judge_product(&products[i], copies_fail, &lost);
  printf("lost=%u\n", lost);
  tst_library_close(&library);
  tst_cuda_end(0);
  return right && tst_nothing_left(fake) ? 0 : 1;
}

static unsigned failures;

static unsigned long calls_of(const struct tst_output *o, const char *function) {
  char key[96];
  snprintf(key, sizeof key, "calls %s ", function);
  return tst_number_after(o->out, key);
}

/* False: this time the GPUs shared the calls so that this function was called less often. */
static bool run_case(const struct failure *f, unsigned long counts[FUNCTIONS]) {
  struct tst_output o;
  tst_fork(&o, life, (void *)f);
  size_t lines = tst_count_lines(o.err, "\n"), warnings = tst_count_lines(o.err, "tileblas: warning: ");
  const char *what = NULL;
  if (o.status != 0) what = "wrong answer, crash or leak";
  if (!what && lines != warnings) what = "something else was printed";
  if (!what && !f->function && lines > 0) what = "a warning without a cause";
  const bool came = !f->function || tst_number_after(o.out, "injected=") > 0;
  const bool by_chance = beside && f->function && calls_of(&o, f->function) < f->nth;
  if (!what && !came && !by_chance) what = "the failure did not come to pass";
  /* It may be told of one, too, of which the copy had come to pass that nobody could wait for. */
  if (!what && tst_count_lines(o.err, "operands in GPU memory cannot be reached") < tst_number_after(o.out, "lost="))
    what = "a product is lost, and no line says so";
  if (!what && !copies_fail && warnings > 1) what = "more than one warning for one failure";
  if (what) {
    print_error("%s number %lu: %s (status %d)\n%s%s", f->function ? f->function : "nothing", f->nth, what, o.status,
                o.out, o.err);
    failures++;
  }
  for (size_t i = 0; counts && i < FUNCTIONS; i++) counts[i] = calls_of(&o, functions[i]);
  tst_output_destroy(&o);
  return came;
}

/* Beside another GPU, where it is the same but for who goes on, fewer. */
static unsigned long next_position(unsigned long nth, unsigned long count) {
  return beside ? nth + 5 : tst_next_position(nth, count);
}

/* How often each function is called at the least: by which thread a GPU's part of a shared call is run is chance, and
 * who has the context current does not enter it. */
static void learn(unsigned long counts[FUNCTIONS]) {
  const int lives = beside ? 6 : 1;
  for (int life_number = 0; life_number < lives; life_number++) {
    unsigned long these[FUNCTIONS];
    run_case(&(struct failure){NULL, 0}, these);
    for (size_t i = 0; i < FUNCTIONS; i++)
      if (life_number == 0 || these[i] < counts[i]) counts[i] = these[i];
  }
}

static void every_function_at_every_position(void **state) {
  (void)state;
  unsigned long counts[FUNCTIONS], cases_run = 0;
  learn(counts);
  assert_int_equal(failures, 0);
  for (size_t i = 0; i < FUNCTIONS; i++)
    for (unsigned long nth = 1; nth <= counts[i]; nth = next_position(nth, counts[i]))
      cases_run += run_case(&(struct failure){functions[i], nth}, NULL);
  printf("%lu cases\n", cases_run);
  assert_true(cases_run > (beside ? 30 : TST_UNLESS_SANITIZED(100, 50)));
  assert_int_equal(failures, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_at_every_position)};
  if (argc != 2) return 2;
  copies_fail = strcmp(argv[1], "copies") == 0;
  beside = strcmp(argv[1], "beside") == 0;
  if (strcmp(argv[1], "memory") == 0) code = CUDA_ERROR_OUT_OF_MEMORY;
  return cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
}
