/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "select/commit.h"
#include "select/digest.h"
#include "cuda/wait.h"
#include "pipeline/widening.h"

/* ---- opening ---- */

/* Of a ring without slots: those that it has beside the first ones. */
static void order_rest(struct tb_device *d, struct tb_ring *ring) {
  ring->earned_slots = TB_SLOTS - TB_SLOTS_FIRST;
  tb_widening_order(ring, d->handle, d->context);
}

/* At once, because the driver takes 2 ms for each allocation. */
static CUresult open_ring(struct tb_ring *ring, bool is_further_lane) {
  const int slots = is_further_lane ? TB_SLOTS_SMALL : TB_SLOTS_FIRST;
  ring->piece_slots = 1;
  for (int i = 0; i < TB_SLOTS; i++) TB_TRY(tb_cuda.cuEventCreate(&ring->moved[i], CU_EVENT_DISABLE_TIMING));
  void *memory;
  TB_TRY(tb_cuda.cuMemHostAlloc(&memory, (size_t)(slots * TB_SLOT_BYTES), 0));
  tb_ring_add(ring, memory, slots);
  ring->earned_slots = ring->ordered ? TB_SLOTS : slots;
  return CUDA_SUCCESS;
}

static CUresult open_streams(struct tb_device *d) {
  TB_TRY(tb_cuda.cuStreamCreate(&d->up, CU_STREAM_NON_BLOCKING));
  TB_TRY(tb_cuda.cuStreamCreate(&d->down, CU_STREAM_NON_BLOCKING));
  TB_TRY(tb_cuda.cuStreamCreate(&d->packing, CU_STREAM_NON_BLOCKING));
  TB_TRY(tb_cuda.cuStreamCreate(&d->ordered, CU_STREAM_DEFAULT));
  TB_TRY(tb_cuda.cuEventCreate(&d->uploaded, CU_EVENT_DISABLE_TIMING));
  TB_TRY(tb_cuda.cuEventCreate(&d->packed, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < TB_COMPUTE_STREAMS; i++) {
    TB_TRY(tb_cuda.cuStreamCreate(&d->compute[i], CU_STREAM_NON_BLOCKING));
    TB_TRY(tb_cuda.cuEventCreate(&d->drained[i], CU_EVENT_DISABLE_TIMING));
    TB_TRY(tb_cuda.cuEventCreate(&d->half[i], CU_EVENT_DISABLE_TIMING));
  }
  for (int i = 0; i < TB_MARK_COUNT; i++) TB_TRY(tb_cuda.cuEventCreate(&d->marks[i], CU_EVENT_DEFAULT));
  TB_TRY(open_ring(&d->up_ring, d->lane > 0));
  return open_ring(&d->down_ring, d->lane > 0);
}

CUresult tb_device_open_lane(struct tb_device *d, const struct tb_device *gpu) {
  d->ordinal = gpu->ordinal;
  memcpy(d->name, gpu->name, sizeof d->name);
  d->sm_count = gpu->sm_count;
  d->driver_version = gpu->driver_version;
  d->handle = gpu->handle;
  d->context = gpu->context;
  d->commit = gpu->commit;
  d->digest = gpu->digest;
  d->memory_bytes = gpu->memory_bytes;
  d->patience_seconds = tb_wait_seconds(0, 0);
  return open_streams(d);
}

/* The primary context and what lives in it. `stage` tells how far it came, for the reason. For a large call all slots
 * come while kernels are loaded: in calls that go on meanwhile they take five times as long. */
static CUresult open_context(struct tb_device *d, bool is_for_large, enum tb_status *stage) {
  *stage = TB_STATUS_no_device;
  TB_TRY(tb_cuda.cuDeviceGet(&d->handle, d->ordinal));
  TB_TRY(tb_cuda.cuDeviceGetName(d->name, (int)sizeof d->name, d->handle));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&d->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->handle));
  TB_TRY(tb_cuda.cuDriverGetVersion(&d->driver_version));
  TB_TRY(tb_cuda.cuDevicePrimaryCtxRetain(&d->context, d->handle));
  TB_TRY(tb_device_enter(d));
  if (is_for_large) order_rest(d, &d->up_ring);
  if (is_for_large) order_rest(d, &d->down_ring);
  *stage = TB_STATUS_no_module;
  CUresult result = tb_kernels_load(&d->kernels, d->handle);
  if (result == CUDA_SUCCESS) result = tb_commit_load(&d->commit, d->kernels.shared.module);
  if (result == CUDA_SUCCESS) result = tb_digest_load(&d->digest, d->kernels.shared.module);
  if (result == CUDA_SUCCESS) {
    *stage = TB_STATUS_no_memory;
    result = open_streams(d);
  }
  tb_device_leave();
  return result;
}

/* Whether what failed may go well another time: memory is short while another process starts, a GPU that takes one
 * process at a time has one, a driver is being loaded. What lies in the GPU, the driver or us stays as it is. */
static bool may_pass(CUresult result) {
  static const CUresult lasting[] = {CUDA_ERROR_INVALID_VALUE,
                                     CUDA_ERROR_NO_DEVICE,
                                     CUDA_ERROR_INVALID_DEVICE,
                                     CUDA_ERROR_DEVICE_NOT_LICENSED,
                                     CUDA_ERROR_STUB_LIBRARY,
                                     CUDA_ERROR_INVALID_IMAGE,
                                     CUDA_ERROR_NO_BINARY_FOR_GPU,
                                     CUDA_ERROR_INVALID_PTX,
                                     CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                                     CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
                                     CUDA_ERROR_INVALID_SOURCE,
                                     CUDA_ERROR_NOT_FOUND,
                                     CUDA_ERROR_NOT_SUPPORTED,
                                     CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                                     CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                                     CUDA_ERROR_NOT_INITIALIZED,
                                     CUDA_ERROR_DEINITIALIZED};
  for (size_t i = 0; i < sizeof lasting / sizeof lasting[0]; i++)
    if (result == lasting[i]) return false;
  return true;
}

enum tb_status tb_device_open(struct tb_device *d, int ordinal, bool is_for_large, char *detail, size_t detail_size) {
  memset(d, 0, sizeof *d);
  d->ordinal = ordinal;
  d->patience_seconds = tb_wait_seconds(0, 0);
  enum tb_status stage;
  CUresult result = open_context(d, is_for_large, &stage);
  if (result == CUDA_SUCCESS) return TB_STATUS_ok;
  int head = snprintf(detail, detail_size, "GPU %d: ", ordinal);
  tb_cuda_describe_failure(result, detail + head, detail_size - (size_t)head);
  tb_device_close(d);
  if (is_for_large) tb_widening_settle(); /* nobody else would, when the process ends */
  return may_pass(result) ? TB_STATUS_not_now : stage;
}

enum tb_status tb_device_count(int *count, char *detail, size_t detail_size) {
  *count = 0;
  if (!tb_cuda_load()) {
    snprintf(detail, detail_size, "libcuda.so.1 cannot be loaded or is too old");
    return TB_STATUS_no_driver;
  }
  CUresult result = tb_cuda.cuInit(0);
  if (result == CUDA_SUCCESS) result = tb_cuda.cuDeviceGetCount(count);
  if (result == CUDA_SUCCESS && *count > 0) return TB_STATUS_ok;
  if (result == CUDA_SUCCESS) result = CUDA_ERROR_NO_DEVICE; /* none that this process may see */
  tb_cuda_describe_failure(result, detail, detail_size);
  return may_pass(result) ? TB_STATUS_not_now : TB_STATUS_no_device;
}

/* ---- closing ---- */

static void close_event(CUevent *event) {
  if (*event != NULL) tb_cuda.cuEventDestroy(*event);
  *event = NULL;
}

static void close_stream(CUstream *stream) {
  if (*stream != NULL) tb_cuda.cuStreamDestroy(*stream);
  *stream = NULL;
}

static void close_ring(struct tb_ring *ring) {
  tb_widening_cancel(ring);
  for (int i = 0; i < TB_SLOTS; i++) close_event(&ring->moved[i]);
  for (int i = 0; i < TB_SLOTS; i++)
    if (ring->registered >> i & 1)
      tb_widening_give_back(ring->slot[i]);
    else if (ring->allocated >> i & 1)
      tb_cuda.cuMemFreeHost(ring->slot[i]);
  ring->slots = 0;
  ring->allocated = ring->registered = 0;
}

/* What calls work with. Nothing may be under way. */
static void close_events(struct tb_device *d) {
  for (int i = 0; i < TB_TILES_MAX * TB_TILES_MAX; i++) close_event(&d->tile_done[i]);
  for (int i = 0; i < TB_EMULATED_SLICES_MAX * TB_TILES_MAX; i++) close_event(&d->sent[i]);
  for (int i = 0; i < TB_MARK_COUNT; i++) close_event(&d->marks[i]);
  for (int i = 0; i < TB_COMPUTE_STREAMS; i++) {
    close_event(&d->drained[i]);
    close_event(&d->half[i]);
    close_stream(&d->compute[i]);
  }
  close_event(&d->uploaded);
  close_event(&d->packed);
  close_event(&d->fetched);
}

static void close_work(struct tb_device *d) {
  tb_device_trim(d, 0);
  close_ring(&d->up_ring);
  close_ring(&d->down_ring);
  close_events(d);
  close_stream(&d->fetching);
  close_stream(&d->packing);
  close_stream(&d->up);
  close_stream(&d->down);
  close_stream(&d->ordered);
  free(d->pipeline);
  free(d->triangular);
  free(d->batch);
  d->pipeline = NULL;
  d->triangular = NULL;
  d->batch = NULL;
}

void tb_device_close_lane(struct tb_device *d) {
  if (d->context == NULL || d->hangs) return;
  tb_device_settle(d);
  if (d->hangs) return;
  close_work(d);
  d->context = NULL;
}

static void close_cache(struct tb_device *d) {
  tb_cache_close(d->cache, !d->hangs);
  d->cache = NULL;
}

void tb_device_close(struct tb_device *d) {
  if (d->hangs) close_cache(d);
  if (d->context == NULL || d->hangs) return;
  bool entered = tb_device_enter(d) == CUDA_SUCCESS;
  tb_device_settle(d);
  close_cache(d);
  if (d->hangs) return;
  close_work(d);
  tb_kernels_unload(&d->kernels);
  if (entered) tb_device_leave();
  tb_cuda.cuDevicePrimaryCtxRelease(d->handle);
  d->context = NULL;
}

/* ---- in use ---- */

CUresult tb_device_enter(struct tb_device *d) { return tb_cuda_enter(d->context); }

void tb_device_leave(void) { tb_cuda_leave(); }

CUresult tb_device_free_bytes(struct tb_device *d, int64_t *bytes) {
  size_t free_bytes = 0, total_bytes = 0;
  if (!d->beside_others) tb_device_trim_others(d);
  TB_TRY(tb_cuda.cuMemGetInfo(&free_bytes, &total_bytes));
  d->memory_bytes = (int64_t)total_bytes;
  *bytes = (int64_t)free_bytes + d->arena_bytes + tb_cache_bytes(tb_device_cache(d));
  return CUDA_SUCCESS;
}

/* Padding is read, and comes down with the tiles; what another program left there is none of ours. */
static CUresult clear_arena(struct tb_device *d, size_t bytes) {
  TB_TRY(tb_cuda.cuMemsetD8Async(d->arena, 0, bytes, d->up));
  return tb_device_wait(d, d->up); /* no launch need wait for an upload */
}

CUresult tb_device_reserve(struct tb_device *d, int64_t bytes) {
  if (bytes <= d->arena_bytes) return CUDA_SUCCESS;
  tb_device_trim(d, 0);
  if (!d->beside_others) tb_device_trim_others(d);
  CUresult allocated = tb_cuda.cuMemAlloc(&d->arena, (size_t)bytes);
  while (allocated == CUDA_ERROR_OUT_OF_MEMORY && tb_cache_give_back_one(tb_device_cache(d)))
    allocated = tb_cuda.cuMemAlloc(&d->arena, (size_t)bytes); /* a copy of an operand is worth less than a call */
  if (allocated != CUDA_SUCCESS) {
    tb_cuda_failed_call = "cuMemAlloc(&d->arena, (size_t)bytes)";
    return allocated;
  }
  d->arena_bytes = bytes;
  const CUresult cleared = clear_arena(d, (size_t)bytes);
  if (cleared != CUDA_SUCCESS) {
    tb_device_settle(d);
    tb_device_trim(d, 0);
  }
  return cleared;
}

void tb_device_trim(struct tb_device *d, int64_t keep_bytes) {
  if (d->arena_bytes <= keep_bytes || d->hangs) return; /* freeing waits for all that runs there */
  tb_cuda.cuMemFree(d->arena);
  d->arena = 0;
  d->arena_bytes = 0;
}

bool tb_device_keep_within(struct tb_device *d, int64_t bytes) {
  while (tb_cache_bytes(tb_device_cache(d)) > bytes)
    if (!tb_cache_give_back_one(tb_device_cache(d))) return false;
  return true;
}

void tb_device_give_back(struct tb_device *d) {
  if (!d->hangs) tb_cache_rest(tb_device_cache(d));
  tb_device_trim(d, 0);
}

void tb_device_trim_others(struct tb_device *d) {
  for (int i = 1; d->all_lanes != NULL && i < TB_LANES; i++)
    if (d->all_lanes[i] != NULL) tb_device_trim(d->all_lanes[i], 0);
}

CUresult tb_device_wait(struct tb_device *d, CUstream stream) {
  const CUresult result = tb_wait_for_stream(stream, d->patience_seconds);
  if (result == CUDA_ERROR_TIMEOUT) d->hangs = true;
  return result;
}

void tb_device_settle(struct tb_device *d) {
  const char *failed_call = tb_cuda_failed_call; /* the first is to be told of */
  CUstream streams[5 + TB_COMPUTE_STREAMS] = {d->up, d->fetching, d->packing, d->ordered, d->down};
  memcpy(streams + 5, d->compute, sizeof d->compute);
  for (size_t i = 0; i < sizeof streams / sizeof streams[0] && !d->hangs; i++)
    if (streams[i] != NULL) tb_device_wait(d, streams[i]);
  tb_cuda_failed_call = failed_call;
}

static CUresult get_event(CUevent *kept, CUevent *event) {
  if (*kept == NULL) TB_TRY(tb_cuda.cuEventCreate(kept, CU_EVENT_DISABLE_TIMING));
  *event = *kept;
  return CUDA_SUCCESS;
}

CUresult tb_device_tile_event(struct tb_device *d, int64_t tile, CUevent *event) {
  return get_event(&d->tile_done[tile], event);
}

CUresult tb_device_panel_event(struct tb_device *d, int64_t panel, int64_t slice, CUevent *event) {
  return get_event(&d->sent[slice * TB_TILES_MAX + panel], event);
}

CUresult tb_device_open_fetching(struct tb_device *d) {
  CUevent fetched;
  if (d->fetching == NULL) TB_TRY(tb_cuda.cuStreamCreate(&d->fetching, CU_STREAM_NON_BLOCKING));
  return get_event(&d->fetched, &fetched);
}

void tb_device_order_slots(struct tb_device *d) {
  if (d->hangs) return;
  tb_widening_order(&d->up_ring, d->handle, d->context);
  tb_widening_order(&d->down_ring, d->handle, d->context);
}

/* ---- asking ---- */

int tb_device_attribute(const struct tb_device *d, CUdevice_attribute which) {
  int value = 0;
  return tb_cuda.cuDeviceGetAttribute(&value, which, d->handle) == CUDA_SUCCESS ? value : -1;
}

int tb_device_describe(const struct tb_device *d, char *text, size_t size) {
  return snprintf(text, size, "GPU %d, %s, %d SMs, driver for CUDA %d.%d", d->ordinal, d->name, d->sm_count,
                  d->driver_version / 1000, d->driver_version % 1000 / 10);
}

/* The kernel module's version, which tells more than CUDA's. */
void tb_device_driver_text(char *text, size_t size) {
  FILE *file = fopen("/sys/module/nvidia/version", "re");
  if (file == NULL || fgets(text, (int)size, file) == NULL) snprintf(text, size, "unknown");
  text[strcspn(text, "\n")] = '\0';
  if (file != NULL) fclose(file);
}
