/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sgemm in a program whose other threads spin, as those of OpenMP do between two parallel regions: calls of the shapes
 * while none of them spins, half as many as there are cores, as many as there are beside the caller, and one more.
 * Between two calls the caller works for 2 ms.
 *
 *   spin [--csv FILE [--label WORD]] [--rounds N] [--between SECONDS] [--offering] [NN:MxNxK...]
 *
 * Linked with OpenBLAS and run with TileBLAS preloaded, which is forced to the GPU. Without shapes it takes 1024, 2048
 * and 4096 cubed and what FAISS asks for. Operands are plain malloc'd memory; every shape's result is checked. Status
 * 1: a wrong result or a failure; 77: no GPU answers.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "shapes.h"
#include "sides.h"
#include "spinners.h"

enum { SKIPPED = 77 };

static double call_seconds(void *problem) {
  const double begun = tb_now_s();
  tb_problem_compute(problem, tb_ours);
  return tb_now_s() - begun;
}

static bool measure(FILE *csv, const char *label, const char *text, const struct tb_shape *shape,
                    struct tb_among *among) {
  struct tb_problem p = tb_problem_make(TB_S, shape->ta, shape->tb, shape->m, shape->n, shape->k);
  int counts[4];
  const int length = tb_spinner_counts(counts);
  double quiet_s = 0;
  const uint64_t before = tb_sides_gpu_calls();
  bool right = true;
  among->round_seconds = call_seconds;
  among->ctx = &p;
  for (int i = 0; i < length && right; i++) {
    tb_problem_spoil(&p);
    among->spinners = counts[i];
    tb_among_measure(among);
    right = tb_problem_is_right(&p);
    if (i == 0) quiet_s = among->median_s;
    printf("%-18s", text);
    if (csv) fprintf(csv, "%s,%s,", label, text);
    tb_among_print(among, quiet_s, csv);
  }
  tb_problem_free(&p);
  if (!right) return fprintf(stderr, "%s: WRONG RESULT\n", text), false;
  if (tb_sides_gpu_calls() - before >= (uint64_t)(length * among->rounds)) return true;
  return fprintf(stderr, "%s: not all by the GPU\n", text), false;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"csv", 1, 0, 'c'},     {"label", 1, 0, 'l'},    {"rounds", 1, 0, 'r'},
                                          {"between", 1, 0, 'b'}, {"offering", 0, 0, 'o'}, {0, 0, 0, 0}};
  static char *const usual[] = {"NN:1024x1024x1024", "NN:2048x2048x2048", "NN:4096x4096x4096", "TN:1024x4096x768"};
  struct tb_among among = {.rounds = 101, .between_s = 2e-3};
  const char *path = NULL, *label = "-";
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == '?') return 2;
    if (o == 'c') path = optarg;
    if (o == 'l') label = optarg;
    if (o == 'r') among.rounds = atoi(optarg);
    if (o == 'b') among.between_s = atof(optarg);
    if (o == 'o') among.offering = true;
  }
  if (among.rounds < 1 || among.rounds > TB_ROUNDS_MAX) return 2;
  char *const *const shapes = optind < argc ? argv + optind : usual;
  const int count = optind < argc ? argc - optind : (int)(sizeof usual / sizeof *usual);
  tb_sides_find(TB_S);
  tb_sides_route("gpu");
  FILE *csv = path ? fopen(path, "a") : NULL;
  if (path && !csv) return perror(path), EXIT_FAILURE;
  if (csv && ftell(csv) == 0) fprintf(csv, "label,shape," TB_AMONG_COLUMNS "\n");
  bool right = true;
  for (int i = 0; i < count; i++) {
    struct tb_shape shape;
    if (!tb_shape_parse(shapes[i], &shape)) return fprintf(stderr, "%s is no shape\n", shapes[i]), 2;
    const struct tb_problem first = tb_problem_make(TB_S, shape.ta, shape.tb, shape.m, shape.n, shape.k);
    tb_problem_compute(&first, tb_ours);
    tb_problem_free(&first);
    if (tb_sides_gpu_calls() == 0) return puts("no GPU answers"), SKIPPED;
    right &= measure(csv, label, shapes[i], &shape, &among);
  }
  if (csv && fclose(csv) != 0) return perror(path), EXIT_FAILURE;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
