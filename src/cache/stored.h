/* SPDX-License-Identifier: BSD-3-Clause */
/* A stored matrix as bytes, whatever its type: what the cache knows of an operand. Pure; thread-safe. */
#ifndef TB_STORED_H
#define TB_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "blas/call.h"

struct tb_stored {
  const char *data;
  int64_t column_bytes, columns, pitch_bytes; /* the pitch: from a column's start to the next one's */
};

/* Of the elements; and from the first one to the last. */
static inline int64_t tb_stored_bytes(const struct tb_stored *s) { return s->columns * s->column_bytes; }
static inline int64_t tb_stored_span_bytes(const struct tb_stored *s) {
  return (s->columns - 1) * s->pitch_bytes + s->column_bytes;
}

/* A general operand op(X) of rows x columns. */
static inline struct tb_stored tb_stored_of(const struct tb_view *x, int64_t rows, int64_t columns) {
  const int64_t bytes = tb_type_bytes(x->type);
  return (struct tb_stored){.data = (const char *)x->data,
                            .column_bytes = (x->transposed ? columns : rows) * bytes,
                            .columns = x->transposed ? rows : columns,
                            .pitch_bytes = x->ld * bytes};
}

static inline bool tb_stored_is(const struct tb_stored *s, const struct tb_stored *other) {
  return s->data == other->data && s->column_bytes == other->column_bytes && s->columns == other->columns &&
         s->pitch_bytes == other->pitch_bytes;
}

#endif
