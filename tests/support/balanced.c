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

void tst_balanced(void (*call)(void *), void *context) {
  const struct contexts before = look();
  call(context);
  const struct contexts after = look();
  if (after.current == before.current && after.pushed == before.pushed) return;
  fprintf(stderr, "a call left %llu contexts pushed, of %llu before it, and %s is current\n", after.pushed,
          before.pushed, after.current == before.current ? "the same" : "another");
  abort();
}

struct product {
  const struct tst_symbol *symbol;
  void *function;
  const struct tst_problem *p;
  const void *a, *b;
  void *c;
};

static void make_product(void *context) {
  const struct product *x = context;
  tst_call(x->symbol, x->function, x->p, x->a, x->b, x->c);
}

void tst_call_balanced(const struct tst_symbol *symbol, void *function, const struct tst_problem *p, const void *a,
                       const void *b, void *c) {
  struct product product = {symbol, function, p, a, b, c};
  tst_balanced(make_product, &product);
}
