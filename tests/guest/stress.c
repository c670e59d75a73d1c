/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guest_stress SECONDS [SEED]: everything at once in one process. Threads call any routine, fork, are cancelled, load
 * and unload a library that uses us, capture CUDA graphs, and leave calls by siglongjmp from a signal's handler. Every
 * answer is checked. At the end no thread, file or a growing number of mappings is left. An alarm ends what hangs.
 *
 * Children of forks make no product: OpenBLAS's own lock may be somebody's. Jumps are few: each may leave one of
 * OpenBLAS's buffers behind.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "process.h"
#include "stress_calls.h"
#include "tileblas.h"
#ifdef GUEST_HAS_CUDA
#include "cuda_program.h"
#endif

#define CALLERS 2
#define JUMPS_MOST 16
#define GRACE_SECONDS 60 /* for what is under way when the time is over, on a loaded machine */
#ifdef __SANITIZE_THREAD__
#define MAPS_MORE 1000 /* its shadows' */
#else
#define MAPS_MORE 64
#endif

static atomic_bool over;
static atomic_int wrong;
static uint64_t first_seed;

static void expect(bool right, const char *what) {
  if (right) return;
  atomic_fetch_add(&wrong, 1);
  fprintf(stderr, "stress: wrong: %s\n", what);
}

static void *call(void *number) {
  uint64_t seed = first_seed + (uint64_t)(uintptr_t)number;
  while (!atomic_load(&over)) {
    const char *const what = stress_any_call(&seed);
    expect(what == NULL, what);
  }
  return NULL;
}

static void *fork_children(void *unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
      tileblas_stats stats;
      alarm(20);
      tileblas_stats_get(&stats);
      _exit(stats.cpu_calls + stats.gpu_calls == 0 ? 0 : 1);
    }
    expect(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a child");
    usleep(20000);
  }
  return NULL;
}

static void *call_until_cancelled(void *memory) {
  for (;;) {
    tst_guest_call(memory, 100, 1);
    pthread_testcancel();
  }
  return NULL;
}

static void *cancel(void *unused) {
  (void)unused;
  float *memory = calloc(3 * 100 * 100, sizeof *memory);
  while (!atomic_load(&over)) {
    pthread_t thread;
    void *result = NULL;
    tst_guest_fill(memory, 100);
    expect(pthread_create(&thread, NULL, call_until_cancelled, memory) == 0, "a thread");
    usleep(5000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    expect(result == PTHREAD_CANCELED, "a cancelled thread");
    const float *c = memory + 2 * 100 * 100;
    for (int i = 0; i < 100 * 100; i++) expect(c[i] == c[0], "a call that a cancelled thread made");
  }
  free(memory);
  return NULL;
}

static void *load(void *unused) {
  (void)unused;
  while (!atomic_load(&over)) {
    void *library = dlopen(tst_format("%s/libstress_user.so", tst_setting("TB_TEST_BUILD_DIR")), RTLD_NOW);
    bool (*product)(int) = NULL;
    if (library) *(void **)&product = dlsym(library, "stress_user_product");
    expect(product && product(50), "a library's product");
    if (library) dlclose(library);
    usleep(2000);
  }
  return NULL;
}

/* ---- jumps ---- */

static sigjmp_buf outside;
static atomic_bool may_jump, jumper_ends;

static void leave(int signal) {
  (void)signal;
  if (atomic_exchange(&may_jump, false)) siglongjmp(outside, 1);
}

static void *jump(void *unused) {
  (void)unused;
  float *memory = calloc(3 * 160 * 160, sizeof *memory);
  volatile int jumps = 0;
  while (!atomic_load(&over)) {
    tst_guest_fill(memory, 160);
    if (sigsetjmp(outside, 1)) {
      jumps++;
      continue;
    }
    atomic_store(&may_jump, jumps < JUMPS_MOST && tst_guest_expects_gpu());
    tst_guest_call(memory, 160, 1);
    atomic_store(&may_jump, false);
    expect(tst_guest_is_right(memory, 160, 1), "a product beside jumps");
  }
  free(memory);
  atomic_store(&jumper_ends, true);
  while (atomic_load(&jumper_ends)) usleep(1000); /* until nobody sends it signals */
  return NULL;
}

static void *send(void *thread) {
  while (!atomic_load(&jumper_ends)) {
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    usleep(50000);
  }
  atomic_store(&jumper_ends, false);
  return NULL;
}

/* ---- captures ---- */

static void *capture(void *unused) {
  (void)unused;
#ifdef GUEST_HAS_CUDA
  if (!tst_guest_expects_gpu()) return NULL;
  guest_begin();
  while (!atomic_load(&over)) {
    CUstream stream;
    CUdeviceptr memory;
    CUgraph graph = NULL;
    size_t nodes = 0;
    GUEST_OK(guest_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GUEST_OK(guest_cuda.cuMemAlloc(&memory, 64));
    GUEST_OK(guest_cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GUEST_OK(guest_cuda.cuMemsetD8Async(memory, 1, 64, stream));
    usleep(3000);
    const bool ended = guest_cuda.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS;
    if (ended) GUEST_OK(guest_cuda.cuGraphGetNodes(graph, NULL, &nodes));
    expect(ended && nodes == 1, "a capture");
    if (ended) GUEST_OK(guest_cuda.cuGraphDestroy(graph));
    GUEST_OK(guest_cuda.cuMemFree(memory));
    GUEST_OK(guest_cuda.cuStreamDestroy(stream));
  }
  tst_cuda_end(0); /* its context was this thread's */
#endif
  return NULL;
}

/* ---- all of it ---- */

static int entries_of(const char *folder) {
  int count = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) count++;
  if (d) closedir(d);
  return count;
}

static int maps(void) {
  int lines = 0;
  FILE *file = fopen("/proc/self/maps", "re");
  for (int c; file && (c = fgetc(file)) != EOF;) lines += c == '\n';
  if (file) fclose(file);
  return lines;
}

static void run_for(double seconds) {
  void *(*const works[])(void *) = {fork_children, cancel, load, jump, capture};
  enum { WORKS = sizeof works / sizeof *works };
  pthread_t threads[CALLERS + WORKS + 1];
  int count = 0;
  atomic_store(&over, false);
  for (uintptr_t i = 0; i < CALLERS; i++) pthread_create(&threads[count++], NULL, call, (void *)i);
  pthread_t *jumper = NULL;
  for (int i = 0; i < WORKS; i++) {
    if (works[i] == jump) jumper = &threads[count];
    pthread_create(&threads[count++], NULL, works[i], NULL);
  }
  pthread_create(&threads[count++], NULL, send, jumper);
  usleep((useconds_t)(seconds * 1e6));
  atomic_store(&over, true);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 30;
  first_seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
  printf("stress: %g s, seed %llu\n", seconds, (unsigned long long)first_seed);
  fflush(stdout);
  alarm((unsigned)seconds + GRACE_SECONDS);
  signal(SIGUSR1, leave);
  run_for(seconds / 5); /* what is started once is started now */
  const int threads = entries_of("/proc/self/task"), files = entries_of("/proc/self/fd"), mapped = maps();
  run_for(seconds * 4 / 5);
  const int threads_left = entries_of("/proc/self/task"), files_left = entries_of("/proc/self/fd");
  printf("threads %d, then %d; files %d, then %d; mappings %d, then %d\n", threads, threads_left, files, files_left,
         mapped, maps());
  expect(threads_left <= threads, "the number of threads");
  expect(files_left <= files, "the number of files");
  expect(maps() <= mapped + MAPS_MORE, "the number of mappings");
  return atomic_load(&wrong) > 0;
}
