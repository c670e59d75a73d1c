/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/hosted.h"

#include <stdlib.h>

#include "cuda/driver.h"
#include "base/log.h"
#include "cuda/wait.h"

/* Pitches of two-dimensional copies must stay below this (CU_DEVICE_ATTRIBUTE_MAX_PITCH, the same on every GPU). */
#define PITCH_BYTES_MAX INT32_MAX

/* A stored matrix on the GPU and its copy in the host's memory, which is dense. */
struct pair {
  CUdeviceptr device;
  void *host;
  int64_t ld, rows, columns, element_bytes;
  struct tb_region region; /* that is moved */
};

static CUresult copy(const struct pair *p, int64_t first, int64_t columns, bool up, CUstream stream) {
  const size_t line_bytes = (size_t)(p->rows * p->element_bytes);
  const size_t pitch_bytes = (size_t)(p->ld * p->element_bytes);
  CUDA_MEMCPY2D c = {.WidthInBytes = line_bytes, .Height = (size_t)columns};
  c.srcMemoryType = up ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  c.dstMemoryType = up ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  c.srcHost = c.dstHost = (char *)p->host + (size_t)first * line_bytes;
  c.srcDevice = c.dstDevice = p->device + (CUdeviceptr)first * pitch_bytes;
  const size_t device_pitch = columns > 1 ? pitch_bytes : line_bytes;
  c.srcPitch = up ? line_bytes : device_pitch;
  c.dstPitch = up ? device_pitch : line_bytes;
  TB_TRY(tb_cuda.cuMemcpy2DAsync(&c, stream));
  return CUDA_SUCCESS;
}

/* Rows of a column. */
static CUresult copy_run(const struct pair *p, int64_t column, struct tb_region_rows rows, bool up, CUstream stream) {
  if (rows.first == rows.end) return CUDA_SUCCESS;
  const struct pair run = {.device = p->device + (CUdeviceptr)((rows.first + column * p->ld) * p->element_bytes),
                           .host = (char *)p->host + (rows.first + column * p->rows) * p->element_bytes,
                           .ld = p->ld,
                           .rows = rows.end - rows.first,
                           .columns = 1,
                           .element_bytes = p->element_bytes};
  return copy(&run, 0, 1, up, stream);
}

/* Column by column, so that nothing else of the memory is touched. */
static CUresult copy_triangle(const struct pair *p, bool up, CUstream stream) {
  for (int64_t j = 0; j < p->columns; j++) TB_TRY(copy_run(p, j, tb_region_rows(p->region, p->rows, j), up, stream));
  return CUDA_SUCCESS;
}

static CUresult copy_all(const struct pair *p, bool up, CUstream stream) {
  bool at_once = p->ld <= PITCH_BYTES_MAX / p->element_bytes;
  if (p->region.of != TB_WHOLE) TB_TRY(copy_triangle(p, up, stream));
  for (int64_t j = 0; p->region.of == TB_WHOLE && j < p->columns; j += at_once ? p->columns : 1)
    TB_TRY(copy(p, j, at_once ? p->columns : 1, up, stream));
  TB_TRY(tb_wait_for_stream(stream, tb_wait_seconds(0, 0)));
  return CUDA_SUCCESS;
}

/* Ordered with what the program has in the default stream, by a stream that waits for that one: to name the default
 * stream itself would end a capture of the program's (cuda/driver.h). */
static CUresult copy_in_order(const struct pair *p, bool up) {
  CUstream stream;
  TB_TRY(tb_cuda.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  CUresult result = copy_all(p, up, stream);
  tb_cuda.cuStreamDestroy(stream);
  return result;
}

/* In the context that the memory belongs to, or for want of one in its device's. */
static CUresult move_pair(const struct tb_location *l, const struct pair *p, bool up) {
  CUcontext context = (CUcontext)l->context;
  CUdevice device = 0;
  bool retain = context == NULL;
  if (retain) {
    TB_TRY(tb_cuda.cuDeviceGet(&device, l->device < 0 ? 0 : l->device));
    TB_TRY(tb_cuda.cuDevicePrimaryCtxRetain(&context, device));
  }
  CUresult result = tb_cuda_enter(context);
  if (result == CUDA_SUCCESS) {
    result = copy_in_order(p, up);
    tb_cuda_leave();
  }
  if (retain) tb_cuda.cuDevicePrimaryCtxRelease(device);
  return result; /* the call that failed has its name noted where it failed */
}

static bool is_wanted(const struct tb_location *l, bool managed_too) {
  return l->place == TB_DEVICE || (managed_too && l->place == TB_MANAGED);
}

/* *copied stays NULL when it fails. */
static CUresult fetch_operand(const struct tb_location *l, const void *data, enum tb_type type, int64_t rows,
                              int64_t columns, int64_t ld, struct tb_region region, void **copied) {
  /* No overflow: a matrix of that size lies in memory. */
  void *host = malloc((size_t)(rows * columns * tb_type_bytes(type)));
  if (host == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  struct pair p = {(CUdeviceptr)data, host, ld, rows, columns, tb_type_bytes(type), region};
  CUresult result = move_pair(l, &p, false);
  if (result == CUDA_SUCCESS)
    *copied = host;
  else if (result != CUDA_ERROR_TIMEOUT) /* else the GPU may yet write there */
    free(host);
  return result;
}

/* What of it is read: the stored triangle, where there is one. */
static struct tb_region stored_of(const struct tb_view *x) {
  struct tb_region stored = {.of = TB_WHOLE};
  if (x->structure != TB_GENERAL) stored.of = x->uplo == TB_UPPER ? TB_UPPER_TRIANGLE : TB_LOWER_TRIANGLE;
  return stored;
}

static CUresult fetch_view(const struct tb_location *l, struct tb_view *x, int64_t rows, int64_t columns,
                           void **copied) {
  int64_t stored_rows = x->transposed ? columns : rows, stored_columns = x->transposed ? rows : columns;
  TB_TRY(fetch_operand(l, x->data, x->type, stored_rows, stored_columns, x->ld, stored_of(x), copied));
  x->data = *copied;
  x->ld = stored_rows;
  return CUDA_SUCCESS;
}

static CUresult fetch_operands(struct tb_hosted *h, const struct tb_places *places, bool managed_too) {
  struct tb_call *call = &h->call;
  bool reads = !tb_call_is_trivial(call);
  if (reads && is_wanted(&places->a, managed_too))
    TB_TRY(fetch_view(&places->a, &call->a, tb_call_a_rows(call), call->k, &h->copy_a));
  if (reads && call->recipe == TB_MULTIPLY && is_wanted(&places->b, managed_too))
    TB_TRY(fetch_view(&places->b, &call->b, call->k, call->n, &h->copy_b));
  call->again_a = call->b.data, call->again_b = call->a.data;
  if (is_wanted(&places->c, managed_too)) {
    TB_TRY(fetch_operand(&places->c, call->c, call->type, call->m, call->n, call->ldc, call->region, &h->copy_c));
    call->c = h->copy_c;
    call->ldc = call->m;
    if (call->recipe != TB_MULTIPLY) call->b.data = call->c, call->b.ld = call->ldc;
  }
  return CUDA_SUCCESS;
}

static void release(struct tb_hosted *h) {
  free(h->copy_a);
  free(h->copy_b);
  free(h->copy_c);
}

static void say_lost(CUresult result, const char *what) {
  char failure[160];
  tb_cuda_describe_failure(result, failure, sizeof failure);
  tb_warn("operands in GPU memory cannot be reached (%s): %s", failure, what);
}

bool tb_hosted_begin(struct tb_hosted *h, const struct tb_call *call, const struct tb_places *places,
                     bool managed_too) {
  *h = (struct tb_hosted){.call = *call, .c = call->c, .ldc = call->ldc, .c_location = places->c};
  tb_cuda_failed_call = NULL;
  CUresult result = fetch_operands(h, places, managed_too);
  if (result == CUDA_SUCCESS) return true;
  release(h);
  say_lost(result, "a product is not computed");
  return false;
}

bool tb_hosted_end(struct tb_hosted *h) {
  CUresult result = CUDA_SUCCESS;
  if (h->copy_c != NULL) {
    struct pair p = {(CUdeviceptr)h->c,       h->copy_c,     h->ldc, h->call.m, h->call.n,
                     tb_call_bytes(&h->call), h->call.region};
    tb_cuda_failed_call = NULL;
    result = move_pair(&h->c_location, &p, true);
  }
  release(h);
  if (result != CUDA_SUCCESS) say_lost(result, "a product stays behind on the CPU");
  return result == CUDA_SUCCESS;
}
