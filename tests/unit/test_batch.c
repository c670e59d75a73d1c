/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches through every symbol, on the GPU: each product has the bits that it has alone, whatever else is in the batch,
 * and nothing else of C's memory changes; many go up, are computed and come down together; operands that lie on the GPU
 * stay there; what is large, trivial or empty; a batch left to the CPU, and one that is told to go there from the GPU.
 *
 * Seen to fail when: products on another GPU than the first one's are launched with it; beta is left out of the commit;
 * the list is not sorted by kernels; a piece's second product shares the first one's B; a product's group_k is the one
 * before's; a region is used before what it held has come down; a conjugate is lost, of one operand or on one side;
 * row-major operands stay in their places; a negative group is counted; products that all go alone stay on the CPU; of
 * integers with 32 bits the upper halves are read; signals wait for the end of a batch, or it has no context behind
 * them.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch_call.h"
#include "fake.h"
#include "placed.h"
#include "process.h"
#include "report.h"
#include "tileblas.h"

static const char letters[] = "sdcz";

static tileblas_stats stats_now(void) {
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return stats;
}

static unsigned long long gpu_calls(void) { return stats_now().gpu_calls; }

/* Edges, several tiles, several groups of k, sizes that no vector divides, a single element; all pairs of transposes.
 */
static const struct batch_group mixed[] = {
    {0, 0, 33, 17, 65, 0, {1, 0}, {0, 0}, 3},        {1, 0, 64, 64, 64, 3, {-2, 0.5}, {1, 0}, 2},
    {0, 1, 1, 1, 1, 0, {0.5, 0}, {2, 0}, 2},         {2, 2, 130, 7, 40, 1, {1, 1}, {-1, 2}, 1},
    {1, 2, 5, 70, 3, 2, {3, 0}, {0.5, 0}, 1},        {0, 2, 20, 20, 1500, 0, {1, 0}, {0, 0}, 1},
    {2, 0, 32, 48, 96, 4, {1e-3, -2}, {0, 0.25}, 4}, {0, 0, 33, 17, 65, 0, {1, 0}, {0, 0}, 1},
    {1, 1, 31, 33, 200, 0, {-0.25, 0}, {0, 0}, 2},   {0, 0, 96, 96, 32, 0, {1, 0}, {1, 0}, 1},
};
#define MIXED ((int)(sizeof mixed / sizeof mixed[0]))

static void bits_of_each_alone(void **state) {
  (void)state;
  for (int type = 0; type < TST_TYPES; type++)
    for (int row_major = 0; row_major < 2; row_major++) {
      struct batch_call call = {.type = (enum tst_type)type, .row_major = row_major, .group = mixed, .groups = MIXED};
      char symbol[40];
      snprintf(symbol, sizeof symbol, "cblas_%cgemm_batch", letters[type]);
      batch_create(&call, (uint64_t)(type * 2 + row_major + 1));
      const unsigned long long before = gpu_calls();
      batch_run(&call, symbol);
      if (tst_fake()) assert_int_equal(gpu_calls() - before, 1);
      if (!batch_is_right(&call)) fail_msg("%s%s", symbol, row_major ? ", row-major" : "");
      batch_destroy(&call);
    }
}

/* ---- spellings ---- */

static const char *const spellings[] = {"cblas_%s", "scipy_cblas_%s", "cblas_%s64_", "cblas_%s_64", "scipy_cblas_%s64_",
                                        "%s_",      "scipy_%s_",      "%s_64_",      "%s_64",       "scipy_%s_64_"};
#define SPELLINGS (sizeof spellings / sizeof spellings[0])

static void name_symbol(char name[64], int type, const char *routine, size_t spelling) {
  char with_letter[40];
  snprintf(with_letter, sizeof with_letter, "%c%s", letters[type], routine);
  snprintf(name, 64, spellings[spelling], with_letter); /* NOLINT */
}

/* It counts once, with the operations of all its products. */
static void expect_counted(const struct batch_call *call, const tileblas_stats *was, const char *symbol) {
  const tileblas_stats is = stats_now();
  double flops = 0;
  for (int g = 0; g < call->groups; g++) {
    const struct batch_group *const x = &call->group[g];
    flops += (call->type >= TST_C ? 8 : 2) * (double)(x->m * x->n * x->k * x->count);
  }
  const double counted = is.gpu_flops - was->gpu_flops + is.cpu_flops - was->cpu_flops;
  if (is.gpu_calls + is.cpu_calls != was->gpu_calls + was->cpu_calls + 1 || counted != flops)
    fail_msg("%s: counted with %g operations, not %g", symbol, counted, flops);
}

static void every_symbol(void **state) {
  (void)state;
  const struct batch_group two[] = {{0, 1, 9, 6, 5, 1, {2, 1}, {0.5, -1}, 2}, {1, 0, 4, 8, 11, 0, {1, 0}, {0, 0}, 1}};
  for (int type = 0; type < TST_TYPES; type++)
    for (size_t i = 0; i < SPELLINGS; i++)
      for (int strided = 0; strided < 2; strided++) {
        struct batch_call call = {.type = (enum tst_type)type, .group = two, .groups = strided ? 1 : 2};
        char symbol[64];
        name_symbol(symbol, type, strided ? "gemm_batch_strided" : "gemm_batch", i);
        batch_create(&call, i + 7);
        const tileblas_stats before = stats_now();
        if (strided)
          batch_run_strided(&call, symbol, 3);
        else
          batch_run(&call, symbol);
        expect_counted(&call, &before, symbol);
        if (!batch_is_right(&call)) fail_msg("%s", symbol);
        batch_destroy(&call);
      }
}

void cblas_dgemm_batch(int, const int *, const int *, const int *, const int *, const int *, const double *,
                       const void *, const int *, const void *, const int *, const double *, void *, const int *, int,
                       const int *);

/* The same memory as matrices of other sizes, larger or smaller in one of them: each has all of its own. */
static void one_memory_for_several_sizes(void **state) {
  (void)state;
  enum { GROUPS = 2, LD = 9, SIDE = 9 };
  double a[SIDE * LD], b[SIDE * LD], c[GROUPS][SIDE * LD];
  const double alpha[GROUPS] = {1, 1}, beta[GROUPS] = {0, 0};
  const int ld[GROUPS] = {LD, LD}, each[GROUPS] = {1, 1};
  const void *const as[GROUPS] = {a, a}, *const bs[GROUPS] = {b, b};
  void *cs[GROUPS] = {c[0], c[1]};
  for (int i = 0; i < SIDE * LD; i++) a[i] = i % 7 - 3, b[i] = i % 5 - 2;
  for (int way = 0; way < 24; way++) { /* which size differs, which group has more of it, transposes */
    int size[3][GROUPS] = {{5, 5}, {6, 6}, {7, 7}};
    size[way % 3][way / 3 % 2] = 9;
    const int ta = way / 6 % 2, tb = way / 12, trans_a[] = {111 + ta, 111 + ta}, trans_b[] = {111 + tb, 111 + tb};
    memset(c, 0, sizeof c);
    cblas_dgemm_batch(102, trans_a, trans_b, size[0], size[1], size[2], alpha, as, ld, bs, ld, beta, cs, ld, GROUPS,
                      each);
    for (int g = 0; g < GROUPS; g++)
      for (int j = 0; j < SIDE; j++)
        for (int i = 0; i < SIDE; i++) {
          double sum = 0;
          for (int l = 0; l < size[2][g] && i < size[0][g] && j < size[1][g]; l++)
            sum += a[ta ? l + i * LD : i + l * LD] * b[tb ? j + l * LD : l + j * LD];
          if (c[g][i + j * LD] != sum) fail_msg("way %d, group %d: (%d, %d)", way, g, i, j);
        }
  }
}

/* ---- many ---- */

/* So many products in one call, and how many copies and launches they take. */
static void check_many(int type, struct batch_group group, enum batch_layout layout, unsigned long most_copies) {
  const struct tst_fake *fake = tst_fake();
  struct batch_call call = {.type = (enum tst_type)type, .layout = layout, .group = &group, .groups = 1};
  char symbol[64];
  name_symbol(symbol, type, "gemm_batch_strided", 0);
  batch_create(&call, 11);
  if (fake) fake->reset_calls();
  batch_run_strided(&call, symbol, 0);
  if (fake) {
    const unsigned long up = (unsigned long)fake->calls("cuMemcpyHtoDAsync");
    const unsigned long down = (unsigned long)fake->calls("cuMemcpyDtoHAsync");
    const unsigned long launches = (unsigned long)fake->calls("cuLaunchKernel");
    if (up > most_copies || up != down) fail_msg("%s: %lu copies up, %lu down", symbol, up, down);
    assert_true(launches <= up * (type == TST_C ? 3 : 1));
  }
  if (!batch_is_right(&call)) fail_msg("%s, many", symbol);
  batch_destroy(&call);
}

static void many_go_together(void **state) {
  (void)state;
  check_many(TST_S, (struct batch_group){0, 0, 8, 8, 8, 0, {1, 0}, {1, 0}, 2500}, BATCH_APART, 5);
  check_many(TST_S, (struct batch_group){0, 1, 64, 64, 32, 0, {1, 0}, {0, 0}, 400}, BATCH_APART, 7);
  check_many(TST_D, (struct batch_group){1, 0, 48, 40, 64, 0, {1, 0}, {2, 0}, 150}, BATCH_APART, 7);
  check_many(TST_C, (struct batch_group){0, 1, 32, 32, 40, 0, {1, 2}, {0, 0}, 100}, BATCH_APART, 5);
}

/* A matrix that all products have is in a piece once; but made real it is each product's own, for which a piece that
 * has room for all else may lack it. */
static void shared_operands_go_up_once(void **state) {
  (void)state;
  check_many(TST_C, (struct batch_group){0, 1, 64, 4, 64, 0, {1, 0}, {0, 0}, 120}, BATCH_SHARED_A, 5);
  check_many(TST_S, (struct batch_group){0, 0, 64, 4, 64, 0, {1, 0}, {0, 0}, 300}, BATCH_SHARED_A, 3);
}

/* ---- signals ---- */

static struct batch_call interrupted;
static atomic_int handled;     /* before its last product was there */
static bool handlers_multiply; /* by the GPU, whose slots and memory the batch has */
static atomic_bool under_way, wrong_in_handler;

static void handle(int number) {
  static float x[2][300 * 2], c[300 * 300];
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_problem p = {
      .trans_a = 'N', .trans_b = 'N', .m = 300, .n = 300, .k = 2, .lda = 300, .ldb = 2, .ldc = 300, .alpha = 1};
  const struct batch_matrices *const last = &interrupted.matrices[interrupted.products - 1];
  (void)number;
  if (memcmp(last->c, last->expected, last->c_bytes) != 0) atomic_fetch_add(&handled, 1);
  if (!handlers_multiply) return;
  for (int i = 0; i < 300 * 2; i++) x[0][i] = x[1][i] = 1;
  tst_call(symbol, tst_resolve(symbol), &p, x[0], x[1], c);
  for (int i = 0; i < 300 * 300; i++)
    if (c[i] != 2) atomic_store(&wrong_in_handler, true);
}

static void *send_signals(void *thread) {
  for (int i = 0; i < 20 && atomic_load(&under_way); i++) {
    usleep(5000);
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
  }
  return NULL;
}

/* They come in while a batch is under way, and it goes on behind them as if there had been none; where a handler calls
 * itself, it is completed otherwise. */
static void signals_come_in(void **state) {
  (void)state;
  static const struct batch_group group = {0, 0, 64, 64, 64, 0, {1, 0}, {1, 0}, 1200};
  struct sigaction action = {.sa_handler = handle}, before;
  pthread_t self = pthread_self(), sender;
  tileblas_stats at_first, after;
  tileblas_stats_get(&at_first);
  for (int multiply = 0; multiply < 2; multiply++) {
    interrupted =
        (struct batch_call){.type = TST_S, .group = &group, .groups = 1, .whole = true}; /* the CPU does some */
    handlers_multiply = multiply;
    batch_create(&interrupted, 21);
    atomic_store(&handled, 0);
    sigaction(SIGUSR1, &action, &before);
    atomic_store(&under_way, true);
    pthread_create(&sender, NULL, send_signals, &self);
    batch_run(&interrupted, "cblas_sgemm_batch");
    atomic_store(&under_way, false);
    pthread_join(sender, NULL);
    sigaction(SIGUSR1, &before, NULL);
    if (!batch_is_right(&interrupted) || atomic_load(&wrong_in_handler))
      fail_msg("wrong behind %d signals, multiply %d", atomic_load(&handled), multiply);
    if (tst_fake()) assert_true(atomic_load(&handled) > 0);
    tileblas_stats_get(&after);
    if (!multiply) assert_true(after.gpu_failures == at_first.gpu_failures); /* nor has the GPU failed */
    batch_destroy(&interrupted);
  }
}

/* ---- what is not like the others ---- */

static void large_empty_and_trivial_ones(void **state) {
  (void)state;
  const struct batch_group groups[] = {
      {0, 0, 1300, 8, 450, 0, {1, 0}, {1, 0}, 1}, /* more than a slot holds */
      {0, 0, 10, 10, 10, 0, {1, 0}, {0, 0}, 2},   {0, 0, 0, 5, 5, 0, {1, 0}, {0, 0}, 1},
      {0, 0, 5, 5, 0, 1, {1, 0}, {2, 0}, 1},      {0, 0, 6, 7, 8, 1, {0, 0}, {0, 0}, 2},
      {0, 0, 3, 3, 3, 0, {1, 0}, {1, 0}, 0},      {0, 0, 6, 7, 8, 1, {1, 0}, {1, 0}, 1},
  };
  for (int type = 0; type < TST_TYPES; type++) {
    struct batch_call call = {.type = (enum tst_type)type, .group = groups, .groups = 7};
    char symbol[64];
    name_symbol(symbol, type, "gemm_batch", 0);
    batch_create(&call, 3);
    batch_run(&call, symbol);
    if (!batch_is_right(&call)) fail_msg("%s", symbol);
    batch_destroy(&call);
  }
}

/* beta = 0 reads nothing of C; NaN in alpha and beta is NaN everywhere. */
static void no_numbers(void **state) {
  (void)state;
  const struct batch_group groups[] = {{0, 0, 9, 9, 9, 0, {1, 0}, {0, 0}, 1},
                                       {0, 0, 9, 9, 9, 0, {NAN, 0}, {0, 0}, 1},
                                       {0, 0, 9, 9, 9, 0, {1, 0}, {NAN, 0}, 1}};
  struct batch_call call = {.type = TST_D, .group = groups, .groups = 3};
  batch_create(&call, 5);
  for (int i = 0; i < 81; i++) ((double *)call.matrices[0].c)[i] = NAN;
  batch_run(&call, "cblas_dgemm_batch");
  for (int i = 0; i < 81; i++) {
    assert_false(isnan(((double *)call.matrices[0].c)[i]));
    assert_true(isnan(((double *)call.matrices[1].c)[i]));
    assert_true(isnan(((double *)call.matrices[2].c)[i]));
  }
  batch_destroy(&call);
}

void cblas_zgemm_batch(int, const int *, const int *, const int *, const int *, const int *, const void *, const void *,
                       const int *, const void *, const int *, const void *, void *, const int *, int, const int *);

/* Conjugated and not transposed, as OpenBLAS has it: A, B or both, on either side, in either layout; 1 x 1 products
 * tell. */
static void only_conjugated(void **state) {
  (void)state;
  const double a[2] = {2, 3}, b[2] = {5, 7}, alpha[2] = {1, 0}, beta[2] = {0, 0};
  const double expected[4][2] = {{-11, 29}, {31, -1}, {31, 1}, {-11, -29}};
  const int one = 1;
  const double *as = a, *bs = b;
  for (int cpu = 0; cpu < 2; cpu++) {
    tileblas_option_set("TILEBLAS_ROUTE", cpu ? "cpu" : "gpu");
    for (int which = 0; which < 4; which++)
      for (int layout = 101; layout <= 102; layout++) {
        const int trans_a = which & 1 ? 114 : 111, trans_b = which & 2 ? 114 : 111;
        double c[2] = {9, 9}, *cs = c;
        cblas_zgemm_batch(layout, &trans_a, &trans_b, &one, &one, &one, alpha, &as, &one, &bs, &one, beta, &cs, &one, 1,
                          &one);
        if (c[0] != expected[which][0] || c[1] != expected[which][1])
          fail_msg("%d %d %d: %g%+gi", cpu, layout, which, c[0], c[1]);
      }
  }
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
}

/* Products that each are too large for a piece, and nothing else: the GPU's all the same. */
static void all_alone(void **state) {
  (void)state;
  const struct batch_group group = {0, 0, 1300, 8, 450, 0, {1, 0}, {1, 0}, 2};
  struct batch_call call = {.type = TST_S, .group = &group, .groups = 1};
  batch_create(&call, 23);
  const unsigned long long before = gpu_calls();
  batch_run(&call, "cblas_sgemm_batch");
  if (tst_fake()) assert_int_equal(gpu_calls() - before, 1);
  assert_true(batch_is_right(&call));
  batch_destroy(&call);
}

static void nothing_at_all(void **state) {
  (void)state;
  const struct batch_group groups[] = {{0, 0, 4, 4, 4, 0, {1, 0}, {0, 0}, 0}};
  struct batch_call call = {.type = TST_S, .group = groups, .groups = 1};
  batch_create(&call, 1);
  batch_run(&call, "cblas_sgemm_batch");
  call.groups = 0;
  batch_run(&call, "sgemm_batch_");
  call.groups = -1;
  batch_run(&call, "cblas_sgemm_batch64_");
  batch_destroy(&call);
}

static void left_to_the_cpu(void **state) {
  (void)state;
  const struct batch_group groups[] = {{0, 1, 9, 6, 5, 1, {2, 0}, {0.5, 0}, 20}};
  struct batch_call call = {.type = TST_S, .group = groups, .groups = 1};
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  batch_create(&call, 2);
  const unsigned long long before = gpu_calls();
  batch_run(&call, "cblas_sgemm_batch");
  assert_int_equal(gpu_calls() - before, 0);
  assert_true(batch_is_right(&call));
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  batch_destroy(&call);
}

/* ---- little memory ---- */

static void within_a_limit(void **state) {
  (void)state;
  const struct batch_group group = {0, 0, 60, 60, 60, 0, {1, 0}, {1, 0}, 40};
  for (int type = 0; type < TST_TYPES; type++) {
    struct batch_call call = {.type = (enum tst_type)type, .group = &group, .groups = 1};
    char symbol[64];
    name_symbol(symbol, type, "gemm_batch", 0);
    batch_create(&call, 13);
    tileblas_option_set("TILEBLAS_MEMORY_LIMIT", type == TST_S ? "200K" : "1M");
    batch_run(&call, symbol);
    tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0");
    if (!batch_is_right(&call)) fail_msg("%s with little memory", symbol);
    batch_destroy(&call);
  }
}

/* ---- on the GPU ---- */

/* Each second product's operands on the second GPU. */
static bool on_two_gpus;

static void move(struct batch_call *call, bool there) {
  const struct batch_matrices *m = call->matrices;
  int64_t number = 0;
  for (int g = 0; g < call->groups; g++)
    for (int64_t i = 0; i < call->group[g].count; i++, number++, m++)
      for (int o = 0; o < 3; o++) {
        const size_t bytes = (size_t)(batch_stored_elems(call, &call->group[g], o) * batch_bytes(call->type));
        void *const host = o == 0 ? m->a : o == 1 ? m->b : m->c;
        if (on_two_gpus) tst_cuda_begin((int)(number % 2));
        if (there) {
          call->device[o][number] = tst_cuda_allocate(TST_DEVICE, bytes);
          tst_cuda_write(TST_DEVICE, call->device[o][number], host, bytes);
        } else {
          assert_true(tst_cuda_read(TST_DEVICE, host, call->device[o][number], bytes));
          tst_cuda_free(TST_DEVICE, call->device[o][number]);
        }
        if (on_two_gpus) tst_cuda_end((int)(number % 2));
      }
}

static void operands_stay_on_the_gpu(void **state) {
  (void)state;
  const struct tst_fake *fake = tst_fake();
  tst_cuda_begin(0);
  for (int type = 0; type < TST_TYPES; type++) {
    struct batch_call call = {.type = (enum tst_type)type, .group = mixed, .groups = MIXED};
    char symbol[64];
    name_symbol(symbol, type, "gemm_batch", 0);
    batch_create(&call, 17);
    for (int o = 0; o < 3; o++) call.device[o] = calloc((size_t)call.products, sizeof(void *));
    move(&call, true);
    if (fake) fake->reset_calls();
    const unsigned long long before = gpu_calls();
    batch_run(&call, symbol);
    assert_int_equal(gpu_calls() - before, 1); /* is counted as the GPU's, of which nothing came down */
    if (fake) assert_int_equal(fake->calls("cuMemcpyHtoDAsync"), 1); /* the list */
    if (fake) assert_int_equal(fake->calls("cuMemcpyDtoHAsync"), 0);
    move(&call, false);
    if (!batch_is_right(&call)) fail_msg("%s on the GPU", symbol);
    for (int o = 0; o < 3; o++) free(call.device[o]);
    batch_destroy(&call);
  }
  tst_cuda_end(0);
}

/* One launch computes what lies on one GPU; the others are computed where they lie. In a process of its own. */
static void products_on_two_gpus(void **state) {
  (void)state;
  struct batch_call call = {.type = TST_S, .group = mixed, .groups = MIXED};
  tileblas_stats stats;
  char symbol[64];
  if (tst_fake() == NULL) TST_LEAVE_OUT("nothing says what a real GPU was told");
  on_two_gpus = true;
  tst_cuda_begin(0), tst_cuda_begin(1);
  name_symbol(symbol, TST_S, "gemm_batch", 0);
  batch_create(&call, 19);
  for (int o = 0; o < 3; o++) call.device[o] = calloc((size_t)call.products, sizeof(void *));
  move(&call, true);
  batch_run(&call, symbol);
  move(&call, false);
  if (!batch_is_right(&call)) fail_msg("%s on two GPUs", symbol);
  tileblas_stats_get(&stats);
  assert_int_equal(stats.gpu_failures, 0);
  assert_true(tst_fake()->calls_on(1, "cuLaunchKernel") + tst_fake()->calls_on(1, "cuLaunchKernelEx") > 0);
  for (int o = 0; o < 3; o++) free(call.device[o]);
  batch_destroy(&call);
  tst_cuda_end(1), tst_cuda_end(0);
}

/* Of a group with pointers each product lies where it will: every third on the GPU, every third with one operand. */
static bool is_there(int64_t product, int operand) {
  return product % 3 == 0 || (product % 3 == 2 && product / 3 % 3 == operand);
}

/* What kernels cannot read where it is: operands that are not on the GPU. */
static uint64_t bytes_that_must_go_up(const struct batch_call *call) {
  int64_t number = 0, elems = 0;
  for (int g = 0; g < call->groups; g++)
    for (int64_t i = 0; i < call->group[g].count; i++, number++) {
      const struct batch_group *const x = &call->group[g];
      elems += (is_there(number, 0) ? 0 : x->m * x->k) + (is_there(number, 1) ? 0 : x->k * x->n);
    }
  return (uint64_t)(elems * batch_bytes(call->type));
}

static void some_on_the_gpu(void **state) {
  (void)state;
  tst_cuda_begin(0);
  for (int type = 0; type < TST_TYPES; type++) {
    struct batch_call call = {.type = (enum tst_type)type, .group = mixed, .groups = MIXED};
    void **there[3];
    char symbol[64];
    name_symbol(symbol, type, "gemm_batch", 0);
    batch_create(&call, 21);
    for (int o = 0; o < 3; o++) call.device[o] = there[o] = calloc((size_t)call.products, sizeof(void *));
    move(&call, true);
    for (int o = 0; o < 3; o++) {
      call.device[o] = calloc((size_t)call.products, sizeof(void *));
      for (int64_t i = 0; i < call.products; i++) {
        const struct batch_matrices *const m = &call.matrices[i];
        call.device[o][i] = is_there(i, o) ? there[o][i] : o == 0 ? m->a : o == 1 ? m->b : m->c;
      }
    }
    const uint64_t before = tst_fake() ? tst_fake()->get(FAKE_CUDA_BYTES_UP) : 0;
    batch_run(&call, symbol);
    if (tst_fake()) assert_true(tst_fake()->get(FAKE_CUDA_BYTES_UP) - before >= bytes_that_must_go_up(&call));
    for (int64_t i = 0; i < call.products; i++) {
      const struct batch_matrices *const m = &call.matrices[i];
      if (!is_there(i, 2)) tst_cuda_write(TST_DEVICE, there[2][i], m->c, m->c_bytes);
    }
    for (int o = 0; o < 3; o++) {
      free(call.device[o]);
      call.device[o] = there[o];
    }
    move(&call, false);
    if (!batch_is_right(&call)) fail_msg("%s partly on the GPU", symbol);
    for (int o = 0; o < 3; o++) free(there[o]);
    batch_destroy(&call);
  }
  tst_cuda_end(0);
}

/* Where there is room for some products in place and for others not, whose results wait to be added to C: these go
 * alone, and stay there. */
static void in_place_with_little_memory(void **state) {
  (void)state;
  static const struct batch_group groups[] = {{0, 0, 12, 10, 8, 0, {1, 0}, {1, 0}, 3},
                                              {0, 1, 200, 180, 8, 0, {2, 0}, {0.5, 0}, 2},
                                              {1, 0, 9, 11, 7, 0, {1, 0}, {2, 0}, 2}};
  const struct tst_fake *fake = tst_fake();
  tst_cuda_begin(0);
  for (int type = 0; type < TST_TYPES; type++) {
    struct batch_call call = {.type = (enum tst_type)type, .group = groups, .groups = 3};
    char symbol[64];
    name_symbol(symbol, type, "gemm_batch", 0);
    batch_create(&call, 29);
    for (int o = 0; o < 3; o++) call.device[o] = calloc((size_t)call.products, sizeof(void *));
    move(&call, true);
    tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "200K");
    tileblas_stats_reset();
    if (fake) fake->reset_calls();
    batch_run(&call, symbol);
    tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0");
    if (fake) assert_int_equal(fake->calls("cuMemcpyDtoHAsync"), 0);
    if (fake) assert_int_equal(gpu_calls(), 1);
    move(&call, false);
    if (!batch_is_right(&call)) fail_msg("%s in place with little memory", symbol);
    for (int o = 0; o < 3; o++) free(call.device[o]);
    batch_destroy(&call);
  }
  tst_cuda_end(0);
}

/* TILEBLAS_ROUTE=cpu: by copies, for the CPU reaches nothing there; no kernel is launched, and it counts as the CPU's.
 */
static void from_the_gpu_to_the_cpu(void **state) {
  (void)state;
  const struct tst_fake *fake = tst_fake();
  tst_cuda_begin(0);
  tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  for (int type = 0; type < TST_TYPES; type++) {
    struct batch_call call = {.type = (enum tst_type)type, .group = mixed, .groups = MIXED};
    char symbol[64];
    name_symbol(symbol, type, "gemm_batch", 0);
    batch_create(&call, 19);
    for (int o = 0; o < 3; o++) call.device[o] = calloc((size_t)call.products, sizeof(void *));
    move(&call, true);
    tileblas_stats_reset();
    if (fake) fake->reset_calls();
    batch_run(&call, symbol);
    if (fake) assert_int_equal(fake->calls("cuLaunchKernel") + fake->calls("cuLaunchKernelEx"), 0);
    move(&call, false);
    if (!batch_is_right(&call)) fail_msg("%s from the GPU", symbol);
    char *const report = tst_report_read(tileblas_report);
    assert_int_equal(tst_report_calls(report, "cpu", "TILEBLAS_ROUTE=cpu"), 1);
    assert_int_equal(gpu_calls(), 0);
    free(report);
    for (int o = 0; o < 3; o++) free(call.device[o]);
    batch_destroy(&call);
  }
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tst_cuda_end(0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_of_each_alone),
      cmocka_unit_test(every_symbol),
      cmocka_unit_test(many_go_together),
      cmocka_unit_test(shared_operands_go_up_once),
      cmocka_unit_test(signals_come_in),
      cmocka_unit_test(large_empty_and_trivial_ones),
      cmocka_unit_test(no_numbers),
      cmocka_unit_test(only_conjugated),
      cmocka_unit_test(all_alone),
      cmocka_unit_test(nothing_at_all),
      cmocka_unit_test(left_to_the_cpu),
      cmocka_unit_test(within_a_limit),
      cmocka_unit_test(operands_stay_on_the_gpu),
      cmocka_unit_test(some_on_the_gpu),
      cmocka_unit_test(in_place_with_little_memory),
      cmocka_unit_test(from_the_gpu_to_the_cpu),
      cmocka_unit_test(one_memory_for_several_sizes),
  };
  const struct CMUnitTest watched[] = {cmocka_unit_test(bits_of_each_alone), cmocka_unit_test(many_go_together),
                                       cmocka_unit_test(operands_stay_on_the_gpu)};
  const struct CMUnitTest two_gpus[] = {cmocka_unit_test(products_on_two_gpus)};
  if (argc > 1 && strcmp(argv[1], "two_gpus") == 0) return tst_result(cmocka_run_group_tests(two_gpus, NULL, NULL));
  if (argc > 1 && strcmp(argv[1], "--quick") == 0) return cmocka_run_group_tests(watched, NULL, NULL);
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
