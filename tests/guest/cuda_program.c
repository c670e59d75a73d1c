/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda_program.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tileblas.h"

struct guest_cuda guest_cuda;

#define NAME_OF(function) TEXT_OF(function) /* with the version that cuda.h appends */
#define TEXT_OF(text) #text

static void find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  if (!address) {
    printf("%s\n", dlerror());
    exit(1);
  }
  memcpy(function, &address, sizeof address);
}

void guest_begin(void) {
  tst_cuda_begin(0);
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define X(function) find(library, NAME_OF(function), &guest_cuda.function);
  GUEST_FUNCTIONS(X)
#undef X
}

void guest_must(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return;
  printf("%s: CUDA error %d\n", call, result);
  exit(1);
}

void guest_product_make(struct guest_product *p, int64_t n, enum tst_kind kind, uint64_t seed) {
  p->problem = (struct tst_problem){.trans_a = 'N', .trans_b = 'N', .m = n, .n = n, .k = n, .alpha = 1, .beta = 2};
  tst_set_leading(&p->problem, 0);
  tst_operands_create(&p->x, &p->problem, TST_INTEGERS, &seed);
  tst_expect(&p->expected, &p->problem, &p->x);
  memset(p->expected.bound, 0, sizeof *p->expected.bound * (size_t)(n * n));
  tst_place(&p->a, &p->x.a, kind, 0);
  tst_place(&p->b, &p->x.b, kind, 0);
  tst_place(&p->c, &p->x.c, kind, 0);
}

void guest_product_call(const struct guest_product *p) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  tst_call(symbol, tst_resolve(symbol), &p->problem, p->a.data, p->b.data, p->c.data);
}

bool guest_product_is_right(struct guest_product *p) {
  const bool back = tst_take_back(&p->a) & tst_take_back(&p->b) & tst_take_back(&p->c);
  const char *wrong = back ? tst_verify(&p->problem, &p->x, &p->expected) : "the operands do not come back";
  if (wrong) printf("%s\n", wrong);
  tst_expected_destroy(&p->expected);
  tst_operands_destroy(&p->x);
  return !wrong;
}

uint64_t guest_gpu_calls(void) {
  tileblas_stats s;
  tileblas_stats_get(&s);
  return s.gpu_failures > 0 ? UINT64_MAX : s.gpu_calls;
}
