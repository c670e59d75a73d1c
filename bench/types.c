/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Speed of dgemm, cgemm and zgemm on resident data, beside cuBLAS in the same run, shape by shape. kernels.c has sgemm.
 *
 *   types [--type d|c|z] [--csv FILE] [--short] [--shape NN:MxNxK]... [--budget SECONDS] [--rotate MIB]
 *         [--peers auto|none] [--wide] [--accuracy N]
 *
 * The product is computed by the launches that the library makes for operands on the GPU; what makes complex ones real
 * is part of it, and is also timed alone. c is computed in both precisions, ieee and fp32. Operands are uniform random,
 * with --wide of exponents from -20 to 20; each launch takes other copies of them, `rotate` MiB in all. Times are
 * medians of CUDA-event times over batches (gpu.h), cuBLAS's behind a pause, then ours (kernels.c says why). Each
 * result of ours is checked on a sample of rows and columns, and a wrong one ends the program with status 1; cuBLAS's
 * errors stand beside. With --accuracy all kinds of data are multiplied for N x N results instead; --short: small k
 * alone.
 */
#include "typed.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_US = 200000 };
static const double cublas_bar = 0.95; /* shapes below it are counted */

struct options {
  enum tb_type type;
  const char *csv;
  bool peers, short_list, wide;
  struct tb_shape shape[TB_SHAPES_MAX];
  int shapes, accuracy;
  double budget_s;
  size_t rotate_bytes;
};

/* Ratios of a peer's time to ours over the shapes. */
struct ratios {
  double log_sum, worst;
  struct tb_shape worst_at;
  int count, below;
};

struct session {
  const struct options *o;
  FILE *csv;
  struct tb_typed work;
  struct ratios ratios[2][TB_TYPED_BY_COUNT]; /* by precision, ieee first */
};

static void add_ratio(struct ratios *r, struct tb_shape shape, double ratio) {
  r->log_sum += log(ratio);
  r->below += ratio < cublas_bar;
  if (r->count++ == 0 || ratio < r->worst) r->worst = ratio, r->worst_at = shape;
}

/* bench/run takes these lines into its tables. */
static void print_ratios(const char *what, const char *whose, const struct ratios *r) {
  if (r->count == 0) return;
  const struct tb_shape *x = &r->worst_at;
  printf("%s: %s time over ours: geometric mean %.3f, worst %.3f (%c%c:%dx%dx%d), %d of %d below %.2f\n", what, whose,
         exp(r->log_sum / r->count), r->worst, "NT"[x->ta], "NT"[x->tb], x -> m, x -> n, x -> k, r -> below, r -> count,
         cublas_bar);
}

static const char *precision_of(const struct tb_typed *w) {
  return w->type != TB_C ? "fp64" : w->precision == TB_PRECISION_IEEE ? "ieee" : "fp32";
}

/* What was measured of the shape at hand. */
struct row {
  double us[TB_TYPED_BY_COUNT], prepare_us; /* 0: not measured */
  struct tb_error error[TB_TYPED_BY_COUNT];
};

static double tflops(const struct tb_typed *w, double us) {
  return us > 0 ? 1e-6 * tb_type_flops(w->type) * w->shape.m * w->shape.n * (double)w->shape.k / us : 0;
}

static void print_row(FILE *csv, const struct tb_typed *w, const struct row *r) {
  const struct tb_shape *s = &w->shape;
  const double ours = r->us[TB_TYPED_OURS], *us = r->us;
  char way[64];
  tb_typed_way(w, way, sizeof way);
  printf("%c %s %c%c %6d %6d %6d  %-14s %10.1f us %7.2f TFLOP/s", tb_type_letter(w->type), precision_of(w), "NT"[s->ta],
         "NT"[s->tb], s -> m, s -> n, s -> k, way, ours, tflops(w, ours));
  if (r->prepare_us > 0) printf("  prepare %8.1f us", r->prepare_us);
  if (us[TB_TYPED_CUBLAS] > 0)
    printf("  cuBLAS %10.1f us  ratio %.3f", us[TB_TYPED_CUBLAS], us[TB_TYPED_CUBLAS] / ours);
  if (us[TB_TYPED_CUBLAS_3M] > 0) printf("  3m ratio %.3f", us[TB_TYPED_CUBLAS_3M] / ours);
  printf("  error %.2f u\n", r->error[TB_TYPED_OURS].max_u);
  fflush(stdout);
  if (!csv) return;
  fprintf(csv, "%c,%s,%c,%c,%d,%d,%d,%s,%.2f,%.3f,%.2f", tb_type_letter(w->type), precision_of(w), "NT"[s->ta],
          "NT"[s->tb], s -> m, s -> n, s -> k, way, ours, tflops(w, ours), r -> prepare_us);
  for (int by = TB_TYPED_CUBLAS; by < TB_TYPED_BY_COUNT; by++) {
    if (us[by] > 0)
      fprintf(csv, ",%.2f,%.4f", us[by], us[by] / ours);
    else
      fprintf(csv, ",,");
  }
  for (int by = 0; by < TB_TYPED_BY_COUNT; by++) {
    if (us[by] > 0)
      fprintf(csv, ",%.3f,%.4f,%.4f", r->error[by].max_u, r->error[by].mean_u, r->error[by].bias_u);
    else
      fprintf(csv, ",,,");
  }
  fprintf(csv, "\n");
  fflush(csv);
}

/* The better of cuBLAS's two modes for fp32, as for sgemm. */
static void measure_peer(struct session *s, enum tb_typed_by by, struct row *r) {
  struct tb_typed *w = &s->work;
  const int modes[] = {TB_MATH_DEFAULT, TB_MATH_PEDANTIC}, count = w->type == TB_C ? 2 : 1;
  w->by = by;
  for (int i = 0; i < count; i++) {
    TB_NV(cublasSetMathMode(w->bench->cublas, modes[i]));
    const double us = tb_typed_median_us(w, s->o->budget_s);
    if (r->us[by] == 0 || us < r->us[by]) r->us[by] = us;
  }
  r->error[by] = tb_typed_error(w);
  w->by = TB_TYPED_OURS;
}

static bool is_right(struct session *s, const struct row *r) {
  const struct tb_typed *w = &s->work;
  const double bound_u = tb_typed_bound_u(w);
  if (r->error[TB_TYPED_OURS].max_u <= bound_u) return true;
  char way[64];
  tb_typed_way(w, way, sizeof way);
  fprintf(stderr, "WRONG RESULT: %s %c%c %dx%dx%d: error %g u, a right one has at most %g\n", way, "NT"[w->shape.ta],
          "NT"[w->shape.tb], w -> shape.m, w->shape.n, w->shape.k, r->error[TB_TYPED_OURS].max_u, bound_u);
  return false;
}

static bool measure_precision(struct session *s, struct tb_shape shape, enum tb_precision precision, struct row *r) {
  struct tb_typed *w = &s->work;
  tb_typed_set(w, shape, precision);
  r->error[TB_TYPED_OURS] = tb_typed_error(w);
  if (!is_right(s, r)) return false;
  r->us[TB_TYPED_OURS] = tb_typed_median_us(w, s->o->budget_s);
  r->prepare_us = tb_typed_prepare_us(w, s->o->budget_s / 4);
  print_row(s->csv, w, r);
  for (int by = TB_TYPED_CUBLAS; by < TB_TYPED_BY_COUNT; by++)
    if (r->us[by] > 0)
      add_ratio(&s->ratios[precision != TB_PRECISION_IEEE][by], shape, r->us[by] / r->us[TB_TYPED_OURS]);
  return true;
}

static bool measure_shape(struct session *s, struct tb_shape shape) {
  struct row r = {.prepare_us = 0};
  bool all_right = true;
  tb_typed_set(&s->work, shape, TB_PRECISION_IEEE);
  usleep(PAUSE_US);
  if (s->work.bench->cublas) measure_peer(s, TB_TYPED_CUBLAS, &r);
  if (s->work.bench->cublas && tb_type_is_complex(s->o->type)) measure_peer(s, TB_TYPED_CUBLAS_3M, &r);
  if (s->o->type == TB_C) all_right &= measure_precision(s, shape, TB_PRECISION_IEEE, &r);
  all_right &= measure_precision(s, shape, TB_PRECISION_FP32, &r);
  return all_right;
}

static bool measure_speed(struct tb_bench *bench, const struct options *o, FILE *csv) {
  struct session s = {.o = o, .csv = csv};
  bool all_right = true;
  tb_typed_open(&s.work, bench, o->type, o->shape, o->shapes, o->wide ? TB_WIDE : TB_UNIFORM, o->rotate_bytes);
  for (int i = 0; i < o->shapes; i++) all_right &= measure_shape(&s, o->shape[i]);
  const char routine[] = {tb_type_letter(o->type), 'g', 'e', 'm', 'm', '\0'};
  for (int fp32 = 0; fp32 < 2; fp32++) {
    char what[16];
    snprintf(what, sizeof what, "%s%s", routine, o->type != TB_C ? "" : fp32 ? " fp32" : " ieee");
    print_ratios(what, "cuBLAS", &s.ratios[fp32][TB_TYPED_CUBLAS]);
    print_ratios(what, "cuBLAS 3m", &s.ratios[fp32][TB_TYPED_CUBLAS_3M]);
  }
  tb_typed_close(&s.work);
  return all_right;
}

static _Noreturn void usage(void) {
  fprintf(stderr, "usage: types [--type d|c|z] [--csv FILE] [--short] [--shape NN:MxNxK]... [--budget SECONDS]\n"
                  "             [--rotate MIB] [--peers auto|none] [--wide] [--accuracy N]\n");
  exit(2);
}

static bool take_option(struct options *o, int option) {
  if (option == 'c') o->csv = optarg;
  if (option == 's') o->short_list = true;
  if (option == 'w') o->wide = true;
  if (option == 'b') o->budget_s = atof(optarg);
  if (option == 'r') o->rotate_bytes = (size_t)atol(optarg) << 20;
  if (option == 'a') o->accuracy = atoi(optarg);
  if (option == 'p') o->peers = strcmp(optarg, "none") != 0;
  if (option == 't') return tb_type_parse(optarg, &o->type) && o->type != TB_S;
  if (option == 'S') return o->shapes < TB_SHAPES_MAX && tb_shape_parse(optarg, &o->shape[o->shapes++]);
  return option != '?' && o->accuracy >= 0;
}

static void parse(struct options *o, int argc, char **argv) {
  static const struct option option[] = {
      {"type", 1, 0, 't'},   {"csv", 1, 0, 'c'},      {"short", 0, 0, 's'}, {"shape", 1, 0, 'S'}, {"budget", 1, 0, 'b'},
      {"rotate", 1, 0, 'r'}, {"accuracy", 1, 0, 'a'}, {"peers", 1, 0, 'p'}, {"wide", 0, 0, 'w'},  {0, 0, 0, 0}};
  *o = (struct options){.type = TB_D, .peers = true, .budget_s = 0.1, .rotate_bytes = (size_t)256 << 20};
  for (int c; (c = getopt_long(argc, argv, "", option, NULL)) != -1;)
    if (!take_option(o, c)) usage();
  if (optind != argc) usage();
  if (o->shapes == 0) o->shapes = tb_shapes(o->shape, o->short_list);
}

static FILE *open_csv(const struct options *o) {
  if (!o->csv) return NULL;
  FILE *f = fopen(o->csv, "w");
  if (!f) {
    perror(o->csv);
    exit(EXIT_FAILURE);
  }
  fputs(o->accuracy ? "type,kind,n,k,who,way,max_err_u,mean_err_u,bias_u\n"
                    : "type,precision,ta,tb,m,n,k,way,us,tflops,prepare_us,cublas_us,ratio,cublas_3m_us,ratio_3m,"
                      "max_err_u,mean_err_u,bias_u,cublas_max_err_u,cublas_mean_err_u,cublas_bias_u,"
                      "cublas_3m_max_err_u,cublas_3m_mean_err_u,cublas_3m_bias_u\n",
        f);
  return f;
}

int main(int argc, char **argv) {
  struct options o;
  parse(&o, argc, argv);
  struct tb_bench bench;
  if (!o.peers) fprintf(stderr, "peer missing: cuBLAS, by --peers none\n");
  tb_bench_open(&bench, o.peers);
  FILE *csv = open_csv(&o);
  printf("%s, %d SMs\n", bench.gpu.name, bench.gpu.sm_count);
  const bool all_right = o.accuracy > 0 ? tb_typed_accuracy(&bench, o.type, o.accuracy, o.short_list, csv)
                                        : measure_speed(&bench, &o, csv);
  if (csv && fclose(csv)) {
    perror(o.csv);
    return EXIT_FAILURE;
  }
  tb_bench_close(&bench);
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
