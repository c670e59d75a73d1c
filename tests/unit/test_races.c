/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copying threads and the thread that waits for idleness, compiled with ThreadSanitizer: it sees every pair of
 * accesses to the same memory that no lock, atomic or join puts in order, whether or not it did harm this time.
 *
 * Seen to fail when: a job's task is written after its ticket; tb_pool_done looks at the count without the tasks'
 * writes; a region of new pages is everybody's by no atomic; two callers get one number for
 * their jobs; the idle thread's flag is no atomic.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/background.h"
#include "process/busy.h"
#include "pipeline/copy.h"

#define ROWS 350
#define COLUMNS 300
#define COPIES 6

enum { CALLERS = 3 }; /* of one pool, at once */
static float source_of[CALLERS][COPIES][ROWS * COLUMNS], target_of[CALLERS][COPIES][ROWS * COLUMNS];
static _Thread_local int caller;
#define source source_of[caller]
#define target target_of[caller]
static atomic_int wrong;

static void expect(int ok, const char *what) {
  if (ok) return;
  printf("%s\n", what);
  wrong = 1;
}

/* Of so few columns that tasks share them by their rows. */
static void long_columns(struct tb_pool *pool) {
  enum { LONG = 70010, FEW = 3 };
  static float from[FEW * LONG], to[FEW * LONG];
  for (int i = 0; i < FEW * LONG; i++) from[i] = (float)(i % 1013);
  struct tb_copy copy = {.to = to, .from = from, .to_ld = LONG, .from_ld = LONG, .rows = LONG, .columns = FEW};
  tb_copy_start(pool, &copy);
  tb_copy_wait(pool, &copy);
  expect(memcmp(to, from, sizeof to) == 0, "long columns are not what they were copied from");
}

/* As the pipeline does it: copies begun one after another, waited for in their order, their memory used at once again.
 */
static void copies_in_flight(struct tb_pool *pool, int round) {
  struct tb_copy copy[COPIES];
  for (int i = 0; i < COPIES; i++) {
    for (int j = 0; j < ROWS * COLUMNS; j++) source[i][j] = (float)(round + i + j % 7);
    copy[i] =
        (struct tb_copy){.stores = (enum tb_stores)(i % 3), .drops = i % 2 == 0, .to = target[i], .from = source[i]};
    copy[i].to_ld = copy[i].from_ld = copy[i].rows = ROWS;
    copy[i].columns = COLUMNS;
    tb_copy_start(pool, &copy[i]);
    if (i % 2) tb_pool_help(pool);
  }
  for (int i = 0; i < COPIES; i++) {
    if (round % 2) tb_copy_wait(pool, &copy[i]);
    while (!tb_copy_done(pool, &copy[i])) tb_pool_help(pool);
    expect(memcmp(target[i], source[i], sizeof target[i]) == 0, "a copy is not what it was copied from");
    memset(source[i], 0, sizeof source[i]);
  }
}

/* Where cores were busy: threads that sleep get up once, of themselves, while others are woken. */
static void cores_given_back(struct tb_pool *pool) {
  for (int round = 0; round < 30; round++) {
    usleep(50000);
    copies_in_flight(pool, round);
  }
}

struct calling {
  struct tb_pool *pool;
  int number;
};

static void *call_too(void *argument) {
  const struct calling *const x = argument;
  caller = x->number;
  for (int round = 0; round < 20; round++) copies_in_flight(x->pool, round);
  return NULL;
}

static void several_callers(struct tb_pool *pool) {
  pthread_t thread[CALLERS];
  struct calling calling[CALLERS];
  for (int i = 1; i < CALLERS; i++) {
    calling[i] = (struct calling){pool, i};
    if (pthread_create(&thread[i], NULL, call_too, &calling[i]) != 0) abort();
  }
  for (int round = 0; round < 20; round++) copies_in_flight(pool, round);
  for (int i = 1; i < CALLERS; i++) pthread_join(thread[i], NULL);
}

static atomic_int actions;
static int touched; /* no atomic: written before a touch, read by the action behind it */

static void act(void) {
  if (touched > 0) atomic_fetch_add(&actions, 1);
}

/* Into a matrix that has no pages yet, which the threads have meanwhile. */
static void copies_to_new_pages(struct tb_pool *pool) {
  enum { NEW_ROWS = 1024, NEW_COLUMNS = 1536 }; /* three regions */
  const size_t bytes = sizeof(float) * NEW_ROWS * NEW_COLUMNS;
  float *const to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  float *const from = malloc(bytes);
  if (to == MAP_FAILED || from == NULL) abort();
  for (int i = 0; i < NEW_ROWS * NEW_COLUMNS; i++) from[i] = (float)(i % 977);
  const struct tb_call call = {.type = TB_S, .m = NEW_ROWS, .n = NEW_COLUMNS, .k = 1, .c = to, .ldc = NEW_ROWS};
  struct tb_pages pages;
  tb_pages_begin(&pages, pool, &call);
  expect(pages.regions > 0, "the pages are there");
  struct tb_copy half[2];
  for (int i = 0; i < 2; i++) {
    half[i] = (struct tb_copy){.type = TB_S, .to_ld = NEW_ROWS, .from_ld = NEW_ROWS, .rows = NEW_ROWS / 2};
    half[i].to = to + i * NEW_ROWS / 2, half[i].from = from + i * NEW_ROWS / 2;
    half[i].columns = NEW_COLUMNS;
    half[i].pages = &pages;
    tb_copy_start(pool, &half[i]);
  }
  for (int i = 0; i < 2; i++) tb_copy_wait(pool, &half[i]);
  tb_pages_end(&pages);
  expect(memcmp(to, from, bytes) == 0, "a copy to new pages is wrong");
  munmap(to, bytes);
  free(from);
}

static void idleness(void) {
  struct tb_idle *idle = tb_idle_open(0.02, act);
  expect(idle != NULL, "no thread");
  usleep(60000);
  expect(atomic_load(&actions) == 0, "idle before anything happened");
  touched = 1;
  for (int i = 0; i < 50; i++) tb_idle_touch(idle);
  for (int i = 0; atomic_load(&actions) == 0 && i < 1000; i++) usleep(10000);
  usleep(60000);
  expect(atomic_load(&actions) == 1, "one idle time is one action");
  tb_idle_touch(idle);
  for (int i = 0; atomic_load(&actions) == 1 && i < 1000; i++) usleep(10000);
  expect(atomic_load(&actions) == 2, "the second idle time was not noticed");
  tb_idle_touch(idle);
  tb_idle_close(idle);
  idle = tb_idle_open(0.01, act);
  tb_idle_touch(idle);
  for (int i = 0; atomic_load(&actions) == 2 && i < 1000; i++) usleep(10000);
  usleep(1000000);
  tb_idle_was_early(idle, 100);
  tb_idle_touch(idle);
  usleep(300000);
  expect(atomic_load(&actions) == 3, "what was early once is as early again");
  for (int i = 0; atomic_load(&actions) == 3 && i < 1000; i++) usleep(10000);
  expect(atomic_load(&actions) == 4, "an idle time that is longer now was not noticed");
  tb_idle_close(idle);
  idle = tb_idle_open(100, act);
  tb_idle_touch(idle);
  tb_idle_close(idle); /* while it sleeps */
  expect(atomic_load(&actions) == 4, "an action that nobody waited for");
}

int main(void) {
  alarm(100);
  for (int threads = 2; threads <= 5; threads++) {
    struct tb_pool *pool = tb_pool_open(threads, true);
    tb_pool_add_behind(pool, threads - 2);
    for (int round = 0; round < 20; round++) {
      if (threads > 2 && round == 10) tb_busy_found(tb_clock_seconds()); /* from now on they keep to cores */
      copies_in_flight(pool, round);
      if (round % 8 == 0) usleep(1000); /* they fall asleep */
    }
    for (int round = 0; round < 5; round++) long_columns(pool);
    for (int round = 0; round < 5; round++) copies_to_new_pages(pool);
    several_callers(pool);
    if (threads == 5) cores_given_back(pool);
    tb_pool_close(pool);
  }
  idleness();
  return wrong;
}
