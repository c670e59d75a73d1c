/* SPDX-License-Identifier: BSD-3-Clause */
/* trmm and trsm, or some of their sides, on one GPU: cut for the memory there is, and computed. */
#include "pipeline/triangular.h"

#include "base/options.h"
#include "offload/part.h"

/* As part.c has them. */
#define TRIANGULAR_SPARE_FRACTION 10
#define TRIANGULAR_RESERVE_TRIES 5

/* In blocks of at most so many columns. */
static bool plan_in_blocks(struct tb_triangular_plan *plan, struct tb_device *d, const struct tb_call *call,
                           struct tb_ways ways, enum tb_triangular_how how, int64_t most, int64_t budget) {
  const int64_t block = tb_min(most, tb_triangular_block_wish(call, ways, how));
  const int64_t workspace_bytes = how == TB_BY_HALVES ? tb_triangular_workspace(d, call, block) : 0;
  return tb_triangular_plan_make(plan, call, ways, how, tb_solve_leaf(&d->kernels.device.fp64, call), block,
                                 workspace_bytes, budget);
}

/* Where the whole is too large so are its parts, and it has to be halved; and where its blocks are narrower than the
 * bits allow so are theirs: neither by how many GPUs it is computed shows, nor what is kept. */
static bool plan_triangle(struct tb_part *part, struct tb_device *d, struct tb_ways ways, int64_t budget) {
  struct tb_triangular_plan *const plan = &part->triangular.plan;
  const struct tb_call whole = tb_triangular_whole(&part->call);
  const bool again = part->call.whole_sides > 0 || tb_keep_any(&part->keep);
  enum tb_triangular_how how = tb_triangular_how(d, &whole);
  bool fits = plan_in_blocks(plan, d, &whole, ways, how, INT64_MAX, budget);
  if (!fits && how == TB_BY_PLANES) {
    how = TB_BY_HALVES; /* which need less */
    fits = plan_in_blocks(plan, d, &whole, ways, how, INT64_MAX, budget);
  }
  if (fits && again) fits = plan_in_blocks(plan, d, &part->call, part->keep.ways, how, plan->block, budget);
  part->triangular.too_large = !fits;
  return fits;
}

/* CUDA_ERROR_OUT_OF_MEMORY: it cannot be done, or is too large. */
static CUresult plan_and_reserve(struct tb_part *part, struct tb_device *d, struct tb_ways ways) {
  const struct tb_triangular_plan *const plan = &part->triangular.plan;
  const int64_t limit = tb_option_number(TB_OPTION_memory_limit);
  int64_t free_bytes, budget = limit > 0 ? limit : INT64_MAX;
  tb_device_trim(d, budget); /* the limit may be younger than the arenas */
  if (limit > 0) tb_device_trim_others(d);
  if (!plan_triangle(part, d, ways, budget)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (limit > 0 && !tb_device_keep_within(d, limit - tb_max(plan->arena_bytes, d->arena_bytes)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (plan->arena_bytes <= d->arena_bytes) return CUDA_SUCCESS;
  TB_TRY(tb_device_free_bytes(d, &free_bytes));
  budget = tb_min(budget, free_bytes - free_bytes / TRIANGULAR_SPARE_FRACTION);
  for (int attempt = 0; attempt < TRIANGULAR_RESERVE_TRIES && plan_triangle(part, d, ways, budget); attempt++) {
    const CUresult reserved = tb_device_reserve(d, plan->arena_bytes);
    if (reserved != CUDA_ERROR_OUT_OF_MEMORY) return reserved;
    tb_cuda_failed_call = NULL; /* no failure yet: there is another try */
    budget = plan->arena_bytes / 2;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The bits shall not depend on whether what is kept leaves room for the planes of a product. Within a limit they do
 * not: that is planned for as if nothing was kept. */
static bool is_short_of_memory(const struct tb_part *part, struct tb_device *d, CUresult planned) {
  const struct tb_call whole = tb_triangular_whole(&part->call);
  if (planned != CUDA_SUCCESS || tb_option_number(TB_OPTION_memory_limit) > 0)
    return planned == CUDA_ERROR_OUT_OF_MEMORY;
  return part->triangular.plan.how != tb_triangular_how(d, &whole);
}

/* alpha = 0: neither A nor B is read. */
static CUresult zero_in_place(const struct tb_call *call, struct tb_device *d) {
  const struct tb_commit zero = {
      .type = call->type, .c = (CUdeviceptr)call->c, .ldc = call->ldc, .m = call->m, .n = call->n, .beta = call->alpha};
  TB_TRY(tb_kernels_commit(&d->kernels, d->commit, &zero, d->ordered));
  TB_TRY(tb_device_wait(d, d->ordered));
  return CUDA_SUCCESS;
}

CUresult tb_triangular_part_run(struct tb_part *part, struct tb_device *d, struct tb_ways ways, bool timed,
                                bool shared) {
  struct tb_triangular_part *const t = &part->triangular;
  const struct tb_triangular_progress *const p = &t->progress;
  part->kernel = "triangle";
  if (tb_call_is_trivial(&part->call)) return zero_in_place(&part->call, d);
  TB_TRY(tb_solve_load(&d->kernels.solve, &d->kernels.device.fp64));
  if (!shared) TB_TRY(tb_keep_begin(&part->keep, d, &part->call, ways, false));
  if (shared && part->keep.failed != CUDA_SUCCESS) return part->keep.failed;
  CUresult planned = plan_and_reserve(part, d, ways);
  if (part->keep.result != NULL && is_short_of_memory(part, d, planned)) {
    tb_keep_drop_result(&part->keep, d);
    planned = plan_and_reserve(part, d, ways);
  }
  if (tb_keep_any(&part->keep) && is_short_of_memory(part, d, planned)) {
    tb_keep_give_up(&part->keep, d, &part->call, ways);
    planned = plan_and_reserve(part, d, ways);
  }
  if (planned != CUDA_SUCCESS) return planned;
  const CUresult result = tb_triangular_run(d, &part->keep.call, &t->plan, timed, &part->keep, &t->progress);
  if (result != CUDA_SUCCESS) return result;
  TB_TRY(tb_keep_end_result(&part->keep, d));
  part->kernel = tb_triangular_kernel(d);
  if (!timed) return CUDA_SUCCESS;
  if (p->up_bytes > 0) part->up_ms = tb_part_elapsed_ms(d, TB_UP_BEGIN, TB_UP_END);
  part->compute_ms = tb_part_elapsed_ms(d, TB_COMPUTE_BEGIN, TB_COMPUTE_END);
  if (p->down_bytes > 0) part->down_ms = tb_part_elapsed_ms(d, TB_DOWN_BEGIN, TB_DOWN_END);
  return CUDA_SUCCESS;
}
