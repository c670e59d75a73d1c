/* SPDX-License-Identifier: BSD-3-Clause */
/* Operands and errors for the measuring programs; see data.h. */
#include "data.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const double pi = 3.14159265358979323846;

/* What a precision has. Where A of doubles is subnormal, A and C are looked at 2^SCALE larger: half the distance of
 * neighbours is no double there. */
struct precision {
  double u, smallest_unit; /* half the smallest subnormal */
  double subnormal_a, subnormal_b, subnormal_c_a;
  uint64_t integer, integer_sum; /* the largest integer, and the largest sum */
};
enum { SCALE = 600 };
static const double scaled_below = 0x1p-900;
static const struct precision precisions[] = {
    {0x1p-24, 0x1p-150, 0x1p-124, 0x1p100, 0x1p-130, 1 << 11, 1 << 24},
    {0x1p-53, 0x1p-475, 0x1p-1020, 0x1p900, 0x1p-1026, 1 << 26, (uint64_t)1 << 53},
};
static const struct precision *precision_of(enum tb_type type) { return &precisions[tb_type_is_double(type)]; }

const char *const tb_data_kind_name[TB_DATA_KIND_COUNT] = {
#define TB_KIND(id, name) name,
    TB_DATA_KINDS(TB_KIND)
#undef TB_KIND
};

/* A bijective mixer of 64 bits (the finaliser of splitmix64): neighbouring indices give unrelated values. */
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Where an element stands: in which row of A or column of B, and at which of how many steps along k. */
struct spot {
  uint64_t side, p, depth;
};

static double normal(double u, double first, double second) {
  return sqrt(-2 * log(first + 0.5 * u)) * cos(2 * pi * second);
}

/* Of each row of A the one element of TB_HUGE that is huge: at some multiple of huge_step, which B knows, too. */
static const uint64_t huge_step = 64;
static double huge_or_normal(enum tb_operand which, struct spot at, double x) {
  const uint64_t steps = at.depth < huge_step ? 1 : at.depth / huge_step;
  if (which == TB_OPERAND_A) return at.p == mix(at.side) % steps * huge_step ? 0x1p40 * x : x;
  return at.side % 2 && at.p % huge_step == 0 ? 0 : x;
}

/*
 * One operand's integers go to the largest, the other's as far as the sum over k of |a||b| has room below its limit: at
 * least to 1, with zeros between where even that is too much (fp32: k > 2^13). They take turns. Even rows and columns
 * have no signs, so that their sums grow.
 */
static double integer(const struct precision *precision, enum tb_operand which, struct spot at, double first,
                      double second) {
  const uint64_t large = precision->integer, room = precision->integer_sum / large;
  const uint64_t small = at.depth < room ? room / at.depth : 1;
  const uint64_t stride = (at.depth + room - 1) / room;
  const bool is_large = (at.p / stride % 2 == 0) == (which == TB_OPERAND_A);
  const uint64_t most = is_large ? large : at.p % stride == 0 ? small : 0;
  const double size = floor(first * (double)(most + 1));
  return at.side % 2 && second < 0.5 ? -size : size;
}

/* Two numbers in [0, 1) of as many random bits as the precision has. */
static void two_units(bool doubles, uint64_t number, double *first, double *second) {
  const uint64_t bits = mix(number);
  if (doubles)
    *first = (double)(bits >> 11) * 0x1p-53, *second = (double)(mix(bits) >> 11) * 0x1p-53;
  else
    *first = (double)(bits >> 40) * 0x1p-24, *second = (double)(bits & 0xffffff) * 0x1p-24;
}

/* Of a real type. */
static double value(enum tb_type type, enum tb_data_kind kind, enum tb_operand which, uint64_t seed, uint64_t index,
                    struct spot at) {
  const struct precision *precision = precision_of(type);
  double first, second;
  two_units(tb_type_is_double(type), index + (seed << 40), &first, &second);
  double position = at.depth > 1 ? (double)at.p / (double)(at.depth - 1) : 0; /* from 0 to 1 along k */
  switch (kind) {
    case TB_UNIFORM01:
      return first;
    case TB_UNIFORM:
      return first - 0.5;
    case TB_NORMAL:
      return normal(precision->u, first, second);
    case TB_WIDE:
      return (second < 0.5 ? -1 : 1) * exp2(40 * first - 20);
    case TB_WIDER:
      return (second < 0.5 ? -1 : 1) * exp2(120 * first - 60);
    case TB_GRADED:
      return (first - 0.5) * exp2((which == TB_OPERAND_A ? 1 : -1) * (20 - 40 * position));
    case TB_HUGE:
      return huge_or_normal(which, at, normal(precision->u, first, second));
    case TB_SUBNORMAL: /* |a| < 2^-125 */
      return (first - 0.5) * (which == TB_OPERAND_A ? precision->subnormal_a : precision->subnormal_b);
    case TB_SUBNORMAL_C: /* |a| < 2^-131 */
      return (first - 0.5) * (which == TB_OPERAND_A ? precision->subnormal_c_a : 1);
    case TB_INTEGER:
      return integer(precision, which, at, first, second);
    case TB_DATA_KIND_COUNT:
      break;
  }
  return NAN;
}

struct part {
  void (*run)(void *, size_t, size_t);
  void *ctx;
  size_t begin, end;
};

static void *run_part(void *arg) {
  struct part *p = arg;
  p->run(p->ctx, p->begin, p->end);
  return NULL;
}

void tb_parallel(size_t count, void (*run)(void *, size_t, size_t), void *ctx) {
  enum { MAX_THREADS = 64 };
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  size_t threads = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (size_t)cores;
  if (threads > count) threads = count ? count : 1;
  struct part part[MAX_THREADS];
  pthread_t id[MAX_THREADS];
  for (size_t t = 0; t < threads; t++) {
    part[t] = (struct part){run, ctx, count / threads * t, t + 1 == threads ? count : count / threads * (t + 1)};
    if (t && pthread_create(&id[t], NULL, run_part, &part[t])) {
      fprintf(stderr, "cannot start a thread\n");
      exit(EXIT_FAILURE);
    }
  }
  run_part(&part[0]);
  for (size_t t = 1; t < threads; t++) pthread_join(id[t], NULL);
}

struct fill {
  enum tb_type type;
  void *x;
  size_t rows, cols;
  enum tb_data_kind kind;
  enum tb_operand which;
  unsigned seed;
};

/* Imaginary parts are those of another seed's matrix. */
enum { IMAGINARY_SEED = 1000003 };

static void fill_part(void *ctx, size_t begin, size_t end) {
  const struct fill *f = ctx;
  const size_t parts = (size_t)tb_type_parts(f->type);
  for (size_t i = begin; i < end; i++) {
    size_t row = i % f->rows, col = i / f->rows;
    struct spot at = f->which == TB_OPERAND_A ? (struct spot){row, col, f->cols} : (struct spot){col, row, f->rows};
    for (size_t part = 0; part < parts; part++) {
      const double x = value(f->type, f->kind, f->which, f->seed + part * IMAGINARY_SEED, i, at);
      if (tb_type_is_double(f->type))
        ((double *)f->x)[i * parts + part] = x;
      else
        ((float *)f->x)[i * parts + part] = (float)x;
    }
  }
}

void tb_data_fill_type(enum tb_type type, void *x, size_t rows, size_t cols, enum tb_data_kind kind,
                       enum tb_operand which, unsigned seed) {
  struct fill f = {type, x, rows, cols, kind, which, seed};
  tb_parallel(rows * cols, fill_part, &f);
}

void tb_data_fill(float *x, size_t rows, size_t cols, enum tb_data_kind kind, enum tb_operand which, unsigned seed) {
  tb_data_fill_type(TB_S, x, rows, cols, kind, which, seed);
}

int tb_sample(size_t size, unsigned seed, size_t index[TB_SAMPLE_MAX]) {
  if (size <= TB_SAMPLE_MAX) {
    for (size_t i = 0; i < size; i++) index[i] = i;
    return (int)size;
  }
  index[0] = 0;
  index[1] = size - 1;
  for (uint64_t i = 2; i < TB_SAMPLE_MAX; i++) index[i] = mix(i + ((uint64_t)seed << 32)) % size;
  return TB_SAMPLE_MAX;
}

/* Sums over so many parts of elements, joined to a tb_error at the end. */
struct sums {
  double max, mean, bias;
  size_t count;
};

/* `off` is what the result has more than the exact one, of which the sign counts. */
static void add(struct sums *s, const struct precision *precision, double off, double exact, double magnitude) {
  double unit = magnitude > 0 ? fmax(magnitude * precision->u, precision->smallest_unit) : 0;
  double error = off == 0 ? 0 : off / unit;                             /* 1/0 is infinity, as it should be */
  if (!(fabs(error) <= s->max) && !isnan(s->max)) s->max = fabs(error); /* once NaN, always NaN */
  s->mean += fabs(error);
  s->bias += exact < 0 ? -error : error;
  s->count++;
}

static struct tb_error join(const struct sums *s, size_t parts) {
  struct tb_error e = {0, 0, 0};
  size_t count = 0;
  for (size_t i = 0; i < parts; i++) count += s[i].count;
  for (size_t i = 0; i < parts && count > 0; i++) {
    if (!(s[i].max <= e.max_u) && !isnan(e.max_u)) e.max_u = s[i].max;
    e.mean_u += s[i].mean / (double)count;
    e.bias_u += s[i].bias / (double)count;
  }
  return e;
}

static void *malloc_or_die(size_t bytes) {
  void *x = malloc(bytes ? bytes : 1);
  if (!x) {
    fprintf(stderr, "out of memory (%zu bytes)\n", bytes);
    exit(EXIT_FAILURE);
  }
  return x;
}

void *tb_alloc_type(enum tb_type type, size_t count) { return malloc_or_die(count * (size_t)tb_type_bytes(type)); }
float *tb_alloc(size_t count) { return tb_alloc_type(TB_S, count); }

/* A part of element number `at`: 0 real, 1 imaginary. */
static double part_of(enum tb_type type, const void *x, size_t at, size_t part) {
  const size_t number = at * (size_t)tb_type_parts(type) + part;
  return tb_type_is_double(type) ? ((const double *)x)[number] : (double)((const float *)x)[number];
}

/* A part of element (row, column) of X. */
static double stored_part(const struct tb_pool_view *v, size_t row, size_t column, size_t part) {
  const bool mirrored = v->structure != TB_POOL_GENERAL && (v->upper ? row > column : row < column);
  const bool hermitian = v->structure == TB_POOL_HERMITIAN;
  if (row == column && v->unit) return part == 0;
  if (row == column && hermitian && part == 1) return 0;
  if (mirrored && v->structure == TB_POOL_TRIANGULAR) return 0;
  const size_t at = v->offset + (mirrored ? column + row * v->ld : row + column * v->ld);
  const double x = part_of(v->type, v->data, v->wrap ? at % v->wrap : at, part);
  return mirrored && hermitian && part == 1 ? -x : x;
}

/* The parts of elements (i, 0 to k - 1) of op(X), and of elements (0 to k - 1, i) where `along` is set: k real ones,
 * and behind them k imaginary ones. */
static void gather(struct tb_pool_view v, size_t i, bool along, size_t k, double *to) {
  for (size_t p = 0; p < k; p++) {
    const bool behind = v.then != NULL && p >= v.then_at;
    const struct tb_pool_view *const x = behind ? v.then : &v;
    const size_t at = behind ? p - v.then_at : p, row = along ? at : i, column = along ? i : at;
    for (size_t part = 0; part < (size_t)tb_type_parts(x->type); part++) {
      const double value = x->transposed ? stored_part(x, column, row, part) : stored_part(x, row, column, part);
      to[part * k + p] = x->conjugated && part == 1 ? -value : value;
    }
  }
}

/* A sum of products with the sum of their sizes. Doubles are added in two doubles together, whose error is of the order
 * of k^2 u^2 (Ogita, Rump and Oishi, "Accurate sum and dot product", 2005, algorithm Dot2); products of floats are
 * exact in one. */
struct dot {
  double high, low, size;
};

static void add_products(struct dot *sum, bool doubles, double sign, const double *a, const double *b, size_t k) {
  for (size_t p = 0; p < k; p++) {
    const double product = sign * a[p] * b[p];
    sum->size += fabs(product);
    if (!doubles) {
      sum->high += product;
      continue;
    }
    const double total = sum->high + product, added = total - sum->high;
    sum->low += (sum->high - (total - added)) + (product - added) + fma(sign * a[p], b[p], -product);
    sum->high = total;
  }
}

/* A part of the product of a row of op(A) and a column of op(B), gathered. */
static struct dot dot_of(enum tb_type type, size_t part, const double *a, const double *b, size_t k) {
  struct dot sum = {0, 0, 0};
  const bool doubles = tb_type_is_double(type);
  if (part == 1) {
    add_products(&sum, doubles, 1, a, b + k, k);
    add_products(&sum, doubles, 1, a + k, b, k);
  } else {
    add_products(&sum, doubles, 1, a, b, k);
    if (tb_type_is_complex(type)) add_products(&sum, doubles, -1, a + k, b + k, k);
  }
  return sum;
}

struct sample {
  enum tb_region_of region;
  struct tb_pool_view a, b;
  const size_t *row, *col;
  int rows;
  size_t k;
  const void *c;
  double *a_rows;    /* the sampled rows of op(A), gathered one after another */
  int scale;         /* A and C are looked at 2^scale larger */
  struct sums *sums; /* one per sampled column */
};

static size_t gathered(const struct sample *s) { return s->k * (size_t)tb_type_parts(s->a.type); }

static void gather_rows(void *ctx, size_t begin, size_t end) {
  struct sample *s = ctx;
  for (size_t i = begin; i < end; i++) gather(s->a, s->row[i], false, s->k, s->a_rows + i * gathered(s));
}

static bool is_looked_at(const struct sample *s, size_t i, size_t j) {
  const size_t row = s->row[i], column = s->col[j];
  return s->region == TB_WHOLE || (s->region == TB_UPPER_TRIANGLE ? row <= column : row >= column);
}

static void check_columns(void *ctx, size_t begin, size_t end) {
  struct sample *s = ctx;
  const enum tb_type type = s->a.type;
  const struct precision *precision = precision_of(type);
  double *b = malloc_or_die(gathered(s) * sizeof *b);
  for (size_t j = begin; j < end; j++) {
    gather(s->b, s->col[j], true, s->k, b);
    s->sums[j] = (struct sums){0, 0, 0, 0};
    for (int i = 0; i < s->rows; i++) {
      if (!is_looked_at(s, (size_t)i, j)) continue;
      for (size_t part = 0; part < (size_t)tb_type_parts(type); part++) {
        const struct dot exact = dot_of(type, part, s->a_rows + (size_t)i * gathered(s), b, s->k);
        const double c = ldexp(part_of(type, s->c, (size_t)i + j * (size_t)s->rows, part), s->scale);
        add(&s->sums[j], precision, c - exact.high - exact.low, exact.high, exact.size);
      }
    }
  }
  free(b);
}

/* Of gathered rows so small that half the distance of neighbouring results is no number. */
static void scale_up(struct sample *s) {
  double largest = 0;
  const size_t count = (size_t)s->rows * gathered(s);
  for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(s->a_rows[i]));
  if (!tb_type_is_double(s->a.type) || largest >= scaled_below) return;
  s->scale = SCALE;
  for (size_t i = 0; i < count; i++) s->a_rows[i] = ldexp(s->a_rows[i], SCALE);
}

struct tb_error tb_sample_error_in(enum tb_region_of region, struct tb_pool_view a, struct tb_pool_view b, size_t k,
                                   const size_t *row, int rows, const size_t *col, int cols, const void *c) {
  struct sums sums[TB_SAMPLE_MAX];
  struct sample s = {
      .region = region, .a = a, .b = b, .row = row, .col = col, .rows = rows, .k = k, .c = c, .sums = sums};
  s.a_rows = malloc_or_die((size_t)rows * gathered(&s) * sizeof *s.a_rows);
  tb_parallel((size_t)rows, gather_rows, &s);
  scale_up(&s);
  tb_parallel((size_t)cols, check_columns, &s);
  free(s.a_rows);
  return join(sums, (size_t)cols);
}

struct tb_error tb_sample_error(struct tb_pool_view a, struct tb_pool_view b, size_t k, const size_t *row, int rows,
                                const size_t *col, int cols, const void *c) {
  return tb_sample_error_in(TB_WHOLE, a, b, k, row, rows, col, cols, c);
}

struct tb_error tb_full_error(const float *c, const double *exact, const double *magnitude, size_t count) {
  struct sums s = {0, 0, 0, 0};
  for (size_t i = 0; i < count; i++) add(&s, precision_of(TB_S), c[i] - exact[i], exact[i], magnitude[i]);
  return join(&s, 1);
}

double tb_error_bound_u(size_t k) { return 4 * sqrt((double)k) + 4; }

/* Of a complex type with an imaginary part of 0. */
const void *tb_one(enum tb_type type) {
  static const float single[] = {1, 0};
  static const double twice[] = {1, 0};
  return tb_type_is_double(type) ? (const void *)twice : single;
}

const void *tb_zero(enum tb_type type) {
  static const float single[] = {0, 0};
  static const double twice[] = {0, 0};
  return tb_type_is_double(type) ? (const void *)twice : single;
}

double tb_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

double tb_median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}
