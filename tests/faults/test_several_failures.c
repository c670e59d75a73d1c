/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of two GPUs that share calls, or three, one fails, at every driver call that is about it: the answers are right, C is
 * committed exactly once, what the one left undone is done by the other and not by the CPU, one line says that a GPU
 * failed that was open, later calls use the other alone, and nothing is left behind in the driver.
 *
 *   test_several_failures once|sticky|async GPU [others]
 *     once    the call fails, the GPU is well
 *     sticky  from that call on every call about this GPU fails: it is lost
 *     async   the call succeeds, and what it enqueued fails later
 *     others  trsm and a batch instead of products
 *
 * The positions come from a run without failures; of functions that are called often, while a GPU is opened, some. The
 * threads that drive the GPUs meet in another order each time, so that now and then the last position is not reached.
 *
 * Seen to fail when: an owner that fails keeps the others waiting for its panels (by the time limit); a panel is
 * offered before it has arrived; a GPU that failed is not given up; what a rescue moved is counted in later calls, too;
 * the line does not name the call that failed. Of others: of a block of rows that a GPU left the second rest comes
 * first; a rest is taken for the whole; what a GPU left of a batch is the CPU's.
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
#include "other_calls.h"
#include "outer.h"
#include "placed.h"
#include "process.h"

static const char *const functions[] = {
#define TB_CUDA(name) #name,
#include "cuda/driver.def"
#undef TB_CUDA
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

#define CUDA_ERROR_UNKNOWN 999
#define CALLS (1 + TST_OTHER_CALLS) /* of either kind */
#ifdef __SANITIZE_ADDRESS__
#define POSITIONS_MOST 1
#else
#define POSITIONS_MOST 3
#endif

struct failure {
  const char *function; /* NULL: none */
  unsigned long nth;
};

static const char *mode_name;
static unsigned mode_flags;
static int gpu; /* that fails */
static bool others;

/* Several panels of the operand that both want, too large a part of C for one slot, passed between the GPUs; and with a
 * limit blocks and chunks of k. */
static bool some_calls(const struct tst_library *library) {
  if (others) return tst_other_calls(library);
  bool right = tst_outer_is_right(library->cblas_sgemm, 1056, 1600);
  library->option_set("TILEBLAS_MEMORY_LIMIT", TST_PIECES_LIMIT);
  right &= tst_call_in_pieces(library, 0) & tst_call_in_pieces(library, 4);
  library->option_set("TILEBLAS_MEMORY_LIMIT", "0");
  return right;
}

static double bytes_moved(const struct tst_fake *fake) {
  return (double)(fake->get(FAKE_CUDA_BYTES_UP) + fake->get(FAKE_CUDA_BYTES_DOWN));
}

static int life(void *argument) {
  const struct failure *f = argument;
  setenv("FAKE_CUDA_DEVICES", others ? "3" : "2", 1);
  setenv("FAKE_CUDA_SMS", "2", 1); /* so that large tiles are chosen, of which the fake has fewer threads to run */
  const struct tst_fake *fake = tst_fake();
  struct tst_library library;
  tileblas_stats stats;

  if (!fake) return 2;
  const bool own_peer = f->nth % 2 == 1; /* the program has peer access of its own, which stays */
  if (own_peer) tst_cuda_enable_peer(0, 1);
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  library.option_set("TILEBLAS_SHARE", "always");
  library.option_set("TILEBLAS_VERBOSE", "1");
  if (f->function && fake->inject_on(gpu, f->function, f->nth, CUDA_ERROR_UNKNOWN, mode_flags) != 0) return 3;
  bool right = some_calls(&library);
  library.stats_get(&stats);
  const bool had_failed = stats.gpu_failures > 0;
  const uint64_t before = fake->calls_on(gpu, "cuLaunchKernel");
  const double counted = stats.gpu_bytes, moved = bytes_moved(fake);
  right &= tst_outer_is_right(library.cblas_sgemm, 32, 300);
  const bool used_again = had_failed && fake->calls_on(gpu, "cuLaunchKernel") > before;
  library.stats_get(&stats);
  /* Of a call in which nothing fails: padding moves, too, and not all of it counts. */
  if (had_failed && !(stats.gpu_bytes - counted <= bytes_moved(fake) - moved))
    right = false, printf("%g bytes counted of %g\n", stats.gpu_bytes - counted, bytes_moved(fake) - moved);
  tst_library_close(&library);
  printf("stats gpu=%llu cpu=%llu failures=%llu injected=%llu again=%d\n", (unsigned long long)stats.gpu_calls,
         (unsigned long long)stats.cpu_calls, (unsigned long long)stats.gpu_failures,
         (unsigned long long)fake->get(FAKE_CUDA_FAILURES), used_again);
  for (size_t i = 0; !f->function && i < FUNCTIONS; i++)
    printf("calls %s %llu\n", functions[i], (unsigned long long)fake->calls_on(gpu, functions[i]));
  /* The context of a GPU that is lost cannot be entered: what it was given stays, while the program keeps it. Of three
   * it may have been lost while they were closed. */
  const uint64_t peers = fake->get(FAKE_CUDA_PEERS),
                 kept = (mode_flags & FAKE_CUDA_STICKY) && own_peer && (stats.gpu_failures > 0 || others);
  if (peers < own_peer || peers > own_peer + kept) right = false, printf("peer access is not as it was\n");
  if (own_peer) tst_cuda_end(0), tst_cuda_end(1);
  return right && tst_nothing_left(fake) ? 0 : 1;
}

/* NULL when everything about a case is as it must be. */
static const char *judge(const struct failure *f, const struct tst_output *o) {
  const unsigned long long failed = tst_number_after(o->out, "failures="),
                           injected = tst_number_after(o->out, "injected=");
  const size_t warnings = tst_count_lines(o->err, "tileblas: warning: ");
  if (o->status != 0) return "wrong answer, crash or leak";
  if (tst_number_after(o->out, "gpu=") != CALLS || tst_number_after(o->out, " cpu=") != 0)
    return "the CPU answered a call";
  if (tst_count_lines(o->err, " -> ") != CALLS) return "not one verbose line a call";
  if (strstr(o->err, "completed by the cpu")) return "the CPU completed a call";
  if (tst_count_lines(o->err, "completed by another gpu") != failed) return "a failure without a rescue";
  if (tst_count_lines(o->err, "\n") != warnings + CALLS) return "something else was printed";
  if (failed > 1) return "a GPU failed twice";
  /* One that fails at the end, or while it is closed, fails in no call. */
  if (warnings != failed) return "not one warning for one failure";
  if (failed > injected) return "a failure without a cause";
  char named[96];
  snprintf(named, sizeof named, "): %s: ", f->function);
  if (failed > 0 && mode_flags == 0 && !strstr(o->err, named)) return "the warning names another call";
  if (tst_number_after(o->out, "again=")) return "the GPU was used again";
  return NULL;
}

static unsigned failures, missed;

static void run_case(const struct failure *f) {
  struct tst_output o;
  tst_fork(&o, life, (void *)f);
  const char *what = judge(f, &o);
  if (what) {
    print_error("%s number %lu of GPU %d, %s: %s (status %d)\n%s%s", f->function, f->nth, gpu, mode_name, what,
                o.status, o.out, o.err);
    failures++;
  }
  missed += tst_number_after(o.out, "injected=") == 0;
  tst_output_destroy(&o);
}

static void learn(unsigned long counts[FUNCTIONS]) {
  const struct failure none = {NULL, 0};
  struct tst_output o;
  tst_fork(&o, life, (void *)&none);
  const char *what = judge(&none, &o);
  if (what) fail_msg("without any failure: %s\n%s%s", what, o.out, o.err);
  for (size_t i = 0; i < FUNCTIONS; i++) {
    char key[96];
    snprintf(key, sizeof key, "calls %s ", functions[i]);
    counts[i] = tst_number_after(o.out, key);
  }
  tst_output_destroy(&o);
}

static bool is_asynchronous(const char *name) {
  static const char *const list[] = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyPeerAsync", "cuLaunchKernel",
                                     "cuLaunchKernelEx"};
  return tst_is_listed(name, list, sizeof list / sizeof list[0]);
}

static void every_function_at_every_position(void **state) {
  (void)state;
  static const char *const of_several[] = {"cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess",
                                           "cuMemcpyPeerAsync"};
  unsigned long counts[FUNCTIONS], cases = 0;
  learn(counts);
  for (size_t i = 0; i < FUNCTIONS; i++) {
    const bool must_be_called =
        !others && (is_asynchronous(functions[i]) ||
                    tst_is_listed(functions[i], of_several, sizeof of_several / sizeof of_several[0]));
    if (counts[i] == 0 && must_be_called && strcmp(functions[i], "cuLaunchKernelEx") != 0) /* of a split k alone */
      fail_msg("%s is never called: nothing here tests it", functions[i]);
    if ((mode_flags & FAKE_CUDA_ASYNC) && !is_asynchronous(functions[i])) continue;
    const unsigned long positions = counts[i] < POSITIONS_MOST ? counts[i] : POSITIONS_MOST;
    for (unsigned long position = 0; position < positions; position++, cases++) {
      /* What a GPU gets of the others' later calls depends on how fast it was in the first. */
      const unsigned long last = (counts[i] - 1) * (others ? 3 : 4) / 4, steps = positions > 1 ? positions - 1 : 1;
      const struct failure f = {functions[i], 1 + position * last / steps};
      run_case(&f);
    }
  }
  printf("%lu cases, %u of them did not come to pass\n", cases, missed);
  assert_true(cases > 0);
  assert_true(4 * missed < cases);
  assert_int_equal(failures, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_at_every_position)};
  if (argc < 3) return 2;
  mode_name = argv[1];
  mode_flags = strcmp(mode_name, "sticky") == 0  ? FAKE_CUDA_STICKY
               : strcmp(mode_name, "async") == 0 ? FAKE_CUDA_ASYNC
                                                 : 0;
  gpu = atoi(argv[2]);
  others = argc > 3;
  return cmocka_run_group_tests_name(mode_name, tests, NULL, NULL);
}
