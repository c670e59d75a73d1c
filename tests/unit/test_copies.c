/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of threads and the copies that it shares out: every task runs once, however many threads and loops; the
 * copies are those of plain loops, for every alignment and padding, and touch nothing else; the threads leave the
 * program's signals alone, and where cores are busy they look for work a shorter time. Their cores are test_cores's.
 *
 * Seen to fail when: a late thread takes a task of the next loop; the last elements behind the vectors are left out;
 * beta = 0 reads C; a thread is started before signals are blocked; threads look for work behind a call as long where
 * cores are busy as elsewhere; a thread has its starter's real time; a job behind is the last one; a job whose place is
 * another's is not done; the caller's signals stay blocked; what comes down last is one thread's; threads for jobs
 * behind run other tasks, or none.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline/copy.h"
#include "process/busy.h"
#include "matrix.h"
#include "process.h"
#include "rng.h"

static atomic_int runs[TB_POOL_TASKS_MAX];

static void count_run(void *context, int index) {
  (void)context;
  atomic_fetch_add(&runs[index], 1);
}

static void expect_runs(int count) {
  for (int i = 0; i < TB_POOL_TASKS_MAX; i++)
    if (atomic_load(&runs[i]) != (i < count)) fail_msg("task %d of %d ran %d times", i, count, atomic_load(&runs[i]));
}

static void every_task_once(void **state) {
  (void)state;
  const int threads[] = {0, 1, 2, 3, 8};
  uint64_t rng = 1;
  for (int t = 0; t < 5; t++) {
    struct tb_pool *pool = tb_pool_open(threads[t], true);
    assert_in_range(tb_pool_threads(pool), 1, threads[t] > 1 ? threads[t] : 1);
    for (int loop = 0; loop < 2000; loop++) {
      int count = 1 + (int)tst_random_below(&rng, loop % 100 ? 12 : TB_POOL_TASKS_MAX);
      for (int i = 0; i < TB_POOL_TASKS_MAX; i++) atomic_store_explicit(&runs[i], 0, memory_order_relaxed);
      tb_pool_wait(pool, tb_pool_start(pool, count_run, NULL, count));
      expect_runs(count);
      if (loop % 500 == 0) usleep(2000); /* long enough for the threads to fall asleep */
    }
    tb_pool_close(pool);
  }
}

#define SUMS (3 * TB_POOL_JOBS_MAX)
static atomic_int sums[SUMS];

static void add_index(void *context, int index) { atomic_fetch_add((atomic_int *)context, index + 1); }

/* More jobs than there are places for, begun before any is waited for; done when they say so, whatever the order of the
 * questions, and long after. */
static void many_jobs_at_once(void **state) {
  (void)state;
  uint64_t rng = 3, job[SUMS];
  for (int threads = 1; threads <= 4; threads++) {
    struct tb_pool *pool = tb_pool_open(threads, true);
    for (int loop = 0; loop < 300; loop++) {
      int count[SUMS];
      for (int i = 0; i < SUMS; i++) {
        count[i] = 1 + (int)tst_random_below(&rng, 9);
        atomic_store(&sums[i], 0);
        job[i] = tb_pool_start(pool, add_index, &sums[i], count[i]);
        if (tst_random_below(&rng, 3) == 0) tb_pool_help(pool);
        if (tst_random_below(&rng, 40) == 0) tb_pool_rest();
      }
      for (int j = 0; j < SUMS; j++) {
        const int i = j * 5 % SUMS;
        if (j % 2) tb_pool_wait(pool, job[i]);
        while (!tb_pool_done(pool, job[i])) tb_pool_help(pool);
        assert_int_equal(atomic_load(&sums[i]), count[i] * (count[i] + 1) / 2);
      }
      assert_false(tb_pool_help(pool));
      if (loop % 100 == 0) usleep(2000);
    }
    tb_pool_close(pool);
  }
}

/* ---- what a job's end is ---- */

static atomic_int at_work, ended;
static atomic_bool let_go;

static void linger(void *context, int index) {
  (void)context, (void)index;
  atomic_fetch_add(&at_work, 1);
  while (!atomic_load(&let_go)) usleep(100);
  atomic_fetch_add(&ended, 1);
}

static void begin_to_linger(void) {
  atomic_store(&at_work, 0);
  atomic_store(&ended, 0);
  atomic_store(&let_go, false);
}

static void wait_for_work(int tasks) {
  while (atomic_load(&at_work) < tasks) usleep(100);
}

/* A job whose place another has is done, though that one is not. */
static void done_though_another_is_there(void **state) {
  (void)state;
  struct tb_pool *pool = tb_pool_open(3, true);
  atomic_store(&sums[0], 0);
  const uint64_t first = tb_pool_start(pool, add_index, &sums[0], 2);
  for (int i = 1; i < TB_POOL_JOBS_MAX; i++) tb_pool_wait(pool, tb_pool_start(pool, add_index, &sums[0], 2));
  tb_pool_wait(pool, first);
  begin_to_linger();
  const uint64_t last = tb_pool_start(pool, linger, NULL, 2);
  wait_for_work(2);
  assert_int_equal(last, first + TB_POOL_JOBS_MAX);
  assert_true(tb_pool_done(pool, first));
  assert_false(tb_pool_done(pool, last));
  let_go = true;
  tb_pool_wait(pool, last);
  tb_pool_close(pool);
}

static void *let_go_soon(void *unused) {
  usleep(20000);
  let_go = true;
  return unused;
}

/* All jobs that are under way, not the latest alone. */
static void settled(void **state) {
  (void)state;
  struct tb_pool *pool = tb_pool_open(3, true);
  pthread_t other;
  begin_to_linger();
  tb_pool_start(pool, linger, NULL, 2);
  wait_for_work(2);
  tb_pool_start(pool, add_index, &sums[0], 2);
  assert_int_equal(pthread_create(&other, NULL, let_go_soon, NULL), 0);
  tb_pool_settle(pool);
  assert_int_equal(atomic_load(&ended), 2);
  pthread_join(other, NULL);
  tb_pool_close(pool);
}

/* A job behind the others: two at a time, ended with tasks that nobody has begun, and then there may be another. */
static void jobs_behind(void **state) {
  (void)state;
  struct tb_pool *pool = tb_pool_open(3, true);
  pthread_t other;
  for (int again = 0; again < 3; again++) {
    begin_to_linger();
    const int place = tb_pool_start_behind(pool, linger, NULL, 50);
    assert_true(place > 0);
    wait_for_work(2);
    for (int i = 0; i < TB_POOL_TASKS_MAX; i++) atomic_store(&runs[i], 0);
    const int other_place = tb_pool_start_behind(pool, count_run, NULL, 50); /* nobody is left to run it */
    assert_true(other_place > 0 && other_place != place);
    assert_int_equal(tb_pool_start_behind(pool, count_run, NULL, 50), 0);
    tb_pool_end_behind(pool, other_place);
    assert_int_equal(atomic_load(&runs[0]), 0);
    tb_pool_run(pool, add_index, &sums[0], 4); /* by the caller, for the threads linger */
    assert_int_equal(pthread_create(&other, NULL, let_go_soon, NULL), 0);
    tb_pool_end_behind(pool, place);
    pthread_join(other, NULL);
    const int begun = atomic_load(&at_work);
    assert_int_equal(atomic_load(&ended), begun);
    usleep(2000);
    assert_int_equal(atomic_load(&at_work), begun);
    tb_pool_end_behind(pool, 0); /* nothing */
  }
  for (int i = 0; i < TB_POOL_TASKS_MAX; i++) atomic_store(&runs[i], 0);
  begin_to_linger();
  const int lingering = tb_pool_start_behind(pool, linger, NULL, 1),
            place = tb_pool_start_behind(pool, count_run, NULL, 50);
  assert_true(lingering > 0 && place > 0);
  for (int i = 0; i < 50; i++)
    while (atomic_load(&runs[i]) == 0) usleep(100);
  expect_runs(50);
  let_go = true;
  tb_pool_end_behind(pool, lingering);
  tb_pool_end_behind(pool, place);
  tb_pool_close(pool);
  assert_int_equal(tb_pool_start_behind(NULL, count_run, NULL, 5), 0);
}

static atomic_int helped;

static void try_to_help(void *context, int index) {
  if (tb_pool_help(context)) atomic_fetch_add(&helped, 1);
  count_run(NULL, index);
}

/* Also where cores were found busy, as threads that wait for pages find them. */
static void among_busy_cores(void) {
  struct tb_pool *pool = tb_pool_open(3, true);
  tb_pool_add_behind(pool, 2);
  usleep(20000); /* now they sleep */
  for (int i = 0; i < TB_POOL_TASKS_MAX; i++) atomic_store(&runs[i], 0);
  begin_to_linger();
  tb_pool_start(pool, linger, NULL, 2);
  wait_for_work(2);
  tb_busy_found(tb_clock_seconds());
  const int place = tb_pool_start_behind(pool, count_run, NULL, 50);
  assert_true(place > 0);
  for (int i = 0; i < 50; i++)
    while (atomic_load(&runs[i]) == 0) usleep(100);
  let_go = true;
  tb_pool_settle(pool);
  tb_pool_end_behind(pool, place);
  tb_pool_close(pool);
  tb_busy_found(-INFINITY);
}

/* Threads for jobs behind: such a job does not wait for the others, which linger. They run nothing else, nor help with
 * it. */
static void threads_for_jobs_behind(void **state) {
  (void)state;
  struct tb_pool *pool = tb_pool_open(3, true);
  tb_pool_add_behind(pool, 2);
  tb_pool_add_behind(NULL, 2);
  assert_int_equal(tb_pool_threads(pool), 3);
  for (int again = 0; again < 3; again++) {
    for (int i = 0; i < TB_POOL_TASKS_MAX; i++) atomic_store(&runs[i], 0);
    begin_to_linger();
    atomic_store(&sums[0], 0);
    tb_pool_start(pool, linger, NULL, 2);
    wait_for_work(2);
    const uint64_t job = tb_pool_start(pool, add_index, &sums[0], 4);
    const int place = tb_pool_start_behind(pool, try_to_help, pool, 50);
    assert_true(place > 0);
    for (int i = 0; i < 50; i++)
      while (atomic_load(&runs[i]) == 0) usleep(100);
    expect_runs(50);
    usleep(2000);
    assert_int_equal(atomic_load(&sums[0]), 0);
    assert_int_equal(atomic_load(&helped), 0);
    let_go = true;
    tb_pool_wait(pool, job);
    tb_pool_end_behind(pool, place);
    assert_int_equal(atomic_load(&sums[0]), 10);
    tb_pool_settle(pool);
    if (again == 1) usleep(2000); /* long enough for them to fall asleep */
  }
  tb_pool_close(pool);
  among_busy_cores();
}

/* ---- what the threads have of their starter ---- */

static atomic_int ordinary, others_started;
static atomic_bool watching;

/* In place of the C library's: whether a thread is an ordinary one, whatever its starter is. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *context) {
  static __typeof__(&pthread_create) real;
  int inherits = PTHREAD_INHERIT_SCHED, policy = -1;
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  if (attributes != NULL) pthread_attr_getinheritsched(attributes, &inherits);
  if (attributes != NULL) pthread_attr_getschedpolicy(attributes, &policy);
  if (watching) *(inherits == PTHREAD_EXPLICIT_SCHED && policy == SCHED_OTHER ? &ordinary : &others_started) += 1;
  return real(thread, attributes, body, context);
}

/* A program in real time does not get copying threads in real time. */
static void threads_are_ordinary(void **state) {
  (void)state;
  watching = true;
  tb_pool_close(tb_pool_open(3, true));
  watching = false;
  assert_int_equal(ordinary, 2);
  assert_int_equal(others_started, 0);
}

static uint64_t blocked_at_first; /* by this thread */

/* SigBlk in the status of a thread, as a number of 64 bits. */
static uint64_t blocked_signals(const char *thread) {
  char *status = tst_read_file(tst_format("/proc/self/task/%s/status", thread));
  const char *line = strstr(status, "SigBlk:");
  assert_non_null(line);
  uint64_t blocked = strtoull(line + strlen("SigBlk:"), NULL, 16);
  free(status);
  return blocked;
}

#define MEETING_THREADS 4
static atomic_int arrived;

/* Returns when every thread of the pool is in it: only then do they all have the mask that they will keep. */
static void meet(void *context, int index) {
  (void)context, (void)index;
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < MEETING_THREADS) usleep(100);
}

static void threads_take_no_signals(void **state) {
  (void)state;
  struct tb_pool *pool = tb_pool_open(MEETING_THREADS, true);
  tb_pool_wait(pool, tb_pool_start(pool, meet, NULL, MEETING_THREADS));
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  int others = 0;
  for (struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
    const uint64_t blocked = blocked_signals(entry->d_name);
    const uint64_t never = 1u << 8 | 1u << 18 | (uint64_t)3 << 31; /* KILL, STOP and the C library's own two */
    const uint64_t faults = 1u << (SIGILL - 1) | 1u << (SIGTRAP - 1) | 1u << (SIGBUS - 1) | 1u << (SIGFPE - 1) |
                            1u << (SIGSEGV - 1) | 1u << (SIGSYS - 1); /* these belong to the thread they happen in */
    if ((blocked | never | faults) != ~(uint64_t)0) fail_msg("a thread takes signals");
    if ((blocked & faults) != 0) fail_msg("a thread takes no faults");
    others++;
  }
  closedir(tasks);
  assert_int_equal(others, MEETING_THREADS - 1);
  tb_pool_close(pool);
  assert_true(blocked_signals(tst_format("%d", getpid())) == blocked_at_first); /* the caller's own are as they were */
}

static int64_t random_rows(uint64_t *rng) {
  return tst_random_below(rng, 4) ? 1 + tst_random_below(rng, 70) : 1 + tst_random_below(rng, 3000);
}

/* What the copy must make of an element. */
static float expected(float from, float beta, float before) { return beta == 0 ? from : from + beta * before; }

/* One copy between fenced matrices; when beta is 0, into one that holds NaN. */
static void check_copy(struct tb_pool *pool, enum tb_stores stores, bool drops, uint64_t *rng) {
  const int64_t rows = random_rows(rng), columns = 1 + tst_random_below(rng, rows > 100 ? 90 : 300);
  const float betas[] = {0, 1, -2.5f};
  const float beta = betas[tst_random_below(rng, 3)];
  struct tst_matrix from, to;
  tst_matrix_create(&from, columns, rows, rows + tst_random_below(rng, 9), (enum tst_fence)tst_random_below(rng, 2));
  tst_matrix_create(&to, columns, rows, rows + tst_random_below(rng, 9), (enum tst_fence)tst_random_below(rng, 2));
  tst_matrix_fill(&from, TST_INTEGERS, rng);
  tst_matrix_fill(&to, beta == 0 ? TST_NAN : TST_INTEGERS, rng);
  tst_matrix_remember(&from);
  tst_matrix_remember(&to);
  struct tb_copy copy = {.beta = {beta},
                         .stores = stores,
                         .drops = drops,
                         .to = to.data,
                         .from = from.data,
                         .to_ld = to.ld,
                         .from_ld = from.ld,
                         .rows = rows,
                         .columns = columns,
                         .cut = (enum tb_tasks)tst_random_below(rng, 3)};
  tb_copy_start(pool, &copy);
  tb_copy_wait(pool, &copy);
  assert_true(tb_copy_done(pool, &copy));

  int64_t where;
  assert_true(tst_matrix_unchanged(&from, true, &where));
  if (!tst_matrix_unchanged(&to, false, &where)) fail_msg("%ld elements from the target were written", (long)where);
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < rows; i++) {
      float want = expected(from.data[j * from.ld + i], beta, tst_matrix_before(&to)[j * to.ld + i]);
      if (to.data[j * to.ld + i] != want)
        fail_msg("%ld x %ld, ld %ld to %ld: (%ld,%ld) = %g, not %g", (long)rows, (long)columns, (long)from.ld,
                 (long)to.ld, (long)i, (long)j, (double)to.data[j * to.ld + i], (double)want);
    }
  tst_matrix_destroy(&from);
  tst_matrix_destroy(&to);
}

/* Tasks of a copy of so many bytes. */
static int tasks_of(struct tb_pool *pool, int64_t bytes, enum tb_tasks cut) {
  static float from[1 << 20], to[1 << 20];
  const int64_t rows = 1024, columns = bytes / (rows * 4);
  struct tb_copy copy = {
      .to = to, .from = from, .to_ld = rows, .from_ld = rows, .rows = rows, .columns = columns, .cut = cut};
  for (int64_t i = 0; i < rows * columns; i++) from[i] = (float)i, to[i] = -1;
  tb_copy_start(pool, &copy);
  tb_copy_wait(pool, &copy);
  assert_memory_equal(to, from, bytes);
  return copy.tasks;
}

/* What goes up first, in small pieces, is the threads' where much follows, and the caller's alone where little does. */
static void first_pieces_are_shared(void **state) {
  (void)state;
  const int64_t kib = 1024, mib = 1024 * kib;
  for (int large = 0; large < 2; large++) {
    assert_int_equal(tb_tasks_up(large, TB_STORES_STREAMED, 200 * kib, 4 * mib), TB_TASKS_MANY);
    assert_int_equal(tb_tasks_up(large, TB_STORES_STREAMED, 200 * kib, 4 * mib - 1), TB_TASKS_USUAL);
    assert_int_equal(tb_tasks_up(large, TB_STORES_STREAMED, 256 * kib, 4 * mib), TB_TASKS_USUAL);
    assert_int_equal(tb_tasks_up(large, TB_STORES_CACHED, 256 * kib, 4 * mib), large ? TB_TASKS_FEW : TB_TASKS_USUAL);
  }
}

/* Of what comes down last each thread has some, where there was enough before it for them to have come; whole pieces
 * are cut as others are. */
static void last_pieces_are_shared(void **state) {
  (void)state;
  const int64_t kib = 1024, mib = 1024 * kib;
  struct tb_pool *const pool = tb_pool_open(3, true);
  const int most = 2 * tb_pool_threads(pool);
  for (int large = 0; large < 2; large++) {
    assert_int_equal(tb_tasks_down(large, true, 4 * mib), large ? TB_TASKS_FEW : TB_TASKS_USUAL);
    assert_int_equal(tb_tasks_down(large, false, 4 * mib), TB_TASKS_MANY);
    assert_int_equal(tb_tasks_down(large, false, 4 * mib - 1), TB_TASKS_USUAL);
  }
  assert_int_equal(tasks_of(pool, 252 * kib, TB_TASKS_MANY), most);
  assert_int_equal(tasks_of(pool, 252 * kib, TB_TASKS_USUAL), 1);
  assert_int_equal(tasks_of(pool, 256 * kib, TB_TASKS_USUAL), most < 4 ? most : 4);
  assert_int_equal(tasks_of(pool, 768 * kib, TB_TASKS_FEW), most < 3 ? most : 3);
  assert_int_equal(tasks_of(pool, 32 * kib, TB_TASKS_MANY), 2);
  assert_int_equal(tasks_of(pool, 28 * kib, TB_TASKS_MANY), 1);
  assert_int_equal(tasks_of(pool, 4 * kib, TB_TASKS_MANY), 1);
  tb_pool_close(pool);
}

static void copies(void **state) {
  (void)state;
  uint64_t rng = 5;
  for (int threads = 1; threads <= 4; threads++) {
    struct tb_pool *pool = tb_pool_open(threads, true);
    for (int i = 0; i < 150; i++) check_copy(pool, (enum tb_stores)(i % 3), i % 2 == 0, &rng);
    tb_pool_close(pool);
  }
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

enum behind { AWAKE, AT_REST, BUSY, AT_REST_IF_BUSY };

/* Processor's time that the threads take in the milliseconds behind a job, the median of some. */
static double seconds_behind_job(struct tb_pool *pool, enum behind behind) {
  double took[15];
  const int count = sizeof took / sizeof *took;
  for (int i = 0; i < count; i++) {
    atomic_store(&arrived, 0);
    tb_pool_run(pool, meet, NULL, MEETING_THREADS);
    tb_busy_found(behind >= BUSY ? tb_clock_seconds() : -INFINITY); /* whatever the machine does besides */
    if (behind == AT_REST) tb_pool_rest();
    if (behind == AT_REST_IF_BUSY) tb_pool_rest_if_busy();
    took[i] = -cpu_seconds();
    usleep(3000);
    took[i] += cpu_seconds();
  }
  qsort(took, (size_t)count, sizeof *took, ascending);
  return took[count / 2];
}

/* Told to rest, threads without work do not look for any. Nor do they behind a call where cores are busy, and before
 * its end a shorter time. Where other programs have the cores they cannot anyway, and there is nothing to tell apart.
 */
enum { ATTEMPTS = 9 };

static double median(double of[ATTEMPTS]) {
  qsort(of, ATTEMPTS, sizeof *of, ascending);
  return of[ATTEMPTS / 2];
}

static void threads_rest(void **state) {
  (void)state;
  struct tb_pool *pool = tb_pool_open(MEETING_THREADS, true);
  double seconds[4][ATTEMPTS];
  for (int attempt = 0; attempt < ATTEMPTS; attempt++)
    for (int behind = 0; behind < 4; behind++) seconds[behind][attempt] = seconds_behind_job(pool, behind);
  tb_pool_close(pool);
  const double looking = median(seconds[AWAKE]), resting = median(seconds[AT_REST]), busy = median(seconds[BUSY]),
               resting_if_busy = median(seconds[AT_REST_IF_BUSY]);
  if (looking < 0.5 * TB_POOL_SPIN_SECONDS) TST_LEAVE_OUT("other programs have the cores");
  printf("%.0f us at rest, %.0f looking for work; %.0f and %.0f where cores are busy\n", resting * 1e6, looking * 1e6,
         resting_if_busy * 1e6, busy * 1e6);
  assert_true(fmax(resting, fmax(busy, resting_if_busy)) < 0.5 * looking);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_task_once),
      cmocka_unit_test(many_jobs_at_once),
      cmocka_unit_test(done_though_another_is_there),
      cmocka_unit_test(settled),
      cmocka_unit_test(jobs_behind),
      cmocka_unit_test(threads_for_jobs_behind),
      cmocka_unit_test(threads_are_ordinary),
      cmocka_unit_test(threads_take_no_signals),
      cmocka_unit_test(threads_rest),
      cmocka_unit_test(copies),
      cmocka_unit_test(first_pieces_are_shared),
      cmocka_unit_test(last_pieces_are_shared),
  };
  blocked_at_first = blocked_signals(tst_format("%d", getpid()));
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
