/* SPDX-License-Identifier: BSD-3-Clause */
/* The control functions of the fake driver, found in whatever libcuda.so.1 this process loads. Thread safe once opened.
 */
#ifndef TST_FAKE_H
#define TST_FAKE_H

#include "../fake_cuda/fake_cuda.h"

struct tst_fake {
  __typeof__(fake_cuda_get) *get;
  __typeof__(fake_cuda_calls) *calls;
  __typeof__(fake_cuda_reset_calls) *reset_calls;
  __typeof__(fake_cuda_launches_of) *launches_of;
  __typeof__(fake_cuda_function) *function;
  __typeof__(fake_cuda_fail) *inject; /* `fail` is a macro of cmocka */
  __typeof__(fake_cuda_calls_on) *calls_on;
  __typeof__(fake_cuda_fail_on) *inject_on;
  __typeof__(fake_cuda_clear_failures) *clear_failures;
  __typeof__(fake_cuda_set_order) *set_order;
  __typeof__(fake_cuda_set_shuffle) *set_shuffle;
  __typeof__(fake_cuda_set_watch) *set_watch;
  __typeof__(fake_cuda_audit) *audit;
  __typeof__(fake_cuda_current) *current;
  __typeof__(fake_cuda_expect_misuses) *expect_misuses;
};

/* Opens libcuda.so.1, which stays loaded. NULL when there is none, or when it is a real driver. */
const struct tst_fake *tst_fake(void);

#endif
