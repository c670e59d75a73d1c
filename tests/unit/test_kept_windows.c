/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that brings up an array that returns, with a driver that takes long to say what pages are CUDA's: a thread
 * asks beside the product, and stops before the call lets a handler in, which may jump out of it. It goes on behind
 * that: what returns goes up once.
 *
 * Seen to fail when: the call opens a window while the thread asks, or nobody goes on behind it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cuda/driver.h"
#include "fake.h"
#include "kept_array.h"
#include "process.h"

enum { ARRAYS = 4, CALLS = 12, ROWS = 2 * TST_ARRAY_M, PAGES = ROWS * TST_ARRAY_K * 4 / TST_PAGE };

static __typeof__(tb_cuda.cuPointerGetAttributes) driver_asks;
static atomic_int pages_asked;     /* of the array */
static atomic_int asked_by_others; /* than who calls, behind an array's first window */
static pthread_t caller;
static atomic_int windows; /* the array's */
static atomic_int questions_in_windows;

/* As a driver that takes longer to answer for all pages than the product does. */
static CUresult ask_slowly(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer) {
  const char *const at = (const char *)(uintptr_t)pointer, *const array = tst_array_mapping();
  const CUresult result = driver_asks(count, attributes, values, pointer);
  if (at < array || at >= array + (ptrdiff_t)PAGES * TST_PAGE) return result;
  usleep(10);
  if (atomic_load(&windows) > 0 && !pthread_equal(pthread_self(), caller)) atomic_fetch_add(&asked_by_others, 1);
  atomic_fetch_add(&pages_asked, 1);
  return result;
}

/* In the midst of the pages: as long as a few of them would take. */
static void look(int number) {
  const int before = atomic_load(&pages_asked);
  (void)number;
  if (before == 0 || before >= PAGES / 2) return;
  atomic_fetch_add(&windows, 1);
  for (const double begun = tb_clock_seconds(); tb_clock_seconds() < begun + 1e-3;)
    if (atomic_load(&pages_asked) != before) atomic_fetch_add(&questions_in_windows, 1);
}

static int arrays_return(void *unused) {
  const struct itimerval often = {.it_interval = {.tv_usec = 2500}, .it_value = {.tv_usec = 2500}}, never = {0};
  uint64_t seed = 1;
  bool right = true;
  (void)unused;
  tst_array_set_rows(ROWS);
  tst_array_begin("auto", &seed);
  caller = pthread_self();
  signal(SIGALRM, look);
  for (int i = 0; i < ARRAYS; i++) {
    if (i == 1) driver_asks = tb_cuda.cuPointerGetAttributes, tb_cuda.cuPointerGetAttributes = ask_slowly;
    tst_array_map(&seed);
    atomic_store(&pages_asked, 0);
    atomic_store(&windows, 0);
    if (i > 0) setitimer(ITIMER_REAL, &often, NULL);
    const int ups = tst_array_ups(CALLS);
    setitimer(ITIMER_REAL, &never, NULL);
    right &= i == 0 || tst_array_ups_are("an array", ups, 1);
  }
  const int within = atomic_load(&questions_in_windows), behind = atomic_load(&asked_by_others);
  printf("%d questions in windows, %d behind them\n", within, behind);
  return !right ? 1 : within > 0 ? 2 : behind == 0 ? 3 : 0;
}

static void returning(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a GPU's product is over before there is a window");
  tst_array_case(arrays_return, "an array that returns");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(returning)};
  if (!tst_array_stays()) return printf("skipped: this kernel does not say who writes\n"), 77;
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
