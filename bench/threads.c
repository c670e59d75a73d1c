/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sgemm by several threads at once, each with operands of its own that are warm: products a second of all of them,
 * relative to one thread, and how evenly they are shared out.
 *
 *   threads [--csv FILE [--label WORD]] [--seconds S] [--threads N,N,...] [--sets N] [SIZE...]
 *
 * Linked with OpenBLAS and run with TileBLAS preloaded, which is forced to the GPU. Without sizes it takes 256, 512,
 * 1024, 2048 and 4096 cubed, without numbers of threads 1, 2, 4 and 8. Each thread calls without a pause for so many
 * seconds, after a tenth of that which does not count. Operands are plain malloc'd memory; every thread's result is
 * checked. --sets: so many sets of operands that each thread takes in turn, for what fits into the processor's cache no
 * more. Status 1: a wrong result or a failure; 77: no GPU answers.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "sides.h"

enum { SKIPPED = 77, THREADS_MAX = 64, SETS_MAX = 16 };
#define WARM_UP 0.1 /* of the seconds that count */

struct caller {
  pthread_t thread;
  struct tb_problem problem[SETS_MAX];
  double seconds, worst_s; /* that its calls took, and the longest of them */
  long calls;
};

static struct caller callers[THREADS_MAX];
static pthread_barrier_t start;
static double seconds = 2;
static int sets = 1;

static void *call(void *argument) {
  struct caller *const x = argument;
  pthread_barrier_wait(&start);
  const double warm = tb_now_s() + WARM_UP * seconds;
  double now, begun;
  int set = 0;
  do tb_problem_compute(&x->problem[set++ % sets], tb_ours);
  while ((begun = now = tb_now_s()) < warm);
  x->calls = 0, x->worst_s = 0;
  while (now < warm + seconds || x->calls == 0) {
    const double before = now;
    tb_problem_compute(&x->problem[set++ % sets], tb_ours);
    now = tb_now_s();
    x->calls++;
    if (now - before > x->worst_s) x->worst_s = now - before;
  }
  x->seconds = now - begun;
  return NULL;
}

struct found {
  double rate, fairness, worst_s; /* products a second; the least calls of a thread to the most */
};

static bool run(int n, int threads, struct found *found) {
  bool right = true;
  long least = 0, most = 0;
  *found = (struct found){0};
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  for (int i = 0; i < threads * sets; i++) {
    struct tb_problem *const problem = &callers[i / sets].problem[i % sets];
    *problem = tb_problem_make(TB_S, 0, 0, n, n, n);
    tb_problem_compute(problem, tb_ours); /* opens the GPU, has C's pages */
  }
  for (int i = 0; i < threads; i++)
    if (pthread_create(&callers[i].thread, NULL, call, &callers[i]) != 0) abort();
  for (int i = 0; i < threads; i++) {
    struct caller *const x = &callers[i];
    pthread_join(x->thread, NULL);
    found->rate += (double)x->calls / x->seconds;
    if (x->worst_s > found->worst_s) found->worst_s = x->worst_s;
    if (i == 0 || x->calls < least) least = x->calls;
    if (x->calls > most) most = x->calls;
    for (int set = 0; set < sets; set++) {
      right = right && tb_problem_is_right(&x->problem[set]);
      tb_problem_free(&x->problem[set]);
    }
  }
  found->fairness = (double)least / (double)most;
  pthread_barrier_destroy(&start);
  return right;
}

static bool measure(FILE *csv, const char *label, int n, const int *counts, int length) {
  double alone = 0;
  for (int i = 0; i < length; i++) {
    struct found f;
    if (!run(n, counts[i], &f)) return fprintf(stderr, "%d cubed, %d threads: WRONG RESULT\n", n, counts[i]), false;
    if (alone == 0) alone = f.rate / counts[i];
    printf("%5d cubed  %2d threads  %9.1f products/s  %5.2f times  fairness %4.2f  longest %8.3f ms\n", n, counts[i],
           f.rate, f.rate / alone, f.fairness, 1e3 * f.worst_s);
    if (csv)
      fprintf(csv, "%s,%d,%d,%.3f,%.4f,%.4f,%.6f\n", label, n, counts[i], f.rate, f.rate / alone, f.fairness,
              f.worst_s);
  }
  return true;
}

static int parse_counts(char *text, int *counts) {
  int length = 0;
  for (char *end = text; *text != '\0' && length < THREADS_MAX; text = *end == ',' ? end + 1 : end) {
    counts[length] = (int)strtol(text, &end, 10);
    if (end == text || counts[length] < 1 || counts[length] > THREADS_MAX) return 0;
    length++;
  }
  return length;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"csv", 1, 0, 'c'},     {"label", 1, 0, 'l'}, {"seconds", 1, 0, 's'},
                                          {"threads", 1, 0, 't'}, {"sets", 1, 0, 'n'},  {0, 0, 0, 0}};
  static char *const usual[] = {"256", "512", "1024", "2048", "4096"};
  const char *path = NULL, *label = "-";
  int counts[THREADS_MAX] = {1, 2, 4, 8}, length = 4;
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == '?') return 2;
    if (o == 'c') path = optarg;
    if (o == 'l') label = optarg;
    if (o == 's') seconds = atof(optarg);
    if (o == 't') length = parse_counts(optarg, counts);
    if (o == 'n') sets = atoi(optarg);
  }
  if (!(seconds > 0) || length == 0 || sets < 1 || sets > SETS_MAX) return 2;
  char *const *const sizes = optind < argc ? argv + optind : usual;
  const int count = optind < argc ? argc - optind : (int)(sizeof usual / sizeof *usual);
  tb_sides_find(TB_S);
  tb_sides_route("gpu");
  FILE *csv = path ? fopen(path, "a") : NULL;
  if (path && !csv) return perror(path), EXIT_FAILURE;
  if (csv && ftell(csv) == 0) fprintf(csv, "label,n,threads,products_per_s,times,fairness,longest_s\n");
  bool right = true;
  for (int i = 0; i < count && right; i++) right = measure(csv, label, atoi(sizes[i]), counts, length);
  if (csv && fclose(csv) != 0) return perror(path), EXIT_FAILURE;
  if (right && tb_sides_gpu_calls() == 0) return puts("no GPU answers"), SKIPPED;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
