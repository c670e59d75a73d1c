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
static const double u = 1.0 / 16777216;       /* 2^-24 */
static const double smallest_unit = 0x1p-150; /* half the smallest subnormal */

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

static double normal(double first, double second) { return sqrt(-2 * log(first + 0.5 * u)) * cos(2 * pi * second); }

/* Of each row of A the one element of TB_HUGE that is huge: at some multiple of huge_step, which B knows, too. */
static const uint64_t huge_step = 64;
static double huge_or_normal(enum tb_operand which, struct spot at, double x) {
  const uint64_t steps = at.depth < huge_step ? 1 : at.depth / huge_step;
  if (which == TB_OPERAND_A) return at.p == mix(at.side) % steps * huge_step ? 0x1p40 * x : x;
  return at.side % 2 && at.p % huge_step == 0 ? 0 : x;
}

/*
 * One operand's integers go to 2^11, the other's as far as the sum over k of |a||b| has room below 2^24: at least to 1,
 * with zeros between where even that is too much (k > 2^13). They take turns. Even rows and columns have no signs, so
 * that their sums grow.
 */
static double integer(enum tb_operand which, struct spot at, double first, double second) {
  const uint64_t large = 1 << 11, room = (1 << 24) / large;
  const uint64_t small = at.depth < room ? room / at.depth : 1;
  const uint64_t stride = (at.depth + room - 1) / room;
  const bool is_large = (at.p / stride % 2 == 0) == (which == TB_OPERAND_A);
  const uint64_t most = is_large ? large : at.p % stride == 0 ? small : 0;
  const double size = floor(first * (double)(most + 1));
  return at.side % 2 && second < 0.5 ? -size : size;
}

static float value(enum tb_data_kind kind, enum tb_operand which, uint64_t seed, uint64_t index, struct spot at) {
  uint64_t bits = mix(index + (seed << 40));
  double first = (double)(bits >> 40) * u, second = (double)(bits & 0xffffff) * u; /* in [0, 1) */
  double position = at.depth > 1 ? (double)at.p / (double)(at.depth - 1) : 0;      /* from 0 to 1 along k */
  switch (kind) {
    case TB_UNIFORM01:
      return (float)first;
    case TB_UNIFORM:
      return (float)(first - 0.5);
    case TB_NORMAL:
      return (float)normal(first, second);
    case TB_WIDE:
      return (float)((second < 0.5 ? -1 : 1) * exp2(40 * first - 20));
    case TB_WIDER:
      return (float)((second < 0.5 ? -1 : 1) * exp2(120 * first - 60));
    case TB_GRADED:
      return (float)((first - 0.5) * exp2((which == TB_OPERAND_A ? 1 : -1) * (20 - 40 * position)));
    case TB_HUGE:
      return (float)huge_or_normal(which, at, normal(first, second));
    case TB_SUBNORMAL: /* |a| < 2^-125 */
      return (float)((first - 0.5) * (which == TB_OPERAND_A ? 0x1p-124 : 0x1p100));
    case TB_SUBNORMAL_C: /* |a| < 2^-131 */
      return (float)((first - 0.5) * (which == TB_OPERAND_A ? 0x1p-130 : 1));
    case TB_INTEGER:
      return (float)integer(which, at, first, second);
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
  float *x;
  size_t rows, cols;
  enum tb_data_kind kind;
  enum tb_operand which;
  unsigned seed;
};

static void fill_part(void *ctx, size_t begin, size_t end) {
  const struct fill *f = ctx;
  for (size_t i = begin; i < end; i++) {
    size_t row = i % f->rows, col = i / f->rows;
    struct spot at = f->which == TB_OPERAND_A ? (struct spot){row, col, f->cols} : (struct spot){col, row, f->rows};
    f->x[i] = value(f->kind, f->which, f->seed, i, at);
  }
}

void tb_data_fill(float *x, size_t rows, size_t cols, enum tb_data_kind kind, enum tb_operand which, unsigned seed) {
  struct fill f = {x, rows, cols, kind, which, seed};
  tb_parallel(rows * cols, fill_part, &f);
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

/* Sums over elements, joined to a tb_error at the end. */
struct sums {
  double max, mean, bias;
};

static void add(struct sums *s, double c, double exact, double magnitude) {
  double unit = magnitude > 0 ? fmax(magnitude * u, smallest_unit) : 0;
  double error = c == exact ? 0 : (c - exact) / unit;                   /* 1/0 is infinity, as it should be */
  if (!(fabs(error) <= s->max) && !isnan(s->max)) s->max = fabs(error); /* once NaN, always NaN */
  s->mean += fabs(error);
  s->bias += exact < 0 ? -error : error;
}

static struct tb_error join(const struct sums *s, size_t parts, size_t count) {
  struct tb_error e = {0, 0, 0};
  for (size_t i = 0; i < parts; i++) {
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

float *tb_alloc(size_t count) { return malloc_or_die(count * sizeof(float)); }

static float element(struct tb_pool_view v, size_t i, size_t p) {
  size_t at = v.offset + (v.transposed ? p + i * v.ld : i + p * v.ld);
  return v.data[v.wrap ? at % v.wrap : at];
}

struct sample {
  struct tb_pool_view a, b;
  const size_t *row, *col;
  int rows;
  size_t k;
  const float *c;
  const double *a_rows; /* the sampled rows of op(A), each contiguous */
  struct sums *sums;    /* one per sampled column */
};

static void gather_rows(void *ctx, size_t begin, size_t end) {
  struct sample *s = ctx;
  for (size_t i = begin; i < end; i++) {
    for (size_t p = 0; p < s->k; p++) ((double *)s->a_rows)[i * s->k + p] = element(s->a, s->row[i], p);
  }
}

static void check_columns(void *ctx, size_t begin, size_t end) {
  struct sample *s = ctx;
  double *b = malloc_or_die(s->k * sizeof *b);
  for (size_t j = begin; j < end; j++) {
    for (size_t p = 0; p < s->k; p++) b[p] = element(s->b, p, s->col[j]);
    s->sums[j] = (struct sums){0, 0, 0};
    for (int i = 0; i < s->rows; i++) {
      const double *a = s->a_rows + (size_t)i * s->k;
      double exact = 0, magnitude = 0;
      for (size_t p = 0; p < s->k; p++) {
        exact += a[p] * b[p];
        magnitude += fabs(a[p] * b[p]);
      }
      add(&s->sums[j], s->c[(size_t)i + j * (size_t)s->rows], exact, magnitude);
    }
  }
  free(b);
}

struct tb_error tb_sample_error(struct tb_pool_view a, struct tb_pool_view b, size_t k, const size_t *row, int rows,
                                const size_t *col, int cols, const float *c) {
  struct sums sums[TB_SAMPLE_MAX];
  double *a_rows = malloc_or_die((size_t)rows * k * sizeof *a_rows);
  struct sample s = {a, b, row, col, rows, k, c, a_rows, sums};
  tb_parallel((size_t)rows, gather_rows, &s);
  tb_parallel((size_t)cols, check_columns, &s);
  free(a_rows);
  return join(sums, (size_t)cols, (size_t)rows * (size_t)cols);
}

struct tb_error tb_full_error(const float *c, const double *exact, const double *magnitude, size_t count) {
  struct sums s = {0, 0, 0};
  for (size_t i = 0; i < count; i++) add(&s, c[i], exact[i], magnitude[i]);
  return join(&s, 1, count);
}

double tb_error_bound_u(size_t k) { return 4 * sqrt((double)k) + 4; }

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
