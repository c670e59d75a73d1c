/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failure when C is partly committed, and of some tile only the first columns: the rest of that tile and all later
 * tiles come from the CPU, and no element is committed twice or forgotten. The call counts for the GPU from the first
 * element on that is the GPU's.
 *
 * Seen to fail when: the fallback starts again at the tile's first column; the columns that are committed are not
 * counted; a call counts for the CPU if that finished it, or for the GPU that did nothing.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "offload_call.h"
#include "process.h"

#define CUDA_ERROR_LAUNCH_FAILED 719

struct failure {
  const char *function; /* NULL: none */
  unsigned long nth;
};

/* The counts of calls come from a life without a failure. */
static int life(void *argument) {
  const struct failure *f = argument;
  const struct tst_fake *fake = tst_fake();
  struct tst_library library;
  tileblas_stats stats;
  if (!fake) return 2;
  tst_library_open(&library);
  library.option_set("TILEBLAS_ROUTE", "gpu");
  if (f->function && fake->inject(f->function, f->nth, CUDA_ERROR_LAUNCH_FAILED, FAKE_CUDA_ASYNC) != 0) return 3;
  bool right = tst_call_with_large_tiles(&library);
  library.stats_get(&stats);
  tst_library_close(&library);
  printf("launches=%llu downloads=%llu by_gpu=%llu\n", (unsigned long long)fake->calls("cuLaunchKernel"),
         (unsigned long long)fake->calls("cuMemcpyDtoHAsync"), (unsigned long long)stats.gpu_calls);
  if (stats.gpu_calls + stats.cpu_calls != 1) return 5;
  if ((stats.gpu_flops > 0) != (stats.gpu_calls == 1) || (stats.gpu_seconds > 0) != (stats.gpu_calls == 1)) return 6;
  if (fake->get(FAKE_CUDA_FAILURES) != (f->function != NULL) || stats.gpu_failures != (f->function != NULL)) return 4;
  return right && tst_nothing_left(fake) ? 0 : 1;
}

/* Whether the call counted for the GPU. */
static bool run(struct failure f, struct tst_output *o) {
  tst_fork(o, life, &f);
  if (o->status != 0 || tst_count_lines(o->err, "tileblas: warning: ") != (f.function != NULL))
    fail_msg("%s number %lu: status %d\n%s%s", f.function ? f.function : "nothing", f.nth, o->status, o->out, o->err);
  return tst_number_after(o->out, "by_gpu=") == 1;
}

/* Each piece of C on its way down, and each launch. */
static void failures_in_mid_commit(void **state) {
  (void)state;
  struct tst_output o;
  assert_true(run((struct failure){NULL, 0}, &o));
  const unsigned long tiles = (unsigned long)tst_number_after(o.out, "launches="),
                      pieces = (unsigned long)tst_number_after(o.out, "downloads=");
  tst_output_destroy(&o);
  printf("%lu tiles, %lu pieces\n", tiles, pieces);
  assert_true(tiles >= 4 && pieces >= tiles + 3); /* else no failure finds a tile of which some columns are committed */
  bool by_gpu = false;                            /* once some piece arrives before the one that fails */
  for (unsigned long nth = 1; nth <= pieces; nth++) {
    const bool before = by_gpu;
    by_gpu = run((struct failure){"cuMemcpyDtoHAsync", nth}, &o);
    tst_output_destroy(&o);
    assert_true(nth == 1 ? !by_gpu : by_gpu || !before);
    if (nth > tiles) continue;
    run((struct failure){"cuLaunchKernel", nth}, &o);
    tst_output_destroy(&o);
  }
  assert_true(by_gpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(failures_in_mid_commit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
