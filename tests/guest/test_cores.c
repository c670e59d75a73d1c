/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cores of the process are those of all its threads, not the one that OpenMP has bound the calling thread to; a
 * process that has few has few. What the program's threads may use stays as it is, while they keep all cores busy and
 * ours keep to some. And what environment modules set for the package is no misspelt option.
 *
 * Seen to fail when: the calling thread's cores are taken for the process's; copying threads stay on their starter's
 * core; the caller is bound as our threads are.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"
#include "guest.h"
#include "process.h"

/* Threads of this process; and the cores that those have together which are younger than all at the call before. */
static int threads_now(cpu_set_t *cores) {
  static int youngest;
  int count = 0, highest = youngest;
  DIR *tasks = opendir("/proc/self/task");
  CPU_ZERO(cores);
  for (struct dirent *e; tasks && (e = readdir(tasks)) != NULL;) {
    cpu_set_t set;
    const int number = atoi(e->d_name);
    if (number == 0) continue;
    count++;
    if (number > highest) highest = number; /* numbers grow, but for once in four million */
    if (number <= youngest || sched_getaffinity(number, sizeof set, &set) != 0) continue;
    CPU_OR(cores, cores, &set);
  }
  closedir(tasks);
  youngest = highest;
  return count;
}

static void *idle_thread(void *unused) {
  (void)unused;
  for (;;) pause();
  return NULL;
}

static int own_cores(void) {
  cpu_set_t mine;
  sched_getaffinity(0, sizeof mine, &mine);
  return CPU_COUNT(&mine);
}

static int bind_to_one(void) {
  cpu_set_t mine, one;
  sched_getaffinity(0, sizeof mine, &mine);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &mine)) CPU_SET(i, &one);
  return sched_setaffinity(0, sizeof one, &one);
}

/* The calling thread alone is bound, as by a runtime that has started its threads. */
static int bound_thread(void) {
  const int cores = own_cores();
  pthread_t id;
  if (pthread_create(&id, NULL, idle_thread, NULL) != 0 || bind_to_one() != 0) return 2;
  cpu_set_t before, after;
  const int threads = threads_now(&before);
  if (!tst_guest_product(400)) return 3;
  const int more = threads_now(&after) - threads;
  printf("%d cores, %d more threads\n", cores, more);
  if (cores < 2) return 0; /* nothing to be seen */
  /* One that gives memory back, and copying ones; none is bound to the caller's core alone with the others free. */
  return more >= 2 && CPU_COUNT(&after) >= 2 ? 0 : 4;
}

/* The whole process has one core: no thread but the one that gives memory back. */
static int bound_process(void) {
  cpu_set_t cores;
  if (bind_to_one() != 0) return 2;
  const int threads = threads_now(&cores);
  if (!tst_guest_product(400)) return 3;
  if (tst_fake() == NULL) return 0; /* a real driver starts threads of its own */
  return threads_now(&cores) - threads <= 1 ? 0 : 4;
}

static atomic_bool over;

static void *spinning_thread(void *unused) {
  while (!atomic_load(&over)) continue;
  return unused;
}

#define SPINNING_MAX 64

/* As many threads as cores look for work, as OpenMP's do. */
static int among_spinning(void) {
  cpu_set_t before, after, of_spinning;
  pthread_t id[SPINNING_MAX];
  const int cores = own_cores(), spinning = cores < SPINNING_MAX ? cores : SPINNING_MAX;
  sched_getaffinity(0, sizeof before, &before);
  for (int i = 0; i < spinning; i++)
    if (pthread_create(&id[i], NULL, spinning_thread, NULL) != 0) return 2;
  const int threads = threads_now(&after);
  for (int i = 0; i < 3; i++)
    if (!tst_guest_product(200)) return 3;
  const int more = threads_now(&after) - threads;
  for (int i = 0; i < spinning; i++) {
    if (pthread_getaffinity_np(id[i], sizeof of_spinning, &of_spinning) != 0) return 4;
    if (!CPU_EQUAL(&of_spinning, &before)) return 5;
  }
  atomic_store(&over, true);
  for (int i = 0; i < spinning; i++) pthread_join(id[i], NULL);
  sched_getaffinity(0, sizeof after, &after);
  printf("%d cores, %d spinning, %d threads of ours\n", cores, spinning, more);
  return CPU_EQUAL(&after, &before) ? 0 : 6;
}

static int one_call(void) { return tst_guest_product(8) ? 0 : 2; }

static void threads_are_there(void **state) {
  (void)state;
  if (!tst_guest_expects_gpu()) return; /* nobody copies */
  const char *const forced[] = {"TILEBLAS_ROUTE=gpu", NULL};
  tst_guest_run("thread", forced, 0);
  tst_guest_run("process", forced, 0);
}

static void program_keeps_its_cores(void **state) {
  (void)state;
  if (!tst_guest_expects_gpu()) return;
  tst_guest_run("spinning", (const char *const[]){"TILEBLAS_ROUTE=gpu", "TILEBLAS_BIND=always", NULL}, 0);
  tst_guest_run("spinning", (const char *const[]){"TILEBLAS_ROUTE=gpu", NULL}, 0);
}

/* A program that OpenMP binds while it is loaded, before our constructor runs. */
static void openmp(void **state) {
  (void)state;
  const char *program = tst_setting("TB_TEST_OPENMP");
  if (!tst_guest_expects_gpu() || own_cores() < 2) return;
  if (access(program, X_OK) != 0) return; /* no such compiler */
  struct tst_output o;
  const char *const command[] = {program, NULL};
  const char *const environment[] = {tst_format("LD_PRELOAD=%s", tst_setting("TB_TEST_LIBRARY")), "OMP_PROC_BIND=true",
                                     "TILEBLAS_ROUTE=gpu", NULL};
  tst_run(&o, command, environment);
  printf("%s", o.out);
  if (o.status != 0 || tst_number_after(o.out, "more=") < 2 || o.err[0])
    fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

static void modules_warn_of_nothing(void **state) {
  (void)state;
  const char *const modules[] = {"TILEBLAS_ROOT=/opt/tileblas", "TILEBLAS_DIR=/opt/tileblas", "TILEBLAS_HOME=/opt",
                                 "TILEBLAS_VERSION=0.1.0", NULL};
  tst_guest_run("call", modules, 0);
  const char *const misspelt[] = {"TILEBLAS_ROOTS=/opt/tileblas", NULL};
  tst_guest_run("call", misspelt, 1);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "thread") == 0) return bound_thread();
  if (argc == 2 && strcmp(argv[1], "process") == 0) return bound_process();
  if (argc == 2 && strcmp(argv[1], "spinning") == 0) return among_spinning();
  if (argc == 2 && strcmp(argv[1], "call") == 0) return one_call();
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_are_there), cmocka_unit_test(openmp),
                                     cmocka_unit_test(program_keeps_its_cores),
                                     cmocka_unit_test(modules_warn_of_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
