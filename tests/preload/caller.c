/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that calls sgemm, cgemm3m or zgemm3m through names given to it, for tests of what stands behind a name. It
 * prints one line a call, "NAME ok" or "NAME wrong", and exits with 1 after a wrong one. Arguments, in the order in
 * which they are obeyed:
 *
 *   local:PATH   dlopen with RTLD_LOCAL, as Python loads an extension module
 *   global:PATH  dlopen with RTLD_GLOBAL
 *   fallback:PATH  sets TILEBLAS_FALLBACK by tileblas_option_set
 *   times:N      how often each following name is called; 1 to begin with
 *   threads:N    in how many threads at once; 1 to begin with
 *   wide:1       a plain name of cgemm3m or zgemm3m gets integers that need 64 bits
 *   loaded:PART  prints "loaded PART" or "not loaded PART": whether a library whose path contains PART is in the
 * process
 *   NAME         finds the symbol as the program would, and calls it
 */
#define _GNU_SOURCE
#include <complex.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "abi.h"

static int times = 1, threads = 1, wide, wrong;

static void open_library(const char *path, int flags) {
  if (!dlopen(path, RTLD_NOW | flags)) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
}

static void set_fallback(const char *path) {
  int (*set)(const char *, const char *);
  *(void **)&set = dlsym(RTLD_DEFAULT, "tileblas_option_set");
  if (!set || set("TILEBLAS_FALLBACK", path) != 0) exit(2);
}

static void print_loaded(const char *part) {
  char *maps = tst_read_file("/proc/self/maps");
  printf("%sloaded %s\n", strstr(maps, part) ? "" : "not ", part);
  free(maps);
}

/* C (2 x 2) = 2 A (2 x 3) B (3 x 2) + 3 C in whole numbers, column-major. */
static int call_is_right(const struct tst_symbol *symbol) {
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, -1, 2, 1, 1},
              right[] = {2 * -4 + 3, 2 * -4 + 6, 2 * 10 + 9, 2 * 14 + 12};
  float c[] = {1, 2, 3, 4};
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = 2, .n = 2, .k = 3, .alpha = 2, .beta = 3};
  p.lda = 2, p.ldb = 3, p.ldc = 2;
  tst_call(symbol, tst_resolve(symbol), &p, a, b, c);
  return memcmp(c, right, sizeof c) == 0;
}

/* ---- complex ones ---- */

typedef void cblas_function(int, int, int, int64_t, int64_t, int64_t, const void *, const void *, int64_t, const void *,
                            int64_t, const void *, void *, int64_t);
typedef void fortran_function(const char *, const char *, const int64_t *, const int64_t *, const int64_t *,
                              const void *, const void *, const int64_t *, const void *, const int64_t *, const void *,
                              void *, const int64_t *, size_t, size_t);

/* As floats, where the name is not z's. */
static void round_to_type(const char *name, const double complex *x, int count, void *y) {
  if (strstr(name, "zgemm"))
    memcpy(y, x, (size_t)count * sizeof *x);
  else
    for (int i = 0; i < count; i++) ((float complex *)y)[i] = (float complex)x[i];
}

/* C (2 x 1) = (2 + i) A (2 x 3) B (3 x 1) + 3 C in whole numbers. B and C have one column: any leading dimension that
 * is long enough will do. Integers are passed with 64 bits, of which a function of 32 looks at the lower half. */
static int complex_call_is_right(const char *name) {
  const double complex a[] = {1, I, 2 - I, 3, 1 + I, -2}, b[] = {1 - I, 2, 3 * I}, c[] = {4, 5 * I},
                       scalar[] = {2 + I, 3};
  double complex x[6], y[3], z[2], factors[2], right[2], rounded[2];
  const int64_t m = 2, n = 1, k = 3, lda = 2, ld = wide ? (int64_t)1 << 32 : 3;
  void *function = dlsym(RTLD_DEFAULT, name);
  if (!function) exit(2);
  for (int i = 0; i < 2; i++) right[i] = scalar[0] * (a[i] * b[0] + a[i + 2] * b[1] + a[i + 4] * b[2]) + 3 * c[i];
  round_to_type(name, right, 2, rounded);
  round_to_type(name, a, 6, x), round_to_type(name, b, 3, y), round_to_type(name, c, 2, z);
  round_to_type(name, scalar, 2, factors);
  const char *beta = (const char *)factors + (strstr(name, "zgemm") ? sizeof(double complex) : sizeof(float complex));
  if (strstr(name, "cblas"))
    ((cblas_function *)function)(102, 111, 111, m, n, k, factors, x, lda, y, ld, beta, z, ld);
  else
    ((fortran_function *)function)("N", "N", &m, &n, &k, factors, x, &lda, y, &ld, beta, z, &ld, 1, 1);
  return memcmp(z, rounded, 2 * (size_t)(beta - (const char *)factors)) == 0;
}

static void *call_times(void *name) {
  const struct tst_symbol *symbol = strstr(name, "gemm3m") ? NULL : tst_find_symbol(name);
  for (int i = 0; i < times; i++) {
    int right = symbol ? call_is_right(symbol) : complex_call_is_right(name);
    printf("%s %s\n", (const char *)name, right ? "ok" : "wrong");
    if (!right) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void call_name(char *name) {
  pthread_t ids[64];
  for (int i = 0; i < threads; i++)
    if (pthread_create(&ids[i], NULL, call_times, name) != 0) abort();
  for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *colon = strchr(argv[i], ':'), *value = colon ? colon + 1 : NULL;
    if (!colon)
      call_name(argv[i]);
    else if (strncmp(argv[i], "local:", 6) == 0)
      open_library(value, RTLD_LOCAL);
    else if (strncmp(argv[i], "global:", 7) == 0)
      open_library(value, RTLD_GLOBAL);
    else if (strncmp(argv[i], "fallback:", 9) == 0)
      set_fallback(value);
    else if (strncmp(argv[i], "times:", 6) == 0)
      times = atoi(value);
    else if (strncmp(argv[i], "threads:", 8) == 0)
      threads = atoi(value);
    else if (strncmp(argv[i], "wide:", 5) == 0)
      wide = atoi(value);
    else if (strncmp(argv[i], "loaded:", 7) == 0)
      print_loaded(value);
    else
      return 2;
  }
  return wrong;
}
