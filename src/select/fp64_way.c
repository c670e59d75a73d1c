/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/fp64_way.h"

#include <math.h>

/* With so much room for each element of the result. How the operands lie is the launch's to see: here they are taken to
 * lie well, as for all predictions of a whole call, and the result to be in one piece. */
static bool plan_of(struct tb_fp64_plan *plan, const struct tb_select_device *device, const struct tb_product *product,
                    int64_t room_bytes) {
  const struct tb_fp64_product x = {.complex = product->type == TB_Z,
                                    .units = true,
                                    .m = product->m,
                                    .n = product->n,
                                    .k = product->k,
                                    .group_k = (int)product->group_k};
  return tb_fp64_plan_make(plan, &device->fp64, &x, room_bytes * product->m * product->n);
}

int tb_fp64_candidates(const struct tb_select_device *device, const struct tb_product *product,
                       struct tb_choice candidate[]) {
  struct tb_fp64_plan plan;
  const int64_t room_bytes = product->workspace_bytes / (product->m * product->n);
  if (!plan_of(&plan, device, product, room_bytes)) return 0;
  candidate[0] = (struct tb_choice){.family = TB_FAMILY_FP64, .fp64 = {.room_bytes = room_bytes}};
  return 1;
}

double tb_fp64_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                          const struct tb_product *product, const struct tb_choice *choice) {
  struct tb_fp64_plan plan;
  (void)table;
  return plan_of(&plan, device, product, choice->fp64.room_bytes) ? plan.seconds * 1e6 : INFINITY;
}

void tb_fp64_offer(const struct tb_select_device *device, const struct tb_product *product, struct tb_best *best) {
  struct tb_choice choice;
  if (tb_fp64_candidates(device, product, &choice) > 0)
    tb_best_take(best, &choice, tb_fp64_predict_us(&tb_select_table, device, product, &choice));
}

int64_t tb_fp64_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  (void)k;
  return choice->fp64.room_bytes * m * n;
}

const char *tb_fp64_name(const struct tb_choice *choice) {
  (void)choice;
  return "fp64";
}
