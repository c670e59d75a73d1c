/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/model.h"

#include <math.h>
#include <string.h>

#include "select/rates.h"

/* So many copying threads fill the link. */
#define ASSUMED_BYTES_CORES_MAX 8

/* Copies and kernels overlap tile by tile: tiles of about this side, at most so many along one (plan.c). */
#define OVERLAP_TILE_ELEMS 1024
#define OVERLAP_TILES_MAX 4

/* A CPU BLAS computes products with fewer operations than this with one thread (OpenBLAS: m n k <= 2^18). */
#define ONE_THREAD_FLOPS (2.0 * 64 * 64 * 64)

/* The grid over which tb_model_small_flops looks has steps of 2 along each side, so that what lies between two of its
 * products may have half the operations of the larger. */
#define SMALL_GRID_LEAST 8
#define SMALL_GRID_SHARE 0.5

/* ---- the grid ---- */

static const int64_t grid_sizes[TB_GRID_SIZES] = {TB_GRID_LEAST, 35, 137, 541, TB_GRID_MOST};

struct tb_node_sizes tb_node_sizes(int node) {
  return (struct tb_node_sizes){grid_sizes[node / (TB_GRID_SIZES * TB_GRID_SIZES)],
                                grid_sizes[node / TB_GRID_SIZES % TB_GRID_SIZES], grid_sizes[node % TB_GRID_SIZES]};
}

/* The binary logarithm, linear between powers of two. */
static double roughly_log2(int64_t size) {
  const int octave = 63 - __builtin_clzll((unsigned long long)size);
  return octave + (double)size / (double)((int64_t)1 << octave) - 1;
}

/* Where a size lies between the grid's, 0 to TB_GRID_SIZES - 1. */
static double grid_position(int64_t size) {
  if (size <= TB_GRID_LEAST) return 0;
  int i = 0;
  while (i < TB_GRID_SIZES - 1 && size >= grid_sizes[i + 1]) i++;
  if (i == TB_GRID_SIZES - 1) return i;
  const double below = roughly_log2(grid_sizes[i]), above = roughly_log2(grid_sizes[i + 1]);
  return i + (roughly_log2(size) - below) / (above - below);
}

struct tb_cell tb_model_cell(const struct tb_call *call) {
  const int64_t size[3] = {call->m, call->n, call->k};
  int low[3];
  double share[3];
  for (int d = 0; d < 3; d++) {
    double position = grid_position(size[d]);
    low[d] = position < TB_GRID_SIZES - 2 ? (int)position : TB_GRID_SIZES - 2;
    share[d] = position - low[d];
  }
  struct tb_cell cell;
  for (int corner = 0; corner < 8; corner++) {
    const int i = corner >> 2, j = corner >> 1 & 1, l = corner & 1;
    cell.node[corner] = tb_node(low[0] + i, low[1] + j, low[2] + l);
    cell.weight[corner] = (i ? share[0] : 1 - share[0]) * (j ? share[1] : 1 - share[1]) * (l ? share[2] : 1 - share[2]);
  }
  return cell;
}

/* ---- the formula ---- */

static double copy_seconds(double bytes, enum tb_place place, double staged_bytes_per_s, double link_bytes_per_s) {
  if (place == TB_PAGEABLE) return bytes / staged_bytes_per_s;
  return place == TB_PINNED ? bytes / link_bytes_per_s : 0;
}

/* Elements of A and of B that are read; of a triangle half. What trmm and trsm overwrite is their B, and goes up, too.
 */
static double elems_of_a(const struct tb_call *call) {
  return (call->recipe == TB_MULTIPLY ? 1 : 0.5) * (double)tb_call_a_rows(call) * (double)call->k;
}
static double elems_of_b(const struct tb_call *call) { return (double)tb_call_b_rows(call) * (double)call->n; }

static double cpu_formula(const struct tb_rates *r, const struct tb_call *call) {
  const double c = (call->recipe == TB_MULTIPLY ? 2 : 1) * tb_call_elems(call); /* read, unless B was, and written */
  return r->cpu_call_seconds + tb_call_flops(call) / r->cpu_flops_per_s +
         (double)tb_call_bytes(call) * (elems_of_a(call) + elems_of_b(call) + c) / r->cpu_bytes_per_s;
}

/* Of a triangle's chain of launches: two for each block on the diagonal (select/solve.h) of a solve, and of a product
 * those few of all of it (plan/triangular.h). */
#define TRIANGULAR_LEAF_REALS 256 /* rows; of complex ones half as many */
#define TRIANGULAR_PRODUCT_STEPS 4
static double chain_seconds(const struct tb_call *call) {
  if (call->recipe == TB_MULTIPLY) return 0;
  const double leaf = TRIANGULAR_LEAF_REALS / (tb_type_is_complex(call->type) ? 2 : 1);
  const double steps = 2 * (double)call->k / leaf;
  const bool one = call->recipe == TB_TRIANGULAR_MULTIPLY && steps > TRIANGULAR_PRODUCT_STEPS;
  return (one ? TRIANGULAR_PRODUCT_STEPS : steps) * tb_rate.triangular_step_seconds;
}

/* A and B go up while the kernels run and C comes down behind them, all copied by the same threads: copies add up. Of
 * copying and computing the shorter hides behind the longer but for the first or the last tile. */
static double gpu_formula(const struct tb_rates *r, const struct tb_call *call, const struct tb_places *places) {
  static const struct tb_places all_pageable;
  if (places == NULL) places = &all_pageable;
  const double bytes = (double)tb_call_bytes(call), elems_b = tb_call_has_twins(call) ? 0 : elems_of_b(call);
  /* Of a mirrored operand what is stored. */
  const double a_share = tb_view_is_mirrored(&call->a) ? 0.5 : 1, b_share = tb_view_is_mirrored(&call->b) ? 0.5 : 1;
  const double copy =
      copy_seconds(bytes * a_share * elems_of_a(call), places->a.place, r->up_bytes_per_s, r->link_up_bytes_per_s) +
      copy_seconds(bytes * b_share * elems_b, places->b.place, r->up_bytes_per_s, r->link_up_bytes_per_s) +
      copy_seconds(bytes * tb_call_elems(call), places->c.place, r->down_bytes_per_s, r->link_down_bytes_per_s);
  const double compute = tb_call_flops(call) / r->gpu_flops_per_s;
  int64_t tiles = ((call->m > call->n ? call->m : call->n) + OVERLAP_TILE_ELEMS - 1) / OVERLAP_TILE_ELEMS;
  if (tiles < 1) tiles = 1;
  if (tiles > OVERLAP_TILES_MAX) tiles = OVERLAP_TILES_MAX;
  const double longer = copy > compute ? copy : compute, shorter = copy > compute ? compute : copy;
  return r->gpu_latency_seconds + chain_seconds(call) + longer + shorter / (double)tiles;
}

double tb_model_formula(const struct tb_rates *rates, enum tb_where where, const struct tb_call *call,
                        const struct tb_places *places) {
  return where == TB_CPU ? cpu_formula(rates, call) : gpu_formula(rates, call, places);
}

/* ---- assumptions and measurements ---- */

static void forget(struct tb_model *model) {
  for (int where = 0; where < TB_WHERE_COUNT; where++)
    for (int node = 0; node < TB_NODES; node++) model->learned[where][node] = (struct tb_follower){.value = 1};
  model->placed = (struct tb_follower){.value = 1};
  memset(model->shape, 0, sizeof model->shape);
  model->trying = NULL;
  model->probe_seconds = 0;
}

void tb_model_assume(struct tb_model *model, enum tb_type type, int cores) {
  const double slower = tb_type_is_double(type) ? tb_rate.assumed_double_times : 1;
  const int copying = cores < ASSUMED_BYTES_CORES_MAX ? cores : ASSUMED_BYTES_CORES_MAX;
  *model =
      (struct tb_model){.type = type,
                        .assumed = true,
                        .rates = {.cpu_call_seconds = tb_rate.assumed_cpu_call_seconds,
                                  .cpu_flops_per_s = tb_rate.assumed_core_flops_per_s * cores / slower,
                                  .cpu_bytes_per_s = tb_rate.assumed_core_bytes_per_s * copying,
                                  .gpu_latency_seconds = tb_rate.assumed_gpu_latency_seconds,
                                  .gpu_flops_per_s = tb_type_is_double(type) ? tb_rate.assumed_gpu_double_flops_per_s
                                                                             : tb_rate.assumed_gpu_flops_per_s,
                                  .up_bytes_per_s = tb_rate.assumed_core_bytes_per_s * copying,
                                  .down_bytes_per_s = tb_rate.assumed_core_bytes_per_s * copying,
                                  .link_up_bytes_per_s = tb_rate.assumed_link_bytes_per_s,
                                  .link_down_bytes_per_s = tb_rate.assumed_link_bytes_per_s,
                                  .open_seconds = tb_rate.assumed_open_seconds},
                        .measured_threads = cores,
                        .threads = cores};
  for (int where = 0; where < TB_WHERE_COUNT; where++)
    for (int node = 0; node < TB_NODES; node++) model->base[where][node] = 1;
  forget(model);
}

static struct tb_call node_call(enum tb_type type, int node) {
  struct tb_node_sizes s = tb_node_sizes(node);
  return (struct tb_call){.type = type, .m = s.m, .n = s.n, .k = s.k, .alpha = tb_scalar_of(type, 1)};
}

/* Bytes over what a node's time leaves for moving them, where that can be told from the rest. */
static void fit_bytes(double *bytes_per_s, double seconds, double other_seconds, double bytes) {
  if (seconds > 2 * other_seconds) *bytes_per_s = bytes / (seconds - other_seconds);
}

/* The highest rate of operations that any node reached, after what it spent on `call_seconds`. */
static double best_flops_per_s(enum tb_type type, const double seconds[TB_NODES], double call_seconds) {
  double best = 0;
  for (int node = 0; node < TB_NODES; node++) {
    if (!(seconds[node] > 0)) continue;
    const struct tb_call call = node_call(type, node);
    const double left = seconds[node] - call_seconds;
    const double rate = tb_call_flops(&call) / (left > seconds[node] / 2 ? left : seconds[node] / 2);
    if (rate > best) best = rate;
  }
  return best;
}

static const int last_size = TB_GRID_SIZES - 1;

static void fit_cpu(struct tb_rates *r, enum tb_type type, const double seconds[TB_NODES]) {
  if (!(seconds[0] > 0)) return;
  r->cpu_call_seconds = seconds[0];
  r->cpu_flops_per_s = best_flops_per_s(type, seconds, seconds[0]);
  const struct tb_call flat = node_call(type, tb_node(last_size, last_size, 0));
  const double other = seconds[0] + tb_call_flops(&flat) / r->cpu_flops_per_s;
  const double bytes =
      (double)tb_type_bytes(type) * (2.0 * TB_GRID_MOST * TB_GRID_MOST + 2.0 * TB_GRID_LEAST * TB_GRID_MOST);
  fit_bytes(&r->cpu_bytes_per_s, seconds[tb_node(last_size, last_size, 0)], other, bytes);
}

static void fit_gpu(struct tb_rates *r, enum tb_type type, const double seconds[TB_NODES], double peak_flops_per_s) {
  if (!(seconds[0] > 0)) return;
  const double bytes = (double)tb_type_bytes(type) * TB_GRID_MOST * TB_GRID_MOST;
  const double latency = seconds[0], whole = seconds[tb_node(last_size, last_size, last_size)];
  r->gpu_latency_seconds = latency;
  fit_bytes(&r->up_bytes_per_s, seconds[tb_node(last_size, 0, last_size)], latency, bytes);
  fit_bytes(&r->up_bytes_per_s, seconds[tb_node(0, last_size, last_size)], latency, bytes);
  fit_bytes(&r->down_bytes_per_s, seconds[tb_node(last_size, last_size, 0)], latency, bytes);
  r->gpu_flops_per_s = best_flops_per_s(type, seconds, latency);
  if (!(whole > 0)) return;
  /* The largest node's rate counts its copies: what is left without them is the kernels'. */
  const double flops = tb_type_flops(type) * TB_GRID_MOST * TB_GRID_MOST * TB_GRID_MOST;
  const double compute = whole - latency - 2 * bytes / r->up_bytes_per_s - bytes / r->down_bytes_per_s;
  const double most = tb_rate.most_of_peak * peak_flops_per_s;
  if (compute > 0 && flops / compute < most)
    r->gpu_flops_per_s = flops / compute;
  else if (r->gpu_flops_per_s < most)
    r->gpu_flops_per_s = most;
}

/* The factors at the nodes; in the order of the numbers, so that lower neighbours come first. */
static void fit_base(struct tb_model *model, enum tb_where where, const double seconds[TB_NODES]) {
  const int steps[3] = {TB_GRID_SIZES * TB_GRID_SIZES, TB_GRID_SIZES, 1};
  for (int node = 0; node < TB_NODES; node++) {
    const struct tb_call call = node_call(model->type, node);
    if (seconds[node] > 0) {
      model->base[where][node] = seconds[node] / tb_model_formula(&model->rates, where, &call, NULL);
      continue;
    }
    double sum = 0;
    int neighbours = 0;
    for (int d = 0; d < 3; d++)
      if (node / steps[d] % TB_GRID_SIZES > 0) sum += model->base[where][node - steps[d]], neighbours++;
    model->base[where][node] = neighbours > 0 ? sum / neighbours : 1;
  }
}

void tb_model_fit(struct tb_model *model, enum tb_type type, const struct tb_calibration *measured, int cores) {
  tb_model_assume(model, type, cores);
  model->assumed = false;
  struct tb_rates *r = &model->rates;
  if (measured->open_seconds > 0) r->open_seconds = measured->open_seconds;
  if (measured->link_up_bytes_per_s > 0) r->link_up_bytes_per_s = measured->link_up_bytes_per_s;
  if (measured->link_down_bytes_per_s > 0) r->link_down_bytes_per_s = measured->link_down_bytes_per_s;
  fit_cpu(r, type, measured->seconds[TB_CPU]);
  fit_gpu(r, type, measured->seconds[TB_GPU], measured->gpu_peak_flops_per_s);
  for (int where = 0; where < TB_WHERE_COUNT; where++) fit_base(model, (enum tb_where)where, measured->seconds[where]);
  model->measured_threads = model->threads = measured->cpu_threads;
}

/* ---- shapes ---- */

static bool is_shape(const struct tb_shape_memory *s, const struct tb_call *call) {
  return s->m == call->m && s->n == call->n && s->k == call->k && s->transpose_a == call->a.transposed &&
         s->transpose_b == call->b.transposed && s->form == tb_call_form(call);
}

/* The first of the two places where a shape may be; the other is its neighbour, the number with the last bit turned. */
static unsigned first_place(const struct tb_call *call) {
  uint64_t h = (uint64_t)call->m * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 29 ^ (uint64_t)call->n) * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 32 ^ (uint64_t)call->k) * 0x94d049bb133111ebu;
  h ^= h >> 31 ^ (uint64_t)(tb_call_form(call) * 4 + call->a.transposed * 2 + call->b.transposed) << 3;
  return (unsigned)(h % TB_SHAPES_REMEMBERED);
}

const struct tb_shape_memory *tb_model_recall(const struct tb_model *model, const struct tb_call *call) {
  const unsigned place = first_place(call);
  for (unsigned other = 0; other < 2; other++)
    if (is_shape(&model->shape[place ^ other], call)) return &model->shape[place ^ other];
  return NULL;
}

struct tb_shape_memory *tb_model_remember(struct tb_model *model, const struct tb_call *call) {
  const unsigned place = first_place(call);
  for (unsigned other = 0; other < 2; other++)
    if (is_shape(&model->shape[place ^ other], call)) return &model->shape[place ^ other];
  struct tb_shape_memory *s = &model->shape[place], *neighbour = &model->shape[place ^ 1];
  if (neighbour->used < s->used) s = neighbour;
  *s = (struct tb_shape_memory){
      .m = call->m, .n = call->n, .k = call->k, .transpose_a = call->a.transposed, .transpose_b = call->b.transposed};
  s->form = tb_call_form(call);
  return s;
}

/* ---- prediction ---- */

static double faded_factor(const struct tb_follower *f, double now) {
  return 1 + (f->value - 1) * tb_faded(now - f->at, TB_CLASS_HALF_SECONDS);
}

/* A CPU BLAS with other threads than it was measured with: large products take as much longer or shorter. */
static double thread_factor(const struct tb_model *model, const struct tb_call *call) {
  if (model->measured_threads <= 0 || model->threads <= 0 || tb_call_flops(call) < ONE_THREAD_FLOPS) return 1;
  return (double)model->measured_threads / model->threads;
}

double tb_model_class_seconds(const struct tb_model *model, enum tb_where where, const struct tb_call *call,
                              const struct tb_cell *cell, const struct tb_places *places, double now) {
  if (where == TB_GPU && places != NULL)
    return faded_factor(&model->placed, now) * tb_model_formula(&model->rates, where, call, places);
  double factor = 0;
  for (int i = 0; i < 8; i++)
    factor +=
        cell->weight[i] * model->base[where][cell->node[i]] * faded_factor(&model->learned[where][cell->node[i]], now);
  if (where == TB_CPU) factor *= thread_factor(model, call);
  return factor * tb_model_formula(&model->rates, where, call, NULL);
}

void tb_model_predict(const struct tb_model *model, const struct tb_call *call, const struct tb_places *places,
                      double now, struct tb_prediction *p) {
  const struct tb_shape_memory *shape = places == NULL ? tb_model_recall(model, call) : NULL;
  *p = (struct tb_prediction){.decided = shape != NULL && shape->decided};
  if (p->decided) p->last = shape->last;
  if (shape != NULL)
    p->probe_seconds = shape->probe_seconds < model->probe_seconds ? shape->probe_seconds : model->probe_seconds;
  if (shape != NULL && shape == model->trying) p->trying[model->latest] = model->trial_calls < TB_PROBE_CALLS;
  struct tb_cell cell;
  bool have_cell = false; /* calls of one shape in a row, which are the most, need none */
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    const bool seen = shape != NULL && shape->seen[where] > 0;
    const double age = seen ? now - shape->seconds[where].at : INFINITY;
    const double share = age < TB_SHAPE_FRESH_SECONDS ? 1 : seen ? tb_faded(age, TB_SHAPE_HALF_SECONDS) : 0;
    if (seen) p->seconds[where] = share * shape->seconds[where].value;
    p->known[where] = seen && shape->seen[where] >= TB_SHAPE_SEEN_ENOUGH && shape->seconds[where].surprises == 0 &&
                      age < TB_SHAPE_HALF_SECONDS;
    if (share == 1) continue;
    if (!have_cell) cell = tb_model_cell(call);
    have_cell = true;
    p->seconds[where] += (1 - share) * tb_model_class_seconds(model, (enum tb_where)where, call, &cell, places, now);
  }
}

double tb_model_small_flops(const struct tb_model *model) {
  double least = TB_SMALL_FLOPS_MOST / SMALL_GRID_SHARE;
  for (int64_t m = SMALL_GRID_LEAST; m <= TB_GRID_MOST; m *= 2)
    for (int64_t n = SMALL_GRID_LEAST; n <= TB_GRID_MOST; n *= 2)
      for (int64_t k = SMALL_GRID_LEAST; k <= TB_GRID_MOST; k *= 2) {
        const struct tb_call call = {
            .type = model->type, .m = m, .n = n, .k = k, .alpha = tb_scalar_of(model->type, 1)};
        if (!(tb_call_flops(&call) < least)) break;
        const struct tb_cell cell = tb_model_cell(&call);
        const double cpu_seconds = tb_model_class_seconds(model, TB_CPU, &call, &cell, NULL, 0);
        const double gpu_seconds = tb_model_class_seconds(model, TB_GPU, &call, &cell, NULL, 0);
        if (gpu_seconds < cpu_seconds) least = tb_call_flops(&call);
      }
  least *= SMALL_GRID_SHARE;
  return least > TB_SMALL_FLOPS_LEAST ? least : TB_SMALL_FLOPS_LEAST;
}
