/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "tileblas.h"

void cblas_sgemm(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);

void tst_guest_fill(float *memory, int n) {
  for (int64_t i = 0; i < 3LL * n * n; i++) memory[i] = 1;
}

void tst_guest_call(float *memory, int n, float beta) {
  const int64_t size = (int64_t)n * n;
  cblas_sgemm(102, 111, 111, n, n, n, 1, memory, n, memory + size, n, beta, memory + 2 * size, n);
}

bool tst_guest_is_right(const float *memory, int n, float beta) {
  const float *c = memory + 2LL * n * n;
  for (int64_t i = 0; i < (int64_t)n * n; i++)
    if (!(c[i] == (float)n + beta)) return false;
  return true;
}

bool tst_guest_product(int n) {
  float *memory = malloc(3 * sizeof(float) * (size_t)n * (size_t)n);
  if (memory == NULL) abort();
  tst_guest_fill(memory, n);
  tst_guest_call(memory, n, 1);
  const bool right = tst_guest_is_right(memory, n, 1);
  free(memory);
  return right;
}

bool tst_guest_expects_gpu(void) { return strcmp(tst_setting("TB_TEST_EXPECT"), "gpu") == 0; }

unsigned long long tst_guest_gpu_calls(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return stats.gpu_calls;
}

void tst_guest_run(const char *part, const char *const *environment, size_t lines) {
  struct tst_output o;
  const char *const command[] = {"/proc/self/exe", part, NULL};
  tst_run(&o, command, environment);
  if (o.status != 0 || tst_count_lines(o.err, "tileblas: ") != lines)
    fail_msg("%s: status %d\n%s%s", part, o.status, o.out, o.err);
  tst_output_destroy(&o);
}
