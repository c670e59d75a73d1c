/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a GPU is opened with, widened by, kept tidy and closed with: after each of these with any one driver call
 * failing (of those often made some), the thread's contexts are as before, and nothing is left in the driver.
 *
 *   test_device [another]     another: the fake driver's GPU is not of compute capability 9.0
 *
 * Seen to fail when: the second block of a ring's pinned memory is not freed; tb_part_tidy does not leave the device;
 * one stream, event or module of tb_device_close is forgotten; a failing opening keeps the context; half of an arena is
 * cleared, or not counted as free; kernels that cannot be loaded leave their module, or unload it twice; an arena that
 * cannot be had is asked for again at the size that it had; who enters twice leaves the program without its context; a
 * lane has no copying threads; copies of a call that was left in a lane stay for ever.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/device.h"
#include "pipeline/keep_internal.h"
#include "pipeline/widening.h"
#include "fake.h"
#include "offload/gpus.h"
#include "offload/part.h"
#include "process/background.h"
#include "process.h"
#include "sanitized.h"
#include "select/commit.h"
#include "select/fp64.h"
#include "cuda/wait.h"
#include "tileblas.h"

static const char *const functions[] = {
#define TB_CUDA(name) #name,
#include "cuda/driver.def"
#undef TB_CUDA
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

static const struct tst_fake *fake;
static char detail[200];

/* All that a device can have. False: something failed on the way. */
static bool use(struct tb_device *d) {
  CUevent event;
  if (tb_device_enter(d) != CUDA_SUCCESS) return false;
  bool had = tb_device_reserve(d, 1000) == CUDA_SUCCESS;
  tb_widening_earn(&d->up_ring, TB_SLOTS);
  tb_widening_earn(&d->down_ring, TB_SLOTS);
  tb_device_order_slots(d);
  assert_true(tb_widening_settle());
  tb_widening_take(&d->up_ring);
  tb_widening_take(&d->down_ring);
  for (int64_t i = 0; i < 3; i++) {
    had &= tb_device_tile_event(d, i, &event) == CUDA_SUCCESS;
    had &= tb_device_panel_event(d, i, i % 2, &event) == CUDA_SUCCESS;
  }
  had &= tb_device_open_fetching(d) == CUDA_SUCCESS;
  tb_device_leave();
  return had;
}

/* True: nothing failed. */
static bool live(void) {
  static struct tb_device device;
  if (tb_device_open(&device, 0, false, detail, sizeof detail) != TB_STATUS_ok) return false;
  const bool had = use(&device);
  tb_device_close(&device);
  return had;
}

static void look(const char *function, unsigned long nth) {
  if (fake->get(FAKE_CUDA_PUSHED_HERE) == 0 && fake->audit() == 0) return;
  fail_msg("after %s number %lu: %llu contexts pushed, or more is left (stderr)", function, nth,
           (unsigned long long)fake->get(FAKE_CUDA_PUSHED_HERE));
}

/* After a handler's window a call may find that it cannot enter again, and ends by leaving. */
static void leaving_twice_leaves_the_programs(void **state) {
  (void)state;
  static struct tb_device device;
  CUcontext ours;
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_cuda.cuCtxPushCurrent(device.context), CUDA_SUCCESS); /* as the program would */
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
  tb_device_leave();
  tb_device_leave();
  assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), 1);
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS); /* and the count is right still */
  tb_device_leave();
  assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), 1);
  assert_int_equal(tb_cuda.cuCtxPopCurrent(&ours), CUDA_SUCCESS);
  tb_device_close(&device);
  look("nothing", 0);
}

static CUcontext current(void) {
  CUcontext context = NULL;
  assert_int_equal(tb_cuda.cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

/* Whoever is inside may enter again: ours is current until the last has left, and then what was before. The program may
 * have had nothing, or the very context that is ours. */
static void entering_within(void **state) {
  (void)state;
  static struct tb_device device;
  CUcontext popped;
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  for (int programs = 0; programs < 2; programs++)
    for (int most = 1; most <= 4; most++) {
      if (programs) assert_int_equal(tb_cuda.cuCtxPushCurrent(device.context), CUDA_SUCCESS);
      for (int depth = 0; depth < most; depth++) {
        assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
        assert_ptr_equal(current(), device.context);
      }
      for (int depth = most; depth > 0; depth--) {
        assert_ptr_equal(current(), device.context);
        tb_device_leave();
      }
      assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), programs);
      assert_ptr_equal(current(), programs ? device.context : NULL);
      if (programs) assert_int_equal(tb_cuda.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    }
  tb_device_close(&device);
  look("nothing", 0);
}

/* While we are inside, captures of the program's elsewhere do not concern us; behind us the thread's mode is its own.
 * And whoever leaves a call in its midst leaves all of it. */
static void modes_and_leaving_all(void **state) {
  (void)state;
  static struct tb_device device;
  static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                              CU_STREAM_CAPTURE_MODE_RELAXED};
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  for (int i = 0; i < 3; i++)
    for (int depth = 1; depth <= 3; depth++)
      for (int all = 0; all < 2; all++) {
        CUstreamCaptureMode mode = modes[i], before;
        assert_int_equal(tb_cuda.cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
        before = mode;
        for (int d = 0; d < depth; d++) assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
        for (int d = 0; d < depth && !all; d++) tb_device_leave();
        if (all) tb_cuda_leave_all();
        assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), 0);
        mode = before;
        assert_int_equal(tb_cuda.cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
        assert_int_equal(mode, modes[i]);
      }
  tb_device_close(&device);
  look("nothing", 0);
}

static void one_call_fails(void **state) {
  (void)state;
  unsigned long cases = 0;
  fake->reset_calls();
  assert_true(live());
  look("nothing", 0);
  unsigned long counts[FUNCTIONS];
  for (size_t i = 0; i < FUNCTIONS; i++) counts[i] = (unsigned long)fake->calls(functions[i]);
  for (size_t i = 0; i < FUNCTIONS; i++)
    for (unsigned long nth = 1; nth <= counts[i]; nth += nth < 3 ? 1 : 29, cases++) {
      const uint64_t failed = fake->get(FAKE_CUDA_FAILURES);
      assert_int_equal(fake->inject(functions[i], nth, CUDA_ERROR_OPERATING_SYSTEM, 0), 0);
      live();
      assert_int_equal(fake->get(FAKE_CUDA_FAILURES), failed + 1);
      look(functions[i], nth);
    }
  printf("%lu cases\n", cases);
  assert_true(cases > 40);
}

/* What another program left in the memory comes into no product by its padding. */
static void an_arena_is_clear(void **state) {
  (void)state;
  static struct tb_device device;
  static char arena[5000];
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
  for (size_t bytes = 1000; bytes <= sizeof arena; bytes += 2000) { /* each in place of a smaller one */
    assert_int_equal(tb_device_reserve(&device, (int64_t)bytes), CUDA_SUCCESS);
    memset(arena, 1, sizeof arena);
    assert_int_equal(tb_cuda.cuMemcpyDtoHAsync(arena, device.arena, bytes, device.down), CUDA_SUCCESS);
    assert_int_equal(tb_device_wait(&device, device.down), CUDA_SUCCESS);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(arena[i], 0);
  }
  tb_device_leave();
  tb_device_close(&device);
}

/* A C of more columns than the blocks of a grid are for at once, scaled. */
static void a_commit_of_many_columns(void **state) {
  (void)state;
  static struct tb_device device;
  const int64_t n = 65535 * TB_COMMIT_THREADS_N + 3;
  float *const c = malloc((size_t)n * sizeof *c);
  assert_non_null(c);
  for (int64_t j = 0; j < n; j++) c[j] = (float)(j % 1000);
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
  assert_int_equal(tb_device_reserve(&device, n * (int64_t)sizeof *c), CUDA_SUCCESS);
  const size_t bytes = (size_t)n * sizeof *c;
  struct tb_commit_args args = {.c = (float *)(uintptr_t)device.arena, .ldc = 1, .m = 1, .n = n, .beta = 2};
  assert_int_equal(tb_cuda.cuMemcpyHtoDAsync(device.arena, c, bytes, device.ordered), CUDA_SUCCESS);
  assert_int_equal(tb_commit_launch(device.commit, &args, device.ordered), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuMemcpyDtoHAsync(c, device.arena, bytes, device.ordered), CUDA_SUCCESS);
  assert_int_equal(tb_device_wait(&device, device.ordered), CUDA_SUCCESS);
  for (int64_t j = 0; j < n; j++) assert_true(c[j] == 2 * (float)(j % 1000));
  tb_device_leave();
  tb_device_close(&device);
  free(c);
}

/* What is loaded first is for single precision. */
static CUresult load_all_types(struct tb_kernels *kernels, CUdevice gpu) {
  CUresult loaded = tb_kernels_load(kernels, gpu);
  if (loaded != CUDA_SUCCESS) return loaded;
  loaded = tb_kernels_ready(kernels, TB_Z);
  if (loaded != CUDA_SUCCESS) tb_kernels_unload(kernels);
  return loaded;
}

static CUresult load_fp64(struct tb_fp64_kernels *fp64, CUdevice gpu) {
  const CUresult seen = tb_fp64_look(fp64, gpu);
  const CUresult real = seen == CUDA_SUCCESS ? tb_fp64_load(fp64, false) : seen;
  const CUresult complex = real == CUDA_SUCCESS ? tb_fp64_load(fp64, true) : real;
  if (complex != CUDA_SUCCESS) tb_fp64_unload(fp64);
  return complex;
}

/* Loads it, and if that goes well, takes it away again. */
static CUresult load(int family, CUdevice gpu) {
  static struct tb_kernels kernels;
  static struct tb_fp64_kernels fp64;
  static struct tb_shared shared;
  if (family == 1) { /* which takes kernels from there */
    const CUresult there = tb_shared_load(&shared, gpu);
    shared.early = true;
    if (there != CUDA_SUCCESS) return tb_shared_unload(&shared), there;
  }
  const CUresult loaded = family == 0   ? tb_skinny_load(&kernels.skinny, gpu)
                          : family == 1 ? tb_emulated_load(&kernels.emulated, &shared, gpu)
                          : family == 2 ? load_all_types(&kernels, gpu)
                                        : load_fp64(&fp64, gpu);
  if (family == 1) tb_shared_unload(&shared);
  if (loaded != CUDA_SUCCESS) return loaded;
  if (family == 0) tb_skinny_unload(&kernels.skinny);
  if (family == 1) tb_emulated_unload(&kernels.emulated);
  if (family == 2) tb_kernels_unload(&kernels);
  if (family == 3) tb_fp64_unload(&fp64);
  return CUDA_SUCCESS;
}

/* Whichever of its functions is not found, a family that cannot be loaded takes its module away, once. */
static void families_take_their_modules_away(void **state) {
  (void)state;
  CUcontext context;
  CUdevice gpu;
  assert_int_equal(tb_cuda.cuDeviceGet(&gpu, 0), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRetain(&context, gpu), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuCtxPushCurrent(context), CUDA_SUCCESS);
  for (int family = 0; family < 4; family++) {
    CUresult loaded = CUDA_ERROR_OPERATING_SYSTEM;
    for (unsigned long nth = 1; loaded != CUDA_SUCCESS; nth += family < 2 ? 1 : family == 2 ? 29 : 7) {
      const uint64_t failed = fake->get(FAKE_CUDA_FAILURES);
      assert_int_equal(fake->inject("cuModuleGetFunction", nth, CUDA_ERROR_OPERATING_SYSTEM, 0), 0);
      loaded = load(family, gpu);
      fake->clear_failures();
      assert_int_equal(loaded != CUDA_SUCCESS, fake->get(FAKE_CUDA_FAILURES) - failed);
      if (fake->get(FAKE_CUDA_MODULES) != 0) fail_msg("family %d, function %lu: a module is left", family, nth);
    }
  }
  assert_int_equal(tb_cuda.cuCtxPopCurrent(&context), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRelease(gpu), CUDA_SUCCESS);
}

/* Kernels that calls of their kind bring in, the first time. */
enum { COMPLEX, TRIANGLE, SOLVE, BATCH, LATER = BATCH + TB_TYPE_COUNT };

static CUresult load_later(struct tb_kernels *kernels, int which) {
  if (which == COMPLEX) return tb_complex_load(&kernels->complex);
  if (which == TRIANGLE) return tb_triangle_load(&kernels->triangle);
  if (which == SOLVE) return tb_solve_load(&kernels->solve, &kernels->device.fp64);
  return tb_batch_load(&kernels->batch, (enum tb_type)(which - BATCH), 232448);
}

/* What fails leaves nothing, is loaded again by the next call and then no more, and goes with the others. */
static void later_ones_take_their_modules_away(void **state) {
  (void)state;
  static const char *const steps[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"};
  static struct tb_kernels kernels;
  CUcontext context;
  CUdevice gpu;
  assert_int_equal(tb_cuda.cuDeviceGet(&gpu, 0), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRetain(&context, gpu), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuCtxPushCurrent(context), CUDA_SUCCESS);
  for (int which = 0; which < LATER; which++) {
    const bool beside_floats = which == BATCH + TB_D || which == BATCH + TB_Z;
    for (int step = 0; step < 3; step++) {
      bool failed = true;
      for (unsigned long nth = 1; failed; nth += nth < 3 ? 1 : 7) {
        const uint64_t failures = fake->get(FAKE_CUDA_FAILURES);
        fake->inject(steps[step], nth, CUDA_ERROR_OPERATING_SYSTEM, 0);
        failed = load_later(&kernels, which) != CUDA_SUCCESS;
        fake->clear_failures();
        assert_int_equal(fake->get(FAKE_CUDA_FAILURES) - failures, failed);
        const uint64_t left = fake->get(FAKE_CUDA_MODULES), all = 1 + beside_floats;
        if (failed ? left >= all : left != all)
          fail_msg("number %d, %s %lu: %d modules", which, steps[step], nth, (int)left);
        for (int again = 0; again < 2; again++) {
          assert_int_equal(load_later(&kernels, which), CUDA_SUCCESS);
          assert_int_equal(fake->get(FAKE_CUDA_MODULES), all);
        }
        tb_kernels_unload(&kernels);
        assert_int_equal(fake->get(FAKE_CUDA_MODULES), 0);
      }
    }
  }
  assert_int_equal(tb_cuda.cuCtxPopCurrent(&context), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRelease(gpu), CUDA_SUCCESS);
}

/* Each type's kernels are loaded when they are wanted, once, and taken away with the others. */
static void kernels_are_loaded_when_they_are_wanted(void **state) {
  (void)state;
  static struct tb_kernels kernels;
  const struct {
    enum tb_type type;
    int modules;
  } wanted[] = {{TB_S, 0}, {TB_D, 1}, {TB_S, 0}, {TB_C, 1}, {TB_Z, 1}, {TB_D, 0}};
  CUcontext context;
  CUdevice gpu;
  assert_int_equal(tb_cuda.cuDeviceGet(&gpu, 0), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRetain(&context, gpu), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuCtxPushCurrent(context), CUDA_SUCCESS);
  assert_int_equal(tb_kernels_load(&kernels, gpu), CUDA_SUCCESS);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    const uint64_t before = fake->get(FAKE_CUDA_MODULES);
    assert_int_equal(tb_kernels_ready(&kernels, wanted[i].type), CUDA_SUCCESS);
    assert_int_equal(fake->get(FAKE_CUDA_MODULES) - before, wanted[i].modules);
  }
  tb_kernels_unload(&kernels);
  assert_int_equal(fake->get(FAKE_CUDA_MODULES), 0);
  assert_int_equal(tb_cuda.cuCtxPopCurrent(&context), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRelease(gpu), CUDA_SUCCESS);
}

/* A GPU that others have nearly all of, too, finishes in the time that is waited: ten times what it would take alone,
 * at the least, on top of TILEBLAS_TIMEOUT; without end when that is 0. */
static void a_product_has_time(void **state) {
  (void)state;
  const double flops = 1e15, peak = 2e13;
  assert_int_equal(tileblas_option_set("TILEBLAS_TIMEOUT", "7"), 0);
  assert_true(tb_wait_seconds(0, 0) == 7 && tb_wait_seconds(0, peak) == 7);
  assert_true(tb_wait_seconds(flops, peak) >= 7 + 10 * flops / peak);
  assert_int_equal(tileblas_option_set("TILEBLAS_TIMEOUT", "0"), 0);
  assert_true(isinf(tb_wait_seconds(flops, peak)));
  static struct tb_device device;
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
  assert_int_equal(tb_wait_for_stream(device.up, INFINITY), CUDA_SUCCESS);
  tb_device_leave();
  tb_device_close(&device);
  assert_int_equal(tileblas_option_set("TILEBLAS_TIMEOUT", "60"), 0);
}

/* What is compiled for compute capability 9.0 alone is not even offered to a driver for another. */
static void no_tensor_core_kernels_elsewhere(void **state) {
  (void)state;
  static struct tb_emulated_kernels emulated;
  static struct tb_shared shared;
  CUcontext context;
  CUdevice gpu;
  assert_int_equal(tb_cuda.cuDeviceGet(&gpu, 0), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRetain(&context, gpu), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuCtxPushCurrent(context), CUDA_SUCCESS);
  assert_int_equal(tb_shared_load(&shared, gpu), CUDA_SUCCESS);
  shared.early = true; /* so that nothing but the device speaks against it */
  const uint64_t loads = fake->calls("cuModuleLoadData");
  assert_int_equal(tb_emulated_load(&emulated, &shared, gpu), CUDA_SUCCESS);
  assert_false(emulated.there);
  assert_int_equal(fake->calls("cuModuleLoadData"), loads);
  tb_shared_unload(&shared);
  assert_int_equal(tb_cuda.cuCtxPopCurrent(&context), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDevicePrimaryCtxRelease(gpu), CUDA_SUCCESS);
}

/* An arena that is larger than what is kept from call to call, by what the device believes of it. */
static void a_large_arena_is_given_back(void **state) {
  (void)state;
  static struct tb_device device;
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  for (int fails = 0; fails < 3; fails++) {
    static const char *const function[] = {"", "cuCtxPushCurrent", "cuMemFree"};
    assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
    assert_int_equal(tb_device_reserve(&device, 1000), CUDA_SUCCESS);
    tb_device_leave();
    device.memory_bytes = 0;
    device.arena_bytes = INT64_MAX / 2;
    if (fails) assert_int_equal(fake->inject(function[fails], 1, CUDA_ERROR_OPERATING_SYSTEM, 0), 0);
    tb_part_tidy(&device);
    assert_int_equal(fake->get(FAKE_CUDA_PUSHED_HERE), 0);
    assert_int_equal(fake->get(FAKE_CUDA_ALLOCATIONS), fails == 1); /* not entered: it stays for another time */
    if (fails == 1) device.arena_bytes = 1000;
  }
  tb_device_close(&device);
  look("tb_part_tidy", 0);
}

/* A larger arena comes in place of the one that is there, whose bytes are its own: a product is cut alike whatever the
 * one before it took. */
static void an_arena_is_no_ones_loss(void **state) {
  (void)state;
  static struct tb_device device;
  int64_t all, now;
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  assert_int_equal(tb_device_enter(&device), CUDA_SUCCESS);
  assert_int_equal(tb_device_free_bytes(&device, &all), CUDA_SUCCESS);
  for (int64_t bytes = 1000; bytes < all; bytes *= 30) {
    assert_int_equal(tb_device_reserve(&device, bytes), CUDA_SUCCESS);
    assert_int_equal(tb_device_free_bytes(&device, &now), CUDA_SUCCESS);
    if (now != all)
      fail_msg("%lld bytes are free beside %lld, of %lld", (long long)now, (long long)bytes, (long long)all);
  }
  tb_device_leave();
  tb_device_close(&device);
}

/* ---- memory in pieces ---- */

static __typeof__(tb_cuda.cuMemAlloc) driver_allocate;
static size_t piece_bytes; /* the largest that is left in one piece, of much more in all */

static CUresult CUDAAPI allocate_a_piece(CUdeviceptr *memory, size_t bytes) {
  return bytes > piece_bytes ? CUDA_ERROR_OUT_OF_MEMORY : driver_allocate(memory, bytes);
}

/* One product of 500 cubed on a GPU of its own; the bytes of its arena, 0 for none. */
static int64_t arena_of_product(float *a, float *b, float *c) {
  static struct tb_device device;
  static struct tb_part part;
  enum { SIDE = 500 };
  const struct tb_call call = {
      .m = SIDE, .n = SIDE, .k = SIDE, .alpha = {1}, .a = {a, SIDE, false}, .b = {b, SIDE, false}, .c = c, .ldc = SIDE};
  const struct tb_ways ways = {TB_STAGED, TB_STAGED, TB_STAGED, false, 0, TB_MAY_BE_KEPT};
  assert_int_equal(tb_device_open(&device, 0, false, detail, sizeof detail), TB_STATUS_ok);
  driver_allocate = tb_cuda.cuMemAlloc;
  tb_cuda.cuMemAlloc = allocate_a_piece;
  const struct tb_choice whole = tb_part_choose(&device, &call, ways);
  tb_part_run(&part, &device, &call, ways, &whole, false, NULL);
  tb_cuda.cuMemAlloc = driver_allocate;
  const int64_t bytes = part.why == TB_STATUS_ok ? device.arena_bytes : 0;
  tb_device_close(&device);
  return bytes;
}

/* A call that asks for a small part of the memory gets on with a sixteenth of what it asked for first. */
static void an_arena_of_what_there_is(void **state) {
  (void)state;
  enum { ELEMENTS = 500 * 500 };
  float *const x = malloc(4 * ELEMENTS * sizeof *x), *const whole = x + 2 * ELEMENTS, *const c = x + 3 * ELEMENTS;
  assert_non_null(x);
  for (int i = 0; i < 2 * ELEMENTS; i++) x[i] = (float)(i % 17 - 8);
  piece_bytes = SIZE_MAX;
  const int64_t most = arena_of_product(x, x + ELEMENTS, whole);
  assert_true(most > 0);
  for (int part = 1; part <= 16; part += TST_UNLESS_SANITIZED(1, 5)) {
    piece_bytes = (size_t)(most / part);
    const int64_t bytes = arena_of_product(x, x + ELEMENTS, c);
    if (bytes == 0 || bytes > most / part) fail_msg("%lld bytes of %zu", (long long)bytes, piece_bytes);
    assert_memory_equal(c, whole, ELEMENTS * sizeof *c);
  }
  free(x);
}

/* ---- the GPU that calls have ---- */

/* A product has the kernel that it has alone, in a lane that nothing was computed in, too. */
static void lanes_choose_alike(void **state) {
  (void)state;
  const struct tb_ways ways = {.a = TB_STAGED, .b = TB_STAGED, .c = TB_STAGED};
  const struct tb_call call = {
      .type = TB_S, .m = 4096, .n = 4096, .k = 4096, .alpha.s = 1, .a.ld = 4096, .b.ld = 4096, .ldc = 4096};
  assert_non_null(tb_gpus_first(false));
  struct tb_device *const first = tb_gpus_lane(0), *const second = tb_gpus_lane(1);
  assert_non_null(second);
  const struct tb_choice alone = tb_part_choose(first, &call, ways), beside = tb_part_choose(second, &call, ways);
  assert_int_equal(alone.family, TB_FAMILY_EMULATED);
  assert_int_equal(beside.family, alone.family);
  assert_int_equal(beside.emulated.splits, alone.emulated.splits);
  assert_int_equal(beside.emulated.whole, alone.emulated.whole);
  assert_int_equal(beside.emulated.fast, alone.emulated.fast);
  assert_int_equal(beside.emulated.span_k, alone.emulated.span_k);
}

/* What a call had that was left by a jump, in a lane that nobody comes back to: the next one who is alone frees it. */
static void a_lane_that_is_left_has_no_copies(void **state) {
  (void)state;
  enum { BYTES = 1 << 21 };
  char *const matrix = calloc(1, BYTES);
  struct tb_device *const second = tb_gpus_lane(1);
  assert_true(matrix != NULL && second != NULL && tb_cache_enter() && tb_keep_enter_cache(second));
  struct tb_cache *const cache = tb_device_cache(second);
  const struct tb_stored operand = {matrix, BYTES / 64, 64, BYTES / 64, TB_STORED_ALL};
  struct tb_kept *worth = NULL;
  struct tb_cached found;
  assert_int_equal(tb_device_enter(second), CUDA_SUCCESS);
  for (int sights = 0; worth == NULL && sights < 4; sights++) {
    tb_cache_begin_call(cache, 1);
    tb_cache_allow_hash(cache, true);
    worth = tb_cache_look(cache, 1, &operand, NULL, &found, NULL);
  }
  assert_true(worth != NULL && tb_cache_make(cache, 1, worth, BYTES, BYTES));
  tb_cache_leave();
  assert_false(tb_cache_give_back_one(cache));
  tb_gpus_settle(1);
  assert_true(tb_cache_give_back_one(cache));
  assert_int_equal(tb_cache_bytes(cache), 0);
  tb_device_leave();
  free(matrix);
}

/* Copying threads are as many as there are cores for, whoever calls: in each lane they are the same. */
static void calls_in_lanes_have_threads(void **state) {
  (void)state;
  struct tb_device *const alone = tb_gpus_first(false);
  assert_non_null(alone);
  struct tb_pool *const threads = alone->pool;
  assert_true((threads != NULL) == (tb_background_cores() > 1)); /* beside the caller */
  for (int lane = 0; lane < 2; lane++) {
    alone->pool = NULL; /* as a team may have left others there */
    const struct tb_device *const d = tb_gpus_lane(lane);
    assert_non_null(d);
    assert_ptr_equal(d->pool, threads);
  }
  tb_gpus_close(TB_STATUS_ending);
  tb_gpus_end();
  look("tb_gpus_close", 0);
}

static double fp64_flops_per_cycle; /* of an SM: two for each FP64 result, of the tensor cores where they have it */

static void double_precision_by_the_device(void **state) {
  (void)state;
  static struct tb_fp64_kernels fp64;
  CUdevice gpu;
  int khz;
  assert_int_equal(tb_cuda.cuDeviceGet(&gpu, 0), CUDA_SUCCESS);
  assert_int_equal(tb_cuda.cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, gpu), CUDA_SUCCESS);
  assert_int_equal(tb_fp64_look(&fp64, gpu), CUDA_SUCCESS);
  assert_true(fp64.device.flops_per_second == fp64.device.sm_count * fp64_flops_per_cycle * khz * 1e3);
  assert_true(fp64.module[false] == NULL && fp64.module[true] == NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest by_device[] = {cmocka_unit_test(double_precision_by_the_device)};
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_call_fails),
                                     cmocka_unit_test(a_large_arena_is_given_back),
                                     cmocka_unit_test(leaving_twice_leaves_the_programs),
                                     cmocka_unit_test(entering_within),
                                     cmocka_unit_test(modes_and_leaving_all),
                                     cmocka_unit_test(an_arena_is_clear),
                                     cmocka_unit_test(an_arena_is_no_ones_loss),
                                     cmocka_unit_test(an_arena_of_what_there_is),
                                     cmocka_unit_test(a_commit_of_many_columns),
                                     cmocka_unit_test(families_take_their_modules_away),
                                     cmocka_unit_test(later_ones_take_their_modules_away),
                                     cmocka_unit_test(kernels_are_loaded_when_they_are_wanted),
                                     cmocka_unit_test(a_product_has_time),
                                     cmocka_unit_test(lanes_choose_alike),
                                     cmocka_unit_test(a_lane_that_is_left_has_no_copies),
                                     cmocka_unit_test(calls_in_lanes_have_threads)};
  const struct CMUnitTest of_another_kind[] = {cmocka_unit_test(no_tensor_core_kernels_elsewhere)};
  fake = tst_fake();
  if (!fake) tst_skip("a real driver fails on no command");
  if (!tb_cuda_load() || tb_cuda.cuInit(0) != CUDA_SUCCESS) return 2;
  if (argc > 2 && strcmp(argv[1], "fp64") == 0) {
    fp64_flops_per_cycle = atof(argv[2]);
    return cmocka_run_group_tests(by_device, NULL, NULL);
  }
  if (argc > 1 && strcmp(argv[1], "another") == 0) return cmocka_run_group_tests(of_another_kind, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
