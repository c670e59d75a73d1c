/* SPDX-License-Identifier: BSD-3-Clause */
#include "placed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The few functions wanted, with the driver's types spelled out: tests build without cuda.h. */
typedef unsigned long long address;
static struct {
  int (*init)(unsigned);
  int (*retain)(void **, int);
  int (*release)(int);
  int (*set_current)(void *);
  int (*create)(void **, unsigned, int);
  int (*destroy)(void *);
  int (*enable_peer)(void *, unsigned);
  int (*alloc)(address *, size_t);
  int (*alloc_managed)(address *, size_t, unsigned);
  int (*release_memory)(address);
  int (*alloc_host)(void **, size_t, unsigned);
  int (*release_host)(void *);
  int (*pin)(void *, size_t, unsigned);
  int (*unpin)(void *);
  int (*up)(address, const void *, size_t);
  int (*down)(void *, address, size_t);
  int (*copy_later)(address, address, size_t, void *);
} cuda;

#define ATTACH_GLOBAL 1 /* CU_MEM_ATTACH_GLOBAL */

static void find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  if (!symbol) {
    printf("%s\n", dlerror());
    exit(1);
  }
  memcpy(function, &symbol, sizeof symbol);
}

static void must(int result, const char *what) {
  if (result == 0) return;
  printf("%s: CUDA error %d\n", what, result);
  exit(1);
}

static void *contexts[16];
static bool begun[16]; /* devices that tst_cuda_begin took and tst_cuda_end did not give back */

static void end_all(void) {
  for (int device = 0; device < (int)(sizeof begun / sizeof begun[0]); device++)
    if (begun[device]) tst_cuda_end(device);
}

void tst_cuda_begin(int device) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context;
  if (!library) {
    printf("%s\n", dlerror());
    exit(1);
  }
  find(library, "cuInit", &cuda.init);
  find(library, "cuDevicePrimaryCtxRetain", &cuda.retain);
  find(library, "cuDevicePrimaryCtxRelease_v2", &cuda.release);
  find(library, "cuCtxSetCurrent", &cuda.set_current);
  find(library, "cuCtxCreate_v2", &cuda.create);
  find(library, "cuCtxDestroy_v2", &cuda.destroy);
  find(library, "cuCtxEnablePeerAccess", &cuda.enable_peer);
  find(library, "cuMemAlloc_v2", &cuda.alloc);
  find(library, "cuMemAllocManaged", &cuda.alloc_managed);
  find(library, "cuMemFree_v2", &cuda.release_memory);
  find(library, "cuMemHostAlloc", &cuda.alloc_host);
  find(library, "cuMemFreeHost", &cuda.release_host);
  find(library, "cuMemHostRegister_v2", &cuda.pin);
  find(library, "cuMemHostUnregister", &cuda.unpin);
  find(library, "cuMemcpyHtoD_v2", &cuda.up);
  find(library, "cuMemcpyDtoH_v2", &cuda.down);
  find(library, "cuMemcpyDtoDAsync_v2", &cuda.copy_later);
  must(cuda.init(0), "cuInit");
  must(cuda.retain(&context, device), "cuDevicePrimaryCtxRetain");
  must(cuda.set_current(context), "cuCtxSetCurrent");
  static bool registered;
  if (!registered) registered = atexit(end_all) == 0;
  begun[device] = true;
  contexts[device] = context;
}

void tst_cuda_end(int device) {
  cuda.set_current(NULL);
  cuda.release(device);
  begun[device] = false;
}

static void *own_context;

void tst_cuda_begin_own(int device) {
  tst_cuda_begin(device);
  must(cuda.create(&own_context, 0, device), "cuCtxCreate");
}

void tst_cuda_end_own(int device) {
  must(cuda.destroy(own_context), "cuCtxDestroy");
  must(cuda.set_current(contexts[device]), "cuCtxSetCurrent");
}

void tst_cuda_enable_peer(int device, int peer) {
  tst_cuda_begin(peer);
  tst_cuda_begin(device);
  must(cuda.enable_peer(contexts[peer], 0), "cuCtxEnablePeerAccess");
}

void *tst_cuda_allocate(enum tst_kind kind, size_t bytes) {
  void *host = NULL;
  address p = 0;
  if (kind == TST_PINNED) must(cuda.alloc_host(&host, bytes, 0), "cuMemHostAlloc");
  if (kind == TST_MANAGED) must(cuda.alloc_managed(&p, bytes, ATTACH_GLOBAL), "cuMemAllocManaged");
  if (kind == TST_DEVICE) must(cuda.alloc(&p, bytes), "cuMemAlloc");
  return host ? host : (void *)(uintptr_t)p;
}

void tst_cuda_free(enum tst_kind kind, void *memory) {
  if (kind == TST_PINNED) cuda.release_host(memory);
  if (kind == TST_DEVICE || kind == TST_MANAGED) cuda.release_memory((address)(uintptr_t)memory);
}

void tst_cuda_register(void *memory, size_t bytes) { must(cuda.pin(memory, bytes, 0), "cuMemHostRegister"); }

void tst_cuda_unregister(void *memory) { must(cuda.unpin(memory), "cuMemHostUnregister"); }

void tst_cuda_write(enum tst_kind kind, void *to, const void *from, size_t bytes) {
  if (kind == TST_DEVICE && bytes > 0)
    must(cuda.up((address)(uintptr_t)to, from, bytes), "cuMemcpyHtoD");
  else
    memcpy(to, from, bytes);
}

void *tst_cuda_write_later(void *to, const void *from, size_t bytes) {
  void *const there = tst_cuda_allocate(TST_DEVICE, bytes);
  tst_cuda_write(TST_DEVICE, there, from, bytes);
  must(cuda.copy_later((address)(uintptr_t)to, (address)(uintptr_t)there, bytes, NULL), "cuMemcpyDtoDAsync");
  return there;
}

bool tst_cuda_read(enum tst_kind kind, void *to, const void *from, size_t bytes) {
  if (kind == TST_DEVICE && bytes > 0) return cuda.down(to, (address)(uintptr_t)from, bytes) == 0;
  memcpy(to, from, bytes);
  return true;
}

static const uint32_t canary_bits = 0x7fcabada; /* a NaN, as in matrix.c */

void tst_place(struct tst_placed *x, struct tst_matrix *matrix, enum tst_kind kind, int64_t lead) {
  const size_t lead_bytes = (size_t)lead * sizeof(float);
  bool empty = matrix->lines == 0 || matrix->len == 0;
  *x = (struct tst_placed){.matrix = matrix, .kind = kind, .data = matrix->data};
  x->bytes = empty ? 0 : ((size_t)(matrix->lines - 1) * matrix->ld + matrix->len) * sizeof(float);
  if (kind == TST_PAGEABLE || empty) return;
  char *image = malloc(lead_bytes + x->bytes);
  if (!image) abort();
  for (size_t i = 0; i < lead_bytes; i += sizeof canary_bits) memcpy(image + i, &canary_bits, sizeof canary_bits);
  memcpy(image + lead_bytes, matrix->data, x->bytes);
  x->memory = tst_cuda_allocate(kind, lead_bytes + x->bytes);
  x->data = (float *)((char *)x->memory + lead_bytes);
  tst_cuda_write(kind, x->memory, image, lead_bytes + x->bytes);
  free(image);
}

bool tst_lead_is_intact(const struct tst_placed *x) {
  const size_t lead_bytes = x->memory ? (size_t)((char *)x->data - (char *)x->memory) : 0;
  bool intact = true;
  char *image = calloc(lead_bytes + 1, 1);
  if (!image) abort();
  if (!tst_cuda_read(x->kind, image, x->memory ? x->memory : image, lead_bytes)) must(1, "cuMemcpyDtoH");
  for (size_t i = 0; i < lead_bytes; i += sizeof canary_bits)
    intact = intact && memcmp(image + i, &canary_bits, sizeof canary_bits) == 0;
  free(image);
  return intact;
}

bool tst_take_back(struct tst_placed *x) {
  if (!x->memory) return true;
  const bool whole = tst_cuda_read(x->kind, x->matrix->data, x->data, x->bytes);
  tst_cuda_free(x->kind, x->memory);
  return whole;
}
