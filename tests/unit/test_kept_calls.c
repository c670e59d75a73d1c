/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products whose operands come back: the same bits as without TILEBLAS_CACHE, in all types and ways to store them, with
 * memory for all of k and without; nothing goes up for what is kept; an element that is changed anywhere shows in the
 * next result. Who fails while operands are kept leaves the program's own to the CPU; without memory for copies nothing
 * is kept and nothing said; and it works where the kernel may not be asked.
 *
 * Each case is a process of its own. Seen to fail when: the kernels are chosen for operands in place; a copy is handed
 * to the CPU; the proof is skipped; a part of C is computed before a copy is up; memory for the product does not come
 * before copies; copies outlive TILEBLAS_CACHE=off; a copy that hangs is waited for, or freed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999
#define CUDA_ERROR_OUT_OF_MEMORY 2

void cblas_sgemm_batch_strided(int, int, int, int, int, int, float, const float *, int, int, const float *, int, int,
                               float, float *, int, int, int);

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

/* ---- a product ---- */

struct call {
  const struct tst_symbol *symbol;
  struct tst_problem p;
  char *a, *b, *c, *before;
  int64_t a_bytes, b_bytes, c_bytes, element_bytes;
};

static char *numbers(int64_t bytes, enum tst_type type, bool whole, uint64_t *seed) {
  char *const x = malloc((size_t)bytes);
  const int64_t size = tst_part_bytes(type);
  for (int64_t i = 0; i < bytes / size; i++) {
    const double value = whole ? (double)tst_random_below(seed, 9) - 4 : (double)tst_random_unit(seed) - 0.5;
    if (size == 8) memcpy(x + 8 * i, &value, 8);
    if (size == 4) memcpy(x + 4 * i, &(float){(float)value}, 4);
  }
  return x;
}

static bool on_tensor_cores;

/* Of two operands of a MiB and more, and a C of one tile. `pad`: elements between columns. */
static struct call make(enum tst_type type, char ta, char tb, int64_t pad, double beta, bool whole, uint64_t seed) {
  static const char *const names[] = {"cblas_sgemm", "cblas_dgemm", "cblas_cgemm", "cblas_zgemm"};
  const int64_t bytes = tst_part_bytes(type) * tst_parts(type);
  const int64_t m = on_tensor_cores ? 120 : 32, n = on_tensor_cores ? 110 : 31;
  const int64_t k = (on_tensor_cores ? 11000 : 40000) / bytes;
  struct call x = {.symbol = tst_find_symbol(names[type]), .element_bytes = bytes};
  x.p = (struct tst_problem){.trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = k, .alpha = 1.5, .beta = beta};
  if (type >= TST_C) x.p.alpha += 0.25 * 1.0i;
  x.p.lda = (ta == 'N' ? m : k) + pad, x.p.ldb = (tb == 'N' ? k : n) + pad, x.p.ldc = m + pad;
  x.a_bytes = x.p.lda * (ta == 'N' ? k : m) * bytes, x.b_bytes = x.p.ldb * (tb == 'N' ? n : k) * bytes;
  x.c_bytes = x.p.ldc * n * bytes;
  x.a = numbers(x.a_bytes, type, whole, &seed), x.b = numbers(x.b_bytes, type, whole, &seed);
  x.c = numbers(x.c_bytes, type, whole, &seed);
  x.before = malloc((size_t)x.c_bytes);
  memcpy(x.before, x.c, (size_t)x.c_bytes);
  return x;
}

static void drop(struct call *x) { free(x->a), free(x->b), free(x->c), free(x->before); }

static void run(struct call *x) {
  memcpy(x->c, x->before, (size_t)x->c_bytes);
  tst_call(x->symbol, tst_resolve(x->symbol), &x->p, x->a, x->b, x->c);
}

/* C by the library that keeps nothing. To be freed. */
static char *without(struct call *x) {
  char *const c = malloc((size_t)x->c_bytes);
  set("TILEBLAS_CACHE", "off");
  run(x);
  memcpy(c, x->c, (size_t)x->c_bytes);
  set("TILEBLAS_CACHE", "8G"); /* by the hash too */
  return c;
}

static uint64_t bytes_up(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_BYTES_UP); }

static bool complain(const struct call *x, const char *what) {
  printf("%s %c%c lda %lld beta %g: %s\n", x->symbol->name, x->p.trans_a, x->p.trans_b, (long long)x->p.lda,
         __real__ x->p.beta, what);
  return false;
}

static bool is_as(const struct call *x, const char *c) { return memcmp(x->c, c, (size_t)x->c_bytes) == 0; }

/* ---- the same bits ---- */

/* A byte of an element of A or B. */
static void change(struct call *x, bool of_b, uint64_t *seed) {
  char *const data = of_b ? x->b : x->a;
  const int64_t ld_bytes = (of_b ? x->p.ldb : x->p.lda) * x->element_bytes, bytes = of_b ? x->b_bytes : x->a_bytes;
  const int64_t pad_bytes = (x->p.ldc - x->p.m) * x->element_bytes;
  const int64_t column = tst_random_below(seed, bytes / ld_bytes);
  const int64_t element = tst_random_below(seed, (ld_bytes - pad_bytes) / x->element_bytes);
  data[column * ld_bytes + element * x->element_bytes + 1] ^= (char)0x40; /* of a fraction */
}

static uint64_t most_allocated(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_PEAK_BYTES); }

/* `limit`: of device memory, in MiB; 0: there is room for copies of both. Where malloc gives an address again it held
 * other numbers at the latest sight, and a copy is made one later. */
static bool check_bits(struct call *x, const char *limit_text, bool of_b, uint64_t *seed) {
  bool right = true, room = limit_text == NULL;
  const uint64_t limit = room ? UINT64_MAX : strtoull(limit_text, NULL, 10) << 20;
  char *const wanted = without(x), *const kept = malloc((size_t)x->c_bytes);
  for (int i = 0; i < 5 && right; i++) {
    const uint64_t before = bytes_up();
    run(x);
    if (!is_as(x, wanted)) right = complain(x, "other bits");
    if (i >= 3 && room && bytes_up() != before) right = complain(x, "something went up");
    if (most_allocated() > limit) right = complain(x, "more memory than TILEBLAS_MEMORY_LIMIT");
  }
  change(x, of_b, seed);
  run(x);
  memcpy(kept, x->c, (size_t)x->c_bytes);
  char *const changed = without(x);
  if (memcmp(changed, wanted, (size_t)x->c_bytes) == 0) right = complain(x, "nothing was changed");
  if (memcmp(kept, changed, (size_t)x->c_bytes) != 0) right = complain(x, "a changed element is not seen");
  free(wanted), free(kept), free(changed);
  return right;
}

/* `limit`: TILEBLAS_MEMORY_LIMIT, by which k is cut, or NULL. The tensor cores are for fp32, and slow on a CPU. */
static int same_bits(void *limit) {
  static const char ways[] = "NTC";
  bool right = true;
  uint64_t seed = 1;
  set("TILEBLAS_ROUTE", "gpu");
  for (int type = 0; type < TST_TYPES; type++)
    for (int way = 0; way < 9; way++) {
      if (type < TST_C ? way / 3 == 2 || way % 3 == 2 : way % 2 == 1) continue; /* of reals C is T */
      if ((TST_SANITIZED || limit != NULL) && (way + type) % 4 != 0) continue;
      if (on_tensor_cores && (tst_is_double((enum tst_type)type) || way % 4 != 0 || (type == TST_C && way != 8)))
        continue;
      struct call x = make(type, ways[way / 3], ways[way % 3], way % 2 ? 3 : 0, way % 4 == 0 ? 0.5 : 0, false, 1);
      if (limit != NULL) set("TILEBLAS_MEMORY_LIMIT", limit);
      right &= check_bits(&x, limit, way / 3 % 2, &seed);
      drop(&x);
    }
  return right ? 0 : 1;
}

/* More than the slots of a ring: columns longer than a slot, and short ones. */
static int large_operands(void *unused) {
  (void)unused;
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  for (int tall = 0; tall < 2; tall++) {
    struct call x = {.symbol = tst_find_symbol("cblas_sgemm"), .element_bytes = 4};
    const int64_t k = tall ? 2200000 : 2000000, m = 3;
    x.p = (struct tst_problem){.trans_a = tall ? 'T' : 'N', .trans_b = 'N', .m = m, .n = 1, .k = k, .alpha = 1};
    x.p.lda = tall ? k + 7 : m, x.p.ldb = k, x.p.ldc = m;
    uint64_t seed = 1;
    x.a_bytes = 4 * (tall ? m * (k + 7) : m * k), x.b_bytes = 4 * k, x.c_bytes = 4 * m;
    x.a = numbers(x.a_bytes, TST_S, false, &seed), x.b = numbers(x.b_bytes, TST_S, false, &seed);
    x.c = numbers(x.c_bytes, TST_S, false, &seed), x.before = calloc(m, 4);
    char *const wanted = without(&x);
    for (int i = 0; i < 3; i++) {
      const uint64_t before = bytes_up();
      run(&x);
      if (!is_as(&x, wanted)) right = complain(&x, "other bits");
      if (i == 2 && bytes_up() != before) right = complain(&x, "something went up");
    }
    free(wanted), drop(&x);
  }
  return right ? 0 : 1;
}

/* ---- a GPU that fails ---- */

/* The CPU has what the program has, not what the GPU was given; also where that was rewritten, and the GPU is at it
 * before that is known. */
static int fail_gpu(const char *function, bool rewritten) {
  bool right = true;
  uint64_t seed = 1, again = 1;
  if (tst_fake() == NULL) return 0; /* a real one does not at our word */
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_D, 'N', 'N', 0, 1, true, 1);
  if (rewritten) change(&x, false, &seed);
  char *const wanted = without(&x);
  if (rewritten) change(&x, false, &again); /* back */
  for (int i = 0; i < 5; i++) run(&x);
  if (rewritten) change(&x, false, &(uint64_t){1});
  tst_fake()->inject(function, 1, CUDA_ERROR_UNKNOWN, 0);
  run(&x);
  tst_fake()->clear_failures();
  if (!is_as(&x, wanted)) right = complain(&x, "wrong behind a failure");
  for (int i = 0; i < 3; i++) {
    run(&x);
    if (!is_as(&x, wanted)) right = complain(&x, "wrong after a failure");
  }
  free(wanted), drop(&x);
  return right ? 0 : 1;
}

static int a_gpu_that_fails(void *function) { return fail_gpu(function, false); }
static int a_gpu_that_fails_behind_a_write(void *function) { return fail_gpu(function, true); }

/* No failure of the GPU's is counted, and there is another try. Drops what the call has. */
static int end_of_failures(struct call *x, char *wanted, bool right) {
  const uint64_t before = bytes_up();
  run(x);
  if (bytes_up() != before) right = complain(x, "there never was another try");
  tileblas_stats s;
  tileblas_stats_get(&s);
  free(wanted), drop(x);
  return right && s.gpu_failures == 0 && s.cpu_calls == 0 ? 0 : 1;
}

/* Whatever fails as a copy is made costs the copy, if the call itself comes through. */
static int a_copy_that_fails(void *function) {
  bool right = true;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_D, 'N', 'N', 0, 1, true, 1);
  char *const wanted = without(&x);
  run(&x);
  tst_fake()->inject(function, 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
  for (int i = 0; i < 20; i++) {
    run(&x);
    tst_fake()->clear_failures();
    if (!is_as(&x, wanted)) right = complain(&x, "wrong where a copy could not be made");
  }
  return end_of_failures(&x, wanted, right);
}

/* The copy came to be of panels, and its digests do not: the key goes up behind all that the call itself does. */
static int a_digest_that_fails(void *unused) {
  (void)unused;
  bool right = true;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_D, 'N', 'N', 0, 1, true, 1);
  char *const wanted = without(&x);
  const uint64_t before = tst_fake()->calls("cuMemcpyHtoDAsync");
  run(&x);
  const uint64_t of_a_call = tst_fake()->calls("cuMemcpyHtoDAsync") - before;
  tst_fake()->inject("cuMemcpyHtoDAsync", (unsigned)of_a_call + 1, CUDA_ERROR_UNKNOWN, 0);
  run(&x);
  const uint64_t with_key = tst_fake()->calls("cuMemcpyHtoDAsync") - before - of_a_call;
  tst_fake()->clear_failures();
  if (with_key <= of_a_call) right = complain(&x, "no key goes up");
  for (int i = 0; i < 20; i++) {
    if (!is_as(&x, wanted)) right = complain(&x, "wrong where a copy could not be digested");
    run(&x);
  }
  return end_of_failures(&x, wanted, right);
}

/* Where there is memory for a product on the tensor cores, or for copies of its operands. */
static int bits_in_little_memory(void *unused) {
  (void)unused;
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_S, 'N', 'N', 0, 0, false, 1);
  char *const wanted = without(&x);
  for (int i = 0; i < 4; i++) {
    run(&x);
    if (!is_as(&x, wanted)) right = complain(&x, "other bits");
  }
  free(wanted), drop(&x);
  return right ? 0 : 1;
}

/* The library's clock, too, for a GPU that hangs is waited for a minute. */
static atomic_bool hurries;

int clock_gettime(clockid_t clock, struct timespec *t) {
  const int result = (int)syscall(SYS_clock_gettime, clock, t);
  if (clock != CLOCK_MONOTONIC || !atomic_load(&hurries)) return result;
  const long long ns = ((long long)(t->tv_sec % 1000000) * 1000000000 + t->tv_nsec) * 200;
  *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  return result;
}

/* It hangs as a copy is made, of more pieces than there are slots, or behind that: the CPU has what the program has,
 * and of the GPU's nothing is freed, which would wait for ever. */
static int a_gpu_that_hangs(void *operations) {
  const struct tst_fake *const fake = tst_fake();
  alarm(60);
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_S, 'N', 'N', 0, 1, true, 1);
  drop(&x);
  uint64_t seed = 2;
  x.p.n = 1, x.p.k = 300000, x.p.ldb = x.p.k; /* 38 MB */
  x.a_bytes = x.p.m * x.p.k * 4, x.b_bytes = x.p.k * 4, x.c_bytes = x.p.m * 4;
  x.a = numbers(x.a_bytes, TST_S, true, &seed), x.b = numbers(x.b_bytes, TST_S, true, &seed);
  x.c = numbers(x.c_bytes, TST_S, true, &seed), x.before = numbers(x.c_bytes, TST_S, true, &seed);
  char *const wanted = without(&x);
  run(&x); /* the first sight */
  fake->set_order(FAKE_CUDA_HANGING, (uint64_t)(uintptr_t)operations);
  atomic_store(&hurries, true);
  run(&x);
  atomic_store(&hurries, false);
  fake->set_order(FAKE_CUDA_LAZY, 0);
  bool right = is_as(&x, wanted) || complain(&x, "wrong as the GPU hangs");
  run(&x);
  right &= is_as(&x, wanted) || complain(&x, "wrong behind that");
  tileblas_stats s;
  tileblas_stats_get(&s);
  if (s.gpu_failures != 1) right = complain(&x, "it did not hang");
  if (fake->get(FAKE_CUDA_MISUSES) != 0) right = complain(&x, "something waits for ever");
  free(wanted), drop(&x);
  return right ? 0 : 1;
}

/* ---- memory ---- */

static uint64_t launches(void) { return tst_fake() == NULL ? 0 : tst_fake()->get(FAKE_CUDA_LAUNCHES); }

/* A product that wants most of the memory gets it, whatever is kept: it is not cut for want of what copies have. */
static int memory_for_products(void *unused) {
  (void)unused;
  bool right = true;
  enum { SIDE = 1900, K = 3 };
  set("TILEBLAS_ROUTE", "gpu");
  struct call x[4];
  for (int i = 0; i < 4; i++) x[i] = make(TST_S, 'N', 'N', i, 0, true, (uint64_t)i + 1);
  for (int round = 0; round < 4; round++)
    for (int i = 0; i < 4; i++) run(&x[i]);
  const struct tst_problem large = {.trans_a = 'N',
                                    .trans_b = 'N',
                                    .m = SIDE,
                                    .n = SIDE,
                                    .k = K,
                                    .alpha = 1,
                                    .beta = 0,
                                    .lda = SIDE,
                                    .ldb = K,
                                    .ldc = SIDE};
  float *const a = calloc(SIDE * K, 4), *const c = calloc(SIDE * SIDE, 4);
  uint64_t took[2];
  for (int off = 0; off < 2; off++) {
    if (off) free(without(&x[0])); /* which gives all copies back */
    const uint64_t before = launches();
    tst_call(x[0].symbol, tst_resolve(x[0].symbol), &large, a, a, c);
    took[off] = launches() - before;
  }
  printf("launches of the large product: %llu with copies, %llu without\n", (unsigned long long)took[0],
         (unsigned long long)took[1]);
  if (took[0] != took[1]) right = complain(&x[0], "a product is cut for what is kept");
  for (int i = 0; i < 4; i++) {
    run(&x[i]);
    char *const kept = malloc((size_t)x[i].c_bytes);
    memcpy(kept, x[i].c, (size_t)x[i].c_bytes);
    char *const wanted = without(&x[i]);
    if (memcmp(kept, wanted, (size_t)x[i].c_bytes) != 0) right = complain(&x[i], "wrong when memory is short");
    free(kept), free(wanted), drop(&x[i]);
  }
  tileblas_stats s;
  tileblas_stats_get(&s);
  free(a), free(c);
  return right && s.gpu_failures == 0 && s.cpu_calls == 0 ? 0 : 1;
}

/* Where A changes, and would go up by short pieces if it went alone, B's copy is not used; and makes way at once. */
static int a_copy_that_is_not_used(void *unused) {
  (void)unused;
  const int64_t m = 1200, n = 900, k = 300;
  struct call x = {.symbol = tst_find_symbol("cblas_sgemm"), .element_bytes = 4};
  x.p = (struct tst_problem){.trans_a = 'N', .trans_b = 'N', .m = m, .n = n, .k = k, .alpha = 1, .beta = 0};
  x.p.lda = m, x.p.ldb = k, x.p.ldc = m;
  x.a_bytes = 4 * m * k, x.b_bytes = 4 * k * n, x.c_bytes = 4 * m * n;
  uint64_t seed = 1;
  x.a = numbers(x.a_bytes, TST_S, true, &seed), x.b = numbers(x.b_bytes, TST_S, true, &seed);
  x.c = numbers(x.c_bytes, TST_S, true, &seed), x.before = calloc((size_t)(m * n), 4);
  set("TILEBLAS_ROUTE", "gpu");
  for (int i = 0; i < 4; i++) {
    for (int64_t j = 0; j < m * k; j++) ((float *)(void *)x.a)[j] += 1;
    if (i == 3) set("TILEBLAS_MEMORY_LIMIT", "3M");
    run(&x);
  }
  char *const kept = malloc((size_t)x.c_bytes);
  memcpy(kept, x.c, (size_t)x.c_bytes);
  tileblas_stats s;
  tileblas_stats_get(&s);
  set("TILEBLAS_MEMORY_LIMIT", "0");
  char *const wanted = without(&x);
  const bool right = memcmp(kept, wanted, (size_t)x.c_bytes) == 0 || complain(&x, "wrong with a copy that is not used");
  free(kept), free(wanted), drop(&x);
  return right && s.gpu_calls == 4 && s.cpu_calls == 0 ? 0 : 1;
}

/* And whoever has given memory back is no longer in the driver, where the process's end would overtake it. */
static bool all_is_back(void) {
  return tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES) == 0 && tst_fake()->get(FAKE_CUDA_PUSHED) == 0;
}

/* When nothing has been called for a while, and when nothing is to be kept any more. */
static int memory_goes_back(void *unused) {
  (void)unused;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_S, 'N', 'N', 0, 0, true, 1);
  for (int i = 0; i < 4; i++) run(&x);
  const uint64_t kept = tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES);
  char *const wanted = without(&x);
  const uint64_t off = tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES);
  for (int i = 0; i < 4; i++) run(&x);
  const bool right = is_as(&x, wanted);
  for (int i = 0; i < 100 && !all_is_back(); i++) usleep(100000);
  free(wanted), drop(&x);
  const uint64_t idle = tst_fake()->get(FAKE_CUDA_ALLOCATED_BYTES);
  printf("device memory: %llu kept, %llu off, %llu idle\n", (unsigned long long)kept, (unsigned long long)off,
         (unsigned long long)idle);
  return right && off + 2000000 < kept && idle == 0 ? 0 : 1;
}

/* But later, once a program has come back for it: copies stay through a pause that is as long, and go all the same. */
static int memory_stays_for_longer(void *unused) {
  (void)unused;
  bool right = true;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_S, 'N', 'N', 0, 0, true, 1);
  for (int i = 0; i < 4; i++) run(&x);
  for (int i = 0; i < 60 && !all_is_back(); i++) usleep(100000);
  if (!all_is_back()) right = complain(&x, "memory does not go back");
  for (int i = 0; i < 4; i++) run(&x);
  usleep(2900000);
  const uint64_t before = bytes_up();
  run(&x);
  if (bytes_up() != before) right = complain(&x, "it goes up again after a pause like the one before");
  for (int i = 0; i < 100 && !all_is_back(); i++) usleep(100000);
  if (!all_is_back()) right = complain(&x, "memory does not go back any more");
  drop(&x);
  return right ? 0 : 1;
}

static bool is_given_back(const char *behind) {
  for (int i = 0; i < 60 && !all_is_back(); i++) usleep(100000);
  const bool is = all_is_back();
  if (!is) printf("behind %s the GPU's memory is not given back\n", behind);
  return is;
}

/* Behind any call, if it was the last: one that opens the GPU has it alone, the next has a lane. */
static int memory_of_each_goes_back(void *unused) {
  (void)unused;
  if (tst_fake() == NULL) return 0;
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_S, 'N', 'N', 0, 0, true, 1);
  bool right = true;
  run(&x);
  right = is_given_back("the first call") && right;
  run(&x);
  right = is_given_back("a call in a lane") && right;
  float *const numbers = (float *)(void *)x.a, *const products = (float *)(void *)x.b;
  cblas_sgemm_batch_strided(102, 111, 111, 16, 16, 16, 1, numbers, 16, 256, numbers, 16, 256, 0, products, 16, 256,
                            200);
  right = is_given_back("a batch") && right;
  tileblas_stats s;
  tileblas_stats_get(&s);
  drop(&x);
  return right && s.gpu_calls == 3 && s.cpu_calls == 0 ? 0 : 1;
}

/* ---- children ---- */

static int in_child(void *call) {
  struct call *const x = call;
  char *const wanted = malloc((size_t)x->c_bytes);
  memcpy(wanted, x->c, (size_t)x->c_bytes);
  run(x);
  const bool same = is_as(x, wanted);
  memset(x->a, 0, (size_t)x->a_bytes); /* the child's own */
  free(wanted);
  return same ? 0 : 1;
}

static int forks(void *unused) {
  (void)unused;
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  struct call x = make(TST_S, 'N', 'N', 0, 0, true, 1);
  uint64_t seed = 3;
  for (int round = 0; round < 3; round++) {
    char *const wanted = without(&x);
    for (int i = 0; i < 5; i++) run(&x);
    struct tst_output o;
    tst_fork(&o, in_child, &x);
    if (o.status != 0) right = complain(&x, "wrong in a child");
    tst_output_destroy(&o);
    run(&x);
    if (!is_as(&x, wanted)) right = complain(&x, "wrong behind a fork");
    ((float *)x.b)[tst_random_below(&seed, x.b_bytes / 4)] += 1;
    free(wanted);
    char *const kept = malloc((size_t)x.c_bytes);
    run(&x);
    memcpy(kept, x.c, (size_t)x.c_bytes);
    char *const changed = without(&x);
    if (memcmp(kept, changed, (size_t)x.c_bytes) != 0) right = complain(&x, "a change behind a fork is not seen");
    free(kept), free(changed);
  }
  drop(&x);
  return right ? 0 : 1;
}

/* ---- threads ---- */

/* Calls of several threads at once: A is everybody's, B is each one's own. */
enum { THREADS = 4, CALLS = TST_UNLESS_SANITIZED(12, 6) };

struct caller {
  struct call x;
  char *wanted;
  bool wrong;
};

static void *call_again(void *opaque) {
  struct caller *const caller = opaque;
  for (int i = 0; i < CALLS; i++) {
    run(&caller->x);
    caller->wrong = caller->wrong || !is_as(&caller->x, caller->wanted);
  }
  return NULL;
}

static int threads_at_once(void *unused) {
  (void)unused;
  static struct caller callers[THREADS];
  pthread_t thread[THREADS];
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  char *const first_a = (callers[0].x = make(TST_S, 'T', 'N', 0, 0, true, 1)).a;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < THREADS; i++) {
      struct call *const x = &callers[i].x;
      if (round == 0 && i > 0) *x = make(TST_S, 'T', 'N', 0, 0, true, (uint64_t)i + 1);
      if (round == 0 && i > 0) free(x->a);
      x->a = first_a;
      callers[i].wanted = without(x);
    }
    for (int i = 0; i < THREADS; i++)
      if (pthread_create(&thread[i], NULL, call_again, &callers[i]) != 0) return 4;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
      if (callers[i].wrong) right = complain(&callers[i].x, "wrong beside others");
      free(callers[i].wanted);
    }
    ((float *)(void *)first_a)[5000] += 1;
  }
  for (int i = 0; i < THREADS; i++) {
    if (i > 0) callers[i].x.a = NULL;
    drop(&callers[i].x);
  }
  tileblas_stats s;
  tileblas_stats_get(&s);
  return right && s.gpu_failures == 0 ? 0 : 1;
}

/* ---- what is said ---- */

static int some_calls(void *unused) {
  (void)unused;
  set("TILEBLAS_ROUTE", "gpu"), set("TILEBLAS_VERBOSE", "1"), set("TILEBLAS_REPORT", "1");
  struct call x = make(TST_S, 'N', 'N', 0, 0, true, 1), y = make(TST_S, 'N', 'N', 0, 0, true, 2);
  for (int i = 0; i < 6; i++) {
    run(&x);
    ((float *)x.b)[5 * 64]++, memcpy(x.b, y.b, (size_t)x.b_bytes * (size_t)(i % 2)); /* each time another */
    for (int64_t j = 0; j < x.b_bytes / 4; j++) ((float *)x.b)[j] += 1;
  }
  drop(&x), drop(&y);
  return 0;
}

static struct tst_output said;

static void expect_line(const char *part, size_t count) {
  if (tst_count_lines(said.err, part) == count) return;
  fail_msg("%zu lines with \"%s\" instead of %zu in\n%s", tst_count_lines(said.err, part), part, count, said.err);
}

static void what_is_said(void **state) {
  (void)state;
  tst_fork(&said, some_calls, NULL);
  assert_int_equal(said.status, 0);
  expect_line("A=kept (anew) B=host C=host up", 1);
  expect_line("A=kept (hash) B=host C=host saved 1.280 MB", 1);
  expect_line("calls whose operands a GPU had kept: 4, of which 5.120 MB were not moved again", 1);
  tst_output_destroy(&said);
}

/* ---- where the kernel may not be asked ---- */

static const char *self;

static void by_hash_alone(void **state) {
  (void)state;
  const char *const command[] = {self, "forbidden", NULL};
  tst_run(&said, command, NULL);
  assert_int_equal(said.status, 0);
  expect_line("A=kept (hash) B=host C=host saved 1.280 MB", 4);
  expect_line("tracked", 0);
  tst_output_destroy(&said);
}

/* ---- each in a process ---- */

static void in_process(int (*body)(void *), const char *argument) {
  struct tst_output o;
  tst_fork(&o, body, (void *)(uintptr_t)argument);
  if (o.status != 0) fail_msg("status %d for %s\n%s%s", o.status, argument ? argument : "", o.out, o.err);
  const bool tells = body == a_gpu_that_fails || body == a_gpu_that_fails_behind_a_write;
  if (o.err[0] != '\0' && !tells) fail_msg("it says: %s", o.err);
  tst_output_destroy(&o);
}

static void bits(void **state) {
  (void)state;
  in_process(same_bits, NULL);
}
static void bits_of_cut_products(void **state) {
  (void)state;
  in_process(same_bits, "2M"); /* without room for copies of all */
  in_process(same_bits, "5M");
}
static void bits_of_large_operands(void **state) {
  (void)state;
  in_process(large_operands, NULL);
}
static void failing_gpus(void **state) {
  (void)state;
  in_process(a_gpu_that_fails, "cuLaunchKernel");
  in_process(a_gpu_that_fails, "cuMemcpyDtoHAsync");
  in_process(a_gpu_that_fails_behind_a_write, "cuLaunchKernel");
  in_process(a_gpu_that_fails_behind_a_write, "cuMemcpyDtoHAsync");
}
static void hanging_gpus(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real GPU does not hang at our word");
  for (uintptr_t operations = 0; operations < 24; operations += 11) {
    struct tst_output o;
    tst_fork(&o, a_gpu_that_hangs, (void *)operations);
    if (o.status != 0 || tst_count_lines(o.err, "\n") != 1 || tst_count_lines(o.err, "no progress for 60 s") != 1)
      fail_msg("behind %d operations: status %d\n%s%s", (int)operations, o.status, o.out, o.err);
    tst_output_destroy(&o);
  }
}
static void failing_copies(void **state) {
  (void)state;
  in_process(a_copy_that_fails, "cuMemAlloc");
  in_process(a_copy_that_fails, "cuMemGetInfo");
  in_process(a_copy_that_fails, "cuMemcpy2DAsync");
  in_process(a_digest_that_fails, NULL);
}
static void short_memory(void **state) {
  (void)state;
  setenv("FAKE_CUDA_MEMORY", "20000000", 1);
  in_process(memory_for_products, NULL);
  unsetenv("FAKE_CUDA_MEMORY");
  if (!TST_SANITIZED) in_process(a_copy_that_is_not_used, NULL);
}
static void little_memory(void **state) {
  (void)state;
  for (int tenths = 110; tenths <= 150; tenths += 10) {
    char text[32];
    snprintf(text, sizeof text, "%d00000", tenths);
    setenv("FAKE_CUDA_MEMORY", text, 1);
    in_process(bits_in_little_memory, NULL);
  }
  unsetenv("FAKE_CUDA_MEMORY");
}
static void given_back(void **state) {
  (void)state;
  in_process(memory_goes_back, NULL);
  in_process(memory_of_each_goes_back, NULL);
  in_process(memory_stays_for_longer, NULL);
}
static void several_threads(void **state) {
  (void)state;
  in_process(threads_at_once, NULL);
}
static void children(void **state) {
  (void)state;
  in_process(forks, NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits),
      cmocka_unit_test(bits_of_cut_products),
      cmocka_unit_test(bits_of_large_operands),
      cmocka_unit_test(failing_gpus),
      cmocka_unit_test(hanging_gpus),
      cmocka_unit_test(failing_copies),
      cmocka_unit_test(short_memory),
      cmocka_unit_test(given_back),
      cmocka_unit_test(children),
      cmocka_unit_test(several_threads),
      cmocka_unit_test(what_is_said),
      cmocka_unit_test(by_hash_alone),
  };
  self = argv[0];
  if (argc > 1 && strcmp(argv[1], "forbidden") == 0) { /* the library finds a filter when it is loaded */
    const char *const again[] = {self, "calls", NULL};
    tst_forbid_userfaultfd();
    execv(self, (char **)(uintptr_t)again);
    return 4;
  }
  if (argc > 1 && strcmp(argv[1], "calls") == 0) return some_calls(NULL);
  if (argc > 1 && strcmp(argv[1], "tensor") != 0) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest bits_alone[] = {cmocka_unit_test(bits), cmocka_unit_test(little_memory)};
  on_tensor_cores = argc > 1 && strcmp(argv[1], "tensor") == 0;
  if (on_tensor_cores) return cmocka_run_group_tests(bits_alone, NULL, NULL);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
