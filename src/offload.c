/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "gpus.h"
#include "hosted.h"
#include "log.h"
#include "part.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the GPU and everything below */

enum tb_status tb_offload_status(void) { return tb_gpus_status(); }

bool tb_offload_is_open(void) { return tb_gpus_are_open(); }

void tb_offload_describe(char *text, size_t size) { tb_gpus_describe(text, size); }

/* Registered after the driver's own exit handlers, so it runs before them, and also when the library is unloaded. A GPU
 * that another thread still uses is left to the end of the process. */
static void close_at_exit(void) {
  if (!tb_gpus_are_open() || pthread_mutex_trylock(&lock) != 0) return;
  tb_gpus_close(TB_STATUS_ending);
  pthread_mutex_unlock(&lock);
}

/* With the lock held. NULL: there is none. */
static struct tb_device *open_device(void) {
  struct tb_device *device = tb_gpus_open();
  static bool registered;
  if (device != NULL && !registered) registered = atexit(close_at_exit) == 0;
  return device;
}

void tb_offload_after_fork(void) {
  pthread_mutex_init(&lock, NULL);
  tb_gpus_after_fork();
}

/* ---- when it goes wrong ---- */

static bool uses_gpu_memory(const struct tb_places *p) {
  return p != NULL &&
         (tb_places_need_gpu(p) || p->a.place == TB_MANAGED || p->b.place == TB_MANAGED || p->c.place == TB_MANAGED);
}

/* Everything that is not committed, computed by the CPU from operands that it reaches. Nothing may be under way on the
 * GPU. Without the lock: others need not wait, and a CPU BLAS with threads of its own may come back through our symbols
 * in one of them. False: what the operands hold, or C, cannot be reached. */
static bool finish(struct tb_part *part, const struct tb_places *places) {
  if (!uses_gpu_memory(places)) {
    tb_part_finish(part, &part->call);
    return true;
  }
  struct tb_hosted hosted;
  if (!tb_hosted_begin(&hosted, &part->call, places, true)) return false;
  tb_part_finish(part, &hosted.call);
  return tb_hosted_end(&hosted);
}

/* Says what happened, in one line, and decides whether this GPU is to be used again: memory may be free again later,
 * any other failure may have left the context broken. */
static void give_up(struct tb_device *device, const char *failure, enum tb_status why) {
  if (why == TB_STATUS_no_memory) {
    static bool told;
    if (!told)
      tb_warn("GPU %d (%s): not enough memory for a call; the CPU computes what is missing", device->ordinal,
              device->name);
    told = true;
    return;
  }
  tb_warn("GPU %d (%s): %s; the CPU computes what is missing and all later calls", device->ordinal, device->name,
          failure);
  tb_gpus_give_up(device, failure);
}

/* ---- one call ---- */

static bool is_ours(const struct tb_device *d, const struct tb_location *l) {
  return l->place != TB_DEVICE || (l->device == d->ordinal && (l->context == NULL || l->context == d->context));
}

static bool are_ours(const struct tb_device *d, const struct tb_places *p) {
  return p == NULL || (is_ours(d, &p->a) && is_ours(d, &p->b) && is_ours(d, &p->c));
}

static void describe(const struct tb_part *part, const struct tb_device *device, struct tb_outcome *outcome) {
  outcome->why = part->why;
  outcome->failed = part->why != TB_STATUS_gpu_sooner;
  outcome->committed = part->progress.committed;
  outcome->device = device->ordinal;
  outcome->kernel = part->kernel;
  outcome->bytes = part->progress.up_bytes + part->progress.down_bytes;
  outcome->up_ms = part->up_ms;
  outcome->compute_ms = part->compute_ms;
  outcome->down_ms = part->down_ms;
}

/* With the lock held. False: no GPU can take it, for the reason in the outcome. */
static bool offload(const struct tb_gemm *call, const struct tb_places *places, bool timed, struct tb_part *part,
                    struct tb_outcome *outcome) {
  struct tb_device *device = open_device();
  outcome->why = tb_gpus_status();
  if (device == NULL) return false;
  if (!are_ours(device, places)) {
    outcome->why = TB_STATUS_elsewhere;
    return false;
  }
  const double begun = tb_clock_seconds();
  tb_part_run(part, device, call, places, timed);
  tb_part_tidy(device);
  describe(part, device, outcome);
  if (outcome->failed) give_up(device, part->failure, part->why);
  outcome->seconds = tb_clock_seconds() - begun;
  return true;
}

bool tb_offload_gemm(const struct tb_gemm *call, const struct tb_places *places, bool timed,
                     struct tb_outcome *outcome) {
  struct tb_part part;
  *outcome = (struct tb_outcome){0};
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the driver waits where a thread may be cancelled */
  pthread_mutex_lock(&lock);
  const bool taken = offload(call, places, timed, &part, outcome);
  pthread_mutex_unlock(&lock);
  if (outcome->failed) outcome->lost = !finish(&part, places);
  pthread_setcancelstate(cancel_state, NULL);
  return taken;
}

/* ---- for the calibration ---- */

static int attribute(const struct tb_device *d, CUdevice_attribute which) {
  int value = 0;
  return tb_cuda.cuDeviceGetAttribute(&value, which, d->handle) == CUDA_SUCCESS ? value : -1;
}

/* The kernel module's version, which tells more than CUDA's. */
static void driver_text(char *text, size_t size) {
  FILE *file = fopen("/sys/module/nvidia/version", "re");
  if (file == NULL || fgets(text, (int)size, file) == NULL) snprintf(text, size, "unknown");
  text[strcspn(text, "\n")] = '\0';
  if (file != NULL) fclose(file);
}

/* Not CUDA's ordinal, which the environment changes, but the place on the bus: the link is part of what is measured. */
static void identify(const struct tb_device *d, struct tb_gpu_identity *identity) {
  char driver[64];
  driver_text(driver, sizeof driver);
  snprintf(identity->text, sizeof identity->text, "%s, %d SMs, PCI %04x:%02x:%02x, driver %s for CUDA %d.%d", d->name,
           d->sm_count, (unsigned)attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
           (unsigned)attribute(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
           (unsigned)attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID), driver, d->driver_version / 1000,
           d->driver_version % 1000 / 10);
  const struct tb_select_device *s = &d->kernels.device;
  identity->peak_flops_per_s = 2e6 * s->fma_per_us * s->sm_count;
  identity->open_seconds = tb_gpus_open_seconds();
}

bool tb_offload_open(struct tb_gpu_identity *identity) {
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  pthread_mutex_lock(&lock);
  const struct tb_device *device = open_device();
  if (device != NULL) identify(device, identity);
  pthread_mutex_unlock(&lock);
  pthread_setcancelstate(cancel_state, NULL);
  return device != NULL;
}

/* The slots are copied to the arena, one after another, and back. */
static CUresult measure_link(struct tb_device *d, double seconds[2]) {
  TB_TRY(tb_device_reserve(d, (int64_t)(TB_SLOTS * TB_SLOT_BYTES)));
  TB_TRY(tb_cuda.cuStreamSynchronize(d->up));
  for (int down = 0; down < 2; down++) {
    const double begun = tb_clock_seconds();
    for (int slot = 0; slot < TB_SLOTS; slot++) {
      const CUdeviceptr there = d->arena + (CUdeviceptr)slot * TB_SLOT_BYTES;
      if (down)
        TB_TRY(tb_cuda.cuMemcpyDtoHAsync(d->down_ring.slot[slot], there, TB_SLOT_BYTES, d->down));
      else
        TB_TRY(tb_cuda.cuMemcpyHtoDAsync(there, d->up_ring.slot[slot], TB_SLOT_BYTES, d->up));
    }
    TB_TRY(tb_cuda.cuStreamSynchronize(down ? d->down : d->up));
    seconds[down] = tb_clock_seconds() - begun;
  }
  return CUDA_SUCCESS;
}

/* With the lock held and a GPU open. */
static bool link_seconds(struct tb_device *d, double seconds[2]) {
  char failure[160];
  tb_cuda_failed_call = NULL;
  CUresult result = tb_device_enter(d);
  const bool entered = result == CUDA_SUCCESS;
  if (entered) result = measure_link(d, seconds);
  if (result != CUDA_SUCCESS) tb_device_settle(d);
  if (entered) tb_device_leave();
  if (result == CUDA_SUCCESS) return true;
  tb_cuda_describe_failure(result, failure, sizeof failure);
  give_up(d, failure, result == CUDA_ERROR_OUT_OF_MEMORY ? TB_STATUS_no_memory : TB_STATUS_gpu_failed);
  return false;
}

bool tb_offload_measure_link(double *up_bytes_per_s, double *down_bytes_per_s) {
  int cancel_state;
  double seconds[2];
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  pthread_mutex_lock(&lock);
  const bool measured = tb_gpus_are_open() && link_seconds(tb_gpus_open(), seconds);
  pthread_mutex_unlock(&lock);
  pthread_setcancelstate(cancel_state, NULL);
  if (!measured) return false;
  *up_bytes_per_s = TB_SLOTS * TB_SLOT_BYTES / seconds[0];
  *down_bytes_per_s = TB_SLOTS * TB_SLOT_BYTES / seconds[1];
  return true;
}
