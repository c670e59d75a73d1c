/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of a program that look for work and find none, as OpenMP's and a CPU BLAS's do between two calls. They go
 * where the kernel likes. One set at a time; not thread-safe.
 */
#ifndef TB_BENCH_SPINNERS_H
#define TB_BENCH_SPINNERS_H

#include <stdbool.h>
#include <stdio.h>

enum { TB_SPINNERS_MAX = 1024, TB_ROUNDS_MAX = 2000 };

/* Cores that the process may use. */
int tb_cores(void);

/* Up to four counts, ascending, each once: none, cores / 2, cores - 1, cores. Returns how many. */
int tb_spinner_counts(int counts[4]);

/* Something that is done again and again while so many threads spin. offering: they offer their cores while they look,
 * as OpenBLAS's do; those of GNU OpenMP do not. Between two rounds the caller works for between_s: a thread that wants
 * more than half of a core on which another one spins does not get it. */
struct tb_among {
  int spinners, rounds;
  bool offering;
  double between_s;
  double (*round_seconds)(void *ctx);
  void *ctx;
  double median_s, mean_s, late_s, worst_s; /* of a round; nine of ten take no longer than late_s */
  double theirs;                            /* a spinning thread's share of a core */
  double callers_s;                         /* processor time that a round takes the caller, in the mean */
};

/* The names of what tb_among_print writes to a CSV file, behind those of the caller. */
#define TB_AMONG_COLUMNS "spinners,offering,median_s,mean_s,late_s,worst_s,theirs,callers_s"

/* Fills in the rest, behind ten rounds or as many that do not count. Exits when there are no threads to be had. */
void tb_among_measure(struct tb_among *among);

/* A line behind what the caller has printed of it, here and to the CSV file, if there is one. */
void tb_among_print(const struct tb_among *among, double quiet_s, FILE *csv);

#endif
