/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trmm and trsm, which overwrite what they read, with the driver functions that they call failed once at one position
 * after another: whatever was committed or computed in place by then, the CPU finishes the rest. All numbers are whole,
 * and small enough that every order of summation gives the same, so B is exactly what it must be.
 *
 *   test_triangular_failures once|async|bands|bands_async|device|copies|twice
 *     once    B in ordinary memory; one call fails
 *     async   the same; the call succeeds, and what it enqueued fails later
 *     bands   solves that go by slots in bands, of columns and of rows; one call fails; bands_async: as async
 *     device  B on the GPU; one call fails, and what is there can still be copied
 *     copies  a triangle that is halved, B on the GPU; from a failure on it cannot be copied either: B is lost, one
 * line says so, and nothing more is tried with it twice   the same of the C of a syr2k, which is two products
 *
 * Seen to fail when: a block of rows is taken for whole of which some columns are committed; its columns come down from
 * the other end; a step in place is counted before it is enqueued, or not at all; the rest is scaled once more; what
 * the CPU finishes of a B from the GPU is read as if its columns lay as far apart as there.
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
#include "offload_call.h"
#include "placed.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999

/* Each fails at every `step`th of its calls. */
static const struct {
  const char *name;
  unsigned long step;
  bool enqueues;
} functions[] = {
    {"cuLaunchKernel", 3, true},       {"cuMemcpyDtoHAsync", 1, true},   {"cuMemcpyHtoDAsync", 7, true},
    {"cuEventRecord", 13, false},      {"cuStreamWaitEvent", 11, false}, {"cuEventQuery", 23, false},
    {"cuStreamQuery", 29, false},      {"cuModuleLoadData", 1, false},   {"cuModuleGetFunction", 61, false},
    {"cuFuncSetAttribute", 61, false}, {"cuMemAlloc", 1, false},         {"cuMemGetInfo", 1, false},
    {"cuMemcpy2DAsync", 1, false},     {"cuCtxPushCurrent", 6, false},   {"cuEventCreate", 1, false},
    {"cuMemsetD8Async", 1, false}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

struct failure {
  const char *function; /* NULL: none */
  unsigned long nth;
};

static bool on_device, copies_fail, twice, bands;
static unsigned flags;

/* Columns in three blocks; blocks of rows in two pieces each, from either end, solved with or multiplied; triangles
 * that are halved, and that are formed in several panels where they lie. */
struct shape {
  char type; /* d or z */
  bool solves;
  char side, uplo, trans;
  int m, n;
  const char *limit;
  bool a_on_host, b_on_host; /* of those on the GPU */
};
static const struct shape in_memory[] = {
    {'d', true, 'L', 'L', 'N', 66, 1160, "0", 0, 0},   {'d', true, 'R', 'U', 'N', 330, 100, "0", 0, 0},
    {'d', true, 'R', 'L', 'N', 330, 100, "0", 0, 0},   {'d', false, 'R', 'U', 'N', 330, 100, "0", 0, 0},
    {'d', false, 'R', 'U', 'T', 330, 97, "0", 0, 0},   {'z', true, 'L', 'U', 'T', 130, 20, "200K", 0, 0},
    {'d', false, 'R', 'U', 'N', 20, 130, "100K", 0, 0}};
static const struct shape in_bands[] = {{'d', true, 'R', 'U', 'N', 200, 2048, "0", 0, 0},
                                        {'d', true, 'R', 'L', 'N', 7, 2048, "0", 0, 0},
                                        {'d', true, 'L', 'L', 'N', 7168, 3, "0", 0, 0}};
static const struct shape on_gpu[] = {
    {'d', true, 'L', 'L', 'N', 130, 970, "0", 0, 0}, {'z', false, 'L', 'U', 'T', 70, 12, "0", 1, 0},
    {'d', true, 'R', 'U', 'N', 30, 100, "0", 0, 0},  {'z', true, 'L', 'U', 'N', 40, 12, "0", 0, 1},
    {'d', true, 'L', 'L', 'N', 520, 3, "0", 0, 0},   {'d', true, 'R', 'L', 'N', 3, 520, "0", 0, 0},
    {'d', false, 'R', 'L', 'N', 30, 100, "0", 0, 0}, {'d', false, 'L', 'L', 'N', 100, 30, "0", 0, 0}};
static const struct shape halved[] = {{'d', true, 'R', 'U', 'N', 20, 300, "100K", 1, 0}};
enum { CALLS_MOST = 8 };

/* Rows that are no part of A or B, below each column; in B they hold what nobody may touch. */
enum { PADDING = 3 };
#define UNTOUCHED 77.0

struct call {
  const struct shape *shape;
  int order, parts, lda, ldb;
  size_t a_bytes, b_bytes;
  double *a, *b, *want;
  void *there_a, *there_b;
};

/* ---- whole numbers ---- */

static double *element_of(const struct call *c, double *x, int ld, int i, int j) {
  return x + (size_t)c->parts * ((size_t)i + (size_t)j * (size_t)ld);
}

/* want = op(A) x, or x op(A); the triangle has numbers on one side alone, and a diagonal of 1 and -1. */
static void multiply(const struct call *c, double *x, double *want) {
  const struct shape *s = c->shape;
  for (int j = 0; j < s->n; j++)
    for (int i = 0; i < s->m; i++) {
      double re = 0, im = 0;
      for (int l = 0; l < c->order; l++) {
        const int row = s->side == 'L' ? i : l, column = s->side == 'L' ? l : j; /* of op(A) */
        const int r = s->trans == 'N' ? row : column, q = s->trans == 'N' ? column : row;
        if (s->uplo == 'U' ? r > q : r < q) continue;
        const double *a = element_of(c, c->a, c->lda, r, q);
        const double *y = element_of(c, x, c->ldb, s->side == 'L' ? l : i, s->side == 'L' ? j : l);
        re += a[0] * y[0] - (c->parts == 2 ? a[1] * y[1] : 0);
        if (c->parts == 2) im += a[0] * y[1] + a[1] * y[0];
      }
      double *const to = element_of(c, want, c->ldb, i, j);
      to[0] = re;
      if (c->parts == 2) to[1] = im;
    }
}

static void *reserve(size_t bytes) {
  void *x = calloc(1, bytes);
  if (x == NULL) abort();
  return x;
}

/* alpha is 2: a solve's right side is half of A times the answer, in halves of whole numbers. */
static void create(struct call *c, const struct shape *shape, uint64_t *rng) {
  *c = (struct call){.shape = shape, .order = shape->side == 'L' ? shape->m : shape->n};
  c->parts = shape->type == 'z' ? 2 : 1;
  c->lda = c->order + PADDING, c->ldb = shape->m + PADDING;
  c->a_bytes = (size_t)(c->lda * c->order * c->parts) * sizeof(double);
  c->b_bytes = (size_t)(c->ldb * shape->n * c->parts) * sizeof(double);
  c->a = reserve(c->a_bytes), c->b = reserve(c->b_bytes), c->want = reserve(c->b_bytes);
  for (size_t i = 0; i < c->a_bytes / sizeof(double); i++)
    c->a[i] = tst_random_below(rng, 8) == 0 ? (double)tst_random_below(rng, 5) - 2 : 0;
  for (int i = 0; i < c->order; i++) {
    double *const diagonal = element_of(c, c->a, c->lda, i, i);
    diagonal[0] = tst_random_below(rng, 2) ? 1 : -1;
    if (c->parts == 2) diagonal[1] = 0;
  }
  double *const x = shape->solves ? c->want : c->b, *const product = shape->solves ? c->b : c->want;
  for (size_t i = 0; i < c->b_bytes / sizeof(double); i++) x[i] = (double)tst_random_below(rng, 9) - 4;
  multiply(c, x, product);
  for (size_t i = 0; i < c->b_bytes / sizeof(double); i++) product[i] *= shape->solves ? 0.5 : 2;
  for (int j = 0; j < shape->n; j++)
    for (int i = 0; i < PADDING * c->parts; i++)
      element_of(c, c->b, c->ldb, shape->m, j)[i] = element_of(c, c->want, c->ldb, shape->m, j)[i] = UNTOUCHED;
}

static void destroy(struct call *c) { free(c->a), free(c->b), free(c->want); }

/* ---- calls ---- */

#define ROUTINE(name, scalar) \
  void cblas_##name(int, int, int, int, int, int, int, scalar, const void *, int, void *, int);
ROUTINE(dtrsm, double)
ROUTINE(ztrsm, const void *)
ROUTINE(dtrmm, double)
ROUTINE(ztrmm, const void *)

static void make(const struct call *c) {
  const struct shape *s = c->shape;
  const double alpha[2] = {2, 0};
  const int side = s->side == 'L' ? 141 : 142, uplo = s->uplo == 'U' ? 121 : 122, trans = s->trans == 'N' ? 111 : 112;
  if (s->type == 'd')
    (s->solves ? cblas_dtrsm : cblas_dtrmm)(102, side, uplo, trans, 131, s->m, s->n, 2, c->there_a, c->lda, c->there_b,
                                            c->ldb);
  else
    (s->solves ? cblas_ztrsm : cblas_ztrmm)(102, side, uplo, trans, 131, s->m, s->n, alpha, c->there_a, c->lda,
                                            c->there_b, c->ldb);
}

void cblas_dsyr2k(int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);

enum { TWICE_N = 40, TWICE_K = 30 };
static double ones[TWICE_N * TWICE_N];

static double *place_ones(void) {
  for (int i = 0; i < TWICE_N * TWICE_N; i++) ones[i] = 1;
  double *const there = tst_cuda_allocate(TST_DEVICE, sizeof ones);
  tst_cuda_write(TST_DEVICE, there, ones, sizeof ones);
  return there;
}

static void make_twice(double *c) {
  cblas_dsyr2k(102, 122, 111, TWICE_N, TWICE_K, 1, ones, TWICE_N, ones, TWICE_N, 1, c, TWICE_N);
}

/* C of ones becomes 2 k + 1 in its lower triangle. */
static bool twice_is_right(double *there) {
  static double c[TWICE_N * TWICE_N];
  bool right = tst_cuda_read(TST_DEVICE, c, there, sizeof c);
  for (int i = 0; i < TWICE_N * TWICE_N; i++)
    right = right && c[i] == (i % TWICE_N >= i / TWICE_N ? 2 * TWICE_K + 1 : 1);
  tst_cuda_free(TST_DEVICE, there);
  return right;
}

static void *placed_there(void *x, size_t bytes, bool on_host) {
  if (!on_device || on_host) return x;
  void *const there = tst_cuda_allocate(TST_DEVICE, bytes);
  tst_cuda_write(TST_DEVICE, there, x, bytes);
  return there;
}

/* Whether B is what it must be. */
static bool take_back_right(struct call *c) {
  bool back = true;
  if (c->there_b != c->b) {
    back = tst_cuda_read(TST_DEVICE, c->b, c->there_b, c->b_bytes);
    tst_cuda_free(TST_DEVICE, c->there_b);
  }
  if (c->there_a != c->a) tst_cuda_free(TST_DEVICE, c->there_a);
  for (size_t i = 0; back && i < c->b_bytes / sizeof(double); i++)
    if (!(c->b[i] == c->want[i])) {
      printf("%ctr%cm %c%c%c: number %zu is %g instead of %g\n", c->shape->type, c->shape->solves ? 's' : 'm',
             c->shape->side, c->shape->uplo, c->shape->trans, i, c->b[i], c->want[i]);
      back = false;
    }
  return back;
}

/* ---- lives ---- */

static struct call calls[CALLS_MOST]; /* made once, before any life */
static size_t count;

static void open_gpu(void) {
  double a = 1, b = 3;
  cblas_dtrsm(102, 141, 121, 111, 131, 1, 1, 1, &a, 1, &b, 1);
}

static int life(void *argument) {
  const struct failure *f = argument;
  const struct tst_fake *fake = tst_fake();
  bool right = true;
  if (fake == NULL) return 2;
  if (on_device) tst_cuda_begin(0);
  if (!f->function || f->nth % 2 == 0) open_gpu(); /* else the kernels are loaded by the calls, too */
  for (size_t i = 0; i < count; i++) {
    calls[i].there_a = placed_there(calls[i].a, calls[i].a_bytes, calls[i].shape->a_on_host);
    calls[i].there_b = placed_there(calls[i].b, calls[i].b_bytes, calls[i].shape->b_on_host);
  }
  double *const c = twice ? place_ones() : NULL;
  fake->reset_calls();
  if (f->function && fake->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, flags) != 0) return 3;
  if (f->function && copies_fail) fake->inject("cuMemcpy2DAsync", 0, CUDA_ERROR_UNKNOWN, 0);
  for (size_t i = 0; i < count; i++) {
    if (tileblas_option_set("TILEBLAS_MEMORY_LIMIT", calls[i].shape->limit) != 0) return 4;
    make(&calls[i]);
  }
  if (twice) make_twice(c);
  for (size_t i = 0; !f->function && i < FUNCTIONS; i++)
    printf("calls %s %llu\n", functions[i].name, (unsigned long long)fake->calls(functions[i].name));
  printf("injected=%llu\n", (unsigned long long)fake->get(FAKE_CUDA_FAILURES));
  fake->clear_failures();
  for (size_t i = 0; i < count; i++) right &= take_back_right(&calls[i]);
  if (twice) right = twice_is_right(c);
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  if (!f->function && (stats.gpu_calls != count + twice + 1 || stats.gpu_failures > 0)) {
    printf("%d of %d calls by the GPU\n", (int)stats.gpu_calls, (int)count + twice + 1);
    return 5;
  }
  if (on_device) tst_cuda_end(0);
  if (f->function && copies_fail) printf("lost=%d\n", !right);
  return right || (f->function && copies_fail) ? 0 : 1;
}

static unsigned failures;

static void run_case(const struct failure *f, unsigned long called[FUNCTIONS]) {
  struct tst_output o;
  tst_fork(&o, life, (void *)f);
  const size_t lines = tst_count_lines(o.err, "\n"), warnings = tst_count_lines(o.err, "tileblas: warning: ");
  const size_t told = tst_count_lines(o.err, "operands in GPU memory cannot be reached"),
               lost_told = copies_fail ? told : 0;
  const char *what = NULL;
  if (o.status != 0) what = "wrong answer, crash or leak";
  if (!what && (lines != warnings || warnings > 1 + lost_told)) what = "more than one warning, or something else";
  if (!what && copies_fail && told > 1) what = "something is tried with a B that is lost";
  if (!what && copies_fail && told < tst_number_after(o.out, "lost=")) what = "B is lost, and no line says so";
  if (!what && f->function && tst_number_after(o.out, "injected=") == 0) what = "the failure did not come to pass";
  if (what) {
    print_error("%s number %lu: %s (status %d)\n%s%s", f->function ? f->function : "nothing", f->nth, what, o.status,
                o.out, o.err);
    failures++;
  }
  for (size_t i = 0; called && i < FUNCTIONS; i++) {
    char key[96];
    snprintf(key, sizeof key, "calls %s ", functions[i].name);
    called[i] = (unsigned long)tst_number_after(o.out, key);
  }
  tst_output_destroy(&o);
}

static void every_function(void **state) {
  (void)state;
  unsigned long called[FUNCTIONS], cases = 0;
  run_case(&(struct failure){NULL, 0}, called);
  assert_int_equal(failures, 0);
  for (size_t i = 0; i < FUNCTIONS; i++) {
    if (flags != 0 && !functions[i].enqueues) continue; /* what enqueues nothing does not fail later */
    /* In place each step of a call is a state of its own. */
    const bool each = on_device && i == 0;
    const unsigned long of_bands = flags != 0 ? 8 : TST_UNLESS_SANITIZED(16, 80);
    const unsigned long often = bands ? of_bands : flags != 0 ? 2 : TST_UNLESS_SANITIZED(1, 3);
    const unsigned long step = each ? TST_UNLESS_SANITIZED(1, 3) : often * functions[i].step;
    for (unsigned long nth = 1; nth <= called[i]; nth += step, cases++)
      run_case(&(struct failure){functions[i].name, nth}, NULL);
  }
  printf("%lu cases\n", cases);
  assert_true(cases > (twice ? 5 : bands ? TST_UNLESS_SANITIZED(10, 8) : TST_UNLESS_SANITIZED(20, 10)));
  assert_int_equal(failures, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_function)};
  if (argc != 2) return 2;
  twice = strcmp(argv[1], "twice") == 0;
  copies_fail = twice || strcmp(argv[1], "copies") == 0;
  on_device = copies_fail || strcmp(argv[1], "device") == 0;
  if (strstr(argv[1], "async") != NULL) flags = FAKE_CUDA_ASYNC;
  bands = strncmp(argv[1], "bands", strlen("bands")) == 0;
  const struct shape *shapes = copies_fail ? halved : on_device ? on_gpu : bands ? in_bands : in_memory;
  count = twice         ? 0
          : bands       ? sizeof in_bands / sizeof *in_bands
          : copies_fail ? sizeof halved / sizeof *halved
          : on_device   ? sizeof on_gpu / sizeof *on_gpu
                        : sizeof in_memory / sizeof *in_memory;
  uint64_t rng = 1;
  for (size_t i = 0; i < count; i++) create(&calls[i], &shapes[i], &rng);
  const int failed = cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
  for (size_t i = 0; i < count; i++) destroy(&calls[i]);
  return failed;
}
