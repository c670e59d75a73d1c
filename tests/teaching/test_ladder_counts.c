/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the textbooks say that a tiled product costs, counted: bytes read from global memory, bytes written, operations.
 *
 * The kernels run on the CPU, where every load, store and multiply-add passes a counter (kernels/teaching/count.cuh),
 * so each figure is exact and each comparison is one of whole numbers. Without counters, that is on a GPU, it fails.
 * argv[1]: the ladder's fat binary.
 */
#include "ladder_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tst_ladder ladder;

static const struct tb_ladder_step *find(const char *name) {
  for (int i = 0; i < TB_LADDER_STEPS; i++)
    if (strcmp(tb_ladder[i].name, name) == 0) return &tb_ladder[i];
  fail_msg("ladder.def has no %s", name);
  return NULL;
}

/* What `step` does for an m x k by k x n product. The values do not matter here: all are zero. */
static struct tb_ladder_counts count(const struct tb_ladder_step *step, int m, int n, int k) {
  struct tst_product p = {.m = m, .n = n, .k = k};
  float *a = calloc((size_t)m * (size_t)k, sizeof(float)), *b = calloc((size_t)k * (size_t)n, sizeof(float));
  assert_non_null(a);
  assert_non_null(b);
  p.a = a;
  p.b = b;
  p.c = malloc((size_t)m * (size_t)n * sizeof(float));
  assert_non_null(p.c);
  struct tb_ladder_counts counted = tst_ladder_multiply(&ladder, step, &p, TST_ALIGNED, 3);
  free(a);
  free(b);
  free(p.c);
  return counted;
}

static void assert_as_expected(const struct tb_ladder_step *step, int m, int n, int k) {
  struct tb_ladder_counts counted = count(step, m, n, k), expected = tb_ladder_expected(step, m, n, k);
  if (memcmp(&counted, &expected, sizeof counted) != 0)
    fail_msg("%s, m %d n %d k %d: read %llu bytes, wrote %llu, %llu operations; expected %llu, %llu, %llu", step->name,
             m, n, k, (unsigned long long)counted.bytes_read, (unsigned long long)counted.bytes_written,
             (unsigned long long)counted.flops, (unsigned long long)expected.bytes_read,
             (unsigned long long)expected.bytes_written, (unsigned long long)expected.flops);
}

/* 16 x 16 tiles, A of 55 x 48, B of 48 x 43: 3 columns of tiles read A, 4 rows of tiles read B. */
static void boundary_16_reads_and_writes(void **state) {
  (void)state;
  struct tb_ladder_counts c = count(find("tb_boundary_16"), 55, 43, 48);
  assert_int_equal(c.bytes_read, 64704);
  assert_int_equal(c.bytes_written, 9460);
}

/* 32 x 32 tiles, A of 142 x 110, B of 110 x 146: 5 x 5 tiles of C, 4 along k. */
static void boundary_32_operations(void **state) {
  (void)state;
  assert_int_equal(count(find("tb_boundary_32_owners"), 142, 146, 110).flops, 4561040);
  assert_int_equal(count(find("tb_boundary_32"), 142, 146, 110).flops, 6553600);
}

/* For whole tiles of T x T the loads fall by the factor T, and the operations stay. */
static void tiles_divide_the_loads(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint64_t tile;
  } steps[] = {{"tb_tiled_16", 16},          {"tb_tiled_32", 32},       {"tb_boundary_16", 16},
               {"tb_boundary_32", 32},       {"tb_grid_stride_16", 16}, {"tb_grid_stride_32", 32},
               {"tb_register_64", 64},       {"tb_register_128", 128},  {"tb_warp_128", 128},
               {"tb_double_buffer_128", 128}};
  enum { M = 128, N = 256, K = 64 };
  struct tb_ladder_counts naive = count(find("tb_naive"), M, N, K);
  assert_int_equal(naive.bytes_read, 2 * sizeof(float) * M * N * K);
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    struct tb_ladder_counts tiled = count(find(steps[i].name), M, N, K);
    assert_int_equal(tiled.bytes_read * steps[i].tile, naive.bytes_read);
    assert_int_equal(tiled.bytes_written, naive.bytes_written);
    assert_int_equal(tiled.flops, naive.flops);
  }
}

/* The intensity that the bench prints is what the kernels have on whole tiles: flops = intensity * bytes read. */
static void intensity_is_what_is_printed(void **state) {
  (void)state;
  for (int i = 0; i < TB_LADDER_STEPS; i++) {
    const struct tb_ladder_step *s = &tb_ladder[i];
    struct tb_ladder_counts c = count(s, 128, 256, 64);
    /* Whole numbers on both sides: the intensities are fractions of small denominators. */
    assert_int_equal(5 * c.flops, (uint64_t)(5 * tb_ladder_intensity(s) * (double)c.bytes_read + 0.5));
  }
  assert_true(tb_ladder_intensity(find("tb_naive")) == 0.25);
  assert_true(tb_ladder_intensity(find("tb_tiled_16")) == 4);
  assert_true(tb_ladder_intensity(find("tb_tiled_32")) == 8);
}

/* Every step, at sizes that leave parts of tiles over. */
static void every_step_costs_what_the_formula_says(void **state) {
  (void)state;
  static const int sizes[][3] = {{55, 43, 48}, {142, 146, 110}, {1, 1, 1},     {1, 131, 17}, {131, 1, 67},
                                 {7, 5, 300},  {127, 129, 15},  {128, 64, 32}, {257, 33, 9}};
  int counted = 0;
  for (int i = 0; i < TB_LADDER_STEPS; i++)
    for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++)
      if (tb_ladder_takes(&tb_ladder[i], sizes[j][0], sizes[j][1], sizes[j][2])) {
        assert_as_expected(&tb_ladder[i], sizes[j][0], sizes[j][1], sizes[j][2]);
        counted++;
      }
  assert_true(counted > TB_LADDER_STEPS);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FATBIN\n", argv[0]);
    return 2;
  }
  ladder = tst_ladder_open(argv[1]);
  if (!ladder.counts) {
    fprintf(stderr,
            "this driver's kernels do not count; run on the fake driver (LD_LIBRARY_PATH=.../tests/fake_cuda)\n");
    return EXIT_FAILURE;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(boundary_16_reads_and_writes),
      cmocka_unit_test(boundary_32_operations),
      cmocka_unit_test(tiles_divide_the_loads),
      cmocka_unit_test(intensity_is_what_is_printed),
      cmocka_unit_test(every_step_costs_what_the_formula_says),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tst_ladder_close(&ladder);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
