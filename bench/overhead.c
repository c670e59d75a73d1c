/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a small call costs: the same product again and again through one symbol, in a program that is linked with
 * OpenBLAS and knows nothing of GPUs. Whoever owns the symbol at run time answers; without and with TileBLAS preloaded,
 * the difference is TileBLAS's own.
 *
 *   overhead [--symbol cblas_sgemm|sgemm_] [--row] [--trans XY] [--where heap|static|mapped] [--cuda] [--calls N] SIDE
 *
 *   --row      a row-major call (cblas_sgemm alone)
 *   --trans    N or T for A and for B
 *   --where    the operands lie in malloc's heap, in the program's own variables, or in pages of their own
 *   --cuda     the program has opened CUDA before, with the primary context of device 0
 *   --calls N  makes N calls and prints nothing, for a tool that counts instructions; otherwise prints the median
 *              time of a call in nanoseconds
 *
 * Status 77: there is no CUDA driver to open.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "data.h"

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
            const int *, const float *, const int *, const float *, float *, const int *);
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
enum { ROW_MAJOR = 101, COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112 }; /* as cblas.h numbers them */

enum { SIDE_MAX = 512, ELEMS = SIDE_MAX * SIDE_MAX, BATCHES = 101, SKIPPED = 77 };
static const double batch_seconds = 1e-3;

struct settings {
  bool fortran, row_major, cuda;
  char trans_a, trans_b;
  const char *where;
  long calls; /* 0: measure the time */
  int side;
};

static float own[3 * ELEMS];

static float *operands(const char *where) {
  if (strcmp(where, "static") == 0) return own;
  mallopt(M_MMAP_THRESHOLD, (int)sizeof own * 2); /* this much comes from the heap */
  if (strcmp(where, "heap") == 0) return tb_alloc(3 * ELEMS);
  void *pages = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (strcmp(where, "mapped") == 0 && pages != MAP_FAILED) return pages;
  fprintf(stderr, "overhead: no memory of the kind %s\n", where);
  exit(2);
}

static void call_often(const struct settings *s, const float *a, const float *b, float *c, long calls) {
  const float one = 1, zero = 0;
  const int n = s->side;
  for (long i = 0; i < calls; i++) {
    if (s->fortran)
      sgemm_(&s->trans_a, &s->trans_b, &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    else
      cblas_sgemm(s->row_major ? ROW_MAJOR : COL_MAJOR, s->trans_a == 'N' ? NO_TRANS : TRANS,
                  s->trans_b == 'N' ? NO_TRANS : TRANS, n, n, n, one, a, n, b, n, zero, c, n);
  }
}

/* By the functions' names, for this program is built without CUDA, too. */
static void open_cuda(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context;
  void *functions[] = {library ? dlsym(library, "cuInit") : NULL,
                       library ? dlsym(library, "cuDevicePrimaryCtxRetain") : NULL};
  int (*init)(unsigned), (*retain)(void **, int);
  memcpy(&init, &functions[0], sizeof init);
  memcpy(&retain, &functions[1], sizeof retain);
  if (init && retain && init(0) == 0 && retain(&context, 0) == 0) return;
  printf("no CUDA driver to open\n");
  exit(SKIPPED);
}

static void print_time(const struct settings *s, const float *a, const float *b, float *c) {
  double ns[BATCHES];
  long calls = 1;
  for (double seconds = 0; seconds < batch_seconds; calls *= 2) { /* also warms everything up */
    double start = tb_now_s();
    call_often(s, a, b, c, calls);
    seconds = tb_now_s() - start;
  }
  for (int i = 0; i < BATCHES; i++) {
    double start = tb_now_s();
    call_often(s, a, b, c, calls);
    ns[i] = (tb_now_s() - start) * 1e9 / (double)calls;
  }
  printf("%.1f\n", tb_median(ns, BATCHES));
}

static void parse(struct settings *s, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--row") == 0)
      s->row_major = true;
    else if (strcmp(argv[i], "--cuda") == 0)
      s->cuda = true;
    else if (strcmp(argv[i], "--symbol") == 0)
      s->fortran = strcmp(value, "sgemm_") == 0, i++;
    else if (strcmp(argv[i], "--trans") == 0 && strlen(value) == 2)
      s->trans_a = value[0], s->trans_b = value[1], i++;
    else if (strcmp(argv[i], "--where") == 0)
      s->where = value, i++;
    else if (strcmp(argv[i], "--calls") == 0)
      s->calls = atol(value), i++;
    else
      s->side = atoi(argv[i]);
  }
  if (s->side >= 1 && s->side <= SIDE_MAX) return;
  fprintf(stderr, "usage: overhead [options at the top of overhead.c] SIDE, at most %d\n", SIDE_MAX);
  exit(2);
}

int main(int argc, char **argv) {
  struct settings s = {.trans_a = 'N', .trans_b = 'N', .where = "heap"};
  parse(&s, argc, argv);
  float *a = operands(s.where), *b = a + ELEMS, *c = b + ELEMS;
  tb_data_fill(a, SIDE_MAX, SIDE_MAX, TB_UNIFORM, TB_OPERAND_A, 1);
  tb_data_fill(b, SIDE_MAX, SIDE_MAX, TB_UNIFORM, TB_OPERAND_B, 2);
  if (s.cuda) open_cuda();
  if (s.calls > 0)
    call_often(&s, a, b, c, s.calls);
  else
    print_time(&s, a, b, c);
  return EXIT_SUCCESS;
}
