/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symm and hemm on the GPU, from the exported functions: random calls of every spelling and type, with NaN where
 * nothing is to be read; with panels of many tasks, and large ones, whose panels a kernel makes of what is stored; in
 * one piece and cut for want of memory, which has the same bits; with operands in the GPU's own and in pinned memory,
 * where a kernel makes the panels; by three GPUs; by copies, which fetch the stored triangle alone; and with a driver
 * that fails, after which the CPU computes with parts of the matrix.
 *
 * Seen to fail when: an image of a Hermitian matrix is not conjugated, or its diagonal keeps imaginary parts; a part of
 * a panel takes its diagonal for the whole's; the other triangle is read, by a thread or the kernel; the panel's kernel
 * is launched beside the stream of the product's; a pinned operand goes up as it is.
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
#include "sided_call.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

static int64_t gpu_calls(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return (int64_t)stats.gpu_calls;
}

/* The mirrored ones in every spelling. */
enum { NAMES = TST_SIDED_NAMES / TST_SIDED_ROUTINES * TST_SIDED_MIRRORED };
static int name_number(int i) {
  return i / TST_SIDED_MIRRORED % (TST_SIDED_NAMES / TST_SIDED_ROUTINES) * TST_SIDED_ROUTINES + i % TST_SIDED_MIRRORED;
}

#define FAILURES_SKIPPED_BY TST_UNLESS_SANITIZED(3, 1)
/* On the GPU's memory: every name, or each routine by four. */
#define PLACED_CALLS TST_UNLESS_SANITIZED(NAMES, 4 * TST_SIDED_MIRRORED)

static void expect_right(const struct tst_sided_call *call) {
  const char *wrong = tst_sided_wrong(call);
  if (wrong != NULL) fail_msg("%s", wrong);
}

static bool is_trivial(const struct tst_sided_call *call) { return call->alpha[0] == 0 && call->alpha[1] == 0; }

static void set(const char *name, const char *value) { assert_int_equal(tileblas_option_set(name, value), 0); }

/* ---- whole calls ---- */

static void random_calls(int rounds, int64_t most) {
  uint64_t rng = 1;
  int64_t forced = 0;
  const int64_t begun = gpu_calls();
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < rounds * NAMES; i++) {
    struct tst_sided_call call;
    tst_sided_create(&call, name_number(i), most, &rng);
    tst_sided_make(&call);
    expect_right(&call);
    forced += !is_trivial(&call);
    tst_sided_destroy(&call);
  }
  assert_int_equal(gpu_calls() - begun, forced);
}

static void every_spelling(void **state) {
  (void)state;
  random_calls(TST_UNLESS_SANITIZED(6, 2), 40);
  random_calls(1, 150);
}

/* Panels of several slots, that many tasks copy: narrow products, so that they are soon verified. */
static void long_sides(void **state) {
  (void)state;
  uint64_t rng = 2;
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < 2 * TST_SIDED_MIRRORED; i += TST_UNLESS_SANITIZED(1, 5)) {
    struct tst_sided_call call;
    const int64_t order = 500 + tst_random_below(&rng, 500), other = 1 + tst_random_below(&rng, 3);
    do {
      tst_sided_create_sized(&call, TST_SIDED_ROUTINES + i % TST_SIDED_MIRRORED, i < 6 ? order : other,
                             i < 6 ? other : order, &rng);
      if (tst_sided_order(&call) == order) break;
      tst_sided_destroy(&call);
    } while (true);
    tst_sided_make(&call);
    expect_right(&call);
    tst_sided_destroy(&call);
  }
}

static void make_again(struct tst_sided_call *call, const char *option, const char *value, const char *before) {
  tst_sided_restore(call);
  set(option, value);
  tst_sided_make(call);
  set(option, before);
}

/* However little memory there is, and by however many GPUs, the bits are those of a product in one piece. */
static void the_same_bits_in_pieces(void **state) {
  (void)state;
  uint64_t rng = 3;
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < TST_SIDED_MIRRORED; i += TST_UNLESS_SANITIZED(1, 2)) {
    struct tst_sided_call call;
    tst_sided_create_sized(&call, TST_SIDED_ROUTINES + i % TST_SIDED_MIRRORED, 150 + tst_random_below(&rng, 120),
                           150 + tst_random_below(&rng, 120), &rng);
    void *const whole = malloc(call.c.bytes);
    assert_non_null(whole);
    tst_sided_make(&call);
    expect_right(&call);
    memcpy(whole, call.c.data, call.c.bytes);
    make_again(&call, "TILEBLAS_MEMORY_LIMIT", "200K", "0");
    assert_memory_equal(whole, call.c.data, call.c.bytes);
    make_again(&call, "TILEBLAS_SHARE", "never", "always");
    assert_memory_equal(whole, call.c.data, call.c.bytes);
    free(whole);
    tst_sided_destroy(&call);
  }
}

/* Of a large matrix what is stored goes up, and little of what is not: the diagonal's blocks. The panels have the bits
 * of those that threads mirror, where memory is short. */
static void unfolded(void **state) {
  (void)state;
  uint64_t rng = 6;
  set("TILEBLAS_ROUTE", "gpu");
  set("TILEBLAS_SHARE", "never");
  for (int i = 0; i < 2 * TST_SIDED_MIRRORED; i += TST_UNLESS_SANITIZED(1, 5)) {
    struct tst_sided_call call;
    const int64_t begun = gpu_calls();
    const int number = TST_SIDED_ROUTINES + i % TST_SIDED_MIRRORED;
    const int64_t order = 1540 + tst_random_below(&rng, 60), other = 18 + tst_random_below(&rng, 14);
    tst_sided_create_sized(&call, number, i < TST_SIDED_MIRRORED ? order : other,
                           i < TST_SIDED_MIRRORED ? other : order, &rng);
    while (tst_sided_order(&call) != order) {
      tst_sided_destroy(&call);
      tst_sided_create_sized(&call, number, i < TST_SIDED_MIRRORED ? order : other,
                             i < TST_SIDED_MIRRORED ? other : order, &rng);
    }
    const uint64_t up = tst_fake() != NULL ? tst_fake()->get(FAKE_CUDA_BYTES_UP) : 0;
    tst_sided_make(&call);
    const double moved = tst_fake() != NULL ? (double)(tst_fake()->get(FAKE_CUDA_BYTES_UP) - up) : 0;
    expect_right(&call);
    if (!(moved < 0.75 * (double)call.a.bytes + (double)call.b.bytes))
      fail_msg("%s: %.0f bytes of %zu and %zu went up", call.name.name, moved, call.a.bytes, call.b.bytes);
    void *const whole = malloc(call.c.bytes);
    assert_non_null(whole);
    memcpy(whole, call.c.data, call.c.bytes);
    make_again(&call, "TILEBLAS_MEMORY_LIMIT", "6M", "0");
    assert_memory_equal(whole, call.c.data, call.c.bytes);
    assert_int_equal(gpu_calls() - begun, 2);
    free(whole);
    tst_sided_destroy(&call);
  }
  set("TILEBLAS_SHARE", "always");
}

/* ---- on the GPU's memory ---- */

struct placed {
  struct tst_typed_memory *all[3];
  void *there[3];
  enum tst_kind kind;
};

static struct placed place(struct tst_sided_call *call, enum tst_kind kind, bool b_too) {
  struct placed p = {.all = {&call->a, &call->b, &call->c}, .kind = kind};
  for (int x = 0; x < 3; x++) {
    p.there[x] = x == 1 && (!b_too || call->b.data == NULL) ? call->b.data : tst_cuda_allocate(kind, p.all[x]->bytes);
    if (p.there[x] != call->b.data) tst_cuda_write(kind, p.there[x], p.all[x]->data, p.all[x]->bytes);
  }
  return p;
}

/* False: C does not come back. */
static bool take_back(struct tst_sided_call *call, struct placed *p) {
  const bool came = tst_cuda_read(p->kind, call->c.data, p->there[2], call->c.bytes);
  for (int x = 0; x < 3; x++)
    if (p->there[x] != call->b.data) tst_cuda_free(p->kind, p->there[x]);
  return came;
}

/* With little memory every second time, so that panels are formed anew. */
static int in_memory_of(void *what) {
  const enum tst_kind kind = (enum tst_kind)(intptr_t)what;
  uint64_t rng = 3 + (uint64_t)kind;
  int64_t forced = 0;
  tst_cuda_begin(0);
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < PLACED_CALLS; i++) {
    struct tst_sided_call call;
    if (i % 8 == 0)
      tst_sided_create_sized(&call, name_number(i), 200, 160, &rng);
    else
      tst_sided_create(&call, name_number(i), 90, &rng);
    set("TILEBLAS_MEMORY_LIMIT", i % 3 == 0 ? "100K" : "0");
    struct placed p = place(&call, kind, i % 4 != 1);
    tst_sided_make_on(&call, p.there[0], p.there[1], p.there[2]);
    forced += !is_trivial(&call);
    if (!take_back(&call, &p)) return 1;
    expect_right(&call);
    tst_sided_destroy(&call);
  }
  tst_cuda_end(0);
  return gpu_calls() >= forced ? 0 : 2;
}

/* With TILEBLAS_ROUTE=cpu the CPU answers, by copies: of A what is stored, and once what is overwritten. */
static int by_copies(void *unused) {
  (void)unused;
  uint64_t rng = 9;
  set("TILEBLAS_ROUTE", "cpu");
  tst_cuda_begin(0);
  for (int i = 0; i < TST_UNLESS_SANITIZED(TST_SIDED_NAMES, 2 * TST_SIDED_ROUTINES); i++) {
    struct tst_sided_call call;
    tst_sided_create_sized(&call, i, 60, 60, &rng);
    struct placed p = place(&call, TST_DEVICE, false);
    const uint64_t down = tst_fake() != NULL ? tst_fake()->get(FAKE_CUDA_BYTES_DOWN) : 0;
    tst_sided_make_on(&call, p.there[0], p.there[1], p.there[2]);
    const uint64_t moved = tst_fake() != NULL ? tst_fake()->get(FAKE_CUDA_BYTES_DOWN) - down : 0;
    if (!take_back(&call, &p)) return 1;
    expect_right(&call);
    if (10 * moved > 6 * call.a.bytes + 10 * call.c.bytes) return 2;
    tst_sided_destroy(&call);
  }
  tst_cuda_end(0);
  return gpu_calls() == 0 ? 0 : 3;
}

static void operands_on_the_gpu(void **state) {
  (void)state;
  tst_in_a_process(in_memory_of, (void *)TST_DEVICE, "device");
  tst_in_a_process(in_memory_of, (void *)TST_MANAGED, "managed");
  tst_in_a_process(in_memory_of, (void *)TST_PINNED, "pinned");
  tst_in_a_process(by_copies, NULL, "device, by copies");
}

/* ---- failures ---- */

static const char *const failing[] = {"cuLaunchKernel",     "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                      "cuMemcpy2DAsync_v2", "cuModuleLoadData",     "cuModuleGetFunction",
                                      "cuEventRecord",      "cuStreamWaitEvent",    "cuMemAlloc_v2"};

struct failure {
  const char *function;
  unsigned long nth;
  int routine;
  bool placed;
};

/* In tiles by a limit, so that some are committed and others are not. 3: it was not called so often. */
static int with_failure(void *opaque) {
  const struct failure *f = opaque;
  uint64_t rng = (uint64_t)f->routine + f->nth;
  struct tst_sided_call call;
  struct placed p;
  tst_sided_create_sized(&call, f->routine, 60 + tst_random_below(&rng, 90), 60 + tst_random_below(&rng, 90), &rng);
  if (f->placed) {
    tst_cuda_begin(0);
    p = place(&call, TST_DEVICE, f->nth % 2);
  }
  if (tst_fake()->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, 0) != 0) return 1;
  set("TILEBLAS_ROUTE", "gpu");
  if (f->nth % 2 == 0) set("TILEBLAS_MEMORY_LIMIT", "100K");
  if (f->placed) {
    tst_sided_make_on(&call, p.there[0], p.there[1], p.there[2]);
    if (!take_back(&call, &p)) return 2;
  } else {
    tst_sided_make(&call);
  }
  expect_right(&call);
  tst_sided_destroy(&call);
  return tst_fake()->get(FAKE_CUDA_FAILURES) > 0 ? 0 : 3;
}

static void fail_each(bool placed) {
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver fails on no command");
  for (size_t i = 0; i < (placed ? 1 : sizeof failing / sizeof *failing); i++) {
    int missed = 0;
    for (unsigned long nth = 1; nth < 40 && missed < 3; nth += 1 + nth / FAILURES_SKIPPED_BY) {
      struct failure f = {failing[i], nth, name_number((int)(nth + i)), placed};
      struct tst_output o;
      tst_fork(&o, with_failure, &f);
      if (o.status != 0 && o.status != 3)
        fail_msg("%s, call %lu: status %d\n%s%s", f.function, nth, o.status, o.out, o.err);
      missed = o.status == 3 ? missed + 1 : 0;
      tst_output_destroy(&o);
    }
  }
}

static void failures(void **state) {
  (void)state;
  fail_each(false);
}

static void failures_on_the_gpu(void **state) {
  (void)state;
  fail_each(true);
}

/* Without an argument by one GPU; with any, what several GPUs share. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operands_on_the_gpu),
      cmocka_unit_test(failures_on_the_gpu),
      cmocka_unit_test(failures),
      cmocka_unit_test(every_spelling),
      cmocka_unit_test(the_same_bits_in_pieces),
      cmocka_unit_test(long_sides),
      cmocka_unit_test(unfolded),
  };
  const struct CMUnitTest shared[] = {cmocka_unit_test(failures), cmocka_unit_test(the_same_bits_in_pieces)};
  const struct CMUnitTest watched[] = {cmocka_unit_test(operands_on_the_gpu)};
  if (argc > 1 && strcmp(argv[1], "--quick") == 0) return tst_result(cmocka_run_group_tests(watched, NULL, NULL));
  if (argc > 1) return tst_result(cmocka_run_group_tests(shared, NULL, NULL));
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
