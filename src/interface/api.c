/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tileblas.h: each hands on to the part that knows. */
#include <stddef.h>
#include <string.h>

#include "cache/ranges.h"
#include "offload/offload.h"
#include "process/guest.h"
#include "base/options.h"
#include "interface/run.h"
#include "route/small.h"
#include "interface/stats.h"
#include "tileblas.h"

const char *tileblas_version(void) { return TILEBLAS_VERSION_STRING; }

int tileblas_option_set(const char *name, const char *value) {
  struct tb_guest guest;
  tb_run_initialise();
  tb_guest_enter(&guest);
  int result = tb_option_set(name, value);
  tb_small_update();
  tb_guest_leave(&guest);
  return result;
}

int tileblas_option_get(const char *name, char *buffer, uint64_t size) {
  struct tb_guest guest;
  tb_run_initialise();
  tb_guest_enter(&guest);
  int result = tb_option_get(name, buffer, (size_t)size);
  tb_guest_leave(&guest);
  return result;
}

uint64_t tileblas_stats_get_sized(tileblas_stats *stats, uint64_t size) {
  struct tb_guest guest;
  tileblas_stats all;
  tb_guest_enter(&guest);
  tb_stats_get(&all);
  tb_guest_leave(&guest);
  const uint64_t known = size < sizeof all ? size : sizeof all;
  memcpy(stats, &all, (size_t)known);
  memset((char *)stats + known, 0, (size_t)(size - known));
  return sizeof all;
}

/* Programs of 0.1 call it, whose struct ended with cpu_seconds: fields that came later are none of it. */
void(tileblas_stats_get)(tileblas_stats *stats) {
  tileblas_stats_get_sized(stats, offsetof(tileblas_stats, cpu_seconds) + sizeof stats->cpu_seconds);
}

void tileblas_stats_reset(void) { tb_stats_reset(); }

int tileblas_keep(const void *address, uint64_t bytes) {
  const uintptr_t start = (uintptr_t)address;
  struct tb_guest guest;
  if (bytes == 0 || bytes > UINTPTR_MAX - start) return -1;
  tb_run_initialise();    /* which sees to forks */
  tb_guest_enter(&guest); /* a handler that multiplies would wait for this thread's lock */
  const bool kept = tb_ranges_keep(start, start + bytes);
  tb_guest_leave(&guest);
  return kept ? 0 : -1;
}

int tileblas_forget(const void *address, uint64_t bytes) {
  const uintptr_t start = (uintptr_t)address;
  struct tb_guest guest;
  if (bytes == 0 || bytes > UINTPTR_MAX - start) return -1;
  tb_run_initialise();
  tb_guest_enter(&guest);
  const bool forgotten = tb_ranges_forget(start, start + bytes);
  tb_offload_forget(start, start + bytes);
  tb_guest_leave(&guest);
  return forgotten ? 0 : -1;
}

void tileblas_report(int fd) {
  struct tb_guest guest;
  tb_guest_enter(&guest);
  tb_stats_report(fd);
  tb_guest_leave(&guest);
}
