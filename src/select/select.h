/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernel computes a product, and into how many parts it splits k: a pure function of the product, the device and
 * the table rates.def. Knows no CUDA, allocates nothing, takes 0.75 microseconds in the mean of 200 random shapes
 * and at most 1.6 (two cores of a virtual machine); thread-safe.
 *
 * Every candidate's time is predicted, and the shortest wins; of equals the one that stands first: by families
 * (choice.h), and among tiles in the registry, where that is the larger tile. The bits of the result do not depend on
 * the choice, but for whether it is TB_FAMILY_EMULATED.
 */
#ifndef TB_SELECT_H
#define TB_SELECT_H

#include "select/choice.h"
#include "select/product.h"

struct tb_choice tb_select(const struct tb_select_device *device, const struct tb_product *product);

/* ---- what the selector is made of, for tests and for bench/tune ---- */

/* Writes every candidate, in the order of preference among equals; returns how many. */
int tb_select_candidates(const struct tb_select_device *device, const struct tb_product *product,
                         struct tb_choice candidate[TB_CANDIDATES_MAX]);

/* Microseconds from launch to result, by a choice that could be made. */
double tb_select_predict_us(const struct tb_select_table *table, const struct tb_select_device *device,
                            const struct tb_product *product, const struct tb_choice *choice);

#endif
