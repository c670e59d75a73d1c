/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of doubles that are launched in several pieces (src/select/fp64_cut.c), of ordinary memory and of the GPU's,
 * with and without beta, on a GPU with one SM and a clock so slow that small ones take long enough; at its usual clock
 * they have fewer launches. None of them has k split. Every launch is
 * refused once, a later piece's behind the first one, and of ordinary memory fails once when it is carried out: C is
 * right all the same.
 *
 * Seen to fail when: what a later piece's launch comes to is not looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

enum { M = 133, N = 131, K = 33, PADDING = 3, LD = M + PADDING, CALLS = 8, LAUNCHES_MOST = 12 };
#define UNTOUCHED 77.0

void cblas_dgemm(int, int, int, int, int, int, double, const void *, int, const void *, int, double, void *, int);
void cblas_zgemm(int, int, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *,
                 int);

/* Whole numbers, of complex elements with imaginary parts. A call is complex, on the GPU, with beta = 2 by its bits. */
struct call {
  int parts;
  bool there;
  double beta;
  double *a, *b, *c, *want; /* A and C of M rows, B of K */
  void *at[3];
};
static struct call calls[CALLS];

static double *new_numbers(int rows, int columns, int parts, uint64_t *rng) {
  double *const x = malloc((size_t)(LD * columns * parts) * sizeof *x);
  if (x == NULL) abort();
  for (int i = 0; i < LD * columns * parts; i++)
    x[i] = i / parts % LD < rows ? (double)tst_random_below(rng, 9) - 4 : UNTOUCHED;
  return x;
}

static size_t bytes_of(const struct call *c, int columns) { return (size_t)(LD * columns * c->parts) * sizeof(double); }

static void create(struct call *c, int number, uint64_t *rng) {
  const int p = number & 1 ? 2 : 1;
  *c = (struct call){.parts = p, .there = number & 2, .beta = number & 4 ? 2 : 0};
  c->a = new_numbers(M, K, p, rng), c->b = new_numbers(K, N, p, rng), c->c = new_numbers(M, N, p, rng);
  c->want = new_numbers(M, N, p, rng);
  memcpy(c->want, c->c, bytes_of(c, N));
  for (int j = 0; j < N; j++)
    for (int i = 0; i < M; i++) {
      double *const to = c->want + p * (i + j * LD);
      for (int part = 0; part < p; part++) to[part] *= c->beta;
      for (int l = 0; l < K; l++) {
        const double *const a = c->a + p * (i + l * LD), *const b = c->b + p * (l + j * LD);
        to[0] += a[0] * b[0] - (p == 2 ? a[1] * b[1] : 0);
        if (p == 2) to[1] += a[0] * b[1] + a[1] * b[0];
      }
    }
}

static void destroy(struct call *c) { free(c->a), free(c->b), free(c->c), free(c->want); }

/* ---- in a process of its own ---- */

static void *placed(const struct call *c, void *x, int columns) {
  if (!c->there) return x;
  void *const there = tst_cuda_allocate(TST_DEVICE, bytes_of(c, columns));
  tst_cuda_write(TST_DEVICE, there, x, bytes_of(c, columns));
  return there;
}

static void place(struct call *c) {
  c->at[0] = placed(c, c->a, K), c->at[1] = placed(c, c->b, N), c->at[2] = placed(c, c->c, N);
}

static void make(const struct call *c) {
  const double one[2] = {1, 0}, beta[2] = {c->beta, 0};
  if (c->parts == 1)
    cblas_dgemm(102, 111, 111, M, N, K, 1, c->at[0], LD, c->at[1], LD, c->beta, c->at[2], LD);
  else
    cblas_zgemm(102, 111, 111, M, N, K, one, c->at[0], LD, c->at[1], LD, beta, c->at[2], LD);
}

static bool take_back_right(struct call *c) {
  bool right = !c->there || tst_cuda_read(TST_DEVICE, c->c, c->at[2], bytes_of(c, N));
  for (int i = 0; c->there && i < 3; i++) tst_cuda_free(TST_DEVICE, c->at[i]);
  for (size_t i = 0; right && i < bytes_of(c, N) / sizeof(double); i++)
    if (!(c->c[i] == c->want[i])) {
      printf("%d parts, there %d, beta %g: number %zu is %g instead of %g\n", c->parts, c->there, c->beta, i, c->c[i],
             c->want[i]);
      right = false;
    }
  return right;
}

struct failure {
  int call;
  unsigned long nth; /* of its launches; 0: none */
  unsigned flags;
  bool quick; /* the GPU has its usual clock */
};

static int life(void *argument) {
  const struct failure *f = argument;
  struct call *const c = &calls[f->call];
  if (f->quick) unsetenv("FAKE_CUDA_KHZ");
  const struct tst_fake *fake = tst_fake();
  if (fake == NULL) return 2;
  tst_cuda_begin(0);
  place(c);
  fake->reset_calls();
  if (f->nth > 0 && fake->inject("cuLaunchKernel", f->nth, CUDA_ERROR_UNKNOWN, f->flags) != 0) return 3;
  const uint64_t before = fake->get(FAKE_CUDA_LAUNCHES);
  make(c);
  printf("launches=%d\ninjected=%d\n", (int)(fake->get(FAKE_CUDA_LAUNCHES) - before),
         (int)fake->get(FAKE_CUDA_FAILURES));
  fake->clear_failures();
  const bool right = take_back_right(c);
  tst_cuda_end(0);
  return right ? 0 : 1;
}

static unsigned failures;

/* Returns its launches. */
static unsigned long run_case(struct failure f) {
  struct tst_output o;
  tst_fork(&o, life, &f);
  const size_t lines = tst_count_lines(o.err, "\n"), warnings = tst_count_lines(o.err, "tileblas: warning: ");
  const char *what = NULL;
  if (o.status != 0) what = "wrong answer, crash or leak";
  if (!what && (lines != warnings || warnings != (f.nth > 0))) what = "another number of warnings, or something else";
  if (!what && f.nth > 0 && tst_number_after(o.out, "injected=") == 0) what = "the failure did not come to pass";
  if (what) {
    print_error("call %d, launch %lu, flags %u: %s (status %d)\n%s%s", f.call, f.nth, f.flags, what, o.status, o.out,
                o.err);
    failures++;
  }
  const unsigned long launches = tst_number_after(o.out, "launches=");
  tst_output_destroy(&o);
  return launches;
}

static void every_piece(void **state) {
  (void)state;
  uint64_t rng = 1;
  for (int i = 0; i < CALLS; i++) create(&calls[i], i, &rng);
  for (int i = 0; i < CALLS; i++) {
    const unsigned long launches = run_case((struct failure){i, 0, 0, false});
    assert_in_range(launches, run_case((struct failure){i, 0, 0, true}) + 1, LAUNCHES_MOST);
    for (unsigned long nth = 1; nth <= launches; nth++)
      /* Where one fails later nobody can reach the GPU's memory any more. */
      for (unsigned later = 0; later < (calls[i].there ? 1 : 2); later++)
        run_case((struct failure){i, nth, later ? FAKE_CUDA_ASYNC : 0, false});
  }
  for (int i = 0; i < CALLS; i++) destroy(&calls[i]);
  assert_int_equal(failures, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_piece)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
