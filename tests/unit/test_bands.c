/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trsm in bands: B goes by slots in bands of rows, with op(A) on either side, from either end, with panels of A that
 * are stored by columns or by rows. It gives what the same call gives where B lies on the GPU, or A alone, bit by bit.
 *
 * Seen to fail when: a product of a band is grouped as if it were whole; a band is computed before its rows of A or B
 * are there; it comes down before it is computed, or over other rows; its rows are not scaled.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "sided_call.h"
#include "tileblas.h"

enum { STRSM = TST_SIDED_ROUTINES - 4, DTRSM, CTRSM, ZTRSM, FORTRAN = TST_SIDED_ROUTINES };

struct shape {
  int routine;
  const char *letters;
  int order, sides;
};

/* On the right a band is whole columns of B, or four are so many rows that they make 4 KiB of a stored column of A. On
 * the left they make 7 KiB of one of B, and orders are large. Of some orders the last band has no halves. */
static const struct shape on_the_right[] = {{DTRSM, "RLNN", 2100, 230}, {DTRSM, "RUNU", 2048, 20},
                                            {ZTRSM, "RUTU", 2050, 20},  {DTRSM, "RUTN", 2100, 20},
                                            {ZTRSM, "RLCN", 2048, 20},  {DTRSM, "RLTN", 2048, 230}};
static const struct shape on_the_left[] = {
    {STRSM, "LLNN", 7168, 7}, {STRSM, "LUNU", 7200, 65}, {STRSM, "LUTN", 7168, 7}};
static const struct shape of_floats[] = {{STRSM, "RLNN", 2100, 200}, {CTRSM, "RUNN", 2050, 20}};

struct shapes {
  const struct shape *of;
  const char *precision;
  size_t count, step;
};

/* Bands on the left have copies of columns apart from each other, and on the right are turned one by one, both ways. */
static uint64_t calls_of(const char *function) { return tst_fake() == NULL ? 0 : tst_fake()->calls(function); }
#define LAUNCHES_OF_BANDS 8 /* that the call has not where B lies on the GPU, at least */

static void *on_the_gpu(const struct tst_typed_memory *x) {
  void *const there = tst_cuda_allocate(TST_DEVICE, x->bytes);
  tst_cuda_write(TST_DEVICE, there, x->data, x->bytes);
  return there;
}

/* `a_there`: once more with A on the GPU, and B where it goes by slots. */
static int compare(const struct shape *shape, bool a_there, uint64_t *rng) {
  struct tst_sided_call call;
  tst_sided_create_as(&call, FORTRAN + shape->routine, shape->letters, shape->order, shape->sides, rng);
  void *const there = on_the_gpu(&call.c), *const a = on_the_gpu(&call.a);
  void *const first = malloc(call.c.bytes);
  if (first == NULL || call.name.shape != TRSM) return 1;
  uint64_t copies = calls_of("cuMemcpy2DAsync"), launches = calls_of("cuLaunchKernel");
  tst_sided_make(&call);
  copies = calls_of("cuMemcpy2DAsync") - copies, launches = calls_of("cuLaunchKernel") - launches;
  if (tst_fake() != NULL && (copies > 0) != (shape->letters[0] == 'L')) return 2;
  const char *const wrong = tst_sided_wrong(&call);
  if (wrong != NULL) return puts(wrong), 3;
  memcpy(first, call.c.data, call.c.bytes);
  if (a_there) {
    tst_sided_restore(&call);
    tst_sided_make_on(&call, a, NULL, call.c.data);
    if (memcmp(first, call.c.data, call.c.bytes) != 0) return 6;
  }
  const uint64_t before = calls_of("cuLaunchKernel");
  tst_sided_make_on(&call, a, NULL, there);
  if (tst_fake() != NULL && shape->letters[0] == 'R' &&
      launches < calls_of("cuLaunchKernel") - before + LAUNCHES_OF_BANDS)
    return 8;
  if (!tst_cuda_read(TST_DEVICE, call.c.data, there, call.c.bytes)) return 4;
  if (memcmp(first, call.c.data, call.c.bytes) != 0) return 5;
  tst_cuda_free(TST_DEVICE, a);
  tst_cuda_free(TST_DEVICE, there);
  free(first);
  tst_sided_destroy(&call);
  return 0;
}

static int compare_all(void *shapes) {
  const struct shapes *const s = shapes;
  uint64_t rng = 1;
  int result = 0;
  tst_cuda_begin(0);
  if (tileblas_option_set("TILEBLAS_PRECISION", s->precision) != 0) return 9;
  for (size_t i = 0; i < s->count && result == 0; i += s->step) {
    result = compare(&s->of[i], i == 0, &rng);
    if (result != 0) printf("%s of order %d\n", s->of[i].letters, s->of[i].order);
  }
  tst_cuda_end(0);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return result != 0 || stats.gpu_calls == 1 + 2 * ((s->count + s->step - 1) / s->step) ? result : 7;
}

static void expect_same_bits(const struct shape *of, const char *precision, size_t count, size_t step) {
  struct shapes shapes = {of, precision, count, step};
  tst_in_a_process(compare_all, &shapes, "bands");
}
#define EXPECT_SAME_BITS(shapes, precision, sanitized_step) \
  expect_same_bits(shapes, precision, sizeof(shapes) / sizeof *(shapes), TST_UNLESS_SANITIZED(1, sanitized_step))

static void bands_of_columns(void **state) {
  (void)state;
  EXPECT_SAME_BITS(on_the_right, "fp32", 3);
}

static void bands_of_rows(void **state) {
  (void)state;
  EXPECT_SAME_BITS(on_the_left, "ieee", 3);
}

/* By the kernels of the tensor cores, on a GPU of two SMs, for which products of this size are. */
static void bands_from_planes(void **state) {
  (void)state;
  EXPECT_SAME_BITS(of_floats, "fp32", 3);
}

/* test_bands [columns]: of columns alone, for several GPUs. */
int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest columns[] = {cmocka_unit_test(bands_of_columns)};
  if (argc > 1) return tst_result(cmocka_run_group_tests(columns, NULL, NULL));
  const struct CMUnitTest tests[] = {cmocka_unit_test(bands_from_planes), cmocka_unit_test(bands_of_columns),
                                     cmocka_unit_test(bands_of_rows)};
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
