/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 15 again, by a GPU that is kept busy: a kernel of the program's that never ends has every multiprocessor, so
 * that nothing of ours runs. The call is the CPU's after TILEBLAS_TIMEOUT seconds, and its answer right; one line says
 * so; later calls ask the GPU for nothing; the process goes on, and ends, with the kernel still running or not.
 *
 * The kernel spins on a flag in pinned memory, by which the test ends it where it wants to. On the fake driver, which
 * would run it for ever, the device hangs instead. A case that no driver of NVIDIA's is known to bear runs on a real
 * one alone: a thread of the program's that frees memory behind such a kernel.
 *
 * Each case is a process of its own, with an alarm. Seen to fail when: a GPU that hangs is closed; the driver is asked
 * where operands lie once no GPU answers any more.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cuda_program.h"
#include "fake.h"
#include "process.h"
#include "tileblas.h"

#define TIMEOUT "2"      /* TILEBLAS_TIMEOUT */
#define SECONDS_MAX 60   /* of a case, its end included */
#define GIVING_UP_MAX 15 /* of the call that waits for the GPU; the CPU's part is in it */
#define LATER_MAX 5      /* of a call behind that */
#define IDLE_SECONDS 3   /* in which the library would give memory back */
#define BLOCKS 4096      /* of 1024 threads: more than any GPU holds */

/* ---- the kernel ---- */

static volatile int *flags; /* endless.cu */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *read_file(const char *path) {
  FILE *file = fopen(path, "rbe");
  static char text[1 << 20];
  if (!file || fread(text, 1, sizeof text, file) == 0) {
    printf("%s cannot be read\n", path);
    exit(1);
  }
  fclose(file);
  return text;
}

static CUfunction kernel;
static CUstream stream;

/* Before it is wanted: to load code may wait for what runs. */
static void load_kernel(void) {
  CUmodule module;
  if (tst_fake()) return;
  GUEST_OK(guest_cuda.cuModuleLoadData(&module, read_file(tst_setting("TB_TEST_ENDLESS"))));
  GUEST_OK(guest_cuda.cuModuleGetFunction(&kernel, module, "tst_endless"));
  GUEST_OK(guest_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  flags = tst_cuda_allocate(TST_PINNED, 2 * sizeof *flags);
}

static void begin_kernel(void) {
  if (tst_fake()) {
    tst_fake()->set_order(FAKE_CUDA_HANGING, 0);
    return;
  }
  flags[0] = flags[1] = 0;
  void *argument = (void *)flags, *arguments[] = {&argument};
  GUEST_OK(guest_cuda.cuLaunchKernel(kernel, BLOCKS, 1, 1, 1024, 1, 1, 0, stream, arguments, NULL));
  while (flags[0] == 0) usleep(1000);
  usleep(100000); /* the other blocks begin */
}

static void end_kernel(void) {
  if (tst_fake())
    tst_fake()->set_order(FAKE_CUDA_LAZY, 0);
  else
    flags[1] = 1;
  GUEST_OK(guest_cuda.cuCtxSynchronize());
}

/* ---- a call behind it ---- */

/* Prints and returns false when it takes longer. */
static bool call_within(const struct guest_product *product, double seconds, const char *what) {
  const double begun = now();
  guest_product_call(product);
  const double took = now() - begun;
  printf("%s: %.2f s\n", what, took);
  return took <= seconds;
}

static bool later_calls_are_the_cpus(int64_t side) {
  struct guest_product product;
  tileblas_stats before, after;
  tileblas_stats_get(&before);
  guest_product_make(&product, side, TST_PAGEABLE, 3);
  if (tst_fake()) tst_fake()->reset_calls();
  bool right = call_within(&product, LATER_MAX, "a later call");
  for (size_t i = 0; tst_fake() && tst_fake()->function(i) != NULL; i++) {
    const int calls = (int)tst_fake()->calls(tst_fake()->function(i));
    if (calls > 0) right = false, printf("%s is called %d times\n", tst_fake()->function(i), calls);
  }
  tileblas_stats_get(&after);
  return right && guest_product_is_right(&product) && after.gpu_calls == before.gpu_calls && after.gpu_failures == 1;
}

/* Up to the point where the GPU is given up. */
static bool give_up(enum tst_kind kind, int64_t side) {
  struct guest_product product;
  alarm(SECONDS_MAX);
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tileblas_option_set("TILEBLAS_TIMEOUT", TIMEOUT);
  guest_begin();
  load_kernel();
  guest_product_make(&product, side, kind, 1); /* opens the GPU, and has its memory and kernels */
  guest_product_call(&product);
  bool right = guest_product_is_right(&product) && guest_gpu_calls() == 1;
  guest_product_make(&product, side, kind, 2);
  begin_kernel();
  right &= call_within(&product, GIVING_UP_MAX, "the call that waits");
  right &= later_calls_are_the_cpus(side);
  if (kind != TST_PAGEABLE) end_kernel(); /* before its memory is freed */
  return guest_product_is_right(&product) && right;
}

static int64_t side(void) { return tst_fake() ? 200 : 1500; }

static int until_it_ends(void *kind) {
  const bool right = give_up((enum tst_kind)(uintptr_t)kind, side());
  end_kernel(); /* what is then written by the GPU is ours alone */
  return right && later_calls_are_the_cpus(side()) ? 0 : 1;
}

static int exit_beside_it(void *unused) {
  (void)unused;
  const bool right = give_up(TST_PAGEABLE, side());
  sleep(IDLE_SECONDS);
  return right ? 0 : 1;
}

/* What the driver makes of that without any call of ours: on an H200 with driver 580 such a process does not end. */
#define EXIT_SECONDS_MAX 20
#define ENDED_BY_ALARM (128 + SIGALRM)
static int exit_without_a_call(void *unused) {
  (void)unused;
  alarm(EXIT_SECONDS_MAX);
  guest_begin();
  load_kernel();
  begin_kernel();
  return 0;
}

static void *free_memory(void *memory) {
  GUEST_OK(guest_cuda.cuCtxSetCurrent(*(CUcontext *)memory));
  guest_cuda.cuMemFree(((CUdeviceptr *)memory)[1]);
  return NULL;
}

static int free_behind_it(void *unused) {
  (void)unused;
  struct {
    CUcontext context;
    CUdeviceptr memory;
  } freed;
  pthread_t thread;
  alarm(SECONDS_MAX);
  guest_begin();
  GUEST_OK(guest_cuda.cuCtxGetCurrent(&freed.context));
  GUEST_OK(guest_cuda.cuMemAlloc(&freed.memory, 1 << 20));
  bool right = give_up(TST_PAGEABLE, side());
  if (pthread_create(&thread, NULL, free_memory, &freed) != 0) return 2;
  usleep(300000);
  right &= later_calls_are_the_cpus(side());
  flags[1] = 1;
  pthread_join(thread, NULL);
  return right ? 0 : 1;
}

/* ---- all of it ---- */

static void expect(int (*body)(void *), void *argument, size_t lines) {
  struct tst_output o;
  tst_fork(&o, body, argument);
  printf("%s", o.out);
  const bool well = o.status == 0 && tst_count_lines(o.err, "\n") == lines &&
                    tst_count_lines(o.err, "no progress for " TIMEOUT " s") == lines;
  if (!well) print_error("status %d\n%s", o.status, o.err);
  tst_output_destroy(&o);
  assert_true(well);
}

static void the_kernel_ends_later(void **state) {
  (void)state;
  expect(until_it_ends, (void *)TST_PAGEABLE, 1);
}

static void pinned_operands(void **state) {
  (void)state;
  expect(until_it_ends, (void *)TST_PINNED, 1);
}

static void the_process_ends_before_it(void **state) {
  (void)state;
  struct tst_output o; /* of a process without us, or what follows says nothing of us */
  tst_fork(&o, exit_without_a_call, NULL);
  const int status = o.status;
  tst_output_destroy(&o);
  if (status == ENDED_BY_ALARM) {
    TST_LEAVE_OUT("the driver itself waits for the kernel when the process ends: nothing to be seen of us");
  }
  assert_int_equal(status, 0);
  expect(exit_beside_it, NULL, 1);
}

static void memory_is_freed_behind_it(void **state) {
  (void)state;
  expect(free_behind_it, NULL, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_kernel_ends_later), cmocka_unit_test(pinned_operands),
                                     cmocka_unit_test(the_process_ends_before_it)};
  const struct CMUnitTest freeing[] = {cmocka_unit_test(memory_is_freed_behind_it)};
  int failed = cmocka_run_group_tests_name("endless", tests, NULL, NULL);
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') /* the fake calls it a misuse */
    failed += cmocka_run_group_tests_name("endless, and memory is freed", freeing, NULL, NULL);
  return tst_result(failed);
}
