/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes for the kernel comparison; see shapes.h. */
#include "shapes.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

static const struct tb_shape fixed[] = {
    /* squares */
    {0, 0, 256, 256, 256},
    {0, 0, 512, 512, 512},
    {0, 0, 1024, 1024, 1024},
    {0, 0, 2048, 2048, 2048},
    {0, 0, 4096, 4096, 4096},
    {0, 1, 4096, 4096, 4096},
    {1, 0, 4096, 4096, 4096},
    {1, 1, 4096, 4096, 4096},
    {0, 0, 8192, 8192, 8192},
    {0, 0, 16384, 16384, 16384},
    /* sizes that no tile divides */
    {0, 0, 1009, 1009, 1009},
    {0, 0, 4097, 4097, 4097},
    {0, 0, 5000, 5000, 5000},
    /* short k, thin, skinny, long k */
    {0, 0, 8192, 8192, 128},
    {0, 0, 16384, 64, 4096},
    {0, 0, 64, 16384, 4096},
    {0, 0, 256, 256, 65536},
    /* layers of language models */
    {0, 0, 3072, 768, 3072},
    {0, 0, 50257, 1024, 768},
    /* matrix times vector, and nearly so */
    {0, 0, 4096, 1, 4096},
    {0, 0, 4096, 8, 4096},
};
enum { FIXED = sizeof fixed / sizeof fixed[0], RANDOM_ALL = 100, RANDOM_SHORT = 12 };
_Static_assert(FIXED + RANDOM_ALL <= TB_SHAPES_MAX, "the list does not fit");

/* Log-uniform in [64, 8192], from the high bits of a 64-bit linear congruential generator (Knuth's MMIX constants). */
static int next_size(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  double unit = (double)(*state >> 11) / 9007199254740992.0;
  return (int)lround(exp2(6 + 7 * unit));
}

static int is_slow(const struct tb_shape *s) { return (double)s->m * s->n * s->k > 2e11; }

int tb_shapes(struct tb_shape shape[TB_SHAPES_MAX], int short_list) {
  int count = 0;
  for (int i = 0; i < FIXED; i++) {
    if (!short_list || !is_slow(&fixed[i])) shape[count++] = fixed[i];
  }
  uint64_t state = 20261120;
  for (int i = 0; i < (short_list ? RANDOM_SHORT : RANDOM_ALL); i++) {
    int m = next_size(&state), n = next_size(&state), k = next_size(&state);
    shape[count++] = (struct tb_shape){i & 1, i >> 1 & 1, m, n, k}; /* all four transposes in turn */
  }
  return count;
}

int tb_shape_parse(const char *text, struct tb_shape *shape) {
  char ta, tb, end;
  int fields = sscanf(text, "%c%c:%dx%dx%d%c", &ta, &tb, &shape->m, &shape->n, &shape->k, &end);
  shape->ta = ta == 'T';
  shape->tb = tb == 'T';
  return fields == 5 && (ta == 'N' || ta == 'T') && (tb == 'N' || tb == 'T') && shape->m > 0 && shape->n > 0 &&
         shape->k > 0;
}
