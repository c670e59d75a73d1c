/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands that lie in device, managed and pinned memory, in every combination with pageable ones: exact answers with
 * whole numbers, nothing outside the operands touched, nothing staged that need not be, and no driver call more than a
 * launch wants. Also on the ways around the GPU: forced to the CPU, memory of a GPU that is not used, a GPU that fails.
 *
 * Each case is a process of its own. Seen to fail when: the commit leaves out beta; a panel in place is taken for a
 * padded one; a small product of device memory goes to the CPU; device memory of another GPU, or context, is taken for
 * ours; a call returns before its work on the GPU is done; C = D + beta C is contracted; a context of a pool's stays
 * retained; memory of a pool is taken for another context's; memory of which the driver says nothing is read by the
 * CPU.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

static const char *const kind_names[TST_KINDS] = {"pageable", "pinned", "managed", "device"};

/* ---- one product ---- */

struct product {
  struct tst_problem problem;
  struct tst_operands x;
  struct tst_expected expected;
  struct tst_placed a, b, c;
};

static void place(struct product *t, const struct tst_problem *p, const enum tst_kind kinds[3], uint64_t seed) {
  t->problem = *p;
  tst_operands_create(&t->x, p, TST_INTEGERS, &seed);
  if (p->beta == 0) tst_matrix_fill(&t->x.c, TST_NAN, &seed); /* what is not read may be anything */
  tst_matrix_remember(&t->x.c);
  tst_expect(&t->expected, p, &t->x);
  memset(t->expected.bound, 0, sizeof *t->expected.bound * (size_t)(p->m * p->n));
  tst_place(&t->a, &t->x.a, kinds[0], (int64_t)(seed % 5));
  tst_place(&t->b, &t->x.b, kinds[1], (int64_t)(seed % 4));
  tst_place(&t->c, &t->x.c, kinds[2], (int64_t)(seed % 3));
}

static bool left_queued; /* a call returned with work of its own under way */

static void call(const struct product *t) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_fake *fake = tst_fake();
  const uint64_t before = fake ? fake->get(FAKE_CUDA_QUEUED) : 0;
  tst_call(symbol, tst_resolve(symbol), &t->problem, t->a.data, t->b.data, t->c.data);
  const uint64_t after = fake ? fake->get(FAKE_CUDA_QUEUED) : 0;
  if (after <= before) return;
  printf("%llu operations under way behind the call\n", (unsigned long long)(after - before));
  left_queued = true;
}

/* Prints what is wrong, if anything. */
static bool verify(struct product *t) {
  bool intact = tst_lead_is_intact(&t->a) && tst_lead_is_intact(&t->b) && tst_lead_is_intact(&t->c);
  bool back = tst_take_back(&t->a) & tst_take_back(&t->b) & tst_take_back(&t->c);
  const char *wrong = !intact ? "written before an operand" : !back ? "the operands do not come back" : NULL;
  if (!wrong) wrong = tst_verify(&t->problem, &t->x, &t->expected);
  if (wrong)
    printf("A %s, B %s, C %s: %s: %s\n", kind_names[t->a.kind], kind_names[t->b.kind], kind_names[t->c.kind],
           tst_describe(tst_find_symbol("cblas_sgemm"), &t->problem), wrong);
  tst_expected_destroy(&t->expected);
  tst_operands_destroy(&t->x);
  return !wrong && !left_queued;
}

static bool check(const struct tst_problem *p, const enum tst_kind kinds[3], uint64_t seed) {
  struct product t;
  place(&t, p, kinds, seed);
  call(&t);
  return verify(&t);
}

static bool touches_device(const enum tst_kind kinds[3]) {
  return kinds[0] == TST_DEVICE || kinds[1] == TST_DEVICE || kinds[2] == TST_DEVICE;
}

/* Of A's, B's and C's kinds; under a sanitizer every third, in which each two of them meet. */
enum { KINDS = TST_KINDS * TST_KINDS * TST_KINDS, APART = TST_UNLESS_SANITIZED(1, 3) };

/* Combination number 0 to 63. */
static void set_kinds(enum tst_kind kinds[3], int number) {
  for (int i = 0; i < 3; i++, number /= TST_KINDS) kinds[i] = (enum tst_kind)(number % TST_KINDS);
}

static bool check_everywhere(int64_t m, int64_t n, int64_t k, int variant_step) {
  static const float betas[] = {0, 1, 2.5f};
  bool right = true;
  uint64_t seed = 0;
  for (int number = 0; number < KINDS; number += APART)
    for (int variant = number % variant_step; variant < 18; variant += variant_step, seed++) {
      struct tst_problem p = tst_variant(variant, m, n, k, seed % 2 ? -1 : 2, betas[seed % 3]);
      enum tst_kind kinds[3];
      set_kinds(kinds, number);
      tst_set_leading(&p, (int64_t)(seed % 7)); /* 0 to 6: aligned to whole vectors, and not */
      right &= check(&p, kinds, seed + 1);
    }
  return right;
}

/* ---- every combination ---- */

static bool begin(const char *route) {
  tst_cuda_begin(0);
  return tileblas_option_set("TILEBLAS_ROUTE", route) == 0;
}

static bool clean(void) {
  const struct tst_fake *fake = tst_fake();
  tst_cuda_end(0);
  return !fake || (fake->get(FAKE_CUDA_MISUSES) == 0 && fake->get(FAKE_CUDA_PUSHED) == 0);
}

static uint64_t gpu_calls(void) {
  tileblas_stats s;
  tileblas_stats_get(&s);
  return s.gpu_failures > 0 ? 0 : s.gpu_calls;
}

static int small_shapes(void *route) {
  bool right = begin(route);
  right &= check_everywhere(33, 20, 41, 3);
  right &= check_everywhere(1, 1, 1, 18);
  right &= check_everywhere(5, 130, 3, 18);
  return right && clean() ? 0 : 1;
}

/* Several tiles, and pinned operands long enough for the GPU to copy them itself. */
static int larger_shapes(void *limit) {
  bool right = begin("gpu") && tileblas_option_set("TILEBLAS_MEMORY_LIMIT", limit) == 0;
  right &= check_everywhere(259, 66, 70, 18);
  right &= check_everywhere(34, 35, 1100, 18);
  return right && clean() ? 0 : 1;
}

/* More than one tile a side, with every way of two operands while the third is pageable. */
static int tiles(void *nothing) {
  (void)nothing;
  static const enum tst_kind cases[][3] = {{TST_DEVICE, TST_PAGEABLE, TST_PAGEABLE},
                                           {TST_PAGEABLE, TST_DEVICE, TST_PINNED},
                                           {TST_PINNED, TST_PAGEABLE, TST_DEVICE},
                                           {TST_PINNED, TST_PINNED, TST_PINNED},
                                           {TST_DEVICE, TST_PINNED, TST_MANAGED}};
  bool right = begin("gpu");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int b = 0; b < 2; b++) {
      struct tst_problem p = tst_variant((int)i * 3, 1200, 1100, 3, 1, b ? 2.5f : 0);
      right &= check(&p, cases[i], i + 1);
    }
  return right && clean() ? 0 : 1;
}

/* ---- the same bits ---- */

/* D + beta C is rounded alike wherever C lies and whoever adds. */
static int same_bits(void *nothing) {
  (void)nothing;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  bool right = begin("gpu");
  float *first = NULL;
  for (int kind = 0; kind < TST_KINDS; kind++) {
    const struct tst_problem p = tst_variant(0, 70, 40, 50, 0.7f, 0.3f);
    struct tst_operands x;
    struct tst_placed c;
    uint64_t seed = 1;
    tst_operands_create(&x, &p, TST_SIGNED, &seed);
    tst_place(&c, &x.c, (enum tst_kind)kind, 0);
    tst_call(symbol, tst_resolve(symbol), &p, x.a.data, x.b.data, c.data);
    right &= tst_take_back(&c);
    if (!first && (first = malloc(x.c.inner_bytes))) memcpy(first, x.c.inner, x.c.inner_bytes);
    if (!first) return 3;
    if (memcmp(first, x.c.inner, x.c.inner_bytes) != 0) right = false, printf("C %s: other bits\n", kind_names[kind]);
    tst_operands_destroy(&x);
  }
  free(first);
  return right && gpu_calls() == TST_KINDS && clean() ? 0 : 1;
}

/* ---- what is staged, and what it costs ---- */

static bool is_zero(const char *what, uint64_t count) {
  if (count != 0) printf("%s: %llu\n", what, (unsigned long long)count);
  return count == 0;
}

/* Nothing but pageable operands and large pinned ones crosses the link by copies; C crosses it once. `pooled`, unless
 * it is NULL: nothing that the GPU has belongs to a context. */
static int traffic(void *pooled) {
  if (pooled) setenv("FAKE_CUDA_POOLED", pooled, 1);
  const struct tst_fake *fake = tst_fake();
  const int64_t m = 300, n = 70, k = 270;
  bool right = begin("gpu");
  for (int number = 0; fake && number < KINDS; number += APART) {
    struct tst_problem p = tst_variant(0, m, n, k, 1, 0);
    enum tst_kind kinds[3];
    struct product t;
    set_kinds(kinds, number);
    place(&t, &p, kinds, 1);
    uint64_t up = fake->get(FAKE_CUDA_BYTES_UP), down = fake->get(FAKE_CUDA_BYTES_DOWN), gpu = gpu_calls();
    call(&t);
    uint64_t want = 4 * (uint64_t)((kinds[0] <= TST_PINNED ? m * k : 0) + (kinds[1] <= TST_PINNED ? k * n : 0));
    up = fake->get(FAKE_CUDA_BYTES_UP) - up, down = fake->get(FAKE_CUDA_BYTES_DOWN) - down;
    /* Staged columns travel with their padding to 32 words. */
    right &= up >= want && (want > 0 ? up < want * 2 : up == 0);
    right &= kinds[2] <= TST_PINNED ? down >= (uint64_t)(4 * m * n) && down < (uint64_t)(8 * m * n) : down == 0;
    right &= gpu_calls() == gpu + 1;
    if (!right)
      printf("combination %d: %llu bytes up, %llu down\n", number, (unsigned long long)up, (unsigned long long)down);
    right &= verify(&t);
  }
  return right && is_zero("pageable copies", fake ? fake->get(FAKE_CUDA_PAGEABLE_COPIES) : 0) && clean() ? 0 : 1;
}

/* The driver calls of a resident product: one question a pointer, one for the current context, which is the program's
 * and ours, one launch (two with beta), questions whether it is done, and the thread's mode for captures exchanged and
 * given back. */
static int driver_calls(void *nothing) {
  (void)nothing;
  const struct tst_fake *fake = tst_fake();
  bool right = begin("auto");
  for (int round = 0; fake && round < 4; round++) {
    const bool beta = round % 2;
    const enum tst_kind kinds[3] = {TST_DEVICE, TST_DEVICE, round < 2 ? TST_DEVICE : TST_MANAGED};
    struct tst_problem p = tst_variant(0, 20, 30, 10, 1, beta);
    struct product t;
    uint64_t calls = 0;
    place(&t, &p, kinds, 1);
    call(&t); /* opens the GPU, and makes room */
    tst_matrix_restore(&t.x.c);
    fake->reset_calls();
    call(&t);
    right &= fake->calls("cuCtxGetCurrent") == 1 && fake->calls("cuCtxPushCurrent") == 0;
    right &= fake->calls("cuPointerGetAttributes") == 3 && fake->calls("cuLaunchKernel") == 1 + (uint64_t)beta;
    for (size_t i = 0; fake->function(i); i++) calls += fake->calls(fake->function(i));
    calls -= fake->calls("cuStreamQuery");
    if (calls != 7 + (uint64_t)beta) right = false, printf("%llu driver calls\n", (unsigned long long)calls);
    tst_take_back(&t.a), tst_take_back(&t.b), tst_take_back(&t.c);
    tst_expected_destroy(&t.expected);
    tst_operands_destroy(&t.x);
  }
  return right && clean() ? 0 : 1;
}

/* ---- where it goes ---- */

/* Small products stay on the CPU unless some operand is out of its reach, or all are on the GPU's side. */
static int small_products_by_place(void *nothing) {
  (void)nothing;
  bool right = begin("auto");
  for (int number = 0; number < KINDS; number += APART) {
    struct tst_problem p = tst_variant(number % 18, 9, 8, 7, 1, 1);
    enum tst_kind kinds[3];
    set_kinds(kinds, number);
    uint64_t before = gpu_calls();
    right &= check(&p, kinds, (uint64_t)number + 1);
    bool managed = kinds[0] == TST_MANAGED || kinds[1] == TST_MANAGED || kinds[2] == TST_MANAGED;
    bool none_pageable = kinds[0] != TST_PAGEABLE && kinds[1] != TST_PAGEABLE && kinds[2] != TST_PAGEABLE;
    bool gpu = touches_device(kinds) || (managed && none_pageable);
    if (gpu_calls() != before + gpu) right = false, printf("combination %d took the wrong way\n", number);
  }
  return right && clean() ? 0 : 1;
}

/* The program's CUDA comes after a small product found no driver. */
static int driver_appears_later(void *nothing) {
  (void)nothing;
  static const enum tst_kind host[3], device[3] = {TST_DEVICE, TST_DEVICE, TST_DEVICE};
  struct tst_problem p = tst_variant(0, 9, 8, 7, 1, 1);
  bool right = check(&p, host, 1);
  struct timespec tick = {
      0, 20000000}; /* a driver takes longer to come up than a tick of the coarse clock, 10 ms at most */
  nanosleep(&tick, NULL);
  tst_cuda_begin(0);
  uint64_t before = gpu_calls();
  right &= check(&p, device, 2);
  return right && gpu_calls() == before + 1 && clean() ? 0 : 1;
}

/* C = beta C, where A and B may be anything. */
static int nothing_to_multiply(void *route) {
  bool right = begin(route);
  static const float betas[] = {0, 1, 2.5f};
  for (int i = 0; i < 3 * 2 * TST_KINDS; i++) {
    struct tst_problem p = tst_variant(i % 18, 70, 9, i % 2 ? 0 : 5, i % 2 ? 1 : 0, betas[i / 2 % 3]);
    const enum tst_kind kinds[3] = {TST_DEVICE, TST_DEVICE, (enum tst_kind)(i / 6)};
    right &= check(&p, kinds, (uint64_t)i + 1);
  }
  tileblas_stats s;
  tileblas_stats_get(&s);
  right &= s.gpu_calls + s.cpu_calls == 3 * 2 * TST_KINDS && s.gpu_flops == 0 && s.cpu_flops == 0;
  return right && clean() ? 0 : 1;
}

/* What lies on the second of two GPUs is computed there, or by the CPU from copies. */
static int another_gpu(void *route) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  tst_cuda_begin(1);
  bool right = tileblas_option_set("TILEBLAS_ROUTE", route) == 0;
  right &= check_everywhere(33, 20, 41, 18);
  tst_cuda_end(1);
  return right ? 0 : 1;
}

/* What a program allocated in a context of its own is out of reach of our kernels, though it is the same GPU's: the CPU
 * computes from copies, and the GPU stays in use. */
static int own_context(void *unused) {
  (void)unused;
  const enum tst_kind device[3] = {TST_DEVICE, TST_DEVICE, TST_DEVICE}, host[3] = {TST_PAGEABLE};
  const struct tst_problem p = tst_variant(0, 33, 20, 41, 1, 2.5f);
  tst_cuda_begin_own(0);
  bool right = tileblas_option_set("TILEBLAS_ROUTE", "auto") == 0;
  tileblas_stats before, after;
  tileblas_stats_get(&before);
  right &= check(&p, device, 1);
  tileblas_stats_get(&after);
  right &= after.gpu_calls == before.gpu_calls && after.cpu_calls == before.cpu_calls + 1;
  tst_cuda_end_own(0);
  right &= tileblas_option_set("TILEBLAS_ROUTE", "gpu") == 0 && check(&p, host, 2);
  tileblas_stats_get(&before);
  right &= before.gpu_calls == after.gpu_calls + 1 && before.gpu_failures == 0;
  tst_cuda_end(0);
  return right ? 0 : 1;
}

/* ---- failures ---- */

/* The device is lost: what lies in its memory is out of reach, C stays as it was, and the process lives. */
static int lost_device(void *function) {
  const struct tst_fake *fake = tst_fake();
  const enum tst_kind device[3] = {TST_DEVICE, TST_DEVICE, TST_DEVICE}, host[3] = {TST_PAGEABLE};
  struct tst_problem p = tst_variant(0, 33, 20, 41, 1, 2.5f);
  bool right = begin("gpu") && check(&p, device, 1);
  struct product t;
  place(&t, &p, device, 2);
  fake->inject(function, 1, CUDA_ERROR_UNKNOWN, FAKE_CUDA_STICKY);
  call(&t);
  fake->clear_failures();
  tst_take_back(&t.a), tst_take_back(&t.b), tst_take_back(&t.c);
  int64_t where;
  right &= tst_matrix_unchanged(&t.x.c, true, &where);
  tst_expected_destroy(&t.expected);
  tst_operands_destroy(&t.x);
  return right && check(&p, host, 3) ? 0 : 1;
}

/* Memory of a pool, which has no context, and a GPU that cannot be entered: the product is lost, and what was taken to
 * look for it is given back. */
static int memory_of_a_pool(void *nothing) {
  (void)nothing;
  setenv("FAKE_CUDA_POOLED", "1", 1);
  const struct tst_fake *fake = tst_fake();
  const enum tst_kind device[3] = {TST_DEVICE, TST_DEVICE, TST_DEVICE};
  struct tst_problem p = tst_variant(0, 33, 20, 41, 1, 2.5f);
  bool right = begin("cpu") && check(&p, device, 1);
  struct product t;
  place(&t, &p, device, 2);
  const uint64_t contexts = fake->get(FAKE_CUDA_CONTEXTS);
  fake->inject("cuCtxGetCurrent", 0, CUDA_ERROR_UNKNOWN, 0); /* so that the context must be entered */
  fake->inject("cuCtxPushCurrent", 0, CUDA_ERROR_UNKNOWN, 0);
  call(&t);
  fake->clear_failures();
  right &= fake->get(FAKE_CUDA_CONTEXTS) == contexts;
  tst_take_back(&t.a), tst_take_back(&t.b), tst_take_back(&t.c);
  int64_t where;
  right &= tst_matrix_unchanged(&t.x.c, true, &where);
  tst_expected_destroy(&t.expected);
  tst_operands_destroy(&t.x);
  return right && clean() ? 0 : 1;
}

/* A driver that answers no question, as one whose context broke: what the CPU can read is taken for ordinary memory,
 * and what it cannot, A, B or C, for a GPU's: the product is lost, no operand is touched, and the process lives. */
static int no_answer(void *nothing) {
  (void)nothing;
  const struct tst_fake *fake = tst_fake();
  const struct tst_problem p = {0, 'N', 'T', 8, 8, 8, 1, 8, 8, 1, 8};
  const size_t bytes = 4096;
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  bool right = begin("auto");
  for (int barred = 0; barred < 4; barred++) {
    float *x[3];
    for (int i = 0; i < 3; i++) {
      x[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (x[i] == MAP_FAILED) return 2;
      for (int j = 0; j < 64; j++) x[i][j] = 2;
      if (i == barred) mprotect(x[i], bytes, PROT_NONE);
    }
    fake->inject("cuPointerGetAttributes", 0, CUDA_ERROR_UNKNOWN, 0);
    tst_call(symbol, tst_resolve(symbol), &p, x[0], x[1], x[2]);
    fake->clear_failures();
    for (int i = 0; i < 3; i++) mprotect(x[i], bytes, PROT_READ);
    for (int j = 0; j < 64; j++) right &= x[0][j] == 2 && x[1][j] == 2 && x[2][j] == (barred == 3 ? 34 : 2);
    if (!right) printf("operand %d: C is %g\n", barred, (double)x[2][0]);
    for (int i = 0; i < 3; i++) munmap(x[i], bytes);
  }
  return right ? 0 : 1;
}

/* ---- for compute-sanitizer ---- */

/*
 * Every kind of memory for every operand, by tiles and by the thin kernels, in place and in pieces: in this process,
 * since not every version of the tool follows a fork, and in few launches. Sides of whole vectors where only then no
 * kernel reads the padding behind a panel's last column, which nobody has written.
 */
static int watched(void) {
  bool right = begin("gpu") && check_everywhere(33, 20, 41, 18) && check_everywhere(5, 132, 3, 18);
  right &= tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "300K") == 0 && check_everywhere(260, 68, 72, 18);
  const uint64_t calls = gpu_calls(), all = 3 * ((KINDS + APART - 1) / APART);
  printf("%llu of %llu products by the GPU, %s\n", (unsigned long long)calls, (unsigned long long)all,
         right ? "all right" : "not all right");
  return right && calls == all && clean() ? 0 : 1;
}

/* ---- the cases ---- */

/* A real driver has the GPUs that there are, and loses none on command. */
static void need_the_fake(void) {
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') TST_LEAVE_OUT("it takes the fake driver");
}

static void expect_success(int (*body)(void *), void *argument) {
  if (body == another_gpu) need_the_fake();
  struct tst_output o;
  tst_fork(&o, body, argument);
  bool well = o.status == 0 && o.err[0] == '\0';
  if (!well) print_error("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
  assert_true(well);
}

#define CASE(name, body, argument)            \
  static void name(void **state) {            \
    (void)state;                              \
    expect_success(body, (void *)(argument)); \
  }
CASE(every_combination_by_the_gpu, small_shapes, "gpu")
CASE(every_combination_where_it_must, small_shapes, "auto")
CASE(every_combination_by_the_cpu, small_shapes, "cpu")
CASE(larger_shapes_in_one_piece, larger_shapes, "0")
CASE(larger_shapes_in_many_pieces, larger_shapes, "300K")
CASE(several_tiles, tiles, NULL)
CASE(nothing_is_staged_without_need, traffic, NULL)
CASE(nothing_of_a_pool_is_staged, traffic, "1")
CASE(a_resident_product_makes_few_driver_calls, driver_calls, NULL)
CASE(small_products_go_where_they_must, small_products_by_place, NULL)
CASE(a_driver_that_appears_later_is_noticed, driver_appears_later, NULL)
CASE(nothing_to_multiply_by_the_gpu, nothing_to_multiply, "gpu")
CASE(nothing_to_multiply_by_the_cpu, nothing_to_multiply, "cpu")
CASE(the_same_bits_wherever_c_lies, same_bits, NULL)
CASE(memory_of_another_gpu, another_gpu, "auto")
CASE(memory_of_another_gpu_by_ours, another_gpu, "gpu")
CASE(memory_of_another_gpu_by_the_cpu, another_gpu, "cpu")
CASE(memory_of_another_context, own_context, NULL)

static void a_lost_device(void **state) {
  (void)state;
  need_the_fake();
  static const char *const functions[] = {"cuLaunchKernel", "cuStreamQuery", "cuCtxGetCurrent"};
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    struct tst_output o;
    tst_fork(&o, lost_device, (void *)functions[i]);
    /* One line for the GPU, one for the product. */
    bool well = o.status == 0 && tst_count_lines(o.err, "\n") == 2 &&
                tst_count_lines(o.err, "tileblas: warning: ") == 2 &&
                tst_count_lines(o.err, "a product is not computed") == 1;
    if (!well) print_error("%s: status %d\n%s%s", functions[i], o.status, o.out, o.err);
    tst_output_destroy(&o);
    assert_true(well);
  }
}

static void a_driver_that_answers_nothing(void **state) {
  (void)state;
  need_the_fake();
  tst_in_a_process(no_answer, NULL, "no answer");
}

static void a_pool_that_cannot_be_entered(void **state) {
  (void)state;
  need_the_fake();
  struct tst_output o;
  tst_fork(&o, memory_of_a_pool, NULL);
  if (o.status != 0 || tst_count_lines(o.err, "\n") != 1 || tst_count_lines(o.err, "a product is not computed") != 1)
    fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_combination_by_the_gpu),
      cmocka_unit_test(every_combination_where_it_must),
      cmocka_unit_test(every_combination_by_the_cpu),
      cmocka_unit_test(larger_shapes_in_one_piece),
      cmocka_unit_test(larger_shapes_in_many_pieces),
      cmocka_unit_test(several_tiles),
      cmocka_unit_test(nothing_is_staged_without_need),
      cmocka_unit_test(a_resident_product_makes_few_driver_calls),
      cmocka_unit_test(small_products_go_where_they_must),
      cmocka_unit_test(a_driver_that_appears_later_is_noticed),
      cmocka_unit_test(nothing_to_multiply_by_the_gpu),
      cmocka_unit_test(nothing_to_multiply_by_the_cpu),
      cmocka_unit_test(the_same_bits_wherever_c_lies),
      cmocka_unit_test(memory_of_another_gpu),
      cmocka_unit_test(memory_of_another_gpu_by_ours),
      cmocka_unit_test(memory_of_another_gpu_by_the_cpu),
      cmocka_unit_test(memory_of_another_context),
      cmocka_unit_test(nothing_of_a_pool_is_staged),
      cmocka_unit_test(a_lost_device),
      cmocka_unit_test(a_pool_that_cannot_be_entered),
      cmocka_unit_test(a_driver_that_answers_nothing),
  };
  if (argc > 1 && strcmp(argv[1], "--quick") == 0) return watched();
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
