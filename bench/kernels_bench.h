/* SPDX-License-Identifier: BSD-3-Clause */
/* The two halves of the kernel benchmark: kernels.c (options, speed) and accuracy.c. Not thread-safe. */
#ifndef TB_BENCH_KERNELS_BENCH_H
#define TB_BENCH_KERNELS_BENCH_H

#include "gpu.h"
#include "kernels.h"
#include "peers/nvidia.h"

#include <stdio.h>

/* cuBLAS's arithmetic, fp32 twice and TF32. */
enum tb_peer { TB_PEER_PEDANTIC, TB_PEER_DEFAULT, TB_PEER_TF32, TB_PEER_COUNT };
extern const int tb_peer_math[TB_PEER_COUNT];
extern const char *const tb_peer_name[TB_PEER_COUNT];

struct tb_bench {
  struct tb_gpu gpu;
  CUmodule module;
  struct tb_kernels kernels;
  int forced;              /* index of a tile; -1: the library's own choice */
  tb_cublas_handle cublas; /* NULL: peer missing */
  FILE *csv;               /* NULL: none */
};

/* The tile for an m x n result: the forced one, or the library's choice. */
int tb_bench_tile(const struct tb_bench *bench, int m, int n);

/* The error of C on the five kinds of data for n x n results and several k, beside cuBLAS and OpenBLAS; returns 0 when
 * a result of ours was wrong. */
int tb_bench_accuracy(const struct tb_bench *bench, int n);

#endif
