/* SPDX-License-Identifier: BSD-3-Clause */
#include "sides.h"

#include "tileblas.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

tb_gemm *tb_ours, *tb_openblas;
static __typeof__(tileblas_option_set) *option_set;
static __typeof__(tileblas_stats_get) *stats_get;

void tb_sides_find(enum tb_type type) {
  const char symbol[] = {tb_type_letter(type), 'g', 'e', 'm', 'm', '_', '\0'};
  void *library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  *(void **)&tb_ours = dlsym(RTLD_DEFAULT, symbol);
  if (library) *(void **)&tb_openblas = dlsym(library, symbol);
  *(void **)&option_set = dlsym(RTLD_DEFAULT, "tileblas_option_set");
  *(void **)&stats_get = dlsym(RTLD_DEFAULT, "tileblas_stats_get");
  if (tb_ours && tb_openblas && option_set && stats_get && tb_ours != tb_openblas) return;
  fprintf(stderr, "%s: run with libtileblas.so.0 preloaded, over OpenBLAS\n", program_invocation_short_name);
  exit(EXIT_FAILURE);
}

void tb_sides_route(const char *mode) { option_set("TILEBLAS_ROUTE", mode); }

uint64_t tb_sides_gpu_calls(void) {
  tileblas_stats stats;
  stats_get(&stats);
  return stats.gpu_calls;
}

/* ---- products ---- */

void tb_problem_compute(const struct tb_problem *p, tb_gemm *side) {
  const int lda = tb_problem_lda(p), ldb = tb_problem_ldb(p);
  side(p->ta ? "T" : "N", p->tb ? "T" : "N", &p->m, &p->n, &p->k, tb_one(p->type), p->a, &lda, p->b, &ldb,
       tb_zero(p->type), p->c, &p->m);
}

bool tb_problem_is_right(const struct tb_problem *p) { return tb_problem_error(p).max_u <= tb_problem_bound_u(p); }
