/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with 64-bit integers, whose BLAS is preloaded: products of 3 x 1 x 1 with leading dimensions that 32 bits
 * cut to 0, through sgemm_ and, where there is one, cblas_sgemm. Or, with an argument, one with 32-bit integers which
 * leaves anything in the upper halves of its arguments. Prints "right" for each call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void fortran(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const float *,
                     const float *, const int64_t *, const float *, const int64_t *, const float *, float *,
                     const int64_t *, size_t, size_t);
typedef void cblas(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                   float, float *, int64_t);

static void *find(const char *name) { return dlsym(RTLD_DEFAULT, name); }

static const float a[3] = {1, 2, 3}, b[1] = {2}, one = 1, none;

static void judge(const char *name, const float c[3]) {
  printf("%s %s\n", name, c[0] == 2 && c[1] == 4 && c[2] == 6 ? "right" : "wrong");
}

static void call_cblas(int64_t upper, int64_t ld) {
  float c[3] = {0};
  cblas *function = (cblas *)find("cblas_sgemm");
  if (function == NULL) return;
  function(102, 111, 111, upper | 3, upper | 1, upper | 1, 1, a, ld, b, ld, 0, c, ld);
  judge("cblas_sgemm", c);
}

static void call_fortran(int64_t ld) {
  const int64_t m = 3, n = 1, k = 1;
  float c[3] = {0};
  ((fortran *)find("sgemm_"))("N", "N", &m, &n, &k, &one, a, &ld, b, &ld, &none, c, &ld, 1, 1);
  judge("sgemm_", c);
}

int main(int argc, char **argv) {
  (void)argv;
  const int64_t upper = (int64_t)0x5a5a5a5a << 32;
  for (int i = 0; i < 3; i++) /* the long way first */
    if (argc > 1) {
      call_cblas(upper, upper | 3);
    } else {
      call_fortran((int64_t)1 << 32);
      call_cblas(0, (int64_t)1 << 32);
      call_fortran(3);
      call_cblas(0, 3);
    }
  return 0;
}
