/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syr2k and her2k as one sum of two products: each operand goes up once, and C comes down once. In one piece, cut for
 * want of memory, by three GPUs, from operands that the GPU has kept or that lie on it, the bits are the same. A
 * her2k whose alpha is not real is two products, and as right. A part that a GPU leaves to the CPU, or to another GPU,
 * has both.
 *
 * Seen to fail when: the second product of a tile is launched before its last panel is there, or not at all; alpha is
 * applied in between; panels of the second product are read where the first one's lie; a part takes the rows of A for
 * those of B; of one kept operand alone the other's second product is read from nowhere; GPUs pass panels of the first
 * product on for the second's; a panel is replaced that a kernel still makes real; of a rest the GPU reads an operand
 * in the CPU's memory.
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
enum { FIRST = 14, ROUTINES = 6 }; /* ssyr2k, dsyr2k, csyr2k, zsyr2k, cher2k, zher2k */

static void set(const char *option, const char *value) { assert_int_equal(tileblas_option_set(option, value), 0); }

static void expect_right(const struct tst_triangle_call *call) {
  const char *const wrong = tst_triangle_wrong(call);
  if (wrong != NULL) fail_msg("%s", wrong);
}

static void create(struct tst_triangle_call *call, int routine, int64_t n, int64_t k, uint64_t *rng) {
  tst_triangle_create_sized(call, FIRST + routine, n, k, rng);
  if (call->name.shape == HER2K) call->alpha[0] = 1.25, call->alpha[1] = 0;
}

static uint64_t counted(enum fake_cuda_count what) { return tst_fake() != NULL ? tst_fake()->get(what) : 0; }

/* ---- what is moved ---- */

/* A and B as they are stored, without padding; and of C half, in whole tiles along the diagonal. */
static void expect_moved(const struct tst_triangle_call *call, uint64_t up, uint64_t down, double down_most) {
  const double element = (double)call->c.bytes / (double)((call->n + 1) * call->ldc);
  const double operands = 2 * element * (double)(call->n * call->k), c = element * (double)(call->n * call->n);
  if (tst_fake() == NULL) return;
  if (!((double)up >= operands && (double)up < 1.1 * operands + 4096))
    fail_msg("%s: %.0f bytes went up, A and B have %.0f", call->name.name, (double)up, operands);
  if (!((double)down < down_most * c))
    fail_msg("%s: %.0f bytes came down, C has %.0f", call->name.name, (double)down, c);
}

/* In one slot, in a tile, and in several. k fills whole lines. */
static void operands_go_up_once(void **state) {
  (void)state;
  static const struct {
    int64_t n, k;
    double down_most;
  } sizes[] = {{96, 32, 1.1}, {256, 1280, 1.1}, {832, 32, 0.9}};
  uint64_t rng = 3;
  for (int routine = 0; routine < ROUTINES; routine++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      struct tst_triangle_call call;
      if (i == 1 && routine > 1 && routine != 4) continue; /* in slices a type by each of the kernels is enough */
      if (TST_SANITIZED && routine % 2 != (int)(i % 2)) continue;
      create(&call, routine, sizes[i].n, sizes[i].k, &rng);
      const uint64_t up = counted(FAKE_CUDA_BYTES_UP), down = counted(FAKE_CUDA_BYTES_DOWN);
      tst_triangle_make(&call);
      expect_right(&call);
      expect_moved(&call, counted(FAKE_CUDA_BYTES_UP) - up, counted(FAKE_CUDA_BYTES_DOWN) - down, sizes[i].down_most);
      tst_triangle_destroy(&call);
    }
}

/* ---- the same bits ---- */

static void expect_same(struct tst_triangle_call *call, const void *whole, const char *how) {
  if (memcmp(whole, call->c.data, call->c.bytes) != 0) fail_msg("%s %s: other bits", call->name.name, how);
}

static void make_with(struct tst_triangle_call *call, const void *whole, const char *option, const char *value,
                      const char *before) {
  tst_triangle_restore(call);
  set(option, value);
  tst_triangle_make(call);
  set(option, before);
  expect_same(call, whole, value);
}

static void the_same_bits(void **state) {
  (void)state;
  uint64_t rng = 7;
  for (int routine = 0; routine < ROUTINES; routine += TST_UNLESS_SANITIZED(1, 2)) {
    struct tst_triangle_call call;
    create(&call, routine, 230 + routine, 200, &rng);
    void *const whole = malloc(call.c.bytes);
    assert_non_null(whole);
    tst_triangle_make(&call);
    expect_right(&call);
    memcpy(whole, call.c.data, call.c.bytes);
    make_with(&call, whole, "TILEBLAS_MEMORY_LIMIT", call.name.type == 'z' ? "400K" : "200K", "0");
    make_with(&call, whole, "TILEBLAS_MEMORY_LIMIT", "1M", "0");
    make_with(&call, whole, "TILEBLAS_SHARE", "always", "never");
    free(whole);
    tst_triangle_destroy(&call);
  }
}

/* A and B the same memory: a syrk twice, whose operand goes up once. */
static void one_operand_twice(void **state) {
  (void)state;
  uint64_t rng = 8;
  for (int routine = 0; routine < ROUTINES; routine += TST_UNLESS_SANITIZED(1, 3)) {
    struct tst_triangle_call call;
    do { /* B is as A is */
      create(&call, routine, 260, 200, &rng);
      if (call.lda == call.ldb) break;
      tst_triangle_destroy(&call);
    } while (true);
    memcpy(call.b.data, call.a.data, call.a.bytes);
    memcpy(call.b.before, call.a.data, call.a.bytes);
    void *const whole = malloc(call.c.bytes);
    assert_non_null(whole);
    tst_triangle_make(&call);
    expect_right(&call);
    memcpy(whole, call.c.data, call.c.bytes);
    tst_triangle_restore(&call);
    tst_triangle_make_on(&call, call.a.data, call.a.data, call.c.data);
    expect_same(&call, whole, "of one operand");
    free(whole);
    tst_triangle_destroy(&call);
  }
}

/* The GPU keeps what it has seen unchanged: both operands, of 1 MiB, are found, and nothing goes up. */
static int kept(void *unused) {
  (void)unused;
  static const int64_t k[ROUTINES] = {2816, 1408, 1408, 704, 1408, 704};
  uint64_t rng = 11;
  if (tileblas_option_set("TILEBLAS_CACHE", "8G") != 0) return 1;
  for (int routine = 0; routine < ROUTINES; routine += TST_UNLESS_SANITIZED(1, 5)) {
    struct tst_triangle_call call;
    create(&call, routine, 100, k[routine], &rng);
    void *const whole = malloc(call.c.bytes);
    uint64_t up = 0;
    for (int time = 0; time < 4; time++) {
      tst_triangle_restore(&call);
      const uint64_t begun = counted(FAKE_CUDA_BYTES_UP);
      tst_triangle_make(&call);
      up = counted(FAKE_CUDA_BYTES_UP) - begun;
      if (time == 0) memcpy(whole, call.c.data, call.c.bytes);
      expect_same(&call, whole, "kept");
    }
    expect_right(&call);
    if (up > call.a.bytes / 10)
      fail_msg("%s: %.0f bytes went up of operands that are kept", call.name.name, (double)up);
    free(whole);
    tst_triangle_destroy(&call);
  }
  return 0;
}

/* Of which one is written before each call: both go up, or none. */
static int one_kept(void *unused) {
  (void)unused;
  uint64_t rng = 12;
  if (tileblas_option_set("TILEBLAS_CACHE", "8G") != 0) return 1;
  for (int routine = 0; routine < 2; routine++) {
    struct tst_triangle_call call;
    create(&call, 1, 100, 1408, &rng);
    for (int time = 0; time < 4; time++) {
      tst_triangle_restore(&call);
      struct tst_typed_memory *const written = routine == 0 ? &call.a : &call.b;
      double *const number = written->data;
      if (time % 2 == 1) number[0] = number[0] == 1 ? 2 : 1;
      memcpy(written->before, written->data, written->bytes);
      tst_triangle_make(&call);
      expect_right(&call);
    }
    tst_triangle_destroy(&call);
  }
  return 0;
}

/* In the GPU's memory and in pinned memory the sums of doubles are the same. */
static int placed(void *what) {
  const enum tst_kind kind = (enum tst_kind)(intptr_t)what;
  uint64_t rng = 13;
  tst_cuda_begin(0);
  for (int routine = 1; routine < ROUTINES; routine += 2) { /* of doubles */
    struct tst_triangle_call call;
    create(&call, routine, 300, 200, &rng);
    void *const whole = malloc(call.c.bytes);
    tst_triangle_make(&call);
    memcpy(whole, call.c.data, call.c.bytes);
    tst_triangle_restore(&call);
    if (!tst_triangle_make_placed(&call, kind)) return 1;
    expect_right(&call);
    expect_same(&call, whole, "placed");
    free(whole);
    tst_triangle_destroy(&call);
  }
  tst_cuda_end(0);
  return 0;
}

static void from_elsewhere(void **state) {
  (void)state;
  tst_in_a_process(kept, NULL, "kept");
  tst_in_a_process(one_kept, NULL, "one kept");
  tst_in_a_process(placed, (void *)TST_DEVICE, "device");
  tst_in_a_process(placed, (void *)TST_PINNED, "pinned");
}

/* ---- two products, and parts ---- */

static void complex_alpha(void **state) {
  (void)state;
  uint64_t rng = 17;
  for (int routine = 4; routine < ROUTINES; routine++) {
    struct tst_triangle_call call;
    create(&call, routine, 90, 50, &rng);
    call.alpha[1] = -0.75;
    tst_triangle_make(&call);
    expect_right(&call);
    tst_triangle_destroy(&call);
  }
}

struct failing {
  int routine;
  unsigned long nth;
  bool shared; /* by several GPUs */
  bool complex_alpha;
};

/* What is left is a part of other rows than columns. */
static int left_to_the_cpu(void *opaque) {
  const struct failing *const f = opaque;
  uint64_t rng = 19 + (uint64_t)f->routine;
  struct tst_triangle_call call;
  create(&call, f->routine, 500, 9, &rng);
  if (f->complex_alpha) call.alpha[1] = -0.75;
  if (tileblas_option_set("TILEBLAS_MEMORY_LIMIT", call.name.type == 'z' ? "2M" : "600K") != 0) return 1;
  if (f->shared && tileblas_option_set("TILEBLAS_SHARE", "always") != 0) return 1;
  if (tst_fake()->inject("cuMemcpyDtoHAsync_v2", f->nth, CUDA_ERROR_UNKNOWN, 0) != 0) return 1;
  tst_triangle_make(&call);
  expect_right(&call);
  tst_triangle_destroy(&call);
  return tst_fake()->get(FAKE_CUDA_FAILURES) > 0 ? 0 : 3;
}

static void parts(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver fails on no command");
  for (int routine = 0; routine < ROUTINES; routine++)
    for (unsigned long nth = 1; nth < 4; nth++) {
      struct failing f = {routine, nth, ((unsigned)routine + nth) % 2, false};
      if (TST_SANITIZED && ((unsigned)routine + nth) % 3 != 0) continue;
      tst_in_a_process(left_to_the_cpu, &f, "left to the CPU");
      f.complex_alpha = true; /* two products: the second without a GPU */
      if (routine >= 4) tst_in_a_process(left_to_the_cpu, &f, "left to the CPU");
    }
}

/* ---- by several GPUs, a round for each product ---- */

/* Which triangle, and what a stored column runs along, as of a column-major C. */
static void create_of(struct tst_triangle_call *call, int routine, bool upper, bool along_k, int64_t n, int64_t k,
                      uint64_t *rng) {
  for (;; tst_triangle_destroy(call)) {
    create(call, routine, n, k, rng);
    const bool is_upper = (call->uplo == 'U') != call->row_major, is_along_k = (call->ta != 'N') != call->row_major;
    if (is_upper == upper && is_along_k == along_k) return;
  }
}

/* Each GPU has two panels of A, of which the second product's replace the first one's and are for nobody else. Of an
 * upper triangle no tile of the first two GPUs wants the second panel, which goes up last. */
static int in_two_rounds(void *opaque) {
  const int routine = *(const int *)opaque;
  uint64_t rng = 29;
  struct tst_triangle_call call;
  if (tileblas_option_set("TILEBLAS_SHARE", "always") != 0) return 1;
  create_of(&call, routine, true, false, 520, 9, &rng);
  tst_triangle_make(&call);
  expect_right(&call);
  tst_triangle_destroy(&call);
  return 0;
}

static void rounds(void **state) {
  (void)state;
  static int routines[] = {1, 2}; /* panels of csyr2k are made real */
  for (size_t i = 0; i < sizeof routines / sizeof *routines; i++)
    tst_in_a_process(in_two_rounds, &routines[i], "in two rounds");
}

/* The pinned operand goes up by slots, as the other one does: it is too large to be read in place, and its columns are
 * too short to be copied from there. By the limit a part is two blocks. The first comes down by two copies; the third
 * fails, and the block that is left has little of either operand. */
static int rescued(void *opaque) {
  const bool of_b = *(const bool *)opaque;
  uint64_t rng = 31;
  struct tst_triangle_call call;
  if (tileblas_option_set("TILEBLAS_SHARE", "always") != 0 || tileblas_option_set("TILEBLAS_VERBOSE", "1") != 0 ||
      tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "600K") != 0)
    return 1;
  create_of(&call, 1, false, true, 520, 20, &rng);
  const struct tst_typed_memory *const x = of_b ? &call.b : &call.a;
  tst_cuda_begin(0);
  void *const pinned = tst_cuda_allocate(TST_PINNED, x->bytes);
  tst_cuda_write(TST_PINNED, pinned, x->data, x->bytes);
  if (tst_fake()->inject_on(1, "cuMemcpyDtoHAsync_v2", 3, CUDA_ERROR_UNKNOWN, 0) != 0) return 2;
  tst_triangle_make_on(&call, of_b ? call.a.data : pinned, of_b ? pinned : call.b.data, call.c.data);
  expect_right(&call);
  tst_cuda_free(TST_PINNED, pinned);
  tst_cuda_end(0);
  tst_triangle_destroy(&call);
  return 0;
}

static void a_rest_of_two_kinds(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver fails on no command");
  for (int i = 0; i < 2; i++) {
    bool of_b = i == 1;
    struct tst_output o;
    tst_fork(&o, rescued, &of_b);
    if (o.status != 0 || tst_count_lines(o.err, "completed by another gpu") != 1)
      fail_msg("%s is pinned: status %d\n%s%s", of_b ? "B" : "A", o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

/* ---- on the tensor cores ---- */

/* In one piece, and by three GPUs, where each product has a round of its own: calls of floats. */
static int packed_for_either(void *unused) {
  (void)unused;
  uint64_t rng = 9;
  for (int routine = 0; routine < ROUTINES; routine += TST_UNLESS_SANITIZED(2, 4)) {
    struct tst_triangle_call call;
    create(&call, routine, 800, routine == 0 ? 448 : 64, &rng);
    void *const whole = malloc(call.c.bytes);
    if (whole == NULL) return 1;
    tst_triangle_make(&call);
    expect_right(&call);
    memcpy(whole, call.c.data, call.c.bytes);
    make_with(&call, whole, "TILEBLAS_SHARE", "always", "never");
    free(whole);
    tst_triangle_destroy(&call);
  }
  return 0;
}

static void on_tensor_cores(void **state) {
  (void)state;
  struct tst_output o;
  set("TILEBLAS_VERBOSE", "1");
  tst_fork(&o, packed_for_either, NULL);
  const size_t emulated = tst_count_lines(o.err, " emulated ");
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  const size_t wanted = TST_UNLESS_SANITIZED(6, 4);
  if (tst_fake() != NULL && emulated != wanted) fail_msg("%zu calls were on the tensor cores\n%s", emulated, o.err);
  tst_output_destroy(&o);
}

/* tensor: on a GPU so small that these calls are for the tensor cores. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(from_elsewhere),
      cmocka_unit_test(parts),
      cmocka_unit_test(rounds),
      cmocka_unit_test(a_rest_of_two_kinds),
      cmocka_unit_test(operands_go_up_once),
      cmocka_unit_test(the_same_bits),
      cmocka_unit_test(one_operand_twice),
      cmocka_unit_test(complex_alpha),
  };
  const struct CMUnitTest tensor[] = {cmocka_unit_test(on_tensor_cores)};
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0 || tileblas_option_set("TILEBLAS_SHARE", "never") != 0)
    return 1;
  if (argc > 1 && strcmp(argv[1], "tensor") == 0) return tst_result(cmocka_run_group_tests(tensor, NULL, NULL));
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
