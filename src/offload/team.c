/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/team.h"

#include "base/clock.h"
#include "select/order.h"

/* What the members' threads need. */
struct team_work {
  struct tb_part *parts;
  struct tb_device *device[TB_GPUS_MAX];
  struct tb_call call[TB_GPUS_MAX];
  double seconds[TB_GPUS_MAX];
  struct tb_exchange exchange;
  enum tb_operand shared;
  const struct tb_places *places;
  struct tb_choice whole;
  bool timed;
};

/* Small pinned memory may be pinned for one GPU alone, so that the others' kernels do not reach it; their copies do. */
static struct tb_ways ways_of(const struct tb_call *call, const struct tb_places *places) {
  struct tb_ways ways = tb_plan_ways(call, places);
  if (ways.a == TB_IN_PLACE) ways.a = TB_STAGED;
  if (ways.b == TB_IN_PLACE) ways.b = TB_STAGED;
  if (ways.c == TB_IN_PLACE) ways.c = TB_STAGED;
  ways.passed = true;
  return ways;
}

static void drive(void *context, int member) {
  struct team_work *w = context;
  struct tb_device *d = w->device[member];
  struct tb_pass pass = tb_pass_of(&w->exchange, member, d, w->shared);
  const double begun = tb_clock_seconds();
  const struct tb_call *call = &w->call[member];
  tb_part_run(&w->parts[member], d, call, ways_of(call, w->places), &w->whole, w->timed, &pass);
  w->seconds[member] = tb_clock_seconds() - begun;
}

/* What the parts took, for the next call's shares. who[i]: the part of device i; -1: it had none. */
static void learn(const struct team_work *w, const struct tb_gpus_team *team, const int who[]) {
  double flops[TB_GPUS_MAX], seconds[TB_GPUS_MAX];
  for (int i = 0; i < team->count; i++) {
    const bool done = who[i] >= 0 && w->parts[who[i]].why == TB_STATUS_ok;
    flops[i] = done ? tb_call_flops(&w->call[who[i]]) : 0;
    seconds[i] = done ? w->seconds[who[i]] : 0;
  }
  tb_share_learn(team->pace, team->count, flops, seconds);
}

/* For the tensor cores if all would have the whole of it there. */
static struct tb_choice choose_for_team(const struct tb_gpus_team *team, const struct tb_call *call,
                                        struct tb_ways ways) {
  struct tb_choice choice = tb_part_choose(team->device[0], call, ways);
  for (int i = 1; i < team->count && choice.family == TB_FAMILY_EMULATED; i++)
    choice = tb_part_choose(team->device[i], call, ways);
  return choice;
}

/* Where the pieces start the bits do not show: on the tensor cores at the edges of their tiles. */
static int64_t piece_of(const struct tb_choice *whole, bool by_columns) {
  if (whole->family != TB_FAMILY_EMULATED) return TB_SHARE_PIECE_ELEMS;
  return by_columns ? TB_EMULATED_TILE_N : TB_EMULATED_TILE_M;
}

int tb_team_run(struct tb_part *parts, const struct tb_gpus_team *team, const struct tb_call *call,
                const struct tb_places *places, bool timed) {
  const bool by_columns = tb_share_by_columns(call);
  static struct team_work w; /* one call at a time, and stacks may be small */
  w = (struct team_work){
      .parts = parts, .shared = by_columns ? TB_OPERAND_A : TB_OPERAND_B, .places = places, .timed = timed};
  w.whole = choose_for_team(team, call, tb_plan_ways(call, places)); /* as one GPU would */
  double weight[TB_GPUS_MAX];
  int64_t run[TB_GPUS_MAX], begin = 0;
  int who[TB_GPUS_MAX], members = 0;
  tb_share_weigh((const struct tb_pace *const *)team->pace, team->count, weight);
  tb_share_cut(by_columns ? call->n : call->m, piece_of(&w.whole, by_columns), weight, team->count, run);
  for (int i = 0; i < team->count; begin += run[i++]) {
    who[i] = run[i] > 0 ? members : -1;
    if (run[i] == 0) continue;
    w.device[members] = team->device[i];
    struct tb_call *const part = &w.call[members++];
    *part = by_columns ? tb_call_part(call, 0, call->m, begin, run[i]) : tb_call_part(call, begin, run[i], 0, call->n);
    part->group_k = tb_gemm_group_k(call); /* as one GPU would add them */
  }
  tb_exchange_open(&w.exchange, members, team->connected && members > 1);
  tb_pool_run(tb_gpus_drivers(), drive, &w, members);
  tb_exchange_close(&w.exchange);
  learn(&w, team, who);
  return members;
}
