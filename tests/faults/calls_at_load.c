/* SPDX-License-Identifier: BSD-3-Clause */
/* A module that calls BLAS while it is being loaded, once the program has had time to come as far as it can. */
#include <stdatomic.h>
#include <unistd.h>

#include "abi.h"

extern atomic_int tst_loading; /* the program's */

__attribute__((constructor)) static void call_at_load(void) {
  const struct tst_symbol *symbol = tst_find_symbol("sgemm_");
  const struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = 1, .n = 1, .k = 1, .alpha = 1, .lda = 1, .ldb = 1, .ldc = 1};
  const float a = 2, b = 3;
  float c = 0;
  tst_loading = 1;
  usleep(200000);
  tst_call(symbol, tst_resolve(symbol), &p, &a, &b, &c);
  tst_loading = c == 6 ? 2 : 3;
}
