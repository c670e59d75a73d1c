/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products that two, three or four GPUs compute together: exact answers with whole numbers for every transpose, odd
 * sizes and memory limits, each tile of C committed once (C is needed: beta is 2.5), the bits of one GPU alone, and of
 * the operand that all GPUs want each word once over a link. Also which GPU is used when one is enough.
 *
 * Each case is a process of its own, for the fake driver reads its settings once.
 *
 * Seen to fail when: what all shared is taken for what one takes; memory pinned for one GPU is read by another; a
 * part's C begins a column too far; a panel is offered before it has arrived; a launch does not wait for what was
 * fetched; parts on the tensor cores begin within a tile; a GPU without memory is asked to help, or given up; of what
 * several left the CPU computes the first one's.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "outer.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_OUT_OF_MEMORY 2

struct machine {
  int gpus;
  bool peers;
  const char *limit;
  unsigned full; /* bit i: others use all memory of GPU i */
};

static const struct tst_fake *fake;

/* In the child, before anything else. */
static void begin(const struct machine *m, const char *share) {
  setenv("FAKE_CUDA_DEVICES", tst_format("%d", m->gpus), 1);
  setenv("FAKE_CUDA_PEERS", m->peers ? "1" : "0", 1);
  setenv("FAKE_CUDA_SMS", "2", 1); /* so that large tiles are chosen, of which the fake has fewer threads to run */
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tileblas_option_set("TILEBLAS_SHARE", share);
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", m->limit);
  fake = tst_fake();
  if (!fake) exit(2);
}

static void call(const struct tst_problem *p, const struct tst_operands *x) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), p, x->a.data, x->b.data, x->c.data);
}

static bool check(const struct tst_problem *p, uint64_t seed) {
  struct tst_operands x;
  struct tst_expected e;
  tst_operands_create(&x, p, TST_INTEGERS, &seed);
  if (p->beta == 0) tst_matrix_fill(&x.c, TST_NAN, &seed), tst_matrix_remember(&x.c);
  tst_expect(&e, p, &x);
  memset(e.bound, 0, sizeof *e.bound * (size_t)(p->m * p->n));
  call(p, &x);
  const char *wrong = tst_verify(p, &x, &e);
  if (wrong) printf("%s: %s\n", tst_describe(tst_find_symbol("cblas_sgemm"), p), wrong);
  tst_expected_destroy(&e);
  tst_operands_destroy(&x);
  return !wrong;
}

static uint64_t launches_on(int gpu) {
  return fake->calls_on(gpu, "cuLaunchKernel") + fake->calls_on(gpu, "cuLaunchKernelEx");
}

/* Every GPU had something to do, none failed, and nothing was done that a driver would let pass. */
static bool all_worked(const struct machine *m) {
  tileblas_stats s;
  tileblas_stats_get(&s);
  bool right = s.gpu_failures == 0 && s.cpu_calls == 0 && fake->get(FAKE_CUDA_MISUSES) == 0;
  for (int gpu = 0; gpu < m->gpus; gpu++) right = right && launches_on(gpu) > 0;
  if (!right) printf("not all GPUs worked, or not well\n");
  return right;
}

/* ---- exact answers ---- */

static const int64_t shapes[][3] = {{33, 530, 41}, {530, 33, 41}, {260, 259, 70}, {1, 700, 9}, {513, 1, 600}};

static int every_variant(void *machine) {
  const struct machine *m = machine;
  const enum fake_cuda_order orders[] = {FAKE_CUDA_LAZY, FAKE_CUDA_EAGER, FAKE_CUDA_RANDOM};
  uint64_t seed = 1;
  bool right = true;
  begin(m, "always");
  for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
    for (int variant = 0; variant < 18; variant += s < 3 ? TST_UNLESS_SANITIZED(1, 5) : 5, seed++) {
      struct tst_problem p =
          tst_variant(variant, shapes[s][0], shapes[s][1], shapes[s][2], seed % 2 ? -1 : 2, seed % 3 ? 2.5f : 0);
      tst_set_leading(&p, (int64_t)(seed % 7));
      fake->set_order(orders[seed % 3], seed);
      right &= check(&p, seed);
    }
  return right && all_worked(m) ? 0 : 1;
}

/* Random shapes and limits, of which some cut k, so that no panel can be passed. */
static int random_calls(void *machine) {
  const struct machine *m = machine;
  bool right = true;
  begin(m, "always");
  for (uint64_t seed = 1; seed <= TST_UNLESS_SANITIZED(12, 6) && right; seed++) {
    uint64_t rng = seed;
    const int64_t rows = 1 + tst_random_below(&rng, 500), columns = 1 + tst_random_below(&rng, 500);
    struct tst_problem p = tst_variant((int)tst_random_below(&rng, 18), rows, columns,
                                       1 + tst_random_below(&rng, seed % 4 ? 40 : 1200), 1, 2.5f);
    const char *limit = tst_format("%dK", 340 + (int)tst_random_below(&rng, 1500));
    tileblas_option_set("TILEBLAS_MEMORY_LIMIT", seed % 3 ? limit : "0");
    fake->set_order((enum fake_cuda_order)tst_random_below(&rng, 4), seed);
    right &= check(&p, seed);
    if (!right) printf("seed %llu\n", (unsigned long long)seed);
  }
  return right && all_worked(m) ? 0 : 1;
}

/* ---- the same bits ---- */

static int same_bits(void *machine) {
  const struct machine *m = machine;
  bool right = true;
  begin(m, "never");
  for (int i = 0; i < 5; i += TST_UNLESS_SANITIZED(1, 3)) {
    uint64_t seed = (uint64_t)i + 1;
    struct tst_operands x;
    struct tst_problem p = tst_variant(i * 4, shapes[i % 5][0], shapes[i % 5][1], 1100 + i, 1.5f, 0.3f);
    tst_set_leading(&p, i % 4);
    tst_operands_create(&x, &p, TST_SIGNED, &seed);
    tileblas_option_set("TILEBLAS_SHARE", "never");
    call(&p, &x);
    float *alone = malloc(x.c.inner_bytes);
    if (!alone) return 3;
    memcpy(alone, x.c.inner, x.c.inner_bytes);
    tst_matrix_restore(&x.c);
    tileblas_option_set("TILEBLAS_SHARE", "always");
    call(&p, &x);
    if (memcmp(alone, x.c.inner, x.c.inner_bytes) != 0) right = false, printf("other bits in case %d\n", i);
    free(alone);
    tst_operands_destroy(&x);
  }
  return right && all_worked(m) ? 0 : 1;
}

/* Nor do they show who finished what another had to leave: GPU 0 computes alone, in blocks, and fails at one of them.
 */
static int rescued_bits(void *machine) {
  const struct machine *m = machine;
  bool right = true;
  begin(m, "always");
  const int64_t before = 3; /* copies down that go well */
  uint64_t seed = 1;
  struct tst_operands x;
  const struct tst_problem p = tst_variant(0, 520, 400, 1100, 1.5f, 0.3f);
  tst_operands_create(&x, &p, TST_SIGNED, &seed);
  call(&p, &x); /* opens both */
  tst_matrix_restore(&x.c);
  tileblas_option_set("TILEBLAS_SHARE", "never");
  call(&p, &x);
  float *alone = malloc(x.c.inner_bytes);
  if (!alone) return 3;
  memcpy(alone, x.c.inner, x.c.inner_bytes);
  tst_matrix_restore(&x.c);
  const uint64_t launches = launches_on(1);
  fake->inject_on(0, "cuMemcpyDtoHAsync", before + 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
  call(&p, &x);
  if (launches_on(1) == launches) right = false, printf("GPU 1 finished nothing\n");
  if (memcmp(alone, x.c.inner, x.c.inner_bytes) != 0) right = false, printf("other bits\n");
  free(alone);
  tst_operands_destroy(&x);
  return right ? 0 : 1;
}

/* A product on the tensor cores of which one row of A, or column of B, is far smaller than it begins. */
static void make_uneven(struct tst_operands *x, const struct tst_problem *p, bool by_rows) {
  /* In the middle: between tiles of 128 rows, or 192 columns, and where those of the other size would be. */
  for (int64_t l = 0; l < p->k; l++)
    if (l % 64 != 0) *(by_rows ? &x->a.data[135 + l * p->lda] : &x->b.data[200 + l * p->ldb]) *= 0x1p-40f;
  tst_matrix_remember(by_rows ? &x->a : &x->b);
}

/* On the tensor cores one word may have the whole tile around it computed in another way: a tile of a part must be one
 * of the whole. */
static int same_bits_of_tensor_cores(void *machine) {
  const struct machine *m = machine;
  bool right = true;
  begin(m, "never");
  tileblas_option_set("TILEBLAS_PRECISION", "fp32");
  for (int by_rows = 0; by_rows < TST_UNLESS_SANITIZED(2, 1); by_rows++) {
    uint64_t seed = 5;
    struct tst_operands x;
    struct tst_problem p = tst_variant(0, by_rows ? 380 : 250, by_rows ? 250 : 380, 900, 1.5f, 0.3f);
    p.trans_b = 'T'; /* nor does A run along k: of operands that do the link would hide what is computed */
    tst_set_leading(&p, 1);
    tst_operands_create(&x, &p, TST_SIGNED, &seed);
    make_uneven(&x, &p, by_rows);
    float *const alone = malloc(x.c.inner_bytes);
    if (!alone) return 3;
    for (int shared = 0; shared < 2; shared++) {
      tileblas_option_set("TILEBLAS_SHARE", shared ? "always" : "never");
      call(&p, &x);
      if (shared && memcmp(alone, x.c.inner, x.c.inner_bytes) != 0) right = false, printf("other bits, %d\n", by_rows);
      memcpy(alone, x.c.inner, x.c.inner_bytes);
      tst_matrix_restore(&x.c);
    }
    free(alone);
    tst_operands_destroy(&x);
  }
  for (int gpu = 0; gpu < m->gpus; gpu++) right = right && fake->calls_on(gpu, "cuTensorMapEncodeTiled") > 0;
  return right && all_worked(m) ? 0 : 1;
}

/* ---- panels, and what goes over the links ---- */

/* Of so many elements that check() would take longest of all here. */
static bool check_large(uint64_t m, uint64_t n) {
  return tst_outer_is_right(tst_resolve(tst_find_symbol("cblas_sgemm")), (int64_t)m, (int64_t)n);
}

static uint64_t counted[3];
static const enum fake_cuda_count counts[3] = {FAKE_CUDA_BYTES_UP, FAKE_CUDA_BYTES_DOWN, FAKE_CUDA_BYTES_PEER};

static void begin_counting(void) {
  for (int i = 0; i < 3; i++) counted[i] = fake->get(counts[i]);
}

static bool moved(uint64_t up, uint64_t down, uint64_t between) {
  const uint64_t expected[3] = {up, down, between};
  bool right = true;
  for (int i = 0; i < 3; i++) {
    counted[i] = fake->get(counts[i]) - counted[i];
    if (counted[i] == expected[i]) continue;
    right = false;
    printf("%llu bytes %s, not %llu\n", (unsigned long long)counted[i], i ? i == 1 ? "down" : "between GPUs" : "up",
           (unsigned long long)expected[i]);
  }
  return right;
}

/*
 * Three panels of the operand that all want: for two GPUs a group of both and a rest, for four a group that is not
 * full. A and B go up once in all, C comes down once, whatever the number of GPUs; what all want goes between them, or
 * if it cannot, up to each.
 */
static int panels(void *machine) {
  const struct machine *m = machine;
  const uint64_t high = 2304, wide = 2432, gpus = (uint64_t)m->gpus, ups = m->peers ? 1 : gpus, word = sizeof(float);
  bool right = true;
  if (TST_SANITIZED && m->peers && gpus > 2) return 0; /* more of the same, for their numbers */
  begin(m, "always");
  for (int by_rows = 0; by_rows < (gpus == 2 ? 2 : 1); by_rows++) {
    fake->set_order(by_rows ? FAKE_CUDA_RANDOM : FAKE_CUDA_LAZY, gpus);
    begin_counting();
    right &= by_rows ? check_large(wide, high) : check_large(high, wide);
    right &= moved(2 * (ups * high + wide) * word, high * wide * word, 2 * high * (gpus - ups) * word);
  }
  return right && all_worked(m) ? 0 : 1;
}

/* ---- pinned and device memory ---- */

static bool check_placed(const enum tst_kind kinds[3], int64_t m, int64_t n, int64_t k, float beta) {
  struct tst_problem p = tst_variant(0, m, n, k, 1, beta);
  struct tst_operands x;
  struct tst_expected e;
  struct tst_placed a, b, c;
  uint64_t seed = 1;
  tst_operands_create(&x, &p, TST_INTEGERS, &seed);
  tst_expect(&e, &p, &x);
  memset(e.bound, 0, sizeof *e.bound * (size_t)(m * n));
  tst_place(&a, &x.a, kinds[0], 1), tst_place(&b, &x.b, kinds[1], 0), tst_place(&c, &x.c, kinds[2], 2);
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), &p, a.data, b.data, c.data);
  const bool back = tst_take_back(&a) & tst_take_back(&b) & tst_take_back(&c);
  const char *wrong = back ? tst_verify(&p, &x, &e) : "the operands do not come back";
  if (wrong) printf("%s\n", wrong);
  tst_expected_destroy(&e);
  tst_operands_destroy(&x);
  return !wrong;
}

static int pinned_operands(void *machine) {
  const struct machine *m = machine;
  bool right = true;
  begin(m, "always");
  tst_cuda_begin(0);
  for (int number = 1; number < 8; number++) {
    const enum tst_kind kinds[3] = {(enum tst_kind)(number & 1), (enum tst_kind)(number >> 1 & 1),
                                    (enum tst_kind)(number >> 2)};
    right &= check_placed(kinds, 520, 300, 20, number % 2 ? 2.5f : 0);
    /* So small that a kernel alone would read them in place: here they go up all the same. */
    const uint64_t before = fake->get(FAKE_CUDA_BYTES_UP);
    right &= check_placed(kinds, 20, 530, 9, 0);
    right &= fake->get(FAKE_CUDA_BYTES_UP) - before >= (2 * 20 * 9 + 9 * 530) * sizeof(float);
  }
  tst_cuda_end(0);
  return right && all_worked(m) ? 0 : 1;
}

/* Operands in a GPU's memory are computed there, in place, and nowhere else. */
static int resident_operands(void *machine) {
  const enum tst_kind device[3] = {TST_DEVICE, TST_DEVICE, TST_DEVICE};
  begin(machine, "always");
  tst_cuda_begin(1);
  bool right = check_placed(device, 260, 270, 9, 2.5f);
  tst_cuda_end(1);
  const uint64_t moved = fake->get(FAKE_CUDA_BYTES_PEER);
  if (moved > 0 || launches_on(0) > 0 || launches_on(1) == 0) right = false, printf("on the wrong GPU\n");
  return right && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* ---- when one is enough, and when one cannot ---- */

/* Nothing here takes a GPU 4 ms, so no other is opened. */
static int small_calls(void *machine) {
  begin(machine, "auto");
  struct tst_problem p = tst_variant(0, 300, 300, 300, 1, 1);
  const bool right = check(&p, 1) && check(&p, 2);
  return right && fake->get(FAKE_CUDA_CONTEXTS) == 1 ? 0 : 1;
}

/* With all open, a product is shared if one GPU would need 2 ms for it; the figures are an H200's (share.h). */
static int a_large_call(void *machine) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  const struct {
    int64_t side;
    bool shared;
  } cases[] = {{300, false}, {4900, true}}; /* the second brings down 96 MB: 2.1 ms */
  struct tst_problem small = tst_variant(0, 300, 300, 5, 1, 1);
  begin(machine, "always");
  bool right = check(&small, 1) && launches_on(1) > 0;
  tileblas_option_set("TILEBLAS_SHARE", "auto");
  for (size_t i = 0; i < 2; i++) {
    struct tst_problem p = tst_variant(0, cases[i].side, cases[i].side, 1, 1, 0);
    float *memory = calloc((size_t)(p.m * p.n), sizeof *memory);
    if (!memory) return 3;
    const uint64_t before = launches_on(1);
    tst_call(symbol, tst_resolve(symbol), &p, memory, memory, memory);
    free(memory);
    if ((launches_on(1) > before) != cases[i].shared) right = false, printf("case %d\n", (int)i);
  }
  return right ? 0 : 1;
}

/* The same call twice, in mode auto: what several took together says nothing of what one takes, so both are predicted
 * alike; of one alone it does. */
static int predictions(void *machine) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 2; /* a CPU that is slower than any GPU */
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  begin(machine, "always");
  struct tst_problem first = tst_variant(0, 300, 300, 5, 1, 1), p = tst_variant(0, 600, 600, 100, 1, 1);
  bool right = check(&first, 1);
  tileblas_option_set("TILEBLAS_ROUTE", "auto");
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  for (int i = 0; i < 4; i++) {
    if (i == 2) tileblas_option_set("TILEBLAS_SHARE", "never");
    right &= check(&p, (uint64_t)i + 1);
  }
  tileblas_option_set("TILEBLAS_VERBOSE", "0");
  return right ? 0 : 1;
}

static void what_several_took_is_not_learned(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, predictions, &(struct machine){2, true, "0", 0});
  char said[4][64] = {{0}};
  const char *at = o.err;
  for (int i = 0; i < 4 && (at = strstr(at, ": cpu ")); i++, at++) {
    snprintf(said[i], sizeof said[i], "%.*s", (int)strcspn(at, ")"), at);
  }
  if (o.status != 0 || tst_count_lines(o.err, "-> gpu0+1 ") != 2 || strcmp(said[0], said[1]) != 0 ||
      strcmp(said[1], said[2]) != 0 || strcmp(said[2], said[3]) == 0)
    fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

/* GPUs whose memory is all in use by others: the rest does their parts, or the CPU, one line says so, and all are used
 * again when there is memory. */
static int full_memory(void *machine) {
  const struct machine *m = machine;
  begin(m, "always");
  alarm(30); /* one of them may be asked to help for ever */
  for (int gpu = 0; gpu < m->gpus; gpu++)
    if (m->full >> gpu & 1) fake->inject_on(gpu, "cuMemAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY, 0);
  struct tst_problem p = tst_variant(0, 300, 700, 20, 1, 2.5f);
  bool right = check(&p, 1) && check(&p, 2);
  for (int gpu = 0; gpu < m->gpus; gpu++) right = right && (m->full >> gpu & 1) == (launches_on(gpu) == 0);
  fake->clear_failures();
  right = right && check(&p, 3);
  for (int gpu = 0; gpu < m->gpus; gpu++) right = right && launches_on(gpu) > 0;
  return right && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* One that cannot be opened at all is done without, and nobody is told. */
static int one_does_not_open(void *machine) {
  const struct machine *m = machine;
  begin(m, "always");
  fake->inject_on(1, "cuModuleLoadData", 0, 999, 0);
  struct tst_problem p = tst_variant(0, 300, 700, 20, 1, 2.5f);
  const bool right = check(&p, 1) && check(&p, 2);
  tileblas_stats s;
  tileblas_stats_get(&s);
  return right && launches_on(1) == 0 && launches_on(m->gpus - 1) > 0 && s.gpu_failures == 0 &&
                 fake->calls_on(1, "cuModuleLoadData") == 1
             ? 0
             : 1;
}

/* ---- the cases ---- */

static void expect(int (*body)(void *), struct machine m, const char *says, size_t lines) {
  struct tst_output o;
  tst_fork(&o, body, &m);
  const bool well = o.status == 0 && tst_count_lines(o.err, "\n") == lines && tst_count_lines(o.err, says) == lines;
  if (!well) print_error("%d GPUs, status %d\n%s%s", m.gpus, o.status, o.out, o.err);
  tst_output_destroy(&o);
  assert_true(well);
}

#define CASE(name, body, ...)                                        \
  static void name(void **state) {                                   \
    (void)state;                                                     \
    expect(body, (struct machine){__VA_ARGS__, 0}, "tileblas: ", 0); \
  }
CASE(two_gpus, every_variant, 2, true, "0")
CASE(three_gpus, every_variant, 3, true, "0")
CASE(four_gpus_in_pieces, every_variant, 4, true, "300K")
CASE(random_calls_on_three, random_calls, 3, true, "0")
CASE(random_calls_without_peers, random_calls, 2, false, "0")
CASE(the_bits_of_one, same_bits, 2, true, "0")
CASE(the_bits_of_one_in_pieces, same_bits, 2, true, "600K")
CASE(the_bits_of_one_on_tensor_cores, same_bits_of_tensor_cores, 2, true, "0")
CASE(panels_of_two, panels, 2, true, "0")
CASE(panels_of_three, panels, 3, true, "0")
CASE(panels_of_four, panels, 4, true, "0")
CASE(panels_without_peers, panels, 3, false, "0")
CASE(pinned_memory, pinned_operands, 2, true, "0")
CASE(memory_of_the_second_gpu, resident_operands, 2, true, "0")
CASE(small_calls_open_one, small_calls, 2, true, "0")
CASE(a_large_call_is_shared, a_large_call, 2, true, "0")
CASE(one_that_does_not_open, one_does_not_open, 3, true, "0")

static void the_bits_of_a_rescue(void **state) {
  (void)state;
  expect(rescued_bits, (struct machine){2, true, "600K", 0}, "tileblas: warning: GPU 0 ", 1);
}

static void one_without_memory(void **state) {
  (void)state;
  expect(full_memory, (struct machine){2, true, "0", 2}, "tileblas: warning: GPU 1 ", 1);
  expect(full_memory, (struct machine){2, true, "0", 1}, "tileblas: warning: GPU 0 ", 1);
  expect(full_memory, (struct machine){3, true, "0", 5}, "tileblas: warning: GPU 0 ", 1);
}

static void all_without_memory(void **state) {
  (void)state;
  expect(full_memory, (struct machine){1, true, "0", 1}, "tileblas: warning: GPU 0 ", 1);
  expect(full_memory, (struct machine){3, true, "0", 7}, "tileblas: warning: GPU 0 ", 1);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_gpus),
      cmocka_unit_test(three_gpus),
      cmocka_unit_test(four_gpus_in_pieces),
      cmocka_unit_test(random_calls_on_three),
      cmocka_unit_test(random_calls_without_peers),
      cmocka_unit_test(the_bits_of_one),
      cmocka_unit_test(the_bits_of_one_in_pieces),
      cmocka_unit_test(the_bits_of_one_on_tensor_cores),
      cmocka_unit_test(the_bits_of_a_rescue),
      cmocka_unit_test(panels_of_two),
      cmocka_unit_test(panels_of_three),
      cmocka_unit_test(panels_of_four),
      cmocka_unit_test(panels_without_peers),
      cmocka_unit_test(pinned_memory),
      cmocka_unit_test(memory_of_the_second_gpu),
      cmocka_unit_test(small_calls_open_one),
      cmocka_unit_test(a_large_call_is_shared),
      cmocka_unit_test(one_that_does_not_open),
      cmocka_unit_test(what_several_took_is_not_learned),
      cmocka_unit_test(one_without_memory),
      cmocka_unit_test(all_without_memory),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
