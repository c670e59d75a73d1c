/* SPDX-License-Identifier: BSD-3-Clause */
#include "sides.h"
#include "tileblas.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

tb_sgemm *tb_ours, *tb_openblas;
static __typeof__(tileblas_option_set) *option_set;
static __typeof__(tileblas_stats_get) *stats_get;

void tb_sides_find(void) {
  void *library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  *(void **)&tb_ours = dlsym(RTLD_DEFAULT, "sgemm_");
  if (library) *(void **)&tb_openblas = dlsym(library, "sgemm_");
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
