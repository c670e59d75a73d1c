/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A machine made of arithmetic, for tests of the router: how long any call takes on either side, and what measuring it
 * gives. It resembles one H200 beside 16 cores with OpenBLAS, in forms that differ from the model's formula: the CPU's
 * rate depends on the shortest side, the GPU's copies and kernels overlap as a norm and not as a maximum. Pure.
 */
#ifndef TST_SYNTHETIC_H
#define TST_SYNTHETIC_H

#include <math.h>

#include "route/model.h"
#include "rng.h"

struct tst_synthetic {
  double cpu_call_seconds, cpu_flops_per_s, cpu_half_side, cpu_bytes_per_s;
  double gpu_latency_seconds, gpu_flops_per_s, copy_bytes_per_s;
};

static const struct tst_synthetic tst_synthetic = {.cpu_call_seconds = 0.4e-6,
                                                   .cpu_flops_per_s = 4e11,
                                                   .cpu_half_side = 40, /* at this shortest side, half the rate */
                                                   .cpu_bytes_per_s = 60e9,
                                                   .gpu_latency_seconds = 45e-6,
                                                   .gpu_flops_per_s = 45e12,
                                                   .copy_bytes_per_s = 45e9};

static inline double tst_synthetic_seconds(const struct tst_synthetic *s, int where, const struct tb_call *call) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k, flops = 2 * m * n * k;
  const double bytes = 4 * (m * k + k * n + m * n);
  if (where == TB_CPU) {
    const double side = fmin(m, fmin(n, k)), rate = s->cpu_flops_per_s * side / (side + s->cpu_half_side);
    return s->cpu_call_seconds + hypot(flops / rate, bytes / s->cpu_bytes_per_s);
  }
  return s->gpu_latency_seconds + hypot(flops / s->gpu_flops_per_s, bytes / s->copy_bytes_per_s);
}

/* As measured by the first `nodes` nodes. */
static inline struct tb_calibration tst_synthetic_calibration(const struct tst_synthetic *s, int nodes) {
  struct tb_calibration c = {.open_seconds = 0.2,
                             .link_up_bytes_per_s = 55e9,
                             .link_down_bytes_per_s = 55e9,
                             .gpu_peak_flops_per_s = 67e12,
                             .cpu_threads = 16};
  for (int node = 0; node < nodes; node++)
    for (int where = 0; where < TB_WHERE_COUNT; where++) {
      const struct tb_node_sizes sizes = tb_node_sizes(node);
      const struct tb_call call = {.m = sizes.m, .n = sizes.n, .k = sizes.k, .alpha = {1}};
      c.seconds[where][node] = tst_synthetic_seconds(s, where, &call);
    }
  return c;
}

/* Log-uniform from 8 to `most`. */
static inline int64_t tst_log_uniform(uint64_t *rng, int64_t most) {
  const double unit = (double)(tst_random(rng) >> 11) * 0x1p-53;
  return (int64_t)llround(8 * pow((double)most / 8, unit));
}

#endif
