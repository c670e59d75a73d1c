/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a call goes. tb_route is a pure function of the call and of what is known about the machine; it touches no GPU,
 * takes no lock and allocates nothing, so it can be tested anywhere and called for every product. What is known is
 * router.c's to gather.
 */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include <stdatomic.h>

#include "blas/call.h"
#include "route/model.h"
#include "route/staying.h"
#include "base/options.h"
#include "cuda/place.h"
#include "base/status.h"

/* What the decision rests on. */
struct tb_machine {
  enum tb_route_mode mode;
  enum tb_status gpu;           /* TB_STATUS_ok: usable or not tried yet; otherwise why no GPU can answer */
  bool gpu_open;                /* false: the first call also pays for opening it */
  double saved_seconds;         /* what a GPU would have saved by the calls so far that the CPU answered */
  const struct tb_model *model; /* for calls that are weighed */
  double now;                   /* the model's clock */
  double wait_seconds;          /* that the GPU keeps a call waiting for others' (queue.h) */
};

struct tb_decision {
  enum tb_where where;
  enum tb_status why;
  double cpu_seconds, gpu_seconds; /* predictions, with the wait for others' calls; 0 when none was needed */
  double wait_seconds;             /* that are in gpu_seconds */
  double at;                       /* when they were made, by tb_clock_seconds; 0: nobody has looked */
  bool clear;                      /* to the CPU, by times of calls of this shape, and the GPU is not nearly as soon */
  bool follows;         /* a call of the same shape for which it was clear: not weighed, and not to be timed */
  enum tb_stay stays;   /* the operand for which it goes to the GPU (staying.h) */
  int followers;        /* such calls since the latest one that was weighed */
  int place;            /* among the calls on the GPU (queue.h); 0: none */
  double found_seconds; /* what was predicted for those that were there before it */
  double expected;      /* of them, the share that it was to wait for */
  uint64_t joined;      /* calls on the GPU so far, itself counted, when it joined them; 0: it did not */
};

/*
 * Products of a type of fewer terms m n k than this stay on the CPU without further thought: so says the
 * model of the machine, as soon as there is one. For the path of a small call: a relaxed load.
 */
extern atomic_llong tb_route_small_terms[TB_TYPE_COUNT];

static inline double tb_route_small_flops(enum tb_type type) {
  return tb_type_flops(type) * (double)atomic_load_explicit(&tb_route_small_terms[type], memory_order_relaxed);
}

/* Before that: from so many on it is worth a look whether measurements of this machine were kept. */
#define TB_SMALL_TERMS_AT_FIRST (160LL * 160 * 160)

/* For the functions below, places as tb_places_find gives them; NULL: all operands are pageable. */

/* Decides what needs no knowledge of the machine: most calls of most programs. False: tb_route must be asked. */
bool tb_route_settled(const struct tb_call *call, enum tb_route_mode mode, struct tb_decision *decision);

struct tb_decision tb_route(const struct tb_call *call, const struct tb_places *places,
                            const struct tb_machine *machine);

/*
 * Decides the calls that the GPU takes whatever their size, for some of their operands lie there: those that touch
 * device memory, and products of which nothing is pageable and something is managed. With TILEBLAS_ROUTE=cpu they are
 * for the CPU too, which needs copies where there is device memory. False: the operands do not settle it.
 */
bool tb_route_resident(const struct tb_call *call, const struct tb_places *places, enum tb_route_mode mode,
                       struct tb_decision *decision);

#endif
