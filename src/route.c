/* SPDX-License-Identifier: BSD-3-Clause */
#include "route.h"

/*
 * Assumptions: cautious of the GPU, and for the CPU corrected by what its calls take. A core of today runs OpenBLAS's
 * sgemm at 15 to 160 GFLOP/s; a copying thread moves 4 to 12 GB/s, and eight fill the link; opening a GPU (context,
 * kernels, pinned buffers) takes 0.1 to 0.4 s.
 */
#define ASSUMED_CORE_FLOPS_PER_S 60e9
#define ASSUMED_GPU_FLOPS_PER_S 5e12
#define ASSUMED_CORE_STAGE_BYTES_PER_S 4e9
#define ASSUMED_STAGE_CORES_MAX 8
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
      .gpu_latency_seconds = ASSUMED_GPU_LATENCY_S,
  };
}

/* A and B go up while the kernels run and C comes down behind them, all copied by the same threads: copies add up,
 * and the slower of copying and computing decides. C is read once more when beta is not zero. */
static double gpu_seconds(const struct tb_gemm *call, const struct tb_machine *machine) {
  double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  double copy = 4 * (m * k + k * n + m * n) / machine->stage_bytes_per_s;
  double compute = tb_gemm_flops(call) / machine->gpu_flops_per_s;
  return machine->gpu_latency_seconds + (copy > compute ? copy : compute);
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

struct tb_decision tb_route(const struct tb_gemm *call, const struct tb_machine *machine) {
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
    d.gpu_seconds = gpu_seconds(call, machine);
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
