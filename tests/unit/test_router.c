/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process comes to know of its machine, from nothing to measurements kept for the next one, on the fake driver,
 * whose GPU is an emulation and thus slow: measuring must find that out, in its time, whatever else goes wrong. On a
 * real GPU: that it is measured once, and quickly. Only decisions are asked for; no operand is ever touched. Each case
 * is a process of its own.
 *
 * Seen to fail when: a broken file is believed or left; a process without a home prints or stops; two threads measure;
 * a failing GPU is measured on; what calls took does not count towards a GPU's opening, or all of it does; it does not
 * count towards a look where assumptions keep calls from the GPU, or short ones' time does; the short
 * way of small calls does not hear of the model; a call that is back from the GPU still keeps others waiting; opening
 * the GPU does not; calls whose operands were kept teach what others take; copying threads do not make
 * way for a trial of the CPU; under ThreadSanitizer, when what threads
 * that decide and learn share is not guarded.
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
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/environment.h"
#include "fake.h"
#include "offload/offload.h"
#include "process.h"
#include "route/router.h"
#include "interface/run.h"
#include "interface/short_way.h"
#include "tileblas.h"

#define THREADS 8

/*
 * The clock that the library reads. In a thread that decides it stands still while the process does not compute: other
 * work on the machine stops calls for any time, and with two of three calls of a size stopped for some milliseconds the
 * CPU would measure as slow as the fake GPU.
 */
static _Thread_local bool deciding;
static _Thread_local struct timespec decides_since, computed_since; /* of the system's clock, and of the processor's */

static void read_clock(clockid_t clock, struct timespec *t) { syscall(SYS_clock_gettime, clock, t); }

/* A file of figures that takes longer than TB_KEPT_SECONDS is left alone. On a busy machine the thread that is to write
 * it may not have begun by then, so who waits for it gets so much later an end here; no case has a slow file. */
#define PATIENCE_SECONDS 30
static _Thread_local bool patient;

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (clock != CLOCK_MONOTONIC || !deciding) {
    const int result = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock == CLOCK_REALTIME && patient) t->tv_sec += PATIENCE_SECONDS;
    return result;
  }
  read_clock(CLOCK_PROCESS_CPUTIME_ID, t);
  const long long second = 1000000000, ns = second * (t->tv_sec - computed_since.tv_sec + decides_since.tv_sec) +
                                            t->tv_nsec - computed_since.tv_nsec + decides_since.tv_nsec;
  *t = (struct timespec){ns / second, ns % second};
  return 0;
}

/* The cores that the library finds, if not this machine's. */
static int pretended_cores;

int sched_getaffinity(pid_t thread, size_t size, cpu_set_t *set) {
  if (pretended_cores == 0) return syscall(SYS_sched_getaffinity, thread, size, set) < 0 ? -1 : 0;
  CPU_ZERO_S(size, set);
  for (int core = 0; core < pretended_cores; core++) CPU_SET_S(core, size, set);
  return 0;
}

static char cache[256], folder[300];

/* One that any assumption sends to a GPU. */
static struct tb_decision decide_large(void) {
  static const struct tb_call call = {
      .symbol = TB_SYMBOL_cblas_sgemm, .m = 30000, .n = 30000, .k = 30000, .alpha = {1}};
  read_clock(CLOCK_MONOTONIC, &decides_since);
  read_clock(CLOCK_PROCESS_CPUTIME_ID, &computed_since);
  deciding = patient = true;
  const struct tb_decision decision = tb_router_decide(&call, NULL, TB_ROUTE_AUTO);
  deciding = patient = false;
  return decision;
}

static int new_cache(void **state) {
  (void)state;
  snprintf(cache, sizeof cache, "%s.d", tst_temporary_file());
  snprintf(folder, sizeof folder, "%s/tileblas", cache);
  setenv("XDG_CACHE_HOME", cache, 1);
  tb_environment_read();
  return 0;
}

static int remove_cache(void **state) {
  (void)state;
  return system(tst_format("rm -rf '%s'", cache)) == 0 ? 0 : -1;
}

/* The one file there is; NULL: none. Anything else that lies there is a failure. */
static const char *kept_file(void) {
  const char *found = NULL;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    if (found || strstr(e->d_name, ".txt") != e->d_name + strlen(e->d_name) - 4)
      fail_msg("%s lies in the folder too", e->d_name);
    found = tst_format("%s/%s", folder, e->d_name);
  }
  if (d) closedir(d);
  return found;
}

/* Beside a GPU that is slow more calls are small than at first, and the short way knows. */
static bool small_calls_know(void) {
  const long long terms = tb_route_small_terms[TB_S];
  return terms > TB_SMALL_TERMS_AT_FIRST && tb_small.terms[TB_S] == (unsigned long long)terms;
}

/* Exit status 0: the CPU, weighed, and errno untouched. Says how often it launched a kernel, and how long it took. */
static int decides_for_the_cpu(void *option) {
  alarm(60);
  if (option) tileblas_option_set("TILEBLAS_CALIBRATION", option);
  const struct tst_fake *fake = tst_fake();
  tb_run_initialise();
  errno = 12345;
  const struct tb_decision d = decide_large();
  struct timespec computed;
  read_clock(CLOCK_PROCESS_CPUTIME_ID, &computed);
  printf("launches=%d seconds=%g\n", (int)fake->calls("cuLaunchKernel"), (double)computed.tv_sec);
  if (errno != 12345) return 2;
  if (!small_calls_know()) return 3;
  return d.where == TB_CPU && d.why == TB_STATUS_cpu_sooner && d.gpu_seconds > d.cpu_seconds ? 0 : 1;
}

static void expect(int (*body)(void *), void *argument, const char *says) {
  struct tst_output o;
  tst_fork(&o, body, argument);
  if (o.status != 0 || o.err[0] || (says && !strstr(o.out, says))) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  const char *seconds = strstr(o.out, "seconds=");
  /* Of computing: opening, loading and measuring, under a sanitizer. */
  if (seconds) assert_true(atof(seconds + strlen("seconds=")) < 20);
  tst_output_destroy(&o);
}

static void measured_once(void **state) {
  (void)state;
  assert_null(kept_file());
  expect(decides_for_the_cpu, NULL, NULL);
  const char *file = kept_file();
  assert_non_null(file);
  char *text = tst_read_file(file);
  assert_non_null(strstr(text, "Fake CUDA device"));
  /* The next process knows without opening the GPU. */
  expect(decides_for_the_cpu, NULL, "launches=0 ");
  char *after = tst_read_file(file);
  assert_string_equal(after, text);
  free(after);
  expect(decides_for_the_cpu, "again", NULL);
  after = tst_read_file(kept_file());
  assert_string_not_equal(after, text);
  free(after);
  free(text);
}

static void broken_files(void **state) {
  (void)state;
  expect(decides_for_the_cpu, NULL, NULL);
  const char *file = kept_file();
  const off_t lengths[] = {0, 1, 500, 1 << 20};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(truncate(file, lengths[i]), 0);
    expect(decides_for_the_cpu, NULL, NULL);
    assert_string_equal(kept_file(), file);
    expect(decides_for_the_cpu, NULL, "launches=0 "); /* it was mended */
  }
  assert_int_equal(unlink(file), 0);
  assert_int_equal(mkdir(file, 0700), 0); /* it can be neither read nor replaced */
  expect(decides_for_the_cpu, NULL, NULL);
}

/* No folder to keep anything in: each process measures, and nobody hears of it. */
static void no_home(void **state) {
  (void)state;
  const char *const nowhere[] = {"/proc", "/nonexistent/cache", "/dev/null", NULL};
  unsetenv("HOME");
  for (int i = 0; i < 4; i++) {
    if (nowhere[i])
      setenv("XDG_CACHE_HOME", nowhere[i], 1);
    else
      unsetenv("XDG_CACHE_HOME");
    tb_environment_read();
    expect(decides_for_the_cpu, NULL, NULL);
  }
}

static int decides_unmeasured(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  const struct tst_fake *fake = tst_fake();
  tb_run_initialise();
  const struct tb_decision d = decide_large();
  return d.where == TB_GPU && d.why == TB_STATUS_gpu_sooner && fake->calls("cuInit") == 0 ? 0 : 1;
}

static void switched_off(void **state) {
  (void)state;
  expect(decides_unmeasured, NULL, NULL);
  assert_null(kept_file());
}

/* A call that is thought to be short, and takes the CPU half a second: a GPU would have made up for its opening by the
 * next. */
static int opens_for_what_calls_took(void *unused) {
  (void)unused;
  const struct tb_call call = {.symbol = TB_SYMBOL_cblas_sgemm, .m = 1000, .n = 1000, .k = 1000, .alpha = {1}};
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  tst_fake();
  tb_run_initialise();
  const struct tb_decision first = tb_router_decide(&call, NULL, TB_ROUTE_AUTO);
  if (first.where != TB_CPU || first.why != TB_STATUS_not_yet || !(first.cpu_seconds < 0.1)) return 1;
  /* Calls that a GPU would have taken as long for save nothing, however many. They move no estimate: an operand of
   * theirs is pinned. */
  const struct tb_places pinned = {.a = {.place = TB_PINNED}};
  for (double took = 0; took < 5; took += first.gpu_seconds)
    tb_router_learn(&call, &pinned, &first, TB_CPU, first.gpu_seconds, tb_clock_seconds());
  if (tb_router_decide(&call, NULL, TB_ROUTE_AUTO).why != TB_STATUS_not_yet) return 2;
  tb_router_learn(&call, NULL, &first, TB_CPU, 0.5, tb_clock_seconds());
  return tb_router_decide(&call, NULL, TB_ROUTE_AUTO).where == TB_GPU ? 0 : 3;
}

static void price_of_opening(void **state) {
  (void)state;
  expect(opens_for_what_calls_took, NULL, NULL);
}

/* One that assumptions give to the CPU where it has many cores. */
static const struct tb_call given_to_the_cpu = {
    .symbol = TB_SYMBOL_cblas_dgemm, .type = TB_D, .m = 1000, .n = 1000, .k = 1000, .alpha = {.d = 1}};

/* Calls so given to it that took so long in all, of this length. */
static void have_taken(const struct tb_decision *d, double seconds, double each) {
  for (double took = 0; took < seconds; took += each)
    tb_router_learn(&given_to_the_cpu, NULL, d, TB_CPU, each, tb_clock_seconds());
}

/* A second of them is little beside the price of a look; three seconds are worth it; of short calls none are, nor where
 * nothing is to be measured. */
static int looks_for_what_calls_took(void *off) {
  if (off) tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  const struct tst_fake *fake = tst_fake();
  tb_run_initialise();
  void (*set_threads)(int) = (void (*)(int))dlsym(dlopen("libopenblas.so.0", RTLD_NOW), "openblas_set_num_threads");
  if (set_threads == NULL) return 5;
  set_threads(32);
  pretended_cores = 32;
  patient = true;
  const struct tb_decision first = tb_router_decide(&given_to_the_cpu, NULL, TB_ROUTE_AUTO);
  pretended_cores = 0;
  if (first.why != TB_STATUS_cpu_sooner || first.cpu_seconds < 300e-6) return 1;
  have_taken(&first, 0.5, first.cpu_seconds);
  have_taken(&first, 3, 200e-6);
  if (tb_router_decide(&given_to_the_cpu, NULL, TB_ROUTE_AUTO).where != TB_CPU || fake->calls("cuInit") != 0) return 2;
  have_taken(&first, 3, first.cpu_seconds);
  if (tb_router_decide(&given_to_the_cpu, NULL, TB_ROUTE_AUTO).where != TB_CPU) return 3; /* the fake GPU is slow */
  return fake->calls("cuInit") == (off ? 0 : 1) ? 0 : 4;
}

static void price_of_a_look(void **state) {
  (void)state;
  expect(looks_for_what_calls_took, (void *)1, NULL);
  assert_null(kept_file());
  expect(looks_for_what_calls_took, NULL, NULL);
  assert_non_null(kept_file());
}

/* ---- at the same time ---- */

static pthread_barrier_t together;

static void *decide_in_a_thread(void *decision) {
  pthread_barrier_wait(&together);
  *(struct tb_decision *)decision = decide_large();
  return NULL;
}

static int decides_in_threads(void *unused) {
  (void)unused;
  alarm(60);
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  pthread_t ids[THREADS];
  struct tb_decision decisions[THREADS];
  tb_run_initialise();
  const struct tst_fake *fake = tst_fake();
  pthread_barrier_init(&together, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) pthread_create(&ids[i], NULL, decide_in_a_thread, &decisions[i]);
  int measured = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(ids[i], NULL);
    measured += decisions[i].where == TB_CPU;
  }
  printf("opened=%d\n", (int)fake->calls("cuDeviceGetName"));
  return measured >= 1 && decide_large().where == TB_CPU ? 0 : 1;
}

static void threads_and_processes(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, decides_in_threads, NULL);
  if (o.status != 0 || !strstr(o.out, "opened=1\n") || tst_count_lines(o.err, "both sides measured in ") != 1 ||
      tst_count_lines(o.err, "\n") != 1)
    fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
  assert_non_null(kept_file());
  remove_cache(NULL);
  pid_t processes[4];
  for (int i = 0; i < 4; i++) {
    processes[i] = fork();
    assert_true(processes[i] >= 0);
    if (processes[i] == 0) _exit(decides_for_the_cpu(NULL));
  }
  for (int i = 0; i < 4; i++) {
    int status;
    assert_int_equal(waitpid(processes[i], &status, 0), processes[i]);
    assert_int_equal(status, 0);
  }
  expect(decides_for_the_cpu, NULL, "launches=0 ");
}

/* A child that is forked while another thread measures. */
static int forks_meanwhile(void *unused) {
  (void)unused;
  alarm(60);
  pthread_t measuring;
  struct tb_decision decision;
  tb_run_initialise();
  pthread_barrier_init(&together, NULL, 1);
  pthread_create(&measuring, NULL, decide_in_a_thread, &decision);
  for (int i = 0; i < 10; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      const struct tb_decision d = decide_large();
      _exit(d.where == TB_GPU && d.why != TB_STATUS_gpu_sooner);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    usleep(20000);
  }
  pthread_join(measuring, NULL);
  return decision.where == TB_CPU ? 0 : 1;
}

static void forked(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TST_LEAVE_OUT("the sanitizer's allocator leaves its locks held in a child, or knows nothing of its threads");
#endif
  expect(forks_meanwhile, NULL, NULL);
}

/* ---- calls that wait for others ---- */

enum { TAKEN_SIDE = 256 };

/* While a call is on the GPU the next one waits for it; when it is back nobody does. So it is behind a real call, too.
 */
static int waits_for_those_there(void *unused) {
  (void)unused;
  const struct tb_call call = {
      .symbol = TB_SYMBOL_cblas_sgemm, .m = TAKEN_SIDE, .n = TAKEN_SIDE, .k = TAKEN_SIDE, .alpha = {1}};
  const struct tb_places pinned = {.a = {.place = TB_PINNED}}; /* what is learned with it moves no estimate */
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  tst_fake();
  tb_run_initialise();
  pretended_cores = 1;
  struct tb_decision first = tb_router_decide(&call, NULL, TB_ROUTE_AUTO);
  pretended_cores = 0;
  if (first.why != TB_STATUS_not_yet) return 1;
  tb_router_learn(&call, &pinned, &first, TB_CPU, 100, tb_clock_seconds());
  first = tb_router_decide(&call, NULL, TB_ROUTE_AUTO);
  if (first.where != TB_GPU || first.place != 1 || first.wait_seconds != 0) return 2;
  /* The GPU is not open yet: who opens it keeps the others waiting for that. */
  const struct tb_decision second = tb_router_decide(&call, NULL, TB_ROUTE_AUTO);
  if (second.where != TB_CPU || second.why != TB_STATUS_gpu_taken || !(second.wait_seconds > 0.05)) return 3;
  tb_router_leave(&first);
  static float x[3][TAKEN_SIDE * TAKEN_SIDE];
  const struct tb_arguments arguments = {.layout = TB_COL_MAJOR,
                                         .transa = TB_NO_TRANS,
                                         .transb = TB_NO_TRANS,
                                         .m = TAKEN_SIDE,
                                         .n = TAKEN_SIDE,
                                         .k = TAKEN_SIDE,
                                         .alpha = {1},
                                         .a = x[0],
                                         .b = x[1],
                                         .c = x[2],
                                         .lda = TAKEN_SIDE,
                                         .ldb = TAKEN_SIDE,
                                         .ldc = TAKEN_SIDE};
  tileblas_stats stats;
  tb_run(TB_SYMBOL_cblas_sgemm, NULL, &arguments);
  tileblas_stats_get(&stats);
  if (stats.gpu_calls != 1) return 4;
  return tb_router_decide(&call, NULL, TB_ROUTE_AUTO).wait_seconds == 0 ? 0 : 5;
}

static void others_calls(void **state) {
  (void)state;
  expect(waits_for_those_there, NULL, NULL);
}

/* ---- failures ---- */

struct failure {
  const char *function;
  unsigned long nth;
};

static int fails_meanwhile(void *argument) {
  const struct failure *f = argument;
  alarm(60);
  const struct tst_fake *fake = tst_fake();
  tb_run_initialise();
  if (fake->inject(f->function, f->nth, 999, 0) != 0) return 2;
  const struct tb_decision d = decide_large();
  printf("%s\n", tb_status_text(d.why));
  return d.where == TB_CPU && fake->get(FAKE_CUDA_FAILURES) == 1 ? 0 : 1;
}

static void failing_driver(void **state) {
  (void)state;
  const struct failure failures[] = {{"cuInit", 1},         {"cuMemHostAlloc", 2},
                                     {"cuMemAlloc", 1},     {"cuMemcpyHtoDAsync", 2},
                                     {"cuLaunchKernel", 5}, {"cuMemcpyDtoHAsync", 12}};
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
    struct tst_output o;
    tst_fork(&o, fails_meanwhile, (void *)&failures[i]);
    const bool opened = i >= 2;
    if (o.status != 0 || tst_count_lines(o.err, "tileblas: warning: ") != opened ||
        tst_count_lines(o.err, "\n") != opened)
      fail_msg("%s number %lu: status %d\n%s%s", failures[i].function, failures[i].nth, o.status, o.out, o.err);
    tst_output_destroy(&o);
    assert_null(kept_file()); /* half a measurement is none */
  }
}

/* ---- what calls teach ---- */

static atomic_int lessons; /* wrapped by the linker */

void __real_tb_router_learn(const struct tb_call *call, const struct tb_places *places, const struct tb_decision *d,
                            enum tb_where where, double seconds, double now);
void __wrap_tb_router_learn(const struct tb_call *call, const struct tb_places *places, const struct tb_decision *d,
                            enum tb_where where, double seconds, double now);
void __wrap_tb_router_learn(const struct tb_call *call, const struct tb_places *places, const struct tb_decision *d,
                            enum tb_where where, double seconds, double now) {
  lessons++;
  __real_tb_router_learn(call, places, d, where, seconds, now);
}

void cblas_sgemm(int layout, int transa, int transb, int64_t m, int64_t n, int64_t k, float alpha, const void *a,
                 int64_t lda, const void *b, int64_t ldb, float beta, void *c, int64_t ldc);

/* What an operand that is on the GPU already saves is no measure of a call whose operands are not. */
static int teaches_but_for_what_is_kept(void *unused) {
  (void)unused;
  enum { SIDE = 800, COLUMNS = 8, CALLS = 6 }; /* of more than a slot */
  const uint64_t a_bytes = 4 * SIDE * SIDE;
  float *const a = calloc(SIDE * SIDE, 4), *const b = calloc(SIDE * COLUMNS, 4), *const c = calloc(SIDE * COLUMNS, 4);
  alarm(60);
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  for (int keeps = 0; keeps < 2; keeps++) {
    tileblas_option_set("TILEBLAS_CACHE", keeps ? "1G" : "off");
    for (int i = 0; i < CALLS; i++) {
      const uint64_t before = tst_fake()->get(FAKE_CUDA_BYTES_UP);
      lessons = 0;
      cblas_sgemm(102, 111, 111, SIDE, COLUMNS, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
      const bool was_kept = tst_fake()->get(FAKE_CUDA_BYTES_UP) - before < a_bytes;
      if (was_kept != (keeps && i > 1)) return 2;
      if (lessons != (keeps && i > 0 ? 0 : 1)) return 3; /* the second one makes the copy */
    }
  }
  free(a), free(b), free(c);
  return 0;
}

static void what_is_kept(void **state) {
  (void)state;
  expect(teaches_but_for_what_is_kept, NULL, NULL);
}

/* ---- trials on the CPU ---- */

static const struct tb_decision *pretended; /* what the router decides, if not what it would */
static atomic_int rests;                    /* both wrapped by the linker */

struct tb_decision __real_tb_router_decide(const struct tb_call *call, const struct tb_places *places,
                                           enum tb_route_mode mode);
struct tb_decision __wrap_tb_router_decide(const struct tb_call *call, const struct tb_places *places,
                                           enum tb_route_mode mode);
struct tb_decision __wrap_tb_router_decide(const struct tb_call *call, const struct tb_places *places,
                                           enum tb_route_mode mode) {
  return pretended ? *pretended : __real_tb_router_decide(call, places, mode);
}

void __real_tb_offload_rest(void);
void __wrap_tb_offload_rest(void);
void __wrap_tb_offload_rest(void) {
  rests++;
  __real_tb_offload_rest();
}

/* The copying threads make way for a trial of the CPU, or it would seem slower than it is; and for no other call,
 * behind which they may soon be wanted. */
static int makes_way_for_trials(void *unused) {
  (void)unused;
  enum { SIDE = 300 };
  alarm(60);
  float *const x = calloc(3 * SIDE * SIDE, sizeof *x);
  for (int tried = 0; tried < 2; tried++) {
    const struct tb_decision d = {.where = TB_CPU, .why = tried ? TB_STATUS_tried : TB_STATUS_cpu_sooner};
    pretended = &d;
    rests = 0;
    cblas_sgemm(102, 111, 111, SIDE, SIDE, SIDE, 1, x, SIDE, x + SIDE * SIDE, SIDE, 0, x + 2 * SIDE * SIDE, SIDE);
    pretended = NULL;
    printf("tried %d: %d rests\n", tried, (int)rests);
    if (rests != tried) return 2;
  }
  free(x);
  return 0;
}

static void trials_of_the_cpu(void **state) {
  (void)state;
  expect(makes_way_for_trials, NULL, NULL);
}

/* ---- threads that decide and learn ---- */

enum { DECIDERS = 4, DECISIONS = 400 };

/* Of two types, and for both sides, whatever the model says of them: each call joins the queue, leaves it and teaches.
 */
static void *decides_and_learns(void *number) {
  const uintptr_t odd = (uintptr_t)number % 2;
  struct tb_call call = {.symbol = odd ? TB_SYMBOL_cblas_dgemm : TB_SYMBOL_cblas_sgemm,
                         .type = odd ? TB_D : TB_S,
                         .m = 3000,
                         .n = 3000,
                         .k = 3000,
                         .alpha = {1}};
  pthread_barrier_wait(&together);
  for (int i = 0; i < DECISIONS; i++) {
    call.m = i % 2 ? 3000 : 300; /* the GPU's, and the CPU's */
    struct tb_decision d = tb_router_decide(&call, NULL, TB_ROUTE_AUTO);
    const enum tb_where where = d.where;
    const double seconds = where == TB_GPU ? d.gpu_seconds : d.cpu_seconds;
    tb_router_learn(&call, NULL, &d, where, seconds, d.at + seconds);
    tb_router_leave(&d);
    (void)tb_router_rates(call.type, call.symbol);
  }
  return NULL;
}

/* All that is measured is off, so that the assumptions stand, by which the large ones are the GPU's. */
static int decide_and_learn_at_once(void *unused) {
  (void)unused;
  alarm(120);
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  tb_run_initialise();
  pthread_t ids[DECIDERS];
  pthread_barrier_init(&together, NULL, DECIDERS);
  for (uintptr_t i = 0; i < DECIDERS; i++) pthread_create(&ids[i], NULL, decides_and_learns, (void *)i);
  for (int i = 0; i < DECIDERS; i++) pthread_join(ids[i], NULL);
  static const struct tb_call last = {
      .symbol = TB_SYMBOL_cblas_sgemm, .m = 30000, .n = 30000, .k = 30000, .alpha = {1}};
  struct tb_decision d = tb_router_decide(&last, NULL, TB_ROUTE_AUTO);
  tb_router_leave(&d);
  printf("%s: behind all the GPU has %g s of work\n", tb_status_text(d.why), d.found_seconds);
  return d.where == TB_GPU && d.found_seconds == 0 ? 0 : 1;
}

/* What they share is guarded, which ThreadSanitizer sees; and nobody's place in the queue is another's. */
static void deciding_at_once(void **state) {
  (void)state;
  expect(decide_and_learn_at_once, NULL, NULL);
}

/* ---- a real GPU ---- */

static int decides_for_the_gpu(void *unused) {
  (void)unused;
  alarm(60);
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  tb_run_initialise();
  const struct tb_decision d = decide_large();
  printf("cpu %g s, gpu %g s: %s\n", d.cpu_seconds, d.gpu_seconds, tb_status_text(d.why));
  return d.gpu_seconds > 0 && d.gpu_seconds < d.cpu_seconds ? 0 : 1;
}

/* Both sides are measured in well under a second, once, and a huge product is for the GPU. */
static void real_machine(void **state) {
  (void)state;
  for (int process = 0; process < 2; process++) {
    struct tst_output o;
    tst_fork(&o, decides_for_the_gpu, NULL);
    const char *measured = strstr(o.err, "both sides measured in ");
    if (o.status != 0 || (measured != NULL) != (process == 0))
      fail_msg("process %d: status %d\n%s%s", process, o.status, o.out, o.err);
    if (measured != NULL) print_message("%s", o.err);
    assert_true(measured == NULL || atof(measured + strlen("both sides measured in ")) < 1000);
    tst_output_destroy(&o);
    assert_non_null(kept_file());
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(measured_once, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(broken_files, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(no_home, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(switched_off, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(price_of_opening, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(price_of_a_look, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(threads_and_processes, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(forked, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(others_calls, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(failing_driver, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(what_is_kept, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(trials_of_the_cpu, new_cache, remove_cache),
      cmocka_unit_test_setup_teardown(deciding_at_once, new_cache, remove_cache),
  };
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') tst_skip("its clock stands still while a GPU computes");
  if (strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") != 0) tst_skip("there is no GPU to measure in this build");
  const struct CMUnitTest real[] = {cmocka_unit_test_setup_teardown(real_machine, new_cache, remove_cache)};
  if (tst_setting("TB_TEST_FAKE_DIR")[0] == '\0') return tst_result(cmocka_run_group_tests(real, NULL, NULL));
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
