/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many small products by one call, from plain malloc'd memory: cblas_?gemm_batch_strided on the GPU, beside the same
 * products in a loop of OpenBLAS's gemm calls on all cores.
 *
 *   batch [--csv FILE] [--products N] [--types sd] [--sizes N,N...] [--rounds N] [--apart]
 *
 * --apart: each matrix in memory of its own, by cblas_?gemm_batch. Linked with OpenBLAS and run with TileBLAS
 * preloaded, which is forced to the GPU for its part. Every result is compared with OpenBLAS's. Status 1: a wrong
 * result or a failure; 77: no GPU answers.
 */
#include "data.h"
#include "sides.h"

#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, ROUNDS_MAX = 51, SIZES_MAX = 16, COL_MAJOR = 102, NO_TRANS = 111 };

struct batch {
  enum tb_type type;
  int n, products;
  bool apart;
  char *a, *b, *c, *expected;
  const void **at[3]; /* the matrices, for --apart */
  size_t matrix_bytes;
};

static struct batch make(enum tb_type type, int n, int products, bool apart) {
  struct batch x = {.type = type, .n = n, .products = products, .apart = apart};
  x.matrix_bytes = (size_t)n * (size_t)n * (size_t)tb_type_bytes(type);
  char **const all[] = {&x.a, &x.b, &x.c, &x.expected};
  for (int i = 0; i < 4; i++) *all[i] = malloc(x.matrix_bytes * (size_t)products);
  for (int i = 0; i < 3; i++) x.at[i] = malloc((size_t)products * sizeof *x.at[i]);
  const size_t numbers = (size_t)n * (size_t)n * (size_t)products * (size_t)tb_type_parts(type);
  for (int i = 0; i < 2; i++) {
    uint64_t random = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
    for (size_t j = 0; j < numbers; j++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const double value = (double)(random >> 11) * 0x1p-53 - 0.5;
      if (tb_type_is_double(type))
        ((double *)*all[i])[j] = value;
      else
        ((float *)*all[i])[j] = (float)value;
    }
  }
  for (int i = 0; i < 3; i++)
    for (int p = 0; p < products; p++) x.at[i][p] = *all[i] + x.matrix_bytes * (size_t)p;
  memset(x.c, 0xff, x.matrix_bytes * (size_t)products); /* NaN */
  return x;
}

static void destroy(struct batch *x) {
  for (int i = 0; i < 3; i++) free(x->at[i]);
  free(x->a);
  free(x->b);
  free(x->c);
  free(x->expected);
}

/* ---- both sides ---- */

static void by_loop(const struct batch *x) {
  for (int p = 0; p < x->products; p++)
    tb_openblas("N", "N", &x->n, &x->n, &x->n, tb_one(x->type), x->at[0][p], &x->n, x->at[1][p], &x->n,
                tb_zero(x->type), x->expected + x->matrix_bytes * (size_t)p, &x->n);
}

typedef void groups(int, const int *, const int *, const int *, const int *, const int *, const void *,
                    const void *const *, const int *, const void *const *, const int *, const void *,
                    const void *const *, const int *, int, const int *);
#define STRIDED(scalar)                                                                                               \
  void (*)(int, int, int, int, int, int, scalar, const void *, int, int, const void *, int, int, scalar, void *, int, \
           int, int)

static void by_batch(const struct batch *x) {
  char name[40];
  const int n = x->n, square = n * n, none = NO_TRANS;
  snprintf(name, sizeof name, "cblas_%cgemm_batch%s", tb_type_letter(x->type), x->apart ? "" : "_strided");
  void *const function = dlsym(RTLD_DEFAULT, name);
  if (x->apart)
    ((groups *)function)(COL_MAJOR, &none, &none, &n, &n, &n, tb_one(x->type), x->at[0], &n, x->at[1], &n,
                         tb_zero(x->type), x->at[2], &n, 1, &x->products);
  else if (x->type == TB_S)
    ((STRIDED(float))function)(COL_MAJOR, none, none, n, n, n, 1, x->a, n, square, x->b, n, square, 0, x->c, n, square,
                               x->products);
  else if (x->type == TB_D)
    ((STRIDED(double))function)(COL_MAJOR, none, none, n, n, n, 1, x->a, n, square, x->b, n, square, 0, x->c, n, square,
                                x->products);
  else
    ((STRIDED(const void *))function)(COL_MAJOR, none, none, n, n, n, tb_one(x->type), x->a, n, square, x->b, n, square,
                                      tb_zero(x->type), x->c, n, square, x->products);
}

static double median_s(void (*side)(const struct batch *), const struct batch *x, int rounds) {
  double took[ROUNDS_MAX];
  side(x); /* the first one pays for threads and memory */
  for (int round = 0; round < rounds; round++) {
    const double begun = tb_now_s();
    side(x);
    took[round] = tb_now_s() - begun;
  }
  return tb_median(took, rounds);
}

/* Either is within the bound of a sum of n terms below 1/4. */
static bool is_right(const struct batch *x) {
  const size_t numbers = x->matrix_bytes * (size_t)x->products / (tb_type_is_double(x->type) ? 8 : 4);
  const double bound = 2 * (x->n + 2.0) * x->n * (tb_type_is_double(x->type) ? 0x1p-53 : 0x1p-24);
  for (size_t i = 0; i < numbers; i++) {
    const double got = tb_type_is_double(x->type) ? ((double *)x->c)[i] : (double)((float *)x->c)[i];
    const double want = tb_type_is_double(x->type) ? ((double *)x->expected)[i] : (double)((float *)x->expected)[i];
    if (!(fabs(got - want) <= bound)) return false;
  }
  return true;
}

static bool measure(FILE *csv, enum tb_type type, int n, int products, bool apart, int rounds) {
  tb_sides_find(type);
  struct batch x = make(type, n, products, apart);
  const double loop_s = median_s(by_loop, &x, rounds);
  const uint64_t before = tb_sides_gpu_calls();
  const double batch_s = median_s(by_batch, &x, rounds);
  const bool on_gpu = tb_sides_gpu_calls() > before, right = is_right(&x);
  const double up = 2e-9 * (double)x.matrix_bytes * products, down = up / 2;
  destroy(&x);
  if (!on_gpu) return fprintf(stderr, "%c %d: no GPU answered\n", tb_type_letter(type), n), false;
  if (!right) return fprintf(stderr, "%c %d: WRONG RESULT\n", tb_type_letter(type), n), false;
  printf("%c %5d cubed x %d  batch %9.3f ms  loop of OpenBLAS %9.3f ms  %.2f times  up %.1f GB/s\n",
         tb_type_letter(type), n, products, batch_s * 1e3, loop_s * 1e3, loop_s / batch_s, up / batch_s);
  if (csv)
    fprintf(csv, "%c,%d,%d,%d,%.9f,%.9f,%.6f,%.6f\n", tb_type_letter(type), n, products, apart, batch_s, loop_s, up,
            down);
  return true;
}

static int parse_sizes(const char *text, int sizes[SIZES_MAX]) {
  int count = 0;
  for (const char *at = text; at && *at && count < SIZES_MAX; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    sizes[count++] = atoi(at);
  return count;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"csv", 1, 0, 'c'},   {"products", 1, 0, 'p'}, {"types", 1, 0, 't'},
                                          {"sizes", 1, 0, 's'}, {"rounds", 1, 0, 'r'},   {"apart", 0, 0, 'a'},
                                          {0, 0, 0, 0}};
  const char *path = NULL, *types = "sd";
  int products = 10000, rounds = 7, sizes[SIZES_MAX] = {32, 64, 128, 256}, count = 4;
  bool apart = false;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == '?') return 2;
    if (o == 'c') path = optarg;
    if (o == 'p') products = atoi(optarg);
    if (o == 't') types = optarg;
    if (o == 's') count = parse_sizes(optarg, sizes);
    if (o == 'r') rounds = atoi(optarg);
    if (o == 'a') apart = true;
  }
  if (products < 1 || rounds < 1 || rounds > ROUNDS_MAX) return 2;
  tb_sides_find(TB_S);
  tb_sides_route("gpu");
  FILE *csv = path ? fopen(path, "w") : NULL;
  if (path && !csv) return perror(path), EXIT_FAILURE;
  if (csv) fprintf(csv, "type,n,products,apart,batch_s,loop_s,up_gb,down_gb\n");
  bool right = true;
  for (const char *letter = types; *letter; letter++) {
    enum tb_type type;
    const char one[] = {*letter, '\0'};
    if (!tb_type_parse(one, &type)) return 2;
    for (int i = 0; i < count; i++) right = measure(csv, type, sizes[i], products, apart, rounds) && right;
  }
  if (csv && fclose(csv) != 0) return perror(path), EXIT_FAILURE;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
