/* SPDX-License-Identifier: BSD-3-Clause */
/* Mirror images of what is stored of a symmetric or Hermitian matrix, for panels on their way up. Pure but for the
 * memory that it is given. */
#ifndef TB_MIRROR_H
#define TB_MIRROR_H

#include <stdbool.h>

#include "base/integers.h"
#include "blas/type.h"

/* Rows and columns that are turned at a time: columns of `to` as many as fill a line of `from`, of which each is then
 * read once, and so much of them that a small stack has room. */
#define TB_MIRROR_ROWS 32
#define TB_MIRROR_BYTES (TB_MIRROR_ROWS * (int64_t)64)
static inline int64_t tb_mirror_columns(enum tb_type type) { return 64 / tb_type_bytes(type); }

/* to[i + j TB_MIRROR_ROWS] = from[j + i from_ld], `conjugated` its conjugate; so many rows and columns at most. */
void tb_mirror_turn(enum tb_type type, bool conjugated, void *to, const void *from, int64_t from_ld, int64_t rows,
                    int64_t columns);

#endif
