/* SPDX-License-Identifier: BSD-3-Clause */
#include "route.h"

#include <stddef.h>

/*
 * Assumptions: cautious of the GPU, and for the CPU corrected by what its calls take. A core of today runs OpenBLAS's
 * sgemm at 15 to 160 GFLOP/s; a copying thread moves 4 to 12 GB/s, and eight fill the link; opening a GPU (context,
 * kernels, pinned buffers) takes 0.1 to 0.4 s.
 */
#define ASSUMED_CORE_FLOPS_PER_S 60e9
#define ASSUMED_GPU_FLOPS_PER_S 5e12
#define ASSUMED_CORE_STAGE_BYTES_PER_S 4e9
#define ASSUMED_STAGE_CORES_MAX 8
#define ASSUMED_LINK_BYTES_PER_S 20e9 /* PCIe gen4 x16 */
#define ASSUMED_GPU_LATENCY_S 150e-6
#define ASSUMED_OPEN_S 0.4

struct tb_machine tb_machine_assumed(int cores) {
  return (struct tb_machine){
      .mode = TB_ROUTE_AUTO,
      .gpu = TB_STATUS_gpu_sooner,
      .open_seconds = ASSUMED_OPEN_S,
      .cpu_flops_per_s = ASSUMED_CORE_FLOPS_PER_S * cores,
      .gpu_flops_per_s = ASSUMED_GPU_FLOPS_PER_S,
      .stage_bytes_per_s =
          ASSUMED_CORE_STAGE_BYTES_PER_S * (cores < ASSUMED_STAGE_CORES_MAX ? cores : ASSUMED_STAGE_CORES_MAX),
      .link_bytes_per_s = ASSUMED_LINK_BYTES_PER_S,
      .gpu_latency_seconds = ASSUMED_GPU_LATENCY_S,
  };
}

static double copy_seconds(double elems, enum tb_place place, const struct tb_machine *machine) {
  switch (place) {
    case TB_PAGEABLE:
      return 4 * elems / machine->stage_bytes_per_s;
    case TB_PINNED:
      return 4 * elems / machine->link_bytes_per_s;
    default:
      return 0;
  }
}

/* A and B go up while the kernels run and C comes down behind them, all copied by the same threads: copies add up,
 * and the slower of copying and computing decides. C is read once more when beta is not zero. */
static double gpu_seconds(const struct tb_gemm *call, const struct tb_places *places,
                          const struct tb_machine *machine) {
  static const struct tb_places all_pageable;
  if (places == NULL) places = &all_pageable;
  double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  double copy = copy_seconds(m * k, places->a.place, machine) + copy_seconds(k * n, places->b.place, machine) +
                copy_seconds(m * n, places->c.place, machine);
  double compute = tb_gemm_flops(call) / machine->gpu_flops_per_s;
  return machine->gpu_latency_seconds + (copy > compute ? copy : compute);
}

bool tb_route_resident(const struct tb_gemm *call, const struct tb_places *p, enum tb_route_mode mode,
                       struct tb_decision *decision) {
  if (p == NULL) return false;
  bool all = p->a.place != TB_PAGEABLE && p->b.place != TB_PAGEABLE && p->c.place != TB_PAGEABLE;
  bool managed = p->a.place == TB_MANAGED || p->b.place == TB_MANAGED || p->c.place == TB_MANAGED;
  if (!tb_places_need_gpu(p) && !(all && managed && !tb_gemm_is_trivial(call))) return false;
  bool gpu = mode != TB_ROUTE_CPU;
  *decision =
      (struct tb_decision){.where = gpu ? TB_GPU : TB_CPU, .why = gpu ? TB_STATUS_resident : TB_STATUS_forced_cpu};
  return true;
}

bool tb_route_settled(const struct tb_gemm *call, enum tb_route_mode mode, struct tb_decision *decision) {
  enum tb_status why;
  if (tb_gemm_is_trivial(call))
    why = TB_STATUS_trivial;
  else if (mode == TB_ROUTE_CPU)
    why = TB_STATUS_forced_cpu;
  else if (mode == TB_ROUTE_AUTO && tb_gemm_flops(call) < TB_SMALL_FLOPS)
    why = TB_STATUS_small;
  else
    return false;
  *decision = (struct tb_decision){.where = TB_CPU, .why = why};
  return true;
}

struct tb_decision tb_route(const struct tb_gemm *call, const struct tb_places *places,
                            const struct tb_machine *machine) {
  struct tb_decision d;
  if (tb_route_settled(call, machine->mode, &d)) return d;
  d = (struct tb_decision){.where = TB_CPU};
  if (machine->gpu != TB_STATUS_gpu_sooner) {
    d.why = machine->gpu;
  } else if (machine->mode == TB_ROUTE_GPU) {
    d.where = TB_GPU;
    d.why = TB_STATUS_forced_gpu;
  } else {
    d.cpu_seconds = tb_gemm_flops(call) / machine->cpu_flops_per_s;
    d.gpu_seconds = gpu_seconds(call, places, machine);
    double saving = d.cpu_seconds - d.gpu_seconds;
    if (!(saving > 0)) {
      d.why = TB_STATUS_cpu_sooner;
    } else if (!machine->gpu_open && machine->saved_seconds + saving < machine->open_seconds) {
      /* Rent until the rent equals the price: at worst twice the best that hindsight could have done. */
      d.why = TB_STATUS_not_yet;
    } else {
      d.where = TB_GPU;
      d.why = TB_STATUS_gpu_sooner;
    }
  }
  return d;
}
