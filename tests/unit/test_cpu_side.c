/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What measurements are kept by: the processor with the cores that this process may use, and the CPU BLAS with its
 * threads. Where either changes, so does the text, so that measurements of another machine are not believed.
 *
 * Seen to fail when: the threads or the cores are missing from the text.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

#include "route/cpu_side.h"
#include "process.h"

static struct tb_cpu_side look(void) {
  struct tb_cpu_side side;
  tb_cpu_side_look(&side, TB_SYMBOL_cblas_sgemm);
  return side;
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length > end_length && strcmp(text + length - end_length, end) == 0;
}

/* All that this process may use, and then one of them alone. */
static void cores(void **state) {
  (void)state;
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; core++)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  const struct tb_cpu_side before = look();
  assert_int_equal(before.cores, CPU_COUNT(&all));
  assert_true(ends_with(before.processor, tst_format(", %d cores", CPU_COUNT(&all))));
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  const struct tb_cpu_side after = look();
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
  assert_int_equal(after.cores, 1);
  assert_true(ends_with(after.processor, ", 1 cores"));
  assert_string_equal(after.blas, before.blas);
}

/* As the BLAS says it, and after it was told otherwise. */
static void threads(void **state) {
  (void)state;
  const struct tb_cpu_side before = look();
  assert_int_equal(tb_cpu_side_threads(), 1); /* OPENBLAS_NUM_THREADS */
  assert_true(ends_with(before.blas, ", 1 threads"));
  void *library = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  assert_non_null(library);
  void *set = dlsym(library, "openblas_set_num_threads");
  assert_non_null(set);
  ((void (*)(int))set)(2);
  assert_int_equal(tb_cpu_side_threads(), 2);
  assert_true(ends_with(look().blas, ", 2 threads"));
  ((void (*)(int))set)(1);
  assert_string_equal(look().blas, before.blas);
  dlclose(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cores), cmocka_unit_test(threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
