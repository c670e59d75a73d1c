/* SPDX-License-Identifier: BSD-3-Clause */
#include "copy.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Words that a task should copy at least: less does not pay for waking a thread. */
#define TASK_ELEMS_MIN ((int64_t)64 << 10)

struct block {
  float *to;
  const float *from;
  int64_t to_ld, from_ld, rows, columns;
  float beta;
  int tasks;
};

/* Ordinary stores would first read the lines that they overwrite, and push the program's data out of the caches. */
static void stream(float *to, const float *from, int64_t n) {
#if defined(__SSE2__)
  int64_t i = 0;
  for (; i < n && (uintptr_t)(to + i) % sizeof(__m128) != 0; i++) to[i] = from[i];
  for (; i + 16 <= n; i += 16) {
    __m128 a = _mm_loadu_ps(from + i), b = _mm_loadu_ps(from + i + 4);
    __m128 c = _mm_loadu_ps(from + i + 8), d = _mm_loadu_ps(from + i + 12);
    _mm_stream_ps(to + i, a);
    _mm_stream_ps(to + i + 4, b);
    _mm_stream_ps(to + i + 8, c);
    _mm_stream_ps(to + i + 12, d);
  }
  for (; i < n; i++) to[i] = from[i];
#else
  memcpy(to, from, (size_t)n * sizeof(float));
#endif
}

/* Streaming stores are weakly ordered; the GPU is told to read only after this. */
static void end_stream(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

static void commit_column(float *c, float beta, const float *from, int64_t n) {
  if (beta == 0) {
    memcpy(c, from, (size_t)n * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; i++) c[i] = from[i] + beta * c[i];
  }
}

/* A task's share: some of the columns, or of all columns some rows when there are fewer columns than tasks. */
static struct block share(const struct block *b, int index) {
  struct block s = *b;
  if (b->columns >= b->tasks) {
    int64_t first = b->columns * index / b->tasks, end = b->columns * (index + 1) / b->tasks;
    s.to += first * b->to_ld;
    s.from += first * b->from_ld;
    s.columns = end - first;
  } else {
    int64_t first = b->rows * index / b->tasks, end = b->rows * (index + 1) / b->tasks;
    s.to += first;
    s.from += first;
    s.rows = end - first;
  }
  return s;
}

static void copy_in_task(void *context, int index) {
  struct block s = share(context, index);
  if (s.to_ld == s.rows && s.from_ld == s.rows) {
    stream(s.to, s.from, s.rows * s.columns);
  } else {
    for (int64_t j = 0; j < s.columns; j++) stream(s.to + j * s.to_ld, s.from + j * s.from_ld, s.rows);
  }
  end_stream();
}

static void commit_task(void *context, int index) {
  struct block s = share(context, index);
  for (int64_t j = 0; j < s.columns; j++) commit_column(s.to + j * s.to_ld, s.beta, s.from + j * s.from_ld, s.rows);
}

static void run(struct tb_pool *pool, void (*task)(void *, int), struct block *b) {
  int64_t worth = b->rows * b->columns / TASK_ELEMS_MIN;
  /* Two tasks a thread, so that one which came late does not keep the others waiting. */
  int64_t most = 2 * tb_pool_threads(pool);
  b->tasks = worth < 1 ? 1 : worth < most ? (int)worth : (int)most;
  tb_pool_run(pool, task, b, b->tasks);
}

void tb_copy_in(struct tb_pool *pool, float *to, int64_t to_ld, const float *from, int64_t from_ld, int64_t rows,
                int64_t columns) {
  struct block b = {.to = to, .from = from, .to_ld = to_ld, .from_ld = from_ld, .rows = rows, .columns = columns};
  run(pool, copy_in_task, &b);
}

void tb_copy_commit(struct tb_pool *pool, float *c, int64_t ldc, float beta, const float *from, int64_t from_ld,
                    int64_t rows, int64_t columns) {
  struct block b = {
      .to = c, .from = from, .to_ld = ldc, .from_ld = from_ld, .rows = rows, .columns = columns, .beta = beta};
  run(pool, commit_task, &b);
}
