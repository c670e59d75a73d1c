/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A triangle of C from the exported functions of gemmt, syrk, herk, syr2k and her2k: random calls of every spelling and
 * type, on either side; in one piece and cut for want of memory, which has the same bits; in several tiles and blocks,
 * of which those outside the triangle are no work; on the GPU's own and pinned memory, and some on each; by three
 * GPUs; and with a driver that fails.
 *
 * Seen to fail when: tiles outside the triangle are computed; a Hermitian diagonal keeps its imaginary part; all of a
 * pinned C is written; a part of C takes its triangle for the whole's; the second product of a rank 2k has the first
 * one's alpha, beta or places, or is left out where no GPU takes it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"
#include "triangle_call.h"

#define CUDA_ERROR_UNKNOWN 999
#define CUDA_ERROR_OUT_OF_MEMORY 2

#define ROUNDS TST_UNLESS_SANITIZED(4, 1)
#define FAILURES_SKIPPED_BY TST_UNLESS_SANITIZED(4, 2)
/* On the GPU's memory: every name, or each routine by two. */
#define PLACED_CALLS TST_UNLESS_SANITIZED(TST_TRIANGLE_NAMES, 2 * TST_TRIANGLE_ROUTINES)

static int64_t gpu_calls(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return (int64_t)stats.gpu_calls;
}

static void expect_right(const struct tst_triangle_call *call) {
  const char *wrong = tst_triangle_wrong(call);
  if (wrong != NULL) fail_msg("%s", wrong);
}

static bool is_trivial(const struct tst_triangle_call *call) { return call->alpha[0] == 0 && call->alpha[1] == 0; }

/* ---- on either side ---- */

static void every_spelling(const char *route, int rounds, int64_t most) {
  uint64_t rng = 1;
  int64_t forced = 0;
  const int64_t begun = gpu_calls();
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", route), 0);
  for (int i = 0; i < rounds * TST_TRIANGLE_NAMES; i++) {
    struct tst_triangle_call call;
    tst_triangle_create(&call, i, most, most, &rng);
    tst_triangle_make(&call);
    expect_right(&call);
    forced += !is_trivial(&call);
    tst_triangle_destroy(&call);
  }
  assert_int_equal(gpu_calls() - begun, strcmp(route, "gpu") == 0 ? forced : 0);
}

static void on_the_gpu(void **state) {
  (void)state;
  every_spelling("gpu", ROUNDS, 40);
  if (!TST_SANITIZED) every_spelling("gpu", 1, 170); /* larger ones follow */
}

static void on_the_cpu(void **state) {
  (void)state;
  every_spelling("cpu", ROUNDS, 40);
  every_spelling("auto", ROUNDS, 40);
}

/* ---- in pieces ---- */

static void make_again(struct tst_triangle_call *call, const char *limit) {
  tst_triangle_restore(call);
  assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", limit), 0);
  tst_triangle_make(call);
  assert_int_equal(tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0"), 0);
}

/* However little memory there is, the bits are those of a product in one piece. */
static void the_same_bits_in_pieces(void **state) {
  (void)state;
  uint64_t rng = 2;
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "gpu"), 0);
  for (int i = 0; i < TST_UNLESS_SANITIZED(2, 1) * TST_TRIANGLE_ROUTINES; i++) {
    struct tst_triangle_call call;
    tst_triangle_create(&call, i, 300, 300, &rng);
    void *const whole = malloc(call.c.bytes);
    assert_non_null(whole);
    tst_triangle_make(&call);
    memcpy(whole, call.c.data, call.c.bytes);
    make_again(&call, "300K");
    assert_memory_equal(whole, call.c.data, call.c.bytes);
    assert_int_equal(tileblas_option_set("TILEBLAS_SHARE", "never"), 0);
    make_again(&call, "0");
    assert_int_equal(tileblas_option_set("TILEBLAS_SHARE", "always"), 0);
    assert_memory_equal(whole, call.c.data, call.c.bytes);
    expect_right(&call);
    free(whole);
    tst_triangle_destroy(&call);
  }
}

/* Calls of one shape may share a plan that is kept, and no more: a Hermitian one's diagonal is not the others'. */
static void one_behind_another(void **state) {
  (void)state;
  static const int zherk = 13, zsyrk = 11;
  uint64_t rng = 5;
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "gpu"), 0);
  for (int i = 0; i < 24; i++) { /* of upper triangles and of lower ones */
    struct tst_triangle_call call;
    tst_triangle_create_sized(&call, i % 2 == 0 ? zherk : zsyrk, 24, 40, &rng);
    tst_triangle_make(&call);
    expect_right(&call);
    tst_triangle_destroy(&call);
  }
}

static bool by_several; /* GPUs */

/* Tiles outside the triangle are neither launched nor brought down. */
static void several_tiles(void **state) {
  (void)state;
  uint64_t rng = 3;
  const uint64_t down = tst_fake() != NULL ? tst_fake()->get(FAKE_CUDA_BYTES_DOWN) : 0;
  double triangles = 0;
  const int64_t begun = gpu_calls();
  int made = 0;
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "gpu"), 0);
  for (int i = 0; i < 8; i += TST_UNLESS_SANITIZED(1, 3)) {
    struct tst_triangle_call call;
    tst_triangle_create_sized(&call, i % 4 + (i < 4 ? 8 : 0), 1700, 20, &rng); /* a syrk and a gemmt of each type */
    const uint64_t launches = tst_fake() != NULL ? tst_fake()->calls("cuLaunchKernel") : 0;
    tst_triangle_make(&call);
    expect_right(&call);
    /* Of real elements one a tile: six of nine are the triangle's. */
    if (tst_fake() != NULL && !by_several && i % 4 < 2) assert_true(tst_fake()->calls("cuLaunchKernel") - launches < 9);
    triangles += (double)call.c.bytes / 2;
    tst_triangle_destroy(&call);
    made++;
  }
  assert_int_equal(gpu_calls() - begun, made);
  if (tst_fake() == NULL) return;
  const double moved = (double)(tst_fake()->get(FAKE_CUDA_BYTES_DOWN) - down);
  /* Whole tiles on the diagonal; several GPUs cut them where their shares end. All of C were 2. */
  if (!(moved < (by_several ? 1.7 : 1.5) * triangles))
    fail_msg("%.0f bytes came down for triangles of %.0f", moved, triangles);
}

/* Of syrk and herk in several tiles the operand goes up once. Where memory is short it goes up more
 * often, which shows in no bit. */
static void twins_go_up_once(void **state) {
  (void)state;
  /* ssyrk to zherk; k fills whole lines, and is enough for the tensor cores where these multiply. */
  static const struct {
    int number;
    int64_t k;
  } routine[] = {{8, 64}, {9, 64}, {10, 96}, {11, 64}, {12, 96}, {13, 64}};
  uint64_t rng = 11;
  assert_int_equal(tileblas_option_set("TILEBLAS_SHARE", "never"), 0);
  for (size_t i = 0; i < sizeof routine / sizeof *routine; i += TST_UNLESS_SANITIZED(1, 2)) {
    struct tst_triangle_call call;
    tst_triangle_create_sized(&call, routine[i].number, 1300, routine[i].k, &rng);
    const uint64_t up = tst_fake() != NULL ? tst_fake()->get(FAKE_CUDA_BYTES_UP) : 0;
    tst_triangle_make(&call);
    expect_right(&call);
    const double moved = tst_fake() != NULL ? (double)(tst_fake()->get(FAKE_CUDA_BYTES_UP) - up) : 0;
    if (!(moved < 1.1 * (double)call.a.bytes))
      fail_msg("%s: %.0f bytes of %zu went up", call.name.name, moved, call.a.bytes);
    void *const whole = malloc(call.c.bytes);
    assert_non_null(whole);
    memcpy(whole, call.c.data, call.c.bytes);
    /* The tensor cores, by which complex floats are multiplied, want more. */
    make_again(&call, call.name.type == 'c' ? "0" : "6M");
    assert_memory_equal(whole, call.c.data, call.c.bytes);
    free(whole);
    tst_triangle_destroy(&call);
  }
  assert_int_equal(tileblas_option_set("TILEBLAS_SHARE", "always"), 0);
}

/* ---- on the GPU's memory ---- */

static int in_memory_of(void *what) {
  const enum tst_kind kind = (enum tst_kind)(intptr_t)what;
  uint64_t rng = 3 + (uint64_t)kind;
  tst_cuda_begin(0);
  for (int i = 0; i < PLACED_CALLS; i++) {
    struct tst_triangle_call call;
    if (i % 8 == 0) /* longer than what is used in place */
      tst_triangle_create_sized(&call, i, 300, 9, &rng);
    else
      tst_triangle_create(&call, i, 90, 90, &rng);
    if (!tst_triangle_make_placed(&call, kind)) return 1;
    expect_right(&call);
    tst_triangle_destroy(&call);
  }
  tst_cuda_end(0);
  return kind == TST_PINNED || gpu_calls() >= PLACED_CALLS / 2 ? 0 : 2;
}

/* Each operand of a rank 2k in memory of another kind than the others, in every way: the second product has A and B in
 * each other's places. */
static int in_mixed_memory(void *unused) {
  (void)unused;
  uint64_t rng = 17;
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 1;
  tst_cuda_begin(0);
  if (tst_fake() != NULL) tst_fake()->set_watch(FAKE_CUDA_WATCH_EXTENTS); /* what a kernel cannot reach it must not */
  for (int number = 0; number < TST_TRIANGLE_ROUTINES; number++)
    for (int kinds = 1; kinds < TST_KINDS * TST_KINDS * TST_KINDS; kinds += TST_UNLESS_SANITIZED(1, 5)) {
      struct tst_triangle_call call;
      tst_triangle_create(&call, number, 40, 40, &rng);
      if (call.name.shape != SYR2K && call.name.shape != HER2K) {
        tst_triangle_destroy(&call);
        break;
      }
      const enum tst_kind kind[3] = {(enum tst_kind)(kinds % TST_KINDS), (enum tst_kind)(kinds / TST_KINDS % TST_KINDS),
                                     (enum tst_kind)(kinds / TST_KINDS / TST_KINDS)};
      struct tst_typed_memory *const all[] = {&call.a, &call.b, &call.c};
      void *there[3];
      for (int x = 0; x < 3; x++) {
        there[x] = kind[x] == TST_PAGEABLE ? all[x]->data : tst_cuda_allocate(kind[x], all[x]->bytes);
        if (kind[x] != TST_PAGEABLE) tst_cuda_write(kind[x], there[x], all[x]->data, all[x]->bytes);
      }
      tst_triangle_make_on(&call, there[0], there[1], there[2]);
      if (kind[2] != TST_PAGEABLE && !tst_cuda_read(kind[2], call.c.data, there[2], call.c.bytes)) return 2;
      const char *const wrong = tst_triangle_wrong(&call);
      if (wrong != NULL) printf("kinds %d %d %d: %s\n", kind[0], kind[1], kind[2], wrong);
      if (wrong != NULL) return 3;
      for (int x = 0; x < 3; x++)
        if (kind[x] != TST_PAGEABLE) tst_cuda_free(kind[x], there[x]);
      tst_triangle_destroy(&call);
    }
  tst_cuda_end(0);
  return 0;
}

/* By copies, of the triangle alone: with TILEBLAS_ROUTE=cpu the CPU answers. */
static int by_copies(void *unused) {
  (void)unused;
  if (tileblas_option_set("TILEBLAS_ROUTE", "cpu") != 0) return 1;
  uint64_t rng = 9;
  tst_cuda_begin(0);
  for (int i = 0; i < PLACED_CALLS; i++) {
    struct tst_triangle_call call;
    tst_triangle_create_sized(&call, i, 60, 3, &rng);
    void *const c = tst_cuda_allocate(TST_DEVICE, call.c.bytes);
    tst_cuda_write(TST_DEVICE, c, call.c.data, call.c.bytes);
    const uint64_t up = tst_fake() != NULL ? tst_fake()->get(FAKE_CUDA_BYTES_UP) : 0;
    tst_triangle_make_on(&call, call.a.data, call.b.data, c);
    const uint64_t moved = tst_fake() != NULL ? tst_fake()->get(FAKE_CUDA_BYTES_UP) - up : 0;
    if (!tst_cuda_read(TST_DEVICE, call.c.data, c, call.c.bytes)) return 1;
    expect_right(&call);
    if (10 * moved > 6 * call.c.bytes) return 2;
    tst_cuda_free(TST_DEVICE, c);
    tst_triangle_destroy(&call);
  }
  tst_cuda_end(0);
  return gpu_calls() == 0 ? 0 : 3;
}

static void operands_on_the_gpu(void **state) {
  (void)state;
  tst_in_a_process(in_memory_of, (void *)TST_DEVICE, "device");
  tst_in_a_process(in_memory_of, (void *)TST_MANAGED, "managed");
  tst_in_a_process(in_mixed_memory, NULL, "mixed");
  tst_in_a_process(by_copies, NULL, "device, by copies");
}

static int pinned(void *unused) {
  (void)unused;
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 1;
  return in_memory_of((void *)TST_PINNED);
}

static void pinned_operands(void **state) {
  (void)state;
  tst_in_a_process(pinned, NULL, "pinned");
}

/* ---- failures ---- */

/* What the calls below use; each fails the nth time, for every n until it is not called any more. */
static const char *const failing[] = {"cuLaunchKernel",     "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                      "cuMemcpy2DAsync_v2", "cuModuleLoadData",     "cuModuleGetFunction",
                                      "cuEventRecord",      "cuStreamWaitEvent",    "cuMemAlloc_v2"};

struct failure {
  const char *function;
  unsigned long nth;
  int routine;
  int64_t n; /* on the GPU */
};

/* In tiles by a limit, so that some are committed and others are not. 3: it was not called so often. */
static int with_failure(void *opaque) {
  const struct failure *f = opaque;
  uint64_t rng = (uint64_t)f->routine + f->nth;
  struct tst_triangle_call call;
  tst_triangle_create_sized(&call, f->routine, 100 + tst_random_below(&rng, 180), 1 + tst_random_below(&rng, 100),
                            &rng);
  if (tst_fake()->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, 0) != 0) return 1;
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 2;
  if (f->nth % 2 == 0 && tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "200K") != 0) return 2;
  tst_triangle_make(&call);
  expect_right(&call);
  tst_triangle_destroy(&call);
  return tst_fake()->get(FAKE_CUDA_FAILURES) > 0 ? 0 : 3;
}

/* With A, or A and B, and C in device memory, so that the rest goes by copies. */
static int with_failure_on_the_gpu(void *opaque) {
  const struct failure *f = opaque;
  uint64_t rng = 11 * (uint64_t)f->routine + f->nth;
  struct tst_triangle_call call;
  tst_triangle_create_sized(&call, f->routine, f->n, f->n > 1000 ? 3 : 7, &rng);
  tst_cuda_begin(0);
  struct tst_typed_memory *const all[] = {&call.a, &call.b, &call.c};
  void *there[3];
  for (int x = 0; x < 3; x++) {
    there[x] = x == 1 && f->nth % 2 ? NULL : tst_cuda_allocate(TST_DEVICE, all[x]->bytes);
    if (there[x] != NULL) tst_cuda_write(TST_DEVICE, there[x], all[x]->data, all[x]->bytes);
  }
  if (f->function != NULL && tst_fake()->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, 0) != 0) return 1;
  tst_triangle_make_on(&call, there[0], there[1] != NULL ? there[1] : call.b.data, there[2]);
  if (!tst_cuda_read(TST_DEVICE, call.c.data, there[2], call.c.bytes)) return 2;
  expect_right(&call);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  for (int x = 0; x < 3; x++)
    if (there[x] != NULL) tst_cuda_free(TST_DEVICE, there[x]);
  tst_triangle_destroy(&call);
  tst_cuda_end(0);
  return f->function != NULL || (stats.gpu_calls == 1 && stats.gpu_failures == 0) ? 0 : 3;
}

static void failures_on_the_gpu(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver fails on no command");
  for (int routine = 0; routine < TST_TRIANGLE_ROUTINES; routine++)
    for (unsigned long nth = (unsigned long)routine % 2; nth < 4; nth += 2) {
      struct failure f = {nth == 0 ? NULL : "cuLaunchKernel", nth == 0 ? 1 : nth, routine, 40};
      tst_in_a_process(with_failure_on_the_gpu, &f, "in device memory");
    }
}

/* Of which tiles are computed, those alone that have some of it: with no failure, and when some of them are there. */
static void large_ones_on_the_gpu(void **state) {
  (void)state;
  const bool fake = tst_fake() != NULL;
  for (int routine = 0; routine < TST_TRIANGLE_ROUTINES; routine += TST_UNLESS_SANITIZED(9, TST_TRIANGLE_ROUTINES)) {
    struct failure none = {NULL, 0, routine, 2060}, one = {"cuLaunchKernel", 4, routine, 2060};
    tst_in_a_process(with_failure_on_the_gpu, &none, "large, in device memory");
    if (fake) tst_in_a_process(with_failure_on_the_gpu, &one, "large, in device memory, with a failure");
  }
}

/* Whatever fails, the CPU has the rest, once. */
static void failures(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver fails on no command");
  for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
    int missed = 0;
    for (unsigned long nth = 1; nth < 40 && missed < 3; nth += 1 + nth / FAILURES_SKIPPED_BY) {
      struct failure f = {failing[i], nth, (int)(nth + i) % TST_TRIANGLE_ROUTINES, 0};
      struct tst_output o;
      tst_fork(&o, with_failure, &f);
      if (o.status != 0 && o.status != 3)
        fail_msg("%s, call %lu: status %d\n%s%s", f.function, nth, o.status, o.out, o.err);
      missed = o.status == 3 ? missed + 1 : 0;
      tst_output_destroy(&o);
    }
  }
}

/* Without an argument by one GPU; with any, what several GPUs share. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_on_the_gpu),
      cmocka_unit_test(pinned_operands),
      cmocka_unit_test(failures_on_the_gpu),
      cmocka_unit_test(large_ones_on_the_gpu),
      cmocka_unit_test(failures),
      cmocka_unit_test(on_the_gpu),
      cmocka_unit_test(on_the_cpu),
      cmocka_unit_test(several_tiles),
      cmocka_unit_test(the_same_bits_in_pieces),
      cmocka_unit_test(one_behind_another),
      cmocka_unit_test(twins_go_up_once),
  };
  const struct CMUnitTest shared[] = {cmocka_unit_test(failures), cmocka_unit_test(several_tiles),
                                      cmocka_unit_test(the_same_bits_in_pieces)};
  const struct CMUnitTest watched[] = {cmocka_unit_test(operands_on_the_gpu), cmocka_unit_test(pinned_operands)};
  if (argc > 1 && strcmp(argv[1], "--quick") == 0) return tst_result(cmocka_run_group_tests(watched, NULL, NULL));
  by_several = argc > 1;
  if (by_several) return tst_result(cmocka_run_group_tests(shared, NULL, NULL));
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
