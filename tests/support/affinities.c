/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "affinities.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

atomic_int tst_affinities;

int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set) {
  static int (*original)(pthread_t, size_t, const cpu_set_t *);
  if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, "pthread_setaffinity_np");
  atomic_fetch_add(&tst_affinities, 1);
  return original(thread, bytes, set);
}

int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *set) {
  static int (*original)(pthread_t, size_t, cpu_set_t *);
  if (original == NULL) *(void **)&original = dlsym(RTLD_NEXT, "pthread_getaffinity_np");
  atomic_fetch_add(&tst_affinities, 1);
  return original(thread, bytes, set);
}
