/* SPDX-License-Identifier: BSD-3-Clause */
/* The family for double precision as the table of families asks it (family.h): one way a product, planned when it is
 * launched. Pure; thread-safe. */
#ifndef TB_FP64_WAY_H
#define TB_FP64_WAY_H

#include "select/choice.h"
#include "select/product.h"

#define TB_FP64_CANDIDATES_MAX 1

struct tb_select_table;

int tb_fp64_candidates(const struct tb_select_device *device, const struct tb_product *product,
                       struct tb_choice candidate[]);
void tb_fp64_offer(const struct tb_select_device *device, const struct tb_product *product, struct tb_best *best);
double tb_fp64_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                          const struct tb_product *product, const struct tb_choice *choice);
int64_t tb_fp64_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice);
const char *tb_fp64_name(const struct tb_choice *choice);

#endif
