/* SPDX-License-Identifier: BSD-3-Clause */
/* End-to-end timing of one product; see call.h. */
#include "call.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_CALLS_MOST 1000

struct times {
  double first_s, median_s, min_s;
  int reps;
  double all_first_s[FIRST_CALLS_MOST];
};

static _Noreturn void usage(const char *program, int with_setting) {
  fprintf(stderr,
          "usage: %s [--label TEXT] [--csv FILE] [--budget SECONDS] [--ta N|T] [--tb N|T] [--c warm|fresh|huge] "
          "[--first N] %s SIZE...\n"
          "       SIZE is n or MxNxK\n",
          program, with_setting ? "[--setting N] [--type s|d|c|z]" : "[--symbol sgemm_|cblas_zgemm|...]");
  exit(2);
}

static bool parse_c_memory(const char *text, enum tb_c_memory *memory) {
  static const char *const name[] = {"warm", "fresh", "huge"};
  for (int i = 0; i < 3; i++)
    if (strcmp(text, name[i]) == 0) return *memory = (enum tb_c_memory)i, true;
  return false;
}

int tb_call_parse(struct tb_call *call, int argc, char **argv, int *setting) {
  static const struct option option[] = {
      {"symbol", 1, 0, 's'}, {"setting", 1, 0, 'S'}, {"budget", 1, 0, 'b'}, {"csv", 1, 0, 'c'},
      {"label", 1, 0, 'l'},  {"ta", 1, 0, 'A'},      {"tb", 1, 0, 'B'},     {"type", 1, 0, 't'},
      {"c", 1, 0, 'C'},      {"first", 1, 0, 'f'},   {0, 0, 0, 0}};
  for (int o; (o = getopt_long(argc, argv, "", option, NULL)) != -1;) {
    switch (o) {
      case 's':
        call->symbol = optarg;
        break;
      case 'S':
        if (!setting) usage(argv[0], 0);
        *setting = atoi(optarg);
        break;
      case 't':
        if (!setting || !tb_type_parse(optarg, &call->type)) usage(argv[0], setting != NULL);
        break;
      case 'b':
        call->budget_s = atof(optarg);
        break;
      case 'c':
        call->csv = optarg;
        break;
      case 'l':
        call->label = optarg;
        break;
      case 'A':
        call->ta = optarg[0] == 'T';
        break;
      case 'B':
        call->tb = optarg[0] == 'T';
        break;
      case 'f':
        call->first_calls = atoi(optarg);
        if (call->first_calls < 1 || call->first_calls > FIRST_CALLS_MOST) usage(argv[0], setting != NULL);
        break;
      case 'C':
        if (!parse_c_memory(optarg, &call->c_memory)) usage(argv[0], setting != NULL);
        break;
      default:
        usage(argv[0], setting != NULL);
    }
  }
  if (optind == argc) usage(argv[0], setting != NULL);
  return optind;
}

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static void *memory_of_a_new_c(enum tb_c_memory memory, size_t bytes) {
  void *c = memory == TB_C_HUGE ? aligned_alloc(HUGE_PAGE_BYTES, (bytes + HUGE_PAGE_BYTES - 1) & -HUGE_PAGE_BYTES)
                                : malloc(bytes);
  if (c == NULL) perror("C"), exit(EXIT_FAILURE);
  if (memory == TB_C_HUGE) madvise(c, bytes, MADV_HUGEPAGE);
  return c;
}

/* An element that is left out shows. */
static void prepare_c(const struct tb_call *call, struct tb_problem *p) {
  if (call->c_memory == TB_C_WARM) {
    tb_problem_spoil(p);
    return;
  }
  free(p->c);
  p->c = memory_of_a_new_c(call->c_memory, (size_t)p->m * (size_t)p->n * (size_t)tb_type_bytes(p->type));
}

static struct times measure(const struct tb_call *call, struct tb_problem *p) {
  enum { MAX_REPS = 51, MIN_REPS = 2 };
  double took[MAX_REPS];
  struct times t = {0};
  double start;
  for (int i = 0; i < call->first_calls || i < 1; i++) {
    if (i > 0 && call->c_memory != TB_C_WARM) prepare_c(call, p);
    start = tb_now_s();
    call->gemm(call, p);
    t.all_first_s[i] = tb_now_s() - start;
  }
  t.first_s = t.all_first_s[0];
  double deadline = tb_now_s() + call->budget_s;
  while (t.reps < MIN_REPS || (t.reps < MAX_REPS && tb_now_s() < deadline)) {
    prepare_c(call, p);
    start = tb_now_s();
    call->gemm(call, p);
    took[t.reps++] = tb_now_s() - start;
  }
  t.median_s = tb_median(took, t.reps);
  t.min_s = took[0];
  return t;
}

static void write_csv(const struct tb_call *call, const struct tb_problem *p, struct times t, struct tb_error e) {
  FILE *f = fopen(call->csv, "a");
  if (f && fseek(f, 0, SEEK_END) == 0 && ftell(f) == 0) {
    fprintf(f, "label,symbol,owner,type,ta,tb,m,n,k,reps,first_s,median_s,min_s,tflops,max_err_u,mean_err_u\n");
  }
  if (f) {
    fprintf(f, "%s,%s,%s,%c,%c,%c,%d,%d,%d,%d,%.6f,%.6f,%.6f,%.3f,%.3f,%.4f\n", call->label, call->symbol, call->owner,
            tb_type_letter(p->type), "NT"[p->ta], "NT"[p->tb], p -> m, p -> n, p -> k, t.reps, t.first_s, t.median_s,
            t.min_s, 1e-12 * tb_problem_flops(p) / t.median_s, e.max_u, e.mean_u);
  }
  if (!f || fclose(f)) {
    perror(call->csv);
    exit(EXIT_FAILURE);
  }
}

/* And the slowest of them but for the first, beside the median of the repetitions. */
static void print_first_calls(const struct tb_call *call, const struct times *t) {
  double slowest_s = 0;
  printf("  the first %d calls, ms:", call->first_calls);
  for (int i = 0; i < call->first_calls; i++) {
    printf(" %.3f", 1e3 * t->all_first_s[i]);
    if (i > 0 && t->all_first_s[i] > slowest_s) slowest_s = t->all_first_s[i];
  }
  printf("; from the second on at most %.2f of the median\n", slowest_s / t->median_s);
}

static int parse_size(const char *text, int *m, int *n, int *k) {
  char end;
  if (sscanf(text, "%dx%dx%d%c", m, n, k, &end) == 3) return *m > 0 && *n > 0 && *k > 0;
  if (sscanf(text, "%d%c", m, &end) != 1) return 0;
  *n = *k = *m;
  return *m > 0;
}

int tb_call_run(const struct tb_call *call, const char *size) {
  int m, n, k;
  if (!parse_size(size, &m, &n, &k)) {
    fprintf(stderr, "%s: no size; n or MxNxK is meant\n", size);
    exit(2);
  }
  struct tb_problem p = tb_problem_make(call->type, call->ta, call->tb, m, n, k);
  struct times t = measure(call, &p);
  struct tb_error e = tb_problem_error(&p);
  printf("%-22s %s %c%c %dx%dx%d  first %.4f s  median %.6f s  min %.6f s of %d  %.3f TFLOP/s  error %.2f u  (%s)\n",
         call->label, call->symbol, "NT"[call->ta], "NT"[call->tb], m, n, k, t.first_s, t.median_s, t.min_s, t.reps,
         1e-12 * tb_problem_flops(&p) / t.median_s, e.max_u, call->owner);
  if (call->first_calls > 0) print_first_calls(call, &t);
  fflush(stdout);
  int right = e.max_u <= tb_problem_bound_u(&p);
  if (right && call->csv) write_csv(call, &p, t, e);
  if (!right) {
    fprintf(stderr, "%s %s: WRONG RESULT: error %g u, a right one has at most %g\n", call->label, size, e.max_u,
            tb_problem_bound_u(&p));
  }
  tb_problem_free(&p);
  return right;
}
