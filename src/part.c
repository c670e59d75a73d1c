/* SPDX-License-Identifier: BSD-3-Clause */
#include "part.h"

#include <string.h>

#include "fallback.h"
#include "options.h"

/* Device memory that stays with us between calls; a larger arena is given back when its call is over. */
#define ARENA_KEEP_BYTES ((int64_t)2 << 30)
/* Of the free memory, the part that we leave to others: one tenth. */
#define SPARE_FRACTION 10
/* An arena that cannot be had is asked for again at half the size, so often. */
#define RESERVE_TRIES 5

/* ---- memory ---- */

/* Cuts the call for the memory there is, and has the arena ready. CUDA_ERROR_OUT_OF_MEMORY: it cannot be done. */
static CUresult prepare(struct tb_device *d, const struct tb_gemm *call, struct tb_ways ways, struct tb_plan *plan) {
  int64_t limit = tb_option_number(TB_OPTION_memory_limit);
  int64_t budget = limit > 0 ? limit : INT64_MAX;
  tb_device_trim(d, budget); /* the limit may be younger than the arena */
  if (!tb_plan_make(plan, call, ways, budget)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (plan->arena_bytes <= d->arena_bytes) return CUDA_SUCCESS;
  int64_t free_bytes;
  TB_TRY(tb_device_free_bytes(d, &free_bytes));
  budget = tb_min(budget, free_bytes - free_bytes / SPARE_FRACTION);
  for (int attempt = 0; attempt < RESERVE_TRIES; attempt++) {
    if (!tb_plan_make(plan, call, ways, budget)) break;
    CUresult reserved = tb_device_reserve(d, plan->arena_bytes);
    if (reserved != CUDA_ERROR_OUT_OF_MEMORY) return reserved;
    tb_cuda_failed_call = NULL;     /* no failure yet: there is another try */
    budget = plan->arena_bytes / 2; /* somebody else was quicker, or the free memory is in pieces */
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void tb_part_tidy(struct tb_device *d) {
  if (d->arena_bytes <= ARENA_KEEP_BYTES || tb_device_enter(d) != CUDA_SUCCESS) return;
  tb_device_trim(d, ARENA_KEEP_BYTES);
  tb_device_leave();
}

/* ---- the GPU's way ---- */

static double elapsed_ms(const struct tb_device *d, enum tb_mark begin, enum tb_mark end) {
  float milliseconds = 0;
  if (tb_cuda.cuEventElapsedTime(&milliseconds, d->marks[begin], d->marks[end]) != CUDA_SUCCESS) return 0;
  return milliseconds;
}

/* Whether the kernels may copy 16 bytes at a time: of a tile what holds for the first, whose edges are a multiple of it
 * from the others'. */
static bool tiles_are_vectors(const struct tb_gemm *call, const struct tb_plan *plan) {
  struct tb_sgemm_args args = {.m = call->m, .n = call->n, .padded = true};
  if (plan->ways.a == TB_IN_PLACE) args.a = call->a.data, args.lda = call->a.ld, args.padded = false;
  if (plan->ways.b == TB_IN_PLACE) args.b = call->b.data, args.ldb = call->b.ld, args.padded = false;
  return tb_kernels_vectors(call->a.transposed, call->b.transposed, &args);
}

/* The tiles of a block are computed at the same time, so what is chosen is chosen for the block as a whole; its share
 * of the workspace is the tiles', in the measure of its elements. */
static struct tb_choice choose(const struct tb_device *d, const struct tb_gemm *call, const struct tb_plan *plan) {
  struct tb_product product = {.m = tb_min(call->m, plan->block_m),
                               .n = tb_min(call->n, plan->block_n),
                               .k = tb_min(call->k, plan->chunk_k),
                               .transpose_a = call->a.transposed,
                               .transpose_b = call->b.transposed,
                               .vectors = tiles_are_vectors(call, plan)};
  int64_t sums = plan->workspace_bytes / (plan->tile_m * plan->tile_n * (int64_t)sizeof(float));
  product.workspace_bytes = sums * product.m * product.n * (int64_t)sizeof(float);
  return tb_select(&d->kernels.device, &product);
}

static CUresult compute(struct tb_part *part, struct tb_device *d, bool timed) {
  struct tb_choice choice = choose(d, &part->call, &part->plan);
  if (choice.family == TB_FAMILY_NONE) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  part->kernel = tb_choice_name(&choice);
  TB_TRY(tb_pipeline_run(d, &part->call, &part->plan, &choice, timed, &part->progress));
  if (timed) {
    if (part->progress.up_bytes > 0) part->up_ms = elapsed_ms(d, TB_UP_BEGIN, TB_UP_END);
    part->compute_ms = elapsed_ms(d, TB_COMPUTE_BEGIN, TB_COMPUTE_END);
    if (part->progress.down_bytes > 0) part->down_ms = elapsed_ms(d, TB_DOWN_BEGIN, TB_DOWN_END);
  }
  return CUDA_SUCCESS;
}

/* With the device entered. */
static CUresult run(struct tb_part *part, struct tb_device *d, const struct tb_places *places, bool timed) {
  if (tb_gemm_is_trivial(&part->call)) {
    part->kernel = "scale";
    return tb_pipeline_scale(d, &part->call, &part->progress);
  }
  CUresult result = prepare(d, &part->call, tb_plan_ways(&part->call, places), &part->plan);
  return result == CUDA_SUCCESS ? compute(part, d, timed) : result;
}

static void begin(struct tb_part *part, const struct tb_gemm *call) {
  part->call = *call;
  part->plan = (struct tb_plan){
      .block_m = call->m, .block_n = call->n, .chunk_k = call->k, .tile_m = call->m, .tile_n = call->n};
  part->progress.committed = false;
  part->progress.block = 0;
  part->progress.up_bytes = part->progress.down_bytes = 0;
  part->why = TB_STATUS_gpu_sooner;
  part->failure[0] = '\0';
  part->kernel = NULL;
  part->up_ms = part->compute_ms = part->down_ms = 0;
}

void tb_part_run(struct tb_part *part, struct tb_device *d, const struct tb_gemm *call, const struct tb_places *places,
                 bool timed) {
  begin(part, call);
  tb_cuda_failed_call = NULL;
  CUresult result = tb_device_enter(d);
  if (result == CUDA_SUCCESS) {
    result = run(part, d, places, timed);
    if (result != CUDA_SUCCESS) tb_device_settle(d);
    tb_device_leave();
  }
  if (result == CUDA_SUCCESS) return;
  part->why = result == CUDA_ERROR_OUT_OF_MEMORY ? TB_STATUS_no_memory : TB_STATUS_gpu_failed;
  tb_cuda_describe_failure(result, part->failure, sizeof part->failure);
}

/* ---- the CPU's way ---- */

/* The columns of a block's tiles that C does not have yet. */
static void finish_block(const struct tb_gemm *call, const struct tb_plan *plan, struct tb_block block,
                         const int64_t *committed_columns) {
  int64_t columns = tb_ceil_div(block.n, plan->tile_n), rows = tb_ceil_div(block.m, plan->tile_m);
  for (int64_t tile = 0; tile < rows * columns; tile++) {
    int64_t i = tile / columns * plan->tile_m, j = tile % columns * plan->tile_n + committed_columns[tile];
    int64_t end = tb_min(tile % columns * plan->tile_n + plan->tile_n, block.n);
    if (j == end) continue;
    struct tb_gemm part = tb_gemm_part(call, block.i + i, tb_min(plan->tile_m, block.m - i), block.j + j, end - j);
    tb_fallback_gemm(&part);
  }
}

void tb_part_finish(struct tb_part *part, const struct tb_gemm *call) {
  struct tb_progress *done = &part->progress;
  if (!done->committed) {
    tb_fallback_gemm(call);
    return;
  }
  int64_t blocks = tb_layout_blocks(call, &part->plan);
  for (int64_t number = done->block; number < blocks; number++) {
    struct tb_block block = tb_layout_block(call, &part->plan, number);
    if (number > done->block) memset(done->committed_columns, 0, sizeof done->committed_columns);
    finish_block(call, &part->plan, block, done->committed_columns);
  }
}
