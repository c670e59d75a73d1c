/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happened to the calls: sums by route and by reason, calls by symbol, and the report made of them. Thread-safe,
 * lock-free.
 */
#ifndef TB_STATS_H
#define TB_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"
#include "symbols.h"
#include "tileblas.h"

enum tb_where { TB_CPU, TB_GPU, TB_WHERE_COUNT };

/* Adds one call. seconds = 0: it was not timed. */
void tb_stats_add(enum tb_symbol symbol, enum tb_where where, enum tb_status why, double flops, double bytes,
                  double seconds);

/* Counts a call during which a GPU failed, on top of tb_stats_add. */
void tb_stats_add_failure(void);

void tb_stats_get(tileblas_stats *stats);
void tb_stats_reset(void);

/* Prints the report: nothing when there was no call. */
void tb_stats_report(int fd);

/* Prints the report where TILEBLAS_REPORT says, if it does. */
void tb_stats_report_at_exit(void);

#endif
