/* SPDX-License-Identifier: BSD-3-Clause */
/* From measured times to the selector's table; see fit.h. */
#include "fit.h"

#include <math.h>
#include <string.h>

/* The table is nothing but numbers, and the descent takes them one by one. */
enum { NUMBERS = sizeof(struct tb_select_table) / sizeof(double) };
_Static_assert(NUMBERS * sizeof(double) == sizeof(struct tb_select_table), "the table has numbers only");

/* Factors by which a number is changed: first coarse, at the end a third of a per cent. */
static const double steps[] = {1.5, 1.2, 1.1, 1.05, 1.02, 1.01, 1.003};
/* Numbers lean on each other, so the descent is stuck now and then; from its coarse steps on, again, it gets further.
 */
enum { STEPS = sizeof steps / sizeof steps[0], SWEEPS_MAX = 30, DESCENTS = 4 };
/* No rate or cost is smaller, so that a factor can still change it. */
static const double number_min = 0.05;

int tb_fit_next_product(const struct tb_sample *sample, int count, int at) {
  int next = at + 1;
  while (next < count && memcmp(&sample[next].product, &sample[at].product, sizeof sample->product) == 0) next++;
  return next;
}

static int best_of(const struct tb_sample *sample, int begin, int end) {
  int best = begin;
  for (int i = begin + 1; i < end; i++)
    if (sample[i].us < sample[best].us) best = i;
  return best;
}

static double mean_square(const struct tb_select_table *table, const struct tb_select_device *device,
                          const struct tb_sample *sample, int count) {
  double sum = 0, weights = 0;
  for (int begin = 0, end; begin < count; begin = end) {
    end = tb_fit_next_product(sample, count, begin);
    double best_us = sample[best_of(sample, begin, end)].us;
    for (int i = begin; i < end; i++) {
      double predicted = tb_select_predict_us(table, device, &sample[i].product, &sample[i].choice);
      double off = log(predicted / sample[i].us), weight = best_us / sample[i].us;
      sum += weight * off * off;
      weights += weight;
    }
  }
  return sum / weights;
}

/* A rate is a share of the peak, and one block alone is no faster than several. */
static int is_sensible(const struct tb_select_table *table) {
  for (int t = 0; t < TB_TILE_COUNT; t++)
    if (table->tile[t].full > 100 || table->tile[t].alone > table->tile[t].full || table->tile[t].knee >= 100) return 0;
  return table->overlap <= 100;
}

double tb_fit(struct tb_select_table *table, const struct tb_select_device *device, const struct tb_sample *sample,
              int count) {
  double least = mean_square(table, device, sample, count);
  for (int s = 0; s < DESCENTS * STEPS; s++) {
    const double step = steps[s % STEPS];
    int improved = 1;
    for (int sweep = 0; improved && sweep < SWEEPS_MAX; sweep++) {
      improved = 0;
      for (int i = 0; i < 2 * NUMBERS; i++) {
        struct tb_select_table trial = *table;
        double *number = (double *)&trial + i / 2;
        *number = fmax(number_min, i % 2 ? *number * step : *number / step);
        if (!is_sensible(&trial)) continue;
        double square = mean_square(&trial, device, sample, count);
        if (!(square < least * (1 - 1e-9))) continue;
        *table = trial;
        least = square;
        improved = 1;
      }
    }
  }
  return sqrt(least);
}

struct tb_regret tb_fit_regret(const struct tb_select_table *table, const struct tb_select_device *device,
                               const struct tb_sample *sample, int count) {
  struct tb_regret r = {.worst = 0};
  double log_sum = 0;
  for (int begin = 0, end; begin < count; begin = end) {
    end = tb_fit_next_product(sample, count, begin);
    int best = best_of(sample, begin, end), chosen = begin;
    double least = INFINITY;
    for (int i = begin; i < end; i++) {
      double us = tb_select_predict_us(table, device, &sample[i].product, &sample[i].choice);
      if (us < least) chosen = i, least = us;
    }
    double ratio = sample[chosen].us / sample[best].us;
    log_sum += log(ratio);
    r.products++;
    if (ratio > r.worst) r.worst = ratio, r.worst_chosen = chosen, r.worst_best = best;
  }
  r.mean = r.products > 0 ? exp(log_sum / r.products) : 1;
  return r;
}
