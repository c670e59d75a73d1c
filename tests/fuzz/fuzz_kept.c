/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A campaign against what is kept on the GPU: random products of a few matrices that come back, and between them writes
 * of one byte, by every way there is to write one (kept_writes.c). Each result must be, bit by bit, what the program's
 * memory gives. All numbers are whole and none is zero, so that sums are exact and a stale byte shows. Some of the
 * products are ssymm and strmm, with a half of a square; writes are in either half. At times matrices are made anew by
 * products, on either side, or in place by solves and triangles, so that results are operands; or mapped anew, so that
 * the library expects them; or grow from product to product. Some calls in a row have a matrix with many sides, which
 * the GPU's tensor cores want packed: from some use on it stays so.
 *
 *   fuzz_kept [--steps N] [--seed S] [--seconds T] [--gpus G]
 *
 * N steps (1500) from seed S (1) on, or as many as T seconds allow. With G fake GPUs, or all real ones where G is not
 * 1, which share some of the calls. Status 1: a result was wrong, and the step and the writes before it are told; or of
 * many steps too few had copies, or on one fake GPU none had planes, so that nothing was tried. The matrices are others
 * every 400 steps: what is written often is not kept any more. Not thread safe.
 *
 * A library and a program compiled with -DTB_SLOT_BYTES=131072 -DTB_CACHE_LEAST_BYTES=65536 -DTB_MENDED_FEW_OF=5
 * -DTB_ALWAYS_MENDED_BYTES=65536 -DTB_ASKED_AT_ONCE_BYTES=16384 -DTB_ASKED_IN_A_TURN_BYTES=4096 -DKEPT_K=10120
 * -DKEPT_ORDER=186 make ten times as many steps, of matrices of 20 pages each instead of 260. Several GPUs share them
 * with -DTB_SHARE_PIECE_ELEMS=1, and half as many bytes for both.
 *
 * Seen to fail when: the proof is skipped; pages are protected behind it, or shared ones twice; the last bytes of a
 * cell are not digested; a page that is gone counts as not written; rings are overlooked; the pitch is not looked at;
 * what one GPU watches goes for another's copy; planes outlive the copy.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"
#include "fake.h"
#include "kept_dense.h"
#include "kept_writes.h"
#include "rng.h"
#include "tileblas.h"

/* ---- a product of two views ---- */

struct view {
  struct kept_matrix *of;
  int64_t first, sides; /* columns of a tall matrix, or rows of a wide one */
  int64_t start, k;     /* along the product */
};

static uint64_t rng;

static int64_t below(int64_t n) { return tst_random_below(&rng, n); }

/* The whole, the last or first of its sides, and a part of its k, likewise: few different ones, so that they come back,
 * and that some are others' beginnings. */
static struct view choose(bool shorter) {
  struct kept_matrix *const m = &kept_matrices[below(KEPT_MATRICES)];
  struct view v = {.of = m, .sides = m->sides, .k = m->k};
  if (m->sides > 2 && below(3) == 0) v.first = below(2), v.sides--;
  if (shorter) v.start = below(2) ? 512 : 0, v.k -= KEPT_SHORTER;
  return v;
}

/* Of a view's element: of which of its sides, and where along the product. */
static const float *element(const struct view *v, int64_t side, int64_t l) {
  side += v->first, l += v->start;
  return (const float *)(const void *)v->of->data + (v->of->tall ? l + side * v->of->ld : side + l * v->of->ld);
}

enum { BESIDE = 2, NUMBERS_OF_SQUARE = BESIDE * KEPT_ORDER, NUMBERS_OF_VIEWS = KEPT_SIDES_MOST * KEPT_SIDES_MOST };
typedef float result[NUMBERS_OF_SQUARE > NUMBERS_OF_VIEWS ? NUMBERS_OF_SQUARE : NUMBERS_OF_VIEWS];

static void multiply(const struct view *a, const struct view *b, result c) {
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  const struct tst_problem p = {.trans_a = a->of->tall ? 'T' : 'N',
                                .trans_b = b->of->tall ? 'N' : 'T',
                                .m = a->sides,
                                .n = b->sides,
                                .k = a->k,
                                .alpha = 1,
                                .beta = 0,
                                .lda = a->of->ld,
                                .ldb = b->of->ld,
                                .ldc = a->sides};
  memset(c, 0, sizeof(result));
  tst_call(symbol, tst_resolve(symbol), &p, element(a, 0, 0), element(b, 0, 0), c);
}

/* The same from the program's memory: at most 36 k, which a float holds exactly, in whatever order it is added. */
static void expect(const struct view *a, const struct view *b, result c) {
  memset(c, 0, sizeof(result));
  for (int64_t l = 0; l < a->k; l++)
    for (int64_t j = 0; j < b->sides; j++) {
      const float x = *element(b, j, l);
      for (int64_t i = 0; i < a->sides; i++) c[i + j * a->sides] += *element(a, i, l) * x;
    }
}

/* ---- a product with a half of a square ---- */

void cblas_ssymm(int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void cblas_strmm(int, int, int, int, int, int, int, float, const float *, int, float *, int);
void cblas_strsm(int, int, int, int, int, int, int, float, const float *, int, float *, int);

struct half {
  struct kept_matrix *of;
  bool left, upper;
  bool triangular, transposed, unit; /* strmm, and how */
};

/* What it is multiplied with, some columns or rows. */
static float beside[NUMBERS_OF_SQUARE];

static struct half choose_half(void) {
  struct half h = {.of = &kept_matrices[KEPT_MATRICES + below(KEPT_SQUARES)], .left = below(2), .upper = below(2)};
  h.triangular = below(2);
  if (h.triangular) h.transposed = below(2), h.unit = below(2);
  return h;
}

static void multiply_half(const struct half *h, result c) {
  const int m = h->left ? KEPT_ORDER : BESIDE, n = h->left ? BESIDE : KEPT_ORDER, lda = (int)h->of->ld;
  const int side = h->left ? 141 : 142, uplo = h->upper ? 121 : 122;
  const float *const a = (const float *)(const void *)h->of->data;
  memset(c, 0, sizeof(result));
  if (h->triangular) memcpy(c, beside, sizeof beside);
  if (h->triangular)
    cblas_strmm(102, side, uplo, h->transposed ? 112 : 111, h->unit ? 132 : 131, m, n, 1, a, lda, c, m);
  else
    cblas_ssymm(102, side, uplo, m, n, 1, a, lda, beside, m, 0, c, m);
}

/* Element (i, j) of what the half stands for. */
static float meant(const struct half *h, int64_t i, int64_t j) {
  const float *const a = (const float *)(const void *)h->of->data;
  const int64_t row = h->transposed ? j : i, column = h->transposed ? i : j;
  const bool stored = h->upper ? row <= column : row >= column;
  if (h->unit && i == j) return 1;
  if (stored) return a[row + column * h->of->ld];
  return h->triangular ? 0 : a[column + row * h->of->ld];
}

/* At most 36 times the order. */
static void expect_half(const struct half *h, result c) {
  memset(c, 0, sizeof(result));
  for (int64_t j = 0; j < KEPT_ORDER; j++)
    for (int64_t i = 0; i < KEPT_ORDER; i++) {
      const float x = meant(h, i, j);
      for (int64_t other = 0; other < BESIDE; other++)
        if (h->left)
          c[i + other * KEPT_ORDER] += x * beside[j + other * KEPT_ORDER];
        else
          c[other + j * BESIDE] += beside[other + i * BESIDE] * x;
    }
}

/* ---- a matrix that a product makes ---- */

/* Of signs and the factors of its sides, so that its elements are what they ever are; and of nothing, by which products
 * of one shape differ: what is found out of some results goes for those of one k. */
enum { DEPTHS = 8 }; /* 0: made in place */
static float signs[KEPT_K];
static float factors[KEPT_SIDES_MOST];

static void choose_factors(void) {
  static const float some[] = {2, 3, 4, 6};
  for (int64_t i = 0; i < KEPT_K; i++) signs[i] = below(2) ? 1 : -1;
  for (int i = 0; i < KEPT_SIDES_MOST; i++) factors[i] = some[below(4)];
}

/* x is the first column of A, y the first row of B; all else is zero. */
static void call_for(struct kept_matrix *m, int64_t depth, const float *x, const float *y) {
  static float a[KEPT_K * DEPTHS], b[KEPT_K * DEPTHS];
  const struct tst_symbol *symbol = tst_find_symbol("cblas_sgemm");
  struct tst_problem p = {.trans_a = 'N', .trans_b = 'T', .k = depth, .alpha = 1, .beta = 0, .ldc = m->ld};
  p.m = p.lda = m->tall ? m->k : m->sides, p.n = p.ldb = m->tall ? m->sides : m->k;
  memset(a, 0, sizeof(float) * (size_t)(p.m * depth));
  memset(b, 0, sizeof(float) * (size_t)(p.n * depth));
  memcpy(a, x, sizeof(float) * (size_t)p.m);
  memcpy(b, y, sizeof(float) * (size_t)p.n);
  tst_call(symbol, tst_resolve(symbol), &p, a, b, m->data);
}

/* Of twice or half of what it is to be, by a triangle with twos on its diagonal, and nothing else. */
static void halve_or_double(struct kept_matrix *m) {
  static float a[KEPT_SIDES_MOST * KEPT_SIDES_MOST];
  const int order = (int)m->sides, side = m->tall ? 142 : 141, uplo = below(2) ? 121 : 122, t = below(2) ? 112 : 111;
  const int rows = (int)(m->tall ? m->k : m->sides), columns = (int)(m->tall ? m->sides : m->k), ld = (int)m->ld;
  const bool solves = below(2);
  float *const data = (float *)(void *)m->data;
  const struct view v = {.of = m};
  for (int i = 0; i < order * order; i++) a[i] = i % (order + 1) == 0 ? 2 : 0;
  for (int64_t l = 0; l < m->k; l++)
    for (int64_t s = 0; s < m->sides; s++) data[element(&v, s, l) - data] = signs[l] * factors[s] * (solves ? 2 : 0.5f);
  (solves ? cblas_strsm : cblas_strmm)(102, side, uplo, t, 131, rows, columns, 1, a, order, data, ld);
}

/* By a product of this depth, or in place: 0. False: it is not what it is to be. */
static bool make_anew(struct kept_matrix *m, int64_t depth) {
  const bool by_cpu = below(8) == 0;
  choose_factors();
  if (by_cpu) tileblas_option_set("TILEBLAS_ROUTE", "cpu");
  if (depth == 0)
    halve_or_double(m);
  else
    call_for(m, depth, m->tall ? signs : factors, m->tall ? factors : signs);
  if (by_cpu) tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  const struct view v = {.of = m};
  for (int64_t l = 0; l < m->k; l++)
    for (int64_t side = 0; side < m->sides; side++)
      if (*element(&v, side, l) != signs[l] * factors[side]) return false;
  return true;
}

/* ---- what else may be ---- */

static const struct tst_fake *fake;

static int gpus = 1;

/* Of several GPUs: all have a product's operands; one goes on alone, behind a write, and makes copies anew; and then
 * all have them again, of whom the others have older ones. */
enum { ROUND = 25, ALONE = 8, WRITTEN = 9, TOGETHER = 19 };

static bool is_in_rounds(unsigned long long step) { return gpus > 1 && step / 50 % 3 == 2; }

static void take_turn(unsigned turn) {
  if (turn == 0) tileblas_option_set("TILEBLAS_CACHE", below(2) ? "auto" : "8G");
  if (turn == 0) tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0");
  if (turn == 0 || turn == TOGETHER) tileblas_option_set("TILEBLAS_SHARE", "always");
  if (turn == ALONE) tileblas_option_set("TILEBLAS_SHARE", "never");
}

static void change_surroundings(void) {
  static const char *const sizes[] = {"auto", "auto", "8G", "2500K", "5M", "off"};
  if (below(40) == 0) tileblas_option_set("TILEBLAS_CACHE", sizes[below(6)]);
  if (gpus > 1 && below(20) == 0) tileblas_option_set("TILEBLAS_SHARE", below(3) ? "always" : "never");
  if (below(40) == 0) tileblas_option_set("TILEBLAS_MEMORY_LIMIT", below(4) == 0 ? "4M" : "0");
  if (fake == NULL) return;
  if (below(20) == 0) fake->set_order((enum fake_cuda_order)below(3), (uint64_t)below(1000));
  if (below(60) == 0) fake->inject("cuMemAlloc", 1, 2 /* CUDA_ERROR_OUT_OF_MEMORY */, 0);
}

/* ---- steps ---- */

enum { STEPS_OF_MATRICES = 400 };

struct count {
  unsigned long long steps, writes, made, packed, wrong;
};

/* A product of two views, or of a square's half. */
struct product {
  bool of_half;
  struct view a, b;
  struct half half;
};

static struct product choose_product(void) {
  struct product p = {.of_half = below(4) == 0};
  const bool shorter = !p.of_half && below(4) == 0;
  if (p.of_half)
    p.half = choose_half();
  else
    p.a = choose(shorter), p.b = choose(shorter);
  return p;
}

static void tell(const struct count *count, const struct product *p, unsigned long long seed) {
  const struct view *const a = &p->a, *const b = &p->b;
  const struct half *const h = &p->half;
  printf("wrong: step %llu of seed %llu: ", count->steps, seed);
  if (p->of_half)
    printf("%s %c%c%c%c, A %s", h->triangular ? "strmm" : "ssymm", h->left ? 'L' : 'R', h->upper ? 'U' : 'L',
           h->transposed ? 'T' : 'N', h->unit ? 'U' : 'N', h->of->name);
  else
    printf("A %s, B %s, %lld x %lld x %lld", a->of->name, b->of->name, (long long)a->sides, (long long)b->sides,
           (long long)a->k);
  printf("; latest writes: %s\n", kept_latest_writes());
}

static struct kept_matrix *choose_written(const struct product *p) {
  if (below(8) == 0) return &kept_matrices[below(KEPT_ALL)];
  return p->of_half ? p->half.of : below(2) ? p->a.of : p->b.of;
}

/* Of new matrices, which were not written yet: one is mapped anew again and again, of which the library comes to expect
 * it, and copies it at its first sight. */
enum { UNTIL_MAPPED_ANEW = 10 };

static bool is_returning(unsigned long long step) {
  return step % STEPS_OF_MATRICES < 50 && step / STEPS_OF_MATRICES % 2;
}

static void choose_returning(struct product *p) {
  do *p = (struct product){.of_half = false, .a = choose(false), .b = choose(false)};
  while (!p->a.of->is_private);
  p->a.first = 0, p->a.sides = p->a.of->sides;
  tileblas_option_set("TILEBLAS_CACHE", below(4) ? "auto" : "8G");
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0");
}

/* A product whose operands grow: by columns that are few numbers each, of wide ones, or long, of tall ones. */
enum { UNTIL_GROWN = 3 };

static bool is_growing(unsigned long long step) { return step / 50 % 4 == 3; }

static void choose_growing(struct product *p) {
  *p = (struct product){.of_half = false, .a = choose(false), .b = choose(false)};
  p->a.first = p->b.first = 0;
  p->a.k = p->b.k = KEPT_K * 5 / 8;
  if (p->a.of->tall && p->a.sides > 2) p->a.sides = 2;
  tileblas_option_set("TILEBLAS_CACHE", below(4) ? "auto" : "8G");
  tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0");
}

static void grow(struct product *p) {
  const int64_t more = below(KEPT_K / 16);
  if (p->a.of->tall && p->a.sides < p->a.of->sides && below(2)) p->a.sides++;
  if (p->a.k + more > KEPT_K || p->a.of->tall) return;
  p->a.k += more, p->b.k += more;
}

/* Chains are regular, or nothing is found out about them: A is made anew, and then all of it is an operand. */
static bool is_in_chains(unsigned long long step) { return step / 50 % 4 == 1; }

static void choose_chain(struct product *p) {
  *p = (struct product){.of_half = false, .b = choose(false)};
  do p->a.of = &kept_matrices[below(KEPT_MATRICES)];
  while (p->a.of->sides < 3); /* others' products fit into a slot */
  p->a.sides = p->a.of->sides, p->a.k = p->a.of->k;
}

static void make_operand_anew(struct count *count, const struct product *p, unsigned long long seed) {
  count->made++;
  if (make_anew(p->a.of, (int64_t)(count->steps / 50 / 4 % DEPTHS))) return;
  count->wrong++;
  printf("wrong: step %llu of seed %llu: %s is made anew\n", count->steps, seed, p->a.of->name);
}

/* Steps with a dense matrix, which take the fake driver as long as ten others: some with each matrices, or with smaller
 * ones now and then. Planes are there at the seventh; and all but the first time there are enough for others to come
 * behind a write. */
enum {
  DENSE_FROM = 200,
  DENSE_FIRST = 12,
  DENSE = 40,
  UNTIL_PACKED = 6,
  DENSE_EVERY = KEPT_K < 100000 ? 10 * STEPS_OF_MATRICES : STEPS_OF_MATRICES
};

static bool is_dense(unsigned long long step) {
  const int number = (int)(step % DENSE_EVERY) - DENSE_FROM;
  return number >= 0 && number < (step < DENSE_EVERY ? DENSE_FIRST : DENSE);
}

static unsigned long long launches_of(const char *what) {
  char name[64];
  snprintf(name, sizeof name, "tb_emulated_%s_half", what);
  return fake == NULL ? 0 : fake->launches_of(name);
}

static void dense_step(struct count *count, unsigned long long seed) {
  static struct kept_dense d;
  const unsigned long long number = count->steps % DENSE_EVERY - DENSE_FROM;
  if (number == 0) tileblas_option_set("TILEBLAS_CACHE", "8G"), tileblas_option_set("TILEBLAS_MEMORY_LIMIT", "0");
  if (number == 0) d = kept_dense_choose(&rng);
  if (number > UNTIL_PACKED && below(9) == 0) kept_write(d.of, &rng), count->writes++;
  if (number > UNTIL_PACKED && below(9) == 0) d.is_b = !d.is_b;
  if (number > UNTIL_PACKED && below(4) == 0) change_surroundings();
  const unsigned long long packs = launches_of("pack"), products = launches_of("multiply");
  const bool right = kept_dense_is_right(&d);
  const bool on_tensor_cores = launches_of("multiply") > products;
  count->packed += on_tensor_cores && launches_of("pack") - packs < 2; /* of two operands */
  if (fake != NULL) fake->clear_failures();
  count->steps++;
  if (right) return;
  count->wrong++;
  printf("wrong: step %llu of seed %llu: %s as %c; latest writes: %s\n", count->steps - 1, seed, d.of->name,
         d.is_b ? 'B' : 'A', kept_latest_writes());
}

static void step(struct count *count, unsigned long long seed) {
  static struct product p;
  static result c, wanted;
  const bool quiet = count->steps / 50 % 2; /* in which copies get old */
  const bool in_chains = is_in_chains(count->steps), in_rounds = !in_chains && is_in_rounds(count->steps);
  const bool returning = !in_rounds && is_returning(count->steps);
  const bool growing = !in_rounds && !returning && is_growing(count->steps);
  const unsigned turn = count->steps % ROUND;
  const bool other = in_rounds ? turn == 0 : !in_chains && !returning && !growing && below(quiet ? 12 : 4) == 0;
  if (count->steps % STEPS_OF_MATRICES == 0 || count->steps % 50 == 0 || other) p = choose_product();
  if (in_chains && count->steps % 50 == 0) choose_chain(&p);
  if (in_chains && below(3) > 0) make_operand_anew(count, &p, seed);
  if (returning && count->steps % 50 == 0) choose_returning(&p);
  if (returning && count->steps % UNTIL_MAPPED_ANEW == 0) kept_map_anew(p.a.of);
  if (growing && count->steps % 50 == 0) choose_growing(&p);
  if (growing && count->steps % UNTIL_GROWN == 0) grow(&p);
  if (in_rounds ? turn == WRITTEN : below(returning ? 15 : quiet ? 9 : 3) == 0) {
    kept_write(choose_written(&p), &rng);
    count->writes++;
  }
  if (in_rounds)
    take_turn(turn);
  else if (!returning && (!growing || below(4) == 0))
    change_surroundings();
  const bool disturbed = below(10) == 0; /* others write beside the operands meanwhile */
  if (disturbed) kept_disturb(true);
  if (p.of_half)
    multiply_half(&p.half, c);
  else
    multiply(&p.a, &p.b, c);
  if (disturbed) kept_disturb(false);
  if (p.of_half)
    expect_half(&p.half, wanted);
  else
    expect(&p.a, &p.b, wanted);
  if (fake != NULL) fake->clear_failures();
  if (memcmp(c, wanted, sizeof c) != 0) {
    count->wrong++;
    tell(count, &p, seed);
  }
  count->steps++;
}

/* Calls for which something was kept, by the report, and those of them for which it was mended, or had grown. */
struct kept_calls {
  unsigned long long all, mended, grown;
};

static unsigned long long number_behind(const char *text, const char *words) {
  const char *const found = strstr(text, words);
  return found == NULL ? 0 : strtoull(found + strlen(words), NULL, 10);
}

static struct kept_calls calls_with_copies(void) {
  static char text[8192];
  const int file = memfd_create("report", MFD_CLOEXEC);
  tileblas_report(file);
  const ssize_t length = pread(file, text, sizeof text - 1, 0);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  return (struct kept_calls){number_behind(text, "a GPU had kept: "), number_behind(text, "they had been written: "),
                             number_behind(text, "the beginning was there: ")};
}

/* For the fake driver counts what is left in the end. */
static void give_all_back(void) {
  static result c;
  const struct view v = choose(false);
  tileblas_option_set("TILEBLAS_CACHE", "off");
  multiply(&v, &v, c);
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  unsigned long long steps = 1500, seed = 1;
  double seconds = 1e9;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--steps") == 0) steps = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--gpus") == 0) gpus = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--seconds") == 0) seconds = strtod(argv[i + 1], NULL);
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (gpus > 1) {
    char text[16];
    snprintf(text, sizeof text, "%d", gpus);
    setenv("FAKE_CUDA_DEVICES", text, 1);
  }
  rng = seed;
  fake = tst_fake();
  tileblas_option_set("TILEBLAS_ROUTE", "gpu");
  tileblas_option_set("TILEBLAS_CACHE", "auto");
  if (gpus > 1) tileblas_option_set("TILEBLAS_SHARE", "always");
  kept_begin(&rng);
  kept_dense_begin(&rng);
  for (int i = 0; i < NUMBERS_OF_SQUARE; i++) beside[i] = (float)(2 + below(5));
  struct count count = {0, 0, 0, 0, 0};
  const double end = seconds_now() + seconds;
  while (count.steps < steps && count.wrong < 10 && seconds_now() < end) {
    if (count.steps > 0 && count.steps % STEPS_OF_MATRICES == 0) kept_end(), kept_begin(&rng);
    (is_dense(count.steps) ? dense_step : step)(&count, seed);
  }
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  const struct kept_calls kept = calls_with_copies();
  printf("%llu steps of seed %llu, %llu with copies, %llu mended, %llu grown, %llu with planes, %llu writes, "
         "%llu results, %llu wrong; %llu calls on the GPU, %llu on the CPU\n",
         count.steps, seed, kept.all, kept.mended, kept.grown, count.packed, count.writes, count.made, count.wrong,
         (unsigned long long)stats.gpu_calls, (unsigned long long)stats.cpu_calls);
  give_all_back();
  kept_end();
  const bool had_dense = fake != NULL && gpus == 1 && count.steps >= DENSE_EVERY;
  const bool idle = (count.steps >= 1000 && kept.all < count.steps / 10) || (had_dense && count.packed == 0);
  return count.wrong > 0 || stats.gpu_failures > 0 || idle;
}
