/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "cache/hash.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/integers.h"

__extension__ typedef unsigned __int128 wide;

/* What is multiplied at a time: two words of the matrix. */
#define NH_STEP_BYTES 16
#define NH_STEP_WORDS (NH_STEP_BYTES / 8)
/* The second sum's key begins a step behind the first one's. A page of short pieces, each filled up to a step, takes no
 * more than a cell and one step for each of its ends. */
#define KEY_WORDS (TB_CELL_BYTES / 8 + 4 * NH_STEP_WORDS)

static uint64_t key[KEY_WORDS];
static atomic_int key_state; /* NO_KEY, and what follows */
enum { NO_KEY, MAKING_KEY, HAS_KEY };

/* Not by the C library's function: it may wait for the kernel to have gathered enough, which took minutes on some. */
#define WITHOUT_WAITING 1 /* GRND_NONBLOCK */

static bool fill_key(void) {
  const int saved_errno = errno;
  size_t filled = 0;
  while (filled < sizeof key) {
    const long got = syscall(SYS_getrandom, (char *)key + filled, sizeof key - filled, WITHOUT_WAITING);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += (size_t)got;
  }
  errno = saved_errno;
  return filled == sizeof key;
}

bool tb_hash_begin(void) {
  int none = NO_KEY;
  if (atomic_load_explicit(&key_state, memory_order_acquire) == HAS_KEY) return true;
  if (!atomic_compare_exchange_strong(&key_state, &none, MAKING_KEY)) return none == HAS_KEY;
  const bool filled = fill_key();
  atomic_store_explicit(&key_state, filled ? HAS_KEY : NO_KEY, memory_order_release);
  return filled;
}

const uint64_t *tb_hash_key(int64_t *bytes) {
  *bytes = sizeof key;
  return key;
}

void tb_hash_after_fork(void) {
  int making = MAKING_KEY;
  atomic_compare_exchange_strong(&key_state, &making, NO_KEY);
}

struct hashing {
  wide sum[2];
  const uint64_t *key;
};

static inline __attribute__((always_inline)) void add_step(struct hashing *h, const char *bytes, const uint64_t *k) {
  uint64_t m[NH_STEP_WORDS];
  memcpy(m, bytes, NH_STEP_BYTES);
  h->sum[0] += (wide)(m[0] + k[0]) * (m[1] + k[1]);
  h->sum[1] += (wide)(m[0] + k[2]) * (m[1] + k[3]);
}

/* The last bytes are filled up with zeros: cells that are compared have the same sizes. */
static void add_bytes(struct hashing *h, const char *bytes, int64_t count) {
  const int64_t whole = count / NH_STEP_BYTES * NH_STEP_BYTES;
  const uint64_t *k = h->key;
  for (int64_t at = 0; at < whole; at += NH_STEP_BYTES, k += NH_STEP_WORDS) add_step(h, bytes + at, k);
  if (whole < count) {
    char rest[NH_STEP_BYTES] = {0};
    memcpy(rest, bytes + whole, (size_t)(count - whole));
    add_step(h, rest, k);
    k += NH_STEP_WORDS;
  }
  h->key = k;
}

static struct tb_digest digest_of(const struct hashing *h) {
  return (struct tb_digest){
      {(uint64_t)h->sum[0], (uint64_t)(h->sum[0] >> 64), (uint64_t)h->sum[1], (uint64_t)(h->sum[1] >> 64)}};
}

/* ---- cells ---- */

struct tb_cells tb_cells_of(const struct tb_stored *s) {
  struct tb_cells cells = {.in_column = tb_ceil_div(s->column_bytes, TB_CELL_BYTES), .columns_each = 1};
  if (cells.in_column == 1 && s->part == TB_STORED_ALL)
    cells.columns_each = TB_CELL_BYTES / tb_round_up(s->column_bytes, NH_STEP_BYTES);
  cells.count = cells.in_column * tb_ceil_div(s->columns, cells.columns_each);
  return cells;
}

struct tb_stored tb_cell(const struct tb_stored *s, const struct tb_cells *cells, int64_t cell) {
  const int64_t column = cell / cells->in_column * cells->columns_each;
  const struct tb_stored_run run = tb_stored_column(s, column);
  const int64_t begin = cell % cells->in_column * TB_CELL_BYTES, end = tb_min(begin + TB_CELL_BYTES, run.end);
  const int64_t start = tb_min(tb_max(begin, run.first), begin + TB_CELL_BYTES);
  return (struct tb_stored){.data = s->data + column * s->pitch_bytes + start,
                            .column_bytes = tb_max(end - start, 0),
                            .columns = tb_min(cells->columns_each, s->columns - column),
                            .pitch_bytes = s->pitch_bytes};
}

struct tb_digest tb_hash_cell(const struct tb_stored *cell) {
  struct hashing h = {.key = key};
  for (int64_t column = 0; column < cell->columns; column++)
    add_bytes(&h, cell->data + column * cell->pitch_bytes, cell->column_bytes);
  return digest_of(&h);
}

/* ---- samples ---- */

#define SAMPLE_BYTES 64

struct place {
  int64_t column, start; /* in bytes */
};

/* Of a triangle, whose element stands for its mirror image. */
static struct place stored_place(const struct tb_stored *s, int64_t column, int64_t start) {
  const struct tb_stored_run run = tb_stored_column(s, column);
  if (start >= run.first && start < run.end) return (struct place){column, start};
  const int64_t element = s->column_bytes / s->columns;
  return (struct place){start / element, column * element + start % element};
}

/* One in each of so many equal parts of the bytes, or of a square's, each elsewhere in its part. */
struct tb_digest tb_hash_sample(const struct tb_stored *s, int lines) {
  struct hashing h = {.key = key};
  const int64_t bytes = s->columns * s->column_bytes, part = bytes / lines;
  for (int64_t i = 0; i < lines; i++) {
    const int64_t at = i * part + i * 0x9E3779B1 % tb_max(part, 1);
    const struct place p = stored_place(s, at / s->column_bytes, at % s->column_bytes);
    add_bytes(&h, s->data + p.column * s->pitch_bytes + p.start,
              tb_min(SAMPLE_BYTES, tb_stored_column(s, p.column).end - p.start));
  }
  return digest_of(&h);
}

/* ---- edges ---- */

struct tb_digest tb_hash_between(const struct tb_stored *s, uintptr_t from, uintptr_t to) {
  struct hashing h = {.key = key};
  const int64_t first = (int64_t)(from - (uintptr_t)s->data), last = (int64_t)(to - (uintptr_t)s->data);
  for (int64_t column = first / s->pitch_bytes; column < s->columns && column * s->pitch_bytes < last; column++) {
    const struct tb_stored_run run = tb_stored_column(s, column);
    const int64_t start = column * s->pitch_bytes;
    const int64_t begin = tb_max(start + run.first, first), end = tb_min(start + run.end, last);
    if (begin < end) add_bytes(&h, s->data + begin, end - begin);
  }
  return digest_of(&h);
}
