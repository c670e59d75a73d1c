/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the promises of docs/guest.md cost a call on the GPU: calls of the system for signals and sandboxes, by the
 * names that the library calls, and calls of the driver. Counted for operands all in place, and for a product of one
 * slot. Of copying threads that keep to cores: a call that finds them there costs none for it.
 *
 * Seen to fail when: a call looks for signals before it has taken a while; a context is pushed that is current; a
 * thread that keeps to a core asks again and again what it may use.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "affinities.h"
#include "cuda_program.h"
#include "fake.h"
#include "process.h"
#include "tileblas.h"

#define KERNEL_SIGSET_BYTES 8

/* As counted on the fake driver, where each operation takes one question whether it is done: two change the capture
 * mode, one asks for the context, which is the program's own, and the others place the operands and compute. */
#define DRIVER_RESIDENT 10
#define DRIVER_ONE_SLOT 12

#define SEVERAL_SLOTS_N 300 /* some hundred kilobytes, which the threads copy */

static _Thread_local int masks, pendings, prctls;

/* The library's, too: a program's own definitions come first. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  masks++;
  return (int)syscall(SYS_rt_sigprocmask, how, set, before, KERNEL_SIGSET_BYTES);
}

int sigpending(sigset_t *set) {
  pendings++;
  return (int)syscall(SYS_rt_sigpending, set, KERNEL_SIGSET_BYTES);
}

int prctl(int option, ...) {
  prctls++;
  return (int)syscall(SYS_prctl, option, 0, 0, 0, 0);
}

static unsigned long driver_calls(const struct tst_fake *fake) {
  unsigned long sum = 0;
  for (size_t i = 0; fake->function(i) != NULL; i++) sum += (unsigned long)fake->calls(fake->function(i));
  return sum;
}

static void costs(int64_t n, enum tst_kind kind, int prctls_most, unsigned long driver_most) {
  const struct tst_fake *fake = tst_fake();
  struct guest_product product;
  for (int i = 0; i < 3; i++) { /* the first open and choose */
    guest_product_make(&product, n, kind, 1);
    fake->reset_calls();
    masks = pendings = prctls = 0;
    guest_product_call(&product);
    const unsigned long calls = driver_calls(fake);
    const int found[] = {masks, pendings, prctls};
    assert_true(guest_product_is_right(&product));
    if (i < 2) continue;
    printf("%d: pthread_sigmask %d, sigpending %d, prctl %d, driver %lu\n", (int)n, found[0], found[1], found[2],
           calls);
    assert_int_equal(found[0], 2);
    assert_int_equal(found[1], 0);
    assert_in_range(found[2], 0, prctls_most);
    assert_in_range(calls, 1, driver_most);
  }
}

static void operands_in_place(void **state) {
  (void)state;
  costs(64, TST_DEVICE, 0, DRIVER_RESIDENT);
}

static void one_slot(void **state) {
  (void)state;
  costs(100, TST_PAGEABLE, 1, DRIVER_ONE_SLOT);
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The first calls' threads take cores; later one may move that was held up, but most calls have none that does. On two
 * cores there is but one thread, which keeps to none. */
static void bound_threads(void **state) {
  (void)state;
  struct guest_product product;
  int found[13];
  const int calls = sizeof found / sizeof *found;
  assert_int_equal(tileblas_option_set("TILEBLAS_BIND", "always"), 0);
  for (int i = 0; i < calls; i++) {
    guest_product_make(&product, SEVERAL_SLOTS_N, TST_PAGEABLE, 1);
    atomic_store(&tst_affinities, 0);
    guest_product_call(&product);
    found[i] = atomic_load(&tst_affinities);
    assert_true(guest_product_is_right(&product));
  }
  qsort(found + 2, (size_t)(calls - 2), sizeof *found, ascending);
  printf("cores asked for and taken: %d to %d times a call\n", found[2], found[calls - 1]);
  assert_int_equal(found[calls / 2 + 1], 0);
  assert_int_equal(tileblas_option_set("TILEBLAS_BIND", "auto"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(operands_in_place), cmocka_unit_test(one_slot),
                                     cmocka_unit_test(bound_threads)};
  if (tst_fake() == NULL) tst_skip("a real driver counts no calls");
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  guest_begin();
  return cmocka_run_group_tests_name("costs", tests, NULL, NULL);
}
