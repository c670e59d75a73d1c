/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trsm and trmm through the library's own symbols: checked, and measured beside cuBLAS.
 *
 *   triangular_bench [--types sdcz] [--routines sm] [--variant LLNN] [--sides N] [--host] [--rounds N]
 *                    [--cublas libcublas.so.13] ORDER ...
 *
 * For each routine, type and order, B with as many columns (rows, on the right) as --sides says, or as A has: the least
 * time of a call on resident operands, or with --host from and to ordinary memory, and cuBLAS's in turns with it; flops
 * as BLAS counts them, n^3 and for complex types four times as many. The variant is side, triangle, transpose and
 * diagonal. The residual is |B - op(A) X| over |op(A)| |X|, of trmm |C - op(A) B| over |op(A)| |B|, the largest of some
 * lines of B, in units of 2^-24 or 2^-53. Nonzero status: a residual above n units, or an element that is none.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "blas/type.h"
#include "cuda/driver.h"
#include "../../bench/gpu.h"

#define SAMPLES 3

struct problem {
  enum tb_type type;
  bool solves, right, upper, unit;
  char trans;
  int order, m, n;
  size_t a_bytes, b_bytes;
  void *a, *b, *x; /* the host's: A, B, and what the call leaves */
  CUdeviceptr device_a, device_b;
};

static struct tb_gpu gpu;

/* ---- the library ---- */

#define ROUTINE(name, scalar) \
  void cblas_##name(int, int, int, int, int, int, int, scalar, const void *, int, void *, int);
ROUTINE(strsm, float)
ROUTINE(dtrsm, double)
ROUTINE(ctrsm, const void *)
ROUTINE(ztrsm, const void *)
ROUTINE(strmm, float)
ROUTINE(dtrmm, double)
ROUTINE(ctrmm, const void *)
ROUTINE(ztrmm, const void *)
int tileblas_option_set(const char *name, const char *value);

static void call_ours(const struct problem *p, const void *a, void *b) {
  static const float one_c[2] = {1, 0};
  static const double one_z[2] = {1, 0};
  const int side = p->right ? 142 : 141, uplo = p->upper ? 121 : 122, diag = p->unit ? 132 : 131;
  const int trans = p->trans == 'N' ? 111 : p->trans == 'T' ? 112 : 113;
#define CALL(letter, one)                                                                                \
  (p->solves ? cblas_##letter##trsm(102, side, uplo, trans, diag, p->m, p->n, one, a, p->order, b, p->m) \
             : cblas_##letter##trmm(102, side, uplo, trans, diag, p->m, p->n, one, a, p->order, b, p->m))
  if (p->type == TB_S) CALL(s, 1);
  if (p->type == TB_D) CALL(d, 1);
  if (p->type == TB_C) CALL(c, one_c);
  if (p->type == TB_Z) CALL(z, one_z);
#undef CALL
}

/* ---- cuBLAS, without its headers ---- */

static void *cublas, *cublas_library;

static void open_cublas(const char *path) {
  cublas_library = dlopen(path, RTLD_NOW);
  if (cublas_library == NULL) {
    fprintf(stderr, "no cuBLAS: %s\n", dlerror());
    return;
  }
  int (*create)(void **) = (int (*)(void **))dlsym(cublas_library, "cublasCreate_v2");
  if (create == NULL || create(&cublas) != 0) cublas = NULL;
}

/* trmm there writes to a matrix of its own, which may be B. */
static void call_cublas(const struct problem *p, CUdeviceptr a, CUdeviceptr b) {
  static const double one_z[2] = {1, 0};
  static const float one_c[2] = {1, 0};
  const void *one = tb_type_is_double(p->type) ? (const void *)one_z : one_c;
  char name[32];
  snprintf(name, sizeof name, "cublas%ctr%cm_v2", "SDCZ"[p->type], p -> solves ? 's' : 'm');
  void *function = dlsym(cublas_library, name);
  const int trans = p->trans == 'N' ? 0 : p->trans == 'T' ? 1 : 2;
  void *const at = (void *)(uintptr_t)a, *const bt = (void *)(uintptr_t)b;
  int status = -1;
  if (p->solves)
    status = ((int (*)(void *, int, int, int, int, int, int, const void *, void *, int, void *, int))function)(
        cublas, p->right, p->upper, trans, p->unit, p->m, p->n, one, at, p->order, bt, p->m);
  else
    status =
        ((int (*)(void *, int, int, int, int, int, int, const void *, void *, int, void *, int, void *, int))function)(
            cublas, p->right, p->upper, trans, p->unit, p->m, p->n, one, at, p->order, bt, p->m, bt, p->m);
  if (status != 0) fprintf(stderr, "%s: %d\n", name, status), exit(2);
  TB_GPU(cuStreamSynchronize(NULL));
}

/* ---- numbers ---- */

static uint64_t state = 88172645463325252u;
static double next_number(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (double)(state >> 11) * 0x1p-53 - 0.5;
}

static double part_of(enum tb_type type, const void *x, size_t at) {
  return tb_type_is_double(type) ? ((const double *)x)[at] : (double)((const float *)x)[at];
}
static void put(enum tb_type type, void *x, size_t at, double value) {
  if (tb_type_is_double(type))
    ((double *)x)[at] = value;
  else
    ((float *)x)[at] = (float)value;
}

/* A triangle whose solutions neither grow nor shrink much. */
static void fill(struct problem *p) {
  const size_t parts = (size_t)tb_type_parts(p->type), order = (size_t)p->order;
  for (size_t i = 0; i < p->a_bytes / (size_t)tb_type_bytes(tb_type_real(p->type)); i++)
    put(p->type, p->a, i, next_number() / (double)order);
  for (size_t i = 0; i < order; i++) put(p->type, p->a, parts * i * (order + 1), 1 + next_number() / 8);
  for (size_t i = 0; i < p->b_bytes / (size_t)tb_type_bytes(tb_type_real(p->type)); i++)
    put(p->type, p->b, i, next_number());
}

struct number {
  double re, im;
};
static struct number at(const struct problem *p, const void *x, size_t element) {
  const size_t parts = (size_t)tb_type_parts(p->type);
  return (struct number){part_of(p->type, x, parts * element),
                         parts == 2 ? part_of(p->type, x, parts * element + 1) : 0};
}

/* Element (i, j) of op(A); false: it is of the other triangle. */
static bool a_at(const struct problem *p, int i, int j, struct number *a) {
  const int row = p->trans == 'N' ? i : j, column = p->trans == 'N' ? j : i;
  if (p->upper ? row > column : row < column) return false;
  *a = at(p, p->a, (size_t)row + (size_t)column * (size_t)p->order);
  if (row == column && p->unit) *a = (struct number){1, 0};
  if (p->trans == 'C') a->im = -a->im;
  return true;
}

/* Of an element of B, or of C. */
static double residual_of(const struct problem *p, int i, int j) {
  const void *const of = p->solves ? p->x : p->b, *const want = p->solves ? p->b : p->x;
  struct number wanted = at(p, want, (size_t)i + (size_t)j * (size_t)p->m), a;
  long double re = -wanted.re, im = -wanted.im;
  double size = 0;
  for (int l = 0; l < p->order; l++) {
    if (!(p->right ? a_at(p, l, j, &a) : a_at(p, i, l, &a))) continue;
    const struct number x =
        at(p, of, p->right ? (size_t)i + (size_t)l * (size_t)p->m : (size_t)l + (size_t)j * (size_t)p->m);
    re += (long double)a.re * x.re - (long double)a.im * x.im;
    im += (long double)a.re * x.im + (long double)a.im * x.re;
    size += (fabs(a.re) + fabs(a.im)) * (fabs(x.re) + fabs(x.im));
  }
  return (double)(fabsl(re) + fabsl(im)) / size * (tb_type_is_double(p->type) ? 0x1p53 : 0x1p24);
}

static double residual(const struct problem *p) {
  double worst = 0;
  const int sides = p->right ? p->m : p->n, step = p->order > 2048 ? p->order / 1024 : 1;
  for (int s = 0; s < SAMPLES; s++)
    for (int l = s; l < p->order; l += step) {
      const int side = s == 0 ? 0 : s == 1 ? sides - 1 : sides / 2;
      const double error = p->right ? residual_of(p, side, l) : residual_of(p, l, side);
      if (!(error <= worst)) worst = error;
    }
  return worst;
}

/* ---- measuring ---- */

/* Of one call by ours or cuBLAS, seconds. */
static double time_call(struct problem *p, bool ours, bool host) {
  if (host)
    memcpy(p->x, p->b, p->b_bytes);
  else
    tb_gpu_upload(&gpu, p->device_b, p->b, p->b_bytes);
  const double begun = tb_clock_seconds();
  if (!ours)
    call_cublas(p, p->device_a, p->device_b);
  else if (host)
    call_ours(p, p->a, p->x);
  else
    call_ours(p, (const void *)(uintptr_t)p->device_a, (void *)(uintptr_t)p->device_b);
  const double seconds = tb_clock_seconds() - begun;
  if (!host) tb_gpu_download(&gpu, p->x, p->device_b, p->b_bytes);
  return seconds;
}

static void *allocate(size_t bytes) {
  void *x = malloc(bytes);
  if (x == NULL) fprintf(stderr, "no memory\n"), exit(2);
  return x;
}

static bool measure(struct problem *p, bool host, int rounds) {
  const double flops = (tb_type_is_complex(p->type) ? 4 : 1) * (double)p->m * (double)p->n * p->order;
  double best[2] = {INFINITY, INFINITY}, error[2] = {0, 0};
  p->a_bytes = (size_t)p->order * (size_t)p->order * (size_t)tb_type_bytes(p->type);
  p->b_bytes = (size_t)p->m * (size_t)p->n * (size_t)tb_type_bytes(p->type);
  p->a = allocate(p->a_bytes), p->b = allocate(p->b_bytes), p->x = allocate(p->b_bytes);
  fill(p);
  if (!host) p->device_a = tb_gpu_alloc(p->a_bytes), p->device_b = tb_gpu_alloc(p->b_bytes);
  if (!host) tb_gpu_upload(&gpu, p->device_a, p->a, p->a_bytes);
  for (int ours = 1; ours >= (host || cublas == NULL); ours--) {
    for (int r = 0; r < rounds; r++) best[ours] = fmin(best[ours], time_call(p, ours, host));
    error[ours] = residual(p);
  }
  printf("%c tr%cm %c%c%c%c order %6d, B %6d x %6d: ours %9.3f ms %7.2f TFLOP/s, residual %.2f u",
         tb_type_letter(p->type), p->solves ? 's' : 'm', "LR"[p->right], "LU"[p->upper], p -> trans, "NU"[p->unit],
         p -> order, p -> m, p -> n, best[1] * 1e3, flops / best[1] * 1e-12, error[1]);
  if (isfinite(best[0]))
    printf("; cuBLAS %9.3f ms %7.2f TFLOP/s, residual %.2f u; ratio %.3f", best[0] * 1e3, flops / best[0] * 1e-12,
           error[0], best[0] / best[1]);
  printf("\n");
  fflush(stdout);
  if (!host) tb_gpu_free(p->device_a), tb_gpu_free(p->device_b);
  free(p->a), free(p->b), free(p->x);
  return error[1] <= p->order + 8;
}

int main(int argc, char **argv) {
  const char *types = "sdcz", *routines = "sm", *variant = "LLNN";
  bool host = false, right = true;
  int rounds = 5, sides = 0;
  gpu = tb_gpu_open(0);
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  for (int i = 1; i < argc; i++) {
    const bool more = i + 1 < argc;
    if (more && strcmp(argv[i], "--types") == 0)
      types = argv[++i];
    else if (more && strcmp(argv[i], "--routines") == 0)
      routines = argv[++i];
    else if (more && strcmp(argv[i], "--variant") == 0 && strlen(argv[i + 1]) == 4)
      variant = argv[++i];
    else if (more && strcmp(argv[i], "--sides") == 0)
      sides = atoi(argv[++i]);
    else if (more && strcmp(argv[i], "--rounds") == 0)
      rounds = atoi(argv[++i]);
    else if (more && strcmp(argv[i], "--cublas") == 0)
      open_cublas(argv[++i]);
    else if (strcmp(argv[i], "--host") == 0)
      host = true;
    else if (atoi(argv[i]) <= 0)
      return fprintf(stderr, "what is %s?\n", argv[i]), 2;
    else
      for (const char *routine = routines; *routine; routine++)
        for (const char *type = types; *type; type++) {
          const int order = atoi(argv[i]), others = sides > 0 ? sides : order;
          struct problem p = {.solves = *routine == 's', .order = order};
          p.type = (enum tb_type)(strchr("sdcz", *type) - "sdcz");
          p.right = variant[0] == 'R', p.upper = variant[1] == 'U', p.trans = variant[2], p.unit = variant[3] == 'U';
          p.m = p.right ? others : order, p.n = p.right ? order : others;
          right &= measure(&p, host, rounds);
        }
  }
  tb_gpu_close(&gpu);
  return right ? 0 : 1;
}
