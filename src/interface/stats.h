/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happened to the calls: sums by route and by reason, calls by symbol, and the report made of them. Thread-safe,
 * lock-free.
 */
#ifndef TB_STATS_H
#define TB_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/inline.h"
#include "base/status.h"
#include "blas/symbols.h"
#include "base/thread.h"
#include "cache/proof.h"
#include "tileblas.h"

/* Adds one call, and has the thread get its small sums. seconds = 0: it was not timed. */
void tb_stats_add(enum tb_symbol symbol, enum tb_where where, enum tb_status why, double flops, double bytes,
                  double seconds);

/*
 * The sums of the small calls of one thread, which alone writes them: it needs no atomic addition, and waits for
 * nobody. They only ever grow; tb_stats_reset remembers where they stood.
 */
struct tb_small_sums {
  atomic_ullong calls[TB_SYMBOL_COUNT], flops;
} __attribute__((aligned(128)));

/* Adds one untimed call that the CPU answers to one of the thread's sums. */
TB_ALWAYS_INLINE void tb_stats_add_small(struct tb_small_sums *sums, enum tb_symbol symbol, uint64_t flops) {
  unsigned long long calls = atomic_load_explicit(&sums->calls[symbol], memory_order_relaxed);
  unsigned long long so_far = atomic_load_explicit(&sums->flops, memory_order_relaxed);
  atomic_store_explicit(&sums->calls[symbol], calls + 1, memory_order_relaxed);
  atomic_store_explicit(&sums->flops, so_far + flops, memory_order_relaxed);
}

/* Counts a call during which a GPU failed, on top of tb_stats_add. */
void tb_stats_add_failure(void);

/* Counts a call for which operands, A and B, were on the GPU that others would have had to bring up, likewise. */
void tb_stats_add_kept(double saved_bytes, const enum tb_proof proof[2]);

void tb_stats_get(tileblas_stats *stats);
void tb_stats_reset(void);

/* Prints the report: nothing when there was no call. */
void tb_stats_report(int fd);

/* Prints the report where TILEBLAS_REPORT says, if it does. */
void tb_stats_report_at_exit(void);

#endif
