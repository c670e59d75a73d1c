/* SPDX-License-Identifier: BSD-3-Clause */
/* A, brought into form: panels of it that go up, or all of it where it lies. */
#include "pipeline/triangular_internal.h"

/* For one product whole squares on the diagonal are formed, also where a panel has some of their rows alone. What they
 * have of the other triangle becomes zeros. */
static struct tb_triangular_panel with_squares(const struct tb_triangular *t, struct tb_triangular_panel p) {
  if (t->plan->how == TB_BY_HALVES) return p;
  return (struct tb_triangular_panel){.first = p.first, .columns = p.columns, .rows = t->plan->shape.order};
}

struct tb_triangle_form_args tb_triangular_form_args(const struct tb_triangular *t, struct tb_triangular_panel p,
                                                     CUdeviceptr from, int64_t from_ld) {
  const struct tb_view *const a = &t->call->a;
  return (struct tb_triangle_form_args){.from = (const void *)from,
                                        .to = (void *)t->d->arena,
                                        .from_ld = from_ld,
                                        .to_ld = t->plan->a_ld,
                                        .first_row = p.row,
                                        .first_column = p.first,
                                        .rows = p.rows,
                                        .columns = p.columns,
                                        .lower = a->uplo == TB_LOWER,
                                        .transposed = a->transposed != t->plan->turns,
                                        .conjugated = a->conjugated,
                                        .unit = a->unit,
                                        .negated = t->plan->shape.solves,
                                        .squares = t->plan->how != TB_BY_HALVES};
}

/* A' is there, or can be read. */
static CUresult has_formed(struct tb_triangular *t, int64_t panels) {
  if (t->plan->how == TB_BY_PLANES && panels == t->plan->panels) TB_TRY(tb_triangular_pack_a(t));
  TB_TRY(tb_triangular_record(t, TB_TRIANGULAR_FORMED, panels - 1, t->forming));
  t->formed = panels;
  return CUDA_SUCCESS;
}

/* Panel `number` of those that are wanted, so many others before; `from` has its first element. */
static CUresult form_panel(struct tb_triangular *t, int64_t number, CUdeviceptr from, int64_t from_ld) {
  const struct tb_triangular_panel stored =
      tb_triangular_panel(t->plan, t->call, tb_triangular_wanted(t->plan, number));
  const struct tb_triangular_panel p = with_squares(t, stored);
  from -= (CUdeviceptr)((stored.row - p.row) * tb_call_bytes(t->call));
  struct tb_triangle_form_args args = tb_triangular_form_args(t, p, from, from_ld);
  TB_TRY(tb_triangular_mark_begin(t, t->forming));
  TB_TRY(tb_solve_form(&t->d->kernels.solve, t->call->type, &args, t->forming));
  return has_formed(t, number + 1);
}

CUresult tb_triangular_take_panel(struct tb_triangular *t, int64_t number, CUevent arrived) {
  const struct tb_triangular_panel p = tb_triangular_panel(t->plan, t->call, tb_triangular_wanted(t->plan, number));
  const int64_t at = t->plan->raw_offset_bytes + number % 2 * t->plan->raw_bytes;
  TB_TRY(tb_cuda.cuStreamWaitEvent(t->forming, arrived, 0));
  TB_TRY(form_panel(t, number, t->d->arena + (CUdeviceptr)at, tb_leading(t->call->type, p.rows)));
  TB_TRY(tb_cuda.cuEventRecord(t->d->half[number % 2], t->forming));
  return CUDA_SUCCESS;
}

/* Behind the first panel of an A in place the others are formed in a stream that waits for it alone: what the program's
 * threads enqueue meanwhile in the default stream holds up no solve. */
static CUresult leave_programs_stream(struct tb_triangular *t) {
  if (t->formed == 0 || t->forming == t->d->packing) return CUDA_SUCCESS;
  TB_TRY(tb_triangular_await(t, TB_TRIANGULAR_FORMED, t->formed - 1, t->d->packing));
  t->forming = t->d->packing;
  return CUDA_SUCCESS;
}

CUresult tb_triangular_form_in_place(struct tb_triangular *t, int64_t panels) {
  const struct tb_view *a = &t->call->a;
  if (tb_triangular_reads_stored(t) && t->formed == 0) {
    TB_TRY(tb_triangular_mark_begin(t, t->forming));
    return has_formed(t, t->plan->panels);
  }
  while (t->formed < tb_min(panels, t->plan->panels)) {
    const int64_t number = t->formed;
    const struct tb_triangular_panel p = tb_triangular_panel(t->plan, t->call, tb_triangular_wanted(t->plan, number));
    const void *const from = tb_elements_behind(t->call->type, a->data, p.row + p.first * a->ld);
    TB_TRY(leave_programs_stream(t));
    TB_TRY(form_panel(t, number, (CUdeviceptr)from, a->ld));
  }
  return CUDA_SUCCESS;
}
