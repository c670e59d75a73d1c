/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload_call.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balanced.h"
#include "heap.h"
#include "process.h"

static void find(void *handle, const char *name, void *function) {
  void *address = dlsym(handle, name);
  if (!address) {
    printf("%s\n", dlerror());
    exit(1);
  }
  memcpy(function, &address, sizeof address);
}

void tst_library_open(struct tst_library *library) {
  library->handle = dlopen(tst_setting("TB_TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle) {
    printf("%s\n", dlerror());
    exit(1);
  }
  find(library->handle, "cblas_sgemm", &library->cblas_sgemm);
  tst_heap_watch(library->cblas_sgemm);
  find(library->handle, "tileblas_option_set", &library->option_set);
  find(library->handle, "tileblas_stats_get", &library->stats_get);
}

void tst_library_close(struct tst_library *library) {
  dlclose(library->handle);
  void *still_there = dlopen(tst_setting("TB_TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!still_there) return;
  printf("the library stays in the process after dlclose\n");
  exit(1);
}

/* With TST_PIECES_LIMIT: two blocks of three chunks of k; two blocks of two tiles; a k with several chunks of sums. */
static const struct { int64_t m, n, k; } shapes[] = {{130, 20, 520}, {2000, 40, 2}, {20, 20, 600}};

bool tst_call_exactly(const struct tst_library *library, struct tst_problem p, uint64_t seed) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  struct tst_operands x;
  struct tst_expected e;

  p.alpha = -1, p.beta = 2;
  tst_set_leading(&p, 3);
  tst_operands_create(&x, &p, TST_INTEGERS, &seed);
  tst_expect(&e, &p, &x);
  memset(e.bound, 0, sizeof *e.bound * (size_t)(p.m * p.n)); /* whole numbers: exact, whoever computes */
  tst_call_balanced(symbol, library->cblas_sgemm, &p, x.a.data, x.b.data, x.c.data);
  const char *wrong = tst_verify(&p, &x, &e);
  if (wrong) printf("%s: %s\n", tst_describe(symbol, &p), wrong);
  tst_expected_destroy(&e);
  tst_operands_destroy(&x);
  return wrong == NULL;
}

bool tst_call_in_pieces(const struct tst_library *library, uint64_t seed) {
  const struct tst_problem p = {.row_major = seed / 3 % 2,
                                .trans_a = "NT"[seed / 6 % 2],
                                .trans_b = "NT"[seed / 12 % 2],
                                .m = shapes[seed % 3].m,
                                .n = shapes[seed % 3].n,
                                .k = shapes[seed % 3].k};
  return tst_call_exactly(library, p, seed);
}

bool tst_call_with_large_tiles(const struct tst_library *library) {
  return tst_call_exactly(library, (struct tst_problem){.trans_a = 'N', .trans_b = 'N', .m = 1792, .n = 1000, .k = 1},
                          1);
}

static bool heap_is_empty(void) {
  size_t bytes;
  const size_t blocks = tst_heap_blocks(&bytes);
  if (blocks == 0) return true;
  printf("%zu blocks of the heap, %zu bytes, left behind\n", blocks, bytes);
  return false;
}

bool tst_nothing_left(const struct tst_fake *fake) {
  static const struct {
    enum fake_cuda_count what;
    const char *name;
  } counts[] = {
      {FAKE_CUDA_ALLOCATIONS, "allocations"},  {FAKE_CUDA_PINNED, "pinned buffers"},
      {FAKE_CUDA_STREAMS, "streams"},          {FAKE_CUDA_EVENTS, "events"},
      {FAKE_CUDA_MODULES, "modules"},          {FAKE_CUDA_CONTEXTS, "contexts"},
      {FAKE_CUDA_PUSHED, "pushed contexts"},   {FAKE_CUDA_ABANDONED, "resources of a dead context"},
      {FAKE_CUDA_MISUSES, "misuses"},          {FAKE_CUDA_PEERS, "peers enabled"},
      {FAKE_CUDA_QUEUED, "operations queued"},
  };
  bool clean = heap_is_empty();
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    unsigned long long left = fake->get(counts[i].what);
    if (left == 0) continue;
    printf("%llu %s left behind\n", left, counts[i].name);
    clean = false;
  }
  return clean;
}

bool tst_is_listed(const char *name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(name, list[i]) == 0) return true;
  return false;
}
