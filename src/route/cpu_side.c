/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "route/cpu_side.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/background.h"
#include "cpu/fallback.h"

static _Atomic(void *) ask_threads; /* int (*)(void) */

int tb_cpu_side_cores(void) {
  cpu_set_t set;
  tb_background_process_cores(&set);
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

/* The first processor's name, as Linux has it; there is none on some architectures. */
static void processor_name(char *name, size_t size) {
  char text[1024]; /* the name stands in the first lines */
  snprintf(name, size, "unknown processor");
  int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  const char *line = strstr(text, "model name");
  const char *value = line != NULL ? strchr(line, ':') : NULL;
  if (value == NULL) return;
  value += 1 + strspn(value + 1, " \t");
  snprintf(name, size, "%.*s", (int)strcspn(value, "\n"), value);
}

/* The names under which OpenBLAS's builds have a function, and MKL's for the threads. */
static const char *const thread_names[] = {"openblas_get_num_threads", "openblas_get_num_threads64_",
                                           "scipy_openblas_get_num_threads", "scipy_openblas_get_num_threads64_",
                                           "MKL_Get_Max_Threads"};
static const char *const config_names[] = {"openblas_get_config", "openblas_get_config64_", "scipy_openblas_get_config",
                                           "scipy_openblas_get_config64_"};

static void *first_of(void *library, const char *const *names, size_t count) {
  void *function = NULL;
  for (size_t i = 0; i < count && function == NULL; i++) function = dlsym(library, names[i]);
  return function;
}

void tb_cpu_side_look(struct tb_cpu_side *side, enum tb_symbol symbol) {
  *side = (struct tb_cpu_side){.cores = tb_cpu_side_cores()};
  char name[96];
  processor_name(name, sizeof name);
  snprintf(side->processor, sizeof side->processor, "%s, %d cores", name, side->cores);
  Dl_info info;
  void *blas = tb_fallback_function(symbol);
  void *library = blas != NULL && dladdr(blas, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (library == NULL) {
    snprintf(side->blas, sizeof side->blas, "plain loops");
    return;
  }
  void *threads = first_of(library, thread_names, sizeof thread_names / sizeof *thread_names);
  void *config = first_of(library, config_names, sizeof config_names / sizeof *config_names);
  atomic_store(&ask_threads, threads);
  snprintf(side->blas, sizeof side->blas, "%.200s, %.200s, %d threads", info.dli_fname,
           config != NULL ? ((char *(*)(void))config)() : "unknown build", tb_cpu_side_threads());
  dlclose(library); /* the fallback keeps it loaded */
}

int tb_cpu_side_threads(void) {
  void *ask = atomic_load_explicit(&ask_threads, memory_order_relaxed);
  return ask != NULL ? ((int (*)(void))ask)() : 0;
}
