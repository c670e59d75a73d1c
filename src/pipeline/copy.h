/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CPU's side of staging: blocks of a column-major matrix copied by all threads of a pool. Pure but for the memory
 * that it is given. A copy of less than TB_COPY_ALONE_BYTES is done by the caller before its start returns: to hand it
 * to other threads would cost as much as it saves, unless these are awake.
 */
#ifndef TB_COPY_H
#define TB_COPY_H

#include "blas/region.h"
#include "blas/type.h"
#include "pipeline/pages.h"
#include "process/pool.h"

#define TB_COPY_ALONE_BYTES ((int64_t)256 << 10)

/* What becomes of the lines that a copy writes. */
enum tb_stores {
  TB_STORES_CACHED,
  TB_STORES_STREAMED,    /* with beta = 0: they pass the caches, for the CPU will not read them soon */
  TB_STORES_WRITTEN_BACK /* they pass through the caches, and do not stay there changed: a GPU reads them at once */
};

/* Into how many tasks it is cut. */
enum tb_tasks {
  TB_TASKS_USUAL,
  TB_TASKS_FEW, /* other copies are under way: threads that find none of its tasks left have theirs to do */
  TB_TASKS_MANY /* threads are awake and will soon have nothing else to do: each is to have some of it */
};

/* Of a piece of so many bytes, of so many that go up in all. */
enum tb_tasks tb_tasks_up(bool is_large, enum tb_stores stores, int64_t bytes, int64_t all_bytes);

/* Of what comes down, so many bytes in all: a piece as large as any, or one of the smaller last ones. */
enum tb_tasks tb_tasks_down(bool is_large, bool is_whole, int64_t all_bytes);

/*
 * to[i + j to_ld] = from[i + j from_ld] + beta to[i + j to_ld], rows x columns, where `to` is not read if beta = 0.
 * Both leading dimensions are at least rows. Of a region alone that is done for its elements; a Hermitian one's beta is
 * real, and what it has of the diagonal is. Mirror images are taken at the region's diagonal, which `from` may have
 * elsewhere than in what is copied: element (i, j) is that of (j + diagonal, i - diagonal), of a Hermitian one its
 * conjugate. The caller fills it and leaves it alone until it is done.
 */
struct tb_copy {
  enum tb_type type;
  union tb_scalar beta;
  enum tb_stores stores;
  bool drops; /* what was read leaves the caches, for a GPU to write there next */
  enum tb_tasks cut;
  void *to;
  const void *from;
  int64_t to_ld, from_ld, rows, columns; /* in elements */
  int64_t pad;                           /* elements behind each column of `to` that may be written, and nobody reads */
  struct tb_region region;
  struct tb_pages *pages; /* of a `to` that was just allocated; NULL: of none */
  bool mirrored;          /* beta is 0, and elements outside the region are read from their mirror images */
  int tasks;              /* from here on it is copy.c's */
  uint64_t job;           /* of the pool; 0: done */
};

static inline int64_t tb_copy_bytes(const struct tb_copy *c) { return c->rows * c->columns * tb_type_bytes(c->type); }

void tb_copy_start(struct tb_pool *pool, struct tb_copy *copy);
bool tb_copy_done(const struct tb_pool *pool, const struct tb_copy *copy);

/* Takes part until it is done. */
void tb_copy_wait(struct tb_pool *pool, const struct tb_copy *copy);

#endif
