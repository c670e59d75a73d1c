/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "gpus.h"

#include <ctype.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "options.h"
#include "place.h"

/* Eight threads with streaming stores reach the link's rate up, ten to twelve down (measured on 16 cores, PCIe gen5).
 */
#define COPYING_THREADS_MAX 10

static struct tb_device device;
static struct tb_pool *pool; /* copies between the program's memory and the rings */
static char description[256] = "not needed so far";
static double open_seconds;                      /* that opening took */
static atomic_int status = TB_STATUS_gpu_sooner; /* why no GPU can answer; this one: it can, or nobody has tried */
static atomic_bool is_open;
static atomic_bool touched; /* the driver was called in this process: a child of it cannot use a GPU */

enum tb_status tb_gpus_status(void) { return (enum tb_status)atomic_load_explicit(&status, memory_order_relaxed); }

bool tb_gpus_are_open(void) { return atomic_load_explicit(&is_open, memory_order_relaxed); }

void tb_gpus_describe(char *text, size_t size) { snprintf(text, size, "%s", description); }

double tb_gpus_open_seconds(void) { return open_seconds; }

/* ---- opening ---- */

/* The threads that the process may run, at most as many as it takes to fill the link. */
static int copying_threads(void) {
  cpu_set_t set;
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return cores < COPYING_THREADS_MAX ? cores : COPYING_THREADS_MAX;
}

/* The next number of a list such as "0,2"; -1 at its end or where it is not a list of numbers. */
static int next_ordinal(const char **list) {
  while (**list == ',' || isspace((unsigned char)**list)) (*list)++;
  if (!isdigit((unsigned char)**list)) return -1;
  char *end;
  long ordinal = strtol(*list, &end, 10);
  *list = end;
  return ordinal <= 1023 ? (int)ordinal : 1023;
}

/* The first usable one of those that TILEBLAS_DEVICES allows. */
static enum tb_status open_first(char *detail, size_t detail_size) {
  int count;
  enum tb_status result = tb_device_count(&count, detail, detail_size);
  if (result != TB_STATUS_gpu_sooner) return result;
  char allowed[TB_OPTION_TEXT_MAX];
  tb_option_text(TB_OPTION_devices, allowed);
  snprintf(detail, detail_size, "TILEBLAS_DEVICES=%.100s names none of the %d GPUs", allowed, count);
  result = TB_STATUS_no_device;
  const char *list = allowed;
  bool all = allowed[0] == '\0';
  for (int next = all ? 0 : next_ordinal(&list); next >= 0; next = all ? next + 1 : next_ordinal(&list)) {
    if (next >= count) {
      if (all) break;
      continue;
    }
    result = tb_device_open(&device, next, detail, detail_size);
    if (result == TB_STATUS_gpu_sooner) break;
  }
  return result;
}

static void open_gpus(void) {
  char detail[160] = "";
  atomic_store(&touched, true);
  tb_cuda_failed_call = NULL;
  const double begun = tb_clock_seconds();
  enum tb_status opened = open_first(detail, sizeof detail);
  if (opened == TB_STATUS_gpu_sooner) {
    device.pool = pool = tb_pool_open(copying_threads());
    snprintf(description, sizeof description, "GPU %d, %s, %d SMs, driver for CUDA %d.%d", device.ordinal, device.name,
             device.sm_count, device.driver_version / 1000, device.driver_version % 1000 / 10);
    open_seconds = tb_clock_seconds() - begun;
    atomic_store(&is_open, true);
  } else {
    snprintf(description, sizeof description, "%s: %s", tb_status_text(opened), detail);
    atomic_store(&status, opened);
  }
}

struct tb_device *tb_gpus_open(void) {
  if (!tb_gpus_are_open() && tb_gpus_status() == TB_STATUS_gpu_sooner) open_gpus();
  return tb_gpus_are_open() ? &device : NULL;
}

/* ---- closing ---- */

void tb_gpus_close(enum tb_status why) {
  if (!tb_gpus_are_open()) return;
  atomic_store(&is_open, false);
  atomic_store(&status, why);
  tb_device_close(&device);
  tb_pool_close(pool);
  pool = NULL;
}

void tb_gpus_give_up(struct tb_device *d, const char *failure) {
  snprintf(description, sizeof description, "GPU %d, %.90s, given up after %.120s", d->ordinal, d->name, failure);
  tb_gpus_close(TB_STATUS_gpu_lost);
}

/* Without this, the child would use handles that mean nothing in its process. */
void tb_gpus_after_fork(void) {
  tb_cuda_after_fork();
  if (!atomic_load(&touched)) return;
  tb_places_after_fork();
  atomic_store(&is_open, false);
  atomic_store(&status, TB_STATUS_forked);
  snprintf(description, sizeof description, "%s", tb_status_text(TB_STATUS_forked));
}
