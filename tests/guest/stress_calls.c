/* SPDX-License-Identifier: BSD-3-Clause */
#include "stress_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "../unit/batch_call.h"
#include "../unit/sided_call.h"
#include "../unit/triangle_call.h"
#include "guest.h"
#include "rng.h"

#define MOST 70 /* each element is checked on its own */

static const char *call_triangle(uint64_t *seed) {
  struct tst_triangle_call call;
  const int number = (int)tst_random_below(seed, TST_TRIANGLE_NAMES);
  tst_triangle_create(&call, number, MOST, MOST, seed);
  tst_triangle_make(&call);
  const char *const wrong = tst_triangle_wrong(&call);
  tst_triangle_destroy(&call);
  return wrong;
}

static const char *call_sided(uint64_t *seed) {
  struct tst_sided_call call;
  const int number = (int)tst_random_below(seed, TST_SIDED_NAMES);
  tst_sided_create(&call, number, MOST, seed);
  tst_sided_make(&call);
  const char *const wrong = tst_sided_wrong(&call);
  tst_sided_destroy(&call);
  return wrong;
}

/* Of whole numbers: each product may be anybody's. */
static const char *call_batch(uint64_t *seed) {
  static const char *const symbols[] = {"cblas_%cgemm_batch", "%cgemm_batch_", "scipy_cblas_%cgemm_batch64_"};
  struct batch_group groups[2];
  for (int i = 0; i < 2; i++)
    groups[i] = (struct batch_group){(int)tst_random_below(seed, 3),
                                     (int)tst_random_below(seed, 3),
                                     1 + tst_random_below(seed, 40),
                                     1 + tst_random_below(seed, 40),
                                     1 + tst_random_below(seed, 40),
                                     tst_random_below(seed, 4),
                                     {2},
                                     {-1},
                                     1 + tst_random_below(seed, 5)};
  struct batch_call call = {.type = (enum tst_type)tst_random_below(seed, TST_TYPES), .group = groups, .groups = 2};
  call.whole = true;
  char symbol[40];
  snprintf(symbol, sizeof symbol, symbols[tst_random_below(seed, 3)], "sdcz"[call.type]);
  batch_create(&call, tst_random(seed));
  batch_run(&call, symbol);
  const bool right = batch_is_right(&call);
  batch_destroy(&call);
  return right ? NULL : "a batch";
}

const char *stress_any_call(uint64_t *seed) {
  switch (tst_random_below(seed, 8)) {
    case 0:
    case 1:
      return call_triangle(seed);
    case 2:
    case 3:
      return call_sided(seed);
    case 4:
      return call_batch(seed);
    default:
      return tst_guest_product(1 + (int)tst_random_below(seed, tst_random_below(seed, 10) < 6 ? 40 : 160))
                 ? NULL
                 : "a product";
  }
}
