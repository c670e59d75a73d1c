/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels for thin products: every element has the bits of the plain loops of contract_order.c, in every role and
 * orientation of the operands, by every plan there is for GPUs large and small, with k in parts and k split. Operands
 * are allocated to the element; what stands in padding, and in D where it must not be read, is NaN; padding of D must
 * keep its bits.
 *
 * Seen to fail when: a split's first group continues from D; rows beyond the last are stored; a stage is read before
 * its copies were waited for, or before the other lanes' have landed; chunks are added in another order; the first
 * group's sum is added to no zero; alpha multiplies bare sums; the fold does not wait for the block; Y is copied in
 * vectors whatever its leading dimension.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract_order.h"
#include "first_gpu.h"
#include "rng.h"
#include "sanitized.h"
#include "select/skinny.h"

/* For tb_sgemm_gather. */
extern const unsigned char tb_sgemm_fatbin[];

static struct tb_skinny skinny;
static CUfunction gather;

/* Launches so far of each kernel by blocks that finish in one round, and in several with one panel of Y and with two.
 */
enum rounds { ONE_ROUND, ONE_PANEL, TWO_PANELS, ROUNDS };
static int launches[TB_SKINNY_ROW_COUNT][TB_SKINNY_VARIANT_COUNT][ROUNDS];

static int close_device(void **state) {
  (void)state;
  tb_skinny_unload(&skinny);
  return 0;
}

static int open_device(void **state) {
  (void)state;
  CUdevice device = tst_gpu_open();
  OK(tb_skinny_load(&skinny, device));
  gather = tst_gpu_kernel(tb_sgemm_fatbin, "tb_sgemm_gather");
  return 0;
}

struct problem {
  bool ta, tb, aligned, padded; /* padded: columns of the operands may be read up to a multiple of four words */
  int64_t m, n, k;
  bool begin_aligned; /* the first line of an operand is, and the others are not */
};

/* ---- a matrix here and there ---- */

struct matrix {
  float *host;
  CUdeviceptr device;
  int64_t lines, length, ld, skip; /* `skip` words before the first element, to misalign it */
  bool padded;                     /* the last line is as long as `ld`, too */
};

static size_t bytes_of(const struct matrix *x) {
  return sizeof(float) * (size_t)(x->skip + (x->lines - 1) * x->ld + (x->padded ? x->ld : x->length));
}

static struct matrix make_matrix(int64_t lines, int64_t length, const struct problem *p, bool padded) {
  struct matrix x = {
      .lines = lines, .length = length, .skip = p->aligned || p->begin_aligned ? 0 : 1, .padded = padded};
  x.ld = p->aligned ? (length + 3) / 4 * 4 : length % 2 ? length + 2 : length + 1;
  x.host = malloc(bytes_of(&x));
  assert_non_null(x.host);
  memset(x.host, 0xff, bytes_of(&x)); /* NaN */
  OK(tb_cuda.cuMemAlloc(&x.device, bytes_of(&x)));
  return x;
}

static void fill(struct matrix *x, uint64_t *rng) {
  for (int64_t i = 0; i < x->lines; i++)
    for (int64_t j = 0; j < x->length; j++) x->host[x->skip + i * x->ld + j] = tst_random_unit(rng) - 0.25f;
}

static void upload(const struct matrix *x) {
  OK(tb_cuda.cuMemcpyHtoDAsync(x->device, x->host, bytes_of(x), NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

static float *on_device(const struct matrix *x) { return (float *)(uintptr_t)x->device + x->skip; }

static void destroy(struct matrix *x) {
  OK(tb_cuda.cuMemFree(x->device));
  free(x->host);
}

/* ---- a product ---- */

struct operands {
  struct matrix a, b, d;
};

static void make_operands(struct operands *x, const struct problem *p, uint64_t *rng) {
  x->a = p->ta ? make_matrix(p->m, p->k, p, p->padded) : make_matrix(p->k, p->m, p, p->padded);
  x->b = p->tb ? make_matrix(p->k, p->n, p, p->padded) : make_matrix(p->n, p->k, p, p->padded);
  x->d = make_matrix(p->n, p->m, p, false);
  fill(&x->a, rng);
  fill(&x->b, rng);
  upload(&x->a);
  upload(&x->b);
}

static void destroy_operands(struct operands *x) {
  destroy(&x->a);
  destroy(&x->b);
  destroy(&x->d);
}

static void count_launch(const struct tb_skinny_plan *plan) {
  const bool rounds = plan->groups_per_split * TB_SKINNY_GROUP_CHUNKS > plan->block_chunks;
  const enum rounds kind = !rounds ? ONE_ROUND : plan->buffers == 1 ? ONE_PANEL : TWO_PANELS;
  launches[plan->row][tb_skinny_variant_of(plan, plan->k)][kind]++;
}

/* The product's terms from `from` on, `part.k` of them. */
static void launch(const struct operands *x, const struct problem *part, int64_t from, bool last, float factor,
                   const struct tb_sm_limits *limits, bool may_split) {
  struct tb_skinny_plan plan;
  int64_t room = may_split ? INT64_C(1) << 40 : 0;
  struct tb_sgemm_args args = {.a = on_device(&x->a) + from * (part->ta ? 1 : x->a.ld),
                               .b = on_device(&x->b) + from * (part->tb ? x->b.ld : 1),
                               .d = on_device(&x->d),
                               .lda = x->a.ld,
                               .ldb = x->b.ld,
                               .ldd = x->d.ld,
                               .m = part->m,
                               .n = part->n,
                               .k = part->k,
                               .group_k = TB_SGEMM_GROUP_K,
                               .unit_k = TB_SGEMM_GROUP_K,
                               .alpha = factor,
                               .first = from == 0,
                               .last = last,
                               .padded = part->padded};
  const bool vectors = tb_skinny_vectors(part->ta, part->tb, &args);
  assert_true(tb_skinny_plan_make(&plan, limits, part->ta, part->tb, part->m, part->n, part->k, vectors, room));
  if (vectors && !plan.vectors) { /* so small a product goes word by word, but it need not */
    plan.vectors = true;
    plan.threads = plan.block_rows / tb_skinny_thread_rows(&plan) * plan.block_chunks;
  }
  CUdeviceptr partials = 0;
  if (plan.splits > 1) {
    OK(tb_cuda.cuMemAlloc(&partials, (size_t)tb_skinny_partials_bytes(&plan)));
    args.partials = (float *)(uintptr_t)partials;
  }
  OK(tb_skinny_launch_plan(&skinny, &plan, part->ta, part->tb, &args, NULL));
  count_launch(&plan);
  if (plan.splits > 1) {
    void *parameters[] = {&args};
    OK(tb_cuda.cuLaunchKernel(gather, 3, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
  }
  OK(tb_cuda.cuStreamSynchronize(NULL));
  if (partials) OK(tb_cuda.cuMemFree(partials));
}

/* Computes the product in parts of at most part_k and compares D, padding included, with `expected`. */
static void check(const struct operands *x, const struct problem *p, const float *expected, float factor,
                  int64_t part_k, const struct tb_sm_limits *limits, bool may_split) {
  float *got = malloc(bytes_of(&x->d));
  assert_non_null(got);
  upload(&x->d);
  for (int64_t from = 0; from < p->k; from += part_k) {
    struct problem part = *p;
    part.k = p->k - from < part_k ? p->k - from : part_k;
    launch(x, &part, from, from + part.k == p->k, factor, limits, may_split);
  }
  OK(tb_cuda.cuMemcpyDtoHAsync(got, x->d.device, bytes_of(&x->d), NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  for (size_t i = 0; i < bytes_of(&x->d) / sizeof *got; i++)
    if (memcmp(&got[i], &expected[i], sizeof *got) != 0)
      fail_msg("%c%c m=%ld n=%ld k=%ld %s, parts of %ld, %d SMs, %ld bytes: word %zu is %a, not %a", "NT"[p->ta],
               "NT"[p->tb], (long)p -> m, (long)p -> n, (long)p -> k, p -> aligned ? "aligned" : "any", (long)part_k,
               limits->sm_count, (long)limits->block_shared_bytes, i, (double)got[i], (double)expected[i]);
  free(got);
}

static const float alpha = -1.7f;
static const struct tb_sm_limits few_sms = {2, 65536, 65536}, many_sms = {4096, 232448, 233472};

/* By several plans: this GPU's, a small one's, one with so many SMs that blocks are small and k is split. */
static void check_plans(const struct operands *x, const struct problem *p, const float *expected, float factor) {
  check(x, p, expected, factor, p->k, &skinny.limits, false);
  check(x, p, expected, factor, p->k, &few_sms, true);
  check(x, p, expected, factor, p->k, &many_sms, true);
  if (p->k > TB_SGEMM_GROUP_K) check(x, p, expected, factor, TB_SGEMM_GROUP_K, &few_sms, false);
  if (p->k > 2 * TB_SGEMM_GROUP_K) check(x, p, expected, factor, 2 * TB_SGEMM_GROUP_K, &many_sms, true);
}

/* Random operands; returns D's memory as it must become, to be freed. */
static float *make_product(struct operands *x, const struct problem *p, uint64_t seed) {
  uint64_t rng = seed;
  make_operands(x, p, &rng);
  float *expected = malloc(bytes_of(&x->d));
  assert_non_null(expected);
  memcpy(expected, x->d.host, bytes_of(&x->d));
  const struct tst_contract product = {.transpose_a = p->ta,
                                       .transpose_b = p->tb,
                                       .m = p->m,
                                       .n = p->n,
                                       .k = p->k,
                                       .alpha = alpha,
                                       .a = x->a.host + x->a.skip,
                                       .b = x->b.host + x->b.skip,
                                       .lda = x->a.ld,
                                       .ldb = x->b.ld,
                                       .ldd = x->d.ld,
                                       .first = true,
                                       .last = true};
  tst_contract_product(&product, expected + x->d.skip);
  return expected;
}

static void check_problem(const struct problem *p, uint64_t seed) {
  struct operands x;
  float *expected = make_product(&x, p, seed);
  check_plans(&x, p, expected, alpha);
  free(expected);
  destroy_operands(&x);
}

/* ---- tests ---- */

static void bits_of_the_contract(void **state) {
  (void)state;
  static const int64_t depths[] = {1, 127, 128, 129, 1023, 1024, 1025, 3000};
  static const int64_t rows[] = {1, 9, 33, 8, 31, 70, 17, 5};
  uint64_t seed = 1;
  for (int d = 0; d < 8; d++)
    for (int columns = 1; columns <= TB_SKINNY_COLUMNS_MAX; columns++)
      for (int variant = 0; variant < 24; variant += TST_UNLESS_SANITIZED(1, 5), seed++) { /* from 16 on with padding */
        const bool few_rows = variant & 4;
        const int64_t side = rows[seed % 8] + columns; /* the columns are the short side */
        check_problem(&(struct problem){.ta = variant & 1,
                                        .tb = variant & 2,
                                        .aligned = variant & 24,
                                        .padded = variant & 16,
                                        .m = few_rows ? columns : side,
                                        .n = few_rows ? side : columns,
                                        .k = depths[d]},
                      seed);
      }
}

/* Vectors need more than a first element that lies well: the driver fails a copy of one from where none begins. */
static void only_the_first_line_is_aligned(void **state) {
  (void)state;
  for (int columns = 1; columns <= TB_SKINNY_COLUMNS_MAX; columns++)
    for (int variant = 0; variant < 8; variant++) {
      const bool few_rows = variant & 4;
      check_problem(&(struct problem){.ta = variant & 1,
                                      .tb = variant & 2,
                                      .begin_aligned = true,
                                      .m = few_rows ? columns : 33,
                                      .n = few_rows ? 33 : columns,
                                      .k = TB_SGEMM_GROUP_K + TB_SGEMM_CHUNK_K},
                    (uint64_t)(8 * columns + variant));
    }
}

/* With so little shared memory that a block computes a group at a time, and has that many panels of Y. */
static struct tb_sm_limits tight(const struct problem *p, int panels) {
  struct tb_skinny_plan plan;
  struct tb_sm_limits limits = {2, 1024, 65536};
  do {
    limits.block_shared_bytes += 512;
    assert_true(limits.block_shared_bytes <= 65536); /* the least that a GPU has */
  } while (!tb_skinny_plan_make(&plan, &limits, p->ta, p->tb, p->m, p->n, p->k, p->aligned, 0) ||
           plan.buffers != panels);
  return limits;
}

/* Every kernel there is, with few launches: at the edges, with blocks beside each other, and in more rounds than one.
 */
static void check_kernel(const struct problem *p, uint64_t seed) {
  struct operands x;
  float *expected = make_product(&x, p, seed);
  const struct tb_sm_limits one_panel = tight(p, 1), two_panels = tight(p, 2);
  check(&x, p, expected, alpha, p->k, &many_sms, true);
  check(&x, p, expected, alpha, 2 * TB_SGEMM_GROUP_K, &one_panel, false);
  check(&x, p, expected, alpha, p->k, &two_panels, false);
  free(expected);
  destroy_operands(&x);
}

static void each_kernel(void **state) {
  (void)state;
  memset(launches, 0, sizeof launches);
  for (int row = 0; row < TB_SKINNY_ROW_COUNT; row++)
    for (int variant = 0; variant < 8; variant++) {
      const bool along_k = variant & 1, few_rows = variant & 2, aligned = variant & 4;
      const int64_t side = 37, columns = tb_skinny_rows[row].columns - (few_rows && row > 1);
      check_kernel(&(struct problem){.ta = few_rows ? aligned : along_k,
                                     .tb = few_rows ? !along_k : aligned,
                                     .aligned = aligned,
                                     .padded = aligned,
                                     .m = few_rows ? columns : side,
                                     .n = few_rows ? side : columns,
                                     .k = 3 * TB_SGEMM_GROUP_K + TB_SGEMM_CHUNK_K + (aligned ? 20 : 21)},
                   (uint64_t)(8 * row + variant));
    }
  for (int row = 0; row < TB_SKINNY_ROW_COUNT; row++)
    for (int variant = 0; variant < TB_SKINNY_VARIANT_COUNT; variant++)
      for (int rounds = 0; rounds < ROUNDS; rounds++) assert_true(launches[row][variant][rounds] > 0);
}

/* More rows than a block has, and more chunks than it has at once. */
static void many_blocks_and_rounds(void **state) {
  (void)state;
  for (int variant = 0; variant < 8; variant++) {
    const int64_t columns = variant & 1 ? 7 : 1;
    const bool aligned = variant & 4;
    check_problem(&(struct problem){variant & 2, false, aligned, aligned, 1001, columns, 300, false}, 7);
    check_problem(&(struct problem){variant & 2, true, aligned, false, 40, columns, 9 * 1024 + 200, false}, 8);
  }
}

/* Sums far apart in size, so that any other order gives other bits. */
static void order_shows(void **state) {
  (void)state;
  struct problem p = {.m = 8, .n = 1, .k = 1 << 11, .aligned = true};
  struct operands x;
  uint64_t rng = 1;
  make_operands(&x, &p, &rng);
  for (int64_t i = 0; i < p.m; i++) x.a.host[i] = 0x1p24f;
  for (int64_t i = 0; i < p.m; i++) x.a.host[1030 * x.a.ld + i] = -0x1p24f;
  upload(&x.a);
  float expected[8];
  struct tst_contract product = {false, false, p.m, p.n, p.k, 1, x.a.host, x.b.host, x.a.ld, x.b.ld, 8, 0, true, true};
  tst_contract_product(&product, expected);
  for (int64_t i = 0; i < p.m; i++) { /* one chain of all products is something else */
    float sum = 0;
    for (int64_t l = 0; l < p.k; l++) sum = fmaf(x.a.host[i + l * x.a.ld], x.b.host[l], sum);
    assert_memory_not_equal(&sum, &expected[i], sizeof sum);
  }
  check(&x, &p, expected, 1, p.k, &skinny.limits, false);
  destroy_operands(&x);
}

static void set_all(struct matrix *x, float value) {
  for (int64_t i = 0; i < x->lines; i++)
    for (int64_t j = 0; j < x->length; j++) x->host[x->skip + i * x->ld + j] = value;
}

/* Every product underflows to -0, and so does every chain, unless a zero that is no product is added to it. The groups'
 * sums are added to 0, and the sum is 0. */
static void a_zero_is_positive(void **state) {
  (void)state;
  static const int64_t depths[] = {1, 16, 127, 1040};
  uint64_t rng = 1;
  for (int d = 0; d < 4; d++)
    for (int variant = 0; variant < 16; variant++) {
      const bool few_rows = variant & 4;
      struct problem p = {.ta = variant & 1, .tb = variant & 2, .aligned = variant & 8, .k = depths[d]};
      p.m = few_rows ? 3 : 20, p.n = few_rows ? 20 : 3;
      struct operands x;
      make_operands(&x, &p, &rng);
      set_all(&x.a, 0x1p-100f), set_all(&x.b, -0x1p-100f);
      upload(&x.a), upload(&x.b);
      struct matrix expected = x.d;
      expected.host = malloc(bytes_of(&x.d));
      assert_non_null(expected.host);
      memcpy(expected.host, x.d.host, bytes_of(&x.d));
      set_all(&expected, 0);
      check_plans(&x, &p, expected.host, 1);
      set_all(&expected, -0.0f);
      check_plans(&x, &p, expected.host, -1);
      free(expected.host);
      destroy_operands(&x);
    }
}

/* --quick: every kernel in few launches, for compute-sanitizer, under which one takes some 40 ms. */
int main(int argc, char **argv) {
  const struct CMUnitTest quick[] = {cmocka_unit_test(each_kernel)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_kernel),
      cmocka_unit_test(bits_of_the_contract),
      cmocka_unit_test(many_blocks_and_rounds),
      cmocka_unit_test(order_shows),
      cmocka_unit_test(a_zero_is_positive),
      cmocka_unit_test(only_the_first_line_is_aligned),
  };
  if (argc == 2 && strcmp(argv[1], "--quick") == 0) return cmocka_run_group_tests(quick, open_device, close_device);
  return cmocka_run_group_tests(tests, open_device, close_device);
}
