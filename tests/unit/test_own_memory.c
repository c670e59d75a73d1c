/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small products of a program that has CUDA open: which of them cost a question to the driver, and that none of those
 * that do not was one of CUDA's memory. In the heap, in variables and on the main thread's stack nobody is asked; all
 * other memory is the driver's to name, in every call, because what lay at an address says nothing of what lies there
 * now. Larger products of the heap, variables and stack, too, are looked at: pinned memory is of use to them.
 *
 * Each case is a process of its own. Seen to fail when: a range is too long or too short at either end; what the driver
 * said of a pointer is kept; a look for the driver counts for good; another thread's stack is taken for the main one's.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "tileblas.h"

#define SIDE 8
#define PAGE_BYTES 4096
#define MAPPED_BYTES ((size_t)1 << 20)

static const struct tst_symbol *symbol;
static const struct tst_fake *fake;
#define FEW 160 /* sides of a product of as many terms as place.h has it */
static const struct tst_problem small = {0, 'N', 'N', SIDE, SIDE, SIDE, 1, SIDE, SIDE, 0, SIDE};
static float in_data[3 * SIDE * SIDE] = {1}, in_bss[3 * SIDE * SIDE];
static float large_in_bss[3][(FEW + 1) * (FEW + 1)];

static void begin(void) {
  symbol = tst_find_symbol("cblas_sgemm");
  fake = tst_fake();
  tst_cuda_begin(0);
}

static uint64_t gpu_calls(void) {
  tileblas_stats s;
  tileblas_stats_get(&s);
  return s.gpu_calls;
}

static uint64_t questions_so_far(void) { return fake ? fake->calls("cuPointerGetAttributes") : 0; }

/* C = A B for an A of ones and a B of twos, by the CPU. Returns how many questions the driver got, or -1 after a wrong
 * answer. A real driver does not count, but its memory is the real thing. */
static int64_t questions(float *a, float *b, float *c) {
  for (int i = 0; i < SIDE * SIDE; i++) a[i] = 1, b[i] = 2, c[i] = 3;
  uint64_t before = questions_so_far(), by_gpu = gpu_calls();
  tst_call(symbol, tst_resolve(symbol), &small, a, b, c);
  uint64_t asked = questions_so_far() - before;
  bool right = gpu_calls() == by_gpu;
  for (int i = 0; i < SIDE * SIDE; i++) right = right && c[i] == 2 * SIDE;
  return right ? (int64_t)asked : -1;
}

static float *map(void) {
  void *pages = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) abort();
  return pages;
}

/* Prints and returns false unless exactly so many were asked. */
static bool asked(const char *where, int64_t count, float *a, float *b, float *c) {
  int64_t was = questions(a, b, c);
  bool right = fake ? was == count : was >= 0;
  if (!right) printf("%s: %ld questions instead of %ld\n", where, (long)was, (long)count);
  return right;
}

/* ---- who is asked ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IN_HEAP = 3 }; /* its allocator has no heap of that kind */
#else
enum { IN_HEAP = 0 };
#endif

static int own_memory(void *unused) {
  (void)unused;
  begin();
  float on_stack[3 * SIDE * SIDE], *in_heap = malloc(sizeof in_data), *mapped = map();
  if (!in_heap) abort();
  enum { B = SIDE * SIDE, C = 2 * SIDE * SIDE };
  bool right = questions(mapped, mapped + B, mapped + C) >= 0; /* the first call goes the long way */
  right &= asked("variables", 0, in_data, in_data + B, in_data + C);
  right &= asked("zeroed variables", 0, in_bss, in_bss + B, in_bss + C);
  right &= asked("heap", IN_HEAP, in_heap, in_heap + B, in_heap + C);
  right &= asked("stack", 0, on_stack, on_stack + B, on_stack + C);
  right &= asked("heap, variables and stack", IN_HEAP, in_heap, in_data, on_stack);
  right &= asked("A mapped", 3, mapped, in_data + B, in_data + C);
  right &= asked("B mapped", 3, in_data, mapped, in_data + C);
  right &= asked("C mapped", 3, in_data, in_data + B, mapped);
  free(in_heap);
  return right ? 0 : 1;
}

/* What was the heap's is not, once brk has moved down; and is again when it moves up. */
static int a_heap_that_shrinks(void *unused) {
  (void)unused;
  if (sbrk(PAGE_BYTES) == (void *)-1) return 5; /* a sanitizer's allocator leaves brk alone: then this is the heap */
  begin();
  if (questions(in_data, in_bss, in_bss + SIDE * SIDE) < 0) return 2;
  bool right = true;
  for (int round = 0; round < 3; round++) {
    char *large = sbrk((intptr_t)MAPPED_BYTES);
    if (large == (void *)-1) abort();
    float *end = (float *)(large + MAPPED_BYTES / 2);
    right &= asked("the heap's end", 0, in_data, in_bss, end);
    char *where = (char *)((uintptr_t)end & ~(uintptr_t)(PAGE_BYTES - 1));
    if (brk(large) != 0) return 3;
    char *pages =
        mmap(where, PAGE_BYTES * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (pages != where) return 4;
    right &= asked("where the heap was", 3, in_data, in_bss, (float *)pages);
    munmap(pages, PAGE_BYTES * 2);
  }
  return right ? 0 : 1;
}

static atomic_bool thread_right;

static void *on_another_stack(void *unused) {
  float on_stack[3 * SIDE * SIDE];
  questions(in_data, in_bss, in_bss + SIDE * SIDE); /* the thread's first call goes the long way */
  thread_right = asked("variables, by a thread", 0, in_data, in_bss, in_bss + SIDE * SIDE) &
                 asked("a thread's stack", 3, on_stack, on_stack + SIDE * SIDE, on_stack + 2 * SIDE * SIDE);
  return unused;
}

static int threads(void *unused) {
  (void)unused;
  begin();
  pthread_t id;
  if (pthread_create(&id, NULL, on_another_stack, NULL) != 0) return 2;
  pthread_join(id, NULL);
  return thread_right ? 0 : 1;
}

/* The same on the long way, which calls take that are not the smallest, and all calls that are reported; but of larger
 * products the driver is asked, who knows what of the program's memory is pinned. */
static int the_long_way(void *unused) {
  (void)unused;
  begin();
  if (tileblas_option_set("TILEBLAS_REPORT", "/dev/null") != 0) return 2;
  enum { B = SIDE * SIDE, C = 2 * SIDE * SIDE };
  float on_stack[3 * SIDE * SIDE], *mapped = map();
  bool right = true;
  for (int again = 0; again < 2; again++) {
    right &= asked("variables", 0, in_data, in_data + B, in_data + C);
    right &= asked("variables and stack", 0, in_data, on_stack, in_bss);
    right &= asked("A mapped", 3, mapped, in_data + B, in_data + C);
    right &= asked("B mapped", 3, in_data, mapped, in_data + C);
    right &= asked("C mapped", 3, in_data, in_data + B, mapped);
  }
  for (int side = FEW; side <= FEW + 1; side++) {
    const struct tst_problem p = {0, 'N', 'N', side, side, side, 1, side, side, 0, side};
    const uint64_t before = questions_so_far();
    tst_call(symbol, tst_resolve(symbol), &p, large_in_bss[0], large_in_bss[1], large_in_bss[2]);
    if (fake) right &= questions_so_far() - before == (side == FEW ? 0 : 3);
  }
  return right ? 0 : 1;
}

/* ---- nobody is fooled ---- */

/* Where ordinary memory was that a call had used, the driver puts device memory: the next call is the GPU's. */
static int recycled_address(void *unused) {
  (void)unused;
  begin();
  mallopt(M_MMAP_THRESHOLD, (int)MAPPED_BYTES * 4); /* nothing but the driver shall want what is unmapped here */
  bool right = true;
  int met = 0;
  for (int i = 0; i < 300; i++) /* nor shall it find another gap, higher up */
    if (mmap(NULL, MAPPED_BYTES / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return 2;
  for (int round = 0; round < 8; round++) {
    float *pages = map();
    for (int i = 0; i < 3; i++) right &= asked("pages", 3, pages, pages + SIDE * SIDE, pages + 2 * SIDE * SIDE);
    munmap(pages, MAPPED_BYTES);
    struct tst_matrix filling = {.data = calloc(1, MAPPED_BYTES / 2), .lines = 1, .len = MAPPED_BYTES / 8};
    struct tst_placed device;
    tst_place(&device, &filling, TST_DEVICE, 0);
    uintptr_t base = (uintptr_t)device.memory;
    met += base >= (uintptr_t)pages && base < (uintptr_t)pages + MAPPED_BYTES;
    uint64_t before = gpu_calls();
    tst_call(symbol, tst_resolve(symbol), &small, device.data, device.data + SIDE * SIDE,
             device.data + 2 * SIDE * SIDE);
    right &= gpu_calls() == before + 1;
    tst_take_back(&device);
    free(filling.data);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (fake && met == 0) return 3; /* the addresses never met: this shows nothing */
#endif
  return right ? 0 : 1;
}

/* A thread that has found no driver, again and again, finds the one that came. */
static int driver_appears(void *unused) {
  (void)unused;
  symbol = tst_find_symbol("cblas_sgemm");
  float *pages = map();
  const struct timespec tick = {0, 20000000}; /* less than a driver takes to come up */
  for (int i = 0; i < 1000; i++)
    tst_call(symbol, tst_resolve(symbol), &small, pages, pages + SIDE * SIDE, pages + 2 * SIDE * SIDE);
  begin();
  nanosleep(&tick, NULL);
  struct tst_matrix filling = {.data = pages, .lines = 1, .len = 3 * SIDE * SIDE};
  struct tst_placed device;
  tst_place(&device, &filling, TST_DEVICE, 0);
  uint64_t before = gpu_calls();
  tst_call(symbol, tst_resolve(symbol), &small, device.data, device.data + SIDE * SIDE, device.data + 2 * SIDE * SIDE);
  bool right = gpu_calls() == before + 1;
  tst_take_back(&device);
  return right ? 0 : 1;
}

static void expect_success(int (*body)(void *)) {
  struct tst_output o;
  tst_fork(&o, body, NULL);
  bool well = o.status == 0 && o.err[0] == '\0';
  if (!well) print_error("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
  assert_true(well);
}

#define CASE(name, body)           \
  static void name(void **state) { \
    (void)state;                   \
    expect_success(body);          \
  }
CASE(nobody_is_asked_about_own_memory, own_memory)
CASE(larger_products_are_looked_at, the_long_way)
CASE(the_heap_ends_where_it_ends, a_heap_that_shrinks)
CASE(of_stacks_only_the_main_threads, threads)
CASE(an_address_says_nothing_of_the_past, recycled_address)
CASE(a_driver_that_appears_is_noticed, driver_appears)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nobody_is_asked_about_own_memory),    cmocka_unit_test(larger_products_are_looked_at),
      cmocka_unit_test(the_heap_ends_where_it_ends),         cmocka_unit_test(of_stacks_only_the_main_threads),
      cmocka_unit_test(an_address_says_nothing_of_the_past), cmocka_unit_test(a_driver_that_appears_is_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
