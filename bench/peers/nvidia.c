/* SPDX-License-Identifier: BSD-3-Clause */
/* NVIDIA's libraries for the peer measurements; see nvidia.h. */
#include "nvidia.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct tb_nvidia_functions tb_nvidia;
static void *cublas; /* the library */

static void *open_either(const char *newer, const char *older) {
  void *lib = dlopen(newer, RTLD_NOW | RTLD_LOCAL);
  if (!lib) lib = dlopen(older, RTLD_NOW | RTLD_LOCAL);
  if (!lib) fprintf(stderr, "peer missing: %s: %s\n", newer, dlerror());
  return lib;
}

int tb_nvidia_load(void) {
  void *cudart = open_either("libcudart.so.13", "libcudart.so.12");
  cublas = open_either("libcublas.so.13", "libcublas.so.12");
  if (!cudart || !cublas) return 0;
#define TB_NVIDIA(library, name, parameters)                  \
  if (!(*(void **)&tb_nvidia.name = dlsym(library, #name))) { \
    fprintf(stderr, "no %s in %s\n", #name, #library);        \
    exit(EXIT_FAILURE);                                       \
  }
  TB_NVIDIA_FUNCTIONS(TB_NVIDIA)
#undef TB_NVIDIA
  return 1;
}

void *tb_nvidia_cublas_symbol(const char *name) { return dlsym(cublas, name); }

struct tb_nvidia_product tb_nvidia_product_of(const struct tb_problem *p, const void *a, const void *b, void *c) {
  return (struct tb_nvidia_product){.type = p->type,
                                    .ta = p->ta,
                                    .tb = p->tb,
                                    .m = p->m,
                                    .n = p->n,
                                    .k = p->k,
                                    .a = a,
                                    .b = b,
                                    .c = c,
                                    .lda = tb_problem_lda(p),
                                    .ldb = tb_problem_ldb(p),
                                    .ldc = p->m};
}

int tb_nvidia_gemm(tb_cublas_handle handle, const struct tb_nvidia_product *p) {
  int(*const by_type[TB_TYPE_COUNT]) TB_NVIDIA_GEMM = {tb_nvidia.cublasSgemm_v2, tb_nvidia.cublasDgemm_v2,
                                                       tb_nvidia.cublasCgemm_v2, tb_nvidia.cublasZgemm_v2};
  int(*const by_three) TB_NVIDIA_GEMM = p->type == TB_C ? tb_nvidia.cublasCgemm3m : tb_nvidia.cublasZgemm3m;
  return (p->by_three ? by_three : by_type[p->type])(handle, p->ta, p->tb, p->m, p->n, p->k, tb_one(p->type), p->a,
                                                     p->lda, p->b, p->ldb, tb_zero(p->type), p->c, p->ldc);
}

int tb_nvidia_xt_gemm(tb_cublasxt_handle handle, const struct tb_nvidia_product *p) {
  int(*const by_type[TB_TYPE_COUNT]) TB_NVIDIA_XT_GEMM = {tb_nvidia.cublasXtSgemm, tb_nvidia.cublasXtDgemm,
                                                          tb_nvidia.cublasXtCgemm, tb_nvidia.cublasXtZgemm};
  return by_type[p->type](handle, p->ta, p->tb, (size_t)p->m, (size_t)p->n, (size_t)p->k, tb_one(p->type), p->a,
                          (size_t)p->lda, p->b, (size_t)p->ldb, tb_zero(p->type), p->c, (size_t)p->ldc);
}

void tb_nvidia_check(int status, const char *call, const char *file, int line) {
  if (status == 0) return;
  fprintf(stderr, "%s:%d: %s: status %d\n", file, line, call, status);
  exit(EXIT_FAILURE);
}
