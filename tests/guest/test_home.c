/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 14: a home on a dead network file system. Whoever opens a file of the cache folder waits for ten seconds;
 * calls are answered at once, and the process ends.
 *
 * Seen to fail when: the calling thread reads the file.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "process.h"

#define DEAD_SECONDS 10
#define SOON_SECONDS 5

static atomic_int waited;

static const char *cache; /* XDG_CACHE_HOME */

/* Everybody's; those of a dead file system do not come back. */
int open(const char *path, int flags, ...) {
  if (cache != NULL && strncmp(path, cache, strlen(cache)) == 0) {
    atomic_fetch_add(&waited, 1);
    sleep(DEAD_SECONDS);
  }
  __typeof__(open) *real = (__typeof__(open) *)dlsym(RTLD_NEXT, "open");
  return real(path, flags, 0600);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void calls_are_answered(void **state) {
  (void)state;
  const double begun = now();
  for (int i = 0; i < 3; i++) assert_true(tst_guest_product(400)); /* weighed */
  assert_true(now() - begun < SOON_SECONDS);
  assert_true(atomic_load(&waited) == 1); /* and nobody asks again */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_answered)};
  cache = getenv("XDG_CACHE_HOME");
  mkdir(cache, 0700); /* otherwise nothing in it is opened */
  return cmocka_run_group_tests_name("home", tests, NULL, NULL);
}
