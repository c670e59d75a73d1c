/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/triangular_internal.h"

#include "base/options.h"
#include "select/order.h"

/* Workspace of the kernels that do not pack for the tensor cores, at most. */
#define OTHER_WORKSPACE_BYTES ((int64_t)128 << 20)
/* And of those that do. */
#define EMULATED_WORKSPACE_BYTES ((int64_t)2 << 30)

/* ---- choosing ---- */

struct tb_product tb_triangular_product(const struct tb_call *call, int64_t m, int64_t k, int64_t precision) {
  const int64_t parts = tb_kernel_parts(call->type), sides = tb_triangular_whole_sides(call);
  struct tb_product whole = {.type = tb_kernel_type(call->type),
                             .m = parts * m,
                             .n = sides,
                             .k = parts * k,
                             .vectors = true,
                             .emulated = !tb_type_is_double(call->type) && precision != TB_PRECISION_IEEE,
                             .fast = precision == TB_PRECISION_FAST,
                             .workspace_bytes = INT64_MAX};
  whole.group_k = tb_type_is_double(call->type) ? tb_fp64_group_k(call->type == TB_Z, m, sides, k)
                                                : tb_group_k(whole.m, whole.n, whole.k);
  return whole;
}

/* With the same bits, and in less memory. */
static struct tb_choice without_splits(struct tb_choice choice) {
  choice.emulated =
      (struct tb_emulated_way){.splits = 1, .fast = choice.emulated.fast, .span_k = choice.emulated.span_k};
  return choice;
}

/* On the tensor cores, of some of the rows and columns. k is split for all of them, or for none. */
static struct tb_choice emulated_part(const struct tb_choice *whole, const struct tb_product *product, int64_t m,
                                      int64_t n) {
  return m == product->m && n == product->n ? *whole : without_splits(*whole);
}

static bool is_emulated(const struct tb_device *d, const struct tb_product *whole, struct tb_choice *choice) {
  if (!whole->emulated) return false;
  *choice = tb_select(&d->kernels.device, whole);
  return choice->family == TB_FAMILY_EMULATED;
}

/* The largest, of half of A. */
static struct tb_product largest_product(const struct tb_device *d, const struct tb_call *call) {
  const int64_t leaf = tb_solve_leaf(&d->kernels.device.fp64, call);
  const int64_t half = tb_ceil_div(tb_ceil_div(call->k, leaf), 2) * leaf;
  return tb_triangular_product(call, half, half, tb_option_number(TB_OPTION_precision));
}

/* With fewer pairs of tiles halves are sooner. (H100, strmm of 512, 6 pairs: 0.096 ms by halves and 0.108 as one
 * product; of 1024, 24 pairs: 0.185 and 0.138.) */
#define PAIRS_OF_SMS 8

static bool has_pairs_enough(const struct tb_device *d, const struct tb_product *whole) {
  const int64_t down = tb_ceil_div(whole->m, TB_EMULATED_CLUSTER * TB_EMULATED_TILE_M);
  return PAIRS_OF_SMS * down * tb_ceil_div(whole->n, TB_EMULATED_TILE_N) >= d->kernels.device.fp64.sm_count;
}

/* All of it, on the tensor cores. */
static bool is_of_planes(struct tb_device *d, const struct tb_call *call, struct tb_choice *choice) {
  if (call->recipe != TB_TRIANGULAR_MULTIPLY || tb_type_is_double(call->type)) return false;
  const struct tb_product whole = tb_triangular_product(call, call->k, call->k, tb_option_number(TB_OPTION_precision));
  return has_pairs_enough(d, &whole) && is_emulated(d, &whole, choice);
}

enum tb_triangular_how tb_triangular_how(struct tb_device *d, const struct tb_call *call) {
  struct tb_choice choice;
  if (tb_triangular_is_one_product(call)) return TB_BY_DOUBLES;
  return is_of_planes(d, call, &choice) ? TB_BY_PLANES : TB_BY_HALVES;
}

struct tb_choice tb_triangular_choose(struct tb_device *d, const struct tb_call *call) {
  struct tb_choice choice;
  if (tb_type_is_double(call->type)) return (struct tb_choice){.family = TB_FAMILY_FP64};
  if (is_of_planes(d, call, &choice)) return without_splits(choice);
  const struct tb_product product = largest_product(d, call);
  return tb_select(&d->kernels.device, &product);
}

int64_t tb_triangular_workspace(struct tb_device *d, const struct tb_call *call, int64_t block) {
  struct tb_choice choice;
  if (call->k <= tb_solve_leaf(&d->kernels.device.fp64, call)) return 0;
  const struct tb_product whole = largest_product(d, call);
  if (is_emulated(d, &whole, &choice)) {
    choice = emulated_part(&choice, &whole, whole.m, block);
    return tb_min(tb_workspace_bytes(whole.m, block, whole.k, &choice), EMULATED_WORKSPACE_BYTES);
  }
  const int64_t sums = 8 * whole.m * block * tb_type_bytes(whole.type);
  return tb_min(sums + tb_packed_bytes(whole.m, block, whole.k), OTHER_WORKSPACE_BYTES);
}

/* Columns for which there is room, of m rows: all n, or fewer at once, between which the bits do not show. 0: there is
 * room for none; that does not depend on m and n, for how B is cut decides nothing. */
static int64_t columns_at_once(const struct tb_product *whole, int64_t m, int64_t n, struct tb_choice *choice,
                               int64_t room_bytes) {
  const int64_t least = tb_min(whole->n, TB_TRIANGULAR_BLOCK_STEP);
  const struct tb_choice of_whole = *choice, of_least = emulated_part(&of_whole, whole, whole->m, least);
  if (tb_workspace_bytes(whole->m, least, whole->k, &of_least) > room_bytes) return 0;
  for (;; n = tb_round_up(n / 2, TB_TRIANGULAR_BLOCK_STEP)) {
    *choice = emulated_part(&of_whole, whole, m, n);
    if (tb_workspace_bytes(m, n, whole->k, choice) <= room_bytes) return n;
    *choice = without_splits(of_whole);
    if (n <= least || tb_workspace_bytes(m, n, whole->k, choice) <= room_bytes) return n;
  }
}

static void choose_product(struct tb_triangular *t, struct tb_triangular_product *p, int64_t room_bytes) {
  const struct tb_kernels *const kernels = &t->d->kernels;
  const int64_t parts = tb_kernel_parts(t->call->type);
  struct tb_product product = tb_triangular_product(t->call, p->whole_m, p->k, t->precision);
  p->group_k = product.group_k;
  p->columns = 0;
  if (is_emulated(t->d, &product, &p->choice))
    p->columns = columns_at_once(&product, parts * p->m, p->n, &p->choice, room_bytes);
  if (p->columns > 0) {
    p->choice.emulated.beside = t->plan->streams > 1;
    return;
  }
  p->columns = p->n;
  product.emulated = false;
  product.m = parts * p->m;
  product.n = p->n;
  product.workspace_bytes = room_bytes;
  p->choice = tb_select(&kernels->device, &product);
}

/* The way of fp64 is its plan. */
static bool plan_product(struct tb_triangular *t, struct tb_triangular_product *p, int64_t room_bytes) {
  const struct tb_fp64_product product = {
      .complex = t->call->type == TB_Z, .units = p->units, .m = p->m, .n = p->n, .k = p->k, .group_k = (int)p->group_k};
  return tb_fp64_plan_make(&p->fp64, &t->d->kernels.device.fp64, &product, room_bytes);
}

/* Of a step, for n columns. NULL: the device runs none of our kernels. */
static struct tb_triangular_product *product_for(struct tb_triangular *t, const struct tb_triangular_step *step,
                                                 int64_t n, bool units) {
  const int64_t m = step->size, whole_m = step->whole_size, k = step->source_size;
  const uint64_t hash = (uint64_t)m * 0x9e3779b97f4a7c15u ^ (uint64_t)n * 0xc2b2ae3d27d4eb4fu ^
                        (uint64_t)k * 0x165667b1u ^ (uint64_t)whole_m * 0xff51afd7ed558ccdu;
  struct tb_triangular_product *p = &t->product[(hash >> 32) % TB_TRIANGULAR_PRODUCTS];
  if (p->m == m && p->n == n && p->k == k && p->whole_m == whole_m && p->units == units) return p;
  *p = (struct tb_triangular_product){.m = m, .n = n, .k = k, .whole_m = whole_m, .units = units};
  const int64_t room_bytes = t->plan->workspace_bytes;
  choose_product(t, p, room_bytes);
  const bool there =
      p->choice.family != TB_FAMILY_NONE && (p->choice.family != TB_FAMILY_FP64 || plan_product(t, p, room_bytes));
  if (!there) p->m = 0;
  return there ? p : NULL;
}

/* ---- launching ---- */

CUdeviceptr tb_triangular_element_of_a(const struct tb_triangular *t, int64_t i, int64_t j) {
  const int64_t parts = tb_kernel_parts(t->call->type);
  return t->d->arena + (CUdeviceptr)(parts * (i + j * t->plan->a_ld) * tb_type_bytes(tb_kernel_type(t->call->type)));
}

static CUresult launch_leaf(struct tb_triangular *t, const struct tb_triangular_columns *b,
                            const struct tb_triangular_step *step, CUstream stream) {
  struct tb_triangle_leaf_args args = {.a = (const void *)tb_triangular_element_of_a(t, step->first, step->first),
                                       .b = (void *)tb_triangular_row_of_block(t, b, step->first),
                                       .lda = t->plan->a_ld,
                                       .ldb = b->ld,
                                       .n = b->sides,
                                       .m = (int32_t)step->size,
                                       .unit = t->call->a.unit};
  return tb_solve_leaf_launch(&t->d->kernels.solve, t->call->type, t->plan->shape.solves, t->plan->shape.lower, &args,
                              stream);
}

CUresult tb_triangular_launch(struct tb_triangular *t, const struct tb_triangular_columns *b,
                              const struct tb_triangular_step *step, struct tb_triangular_room room, CUstream stream) {
  if (t->plan->how != TB_BY_HALVES) return tb_triangular_launch_whole(t, b, room.apart, stream);
  if (step->is_leaf) return launch_leaf(t, b, step, stream);
  const enum tb_type type = t->call->type;
  const int64_t parts = tb_kernel_parts(type);
  struct tb_multiply x = {.type = tb_kernel_type(type),
                          .a = tb_triangular_element_of_a(t, step->first, step->source),
                          .b = tb_triangular_row_of_block(t, b, step->source),
                          .d = tb_triangular_row_of_block(t, b, step->first),
                          .lda = t->plan->a_ld,
                          .ldb = parts * b->ld,
                          .ldd = parts * b->ld,
                          .m = parts * step->size,
                          .n = b->sides,
                          .k = parts * step->source_size,
                          .alpha = tb_scalar_of(type, 1),
                          .last = true,
                          .padded = true};
  struct tb_fp64_args args = tb_fp64_args_of(&x);
  const bool units = tb_type_is_double(type) && tb_fp64_in_units(type == TB_Z, false, false, &args);
  const struct tb_triangular_product *p = product_for(t, step, b->sides, units);
  if (p == NULL) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (step->size * step->source_size > t->kernel_terms) {
    t->kernel_terms = step->size * step->source_size;
    t->kernel = tb_choice_name(&p->choice);
  }
  if (p->choice.family == TB_FAMILY_FP64)
    return tb_fp64_launch(&t->d->kernels.fp64, &p->fp64, false, false, &args, room.workspace, stream);
  x.group_k = p->group_k;
  for (int64_t done = 0; done < b->sides; done += p->columns) {
    x.n = tb_min(p->columns, b->sides - done);
    TB_TRY(tb_kernels_multiply(&t->d->kernels, &p->choice, &x, room.workspace, stream));
    x.b += (CUdeviceptr)(p->columns * b->ld * tb_type_bytes(type));
    x.d += (CUdeviceptr)(p->columns * b->ld * tb_type_bytes(type));
  }
  return CUDA_SUCCESS;
}
