/* SPDX-License-Identifier: BSD-3-Clause */
#include "interface/stats.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu/fallback.h"
#include "base/log.h"
#include "offload/offload.h"
#include "base/options.h"

/* flops, bytes and nanoseconds are whole numbers, so that one atomic addition suffices for each. */
struct sums {
  atomic_ullong calls, flops, bytes, nanoseconds;
};

static struct sums sums[TB_WHERE_COUNT][TB_STATUS_COUNT];
static atomic_ullong symbol_calls[TB_SYMBOL_COUNT];
static atomic_ullong failures;
/* For which operands were kept on the GPU, such of which pieces went up, and the bytes that did not. */
static atomic_ullong kept_calls, mended_calls, grown_calls, saved_bytes;

static void add(atomic_ullong *sum, unsigned long long n) { atomic_fetch_add_explicit(sum, n, memory_order_relaxed); }

static unsigned long long get(const atomic_ullong *sum) { return atomic_load_explicit(sum, memory_order_relaxed); }

/* ---- small calls ---- */

/* Sums are given to threads for good: a thread that ends leaves what it counted, and nobody has to hear of its end. The
 * threads behind the last go the long way with every call. */
#define SMALL_THREADS 1024
static struct tb_small_sums small[SMALL_THREADS][2]; /* as small_why has them */
static struct tb_small_sums small_at_reset[2];       /* of all threads together */
static atomic_int small_given;

static const enum tb_status small_why[2] = {TB_STATUS_small, TB_STATUS_forced_cpu};

static void take_small_sums(void) {
  if (atomic_load_explicit(&small_given, memory_order_relaxed) >= SMALL_THREADS) return;
  int number = atomic_fetch_add_explicit(&small_given, 1, memory_order_relaxed);
  if (number < SMALL_THREADS) tb_thread.small_sums = small[number];
}

/* Of all threads, since the process began. */
static unsigned long long small_total(size_t offset) {
  unsigned long long total = 0;
  int given = atomic_load(&small_given);
  for (int i = 0; i < given && i < SMALL_THREADS; i++)
    total += get((const atomic_ullong *)((const char *)small[i] + offset));
  return total;
}

/* Since the last reset. What stood then is read first: totals grow, so that the difference cannot be negative. */
static unsigned long long small_since_reset(size_t offset) {
  unsigned long long then =
      atomic_load_explicit((atomic_ullong *)((char *)small_at_reset + offset), memory_order_acquire);
  return small_total(offset) - then;
}

static size_t calls_offset(int which, int symbol) {
  return (size_t)which * sizeof(struct tb_small_sums) + offsetof(struct tb_small_sums, calls) +
         (size_t)symbol * sizeof(atomic_ullong);
}

static size_t flops_offset(int which) {
  return (size_t)which * sizeof(struct tb_small_sums) + offsetof(struct tb_small_sums, flops);
}

static void reset_small_sum(size_t offset) {
  atomic_store_explicit((atomic_ullong *)((char *)small_at_reset + offset), small_total(offset), memory_order_release);
}

static void reset_small(void) {
  for (int which = 0; which < 2; which++) {
    for (int symbol = 0; symbol < TB_SYMBOL_COUNT; symbol++) reset_small_sum(calls_offset(which, symbol));
    reset_small_sum(flops_offset(which));
  }
}

/* ---- all calls ---- */

void tb_stats_add(enum tb_symbol symbol, enum tb_where where, enum tb_status why, double flops, double bytes,
                  double seconds) {
  struct sums *s = &sums[where][why];
  if (tb_thread.small_sums == NULL) take_small_sums();
  add(&symbol_calls[symbol], 1);
  add(&s->calls, 1);
  add(&s->flops, (unsigned long long)flops);
  if (bytes > 0) add(&s->bytes, (unsigned long long)bytes);
  if (seconds > 0) add(&s->nanoseconds, (unsigned long long)(seconds * 1e9));
}

/* What one route and reason comes to. */
struct row {
  unsigned long long calls;
  double flops, bytes, seconds;
};

static struct row row_of(int where, int why) {
  const struct sums *s = &sums[where][why];
  struct row row = {get(&s->calls), (double)get(&s->flops), (double)get(&s->bytes),
                    1e-9 * (double)get(&s->nanoseconds)};
  for (int which = 0; which < 2; which++) {
    if (where != TB_CPU || why != (int)small_why[which]) continue;
    for (int symbol = 0; symbol < TB_SYMBOL_COUNT; symbol++)
      row.calls += small_since_reset(calls_offset(which, symbol));
    row.flops += (double)small_since_reset(flops_offset(which));
  }
  return row;
}

static unsigned long long calls_through(int symbol) {
  return get(&symbol_calls[symbol]) + small_since_reset(calls_offset(0, symbol)) +
         small_since_reset(calls_offset(1, symbol));
}

void tb_stats_add_failure(void) { add(&failures, 1); }

void tb_stats_add_kept(double bytes, const enum tb_proof proof[2]) {
  add(&kept_calls, 1);
  if (tb_proof_is_any(proof, TB_MENDED)) add(&mended_calls, 1);
  if (tb_proof_is_any(proof, TB_GROWN)) add(&grown_calls, 1);
  add(&saved_bytes, (unsigned long long)bytes);
}

void tb_stats_get(tileblas_stats *stats) {
  memset(stats, 0, sizeof *stats);
  for (int why = 0; why < TB_STATUS_COUNT; why++) {
    const struct row gpu = row_of(TB_GPU, why), cpu = row_of(TB_CPU, why);
    stats->gpu_calls += gpu.calls;
    stats->gpu_flops += gpu.flops;
    stats->gpu_bytes += gpu.bytes;
    stats->gpu_seconds += gpu.seconds;
    stats->cpu_calls += cpu.calls;
    stats->cpu_flops += cpu.flops;
    stats->cpu_seconds += cpu.seconds;
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
  atomic_store(&kept_calls, 0);
  atomic_store(&mended_calls, 0);
  atomic_store(&grown_calls, 0);
  atomic_store(&saved_bytes, 0);
  reset_small();
}

/* As many to a line as keep it within the width of the rows, and at least one line. */
static void report_symbols(int fd) {
  char line[104] = "";
  for (int symbol = 0; symbol < TB_SYMBOL_COUNT; symbol++) {
    char one[64]; /* a name and 20 digits at most */
    const unsigned long long calls = calls_through(symbol);
    if (calls == 0) continue;
    snprintf(one, sizeof one, " %.*s=%llu", (int)sizeof tb_symbols->name, tb_symbols[symbol].name, calls);
    if (strlen(line) + strlen(one) >= sizeof line) {
      tb_say_to(fd, "symbols%s", line);
      line[0] = '\0';
    }
    strcat(line, one);
  }
  tb_say_to(fd, "symbols%s", line);
}

void tb_stats_report(int fd) {
  tileblas_stats total;
  tb_stats_get(&total);
  if (total.gpu_calls + total.cpu_calls == 0) return;
  tb_say_to(fd, "report pid %ld", (long)getpid());
  char described[TB_LOG_TEXT_MAX];
  tb_offload_describe(described, sizeof described);
  tb_say_to(fd, "gpu: %s", described);
  tb_fallback_describe(described, sizeof described);
  tb_say_to(fd, "cpu: %s", described);
  report_symbols(fd);
  tb_say_to(fd, "  %-6s%-46s%12s%14s%12s%12s%10s", "route", "why", "calls", "GFLOP", "MB moved", "seconds", "TFLOP/s");
  for (int where = TB_WHERE_COUNT - 1; where >= 0; where--) {
    for (int why = 0; why < TB_STATUS_COUNT; why++) {
      const struct row row = row_of(where, why);
      if (row.calls == 0) continue;
      tb_say_to(fd, "  %-6s%-46s%12llu%14.3f%12.3f%12.6f%10.3f", where == TB_GPU ? "gpu" : "cpu",
                tb_status_text((enum tb_status)why), row.calls, row.flops * 1e-9, row.bytes * 1e-6, row.seconds,
                row.seconds > 0 ? row.flops / row.seconds * 1e-12 : 0.0);
    }
  }
  if (get(&kept_calls) > 0)
    tb_say_to(fd, "  calls whose operands a GPU had kept: %llu, of which %.3f MB were not moved again",
              get(&kept_calls), (double)get(&saved_bytes) * 1e-6);
  if (get(&mended_calls) > 0)
    tb_say_to(fd, "  of these, with pieces that went up again, for they had been written: %llu", get(&mended_calls));
  if (get(&grown_calls) > 0)
    tb_say_to(fd, "  of these, with the rest of an operand of which the beginning was there: %llu", get(&grown_calls));
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
