/* SPDX-License-Identifier: BSD-3-Clause */
/* The two halves of the kernel benchmark: kernels.c (options, speed) and accuracy.c. Not thread-safe. */
#ifndef TB_BENCH_KERNELS_BENCH_H
#define TB_BENCH_KERNELS_BENCH_H

#include "work.h"

#include <stdio.h>

/* "128x128", "128x128/4" or "emulated/2", as tb_choice_describe writes it; TB_FAMILY_NONE: no kernel is called so. The
 * rest of such a choice is the product's: tb_bench_complete. */
struct tb_choice tb_bench_parse_choice(const char *text);

/* The error of C on all kinds of data for n x n results and several k (short_list: the two smallest), beside cuBLAS and
 * OpenBLAS; returns 0 when a result of ours was wrong. `forced`: ours computed in this way, where it can be;
 * TB_FAMILY_NONE: see accuracy.c. csv may be NULL. */
int tb_bench_accuracy(const struct tb_bench *bench, int n, bool short_list, const struct tb_choice *forced, FILE *csv);

#endif
