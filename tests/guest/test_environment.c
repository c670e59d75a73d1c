/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment is read when the library is loaded, and never again: what the program sets later has no effect and
 * raises no complaint, no function of ours calls getenv, and a thread in setenv is met by nobody. What is wrong with an
 * option is said at the first call, not at load: most processes make none.
 *
 * Seen to fail when: options are loaded at the first call; the cache's folder or the rank is asked of getenv.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "guest.h"
#include "process.h"
#include "tileblas.h"

extern char **environ;

static atomic_bool watching;
static atomic_int asked;

/* In place of the C library's, for everybody in the process. */
static char *find(const char *name, const void *caller) {
  Dl_info info;
  if (watching && dladdr(caller, &info) && strstr(info.dli_fname, "libtileblas") != NULL) {
    printf("getenv(%s)\n", name);
    asked++;
  }
  const size_t length = strlen(name);
  for (char **e = environ; e != NULL && *e != NULL; e++)
    if (strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
  return NULL;
}

char *getenv(const char *name) { return find(name, __builtin_return_address(0)); }
char *secure_getenv(const char *name) { return find(name, __builtin_return_address(0)); }

static int never_again(void) {
  watching = true;
  setenv("TILEBLAS_NONSENSE", "1", 1);
  setenv("TILEBLAS_ROUTE", "cpu", 1);
  if (!tst_guest_product(301) || !tst_guest_product(8)) return 2;
  if (tst_guest_expects_gpu() && tst_guest_gpu_calls() != 2) return 3;
  tileblas_option_set("TILEBLAS_ROUTE", "auto");
  if (!tst_guest_product(200)) return 4;
  return asked == 0 ? 0 : 5;
}

static atomic_bool go_on = true;

static void *change(void *unused) {
  (void)unused;
  char name[32];
  for (int i = 0; go_on; i++) {
    snprintf(name, sizeof name, "VARIABLE_%d", i % 2000);
    setenv(name, "value", 1);
    if (i % 3 == 0) unsetenv(name);
  }
  return NULL;
}

static void *calls(void *right) {
  *(bool *)right = tst_guest_product(180);
  return NULL;
}

/* The driver, which reads its own settings, is there before: what it does is its own. */
static int race(void) {
  pthread_t changer, callers[3];
  bool right[3];
  alarm(60);
  tst_fake();
  if (pthread_create(&changer, NULL, change, NULL) != 0) return 2;
  usleep(1000);
  for (int i = 0; i < 3; i++)
    if (pthread_create(&callers[i], NULL, calls, &right[i]) != 0) return 2;
  for (int i = 0; i < 3; i++) pthread_join(callers[i], NULL);
  go_on = false;
  pthread_join(changer, NULL);
  return right[0] && right[1] && right[2] ? 0 : 3;
}

static int no_call(void) { return 0; }
static int one_call(void) { return tst_guest_product(8) && tst_guest_product(8) ? 0 : 2; }

static const struct {
  const char *name;
  int (*body)(void);
} parts[] = {{"again", never_again}, {"race", race}, {"none", no_call}, {"one", one_call}};

static void nothing_is_asked_later(void **state) {
  (void)state;
  tst_guest_run("again", (const char *const[]){"TILEBLAS_ROUTE=gpu", NULL}, 0);
}

static void who_changes_it_is_met_by_nobody(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) tst_guest_run("race", (const char *const[]){"TILEBLAS_ROUTE=auto", NULL}, 0);
}

static void complaints_wait_for_a_call(void **state) {
  (void)state;
  const char *const wrong[] = {"TILEBLAS_NONSENSE=1", "TILEBLAS_ROUTE=nowhere", NULL};
  tst_guest_run("none", wrong, 0);
  tst_guest_run("one", wrong, 2);
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts && argc == 2; i++)
    if (strcmp(argv[1], parts[i].name) == 0) return parts[i].body();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_asked_later),
      cmocka_unit_test(who_changes_it_is_met_by_nobody),
      cmocka_unit_test(complaints_wait_for_a_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
