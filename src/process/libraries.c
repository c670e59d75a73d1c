/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/thread.h"

static pthread_mutex_t visiting = PTHREAD_MUTEX_INITIALIZER;

/* Somebody has left a visit by a jump, or was ended in it, and the C library's lock is likely to be lost as well. */
static atomic_bool is_lost;

/* A visit takes microseconds. */
#define VISIT_SECONDS_MOST 1

static bool lock_to_visit(void) {
  struct timespec until;
  if (atomic_load(&is_lost)) return false;
  if (pthread_mutex_trylock(&visiting) == 0) return true;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += VISIT_SECONDS_MOST;
  if (pthread_mutex_timedlock(&visiting, &until) == 0) return true;
  atomic_store(&is_lost, true);
  return false;
}

/* The C library's lock may be had again by who has it: by the handler of a signal that came in a visit, and behind a
 * jump out of that. */
void tb_libraries_visit(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context) {
  const bool again = tb_thread.visits_libraries;
  if (!again && !lock_to_visit()) return;
  tb_thread.visits_libraries = true;
  dl_iterate_phdr(visit, context);
  if (again) return;
  tb_thread.visits_libraries = false;
  pthread_mutex_unlock(&visiting);
}

int tb_libraries_look(struct dl_phdr_info *info, size_t size, void *opaque) {
  (void)size;
  struct tb_library_look *look = opaque;
  uintptr_t start = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, to = from + info->dlpi_phdr[i].p_memsz;
    if (from < start) start = from;
    if (to > end) end = to;
  }
  if (look->address < start || look->address >= end) return 0;
  look->start = start;
  look->end = end;
  return 1;
}

void tb_library_stays(void) {
  Dl_info info;
  if (dladdr(&is_lost, &info)) (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* By the thread that forks, from before until after. */
static _Thread_local bool has_lock __attribute__((tls_model("initial-exec")));

void tb_libraries_before_fork(void) { has_lock = !tb_thread.visits_libraries && lock_to_visit(); }

/* In the child, too, the thread that forked owns it. */
void tb_libraries_after_fork(void) {
  if (has_lock) pthread_mutex_unlock(&visiting);
  has_lock = false;
}
