/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers that leave a call by siglongjmp, at many moments: of the CPU BLAS, of the GPU, in the call that opens it.
 * The thread and others use the GPU as before, nothing hangs, and no copying thread touches memory that was freed
 * behind the jump. The same for a thread that ends there, and for one that jumps out of a fault in our code. And
 * handlers that return, as most do: the call goes on.
 *
 * Seen to fail when: signals are not blocked in a call; cpu_depth stays what the abandoned call of the CPU BLAS made
 * it; nobody takes over a window; the gate forgets its owner; the device is not entered again behind a handler, or the
 * call takes its own window for another's; the call behind a fault gives back another floating-point control.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "guest.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define SIDE 530 /* of which operands do not fit into a slot: copies and launches overlap, with windows */
#define TIME_LIMIT_S 100
#define JUMPS TST_UNLESS_SANITIZED(12, 3) /* where a product takes seconds */
#define JUMPS_MIN TST_UNLESS_SANITIZED(3, 1)

static sigjmp_buf target;
static volatile sig_atomic_t armed;

static void leave(int number) {
  (void)number;
  if (!armed) return;
  armed = 0;
  siglongjmp(target, 1);
}

static void end_thread(int number) {
  (void)number;
  pthread_exit(NULL);
}

static void handle(int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(number, &action, NULL);
}

static void alarm_after(int64_t microseconds) {
  const struct itimerval timer = {.it_value = {.tv_usec = microseconds}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

/* The memory is unmapped behind a jump, so that who still copies dies of it. */
static int jumps(int64_t microseconds_most) {
  const size_t bytes = 3 * sizeof(float) * SIDE * SIDE;
  static uint64_t rng = 7;
  volatile int left = 0;
  handle(SIGALRM, leave);
  for (volatile int i = 0; i < JUMPS; i++) {
    float *volatile memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tst_guest_fill(memory, SIDE);
    const int64_t after = 1 + tst_random_below(&rng, microseconds_most);
    if (sigsetjmp(target, 1) == 0) {
      armed = 1;
      alarm_after(after);
      while (armed) tst_guest_call(memory, SIDE, 1);
    } else {
      left++;
    }
    munmap(memory, bytes);
  }
  alarm_after(0);
  printf("%d of %d calls were left\n", left, JUMPS);
  if (left < JUMPS_MIN) return 2;
  const unsigned long long before = tst_guest_gpu_calls();
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (!tst_guest_product(SIDE)) return 3;
  return tst_guest_expects_gpu() && tst_guest_gpu_calls() <= before ? 4 : 0;
}

static void *watch_time(void *unused) {
  (void)unused;
  sleep(TIME_LIMIT_S);
  fprintf(stderr, "it hangs\n");
  _exit(99);
}

static void limit_time(void) {
  sigset_t all, before;
  pthread_t id;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_create(&id, NULL, watch_time, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

typedef void batch_function(int layout, const int *ta, const int *tb, const int *m, const int *n, const int *k,
                            const float *alpha, const float *const *a, const int *lda, const float *const *b,
                            const int *ldb, const float *beta, float *const *c, const int *ldc, int groups,
                            const int *sizes);

/* Some products of ones in a call, which has all lanes for itself. */
static bool batch_is_right(void) {
  enum { LENGTH = 90, COUNT = 6 };
  static float x[LENGTH * LENGTH], c[COUNT * LENGTH * LENGTH];
  const int no_trans = 111, length = LENGTH, count = COUNT;
  const float alpha = 1, beta = 1, *as[COUNT], *bs[COUNT];
  float *cs[COUNT];
  bool right = true;
  batch_function *function;
  *(void **)&function = dlsym(RTLD_DEFAULT, "cblas_sgemm_batch");
  for (int i = 0; i < LENGTH * LENGTH; i++) x[i] = 1;
  for (int i = 0; i < COUNT * LENGTH * LENGTH; i++) c[i] = 1;
  for (int i = 0; i < COUNT; i++) as[i] = bs[i] = x, cs[i] = c + i * LENGTH * LENGTH;
  function(102, &no_trans, &no_trans, &length, &length, &length, &alpha, as, &length, bs, &length, &beta, cs, &length,
           1, &count);
  for (int i = 0; i < COUNT * LENGTH * LENGTH; i++) right = right && c[i] == LENGTH + 1;
  return right;
}

/* What a jump has left in the streams is waited for by who has the GPU alone, too, and first. */
static int batches_behind(void) {
  static float memory[3 * SIDE * SIDE];
  static uint64_t rng = 11;
  volatile int left = 0;
  limit_time();
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tst_guest_fill(memory, SIDE);
  handle(SIGALRM, leave);
  for (volatile int i = 0; i < JUMPS; i++) {
    if (sigsetjmp(target, 1) == 0) {
      armed = 1;
      alarm_after(1 + tst_random_below(&rng, 30000));
      while (armed) tst_guest_call(memory, SIDE, 1);
      continue;
    }
    left++;
    const unsigned long long before = tst_guest_gpu_calls();
    if (!batch_is_right()) return 3;
    if (tst_guest_gpu_calls() != before + 1) return 4;
  }
  alarm_after(0);
  printf("%d of %d calls were left\n", left, JUMPS);
  return left < JUMPS_MIN ? 2 : tst_guest_product(SIDE) ? 0 : 5;
}

static int many(void) {
  limit_time();
  return jumps(60000);
}

/* The first calls of the process, before anything is open. */
static int cold(void) {
  limit_time();
  return jumps(3000);
}

/* Calls deeper on the stack than the abandoned one. */
static __attribute__((noinline)) int deeper(void) {
  volatile char room[4096];
  room[0] = 0;
  const unsigned long long before = tst_guest_gpu_calls();
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (!tst_guest_product(SIDE)) return 3 + room[0];
  return tst_guest_expects_gpu() && tst_guest_gpu_calls() != before + 1 ? 4 : 0;
}

static int out_of_cpu_blas(void) {
  limit_time();
  static float memory[3 * 900 * 900];
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  tst_guest_fill(memory, 900);
  tst_guest_call(memory, 900, 0);
  handle(SIGALRM, leave);
  for (volatile int i = 0; i < 5; i++) {
    tileblas_option_set("TILEBLAS_ROUTE", "cpu");
    if (sigsetjmp(target, 1) == 0) {
      armed = 1;
      alarm_after(3000);
      while (armed) tst_guest_call(memory, 900, 0);
    }
    const int status = deeper();
    if (status != 0) return status;
  }
  return 0;
}

/* ---- threads ---- */

static atomic_bool go_on = true;
static atomic_int products, wrong;

static void *call_all_the_time(void *unused) {
  (void)unused;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  while (go_on) {
    if (!tst_guest_product(100)) wrong++;
    products++;
  }
  return NULL;
}

static void *ends_in_a_handler(void *memory) {
  while (go_on) tst_guest_call(memory, SIDE, 1);
  return NULL;
}

/* Others wait for the thread that leaves or ends, and get on. */
static int others(void) {
  pthread_t id, victim;
  uint64_t rng = 3;
  limit_time();
  static float memory[3 * SIDE * SIDE];
  tst_guest_fill(memory, SIDE);
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (pthread_create(&id, NULL, call_all_the_time, NULL) != 0) return 2;
  handle(SIGUSR1, end_thread);
  for (int i = 0; i < 4; i++) {
    if (pthread_create(&victim, NULL, ends_in_a_handler, memory) != 0) return 2;
    usleep((useconds_t)tst_random_below(&rng, 60000));
    pthread_kill(victim, SIGUSR1);
    pthread_join(victim, NULL);
  }
  const int status = jumps(60000), before = products;
  while (products < before + 3) usleep(1000);
  go_on = false;
  pthread_join(id, NULL);
  return wrong ? 9 : status == 2 ? 0 : status; /* the GPU is shared: few calls are under way long enough */
}

/* ---- a handler that takes its time ---- */

static atomic_bool entered;

static void dawdle(int number) {
  (void)number;
  entered = true;
  usleep(400000);
}

static void *one_product(void *right) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  while (!entered) usleep(1000);
  *(bool *)right = tst_guest_product(SIDE);
  return NULL;
}

/* Meanwhile another thread has the GPU, and the call that comes back is completed. */
static int slow_handler(void) {
  pthread_t id;
  bool right = false;
  limit_time();
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  handle(SIGALRM, dawdle);
  if (!tst_guest_product(SIDE) || pthread_create(&id, NULL, one_product, &right) != 0) return 2;
  alarm_after(2000);
  while (!entered)
    if (!tst_guest_product(SIDE)) return 3;
  pthread_join(id, NULL);
  const unsigned long long before = tst_guest_gpu_calls();
  if (!right || !tst_guest_product(SIDE)) return 4;
  return tst_guest_expects_gpu() && tst_guest_gpu_calls() != before + 1 ? 5 : 0;
}

/* ---- handlers that return ---- */

static atomic_int ticks;

static void tick(int number) {
  (void)number;
  ticks++;
}

/* As a profiler's: they run while the call is on the GPU, several in one call, and the call goes on there. */
static int tick_through(bool alone) {
  enum { CALLS_MOST = 50, TICKS_OF_A_CALL = 3 };
  const struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  limit_time();
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (!tst_guest_product(SIDE)) return 2;
  const unsigned long long before = tst_guest_gpu_calls();
  handle(SIGPROF, tick);
  setitimer(ITIMER_PROF, &every, NULL);
  int calls = 0, most = 0;
  while (most < TICKS_OF_A_CALL && calls < CALLS_MOST) {
    const int so_far = ticks;
    if (!tst_guest_product(SIDE)) return 3;
    if (ticks - so_far > most) most = ticks - so_far;
    calls++;
  }
  setitimer(ITIMER_PROF, &never, NULL);
  if (!tst_guest_expects_gpu()) return 0;
  if (alone && tst_guest_gpu_calls() != before + (unsigned)calls) return 4;
  return most < TICKS_OF_A_CALL && tst_setting("TB_TEST_FAKE_DIR")[0] != '\0' ? 5 : 0; /* a real GPU is too quick */
}

static int ticking(void) { return tick_through(true); }

static atomic_bool enough;

static void *compute_on(void *right) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  while (!enough) *(bool *)right &= tst_guest_product(SIDE);
  return NULL;
}

/* The same for a thread that waits while another has the GPU. */
static int ticking_beside(void) {
  pthread_t id;
  bool right = true;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (pthread_create(&id, NULL, compute_on, &right) != 0) return 6;
  const int status = tick_through(false);
  enough = true;
  pthread_join(id, NULL);
  return status != 0 ? status : right ? 0 : 7;
}

/* ---- out of a fault ---- */

static void leave_fault(int number) {
  (void)number;
  siglongjmp(target, 1);
}

/* What the call finds in the MXCSR, and the next one leaves there: as a process begins, rounding upwards, flushing
 * small numbers to zero, trapping. */
static const unsigned controls[] = {0x1f80, 0x1f80 | 0x4000, 0x1f80 | 0x8040, 0x1f80 & ~0x200u};
enum { CONTROLS = sizeof controls / sizeof *controls };
#define CONTROL_FLAGS 0x3fu

static int fault(int number) {
  limit_time();
  int state;
  const size_t bytes = 3 * sizeof(float) * 100 * 100;
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (!tst_guest_product(100)) return 2;
  handle(SIGSEGV, leave_fault);
  float *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  _mm_setcsr(controls[number]);
  if (sigsetjmp(target, 1) == 0) {
    tst_guest_call(memory, 100, 1);
    return 3;
  }
  if (!tst_guest_product(100)) return 4;
  if ((_mm_getcsr() & ~CONTROL_FLAGS) != controls[number]) return 6;
  if (!tst_guest_product(SIDE)) return 4;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  return state == PTHREAD_CANCEL_ENABLE ? 0 : 5;
}

static const struct {
  const char *name;
  int (*body)(void);
  bool gpu_alone;
} parts[] = {{"many", many, true},
             {"cold", cold, true},
             {"cpu", out_of_cpu_blas, false},
             {"batches", batches_behind, true},
             {"others", others, true},
             {"slow", slow_handler, true},
             {"ticking", ticking, true},
             {"ticking beside", ticking_beside, true}};

static void all(void **state) {
  (void)state;
  static const char *const forced[] = {"TILEBLAS_ROUTE=gpu", NULL};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (tst_guest_expects_gpu() || !parts[i].gpu_alone) tst_guest_run(parts[i].name, forced, 0);
  for (int i = 0; i < CONTROLS && tst_guest_expects_gpu(); i++) {
    char part[16];
    snprintf(part, sizeof part, "fault %d", i);
    tst_guest_run(part, forced, 1);
  }
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts && argc == 2; i++)
    if (strcmp(argv[1], parts[i].name) == 0) return parts[i].body();
  int number;
  if (argc == 2 && sscanf(argv[1], "fault %d", &number) == 1) return fault(number);
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
