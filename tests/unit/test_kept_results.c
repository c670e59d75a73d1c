/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chains: T = A B, and then U = T D. When that has come twice T does not go up any more for U, as long as nobody has
 * written to it: not by a store, a system call, another mapping or thread, nor by a call of ours, on the GPU or the
 * CPU. Whatever fails, U is that of the program's memory. A program in which no result is an operand, or which writes
 * to each, has no memory of the GPU's taken for that.
 *
 * All numbers are whole, so that sums are exact, and U is what the CPU BLAS has. Each case is a process of its own.
 *
 *   test_kept_results [tensor|triangular]
 *
 * With `triangular` T is made by trmm and trsm: by halves, whole, and in bands.
 *
 * Seen to fail when: the proof is skipped, or not awaited; a result is used that is not whole; a tile is copied to
 * another's place; copies of results are made in vain.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_UNKNOWN 999
#define PAGE 4096

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

/* ---- a chain ---- */

enum maker { BY_PRODUCT, BY_TRMM, BY_TRSM };

struct chain {
  const struct tst_symbol *symbol;
  enum maker by;
  bool on_right;                      /* T = B A */
  int64_t m, n, k, sides, ldt, bytes; /* of an element */
  char *a, *b, *t, *d, *u, *wanted;
  int64_t t_bytes;
  int round;
};

static void fill(char *x, int64_t elements, enum tst_type type, uint64_t *seed) {
  for (int64_t i = 0; i < elements * tst_parts(type); i++) {
    const double value = (double)tst_random_below(seed, 5) - 2;
    if (tst_is_double(type)) memcpy(x + 8 * i, &value, 8);
    if (!tst_is_double(type)) memcpy(x + 4 * i, &(float){(float)value}, 4);
  }
}

static int64_t next_k = 3; /* what is found out goes for results of one shape and k */
static bool triangular;

/* A triangle, here and there, of an order that no other has; or such a one that T goes in bands of its columns. */
static int64_t least_order = 40;

static void choose_triangle(int64_t bytes, int64_t *m, int64_t *n, struct chain *x) {
  static int number;
  const int64_t least = (int64_t)5 << 19; /* less fits into a slot */
  const bool in_bands = least_order > 2000;
  x->k = least_order + number;
  x->by = number % 3 == 2 && !in_bands ? BY_TRMM : BY_TRSM;
  x->on_right = number++ % 2 == 1 || in_bands;
  *m = x->on_right ? least / bytes / x->k : x->k;
  *n = x->on_right ? x->k : least / bytes / x->k;
}

/* T of whole pages of its own, so that it can be mapped anew. */
static struct chain make(enum tst_type type, int64_t m, int64_t n, int64_t pad) {
  static const char *const names[] = {"cblas_sgemm", "cblas_dgemm", "cblas_cgemm", "cblas_zgemm"};
  const int64_t bytes = tst_part_bytes(type) * tst_parts(type);
  struct chain x = {.symbol = tst_find_symbol(names[type]), .sides = 3};
  uint64_t seed = 1;
  if (triangular)
    choose_triangle(bytes, &m, &n, &x);
  else
    x.k = next_k++;
  x.m = m, x.n = n, x.ldt = m + pad;
  x.bytes = bytes, x.t_bytes = (x.ldt * n * bytes + PAGE - 1) / PAGE * PAGE;
  x.a = malloc((size_t)(m * x.k * bytes)), x.b = malloc((size_t)(x.k * n * bytes));
  x.d = malloc((size_t)(n * x.sides * bytes));
  x.u = calloc((size_t)((m + n) * x.sides), (size_t)bytes);
  x.wanted = calloc((size_t)((m + n) * x.sides), (size_t)bytes);
  x.t = mmap(NULL, (size_t)x.t_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (x.t == MAP_FAILED) exit(3);
  fill(x.b, x.k * n, type, &seed), fill(x.d, n * x.sides, type, &seed);
  return x;
}

static void drop(struct chain *x) {
  free(x->a), free(x->b), free(x->d), free(x->u), free(x->wanted);
  munmap(x->t, (size_t)x->t_bytes);
}

static void call(const struct chain *x, int64_t n, int64_t k, int64_t ld, double beta, const char *a, const char *b,
                 int64_t ldb, char *c, int64_t ldc) {
  const struct tst_problem p = {.trans_a = 'N',
                                .trans_b = 'N',
                                .m = x->m,
                                .n = n,
                                .k = k,
                                .alpha = 1,
                                .beta = beta,
                                .lda = ld,
                                .ldb = ldb,
                                .ldc = ldc};
  tst_call(x->symbol, tst_resolve(x->symbol), &p, a, b, c);
}

/* One beside ones on the diagonal in pairs of rows, whose inverse is as whole. */
static void fill_triangle(const struct chain *x, char *a, bool lower) {
  const int part = tst_is_double(x->symbol->type) ? 8 : 4;
  const double one = 1;
  memset(a, 0, (size_t)(x->k * x->k * x->bytes));
  for (int64_t i = 0; i < x->k; i++)
    for (int beside = 0; beside < 1 + (int)(i % 2); beside++) {
      char *const at = a + (lower ? i + (i - beside) * x->k : i - beside + i * x->k) * x->bytes;
      if (part == 8) memcpy(at, &one, 8);
      if (part == 4) memcpy(at, &(float){1}, 4);
    }
}

typedef void real_triangle(int, int, int, int, int, int, int, float, const void *, int, void *, int);
typedef void double_triangle(int, int, int, int, int, int, int, double, const void *, int, void *, int);
typedef void complex_triangle(int, int, int, int, int, int, int, const void *, const void *, int, void *, int);
real_triangle cblas_strmm, cblas_strsm;
double_triangle cblas_dtrmm, cblas_dtrsm;
complex_triangle cblas_ctrmm, cblas_ctrsm, cblas_ztrmm, cblas_ztrsm;

/* T is the dense one of A and B, and then what the triangle makes of it. */
static void make_t_of_triangle(struct chain *x) {
  const int side = x->on_right ? 142 : 141, lower = x->round % 2, uplo = lower ? 122 : 121;
  const int m = (int)x->m, n = (int)x->n, order = (int)x->k, ldt = (int)x->ldt;
  char *const a = x->on_right ? x->b : x->a, *const dense = x->on_right ? x->a : x->b;
  const bool solves = x->by == BY_TRSM;
  const double ones[2] = {1, 0};
  const float one[2] = {1, 0};
  fill_triangle(x, a, lower);
  for (int64_t j = 0; j < x->n; j++)
    memcpy(x->t + j * x->ldt * x->bytes, dense + j * x->m * x->bytes, (size_t)(x->m * x->bytes));
  switch (x->symbol->type) {
    case TST_S:
      (solves ? cblas_strsm : cblas_strmm)(102, side, uplo, 111, 131, m, n, 1, a, order, x->t, ldt);
      return;
    case TST_D:
      (solves ? cblas_dtrsm : cblas_dtrmm)(102, side, uplo, 111, 131, m, n, 1, a, order, x->t, ldt);
      return;
    case TST_C:
      (solves ? cblas_ctrsm : cblas_ctrmm)(102, side, uplo, 111, 131, m, n, one, a, order, x->t, ldt);
      return;
    default:
      (solves ? cblas_ztrsm : cblas_ztrmm)(102, side, uplo, 111, 131, m, n, ones, a, order, x->t, ldt);
  }
}

/* What is dense is another one each time. */
static void make_t(struct chain *x) {
  uint64_t seed = (uint64_t)++x->round;
  if (x->on_right || x->by == BY_PRODUCT)
    fill(x->a, x->m * x->k, x->symbol->type, &seed);
  else
    fill(x->b, x->k * x->n, x->symbol->type, &seed);
  if (x->by != BY_PRODUCT)
    make_t_of_triangle(x);
  else
    call(x, x->n, x->k, x->m, 0, x->a, x->b, x->k, x->t, x->ldt);
}

static void make_u(const struct chain *x, char *u) { call(x, x->sides, x->n, x->ldt, 0, x->t, x->d, x->n, u, x->m); }

static bool complain(const struct chain *x, const char *what) {
  printf("%s %lld x %lld, ldc %lld, round %d: %s\n", x->symbol->name, (long long)x->m, (long long)x->n,
         (long long)x->ldt, x->round, what);
  return false;
}

static double number(const struct chain *x, const char *from, int64_t i) {
  float f;
  double d;
  memcpy(&f, from + 4 * i, 4);
  if (!tst_is_double(x->symbol->type)) return f;
  memcpy(&d, from + 8 * i, 8);
  return d;
}

/* OpenBLAS's complex kernels for some processors, AMD's and Haswell among them, have -0 where others have 0. */
static bool are_same(const struct chain *x, const char *found, const char *wanted, int64_t elements) {
  for (int64_t i = 0; i < elements * tst_parts(x->symbol->type); i++)
    if (number(x, found, i) != number(x, wanted, i)) return false;
  return true;
}

static uint64_t bytes_up(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_BYTES_UP); }

enum way_up { UP, NOT_UP, ANYHOW };

/* U, and whether T has gone up for it. */
static bool use_t(struct chain *x, enum way_up way) {
  const uint64_t before = bytes_up();
  make_u(x, x->u);
  const uint64_t up = bytes_up() - before, all = (uint64_t)(x->m * x->n * x->bytes);
  set("TILEBLAS_ROUTE", "cpu");
  make_u(x, x->wanted);
  set("TILEBLAS_ROUTE", "gpu");
  bool right = are_same(x, x->u, x->wanted, x->m * x->sides) || complain(x, "wrong");
  if (tst_fake() == NULL || way == ANYHOW) return right;
  if (way == UP && up < all) right = complain(x, "it does not go up");
  if (way == NOT_UP && up > all / 8) right = complain(x, "it goes up");
  return right;
}

static bool go_round(struct chain *x, enum way_up way) {
  make_t(x);
  return use_t(x, way);
}

/* The first shows that T is an operand, the second that it is what it was; from then on it stays. */
static bool begin(struct chain *x) {
  bool right = go_round(x, UP);
  right &= go_round(x, UP);
  return go_round(x, NOT_UP) && right;
}

/* ---- all shapes ---- */

static bool on_tensor_cores;

/* Whole columns to a cell, and columns of many; tiles end within cells; some with memory for a part of C alone. */
static int all_shapes(void *limit) {
  static const struct { int64_t m, n, pad; } shapes[] = {{777, 780, 0}, {9002, 71, 3}, {61, 9100, 5}, {2048, 300, 0}};
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < 4; i++)
    for (int type = 0; type < TST_TYPES; type++) {
      if ((TST_SANITIZED || limit != NULL) && (i + type) % 4 != 0) continue;
      if (triangular && i > 1) continue;
      if (on_tensor_cores && (i > 0 || tst_is_double((enum tst_type)type))) continue;
      if (on_tensor_cores) next_k = type == TST_C ? 60 : 200;
      struct chain x = make((enum tst_type)type, shapes[i].m, shapes[i].n, shapes[i].pad);
      if (limit != NULL) set("TILEBLAS_MEMORY_LIMIT", limit);
      if (limit == NULL) right &= begin(&x);
      if (limit == NULL) right &= go_round(&x, NOT_UP);
      for (int round = 0; limit != NULL && round < 4; round++) right &= go_round(&x, ANYHOW);
      right &= use_t(&x, limit == NULL ? NOT_UP : ANYHOW);
      drop(&x);
    }
  return right ? 0 : 1;
}

static int all_bands(void *unused) {
  (void)unused;
  least_order = 2100;
  set("TILEBLAS_ROUTE", "gpu");
  struct chain x = make(TST_D, 0, 0, 2);
  const bool right = begin(&x);
  drop(&x);
  return right ? 0 : 1;
}

/* A part of T, and T as the other operand. */
static int other_operands(void *unused) {
  (void)unused;
  struct chain x = make(TST_S, 777, 780, 0), part = x;
  set("TILEBLAS_ROUTE", "gpu");
  bool right = begin(&x);
  part.n = 700, part.round = 100;
  make_t(&x);
  right &= use_t(&part, NOT_UP);
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'N', .m = 3, .n = x.n, .k = x.m, .alpha = 1, .beta = 0};
  p.lda = 3, p.ldb = x.ldt, p.ldc = 3;
  make_t(&x);
  const uint64_t before = bytes_up();
  tst_call(x.symbol, tst_resolve(x.symbol), &p, x.a, x.t, x.u);
  if (bytes_up() - before > (uint64_t)x.t_bytes / 8) right = complain(&x, "it goes up as B");
  set("TILEBLAS_ROUTE", "cpu");
  tst_call(x.symbol, tst_resolve(x.symbol), &p, x.a, x.t, x.wanted);
  if (!are_same(&x, x.u, x.wanted, 3 * x.n)) right = complain(&x, "wrong as B");
  drop(&x);
  return right ? 0 : 1;
}

/* ---- writes between ---- */

static char *an_element(const struct chain *x) {
  uint64_t seed = (uint64_t)x->round;
  const int64_t column = tst_random_below(&seed, x->n), row = tst_random_below(&seed, x->m);
  return x->t + (column * x->ldt + row) * x->bytes;
}

static const float another = 7;

static void by_store(struct chain *x) { memcpy(an_element(x), &another, 4); }

static void *store(void *at) { return memcpy(at, &another, 4); }

static void by_thread(struct chain *x) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, store, an_element(x)) != 0) exit(3);
  pthread_join(thread, NULL);
}

static void by_read(struct chain *x) {
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], &another, 4) != 4 || read(ends[0], an_element(x), 4) != 4) exit(3);
  close(ends[0]), close(ends[1]);
}

static void by_all_bytes(struct chain *x) { memset(x->t, 0, (size_t)x->t_bytes); }

static void by_last_byte(struct chain *x) { memcpy(x->t + ((x->n - 1) * x->ldt + x->m) * x->bytes - 4, &another, 4); }

static void by_mapping(struct chain *x) {
  if (mmap(x->t, (size_t)x->t_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != x->t)
    exit(3);
}

static void by_advice(struct chain *x) { madvise(x->t, PAGE, MADV_DONTNEED); }

/* By calls of ours: C = A B + C, by either side; into a part; the like of T, by the CPU alone. */
static void by_sum(struct chain *x) { call(x, x->n, x->k, x->m, 1, x->a, x->b, x->k, x->t, x->ldt); }

static void by_part(struct chain *x) {
  call(x, x->n / 2, x->k, x->m, 1, x->a, x->b, x->k, x->t + x->bytes * x->ldt * 5, x->ldt);
}

static void by_cpu(struct chain *x) {
  set("TILEBLAS_ROUTE", "cpu");
  make_t(x);
  set("TILEBLAS_ROUTE", "gpu");
}

static void by_sum_on_cpu(struct chain *x) {
  set("TILEBLAS_ROUTE", "cpu");
  by_sum(x);
  set("TILEBLAS_ROUTE", "gpu");
}

static void by_nobody(struct chain *x) { (void)x; }

static const struct {
  const char *name;
  void (*write)(struct chain *x);
} writes[] = {{"store", by_store},
              {"thread", by_thread},
              {"read", by_read},
              {"last byte", by_last_byte},
              {"mmap", by_mapping},
              {"advice", by_advice},
              {"sum", by_sum},
              {"part", by_part},
              {"all bytes", by_all_bytes},
              {"CPU", by_cpu},
              {"sum on CPU", by_sum_on_cpu}};

enum { WRITES = sizeof writes / sizeof writes[0] };

/* Before T is used first, and behind some uses, from the second of which on the kernel may watch it. */
static int written(void *number) {
  void (*const write)(struct chain *) = number == NULL ? by_nobody : writes[(uintptr_t)number - 1].write;
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  for (int uses = 0; uses < TST_UNLESS_SANITIZED(5, 3); uses += uses < 2 && !triangular ? 1 : 2) {
    struct chain x = make(TST_S, 777, 780, uses % 2);
    right &= begin(&x);
    make_t(&x);
    for (int i = 0; i < uses; i++) right &= use_t(&x, NOT_UP);
    write(&x);
    right &= use_t(&x, number == NULL ? NOT_UP : ANYHOW);
    right &= use_t(&x, ANYHOW);
    for (int i = 0; i < 3; i++) right &= go_round(&x, ANYHOW);
    drop(&x);
  }
  return right ? 0 : 1;
}

/* While T is committed, and while U is computed: of either one U is right. */
static struct chain *raced;

static void *write_at_once(void *unused) {
  for (int i = 0; i < 200; i++) {
    _Atomic float *const at = (_Atomic float *)(void *)(raced->t + (i * 37 % raced->n * raced->ldt + i) * 4);
    atomic_store_explicit(at, 3, memory_order_relaxed);
    if (i % 10 == 0) sched_yield();
  }
  return unused;
}

static int written_meanwhile(void *unused) {
  (void)unused;
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  struct chain x = make(TST_S, 777, 780, 0);
  right &= begin(&x);
  raced = &x;
  for (int i = 0; i < TST_UNLESS_SANITIZED(20, 5); i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, write_at_once, NULL) != 0) return 4;
    make_t(&x);
    pthread_join(thread, NULL);
    right &= use_t(&x, ANYHOW);
  }
  drop(&x);
  return right ? 0 : 1;
}

/* ---- failures ---- */

/* The call that makes T fails: the CPU completes it, and what the GPU has is not taken for T. */
static int a_gpu_that_fails(void *function) {
  bool right = true;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct chain x = make(TST_D, 777, 780, 0);
  right &= begin(&x);
  tst_fake()->inject(function, 2, CUDA_ERROR_UNKNOWN, 0);
  make_t(&x);
  tst_fake()->clear_failures();
  for (int i = 0; i < 3; i++) right &= use_t(&x, ANYHOW);
  for (int i = 0; i < 3; i++) right &= go_round(&x, ANYHOW);
  drop(&x);
  return right ? 0 : 1;
}

/* What fails for the copy alone costs the copy. */
static int a_copy_that_fails(void *function) {
  bool right = true;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct chain x = make(TST_D, 777, 780, 0);
  right &= go_round(&x, UP);
  right &= go_round(&x, UP);
  tst_fake()->inject(function, 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
  make_t(&x);
  tst_fake()->clear_failures();
  right &= use_t(&x, ANYHOW);
  for (int i = 0; i < 12; i++) right &= go_round(&x, ANYHOW);
  right &= go_round(&x, NOT_UP);
  tileblas_stats s;
  tileblas_stats_get(&s);
  drop(&x);
  return right && s.gpu_failures == 0 ? 0 : 1;
}

/* ---- threads ---- */

enum { THREADS = 3, ROUNDS = TST_UNLESS_SANITIZED(12, 5) };

static void *go_rounds(void *chain) {
  struct chain *const x = chain;
  bool right = true;
  for (int i = 0; i < ROUNDS; i++) {
    make_t(x);
    if (i % 4 == 3) by_store(x);
    make_u(x, x->u);
    make_u(x, x->wanted);
    right &= memcmp(x->u, x->wanted, (size_t)(x->m * x->sides * x->bytes)) == 0;
  }
  return right ? NULL : chain;
}

static int threads_at_once(void *unused) {
  (void)unused;
  static struct chain x[THREADS];
  pthread_t thread[THREADS];
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < THREADS; i++) x[i] = make(TST_S, 777, 780, 0);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&thread[i], NULL, go_rounds, &x[i]) != 0) return 4;
  for (int i = 0; i < THREADS; i++) {
    void *wrong;
    pthread_join(thread[i], &wrong);
    if (wrong != NULL) right = complain(&x[i], "wrong beside others");
    right &= use_t(&x[i], ANYHOW);
    drop(&x[i]);
  }
  return right ? 0 : 1;
}

/* ---- no loss ---- */

static uint64_t device_bytes(void) { return tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES); }

/* Of results that are no operands, or are written to before, no copy is made. */
static int nothing_for_nothing(void *unused) {
  (void)unused;
  bool right = true;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct chain x = make(TST_S, 777, 780, 0), y = make(TST_S, 777, 780, 0);
  right &= go_round(&x, UP);
  make_t(&y);
  const uint64_t before = device_bytes();
  for (int i = 0; i < 8; i++) make_t(&x), make_t(&y);
  if (device_bytes() != before) right = complain(&x, "a copy of what is no operand");
  for (int i = 0; i < 8; i++) {
    make_t(&x);
    for (int64_t e = 0; e < x.t_bytes / 4; e++) ((float *)(void *)x.t)[e] += 1;
    right &= use_t(&x, UP);
  }
  if (device_bytes() != before) right = complain(&x, "a copy of what is written");
  for (int i = 0; i < 8; i++) {
    by_sum(&y);
    if (device_bytes() != before) right = complain(&y, "a copy of what is added");
    right &= use_t(&y, UP);
  }
  drop(&x), drop(&y);
  return right ? 0 : 1;
}

/* A program that writes an element each time is computed twice seldom. */
static int seldom_twice(void *unused) {
  (void)unused;
  bool right = true;
  uint64_t up = 0, least = 0;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct chain x = make(TST_S, 777, 780, 0);
  right &= begin(&x);
  uint64_t twice = 0;
  for (int i = 0; i < 40; i++) {
    make_t(&x);
    by_store(&x);
    const uint64_t launches = tst_fake()->get(FAKE_CUDA_LAUNCHES);
    right &= use_t(&x, ANYHOW);
    up = tst_fake()->get(FAKE_CUDA_LAUNCHES) - launches;
    if (least == 0 || up < least) least = up;
    twice += up > least;
  }
  printf("computed twice: %llu of 40\n", (unsigned long long)twice);
  if (twice > 3) right = complain(&x, "computed twice too often");
  drop(&x);
  return right ? 0 : 1;
}

/* Results that lie elsewhere each time have the memory of older ones. */
static int at_other_places(void *unused) {
  (void)unused;
  enum { PLACES = 14 };
  static struct chain x[PLACES];
  bool right = true;
  uint64_t most = 0;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < PLACES; i++) {
    next_k = 3;
    x[i] = make(TST_S, 777, 780, 0);
    right &= go_round(&x[i], i < 2 ? UP : NOT_UP);
    if (i == PLACES - 4) most = device_bytes();
  }
  if (device_bytes() > most) right = complain(&x[0], "more and more copies");
  for (int i = 0; i < PLACES; i++) right &= use_t(&x[i], ANYHOW);
  for (int i = 0; i < PLACES; i++) drop(&x[i]);
  return right ? 0 : 1;
}

/* A product that wants the memory has it. */
static int memory_for_products(void *unused) {
  (void)unused;
  struct chain x = make(TST_S, 777, 780, 0), large = make(TST_S, 1800, 1900, 0);
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < 5; i++) right &= go_round(&x, ANYHOW);
  for (int i = 0; i < 5; i++) right &= go_round(&large, ANYHOW);
  for (int i = 0; i < 5; i++) right &= go_round(&x, ANYHOW);
  tileblas_stats s;
  tileblas_stats_get(&s);
  drop(&x), drop(&large);
  return right && s.gpu_failures == 0 ? 0 : 1;
}

/* Elsewhere than those before, so that none is kept. The last one is freed with the chain. */
static struct chain *with_another_a(struct chain *x) {
  static char *all[8];
  for (int i = 0; i < 8; i++)
    if (all[i] == NULL) {
      all[i] = x->a;
      x->a = malloc((size_t)(x->m * x->k * x->bytes));
      return x;
    }
  exit(3);
}

/* What goes up for T, by a GPU that has no memory left from calls before: of what is halved A goes twice. */
static uint64_t bytes_up_for_t(struct chain *x, bool *right) {
  for (int i = 0; i < 2; i++) *right &= go_round(with_another_a(x), ANYHOW);
  set("TILEBLAS_MEMORY_LIMIT", "100K");
  use_t(x, ANYHOW);
  set("TILEBLAS_MEMORY_LIMIT", "0");
  const uint64_t before = bytes_up();
  make_t(with_another_a(x));
  const uint64_t up = bytes_up() - before;
  *right &= use_t(x, ANYHOW);
  return up;
}

/* Where there is memory for T or for its copy, T has it. */
static int within_memory(void *unused) {
  (void)unused;
  bool right = true;
  if (tst_fake() == NULL) return 0;
  least_order = 600;
  set("TILEBLAS_ROUTE", "gpu");
  struct chain x = make(TST_D, 0, 0, 0);
  set("TILEBLAS_CACHE", "off");
  const uint64_t off = bytes_up_for_t(&x, &right);
  set("TILEBLAS_CACHE", "8G");
  const uint64_t kept = bytes_up_for_t(&x, &right);
  if (off == 0 || kept > off + off / 8) right = complain(&x, "the copy has T's memory"); /* panels: by the triangle */
  drop(&x);
  return right ? 0 : 1;
}

/* ---- what is said ---- */

static int some_rounds(void *unused) {
  (void)unused;
  set("TILEBLAS_ROUTE", "gpu"), set("TILEBLAS_VERBOSE", "1"), set("TILEBLAS_REPORT", "1");
  struct chain x = make(TST_S, 777, 780, 0);
  for (int i = 0; i < 5; i++) make_t(&x), make_u(&x, x.u);
  drop(&x);
  return 0;
}

static void what_is_said(void **state) {
  (void)state;
  struct tst_output said;
  tst_fork(&said, some_rounds, NULL);
  assert_int_equal(said.status, 0);
  if (tst_count_lines(said.err, "A=kept (hash) B=host C=host saved 2.424 MB") != 3 ||
      tst_count_lines(said.err, "calls whose operands a GPU had kept: 3, of which 7.273 MB were not moved again") != 1)
    fail_msg("%s", said.err);
  tst_output_destroy(&said);
}

/* ---- each in a process ---- */

static void in_process(int (*body)(void *), const void *argument, const char *name) {
  struct tst_output o;
  tst_fork(&o, body, (void *)(uintptr_t)argument);
  if (o.status != 0) fail_msg("status %d for %s\n%s%s", o.status, name, o.out, o.err);
  if (o.err[0] != '\0' && body != a_gpu_that_fails && body != within_memory) fail_msg("it says: %s", o.err);
  tst_output_destroy(&o);
}

static void shapes(void **state) {
  (void)state;
  in_process(all_shapes, NULL, "all shapes");
}
static void shapes_in_pieces(void **state) {
  (void)state;
  in_process(all_shapes, "2M", "2M");
  in_process(all_shapes, "6M", "6M");
}
static void bands(void **state) {
  (void)state;
  in_process(all_bands, NULL, "bands");
}
static void parts_and_b(void **state) {
  (void)state;
  in_process(other_operands, NULL, "other operands");
}
static void writes_between(void **state) {
  (void)state;
  in_process(written, NULL, "none");
  /* What proves T is the same by whatever it was made: but for what is written by the like of it. */
  for (uintptr_t i = 0; i < WRITES; i += triangular ? TST_UNLESS_SANITIZED(3, 9) : TST_UNLESS_SANITIZED(1, 3))
    in_process(written, (void *)(i + 1), writes[i].name);
}
static void writes_meanwhile(void **state) {
  (void)state;
  in_process(written_meanwhile, NULL, "a thread");
}
static void failing_gpus(void **state) {
  (void)state;
  in_process(a_gpu_that_fails, "cuLaunchKernel", "cuLaunchKernel");
  in_process(a_gpu_that_fails, "cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync");
  in_process(a_gpu_that_fails, "cuEventRecord", "cuEventRecord");
}
static void failing_copies(void **state) {
  (void)state;
  in_process(a_copy_that_fails, "cuMemAlloc", "cuMemAlloc");
  if (!TST_SANITIZED) in_process(a_copy_that_fails, "cuMemGetInfo", "cuMemGetInfo");
  in_process(a_copy_that_fails, "cuMemcpy2DAsync", "cuMemcpy2DAsync");
}
static void several_threads(void **state) {
  (void)state;
  in_process(threads_at_once, NULL, "threads");
}
static void short_memory(void **state) {
  (void)state;
  for (int tenths = 55; tenths <= 65; tenths += TST_UNLESS_SANITIZED(5, 10)) {
    char text[32];
    snprintf(text, sizeof text, "%d00000", tenths);
    setenv("FAKE_CUDA_MEMORY", text, 1);
    in_process(within_memory, NULL, text);
  }
  unsetenv("FAKE_CUDA_MEMORY");
}
static void no_loss(void **state) {
  (void)state;
  in_process(nothing_for_nothing, NULL, "nothing for nothing");
  in_process(seldom_twice, NULL, "seldom twice");
  in_process(at_other_places, NULL, "other places");
  setenv("FAKE_CUDA_MEMORY", "24000000", 1);
  in_process(memory_for_products, NULL, "short memory");
  unsetenv("FAKE_CUDA_MEMORY");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes),         cmocka_unit_test(shapes_in_pieces), cmocka_unit_test(parts_and_b),
      cmocka_unit_test(writes_between), cmocka_unit_test(writes_meanwhile), cmocka_unit_test(failing_gpus),
      cmocka_unit_test(failing_copies), cmocka_unit_test(several_threads),  cmocka_unit_test(no_loss),
      cmocka_unit_test(what_is_said),
  };
  const struct CMUnitTest shapes_alone[] = {cmocka_unit_test(shapes)};
  const struct CMUnitTest of_triangles[] = {
      cmocka_unit_test(shapes),       cmocka_unit_test(shapes_in_pieces), cmocka_unit_test(writes_between),
      cmocka_unit_test(failing_gpus), cmocka_unit_test(failing_copies),   cmocka_unit_test(several_threads),
      cmocka_unit_test(bands),        cmocka_unit_test(short_memory),
  };
  on_tensor_cores = argc > 1 && strcmp(argv[1], "tensor") == 0;
  triangular = argc > 1 && strcmp(argv[1], "triangular") == 0;
  if (on_tensor_cores) return cmocka_run_group_tests(shapes_alone, NULL, NULL);
  if (triangular) return tst_result(cmocka_run_group_tests(of_triangles, NULL, NULL));
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
