/* SPDX-License-Identifier: BSD-3-Clause */
/* A stored matrix as bytes, whatever its type: what the cache knows of an operand. Pure; thread-safe. */
#ifndef TB_STORED_H
#define TB_STORED_H

#include <stdbool.h>
#include <stdint.h>

struct tb_stored {
  const char *data;
  int64_t column_bytes, columns, pitch_bytes; /* the pitch: from a column's start to the next one's */
};

/* Of the elements; and from the first one to the last. */
static inline int64_t tb_stored_bytes(const struct tb_stored *s) { return s->columns * s->column_bytes; }
static inline int64_t tb_stored_span_bytes(const struct tb_stored *s) {
  return (s->columns - 1) * s->pitch_bytes + s->column_bytes;
}

static inline bool tb_stored_is(const struct tb_stored *s, const struct tb_stored *other) {
  return s->data == other->data && s->column_bytes == other->column_bytes && s->columns == other->columns &&
         s->pitch_bytes == other->pitch_bytes;
}

#endif
