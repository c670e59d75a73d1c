/* SPDX-License-Identifier: BSD-3-Clause */
/* From measured times to the selector's table (src/select/rates.def): pure arithmetic, needs no GPU. */
#ifndef TB_BENCH_FIT_H
#define TB_BENCH_FIT_H

#include "select/select.h"

/* One way to compute one product, and the microseconds it took. Samples of the same product follow each other. */
struct tb_sample {
  struct tb_product product;
  struct tb_choice choice;
  double us;
};

/*
 * Changes the table until its predictions are as near to the samples as they get: the least mean square of the
 * logarithm of their ratio, each sample weighing as much as it is near to its product's best, and the least cost of
 * what is chosen by them, by descent along one number after another. Numbers that no sample depends on stay. Returns
 * the root of that mean: 0.05 is about 5 %.
 */
double tb_fit(struct tb_select_table *table, const struct tb_select_device *device, const struct tb_sample *sample,
              int count);

/* What a table's choices would have cost: measured time of the chosen way over that of the product's best. */
struct tb_regret {
  int products;
  double mean, worst;           /* geometric mean */
  int worst_chosen, worst_best; /* samples */
};
struct tb_regret tb_fit_regret(const struct tb_select_table *table, const struct tb_select_device *device,
                               const struct tb_sample *sample, int count);

/* The sample that begins the next product; count at the end. */
int tb_fit_next_product(const struct tb_sample *sample, int count, int at);

#endif
