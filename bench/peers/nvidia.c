/* SPDX-License-Identifier: BSD-3-Clause */
/* NVIDIA's libraries for the peer measurements; see nvidia.h. */
#include "nvidia.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct tb_nvidia_functions tb_nvidia;

static void *open_either(const char *newer, const char *older) {
  void *lib = dlopen(newer, RTLD_NOW | RTLD_LOCAL);
  if (!lib) lib = dlopen(older, RTLD_NOW | RTLD_LOCAL);
  if (!lib) fprintf(stderr, "peer missing: %s: %s\n", newer, dlerror());
  return lib;
}

int tb_nvidia_load(void) {
  void *cudart = open_either("libcudart.so.13", "libcudart.so.12");
  void *cublas = open_either("libcublas.so.13", "libcublas.so.12");
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

void tb_nvidia_check(int status, const char *call, const char *file, int line) {
  if (status == 0) return;
  fprintf(stderr, "%s:%d: %s: status %d\n", file, line, call, status);
  exit(EXIT_FAILURE);
}
