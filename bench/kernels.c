/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Speed of the production kernels on resident data, beside cuBLAS in the same run, shape by shape.
 *
 *   kernels [--csv FILE] [--precision ieee|fp32|fast|both] [--tile auto|each|NAME[/SPLITS]] [--short]
 *           [--shape NN:MxNxK]... [--budget SECONDS] [--rotate MIB] [--pad N] [--data KIND] [--peers auto|none]
 *           [--accuracy N]
 *
 * --precision both: ieee and fp32, a row each; cuBLAS is measured once, and so is what both compute in the same way.
 * --pad N: leading dimensions are N longer than need be, for cuBLAS as well. --data KIND: instead of uniform(-.5,.5),
 * one of data.h's kinds whose words do not depend on where they stand.
 *
 * Operands are random; each launch takes other copies of them, `rotate` MiB in all, so that the L2 cache starts cold.
 * Times are medians of CUDA-event times over batches (gpu.h). Each result is checked against fp64 on a sample of rows
 * and columns, and a wrong one ends the program with status 1. With --accuracy all kinds of data are multiplied
 * for N x N results instead, and the errors written down beside cuBLAS's and OpenBLAS's; --short: small k alone.
 */
#include "kernels_bench.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BOTH = -1, PRECISIONS = 3 };
static const char *const precision_name[PRECISIONS] = {
    [TB_PRECISION_IEEE] = "ieee", [TB_PRECISION_FP32] = "fp32", [TB_PRECISION_FAST] = "fast"};

struct options {
  const char *csv, *tile, *peers;
  int precision; /* enum tb_precision, or BOTH */
  enum tb_data_kind kind;
  struct tb_shape shape[TB_SHAPES_MAX];
  int shapes, short_list, accuracy, pad;
  double budget_s;
  size_t rotate_bytes;
};

struct row {
  enum tb_precision precision;
  double us, peer_us[TB_PEER_COUNT]; /* 0: not measured */
  struct tb_error error;
};

/* One way to compute the shape at hand. */
struct measured {
  struct tb_choice way;
  double us; /* 0: the result was wrong */
  struct tb_error error;
};

struct session {
  const struct options *o;
  FILE *csv;
  struct tb_work work;
  struct measured measured[2 * TB_CANDIDATES_MAX];
  int measured_count;
  double peer_us[TB_SHAPES_MAX];             /* cuBLAS fp32; 0: not measured */
  double best_us[PRECISIONS][TB_SHAPES_MAX]; /* 0: not measured */
};

static double fp32_peer_us(const struct row *r) {
  return fmin(r->peer_us[TB_PEER_PEDANTIC], r->peer_us[TB_PEER_DEFAULT]);
}

/* A product with a thin operand is limited by memory: its rate is the bytes of operands and result, each once. */
static int is_skinny(const struct tb_shape *s) { return tb_skinny_takes(s->m, s->n); }

static double moved_bytes(const struct tb_shape *s) {
  return 4.0 * ((double)s->m * s->k + (double)s->k * s->n + (double)s->m * s->n);
}

static void print_row(FILE *csv, const struct tb_work *w, const struct row *r) {
  const struct tb_shape *s = &w->shape;
  double tflops = 2e-6 * s->m * s->n * s->k / r->us, peer = fp32_peer_us(r), gb_s = 1e-3 * moved_bytes(s) / r->us;
  char way[64];
  tb_choice_describe(&w->choice, way, sizeof way);
  printf("%s %c%c %6d %6d %6d  %-17s %10.1f us %7.2f TFLOP/s", precision_name[r->precision], "NT"[s->ta], "NT"[s->tb],
         s -> m, s -> n, s -> k, way, r -> us, tflops);
  if (is_skinny(s)) printf(" %5.0f GB/s", gb_s);
  if (peer > 0) printf("  cuBLAS %10.1f us  ratio %.3f", peer, peer / r->us);
  printf("  error %.2f u\n", r->error.max_u);
  fflush(stdout);
  if (!csv) return;
  fprintf(csv, "%s,%c,%c,%d,%d,%d,%.2f,%.3f,", precision_name[r->precision], "NT"[s->ta], "NT"[s->tb], s -> m, s -> n,
          s -> k, r -> us, tflops);
  if (peer > 0)
    fprintf(csv, "%.2f,%.4f,", peer, peer / r->us);
  else
    fprintf(csv, ",,");
  fprintf(csv, "%.3f,%.4f,%.4f,%s,%.1f", r->error.max_u, r->error.mean_u, r->error.bias_u, way, gb_s);
  for (int p = 0; p < TB_PEER_COUNT; p++) {
    if (peer > 0)
      fprintf(csv, ",%.2f", r->peer_us[p]);
    else
      fprintf(csv, ",");
  }
  fprintf(csv, "\n");
  fflush(csv);
}

/*
 * The tensor cores run into the power cap and leave the GPU at a lower clock, which takes a while to come back: at 4096
 * cubed FMA kernels that followed cuBLAS's tf32 began at 3.2 ms and came to 2.74 within 50 launches, and our
 * tensor-core kernels took 0.83 ms instead of 0.75. So what FMAs compute is measured behind a pause, cuBLAS's and ours;
 * then ours on the tensor cores; and theirs behind a pause, too. All begin at the same clock, and each keeps what it
 * can.
 */
enum { PAUSE_US = 200000 };

/* Peers `first` to end - 1. */
static void measure_peers(struct session *s, struct row *r, int first, int end) {
  struct tb_work *w = &s->work;
  if (!w->bench->cublas) return;
  w->by_cublas = true;
  for (int p = first; p < end; p++) {
    TB_NV(cublasSetMathMode(w->bench->cublas, tb_peer_math[p]));
    r->peer_us[p] = tb_work_median_us(w, s->o->budget_s);
  }
  w->by_cublas = false;
}

/* The ways in which a product is to be measured: as the library chooses, as forced, or every one there is. */
static int list_ways(const struct tb_work *w, const struct options *o, struct tb_choice way[TB_CANDIDATES_MAX]) {
  struct tb_product product = tb_work_product(w);
  if (strcmp(o->tile, "each") == 0) return tb_select_candidates(&w->bench->kernels.device, &product, way);
  way[0] = w->choice;
  if (strcmp(o->tile, "auto") == 0) return 1;
  way[0] = tb_bench_parse_choice(o->tile);
  return tb_bench_complete(w->bench, &product, &way[0]);
}

/* The tensor cores are a way of some precisions only, so no two precisions share it. */
static bool same_way(const struct tb_choice *x, const struct tb_choice *y) {
  return x->family != TB_FAMILY_EMULATED && tb_bench_is_way(x, y);
}

/* Checks and times the shape at hand by this way, unless that was done for another precision. */
static const struct measured *measure(struct session *s, const struct tb_choice *way) {
  struct tb_work *w = &s->work;
  for (int i = 0; i < s->measured_count; i++) {
    if (same_way(&s->measured[i].way, way)) return &s->measured[i];
  }
  struct measured *m = &s->measured[s->measured_count++];
  *m = (struct measured){.way = *way};
  w->choice = *way;
  if (tb_work_check(w, &m->error)) m->us = tb_work_median_us(w, s->o->budget_s);
  return m;
}

static bool is_wanted(const struct options *o, enum tb_precision p) {
  return o->precision == BOTH ? p != TB_PRECISION_FAST : (int)p == o->precision;
}

/* For rows that are printed later, if this precision is wanted. */
static void measure_precision(struct session *s, enum tb_precision precision) {
  struct tb_choice way[TB_CANDIDATES_MAX];
  if (!is_wanted(s->o, precision)) return;
  tb_work_set_precision(&s->work, precision);
  int ways = list_ways(&s->work, s->o, way);
  for (int i = 0; i < ways; i++) measure(s, &way[i]);
}

/* Returns 0 when a result was wrong. */
static int print_precision(struct session *s, int shape, struct row *r) {
  struct tb_choice way[TB_CANDIDATES_MAX];
  int all_right = 1;
  tb_work_set_precision(&s->work, r->precision);
  int ways = list_ways(&s->work, s->o, way);
  double *best_us = &s->best_us[r->precision][shape];
  for (int i = 0; i < ways; i++) {
    const struct measured *m = measure(s, &way[i]);
    if (m->us == 0) {
      all_right = 0;
      continue;
    }
    s->work.choice = way[i];
    r->us = m->us, r->error = m->error;
    print_row(s->csv, &s->work, r);
    if (*best_us == 0 || m->us < *best_us) *best_us = m->us;
  }
  return all_right;
}

/* How `over` compares with `under`, shape by shape, where both were measured. */
static void print_ratios(const struct session *s, const char *what, const double *over, const double *under,
                         double bar) {
  double log_sum = 0, worst = INFINITY;
  int count = 0, below = 0, worst_at = 0;
  for (int i = 0; i < s->o->shapes; i++) {
    if (over[i] == 0 || under[i] == 0) continue;
    double ratio = over[i] / under[i];
    log_sum += log(ratio);
    count++;
    below += ratio < bar;
    if (ratio < worst) worst = ratio, worst_at = i;
  }
  if (!count) return;
  const struct tb_shape *x = &s->o->shape[worst_at];
  printf("%s: geometric mean %.3f, worst %.3f (%c%c:%dx%dx%d), %d of %d below %.2f\n", what, exp(log_sum / count),
         worst, "NT"[x->ta], "NT"[x->tb], x -> m, x -> n, x -> k, below, count, bar);
}

/* The last lines, which bench/run takes into its tables. */
static void print_summary(const struct session *s) {
  const double cublas_bar = 0.95, ieee_bar = 0.97;
  for (int p = 0; p < PRECISIONS; p++) {
    char what[64];
    snprintf(what, sizeof what, "%s: cuBLAS fp32 time over ours", precision_name[p]);
    print_ratios(s, what, s->peer_us, s->best_us[p], cublas_bar);
  }
  print_ratios(s, "fp32: ieee time over fp32 time", s->best_us[TB_PRECISION_IEEE], s->best_us[TB_PRECISION_FP32],
               ieee_bar);
}

static int bench_speed(const struct tb_bench *bench, const struct options *o, FILE *csv) {
  struct session *s = calloc(1, sizeof *s);
  if (!s) {
    perror("kernels");
    exit(EXIT_FAILURE);
  }
  s->o = o, s->csv = csv;
  int all_right = 1;
  tb_work_open(&s->work, bench, o->shape, o->shapes, o->kind, o->rotate_bytes, o->pad);
  for (int i = 0; i < o->shapes; i++) {
    struct row r = {0};
    s->measured_count = 0;
    tb_work_set(&s->work, o->shape[i]);
    usleep(PAUSE_US);
    measure_peers(s, &r, 0, TB_PEER_TF32);
    s->peer_us[i] = fp32_peer_us(&r);
    measure_precision(s, TB_PRECISION_IEEE);
    measure_precision(s, TB_PRECISION_FP32);
    measure_precision(s, TB_PRECISION_FAST);
    usleep(PAUSE_US);
    measure_peers(s, &r, TB_PEER_TF32, TB_PEER_COUNT);
    for (int p = 0; p < PRECISIONS; p++) {
      r.precision = (enum tb_precision)p;
      if (is_wanted(o, r.precision)) all_right &= print_precision(s, i, &r);
    }
  }
  print_summary(s);
  tb_work_close(&s->work);
  free(s);
  return all_right;
}

struct tb_choice tb_bench_parse_choice(const char *text) {
  size_t name_len = strcspn(text, "/");
  int splits = text[name_len] ? atoi(text + name_len + 1) : 1;
  if (splits == 1 && strcmp(text, "skinny") == 0)
    return (struct tb_choice){.family = TB_FAMILY_SKINNY, .skinny = {.splits = 1}};
  if (splits >= 1 && name_len == strlen("emulated") && strncmp(text, "emulated", name_len) == 0)
    return (struct tb_choice){.family = TB_FAMILY_EMULATED, .emulated = {.splits = splits}};
  for (int tile = 0; splits >= 1 && tile < TB_TILE_COUNT; tile++)
    if (strlen(tb_tiles[tile].name) == name_len && strncmp(tb_tiles[tile].name, text, name_len) == 0)
      return (struct tb_choice){.family = TB_FAMILY_FMA, .fma = {.tile = tile, .splits = splits}};
  return (struct tb_choice){.family = TB_FAMILY_NONE};
}

static _Noreturn void usage(void) {
  fprintf(stderr,
          "usage: kernels [--csv FILE] [--precision ieee|fp32|fast|both] [--tile auto|each|NAME[/SPLITS]]\n"
          "               [--short] [--shape NN:MxNxK]... [--budget SECONDS] [--rotate MIB] [--pad N] [--data KIND]\n"
          "               [--peers auto|none] [--accuracy N]\n");
  exit(2);
}

static bool parse_precision(const char *text, int *precision) {
  *precision = BOTH;
  for (int p = 0; p < PRECISIONS; p++) {
    if (strcmp(text, precision_name[p]) == 0) *precision = p;
  }
  return *precision != BOTH || strcmp(text, "both") == 0;
}

/* Kinds whose words depend on where they stand want whole matrices, not a pool of words. */
static bool parse_kind(const char *text, enum tb_data_kind *kind) {
  static const enum tb_data_kind kinds[] = {TB_UNIFORM01, TB_UNIFORM, TB_NORMAL, TB_WIDE, TB_WIDER};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    *kind = kinds[i];
    if (strcmp(text, tb_data_kind_name[*kind]) == 0) return true;
  }
  return false;
}

static void parse(struct options *o, int argc, char **argv) {
  static const struct option option[] = {{"csv", 1, 0, 'c'},       {"tile", 1, 0, 't'},     {"short", 0, 0, 's'},
                                         {"shape", 1, 0, 'S'},     {"budget", 1, 0, 'b'},   {"rotate", 1, 0, 'r'},
                                         {"peers", 1, 0, 'p'},     {"accuracy", 1, 0, 'a'}, {"pad", 1, 0, 'P'},
                                         {"precision", 1, 0, 'i'}, {"data", 1, 0, 'd'},     {0, 0, 0, 0}};
  *o = (struct options){.tile = "auto",
                        .peers = "auto",
                        .precision = BOTH,
                        .kind = TB_UNIFORM,
                        .budget_s = 0.1,
                        .rotate_bytes = (size_t)256 << 20};
  for (int c; (c = getopt_long(argc, argv, "", option, NULL)) != -1;) {
    if (c == 'c')
      o->csv = optarg;
    else if (c == 't')
      o->tile = optarg;
    else if (c == 's')
      o->short_list = 1;
    else if (c == 'b')
      o->budget_s = atof(optarg);
    else if (c == 'r')
      o->rotate_bytes = (size_t)atol(optarg) << 20;
    else if (c == 'p')
      o->peers = optarg;
    else if (c == 'P')
      o->pad = atoi(optarg);
    else if (c == 'a')
      o->accuracy = atoi(optarg);
    else if ((c == 'i' && parse_precision(optarg, &o->precision)) || (c == 'd' && parse_kind(optarg, &o->kind)))
      continue;
    else if (c != 'S' || o->shapes == TB_SHAPES_MAX || !tb_shape_parse(optarg, &o->shape[o->shapes++]))
      usage();
  }
  if (optind != argc || o->pad < 0 || (strcmp(o->peers, "auto") && strcmp(o->peers, "none"))) usage();
  if (o->shapes == 0) o->shapes = tb_shapes(o->shape, o->short_list);
}

static struct tb_choice forced_way(const char *text) {
  struct tb_choice way = {.family = TB_FAMILY_NONE};
  if (strcmp(text, "auto") && strcmp(text, "each")) {
    way = tb_bench_parse_choice(text);
    if (way.family == TB_FAMILY_NONE) {
      fprintf(stderr, "kernels: no kernel is called %s\n", text);
      exit(2);
    }
  }
  return way;
}

static FILE *open_csv(const struct options *o) {
  if (!o->csv) return NULL;
  FILE *f = fopen(o->csv, "w");
  if (!f) {
    perror(o->csv);
    exit(EXIT_FAILURE);
  }
  fputs(o->accuracy ? "kind,n,k,who,way,tiles_as_ieee,tiles_as_fast,max_err_u,mean_err_u,bias_u\n"
                    : "precision,ta,tb,m,n,k,us,tflops,cublas_us,ratio,max_err_u,mean_err_u,bias_u,tile,gb_s,"
                      "cublas_pedantic_us,cublas_default_us,cublas_tf32_us\n",
        f);
  return f;
}

int main(int argc, char **argv) {
  struct options o;
  parse(&o, argc, argv);
  struct tb_choice forced = forced_way(o.tile);
  struct tb_bench bench;
  bool peers = strcmp(o.peers, "none") != 0;
  if (!peers) fprintf(stderr, "peer missing: cuBLAS, by --peers none\n");
  tb_bench_open(&bench, peers);
  FILE *csv = open_csv(&o);
  printf("%s, %d SMs\n", bench.gpu.name, bench.gpu.sm_count);
  int all_right =
      o.accuracy ? tb_bench_accuracy(&bench, o.accuracy, o.short_list, &forced, csv) : bench_speed(&bench, &o, csv);
  if (csv && fclose(csv)) {
    perror(o.csv);
    return EXIT_FAILURE;
  }
  tb_bench_close(&bench);
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
