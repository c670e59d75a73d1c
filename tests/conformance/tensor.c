/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TileBLAS with another mind: every product that may go to the tensor cores does, however small, and by the way of the
 * large ones. The suites that others wrote multiply small matrices, for which the selector would take FMAs. Linked in
 * the place of the selector and of two questions about staging by the linker's --wrap; all else is the library's.
 */
#include "plan/plan.h"
#include "select/select.h"
#include "select/emulated_plan.h"

struct tb_choice __real_tb_select(const struct tb_select_device *device, const struct tb_product *product);
struct tb_choice __wrap_tb_select(const struct tb_select_device *device, const struct tb_product *product);
bool __wrap_tb_plan_fits_one_slot(const struct tb_call *call, struct tb_ways ways);
bool __wrap_tb_plan_is_hidden(const struct tb_call *call, struct tb_ways ways);

struct tb_choice __wrap_tb_select(const struct tb_select_device *device, const struct tb_product *p) {
  const struct tb_emulated_way way = {.splits = 1, .fast = p->fast, .span_k = tb_emulated_span_k(p->m, p->n, p->k)};
  if (!device->emulated || !p->emulated || tb_emulated_bytes(p->m, p->n, p->k, &way) > p->workspace_bytes)
    return __real_tb_select(device, p);
  return (struct tb_choice){.family = TB_FAMILY_EMULATED, .emulated = way};
}

bool __wrap_tb_plan_fits_one_slot(const struct tb_call *call, struct tb_ways ways) {
  (void)call, (void)ways;
  return false;
}

bool __wrap_tb_plan_is_hidden(const struct tb_call *call, struct tb_ways ways) {
  (void)call, (void)ways;
  return false;
}
