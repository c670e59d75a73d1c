/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The router's regret: random products, each left to the router and forced to either side in turn, and computed by
 * OpenBLAS itself without us, that twice: what two measurements of the same thing differ by is no regret.
 *
 *   route [--csv FILE] [--type s|d|c|z] [--shapes N] [--most SIDE] [--seconds SECONDS]
 *
 * Linked with OpenBLAS and run with TileBLAS preloaded. One process: the GPU is opened and both sides are measured
 * before the first shape (that is what `calls` and the first line here show). Then, for each shape, some calls are left
 * to the router so that it can learn, and after them the five ways take turns, so that no drift of clocks favours one.
 * A turn is some calls in a row, as programs make them, and begins with some that are not timed: what the threads of
 * the way before do for some milliseconds more, and whether this one's are awake, is none of a way's doing. Forced
 * calls teach the router nothing. Operands are plain malloc'd memory; results of the router's and the GPU's
 * calls are checked. Status 1: a wrong result or a failure; 77: no GPU answers.
 *
 * All shapes together take about so many seconds: each is given its share of what the ones before have left, a quarter
 * of it to learn in, half for the turns, and the rest for its operands and the check.
 */
#include "sides.h"

#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum way { OPENBLAS, AUTO, OPENBLAS_AGAIN, CPU, GPU, WAYS };
static const char *const route_of_way[WAYS] = {[AUTO] = "auto", [CPU] = "cpu", [GPU] = "gpu"};

static int is_openblas(enum way way) { return way == OPENBLAS || way == OPENBLAS_AGAIN; }

enum { LEAST_SIDE = 8, LEARNING_CALLS = 40, ROUNDS_MIN = 3, ROUNDS_MAX = 25, SKIPPED = 77 };
static const double sample_seconds = 1e-3; /* shorter calls are timed several at once */

struct result {
  double seconds[WAYS]; /* medians */
  int rounds, first_gpu;
  double gpu_share; /* of the router's calls once it had learned */
};

static void take_way(enum way way) {
  if (!is_openblas(way)) tb_sides_route(route_of_way[way]);
}

/* Seconds of one call, from `times` of them. */
static double time_way(const struct tb_problem *p, enum way way, int times) {
  take_way(way);
  const double begun = tb_now_s();
  for (int i = 0; i < times; i++) tb_problem_compute(p, is_openblas(way) ? tb_openblas : tb_ours);
  return (tb_now_s() - begun) / times;
}

/* So many calls are a sample; and so many come before it. */
static int times_for(double seconds) { return seconds >= sample_seconds ? 1 : (int)ceil(sample_seconds / seconds); }
static int times_before(int times) { return (times + 1) / 2; }

static struct result measure(const struct tb_problem *p, double share_s) {
  static double took[WAYS][ROUNDS_MAX];
  struct result r = {.first_gpu = 0};
  uint64_t before = tb_sides_gpu_calls();
  time_way(p, AUTO, 1);
  r.first_gpu = tb_sides_gpu_calls() > before;
  double deadline = tb_now_s() + share_s / 4;
  for (int i = 1; i < LEARNING_CALLS && (i < ROUNDS_MIN || tb_now_s() < deadline); i++) time_way(p, AUTO, 1);
  int times[WAYS];
  for (int way = 0; way < WAYS; way++) times[way] = times_for(time_way(p, (enum way)way, 1));
  deadline = tb_now_s() + share_s / 2;
  uint64_t router_calls = 0, router_gpu_calls = 0;
  while (r.rounds < ROUNDS_MIN || (r.rounds < ROUNDS_MAX && tb_now_s() < deadline)) {
    for (int turn = 0; turn < WAYS; turn++) {
      const enum way way = (enum way)((turn + r.rounds) % WAYS);
      time_way(p, way, times_before(times[way]));
      before = tb_sides_gpu_calls();
      took[way][r.rounds] = time_way(p, way, times[way]);
      if (way != AUTO) continue;
      router_calls += (uint64_t)times[way];
      router_gpu_calls += tb_sides_gpu_calls() - before;
    }
    r.rounds++;
  }
  for (int way = 0; way < WAYS; way++) r.seconds[way] = tb_median(took[way], r.rounds);
  r.gpu_share = (double)router_gpu_calls / (double)router_calls;
  return r;
}

static int is_right(const struct tb_problem *p, enum way way) {
  tb_problem_spoil(p);
  time_way(p, way, 1);
  return tb_problem_is_right(p);
}

/* Log-uniform in [LEAST_SIDE, most], from the high bits of a 64-bit linear congruential generator (Knuth's MMIX
 * constants). */
static int next_side(uint64_t *state, int most) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  const double unit = (double)(*state >> 11) / 9007199254740992.0;
  return (int)lround(LEAST_SIDE * exp2(unit * log2((double)most / LEAST_SIDE)));
}

static struct tb_problem make_problem(enum tb_type type, int number, uint64_t *state, int most) {
  const int m = next_side(state, most), n = next_side(state, most), k = next_side(state, most);
  return tb_problem_make(type, number & 1, number >> 1 & 1, m, n, k); /* all four pairs in turn */
}

static void write_row(FILE *csv, const struct tb_problem *p, const struct result *r) {
  const double best = fmin(r->seconds[CPU], r->seconds[GPU]);
  printf("%c%c %5d %5d %5d  openblas %9.1f  auto %9.1f  cpu %9.1f  gpu %9.1f us  to the gpu %3.0f %%  regret %6.3f\n",
         "NT"[p->ta], "NT"[p->tb], p -> m, p -> n, p -> k, r -> seconds[OPENBLAS] * 1e6, r -> seconds[AUTO] * 1e6,
         r -> seconds[CPU] * 1e6, r -> seconds[GPU] * 1e6, 100 * r -> gpu_share, r -> seconds[AUTO] / best - 1);
  fflush(stdout);
  if (!csv) return;
  fprintf(csv, "%c,%c,%d,%d,%d,%d,%.9f,%.9f,%.9f,%.9f,%.9f,%.4f,%d\n", "NT"[p->ta], "NT"[p->tb], p -> m, p -> n, p -> k,
          r -> rounds, r -> seconds[OPENBLAS], r -> seconds[OPENBLAS_AGAIN], r -> seconds[AUTO], r -> seconds[CPU],
          r -> seconds[GPU], r -> gpu_share, r -> first_gpu);
  fflush(csv);
}

/* The router opens the GPU and measures: within how many calls of a large product, and how long the last one takes. A
 * router that does not want it all the same gets it forced upon it. False: no GPU answers. */
static int open_gpu(enum tb_type type, int most) {
  enum { CALLS_MAX = 20 };
  const int side = most < 4096 ? most : 4096;
  const struct tb_problem p = tb_problem_make(type, 0, 0, side, side, side);
  int calls = 0;
  double seconds = 0;
  while (tb_sides_gpu_calls() == 0 && calls < CALLS_MAX) seconds = time_way(&p, AUTO, 1), calls++;
  if (tb_sides_gpu_calls() > 0)
    printf("call %d of %d cubed opened the GPU, measured both sides and computed in %.3f s\n", calls, p.m, seconds);
  else
    printf("no call of %d cubed was sent to the GPU: forced, it took %.3f s\n", p.m, time_way(&p, GPU, 1));
  tb_problem_free(&p);
  return tb_sides_gpu_calls() > 0;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"csv", 1, 0, 'c'},     {"shapes", 1, 0, 's'}, {"most", 1, 0, 'm'},
                                          {"seconds", 1, 0, 'S'}, {"type", 1, 0, 't'},   {0, 0, 0, 0}};
  enum tb_type type = TB_S;
  const char *path = NULL;
  int shapes = 200, most = 8192;
  double seconds = 240;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == '?' || (o == 't' && !tb_type_parse(optarg, &type))) return 2;
    if (o == 'c') path = optarg;
    if (o == 's') shapes = atoi(optarg);
    if (o == 'm') most = atoi(optarg);
    if (o == 'S') seconds = atof(optarg);
  }
  tb_sides_find(type);
  FILE *csv = path ? fopen(path, "w") : NULL;
  if (path && !csv) return perror(path), EXIT_FAILURE;
  if (csv) fprintf(csv, "ta,tb,m,n,k,rounds,openblas_s,openblas_again_s,auto_s,cpu_s,gpu_s,gpu_share,first_gpu\n");
  if (!open_gpu(type, most)) return puts("no GPU answers"), SKIPPED;
  const double end = tb_now_s() + seconds;
  uint64_t state = 20261121;
  int wrong = 0;
  for (int i = 0; i < shapes; i++) {
    const struct tb_problem p = make_problem(type, i, &state, most);
    const struct result r = measure(&p, (end - tb_now_s()) / (shapes - i));
    const int right = is_right(&p, AUTO) && is_right(&p, GPU);
    if (right) write_row(csv, &p, &r);
    if (!right) fprintf(stderr, "%dx%dx%d: WRONG RESULT\n", p.m, p.n, p.k), wrong++;
    tb_problem_free(&p);
  }
  if (csv && fclose(csv) != 0) return perror(path), EXIT_FAILURE;
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
