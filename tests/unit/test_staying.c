/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a call that is the CPU's goes to the GPU for an operand that may stay there, on a clock and a GPU of the test's
 * own: what is lost by finding out is at most what was to be gained before, whatever the program does with its operand;
 * who leaves it alone gets to the GPU and stays there.
 *
 * Seen to fail when: an operand that has changed counts as the one before; a try costs nothing; failures do not make
 * the next one wait; a copy that is gone is still counted on; what a call with a copy takes is not looked at, or is
 * believed for ever, or for calls of another size; a copy that served well counts as a failure; opening the GPU costs
 * nothing; operands that are in use make way for others; what nobody knows, or none that stays, is learned of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "cache/ranges.h"
#include "rng.h"
#include "route/staying.h"

enum { ROWS = 2048, COLUMNS = 512 }; /* 4 MiB: two slots */

static float *memory, *matrix; /* each test has a matrix of its own, a line behind that of the one before */

static struct tb_call call_by(const float *a, int64_t columns) {
  return (struct tb_call){.m = ROWS,
                          .n = columns,
                          .k = COLUMNS,
                          .alpha = {1},
                          .a = {.data = a, .ld = ROWS},
                          .b = {.data = a, .ld = COLUMNS},
                          .ldc = ROWS};
}

static void change(int64_t round) {
  for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) matrix[i] = (float)(i + round);
}

enum { TESTS_MOST = 32, LINE = 16 };

static int setup(void **state) {
  (void)state;
  if (memory == NULL) memory = malloc(sizeof(float) * (ROWS * COLUMNS + (TESTS_MOST + 1) * LINE));
  if (memory == NULL) return 1;
  matrix = matrix == NULL ? memory : matrix + LINE;
  change(0);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  free(memory);
  return 0;
}

/* A GPU that keeps what it has seen twice, unchanged, and proves it the first time by looking at all bytes. */
struct gpu {
  int sights;
  bool keeps; /* else its copies are always gone */
};

static enum tb_proof show(struct gpu *gpu) {
  gpu->sights++;
  if (!gpu->keeps || gpu->sights < 2) return TB_NOT_KEPT;
  return gpu->sights == 2 ? TB_KEPT_ANEW : gpu->sights == 3 ? TB_BY_HASH : TB_BY_TRACKING;
}

struct run {
  int on_gpu, latest; /* calls there; and how many since the latest one on the CPU */
  double seconds, cpu_seconds;
};

static const double cpu_s = 3e-3, gpu_s = 5e-3, kept_s = 1e-3;

static void make_call(struct run *run, struct gpu *gpu, double predicted_kept_s, double true_kept_s) {
  const struct tb_call call = call_by(matrix, 32);
  struct tb_staying_times times = {.cpu_seconds = cpu_s, .gpu_seconds = gpu_s, .kept_seconds = predicted_kept_s};
  const enum tb_stay which = tb_staying_operand(&call);
  assert_int_equal(which, TB_A_STAYS);
  run->cpu_seconds += cpu_s;
  if (!tb_staying_decide(&call, which, &times)) {
    run->seconds += cpu_s;
    run->latest = 0;
    return;
  }
  const enum tb_proof proof = show(gpu);
  const double seconds = tb_proof_is_kept(proof) ? true_kept_s : gpu_s;
  tb_staying_learn(&call, which, proof, seconds);
  run->seconds += seconds;
  run->on_gpu++;
  run->latest++;
}

static void left_alone(void **state) {
  (void)state;
  struct run run = {0};
  struct gpu gpu = {.keeps = true};
  for (int i = 0; i < 100; i++) make_call(&run, &gpu, kept_s, kept_s);
  assert_true(run.latest >= 80 && run.on_gpu == run.latest);
  assert_true(run.seconds < 0.6 * run.cpu_seconds);
}

/* Whatever is between the calls: of all that the CPU would have taken a twentieth is lost at most. */
static void never_much_lost(void **state) {
  (void)state;
  uint64_t rng = 5;
  for (int every = 1; every <= 40; every++) {
    struct run run = {0};
    struct gpu gpu = {.keeps = true};
    for (int i = 0; i < 3000; i++) {
      if (tst_random_below(&rng, every) == 0) {
        matrix[0] = (float)(i + 1000 * every); /* a line that every sample has */
        gpu.sights = 0;
      }
      make_call(&run, &gpu, kept_s, kept_s);
    }
    if (every == 1) assert_int_equal(run.on_gpu, 0);
    if (run.seconds > 1.05 * run.cpu_seconds)
      fail_msg("every %d: %.3f of the CPU's time", every, run.seconds / run.cpu_seconds);
  }
}

/* Nothing is kept there, for want of memory or because nobody can watch. */
static void never_kept(void **state) {
  (void)state;
  struct run run = {0};
  struct gpu gpu = {.keeps = false};
  for (int i = 0; i < 5000; i++) make_call(&run, &gpu, kept_s, kept_s);
  assert_true(run.on_gpu > 0 && run.on_gpu < 60); /* ever more seldom */
  assert_true(run.seconds < 1.02 * run.cpu_seconds);
}

/* What the program has chosen needs no savings before, but that costs no more where it does not stay. */
static void chosen(void **state) {
  (void)state;
  const uintptr_t start = (uintptr_t)matrix, bytes = (uintptr_t)ROWS * COLUMNS * sizeof *matrix;
  struct run stays = {0}, goes = {0};
  struct gpu gpu = {.keeps = true}, small_gpu = {.keeps = false};
  assert_true(tb_ranges_keep(start, start + bytes));
  for (int i = 0; i < 20; i++) make_call(&stays, &gpu, kept_s, kept_s);
  assert_int_equal(stays.latest, 20);
  change(1);
  for (int i = 0; i < 5000; i++) make_call(&goes, &small_gpu, kept_s, kept_s);
  assert_true(goes.on_gpu > 0 && goes.on_gpu < 60);
  assert_true(tb_ranges_forget(start, start + bytes));
  change(2);
  struct run alone = {0};
  make_call(&alone, &gpu, kept_s, kept_s);
  assert_int_equal(alone.on_gpu, 0);
}

/* A copy does not help as much as was predicted: then it is the CPU's again. */
static void slower_than_predicted(void **state) {
  (void)state;
  struct run run = {0};
  struct gpu gpu = {.keeps = true};
  for (int i = 0; i < 1000; i++) make_call(&run, &gpu, kept_s, 1.5 * cpu_s);
  assert_true(run.on_gpu > 0 && run.on_gpu < 20);
  assert_true(run.seconds < 1.02 * run.cpu_seconds);
}

/* Once it did not, because others were on the GPU: that is not for ever. */
static void once_slower(void **state) {
  (void)state;
  struct run run = {0};
  struct gpu gpu = {.keeps = true};
  for (int i = 0; i < 100; i++)
    make_call(&run, &gpu, kept_s, run.on_gpu < 6 ? kept_s : run.on_gpu < 12 ? 9e-3 : kept_s);
  for (int i = 0; i < 1000; i++) make_call(&run, &gpu, kept_s, kept_s);
  assert_true(run.latest > 500);
}

static void not_where_it_would_not_pay(void **state) {
  (void)state;
  struct run run = {0};
  struct gpu gpu = {.keeps = true};
  for (int i = 0; i < 1000; i++) make_call(&run, &gpu, 0.9 * cpu_s, 0.9 * cpu_s);
  assert_int_equal(run.on_gpu, 0);
}

/* ---- one by one ---- */

/* A's line of the memory, for an operand of its own. */
static struct tb_call call_on(int line, int64_t columns) { return call_by(memory + (int64_t)line * LINE, columns); }

static bool decide_by(const struct tb_call *call, struct tb_staying_times *times) {
  return tb_staying_decide(call, tb_staying_operand(call), times);
}

/* Calls that stay on the CPU until one goes. */
static int calls_until_it_goes(const struct tb_call *call, const struct tb_staying_times *each) {
  for (int calls = 0; calls < 1000; calls++) {
    struct tb_staying_times times = *each;
    if (decide_by(call, &times)) return calls;
  }
  return 1000;
}

static const struct tb_staying_times usual = {.cpu_seconds = 3e-3, .gpu_seconds = 5e-3, .kept_seconds = 1e-3};

/* A call gains 2 ms, four of them cost 20 ms; and opening what it costs. */
static void price(void **state) {
  (void)state;
  struct tb_staying_times times = usual;
  struct tb_call call = call_by(matrix, 32);
  assert_int_equal(calls_until_it_goes(&call, &times), 9);
  change(1);
  times.open_seconds = 50e-3;
  assert_int_equal(calls_until_it_goes(&call, &times), 69); /* twice as much: it was tried in vain */
  matrix += LINE;
  change(1);
  call = call_by(matrix, 32);
  assert_int_equal(calls_until_it_goes(&call, &times), 34);
}

/* One that was tried and changed before eight calls had it costs twice as much each time; one that served them costs
 * what it cost at first. */
static void what_failures_cost(void **state) {
  (void)state;
  const struct tb_call call = call_by(matrix, 32);
  static const struct {
    int uses, calls;
  } rounds[] = {{0, 9}, {7, 18}, {3, 38}, {8, 78}, {0, 8}, {0, 18}, {20, 38}, {20, 8}, {0, 8}};
  for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
    const int calls = calls_until_it_goes(&call, &usual);
    if (calls != rounds[i].calls) fail_msg("round %d: %d calls, not %d", (int)i, calls, rounds[i].calls);
    for (int use = 0; use < rounds[i].uses; use++) {
      struct tb_staying_times times = usual;
      tb_staying_learn(&call, TB_A_STAYS, use == 0 ? TB_BY_HASH : TB_BY_TRACKING, 1e-3);
      assert_true(decide_by(&call, &times));
    }
    change((int64_t)i + 2);
    struct tb_staying_times times = usual;
    assert_false(decide_by(&call, &times));
    matrix[0] = -1; /* one change more is no failure more, and this call the first of the next */
    assert_false(decide_by(&call, &times));
  }
}

/* After six tries without a copy it is left alone, and after one where there was one before; one that waits for answers
 * of CUDA's is no try. */
static void copies_that_do_not_come(void **state) {
  (void)state;
  const struct tb_call call = call_by(matrix, 32);
  for (int stayed = 0; stayed < 2; stayed++) {
    struct tb_staying_times times = usual;
    calls_until_it_goes(&call, &usual);
    if (stayed) tb_staying_learn(&call, TB_A_STAYS, TB_BY_HASH, 1e-3);
    for (int i = 0; i < 10; i++) tb_staying_learn(&call, TB_A_STAYS, TB_KEPT_LATER, 5e-3);
    assert_true(decide_by(&call, &times));
    for (int i = 1; i < (stayed ? 1 : 6); i++) {
      tb_staying_learn(&call, TB_A_STAYS, TB_NOT_KEPT, 5e-3);
      times = usual;
      assert_true(decide_by(&call, &times));
    }
    tb_staying_learn(&call, TB_A_STAYS, TB_KEPT_ANEW, 5e-3); /* a copy that is made is none that was used */
    times = usual;
    assert_false(decide_by(&call, &times));
  }
}

/* What a call with a copy took counts for calls of its size, the latest half; what looks at all bytes does not, the
 * first time. */
static void what_it_took(void **state) {
  (void)state;
  for (int of_b = 0; of_b < 2; of_b++) {
    struct tb_call call = call_by(matrix + of_b * LINE, 32), other = call_by(matrix + of_b * LINE, 33);
    const enum tb_stay which = of_b ? TB_B_STAYS : TB_A_STAYS;
    for (int i = 0; of_b && i < 2; i++) { /* the same memory as B, and A's rows are another size */
      struct tb_call *const x = i ? &other : &call;
      x->m = x->n, x->n = COLUMNS, x->k = ROWS, x->b.ld = ROWS;
    }
    struct tb_staying_times times;
    calls_until_it_goes(&call, &usual);
    tb_staying_learn(&call, which, TB_BY_HASH, 2.9e-3);
    times = usual;
    assert_true(decide_by(&call, &times) && times.kept_seconds == usual.kept_seconds);
    tb_staying_learn(&call, which, TB_BY_TRACKING, 1.5e-3);
    times = usual;
    assert_true(decide_by(&call, &times));
    assert_float_equal(times.kept_seconds, 1.5e-3, 1e-9);
    tb_staying_learn(&call, which, TB_BY_HASH, 2.5e-3);
    times = usual;
    assert_true(decide_by(&call, &times));
    assert_float_equal(times.kept_seconds, 2e-3, 1e-9);
    times = usual;
    assert_true(decide_by(&other, &times));
    assert_float_equal(times.kept_seconds, usual.kept_seconds, 1e-9);
    tb_staying_learn(&other, which, TB_BY_TRACKING, 2.9e-3); /* of another size, so all of it */
    times = usual;
    assert_false(decide_by(&other, &times));
    assert_float_equal(times.kept_seconds, 2.9e-3, 1e-9);
    times = usual;
    assert_true(decide_by(&call, &times)); /* and this one's is not known any more */
  }
  matrix += 2 * LINE;
  const struct tb_call watched = call_by(matrix, 32); /* the kernel's word counts the first time, too */
  struct tb_staying_times times = usual;
  calls_until_it_goes(&watched, &usual);
  tb_staying_learn(&watched, TB_A_STAYS, TB_BY_TRACKING, 2e-3);
  assert_true(decide_by(&watched, &times));
  assert_float_equal(times.kept_seconds, 2e-3, 1e-9);
}

/* Of 64 that are known the one that was not used for longest makes way. */
static void those_in_use_stay_known(void **state) {
  (void)state;
  enum { OTHERS = 300, KNOWN = 64 };
  float *const many = calloc((size_t)ROWS * COLUMNS + (OTHERS + 2) * LINE, sizeof *many);
  const struct tb_call early = call_by(many, 32), late = call_by(many + LINE, 32);
  struct tb_staying_times times;
  calls_until_it_goes(&early, &usual);
  tb_staying_learn(&early, TB_A_STAYS, TB_BY_HASH, 1e-3);
  for (int i = 0; i < OTHERS; i++) {
    const struct tb_call other = call_by(many + (2 + i) * LINE, 32);
    times = usual;
    assert_false(decide_by(&other, &times));
    if (i == KNOWN - 2) {
      calls_until_it_goes(&late, &usual);
      tb_staying_learn(&late, TB_A_STAYS, TB_BY_HASH, 1e-3);
    }
    times = usual;
    if (i % 30 == 0) assert_true(decide_by(&early, &times));
    times = usual;
    if (i % 30 == 15 && i >= KNOWN) assert_true(decide_by(&late, &times));
  }
  for (int i = 0; i < KNOWN; i++) { /* longer than all others */
    const struct tb_call other = call_by(many + (2 + i) * LINE, 32);
    times = usual;
    assert_false(decide_by(&other, &times));
  }
  times = usual;
  assert_false(decide_by(&early, &times));
  free(many);
}

/* What was never decided is not learned of, nor what goes for nothing that stays. */
static void lessons_of_others(void **state) {
  (void)state;
  const struct tb_call call = call_by(matrix, 32), unknown = call_on(TESTS_MOST, 32);
  struct tb_staying_times times = usual;
  tb_staying_learn(&unknown, TB_A_STAYS, TB_BY_HASH, 1e-3);
  assert_false(decide_by(&unknown, &times));
  calls_until_it_goes(&call, &usual);
  tb_staying_learn(&call, TB_A_STAYS, TB_BY_HASH, 1e-3);
  tb_staying_learn(&call, TB_NONE_STAYS, TB_NOT_KEPT, 1e-3);
  times = usual;
  assert_true(decide_by(&call, &times));
  struct tb_call on_the_right = call; /* of which A is B */
  on_the_right.b = call.a, on_the_right.k = ROWS, on_the_right.n = COLUMNS, on_the_right.m = 32;
  assert_int_equal(tb_staying_operand(&on_the_right), TB_B_STAYS);
  tb_staying_learn(&on_the_right, TB_NONE_STAYS, TB_NOT_KEPT, 1e-3);
  times = usual;
  assert_true(decide_by(&on_the_right, &times));
}

/* Small operands go up with the others by one copy, and mirrored ones and triangles' are not kept. */
static void which_operand(void **state) {
  (void)state;
  struct tb_call call = call_by(matrix, 32);
  call.m = 32, call.n = ROWS;
  assert_int_equal(tb_staying_operand(&call), TB_B_STAYS);
  call.b.structure = TB_SYMMETRIC;
  assert_int_equal(tb_staying_operand(&call), TB_NONE_STAYS);
  call.b.structure = TB_GENERAL, call.a.structure = TB_SYMMETRIC; /* the other one */
  assert_int_equal(tb_staying_operand(&call), TB_B_STAYS);
  call = call_by(matrix, 32);
  call.a.structure = TB_SYMMETRIC;
  assert_int_equal(tb_staying_operand(&call), TB_NONE_STAYS);
  call = call_by(matrix, 32);
  call.recipe = TB_TRIANGULAR_MULTIPLY;
  assert_int_equal(tb_staying_operand(&call), TB_NONE_STAYS);
  call = call_by(matrix, 32);
  call.m = ROWS / 2;
  assert_int_equal(tb_staying_operand(&call), TB_NONE_STAYS); /* a slot, not more */
  call.m++;
  assert_int_equal(tb_staying_operand(&call), TB_A_STAYS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(left_alone, setup),
      cmocka_unit_test_setup(never_much_lost, setup),
      cmocka_unit_test_setup(never_kept, setup),
      cmocka_unit_test_setup(chosen, setup),
      cmocka_unit_test_setup(slower_than_predicted, setup),
      cmocka_unit_test_setup(once_slower, setup),
      cmocka_unit_test_setup(price, setup),
      cmocka_unit_test_setup(what_failures_cost, setup),
      cmocka_unit_test_setup(copies_that_do_not_come, setup),
      cmocka_unit_test_setup(what_it_took, setup),
      cmocka_unit_test_setup(lessons_of_others, setup),
      cmocka_unit_test_setup(which_operand, setup),
      cmocka_unit_test_setup(those_in_use_stay_known, setup), /* and the others are forgotten */
      cmocka_unit_test_setup(not_where_it_would_not_pay, setup),
  };
  return cmocka_run_group_tests(tests, NULL, teardown);
}
