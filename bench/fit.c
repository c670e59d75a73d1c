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
static const double number_min = 0.01;

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

/* Of a choice that is predicted to take this share more than the best prediction, the weight: a table is not to be
 * praised for what half a per cent decides. And from which share on there is none. */
#define CHOICE_TEMPERATURE 0.005
#define CHOICE_SHARE_MAX 0.15
/* What the choices' cost weighs beside the predictions' mean square. Fitted to half of the 121 shapes, four times, the
 * tables chose 1.5 % behind the best ways for the other half; by the mean square alone 1.9 %. */
#define CHOICE_WEIGHT 0.3

/* How far a table is from the samples, in two ways. */
struct distance {
  double mean_square; /* of the logarithm of predicted over measured */
  double choices;     /* mean logarithm of the chosen way's time over the best one's */
};

struct sums {
  double squares, weights, choices;
  int products;
};

static void add_product(struct sums *sums, const struct tb_select_table *table, const struct tb_select_device *device,
                        const struct tb_sample *sample, int begin, int end) {
  const double best_us = sample[best_of(sample, begin, end)].us;
  double predicted[TB_CANDIDATES_MAX], least = INFINITY, weights = 0, cost = 0;
  for (int i = begin; i < end; i++) {
    predicted[i - begin] = tb_select_predict_us(table, device, &sample[i].product, &sample[i].choice);
    least = fmin(least, predicted[i - begin]);
    const double off = log(predicted[i - begin] / sample[i].us), weight = best_us / sample[i].us;
    sums->squares += weight * off * off;
    sums->weights += weight;
  }
  for (int i = begin; i < end; i++) {
    const double more = predicted[i - begin] / least - 1;
    if (more > CHOICE_SHARE_MAX) continue;
    const double weight = exp(-more / CHOICE_TEMPERATURE);
    weights += weight;
    cost += weight * log(sample[i].us / best_us);
  }
  sums->choices += cost / weights;
  sums->products++;
}

static struct distance distance_of(const struct tb_select_table *table, const struct tb_select_device *device,
                                   const struct tb_sample *sample, int count) {
  struct sums sums = {0};
  for (int begin = 0, end; begin < count; begin = end) {
    end = tb_fit_next_product(sample, count, begin);
    add_product(&sums, table, device, sample, begin, end);
  }
  return (struct distance){sums.squares / sums.weights, sums.choices / sums.products};
}

static double length(struct distance d, double choice_weight) { return d.mean_square + choice_weight * d.choices; }

/* A rate is a share of the peak, and one block alone is no faster than several. Some of a last round always overlaps
 * with the one before: from near 0 on, factors would not bring the descent back. */
static int is_sensible(const struct tb_select_table *table) {
  for (int t = 0; t < TB_TILE_COUNT; t++)
    if (table->tile[t].full > 100 || table->tile[t].alone > table->tile[t].full || table->tile[t].knee > 99) return 0;
  return table->overlap >= 20 && table->overlap <= 100;
}

double tb_fit(struct tb_select_table *table, const struct tb_select_device *device, const struct tb_sample *sample,
              int count) {
  for (int s = 0; s < DESCENTS * STEPS; s++) {
    const double step = steps[s % STEPS];
    const double choice_weight = s < DESCENTS * STEPS / 2 ? 0 : CHOICE_WEIGHT; /* choices by a table that is near */
    double least = length(distance_of(table, device, sample, count), choice_weight);
    int improved = 1;
    for (int sweep = 0; improved && sweep < SWEEPS_MAX; sweep++) {
      improved = 0;
      for (int i = 0; i < 2 * NUMBERS; i++) {
        struct tb_select_table trial = *table;
        double *number = (double *)&trial + i / 2;
        *number = fmax(number_min, i % 2 ? *number * step : *number / step);
        if (!is_sensible(&trial)) continue;
        const double now = length(distance_of(&trial, device, sample, count), choice_weight);
        if (!(now < least * (1 - 1e-9))) continue;
        *table = trial;
        least = now;
        improved = 1;
      }
    }
  }
  return sqrt(distance_of(table, device, sample, count).mean_square);
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
