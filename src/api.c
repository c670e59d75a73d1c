/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tileblas.h: each hands on to the part that knows. */
#include "options.h"
#include "run.h"
#include "small.h"
#include "stats.h"
#include "tileblas.h"

const char *tileblas_version(void) { return TILEBLAS_VERSION; }

int tileblas_option_set(const char *name, const char *value) {
  tb_run_initialise();
  int result = tb_option_set(name, value);
  tb_small_update();
  return result;
}

int tileblas_option_get(const char *name, char *buffer, uint64_t size) {
  tb_run_initialise();
  return tb_option_get(name, buffer, (size_t)size);
}

void tileblas_stats_get(tileblas_stats *stats) { tb_stats_get(stats); }

void tileblas_stats_reset(void) { tb_stats_reset(); }

void tileblas_report(int fd) { tb_stats_report(fd); }
