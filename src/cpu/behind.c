/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "cpu/behind.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "process/libraries.h"

static struct tb_behind next[TB_SYMBOL_COUNT];

/* Where this library begins in memory; the linker's. To ask the loader for it would have it go through all names. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static void *base_of(const void *address) {
  Dl_info info;
  return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* A copy of ours would look for the next definition and find us. */
bool tb_behind_look(void *function, struct tb_behind *behind) {
  Dl_info info;
  *behind = (struct tb_behind){.function = function, .file = "?"};
  if (!dladdr(function, &info)) return true;
  if (info.dli_fbase == (const void *)__ehdr_start) return false;
  behind->file = info.dli_fname;
  /* A reference of our own: a dlclose elsewhere must not pull the library from under a thread that computes. */
  void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return true; /* the program itself */
  const void *mark = dlsym(library, "tileblas_version");
  if (mark != NULL && base_of(mark) == info.dli_fbase) {
    dlclose(library);
    return false;
  }
  behind->index_of_max = dlsym(library, "isamax_");
  return true;
}

/* Libraries that every program has, or has under valgrind; in none of them a BLAS is. */
static const char *const everywhere[] = {"linux-vdso", "ld-linux",       "libc.so.",  "libm.so.",
                                         "libdl.so.",  "libpthread.so.", "vgpreload_"};

/* Where this library, or the program that it is part of, begins: the linker's word, which takes no look at all symbols.
 */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static int may_have_blas(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size, (void)context;
  const char *slash = strrchr(info->dlpi_name, '/');
  const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
  if (name[0] == '\0') return 0; /* the program, which comes before us in the search order */
  for (size_t i = 0; i < sizeof everywhere / sizeof *everywhere; i++)
    if (strncmp(name, everywhere[i], strlen(everywhere[i])) == 0) return 0;
  return info->dlpi_addr != (uintptr_t)__ehdr_start;
}

/* A symbol that is not there takes the loader two thousand instructions, in every process of a preloaded job, and to
 * tell whose one is, a hundred times that: of a library's first alone. */
void tb_behind_at_load(void) {
  if (dl_iterate_phdr(may_have_blas, NULL) == 0) return;
  struct tb_library_look library = {0};
  struct tb_behind known = {0};
  for (int s = 0; s < TB_SYMBOL_COUNT; s++) {
    void *function = dlsym(RTLD_NEXT, tb_symbols[s].name);
    if (function == NULL) continue;
    if ((uintptr_t)function < library.start || (uintptr_t)function >= library.end) {
      library = (struct tb_library_look){.address = (uintptr_t)function};
      if (!tb_behind_look(function, &known)) known = (struct tb_behind){0};
      tb_libraries_visit(tb_libraries_look, &library);
    }
    next[s] = known;
    if (known.function != NULL) next[s].function = function;
  }
  (void)dlerror(); /* the program may ask for one of its own */
}

const struct tb_behind *tb_behind_next(enum tb_symbol symbol) { return &next[symbol]; }

/* Who cannot be asked goes by its name. */
static bool has_wide_name(const char *file) {
  const char *slash = strrchr(file, '/');
  const char *name = slash != NULL ? slash + 1 : file;
  return strstr(name, "blas64") != NULL || strstr(name, "ilp64") != NULL;
}

/*
 * n is 1 to who reads 32 bits of it, and there the first element is the largest; to who reads 64 it is negative, for
 * which every BLAS returns 0 and looks at nothing.
 */
bool tb_behind_is_wide(const struct tb_behind *behind) {
  typedef int32_t isamax(const int64_t *n, const float *x, const int64_t *incx);
  const int64_t n = (int64_t)(UINT64_MAX << 32 | 1), incx = 1;
  const float x[2] = {1, 1};
  if (behind->index_of_max == NULL) return behind->function != NULL && has_wide_name(behind->file);
  return ((isamax *)behind->index_of_max)(&n, x, &incx) == 0;
}
