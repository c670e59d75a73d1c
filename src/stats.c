/* SPDX-License-Identifier: BSD-3-Clause */
#include "stats.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fallback.h"
#include "log.h"
#include "offload.h"
#include "options.h"

/* flops, bytes and nanoseconds are whole numbers, so that one atomic addition suffices for each. */
struct sums {
  atomic_ullong calls, flops, bytes, nanoseconds;
};

static struct sums sums[TB_WHERE_COUNT][TB_STATUS_COUNT];
static atomic_ullong symbol_calls[TB_SYMBOL_COUNT];
static atomic_ullong failures;

static void add(atomic_ullong *sum, unsigned long long n) { atomic_fetch_add_explicit(sum, n, memory_order_relaxed); }

static unsigned long long get(const atomic_ullong *sum) { return atomic_load_explicit(sum, memory_order_relaxed); }

void tb_stats_add(enum tb_symbol symbol, enum tb_where where, enum tb_status why, double flops, double bytes,
                  double seconds) {
  struct sums *s = &sums[where][why];
  add(&symbol_calls[symbol], 1);
  add(&s->calls, 1);
  add(&s->flops, (unsigned long long)flops);
  if (bytes > 0) add(&s->bytes, (unsigned long long)bytes);
  if (seconds > 0) add(&s->nanoseconds, (unsigned long long)(seconds * 1e9));
}

void tb_stats_add_failure(void) { add(&failures, 1); }

void tb_stats_get(tileblas_stats *stats) {
  memset(stats, 0, sizeof *stats);
  for (int why = 0; why < TB_STATUS_COUNT; why++) {
    const struct sums *gpu = &sums[TB_GPU][why], *cpu = &sums[TB_CPU][why];
    stats->gpu_calls += get(&gpu->calls);
    stats->gpu_flops += (double)get(&gpu->flops);
    stats->gpu_bytes += (double)get(&gpu->bytes);
    stats->gpu_seconds += 1e-9 * (double)get(&gpu->nanoseconds);
    stats->cpu_calls += get(&cpu->calls);
    stats->cpu_flops += (double)get(&cpu->flops);
    stats->cpu_seconds += 1e-9 * (double)get(&cpu->nanoseconds);
  }
  stats->gpu_failures = get(&failures);
}

void tb_stats_reset(void) {
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    for (int why = 0; why < TB_STATUS_COUNT; why++) {
      struct sums *s = &sums[where][why];
      atomic_store(&s->calls, 0);
      atomic_store(&s->flops, 0);
      atomic_store(&s->bytes, 0);
      atomic_store(&s->nanoseconds, 0);
    }
  }
  for (int symbol = 0; symbol < TB_SYMBOL_COUNT; symbol++) atomic_store(&symbol_calls[symbol], 0);
  atomic_store(&failures, 0);
}

static void report_symbols(int fd) {
  char line[512];
  size_t length = 0;
  for (int symbol = 0; symbol < TB_SYMBOL_COUNT; symbol++) {
    unsigned long long calls = get(&symbol_calls[symbol]);
    if (calls == 0) continue;
    int n = snprintf(line + length, sizeof line - length, " %s=%llu", tb_symbols[symbol].name, calls);
    if (n < 0 || (size_t)n >= sizeof line - length) break;
    length += (size_t)n;
  }
  line[length] = '\0';
  tb_say_to(fd, "symbols%s", line);
}

void tb_stats_report(int fd) {
  tileblas_stats total;
  tb_stats_get(&total);
  if (total.gpu_calls + total.cpu_calls == 0) return;
  tb_say_to(fd, "report pid %ld", (long)getpid());
  char described[256];
  tb_offload_describe(described, sizeof described);
  tb_say_to(fd, "gpu: %s", described);
  tb_fallback_describe(described, sizeof described);
  tb_say_to(fd, "cpu: %s", described);
  report_symbols(fd);
  tb_say_to(fd, "  %-6s%-46s%12s%14s%12s%12s%10s", "route", "why", "calls", "GFLOP", "MB moved", "seconds", "TFLOP/s");
  for (int where = TB_WHERE_COUNT - 1; where >= 0; where--) {
    for (int why = 0; why < TB_STATUS_COUNT; why++) {
      const struct sums *s = &sums[where][why];
      unsigned long long calls = get(&s->calls);
      if (calls == 0) continue;
      double flops = (double)get(&s->flops), seconds = 1e-9 * (double)get(&s->nanoseconds);
      tb_say_to(fd, "  %-6s%-46s%12llu%14.3f%12.3f%12.6f%10.3f", where == TB_GPU ? "gpu" : "cpu",
                tb_status_text((enum tb_status)why), calls, flops * 1e-9, (double)get(&s->bytes) * 1e-6, seconds,
                seconds > 0 ? flops / seconds * 1e-12 : 0.0);
    }
  }
  if (total.gpu_failures > 0)
    tb_say_to(fd, "  calls during which a GPU failed: %llu", (unsigned long long)total.gpu_failures);
}

void tb_stats_report_at_exit(void) {
  if (!tb_option_number(TB_OPTION_report)) return;
  char where[TB_OPTION_TEXT_MAX];
  tb_option_text(TB_OPTION_report, where);
  if (strcmp(where, "0") == 0) return;
  if (strcmp(where, "1") == 0) {
    tb_stats_report(STDERR_FILENO);
    return;
  }
  int fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) {
    tb_warn("the report cannot be written to %.500s", where);
    return;
  }
  tb_stats_report(fd);
  close(fd);
}
