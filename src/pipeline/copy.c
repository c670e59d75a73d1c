/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/copy.h"

#include <string.h>

#include "base/integers.h"
#include "pipeline/lines.h"
#include "pipeline/mirror.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Bytes that a task should copy at least, by how a copy is cut: usually some 5 microseconds. By few tasks fewer threads
 * meet at the same word of the pool. (H200, 16 cores: 8192 cubed 14.0 ms instead of 14.2, 16384 cubed 65.5 instead of
 * 66.4; but where copies are few, at 2048 cubed, 1.35 instead of 1.29.) Of many each takes a thread behind the link 5
 * to 10, for its lines have left the caches. */
static const int64_t task_bytes[] = {
    [TB_TASKS_USUAL] = 64 << 10, [TB_TASKS_FEW] = 256 << 10, [TB_TASKS_MANY] = 16 << 10};

/* Ordinary stores would first read the lines that they overwrite, and push the program's data out of the caches. What
 * the lines have behind short columns is written, too: those that are not written whole are read as well. */
static void stream(char *to, const char *from, size_t bytes, size_t pad_bytes) {
#if defined(__SSE2__)
  const size_t ahead = -(uintptr_t)to % sizeof(__m128i);
  size_t i = ahead < bytes ? ahead : bytes;
  memcpy(to, from, i);
  for (; i + 4 * sizeof(__m128i) <= bytes; i += 4 * sizeof(__m128i)) {
    const __m128i *const next = (const __m128i *)(from + i);
    __m128i *const there = (__m128i *)(to + i);
    const __m128i a = _mm_loadu_si128(next), b = _mm_loadu_si128(next + 1);
    const __m128i c = _mm_loadu_si128(next + 2), d = _mm_loadu_si128(next + 3);
    _mm_stream_si128(there, a);
    _mm_stream_si128(there + 1, b);
    _mm_stream_si128(there + 2, c);
    _mm_stream_si128(there + 3, d);
  }
  for (; i + sizeof(__m128i) <= bytes; i += sizeof(__m128i))
    _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
  if (bytes + pad_bytes < i + sizeof(__m128i)) {
    memcpy(to + i, from + i, bytes - i);
    return;
  }
  __m128i last = _mm_setzero_si128();
  memcpy(&last, from + i, bytes - i);
  for (; i + sizeof(__m128i) <= bytes + pad_bytes; i += sizeof(__m128i), last = _mm_setzero_si128())
    _mm_stream_si128((__m128i *)(to + i), last);
#else
  (void)pad_bytes;
  memcpy(to, from, bytes);
#endif
}

/* Streaming stores are weakly ordered: other threads and the GPU are told to read only after this. */
static void end_stream(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/* ---- to = from + beta to, of n elements of each type ---- */

static void add_s(float *restrict to, const float *restrict from, float beta, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i] + beta * to[i];
}

static void add_d(double *restrict to, const double *restrict from, double beta, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i] + beta * to[i];
}

/* Pairs, the real part first. */
static void add_c(float *restrict to, const float *restrict from, const float beta[2], int64_t n) {
  for (int64_t i = 0; i < 2 * n; i += 2) {
    const float re = beta[0] * to[i] - beta[1] * to[i + 1], im = beta[0] * to[i + 1] + beta[1] * to[i];
    to[i] = from[i] + re;
    to[i + 1] = from[i + 1] + im;
  }
}

static void add_z(double *restrict to, const double *restrict from, const double beta[2], int64_t n) {
  for (int64_t i = 0; i < 2 * n; i += 2) {
    const double re = beta[0] * to[i] - beta[1] * to[i + 1], im = beta[0] * to[i + 1] + beta[1] * to[i];
    to[i] = from[i] + re;
    to[i + 1] = from[i + 1] + im;
  }
}

/* A complex beta of 1 multiplies nothing: its imaginary part, 0, would make NaNs of infinities. That of a Hermitian C
 * has none. */
static void add_elements(const struct tb_copy *c, void *to, const void *from, int64_t n) {
  const bool by_numbers = tb_type_is_complex(c->type) && (c->region.hermitian || tb_scalar_is_one(c->type, c->beta));
  switch (by_numbers ? tb_type_real(c->type) : c->type) {
    case TB_S:
      add_s(to, from, c->beta.s, n * tb_type_parts(c->type));
      break;
    case TB_D:
      add_d(to, from, c->beta.d, n * tb_type_parts(c->type));
      break;
    case TB_C:
      add_c(to, from, c->beta.c, n);
      break;
    default:
      add_z(to, from, c->beta.z, n);
  }
}

/* ---- copies ---- */

static bool adds(const struct tb_copy *c) { return !tb_scalar_is_zero(c->type, c->beta); }

static void copy_elements(const struct tb_copy *c, char *to, const char *from, int64_t n) {
  const size_t bytes = (size_t)(n * tb_type_bytes(c->type)), pad_bytes = (size_t)(c->pad * tb_type_bytes(c->type));
  if (adds(c))
    add_elements(c, to, from, n);
  else if (c->stores == TB_STORES_STREAMED)
    stream(to, from, bytes, pad_bytes);
  else
    memcpy(to, from, bytes);
}

/* Lines are sent away while they are still in the nearest cache. */
#define RUN_BYTES ((int64_t)4096)

static void copy_rows(const struct tb_copy *c, int64_t rows, char *to, const char *from) {
  const bool writes_back = c->stores == TB_STORES_WRITTEN_BACK, sends = writes_back || c->drops;
  const int64_t size = tb_type_bytes(c->type);
  for (int64_t i = 0, n; i < rows; i += n, to += n * size, from += n * size) {
    n = sends ? tb_min(rows - i, RUN_BYTES / size) : rows;
    copy_elements(c, to, from, n);
    if (writes_back) tb_lines_write_back(to, (size_t)(n * size));
    if (c->drops) tb_lines_drop(from, (size_t)(n * size));
  }
}

static char *behind(const void *at, enum tb_type type, int64_t elements) {
  return (char *)at + elements * tb_type_bytes(type);
}

/* An imaginary part on a Hermitian diagonal. */
static void make_real(const struct tb_copy *c, void *element) {
  const int64_t part = tb_type_bytes(tb_type_real(c->type));
  memset((char *)element + part, 0, (size_t)part);
}

static void copy_column(const struct tb_copy *c, int64_t j) {
  const struct tb_region_rows rows = tb_region_rows(c->region, c->rows, j);
  const int64_t diagonal = j + c->region.diagonal;
  char *const to = behind(c->to, c->type, j * c->to_ld);
  if (rows.first >= rows.end) return;
  copy_rows(c, rows.end - rows.first, behind(to, c->type, rows.first),
            behind(c->from, c->type, j * c->from_ld + rows.first));
  if (c->region.hermitian && diagonal >= 0 && diagonal < c->rows) make_real(c, behind(to, c->type, diagonal));
}

/* ---- mirror images ---- */

/* Rows of a column that are not the region's. */
static struct tb_region_rows mirrored_rows(const struct tb_copy *c, int64_t j) {
  const struct tb_region_rows rows = tb_region_rows(c->region, c->rows, j);
  return c->region.of == TB_UPPER_TRIANGLE ? (struct tb_region_rows){rows.end, c->rows}
                                           : (struct tb_region_rows){0, rows.first};
}

/* At most as many rows and columns as are turned at a time, all of them images. */
static void copy_images(const struct tb_copy *c, struct tb_region_rows rows, int64_t j, int64_t columns) {
  char turned[TB_MIRROR_BYTES] __attribute__((aligned(64)));
  const int64_t i = rows.first, n = rows.end - rows.first, diagonal = c->region.diagonal;
  if (n <= 0) return;
  tb_mirror_turn(c->type, c->region.hermitian, turned,
                 behind(c->from, c->type, j + diagonal + (i - diagonal) * c->from_ld), c->from_ld, n, columns);
  for (int64_t x = 0; x < columns; x++)
    copy_rows(c, n, behind(c->to, c->type, i + (j + x) * c->to_ld), behind(turned, c->type, x * TB_MIRROR_ROWS));
}

static struct tb_region_rows common_rows(struct tb_region_rows x, struct tb_region_rows y) {
  return (struct tb_region_rows){tb_max(x.first, y.first), tb_min(x.end, y.end)};
}

/* Of some rows and columns: those rows that are images in all of the columns, and what else each column has. */
static void mirror_part(const struct tb_copy *c, struct tb_region_rows part, int64_t j, int64_t columns) {
  const struct tb_region_rows first = mirrored_rows(c, j), last = mirrored_rows(c, j + columns - 1);
  const struct tb_region_rows all = common_rows(part, common_rows(first, last));
  copy_images(c, all, j, columns);
  for (int64_t x = j; x < j + columns; x++) {
    const struct tb_region_rows rows = common_rows(part, mirrored_rows(c, x));
    if (all.first >= all.end) {
      copy_images(c, rows, x, 1);
    } else {
      copy_images(c, (struct tb_region_rows){rows.first, all.first}, x, 1);
      copy_images(c, (struct tb_region_rows){all.end, rows.end}, x, 1);
    }
  }
}

static void copy_mirrored(const struct tb_copy *c) {
  const int64_t width = tb_mirror_columns(c->type);
  for (int64_t i = 0; i < c->rows; i += TB_MIRROR_ROWS)
    for (int64_t j = 0; j < c->columns; j += width)
      mirror_part(c, (struct tb_region_rows){i, tb_min(i + TB_MIRROR_ROWS, c->rows)}, j, tb_min(width, c->columns - j));
}

/* ---- tasks ---- */

/* Rows of a task's share of mirror images, at least: of what it reads these are the columns, each in one run. */
#define MIRRORED_ROWS_MIN 16

static bool is_shared_by_columns(const struct tb_copy *c) {
  return c->columns >= c->tasks && !(c->mirrored && c->rows >= (int64_t)MIRRORED_ROWS_MIN * c->tasks);
}

/* A task's share: some of the columns, or of all columns some rows when there are fewer columns than tasks. The job is
 * not read: the caller may still be about to note it down. */
static struct tb_copy share(const struct tb_copy *c, int index) {
  struct tb_copy s = {.type = c->type, .beta = c->beta, .stores = c->stores, .drops = c->drops};
  s.to = c->to, s.from = c->from, s.to_ld = c->to_ld, s.from_ld = c->from_ld;
  s.rows = c->rows, s.columns = c->columns, s.region = c->region, s.mirrored = c->mirrored;
  s.pad = is_shared_by_columns(c) ? c->pad : 0; /* a task of some rows does not have their ends */
  s.pages = c->pages;
  if (is_shared_by_columns(c)) {
    int64_t first = c->columns * index / c->tasks, end = c->columns * (index + 1) / c->tasks;
    s.to = behind(c->to, c->type, first * c->to_ld);
    s.from = behind(c->from, c->type, first * c->from_ld);
    s.columns = end - first;
    s.region = tb_region_at(c->region, 0, first);
  } else {
    int64_t first = c->rows * index / c->tasks, end = c->rows * (index + 1) / c->tasks;
    s.to = behind(c->to, c->type, first);
    s.from = behind(c->from, c->type, first);
    s.rows = end - first;
    s.region = tb_region_at(c->region, first, 0);
  }
  return s;
}

static void copy_task(void *context, int index) {
  struct tb_copy s = share(context, index);
  tb_pages_before_write(s.pages, s.to, ((s.columns - 1) * s.to_ld + s.rows) * tb_type_bytes(s.type));
  if (s.to_ld == s.rows && s.from_ld == s.rows && s.region.of == TB_WHOLE) {
    s.rows *= s.columns; /* one long column */
    s.columns = 1;
  }
  for (int64_t j = 0; j < s.columns; j++) copy_column(&s, j);
  if (s.mirrored) copy_mirrored(&s);
  if (s.stores == TB_STORES_STREAMED) end_stream();
}

/* Of so many all threads have come before the last pieces do. What the caller copies alone of these, 256 KiB in 30 to
 * 50 microseconds, nobody else does, and who copies does not see what arrives. (One H200, three turns, medians of 50
 * calls, ms, without and with many tasks: 11008 x 512 x 4096, A kept, 0.930, 0.863, 0.868 and 0.854, 0.845, 0.850; 1536
 * cubed 0.672, 0.730, 0.706 and 0.665, 0.675, 0.678; 2048 cubed 1.02 and 1.02.) */
#define AWAKE_BYTES ((int64_t)4 << 20)

/* Small pieces of much: the threads that wake for the others have them, too, instead of the caller alone, who is to
 * send them. */
enum tb_tasks tb_tasks_up(bool is_large, enum tb_stores stores, int64_t bytes, int64_t all_bytes) {
  if (is_large && stores == TB_STORES_CACHED) return TB_TASKS_FEW;
  return bytes < TB_COPY_ALONE_BYTES && all_bytes >= AWAKE_BYTES ? TB_TASKS_MANY : TB_TASKS_USUAL;
}

enum tb_tasks tb_tasks_down(bool is_large, bool is_whole, int64_t all_bytes) {
  if (is_whole) return is_large ? TB_TASKS_FEW : TB_TASKS_USUAL;
  return all_bytes >= AWAKE_BYTES ? TB_TASKS_MANY : TB_TASKS_USUAL;
}

void tb_copy_start(struct tb_pool *pool, struct tb_copy *c) {
  const int64_t bytes = tb_copy_bytes(c), least = c->cut == TB_TASKS_MANY ? 0 : TB_COPY_ALONE_BYTES;
  /* Two tasks a thread, so that one which came late does not keep the others waiting. */
  const int64_t worth = tb_max(1, bytes / task_bytes[c->cut]), most = 2 * tb_pool_threads(pool);
  c->tasks = bytes < least ? 1 : (int)tb_min(worth, most);
  c->job = tb_pool_start(pool, copy_task, c, c->tasks);
}

bool tb_copy_done(const struct tb_pool *pool, const struct tb_copy *c) { return tb_pool_done(pool, c->job); }

void tb_copy_wait(struct tb_pool *pool, const struct tb_copy *c) { tb_pool_wait(pool, c->job); }
