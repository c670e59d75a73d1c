/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "heard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct heard heard;

static void hear(int by_c, const char *name, size_t length, int info) {
  const size_t kept = length < sizeof heard.name - 1 ? length : sizeof heard.name - 1;
  heard = (struct heard){.calls = heard.calls + 1, .info = info, .by_c = by_c, .length = length};
  memcpy(heard.name, name, kept);
}

void xerbla_(const char *name, const int *info, size_t length);
void xerbla_(const char *name, const int *info, size_t length) { hear(0, name, length, *info); }

void cblas_xerbla(int info, const char *name, const char *format, ...);
void cblas_xerbla(int info, const char *name, const char *format, ...) {
  (void)format;
  hear(1, name, strlen(name), info);
}

const char *library;
bool alone(void) { return strcmp(library, "none") == 0; }

void *dlopen(const char *path, int flags) {
  static __typeof__(dlopen) *real;
  if (alone()) return NULL;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
  return real(path, flags);
}

struct heard to_be_heard(const struct tst_typed_name *name, int parameter) {
  struct heard told = {.calls = 1, .info = parameter + name->cblas, .by_c = name->cblas};
  snprintf(told.name, sizeof told.name, name->cblas ? "cblas_%s" : "%-6s", name->routine);
  for (char *letter = told.name; !name->cblas && *letter != '\0'; letter++)
    *letter = (char)toupper((unsigned char)*letter);
  told.length = strlen(told.name);
  return told;
}

void *in_library(const struct tst_typed_name *name) {
  char plain[32];
  snprintf(plain, sizeof plain, name->cblas ? "cblas_%s" : "%s_", name->routine);
  void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle != NULL ? dlsym(handle, plain) : NULL;
}

void expect_heard(const struct tst_typed_name *name, bool row_major, const struct heard *want) {
  if (memcmp(&heard, want, sizeof *want) != 0)
    fail_msg("%s%s: heard %d times, \"%s\" parameter %d, not %d times, \"%s\" parameter %d", name->name,
             row_major ? " row-major" : "", heard.calls, heard.name, heard.info, want->calls, want->name, want->info);
}

void expect_counted(const char *name, bool row_major, const tileblas_stats *was, double flops) {
  tileblas_stats is;
  tileblas_stats_get(&is);
  const int calls = (int)(is.cpu_calls - was->cpu_calls), most = flops > 0 ? 1 : 2;
  if (calls < 1 || calls > most || is.gpu_calls != was->gpu_calls || is.cpu_flops - was->cpu_flops != flops)
    fail_msg("%s%s: counted %d times, with %g operations, not %g", name, row_major ? " row-major" : "", calls,
             is.cpu_flops - was->cpu_flops, flops);
}
