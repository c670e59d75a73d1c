/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "matrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rng.h"

/* A quiet NaN whose payload no computation makes. */
static const uint32_t canary_bits = 0x7fcabada;

static void die(const char *what) {
  perror(what);
  abort();
}

static size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

void tst_matrix_create(struct tst_matrix *x, int64_t lines, int64_t len, int64_t ld, enum tst_fence fence) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  /* The last line ends with its last element: BLAS promises no padding after it. */
  size_t elems = lines > 0 && len > 0 ? (size_t)((lines - 1) * ld + len) : 0;

  *x = (struct tst_matrix){.lines = lines, .len = len, .ld = ld};
  x->inner_bytes = round_up(elems * sizeof(float), page);
  x->map_bytes = x->inner_bytes + 2 * page;
  x->map = mmap(NULL, x->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (x->map == MAP_FAILED) die("mmap of a test matrix");
  x->inner = x->map + page;
  if (x->inner_bytes > 0 && mprotect(x->inner, x->inner_bytes, PROT_READ | PROT_WRITE) != 0)
    die("mprotect of a test matrix");
  size_t start = fence == TST_FENCE_END ? x->inner_bytes - elems * sizeof(float) : 0;
  x->data = (float *)(x->inner + start);
  for (size_t i = 0; i < x->inner_bytes; i += sizeof canary_bits)
    memcpy(x->inner + i, &canary_bits, sizeof canary_bits);
}

static float one_value(enum tst_values values, uint64_t *rng) {
  switch (values) {
    case TST_INTEGERS:
      return (float)(tst_random_below(rng, 9) - 4);
    case TST_SIGNED:
      return 2 * tst_random_unit(rng) - 1;
    case TST_POSITIVE:
      return tst_random_unit(rng);
    case TST_SPECIAL:
      switch (tst_random_below(rng, 64)) {
        case 0:
          return INFINITY;
        case 1:
          return -INFINITY;
        case 2:
          return NAN;
        case 3: /* zeros meet infinities: 0 * Inf is NaN, so no kernel may skip a zero */
        case 4:
          return 0;
        default:
          return 2 * tst_random_unit(rng) - 1;
      }
    case TST_NAN:
      return NAN;
  }
  abort();
}

void tst_matrix_fill(struct tst_matrix *x, enum tst_values values, uint64_t *rng) {
  for (int64_t line = 0; line < x->lines; line++)
    for (int64_t i = 0; i < x->len; i++) x->data[line * x->ld + i] = one_value(values, rng);
}

void tst_matrix_destroy(struct tst_matrix *x) {
  free(x->before);
  munmap(x->map, x->map_bytes);
  memset(x, 0, sizeof *x);
}

void tst_matrix_remember(struct tst_matrix *x) {
  free(x->before);
  x->before = malloc(x->inner_bytes + 1); /* +1: a copy of nothing is no failure */
  if (!x->before) die("malloc of a test matrix");
  memcpy(x->before, x->inner, x->inner_bytes);
}

void tst_matrix_restore(struct tst_matrix *x) { memcpy(x->inner, x->before, x->inner_bytes); }

const float *tst_matrix_before(const struct tst_matrix *x) {
  return (const float *)(x->before + ((char *)x->data - x->inner));
}

/* Whether the float at `offset` from data (negative: before the matrix) is an element of the matrix. */
static bool is_element(const struct tst_matrix *x, int64_t offset) {
  return offset >= 0 && x->len > 0 && offset / x->ld < x->lines && offset % x->ld < x->len;
}

bool tst_matrix_unchanged(const struct tst_matrix *x, bool elements_too, int64_t *where) {
  if (memcmp(x->before, x->inner, x->inner_bytes) == 0) return true;
  int64_t first = ((char *)x->data - x->inner) / (int64_t)sizeof(float);
  for (size_t i = 0; i < x->inner_bytes; i += sizeof(float)) {
    int64_t offset = (int64_t)(i / sizeof(float)) - first;
    if (memcmp(x->before + i, x->inner + i, sizeof(float)) != 0 && (elements_too || !is_element(x, offset))) {
      *where = offset;
      return false;
    }
  }
  return true;
}
