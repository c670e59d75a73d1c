/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/beside.h"

#include "base/options.h"
#include "offload/gpus.h"
#include "offload/keeper.h"
#include "offload/reach.h"

/* What may have changed by the time that the lane is entered costs a wait at most, and is looked at there again. */
int tb_beside_room(const struct tb_call *call, const struct tb_places *places) {
  static const int room[] = {[TB_SMALL_ONES] = 1, [TB_A_PAIR] = TB_LANES / 2, [TB_ALONE] = TB_ENTRY_ALONE};
  if (tb_call_is_trivial(call) || tb_reach_uses_gpu(places)) return TB_ENTRY_ALONE;
  if (!tb_gpus_are_open() || tb_option_number(TB_OPTION_memory_limit) > 0) return TB_ENTRY_ALONE;
  return room[tb_call_company(call)];
}

/* Several GPUs take a call that they may share as a whole, whether or not they do. */
struct tb_device *tb_beside_find(int lane) {
  const bool may_share = tb_option_number(TB_OPTION_share) != TB_SHARE_NEVER && tb_gpus_usable() > 1;
  if (may_share || !tb_keeper_has_begun()) return NULL;
  return tb_gpus_lane(lane);
}
