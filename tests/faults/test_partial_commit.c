/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failure when C is partly committed, and of some tile only the first columns: the rest of that tile and all later
 * tiles come from the CPU, and no element is committed twice or forgotten.
 *
 * Seen to fail when: the fallback starts again at the tile's first column; the columns that are committed are not
 * counted.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "offload_call.h"
#include "process.h"

static const struct failure {
  const char *function;
  unsigned long nth;
  unsigned flags;
  bool gpu_had_a_part; /* something was committed before the failure */
} failures[] = {
    {"cuMemcpyDtoHAsync", 1, 0, false},
    {"cuMemcpyDtoHAsync", 2, FAKE_CUDA_ASYNC, true}, /* the second part of the first tile */
    {"cuMemcpyDtoHAsync", 4, FAKE_CUDA_ASYNC, true}, /* of the second tile */
    {"cuMemcpyDtoHAsync", 7, FAKE_CUDA_ASYNC, true}, /* the last tile, which is smaller */
    {"cuLaunchKernel", 4, FAKE_CUDA_ASYNC, true},
};

static int life(void *argument) {
  const struct failure *f = argument;
  const struct tst_fake *fake = tst_fake();
  struct tst_library library;
  tileblas_stats stats;
  if (!fake) return 2;
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  if (fake->inject(f->function, f->nth, 719, f->flags) != 0) return 3;
  bool right = tst_call_with_large_tiles(&library);
  library.stats_get(&stats);
  tst_library_close(&library);
  if (fake->get(FAKE_CUDA_FAILURES) != 1 || stats.gpu_failures != 1) return 4;
  if (stats.gpu_calls != f->gpu_had_a_part) return 5;
  return right && tst_nothing_left(fake) ? 0 : 1;
}

static void failures_in_mid_commit(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
    struct tst_output o;
    tst_fork(&o, life, (void *)&failures[i]);
    if (o.status != 0 || tst_count_lines(o.err, "tileblas: warning: ") != 1)
      fail_msg("%s number %lu: status %d\n%s%s", failures[i].function, failures[i].nth, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(failures_in_mid_commit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
