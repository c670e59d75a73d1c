/* SPDX-License-Identifier: BSD-3-Clause */
#include "chance.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>

int64_t fuzz_between(uint64_t *rng, double low, double high) {
  return (int64_t)(low * pow(high / low, tst_random_unit(rng)));
}

static int64_t edge(uint64_t *rng) {
  static const int64_t edges[] = {16, 32, 64, 96, 128, 192, 256, 384};
  return edges[fuzz_below(rng, 8)] + fuzz_below(rng, 5) - 2;
}

void fuzz_draw_sizes(uint64_t *rng, int64_t size[3]) {
  const int64_t class = fuzz_below(rng, 1000);
  for (int i = 0; i < 3; i++) {
    if (class < 250)
      size[i] = fuzz_below(rng, 41);
    else if (class < 550)
      size[i] = fuzz_one_in(rng, 3) ? 1 + fuzz_below(rng, 300) : edge(rng);
    else if (class < 840)
      size[i] = fuzz_between(rng, 20, 700);
    else if (class < 920)
      size[i] = fuzz_between(rng, 30, 12000);
    else if (class < 959)
      size[i] = fuzz_between(rng, 1, 200);
    else if (class < 999)
      size[i] = fuzz_between(rng, 250, 2300);
    else
      size[i] = fuzz_between(rng, 2000, 6000);
  }
  if (class >= 840 && class < 920) size[fuzz_below(rng, 3)] = 1 + fuzz_below(rng, 9);
  if (class >= 920 && class < 959) size[2] = fuzz_between(rng, 1000, 60000);
}

double fuzz_draw_real(uint64_t *rng, enum tst_type type, bool exact) {
  static const double scalars[] = {0, 1, 1, 1, -1, -1, 2, -0.5, 0.7, -1.3};
  const double x = fuzz_one_in(rng, 50) ? NAN : scalars[fuzz_below(rng, exact ? 8 : 10)];
  return tst_is_double(type) ? x : (float)x;
}

/* Not 0 + NaN i: OpenBLAS takes such a beta for 0. */
double complex fuzz_draw_scalar(uint64_t *rng, enum tst_type type, bool exact) {
  const double re = fuzz_draw_real(rng, type, exact);
  const double im = tst_parts(type) == 2 && fuzz_one_in(rng, 2) ? fuzz_draw_real(rng, type, exact) : 0;
  return CMPLX(re == 0 && isnan(im) ? 1 : re, im);
}

int64_t fuzz_draw_amplitude(uint64_t *rng, enum tst_type type) {
  static const int64_t amplitudes[] = {1, 3, 15, 60, 255, 1023, 2895, 4095};
  return tst_is_double(type) ? ((int64_t)1 << (1 + fuzz_below(rng, 26))) - 1 : amplitudes[fuzz_below(rng, 8)];
}

/* Of complex floats a piece has all of a group, of 2048 k at most, and is made real besides, in four times as much. */
int64_t fuzz_least_kib(enum tst_type type) {
  const bool is_double = tst_is_double(type);
  return tst_parts(type) == 2 && !is_double ? 2600 : is_double ? 680 : 340;
}

/* Without a limit; with the least that lets pieces pass, or somewhat more; and with a part of the
 * operands, a fiftieth at least, so that pieces are not many thousands. */
static void draw_limit(struct fuzz_options *options, uint64_t *rng, int64_t kib, int64_t least) {
  int64_t limit = 0;
  if (fuzz_one_in(rng, 3))
    limit = least + kib / 50 + fuzz_below(rng, 900);
  else if (fuzz_one_in(rng, 3))
    limit = least + kib / 50 + fuzz_below(rng, kib + 1);
  snprintf(options->memory_limit, sizeof options->memory_limit, "%lldK", (long long)limit);
}

void fuzz_draw_options(struct fuzz_options *options, uint64_t *rng, int64_t operand_bytes, int64_t least_kib) {
  static const char *const routes[] = {"gpu", "auto", "cpu"}, *const precisions[] = {"fp32", "ieee", "fast"};
  static const char *const shares[] = {"always", "never", "auto"};
  const int64_t chance = fuzz_below(rng, 10);
  options->route = routes[chance < 7 ? 0 : chance < 9 ? 1 : 2];
  options->precision = precisions[fuzz_one_in(rng, 2) ? 0 : 1 + fuzz_below(rng, 2)];
  options->share = shares[fuzz_one_in(rng, 2) ? 0 : 1 + fuzz_below(rng, 2)];
  options->verbose = fuzz_one_in(rng, 400);
  draw_limit(options, rng, operand_bytes >> 10, least_kib);
}
