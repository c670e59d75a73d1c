/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/fallback.h"
#include "interface/run.h"
#include "interface/run_batch.h"

/* Whether the caller's integers have 64 bits. Finds out at the symbol's first call. */
static bool is_wide_caller(enum tb_symbol symbol) {
  tb_run_initialise();
  return tb_fallback_callers_are_wide(symbol);
}

/* One of a register or stack slot, whose upper half need not have been set. */
static int64_t by_value(int64_t passed, bool wide) { return wide ? passed : (int32_t)passed; }

static int64_t by_address(const void *passed, bool wide) {
  int64_t wide_one;
  int32_t narrow_one;
  if (wide) return memcpy(&wide_one, passed, sizeof wide_one), wide_one;
  return memcpy(&narrow_one, passed, sizeof narrow_one), narrow_one;
}

void tb_batch_by_value(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *made) {
  struct tb_batch_arguments x = *made;
  x.wide = is_wide_caller(symbol);
  x.groups = by_value(x.groups, x.wide);
  x.stride_a = by_value(x.stride_a, x.wide);
  x.stride_b = by_value(x.stride_b, x.wide);
  x.stride_c = by_value(x.stride_c, x.wide);
  tb_run_batch(symbol, caller, &x);
}

void tb_batch_by_address(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *made,
                         const void *groups) {
  struct tb_batch_arguments x = *made;
  x.wide = is_wide_caller(symbol);
  x.groups = by_address(groups, x.wide);
  tb_run_batch(symbol, caller, &x);
}

void tb_batch_strided_by_address(enum tb_symbol symbol, const void *caller, const struct tb_batch_arguments *made,
                                 const void *stride_a, const void *stride_b, const void *stride_c) {
  struct tb_batch_arguments x = *made;
  x.wide = is_wide_caller(symbol);
  x.stride_a = by_address(stride_a, x.wide);
  x.stride_b = by_address(stride_b, x.wide);
  x.stride_c = by_address(stride_c, x.wide);
  tb_run_batch(symbol, caller, &x);
}
