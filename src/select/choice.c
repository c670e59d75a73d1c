/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/choice.h"

#include <stdio.h>

struct tb_split_k tb_split_k_of(int64_t k, const struct tb_choice *choice) {
  return choice->splits <= 1 ? tb_whole_k : tb_split_k_units(tb_ceil_div(k, choice->unit_k), choice->splits);
}

int64_t tb_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  if (choice->family == TB_FAMILY_EMULATED) {
    const struct tb_emulated_way way = tb_choice_way(choice);
    return tb_emulated_bytes(m, n, k, &way);
  }
  struct tb_split_k s = tb_split_k_of(k, choice);
  struct tb_rest rest = tb_rest_of(m, n, choice);
  int64_t bytes = s.splits > 1 ? s.units * rest.m * rest.n * (int64_t)sizeof(float) : 0;
  if (choice->pack_k > 0) bytes += tb_packed_bytes(m, n, choice->pack_k < k ? choice->pack_k : k);
  return bytes;
}

const char *tb_choice_name(const struct tb_choice *choice) {
  if (choice->family == TB_FAMILY_NONE) return "none";
  if (choice->family == TB_FAMILY_EMULATED) return choice->fast ? "emulated-fast" : "emulated";
  return choice->family == TB_FAMILY_SKINNY ? "skinny" : tb_tiles[choice->tile].name;
}

void tb_choice_describe(const struct tb_choice *choice, char *text, size_t size) {
  if (choice->splits > 1 && choice->family != TB_FAMILY_SKINNY)
    snprintf(text, size, "%s/%d%s", tb_choice_name(choice), choice->splits,
             choice->whole_rows + choice->whole_columns > 0 ? "+" : "");
  else
    snprintf(text, size, "%s", tb_choice_name(choice));
}
