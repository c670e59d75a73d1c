/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op(A) as a triangle by the kernels for tensor cores (tb_emulated_multiply_triangle), launched themselves.
 *
 * A row that the planes have all of has the bits of the product with zeros written down, from fp16 planes both; and of
 * a row of a corner the planes have the groups beside it, with the bits of a product of these. The other triangle is
 * NaN. Ordinary numbers are for fp16 planes in every tile, and columns whose large numbers stand beside what a tile's
 * rows have of them are not.
 *
 * Seen to fail when: a pair of tiles ends, or begins, where its first tile's rows do; the steps of a group that begins
 * within it are counted from its start; a row's own corner is packed; shares of a column are those of all its group;
 * zeros beside the diagonal count as small.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulated_product.h"
#include "rng.h"

struct triangle {
  struct tb_emulated_triangle is;
  int order, columns; /* order: of rows here */
  bool fast;
};

static float *allocate_floats(int64_t count) {
  float *const all = malloc((size_t)count * sizeof *all);
  assert_non_null(all);
  memset(all, 0xff, (size_t)count * sizeof *all);
  return all;
}

static CUdeviceptr on_device(int64_t bytes) {
  CUdeviceptr memory;
  OK(tb_cuda.cuMemAlloc(&memory, (size_t)bytes));
  return memory;
}

static void copy_back(void *to, CUdeviceptr from, int64_t bytes) {
  OK(tb_cuda.cuMemcpyDtoHAsync(to, from, (size_t)bytes, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

/* Whether A has it, by the elements that rows and columns are of. */
static bool is_of(struct tb_emulated_triangle t, int64_t row, int64_t k) {
  return t.lower ? k / t.parts <= row / t.parts : k / t.parts >= row / t.parts;
}

/* A beside the triangle: NaN, or zeros up to the edges of squares of 128. */
static void write_triangle(struct tst_emulated_product *p, const struct triangle *x, tst_emulated_value *value,
                           bool zeros) {
  uint64_t rng = 5;
  for (int64_t l = 0; l < x->order; l++)
    for (int64_t i = 0; i < x->order; i++) {
      const float drawn = value(&rng, false, i, l);
      const bool of_square = i / TB_EMULATED_TILE_M == l / TB_EMULATED_TILE_M;
      *tst_emulated_at(&p->a, i, l) = is_of(x->is, i, l) ? drawn : zeros || of_square ? 0 : NAN;
    }
  for (int64_t l = 0; l < x->order; l++)
    for (int64_t j = 0; j < x->columns; j++) *tst_emulated_at(&p->b, j, l) = value(&rng, true, j, l);
}

static struct tst_emulated_problem problem_of(const struct triangle *x) {
  return (struct tst_emulated_problem){
      .m = x->order, .n = x->columns, .k = x->order, .alpha = 1, .splits = 1, .fast = x->fast};
}

/* What the planes have of it: D, dense; and of each tile whether it came from fp16 planes, and was left to FMAs. */
struct result {
  float *d;
  uint32_t *taken, *again;
  int64_t tiles, down;
};

static struct result multiply_triangle(const struct triangle *x, tst_emulated_value *value) {
  const struct tb_emulated_kernels *const kernels = tst_emulated_open();
  const struct tst_emulated_problem problem = problem_of(x);
  struct tst_emulated_product p;
  tst_emulated_create(&p, &problem, value, 1);
  write_triangle(&p, x, value, false);
  tst_emulated_upload(&p.a), tst_emulated_upload(&p.b);
  const struct tb_emulated_way way = {.splits = 1, .fast = x->fast};
  const int64_t words = (int64_t)x->order * x->columns;
  const CUdeviceptr packed_a = on_device(tb_emulated_packed_bytes(false, x->order, x->order));
  const CUdeviceptr packed_b = on_device(tb_emulated_packed_bytes(true, x->columns, x->order));
  const CUdeviceptr work = on_device(tb_emulated_workspace_bytes(x->order, x->columns, x->order, &way));
  const CUdeviceptr d = on_device(words * (int64_t)sizeof(float));
  struct tb_emulated_operand a = tst_emulated_operand(&p.a, false, 0, x->order);
  const struct tb_emulated_operand b = tst_emulated_operand(&p.b, true, 0, x->columns);
  a.triangle = x->is;
  const struct tb_sgemm_args args = {.a = a.from,
                                     .b = b.from,
                                     .d = (float *)(uintptr_t)d,
                                     .lda = a.ld,
                                     .ldb = b.ld,
                                     .ldd = x->order,
                                     .m = x->order,
                                     .n = x->columns,
                                     .k = x->order,
                                     .alpha = 1,
                                     .first = 1,
                                     .last = 1};
  struct tb_emulated_marks marks;
  const struct tb_emulated_triangle_product product = {x->is, &args, packed_a, packed_b, work, &way};
  OK(tb_emulated_pack(kernels, &a, packed_a, NULL, 0, x->order, NULL));
  OK(tb_emulated_pack(kernels, &b, packed_b, NULL, 0, x->order, NULL));
  OK(tb_emulated_multiply_triangle(kernels, &product, &marks, NULL));
  OK(tb_emulated_multiply_triangle_rest(kernels, &product, NULL));
  struct result r = {.d = allocate_floats(words), .tiles = tb_emulated_tiles(x->order, x->columns)};
  r.down = (x->order + TB_EMULATED_TILE_M - 1) / TB_EMULATED_TILE_M;
  r.again = malloc(2 * (size_t)r.tiles * sizeof *r.again), r.taken = r.again + r.tiles;
  assert_non_null(r.again);
  copy_back(r.d, d, words * (int64_t)sizeof(float));
  copy_back(r.again, (CUdeviceptr)(uintptr_t)marks.again, 2 * r.tiles * (int64_t)sizeof *r.again);
  OK(tb_cuda.cuMemFree(packed_a)), OK(tb_cuda.cuMemFree(packed_b));
  OK(tb_cuda.cuMemFree(work)), OK(tb_cuda.cuMemFree(d));
  tst_emulated_destroy(&p);
  return r;
}

static void free_result(struct result *r) { free(r->d), free(r->again); }

/* Of 24 random bits, so that every order of summation shows. */
static float ordinary(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  (void)of_b, (void)side, (void)l;
  return (float)(tst_random_below(rng, 1 << 24) - (1 << 23)) * 0x1p-23f;
}

/* Some rows of it, with zeros written down, and k from `first` to `end`; NULL: there is none. */
struct extent {
  int first, end;
};
static float *multiply_written_down(const struct tst_emulated_product *all, struct extent rows, struct extent k) {
  struct tst_emulated_problem problem = all->problem;
  struct tst_emulated_product part;
  problem.m = rows.end - rows.first, problem.k = k.end - k.first;
  if (problem.k <= 0) return NULL;
  tst_emulated_create(&part, &problem, ordinary, 1);
  for (int64_t l = 0; l < problem.k; l++) {
    for (int64_t i = 0; i < problem.m; i++)
      *tst_emulated_at(&part.a, i, l) = *tst_emulated_at(&all->a, rows.first + i, k.first + l);
    for (int64_t j = 0; j < problem.n; j++) *tst_emulated_at(&part.b, j, l) = *tst_emulated_at(&all->b, j, k.first + l);
  }
  float *const d = tst_emulated_compute(&part, 0, 0);
  tst_emulated_destroy(&part);
  return d;
}

static void expect_row(const struct triangle *x, const float *got, const float *want, struct extent rows, int row) {
  for (int64_t j = 0; j < x->columns; j++) {
    const float is = got[row + j * x->order], must = want[row - rows.first + j * (rows.end - rows.first)];
    if (memcmp(&is, &must, sizeof is) != 0)
      fail_msg("%s of %d, %d parts: (%d, %d) is %a, not %a", x->is.lower ? "lower" : "upper", x->order, x->is.parts,
               row, (int)j, (double)is, (double)must);
  }
}

/* ---- bits ---- */

static int smaller(int x, int y) { return x < y ? x : y; }

/* Of a pair of tiles: rows that are not in a corner; and those of corners, of which it has the groups beside them. */
static void expect_pair(const struct triangle *x, const float *got, const struct tst_emulated_product *all, int first) {
  const int end = smaller(first + 2 * TB_EMULATED_TILE_M, x->order), group = first / TB_EMULATED_GROUP_K;
  const int group_k = group * TB_EMULATED_GROUP_K, group_end = smaller(group_k + TB_EMULATED_GROUP_K, x->order);
  const struct extent rows = {first, end};
  const struct extent k = x->is.lower ? (struct extent){0, end} : (struct extent){group_k, x->order};
  const struct extent k_beside = x->is.lower ? (struct extent){0, group_k} : (struct extent){group_end, x->order};
  float *const whole = multiply_written_down(all, rows, k), *const beside = multiply_written_down(all, rows, k_beside);
  for (int row = first; row < end; row++) {
    const int element = row / x->is.parts * x->is.parts;
    const int part = x->is.lower ? element + x->is.parts - group_k : group_end - element;
    if (part > TB_EMULATED_CORNER_K) {
      expect_row(x, got, whole, rows, row);
    } else if (k_beside.end - k_beside.first >= TB_EMULATED_CORNER_K) {
      expect_row(x, got, beside, rows, row);
    } else {
      for (int64_t j = 0; j < x->columns; j++) assert_true(got[row + j * x->order] == 0);
    }
  }
  free(whole), free(beside);
}

static void expect_bits(struct triangle x) {
  const struct tst_emulated_problem problem = problem_of(&x);
  struct tst_emulated_product all;
  struct result r = multiply_triangle(&x, ordinary);
  for (int64_t i = 0; i < r.tiles; i++) assert_true(r.taken[i] != 0 && r.again[i] == 0);
  tst_emulated_create(&all, &problem, ordinary, 1);
  write_triangle(&all, &x, ordinary, true);
  for (int first = 0; first < x.order; first += 2 * TB_EMULATED_TILE_M) expect_pair(&x, r.d, &all, first);
  tst_emulated_destroy(&all);
  free_result(&r);
}

/* Orders around those of tiles, pairs, groups; with a last group that is shorter than a corner. */
static void bits_of_a_product(void **state) {
  (void)state;
  const int orders[] = {1100, 1290, 2090};
  for (int i = 0; i < 3; i++)
    for (int lower = 0; lower < 2; lower++)
      expect_bits((struct triangle){
          .is = {1 + (i + lower) % 2, lower}, .order = orders[i], .columns = i % 2 ? 7 : 200, .fast = true});
}

/* ---- which planes ---- */

/* Such as half_is_enough for: sums of several, near a normal distribution. */
static float normal(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  float sum = 0;
  for (int i = 0; i < 4; i++) sum += ordinary(rng, of_b, side, l);
  return sum;
}

static void ordinary_numbers_are_for_fp16(void **state) {
  (void)state;
  tst_emulated_value *const values[] = {ordinary, normal};
  for (int i = 0; i < 4; i++) {
    const struct triangle x = {.is = {1 + i / 2, i % 2}, .order = 1400, .columns = 192};
    struct result r = multiply_triangle(&x, values[i % 2]);
    for (int64_t tile = 0; tile < r.tiles; tile++) assert_true(r.taken[tile] != 0);
    free_result(&r);
  }
}

/* B's first rows are small, beside large ones that rows 128 to 255 have nothing of: of 1024 too few to tell. */
static float large_beyond(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  return ordinary(rng, of_b, side, l) * (of_b && l < 256 ? 0x1p-22f : 1);
}

static void large_numbers_beyond_are_none(void **state) {
  (void)state;
  const struct triangle x = {.is = {1, 1}, .order = 1030, .columns = 192};
  struct result r = multiply_triangle(&x, large_beyond);
  assert_true(r.taken[0] != 0); /* all in the corner */
  assert_int_equal(r.taken[1], 0);
  assert_true(r.taken[5] != 0 && r.taken[7] != 0);
  struct tst_emulated_product p;
  const struct tst_emulated_problem problem = problem_of(&x);
  tst_emulated_create(&p, &problem, large_beyond, 1);
  write_triangle(&p, &x, large_beyond, true);
  for (int64_t row = 128; row < 256; row++)
    for (int64_t j = 0; j < x.columns; j++) {
      double value = 0, size = 0;
      for (int64_t l = 0; l <= row; l++) {
        const double term = (double)*tst_emulated_at(&p.a, row, l) * (double)*tst_emulated_at(&p.b, j, l);
        value += term, size += fabs(term);
      }
      const double error = fabs((double)r.d[row + j * x.order] - value);
      if (!(error <= (double)row * 0x1p-24 * size)) fail_msg("(%d, %d) is off by %g", (int)row, (int)j, error);
    }
  tst_emulated_destroy(&p);
  free_result(&r);
}

/* Some nine of ten are smaller than all others by up to 2^40: no fp16 planes, and in few k no planes at all. */
static float far_apart(uint64_t *rng, bool of_b, int64_t side, int64_t l) {
  const float x = ordinary(rng, of_b, side, l);
  return of_b && l % 12 != 0 ? ldexpf(x, -6 - (int)tst_random_below(rng, 34)) : x;
}

static void far_apart_in_few_k(void **state) {
  (void)state;
  for (int lower = 0; lower < 2; lower++) {
    const struct triangle x = {.is = {1, lower}, .order = 1280, .columns = 192};
    struct result r = multiply_triangle(&x, far_apart);
    for (int64_t tile = 0; tile < r.tiles; tile++) {
      const int64_t k = lower ? 128 * tile : x.order - 128 * (tile + 1); /* of its shortest row, or more */
      const bool none = tile == (lower ? 0 : r.tiles - 1);               /* all of it in the corner */
      assert_true(none || r.taken[tile] == 0);
      if (!none) assert_int_equal(r.again[tile] != 0, k < TB_EMULATED_FAR_K);
    }
    free_result(&r);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_of_a_product),
      cmocka_unit_test(ordinary_numbers_are_for_fp16),
      cmocka_unit_test(large_numbers_beyond_are_none),
      cmocka_unit_test(far_apart_in_few_k),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  tst_emulated_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
