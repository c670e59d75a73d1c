/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands that stay packed for the tensor cores: from a copy's fifth use on nothing of it is packed any more, be it A,
 * B or both, as it is stored or transposed, in one panel or several, with the same bits as without TILEBLAS_CACHE. A
 * change of the operand is seen, and a result that is written anew where it was; as another operand of another shape it
 * is packed otherwise. A call that fails as it packs leaves no planes that count. Where memory is short there are
 * copies without planes, which make way before any copy does; and all of it is given back.
 *
 * Each case is a process of its own, on a GPU so small that these products go to its tensor cores. Seen to fail when:
 * planes are never there; they outlive the copy, or the result; a key leaves out which operand it is, its transposition
 * or the panel's sides; they count as packed when the call has failed; they are beside TILEBLAS_CACHE or
 * TILEBLAS_MEMORY_LIMIT; a copy makes way for them, or for what the call itself wants, and they stay; a panel is read
 * from another's place; they are not given back.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_UNKNOWN 999

void cblas_cgemm(int, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *,
                 float *, int);
void cblas_ssymm(int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void cblas_ssyr2k(int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void cblas_sgemmt(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

#define MUST(condition)                                         \
  do                                                            \
    if (!(condition)) return printf("not %s\n", #condition), 1; \
  while (0)

/* ---- matrices ---- */

/* Column by column. */
struct matrix {
  int64_t rows, columns;
  float *x;
};

static int64_t bytes_of(const struct matrix *m) { return m->rows * m->columns * 4; }

/* Whole numbers, of which sums are exact; or fractions. */
static void fill(struct matrix *m, bool whole, uint64_t seed) {
  for (int64_t i = 0; i < m->rows * m->columns; i++)
    m->x[i] = whole ? (float)(tst_random_below(&seed, 5) - 2) : tst_random_unit(&seed) - 0.5F;
}

/* Each elsewhere, for what was found of one is remembered by its address. */
static struct matrix make(int64_t rows, int64_t columns, bool whole, uint64_t seed) {
  static float all[10 << 20] __attribute__((aligned(4096)));
  static int64_t taken = 4; /* the first one begins in a page that is not all its own */
  struct matrix m = {rows, columns, &all[taken]};
  taken += rows * columns;
  if (taken > (int64_t)(sizeof all / sizeof *all)) exit(4);
  fill(&m, whole, seed);
  return m;
}

/* ---- products ---- */

struct product {
  const struct matrix *a, *b;
  char ta, tb;
  bool triangle; /* the lower one of C alone */
};

static int64_t rows_of(const struct product *p) { return p->ta == 'N' ? p->a->rows : p->a->columns; }
static int64_t columns_of(const struct product *p) { return p->tb == 'N' ? p->b->columns : p->b->rows; }
static int64_t k_of(const struct product *p) { return p->ta == 'N' ? p->a->columns : p->a->rows; }
static size_t c_bytes(const struct product *p) { return (size_t)(rows_of(p) * columns_of(p) * 4); }

static void multiply(const struct product *p, float *c) {
  const struct tst_symbol *const symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_problem problem = {.trans_a = p->ta,
                                      .trans_b = p->tb,
                                      .m = rows_of(p),
                                      .n = columns_of(p),
                                      .k = k_of(p),
                                      .alpha = 1,
                                      .lda = p->a->rows,
                                      .ldb = p->b->rows,
                                      .ldc = rows_of(p)};
  if (p->triangle) {
    memset(c, 0, c_bytes(p));
    cblas_sgemmt(102, 122, p->ta == 'N' ? 111 : 112, p->tb == 'N' ? 111 : 112, (int)rows_of(p), (int)k_of(p), 1,
                 p->a->x, (int)p->a->rows, p->b->x, (int)p->b->rows, 0, c, (int)rows_of(p));
  } else {
    tst_call(symbol, tst_resolve(symbol), &problem, p->a->x, p->b->x, c);
  }
}

/* To be freed. */
static float *by_cpu(const struct product *p) {
  float *const c = malloc(c_bytes(p));
  set("TILEBLAS_ROUTE", "cpu");
  multiply(p, c);
  set("TILEBLAS_ROUTE", "gpu");
  return c;
}

static uint64_t count_of(enum fake_cuda_count what) { return tst_fake()->get(what); }
static uint64_t packed_so_far(void) { return tst_fake()->launches_of("tb_emulated_pack_half"); }

/* Panels that a product packs; -1: it is wrong. Of whole numbers. */
static int packs(const struct product *p) {
  float *const c = malloc(c_bytes(p)), *const wanted = by_cpu(p);
  const uint64_t before = packed_so_far();
  multiply(p, c);
  const uint64_t behind = packed_so_far();
  const bool right = memcmp(c, wanted, c_bytes(p)) == 0;
  free(c), free(wanted);
  return right ? (int)(behind - before) : -1;
}

/* So often; the panels of the last time. */
static int packs_behind(const struct product *p, int times) {
  int last = 0;
  for (int i = 0; i < times && last >= 0; i++) last = packs(p);
  return last;
}

/* B is another each time, so that nothing but A is kept. False: A goes up, or it is wrong. */
static bool is_kept(const struct product *p, struct matrix *b, int panels) {
  static uint64_t seed = 100;
  fill(b, true, seed++);
  const uint64_t before = count_of(FAKE_CUDA_BYTES_UP);
  const int packed = packs(p);
  const bool up = count_of(FAKE_CUDA_BYTES_UP) - before > (uint64_t)(bytes_of(b) + bytes_of(p->a) / 2); /* with gaps */
  if (packed != panels || up) printf("%d panels are packed%s\n", packed, up ? ", and A goes up" : "");
  return packed == panels && !up;
}

/* Until the copies of what comes back are there, have been used three times, and then packed. */
enum { SIGHTS = 2, USES = 3, UNTIL_PACKED = SIGHTS + USES + 1 };

/* ---- the same bits ---- */

/* Of which operands come back: A, B or both; the other one is another each time. */
enum { A_IS_KEPT = 1, B_IS_KEPT = 2, ROUNDS = UNTIL_PACKED + 2 };

static void change_others(struct matrix *a, struct matrix *b, int kept, int round) {
  if (!(kept & A_IS_KEPT)) fill(a, false, (uint64_t)round + 10);
  if (!(kept & B_IS_KEPT)) fill(b, false, (uint64_t)round + 30);
}

/* `panels` of what is kept; of the other operand there is one. */
static bool check_rounds(const struct product *p, struct matrix *a, struct matrix *b, int kept, int panels, float **c) {
  const int rest = kept == (A_IS_KEPT | B_IS_KEPT) ? 0 : 1;
  bool right = true;
  for (int round = 0; round < ROUNDS; round++) {
    change_others(a, b, kept, round);
    const uint64_t before = packed_so_far(), up = count_of(FAKE_CUDA_BYTES_UP);
    multiply(p, c[round]);
    const int packed = (int)(packed_so_far() - before), wish = rest + (round < UNTIL_PACKED ? panels : 0);
    if (packed != wish) printf("round %d packs %d panels, not %d\n", round, packed, wish), right = false;
    if (round >= SIGHTS && rest == 0 && count_of(FAKE_CUDA_BYTES_UP) != up)
      printf("something goes up\n"), right = false;
  }
  return right;
}

static bool check_bits(const struct product *p, struct matrix *a, struct matrix *b, int kept, int panels) {
  float *c[ROUNDS], *const wanted = malloc(c_bytes(p));
  for (int round = 0; round < ROUNDS; round++) c[round] = malloc(c_bytes(p));
  set("TILEBLAS_CACHE", "8G");
  bool right = check_rounds(p, a, b, kept, panels, c);
  set("TILEBLAS_CACHE", "off");
  for (int round = 0; round < ROUNDS; round++) {
    change_others(a, b, kept, round);
    if (round == 0 || kept != (A_IS_KEPT | B_IS_KEPT)) multiply(p, wanted);
    if (memcmp(c[round], wanted, c_bytes(p)) != 0) printf("round %d has other bits\n", round), right = false;
    free(c[round]);
  }
  free(wanted);
  if (!right)
    printf("%c%c, kept %d, %lld x %lld\n", p->ta, p->tb, kept, (long long)rows_of(p), (long long)columns_of(p));
  return right;
}

enum { M = 250, N = 190, K = 1400 }; /* with an A and a B of more than a MiB */

static int same_bits(void *unused) {
  (void)unused;
  static const struct {
    bool turned;
    int kept;
  } cases[] = {{false, 3}, {true, 3}, {false, A_IS_KEPT}, {true, B_IS_KEPT}};
  bool right = true;
  for (int i = 0; i < TST_UNLESS_SANITIZED(4, 2); i++) {
    const bool turned = cases[i].turned;
    struct matrix a = make(turned ? K : M, turned ? M : K, false, 1),
                  b = make(turned ? N : K, turned ? K : N, false, 2);
    const struct product p = {&a, &b, turned ? 'T' : 'N', turned ? 'T' : 'N', false};
    right &= check_bits(&p, &a, &b, cases[i].kept, cases[i].kept == 3 ? 2 : 1);
  }
  return right ? 0 : 1;
}

/* Of a triangle both operands have two panels. */
static int same_bits_by_panels(void *unused) {
  (void)unused;
  struct matrix a = make(768, 352, false, 1), b = make(352, 768, false, 2);
  const struct product p = {&a, &b, 'N', 'N', true};
  return check_bits(&p, &a, &b, A_IS_KEPT | B_IS_KEPT, 4) ? 0 : 1;
}

/* ---- changes ---- */

/* All of it: a copy of which less was written is mended (test_mending.c). */
static int a_changed_matrix(void *unused) {
  (void)unused;
  struct matrix a = make(M, K, true, 1), b = make(K, N, true, 2);
  const struct product p = {&a, &b, 'N', 'N', false};
  MUST(packs_behind(&p, UNTIL_PACKED + 1) == 0);
  for (int of_b = 0; of_b < 2; of_b++) {
    fill(of_b ? &b : &a, true, (uint64_t)of_b + 50);
    for (int later = 0; later < UNTIL_PACKED; later++) MUST(packs(&p) > 0);
    MUST(packs(&p) == 0);
  }
  return 0;
}

/* B is too small to be kept. */
enum { SMALL_N = 180, SMALL_M = 187 };

/* T = A B, and then U = T D, often. T is more than a slot. */
static int a_result_anew(void *unused) {
  (void)unused;
  struct matrix a = make(400, 3, true, 1), b = make(3, K, true, 2), t = make(400, K, true, 3);
  const struct matrix d = make(K, SMALL_N, true, 4);
  const struct product makes = {&a, &b, 'N', 'N', false}, uses = {&t, &d, 'N', 'N', false};
  for (int round = 0; round < 4; round++) {
    fill(&a, true, (uint64_t)round + 10);
    multiply(&makes, t.x);
    if (round < 2) MUST(packs(&uses) == 2); /* by which it is known that results come back */
    const uint64_t up = count_of(FAKE_CUDA_BYTES_UP);
    for (int i = 0; round >= 2 && i < USES + 3; i++) MUST(packs(&uses) == (i <= USES ? 2 : 1));
    MUST(round < 2 || count_of(FAKE_CUDA_BYTES_UP) - up < (uint64_t)((USES + 4) * bytes_of(&d)));
  }
  return 0;
}

/* ---- other uses of a copy ---- */

/* The planes of the first use stay until there were some of the second in a row; and back. */
static int as_the_other_operand(void *unused) {
  (void)unused;
  const struct matrix x = make(M, K, true, 1), y = make(K, SMALL_N, true, 2), z = make(SMALL_M, K, true, 3);
  const struct product as_a = {&x, &y, 'N', 'N', false}, as_b = {&z, &x, 'N', 'T', false};
  MUST(packs_behind(&as_a, UNTIL_PACKED + 1) == 1);
  for (int turn = 0; turn < 2; turn++) {
    const struct product *const now = turn == 0 ? &as_a : &as_b, *const next = turn == 0 ? &as_b : &as_a;
    for (int i = 0; i < 3; i++) MUST(packs(next) == 2);
    MUST(packs(now) == 1);
    for (int i = 0; i < 4; i++) MUST(packs(next) == 2);
    MUST(packs(next) == 1);
  }
  return 0;
}

/* One matrix as both operands: it is packed twice, and both are right. */
static int as_both(void *unused) {
  (void)unused;
  const struct matrix x = make(M, K, true, 1);
  const struct product p = {&x, &x, 'N', 'T', false};
  MUST(packs_behind(&p, UNTIL_PACKED) == 2);
  for (int i = 0; i < 5; i++) MUST(packs(&p) == 1);
  return 0;
}

/* Parts of one copy, of one shape, are packed in each call: planes are the whole's. They begin and end with cells, of
 * 16 columns, without which a part is not proven. */
static int parts(void *unused) {
  (void)unused;
  enum { PART = 87 * 16, SECOND = 80 * 16 };
  const struct matrix x = make(M, 2 * K, true, 1), z = make(2 * K, SMALL_N / 2, true, 2);
  const struct matrix part[] = {{M, PART, x.x}, {M, PART, x.x + M * SECOND}};
  struct matrix y = make(PART, SMALL_N, true, 3);
  const struct product all = {&x, &z, 'N', 'N', false};
  MUST(packs_behind(&all, SIGHTS) >= 0);
  for (int i = 0; i < 8; i++) MUST(is_kept(&(struct product){&part[i / 2 % 2], &y, 'N', 'N', false}, &y, 2));
  return 0;
}

/* ---- what is packed in each call ---- */

static struct matrix a_of_others, b_of_others; /* that come back */

/* Each with an A that is kept and that goes to the tensor cores. */
static void multiply_complex(float *c) {
  static const float one[] = {1, 0}, zero[] = {0, 0};
  const int m = 120, n = 110, k = 1375;
  cblas_cgemm(102, 111, 111, m, n, k, one, a_of_others.x, m, b_of_others.x, k, zero, c, m);
}

static void multiply_symmetric(float *c) {
  const int m = 800, n = 320; /* of B there is no copy */
  cblas_ssymm(102, 141, 122, m, n, 1, a_of_others.x, m, b_of_others.x, m, 0, c, m);
}

static void multiply_twice(float *c) {
  const int n = 384, k = 700;
  cblas_ssyr2k(102, 122, 111, n, k, 1, a_of_others.x, n, b_of_others.x, n, 0, c, n);
}

/* The same bits in each call, and as many panels to pack since there are copies. */
static int others(void *function) {
  void (*const calls[])(float *) = {multiply_complex, multiply_symmetric, multiply_twice};
  void (*const multiply_them)(float *) = calls[(uintptr_t)function];
  static float first[800 * 800], c[800 * 800];
  uint64_t packed = 0;
  a_of_others = make(800, 800, true, 1), b_of_others = make(800, 800, true, 2);
  for (int i = 0; i <= UNTIL_PACKED; i++) {
    const uint64_t before = packed_so_far();
    memset(c, 0, sizeof c);
    multiply_them(i == 0 ? first : c);
    if (i == SIGHTS) packed = packed_so_far() - before;
    MUST(packed_so_far() - before == packed || i < SIGHTS);
    MUST(i == 0 || memcmp(c, first, sizeof c) == 0);
  }
  MUST(packed > 0);
  return 0;
}

/* ---- failures ---- */

/* A launch of the call that packs A beside its copy: the CPU answers then, and from then on. */
struct failure {
  const char *function;
  unsigned long number;
  unsigned flags;
};

enum { IT_HAS_NOT_SO_MANY = 7 };

static int a_call_that_fails(void *opaque) {
  const struct failure *const failure = opaque;
  const struct matrix a = make(M, K, true, 0), b = make(K, SMALL_N, true, 2);
  const struct product p = {&a, &b, 'N', 'N', false};
  MUST(packs_behind(&p, UNTIL_PACKED - 1) == 2);
  tst_fake()->inject(failure->function, failure->number, CUDA_ERROR_UNKNOWN, failure->flags);
  MUST(packs(&p) >= 0);
  if (count_of(FAKE_CUDA_FAILURES) == 0) return IT_HAS_NOT_SO_MANY;
  tst_fake()->clear_failures();
  for (int i = 0; i < 2; i++) MUST(packs(&p) >= 0);
  return 0;
}

/* No memory for planes, or for what the driver wants to tell of it: nothing has failed, and the next call has it. */
static int planes_that_fail(void *function) {
  const struct matrix a = make(M, K, true, 0), b = make(K, SMALL_N, true, 2);
  const struct product p = {&a, &b, 'N', 'N', false};
  MUST(packs_behind(&p, UNTIL_PACKED - 1) == 2);
  tst_fake()->inject(function, 1, CUDA_ERROR_OUT_OF_MEMORY, 0);
  MUST(packs(&p) == 2);
  MUST(count_of(FAKE_CUDA_FAILURES) == 1);
  MUST(packs(&p) == 2 && packs(&p) == 1);
  tileblas_stats s;
  tileblas_stats_get(&s);
  MUST(s.gpu_failures == 0);
  return 0;
}

/* ---- memory ---- */

static uint64_t device_bytes(void) { return count_of(FAKE_CUDA_ALLOCATED_BYTES); }

/* A's copy takes 1.43 MB, and its planes a little more. */
static int no_room_for_planes(void *limit) {
  struct matrix a = make(M, K, true, 1), b = make(K, SMALL_N, true, 2);
  const struct product p = {&a, &b, 'N', 'N', false};
  if (limit == NULL) set("TILEBLAS_CACHE", "2700K");
  for (int i = 0; i < SIGHTS; i++) MUST(packs(&p) == 2);
  MUST(is_kept(&p, &b, 2));
  const uint64_t most = device_bytes() + 1400000;
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)most);
  if (limit != NULL) set("TILEBLAS_MEMORY_LIMIT", text);
  for (int i = 0; i < 5; i++) MUST(is_kept(&p, &b, 2) && device_bytes() <= most);
  if (limit != NULL) set("TILEBLAS_MEMORY_LIMIT", "0");
  set("TILEBLAS_CACHE", "8G");
  MUST(is_kept(&p, &b, 2) && is_kept(&p, &b, 1));
  return 0;
}

/* In 3.9 MB there is room for two copies, or for one that is packed. */
static int planes_make_way(void *unused) {
  (void)unused;
  const struct matrix a = make(M, K, true, 1), other = make(M, K, true, 2);
  struct matrix b = make(K, SMALL_N, true, 3);
  const struct product p = {&a, &b, 'N', 'N', false}, q = {&other, &b, 'N', 'N', false};
  set("TILEBLAS_CACHE", "3800K");
  MUST(packs_behind(&p, UNTIL_PACKED + 1) == 1);
  const uint64_t with_planes = device_bytes();
  for (int i = 0; i < SIGHTS; i++) MUST(packs(&q) == 2);
  MUST(device_bytes() <= with_planes);
  for (int i = 0; i < 5; i++) MUST(is_kept(&p, &b, 2) && is_kept(&q, &b, 2));
  return 0;
}

/* Where the call's own memory and its copy fit into the limit, but not the copy's planes, these go and the copy stays.
 */
static int own_planes_make_way(void *unused) {
  (void)unused;
  struct matrix a = make(M, K, true, 1), b = make(K, SMALL_N, true, 2);
  const struct product p = {&a, &b, 'N', 'N', false};
  MUST(packs_behind(&p, UNTIL_PACKED + 1) == 1);
  const uint64_t most = device_bytes() - 700000;
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)most);
  set("TILEBLAS_MEMORY_LIMIT", text);
  for (int i = 0; i < 4; i++) MUST(is_kept(&p, &b, 2) && device_bytes() <= most);
  set("TILEBLAS_MEMORY_LIMIT", "0");
  MUST(is_kept(&p, &b, 2) && is_kept(&p, &b, 1));
  return 0;
}

/* And whoever has given memory back is no longer in the driver. */
static bool all_is_back(void) { return device_bytes() == 0 && count_of(FAKE_CUDA_PUSHED) == 0; }

static int memory_goes_back(void *unused) {
  (void)unused;
  struct matrix a = make(M, K, true, 1), b = make(K, SMALL_N, true, 2);
  const struct product p = {&a, &b, 'N', 'N', false};
  uint64_t off[2];
  for (int i = 0; i < 2; i++) {
    set("TILEBLAS_CACHE", "8G");
    MUST(packs_behind(&p, UNTIL_PACKED + 1) == 1);
    const uint64_t with_planes = device_bytes();
    set("TILEBLAS_CACHE", "off");
    MUST(packs(&p) == 2);
    off[i] = device_bytes();
    MUST(with_planes - off[i] > (uint64_t)(2 * bytes_of(&a)) || i == 0);
  }
  MUST(off[0] == off[1]);
  set("TILEBLAS_CACHE", "8G");
  MUST(packs_behind(&p, UNTIL_PACKED + 1) == 1);
  for (int i = 0; i < 100 && !all_is_back(); i++) usleep(100000);
  MUST(device_bytes() == 0);
  MUST(packs(&p) == 2);
  return 0;
}

/* ---- threads ---- */

enum { THREADS = 3, CALLS = TST_UNLESS_SANITIZED(8, 6) };

struct caller {
  struct product p;
  float *wanted, *c;
  bool wrong;
};

static void *call_again(void *opaque) {
  struct caller *const caller = opaque;
  for (int i = 0; i < CALLS; i++) {
    multiply(&caller->p, caller->c);
    caller->wrong = caller->wrong || memcmp(caller->c, caller->wanted, c_bytes(&caller->p)) != 0;
  }
  return NULL;
}

/* Two that pack X alike, and one otherwise. */
static int threads_at_once(void *unused) {
  (void)unused;
  const struct matrix x = make(M, K, true, 1), z = make(SMALL_M, K, true, 2);
  const struct matrix y[] = {make(K, SMALL_N, true, 3), make(K, SMALL_N, true, 4)};
  struct caller caller[THREADS];
  for (int round = 0; round < TST_UNLESS_SANITIZED(2, 1); round++) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
      struct caller *const c = &caller[i];
      c->p = i < 2 ? (struct product){&x, &y[i], 'N', 'N', false} : (struct product){&z, &x, 'N', 'T', false};
      c->wanted = by_cpu(&c->p), c->c = malloc(c_bytes(&c->p)), c->wrong = false;
    }
    for (int i = 0; i < THREADS; i++) MUST(pthread_create(&thread[i], NULL, call_again, &caller[i]) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
      MUST(!caller[i].wrong);
      free(caller[i].wanted), free(caller[i].c);
    }
    MUST(packs_behind(&caller[0].p, 5) == 1);
    x.x[5000] += 1;
  }
  return 0;
}

static void *call_once(void *opaque) {
  struct caller *const caller = opaque;
  multiply(&caller->p, caller->c);
  return NULL;
}

/* A call that is handed X when another has just packed it and multiplies. */
static int beside_one_that_packs(void *unused) {
  (void)unused;
  const struct matrix x = make(M, K, true, 1), y = make(K, SMALL_N, true, 2);
  struct caller packer = {.p = {&x, &y, 'N', 'N', false}}, other = packer;
  packer.c = malloc(c_bytes(&packer.p)), other.c = malloc(c_bytes(&other.p));
  for (int round = 0; round < TST_UNLESS_SANITIZED(3, 2); round++) {
    pthread_t thread;
    x.x[round] += 1; /* in a page that others have some of: the copy ends, and is not mended */
    float *const wanted = by_cpu(&packer.p);
    MUST(packs_behind(&packer.p, UNTIL_PACKED - 1) == 2);
    const uint64_t before = packed_so_far();
    MUST(pthread_create(&thread, NULL, call_once, &packer) == 0);
    while (packed_so_far() < before + 2) usleep(100);
    multiply(&other.p, other.c);
    pthread_join(thread, NULL);
    MUST(memcmp(packer.c, wanted, c_bytes(&packer.p)) == 0 && memcmp(other.c, wanted, c_bytes(&other.p)) == 0);
    MUST(packs(&packer.p) == 1);
    free(wanted);
  }
  free(packer.c), free(other.c);
  return 0;
}

/* ---- each in a process ---- */

static void in_process(int (*body)(void *), const void *argument, const char *what) {
  struct tst_output o;
  tst_fork(&o, body, (void *)(uintptr_t)argument);
  if (o.status != 0) fail_msg("status %d for %s\n%s%s", o.status, what, o.out, o.err);
  if (o.err[0] != '\0') fail_msg("it says: %s", o.err);
  tst_output_destroy(&o);
}

static void bits(void **state) {
  (void)state;
  in_process(same_bits, NULL, "bits");
  in_process(same_bits_by_panels, NULL, "panels");
}
static void changes(void **state) {
  (void)state;
  in_process(a_changed_matrix, NULL, "a changed matrix");
  in_process(a_result_anew, NULL, "a result");
}
static void other_uses(void **state) {
  (void)state;
  in_process(as_the_other_operand, NULL, "the other operand");
  in_process(as_both, NULL, "both operands");
  in_process(parts, NULL, "parts");
}
static void packed_each_time(void **state) {
  (void)state;
  for (uintptr_t i = 0; i < 3; i++) in_process(others, (void *)i, i == 0 ? "cgemm" : i == 1 ? "ssymm" : "ssyr2k");
}
static void failures(void **state) {
  (void)state;
  int failed = 0;
  for (unsigned flags = 0; flags <= TST_UNLESS_SANITIZED(FAKE_CUDA_ASYNC, 0); flags += FAKE_CUDA_ASYNC)
    for (unsigned long number = 1;; number++) {
      struct failure failure = {"cuLaunchKernelEx", number, flags};
      struct tst_output o;
      tst_fork(&o, a_call_that_fails, &failure);
      const int status = o.status;
      if (status != 0 && status != IT_HAS_NOT_SO_MANY) fail_msg("status %d at %lu\n%s%s", status, number, o.out, o.err);
      tst_output_destroy(&o);
      if (status == IT_HAS_NOT_SO_MANY) break;
      failed++;
    }
  if (failed < 3) fail_msg("%d launches failed", failed); /* two that pack, and one that multiplies */
  in_process(planes_that_fail, "cuMemAlloc", "cuMemAlloc");
  in_process(planes_that_fail, "cuMemGetInfo", "cuMemGetInfo");
}
static void memory(void **state) {
  (void)state;
  in_process(no_room_for_planes, NULL, "TILEBLAS_CACHE");
  if (!TST_SANITIZED) in_process(no_room_for_planes, "limit", "TILEBLAS_MEMORY_LIMIT");
  in_process(planes_make_way, NULL, "another operand");
  in_process(own_planes_make_way, NULL, "the call's own memory");
  in_process(memory_goes_back, NULL, "memory");
}
static void threads(void **state) {
  (void)state;
  in_process(threads_at_once, NULL, "threads");
  in_process(beside_one_that_packs, NULL, "two threads");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits),       cmocka_unit_test(changes),
      cmocka_unit_test(other_uses), cmocka_unit_test(packed_each_time),
      cmocka_unit_test(failures),   cmocka_unit_test(memory),
      cmocka_unit_test(threads),
  };
  if (tst_fake() == NULL) tst_skip("a real driver does not count");
  set("TILEBLAS_ROUTE", "gpu");
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
