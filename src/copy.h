/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CPU's side of staging: blocks of a column-major matrix copied by all threads of a pool. Pure but for the memory
 * that it is given.
 */
#ifndef TB_COPY_H
#define TB_COPY_H

#include <stdint.h>

#include "pool.h"

/* to[i + j to_ld] = from[i + j from_ld] for i < rows, j < columns, by stores that pass the caches: for pinned memory
 * that only the GPU will read. */
void tb_copy_in(struct tb_pool *pool, float *to, int64_t to_ld, const float *from, int64_t from_ld, int64_t rows,
                int64_t columns);

/* c[i + j ldc] = from[i + j from_ld] + beta c[i + j ldc]; with beta = 0, c is not read. */
void tb_copy_commit(struct tb_pool *pool, float *c, int64_t ldc, float beta, const float *from, int64_t from_ld,
                    int64_t rows, int64_t columns);

#endif
