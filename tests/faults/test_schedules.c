/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random products under random limits, with a driver that works in random order and fails at a random call, or none:
 * every element of C is committed exactly once, by the GPU or the CPU, whatever was under way. Whole numbers and beta =
 * 2, so the answers are exact, and a tile that is committed twice, or not, or to the wrong place, gives others. The
 * shapes go by one slot or by many, by threads that copy, by many tiles, slices and chunks of k.
 *
 *   test_schedules [CASES [SEED]]     30 and 1 unless given; a failure prints the seed of its case
 *
 * Seen to fail when: a commit that threads are at is not waited for after a failure; what arrived is counted before it
 * is committed; a slot is filled again before the GPU has read it.
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

#include "offload_call.h"
#include "process.h"
#include "rng.h"

#define CALLS 2
#define CUDA_ERROR_OUT_OF_MEMORY 2

static long cases = 30;
static uint64_t seed = 1;

/* Small; a C of many tiles; a long k; all three in pieces. The fake computes on a CPU, so few operations each. */
static struct tst_problem random_problem(uint64_t *rng) {
  struct tst_problem p = {.row_major = tst_random_below(rng, 2)};
  p.trans_a = "NT"[tst_random_below(rng, 2)], p.trans_b = "NT"[tst_random_below(rng, 2)];
  switch (tst_random_below(rng, 4)) {
    case 0:
      p.m = 1 + tst_random_below(rng, 100), p.n = 1 + tst_random_below(rng, 100), p.k = 1 + tst_random_below(rng, 100);
      break;
    case 1:
      p.m = 520 + tst_random_below(rng, 700), p.n = 520 + tst_random_below(rng, 700), p.k = 1;
      break;
    case 2:
      p.m = 20 + tst_random_below(rng, 20), p.n = 20 + tst_random_below(rng, 20),
      p.k = 1 + tst_random_below(rng, 20000);
      break;
    default:
      p.m = 1 + tst_random_below(rng, 300), p.n = 1 + tst_random_below(rng, 40), p.k = 1 + tst_random_below(rng, 1500);
  }
  return p;
}

static void random_limit(const struct tst_library *library, uint64_t *rng) {
  char text[32] = "0";
  if (tst_random_below(rng, 2)) snprintf(text, sizeof text, "%lldK", 178 + (long long)tst_random_below(rng, 4000));
  library->option_set("TILEBLAS_MEMORY_LIMIT", text);
}

/* A function that a call uses, at any of its calls; or device memory that somebody else has, now and then or for good.
 */
static void random_failure(const struct tst_fake *fake, uint64_t *rng) {
  static const char *const functions[] = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuLaunchKernel",
                                          "cuLaunchKernelEx",  "cuEventRecord",     "cuEventQuery",
                                          "cuStreamWaitEvent", "cuStreamQuery",     "cuMemsetD8Async"};
  const size_t count = sizeof functions / sizeof *functions;
  const int64_t which = tst_random_below(rng, (int64_t)count + 4);
  const unsigned flags[] = {0, 0, FAKE_CUDA_STICKY, FAKE_CUDA_ASYNC};
  const unsigned flag = flags[tst_random_below(rng, 4)];
  const unsigned long nth = 1 + (unsigned long)tst_random_below(rng, 1 << (1 + tst_random_below(rng, 6)));
  if (which < (int64_t)count) {
    if (fake->inject(functions[which], nth, 719, flag) != 0) fake->inject(functions[which], nth, 719, 0);
  } else if (which == (int64_t)count) {
    fake->inject("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
    fake->inject("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, 0);
  } else if (which == (int64_t)count + 1) {
    fake->inject("cuMemAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY, 0);
  }
}

static int life(void *argument) {
  uint64_t rng = *(const uint64_t *)argument;
  const struct tst_fake *fake = tst_fake();
  struct tst_library library;
  tileblas_stats stats;
  if (!fake) return 2;
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  bool right = tst_call_in_pieces(&library, 0); /* opens the GPU, whose opening is not what fails here */
  fake->set_order((enum fake_cuda_order)tst_random_below(&rng, 4), tst_random(&rng));
  random_failure(fake, &rng);
  for (int i = 0; i < CALLS; i++) {
    random_limit(&library, &rng);
    right &= tst_call_exactly(&library, random_problem(&rng), tst_random(&rng));
  }
  library.stats_get(&stats);
  tst_library_close(&library);
  printf("failures=%d ", (int)stats.gpu_failures);
  return right && tst_nothing_left(fake) ? 0 : 1;
}

static void random_schedules(void **state) {
  (void)state;
  long failed = 0;
  for (long i = 0; i < cases; i++) {
    uint64_t one = seed + (uint64_t)i;
    struct tst_output o;
    tst_fork(&o, life, &one);
    const bool gave_up = strstr(o.out, "failures=0") == NULL;
    failed += gave_up;
    if (o.status != 0 || tst_count_lines(o.err, "\n") != gave_up)
      fail_msg("test_schedules 1 %llu: status %d\n%s%s", (unsigned long long)one, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
  printf("%ld of %ld cases had a GPU that failed\n", failed, cases);
  if (cases >= 30) assert_in_range(failed, cases / 8, cases - cases / 8);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_schedules)};
  if (argc > 1) cases = atol(argv[1]);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
