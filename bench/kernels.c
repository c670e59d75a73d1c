/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Speed of the production kernels on resident data, beside cuBLAS in the same run, shape by shape.
 *
 *   kernels [--csv FILE] [--tile auto|each|NAME[/SPLITS]] [--short] [--shape NN:MxNxK]... [--budget SECONDS]
 *           [--rotate MIB] [--pad N] [--peers auto|none] [--accuracy N]
 *
 * --pad N: leading dimensions are N longer than need be, for cuBLAS as well.
 *
 * Operands are random; each launch takes other copies of them, `rotate` MiB in all, so that the L2 cache starts cold.
 * Times are medians of CUDA-event times over batches (gpu.h). Each result is checked against fp64 on a sample of rows
 * and columns, and a wrong one ends the program with status 1. With --accuracy the five kinds of data are multiplied
 * for N x N results instead, and the errors written down beside cuBLAS's and OpenBLAS's.
 */
#include "kernels_bench.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct options {
  const char *csv, *tile, *peers;
  struct tb_shape shape[TB_SHAPES_MAX];
  int shapes, short_list, accuracy, pad;
  double budget_s;
  size_t rotate_bytes;
};

struct row {
  double us, peer_us[TB_PEER_COUNT]; /* 0: not measured */
  struct tb_error error;
};

static double fp32_peer_us(const struct row *r) {
  return fmin(r->peer_us[TB_PEER_PEDANTIC], r->peer_us[TB_PEER_DEFAULT]);
}

/* A product with a thin operand is limited by memory: its rate is the bytes of operands and result, each once. */
static int is_thin(const struct tb_shape *s) { return tb_thin_takes(s->m, s->n); }

static double moved_bytes(const struct tb_shape *s) {
  return 4.0 * ((double)s->m * s->k + (double)s->k * s->n + (double)s->m * s->n);
}

static void print_row(FILE *csv, const struct tb_work *w, const struct row *r) {
  const struct tb_shape *s = &w->shape;
  double tflops = 2e-6 * s->m * s->n * s->k / r->us, peer = fp32_peer_us(r), gb_s = 1e-3 * moved_bytes(s) / r->us;
  char way[64];
  tb_choice_describe(&w->choice, way, sizeof way);
  printf("%c%c %6d %6d %6d  %-13s %10.1f us %7.2f TFLOP/s", "NT"[s->ta], "NT"[s->tb], s -> m, s -> n, s -> k, way,
         r -> us, tflops);
  if (is_thin(s)) printf(" %5.0f GB/s", gb_s);
  if (peer > 0) printf("  cuBLAS %10.1f us  ratio %.3f", peer, peer / r->us);
  printf("  error %.2f u\n", r->error.max_u);
  fflush(stdout);
  if (!csv) return;
  fprintf(csv, "ieee,%c,%c,%d,%d,%d,%.2f,%.3f,", "NT"[s->ta], "NT"[s->tb], s -> m, s -> n, s -> k, r -> us, tflops);
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

static void measure_peers(struct tb_work *w, struct row *r, double budget_s) {
  w->by_cublas = true;
  for (int p = 0; p < TB_PEER_COUNT; p++) {
    TB_NV(cublasSetMathMode(w->bench->cublas, tb_peer_math[p]));
    r->peer_us[p] = tb_work_median_us(w, budget_s);
  }
  w->by_cublas = false;
}

/* Ratios summed up as the geometric mean and the worst. */
static void print_summary(const double *ratio, int count) {
  double log_sum = 0, worst = INFINITY;
  for (int i = 0; i < count; i++) {
    log_sum += log(ratio[i]);
    worst = fmin(worst, ratio[i]);
  }
  if (count)
    printf("cuBLAS fp32 time over ours: geometric mean %.3f, worst %.3f, of %d\n", exp(log_sum / count), worst, count);
}

/* Forced to be split between groups, or between chunks where there are too few groups. */
static int fits_workspace(const struct tb_work *w, struct tb_choice *way) {
  const struct tb_shape *s = &w->shape;
  if (tb_split_of(s->k, way).splits < way->splits) way->unit_k = TB_SGEMM_CHUNK_K;
  return tb_workspace_bytes(s->m, s->n, s->k, way) <= w->bench->workspace_bytes;
}

/* The ways in which a product is to be measured: as the library chooses, as forced, or every one there is. */
static int list_ways(const struct tb_work *w, const struct options *o, struct tb_choice way[TB_CANDIDATES_MAX]) {
  if (strcmp(o->tile, "each") == 0) {
    struct tb_product product = tb_work_product(w);
    return tb_select_candidates(&w->bench->kernels.device, &product, way);
  }
  way[0] = w->choice;
  if (strcmp(o->tile, "auto") == 0) return 1;
  way[0] = tb_bench_parse_choice(o->tile);
  bool thin = way[0].family == TB_FAMILY_THIN;
  struct tb_product product = tb_work_product(w);
  if (!thin) way[0].pack_k = tb_select_pack_k(&product, way[0].tile);
  return thin ? is_thin(&w->shape) : fits_workspace(w, &way[0]);
}

static int bench_speed(const struct tb_bench *bench, const struct options *o, FILE *csv) {
  struct tb_work w;
  int all_right = 1, ratios = 0;
  double ratio[TB_SHAPES_MAX];
  tb_work_open(&w, bench, o->shape, o->shapes, o->rotate_bytes, o->pad);
  for (int i = 0; i < o->shapes; i++) {
    struct row r = {0};
    double best_us = INFINITY;
    tb_work_set(&w, o->shape[i]);
    if (bench->cublas) measure_peers(&w, &r, o->budget_s);
    struct tb_choice way[TB_CANDIDATES_MAX];
    int ways = list_ways(&w, o, way);
    for (int j = 0; j < ways; j++) {
      w.choice = way[j];
      int right = tb_work_check(&w, &r.error);
      all_right &= right;
      if (!right) continue;
      r.us = tb_work_median_us(&w, o->budget_s);
      print_row(csv, &w, &r);
      best_us = fmin(best_us, r.us);
    }
    if (bench->cublas && best_us < INFINITY) ratio[ratios++] = fp32_peer_us(&r) / best_us;
  }
  print_summary(ratio, ratios);
  tb_work_close(&w);
  return all_right;
}

struct tb_choice tb_bench_parse_choice(const char *text) {
  size_t name_len = strcspn(text, "/");
  int splits = text[name_len] ? atoi(text + name_len + 1) : 1;
  struct tb_choice c = {.family = TB_FAMILY_THIN, .splits = splits, .unit_k = TB_SGEMM_GROUP_K};
  if (splits == 1 && strcmp(text, "thin") == 0) return c;
  for (c.tile = 0; splits >= 1 && c.tile < TB_TILE_COUNT; c.tile++) {
    c.family = TB_FAMILY_TILE;
    if (strlen(tb_tiles[c.tile].name) == name_len && strncmp(tb_tiles[c.tile].name, text, name_len) == 0) return c;
  }
  return (struct tb_choice){.family = TB_FAMILY_NONE};
}

static _Noreturn void usage(void) {
  fprintf(stderr, "usage: kernels [--csv FILE] [--tile auto|each|NAME[/SPLITS]] [--short] [--shape NN:MxNxK]... "
                  "[--budget SECONDS]\n"
                  "               [--rotate MIB] [--pad N] [--peers auto|none] [--accuracy N]\n");
  exit(2);
}

static void parse(struct options *o, int argc, char **argv) {
  static const struct option option[] = {
      {"csv", 1, 0, 'c'},    {"tile", 1, 0, 't'},  {"short", 0, 0, 's'},    {"shape", 1, 0, 'S'}, {"budget", 1, 0, 'b'},
      {"rotate", 1, 0, 'r'}, {"peers", 1, 0, 'p'}, {"accuracy", 1, 0, 'a'}, {"pad", 1, 0, 'P'},   {0, 0, 0, 0}};
  *o = (struct options){.tile = "auto", .peers = "auto", .budget_s = 0.1, .rotate_bytes = (size_t)256 << 20};
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
  fputs(o->accuracy ? "kind,n,k,who,max_err_u,mean_err_u,bias_u\n"
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
  int all_right = o.accuracy ? tb_bench_accuracy(&bench, o.accuracy, &forced, csv) : bench_speed(&bench, &o, csv);
  if (csv && fclose(csv)) {
    perror(o.csv);
    return EXIT_FAILURE;
  }
  tb_bench_close(&bench);
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
