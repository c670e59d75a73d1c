/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a call takes on either side: a pure function of the call, of what was measured, and of the time. Knows no
 * GPU and no clock; allocates nothing. A model that several threads use wants a lock (router.c has it).
 *
 *   seconds(side, call) = formula(rates, call) x base x learned
 *
 *   formula   a few rates of the machine: latency, bytes, operations
 *   base      what calls of known sizes took beside the formula: one factor for each node of a grid over m, n and k,
 *             interpolated between nodes
 *   learned   what real calls take beside that, again at the nodes; it fades when nothing confirms it
 *
 * and for shapes that were called lately, their own times in place of all this (learn.c).
 */
#ifndef TB_MODEL_H
#define TB_MODEL_H

#include "blas/call.h"
#include "cuda/place.h"
#include "base/status.h"

/* The grid: each of m, n and k is one of five sizes, about a factor of four apart. They are odd, for most products have
 * sizes that no kernel's tile divides; those whose tile does are somewhat quicker, on the CPU above all. */
#define TB_GRID_SIZES 5
#define TB_NODES (TB_GRID_SIZES * TB_GRID_SIZES * TB_GRID_SIZES)
#define TB_GRID_LEAST 9
#define TB_GRID_MOST 2153

/* Sizes of a node, 0 <= node < TB_NODES, and the node for indices into the sizes. */
struct tb_node_sizes {
  int64_t m, n, k;
};
struct tb_node_sizes tb_node_sizes(int node);
static inline int tb_node(int i, int j, int l) { return (i * TB_GRID_SIZES + j) * TB_GRID_SIZES + l; }

/* What was measured. 0: not measured. */
struct tb_calibration {
  double open_seconds;                      /* from the first driver call to a GPU that can compute */
  double link_up_bytes_per_s;               /* pinned memory to the GPU */
  double link_down_bytes_per_s;             /* and back */
  double gpu_peak_flops_per_s;              /* nominal */
  int cpu_threads;                          /* of the CPU BLAS; 0: it does not tell */
  double seconds[TB_WHERE_COUNT][TB_NODES]; /* whole calls on pageable operands, the GPU open */
};

/* The formula's rates. */
struct tb_rates {
  double cpu_call_seconds; /* of the smallest product */
  double cpu_flops_per_s, cpu_bytes_per_s;
  double gpu_latency_seconds;              /* of the smallest product, GPU open */
  double gpu_flops_per_s;                  /* our kernels on a large product */
  double up_bytes_per_s, down_bytes_per_s; /* between pageable memory and the GPU, staged */
  double link_up_bytes_per_s, link_down_bytes_per_s;
  double open_seconds;
};

/* An estimate that follows what is observed. */
struct tb_follower {
  double value;
  double at;     /* when it was last moved, in seconds */
  int surprises; /* the latest so many observations were far above it; negative: below */
  double agreed; /* by how much at least: the factor of the nearest */
};

/* A shape that was called lately, and its own times. */
struct tb_shape_memory {
  int64_t m, n, k; /* m = 0: unused */
  bool transpose_a, transpose_b;
  int form;     /* call.h */
  bool decided; /* `last` is the side that was thought to be sooner the last time */
  enum tb_where last;
  double used; /* when */
  struct tb_follower seconds[TB_WHERE_COUNT];
  double seen[TB_WHERE_COUNT]; /* observations that count; less than 1 for those that are not to be trusted */
  double probe_seconds;        /* that may be spent on trying this shape on the side that is thought to be slower */
};

#define TB_SHAPES_REMEMBERED 512

struct tb_model {
  enum tb_type type; /* of all its calls */
  struct tb_rates rates;
  double base[TB_WHERE_COUNT][TB_NODES];
  struct tb_follower learned[TB_WHERE_COUNT][TB_NODES]; /* factors */
  struct tb_follower placed;                            /* factor of GPU calls with operands that are not pageable */
  struct tb_shape_memory shape[TB_SHAPES_REMEMBERED];
  bool assumed;                         /* nothing was measured */
  int measured_threads, threads;        /* of the CPU BLAS: when it was measured, now; 0: unknown */
  double probe_seconds;                 /* the same for all shapes together */
  enum tb_where latest;                 /* the side of the latest call, */
  double ended;                         /* when that ended, */
  const struct tb_shape_memory *trying; /* and the shape above that it tried there; NULL: it was no trial */
  int trial_calls;                      /* that this trial has had */
};

struct tb_prediction {
  double seconds[TB_WHERE_COUNT];
  bool known[TB_WHERE_COUNT];  /* calls of this very shape took this long, lately */
  bool trying[TB_WHERE_COUNT]; /* the call before this one tried this shape there, and the trial is not over */
  double probe_seconds;        /* that may be lost by trying the side that is thought to be slower */
  bool decided;                /* `last` says how a call of this shape was last decided */
  enum tb_where last;
};

/* What is assumed of a machine before anything is known about it, for products of a type; `cores` is how many the
 * process may use. */
void tb_model_assume(struct tb_model *model, enum tb_type type, int cores);

/* Puts measurements in the place of assumptions, and forgets what was learned. What was not measured keeps to its
 * neighbours. */
void tb_model_fit(struct tb_model *model, enum tb_type type, const struct tb_calibration *measured, int cores);

/* Predicts both sides at the time `now`, opening a GPU not counted. places: NULL when all operands are pageable. */
void tb_model_predict(const struct tb_model *model, const struct tb_call *call, const struct tb_places *places,
                      double now, struct tb_prediction *prediction);

/* Products with fewer operations than this the CPU finishes sooner whatever their shape, with the threads it has. */
double tb_model_small_flops(const struct tb_model *model);

/* The least and the most that tb_model_small_flops says. The least: below it no GPU of bench/run route was sooner by
 * what the long way takes, 1.5 us of some 25; soon after, waking OpenBLAS's threads takes as long as a call on a GPU.
 */
#define TB_SMALL_FLOPS_LEAST (2.0 * 72 * 72 * 72)
#define TB_SMALL_FLOPS_MOST (2.0 * 320 * 320 * 320)

/* ---- what learn.c shares with it ---- */

/* A call's place in the grid: eight nodes, and weights that add up to 1. */
struct tb_cell {
  int node[8];
  double weight[8];
};
struct tb_cell tb_model_cell(const struct tb_call *call);

/* The formula alone, and with the factors at the nodes. */
double tb_model_formula(const struct tb_rates *rates, enum tb_where where, const struct tb_call *call,
                        const struct tb_places *places);
double tb_model_class_seconds(const struct tb_model *model, enum tb_where where, const struct tb_call *call,
                              const struct tb_cell *cell, const struct tb_places *places, double now);

/* Half of what was learned of a class, and of a shape, is gone after so long. */
#define TB_CLASS_HALF_SECONDS 120.0
#define TB_SHAPE_HALF_SECONDS 60.0
/* What a shape took less than this ago is taken as it was, without a look at its class. */
#define TB_SHAPE_FRESH_SECONDS 1.0

/* Observations of a shape from which on its time is known. */
#define TB_SHAPE_SEEN_ENOUGH 1.5

/* A trial is so many calls in a row: one that wakes that side, and three that count in full. */
#define TB_PROBE_CALLS 4

/* What is left at `age_seconds` of a factor or share that fades to a half in half_seconds. */
static inline double tb_faded(double age_seconds, double half_seconds) {
  return age_seconds > 0 ? half_seconds / (half_seconds + age_seconds) : 1;
}

/* The memory of the call's shape; NULL: none. tb_model_remember makes one, in the place of the one that was not used
 * for longer. */
const struct tb_shape_memory *tb_model_recall(const struct tb_model *model, const struct tb_call *call);
struct tb_shape_memory *tb_model_remember(struct tb_model *model, const struct tb_call *call);

#endif
