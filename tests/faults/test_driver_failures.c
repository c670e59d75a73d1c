/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every driver function that the library calls, failed once at every position at which it is called (many positions
 * are sampled, see tst_next_position): the answer is
 * right, C is committed exactly once, at most one line of warning is printed (exactly one when a GPU that was open
 * failed), nothing is left behind in the driver, and the next call is right too.
 *
 *   test_driver_failures once|sticky|async
 *     once    the call fails, the driver is well
 *     sticky  from that call on every call fails: the device is lost
 *     async   the call succeeds, and what it enqueued fails later
 *
 * The positions come from a run without failures, so a call added to the library is covered the same day. Each case is
 * a process of its own, forked before any BLAS or driver is loaded.
 *
 * Seen to fail when: a resource is not released on one path; the commit goes on after a failed wait; the fallback
 * computes a tile that is committed; the warning is printed for each tile, or does not name the call that failed.
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

static const char *const functions[] = {
#define TB_CUDA(name) #name,
#include "cuda/driver.def"
#include "sanitized.h"
#undef TB_CUDA
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

/* Called only to say what went wrong. */
static const char *const only_after_failure[] = {"cuGetErrorName"};

/* Called for memory that the program got from CUDA: test_resident_failures.c. For several GPUs:
 * test_several_failures.c. For the tensor cores: test_emulated_calls.c. To wait without end:
 * guest/test_hang.c. For slots that come beside calls: unit/test_widening.c. */
static const char *const called_elsewhere[] = {
    "cuMemcpy2DAsync",       "cuMemcpyPeerAsync",      "cuDeviceCanAccessPeer",
    "cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess", "cuTensorMapEncodeTiled",
    "cuStreamSynchronize",   "cuMemHostRegister",      "cuMemHostUnregister"};

static const char *const before_init[] = {"cuPointerGetAttributes", "cuCtxGetCurrent"};

#define CUDA_ERROR_UNKNOWN 999
#define CALLS 3

struct failure {
  const char *function; /* NULL: none */
  unsigned long nth;
  unsigned flags;
};

static const char *mode_name;
static unsigned mode_flags;

/* In the child. Prints its counts of calls, one line a function, for the run without failures. */
static int life(void *argument) {
  const struct failure *f = argument;
  const struct tst_fake *fake = tst_fake();
  struct tst_library library;
  tileblas_stats stats;
  bool right = true;

  if (!fake) return 2;
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  library.option_set("TILEBLAS_VERBOSE", "1"); /* adds the calls that measure */
  library.option_set("TILEBLAS_MEMORY_LIMIT", TST_PIECES_LIMIT);
  if (f->function && fake->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, f->flags) != 0) return 3;
  for (uint64_t call = 0; call < CALLS; call++) right &= tst_call_in_pieces(&library, call);
  library.stats_get(&stats);
  tst_library_close(&library);
  printf("stats gpu=%llu cpu=%llu failures=%llu injected=%llu\n", (unsigned long long)stats.gpu_calls,
         (unsigned long long)stats.cpu_calls, (unsigned long long)stats.gpu_failures,
         (unsigned long long)fake->get(FAKE_CUDA_FAILURES));
  for (size_t i = 0; !f->function && i < FUNCTIONS; i++)
    printf("calls %s %llu\n", functions[i], (unsigned long long)fake->calls(functions[i]));
  return right && tst_nothing_left(fake) ? 0 : 1;
}

/* Whether the line that begins there says that the function failed. */
static bool names(const char *line, const char *function) {
  char named[96];
  snprintf(named, sizeof named, "): %s: ", function);
  const char *const found = strstr(line, named);
  return found && found < strchr(line, '\n');
}

/* NULL when everything about a case is as it must be. */
static const char *judge(const struct failure *f, const struct tst_output *o) {
  unsigned long long failed = tst_number_after(o->out, "failures="), gpu = tst_number_after(o->out, "gpu=");
  unsigned long long cpu = tst_number_after(o->out, " cpu=");
  size_t warnings = tst_count_lines(o->err, "tileblas: warning: ");
  if (o->status != 0) return "wrong answer, crash or leak";
  if (gpu + cpu != CALLS) return "a call was counted twice or not at all";
  if (tst_count_lines(o->err, " -> ") != CALLS) return "not one verbose line a call";
  if (tst_count_lines(o->err, "\n") != warnings + CALLS) return "something else was printed";
  if (!f->function) return failed == 0 && gpu == CALLS && warnings == 0 ? NULL : "a failure without a cause";
  if (tst_number_after(o->out, "injected=") == 0) return "the failure did not come to pass";
  if (failed > 1) return "the GPU failed twice";
  if (warnings != failed) return "not one warning for one failure";
  /* The warning comes before the verbose line of its call; after that line the GPU is left alone. */
  const char *after = failed ? strstr(o->err, "tileblas: warning: ") : "";
  if (tst_count_lines(after, "(the GPU failed earlier in this process)") + failed != tst_count_lines(after, " -> "))
    return "the GPU was used again";
  if (failed && f->flags == 0 && !names(after, f->function)) return "the warning names another call";
  return NULL;
}

static unsigned failures;

static void run_case(const struct failure *f) {
  struct tst_output o;
  tst_fork(&o, life, (void *)f);
  const char *what = judge(f, &o);
  if (what) {
    print_error("%s number %lu, %s: %s (status %d)\n%s%s", f->function ? f->function : "nothing", f->nth, mode_name,
                what, o.status, o.out, o.err);
    failures++;
  }
  tst_output_destroy(&o);
}

/* How often each function is called in a life without failures. */
static void learn(unsigned long counts[FUNCTIONS]) {
  const struct failure none = {NULL, 0, 0};
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

/* The functions whose work is done later, so that it can fail later. */
static bool is_asynchronous(const char *name) {
  static const char *const list[] = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuLaunchKernel", "cuLaunchKernelEx"};
  return tst_is_listed(name, list, sizeof list / sizeof list[0]);
}

static void every_function_at_every_position(void **state) {
  (void)state;
  unsigned long counts[FUNCTIONS], cases = 0;
  learn(counts);
  for (size_t i = 0; i < FUNCTIONS; i++) {
    if (counts[i] == 0 && !tst_is_listed(functions[i], only_after_failure, 1) &&
        !tst_is_listed(functions[i], called_elsewhere, sizeof called_elsewhere / sizeof called_elsewhere[0]))
      fail_msg("%s is never called: nothing here tests it", functions[i]);
    if ((mode_flags & FAKE_CUDA_ASYNC) && !is_asynchronous(functions[i])) continue;
    /* The first question comes before anybody has called cuInit, and is refused for that whatever else may fail. */
    const bool asked_before = tst_is_listed(functions[i], before_init, sizeof before_init / sizeof before_init[0]);
    const unsigned long first = asked_before ? 2 : 1;
    for (unsigned long nth = first; nth <= counts[i]; nth = tst_next_position(nth, counts[i]), cases++) {
      const struct failure f = {functions[i], nth, mode_flags};
      run_case(&f);
    }
  }
  printf("%lu cases\n", cases);
  assert_true(cases > TST_UNLESS_SANITIZED(20, 8)); /* fewer positions: tst_next_position */
  assert_int_equal(failures, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_at_every_position)};
  if (argc != 2) return 2;
  mode_name = argv[1];
  mode_flags = strcmp(mode_name, "sticky") == 0  ? FAKE_CUDA_STICKY
               : strcmp(mode_name, "async") == 0 ? FAKE_CUDA_ASYNC
                                                 : 0;
  return cmocka_run_group_tests_name(mode_name, tests, NULL, NULL);
}
