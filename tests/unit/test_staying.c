/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a call that is the CPU's goes to the GPU for an operand that may stay there, on a clock and a GPU of the test's
 * own: what is lost by finding out is at most what was to be gained before, whatever the program does with its operand;
 * who leaves it alone gets to the GPU and stays there.
 *
 * Seen to fail when: an operand that has changed counts as the one before; a try costs nothing; failures do not make
 * the next one wait; a copy that is gone is still counted on; what a call with a copy takes is not looked at, or is
 * believed for ever.
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

enum { TESTS_MOST = 16, LINE = 16 };

static int setup(void **state) {
  (void)state;
  if (memory == NULL) memory = malloc(sizeof(float) * (ROWS * COLUMNS + TESTS_MOST * LINE));
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

/* Small operands go up with the others by one copy, and mirrored ones and triangles' are not kept. */
static void which_operand(void **state) {
  (void)state;
  struct tb_call call = call_by(matrix, 32);
  call.m = 32, call.n = ROWS;
  assert_int_equal(tb_staying_operand(&call), TB_B_STAYS);
  call.b.structure = TB_SYMMETRIC;
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
      cmocka_unit_test_setup(which_operand, setup),
      cmocka_unit_test_setup(not_where_it_would_not_pay, setup),
  };
  return cmocka_run_group_tests(tests, NULL, teardown);
}
