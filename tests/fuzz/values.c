/* SPDX-License-Identifier: BSD-3-Clause */
#include "values.h"

#include <math.h>
#include <string.h>

#include "rng.h"

#define POOL 65536

const char *const fuzz_value_names[FUZZ_VALUES] = {"integers", "signed", "positive", "wide", "subnormal", "special"};

/* In [0, 1), of as many bits as the type has. */
static double unit(uint64_t *rng, bool is_double) {
  return is_double ? (double)(tst_random(rng) >> 11) * 0x1p-53 : (double)tst_random_unit(rng);
}

static double signed_unit(uint64_t *rng, bool is_double) { return 2 * unit(rng, is_double) - 1; }

static double special(uint64_t *rng, bool is_double) {
  switch (tst_random_below(rng, 512)) {
    case 0:
      return INFINITY;
    case 1:
      return -INFINITY;
    case 2:
      return NAN;
    default:
      return tst_random_below(rng, 16) == 0 ? 0 : signed_unit(rng, is_double);
  }
}

static double draw_value(uint64_t *rng, const struct fuzz_filling *f, bool is_double) {
  const int64_t amplitude = f->amplitude, exponent = is_double ? 300 : 40;
  switch (f->values) {
    case FUZZ_INTEGERS:
      return (double)(tst_random_below(rng, 2 * amplitude + 1) - amplitude);
    case FUZZ_POSITIVE:
      return unit(rng, is_double);
    case FUZZ_WIDE:
      return ldexp(signed_unit(rng, is_double), (int)(tst_random_below(rng, 2 * exponent + 1) - exponent));
    case FUZZ_SUBNORMAL:
      return ldexp(signed_unit(rng, is_double), f->normal ? 0 : is_double ? -1022 : -126);
    case FUZZ_SPECIAL:
      return special(rng, is_double);
    default:
      return signed_unit(rng, is_double);
  }
}

static struct {
  union {
    float s[POOL];
    double d[POOL];
  } values;
  int64_t ready;
} pool;

/* One pool at a time: to make it takes a tenth of a millisecond or so, and small operands need a part of it alone. */
static void make_pool(const struct fuzz_filling *f, int64_t wanted, uint64_t *rng) {
  const bool is_double = tst_is_double(f->type);
  pool.ready = wanted < POOL / 2 ? 2 * wanted + 1 : POOL;
  for (int64_t i = 0; i < pool.ready; i++) {
    const double x = draw_value(rng, f, is_double);
    if (is_double)
      pool.values.d[i] = x;
    else
      pool.values.s[i] = (float)x;
  }
}

void fuzz_fill(char *image, const struct fuzz_filling *f, int64_t len, int64_t lines, int64_t ld, uint64_t *rng) {
  const int64_t bytes = tst_part_bytes(f->type), parts = tst_parts(f->type);
  make_pool(f, len * parts * lines, rng);
  for (int64_t line = 0; line < lines; line++)
    for (int64_t done = 0; done < len * parts;) {
      const int64_t from = tst_random_below(rng, pool.ready);
      int64_t count = pool.ready - from;
      if (count > len * parts - done) count = len * parts - done;
      memcpy(image + (line * ld * parts + done) * bytes, (const char *)&pool.values + from * bytes,
             (size_t)(count * bytes));
      done += count;
    }
}
