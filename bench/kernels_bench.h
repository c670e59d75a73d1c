/* SPDX-License-Identifier: BSD-3-Clause */
/* The two halves of the kernel benchmark: kernels.c (options, speed) and accuracy.c. Not thread-safe. */
#ifndef TB_BENCH_KERNELS_BENCH_H
#define TB_BENCH_KERNELS_BENCH_H

#include "work.h"

#include <stdio.h>

/* "128x128" or "128x128/4", as tb_choice_describe writes it; TB_FAMILY_NONE: no kernel is called so. */
struct tb_choice tb_bench_parse_choice(const char *text);

/* The error of C on the five kinds of data for n x n results and several k, beside cuBLAS and OpenBLAS; returns 0 when
 * a result of ours was wrong. `forced`: computed in this way; TB_FAMILY_NONE: as the library chooses. csv may be NULL.
 */
int tb_bench_accuracy(const struct tb_bench *bench, int n, const struct tb_choice *forced, FILE *csv);

#endif
