/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fallback.h"
#include "hosted.h"
#include "log.h"
#include "options.h"
#include "pipeline.h"

/* Device memory that stays with us between calls; a larger arena is given back when its call is over. */
#define ARENA_KEEP_BYTES ((int64_t)2 << 30)
/* Of the free memory, the part that we leave to others: one tenth. */
#define SPARE_FRACTION 10
/* An arena that cannot be had is asked for again at half the size, so often. */
#define RESERVE_TRIES 5

/* ---- the one GPU; everything here but the atomics is under the lock ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tb_device device;
static struct tb_progress progress;
static char description[256] = "not needed so far";
static double open_seconds;                      /* that opening took */
static atomic_int status = TB_STATUS_gpu_sooner; /* why no GPU can answer; this one: it can, or nobody has tried */
static atomic_bool is_open;
static atomic_bool touched; /* the driver was called in this process: a child of it cannot use a GPU */

enum tb_status tb_offload_status(void) { return (enum tb_status)atomic_load_explicit(&status, memory_order_relaxed); }

bool tb_offload_is_open(void) { return atomic_load_explicit(&is_open, memory_order_relaxed); }

void tb_offload_describe(char *text, size_t size) { snprintf(text, size, "%s", description); }

/* Registered after the driver's own exit handlers, so it runs before them, and also when the library is unloaded. A GPU
 * that another thread still uses is left to the end of the process. */
static void close_at_exit(void) {
  if (!atomic_load(&is_open) || pthread_mutex_trylock(&lock) != 0) return;
  atomic_store(&is_open, false);
  atomic_store(&status, TB_STATUS_ending);
  tb_device_close(&device);
  pthread_mutex_unlock(&lock);
}

static void open_device(void) {
  char allowed[TB_OPTION_TEXT_MAX], detail[160] = "";
  tb_option_text(TB_OPTION_devices, allowed);
  atomic_store(&touched, true);
  tb_cuda_failed_call = NULL;
  const double begun = tb_clock_seconds();
  enum tb_status opened = tb_device_open(&device, allowed, detail, sizeof detail);
  if (opened == TB_STATUS_gpu_sooner) {
    snprintf(description, sizeof description, "GPU %d, %s, %d SMs, driver for CUDA %d.%d", device.ordinal, device.name,
             device.sm_count, device.driver_version / 1000, device.driver_version % 1000 / 10);
    open_seconds = tb_clock_seconds() - begun;
    atomic_store(&is_open, true);
    static bool registered;
    if (!registered) registered = atexit(close_at_exit) == 0;
  } else {
    snprintf(description, sizeof description, "%s: %s", tb_status_text(opened), detail);
    atomic_store(&status, opened);
  }
}

/* Without this, the child would use handles that mean nothing in its process. */
void tb_offload_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  tb_cuda_after_fork();
  if (!atomic_load(&touched)) return;
  tb_places_after_fork();
  atomic_store(&is_open, false);
  atomic_store(&status, TB_STATUS_forked);
  snprintf(description, sizeof description, "%s", tb_status_text(TB_STATUS_forked));
}

/* ---- memory ---- */

/* Cuts the call for the memory there is, and has the arena ready. TB_STATUS_gpu_sooner, or why it cannot be done. */
static enum tb_status prepare(const struct tb_gemm *call, struct tb_ways ways, struct tb_plan *plan, CUresult *result) {
  int64_t limit = tb_option_number(TB_OPTION_memory_limit);
  int64_t budget = limit > 0 ? limit : INT64_MAX;
  tb_device_trim(&device, budget); /* the limit may be younger than the arena */
  *result = CUDA_ERROR_OUT_OF_MEMORY;
  if (!tb_plan_make(plan, call, ways, budget)) return TB_STATUS_no_memory;
  if (plan->arena_bytes <= device.arena_bytes) return TB_STATUS_gpu_sooner;
  int64_t free_bytes;
  *result = tb_device_free_bytes(&device, &free_bytes);
  if (*result != CUDA_SUCCESS) return TB_STATUS_gpu_failed;
  budget = tb_min(budget, free_bytes - free_bytes / SPARE_FRACTION);
  for (int attempt = 0; attempt < RESERVE_TRIES; attempt++) {
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!tb_plan_make(plan, call, ways, budget)) return TB_STATUS_no_memory;
    *result = tb_device_reserve(&device, plan->arena_bytes);
    if (*result == CUDA_SUCCESS) return TB_STATUS_gpu_sooner;
    if (*result != CUDA_ERROR_OUT_OF_MEMORY) return TB_STATUS_gpu_failed;
    tb_cuda_failed_call = NULL;     /* no failure yet: there is another try */
    budget = plan->arena_bytes / 2; /* somebody else was quicker, or the free memory is in pieces */
  }
  return TB_STATUS_no_memory;
}

/* ---- when it goes wrong ---- */

/* The columns of a block's tiles that C does not have yet. */
static void finish_block(const struct tb_gemm *call, const struct tb_plan *plan, struct tb_block block,
                         const int64_t *committed_columns) {
  int64_t columns = tb_ceil_div(block.n, plan->tile_n), rows = tb_ceil_div(block.m, plan->tile_m);
  for (int64_t tile = 0; tile < rows * columns; tile++) {
    int64_t i = tile / columns * plan->tile_m, j = tile % columns * plan->tile_n + committed_columns[tile];
    int64_t end = tb_min(tile % columns * plan->tile_n + plan->tile_n, block.n);
    if (j == end) continue;
    struct tb_gemm part = tb_gemm_part(call, block.i + i, tb_min(plan->tile_m, block.m - i), block.j + j, end - j);
    tb_fallback_gemm(&part);
  }
}

/* Everything that is not committed, computed by the CPU from operands that it reaches. Nothing may be under way on the
 * GPU. Without the lock: others need not wait, and a CPU BLAS with threads of its own may come back through our symbols
 * in one of them. */
static void finish_on_cpu(const struct tb_gemm *call, const struct tb_plan *plan, struct tb_progress *done) {
  if (!done->committed) {
    tb_fallback_gemm(call);
    return;
  }
  int64_t blocks = tb_layout_blocks(call, plan);
  for (int64_t number = done->block; number < blocks; number++) {
    struct tb_block block = tb_layout_block(call, plan, number);
    if (number > done->block) memset(done->committed_columns, 0, sizeof done->committed_columns);
    finish_block(call, plan, block, done->committed_columns);
  }
}

static bool uses_gpu_memory(const struct tb_places *p) {
  return p != NULL &&
         (tb_places_need_gpu(p) || p->a.place == TB_MANAGED || p->b.place == TB_MANAGED || p->c.place == TB_MANAGED);
}

/* The same wherever they lie. False: what they hold, or C, cannot be reached. */
static bool finish(const struct tb_gemm *call, const struct tb_places *places, const struct tb_plan *plan,
                   struct tb_progress *done) {
  if (!uses_gpu_memory(places)) {
    finish_on_cpu(call, plan, done);
    return true;
  }
  struct tb_hosted hosted;
  if (!tb_hosted_begin(&hosted, call, places, true)) return false;
  finish_on_cpu(&hosted.call, plan, done);
  return tb_hosted_end(&hosted);
}

/* Says what happened, in one line, and decides whether this GPU is to be used again: memory may be free again later,
 * any other failure may have left the context broken. */
static void give_up(CUresult result, enum tb_status why) {
  char failure[160];
  tb_cuda_describe_failure(result, failure, sizeof failure);
  if (why == TB_STATUS_no_memory) {
    static bool told;
    if (!told)
      tb_warn("GPU %d (%s): not enough memory for a call; the CPU computes what is missing", device.ordinal,
              device.name);
    told = true;
    return;
  }
  tb_warn("GPU %d (%s): %s; the CPU computes what is missing and all later calls", device.ordinal, device.name,
          failure);
  snprintf(description, sizeof description, "GPU %d, %.90s, given up after %.120s", device.ordinal, device.name,
           failure);
  atomic_store(&is_open, false);
  atomic_store(&status, TB_STATUS_gpu_lost);
  tb_device_close(&device);
}

/* ---- one call ---- */

static double elapsed_ms(enum tb_mark begin, enum tb_mark end) {
  float milliseconds = 0;
  if (tb_cuda.cuEventElapsedTime(&milliseconds, device.marks[begin], device.marks[end]) != CUDA_SUCCESS) return 0;
  return milliseconds;
}

/* Whether the kernels may copy 16 bytes at a time: of a tile what holds for the first, whose edges are a multiple of it
 * from the others'. */
static bool tiles_are_vectors(const struct tb_gemm *call, const struct tb_plan *plan) {
  struct tb_sgemm_args args = {.m = call->m, .n = call->n, .padded = true};
  if (plan->ways.a == TB_IN_PLACE) args.a = call->a.data, args.lda = call->a.ld, args.padded = false;
  if (plan->ways.b == TB_IN_PLACE) args.b = call->b.data, args.ldb = call->b.ld, args.padded = false;
  return tb_kernels_vectors(call->a.transposed, call->b.transposed, &args);
}

/* The tiles of a block are computed at the same time, so what is chosen is chosen for the block as a whole; its share
 * of the workspace is the tiles', in the measure of its elements. */
static struct tb_choice choose(const struct tb_gemm *call, const struct tb_plan *plan) {
  struct tb_product product = {.m = tb_min(call->m, plan->block_m),
                               .n = tb_min(call->n, plan->block_n),
                               .k = tb_min(call->k, plan->chunk_k),
                               .transpose_a = call->a.transposed,
                               .transpose_b = call->b.transposed,
                               .vectors = tiles_are_vectors(call, plan)};
  int64_t sums = plan->workspace_bytes / (plan->tile_m * plan->tile_n * (int64_t)sizeof(float));
  product.workspace_bytes = sums * product.m * product.n * (int64_t)sizeof(float);
  return tb_select(&device.kernels.device, &product);
}

static CUresult compute(const struct tb_gemm *call, const struct tb_plan *plan, bool timed,
                        struct tb_outcome *outcome) {
  struct tb_choice choice = choose(call, plan);
  if (choice.family == TB_FAMILY_NONE) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  outcome->kernel = tb_choice_name(&choice);
  outcome->device = device.ordinal;
  CUresult result = tb_pipeline_run(&device, call, plan, &choice, timed, &progress);
  if (result == CUDA_SUCCESS && timed) {
    if (progress.up_bytes > 0) outcome->up_ms = elapsed_ms(TB_UP_BEGIN, TB_UP_END);
    outcome->compute_ms = elapsed_ms(TB_COMPUTE_BEGIN, TB_COMPUTE_END);
    if (progress.down_bytes > 0) outcome->down_ms = elapsed_ms(TB_DOWN_BEGIN, TB_DOWN_END);
  }
  return result;
}

static CUresult scale(const struct tb_gemm *call, struct tb_outcome *outcome) {
  outcome->kernel = "scale";
  outcome->device = device.ordinal;
  return tb_pipeline_scale(&device, call, &progress);
}

static bool is_ours(const struct tb_location *l) {
  return l->place != TB_DEVICE || (l->device == device.ordinal && (l->context == NULL || l->context == device.context));
}

/* With the lock held and a GPU open. */
static void offload(const struct tb_gemm *call, const struct tb_places *places, bool timed, struct tb_outcome *outcome,
                    struct tb_plan *plan) {
  *plan = (struct tb_plan){
      .block_m = call->m, .block_n = call->n, .chunk_k = call->k, .tile_m = call->m, .tile_n = call->n};
  progress.committed = false;
  progress.block = 0;
  progress.up_bytes = progress.down_bytes = 0;
  tb_cuda_failed_call = NULL;
  bool trivial = tb_gemm_is_trivial(call);
  CUresult result = tb_device_enter(&device);
  bool entered = result == CUDA_SUCCESS;
  outcome->why = TB_STATUS_gpu_failed;
  if (entered) outcome->why = trivial ? TB_STATUS_gpu_sooner : prepare(call, tb_plan_ways(call, places), plan, &result);
  if (entered && outcome->why == TB_STATUS_gpu_sooner) {
    result = trivial ? scale(call, outcome) : compute(call, plan, timed, outcome);
    if (result != CUDA_SUCCESS)
      outcome->why = result == CUDA_ERROR_OUT_OF_MEMORY ? TB_STATUS_no_memory : TB_STATUS_gpu_failed;
    if (result != CUDA_SUCCESS) tb_device_settle(&device);
    tb_device_trim(&device, ARENA_KEEP_BYTES);
  }
  if (entered) tb_device_leave();
  outcome->bytes = progress.up_bytes + progress.down_bytes;
  outcome->failed = result != CUDA_SUCCESS;
  outcome->committed = progress.committed;
  if (outcome->failed) give_up(result, outcome->why);
}

bool tb_offload_gemm(const struct tb_gemm *call, const struct tb_places *places, bool timed,
                     struct tb_outcome *outcome) {
  *outcome = (struct tb_outcome){0};
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the driver waits where a thread may be cancelled */
  pthread_mutex_lock(&lock);
  if (!atomic_load(&is_open) && tb_offload_status() == TB_STATUS_gpu_sooner) open_device();
  outcome->why = tb_offload_status();
  bool usable = outcome->why == TB_STATUS_gpu_sooner;
  if (usable && places != NULL && !(is_ours(&places->a) && is_ours(&places->b) && is_ours(&places->c))) {
    outcome->why = TB_STATUS_elsewhere;
    usable = false;
  }
  struct tb_plan plan;
  struct tb_progress done;
  const double begun = tb_clock_seconds();
  if (usable) offload(call, places, timed, outcome, &plan);
  outcome->seconds = tb_clock_seconds() - begun;
  if (outcome->failed) done = progress;
  pthread_mutex_unlock(&lock);
  if (outcome->failed) outcome->lost = !finish(call, places, &plan, &done);
  pthread_setcancelstate(cancel_state, NULL);
  return usable;
}

/* ---- for the calibration ---- */

static int attribute(CUdevice_attribute which) {
  int value = 0;
  return tb_cuda.cuDeviceGetAttribute(&value, which, device.handle) == CUDA_SUCCESS ? value : -1;
}

/* The kernel module's version, which tells more than CUDA's. */
static void driver_text(char *text, size_t size) {
  FILE *file = fopen("/sys/module/nvidia/version", "re");
  if (file == NULL || fgets(text, (int)size, file) == NULL) snprintf(text, size, "unknown");
  text[strcspn(text, "\n")] = '\0';
  if (file != NULL) fclose(file);
}

/* Not CUDA's ordinal, which the environment changes, but the place on the bus: the link is part of what is measured. */
static void identify(struct tb_gpu_identity *identity) {
  char driver[64];
  driver_text(driver, sizeof driver);
  snprintf(identity->text, sizeof identity->text, "%s, %d SMs, PCI %04x:%02x:%02x, driver %s for CUDA %d.%d",
           device.name, device.sm_count, (unsigned)attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
           (unsigned)attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), (unsigned)attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
           driver, device.driver_version / 1000, device.driver_version % 1000 / 10);
  const struct tb_select_device *d = &device.kernels.device;
  identity->peak_flops_per_s = 2e6 * d->fma_per_us * d->sm_count;
  identity->open_seconds = open_seconds;
}

bool tb_offload_open(struct tb_gpu_identity *identity) {
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  pthread_mutex_lock(&lock);
  if (!atomic_load(&is_open) && tb_offload_status() == TB_STATUS_gpu_sooner) open_device();
  const bool usable = tb_offload_status() == TB_STATUS_gpu_sooner;
  if (usable) identify(identity);
  pthread_mutex_unlock(&lock);
  pthread_setcancelstate(cancel_state, NULL);
  return usable;
}

/* The slots are copied to the arena, one after another, and back. */
static CUresult measure_link(double seconds[2]) {
  TB_TRY(tb_device_reserve(&device, (int64_t)(TB_SLOTS * TB_SLOT_BYTES)));
  TB_TRY(tb_cuda.cuStreamSynchronize(device.up));
  for (int down = 0; down < 2; down++) {
    const double begun = tb_clock_seconds();
    for (int slot = 0; slot < TB_SLOTS; slot++) {
      const CUdeviceptr there = device.arena + (CUdeviceptr)slot * TB_SLOT_BYTES;
      if (down)
        TB_TRY(tb_cuda.cuMemcpyDtoHAsync(device.down_ring.slot[slot], there, TB_SLOT_BYTES, device.down));
      else
        TB_TRY(tb_cuda.cuMemcpyHtoDAsync(there, device.up_ring.slot[slot], TB_SLOT_BYTES, device.up));
    }
    TB_TRY(tb_cuda.cuStreamSynchronize(down ? device.down : device.up));
    seconds[down] = tb_clock_seconds() - begun;
  }
  return CUDA_SUCCESS;
}

bool tb_offload_measure_link(double *up_bytes_per_s, double *down_bytes_per_s) {
  int cancel_state;
  double seconds[2];
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  pthread_mutex_lock(&lock);
  bool measured = false;
  if (atomic_load(&is_open)) {
    tb_cuda_failed_call = NULL;
    CUresult result = tb_device_enter(&device);
    const bool entered = result == CUDA_SUCCESS;
    if (entered) result = measure_link(seconds);
    if (result != CUDA_SUCCESS) tb_device_settle(&device);
    if (entered) tb_device_leave();
    measured = result == CUDA_SUCCESS;
    if (!measured) give_up(result, result == CUDA_ERROR_OUT_OF_MEMORY ? TB_STATUS_no_memory : TB_STATUS_gpu_failed);
  }
  pthread_mutex_unlock(&lock);
  pthread_setcancelstate(cancel_state, NULL);
  if (!measured) return false;
  *up_bytes_per_s = TB_SLOTS * TB_SLOT_BYTES / seconds[0];
  *down_bytes_per_s = TB_SLOTS * TB_SLOT_BYTES / seconds[1];
  return true;
}
