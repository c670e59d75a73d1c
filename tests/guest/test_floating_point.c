/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No call of ours raises a floating-point flag or traps, whatever it has to decide, measure or compute; the caller's
 * rounding mode and flush-to-zero come back as they were, and change no bit of a GPU's result. A product that the CPU
 * BLAS answers is computed in the caller's environment: what that raises or rounds is as without the library. errno,
 * too, is the caller's.
 *
 * Seen to fail when: the environment is not held on the long way, or not for doubles or complex numbers; the selector
 * divides 0 by 0 there; commits round as the caller does; the CPU BLAS is called in our environment; x87 flags or an
 * errno that code behind us left stay.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "guest.h"
#include "process.h"
#include "rng.h"
#include "tileblas.h"

#define FLUSH_AND_ZERO 0x8040u /* of MXCSR: FTZ and DAZ */

static const int sizes[] = {8, 100, 200, 301};
enum { SIZES = sizeof sizes / sizeof *sizes, SIDE = 301 };
static const char *const routes[] = {"gpu", "auto", "cpu"};

static unsigned x87_control(void) {
  unsigned short word;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  return word;
}

/* Whole numbers, exact on any side: nothing is inexact but what is ours. */
static int raises_nothing(void) {
  for (int r = 0; r < 3; r++) {
    tileblas_option_set("TILEBLAS_ROUTE", routes[r]);
    for (int i = 0; i < SIZES; i++) {
      float *memory = malloc(3 * sizeof(float) * (size_t)(sizes[i] * sizes[i]));
      tst_guest_fill(memory, sizes[i]);
      feclearexcept(FE_ALL_EXCEPT);
      for (int call = 0; call < 3; call++) {
        tst_guest_call(memory, sizes[i], 0);
        if (fetestexcept(FE_ALL_EXCEPT)) {
          printf("route %s, size %d, call %d: flags %x\n", routes[r], sizes[i], call, fetestexcept(FE_ALL_EXCEPT));
          return 2;
        }
      }
      if (!tst_guest_is_right(memory, sizes[i], 0)) return 3;
      free(memory);
    }
  }
  return tst_guest_expects_gpu() && tst_guest_gpu_calls() == 0 ? 4 : 0;
}

void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc);
void cblas_zgemm(int layout, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                 const void *b, int ldb, const void *beta, void *c, int ldc);

/* n x n of 1, or of 1 + i, times the same: n, or 2 n i. */
static bool doubles_are_right(bool with_i, int n) {
  const size_t size = (size_t)n * (size_t)n;
  const double one[2] = {1, 0}, zero[2] = {0, 0};
  double *memory = malloc(6 * sizeof(double) * size), *c = memory + 4 * size;
  for (size_t i = 0; i < 6 * size; i++) memory[i] = 1;
  if (with_i)
    cblas_zgemm(102, 111, 111, n, n, n, one, memory, n, memory + 2 * size, n, zero, c, n);
  else
    cblas_dgemm(102, 111, 111, n, n, n, 1, memory, n, memory + 2 * size, n, 0, c, n);
  bool right = true;
  for (size_t i = 0; i < size; i++) right = right && (with_i ? c[2 * i] == 0 && c[2 * i + 1] == 2 * n : c[i] == n);
  free(memory);
  return right;
}

/* The same, of doubles and complex doubles. */
static int doubles_raise_nothing(void) {
  for (int kind = 0; kind < 2 * 3 * SIZES; kind++) {
    const int size = sizes[kind / 6], with_i = kind / 3 % 2;
    if (size == SIDE) continue; /* more work, and nothing else */
    tileblas_option_set("TILEBLAS_ROUTE", routes[kind % 3]);
    feclearexcept(FE_ALL_EXCEPT);
    for (int call = 0; call < 3; call++) {
      if (!doubles_are_right(with_i, size)) return 2;
      if (!fetestexcept(FE_ALL_EXCEPT)) continue;
      printf("%c, route %s, size %d: flags %x\n", "dz"[with_i], routes[kind % 3], size, fetestexcept(FE_ALL_EXCEPT));
      return 3;
    }
  }
  return tst_guest_expects_gpu() && tst_guest_gpu_calls() == 0 ? 4 : 0;
}

static int traps_nothing(void) {
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
  const unsigned control = _mm_getcsr(), word = x87_control();
  if (raises_nothing() != 0 || doubles_raise_nothing() != 0) return 2;
  return _mm_getcsr() == control && x87_control() == word ? 0 : 3;
}

static void fill_random(float *x, size_t count) {
  uint64_t rng = 1;
  for (size_t i = 0; i < count; i++)
    x[i] = ((float)tst_random_below(&rng, 2000001) - 1000000) * (i % 97 == 0 ? 1e-40f : 1e-6f);
}

/* The bits of a product with beta = 1/3, whose commit rounds. */
static bool has_bits(const float *memory, const float *expected, unsigned control, bool x87_too) {
  static float own[3 * SIDE * SIDE];
  memcpy(own, memory, sizeof own);
  if (x87_too) fesetround(control & 0x2000 ? FE_DOWNWARD : FE_UPWARD);
  _mm_setcsr(control);
  const unsigned word = x87_control();
  tst_guest_call(own, SIDE, 1.0f / 3);
  const bool kept = (_mm_getcsr() & ~0x3fu) == (control & ~0x3fu) && x87_control() == word;
  fesetenv(FE_DFL_ENV);
  if (!kept) printf("control %x came back another\n", control);
  return kept && memcmp(own, expected, sizeof own) == 0;
}

static int changes_no_bits(void) {
  static const unsigned modes[] = {0x2000, 0x4000, 0x6000, FLUSH_AND_ZERO, FLUSH_AND_ZERO | 0x4000};
  static float memory[3 * SIDE * SIDE], expected[3 * SIDE * SIDE];
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  fill_random(memory, 3 * SIDE * SIDE);
  memcpy(expected, memory, sizeof memory);
  tst_guest_call(expected, SIDE, 1.0f / 3);
  if (!tst_guest_expects_gpu()) return 0;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (!has_bits(memory, expected, 0x1f80 | modes[i], i < 2)) {
      printf("mode %x\n", modes[i]);
      return 2;
    }
  return tst_guest_gpu_calls() == 6 ? 0 : 3;
}

/* The CPU BLAS rounds as the caller does, and raises the caller's flags: 1 + 2^-30 upwards; Inf - Inf. */
static int cpu_has_the_callers(void) {
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  float x[3] = {1, 0x1p-30f, 1};
  for (int call = 0; call < 3; call++) {
    x[2] = 1;
    fesetround(FE_UPWARD);
    tst_guest_call(x, 1, 1);
    const bool up = x[2] > 1;
    fesetround(FE_TONEAREST);
    feclearexcept(FE_ALL_EXCEPT);
    float inf[3] = {__builtin_inff(), 1, -__builtin_inff()};
    tst_guest_call(inf, 1, 1);
    if (!up || !fetestexcept(FE_INVALID)) return 2;
  }
  return 0;
}

/* Of what the data of the program does to a GPU nobody raises a flag. */
static int gpu_raises_none(void) {
  float inf[3] = {__builtin_inff(), 0, 1};
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  feclearexcept(FE_ALL_EXCEPT);
  tst_guest_call(inf, 1, 1);
  if (!(inf[2] != inf[2])) return 2;
  return tst_guest_expects_gpu() && fetestexcept(FE_ALL_EXCEPT) ? 3 : 0;
}

/* The library's clock, too: a program's own definition comes first. Armed, it divides by zero as x87 code of a driver's
 * or a library's may, to see that nothing of it is left. */
static _Thread_local bool clock_divides;
int clock_gettime(clockid_t clock, struct timespec *t) {
  if (clock_divides) __asm__ volatile("fld1\n\tfldz\n\tfdivrp\n\tfstp %%st(0)" : : : "st", "st(1)");
  return (int)syscall(SYS_clock_gettime, clock, t);
}

static bool x87_comes_back(int raised, unsigned traps) {
  float memory[3 * 40 * 40];
  tst_guest_fill(memory, 40);
  feclearexcept(FE_ALL_EXCEPT);
  if (raised) feraiseexcept(raised);
  feenableexcept((int)traps);
  const unsigned word = x87_control();
  clock_divides = true;
  tst_guest_call(memory, 40, 0);
  clock_divides = false;
  const bool same = fetestexcept(FE_ALL_EXCEPT) == raised && x87_control() == word;
  fedisableexcept(FE_ALL_EXCEPT);
  if (!same) printf("flags %x before: %x\n", raised, fetestexcept(FE_ALL_EXCEPT));
  return same && tst_guest_is_right(memory, 40, 0);
}

/* A caller with flags of its own, one without, and one that traps. */
static int x87_flags_are_forgotten(void) {
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (!tst_guest_expects_gpu() || !tst_guest_product(40)) return tst_guest_expects_gpu();
  for (int i = 0; i < 2; i++)
    if (!x87_comes_back(0, 0) || !x87_comes_back(FE_INEXACT, 0) || !x87_comes_back(0, FE_DIVBYZERO)) return 2;
  return 0;
}

/* Whether pages of a result are there cannot be told: as where the system has not that call. */
static int told;
int mincore(void *start, size_t bytes, unsigned char *there) {
  (void)start, (void)bytes, (void)there;
  told++;
  errno = ENOSYS;
  return -1;
}

static int errno_comes_back(void) {
  enum { LARGE = 520 }; /* C of more than 1 MiB */
  float *const memory = malloc(3 * sizeof(float) * LARGE * LARGE);
  tst_guest_fill(memory, LARGE);
  for (int r = 0; r < 3; r++) {
    tileblas_option_set("TILEBLAS_ROUTE", routes[r]);
    for (int call = 0; call < 2; call++) {
      errno = EDOM;
      tst_guest_call(memory, LARGE, 0);
      if (errno != EDOM) return printf("route %s, call %d: errno %d\n", routes[r], call, errno), 2;
    }
    if (r == 0 && tst_guest_expects_gpu() && told == 0) return 4;
  }
  const bool right = tst_guest_is_right(memory, LARGE, 0);
  free(memory);
  return right ? 0 : 3;
}

static const struct {
  const char *name;
  int (*body)(void);
} parts[] = {{"flags", raises_nothing},        {"doubles", doubles_raise_nothing}, {"traps", traps_nothing},
             {"bits", changes_no_bits},        {"cpu", cpu_has_the_callers},       {"own data", gpu_raises_none},
             {"x87", x87_flags_are_forgotten}, {"errno", errno_comes_back}};

/* Each in a process of its own, whose first calls they are; measuring, too. */
static void all(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) tst_guest_run(parts[i].name, NULL, 0);
  const char *const measured[] = {"TILEBLAS_CALIBRATION=again", NULL};
  tst_guest_run("traps", measured, 0);
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts && argc == 2; i++)
    if (strcmp(argv[1], parts[i].name) == 0) return parts[i].body();
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
