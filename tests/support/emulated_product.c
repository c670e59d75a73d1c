/* SPDX-License-Identifier: BSD-3-Clause */
#include "emulated_product.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract_order.h"
#include "select/kernels.h"
#include "rng.h"

static struct tb_kernels kernels;

static void unload(void) { tb_kernels_unload(&kernels); }

const struct tb_emulated_kernels *tst_emulated_open(void) {
  if (kernels.emulated.there) return &kernels.emulated;
  OK(tb_kernels_load(&kernels, tst_gpu_open()));
  atexit(unload); /* before the GPU is closed */
  if (!kernels.emulated.there) {
    puts("skipped: these kernels want a GPU of compute capability 9.0");
    exit(77);
  }
  return &kernels.emulated;
}

static void *allocate(size_t bytes) {
  void *memory = malloc(bytes);
  assert_non_null(memory);
  return memory;
}

static CUdeviceptr allocate_on_device(int64_t bytes) {
  CUdeviceptr memory;
  OK(tb_cuda.cuMemAlloc(&memory, (size_t)bytes));
  return memory;
}

/* ---- operands ---- */

static size_t bytes_of(const struct tst_emulated_matrix *x) {
  const int64_t lines = x->along_k ? x->sides : x->k, length = x->along_k ? x->k : x->sides;
  return sizeof(float) * (size_t)(x->skip + (lines - 1) * x->ld + length);
}

void tst_emulated_matrix_create(struct tst_emulated_matrix *x, int64_t sides, int64_t k, bool along_k, int64_t pad,
                                int64_t skip) {
  *x = (struct tst_emulated_matrix){.sides = sides, .k = k, .along_k = along_k, .skip = skip};
  x->ld = (along_k ? k : sides) + pad;
  x->host = allocate(bytes_of(x));
  memset(x->host, 0xff, bytes_of(x)); /* NaN */
  x->device = allocate_on_device((int64_t)bytes_of(x));
}

float *tst_emulated_at(const struct tst_emulated_matrix *x, int64_t side, int64_t l) {
  return &x->host[x->skip + (x->along_k ? side * x->ld + l : l * x->ld + side)];
}

void tst_emulated_upload(const struct tst_emulated_matrix *x) {
  OK(tb_cuda.cuMemcpyHtoDAsync(x->device, x->host, bytes_of(x), NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
}

struct tb_emulated_operand tst_emulated_operand(const struct tst_emulated_matrix *x, bool of_b, int64_t first_side,
                                                int64_t sides) {
  const float *from = (const float *)(uintptr_t)x->device + (tst_emulated_at(x, first_side, 0) - x->host);
  return (struct tb_emulated_operand){.from = from, .ld = x->ld, .sides = sides, .of_b = of_b, .along_k = x->along_k};
}

void tst_emulated_matrix_destroy(struct tst_emulated_matrix *x) {
  OK(tb_cuda.cuMemFree(x->device));
  free(x->host);
}

void tst_emulated_create(struct tst_emulated_product *t, const struct tst_emulated_problem *p,
                         tst_emulated_value *value, uint64_t seed) {
  t->problem = *p;
  tst_emulated_matrix_create(&t->a, p->m, p->k, p->transpose_a, p->pad, p->skip);
  tst_emulated_matrix_create(&t->b, p->n, p->k, !p->transpose_b, p->pad, p->skip);
  uint64_t rng = seed;
  for (int64_t l = 0; l < p->k; l++) {
    for (int64_t i = 0; i < p->m; i++) *tst_emulated_at(&t->a, i, l) = value(&rng, false, i, l);
    for (int64_t j = 0; j < p->n; j++) *tst_emulated_at(&t->b, j, l) = value(&rng, true, j, l);
  }
}

void tst_emulated_destroy(struct tst_emulated_product *t) {
  tst_emulated_matrix_destroy(&t->a);
  tst_emulated_matrix_destroy(&t->b);
}

/* ---- computing ---- */

/* An operand's panels, one allocation each, of `piece` sides. */
struct panels {
  CUdeviceptr packed[8];
  int64_t piece;
  int count;
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Each with room for a span. */
static struct panels make_panels(const struct tst_emulated_matrix *x, bool of_b, int64_t piece, int64_t span_k) {
  struct panels panels = {.piece = piece > 0 ? piece : x->sides};
  for (int64_t first = 0; first < x->sides; first += panels.piece) {
    assert_true(panels.count < 8);
    const int64_t sides = smaller(panels.piece, x->sides - first);
    panels.packed[panels.count++] = allocate_on_device(tb_emulated_packed_bytes(of_b, sides, span_k));
  }
  return panels;
}

/* Of k. */
struct span {
  int64_t start, size;
};

static struct tb_emulated_operand span_of(const struct tst_emulated_matrix *x, bool of_b, int64_t first_side,
                                          int64_t sides, struct span span) {
  struct tb_emulated_operand from = tst_emulated_operand(x, of_b, first_side, sides);
  from.from += x->along_k ? span.start : span.start * x->ld;
  return from;
}

static void pack_panels(const struct tst_emulated_matrix *x, bool of_b, const struct panels *panels, struct span span) {
  for (int i = 0; i < panels->count; i++) {
    const int64_t first = i * panels->piece, sides = smaller(panels->piece, x->sides - first);
    const struct tb_emulated_operand from = span_of(x, of_b, first, sides, span);
    OK(tb_emulated_pack(&kernels.emulated, &from, panels->packed[i], NULL, 0, span.size, NULL));
  }
}

/* Panels that are whole operands are packed by one launch. */
static void pack(const struct tst_emulated_product *t, const struct panels *a, const struct panels *b,
                 struct span span) {
  if (a->count > 1 || b->count > 1) {
    pack_panels(&t->a, false, a, span);
    pack_panels(&t->b, true, b, span);
    return;
  }
  const struct tb_emulated_operand from_a = span_of(&t->a, false, 0, t->a.sides, span);
  const struct tb_emulated_operand from_b = span_of(&t->b, true, 0, t->b.sides, span);
  OK(tb_emulated_pack(&kernels.emulated, &from_a, a->packed[0], &from_b, b->packed[0], span.size, NULL));
}

static struct tst_emulated_ways ways_taken;
struct tst_emulated_ways tst_emulated_ways_taken(void) {
  return ways_taken;
}

/* How many of so many marks are set. */
static int64_t marks_at(CUdeviceptr at, int64_t count) {
  uint32_t *marks = allocate((size_t)count * sizeof *marks);
  OK(tb_cuda.cuMemcpyDtoHAsync(marks, at, (size_t)count * sizeof *marks, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  int64_t set = 0;
  for (int64_t i = 0; i < count; i++) set += marks[i] != 0;
  free(marks);
  return set;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* One for each tile of a pair, whether there is a second one or not, and for each part of its k. */
static int64_t blocks_that_multiply(int64_t tiles, int64_t k, const struct tb_emulated_way *way) {
  const int64_t groups = tb_emulated_groups(k), split_tiles = way->splits > 1 ? tiles - way->whole : 0;
  const int64_t splits = ceil_div(groups, ceil_div(groups, way->splits));
  const int64_t pairs =
      ceil_div(tiles - split_tiles, TB_EMULATED_CLUSTER) + ceil_div(split_tiles, TB_EMULATED_CLUSTER) * splits;
  return smaller(TB_EMULATED_CLUSTER * pairs, tb_emulated_blocks(kernels.emulated.sm_count));
}

/* Of the part of D that begins at (i, j). */
static struct tb_tiles_wanted wanted_of(const struct tst_emulated_problem *p, int64_t i, int64_t j, int64_t m,
                                        int64_t n) {
  struct tb_tiles_wanted wanted = p->wanted;
  const int64_t rows = wanted.pairs ? m / 2 : m, diagonal = wanted.diagonal + j - (wanted.pairs ? i / 2 : i);
  wanted.diagonal = (int32_t)(diagonal < -n ? -n : smaller(diagonal, rows));
  return wanted;
}

static void multiply(const struct tst_emulated_product *t, const struct panels *a, const struct panels *b, int row,
                     int column, float *d, int64_t ldd, struct span span) {
  const struct tst_emulated_problem *p = &t->problem;
  const int64_t i = row * a->piece, j = column * b->piece;
  const struct tb_sgemm_args args = {.a = span_of(&t->a, false, i, 0, span).from,
                                     .b = span_of(&t->b, true, j, 0, span).from,
                                     .d = d + i + j * ldd,
                                     .lda = t->a.ld,
                                     .ldb = t->b.ld,
                                     .ldd = ldd,
                                     .m = smaller(a->piece, p->m - i),
                                     .n = smaller(b->piece, p->n - j),
                                     .k = span.size,
                                     .alpha = p->alpha,
                                     .first = span.start == 0,
                                     .last = span.start + span.size == p->k};
  const int64_t tiles = tb_emulated_tiles(args.m, args.n);
  const struct tb_emulated_way way = {.splits = p->splits, .whole = (int)smaller(p->whole, tiles - 1), .fast = p->fast};
  const CUdeviceptr workspace = allocate_on_device(tb_emulated_workspace_bytes(args.m, args.n, args.k, &way));
  OK(tb_emulated_multiply(&kernels.emulated, p->transpose_a, p->transpose_b, &args, wanted_of(p, i, j, args.m, args.n),
                          a->packed[row], b->packed[column], workspace, &way, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  const struct tb_emulated_workspace w = tb_emulated_workspace_for(args.m, args.n, args.k, &way);
  const CUdeviceptr left = workspace + (CUdeviceptr)(w.a.bytes + w.b.bytes);
  if (p->wanted.of == TB_TILES_ALL) { /* else not every tile has a mark, nor so many blocks */
    ways_taken.bfloat |= marks_at(left, blocks_that_multiply(tiles, args.k, &way)) > 0;
    ways_taken.again += marks_at(left + (CUdeviceptr)w.left_bytes, tiles);
  }
  OK(tb_cuda.cuMemFree(workspace));
}

/* Takes the elements out of D's memory, in which everything else must still be as it was. */
static float *elements_of(const float *memory, size_t words, const struct tst_emulated_problem *p, int64_t ldd) {
  float *d = allocate((size_t)(p->m * p->n) * sizeof *d);
  uint32_t bits;
  for (size_t w = 0; w < words; w++) {
    const int64_t at = (int64_t)w - p->skip;
    if (at >= 0 && at % ldd < p->m) {
      d[at / ldd * p->m + at % ldd] = memory[w];
      continue;
    }
    memcpy(&bits, &memory[w], sizeof bits);
    if (bits != 0xffffffffu) fail_msg("word %zu, which is not D's, was written", w);
  }
  return d;
}

float *tst_emulated_compute(const struct tst_emulated_product *t, int64_t piece_m, int64_t piece_n) {
  const struct tst_emulated_problem *p = &t->problem;
  const int64_t ldd = p->m + p->pad;
  const size_t words = (size_t)(p->skip + (p->n - 1) * ldd + p->m);
  float *memory = allocate(words * sizeof *memory);
  memset(memory, 0xff, words * sizeof *memory);
  const CUdeviceptr device = allocate_on_device((int64_t)(words * sizeof *memory));
  OK(tb_cuda.cuMemcpyHtoDAsync(device, memory, words * sizeof *memory, NULL));
  tst_emulated_upload(&t->a);
  tst_emulated_upload(&t->b);
  const int64_t span_k = p->span_k > 0 ? p->span_k : p->k;
  const struct panels a = make_panels(&t->a, false, piece_m, smaller(span_k, p->k));
  const struct panels b = make_panels(&t->b, true, piece_n, smaller(span_k, p->k));
  ways_taken = (struct tst_emulated_ways){0};
  for (struct span span = {0, 0}; span.start < p->k; span.start += span.size) {
    span.size = smaller(span_k, p->k - span.start);
    pack(t, &a, &b, span);
    for (int column = 0; column < b.count; column++)
      for (int row = 0; row < a.count; row++)
        multiply(t, &a, &b, row, column, (float *)(uintptr_t)device + p->skip, ldd, span);
  }
  OK(tb_cuda.cuMemcpyDtoHAsync(memory, device, words * sizeof *memory, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  for (int i = 0; i < a.count; i++) OK(tb_cuda.cuMemFree(a.packed[i]));
  for (int i = 0; i < b.count; i++) OK(tb_cuda.cuMemFree(b.packed[i]));
  OK(tb_cuda.cuMemFree(device));
  float *d = elements_of(memory, words, p, ldd);
  free(memory);
  return d;
}

/* ---- what it must be ---- */

void tst_emulated_expect(struct tst_emulated_expected *e, const struct tst_emulated_product *t) {
  const struct tst_emulated_problem *p = &t->problem;
  const size_t elements = (size_t)(p->m * p->n), depth = (size_t)p->k;
  e->value = allocate(elements * sizeof *e->value);
  e->size = allocate(elements * sizeof *e->size);
  e->chain = allocate(elements * sizeof *e->chain);
  float *row = allocate(depth * sizeof *row), *column = allocate(depth * sizeof *column);
  for (int64_t j = 0; j < p->n; j++) {
    for (int64_t l = 0; l < p->k; l++) column[l] = *tst_emulated_at(&t->b, j, l);
    for (int64_t i = 0; i < p->m; i++) {
      double value = 0, size = 0;
      float chain = 0;
      for (int64_t l = 0; l < p->k; l++) {
        row[l] = *tst_emulated_at(&t->a, i, l);
        value += (double)row[l] * column[l];
        size += fabs((double)row[l] * column[l]);
        chain = fmaf(row[l], column[l], chain);
      }
      e->value[j * p->m + i] = p->alpha * value;
      e->size[j * p->m + i] = fabs((double)p->alpha) * size;
      e->chain[j * p->m + i] = p->alpha * chain;
    }
  }
  free(row);
  free(column);
}

void tst_emulated_expected_destroy(struct tst_emulated_expected *e) {
  free(e->value);
  free(e->size);
  free(e->chain);
}

struct tst_emulated_errors tst_emulated_errors_of(const struct tst_emulated_expected *e, const float *d, int64_t m,
                                                  int64_t first_row, int64_t end_row, int64_t first_column,
                                                  int64_t end_column) {
  struct tst_emulated_errors errors = {0};
  for (int64_t j = first_column; j < end_column; j++)
    for (int64_t i = first_row; i < end_row; i++) {
      const int64_t at = j * m + i;
      const double error = e->size[at] > 0 ? (d[at] - e->value[at]) / e->size[at] * 0x1p24 : d[at] != 0 ? INFINITY : 0;
      if (!(fabs(error) <= errors.max)) errors.max = fabs(error); /* a NaN, too */
      errors.mean += fabs(error);
      errors.bias += error;
    }
  const double elements = (double)((end_row - first_row) * (end_column - first_column));
  errors.mean /= elements;
  errors.bias /= elements;
  return errors;
}

static void fail_at(const struct tst_emulated_problem *p, int64_t at, float got, double want, double bound) {
  fail_msg(
      "%c%c m=%ld n=%ld k=%ld alpha=%g splits=%d fast=%d pad=%ld skip=%ld: D(%ld,%ld) = %a (%.9g), not %.17g%s%.3g",
      "NT"[p->transpose_a], "NT"[p->transpose_b], (long)p -> m, (long)p -> n, (long)p -> k, (double)p -> alpha,
      p -> splits, p -> fast, (long)p -> pad, (long)p -> skip, (long)(at % p->m), (long)(at / p->m), (double)got,
      (double)got, want, bound > 0 ? ", bound " : " exactly, ", bound);
}

void tst_emulated_assert_exact(const struct tst_emulated_product *t, const struct tst_emulated_expected *e,
                               const float *d) {
  for (int64_t at = 0; at < t->problem.m * t->problem.n; at++) {
    float want = (float)e->value[at];
    if (want == 0) want = t->problem.alpha * 0.0f; /* sums start at 0, whose sign products of -0 do not change */
    if (memcmp(&d[at], &want, sizeof want) != 0) fail_at(&t->problem, at, d[at], want, 0);
  }
}

void tst_emulated_assert_bounded(const struct tst_emulated_product *t, const struct tst_emulated_expected *e,
                                 const float *d) {
  const double terms = (double)t->problem.k + 3, unit = 0x1p-24;
  for (int64_t at = 0; at < t->problem.m * t->problem.n; at++) {
    const double value = e->value[at];
    /* Of every product that underflows half a subnormal may be lost. */
    const double bound = terms * unit / (1 - terms * unit) * e->size[at] + terms * 0x1p-150;
    bool well = isnan(value) ? isnan(d[at]) : fabs(d[at] - value) <= bound;
    if (!isnan(value) && fabs(value) >= 0x1.ffffffp127) well = d[at] == (value > 0 ? INFINITY : -INFINITY);
    if (!well) fail_at(&t->problem, at, d[at], value, bound);
  }
}

float *tst_emulated_plain(const struct tst_emulated_product *t) {
  const struct tst_emulated_problem *p = &t->problem;
  const struct tst_contract plain = {.transpose_a = p->transpose_a,
                                     .transpose_b = p->transpose_b,
                                     .m = p->m,
                                     .n = p->n,
                                     .k = p->k,
                                     .alpha = p->alpha,
                                     .a = t->a.host + p->skip,
                                     .b = t->b.host + p->skip,
                                     .lda = t->a.ld,
                                     .ldb = t->b.ld,
                                     .ldd = p->m,
                                     .first = true,
                                     .last = true};
  float *d = allocate((size_t)(p->m * p->n) * sizeof *d);
  tst_contract_product(&plain, d);
  return d;
}

void tst_emulated_assert_same(const float *got, const float *want, int64_t m, int64_t first_row, int64_t end_row,
                              int64_t first_column, int64_t end_column) {
  for (int64_t j = first_column; j < end_column; j++)
    for (int64_t i = first_row; i < end_row; i++) {
      const float x = got[j * m + i], y = want[j * m + i];
      if (memcmp(&x, &y, sizeof x) != 0 && !(isnan(x) && isnan(y)))
        fail_msg("D(%ld,%ld) is %a, not %a", (long)i, (long)j, (double)x, (double)y);
    }
}
