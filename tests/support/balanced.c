/* SPDX-License-Identifier: BSD-3-Clause */
#include "balanced.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fake_cuda/fake_cuda.h"

/* Of the calling thread. */
struct contexts {
  void *current;
  unsigned long long pushed;
};

/* Before the driver is loaded no thread has any. */
static struct contexts look(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *functions[2] = {NULL, NULL};
  struct contexts now = {NULL, 0};
  if (!library) return now;
  __typeof__(fake_cuda_current) *current;
  __typeof__(fake_cuda_get) *get;
  functions[0] = dlsym(library, "fake_cuda_current"), functions[1] = dlsym(library, "fake_cuda_get");
  memcpy(&current, &functions[0], sizeof current);
  memcpy(&get, &functions[1], sizeof get);
  if (current && get) now = (struct contexts){current(), get(FAKE_CUDA_PUSHED_HERE)};
  dlclose(library);
  return now;
}

void tst_call_balanced(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const void *a,
                       const void *b, void *c) {
  const struct contexts before = look();
  tst_call(symbol, function, p, a, b, c);
  const struct contexts after = look();
  if (after.current == before.current && after.pushed == before.pushed) return;
  fprintf(stderr, "a call left %llu contexts pushed, of %llu before it, and %s is current\n", after.pushed,
          before.pushed, after.current == before.current ? "the same" : "another");
  abort();
}
