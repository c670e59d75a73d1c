/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 11: a child that is forked while another thread of ours looks through the loaded libraries, or holds one of
 * our locks, can do the same. And a process that has CUDA's driver but has not started it, perhaps for the sake of its
 * children, is left alone: a child can start it. TILEBLAS_OPEN says what else is.
 *
 * Each case is a process of its own, with an alarm. Seen to fail when: forks do not wait for such a look; one of the
 * locks stays locked in the child; the driver is started in the parent.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_program.h"
#include "offload/offload.h"
#include "base/options.h"
#include "cpu/fallback.h"
#include "process.h"
#include "route/batches.h"
#include "route/router.h"
#include "route/small.h"
#include "tileblas.h"

#define SECONDS_MAX 20

/* ---- a fork in the midst of a look ---- */

typedef int visitor(struct dl_phdr_info *info, size_t size, void *context);
static atomic_bool lingers, within;
static visitor *visit;

static int visit_slowly(struct dl_phdr_info *info, size_t size, void *context) {
  if (atomic_load(&lingers) && !atomic_exchange(&within, true)) usleep(300000);
  return visit(info, size, context);
}

/* The library's, too: a program's own definition comes first. */
int dl_iterate_phdr(visitor *of_caller, void *context) {
  static int (*real)(visitor *, void *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
  if (!atomic_load(&lingers)) return real(of_caller, context);
  visit = of_caller;
  return real(visit_slowly, context);
}

static void *call_in_thread(void *product) {
  guest_product_call(product);
  return NULL;
}

static int count(struct dl_phdr_info *info, size_t size, void *sum) {
  (void)info;
  (void)size;
  ++*(int *)sum;
  return 0;
}

static int fork_within_a_look(void *unused) {
  (void)unused;
  struct guest_product first, second;
  pthread_t thread;
  int status = 1;
  alarm(SECONDS_MAX);
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  guest_product_make(&first, 100, TST_PAGEABLE, 1);
  guest_product_make(&second, 100, TST_PAGEABLE, 2);
  guest_product_call(&first);
  if (!dlopen("libm.so.6", RTLD_NOW | RTLD_NODELETE)) return 1;
  usleep(20000); /* the next look is due */
  atomic_store(&lingers, true);
  if (pthread_create(&thread, NULL, call_in_thread, &second) != 0) return 1;
  while (!atomic_load(&within)) usleep(100);
  const pid_t child = fork();
  if (child == 0) {
    int libraries = 0;
    atomic_store(&lingers, false);
    alarm(SECONDS_MAX / 4);
    dl_iterate_phdr(count, &libraries);
    _exit(libraries > 0 ? 0 : 1);
  }
  waitpid(child, &status, 0);
  pthread_join(thread, NULL);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && guest_product_is_right(&first) &&
                 guest_product_is_right(&second)
             ? 0
             : 1;
}

/* ---- a fork while another thread holds a lock ---- */

/* What takes one of the library's locks, for a good part of the time that it takes. */
static void with_texts(void) {
  char text[TB_OPTION_TEXT_MAX];
  tb_option_text(TB_OPTION_fallback, text);
}
static void with_fallback(void) {
  char text[TB_OPTION_TEXT_MAX];
  tb_fallback_describe(text, sizeof text);
}
static void with_small(void) { tb_small_update(); }
static void with_router(void) { tb_router_rates(TB_S, TB_SYMBOL_cblas_sgemm); }
static void with_batches(void) {
  const struct tb_batch batch = {.symbol = TB_SYMBOL_cblas_sgemm_batch,
                                 .type = TB_S,
                                 .products = 20000,
                                 .flops = 1e10,
                                 .up_bytes = 1e9,
                                 .down_bytes = 1e9};
  tb_batch_decide(&batch, TB_ROUTE_AUTO);
}
static void with_offload(void) {
  char text[TB_OPTION_TEXT_MAX];
  tb_offload_describe(text, sizeof text);
}
static void (*const with_lock[])(void) = {with_texts,  with_fallback, with_small,
                                          with_router, with_batches,  with_offload};
enum { LOCKS = sizeof with_lock / sizeof *with_lock, FORKS = 40 };

static atomic_int under_way; /* LOCKS: all is over */

static void *hold_locks(void *unused) {
  for (int which; (which = atomic_load(&under_way)) < LOCKS;) with_lock[which]();
  return unused;
}

/* The child takes each of them. */
static int forks_within_locks(void *unused) {
  (void)unused;
  pthread_t thread;
  struct guest_product product;
  alarm(SECONDS_MAX);
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  guest_product_make(&product, 20, TST_PAGEABLE, 1);
  guest_product_call(&product);
  if (pthread_create(&thread, NULL, hold_locks, NULL) != 0) return 9;
  for (int which = 0; which < LOCKS; which++) {
    atomic_store(&under_way, which);
    for (int i = 0; i < FORKS; i++) {
      int status = 1;
      usleep((unsigned)(i * 7 % 50));
      const pid_t child = fork();
      if (child == 0) {
        alarm(SECONDS_MAX / 4);
        for (int each = 0; each < LOCKS; each++) with_lock[each]();
        _exit(0);
      }
      waitpid(child, &status, 0);
      if (status != 0) {
        printf("lock %d, fork %d: status %#x\n", which, i, (unsigned)status);
        return which + 1;
      }
    }
  }
  atomic_store(&under_way, LOCKS);
  pthread_join(thread, NULL);
  return guest_product_is_right(&product) ? 0 : 8;
}

/* ---- who may start the driver ---- */

static CUresult start_in_child(void) {
  int status = 1;
  const pid_t child = fork();
  if (child == 0) {
    CUresult (*init)(unsigned);
    *(void **)&init = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    _exit(init(0) == CUDA_SUCCESS ? 0 : 1);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static bool multiply(void) {
  struct guest_product product;
  guest_product_make(&product, 300, TST_PAGEABLE, 1);
  guest_product_call(&product);
  return guest_product_is_right(&product);
}

/* The driver is loaded, and we know of it. */
static bool load(void) { return dlopen("libcuda.so.1", RTLD_NOW) && multiply(); }

static int the_driver_is_not_started(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_CALIBRATION", "off");
  tileblas_option_set("TILEBLAS_OPEN", "auto");
  if (!load() || tb_offload_status() != TB_STATUS_not_started || guest_gpu_calls() != 0) return 1;
  if (start_in_child() != CUDA_SUCCESS) return 2;
  guest_begin(); /* the program starts it itself */
  return tb_offload_status() == TB_STATUS_ok ? 0 : 3;
}

static int unless_it_is_wished(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_OPEN", "auto");
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  return load() && guest_gpu_calls() == 1 && tb_offload_status() == TB_STATUS_ok ? 0 : 1;
}

static int our_driver_is_only_started_after_the_programs(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_OPEN", "follow");
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  if (!multiply() || guest_gpu_calls() != 0) return 1;
  if (start_in_child() != CUDA_SUCCESS) return 2;
  guest_begin();
  usleep(20000); /* the next look for the driver is due */
  return multiply() && guest_gpu_calls() == 1 ? 0 : 3;
}

/* Without the program's driver ours is started, as ever. */
static int a_program_without_cuda(void *unused) {
  (void)unused;
  tileblas_option_set("TILEBLAS_OPEN", "auto");
  return tb_offload_status() == TB_STATUS_ok ? 0 : 1;
}

static void expect_success(int (*body)(void *)) {
  struct tst_output o;
  tst_fork(&o, body, NULL);
  if (o.status != 0 || o.err[0] != '\0') print_error("status %d\n%s%s", o.status, o.out, o.err);
  assert_true(o.status == 0 && o.err[0] == '\0');
  tst_output_destroy(&o);
}

#define CASE(name, body)           \
  static void name(void **state) { \
    (void)state;                   \
    expect_success(body);          \
  }
CASE(a_fork_while_libraries_are_looked_through, fork_within_a_look)
CASE(a_fork_while_locks_are_held, forks_within_locks)
CASE(a_driver_that_is_not_started, the_driver_is_not_started)
CASE(a_driver_that_may_be_started, unless_it_is_wished)
CASE(a_driver_that_only_the_program_starts, our_driver_is_only_started_after_the_programs)
CASE(no_driver_of_the_program, a_program_without_cuda)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_fork_while_libraries_are_looked_through),
                                     cmocka_unit_test(a_fork_while_locks_are_held),
                                     cmocka_unit_test(a_driver_that_is_not_started),
                                     cmocka_unit_test(a_driver_that_may_be_started),
                                     cmocka_unit_test(a_driver_that_only_the_program_starts),
                                     cmocka_unit_test(no_driver_of_the_program)};
  return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
