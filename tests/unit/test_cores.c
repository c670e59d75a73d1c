/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our threads' cores: which one a thread chooses, that busy ones are noticed and that threads keep to cores of their
 * own then, apart from each other and from the caller's, with a short slice, and no longer than that; who shares one
 * rests before the clock ticks; what others say of their cores holds; and where the kernel refuses, everything goes on
 * without.
 *
 * Seen to fail when: a core is not marked as taken, or not as free; hyperthreads count as cores; the time of a task, of
 * an offer, or until a thread is there, is not looked at; a thread that sleeps stays bound; a bound thread goes back to
 * cores that it has been told to leave; TILEBLAS_BIND is not read.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "affinities.h"
#include "base/clock.h"
#include "base/options.h"
#include "process.h"
#include "process/background.h"
#include "process/busy.h"
#include "process/cores.h"
#include "process/pool.h"
#include "process/sandbox.h"

/* The kernel's, so that an offer takes as long as a case wants it to: a program's own definitions come first. */
static atomic_int offers, offer_us;

int sched_yield(void) {
  atomic_fetch_add(&offers, 1);
  if (atomic_load(&offer_us) > 0) usleep((useconds_t)atomic_load(&offer_us));
  return (int)syscall(SYS_sched_yield);
}

/* Rests of pools' threads: how many, how many of them shortly before the clock ticks, and the longest. */
static atomic_int rests, rests_in_time;
static atomic_long longest_rest_ns;

static long least_age_ns, period_ns; /* of the coarse clock: behind a tick; and between two */

static long age_ns(void) {
  struct timespec tick, now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - tick.tv_sec) * 1000000000 + now.tv_nsec - tick.tv_nsec;
}

/* Less than none when it is late. */
static long ns_to_tick(void) { return period_ns + least_age_ns - age_ns(); }

static void learn_ticks(void) {
  struct timespec period;
  clock_getres(CLOCK_MONOTONIC_COARSE, &period);
  period_ns = period.tv_nsec;
  least_age_ns = LONG_MAX;
  for (const double begun = tb_clock_seconds(); tb_clock_seconds() - begun < 50e-3;) {
    const long age = age_ns();
    if (age < least_age_ns) least_age_ns = age;
  }
}

int nanosleep(const struct timespec *wanted, struct timespec *left) {
  atomic_fetch_add(&rests, 1);
  if (ns_to_tick() < 150000) atomic_fetch_add(&rests_in_time, 1);
  if (wanted->tv_nsec > atomic_load(&longest_rest_ns)) atomic_store(&longest_rest_ns, wanted->tv_nsec);
  return clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left) == 0 ? 0 : -1;
}

static void not_busy(void) { tb_busy_found(-INFINITY); }
static void busy(void) { tb_busy_found(tb_clock_seconds()); }
static bool is_busy(void) { return tb_busy_lately(tb_clock_seconds()); }
static void bind_when(const char *word) { assert_int_equal(tb_option_set("TILEBLAS_BIND", word), 0); }

/* So late is a thread that was told of work. */
static atomic_int late_us;

int sem_wait(sem_t *semaphore) {
  static int (*original)(sem_t *);
  if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, "sem_wait");
  const int result = original(semaphore);
  if (atomic_load(&late_us) > 0) usleep((useconds_t)atomic_load(&late_us));
  return result;
}

/* ---- choosing ---- */

static int alone(int number) { return number; }
static int pairs(int number) { return number & ~1; } /* 0 and 1 are one core, 2 and 3, ... */
static int halves(int number) { return number % 4; } /* 0 and 4, 1 and 5, ... */

static cpu_set_t set_of(const char *numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int at = 0, number, read; sscanf(numbers + at, "%d%n", &number, &read) == 1; at += read) CPU_SET(number, &set);
  return set;
}

static void choices(void **state) {
  (void)state;
  static const struct {
    const char *allowed, *taken;
    int (*lead)(int);
    int avoided, first, chosen;
  } rows[] = {
      {"0 1 2 3", "", alone, TB_NO_CORE, 0, 0},
      {"0 1 2 3", "", alone, TB_NO_CORE, 2, 2},
      {"0 1 2 3", "", alone, 2, 2, 3},          /* the caller's */
      {"0 1 2 3", "2 3", alone, 0, 2, 1},       /* round and round */
      {"5 900 1023", "", alone, 5, 1023, 1023}, /* the last that a set has */
      {"5 900 1023", "1023", alone, 5, 1023, 900},
      {"0 1", "1", alone, 0, 0, TB_NO_CORE},
      {"3", "", alone, 3, 0, TB_NO_CORE},
      {"", "", alone, TB_NO_CORE, 0, TB_NO_CORE},
      {"0 1 2 3 4 5", "", pairs, 0, 1, 2},           /* not the caller's other hyperthread */
      {"0 1 2 3 4 5", "2", pairs, 0, 1, 4},          /* nor that of one of ours */
      {"0 1 2 3 4 5", "2 4", pairs, 0, 1, 1},        /* if there is another one */
      {"0 1 2 3 4 5", "1 2 3 4", pairs, 0, 2, 5},    /* the only one */
      {"0 1 2 3 4 5 6 7", "1 2", halves, 0, 4, 7},   /* 0, 1 and 2 are in use: 3's other hyperthread is the first */
      {"0 1 2 3 4 5 6 7", "1 2 3", halves, 0, 4, 4}, /* then any */
      {"0 1 2 3 4 5 6 7", "1 2 7", halves, TB_NO_CORE, 5, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const cpu_set_t allowed = set_of(rows[i].allowed), taken = set_of(rows[i].taken);
    const int chosen = tb_core_choose(&allowed, &taken, rows[i].lead, rows[i].avoided, rows[i].first);
    if (chosen != rows[i].chosen) fail_msg("row %zu: %d, not %d", i, chosen, rows[i].chosen);
  }
}

/* ---- noticing ---- */

/* An offer that takes long is noticed, and none is made for a while. */
static void long_offers(void **state) {
  (void)state;
  const double begun = tb_clock_seconds();
  not_busy();
  atomic_store(&offer_us, 2000);
  tb_busy_offer_core();
  atomic_store(&offer_us, 0);
  assert_true(is_busy());
  const int before = atomic_load(&offers);
  tb_busy_offer_core();
  if (tb_clock_seconds() - begun < 0.2) assert_int_equal(atomic_load(&offers), before);
  usleep(300000);
  tb_busy_offer_core();
  assert_int_equal(atomic_load(&offers), before + 1);
  usleep((useconds_t)(TB_BUSY_SECONDS * 1e6));
  tb_busy_found(begun);
  assert_false(is_busy()); /* for a second, and no longer */
}

static atomic_int arrived;
#define MEETING_THREADS 4

/* Returns when every thread of the pool is in it. */
static void meet(void *context, int index) {
  (void)context, (void)index;
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < MEETING_THREADS) usleep(100);
}

static void meet_all(struct tb_pool *pool, int threads) {
  atomic_store(&arrived, MEETING_THREADS - threads);
  tb_pool_run(pool, meet, NULL, threads);
}

#define CORES_MAX 4

/* The threads of this process but the caller's; how many there are. One that was joined may be seen for a moment. */
static int other_threads(pid_t thread[CORES_MAX]) {
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  int count = 0;
  for (struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
    if (count < CORES_MAX) thread[count] = atoi(entry->d_name);
    count++;
  }
  closedir(tasks);
  return count;
}

/* The thread number `which` of `count` may use so many cores soon. */
static cpu_set_t mask_of_other(int which, int count, int cores) {
  pid_t thread[CORES_MAX];
  cpu_set_t mask;
  for (int wait = 0;; wait++) {
    const bool there = other_threads(thread) == count && sched_getaffinity(thread[which], sizeof mask, &mask) == 0;
    if (there && CPU_COUNT(&mask) == cores) return mask;
    if (wait == 5000) fail_msg("%d threads; one may use %d cores, not %d", count, CPU_COUNT(&mask), cores);
    usleep(1000);
  }
}

/* The cores that they keep to. */
static void cores_of_others(int core[CORES_MAX], int count) {
  for (int i = 0; i < count; i++) {
    const cpu_set_t mask = mask_of_other(i, count, 1);
    for (core[i] = 0; !CPU_ISSET(core[i], &mask);) core[i]++;
    for (int j = 0; j < i; j++) assert_int_not_equal(core[j], core[i]);
  }
}

static atomic_int runs;

static void count_run(void *context, int index) {
  (void)context, (void)index;
  atomic_fetch_add(&runs, 1);
}

static void others_are_free(const cpu_set_t *allowed, int count) {
  for (int i = 0; i < count; i++) {
    const cpu_set_t mask = mask_of_other(i, count, CPU_COUNT(allowed));
    assert_true(CPU_EQUAL(&mask, allowed));
  }
}

static void hold_up(void *context, int index) {
  (void)context;
  if (index == 0) usleep(3000);
}

/* And they are at once, and stay so. */
static void others_stay_free(struct tb_pool *pool, const cpu_set_t *allowed, int count) {
  for (int look = 0; look < 20; look++) {
    pid_t thread[CORES_MAX];
    cpu_set_t mask;
    busy();
    meet_all(pool, count + 1);
    usleep(500);
    assert_int_equal(other_threads(thread), count);
    for (int i = 0; i < count; i++) {
      assert_int_equal(sched_getaffinity(thread[i], sizeof mask, &mask), 0);
      assert_true(CPU_EQUAL(&mask, allowed));
    }
  }
}

/* Of so many threads of a pool, the caller included. */
static int threads_of(const cpu_set_t *allowed) {
  return CPU_COUNT(allowed) < CORES_MAX ? CPU_COUNT(allowed) : CORES_MAX;
}

static void threads_keep_to_cores(void **state) {
  (void)state;
  cpu_set_t before, after;
  int core[CORES_MAX];
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) TST_LEAVE_OUT("it takes two cores");
  const int most = threads_of(&before);
  int moved = 0;
  for (int loop = 0; loop < 3; loop++) { /* a core that was not given back would be missing */
    bind_when(loop == 2 ? "always" : "auto");
    loop == 2 ? not_busy() : busy();
    struct tb_pool *pool = tb_pool_open(most, true);
    const int here = sched_getcpu();
    meet_all(pool, most);
    cores_of_others(core, most - 1);
    const bool stayed = sched_getcpu() == here; /* the caller is the kernel's to move, on a busy machine */
    for (int i = 0; i < most - 1 && stayed; i++) assert_int_not_equal(core[i], here);
    tb_pool_close(pool);
    if (!stayed && ++moved <= 100) loop--;
  }
  assert_true(moved <= 100);
  assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
  assert_true(CPU_EQUAL(&before, &after)); /* the caller's own */
}

/* Found busy while they are awake; unbound again a while behind, asleep; and bound by nothing where they must not. */
static void only_while_cores_are_busy(void **state) {
  (void)state;
  cpu_set_t allowed;
  int core[CORES_MAX];
  assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) TST_LEAVE_OUT("it takes two cores");
  const int most = threads_of(&allowed);
  bind_when("auto");
  not_busy();
  struct tb_pool *pool = tb_pool_open(most, true);
  for (int loop = 0; loop < 2; loop++) {
    busy();
    meet_all(pool, most);
    cores_of_others(core, most - 1);
    not_busy();
    others_are_free(&allowed, most - 1); /* within some seconds, and nobody has woken them */
  }
  bind_when("never");
  others_stay_free(pool, &allowed, most - 1);
  tb_pool_close(pool);
  pool = tb_pool_open(most, false);
  bind_when("always");
  others_stay_free(pool, &allowed, most - 1);
  tb_pool_close(pool);
  bind_when("auto");
}

/* Threads that have a core ask for none with each job, and neither do those for which there is none; some are held up
 * and move. */
static void cores_cost_once(void **state) {
  (void)state;
  cpu_set_t allowed;
  assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int threads = CPU_COUNT(&allowed) + 2; /* one is the caller, and one has no core */
  bind_when("always");
  struct tb_pool *pool = tb_pool_open(threads, true);
  for (int loop = 0; loop < 1000; loop++) {
    if (loop == 100) atomic_store(&tst_affinities, 0);
    tb_pool_run(pool, count_run, NULL, threads);
    if (loop % 100 == 0) usleep(2000); /* they sleep */
  }
  tb_pool_close(pool);
  bind_when("auto");
  printf("%d times\n", atomic_load(&tst_affinities));
  assert_in_range(atomic_load(&tst_affinities), 0, 100);
}

/* A thread that is told of other cores while it keeps to one has these, when it takes another and for good. */
static void what_others_say_holds(void **state) {
  (void)state;
  cpu_set_t before, mask;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) TST_LEAVE_OUT("it takes two cores");
  struct tb_core core = {.number = TB_NO_CORE};
  tb_core_take(&core, pthread_self(), TB_NO_CORE);
  tb_core_give_back(&core);
  assert_int_equal(core.number, TB_NO_CORE);
  assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
  assert_true(CPU_EQUAL(&mask, &before));

  tb_core_take(&core, pthread_self(), TB_NO_CORE);
  const int first = core.number;
  cpu_set_t others = before;
  CPU_CLR(first, &others);
  assert_int_equal(sched_setaffinity(0, sizeof others, &others), 0);
  for (int i = 0; i < CPU_COUNT(&others); i++) {
    tb_core_take(&core, pthread_self(), TB_NO_CORE);
    assert_true(core.number != first && CPU_ISSET(core.number, &others));
  }
  tb_core_give_back(&core);
  assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
  assert_true(CPU_EQUAL(&mask, &others));

  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  tb_core_take(&core, pthread_self(), TB_NO_CORE);
  others = before;
  CPU_CLR(core.number, &others);
  assert_int_equal(sched_setaffinity(0, sizeof others, &others), 0);
  tb_core_give_back(&core);
  assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
  assert_true(CPU_EQUAL(&mask, &others));
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static bool keeps_to_a_core(void) {
  pid_t thread[CORES_MAX];
  cpu_set_t mask;
  return other_threads(thread) == 1 && sched_getaffinity(thread[0], sizeof mask, &mask) == 0 && CPU_COUNT(&mask) == 1;
}

/* The caller takes no part: the other thread has both tasks. */
static void hold_other_up(struct tb_pool *pool) {
  const uint64_t job = tb_pool_start(pool, hold_up, NULL, 2);
  while (!tb_pool_done(pool, job)) usleep(1000);
}

static void held_up_threads_move(void **state) {
  (void)state;
  cpu_set_t allowed;
  int core[CORES_MAX], moved[CORES_MAX];
  assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 3) TST_LEAVE_OUT("it takes three cores: of two the caller has the other");
  bind_when("auto");
  not_busy();
  struct tb_pool *pool = tb_pool_open(2, true);
  for (int again = 0; !keeps_to_a_core() && again < 200; again++) hold_other_up(pool), usleep(1000);
  cores_of_others(core, 1);
  bind_when("always");
  /* On a busy machine the meeting may have held it up, too, and of two cores it may have come back to the first. */
  for (int again = 0; again < 100; again++) {
    hold_other_up(pool);
    usleep(10000);
    cores_of_others(moved, 1);
    if (moved[0] != core[0]) break;
  }
  assert_int_not_equal(moved[0], core[0]);
  tb_pool_close(pool);
  bind_when("auto");
}

/* The second of two tasks: from shortly before a tick until shortly behind a later one, or from midst to midst. */
static void over_ticks(void *from_midst, int index) {
  const bool midst = *(const bool *)from_midst;
  if (index == 0) {
    const double begun = tb_clock_seconds();
    while (ns_to_tick() < period_ns / 4 * 3 && tb_clock_seconds() - begun < 50e-3) continue;
    while (ns_to_tick() > (midst ? period_ns / 2 : period_ns / 40)) continue;
    return;
  }
  const double begun = tb_clock_seconds();
  while (tb_clock_seconds() - begun < 1.5e-9 * (double)period_ns) continue;
  while (!midst && ns_to_tick() < period_ns / 20 * 19 && tb_clock_seconds() - begun < 50e-3) continue;
}

static void hold_up_over_ticks(struct tb_pool *pool, bool midst) {
  const uint64_t job = tb_pool_start(pool, over_ticks, &midst, 2);
  while (!tb_pool_done(pool, job)) continue;
}

static void take_30_us(void *unused, int index) {
  (void)unused, (void)index;
  for (const double begun = tb_clock_seconds(); tb_clock_seconds() - begun < 30e-6;) continue;
}

/* Of the other thread, in tasks that take it 30 ms or more. On cores that rest the clock does not tick in time. */
static int rests_at_work(struct tb_pool *pool) {
  const int before = atomic_load(&rests);
  const uint64_t job = tb_pool_start(pool, take_30_us, NULL, TB_POOL_TASKS_MAX);
  while (!tb_pool_done(pool, job)) continue;
  return atomic_load(&rests) - before;
}

static double own_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Who was held up at a task from a tick of the clock to another has lost the core to a thread, and takes none in hand
 * before one; who was not, or at any time, as by another machine on the same hardware, does not rest. */
static void rests_before_ticks(void **state) {
  (void)state;
  enum { RESTS_LEAST = 12 };
  cpu_set_t allowed;
  int quiet = 0;
  assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) TST_LEAVE_OUT("it takes two cores");
  learn_ticks();
  if (period_ns < 1000000 || period_ns > 20000000) TST_LEAVE_OUT("its clock does not show a tick of 1 to 20 ms");
  not_busy();
  const double begun = tb_clock_seconds(), own = own_seconds();
  for (int again = 0; quiet < 2 && again < 40; again++) {
    struct tb_pool *pool = tb_pool_open(2, false);
    if (again % 2 == 0) hold_up_over_ticks(pool, true);
    quiet = rests_at_work(pool) == 0 ? quiet + 1 : 0;
    tb_pool_close(pool);
  }
  const double share = (own_seconds() - own) / (tb_clock_seconds() - begun); /* of a core that this thread had */
  if (quiet < 2 && share < 0.9) TST_LEAVE_OUT("others want these cores");
  assert_int_equal(quiet, 2);
  atomic_store(&rests_in_time, 0);
  int with = 0;
  for (int again = 0; with < RESTS_LEAST && again < 40; again++) { /* the first ones learn when the clock ticks */
    struct tb_pool *pool = tb_pool_open(2, false);
    hold_up_over_ticks(pool, false);
    with += rests_at_work(pool);
    tb_pool_close(pool);
  }
  assert_true(with >= RESTS_LEAST && 2 * atomic_load(&rests_in_time) >= with);
  assert_in_range(atomic_load(&longest_rest_ns), 1, 4000000);
}

static void keep_to(int core) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(core, &mask);
  assert_int_equal(sched_setaffinity(0, sizeof mask, &mask), 0);
}

/* Wherever the caller goes, the thread leaves it the core: awake, behind a job, and when it is woken for one. */
static void threads_leave_the_callers_core(void **state) {
  (void)state;
  cpu_set_t before;
  int core[CORES_MAX], moved[CORES_MAX];
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) TST_LEAVE_OUT("it takes two cores");
  bind_when("always");
  struct tb_pool *pool = tb_pool_open(2, true);
  meet_all(pool, 2);
  for (int i = 0; i < 20; i++) {
    cores_of_others(core, 1);
    if (i % 2) usleep(3000); /* until it sleeps */
    keep_to(core[0]);
    meet_all(pool, 2);
    for (int wait = 0; wait < 1000; wait++) {
      cores_of_others(moved, 1);
      if (moved[0] != core[0]) break;
      usleep(1000);
    }
    assert_int_not_equal(moved[0], core[0]);
  }
  tb_pool_close(pool);
  bind_when("auto");
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Another core each time, none that is taken, and not the one that is to be avoided. */
static void cores_are_taken(void **state) {
  (void)state;
  cpu_set_t before;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) TST_LEAVE_OUT("it takes two cores");
  struct tb_core one = {.number = TB_NO_CORE}, all[CPU_SETSIZE];
  tb_core_take(&one, pthread_self(), TB_NO_CORE);
  const int first = one.number;
  assert_true(CPU_ISSET(first, &before) && sched_getcpu() == first);
  tb_core_take(&one, pthread_self(), TB_NO_CORE);
  assert_true(CPU_ISSET(one.number, &before) && one.number != first && sched_getcpu() == one.number);
  const int second = one.number;
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  for (int i = 0; i < CPU_COUNT(&before); i++) { /* all others but the first one, and then there is none */
    all[i].number = TB_NO_CORE;
    tb_core_take(&all[i], pthread_self(), first);
    assert_true(all[i].number != first && all[i].number != second);
    assert_int_equal(all[i].number == TB_NO_CORE, i >= CPU_COUNT(&before) - 2);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  }
  tb_core_take(&one, pthread_self(), first);
  assert_int_equal(one.number, second); /* stays */
  tb_core_take(&one, pthread_self(), TB_NO_CORE);
  assert_int_equal(one.number, first);
  tb_core_leave(&one);
  for (int i = 0; i < CPU_COUNT(&before); i++) tb_core_leave(&all[i]);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* Threads that are there late, or that a task keeps for long, have found the cores busy; others have not. */
static void late_threads(void **state) {
  (void)state;
  struct tb_pool *pool = tb_pool_open(2, true);
  for (int attempt = 0;; attempt++) { /* where other programs have the cores they are late by themselves */
    usleep(5000);                     /* it sleeps */
    not_busy();
    meet_all(pool, 2);
    if (!is_busy()) break;
    if (attempt == 200) TST_LEAVE_OUT("other programs have the cores");
  }
  for (int attempt = 0; !is_busy(); attempt++) {
    assert_true(attempt < 10); /* one is enough, if it sleeps */
    usleep(5000);
    atomic_store(&late_us, 1000);
    meet_all(pool, 2);
    atomic_store(&late_us, 0);
  }
  tb_pool_close(pool);
}

/* ---- a short slice ---- */

struct attributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns, deadline_ns, period_ns;
};

static uint64_t slice_of(pid_t thread, int *nice) {
  struct attributes a = {0};
  if (syscall(SYS_sched_getattr, thread, &a, sizeof a, 0) != 0) return 0;
  *nice = a.nice;
  return a.runtime_ns;
}

static void slices(void **state) {
  (void)state;
  int nice_before, nice_of;
  pid_t thread[CORES_MAX];
  assert_true(nice(3) != -1);
  const uint64_t own = slice_of(0, &nice_before);
  if (own == 0) TST_LEAVE_OUT("Linux has had slices of threads since 6.12");
  for (int never = 0; never < 2; never++) {
    bind_when(never ? "never" : "auto");
    struct tb_pool *pool = tb_pool_open(2, true);
    meet_all(pool, 2);
    assert_int_equal(other_threads(thread), 1);
    assert_int_equal(slice_of(thread[0], &nice_of), never ? own : own * 7 / 10);
    assert_int_equal(nice_of, nice_before);
    tb_pool_close(pool);
  }
  assert_int_equal(slice_of(0, &nice_of), own);
  bind_when("auto");
}

/* ---- a kernel that refuses ---- */

static const struct {
  const char *name;
  long number;
} refused[] = {{"sched_setaffinity", SYS_sched_setaffinity},
               {"sched_getaffinity", SYS_sched_getaffinity},
               {"sched_getattr", SYS_sched_getattr},
               {"sched_setattr", SYS_sched_setattr}};
#define REFUSED ((int)(sizeof refused / sizeof *refused))

/* From the library's load on, as a container's filter does. */
static int refuse(int which) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[which].number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 77;
  execl("/proc/self/exe", "test", "refused", refused[which].name, NULL);
  return 2;
}

/* Of a thread of ours, by what the kernel shows everybody. */
static int cores_by_status(pid_t thread) {
  char *status = tst_read_file(tst_format("/proc/self/task/%d/status", thread));
  const char *line = strstr(status, "Cpus_allowed:");
  int cores = 0;
  for (const char *c = line == NULL ? "" : line + strlen("Cpus_allowed:"); *c != '\0' && *c != '\n'; c++)
    if (*c != ' ' && *c != '\t' && *c != ',')
      cores += __builtin_popcount((unsigned)strtoul((char[]){*c, '\0'}, NULL, 16));
  free(status);
  return cores;
}

/* Every task runs; threads are bound unless it is that what is refused. */
static int go_on(const char *name) {
  pid_t thread[CORES_MAX];
  const int cores = cores_by_status(getpid());
  tb_sandbox_at_load();
  if (tb_option_set("TILEBLAS_BIND", "always") != 0) return 3;
  struct tb_pool *pool = tb_pool_open(2, true);
  meet_all(pool, 2);
  for (int loop = 0; loop < 100; loop++) tb_pool_run(pool, count_run, NULL, 7);
  if (atomic_load(&runs) != 700) return 4;
  usleep(5000);
  if (other_threads(thread) != 1) return 5;
  const bool binds = strstr(name, "affinity") == NULL && cores > 1;
  if (cores_by_status(thread[0]) != (binds ? 1 : cores)) return 6;
  tb_pool_close(pool);
  return cores_by_status(getpid()) == cores ? 0 : 7;
}

static void refusals(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TST_LEAVE_OUT("filters: the sanitizers' runtimes ask for cores themselves");
#endif
  for (int which = 0; which < REFUSED; which++) {
    struct tst_output o;
    tst_run(&o, (const char *const[]){"/proc/self/exe", "refuse", tst_format("%d", which), NULL},
            (const char *const[]){NULL});
    if (o.status == 77) TST_LEAVE_OUT("filters are not allowed");
    if (o.status != 0) fail_msg("%s refused: status %d\n%s%s", refused[which].name, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

/* ---- a container's share of their time ---- */

static int open_files(void) {
  DIR *const folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static void quotas(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int cores;
  } files[] = {
      {"max 100000\n", INT_MAX},        {"100000 100000\n", 1},   {"150000 100000\n", 2}, {"200000 100000\n", 2},
      {"200001 100000\n", 3},           {"1000 100000\n", 1},     {"50000 50000\n", 1},   {"0 100000\n", INT_MAX},
      {"100000 0\n", INT_MAX},          {"-1 100000\n", INT_MAX}, {"100000\n", INT_MAX},  {"", INT_MAX},
      {"900000000000000 1\n", INT_MAX}, {"6400000 100000\n", 64}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *const path = tst_temporary_file();
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(files[i].text, file);
    fclose(file);
    const int before = open_files();
    if (tb_background_quota(path) != files[i].cores) fail_msg("%s: %d cores", files[i].text, tb_background_quota(path));
    assert_int_equal(open_files(), before);
  }
  assert_int_equal(tb_background_quota("/nowhere/cpu.max"), INT_MAX);
}

/* `test_cores moves` is the one case that takes three cores, so that no other is missing where there are two. */
int main(int argc, char **argv) {
  const struct CMUnitTest moves[] = {cmocka_unit_test(held_up_threads_move)};
  if (argc == 2 && strcmp(argv[1], "moves") == 0) return tst_result(cmocka_run_group_tests(moves, NULL, NULL));
  const struct CMUnitTest ticks[] = {cmocka_unit_test(rests_before_ticks)};
  if (argc == 2 && strcmp(argv[1], "ticks") == 0) return tst_result(cmocka_run_group_tests(ticks, NULL, NULL));
  if (argc == 3 && strcmp(argv[1], "refuse") == 0) return refuse(atoi(argv[2]));
  if (argc == 3 && strcmp(argv[1], "refused") == 0) return go_on(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(choices),
      cmocka_unit_test(long_offers),
      cmocka_unit_test(late_threads),
      cmocka_unit_test(cores_are_taken),
      cmocka_unit_test(what_others_say_holds),
      cmocka_unit_test(threads_keep_to_cores),
      cmocka_unit_test(only_while_cores_are_busy),
      cmocka_unit_test(cores_cost_once),
      cmocka_unit_test(threads_leave_the_callers_core),
      cmocka_unit_test(refusals),
      cmocka_unit_test(slices),
      cmocka_unit_test(quotas),
  };
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
