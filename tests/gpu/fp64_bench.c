/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Double-precision products on a GPU: checked, and measured beside cuBLAS, in less than a minute.
 *
 *   fp64_bench [--type d|z] [--pool DOUBLES] [--cublas libcublas.so.13] [--tiles] [--ways] [--ms BUDGET] [--group K]
 *              [--tile NAME] [NN:MxNxK ...]
 *
 * For each product: the library's own choice of tile and splits, and cuBLAS, in turns, back to back; with --tiles also
 * every tile with k whole, with --ways every tile with k in 1, 2, 3, 4, 6, 8, 12, ... parts, each with its prediction.
 * The error is the largest of some elements against a product in double-double, over
 * (|A||B|), in units of 2^-53, of ours and of cuBLAS; `order` says how many of these elements have the bits of the
 * chain of FMAs that kernels/fp64/fp64_args.h promises. Ends with the geometric mean of the ratios and the least.
 * Nonzero status: an error above the bound. --pool: room for operands, which must come first.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "select/fp64.h"

/* Doubles: the operands of 8192 cubed, side by side, and its D. */
static size_t pool_doubles = (size_t)1 << 27;
static bool complex_elements;
static size_t parts = 1; /* of an element */
#define SAMPLES 48
#define ROUNDS 3

#define OK(call)                                                                \
  do {                                                                          \
    CUresult ok_result = (call);                                                \
    if (ok_result != CUDA_SUCCESS) {                                            \
      fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, ok_result); \
      exit(2);                                                                  \
    }                                                                           \
  } while (0)

struct product {
  bool ta, tb;
  int64_t m, n, k;
};

/* ---- cuBLAS, without its headers ---- */

static void *cublas;
static int (*cublas_gemm)(void *, int, int, int, int, int, const double *, const double *, int, const double *, int,
                          const double *, double *, int);

static void open_cublas(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "no cuBLAS: %s\n", dlerror());
    return;
  }
  int (*create)(void **) = (int (*)(void **))dlsym(library, "cublasCreate_v2");
  *(void **)&cublas_gemm = dlsym(library, complex_elements ? "cublasZgemm_v2" : "cublasDgemm_v2");
  if (create == NULL || cublas_gemm == NULL || create(&cublas) != 0) cublas = NULL;
}

/* ---- a product, either way ---- */

static struct tb_fp64_kernels kernels;
static double *pool;
static CUdeviceptr device_pool, device_d, workspace;
static size_t d_doubles;
static size_t workspace_bytes;

static int64_t lda_of(const struct product *p) { return p->ta ? p->k : p->m; }
static int64_t ldb_of(const struct product *p) { return p->tb ? p->n : p->k; }
static size_t b_at(const struct product *p) { return ((size_t)(p->m * p->k) * parts + 1) / 2 * 2; }

static struct tb_fp64_args arguments_of(const struct product *p) {
  return (struct tb_fp64_args){.a = (double *)(uintptr_t)device_pool,
                               .b = (double *)(uintptr_t)device_pool + b_at(p),
                               .d = (double *)(uintptr_t)device_d,
                               .lda = lda_of(p),
                               .ldb = ldb_of(p),
                               .ldd = p->m,
                               .m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .alpha = 1,
                               .first = 1,
                               .last = 1};
}

static void run_ours(const struct product *p, const struct tb_fp64_plan *plan) {
  const struct tb_fp64_args args = arguments_of(p);
  OK(tb_fp64_launch(&kernels, plan, p->ta, p->tb, &args, workspace, NULL));
}

static void run_cublas(const struct product *p) {
  const double one[2] = {1, 0}, zero[2] = {0, 0};
  const int status = cublas_gemm(
      cublas, p->ta, p->tb, (int)p->m, (int)p->n, (int)p->k, one, (double *)(uintptr_t)device_pool, (int)lda_of(p),
      (double *)(uintptr_t)device_pool + b_at(p), (int)ldb_of(p), zero, (double *)(uintptr_t)device_d, (int)p->m);
  if (status != 0) fprintf(stderr, "cublas: %d\n", status), exit(2);
}

static const double *a_of(const struct product *p, int64_t i, int64_t l) {
  return &pool[parts * (size_t)(p->ta ? l + i * p->k : i + l * p->m)];
}
static const double *b_of(const struct product *p, int64_t l, int64_t j) {
  return &pool[b_at(p) + parts * (size_t)(p->tb ? j + l * p->n : l + j * p->k)];
}

/* ---- checking: of complex elements the real part ---- */

/* The error of an element over (|A||B|), in units of 2^-53. */
static double error_of(const struct product *p, int64_t i, int64_t j, double got) {
  double high = 0, low = 0, size = 0;
  for (int64_t l = 0; l < p->k; l++)
    for (size_t part = 0; part < parts; part++) {
      const double a = part ? -a_of(p, i, l)[1] : *a_of(p, i, l), b = b_of(p, l, j)[part];
      const double product = a * b, rest = fma(a, b, -product);
      const double sum = high + product, before = sum - high;
      low += (high - (sum - before)) + (product - before) + rest;
      high = sum, size += fabs(product);
    }
  return fabs((high - got) + low) / size * 0x1p53;
}

/* The order of summation that is promised. */
static double chain_of(const struct product *p, int64_t i, int64_t j, int group_k) {
  const int at_once = complex_elements ? 4 : group_k;
  double sum = 0;
  for (int64_t first = 0; first < p->k; first += group_k) {
    double group = 0;
    for (int64_t from = first; from < first + group_k && from < p->k; from += at_once)
      for (size_t part = 0; part < parts; part++)
        for (int64_t l = from; l < from + at_once && l < p->k; l++)
          group = fma(part ? -a_of(p, i, l)[1] : *a_of(p, i, l), b_of(p, l, j)[part], group);
    sum += group;
  }
  return sum;
}

struct check {
  double worst;
  int in_order;
};

static struct check check(const struct product *p, int group_k) {
  struct check result = {0, 0};
  uint64_t random = 88172645463325252u;
  for (int s = 0; s < SAMPLES; s++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    int64_t i = (int64_t)(random >> 33) % p->m, j = (int64_t)(random & 0x7fffffff) % p->n;
    if (s < 4) i = s & 1 ? p->m - 1 : 0, j = s & 2 ? p->n - 1 : 0;
    double got;
    OK(tb_cuda.cuMemcpyDtoHAsync(&got, device_d + 8 * parts * (CUdeviceptr)(i + j * p->m), sizeof got, NULL));
    OK(tb_cuda.cuStreamSynchronize(NULL));
    const double error = error_of(p, i, j, got);
    if (!(error <= result.worst)) result.worst = error;
    if (group_k > 0) result.in_order += chain_of(p, i, j, group_k) == got;
  }
  return result;
}

/* ---- measuring ---- */

static double budget_ms = 12;

static CUevent start, end;

/* Milliseconds of one of them, back to back. */
static double time_once(const struct product *p, const struct tb_fp64_plan *plan, int repeats) {
  if (start == NULL) {
    OK(tb_cuda.cuEventCreate(&start, CU_EVENT_DEFAULT));
    OK(tb_cuda.cuEventCreate(&end, CU_EVENT_DEFAULT));
  }
  OK(tb_cuda.cuEventRecord(start, NULL));
  for (int r = 0; r < repeats; r++) {
    if (plan != NULL)
      run_ours(p, plan);
    else
      run_cublas(p);
  }
  OK(tb_cuda.cuEventRecord(end, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  float ms;
  OK(tb_cuda.cuEventElapsedTime(&ms, start, end));
  return (double)ms / repeats;
}

static double tflops(const struct product *p, double ms) {
  return (complex_elements ? 8.0 : 2.0) * (double)p->m * (double)p->n * (double)p->k / ms / 1e9;
}

static int repeats_for(double ms) { return ms * 3 > budget_ms ? 3 : (int)(budget_ms / ms) + 1; }

static double best_of(const struct product *p, const struct tb_fp64_plan *plan) {
  const int repeats = repeats_for(time_once(p, plan, 1));
  double best = INFINITY;
  for (int r = 0; r < ROUNDS; r++) best = fmin(best, time_once(p, plan, repeats));
  return best;
}

static int describe(const struct tb_fp64_plan *plan, char *text, size_t size) {
  const char *const name = tb_fp64_tiles[plan->tile].name;
  if (plan->splits == 1) return snprintf(text, size, "%s", name);
  return snprintf(text, size, "%s/%d%s", name, plan->splits, plan->whole > 0 ? "+" : "");
}

static double log_sum, least = INFINITY;
static int ratios;
static bool failed;

/* Instead of what the library would take. */
static int forced_group_k, forced_tile = -1;

static void force_tile(const char *name) {
  for (forced_tile = TB_FP64_TILE_COUNT - 1; forced_tile >= 0; forced_tile--)
    if (tb_fp64_tiles[forced_tile].complex == complex_elements && strcmp(tb_fp64_tiles[forced_tile].name, name) == 0)
      return;
}

enum others { NO_OTHERS, ALL_TILES, ALL_WAYS };

/* Ways that are predicted to take so many times as long as the chosen one are left out. */
#define HOPELESS 2

static void measure_way(const struct product *p, struct tb_fp64_plan *plan, int tile, int64_t whole, int splits,
                        enum others others, double chosen_seconds) {
  char way[64];
  if (!tb_fp64_plan_way(plan, &kernels.device, tile, whole, splits) || plan->splits != splits ||
      (size_t)plan->partials_bytes > workspace_bytes)
    return;
  if (others == ALL_WAYS && plan->seconds > HOPELESS * chosen_seconds) return;
  const double ms = best_of(p, plan);
  describe(plan, way, sizeof way);
  if (others == ALL_WAYS)
    printf("\n    %s %.2f us, predicted %.2f", way, ms * 1e3, plan->seconds * 1e6);
  else
    printf(" %s:%.1f", way, tflops(p, ms));
}

/* Every tile, k whole and, by ALL_WAYS, in parts: of all tiles, or of those of a last round that is not full. */
static void measure_others(const struct product *p, struct tb_fp64_plan plan, enum others others) {
  const double chosen_seconds = plan.seconds;
  for (int tile = 0; others != NO_OTHERS && tile < TB_FP64_TILE_COUNT; tile++) {
    if (tb_fp64_tiles[tile].complex != complex_elements) continue;
    measure_way(p, &plan, tile, 0, 1, others, chosen_seconds);
    const int64_t rounds = plan.tiles / plan.blocks * plan.blocks;
    for (int splits = 2; others == ALL_WAYS && splits <= 64; splits += (splits + 2) / 3) {
      measure_way(p, &plan, tile, 0, splits, others, chosen_seconds);
      if (rounds > 0) measure_way(p, &plan, tile, rounds, splits, others, chosen_seconds);
    }
  }
  printf("\n");
  fflush(stdout);
}

static void measure(const struct product *p, enum others others) {
  const int group_k = forced_group_k > 0 ? forced_group_k : tb_fp64_group_k(complex_elements, p->m, p->n, p->k);
  const struct tb_fp64_args args = arguments_of(p);
  const struct tb_fp64_product product = {.complex = complex_elements,
                                          .units = tb_fp64_in_units(complex_elements, p->ta, p->tb, &args),
                                          .m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .group_k = group_k};
  struct tb_fp64_plan plan;
  if ((size_t)(p->m * p->n) * parts > d_doubles || b_at(p) + (size_t)(p->k * p->n) * parts > pool_doubles ||
      !tb_fp64_plan_make(&plan, &kernels.device, &product, (int64_t)workspace_bytes)) {
    printf("%c%c %ldx%ldx%ld: too large\n", "NT"[p->ta], "NT"[p->tb], (long)p -> m, (long)p -> n, (long)p -> k);
    return;
  }
  if (forced_tile >= 0 && !tb_fp64_plan_way(&plan, &kernels.device, forced_tile, 0, 1)) return;
  OK(tb_cuda.cuMemsetD8Async(device_d, 0xff, 8 * parts * (size_t)(p->m * p->n), NULL));
  run_ours(p, &plan);
  const struct check ours = check(p, group_k);
  if (!(ours.worst <= (double)(parts * (size_t)p->k))) failed = true;
  struct check theirs = {NAN, 0};
  const int repeats = repeats_for(time_once(p, &plan, 2));
  double our_ms = INFINITY, their_ms = INFINITY;
  if (cublas != NULL) run_cublas(p), theirs = check(p, 0);
  for (int r = 0; r < ROUNDS; r++) {
    our_ms = fmin(our_ms, time_once(p, &plan, repeats));
    if (cublas != NULL) their_ms = fmin(their_ms, time_once(p, NULL, repeats));
  }
  char way[48];
  describe(&plan, way, sizeof way);
  printf("%c%c %6ld %6ld %6ld  %-14s %7.2f %7.2f  %5.3f  pred %5.2f  err %5.2f %5.2f order %2d/%d", "NT"[p->ta],
         "NT"[p->tb], (long)p -> m, (long)p -> n, (long)p -> k, way, tflops(p, our_ms), tflops(p, their_ms),
         their_ms / our_ms, plan.seconds * 1e3 / our_ms, ours.worst, theirs.worst, ours.in_order, SAMPLES);
  if (cublas != NULL) log_sum += log(their_ms / our_ms), ratios++, least = fmin(least, their_ms / our_ms);
  measure_others(p, plan, others);
}

/* ---- the list ---- */

static void measure_list(enum others others) {
  static const int64_t cubes[] = {512, 1024, 2048, 4096, 8192, 4097};
  static const struct product more[] = {{false, false, 8192, 8192, 128},  {false, false, 16384, 64, 4096},
                                        {false, false, 256, 256, 65536},  {true, false, 256, 256, 65536},
                                        {false, false, 3072, 768, 3072},  {false, true, 3072, 768, 3072},
                                        {false, false, 64, 64, 4096},     {false, false, 16384, 8, 4096},
                                        {false, false, 1000, 1000, 1000}, {true, false, 2000, 1500, 3001}};
  for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++)
    for (int variant = 0; variant < 4; variant++)
      measure(&(struct product){variant & 2, variant & 1, cubes[i], cubes[i], cubes[i]},
              variant == 0 && cubes[i] != 8192 ? others : NO_OTHERS);
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) measure(&more[i], others);
}

static CUdevice gpu;

static void open_gpu(void) {
  CUcontext context;
  if (!tb_cuda_load()) fprintf(stderr, "no CUDA driver\n"), exit(77);
  OK(tb_cuda.cuInit(0));
  OK(tb_cuda.cuDeviceGet(&gpu, 0));
  OK(tb_cuda.cuDevicePrimaryCtxRetain(&context, gpu));
  OK(tb_cuda.cuCtxPushCurrent(context));
  OK(tb_fp64_look(&kernels, gpu));
  OK(tb_fp64_load(&kernels, complex_elements));
  d_doubles = pool_doubles / 2 + 100000;
  workspace_bytes = 4 * pool_doubles;
  pool = malloc(pool_doubles * sizeof *pool);
  if (pool == NULL) exit(2);
  uint64_t random = 1;
  for (size_t i = 0; i < pool_doubles; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    pool[i] = (double)((int64_t)random >> 11) * 0x1p-53 * 2;
  }
  OK(tb_cuda.cuMemAlloc(&device_pool, pool_doubles * sizeof *pool));
  OK(tb_cuda.cuMemAlloc(&device_d, d_doubles * sizeof *pool));
  OK(tb_cuda.cuMemAlloc(&workspace, workspace_bytes));
  OK(tb_cuda.cuMemcpyHtoDAsync(device_pool, pool, pool_doubles * sizeof *pool, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

static void close_gpu(void) {
  CUcontext context;
  tb_fp64_unload(&kernels);
  OK(tb_cuda.cuMemFree(device_pool));
  OK(tb_cuda.cuMemFree(device_d));
  OK(tb_cuda.cuMemFree(workspace));
  if (start != NULL) {
    OK(tb_cuda.cuEventDestroy(start));
    OK(tb_cuda.cuEventDestroy(end));
  }
  OK(tb_cuda.cuCtxPopCurrent(&context));
  OK(tb_cuda.cuDevicePrimaryCtxRelease(gpu));
}

static int usage(void) {
  fprintf(stderr, "usage: fp64_bench [--type d|z] [--pool DOUBLES] [--cublas FILE] [--tiles] [--ways] [--ms BUDGET] "
                  "[--group K] [--tile NAME] [NN:MxNxK ...]\n");
  return 2;
}

int main(int argc, char **argv) {
  enum others others = NO_OTHERS;
  bool listed = false;
  if (argc > 2 && strcmp(argv[1], "--type") == 0) complex_elements = argv[2][0] == 'z', argv += 2, argc -= 2;
  if (argc > 2 && strcmp(argv[1], "--pool") == 0) pool_doubles = (size_t)atol(argv[2]), argv += 2, argc -= 2;
  parts = complex_elements ? 2 : 1;
  open_gpu();
  printf("way, TFLOP/s of ours, of cuBLAS, ratio, predicted over measured time, errors\n");
  for (int i = 1; i < argc; i++) {
    char a, b;
    long m, n, k;
    if (strcmp(argv[i], "--tiles") == 0) {
      others = ALL_TILES;
    } else if (strcmp(argv[i], "--ways") == 0) {
      others = ALL_WAYS;
    } else if (strcmp(argv[i], "--cublas") == 0 && i + 1 < argc) {
      open_cublas(argv[++i]);
    } else if (strcmp(argv[i], "--ms") == 0 && i + 1 < argc) {
      budget_ms = atof(argv[++i]);
    } else if (strcmp(argv[i], "--group") == 0 && i + 1 < argc) {
      forced_group_k = atoi(argv[++i]);
    } else if (strcmp(argv[i], "--tile") == 0 && i + 1 < argc) {
      force_tile(argv[++i]);
    } else if (sscanf(argv[i], "%c%c:%ldx%ldx%ld", &a, &b, &m, &n, &k) == 5) {
      listed = true;
      measure(&(struct product){a == 'T', b == 'T', m, n, k}, others);
    } else {
      return usage();
    }
  }
  if (!listed) measure_list(others);
  if (ratios > 0) printf("%d ratios: geometric mean %.3f, least %.3f\n", ratios, exp(log_sum / ratios), least);
  close_gpu();
  return failed;
}
