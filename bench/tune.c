/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures every way in which the selector could compute a product, over a grid of shapes; says what its choices cost
 * beside the best ones, and proposes the table (src/select/rates.def) that fits this machine.
 *
 *   tune [--csv FILE] [--def FILE] [--shapes grid|list] [--shape NN:MxNxK]... [--budget SECONDS] [--rotate MIB]
 *        [--slack FACTOR] [--precision ieee|fp32] [--parts N]
 *
 * grid: sides and depths in steps, all transposes; list: the shapes of `kernels`. Ways that are predicted to take
 * FACTOR times as long as the best are left out; with 0 none is. fp32, unless ieee is asked for, may be computed in
 * every way there is, and large products' best ways leave those of plain FMAs out. The library's own choice is checked
 * against fp64 for every shape (the others are tests/gpu's). --parts: with sums as long as suit a k in 1 to N parts,
 * too, instead of the library's own (src/select/order.c), whose choice can be judged so; of them only those by which
 * the best way is predicted to take at most 1.2 times the time by the best; no table is proposed then. Status 1: a
 * wrong result or a failure; 77: no GPU.
 */
#include "fit.h"
#include "select/order.h"
#include "select/skinny_plan.h"
#include "work.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
  const char *csv, *def;
  struct tb_shape shape[TB_SHAPES_MAX];
  int shapes;
  int parts; /* of k, at most, whose sums are measured; 0: the library's own alone */
  enum tb_precision precision;
  double budget_s, slack;
  size_t rotate_bytes;
};

enum { GROUPS_MAX = 128 }; /* lengths of sums for a shape, one more than parts */

/* What was measured. */
struct samples {
  struct tb_sample *sample;
  int count;
};

/* ---- shapes ---- */

static int add_shape(struct tb_shape *shape, int shapes, int m, int n, int k) {
  const double flops_max = 6e11; /* ten milliseconds: more says nothing new */
  if (2.0 * m * n * k > flops_max || shapes == TB_SHAPES_MAX) return shapes;
  shape[shapes] = (struct tb_shape){shapes & 1, shapes >> 1 & 1, m, n, k};
  return shapes + 1;
}

/* Sides from a vector's and a part of the smallest tile's to many of the largest, and depths from half a chunk on;
 * every fourth shape has odd sides, which cannot be copied as vectors. */
static int grid(struct tb_shape shape[TB_SHAPES_MAX]) {
  static const int side[] = {1, 8, 32, 100, 200, 400, 800, 1600, 3200, 6400}, depth[] = {64, 300, 1200, 5000, 20000};
  enum { SIDES = sizeof side / sizeof side[0], DEPTHS = sizeof depth / sizeof depth[0] };
  int shapes = 0;
  for (int i = 0; i < SIDES; i++)
    for (int j = 0; j < SIDES; j++)
      for (int d = 0; d < DEPTHS; d++) {
        if ((i + j + d) % 3) continue; /* a third of them, in all places */
        int odd = shapes % 4 == 3;
        shapes = add_shape(shape, shapes, side[i] + odd, side[j] + odd, depth[d]);
      }
  return shapes;
}

/* ---- measuring ---- */

static double predicted_us(const struct tb_bench *bench, const struct tb_product *p, const struct tb_choice *c) {
  return tb_select_predict_us(&tb_select_table, &bench->kernels.device, p, c);
}

/* What a split of k is counted in. */
static int unit_of(const struct tb_choice *c) {
  if (c->family == TB_FAMILY_FMA) return c->fma.unit_k;
  return c->family == TB_FAMILY_SKINNY ? TB_SGEMM_GROUP_K : TB_EMULATED_GROUP_K;
}

/* All ways for one shape. Returns whether the library's choice gave the right result. */
static int measure_shape(struct tb_work *w, const struct options *o, struct samples *all, FILE *csv) {
  const struct tb_shape *s = &w->shape;
  struct tb_choice candidate[TB_CANDIDATES_MAX], chosen = w->choice;
  struct tb_product product;
  memset(&product, 0, sizeof product); /* products are compared with their padding */
  struct tb_product p = tb_work_product(w);
  product.m = p.m, product.n = p.n, product.k = p.k, product.group_k = p.group_k,
  product.workspace_bytes = p.workspace_bytes;
  product.transpose_a = p.transpose_a, product.transpose_b = p.transpose_b, product.vectors = p.vectors;
  product.emulated = p.emulated;
  struct tb_error error;
  if (!tb_work_check(w, &error)) return 0;
  double least_us = predicted_us(w->bench, &p, &chosen);
  int candidates = tb_select_candidates(&w->bench->kernels.device, &product, candidate);
  for (int c = 0; c < candidates; c++) {
    double predicted = predicted_us(w->bench, &product, &candidate[c]);
    if (o->slack > 0 && predicted > o->slack * least_us) continue;
    w->choice = candidate[c];
    double us = tb_work_median_us(w, o->budget_s);
    all->sample[all->count++] = (struct tb_sample){product, candidate[c], us};
    if (!csv) continue;
    char way[64];
    tb_choice_describe(&candidate[c], way, sizeof way);
    fprintf(csv, "%c,%c,%d,%d,%d,%d,%s,%d,%.2f,%.2f,%d\n", "NT"[s->ta], "NT"[s->tb], s -> m, s -> n, s -> k,
            (int)product.group_k, way, unit_of(&candidate[c]), us, predicted, tb_bench_is_way(&candidate[c], &chosen));
  }
  return 1;
}

/* What the best way is predicted to take with such sums; 0: the library's own. */
static double least_us(struct tb_work *w, struct tb_shape shape, int group_k) {
  w->group_k = group_k;
  tb_work_set(w, shape);
  struct tb_product p = tb_work_product(w);
  return predicted_us(w->bench, &p, &w->choice);
}

/* The lengths of sums to measure, the library's own (0) first. */
static int groups_of(struct tb_work *w, struct tb_shape s, int parts, int group[GROUPS_MAX]) {
  const double slack = 1.2;
  double us[GROUPS_MAX], least = us[0] = least_us(w, s, 0);
  int count = 1, kept = 1;
  group[0] = 0;
  if (tb_skinny_takes(s.m, s.n)) return 1; /* whose kernels know one length alone */
  const int own = (int)tb_group_k(s.m, s.n, s.k);
  for (int p = 1; p <= parts && count < GROUPS_MAX; p++) {
    const int length = (int)tb_group_of_parts(s.k, p);
    if (length == own || length == group[count - 1]) continue;
    us[count] = least_us(w, s, length);
    if (us[count] < least) least = us[count];
    group[count++] = length;
  }
  for (int i = 1; i < count; i++)
    if (us[i] <= slack * least) group[kept++] = group[i];
  return kept;
}

static struct samples measure(const struct tb_bench *bench, const struct options *o, FILE *csv, int *all_right) {
  struct samples all = {malloc((size_t)o->shapes * (o->parts + 1) * TB_CANDIDATES_MAX * sizeof(struct tb_sample)), 0};
  if (!all.sample) exit(EXIT_FAILURE);
  struct tb_work w;
  tb_work_open(&w, bench, o->shape, o->shapes, TB_UNIFORM, o->rotate_bytes, 0);
  w.precision = o->precision;
  for (int i = 0; i < o->shapes; i++) {
    int group[GROUPS_MAX];
    const int groups = groups_of(&w, o->shape[i], o->parts, group);
    for (int g = 0; g < groups; g++) {
      w.group_k = group[g];
      tb_work_set(&w, o->shape[i]);
      *all_right &= measure_shape(&w, o, &all, csv);
    }
  }
  tb_work_close(&w);
  return all;
}

/* ---- telling ---- */

static void print_regret(const char *what, const struct tb_select_table *table, const struct tb_bench *bench,
                         const struct samples *all) {
  struct tb_regret r = tb_fit_regret(table, &bench->kernels.device, all->sample, all->count);
  const struct tb_sample *chosen = &all->sample[r.worst_chosen], *best = &all->sample[r.worst_best];
  char way[2][64];
  tb_choice_describe(&chosen->choice, way[0], sizeof way[0]);
  tb_choice_describe(&best->choice, way[1], sizeof way[1]);
  const struct tb_product *p = &chosen->product;
  printf("%s: chosen over best, %d shapes: geometric mean %.3f, worst %.3f (%c%c %dx%dx%d: %s %.1f us, %s %.1f us)\n",
         what, r.products, r.mean, r.worst, "NT"[p->transpose_a], "NT"[p->transpose_b], (int)p -> m, (int)p -> n,
         (int)p -> k, way[0], chosen -> us, way[1], best -> us);
}

/* What the best ways by the library's own sums take, over those by the best of all that were measured. */
static void print_order(const struct samples *all) {
  double log_sum = 0, worst = 0;
  int shapes = 0, worst_at = 0;
  for (int at = 0, next; at < all->count; at = next) {
    const struct tb_product *p = &all->sample[at].product, *q = p;
    double own = INFINITY, best = INFINITY;
    for (next = at; next < all->count && q->m == p->m && q->n == p->n && q->k == p->k;
         q = &all->sample[++next].product) {
      best = fmin(best, all->sample[next].us);
      if (q->group_k == tb_group_k(q->m, q->n, q->k)) own = fmin(own, all->sample[next].us);
    }
    log_sum += log(own / best);
    if (own / best > worst) worst = own / best, worst_at = at;
    shapes++;
  }
  const struct tb_product *p = &all->sample[worst_at].product;
  printf("the library's sums over the best, %d shapes: geometric mean %.3f, worst %.3f (%c%c %dx%dx%d)\n", shapes,
         exp(log_sum / shapes), worst, "NT"[p->transpose_a], "NT"[p->transpose_b], (int)p -> m, (int)p -> n,
         (int)p -> k);
}

static void print_table(FILE *to, const struct tb_select_table *t) {
  for (int i = 0; i < TB_TILE_COUNT; i++)
    fprintf(to, "TB_SELECT_TILE(%s, %.3g, %.3g, %.2g, %.2g, %.2g, %.2g)\n", tb_tiles[i].name, t->tile[i].full,
            t->tile[i].alone, t->tile[i].knee, t->tile[i].along_k, t->tile[i].by_words, t->tile[i].block_us);
  fprintf(to, "\n");
#define TB_SELECT_COST(name, value) fprintf(to, "TB_SELECT_COST(%s, %.3g)\n", #name, t->name);
#include "select/rates.def"
}

static int propose(const struct tb_bench *bench, const struct options *o, const struct samples *all) {
  struct tb_select_table fitted = tb_select_table;
  double off = tb_fit(&fitted, &bench->kernels.device, all->sample, all->count);
  print_regret("the table as it is", &tb_select_table, bench, all);
  print_regret("the table proposed", &fitted, bench, all);
  printf("its predictions are off by %.1f %% (root mean square, %d times)\n\n", 100 * off, all->count);
  print_table(stdout, &fitted);
  if (!o->def) return 1;
  FILE *def = fopen(o->def, "w");
  if (def) print_table(def, &fitted);
  if (def && fclose(def) == 0) return 1;
  perror(o->def);
  return 0;
}

/* ---- the program ---- */

static _Noreturn void usage(void) {
  fprintf(stderr,
          "usage: tune [--csv FILE] [--def FILE] [--shapes grid|list] [--shape NN:MxNxK]... [--budget SECONDS]\n"
          "            [--rotate MIB] [--slack FACTOR] [--precision ieee|fp32] [--parts N]\n");
  exit(2);
}

static void parse(struct options *o, int argc, char **argv) {
  static const struct option option[] = {{"csv", 1, 0, 'c'},   {"def", 1, 0, 'd'},       {"shapes", 1, 0, 'l'},
                                         {"shape", 1, 0, 'S'}, {"budget", 1, 0, 'b'},    {"rotate", 1, 0, 'r'},
                                         {"slack", 1, 0, 's'}, {"precision", 1, 0, 'p'}, {"parts", 1, 0, 'P'},
                                         {0, 0, 0, 0}};
  const char *list = "grid";
  *o =
      (struct options){.precision = TB_PRECISION_FP32, .budget_s = 0.02, .slack = 3, .rotate_bytes = (size_t)256 << 20};
  for (int c; (c = getopt_long(argc, argv, "", option, NULL)) != -1;) {
    if (c == 'c')
      o->csv = optarg;
    else if (c == 'd')
      o->def = optarg;
    else if (c == 'l')
      list = optarg;
    else if (c == 'b')
      o->budget_s = atof(optarg);
    else if (c == 'r')
      o->rotate_bytes = (size_t)atol(optarg) << 20;
    else if (c == 'P' && atoi(optarg) > 0 && atoi(optarg) < GROUPS_MAX)
      o->parts = atoi(optarg);
    else if (c == 's')
      o->slack = atof(optarg);
    else if (c == 'p' && (strcmp(optarg, "ieee") == 0 || strcmp(optarg, "fp32") == 0))
      o->precision = strcmp(optarg, "ieee") == 0 ? TB_PRECISION_IEEE : TB_PRECISION_FP32;
    else if (c != 'S' || o->shapes == TB_SHAPES_MAX || !tb_shape_parse(optarg, &o->shape[o->shapes++]))
      usage();
  }
  if (optind != argc || (strcmp(list, "grid") && strcmp(list, "list"))) usage();
  if (o->shapes == 0) o->shapes = strcmp(list, "grid") == 0 ? grid(o->shape) : tb_shapes(o->shape, 0);
}

int main(int argc, char **argv) {
  struct options o;
  parse(&o, argc, argv);
  struct tb_bench bench;
  tb_bench_open(&bench, false);
  FILE *csv = o.csv ? fopen(o.csv, "w") : NULL;
  if (o.csv && !csv) {
    perror(o.csv);
    return EXIT_FAILURE;
  }
  if (csv) fputs("ta,tb,m,n,k,group_k,way,unit_k,us,predicted_us,chosen\n", csv);
  printf("%s, %d SMs; %d shapes\n", bench.gpu.name, bench.gpu.sm_count, o.shapes);
  int all_right = 1;
  struct samples all = measure(&bench, &o, csv, &all_right);
  if (csv && fclose(csv)) {
    perror(o.csv);
    return EXIT_FAILURE;
  }
  if (all.count > 0 && o.parts > 0)
    print_order(&all);
  else if (all.count > 0)
    all_right &= propose(&bench, &o, &all);
  free(all.sample);
  tb_bench_close(&bench);
  return all_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
