/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/copy.h"

#include <string.h>

#include "base/integers.h"
#include "pipeline/lines.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Words that a task should copy at least: some 5 microseconds; and one of many, for which fewer threads need meet at
 * the same word of the pool. (H200, 16 cores: 8192 cubed 14.0 ms instead of 14.2, 16384 cubed 65.5 instead of 66.4; but
 * where copies are few, at 2048 cubed, 1.35 instead of 1.29.) */
#define TASK_ELEMS_MIN ((int64_t)16 << 10)
#define TASK_ELEMS_OF_MANY ((int64_t)64 << 10)

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

/* Streaming stores are weakly ordered: other threads and the GPU are told to read only after this. */
static void end_stream(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

static void copy_words(const struct tb_copy *c, float *to, const float *from, int64_t n) {
  if (c->beta != 0) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i] + c->beta * to[i];
  } else if (c->stores == TB_STORES_STREAMED) {
    stream(to, from, n);
  } else {
    memcpy(to, from, (size_t)n * sizeof(float));
  }
}

/* Lines are sent away while they are still in the nearest cache. */
#define RUN_ELEMS ((int64_t)1024)

static void copy_column(const struct tb_copy *c, float *to, const float *from) {
  const bool writes_back = c->stores == TB_STORES_WRITTEN_BACK, sends = writes_back || c->drops;
  for (int64_t i = 0, n; i < c->rows; i += n) {
    n = sends ? tb_min(c->rows - i, RUN_ELEMS) : c->rows;
    copy_words(c, to + i, from + i, n);
    if (writes_back) tb_lines_write_back(to + i, (size_t)n * sizeof(float));
    if (c->drops) tb_lines_drop(from + i, (size_t)n * sizeof(float));
  }
}

/* A task's share: some of the columns, or of all columns some rows when there are fewer columns than tasks. */
static struct tb_copy share(const struct tb_copy *c, int index) {
  struct tb_copy s = {.beta = c->beta, .stores = c->stores, .drops = c->drops, .to = c->to, .from = c->from};
  s.to_ld = c->to_ld, s.from_ld = c->from_ld, s.rows = c->rows, s.columns = c->columns;
  if (c->columns >= c->tasks) {
    int64_t first = c->columns * index / c->tasks, end = c->columns * (index + 1) / c->tasks;
    s.to += first * c->to_ld;
    s.from += first * c->from_ld;
    s.columns = end - first;
  } else {
    int64_t first = c->rows * index / c->tasks, end = c->rows * (index + 1) / c->tasks;
    s.to += first;
    s.from += first;
    s.rows = end - first;
  }
  return s;
}

static void copy_task(void *context, int index) {
  struct tb_copy s = share(context, index);
  if (s.to_ld == s.rows && s.from_ld == s.rows) {
    s.rows *= s.columns; /* one long column */
    s.columns = 1;
  }
  for (int64_t j = 0; j < s.columns; j++) copy_column(&s, s.to + j * s.to_ld, s.from + j * s.from_ld);
  if (s.stores == TB_STORES_STREAMED) end_stream();
}

void tb_copy_start(struct tb_pool *pool, struct tb_copy *c) {
  const int64_t elems = c->rows * c->columns;
  /* Two tasks a thread, so that one which came late does not keep the others waiting. */
  const int64_t worth = elems / (c->of_many ? TASK_ELEMS_OF_MANY : TASK_ELEMS_MIN), most = 2 * tb_pool_threads(pool);
  c->tasks = elems < TB_COPY_ALONE_ELEMS ? 1 : worth < most ? (int)worth : (int)most;
  c->job = tb_pool_start(pool, copy_task, c, c->tasks);
}

bool tb_copy_done(const struct tb_pool *pool, const struct tb_copy *c) { return tb_pool_done(pool, c->job); }

void tb_copy_wait(struct tb_pool *pool, const struct tb_copy *c) { tb_pool_wait(pool, c->job); }
