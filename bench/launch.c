/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host time of small calls, in microseconds a call: what the library adds around the GPU's own time when every operand
 * lies on the GPU, and around the CPU BLAS's when none does.
 *
 *   launch [--calls N]
 *
 * resident   cblas_sgemm from its entry to the moment at which it starts to wait for the GPU: everything is launched by
 *            then. The library's driver table is ours here, and its wait one that looks at the clock first
 *
 * pointers   the part of it that the three questions about pointers take
 *
 * launches   the part of it inside cuLaunchKernel; both of calls of their own, for looking at the clock takes time, too
 *
 * whole      cblas_sgemm from its entry to its return: with the wait for the kernels, and what the call gives back
 *
 * part       what the promises of docs/guest.md and the driver cost such a call, each part alone, once for every time
 *            that a call has it; in batches
 *
 * host       where three pointers to ordinary memory lie, before any driver is loaded and with one
 *
 * Medians and the longest tenth's start. Status 77: no GPU; the first line is printed even then.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "gpu.h"
#include "base/clock.h"
#include "cuda/place.h"
#include "process/guest.h"
#include "tileblas.h"

void cblas_sgemm(int layout, int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);

enum { COL_MAJOR = 102, NO_TRANS = 111, SIDE = 64, WARM_CALLS = 100 };

static double waited_s, launching_s, asking_s;
static __typeof__(tb_cuda.cuStreamQuery) wait_for;
static __typeof__(tb_cuda.cuLaunchKernel) launch;
static __typeof__(tb_cuda.cuPointerGetAttributes) ask;

static CUresult CUDAAPI timed_wait(CUstream stream) {
  if (waited_s == 0) waited_s = tb_now_s(); /* the first question of many */
  return wait_for(stream);
}

static CUresult CUDAAPI timed_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra) {
  double start = tb_now_s();
  CUresult result = launch(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
  launching_s += tb_now_s() - start;
  return result;
}

static CUresult CUDAAPI timed_ask(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr p) {
  double start = tb_now_s();
  CUresult result = ask(count, attributes, data, p);
  asking_s += tb_now_s() - start;
  return result;
}

static void print_row(const char *what, double *us, int calls) {
  double median = tb_median(us, calls); /* sorts */
  printf("%s,%.3f,%.3f\n", what, median, us[calls * 9 / 10]);
}

/* Three pointers of a small product in ordinary memory, in batches, for a question takes less than the clock. */
static void measure_host(const char *what, int calls) {
  enum { BATCH = 1000 };
  float memory[3][16] = {{0}};
  struct tb_call call = {.m = 4, .n = 4, .k = 4, .alpha = {1}, .a = {memory[0], 4, false}, .b = {memory[1], 4, false}};
  call.c = memory[2], call.ldc = 4;
  double *us = malloc((size_t)calls * sizeof *us);
  if (!us) exit(EXIT_FAILURE);
  for (int i = 0; i < calls; i++) {
    struct tb_places places;
    bool found = false;
    double start = tb_now_s();
    for (int j = 0; j < BATCH; j++) found |= tb_places_find(&call, &places);
    us[i] = (tb_now_s() - start) * 1e6 / BATCH;
    if (found) fprintf(stderr, "launch: ordinary memory was taken for CUDA's\n"), exit(EXIT_FAILURE);
  }
  print_row(what, us, calls);
  free(us);
}

/* ---- parts ---- */

static struct tb_gpu gpu;

static void part_signals(void) {
  sigset_t before;
  tb_guest_block_signals(&before);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void part_floats(void) {
  struct tb_floats before;
  tb_floats_begin(&before);
  tb_floats_end(&before);
}

static void part_capture_mode(void) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  tb_cuda.cuThreadExchangeStreamCaptureMode(&mode);
  tb_cuda.cuThreadExchangeStreamCaptureMode(&mode);
}

static void part_context_asked(void) {
  CUcontext context;
  tb_cuda.cuCtxGetCurrent(&context);
}

static void part_context_pushed(void) {
  CUcontext context;
  tb_cuda.cuCtxGetCurrent(&context);
  tb_cuda.cuCtxPushCurrent(context);
  tb_cuda.cuCtxPopCurrent(&context);
}

static void part_query(void) { wait_for(gpu.stream); }

static void part_clock(void) { tb_clock_seconds(); }

static void measure_parts(int calls) {
  static const struct {
    const char *name;
    void (*part)(void);
  } parts[] = {{"part signals, masked and back", part_signals},
               {"part floats, set and back", part_floats},
               {"part capture mode, set and back", part_capture_mode},
               {"part context, asked", part_context_asked},
               {"part context, asked, pushed and popped", part_context_pushed},
               {"part query of an idle stream", part_query},
               {"part clock, one reading", part_clock}};
  enum { BATCH = 100 };
  double *us = malloc((size_t)calls * sizeof *us);
  if (!us) exit(EXIT_FAILURE);
  for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
    for (int i = 0; i < calls; i++) {
      const double start = tb_now_s();
      for (int j = 0; j < BATCH; j++) parts[p].part();
      us[i] = (tb_now_s() - start) * 1e6 / BATCH;
    }
    print_row(parts[p].name, us, calls);
  }
  free(us);
}

/* ---- resident calls ---- */

static void time_parts(bool on) {
  tb_cuda.cuLaunchKernel = on ? timed_launch : launch;
  tb_cuda.cuPointerGetAttributes = on ? timed_ask : ask;
}

static void measure_resident(const char *what, float beta, int calls) {
  CUdeviceptr p[3];
  const size_t bytes = sizeof(float) * SIDE * SIDE;
  for (int i = 0; i < 3; i++) {
    p[i] = tb_gpu_alloc(bytes);
    TB_GPU(cuMemsetD8Async(p[i], 0, bytes, NULL));
  }
  double *all = malloc(4 * (size_t)calls * sizeof *all), *pointers = all + calls, *launches = pointers + calls;
  double *whole = launches + calls;
  if (!all) exit(EXIT_FAILURE);
  for (int i = -WARM_CALLS; i < 2 * calls; i++) {
    time_parts(i >= calls);
    launching_s = asking_s = waited_s = 0;
    double start = tb_now_s();
    cblas_sgemm(COL_MAJOR, NO_TRANS, NO_TRANS, SIDE, SIDE, SIDE, 1, (const float *)p[0], SIDE, (const float *)p[1],
                SIDE, beta, (float *)p[2], SIDE);
    const double end = tb_now_s();
    if (i < 0) continue;
    if (i < calls) all[i] = (waited_s - start) * 1e6, whole[i] = (end - start) * 1e6;
    if (i >= calls) pointers[i - calls] = asking_s * 1e6, launches[i - calls] = launching_s * 1e6;
  }
  char name[64];
  print_row(what, all, calls);
  snprintf(name, sizeof name, "%s pointers", what);
  print_row(name, pointers, calls);
  snprintf(name, sizeof name, "%s launches", what);
  print_row(name, launches, calls);
  snprintf(name, sizeof name, "%s whole", what);
  print_row(name, whole, calls);
  free(all);
  for (int i = 0; i < 3; i++) tb_gpu_free(p[i]);
}

int main(int argc, char **argv) {
  int calls = argc == 3 && strcmp(argv[1], "--calls") == 0 ? atoi(argv[2]) : 1000;
  if (calls < 10 || (argc != 1 && argc != 3)) {
    fprintf(stderr, "usage: launch [--calls N], N >= 10\n");
    return 2;
  }
  printf("what,median_us,tenth_us\n");
  measure_host("host without driver", calls);
  fflush(stdout);
  dlopen("libcuda.so.1", RTLD_NOW); /* a program with operands on the GPU has it before the library has */
  gpu = tb_gpu_open(0);
  measure_host("host with driver", calls);
  wait_for = tb_cuda.cuStreamQuery, tb_cuda.cuStreamQuery = timed_wait;
  launch = tb_cuda.cuLaunchKernel, ask = tb_cuda.cuPointerGetAttributes;
  measure_resident("resident beta=0", 0, calls);
  measure_resident("resident beta=1", 1, calls);
  measure_parts(calls);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  bool by_gpu = stats.cpu_calls == 0 && stats.gpu_failures == 0;
  if (!by_gpu) fprintf(stderr, "launch: the GPU did not answer\n");
  tb_gpu_close(&gpu);
  return by_gpu ? EXIT_SUCCESS : EXIT_FAILURE;
}
