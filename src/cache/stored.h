/* SPDX-License-Identifier: BSD-3-Clause */
/* A stored matrix as bytes, whatever its type: what the cache knows of an operand. Pure; thread-safe. */
#ifndef TB_STORED_H
#define TB_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "blas/call.h"

/* Of which a triangle alone may be stored, if it is square: the other elements are nobody's to read. */
enum tb_stored_part { TB_STORED_ALL, TB_STORED_UPPER, TB_STORED_LOWER };

struct tb_stored {
  const char *data;
  int64_t column_bytes, columns, pitch_bytes; /* the pitch: from a column's start to the next one's */
  enum tb_stored_part part;
};

/* Of the elements; and from the first one to the last. */
static inline int64_t tb_stored_bytes(const struct tb_stored *s) {
  return s->part == TB_STORED_ALL ? s->columns * s->column_bytes : (s->columns + 1) * s->column_bytes / 2;
}
static inline int64_t tb_stored_span_bytes(const struct tb_stored *s) {
  return (s->columns - 1) * s->pitch_bytes + s->column_bytes;
}

/* Where it begins, and behind its last byte. */
static inline uintptr_t tb_stored_start(const struct tb_stored *s) { return (uintptr_t)s->data; }
static inline uintptr_t tb_stored_end(const struct tb_stored *s) {
  return (uintptr_t)s->data + (uintptr_t)tb_stored_span_bytes(s);
}

/* What of a column is stored, in bytes from its start. */
struct tb_stored_run {
  int64_t first, end;
};
static inline struct tb_stored_run tb_stored_column(const struct tb_stored *s, int64_t column) {
  const int64_t element = s->column_bytes / s->columns; /* of a square one */
  if (s->part == TB_STORED_LOWER) return (struct tb_stored_run){column * element, s->column_bytes};
  return (struct tb_stored_run){0, s->part == TB_STORED_UPPER ? (column + 1) * element : s->column_bytes};
}

/* An operand op(X) of rows x columns, of a structure that has a triangle if it is all of one. */
static inline struct tb_stored tb_stored_of(const struct tb_view *x, int64_t rows, int64_t columns) {
  const int64_t bytes = tb_type_bytes(x->type);
  const bool all = x->structure == TB_GENERAL;
  return (struct tb_stored){.data = (const char *)x->data,
                            .column_bytes = (x->transposed ? columns : rows) * bytes,
                            .columns = x->transposed ? rows : columns,
                            .pitch_bytes = x->ld * bytes,
                            .part = all                   ? TB_STORED_ALL
                                    : x->uplo == TB_UPPER ? TB_STORED_UPPER
                                                          : TB_STORED_LOWER};
}

static inline bool tb_stored_is(const struct tb_stored *s, const struct tb_stored *other) {
  return s->data == other->data && s->column_bytes == other->column_bytes && s->columns == other->columns &&
         s->pitch_bytes == other->pitch_bytes && s->part == other->part;
}

#endif
