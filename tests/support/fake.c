/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <dlfcn.h>
#include <string.h>

static struct tst_fake fake;

static int find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

const struct tst_fake *tst_fake(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return NULL;
  if (find(library, "fake_cuda_get", &fake.get) && find(library, "fake_cuda_calls", &fake.calls) &&
      find(library, "fake_cuda_reset_calls", &fake.reset_calls) &&
      find(library, "fake_cuda_launches_of", &fake.launches_of) &&
      find(library, "fake_cuda_function", &fake.function) && find(library, "fake_cuda_fail", &fake.inject) &&
      find(library, "fake_cuda_calls_on", &fake.calls_on) && find(library, "fake_cuda_fail_on", &fake.inject_on) &&
      find(library, "fake_cuda_clear_failures", &fake.clear_failures) &&
      find(library, "fake_cuda_set_order", &fake.set_order) &&
      find(library, "fake_cuda_set_shuffle", &fake.set_shuffle) &&
      find(library, "fake_cuda_set_watch", &fake.set_watch) && find(library, "fake_cuda_audit", &fake.audit) &&
      find(library, "fake_cuda_current", &fake.current) &&
      find(library, "fake_cuda_expect_misuses", &fake.expect_misuses))
    return &fake;
  return NULL;
}
