/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlopen, products on the GPU and on the CPU, dlclose, fifty times over: the library leaves the process each time and
 * takes with it all that it had in the driver; the process does not grow. Behind a jump out of a call's midst it stays,
 * for nobody can end the threads that copied for that.
 *
 * Seen to fail when: a thread, an exit handler or a thread-local destructor keeps the library; the device is not
 * closed; the program's floating point traps are left as they are meanwhile; copying threads lose their code.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "offload_call.h"
#include "process.h"

#define ROUNDS 50

/* Lines of /proc/self/maps: a mapping left behind each time would make fifty. */
static size_t mappings(void) {
  char *maps = tst_read_file("/proc/self/maps");
  size_t lines = tst_count_lines(maps, "\n");
  free(maps);
  return lines;
}

static void one_round(uint64_t seed) {
  struct tst_library library;
  tileblas_stats stats;
  const bool gpu = strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0;
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  assert_true(tst_call_in_pieces(&library, seed));
  library.option_set("TILEBLAS_ROUTE", "cpu");
  assert_true(tst_call_in_pieces(&library, seed + 1));
  library.stats_get(&stats);
  assert_int_equal(stats.gpu_calls, gpu);
  assert_int_equal(stats.cpu_calls, 2 - gpu);
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_ALL_EXCEPT); /* the program's traps are not for what the library computes as it leaves */
  tst_library_close(&library);
  fedisableexcept(FE_ALL_EXCEPT);
}

static void *round_in_a_thread(void *seed) {
  one_round((uint64_t)(uintptr_t)seed);
  return NULL;
}

static void fifty_times(void **state) {
  (void)state;
  const struct tst_fake *fake = strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0 ? tst_fake() : NULL;
  size_t before = 0;
  for (int i = 0; i < ROUNDS; i++) {
    if (i == ROUNDS / 5) before = mappings();
    if (i % 2) {
      pthread_t id;
      assert_int_equal(pthread_create(&id, NULL, round_in_a_thread, (void *)(uintptr_t)i), 0);
      pthread_join(id, NULL);
    } else {
      one_round((uint64_t)i);
    }
    if (fake) assert_true(tst_nothing_left(fake));
  }
  assert_in_range(mappings(), 0, before + ROUNDS / 2); /* what allocators do by themselves is less */
}

static sigjmp_buf behind;

static void leave(int number) {
  (void)number;
  siglongjmp(behind, 1);
}

static int left_in_its_midst(void *unused) {
  enum { N = 100 };
  (void)unused;
  struct tst_library library;
  void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
  tst_library_open(&library);
  memcpy(&sgemm, &library.cblas_sgemm, sizeof sgemm);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  if (!tst_call_in_pieces(&library, 1)) return 1;
  float *const unreadable = mmap(NULL, 3 * N * N * sizeof(float), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action = {.sa_handler = leave}, before;
  sigaction(SIGSEGV, &action, &before);
  if (sigsetjmp(behind, 1) == 0) {
    sgemm(102, 111, 111, N, N, N, 1, unreadable, N, unreadable + N * N, N, 0, unreadable + 2 * N * N, N);
    return 2;
  }
  sigaction(SIGSEGV, &before, NULL);
  static float zeros[N * N], c[N * N] = {1};
  sgemm(102, 111, 111, N, N, N, 1, zeros, N, zeros, N, 0, c, N); /* which finds what was left */
  if (c[0] != 0) return 3;
  dlclose(library.handle);
  return dlopen(tst_setting("TB_TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != NULL ? 0 : 4;
}

static void stays_behind_a_jump(void **state) {
  struct tst_output o;
  (void)state;
  if (strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") != 0) return;
  tst_fork(&o, left_in_its_midst, NULL);
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stays_behind_a_jump), cmocka_unit_test(fifty_times)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
