/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of both sides in turn, as programs make them whose products are of many sizes: what a call on the GPU takes
 * right behind one of the CPU BLAS, whose threads still look for work, and what one of the CPU BLAS takes right behind
 * one on the GPU, whose copying threads do.
 *
 *   mixed [--csv FILE] [--rounds N]
 *
 * Linked with OpenBLAS and run with TileBLAS preloaded, which is forced to the GPU. Operands are plain malloc'd memory;
 * every GPU shape's result is checked. Status 1: a wrong result or a failure; 77: no GPU answers.
 */
#include "sides.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 101, SKIPPED = 77, LATER_US = 50000 };

/* What comes before the call that is timed. */
enum before { ANOTHER, OTHER_SIDE, OTHER_SIDE_EARLIER, BEFORE_COUNT };

static double seconds_of(tb_gemm *side, const struct tb_problem *p) {
  const double begun = tb_now_s();
  tb_problem_compute(p, side);
  return tb_now_s() - begun;
}

/* The median of calls of `side`, each with this before it. */
static double median(tb_gemm *side, const struct tb_problem *p, enum before before, tb_gemm *other,
                     const struct tb_problem *of, int rounds) {
  double took[ROUNDS_MAX];
  for (int round = 0; round < rounds; round++) {
    if (before == ANOTHER) seconds_of(side, p);
    if (before != ANOTHER) seconds_of(other, of);
    if (before == OTHER_SIDE_EARLIER) usleep(LATER_US);
    took[round] = seconds_of(side, p);
  }
  return tb_median(took, rounds);
}

static int measure(FILE *csv, const char *name, tb_gemm *side, int m, int n, int k, tb_gemm *other,
                   const struct tb_problem *of, int rounds) {
  const struct tb_problem p = tb_problem_make(TB_S, 0, 0, m, n, k);
  double us[BEFORE_COUNT];
  for (int before = 0; before < BEFORE_COUNT; before++)
    us[before] = median(side, &p, (enum before)before, other, of, rounds) * 1e6;
  const int right = tb_problem_is_right(&p);
  tb_problem_free(&p);
  if (!right) return fprintf(stderr, "%dx%dx%d: WRONG RESULT\n", m, n, k), 0;
  printf("%s %5d %5d %5d  behind its like %9.1f us  behind the other side %9.1f us  50 ms behind it %9.1f us\n", name,
         m, n, k, us[ANOTHER], us[OTHER_SIDE], us[OTHER_SIDE_EARLIER]);
  if (csv)
    fprintf(csv, "%s,%d,%d,%d,%.1f,%.1f,%.1f\n", name, m, n, k, us[ANOTHER], us[OTHER_SIDE], us[OTHER_SIDE_EARLIER]);
  return 1;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"csv", 1, 0, 'c'}, {"rounds", 1, 0, 'r'}, {0, 0, 0, 0}};
  static const int on_gpu[][3] = {{256, 256, 256},   {512, 512, 512},  {1024, 1024, 1024},
                                  {1550, 1694, 943}, {75, 7743, 7116}, {4096, 4096, 4096}};
  static const int on_cpu[] = {64, 128, 256, 512};
  const char *path = NULL;
  int rounds = 21;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == '?') return 2;
    if (o == 'c') path = optarg;
    if (o == 'r') rounds = atoi(optarg);
  }
  if (rounds < 1 || rounds > ROUNDS_MAX) return 2;
  tb_sides_find(TB_S);
  tb_sides_route("gpu");
  const struct tb_problem of_cpu = tb_problem_make(TB_S, 0, 0, 1024, 1024, 1024);
  const struct tb_problem of_gpu = tb_problem_make(TB_S, 0, 0, 1024, 1024, 1024);
  seconds_of(tb_ours, &of_gpu);
  if (tb_sides_gpu_calls() == 0) return puts("no GPU answers"), SKIPPED;
  FILE *csv = path ? fopen(path, "w") : NULL;
  if (path && !csv) return perror(path), EXIT_FAILURE;
  if (csv) fprintf(csv, "side,m,n,k,alone_us,behind_us,later_us\n");
  int right = 1;
  for (size_t i = 0; i < sizeof on_gpu / sizeof *on_gpu; i++)
    right &= measure(csv, "gpu", tb_ours, on_gpu[i][0], on_gpu[i][1], on_gpu[i][2], tb_openblas, &of_cpu, rounds);
  for (size_t i = 0; i < sizeof on_cpu / sizeof *on_cpu; i++)
    right &= measure(csv, "cpu", tb_openblas, on_cpu[i], on_cpu[i], on_cpu[i], tb_ours, &of_gpu, rounds);
  tb_problem_free(&of_cpu);
  tb_problem_free(&of_gpu);
  if (csv && fclose(csv) != 0) return perror(path), EXIT_FAILURE;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
