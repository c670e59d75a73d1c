/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels for double precision, launched alone: every tile, real and complex elements, transposes and conjugates,
 * whole units of 16 bytes and not, k whole and in parts, results in pieces, sums begun and continued, against plain
 * loops in the order of kernels/fp64/fp64_args.h, to the last bit. The operands' padding is NaN; D's, and what is not
 * wanted, keep their bits. The kernels for triangles, which note columns that are not finite, and the bands of their
 * tiles.
 *
 * Seen to fail when: a group's sum is added to D's behind the others; alpha multiplies bare sums; a stage is loaded too
 * early, or behind a job's end with the wrong tile; the last k or an edge is not filled with zeros; the second element
 * of a pair is copied where there is none; of complex elements B's conjugation is A's, the imaginary parts' product is
 * added, or alpha's imaginary part is left out. Of triangles: a tile has too little k; a flag is another column's, is
 * missing for one element's sake, or is one behind the last column's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "first_gpu.h"
#include "sanitized.h"
#include "select/fp64.h"
#include "select/solve.h"
#include "wanted.h"

static struct tb_fp64_kernels kernels;
static struct tb_solve_kernels solve;

static int open_device(void **state) {
  (void)state;
  OK(tb_fp64_look(&kernels, tst_gpu_open()));
  OK(tb_fp64_load(&kernels, false));
  OK(tb_fp64_load(&kernels, true));
  OK(tb_solve_load(&solve, &kernels.device));
  return 0;
}

static int close_device(void **state) {
  (void)state;
  tb_fp64_unload(&kernels);
  tb_solve_unload(&solve);
  return 0;
}

/* ---- operands ---- */

struct problem {
  bool ta, tb;
  int64_t m, n, k;
  int group_k;
  int64_t pad, skip; /* of all three: elements between columns, and doubles ahead of the first */
  bool first, last;
  bool complex, conjugate_a, conjugate_b;
  struct tb_tiles_wanted wanted;
};

struct matrix {
  double *host;
  CUdeviceptr device;
  int64_t ld, skip, parts; /* of an element */
  size_t doubles;
};

struct operands {
  struct matrix a, b, d;
  double *expected;
};

static const double alpha = -1.7, alpha_im = 0.6;

/* Between 2^-20 and 2^20, so that another order of summation gives other bits. */
static double random_element(uint64_t *rng) {
  const double size = 1 + (double)tst_random_below(rng, 1 << 30) * 0x1p-30;
  return ldexp(tst_random_below(rng, 2) ? size : -size, (int)tst_random_below(rng, 41) - 20);
}

static struct matrix new_matrix(const struct problem *p, int64_t rows, int64_t columns, uint64_t *rng) {
  struct matrix x = {.ld = rows + p->pad, .skip = p->skip, .parts = p->complex ? 2 : 1};
  x.doubles = (size_t)(x.skip + x.parts * (x.ld * (columns - 1) + rows));
  x.host = malloc(x.doubles * sizeof *x.host);
  assert_non_null(x.host);
  memset(x.host, 0xff, x.doubles * sizeof *x.host); /* NaN */
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < x.parts * rows; i++) x.host[x.skip + i + j * x.parts * x.ld] = random_element(rng);
  OK(tb_cuda.cuMemAlloc(&x.device, x.doubles * sizeof *x.host));
  return x;
}

static void upload(const struct matrix *x) {
  OK(tb_cuda.cuMemcpyHtoDAsync(x->device, x->host, x->doubles * sizeof *x->host, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

static void destroy(struct matrix *x) {
  OK(tb_cuda.cuMemFree(x->device));
  free(x->host);
}

static double *on_device(const struct matrix *x) { return (double *)(uintptr_t)x->device + x->skip; }

/* Where an element's first part stands. */
static int64_t place(const struct matrix *x, bool transposed, int64_t i, int64_t j) {
  return x->skip + x->parts * (transposed ? j + i * x->ld : i + j * x->ld);
}

static const double *at(const struct matrix *x, bool transposed, int64_t i, int64_t j) {
  return &x->host[place(x, transposed, i, j)];
}

/* The contract, element by element: a group of real products; and one of complex ones, four k at a time. */
static void add_reals(const struct problem *p, const struct operands *x, int64_t i, int64_t j, int64_t from,
                      int64_t end, double group[2]) {
  for (int64_t l = from; l < end; l++) group[0] = fma(*at(&x->a, p->ta, i, l), *at(&x->b, p->tb, l, j), group[0]);
}

static void add_complex(const struct problem *p, const struct operands *x, int64_t i, int64_t j, int64_t from,
                        int64_t end, double group[2]) {
  const double sign_a = p->conjugate_a ? -1 : 1, sign_b = p->conjugate_b ? -1 : 1;
  for (int64_t four = from; four < end; four += 4)
    for (int by = 0; by < 2; by++)
      for (int64_t l = four; l < tb_min(four + 4, end); l++) {
        const double *const a = at(&x->a, p->ta, i, l), *const b = at(&x->b, p->tb, l, j);
        const double u[2] = {a[0], sign_a * a[1]}, v[2] = {b[0], sign_b * b[1]};
        group[0] = fma(by ? -u[1] : u[0], v[by], group[0]);
        group[1] = fma(u[1 - by], v[by], group[1]);
      }
}

static void sum_of(const struct problem *p, const struct operands *x, int64_t i, int64_t j, double sum[2]) {
  const double *const d = at(&x->d, false, i, j);
  sum[0] = p->first ? 0 : d[0], sum[1] = p->first || !p->complex ? 0 : d[1];
  for (int64_t from = 0; from < p->k; from += p->group_k) {
    double group[2] = {0, 0};
    (p->complex ? add_complex : add_reals)(p, x, i, j, from, tb_min(from + p->group_k, p->k), group);
    sum[0] += group[0], sum[1] += group[1];
  }
  if (!p->last) return;
  const volatile double by_re[2] = {alpha * sum[0], alpha * sum[1]};       /* rounded: no FMA */
  const volatile double by_im[2] = {alpha_im * sum[1], alpha_im * sum[0]}; /* likewise */
  sum[0] = p->complex ? by_re[0] - by_im[0] : by_re[0], sum[1] = by_re[1] + by_im[1];
}

static void make_expected(const struct problem *p, struct operands *x) {
  x->expected = malloc(x->d.doubles * sizeof *x->expected);
  assert_non_null(x->expected);
  memcpy(x->expected, x->d.host, x->d.doubles * sizeof *x->expected);
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      double sum[2];
      if (!tst_is_wanted(p->wanted, i, j)) continue;
      sum_of(p, x, i, j, sum);
      if (p->last && p->wanted.hermitian && i == j + p->wanted.diagonal) sum[1] = 0;
      memcpy(&x->expected[place(&x->d, false, i, j)], sum, (size_t)x->d.parts * sizeof *sum);
    }
}

static void make_operands(struct operands *x, const struct problem *p, uint64_t seed) {
  uint64_t rng = seed;
  x->a = new_matrix(p, p->ta ? p->k : p->m, p->ta ? p->m : p->k, &rng);
  x->b = new_matrix(p, p->tb ? p->n : p->k, p->tb ? p->k : p->n, &rng);
  x->d = new_matrix(p, p->m, p->n, &rng);
  upload(&x->a), upload(&x->b);
  make_expected(p, x);
}

static void destroy_operands(struct operands *x) {
  destroy(&x->a), destroy(&x->b), destroy(&x->d);
  free(x->expected);
}

/* ---- launches ---- */

static struct tb_fp64_args arguments(const struct problem *p, const struct operands *x) {
  return (struct tb_fp64_args){.a = on_device(&x->a),
                               .b = on_device(&x->b),
                               .d = on_device(&x->d),
                               .lda = x->a.ld,
                               .ldb = x->b.ld,
                               .ldd = x->d.ld,
                               .wanted = p->wanted,
                               .alpha = alpha,
                               .alpha_im = alpha_im,
                               .conjugate_a = p->conjugate_a,
                               .conjugate_b = p->conjugate_b,
                               .first = p->first,
                               .last = p->last};
}

static void launch(const struct problem *p, const struct tb_fp64_plan *plan, const struct tb_fp64_args *args) {
  CUdeviceptr workspace = 0;
  if (plan->partials_bytes > 0) OK(tb_cuda.cuMemAlloc(&workspace, (size_t)plan->partials_bytes));
  OK(tb_fp64_launch(&kernels, plan, p->ta, p->tb, args, workspace, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  if (workspace != 0) OK(tb_cuda.cuMemFree(workspace));
}

static void compare(const struct problem *p, const struct operands *x, const struct tb_fp64_plan *plan) {
  double *got = malloc(x->d.doubles * sizeof *got);
  assert_non_null(got);
  OK(tb_cuda.cuMemcpyDtoHAsync(got, x->d.device, x->d.doubles * sizeof *got, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  for (size_t i = 0; i < x->d.doubles; i++)
    if (memcmp(&got[i], &x->expected[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(x->expected[i])))
      fail_msg(
          "%c %s, %ld whole, %d splits, %ld blocks, %c%c %ld x %ld x %ld in groups of %d, pad %ld, skip %ld, first %d, "
          "last %d: double %zu is %a, not %a",
          "dz"[p->complex], tb_fp64_tiles[plan->tile].name, (long)plan->whole, plan->splits, (long)plan->blocks,
          "NT"[p->ta], "NT"[p->tb], (long)p -> m, (long)p -> n, (long)p -> k, p -> group_k, (long)p -> pad,
          (long)p -> skip, p -> first, p -> last, i, got[i], x -> expected[i]);
  free(got);
}

static void check_plan(const struct problem *p, const struct operands *x, const struct tb_fp64_plan *plan) {
  const struct tb_fp64_args args = arguments(p, x);
  upload(&x->d);
  launch(p, plan, &args);
  compare(p, x, plan);
}

/* A GPU with few SMs has blocks that take several jobs. */
static void check_way(const struct problem *p, const struct operands *x, int tile, int64_t whole, int splits,
                      int sm_count) {
  struct tb_fp64_device device = kernels.device;
  device.sm_count = sm_count;
  struct tb_fp64_plan plan = {
      .complex = p->complex, .m = p->m, .n = p->n, .k = p->k, .group_k = p->group_k, .wanted = p->wanted};
  assert_true(tb_fp64_plan_way(&plan, &device, tile, whole, splits));
  check_plan(p, x, &plan);
}

/* ---- tests ---- */

static int quick; /* --quick: for compute-sanitizer and the race detector */

/* Two tiles and a bit, with even sizes and with odd ones, k in four groups of which the last is not whole. */
static void each_tile(void **state) {
  (void)state;
  for (int tile = 0; tile < TB_FP64_TILE_COUNT; tile++)
    for (int variant = 0; variant < 8; variant++) {
      const bool odd = variant & 4;
      const struct tb_fp64_tile *const t = &tb_fp64_tiles[tile];
      const struct problem p = {.ta = variant & 1,
                                .tb = variant & 2,
                                .m = t->block_m + (odd ? 5 : 2),
                                .n = t->block_n / 2 + (odd ? -1 : 0),
                                .k = 3 * 32 + (odd ? 7 : 18),
                                .group_k = 32,
                                .pad = odd ? 2 : 4,
                                .skip = odd ? 1 : 0,
                                .first = (tile + variant) % 3 != 0,
                                .last = (tile + variant) % 4 != 0,
                                .complex = t->complex,
                                .conjugate_a = t->complex && (tile + variant) % 2,
                                .conjugate_b = t->complex && (tile + variant / 2) % 2};
      struct operands x;
      make_operands(&x, &p, (uint64_t)(8 * tile + variant + 1));
      check_way(&p, &x, tile, 0, 1, 132);
      check_way(&p, &x, tile, 1, 2, 1);
      if (!quick) {
        check_way(&p, &x, tile, 0, 1, 1);
        check_way(&p, &x, tile, 0, 4, 132);
        check_way(&p, &x, tile, 0, 3, 1);
      }
      destroy_operands(&x);
    }
}

enum { COLUMNS_MOST = 13 * 32 };

/* Zeros where op(A) is none; and on the device, further from the diagonal than its tiles reach, NaN. An element of the
 * diagonal and one of this column of op(B) are so large that an element of D is Inf, in a row of its own; or without a
 * column that of the diagonal is Inf, and so is a row of D. */
static void make_triangle(struct operands *x, const struct problem *p, bool lower, int64_t row, int64_t column) {
  x->a.host[place(&x->a, false, row, row)] = column < 0 ? INFINITY : 0x1p+1000;
  if (column >= 0) x->b.host[place(&x->b, false, row, column)] = 0x1p+1000;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t j = 0; j < p->k; j++)
      for (int64_t i = 0; i < p->m; i++) {
        const bool far = i / TB_FP64_TRIANGLE_EDGE != j / TB_FP64_TRIANGLE_EDGE;
        double *const element = &x->a.host[place(&x->a, false, i, j)];
        if (lower ? i < j : i > j)
          for (int part = 0; part < x->a.parts; part++) element[part] = pass == 0 && far ? NAN : 0;
      }
    if (pass == 0) upload(&x->a);
  }
  upload(&x->b);
  free(x->expected);
  make_expected(p, x);
}

/* One for each column, and one behind the last. */
static int32_t *new_flags(void) {
  const size_t bytes = (COLUMNS_MOST + 1) * sizeof(int32_t);
  CUdeviceptr flags;
  OK(tb_cuda.cuMemAlloc(&flags, bytes));
  OK(tb_cuda.cuMemsetD8Async(flags, 0, bytes, NULL));
  return (int32_t *)flags;
}

/* Of `columns` columns this one alone is noted as not finite, or all are (-1); behind the last one nothing is. Gives
 * the flags back. */
static void expect_unfit(int32_t *flags, int64_t columns, int64_t infinite) {
  int32_t got[COLUMNS_MOST + 1];
  OK(tb_cuda.cuMemcpyDtoHAsync(got, (CUdeviceptr)flags, sizeof got, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  OK(tb_cuda.cuMemFree((CUdeviceptr)flags));
  for (int64_t j = 0; j <= COLUMNS_MOST; j++)
    if (got[j] != (infinite < 0 ? j < columns : j == infinite))
      fail_msg("column %ld of %ld: %d", (long)j, (long)columns, got[j]);
}

/* A tile takes the k that its rows have, from within a group on: the bits are those of all of k. */
static void triangles(void **state) {
  (void)state;
  for (int number = 0; number < TB_FP64_TRIANGLE_COUNT; number++)
    for (int variant = 0; variant < (quick ? 2 : 4); variant++) {
      const bool lower = variant & 1, odd = variant & 2;
      const struct tb_fp64_tile *const t = &tb_fp64_tiles[tb_fp64_triangle_tiles[number]];
      const int64_t order = 2 * t->block_m + (odd ? 7 : 18);
      const struct problem p = {.m = order,
                                .n = odd                ? t->block_n / 2 - 1
                                     : t->block_n == 32 ? COLUMNS_MOST - 3
                                                        : t->block_n * 3 / 2,
                                .k = order,
                                .group_k = 48,
                                .pad = odd ? 2 : 4,
                                .skip = odd ? 1 : 0,
                                .first = true,
                                .last = true,
                                .complex = t->complex};
      struct operands x;
      make_operands(&x, &p, (uint64_t)(8 * number + variant + 1));
      const int64_t infinite = (number + variant) % 3 == 0 ? -1 : p.n - 1 - (7 * number + 5 * variant) % p.n;
      make_triangle(&x, &p, lower, (11 * number + 3 * variant) % order, infinite);
      struct tb_fp64_args args = arguments(&p, &x);
      args.lower = lower;
      args.unfit = new_flags();
      struct tb_fp64_plan plan = {.complex = p.complex, .m = p.m, .n = p.n, .k = p.k, .group_k = p.group_k};
      args.m = p.m, args.n = p.n, args.k = p.k;
      plan.units = tb_fp64_in_units(p.complex, false, false, &args);
      assert_true(tb_fp64_plan_way(&plan, &kernels.device, tb_fp64_triangle_tiles[number], 0, 1));
      upload(&x.d);
      OK(tb_solve_multiply(&solve, &plan, &args, NULL));
      OK(tb_cuda.cuStreamSynchronize(NULL));
      compare(&p, &x, &plan);
      expect_unfit(args.unfit, p.n, infinite);
      destroy_operands(&x);
    }
}

/* No band of a triangle's product is much narrower than the others. */
static void bands_of_triangles(void **state) {
  (void)state;
  for (int64_t columns = 1; columns < 650; columns++) {
    const int64_t band = tb_solve_band(columns), last = (columns - 1) % band + 1;
    assert_in_range(band, tb_min(columns, TB_FP64_BAND), TB_FP64_BAND * 3 / 2);
    assert_true(last >= tb_min(columns, TB_FP64_BAND / 2));
  }
  assert_int_equal(tb_solve_band(32), TB_FP64_BAND);
}

/* Whatever the library would take, for sizes from 1 on, leading dimensions and addresses of any kind. */
static void any_shape(void **state) {
  (void)state;
  uint64_t rng = 7;
  for (int i = 0; i < (quick ? 40 : TST_UNLESS_SANITIZED(500, 100)); i++) {
    const bool complex = i / 4 % 2;
    struct problem p = {.ta = tst_random_below(&rng, 2),
                        .tb = tst_random_below(&rng, 2),
                        .m = 1 + (int64_t)tst_random_below(&rng, i % 4 == 0 ? 150 : 40),
                        .n = 1 + (int64_t)tst_random_below(&rng, i % 4 == 1 ? 150 : 40),
                        .k = 1 + (int64_t)tst_random_below(&rng, i % 4 == 2 ? 700 : 70),
                        .group_k = (complex ? 8 : 16) * (1 + (int)tst_random_below(&rng, 8)),
                        .pad = (int64_t)tst_random_below(&rng, 3),
                        .skip = (int64_t)tst_random_below(&rng, 2),
                        .first = tst_random_below(&rng, 2),
                        .last = tst_random_below(&rng, 2),
                        .complex = complex,
                        .conjugate_a = complex && tst_random_below(&rng, 2),
                        .conjugate_b = complex && tst_random_below(&rng, 2)};
    p.wanted = tst_random_wanted(p.m, p.n, &rng);
    p.wanted.hermitian = complex && p.wanted.of != TB_TILES_ALL && tst_random_below(&rng, 2);
    struct operands x;
    struct tb_fp64_device device = kernels.device;
    device.sm_count = 1 + (int)tst_random_below(&rng, 8);
    make_operands(&x, &p, rng);
    struct tb_fp64_plan plan;
    const struct tb_fp64_product whole = {complex, i % 3 == 0, p.m, p.n, p.k, p.group_k, p.wanted};
    assert_true(tb_fp64_plan_make(&plan, &device, &whole, i % 2 ? 0 : INT64_MAX));
    check_plan(&p, &x, &plan);
    const int64_t groups = tb_ceil_div(p.k, p.group_k);
    const int tile = complex ? TB_FP64_z128x64 + (int)tst_random_below(&rng, TB_FP64_TILE_COUNT - TB_FP64_z128x64)
                             : (int)tst_random_below(&rng, TB_FP64_z128x64);
    check_way(&p, &x, tile, 0, 1 + (int)tst_random_below(&rng, (unsigned)groups), device.sm_count);
    destroy_operands(&x);
  }
}

/* Parts of k one after another, cut between groups, have the bits of the whole. */
static void continued(void **state) {
  (void)state;
  for (int variant = 0; variant < 8; variant++) {
    const bool complex = variant & 4;
    const struct problem p = {variant & 1, variant & 2, 37,   50,      200,     48,      1,
                              1,           true,        true, complex, complex, complex, {0}};
    struct operands x;
    make_operands(&x, &p, 3);
    upload(&x.d);
    struct tb_fp64_plan plan;
    for (int64_t from = 0; from < p.k; from += 96) {
      struct tb_fp64_args args = arguments(&p, &x);
      const int64_t count = tb_min(p.k - from, 96);
      args.a += x.a.parts * (p.ta ? from : from * args.lda);
      args.b += x.b.parts * (p.tb ? from * args.ldb : from);
      args.first = from == 0, args.last = from + count == p.k;
      const struct tb_fp64_product part = {complex, true, p.m, p.n, count, p.group_k, {0}};
      assert_true(tb_fp64_plan_make(&plan, &kernels.device, &part, INT64_MAX));
      launch(&p, &plan, &args);
    }
    compare(&p, &x, &plan);
    destroy_operands(&x);
  }
}

/* Pieces of the result, which have their places in the operands, have its bits, and nobody else's place. */
static void in_pieces(void **state) {
  (void)state;
  static const int64_t pieces[TB_FP64_PIECES_MAX][4] = {{0, 0, 32, 48}, {32, 0, 5, 50}, {0, 48, 32, 2}};
  for (int variant = 0; variant < 8; variant++) {
    const bool complex = variant & 4;
    const struct problem p = {variant & 1, variant & 2,      37,   50,      200,     48,      1,
                              1,           variant % 3 != 0, true, complex, complex, complex, {0}};
    struct operands x;
    make_operands(&x, &p, 7);
    upload(&x.d);
    struct tb_fp64_cut cut = {.count = TB_FP64_PIECES_MAX};
    int64_t partials_bytes = 1;
    for (int i = 0; i < cut.count; i++) {
      const int64_t *const at = pieces[i];
      const struct tb_fp64_product piece = {complex, false, at[2], at[3], p.k, p.group_k, {0}};
      cut.piece[i].row = at[0], cut.piece[i].column = at[1];
      assert_true(tb_fp64_plan_make(&cut.piece[i].plan, &kernels.device, &piece, INT64_MAX));
      partials_bytes = tb_max(partials_bytes, cut.piece[i].plan.partials_bytes);
      assert_true(cut.piece[i].plan.splits > 1); /* each writes to the workspace */
    }
    const struct tb_fp64_args args = arguments(&p, &x);
    CUdeviceptr workspace;
    OK(tb_cuda.cuMemAlloc(&workspace, (size_t)partials_bytes));
    OK(tb_fp64_launch_cut(&kernels, &cut, p.ta, p.tb, &args, workspace, NULL));
    OK(tb_cuda.cuStreamSynchronize(NULL));
    OK(tb_cuda.cuMemFree(workspace));
    compare(&p, &x, &cut.piece[0].plan);
    destroy_operands(&x);
  }
}

/* What is launched for a product that has strips along both edges. Where memory runs along its odd sides, and is
 * aligned, the first piece, of even sides, is copied in units, and the strips are not. */
static void strips_are_launched(void **state) {
  (void)state;
  const struct tb_fp64_device device = kernels.device;
  for (int variant = 0; variant < 8; variant += quick ? 7 : 1) {
    const bool complex = variant & 4;
    const struct problem p = {variant & 1, variant & 2, 133,  131, complex ? 64 : 320, 320, 1, 0, true, true,
                              complex,     false,       true, {0}};
    struct operands x;
    make_operands(&x, &p, 9);
    upload(&x.d);
    struct tb_fp64_args args = arguments(&p, &x);
    args.m = p.m, args.n = p.n, args.k = p.k, args.group_k = p.group_k;
    const struct tb_choice choice = {.family = TB_FAMILY_FP64};
    const struct tb_launch chosen = {
        .choice = &choice, .transpose_a = p.ta, .transpose_b = p.tb, .args_fp64 = &args, .complex = complex};
    const bool units = tb_fp64_in_units(complex, p.ta, p.tb, &args);
    const struct tb_fp64_product product = {complex, units, p.m, p.n, p.k, p.group_k, {0}};
    struct tb_fp64_cut cut;
    kernels.device.sm_count = 1; /* and a slow one: what is quick has no strips */
    kernels.device.flops_per_second /= 20 * device.sm_count, kernels.device.bytes_per_second /= 20 * device.sm_count;
    assert_true(tb_fp64_cut_make(&cut, &kernels.device, &product, 0) && cut.count > 1);
    const CUresult result = tb_fp64_launch_chosen(&kernels, &chosen);
    kernels.device = device;
    OK(result);
    OK(tb_cuda.cuStreamSynchronize(NULL));
    compare(&p, &x, &cut.piece[0].plan);
    destroy_operands(&x);
  }
}

/* An Inf or NaN reaches its row or column and no other element: not by the zeros beyond an edge either. */
static void infinities(void **state) {
  (void)state;
  static const double values[] = {INFINITY, -INFINITY, NAN};
  for (int variant = 0; variant < 24; variant += TST_UNLESS_SANITIZED(1, 5)) {
    const bool complex = variant >= 12;
    const struct problem p = {variant & 1, variant & 2, 35,   33,      35,    16,   1,
                              variant & 1, true,        true, complex, false, true, {0}};
    struct operands x;
    make_operands(&x, &p, 5);
    const int64_t i = p.m - 1, j = p.n - 1, l = p.k - 1;
    x.a.host[place(&x.a, p.ta, i, l)] = values[variant / 4 % 3];
    x.b.host[place(&x.b, p.tb, 3, j)] = values[(variant / 4 + 1) % 3];
    upload(&x.a), upload(&x.b);
    free(x.expected);
    make_expected(&p, &x);
    for (int tile = 0; tile < TB_FP64_TILE_COUNT; tile++)
      if (tb_fp64_tiles[tile].complex == complex) check_way(&p, &x, tile, 0, tile % 3 + 1, 132);
    for (int64_t e = 0; e < p.m * p.n; e++)
      for (int part = 0; part < x.d.parts; part++)
        assert_true(isfinite(x.expected[place(&x.d, false, e % p.m, e / p.m) + part]) ==
                    (e % p.m != i && e / p.m != j));
    destroy_operands(&x);
  }
}

/* Every product underflows to -0; the sum of the groups starts at 0. */
static void a_zero_is_positive(void **state) {
  (void)state;
  for (int i = 1; i <= 6; i++) {
    const struct problem p = {false, true, 20, 20, 48, 16, 0, 0, true, false, i % 2, false, false, {0}};
    struct operands x;
    make_operands(&x, &p, 1);
    for (size_t i = 0; i < x.a.doubles; i++) x.a.host[i] = 0x1p-600;
    for (size_t i = 0; i < x.b.doubles; i++) x.b.host[i] = -0x1p-600;
    upload(&x.a), upload(&x.b);
    for (size_t i = 0; i < x.d.doubles; i++) x.expected[i] = 0;
    check_way(&p, &x, p.complex ? TB_FP64_z32x32 : TB_FP64_d32x32, 0, (i + 1) / 2, 132);
    destroy_operands(&x);
  }
}

static void commit(void **state) {
  (void)state;
  static const double betas[] = {0, 1, -0.3};
  for (int variant = 0; variant < 6; variant++) {
    const struct problem p = {.m = 67, .n = 19, .pad = variant, .skip = variant % 2};
    const bool with_d = variant < 3;
    const double beta = betas[variant % 3];
    uint64_t rng = 11;
    struct matrix c = new_matrix(&p, p.m, p.n, &rng), d = new_matrix(&p, p.m, p.n, &rng);
    upload(&c), upload(&d);
    double *got = malloc(c.doubles * sizeof *got);
    assert_non_null(got);
    struct tb_fp64_commit_args args = {on_device(&c), with_d ? on_device(&d) : NULL, c.ld, d.ld, p.m, p.n, beta};
    OK(tb_fp64_commit(&kernels, &args, NULL));
    OK(tb_cuda.cuMemcpyDtoHAsync(got, c.device, c.doubles * sizeof *got, NULL));
    OK(tb_cuda.cuStreamSynchronize(NULL));
    for (int64_t e = 0; e < p.m * p.n; e++) {
      double *const to = &c.host[c.skip + e % p.m + e / p.m * c.ld];
      const volatile double kept = beta == 0 ? 0 : beta * *to; /* rounded: no FMA */
      const double sum = *at(&d, false, e % p.m, e / p.m);
      *to = !with_d ? kept : beta == 0 ? sum : sum + kept;
    }
    assert_memory_equal(got, c.host, c.doubles * sizeof *got);
    free(got);
    destroy(&c), destroy(&d);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_tile),
                                     cmocka_unit_test(any_shape),
                                     cmocka_unit_test(continued),
                                     cmocka_unit_test(in_pieces),
                                     cmocka_unit_test(strips_are_launched),
                                     cmocka_unit_test(infinities),
                                     cmocka_unit_test(commit),
                                     cmocka_unit_test(a_zero_is_positive),
                                     cmocka_unit_test(triangles),
                                     cmocka_unit_test(bands_of_triangles)};
  quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
  return cmocka_run_group_tests(tests, open_device, close_device);
}
