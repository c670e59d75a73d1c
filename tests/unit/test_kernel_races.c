/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every family of kernels, launched on the smallest products that use all of its shared memory, for the fake driver's
 * race detector and for orders of warps: each ring comes round, each sum is stored and begun anew. op(B) picks columns
 * of op(A), so that the answer is known to the bit whatever the words; other tests say more about values.
 *
 * Seen to fail under the detector when a barrier of sgemm.cu, sgemm_parts.cuh, packed.cu or emulated_pack.cuh is left
 * out, a cluster meets without sharing, or a stage or an item of split's ring is used without waiting or given back
 * early.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fma/commit_args.h"
#include "first_gpu.h"
#include "base/integers.h"
#include "select/kernels.h"
#include "rng.h"

extern const unsigned char tb_sgemm_fatbin[];

static struct tb_kernels kernels;

static void unload(void) { tb_kernels_unload(&kernels); }

struct problem {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  int group_k;
  int64_t pad, skip; /* of both operands and D; multiples of four: vectors may be loaded */
  float (*word)(uint64_t *rng);
  float picks; /* what op(B) has where it picks a word */
};

/* What two planes of fp16 hold. */
static float short_word(uint64_t *rng) { return (float)(1 + tst_random_below(rng, 2000)); }
/* What takes three of bf16. */
static float long_word(uint64_t *rng) { return 1 + (float)tst_random_below(rng, 1 << 23) * 0x1p-23f; }

struct matrix {
  float *host;
  CUdeviceptr device;
  int64_t ld, skip;
  size_t words;
};

static struct matrix new_matrix(const struct problem *p, int64_t rows, int64_t columns) {
  struct matrix x = {.ld = tb_round_up(rows, 4) + p->pad, .skip = p->skip};
  x.words = (size_t)(x.skip + x.ld * (columns - 1) + rows);
  x.host = malloc(x.words * sizeof *x.host);
  assert_non_null(x.host);
  memset(x.host, 0xff, x.words * sizeof *x.host); /* NaN */
  OK(tb_cuda.cuMemAlloc(&x.device, x.words * sizeof *x.host));
  return x;
}

static float *at(const struct matrix *x, bool transposed, int64_t i, int64_t j) {
  return &x->host[x->skip + (transposed ? j + i * x->ld : i + j * x->ld)];
}

static void upload(const struct matrix *x) {
  OK(tb_cuda.cuMemcpyHtoDAsync(x->device, x->host, x->words * sizeof *x->host, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

static void download(const struct matrix *x) {
  OK(tb_cuda.cuMemcpyDtoHAsync(x->host, x->device, x->words * sizeof *x->host, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

static void destroy(struct matrix *x) {
  OK(tb_cuda.cuMemFree(x->device));
  free(x->host);
}

static float *on_device(const struct matrix *x) { return (float *)(uintptr_t)x->device + x->skip; }

static void launch(const struct problem *p, const struct tb_choice *choice, const struct matrix *a,
                   const struct matrix *b, const struct matrix *d) {
  const struct tb_sgemm_args args = {.a = on_device(a),
                                     .b = on_device(b),
                                     .d = on_device(d),
                                     .lda = a->ld,
                                     .ldb = b->ld,
                                     .ldd = d->ld,
                                     .m = p->m,
                                     .n = p->n,
                                     .k = p->k,
                                     .group_k = p->group_k,
                                     .alpha = 2,
                                     .first = 1,
                                     .last = 1};
  const int64_t bytes = tb_workspace_bytes(p->m, p->n, p->k, choice);
  CUdeviceptr workspace = 0;
  if (bytes > 0) OK(tb_cuda.cuMemAlloc(&workspace, (size_t)bytes));
  OK(tb_kernels_launch(&kernels, choice, p->transpose_a, p->transpose_b, &args, workspace, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  if (bytes > 0) OK(tb_cuda.cuMemFree(workspace));
}

/* D's column j is 2 `picks` times op(A)'s column j modulo k, but for a row that has an Inf. */
static void check(const struct problem *p, struct tb_choice choice, bool with_inf) {
  struct matrix a = new_matrix(p, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k);
  struct matrix b = new_matrix(p, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n);
  struct matrix d = new_matrix(p, p->m, p->n);
  uint64_t rng = 1;
  for (int64_t l = 0; l < p->k; l++) {
    for (int64_t i = 0; i < p->m; i++) *at(&a, p->transpose_a, i, l) = p->word(&rng);
    for (int64_t j = 0; j < p->n; j++) *at(&b, p->transpose_b, l, j) = l == j % p->k ? p->picks : 0;
  }
  if (with_inf) *at(&a, p->transpose_a, 1, 2) = INFINITY;
  upload(&a), upload(&b), upload(&d);
  launch(p, &choice, &a, &b, &d);
  download(&d);
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      const float got = *at(&d, false, i, j), want = 2 * (*at(&a, p->transpose_a, i, j % p->k) * p->picks);
      if (with_inf && i == 1 ? !isfinite(got) : got == want) continue;
      char name[64];
      tb_choice_describe(&choice, name, sizeof name);
      fail_msg("%s, %c%c, (%ld, %ld) is %a, not %a", name, "NT"[p->transpose_a], "NT"[p->transpose_b], (long)i, (long)j,
               (double)got, (double)want);
    }
  destroy(&a), destroy(&b), destroy(&d);
}

/* ---- tiles ---- */

/* A way to compute k, in units of a group or of a chunk. */
struct way {
  int splits, group_k, unit_k;
  int64_t k;
};

static void check_tile(int tile, struct way w, int variant, bool with_edges) {
  const struct tb_tile *const t = &tb_tiles[tile];
  const bool vectors = variant & 4;
  const struct problem p = {.transpose_a = variant & 1,
                            .transpose_b = variant & 2,
                            .m = with_edges ? t->block_m - (vectors ? 4 : 3) : t->block_m,
                            .n = with_edges ? t->block_n - (vectors ? 8 : 5) : t->block_n,
                            .k = w.k,
                            .group_k = w.group_k,
                            .pad = vectors ? 0 : 1,
                            .skip = vectors ? 0 : 1,
                            .word = long_word,
                            .picks = 1};
  check(
      &p,
      (struct tb_choice){.family = TB_FAMILY_FMA,
                         .fma = {.tile = tile, .splits = w.splits, .unit_k = w.unit_k, .pack_k = t->packed ? w.k : 0}},
      false);
}

/* By steps and groups more than a ring has stages, so that it comes round and sums are stored twice. */
static const struct way two_groups = {1, 48, 48, 48 + 21};

/* All kernels of one size of tile. */
static void check_kernels(int tile) {
  const int variants = tb_tiles[tile].packed ? 4 : 8; /* packing takes any operands in one way */
  for (int variant = 0; variant < variants; variant++) check_tile(tile, two_groups, variant, true);
  check_tile(tile, two_groups, 4, false);
  check_tile(tile, (struct way){1, 256, 256, TB_SGEMM_CHUNK_K + 18}, 4, true); /* two chunks in a group */
}

static void large_tiles(void **state) {
  (void)state;
  for (int tile = 0; tile < TB_TILE_COUNT; tile++)
    if (!tb_tiles[tile].packed && tb_tiles[tile].block_m + tb_tiles[tile].block_n > 128) check_kernels(tile);
}

static void small_tiles(void **state) {
  (void)state;
  for (int tile = 0; tile < TB_TILE_COUNT; tile++)
    if (tb_tiles[tile].block_m + tb_tiles[tile].block_n <= 128) check_kernels(tile);
}

static void packed_tiles(void **state) {
  (void)state;
  int tiles = 0;
  for (int tile = 0; tile < TB_TILE_COUNT; tile++)
    if (tb_tiles[tile].packed) check_kernels(tile), tiles++;
  assert_int_equal(tiles, 3);
}

/* Parts of a split k that tb_sgemm_gather adds up, and that a cluster does. */
static void parts(void **state) {
  (void)state;
  static const int tiles[] = {TB_TILE_128x128, TB_TILE_64x64, TB_TILE_32x64, TB_TILE_32x32, TB_TILE_packed64x128};
  const struct way apart = {2, 256, TB_SGEMM_CHUNK_K, TB_SGEMM_CHUNK_K + 18}, together = {3, 48, 48, 2 * 48 + 21};
  const struct tb_split_k split = {3, 1, 3};
  for (int i = 0; i < 5; i++) {
    check_tile(tiles[i], apart, 4, true);
    assert_int_equal(tb_split_k_together(&split, &kernels.device.clusters, true, 1, kernels.device.sm_count, 1), 1);
    check_tile(tiles[i], together, 4, true);
    check_tile(tiles[i], together, 3, false);
  }
}

static void commit(void **state) {
  (void)state;
  const struct problem p = {.m = 37, .n = 11, .pad = 3, .skip = 1};
  struct matrix c = new_matrix(&p, p.m, p.n), d = new_matrix(&p, p.m, p.n);
  for (int64_t j = 0; j < p.n; j++)
    for (int64_t i = 0; i < p.m; i++) *at(&c, false, i, j) = (float)i, *at(&d, false, i, j) = (float)j;
  upload(&c), upload(&d);
  struct tb_commit_args args = {on_device(&c), on_device(&d), c.ld, d.ld, p.m, p.n, 0.5f};
  void *parameters[] = {&args};
  const CUfunction function = tst_gpu_kernel(tb_sgemm_fatbin, "tb_sgemm_commit");
  OK(tb_cuda.cuLaunchKernel(function, 2, 1, 1, TB_COMMIT_THREADS_M, TB_COMMIT_THREADS_N, 1, 0, NULL, parameters, NULL));
  download(&c);
  for (int64_t j = 0; j < p.n; j++)
    for (int64_t i = 0; i < p.m; i++) assert_true(*at(&c, false, i, j) == (float)j + 0.5f * (float)i);
  destroy(&c), destroy(&d);
}

/* ---- the tensor cores ---- */

/* One cluster computes all tiles. */
static void check_split(const struct problem *p, bool with_inf) {
  check(p, (struct tb_choice){.family = TB_FAMILY_EMULATED, .emulated = {.splits = 1, .span_k = p->k}}, with_inf);
}

/* Four tiles, and a k that the ring has no room for at once. */
static struct problem four_tiles(float (*word)(uint64_t *rng)) {
  return (struct problem){.transpose_b = true,
                          .m = TB_EMULATED_TILE_M + 7,
                          .n = TB_EMULATED_TILE_N + 9,
                          .k = 5 * TB_EMULATED_CHUNK_K + 3,
                          .pad = 1,
                          .word = word,
                          .picks = 1};
}

static void emulated_half(void **state) {
  (void)state;
  const struct problem p = four_tiles(short_word);
  check_split(&p, false);
}

static void emulated_bfloat(void **state) {
  (void)state;
  const struct problem p = four_tiles(long_word);
  check_split(&p, false);
}

/* The tiles of its row are computed again, in plain fp32. */
static void emulated_again(void **state) {
  (void)state;
  const struct problem p = four_tiles(short_word);
  check_split(&p, true);
}

/* Tiles of as many chunks as the ring has stages: the scales that come with a tile's last chunk replace those of the
 * tile before, with no chunk between that would order the two. */
static void emulated_scales(void **state) {
  (void)state;
  const struct problem p = {.m = 5 * TB_EMULATED_TILE_M,
                            .n = 20,
                            .k = TB_EMULATED_STAGES(2) * TB_EMULATED_CHUNK_K,
                            .word = short_word,
                            .picks = 1};
  check_split(&p, false);
}

/* Sums that leave the range, which the warps of a block tell each other. */
static float large_word(uint64_t *rng) { return ldexpf(long_word(rng), 100); }
static void emulated_overflow(void **state) {
  (void)state;
  const struct problem p = {
      .m = 5 * TB_EMULATED_TILE_M, .n = 20, .k = TB_EMULATED_CHUNK_K, .word = large_word, .picks = 0x1p60f};
  check_split(&p, false);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_tiles),     cmocka_unit_test(small_tiles),
      cmocka_unit_test(packed_tiles),    cmocka_unit_test(parts),
      cmocka_unit_test(commit),          cmocka_unit_test(emulated_half),
      cmocka_unit_test(emulated_bfloat), cmocka_unit_test(emulated_again),
      cmocka_unit_test(emulated_scales), cmocka_unit_test(emulated_overflow),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  OK(tb_kernels_load(&kernels, tst_gpu_open()));
  atexit(unload);                                  /* before the GPU is closed */
  kernels.emulated.sm_count = TB_EMULATED_CLUSTER; /* so that a cluster has several tiles, one after another */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
