/* SPDX-License-Identifier: BSD-3-Clause */
/* The rates of rates.def that are no kernel's of the selector, as constants: tb_rate.link_bytes_per_s. Knows neither
 * BLAS nor CUDA. */
#ifndef TB_RATES_H
#define TB_RATES_H

static const struct tb_fixed_rates {
#define TB_RATE(name, value) double name;
#include "select/rates.def"
} tb_rate = {
#define TB_RATE(name, value) .name = value,
#include "select/rates.def"
};

/* What plans count on for a link that was measured at so much; 0: it was not. Near the named rate they count on that:
 * measurements differ by some per cent from process to process, and plans need not. */
#define TB_LINK_NEAR 1.5
static inline double tb_link_bytes_per_s(double measured) {
  const double named = tb_rate.link_bytes_per_s;
  return measured > named * TB_LINK_NEAR || (measured > 0 && measured < named / TB_LINK_NEAR) ? measured : named;
}

#endif
