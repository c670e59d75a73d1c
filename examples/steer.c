/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that looks and steers: the version, an option, and what happened to its calls. */
#include <cblas.h>
#include <stdio.h>
#include <tileblas.h>

int main(void) {
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
  float c[4];
  tileblas_stats stats;
  if (tileblas_option_set("TILEBLAS_ROUTE", "cpu") != 0) return 1;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1.0f, a, 2, b, 2, 0.0f, c, 2);
  tileblas_stats_get(&stats);
  printf("TileBLAS %s: %llu calls on a GPU, %llu on the CPU\n", tileblas_version(), (unsigned long long)stats.gpu_calls,
         (unsigned long long)stats.cpu_calls);
  return c[3] == 50 && stats.cpu_calls == 1 && stats.gpu_calls == 0 ? 0 : 1;
}
