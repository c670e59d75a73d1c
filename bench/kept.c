/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sgemm in a program that multiplies by the same matrices again: with operands that stay as they are between calls, and
 * others that are rewritten; with TILEBLAS_CACHE off, with it, with it and operands that the program has chosen
 * (tileblas_keep), and with it where the kernel's word is not enough and all bytes are looked at (TILEBLAS_CACHE is a
 * size, and a ring of io_uring's is open).
 *
 *   kept [--csv FILE] [--rounds N] [NN:MxNxK...]
 *
 * Linked with OpenBLAS and run with TileBLAS preloaded, which is forced to the GPU. Without shapes it takes x @ W, of
 * which W is the column-major call's A, and 4096, 8192 and 16384 cubed. Six first calls do not count. Operands are
 * plain malloc'd memory; results are checked. What is rewritten alike is a process of its own, for of operands that
 * were rewritten before copies are made later. Status 1: a wrong result or a failure; 77: no GPU answers.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shapes.h"
#include "sides.h"
#include "tileblas.h"

enum { SKIPPED = 77, FIRST_CALLS = 6, ROUNDS_MAX = 101 };

/* What is rewritten before each call: nothing, B, both; both before each second one, as the training of a network has
 * its matrices; or of A one element that no sample has. In chains, of squares, nothing is, and each call is followed by
 * one that multiplies its result by B: the time is that of both. The second chain's result is a solution, of A's lower
 * triangle, which is made to be well conditioned, in place of what has B's elements. */
enum change { NOTHING, B_ALONE, BOTH, BOTH_AT_TIMES, ONE_ELEMENT, CHAIN, SOLVED, CHANGES };
static const char *const change_names[CHANGES] = {
    "nothing", "B", "both", "both at times", "one element of A", "nothing; (A B) B", "nothing; (A\\B) B"};

static bool is_chain(enum change change) { return change == CHAIN || change == SOLVED; }

/* How operands are kept. */
enum way { OFF, AUTO, CHOSEN, HASHED, WAYS };
static const char *const way_names[WAYS] = {"off", "auto", "keep", "hash"};

static int ring = -1;

static bool set_way(enum way way) {
  __typeof__(tileblas_option_set) *set = (__typeof__(tileblas_option_set) *)dlsym(RTLD_DEFAULT, "tileblas_option_set");
  char parameters[256] = {0}; /* struct io_uring_params */
  if (ring >= 0) close(ring);
  ring = way == HASHED ? (int)syscall(SYS_io_uring_setup, 1, parameters) : -1;
  if (way == HASHED && ring < 0) return false;
  set("TILEBLAS_CACHE", "off"); /* what the way before has kept is given back with the next call */
  return true;
}

static void set_cache(const char *value) {
  __typeof__(tileblas_option_set) *set = (__typeof__(tileblas_option_set) *)dlsym(RTLD_DEFAULT, "tileblas_option_set");
  set("TILEBLAS_CACHE", value);
}

static bool choose(const struct tb_problem *p) {
  __typeof__(tileblas_keep) *keep = (__typeof__(tileblas_keep) *)dlsym(RTLD_DEFAULT, "tileblas_keep");
  return keep(p->a, sizeof(float) * (uint64_t)p->m * (uint64_t)p->k) == 0 &&
         keep(p->b, sizeof(float) * (uint64_t)p->k * (uint64_t)p->n) == 0;
}

/* What is about to be freed. */
static void leave(const struct tb_problem *p) {
  __typeof__(tileblas_forget) *forget = (__typeof__(tileblas_forget) *)dlsym(RTLD_DEFAULT, "tileblas_forget");
  forget(p->a, sizeof(float) * (uint64_t)p->m * (uint64_t)p->k);
  forget(p->b, sizeof(float) * (uint64_t)p->k * (uint64_t)p->n);
}

static void negate_part(void *data, size_t begin, size_t end) {
  float *const x = data;
  for (size_t i = begin; i < end; i++) x[i] = -x[i];
}

static void change_operands(const struct tb_problem *p, enum change change, int round) {
  const size_t a = (size_t)p->m * (size_t)p->k, b = (size_t)p->k * (size_t)p->n;
  const bool both = change == BOTH || (change == BOTH_AT_TIMES && round % 2 == 0);
  if (both) tb_parallel(a, negate_part, p->a);
  if (both || change == B_ALONE) tb_parallel(b, negate_part, p->b);
  if (change == ONE_ELEMENT) ((float *)p->a)[(a / 3 + 97 * (size_t)round) % a] += 0.125f;
}

/* ---- a solution ---- */

typedef void fortran_strsm(const char *, const char *, const char *, const char *, const int *, const int *,
                           const float *, const float *, const int *, float *, const int *);

static void copy_part(void *problem, size_t begin, size_t end) {
  const struct tb_problem *const p = problem;
  memcpy((float *)p->c + begin, (const float *)p->b + begin, sizeof(float) * (end - begin));
}

static void make_well_conditioned(const struct tb_problem *p) {
  float *const a = p->a;
  for (int64_t i = 0; i < p->m; i++) a[i * (p->m + 1)] = (float)p->m;
}

static void solve(const struct tb_problem *p) {
  const float one = 1;
  fortran_strsm *const f = (fortran_strsm *)dlsym(RTLD_DEFAULT, "strsm_");
  f("L", "L", "N", "N", &p->m, &p->n, &one, p->a, &p->m, p->c, &p->m);
}

struct times {
  double call_s[ROUNDS_MAX], change_s[ROUNDS_MAX];
};

/* The second product of a chain. */
static struct tb_problem behind(const struct tb_problem *p) {
  struct tb_problem next = tb_problem_make(TB_S, 0, p->tb, p->m, p->n, p->n);
  free(next.a), free(next.b);
  next.a = p->c, next.b = p->b;
  return next;
}

static bool measure(const struct tb_problem *p, const struct tb_problem *next, enum change change, int rounds,
                    struct times *t) {
  struct tb_problem once = *p;
  if (change == SOLVED) make_well_conditioned(p);
  for (int round = -FIRST_CALLS; round < rounds; round++) {
    const double begun = tb_now_s();
    change_operands(p, change, round + FIRST_CALLS);
    if (change == SOLVED) tb_parallel((size_t)p->m * (size_t)p->n, copy_part, &once);
    const double changed = tb_now_s();
    if (change == SOLVED)
      solve(p);
    else
      tb_problem_compute(p, tb_ours);
    if (is_chain(change)) tb_problem_compute(next, tb_ours);
    if (round < 0) continue;
    t->change_s[round] = changed - begun;
    t->call_s[round] = tb_now_s() - changed;
  }
  return (change == SOLVED || tb_problem_is_right(p)) && (!is_chain(change) || tb_problem_is_right(next));
}

static bool is_square(const struct tb_shape *s) { return s->m == s->n && s->n == s->k; }

static bool run_case(FILE *csv, const char *text, const struct tb_shape *s, enum change change, enum way way,
                     int rounds) {
  static struct times t;
  if (is_chain(change) && !is_square(s)) return true;
  const struct tb_problem p = tb_problem_make(TB_S, s->ta, s->tb, s->m, s->n, s->k);
  const struct tb_problem next = is_chain(change) ? behind(&p) : (struct tb_problem){.c = NULL};
  if (!set_way(way)) return free(next.c), tb_problem_free(&p), true;
  tb_problem_compute(&p, tb_ours);
  set_cache(way == OFF ? "off" : way == HASHED ? "64G" : "auto");
  const bool right = (way != CHOSEN || choose(&p)) && measure(&p, &next, change, rounds, &t);
  if (way == CHOSEN) leave(&p);
  free(next.c);
  tb_problem_free(&p);
  const double call_ms = 1e3 * tb_median(t.call_s, rounds), change_ms = 1e3 * tb_median(t.change_s, rounds);
  const double worst_ms = 1e3 * t.call_s[rounds - 1];
  printf("%-20s rewritten: %-17s %-5s %9.3f ms, worst %9.3f, rewriting %9.3f\n", text, change_names[change],
         way_names[way], call_ms, worst_ms, change_ms);
  if (csv)
    fprintf(csv, "%s,%s,%s,%.4f,%.4f,%.4f\n", text, change_names[change], way_names[way], call_ms, worst_ms, change_ms);
  if (!right) fprintf(stderr, "%s, rewritten: %s, %s: WRONG RESULT\n", text, change_names[change], way_names[way]);
  return right;
}

/* In all ways. */
static int run_ways(FILE *csv, const char *text, const struct tb_shape *s, enum change change, int rounds) {
  bool right = true;
  tb_sides_find(TB_S);
  tb_sides_route("gpu");
  for (int way = 0; way < WAYS; way++) {
    right &= run_case(csv, text, s, change, (enum way)way, rounds);
    if (tb_sides_gpu_calls() == 0 && !(is_chain(change) && !is_square(s))) return puts("no GPU answers"), SKIPPED;
  }
  if (csv && fclose(csv) != 0) return perror("csv"), EXIT_FAILURE;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The same in a process of its own, before which this one has not opened the GPU. */
static int run_apart(FILE *csv, const char *text, const struct tb_shape *s, enum change change, int rounds) {
  int status;
  fflush(NULL);
  const pid_t child = fork();
  if (child < 0) return perror("fork"), EXIT_FAILURE;
  if (child == 0) exit(run_ways(csv, text, s, change, rounds));
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return EXIT_FAILURE;
  return WEXITSTATUS(status);
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"csv", 1, 0, 'c'}, {"rounds", 1, 0, 'r'}, {0, 0, 0, 0}};
  static char *const usual[] = {"NN:11008x512x4096", "NN:4096x4096x4096", "NN:8192x8192x8192", "NN:16384x16384x16384"};
  const char *path = NULL;
  int rounds = 21;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == '?') return 2;
    if (o == 'c') path = optarg;
    if (o == 'r') rounds = atoi(optarg);
  }
  if (rounds < 1 || rounds > ROUNDS_MAX) return 2;
  char *const *const shapes = optind < argc ? argv + optind : usual;
  const int count = optind < argc ? argc - optind : (int)(sizeof usual / sizeof *usual);
  FILE *csv = path ? fopen(path, "w") : NULL;
  if (path && !csv) return perror(path), EXIT_FAILURE;
  if (csv) fprintf(csv, "shape,rewritten,cache,median_ms,worst_ms,rewriting_ms\n");
  int result = EXIT_SUCCESS;
  for (int i = 0; i < count && result != SKIPPED; i++) {
    struct tb_shape shape;
    if (!tb_shape_parse(shapes[i], &shape)) return fprintf(stderr, "%s is no shape\n", shapes[i]), 2;
    for (int change = 0; change < CHANGES && result != SKIPPED; change++) {
      const int status = run_apart(csv, shapes[i], &shape, (enum change)change, rounds);
      if (status != EXIT_SUCCESS) result = status;
    }
  }
  if (csv && fclose(csv) != 0) return perror(path), EXIT_FAILURE;
  return result;
}
