/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a call goes. tb_route is a pure function of the call and of what is known about the machine; it touches no GPU,
 * takes no lock and allocates nothing, so it can be tested anywhere and called for every product.
 */
#ifndef TB_ROUTE_H
#define TB_ROUTE_H

#include "blas_call.h"
#include "options.h"
#include "place.h"
#include "stats.h"
#include "status.h"

/* What the decision rests on. Rates are what a whole call reaches, not peaks. */
struct tb_machine {
  enum tb_route_mode mode;
  enum tb_status gpu; /* TB_STATUS_gpu_sooner: usable or not tried yet; otherwise why no GPU can answer */
  bool gpu_open;      /* false: the first call also pays open_seconds */
  double open_seconds;
  double saved_seconds;       /* what a GPU would have saved by the calls so far that the CPU answered */
  double cpu_flops_per_s;     /* the CPU BLAS, all its threads */
  double gpu_flops_per_s;     /* our kernels on a large product */
  double stage_bytes_per_s;   /* operands up and result down, through pinned staging */
  double link_bytes_per_s;    /* the same from and to pinned memory */
  double gpu_latency_seconds; /* of the smallest call */
};

struct tb_decision {
  enum tb_where where;
  enum tb_status why;
  double cpu_seconds, gpu_seconds; /* predictions; 0 when none was needed */
};

/* Products with fewer operations than this stay on the CPU without further thought: a link round trip costs as much. */
#define TB_SMALL_TERMS (320LL * 320 * 320)
#define TB_SMALL_FLOPS (2.0 * TB_SMALL_TERMS)

/* What is assumed of a machine before anything is known about it; `cores` is how many the process may use. */
struct tb_machine tb_machine_assumed(int cores);

/* For the functions below, places as tb_places_find gives them; NULL: all operands are pageable. */

/* Decides what needs no knowledge of the machine: most calls of most programs. False: tb_route must be asked. */
bool tb_route_settled(const struct tb_gemm *call, enum tb_route_mode mode, struct tb_decision *decision);

struct tb_decision tb_route(const struct tb_gemm *call, const struct tb_places *places,
                            const struct tb_machine *machine);

/*
 * Decides the calls that the GPU takes whatever their size, for some of their operands lie there: those that touch
 * device memory, and products of which nothing is pageable and something is managed. With TILEBLAS_ROUTE=cpu they are
 * for the CPU too, which needs copies where there is device memory. False: the operands do not settle it.
 */
bool tb_route_resident(const struct tb_gemm *call, const struct tb_places *places, enum tb_route_mode mode,
                       struct tb_decision *decision);

#endif
