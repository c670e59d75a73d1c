/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trmm, trsm and batches that three GPUs compute together: the bits of one GPU alone, for each side, triangle and type,
 * with little memory and on the tensor cores, too; every GPU has a part; what the verbose line says; and GPUs without
 * memory, or lost in the midst, whose parts the others compute.
 *
 * Seen to fail when: a part of B is computed as if it was all; pieces begin between blocks; a part of rows is taken for
 * one of columns; products at the edge of two GPUs' are left out, or both have them; what a GPU left is nobody's;
 * products that lie on one GPU are another's; a batch that one has in no time is shared, or one that takes it long is
 * not; others are opened for what they would not save.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch_call.h"
#include "fake.h"
#include "placed.h"
#include "process.h"
#include "sided_call.h"
#include "tileblas.h"

enum { GPUS = 3, OUT_OF_MEMORY = 2, UNKNOWN = 999 };

static void set_option(const char *name, const char *value) {
  if (tileblas_option_set(name, value) != 0) fail_msg("%s=%s is refused", name, value);
}

static uint64_t launches_on(int gpu) {
  return tst_fake()->calls_on(gpu, "cuLaunchKernel") + tst_fake()->calls_on(gpu, "cuLaunchKernelEx");
}

static uint64_t launches[GPUS];
static void begin_counting(void) {
  for (int gpu = 0; gpu < GPUS; gpu++) launches[gpu] = launches_on(gpu);
}

/* How many GPUs have launched anything since then. In the first call of a process all have that are to; later on one
 * that was slow, for others had its core, may be left out. */
static int gpus_at_work(void) {
  int count = 0;
  for (int gpu = 0; gpu < GPUS; gpu++) count += launches_on(gpu) > launches[gpu];
  return count;
}

/* ---- trmm and trsm ---- */

/* "dtrsm LUNN": a routine, side, triangle, transpose and diagonal; B is `long_side` where it is cut. */
struct triangle {
  const char *name;
  int64_t order, long_side;
  const char *limit;
  int64_t uneven; /* a column of floats; 0: none */
};

static char upper(char c) { return (char)(c & ~32); }

static void create_triangle(struct tst_sided_call *call, const struct triangle *t, uint64_t *rng) {
  char routine[8], how[8];
  if (sscanf(t->name, "%7s %7s", routine, how) != 2) abort();
  int number = TST_SIDED_ROUTINES; /* Fortran's */
  struct tst_typed_name name;
  for (;; number++) {
    tst_sided_find(number, &name);
    if (strncmp(name.name, routine, 5) == 0) break;
  }
  const int64_t m = how[0] == 'L' ? t->order : t->long_side, n = how[0] == 'L' ? t->long_side : t->order;
  /* Whatever else is drawn fits: a small call tells what the numbers give. */
  for (bool found = false; !found;) {
    uint64_t ahead = *rng;
    tst_sided_create_sized(call, number, 1, 1, &ahead);
    found = upper(call->side) == how[0] && upper(call->uplo) == how[1] && upper(call->trans) == how[2] &&
            upper(call->diag) == how[3];
    tst_sided_destroy(call);
    if (found)
      tst_sided_create_sized(call, number, m, n, rng);
    else
      *rng = ahead;
  }
}

/* A column of B whose numbers are too far apart for fp16 planes: its whole tile is computed in another way. */
static void make_uneven(struct tst_sided_call *call, int64_t column) {
  for (int64_t i = 0; i < call->m; i++) {
    const int64_t at = i + column * call->ldc;
    if (i % 64 != 0) ((float *)call->c.before)[at] = ((float *)call->c.data)[at] *= 0x1p-40f;
  }
}

/* By one GPU, and by at most so many. NULL: with the same bits. */
static const char *shared_wrong(const struct triangle *t, uint64_t *rng, int most) {
  struct tst_sided_call call;
  create_triangle(&call, t, rng);
  if (t->uneven > 0) make_uneven(&call, t->uneven);
  set_option("TILEBLAS_MEMORY_LIMIT", t->limit);
  set_option("TILEBLAS_SHARE", "never");
  tst_sided_make(&call);
  const char *wrong = tst_sided_wrong(&call);
  void *const alone = malloc(call.c.bytes);
  if (alone == NULL) abort();
  memcpy(alone, call.c.data, call.c.bytes);
  tst_sided_restore(&call);
  set_option("TILEBLAS_SHARE", "always");
  begin_counting();
  tst_sided_make(&call);
  set_option("TILEBLAS_MEMORY_LIMIT", "0");
  if (!wrong && memcmp(alone, call.c.data, call.c.bytes) != 0) wrong = "other bits";
  if (!wrong && gpus_at_work() > most) wrong = "by more GPUs than it has pieces";
  free(alone);
  tst_sided_destroy(&call);
  return wrong;
}

static void triangles(const struct triangle *list, size_t count, int most) {
  uint64_t rng = 1;
  for (size_t i = 0; i < count; i++) {
    const char *wrong = shared_wrong(&list[i], &rng, most);
    if (wrong) fail_msg("%s, order %d, limit %s: %s", list[i].name, (int)list[i].order, list[i].limit, wrong);
  }
}
#define TRIANGLES(list, most) triangles(list, sizeof list / sizeof *list, most)

/* Pieces of unlike size, a last one of few columns, too few for all, and narrow blocks for little memory. */
static void triangles_by_three(void **state) {
  (void)state;
  static const struct triangle all[] = {
      {"dtrsm LUNN", 130, 700, "0", 0}, {"dtrsm RLTU", 70, 600, "0", 0},     {"dtrmm LLTN", 129, 577, "0", 0},
      {"dtrmm RUNU", 96, 580, "0", 0},  {"strsm LLNU", 130, 1000, "0", 0},   {"strmm RUTN", 65, 580, "0", 0},
      {"ctrsm RLCN", 66, 590, "0", 0},  {"ctrmm LUCU", 70, 600, "0", 0},     {"ztrsm LUTN", 40, 580, "0", 0},
      {"ztrmm RLNN", 33, 580, "0", 0},  {"dtrsm LLNN", 70, 1300, "500K", 0},
  };
  static const struct triangle by_two[] = {{"dtrsm LUNN", 66, 200, "0", 0}};
  static const struct triangle by_one[] = {{"dtrsm RLNN", 66, 192, "0", 0}};
  TRIANGLES(all, 3);
  TRIANGLES(by_two, 2);
  TRIANGLES(by_one, 1);
}

/* In a process of its own the GPUs have the pieces that they get at first. */
static int first_of_a_process(void *triangle) {
  uint64_t rng = 8;
  const char *wrong = shared_wrong(triangle, &rng, GPUS);
  if (wrong) printf("%s\n", wrong);
  return !wrong && gpus_at_work() == GPUS ? 0 : 1;
}

/* A triangle that is halved, for want of memory: each half, and what lies between them, is shared. For the last piece,
 * of four columns, it would not have to be. */
static void halves_by_three(void **state) {
  (void)state;
  static const struct triangle halved = {"dtrsm LLNN", 260, 580, "300K", 0};
  tst_in_a_process(first_of_a_process, (void *)&halved, "first of a process");
}

/* On the tensor cores the bits show whose tile a column is in. And one GPU has workspace for some columns of its first
 * block alone, where three have it for all of theirs. */
static void triangles_on_tensor_cores(void **state) {
  (void)state;
  struct tst_output o;
  setenv("FAKE_CUDA_SMS", "2", 1); /* so that products of this size are for them */
  set_option("TILEBLAS_VERBOSE", "1");
  static const struct triangle wide = {"strmm LLNN", 330, 760, "12M", 200};
  tst_fork(&o, first_of_a_process, (void *)&wide);
  set_option("TILEBLAS_VERBOSE", "0");
  unsetenv("FAKE_CUDA_SMS");
  if (o.status != 0 || tst_count_lines(o.err, " emulated ") != 2) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

/* ---- batches ---- */

static const struct batch_group groups[] = {
    {0, 0, 33, 17, 65, 0, {1, 0}, {0, 0}, 30}, {1, 0, 64, 64, 64, 3, {-2, 0.5}, {1, 0}, 7},
    {0, 1, 5, 70, 3, 2, {3, 0}, {0.5, 0}, 41}, {0, 0, 1300, 8, 450, 0, {1, 0}, {1, 0}, 1}, /* which goes alone */
    {2, 2, 130, 7, 40, 1, {1, 1}, {-1, 2}, 3}, {0, 0, 6, 7, 8, 1, {0, 0}, {2, 0}, 1}};
enum { BATCH_GROUPS = sizeof groups / sizeof *groups };

/* Each product has the bits that it has alone, by one GPU. */
static void expect_shared(enum tst_type type, int count, const char *limit) {
  struct batch_call call = {.type = type, .group = groups, .groups = count};
  set_option("TILEBLAS_SHARE", "never");
  batch_create(&call, (uint64_t)type + 1);
  set_option("TILEBLAS_SHARE", "always");
  set_option("TILEBLAS_MEMORY_LIMIT", limit);
  batch_run(&call, tst_format("cblas_%cgemm_batch", "sdcz"[type]));
  set_option("TILEBLAS_MEMORY_LIMIT", "0");
  assert_true(batch_is_right(&call));
  batch_destroy(&call);
}

static void batches_by_three(void **state) {
  (void)state;
  for (int type = 0; type < TST_TYPES; type++) expect_shared((enum tst_type)type, BATCH_GROUPS, "0");
  expect_shared(TST_S, 3, "200K");
}

/* What lies on a GPU is its own: the last group, whose numbers would be another's if the batch were shared. */
static int partly_there(void *unused) {
  (void)unused;
  struct batch_call call = {.type = TST_S, .group = groups, .groups = 3};
  const int64_t first = groups[0].count + groups[1].count;
  setenv("FAKE_CUDA_PEERS", "0", 1); /* no GPU reaches another's */
  tst_cuda_begin(0);
  set_option("TILEBLAS_SHARE", "never");
  batch_create(&call, 3);
  size_t bytes[3];
  for (int o = 0; o < 3; o++) {
    bytes[o] = (size_t)(batch_stored_elems(&call, &groups[2], o) * batch_bytes(call.type));
    call.device[o] = calloc((size_t)call.products, sizeof(void *));
    for (int64_t i = 0; i < call.products; i++) {
      const struct batch_matrices *const m = &call.matrices[i];
      void *const host = o == 0 ? m->a : o == 1 ? m->b : m->c;
      call.device[o][i] = i < first ? host : tst_cuda_allocate(TST_DEVICE, bytes[o]);
      if (i >= first) tst_cuda_write(TST_DEVICE, call.device[o][i], host, bytes[o]);
    }
  }
  set_option("TILEBLAS_SHARE", "always");
  set_option("TILEBLAS_VERBOSE", "1");
  batch_run(&call, "cblas_sgemm_batch");
  set_option("TILEBLAS_VERBOSE", "0");
  bool right = true;
  for (int64_t i = first; i < call.products; i++)
    right &= tst_cuda_read(TST_DEVICE, call.matrices[i].c, call.device[2][i], bytes[2]);
  right &= batch_is_right(&call);
  for (int o = 0; o < 3; o++) {
    for (int64_t i = first; i < call.products; i++) tst_cuda_free(TST_DEVICE, call.device[o][i]);
    free(call.device[o]);
  }
  batch_destroy(&call);
  tst_cuda_end(0);
  return right ? 0 : 1;
}

static void batches_partly_on_one(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, partly_there, NULL);
  const bool by_one = tst_count_lines(o.err, "\n") == 1 && tst_count_lines(o.err, " -> gpu0 batch (") == 1;
  if (o.status != 0 || !by_one) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  tst_output_destroy(&o);
}

typedef void batch_symbol(int layout, const int *ta, const int *tb, const int64_t *m, const int64_t *n,
                          const int64_t *k, const float *alpha, const float **a, const int64_t *lda, const float **b,
                          const int64_t *ldb, const float *beta, float **c, const int64_t *ldc, int64_t groups,
                          const int64_t *count);

/* Products of zeros by zeros, of 64 KB that come down each. */
enum { TILE = 128, TILES_MOST = 1600 };

static void call_zeros(float *memory, int64_t count) {
  static float side[TILE];
  static const float *sides[TILES_MOST];
  static float *c[TILES_MOST];
  const int no_trans = 111;
  const int64_t tile = TILE, one = 1;
  const float alpha = 1, beta = 0;
  for (int64_t i = 0; i < count; i++) sides[i] = side, c[i] = memory + i * TILE * TILE;
  ((batch_symbol *)dlsym(RTLD_DEFAULT, "cblas_sgemm_batch64_"))(102, &no_trans, &no_trans, &tile, &tile, &one, &alpha,
                                                                sides, &tile, sides, &one, &beta, c, &tile, 1, &count);
}

/* With all open, a batch is shared if one GPU would need 2 ms for it, as a product is: this one brings down 105 MB. Of
 * two lengths the first opens no other GPU. */
static int batches_as_it_pays(void *open) {
  float *const memory = calloc((size_t)TILES_MOST * TILE * TILE, sizeof *memory);
  const bool all_open = open != NULL;
  if (memory == NULL) return 9;
  set_option("TILEBLAS_SHARE", all_open ? "always" : "auto");
  call_zeros(memory, 20);
  if (gpus_at_work() != (all_open ? GPUS : 1)) return 1;
  set_option("TILEBLAS_SHARE", "auto");
  begin_counting();
  call_zeros(memory, 20);
  if (gpus_at_work() != 1) return 2;
  const uint64_t contexts = all_open ? GPUS : 1; /* once slots that were ordered as they were opened have come */
  for (int i = 0; i < 5000 && tst_fake()->get(FAKE_CUDA_CONTEXTS) != contexts; i++) usleep(1000);
  if (tst_fake()->get(FAKE_CUDA_CONTEXTS) != contexts) return 3;
  begin_counting();
  if (all_open) call_zeros(memory, TILES_MOST);
  free(memory);
  return !all_open || gpus_at_work() == GPUS ? 0 : 4;
}

static void batches_if_it_pays(void **state) {
  (void)state;
  for (intptr_t open = 0; open < 2; open++) {
    struct tst_output o;
    tst_fork(&o, batches_as_it_pays, (void *)open);
    if (o.status != 0 || o.err[0]) fail_msg("open %d: status %d\n%s%s", (int)open, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

/* ---- what is said, and failures ---- */

struct trouble {
  enum { BY_COLUMNS, BY_ROWS, BATCH, TWO_PRODUCTS } what;
  unsigned full; /* bit i: others use all memory of GPU i */
  int lost;      /* this GPU is, from the nth launch on; -1: none */
  unsigned long nth;
};

static const char *const names[] = {"dtrsm_ ", "dtrmm_ ", "dgemm_batch ", "dgemm_batch "};

static bool shared_triangle(const struct triangle *t) {
  uint64_t rng = 5;
  struct tst_sided_call call;
  create_triangle(&call, t, &rng);
  tst_sided_make(&call);
  const char *wrong = tst_sided_wrong(&call);
  if (wrong) printf("%s\n", wrong);
  tst_sided_destroy(&call);
  return !wrong;
}

/* What a GPU computes has the bits that are expected; the CPU's are others, but near. */
static bool shared_batch(const struct batch_call *call, bool by_cpu) {
  batch_run(call, "cblas_dgemm_batch");
  if (!by_cpu) return batch_is_right(call);
  for (int64_t i = 0; i < call->products; i++) {
    const struct batch_matrices *const x = &call->matrices[i];
    for (size_t j = 0; j < x->c_bytes / sizeof(double); j++) {
      const double difference = ((double *)x->c)[j] - ((double *)x->expected)[j];
      if (!(difference < 1e-12 && difference > -1e-12)) return false;
    }
  }
  return true;
}

/* Twice the same, so that what comes behind a failure is seen, too. */
static int shared_calls(void *argument) {
  static const struct triangle by_columns = {"dtrsm LUNN", 130, 700, "0", 0}, by_rows = {"dtrmm RLTN", 70, 600, "0", 0};
  static const struct batch_group two = {0, 0, 64, 64, 64, 0, {1, 0}, {1, 0}, 2};
  const struct trouble *x = argument;
  const struct tst_fake *fake = tst_fake();
  struct batch_call batch[2];
  bool right = true;
  set_option("TILEBLAS_SHARE", "never");
  for (int i = 0; i < 2; i++) {
    batch[i] = (struct batch_call){.type = TST_D, .group = groups, .groups = 3};
    if (x->what == TWO_PRODUCTS) batch[i].group = &two, batch[i].groups = 1;
    if (x->what >= BATCH) batch_create(&batch[i], 9);
  }
  for (int gpu = 0; gpu < GPUS; gpu++)
    if (x->full >> gpu & 1) fake->inject_on(gpu, "cuMemAlloc", 0, OUT_OF_MEMORY, 0);
  if (x->lost >= 0) fake->inject_on(x->lost, "cuLaunchKernel", x->nth, UNKNOWN, FAKE_CUDA_STICKY);
  set_option("TILEBLAS_SHARE", "always");
  set_option("TILEBLAS_VERBOSE", "1");
  for (int i = 0; i < 2 && right; i++)
    right = x->what >= BATCH ? shared_batch(&batch[i], x->full == 7)
                             : shared_triangle(x->what == BY_COLUMNS ? &by_columns : &by_rows);
  for (int i = 0; i < 2 && x->what >= BATCH; i++) batch_destroy(&batch[i]);
  return right && fake->get(FAKE_CUDA_MISUSES) == 0 ? 0 : 1;
}

/* Which parts the two lines have, in all; and the CPU's are not what a GPU left. */
static void expect_said(const struct trouble *x, const char *first, const char *second, size_t most_warnings) {
  struct tst_output o;
  tst_fork(&o, shared_calls, (void *)x);
  const size_t warnings = tst_count_lines(o.err, "warning: ");
  const bool said = tst_count_lines(o.err, first) > 0 && tst_count_lines(o.err, second) > 0 &&
                    tst_count_lines(o.err, names[x->what]) == 2 && tst_count_lines(o.err, "\n") == 2 + warnings;
  if (o.status != 0 || !said || warnings > most_warnings || tst_count_lines(o.err, "completed by the cpu") > 0)
    fail_msg("%s, full %x, lost %d: status %d\n%s%s", names[x->what], x->full, x->lost, o.status, o.out, o.err);
  tst_output_destroy(&o);
}

static void what_is_said(void **state) {
  (void)state;
  for (int what = BY_COLUMNS; what <= BATCH; what++)
    expect_said(&(struct trouble){what, 0, -1, 0}, "-> gpu0+1+2 ", " -> ", 0);
  expect_said(&(struct trouble){TWO_PRODUCTS, 0, -1, 0}, "-> gpu0+1 ", " -> ", 0);
}

/* The others compute their parts; or the CPU, when there are none. */
static void without_memory(void **state) {
  (void)state;
  static const char by_another[] = "completed by another gpu";
  for (int what = BY_COLUMNS; what <= BATCH; what++) {
    expect_said(&(struct trouble){what, what == BY_ROWS ? 6 : 1, -1, 0}, by_another, " -> ", 1);
    expect_said(&(struct trouble){what, 7, -1, 0}, " -> cpu (", " -> ", 1);
  }
}

/* At once, or later. It is given up, and later calls are the others'. */
static void a_lost_gpu(void **state) {
  (void)state;
  static const char *const left[GPUS] = {"-> gpu1+2 ", "-> gpu0+2 ", "-> gpu0+1 "};
  for (int gpu = 0; gpu < GPUS; gpu++) {
    expect_said(&(struct trouble){gpu == 1 ? BY_ROWS : BY_COLUMNS, 0, gpu, 4}, "completed by another gpu", left[gpu],
                1);
    expect_said(&(struct trouble){BATCH, 0, gpu, 1}, "completed by another gpu", left[gpu], 1);
  }
}

/* One fails when it has written some columns of its rows, and another one in its own, in what brings the other columns
 * up to date, or in these: whatever is left is taken up in order, by a third, or the CPU where both are lost. */
struct two {
  const char *devices;
  unsigned long nth;
};

static int two_fail(void *argument) {
  static const struct triangle rows = {"dtrsm RUNN", 100, 768, "0", 0};
  const struct two *x = argument;
  const struct tst_fake *fake = tst_fake();
  set_option("TILEBLAS_DEVICES", x->devices);
  set_option("TILEBLAS_SHARE", "always");
  set_option("TILEBLAS_VERBOSE", "1");
  fake->inject_on(1, "cuMemcpyDtoHAsync", 2, UNKNOWN, FAKE_CUDA_ASYNC);
  fake->inject_on(0, "cuMemcpyDtoHAsync", x->nth, UNKNOWN, FAKE_CUDA_ASYNC);
  return shared_triangle(&rows) ? 0 : 1;
}

static void two_of_them_fail(void **state) {
  (void)state;
  for (unsigned long i = 0; i < 9; i++) {
    const struct two x = {i < 5 ? "0,1" : "0,1,2", i < 5 ? i + 1 : i - 4};
    struct tst_output o;
    tst_fork(&o, two_fail, (void *)&x);
    const char *const by = i < 4 ? "completed by the cpu" : "completed by another gpu";
    if (o.status != 0 || tst_count_lines(o.err, by) != 1)
      fail_msg("%s, %lu: status %d\n%s%s", x.devices, x.nth, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(triangles_on_tensor_cores),
      cmocka_unit_test(halves_by_three),
      cmocka_unit_test(batches_partly_on_one),
      cmocka_unit_test(batches_if_it_pays),
      cmocka_unit_test(what_is_said),
      cmocka_unit_test(without_memory),
      cmocka_unit_test(a_lost_gpu),
      cmocka_unit_test(two_of_them_fail),
      cmocka_unit_test(triangles_by_three),
      cmocka_unit_test(batches_by_three),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
