/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with an OpenMP runtime, which may bind it: makes a product, and prints how many threads that has started.
 */
#include <dirent.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
            const int *, const float *, const int *, const float *, float *, const int *);

static int threads(void) {
  int count = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && readdir(tasks)) count++;
  closedir(tasks);
  return count;
}

int main(void) {
  const int n = 400;
  const float one = 1, zero = 0;
  float *x = calloc(3 * (size_t)n * n, sizeof *x);
  const int before = threads(), processors = omp_get_num_procs();
  sgemm_("N", "N", &n, &n, &n, &one, x, &n, x + n * n, &n, &zero, x + 2 * n * n, &n);
  printf("processors=%d more=%d\n", processors, threads() - before);
  return 0;
}
