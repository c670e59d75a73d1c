/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"

static pthread_mutex_t visiting = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool forks; /* who has it */

/* Somebody has left a visit by a jump, or was ended in it, and the C library's lock is likely to be lost as well. */
static atomic_bool is_lost;

/* A visit takes microseconds; looks, not seconds, so that no time counts in which the process stands still. */
#define LOOKS_MOST 5000
#define LOOK_NS 100000

static bool lock_to_visit(void) {
  const struct timespec pause = {.tv_nsec = LOOK_NS};
  for (int looks = 0; !atomic_load(&is_lost); looks = atomic_load(&forks) ? 0 : looks + 1) {
    if (pthread_mutex_trylock(&visiting) == 0) return true;
    if (looks == LOOKS_MOST) atomic_store(&is_lost, true);
    nanosleep(&pause, NULL);
  }
  return false;
}

/* The C library's lock may be had again by who has it: by the handler of a signal that came in a visit, and behind a
 * jump out of that. So the mark is there before ours is had, and until it is given back. */
bool tb_libraries_visit(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context) {
  const bool again = tb_thread.visits_libraries;
  tb_thread.visits_libraries = true;
  const bool locked = !again && lock_to_visit();
  if (again || locked) dl_iterate_phdr(visit, context);
  if (locked) pthread_mutex_unlock(&visiting);
  tb_thread.visits_libraries = again;
  return again || locked;
}

bool tb_libraries_may_map(bool (*is)(const char *line)) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char *line = NULL;
  size_t room = 0;
  bool found = maps == NULL;
  while (!found && getline(&line, &room, maps) >= 0) found = is(line);
  free(line);
  if (maps != NULL) fclose(maps);
  return found;
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

/* By the thread that forks, from before until after; a handler may fork meanwhile. */
static _Thread_local struct {
  int depth;
  bool visited, locked;
} forking __attribute__((tls_model("initial-exec")));

void tb_libraries_before_fork(void) {
  if (forking.depth++ > 0) return;
  forking.visited = tb_thread.visits_libraries;
  tb_thread.visits_libraries = true;
  forking.locked = !forking.visited && lock_to_visit();
  if (forking.locked) atomic_store(&forks, true);
}

/* In the child, too, the thread that forked owns it. */
void tb_libraries_after_fork(void) {
  if (--forking.depth > 0) return;
  if (forking.locked) atomic_store(&forks, false);
  if (forking.locked) pthread_mutex_unlock(&visiting);
  tb_thread.visits_libraries = forking.visited;
}
