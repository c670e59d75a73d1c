/* SPDX-License-Identifier: BSD-3-Clause */
/* trmm as one product whose kernels know of the triangle. */
#include "pipeline/triangular_internal.h"

/* A' of floats on the GPU is packed as the program has it, and brought into form only for what fp16 planes are not
 * enough for. Of several blocks two would form it at the same time. */
bool tb_triangular_reads_stored(const struct tb_triangular *t) {
  return t->plan->how == TB_BY_PLANES && t->call->type == TB_S && t->plan->ways.a == TB_IN_PLACE &&
         t->plan->blocks == 1;
}

/* A' for kernels that read nothing beside the triangle. */
struct triangle {
  CUdeviceptr address;
  int64_t ld;
  bool transposed; /* memory runs along its rows */
};
static struct triangle triangle_read(const struct tb_triangular *t) {
  const struct tb_view *const a = &t->call->a;
  if (!tb_triangular_reads_stored(t))
    return (struct triangle){tb_triangular_element_of_a(t, 0, 0), t->plan->a_ld, false};
  return (struct triangle){(CUdeviceptr)a->data, a->ld, a->transposed != t->plan->turns};
}

/* What was seen of the columns, of planes the block's, of doubles its product's. */
static int32_t *unfit_at(const struct tb_triangular *t, CUdeviceptr apart) {
  return (int32_t *)(apart + (CUdeviceptr)t->plan->unfit_at_bytes);
}

/* ---- in doubles ---- */

static struct tb_multiply whole_multiply(const struct tb_triangular *t, const struct tb_triangular_columns *b,
                                         CUdeviceptr apart) {
  const enum tb_type type = t->call->type;
  const int64_t parts = tb_kernel_parts(type), order = parts * t->call->k;
  return (struct tb_multiply){.type = tb_kernel_type(type),
                              .a = tb_triangular_element_of_a(t, 0, 0),
                              .b = b->address,
                              .d = apart,
                              .lda = t->plan->a_ld,
                              .ldb = parts * b->ld,
                              .ldd = parts * t->plan->apart_ld,
                              .m = order,
                              .n = b->sides,
                              .k = order,
                              .alpha = tb_scalar_of(type, 1),
                              .first = true,
                              .last = true};
}

static CUresult multiply_doubles(struct tb_triangular *t, const struct tb_triangular_columns *b, CUdeviceptr apart,
                                 CUstream stream) {
  const struct tb_multiply x = whole_multiply(t, b, apart);
  struct tb_fp64_args args = tb_fp64_args_of(&x);
  struct tb_fp64_plan plan;
  args.lower = t->plan->shape.lower;
  args.unfit = unfit_at(t, apart);
  const struct tb_fp64_product product = {.complex = x.type == TB_Z,
                                          .units = tb_fp64_in_units(x.type == TB_Z, false, false, &args),
                                          .m = x.m,
                                          .n = x.n,
                                          .k = x.k,
                                          .group_k =
                                              (int)tb_triangular_product(t->call, x.m, x.k, t->precision).group_k};
  if (!tb_solve_plan_triangle(&plan, &t->d->kernels.device.fp64, &product)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  t->kernel = tb_choice_name(&(struct tb_choice){.family = TB_FAMILY_FP64});
  TB_TRY(tb_cuda.cuMemsetD8Async((CUdeviceptr)args.unfit, 0, (size_t)b->sides * sizeof *args.unfit, stream));
  return tb_solve_multiply(&t->d->kernels.solve, &plan, &args, stream);
}

/* ---- from planes ---- */

static struct tb_emulated_triangle triangle_of(const struct tb_triangular *t) {
  return (struct tb_emulated_triangle){tb_kernel_parts(t->call->type), t->plan->shape.lower};
}

static CUdeviceptr packed_a(const struct tb_triangular *t) {
  return t->d->arena + (CUdeviceptr)t->plan->packed_offset_bytes;
}

CUresult tb_triangular_pack_a(struct tb_triangular *t) {
  const int64_t order = tb_kernel_parts(t->call->type) * t->call->k;
  const struct triangle a = triangle_read(t);
  struct tb_emulated_operand operand = tb_emulated_operand_at(a.address, a.ld, order, false, a.transposed);
  operand.triangle = triangle_of(t);
  operand.unit = tb_triangular_reads_stored(t) && t->call->a.unit;
  return tb_emulated_pack(&t->d->kernels.emulated, &operand, packed_a(t), NULL, 0, order, t->forming);
}

/* All of A', if anything is left that is computed from it. */
static CUresult form_for_rest(struct tb_triangular *t, const struct tb_emulated_marks *marks, CUstream stream) {
  const struct tb_view *const a = &t->call->a;
  const struct tb_triangular_panel all = {.columns = t->call->k, .rows = t->call->k};
  struct tb_triangle_form_args args = tb_triangular_form_args(t, all, (CUdeviceptr)a->data, a->ld);
  args.left = marks->left, args.left_words = marks->left_words;
  return tb_solve_form(&t->d->kernels.solve, t->call->type, &args, stream);
}

static CUresult add_corners(struct tb_triangular *t, const struct tb_triangular_columns *b, CUdeviceptr apart,
                            const struct tb_emulated_marks *marks, CUstream stream) {
  const struct triangle a = triangle_read(t);
  struct tb_triangle_corner_args corner = {.a = (const void *)a.address,
                                           .b = (const void *)b->address,
                                           .product = (void *)apart,
                                           .again = marks->again,
                                           .lda = a.ld,
                                           .ldb = b->ld,
                                           .product_ld = t->plan->apart_ld,
                                           .rows = t->call->k,
                                           .columns = b->sides,
                                           .unit = t->call->a.unit,
                                           .lower = t->plan->shape.lower,
                                           .transposed = a.transposed};
  return tb_solve_corner(&t->d->kernels.solve, t->call->type, &corner, stream);
}

static CUresult multiply_planes(struct tb_triangular *t, const struct tb_triangular_columns *b, CUdeviceptr apart,
                                CUstream stream) {
  const struct tb_emulated_kernels *const kernels = &t->d->kernels.emulated;
  const struct tb_multiply x = whole_multiply(t, b, apart);
  const struct tb_sgemm_args args = tb_sgemm_args_of(&x);
  const struct tb_choice choice = {
      .family = TB_FAMILY_EMULATED,
      .emulated = {.splits = 1, .fast = t->precision == TB_PRECISION_FAST, .beside = t->plan->streams > 1}};
  const struct tb_emulated_triangle_product product = {.triangle = triangle_of(t),
                                                       .args = &args,
                                                       .packed_a = packed_a(t),
                                                       .packed_b = apart + (CUdeviceptr)t->plan->planes_at_bytes,
                                                       .workspace = apart + (CUdeviceptr)t->plan->work_at_bytes,
                                                       .way = &choice.emulated};
  struct tb_emulated_operand of_b = tb_emulated_operand_at(b->address, x.ldb, x.n, true, true);
  struct tb_emulated_marks marks;
  t->kernel = tb_choice_name(&choice);
  of_b.unfit = unfit_at(t, apart);
  TB_TRY(tb_emulated_pack(kernels, &of_b, product.packed_b, NULL, 0, x.k, stream));
  TB_TRY(tb_emulated_multiply_triangle(kernels, &product, &marks, stream));
  if (tb_triangular_reads_stored(t)) TB_TRY(form_for_rest(t, &marks, stream));
  TB_TRY(tb_emulated_multiply_triangle_rest(kernels, &product, stream));
  return add_corners(t, b, apart, &marks, stream);
}

/* ---- a block ---- */

CUresult tb_triangular_launch_whole(struct tb_triangular *t, const struct tb_triangular_columns *b, CUdeviceptr apart,
                                    CUstream stream) {
  const struct tb_solve_kernels *const kernels = &t->d->kernels.solve;
  const enum tb_type type = t->call->type;
  const bool planes = t->plan->how == TB_BY_PLANES;
  const int64_t order = t->call->k, ld = t->plan->apart_ld;
  const struct triangle a = triangle_read(t);
  void *const block = (void *)b->address, *const product = (void *)apart;
  struct tb_triangle_copy_args back = {
      .from = product, .to = block, .from_ld = ld, .to_ld = b->ld, .rows = order, .columns = b->sides};
  struct tb_triangle_repair_args repair = {.a = (const void *)a.address,
                                           .b = block,
                                           .product = product,
                                           .unfit = unfit_at(t, apart),
                                           .lda = a.ld,
                                           .ldb = b->ld,
                                           .product_ld = ld,
                                           .rows = order,
                                           .columns = b->sides,
                                           .unfit_ld = planes ? tb_emulated_padded_sides(true, b->sides) : 0,
                                           .unfit_parts =
                                               planes ? (int32_t)tb_emulated_groups(tb_kernel_parts(type) * order) : 1,
                                           .unit = t->call->a.unit,
                                           .lower = t->plan->shape.lower,
                                           .transposed = a.transposed};
  TB_TRY(planes ? multiply_planes(t, b, apart, stream) : multiply_doubles(t, b, apart, stream));
  TB_TRY(tb_solve_repair(kernels, type, &repair, stream));
  return t->plan->turns ? CUDA_SUCCESS : tb_solve_copy(kernels, type, &back, stream);
}
