/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/calibrate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cpu/fallback.h"

/* A call of at most so many seconds is made three times, and the second shortest counts: the first one loads kernels,
 * wakes threads or lets device memory grow. A longer one is made twice, and one that is longer still once. */
#define THRICE_SECONDS 0.002
#define TWICE_SECONDS 0.02

/* That a node has than its neighbour with one size less, at most. */
#define MORE_OPERATIONS 4

/* ---- one side ---- */

static double smaller(double a, double b) { return a < b ? a : b; }

/* The time of a node, from up to three calls; negative: one failed. */
static double time_node(enum tb_where where, int node, tb_time_call *time_call, void *context) {
  const struct tb_node_sizes sizes = tb_node_sizes(node);
  const double first = time_call(context, where, &sizes);
  if (first < 0 || first > TWICE_SECONDS) return first;
  const double second = time_call(context, where, &sizes);
  if (second < 0 || second > THRICE_SECONDS) return second < 0 ? second : smaller(first, second);
  const double third = time_call(context, where, &sizes);
  if (third < 0) return third;
  const double least = smaller(first, smaller(second, third));
  return least == first ? smaller(second, third) : smaller(first, least == second ? third : second);
}

/* What a node may take, from its neighbours with one size less. Negative: one of them
 * was not measured. */
static double expected_seconds(const double seconds[TB_NODES], int node) {
  const int steps[3] = {TB_GRID_SIZES * TB_GRID_SIZES, TB_GRID_SIZES, 1};
  double most = 0;
  for (int d = 0; d < 3; d++) {
    if (node / steps[d] % TB_GRID_SIZES == 0) continue;
    const double neighbour = seconds[node - steps[d]];
    if (!(neighbour > 0)) return -1;
    if (neighbour > most) most = neighbour;
  }
  return MORE_OPERATIONS * most;
}

bool tb_calibrate_side(double seconds[TB_NODES], enum tb_where where, double (*clock)(void *context),
                       double budget_seconds, tb_time_call *time_call, void *context) {
  memset(seconds, 0, TB_NODES * sizeof *seconds);
  const struct tb_node_sizes least = tb_node_sizes(0);
  if (time_call(context, where, &least) < 0) return false; /* the very first one is like no other */
  const double deadline = clock(context) + budget_seconds;
  for (int sum = 0; sum <= 3 * (TB_GRID_SIZES - 1); sum++) /* of a node's indices: by operations */
    for (int i = 0; i < TB_GRID_SIZES; i++)
      for (int j = 0; j < TB_GRID_SIZES; j++) {
        const int l = sum - i - j;
        if (l < 0 || l >= TB_GRID_SIZES) continue;
        const int node = tb_node(i, j, l);
        const double expected = expected_seconds(seconds, node);
        if (expected < 0 || clock(context) + expected > deadline) continue;
        const double took = time_node(where, node, time_call, context);
        if (took < 0) return false;
        seconds[node] = took;
      }
  return true;
}

/* ---- the real machine ---- */

struct operands {
  void *in, *out; /* A and B are the same memory */
  enum tb_symbol symbol;
};

static double clock_now(void *context) {
  (void)context;
  return tb_clock_seconds();
}

static double time_call(void *context, enum tb_where where, const struct tb_node_sizes *s) {
  const struct operands *x = context;
  struct tb_call call = {.symbol = x->symbol, .m = s->m, .n = s->n, .k = s->k, .c = x->out, .ldc = s->m};
  call.type = tb_routine_of(x->symbol)->type;
  call.alpha = tb_scalar_of(call.type, 1);
  call.a = (struct tb_view){.data = x->in, .ld = s->m, .type = call.type};
  call.b = (struct tb_view){.data = x->in, .ld = s->k, .type = call.type};
  struct tb_outcome outcome = {.failed = false};
  const double begun = tb_clock_seconds();
  if (where == TB_CPU)
    tb_fallback_compute(&call);
  else if (!tb_offload_call_alone(&call, &outcome))
    return -1;
  return outcome.failed ? -1 : where == TB_CPU ? tb_clock_seconds() - begun : outcome.seconds;
}

/* Values of about 1 of either sign: no call is to be slowed by infinities or subnormal numbers. */
static void fill(void *x, size_t count, bool doubles) {
  uint32_t state = 1;
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u; /* Numerical Recipes */
    if (doubles)
      ((double *)x)[i] = (int32_t)state * 0x1p-31;
    else
      ((float *)x)[i] = (float)(int32_t)state * 0x1p-31f;
  }
}

bool tb_calibrate(struct tb_calibration *calibration, const struct tb_gpu_identity *gpu, enum tb_symbol symbol) {
  const enum tb_type type = tb_routine_of(symbol)->type;
  const size_t bytes = (size_t)(TB_GRID_MOST * TB_GRID_MOST * tb_type_bytes(type));
  *calibration =
      (struct tb_calibration){.open_seconds = gpu->open_seconds, .gpu_peak_flops_per_s = gpu->peak_flops_per_s[type]};
  struct operands x = {malloc(bytes), malloc(bytes), symbol};
  bool done = x.in != NULL && x.out != NULL;
  if (done) {
    fill(x.in, bytes / (size_t)tb_type_bytes(tb_type_real(type)), tb_type_is_double(type));
    memset(x.out, 0, bytes);
    done =
        tb_offload_measure_link(&calibration->link_up_bytes_per_s, &calibration->link_down_bytes_per_s) &&
        tb_calibrate_side(calibration->seconds[TB_GPU], TB_GPU, clock_now, TB_CALIBRATION_SIDE_SECONDS, time_call,
                          &x) &&
        tb_calibrate_side(calibration->seconds[TB_CPU], TB_CPU, clock_now, TB_CALIBRATION_SIDE_SECONDS, time_call, &x);
  }
  free(x.in);
  free(x.out);
  return done;
}
