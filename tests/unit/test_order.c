/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long the groups are in which the kernels add. Other numbers are other bits in programs' results: those of a few
 * shapes stand here, and are to change for a reason only.
 *
 * Seen to fail when: long groups have no limit; a k that was best whole is split after all, in more rounds; the thin
 * kernels' shapes get others' groups; a part's own shape counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "select/order.h"
#include "rng.h"

static void groups_are_those(void **state) {
  (void)state;
  static const int64_t known[][4] = {
      {4096, 4096, 4096, 1408}, {4096, 4096, 3968, 1408}, {8192, 8192, 128, 128},  {16384, 16384, 16384, 1408},
      {2048, 2048, 2048, 1024}, {1337, 3769, 3234, 1152}, {4096, 1, 4096, 512},    {8, 9, 10000, 512},
      {9, 9, 10000, 80},        {9, 9, 1, 128},           {9, 9, 600, 32},         {256, 256, 65536, 2000},
      {1009, 1009, 1009, 512},  {1366, 1551, 3449, 496},  {893, 1570, 6961, 1168}, {443, 3948, 5459, 1824},
      {3072, 768, 3072, 768},   {64, 16384, 4096, 2048},  {263, 1043, 555, 112},   {256, 256, 256, 64},
      {1024, 1024, 1024, 512},  {2781, 216, 977, 336},    {880, 1992, 6881, 992},  {4474, 1011, 1075, 1152},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    assert_int_equal(tb_group_k(known[i][0], known[i][1], known[i][2]), known[i][3]);
}

/* The parts of a k that is split are alike: at most a step longer than they have to be. */
static void parts_are_alike(void **state) {
  (void)state;
  static const struct {
    int64_t m, n, k, parts;
  } split[] = {{2781, 216, 977, 3}, {226, 6569, 975, 3}, {5390, 114, 558, 3}, {443, 3948, 5459, 3}};
  for (size_t i = 0; i < sizeof split / sizeof *split; i++) {
    const int64_t group_k = tb_group_k(split[i].m, split[i].n, split[i].k), shortest = split[i].k / split[i].parts;
    assert_true(group_k >= shortest && (split[i].parts == 1 || group_k <= shortest + 16));
  }
}

/* A thread's latest answer is kept, which must not show. */
static void repeated(void **state) {
  (void)state;
  const int64_t first = tb_group_k(2781, 216, 977);
  assert_int_not_equal(tb_group_k(2781, 216, 6000), first);
  assert_int_not_equal(tb_group_k(2048, 2048, 977), first);
  assert_int_equal(tb_group_k(2781, 216, 977), first);
  assert_int_not_equal(tb_group_k(2781, 2048, 977), first); /* each size by itself */
  assert_int_equal(tb_group_k(2781, 216, 977), first);
  assert_int_not_equal(tb_group_k(300, 216, 977), first);
  for (int i = 0; i < 2; i++) assert_int_equal(tb_group_k(2781, 216, 977), first);
}

/* Whole steps of the kernels' stages, of which a sum of FMAs and a sum in shared memory stay short; and a product's
 * transpose has its bits. */
static void any_shape(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < 100000; i++) {
    int64_t size[3];
    for (int s = 0; s < 3; s++) size[s] = 1 + tst_random_below(&rng, INT64_C(1) << tst_random_below(&rng, 31));
    const int64_t group_k = tb_group_k(size[0], size[1], size[2]);
    assert_true(group_k % 16 == 0 && group_k >= 32 && group_k <= 16 * 128);
    assert_int_equal(group_k, tb_group_k(size[1], size[0], size[2]));
    if (size[0] <= 8 || size[1] <= 8) assert_int_equal(group_k, 512);
  }
}

static void a_part_has_the_groups_of_the_whole(void **state) {
  (void)state;
  struct tb_call call = {.m = 893, .n = 1570, .k = 6961};
  const int64_t whole = tb_gemm_group_k(&call);
  assert_int_equal(whole, tb_group_k(893, 1570, 6961));
  call.group_k = whole, call.n = 5;
  assert_int_equal(tb_gemm_group_k(&call), whole);
  assert_int_not_equal(tb_group_k(893, 5, 6961), whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(groups_are_those), cmocka_unit_test(any_shape),
                                     cmocka_unit_test(parts_are_alike), cmocka_unit_test(repeated),
                                     cmocka_unit_test(a_part_has_the_groups_of_the_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
