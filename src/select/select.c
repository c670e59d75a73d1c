/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/select.h"

#include "select/family.h"

struct tb_choice tb_select(const struct tb_select_device *device, const struct tb_product *product) {
  struct tb_best best = {.choice = {.family = TB_FAMILY_NONE}};
  for (int family = TB_FAMILY_FIRST; family < TB_FAMILY_COUNT; family++)
    if (tb_family_takes(family, product->type)) tb_families[family].offer(device, product, &best);
  return best.choice;
}

int tb_select_candidates(const struct tb_select_device *device, const struct tb_product *product,
                         struct tb_choice candidate[TB_CANDIDATES_MAX]) {
  int count = 0;
  for (int family = TB_FAMILY_FIRST; family < TB_FAMILY_COUNT; family++)
    if (tb_family_takes(family, product->type))
      count += tb_families[family].candidates(device, product, candidate + count);
  return count;
}

double tb_select_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *product, const struct tb_choice *choice) {
  return tb_family_of(choice)->predict_us(table, device, product, choice);
}
