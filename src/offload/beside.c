/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/beside.h"

#include "base/options.h"
#include "offload/gpus.h"
#include "offload/keeper.h"
#include "offload/reach.h"

#define SMALL_BYTES 8e6
#define MOST_BYTES ((double)((int64_t)1 << 30))
#define SMALL_ROOM 1
#define LARGER_ROOM (TB_LANES / 2)

/* What may have changed by the time that the lane is entered costs a wait at most, and is looked at there again. */
int tb_beside_room(const struct tb_call *call, const struct tb_places *places) {
  if (call->recipe != TB_MULTIPLY || tb_call_is_trivial(call) || tb_reach_uses_gpu(places)) return TB_ENTRY_ALONE;
  if (!tb_gpus_are_open() || tb_option_number(TB_OPTION_memory_limit) > 0) return TB_ENTRY_ALONE;
  const double k = (double)call->k, sides = (double)call->m + (double)call->n;
  const double bytes = (sides * k + tb_call_elems(call)) * (double)tb_call_bytes(call);
  return bytes <= SMALL_BYTES ? SMALL_ROOM : bytes <= MOST_BYTES ? LARGER_ROOM : TB_ENTRY_ALONE;
}

/* Several GPUs take a call that they may share as a whole, whether or not they do. */
struct tb_device *tb_beside_find(int lane) {
  const bool may_share = tb_option_number(TB_OPTION_share) != TB_SHARE_NEVER && tb_gpus_usable() > 1;
  if (may_share || !tb_keeper_has_begun()) return NULL;
  return tb_gpus_lane(lane);
}
