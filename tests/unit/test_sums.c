/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of every kernel family for FMAs, as src/select/kernels.h launches them: each tile, with and without packed
 * operands, and the thin kernels; k whole, in parts that are a cluster, in parts whose sums go through memory, by
 * groups and by chunks, in packed parts, and split behind whole tiles alone; each as a fresh sum and as one that
 * continues what is in D, with and without alpha. All have the bits of contract_order.c, and the problems' words are
 * such that each wrong order there has other bits.
 *
 * Seen to fail when: a cluster adds D behind its parts, or its parts from the last one on; D is dropped, or its NaN
 * counts; alpha multiplies bare sums, or each group; a chain runs on; a last k is left out; a sum of -0 stays -0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contract_order.h"
#include "first_gpu.h"
#include "sanitized.h"
#include "select/kernels.h"
#include "rng.h"

static struct tb_kernels kernels;

static int open_device(void **state) {
  (void)state;
  OK(tb_kernels_load(&kernels, tst_gpu_open()));
  return 0;
}

static int close_device(void **state) {
  (void)state;
  tb_kernels_unload(&kernels);
  return 0;
}

/* ---- a problem and its memory ---- */

struct problem {
  bool ta, tb, scalar; /* scalar: addresses and leading dimensions that forbid vectors */
  int64_t m, n, k;
  int group_k;
  bool zeros; /* every product underflows to -0 */
};

struct matrix {
  float *host;
  CUdeviceptr device;
  int64_t lines, length, ld, skip;
};

static size_t bytes_of(const struct matrix *x) {
  return sizeof(float) * (size_t)(x->skip + (x->lines - 1) * x->ld + x->length);
}

static struct matrix make_matrix(const struct problem *p, int64_t length, int64_t lines) {
  struct matrix x = {.lines = lines, .length = length, .skip = p->scalar ? 1 : 0};
  x.ld = p->scalar ? length + 1 + length % 2 : (length + 3) / 4 * 4 + 4;
  x.host = malloc(bytes_of(&x));
  assert_non_null(x.host);
  memset(x.host, 0xff, bytes_of(&x)); /* NaN */
  OK(tb_cuda.cuMemAlloc(&x.device, bytes_of(&x)));
  return x;
}

static void upload(const struct matrix *x) {
  OK(tb_cuda.cuMemcpyHtoDAsync(x->device, x->host, bytes_of(x), NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

static void destroy(struct matrix *x) {
  OK(tb_cuda.cuMemFree(x->device));
  free(x->host);
}

/* Far apart in size, so that other orders of summation have other bits. */
static float any_size(uint64_t *rng, int binades) {
  const float x = tst_random_unit(rng);
  return ldexpf(tst_random_below(rng, 2) ? x : -x, (int)tst_random_below(rng, binades));
}

static void fill(struct matrix *x, uint64_t *rng, int binades) {
  for (int64_t i = 0; i < x->lines; i++)
    for (int64_t j = 0; j < x->length; j++) x->host[x->skip + i * x->ld + j] = any_size(rng, binades);
}

static void set_all(struct matrix *x, float value) {
  for (int64_t i = 0; i < x->lines; i++)
    for (int64_t j = 0; j < x->length; j++) x->host[x->skip + i * x->ld + j] = value;
}

struct operands {
  struct matrix a, b, d;
};

static const float alpha = -1.7f;

/* D as the contract has it: NaN where nothing is continued. */
static void make_operands(struct operands *x, const struct problem *p, uint64_t seed) {
  uint64_t rng = seed;
  x->a = make_matrix(p, p->ta ? p->k : p->m, p->ta ? p->m : p->k);
  x->b = make_matrix(p, p->tb ? p->n : p->k, p->tb ? p->k : p->n);
  x->d = make_matrix(p, p->m, p->n);
  fill(&x->a, &rng, 10), fill(&x->b, &rng, 10);
  if (p->zeros) set_all(&x->a, 0x1p-100f), set_all(&x->b, -0x1p-100f);
  upload(&x->a), upload(&x->b);
}

static void destroy_operands(struct operands *x) { destroy(&x->a), destroy(&x->b), destroy(&x->d); }

/* ---- ways ---- */

/* How k is computed. `parts` of whole units to a block; together: a cluster adds them. */
struct way {
  const char *name;
  int splits, chunks; /* chunks: units are those, not groups */
  bool together, packed_parts, rest_alone;
};

static const struct way ways[] = {{"k whole", 1, 0, false, false, false},
                                  {"two parts, a cluster", 2, 0, true, false, false},
                                  {"a part for each group, a cluster", 8, 0, true, false, false},
                                  {"parts of two groups", 2, 0, false, false, false},
                                  {"parts of chunks", 3, 1, false, false, false},
                                  {"packed in parts", 1, 0, false, true, false},
                                  {"parts behind whole tiles", 3, 0, false, false, true}};
enum { WAYS = sizeof ways / sizeof *ways };

/* Groups of k, in a size that the way is for; the last one is short. */
static int64_t groups_for(const struct way *w) { return w->together ? w->splits : w->splits == 2 ? 4 : 5; }

static struct tb_choice choice_of(const struct way *w, int tile, const struct problem *p) {
  if (tile == TB_TILE_COUNT) return (struct tb_choice){.family = TB_FAMILY_SKINNY, .skinny = {.splits = w->splits}};
  struct tb_fma_way c = {.tile = tile, .splits = w->splits, .unit_k = p->group_k};
  if (w->chunks) c.unit_k = TB_SGEMM_CHUNK_K;
  if (tb_tiles[tile].packed) c.pack_k = w->packed_parts ? 2 * p->group_k : p->k;
  if (w->rest_alone) c.whole_rows = 1;
  return (struct tb_choice){.family = TB_FAMILY_FMA, .fma = c};
}

static bool has_way(const struct way *w, int tile) {
  if (tile == TB_TILE_COUNT) return !w->chunks && !w->together && !w->packed_parts && !w->rest_alone;
  return tb_tiles[tile].packed || !(w->packed_parts || w->rest_alone);
}

/* Whether the parts are a cluster, as the launcher asks. */
static bool is_together(const struct tb_choice *c, const struct problem *p) {
  const struct tb_fma_way *way = &c->fma;
  const struct tb_split_k split = tb_split_k_of(p->k, way);
  return tb_split_k_together(&split, &kernels.device.clusters, way->unit_k == p->group_k,
                             tb_tile_count(&tb_tiles[way->tile], p->m, p->n), kernels.device.sm_count,
                             kernels.device.blocks_per_sm[way->tile]) > 0;
}

/* ---- checks ---- */

static void launch(const struct operands *x, const struct problem *p, const struct tb_choice *c, bool first,
                   bool last) {
  const struct tb_sgemm_args args = {.a = (const float *)(uintptr_t)x->a.device + x->a.skip,
                                     .b = (const float *)(uintptr_t)x->b.device + x->b.skip,
                                     .d = (float *)(uintptr_t)x->d.device + x->d.skip,
                                     .lda = x->a.ld,
                                     .ldb = x->b.ld,
                                     .ldd = x->d.ld,
                                     .m = p->m,
                                     .n = p->n,
                                     .k = p->k,
                                     .group_k = p->group_k,
                                     .alpha = alpha,
                                     .first = first,
                                     .last = last};
  const int64_t bytes = tb_workspace_bytes(p->m, p->n, p->k, c);
  CUdeviceptr workspace = 0;
  if (bytes > 0) OK(tb_cuda.cuMemAlloc(&workspace, (size_t)bytes));
  OK(tb_kernels_launch(&kernels, c, p->ta, p->tb, &args, workspace, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  if (bytes > 0) OK(tb_cuda.cuMemFree(workspace));
}

static struct tst_contract contract_of(const struct operands *x, const struct problem *p, bool first, bool last) {
  return (struct tst_contract){.transpose_a = p->ta,
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
                               .group_k = p->group_k,
                               .first = first,
                               .last = last};
}

static float *copy_of(const struct matrix *x) {
  float *copy = malloc(bytes_of(x));
  assert_non_null(copy);
  return memcpy(copy, x->host, bytes_of(x));
}

/* Each wrong order has other bits, where it is one: whether it is none of the right one's other names, as that of two
 * sums from the last one on is. */
static bool is_wrong(const struct problem *p, enum tst_wrong_order order, bool first) {
  const int chunk = TB_SGEMM_CHUNK_K;
  switch (order) {
    case TST_D_BEHIND:
      return !first;
    case TST_GROUPS_BACKWARD:
      return !first || p->k > 2 * p->group_k;
    case TST_CHUNKS_BACKWARD:
      return p->group_k > 2 * chunk;
    case TST_LONG_CHAINS:
      return p->group_k > chunk;
    default: /* the last group has one chunk, behind the first one's */
      return !first || p->k > p->group_k + chunk;
  }
}

static void check_wrong_orders(const struct operands *x, const struct problem *p, const struct tst_contract *product,
                               const float *right) {
  for (enum tst_wrong_order order = 0; order < TST_WRONG_ORDERS; order++) {
    if (!is_wrong(p, order, product->first)) continue;
    float *wrong = copy_of(&x->d);
    tst_contract_wrong_product(product, order, wrong + x->d.skip);
    if (memcmp(wrong, right, bytes_of(&x->d)) == 0)
      fail_msg("m=%ld n=%ld k=%ld in groups of %d: %s has the same bits", (long)p->m, (long)p->n, (long)p->k,
               p->group_k, tst_wrong_order_name[order]);
    free(wrong);
  }
}

/* A fresh sum or a continued one, with alpha or bare. */
static void check(struct operands *x, const struct problem *p, const struct tb_choice *c, const char *name, bool first,
                  bool last) {
  uint64_t rng = 5;
  memset(x->d.host, 0xff, bytes_of(&x->d)); /* NaN */
  if (!first) fill(&x->d, &rng, 20);
  if (!first && p->zeros) set_all(&x->d, 0); /* as such sums are, never -0 */
  upload(&x->d);
  const struct tst_contract product = contract_of(x, p, first, last);
  float *want = copy_of(&x->d), *got = copy_of(&x->d);
  tst_contract_product(&product, want + x->d.skip);
  if (!p->zeros && p->m * p->n <= 300) check_wrong_orders(x, p, &product, want); /* which take their time */
  launch(x, p, c, first, last);
  OK(tb_cuda.cuMemcpyDtoHAsync(got, x->d.device, bytes_of(&x->d), NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  for (size_t i = 0; i < bytes_of(&x->d) / sizeof *got; i++)
    if (memcmp(&got[i], &want[i], sizeof *got) != 0)
      fail_msg("%s, %s: %c%c m=%ld n=%ld k=%ld in groups of %d, %s, first %d, last %d: word %zu is %a, not %a",
               tb_choice_name(c), name, "NT"[p->ta], "NT"[p->tb], (long)p -> m, (long)p -> n, (long)p -> k,
               p -> group_k, p -> scalar ? "scalar" : "vectors", first, last, i, (double)got[i], (double)want[i]);
  free(want), free(got);
}

static void check_way(const struct way *w, int tile, const struct problem *p) {
  const struct tb_choice c = choice_of(w, tile, p);
  if (kernels.shared.early && tile < TB_TILE_COUNT && is_together(&c, p) != w->together)
    fail_msg("%s, %s: %s a cluster", tb_choice_name(&c), w->name, w->together ? "not" : "is");
  struct operands x;
  make_operands(&x, p, (uint64_t)tile + 1);
  for (int flags = 0; flags < (p->zeros ? 2 : 4); flags++) check(&x, p, &c, w->name, flags & 1, flags & 2);
  destroy_operands(&x);
}

/* Groups of chunks, of a chunk and a rest, and of less than a chunk; and last groups of one product, of one less than
 * whole steps, and of others. */
static const int group_k[] = {3 * TB_SGEMM_CHUNK_K, TB_SGEMM_CHUNK_K + 2 * TB_SGEMM_GROUP_STEP_K,
                              3 * TB_SGEMM_GROUP_STEP_K};

static struct problem problem_of(int tile, int way, int variant) {
  struct problem p = {.ta = variant & 1, .tb = variant & 2, .scalar = (tile + way + variant) % 2};
  p.group_k = ways[way].chunks ? group_k[0] : group_k[(tile + way + variant) % 3];
  const int last[] = {p.group_k - 1, 1, p.group_k - 5, 7};
  p.k = (groups_for(&ways[way]) - 1) * p.group_k + last[variant];
  p.m = 40, p.n = 7;
  if (tile == TB_TILE_COUNT) {
    p.group_k = TB_SGEMM_GROUP_K;
    p.k = (groups_for(&ways[way]) - 1) * p.group_k + (variant % 2 ? 1 : 300);
    if (variant & 1) p.m = 7, p.n = 40;
    return p;
  }
  /* One variant has a tile without edges, and one more than a tile. */
  const struct tb_tile *t = &tb_tiles[tile];
  p.m = variant == 0 ? t->block_m : 13, p.n = variant == 0 ? t->block_n : 9;
  if (ways[way].rest_alone) p.m = t->block_m + 5, p.scalar = variant & 1;
  if (variant == 0) p.scalar = false;
  return p;
}

/* Of every other way two variants; under AddressSanitizer one of every other. */
static bool is_tried(int tile, int way, int variant) {
  if (TST_SANITIZED) return (tile + way) % 2 == 0 && variant == (tile / 2 + way) % 4;
  return variant % (1 + (tile + way) % 2) == 0;
}

static void every_family_and_way(void **state) {
  (void)state;
  for (int tile = 0; tile <= TB_TILE_COUNT; tile++)
    for (int way = 0; way < WAYS; way++) {
      if (!has_way(&ways[way], tile) || (tile < TB_TILE_COUNT && kernels.device.blocks_per_sm[tile] == 0)) continue;
      if (ways[way].together && !kernels.shared.early) continue;
      for (int variant = 0; variant < 4; variant++) {
        if (!is_tried(tile, way, variant)) continue;
        const struct problem p = problem_of(tile, way, variant);
        check_way(&ways[way], tile, &p);
      }
    }
}

/* A sum of -0 alone is 0, whoever adds it, and however k is split. */
static void zeros(void **state) {
  (void)state;
  if (TST_SANITIZED) return; /* the same calls once more */
  for (int tile = 0; tile <= TB_TILE_COUNT; tile++)
    for (int way = 0; way < WAYS; way++) {
      if (!has_way(&ways[way], tile) || (tile < TB_TILE_COUNT && kernels.device.blocks_per_sm[tile] == 0)) continue;
      if (ways[way].together && !kernels.shared.early) continue;
      struct problem p = problem_of(tile, way, 1);
      p.group_k = tile == TB_TILE_COUNT || ways[way].chunks ? p.group_k : group_k[2];
      p.k = groups_for(&ways[way]) * p.group_k, p.zeros = true;
      check_way(&ways[way], tile, &p);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_family_and_way), cmocka_unit_test(zeros)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
