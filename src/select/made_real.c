/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/made_real.h"

#include <float.h>
#include <math.h>

#include "select/product.h"

/*
 * A complex alpha that is not real is 2^e times a rest, whose larger part is at least 1 and below 2. A is multiplied by
 * the rest when it is made real, and each sum by 2^e when it is complete: alpha times A might overflow, or fall among
 * the subnormals, where alpha times A B does not. 0 where the rest would not be exact.
 */
static int exponent_of_alpha(const struct tb_call *call) {
  const float re = fabsf(call->alpha.c[0]), im = fabsf(call->alpha.c[1]);
  if (!isfinite(re) || !isfinite(im)) return 0;
  const float larger = re > im ? re : im, smaller = re > im ? im : re;
  int e;
  frexpf(larger, &e); /* of libc, as scalbnf is: the library does without libm */
  return smaller == 0 || scalbnf(smaller, 1 - e) >= FLT_MIN ? e - 1 : 0;
}

union tb_scalar tb_real_alpha(const struct tb_call *call) {
  if (!tb_is_made_real(call->type) || tb_scalar_is_real(call->type, call->alpha)) return call->alpha;
  return (union tb_scalar){.s = scalbnf(1, exponent_of_alpha(call))};
}

void tb_expand_alpha(const struct tb_call *call, double alpha[2]) {
  tb_scalar_parts(call->type, call->alpha, alpha);
  if (tb_scalar_is_real(call->type, call->alpha)) return;
  for (int i = 0; i < 2; i++) alpha[i] = scalbn(alpha[i], -exponent_of_alpha(call));
}
