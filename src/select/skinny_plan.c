/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/skinny_plan.h"

#include <stddef.h>

#include "base/integers.h"
#include "select/limits.h"
#include "select/rates.h"

const struct tb_skinny_row tb_skinny_rows[TB_SKINNY_ROW_COUNT] = {
#define TB_SKINNY(columns, rows, batch, side_threads, k_threads, stages) \
  {columns, rows, batch, side_threads, k_threads, stages},
#include "skinny/skinny.def"
#undef TB_SKINNY
};

#define SECTOR_BYTES 32
#define SM_REGISTERS 65536
/* Most registers of a thread of the kernels whose X runs along k. */
#define K_REGISTERS 128
/* The grid's second dimension. */
#define SKINNY_SPLITS_MAX 65535

int tb_skinny_thread_rows(const struct tb_skinny_plan *p) {
  return !p->along_k && p->vectors ? TB_SKINNY_SIDE_ROWS : tb_skinny_rows[p->row].rows;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The widest block that is balanced over its rounds of the split's groups and fits with `panels` panels of Y, or one
 * where that is all it uses. False: not even one group does. */
static bool shape_block(struct tb_skinny_plan *p, const struct tb_sm_limits *limits, int panels) {
  const struct tb_skinny_row *row = &tb_skinny_rows[p->row];
  const int rows = p->block_rows / tb_skinny_thread_rows(p); /* threads of one chunk */
  const int most = (p->along_k ? row->k_threads : row->side_threads) / (rows * TB_SKINNY_GROUP_CHUNKS);
  for (int64_t at_once = least(most, p->groups_per_split); at_once >= 1; at_once--) {
    const int64_t rounds = tb_ceil_div(p->groups_per_split, at_once);
    p->block_chunks = (int)tb_ceil_div(p->groups_per_split, rounds) * TB_SKINNY_GROUP_CHUNKS;
    p->buffers = rounds > 1 ? panels : 1;
    p->threads = rows * p->block_chunks;
    const int64_t elems = (p->along_k ? TB_SKINNY_RING_WORDS(p->block_rows, p->block_chunks, row->stages) : 0) +
                          p->buffers * (TB_SKINNY_PANEL_WORDS(row->columns, p->block_chunks) +
                                        TB_SKINNY_SUM_WORDS(row->columns, p->block_rows, p->block_chunks)) +
                          p->block_rows * row->columns;
    if (elems * (int64_t)sizeof(float) > limits->block_shared_bytes) continue;
    p->shared_bytes = (int)(elems * (int64_t)sizeof(float));
    return true;
  }
  return false;
}

static int64_t skinny_blocks_per_sm(const struct tb_skinny_plan *p, const struct tb_sm_limits *limits) {
  const int threads = p->along_k ? SM_REGISTERS / K_REGISTERS : tb_skinny_rows[p->row].side_threads;
  const int64_t by_shared = limits->sm_shared_bytes / (p->shared_bytes + TB_SM_RESERVED_BYTES);
  const int64_t blocks = least(by_shared, threads / p->threads);
  return blocks > 1 ? blocks : 1;
}

/* The busiest SM's time. */
static double skinny_cost(const struct tb_skinny_plan *p, const struct tb_sm_limits *limits) {
  const struct tb_skinny_row *row = &tb_skinny_rows[p->row];
  const int64_t blocks = p->blocks * p->splits, resident = skinny_blocks_per_sm(p, limits);
  const int64_t mine = tb_ceil_div(blocks, limits->sm_count), waves = tb_ceil_div(mine, resident);
  const double k = (double)least(p->k, (int64_t)p->groups_per_split * TB_SGEMM_GROUP_K);
  const double element_bytes = sizeof(float);
  const double segment = tb_rate.skinny_segment_bytes / (p->block_rows * element_bytes);
  const double x = (double)p->block_rows * k * element_bytes * (p->along_k ? 1 : 1 + segment * segment),
               y = p->columns * k * element_bytes;
  const double d = (double)p->block_rows * p->columns * (p->exchanged ? SECTOR_BYTES : element_bytes);
  /* Words of X that a thread has on their way: all batches, or all stages, but one, of its rows. */
  const int batch = p->vectors ? TB_SKINNY_SIDE_BATCH : row->batch;
  const double ahead = p->along_k ? (row->stages - 1) * TB_SKINNY_STAGE_K : (TB_SKINNY_BATCHES - 1) * batch;
  const double flight = ahead * tb_skinny_thread_rows(p) * p->threads * element_bytes * (double)least(mine, resident);
  const double slow = flight < tb_rate.skinny_flight_bytes ? tb_rate.skinny_flight_bytes / flight : 1;
  /* With one panel every round starts anew. */
  const int64_t starts =
      p->buffers > 1 ? 1 : tb_ceil_div(p->groups_per_split * TB_SKINNY_GROUP_CHUNKS, p->block_chunks);
  return (double)mine * (x * slow + y + d) + (double)(waves * starts) * tb_rate.skinny_start_bytes +
         (p->splits > 1 ? tb_rate.skinny_gather_bytes + 2.0 * (double)tb_skinny_partials_bytes(p) / limits->sm_count
                        : 0);
}

/* Takes `p`, with its rows of a block and its splits, if it can be and is quicker than what `best` has. */
static void consider_skinny(struct tb_skinny_plan *p, const struct tb_sm_limits *limits, int64_t splits, int64_t groups,
                            struct tb_skinny_plan *best) {
  p->groups_per_split = (int)tb_ceil_div(groups, splits);
  p->splits = (int)tb_ceil_div(groups, p->groups_per_split);
  if (!shape_block(p, limits, 2) && !shape_block(p, limits, 1)) return;
  p->sm_bytes = skinny_cost(p, limits);
  if (best->blocks == 0 || p->sm_bytes < best->sm_bytes) *best = *p;
}

/* Every number of rows that a block has threads for. */
static void consider_rows(struct tb_skinny_plan *p, const struct tb_sm_limits *limits, bool may_split, int64_t groups,
                          struct tb_skinny_plan *best) {
  static const int units[] = {16, 12, 8, 6, 5, 4, 3, 2, 1}; /* of TB_SKINNY_ROWS */
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    p->block_rows = units[i] * TB_SKINNY_ROWS;
    p->blocks = tb_ceil_div(p->x_rows, p->block_rows);
    consider_skinny(p, limits, 1, groups, best);
    const int64_t idle = limits->sm_count / p->blocks;
    if (may_split && idle > 1 && groups > 1)
      consider_skinny(p, limits, least(least(idle, groups), SKINNY_SPLITS_MAX), groups, best);
  }
}

bool tb_skinny_plan_make(struct tb_skinny_plan *plan, const struct tb_sm_limits *limits, bool ta, bool tb, int64_t m,
                         int64_t n, int64_t k, bool vectors, int64_t partials_bytes) {
  if (!tb_skinny_takes(m, n) || m > TB_SIDE_MAX_ELEMS || n > TB_SIDE_MAX_ELEMS || k > TB_SIDE_MAX_ELEMS) return false;
  struct tb_skinny_plan p = {.m = m, .n = n, .k = k, .exchanged = m < n, .vectors = vectors};
  p.x_rows = p.exchanged ? n : m;
  p.columns = (int)(p.exchanged ? m : n);
  p.along_k = p.exchanged ? !tb : ta;
  while (tb_skinny_rows[p.row].columns < p.columns) p.row++;
  const int64_t groups = tb_ceil_div(k, TB_SGEMM_GROUP_K);
  const bool may_split = partials_bytes / (int64_t)sizeof(float) / (m * n) >= groups;

  struct tb_skinny_plan best = {.blocks = 0};
  consider_rows(&p, limits, may_split, groups, &best);
  if (vectors && !p.along_k) { /* with few threads more k of fewer rows are on their way at once */
    p.vectors = false;
    consider_rows(&p, limits, may_split, groups, &best);
  }
  *plan = best;
  return best.blocks != 0;
}

/* ---- for the selector ---- */

static int64_t sums_bytes(int64_t m, int64_t n, int64_t k) {
  return tb_ceil_div(k, TB_SGEMM_GROUP_K) * m * n * (int64_t)sizeof(float);
}

int tb_skinny_candidates(const struct tb_select_device *device, const struct tb_product *p,
                         struct tb_choice candidate[]) {
  if (!tb_skinny_is_for(device, p)) return 0;
  const int64_t groups = tb_ceil_div(p->k, TB_SGEMM_GROUP_K);
  const bool room = sums_bytes(p->m, p->n, p->k) <= p->workspace_bytes;
  candidate[0] = (struct tb_choice){.family = TB_FAMILY_SKINNY, .skinny = {.splits = room ? (int)groups : 1}};
  return 1;
}

void tb_skinny_offer(const struct tb_select_device *device, const struct tb_product *p, struct tb_best *best) {
  struct tb_choice choice;
  if (tb_skinny_candidates(device, p, &choice) > 0)
    tb_best_take(best, &choice, tb_skinny_predict_us(&tb_select_table, device, p, &choice));
}

double tb_skinny_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *p, const struct tb_choice *choice) {
  (void)choice;
  const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
  return table->skinny_us + sizeof(float) * (m * k + k * n + m * n) / (device->bytes_per_us * table->skinny / 100);
}

int64_t tb_skinny_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  return choice->skinny.splits > 1 && k > TB_SGEMM_GROUP_K ? sums_bytes(m, n, k) : 0;
}

const char *tb_skinny_name(const struct tb_choice *choice) {
  (void)choice;
  return "skinny";
}

/* ---- for the launch ---- */

void tb_skinny_arguments(struct tb_skinny_args *skinny, const struct tb_skinny_plan *plan, bool ta, bool tb,
                         const struct tb_sgemm_args *args) {
  const bool split = plan->splits > 1, exchanged = plan->exchanged;
  const int64_t d_ld = split ? plan->m : args->ldd;
  const int64_t y_ld = exchanged ? args->lda : args->ldb;
  const bool y_along_k = exchanged ? ta : !tb;
  *skinny = (struct tb_skinny_args){.x = exchanged ? args->b : args->a,
                                    .y = exchanged ? args->a : args->b,
                                    .d = split ? args->partials : args->d,
                                    .x_ld = exchanged ? args->ldb : args->lda,
                                    .y_k = y_along_k ? 1 : y_ld,
                                    .y_column = y_along_k ? y_ld : 1,
                                    .d_row = exchanged ? d_ld : 1,
                                    .d_column = exchanged ? 1 : d_ld,
                                    .d_group = split ? plan->m * plan->n : 0,
                                    .rows = plan->x_rows,
                                    .k = plan->k,
                                    .columns = plan->columns,
                                    .block_rows = plan->block_rows,
                                    .block_chunks = plan->block_chunks,
                                    .buffers = plan->buffers,
                                    .groups_per_split = plan->groups_per_split,
                                    .alpha = args->alpha,
                                    .first = args->first,
                                    .last = args->last};
}
