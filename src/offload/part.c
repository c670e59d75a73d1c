/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/part.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "offload/reach.h"
#include "pipeline/lanes.h"
#include "select/order.h"
#include "select/rates.h"
#include "cuda/wait.h"

/* Device memory that stays with us from call to call, or this part of all there is, if that is more; a larger arena is
 * given back when its call is over, and any when no other follows soon (offload.c). To have one of 28 GiB and give it
 * back takes 37 ms, a twelfth of 32768 cubed, and 87 ms on each of four GPUs that do it together (H200). */
#define ARENA_KEEP_BYTES ((int64_t)2 << 30)
#define ARENA_KEEP_FRACTION 4
/* Of the free memory, the part that we leave to others: one tenth. */
#define SPARE_FRACTION 10
/* An arena that cannot be had is asked for again at half the size, so often. */
#define RESERVE_TRIES 5

static _Atomic double link_bytes_per_s;

void tb_part_set_link(double up_bytes_per_s) {
  atomic_store_explicit(&link_bytes_per_s, up_bytes_per_s, memory_order_relaxed);
}

double tb_part_link(void) { return atomic_load_explicit(&link_bytes_per_s, memory_order_relaxed); }

bool tb_part_is_large(const struct tb_call *call) {
  const double m = (double)call->m, n = (double)call->n, k = (double)call->k;
  return (m * k + k * n + tb_call_elems(call)) * (double)tb_call_bytes(call) >= TB_LARGE_BYTES;
}

/* ---- memory ---- */

static bool plan_emulated(const struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                          const struct tb_choice *whole, int64_t budget, struct tb_plan *plan) {
  return whole->family == TB_FAMILY_EMULATED && d->kernels.device.emulated &&
         tb_plan_make_emulated(plan, call, ways, &whole->emulated, budget);
}

static bool emulated_pays(const struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                          const struct tb_choice *whole, int64_t budget) {
  struct tb_plan plan;
  ways.link_bytes_per_s = 0;
  return plan_emulated(d, call, ways, whole, budget, &plan) && tb_plan_emulated_pays(&plan, call);
}

/* For the tensor cores when the whole product is theirs, unless somebody else has taken the memory for that. */
static bool cut_for(const struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                    const struct tb_choice *whole, int64_t budget, struct tb_plan *plan) {
  return plan_emulated(d, call, ways, whole, budget, plan) || tb_plan_make(plan, call, ways, budget);
}

/* Cuts the call for the memory there is, and has the arena ready. CUDA_ERROR_OUT_OF_MEMORY: it cannot be done. */
static CUresult cut_and_reserve(struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                                const struct tb_choice *whole, struct tb_plan *plan) {
  int64_t limit = tb_option_number(TB_OPTION_memory_limit), free_bytes;
  int64_t budget = limit > 0 ? limit : INT64_MAX;
  tb_device_trim(d, budget); /* the limit may be younger than the arenas */
  if (limit > 0) tb_device_trim_others(d);
  if (!cut_for(d, call, ways, whole, budget, plan)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (limit > 0 && !tb_device_keep_within(d, limit - tb_max(plan->arena_bytes, d->arena_bytes)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (plan->arena_bytes <= d->arena_bytes) return CUDA_SUCCESS;
  TB_TRY(tb_device_free_bytes(d, &free_bytes));
  budget = tb_min(budget, free_bytes - free_bytes / SPARE_FRACTION);
  for (int attempt = 0; attempt < RESERVE_TRIES; attempt++) {
    const bool split =
        (budget == limit || emulated_pays(d, call, ways, whole, budget)) && /* the limit: it was chosen */
        plan_emulated(d, call, ways, whole, budget, plan);
    if (!split && !tb_plan_make(plan, call, ways, budget)) break;
    CUresult reserved = tb_device_reserve(d, plan->arena_bytes);
    if (reserved != CUDA_ERROR_OUT_OF_MEMORY) return reserved;
    tb_cuda_failed_call = NULL;     /* no failure yet: there is another try */
    budget = plan->arena_bytes / 2; /* somebody else was quicker, or the free memory is in pieces */
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The same of a call beside others. How it is cut shows in its bits, and shall not depend on what others have: it is
 * cut as when it is alone, or TB_CROWDED. */
static CUresult cut_and_reserve_beside(struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                                       const struct tb_choice *whole, struct tb_plan *plan) {
  int64_t free_bytes;
  if (!cut_for(d, call, ways, whole, INT64_MAX, plan)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (plan->arena_bytes <= d->arena_bytes) return CUDA_SUCCESS;
  TB_TRY(tb_device_free_bytes(d, &free_bytes));
  if (plan->arena_bytes > free_bytes - free_bytes / SPARE_FRACTION) return TB_CROWDED;
  const CUresult reserved = tb_device_reserve(d, plan->arena_bytes);
  if (reserved != CUDA_ERROR_OUT_OF_MEMORY) return reserved;
  tb_cuda_failed_call = NULL; /* no failure of the call's */
  return TB_CROWDED;
}

static CUresult get_room(struct tb_part *part, struct tb_device *d) {
  const struct tb_keep *const x = &part->keep;
  if (!d->beside_others) return cut_and_reserve(d, &x->call, x->ways, &part->whole, &part->plan);
  if (!tb_lanes_hold_memory(d->lanes)) return TB_CROWDED;
  const CUresult reserved = tb_lanes_are_open(d->lanes)
                                ? cut_and_reserve_beside(d, &x->call, x->ways, &part->whole, &part->plan)
                                : cut_and_reserve(d, &x->call, x->ways, &part->whole, &part->plan);
  tb_lanes_release_memory(d->lanes);
  return reserved;
}

/* Of what may be kept, lanes that are open beside each other have these parts. */
static int64_t kept_bytes(const struct tb_device *d) {
  const int64_t keep_bytes = tb_max(ARENA_KEEP_BYTES, d->memory_bytes / ARENA_KEEP_FRACTION);
  if (!d->beside_others || !tb_lanes_are_open(d->lanes)) return keep_bytes;
  return d->lane == 0 ? keep_bytes - (TB_LANES - 1) * (keep_bytes / (2 * TB_LANES)) : keep_bytes / (2 * TB_LANES);
}

void tb_part_tidy(struct tb_device *d) {
  tb_device_order_slots(d);
  const int64_t keep_bytes = kept_bytes(d);
  if (d->arena_bytes <= keep_bytes || tb_device_enter(d) != CUDA_SUCCESS) return;
  tb_device_trim(d, keep_bytes);
  tb_device_leave();
}

/* ---- the GPU's way ---- */

double tb_part_elapsed_ms(const struct tb_device *d, enum tb_mark begin, enum tb_mark end) {
  float milliseconds = 0;
  if (tb_cuda.cuEventElapsedTime(&milliseconds, d->marks[begin], d->marks[end]) != CUDA_SUCCESS) return 0;
  return milliseconds;
}

/* Whether the kernels may copy 16 bytes at a time: of a tile what holds for the first, whose edges are a multiple of it
 * from the others'. */
static bool tiles_are_vectors(const struct tb_call *call, const struct tb_plan *plan) {
  if (call->type != TB_S) return true; /* who computes the others sees for itself */
  struct tb_sgemm_args args = {.m = call->m, .n = call->n, .padded = true};
  if (plan->ways.a == TB_IN_PLACE) args.a = call->a.data, args.lda = call->a.ld, args.padded = false;
  if (plan->ways.b == TB_IN_PLACE) args.b = call->b.data, args.ldb = call->b.ld, args.padded = false;
  return tb_kernels_vectors(call->a.transposed, call->b.transposed, &args);
}

/* tb_select, unless it is the same product again, as in most programs' loops: a selection takes most of a microsecond,
 * of five that a call takes the host whose operands are on the GPU. */
static struct tb_choice selected(struct tb_device *d, enum tb_selected_for what, const struct tb_product *product) {
  struct tb_selected *latest = &d->selected[what];
  if (!tb_product_is(&latest->product, product))
    *latest = (struct tb_selected){*product, tb_select(&d->kernels.device, product)};
  return latest->choice;
}

/* Alignment does not count: the same numbers elsewhere in memory shall give the same bits. Nor does how many GPUs have
 * a part of the product, each within the limit of memory: the product as a whole counts. */
struct tb_choice tb_part_choose(struct tb_device *d, const struct tb_call *call, struct tb_ways ways) {
  if (call->recipe != TB_MULTIPLY) return tb_triangular_choose(d, call);
  if (tb_type_is_double(call->type)) return (struct tb_choice){.family = TB_FAMILY_FP64};
  const int64_t precision = tb_option_number(TB_OPTION_precision), parts = tb_kernel_parts(call->type);
  const struct tb_product product = {.m = parts * call->m,
                                     .n = call->n,
                                     .k = parts * call->k,
                                     .group_k = parts * tb_gemm_group_k(call),
                                     .transpose_a = call->a.transposed,
                                     .transpose_b = call->b.transposed,
                                     .vectors = true,
                                     .emulated = true,
                                     .fast = precision == TB_PRECISION_FAST,
                                     .workspace_bytes = INT64_MAX};
  if (precision == TB_PRECISION_IEEE || tb_call_is_trivial(call) || tb_plan_fits_one_slot(call, ways) ||
      tb_plan_is_hidden(call, ways))
    return (struct tb_choice){.family = TB_FAMILY_NONE};
  const struct tb_choice choice = selected(d, TB_SELECTED_FOR_CALL, &product);
  const int64_t limit = tb_option_number(TB_OPTION_memory_limit);
  if (choice.family != TB_FAMILY_EMULATED || limit == 0) return choice;
  if (emulated_pays(d, call, ways, &choice, limit)) return choice;
  return (struct tb_choice){.family = TB_FAMILY_NONE};
}

struct tb_ways tb_part_ways(const struct tb_call *call, const struct tb_places *places) {
  return call->recipe == TB_MULTIPLY ? tb_plan_ways(call, places) : tb_triangular_ways(places);
}

double tb_part_flops_per_s(const struct tb_device *d, const struct tb_choice *whole) {
  if (whole->family == TB_FAMILY_FP64) return tb_rate.fp64_of_peak * d->kernels.device.fp64.flops_per_second;
  const double of_peak = whole->family == TB_FAMILY_EMULATED ? tb_select_table.emulated / 100 : tb_rate.fma_of_peak;
  return of_peak * tb_device_peak_flops_per_s(d, TB_S);
}

/* A panel that arrives makes a row or a column of tiles ready at the same time, so what is chosen is chosen for a slice
 * of a row of them, or of a strip; its share of the workspace is the tiles', in the measure of its elements. */
static struct tb_choice choose_for_part(struct tb_device *d, const struct tb_call *call, const struct tb_plan *plan,
                                        const struct tb_choice *whole) {
  if (plan->emulated) {
    struct tb_choice choice = *whole;
    choice.emulated.splits = plan->way.splits;
    choice.emulated.whole = plan->way.whole;
    return choice;
  }
  const int64_t parts = tb_kernel_parts(call->type);
  struct tb_product product = {.type = tb_kernel_type(call->type),
                               .m = parts * plan->tile_m,
                               .n = plan->strips ? plan->tile_n : tb_min(call->n, plan->block_n),
                               .k = parts * plan->slice_k,
                               .group_k = parts * plan->group_k,
                               .transpose_a = call->a.transposed,
                               .transpose_b = call->b.transposed,
                               .vectors = tiles_are_vectors(call, plan),
                               .as_stored = !plan->at_once || parts > 1};
  const int64_t sums = plan->workspace_bytes / (plan->tile_m * plan->tile_n * tb_call_bytes(call));
  product.workspace_bytes =
      plan->at_once ? plan->workspace_bytes : sums * plan->tile_m * product.n * tb_call_bytes(call);
  return selected(d, TB_SELECTED_FOR_TILE, &product);
}

/* Panels of an operand that is on the device as a whole, from its first use to the end of the call; else none. */
static struct tb_panels panels_of(const struct tb_call *call, const struct tb_plan *plan, enum tb_operand operand) {
  const bool a = operand == TB_OPERAND_A;
  const bool whole = plan->chunk_k == call->k && (a ? plan->block_m == call->m : plan->block_n == call->n);
  if (!whole || !tb_way_is_by_link(tb_way_of(&plan->ways, !a))) return (struct tb_panels){0, 0, 0};
  const int64_t slices = tb_ceil_div(plan->chunk_k, plan->slice_k);
  return a ? (struct tb_panels){tb_ceil_div(call->m, plan->tile_m), plan->tile_m, slices}
           : (struct tb_panels){tb_ceil_div(call->n, plan->tile_n), plan->tile_n, slices};
}

/* What the verbose line says of fp16 planes whatever the data (kernels/PRECISION.md). */
#define FAST_KERNEL "emulated-fast, each product within 2^-21 of itself and 2^-39 of its row's and column's largest,"

static bool passes_panels(const struct tb_pass *pass) { return pass != NULL && pass->operand != TB_NO_OPERAND; }

static CUresult compute(struct tb_part *part, struct tb_device *d, bool timed, struct tb_pass *pass) {
  /* For the other kernels panels are passed on as a whole, for the tensor cores in slices if all have them. */
  if (passes_panels(pass) && !part->plan.emulated) part->plan.slice_k = part->plan.chunk_k;
  const struct tb_call *const call = &part->keep.call;
  struct tb_choice choice = choose_for_part(d, call, &part->plan, &part->whole);
  if (choice.family == TB_FAMILY_NONE) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  const bool fast = choice.family == TB_FAMILY_EMULATED && choice.emulated.fast;
  part->kernel = fast ? FAST_KERNEL : tb_choice_name(&choice);
  if (pass != NULL) tb_pass_join(pass, panels_of(&part->call, &part->plan, pass->operand));
  if (passes_panels(pass) && pass->exchange->panels.slices == 1) part->plan.slice_k = part->plan.chunk_k;
  tb_keep_begin_planes(&part->keep, d, &part->plan);
  tb_keep_begin_asker(&part->keep, d);
  TB_TRY(tb_pipeline_run(d, call, &part->plan, &choice, timed, pass, &part->keep, &part->progress));
  tb_keep_end_planes(&part->keep);
  TB_TRY(tb_keep_end_coming(&part->keep, d));
  TB_TRY(tb_keep_end_result(&part->keep, d));
  if (timed) {
    if (part->progress.up_bytes > 0) part->up_ms = tb_part_elapsed_ms(d, TB_UP_BEGIN, TB_UP_END);
    part->compute_ms = tb_part_elapsed_ms(d, TB_COMPUTE_BEGIN, TB_COMPUTE_END);
    if (part->progress.down_bytes > 0) part->down_ms = tb_part_elapsed_ms(d, TB_DOWN_BEGIN, TB_DOWN_END);
  }
  return CUDA_SUCCESS;
}

/* The bits shall not depend on whether what is kept leaves room for the whole product's kernels. */
static bool is_short_of_room(const struct tb_part *part, CUresult reserved) {
  const bool others = part->whole.family == TB_FAMILY_EMULATED && !part->plan.emulated;
  return reserved == CUDA_ERROR_OUT_OF_MEMORY || (reserved == CUDA_SUCCESS && others);
}

/* Nor on whether it leaves room for the tensor cores' where without it there is none: then it is not used. What others
 * have of half of the memory is not asked about. */
static bool has_room_without(const struct tb_part *part, struct tb_device *d, struct tb_ways ways) {
  const struct tb_call *const call = &part->call;
  const int64_t limit = tb_option_number(TB_OPTION_memory_limit);
  struct tb_plan plan;
  int64_t free_bytes;
  if (!part->plan.emulated || !plan_emulated(d, call, ways, &part->whole, INT64_MAX, &plan)) return true;
  if (plan.arena_bytes <= (limit > 0 ? limit : d->memory_bytes / 2)) return true;
  if (limit > 0) return plan_emulated(d, call, ways, &part->whole, limit, &plan);
  if (tb_device_free_bytes(d, &free_bytes) != CUDA_SUCCESS) {
    tb_cuda_failed_call = NULL; /* no failure of the call's */
    return true;
  }
  const int64_t budget = free_bytes - free_bytes / SPARE_FRACTION;
  return plan.arena_bytes <= budget || (emulated_pays(d, call, ways, &part->whole, budget) &&
                                        plan_emulated(d, call, ways, &part->whole, budget, &plan));
}

/* may_wait: a proof of what is kept. */
static CUresult try_product(struct tb_part *part, struct tb_device *d, struct tb_ways ways, bool timed,
                            struct tb_pass *pass, bool may_wait) {
  if (pass == NULL) TB_TRY(tb_keep_begin(&part->keep, d, &part->call, ways, may_wait));
  if (pass != NULL && part->keep.failed != CUDA_SUCCESS) return part->keep.failed;
  CUresult reserved = get_room(part, d);
  if (tb_keep_is_coming(&part->keep) &&
      (is_short_of_room(part, reserved) ||
       (reserved == CUDA_SUCCESS && !tb_keep_comes_once(&part->keep.call, &part->plan)))) {
    TB_TRY(tb_keep_bring_up(&part->keep, d, &part->call, ways));
    reserved = get_room(part, d);
  }
  if (part->keep.result != NULL && is_short_of_room(part, reserved)) {
    tb_keep_drop_result(&part->keep, d);
    reserved = get_room(part, d);
  }
  if (tb_keep_any(&part->keep) && is_short_of_room(part, reserved) && tb_keep_drop_planes(&part->keep, d))
    reserved = get_room(part, d);
  const bool fits = !is_short_of_room(part, reserved);
  if (tb_keep_any(&part->keep) && !(fits && has_room_without(part, d, ways))) {
    tb_keep_give_up(&part->keep, d, &part->call, ways);
    reserved = get_room(part, d);
  }
  if (reserved != CUDA_SUCCESS) return reserved;
  const bool forms = part->keep.ways.a == TB_FORMED || part->keep.ways.b == TB_FORMED;
  if (part->plan.stored_ld > 0 || forms) TB_TRY(tb_lanes_load(d, part->call.type, true));
  return compute(part, d, timed, pass);
}

/* With the device entered. */
static CUresult run_product(struct tb_part *part, struct tb_device *d, struct tb_ways ways, bool timed,
                            struct tb_pass *pass) {
  if (tb_call_is_trivial(&part->call)) {
    part->kernel = "scale";
    return tb_pipeline_scale(d, &part->call, &part->progress);
  }
  CUresult result = try_product(part, d, ways, timed, pass, true);
  if (result != TB_REFUTED) return result;
  const double made_bytes = part->keep.made_bytes; /* they went up all the same */
  tb_cuda_failed_call = NULL;                      /* nothing has failed */
  tb_device_settle(d);                             /* launches read what is not the program's operand any more */
  tb_keep_end(&part->keep, d);
  if (d->hangs) return CUDA_ERROR_TIMEOUT;
  result = try_product(part, d, ways, timed, pass, false);
  part->keep.made_bytes += made_bytes;
  return result;
}

static CUresult run(struct tb_part *part, struct tb_device *d, struct tb_ways ways, bool timed, struct tb_pass *pass) {
  const bool is_product = part->call.recipe == TB_MULTIPLY;
  const bool triangle = is_product && ((part->call.region.of != TB_WHOLE && ways.c == TB_IN_PLACE) ||
                                       ways.a == TB_FORMED || ways.b == TB_FORMED);
  TB_TRY(tb_lanes_load(d, part->call.type, triangle));
  const CUresult result =
      is_product ? run_product(part, d, ways, timed, pass) : tb_triangular_part_run(part, d, ways, timed, pass != NULL);
  if (result == TB_INTERRUPTED) return result;
  if (result != CUDA_SUCCESS && tb_keep_is_written(&part->keep)) tb_device_settle(d); /* it may be on its way there */
  tb_keep_end(&part->keep, d);
  return result;
}

/* Of a shared call what is kept was found before. */
static void begin(struct tb_part *part, struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                  const struct tb_choice *whole, bool shared) {
  part->call = *call;
  part->whole = *whole;
  part->device = d;
  part->plan = (struct tb_plan){
      .block_m = call->m, .block_n = call->n, .chunk_k = call->k, .tile_m = call->m, .tile_n = call->n};
  part->progress.committed = false;
  part->progress.block = 0;
  part->progress.up_bytes = part->progress.down_bytes = 0;
  part->triangular = (struct tb_triangular_part){.too_large = false};
  if (!shared) tb_keep_nothing(&part->keep, call, ways);
  part->keep.ways.link_bytes_per_s = ways.link_bytes_per_s;
  part->why = TB_STATUS_ok;
  part->failure[0] = '\0';
  part->kernel = NULL;
  part->up_ms = part->compute_ms = part->down_ms = 0;
  part->handed_out = false;
}

enum tb_status tb_part_judge(const struct tb_device *d, CUresult result, char *failure, size_t size) {
  const enum tb_status why = tb_reach_why(result);
  failure[0] = '\0';
  if (result == CUDA_SUCCESS || result == TB_INTERRUPTED || result == TB_CROWDED) return why;
  tb_cuda_describe_failure(result, failure, size);
  if (d->hangs) snprintf(failure, size, "no progress for %.0f s", d->patience_seconds);
  return why;
}

/* What of it counts, whoever asks. */
static void sum_up(struct tb_part *part) {
  const struct tb_triangular_progress *const t = &part->triangular.progress;
  const bool product = part->call.recipe == TB_MULTIPLY;
  part->committed = product ? part->progress.committed : t->begun || part->why == TB_STATUS_ok;
  part->bytes = product ? part->progress.up_bytes + part->progress.down_bytes : t->up_bytes + t->down_bytes;
  part->bytes += part->keep.made_bytes;
}

void tb_part_run(struct tb_part *part, struct tb_device *d, const struct tb_call *call, struct tb_ways ways,
                 const struct tb_choice *whole, bool timed, struct tb_pass *pass) {
  ways.link_bytes_per_s = tb_part_link();
  begin(part, d, call, ways, whole, pass != NULL);
  d->patience_seconds = tb_wait_seconds(tb_call_flops(call), tb_device_peak_flops_per_s(d, call->type));
  if (pass != NULL) d->patience_seconds *= 2; /* another's panels may be waited for, which is to be given up first */
  tb_cuda_failed_call = NULL;
  CUresult result = tb_device_enter(d);
  if (result == CUDA_SUCCESS) {
    result = run(part, d, ways, timed, pass);
    if (result != CUDA_SUCCESS && result != TB_INTERRUPTED) tb_device_settle(d);
    if (result != TB_INTERRUPTED) tb_device_leave();
  }
  if (pass != NULL) tb_pass_leave(pass);
  part->why = tb_part_judge(d, result, part->failure, sizeof part->failure);
  part->crowded = result == TB_CROWDED;
  sum_up(part);
}
