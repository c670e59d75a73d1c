/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/team.h"

#include <stdio.h>

#include "base/clock.h"
#include "cuda/wait.h"
#include "select/order.h"

/* ---- anything that is cut ---- */

static void cut_by_pace(const struct tb_gpus_team *team, int64_t side, int64_t piece, int64_t run[]) {
  double weight[TB_GPUS_MAX];
  tb_share_weigh((const struct tb_pace *const *)team->pace, team->count, weight);
  tb_share_cut(side, piece, weight, team->count, run);
}

static void give_runs(struct tb_team_cut *cut, const struct tb_gpus_team *team, const int64_t run[]) {
  int64_t begin = 0;
  *cut = (struct tb_team_cut){.team = *team};
  for (int i = 0; i < team->count; begin += run[i++]) {
    if (run[i] == 0) continue;
    const int member = cut->members++;
    cut->device[member] = team->device[i];
    cut->pace[member] = team->pace[i];
    cut->first[member] = begin, cut->size[member] = run[i];
  }
}

void tb_team_cut(struct tb_team_cut *cut, const struct tb_gpus_team *team, int64_t side, int64_t piece) {
  int64_t run[TB_GPUS_MAX];
  cut_by_pace(team, side, piece, run);
  give_runs(cut, team, run);
}

struct driven {
  const struct tb_team_cut *cut;
  tb_team_drive *drive;
  void *context;
  double work[TB_GPUS_MAX], seconds[TB_GPUS_MAX];
};

static void drive_member(void *context, int member) {
  struct driven *const x = context;
  const double begun = tb_clock_seconds();
  x->work[member] = x->drive(x->context, member, x->cut->device[member]);
  x->seconds[member] = tb_clock_seconds() - begun;
}

/* What the parts took, for the next call's shares. */
static void learn(const struct driven *x) {
  const struct tb_gpus_team *const team = &x->cut->team;
  double work[TB_GPUS_MAX], seconds[TB_GPUS_MAX];
  for (int i = 0, member = 0; i < team->count; i++) {
    const bool has_part = member < x->cut->members && x->cut->pace[member] == team->pace[i];
    work[i] = has_part ? x->work[member] : 0;
    seconds[i] = has_part ? x->seconds[member] : 0;
    member += has_part;
  }
  tb_share_learn(team->pace, team->count, work, seconds);
}

void tb_team_run(const struct tb_team_cut *cut, tb_team_drive *drive, void *context) {
  struct driven x = {.cut = cut, .drive = drive, .context = context};
  tb_pool_run(tb_gpus_drivers(), drive_member, &x, cut->members);
  learn(&x);
}

void tb_team_name(char *text, size_t size, size_t *length, const struct tb_device *d) {
  const int added = snprintf(text + *length, size - *length, "%s%d", *length > 0 ? "+" : "", d->ordinal);
  if (added > 0 && *length + (size_t)added < size) *length += (size_t)added;
}

/* ---- a call ---- */

/* What the members' threads need. */
struct team_work {
  struct tb_part *parts;
  struct tb_team_cut cut;
  struct tb_exchange exchange;
  enum tb_operand shared;                    /* that is passed on */
  struct tb_keep_member member[TB_GPUS_MAX]; /* its call, and what it keeps of that */
  struct tb_choice whole;
  bool timed;
};

/* Small pinned memory may be pinned for one GPU alone, so that the others' kernels do not reach it; their copies do. */
static struct tb_ways ways_of(const struct tb_call *call, const struct tb_places *places) {
  struct tb_ways ways = tb_part_ways(call, places);
  if (ways.a == TB_IN_PLACE) ways.a = TB_STAGED;
  if (ways.b == TB_IN_PLACE) ways.b = TB_STAGED;
  if (ways.c == TB_IN_PLACE) ways.c = TB_STAGED;
  ways.passed = true;
  return ways;
}

/* A run of C's columns or rows. Its elements are computed as one GPU would. */
static struct tb_call run_as_call(const struct tb_call *call, int64_t first, int64_t size) {
  if (call->recipe != TB_MULTIPLY) return tb_triangular_part(call, first, size);
  struct tb_call part = tb_share_by_columns(call) ? tb_call_part(call, 0, call->m, first, size)
                                                  : tb_call_part(call, first, size, 0, call->n);
  part.group_k = tb_gemm_group_k(call); /* as one GPU would add them */
  return part;
}

static double drive_part(void *context, int member, struct tb_device *d) {
  struct team_work *const w = context;
  struct tb_pass pass = tb_pass_of(&w->exchange, member, d, w->shared);
  const struct tb_keep_member *const m = &w->member[member];
  tb_part_run(&w->parts[member], d, &m->call, m->ways, &w->whole, w->timed, &pass);
  return w->parts[member].why == TB_STATUS_ok ? tb_call_flops(&m->call) : 0;
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
static int64_t piece_of(const struct tb_call *call, const struct tb_choice *whole, bool by_columns) {
  if (call->recipe != TB_MULTIPLY || whole->family != TB_FAMILY_EMULATED) return tb_share_piece(call);
  return by_columns ? TB_EMULATED_TILE_N : TB_EMULATED_TILE_M;
}

/* How calls of these sides were cut, so that the operands' blocks that GPUs keep come back. */
#define CUTS_KNOWN 32

struct known_cut {
  int64_t side, piece;
  int count;
  const struct tb_device *device[TB_GPUS_MAX];
  int64_t run[TB_GPUS_MAX];
};

static bool is_cut_of(const struct known_cut *c, const struct tb_gpus_team *team, int64_t side, int64_t piece) {
  if (c->side != side || c->piece != piece || c->count != team->count) return false;
  for (int i = 0; i < team->count; i++)
    if (c->device[i] != team->device[i]) return false;
  return true;
}

/* As before, unless the GPUs' paces have become others. */
static void cut_as_before(struct tb_team_cut *cut, const struct tb_gpus_team *team, int64_t side, int64_t piece) {
  static struct known_cut known[CUTS_KNOWN];
  static int next;
  struct known_cut *c = NULL;
  int64_t run[TB_GPUS_MAX];
  cut_by_pace(team, side, piece, run);
  for (int i = 0; i < CUTS_KNOWN && c == NULL; i++)
    if (is_cut_of(&known[i], team, side, piece)) c = &known[i];
  if (c == NULL || !tb_share_is_near(run, c->run, team->count, piece)) {
    if (c == NULL) c = &known[next++ % CUTS_KNOWN];
    *c = (struct known_cut){.side = side, .piece = piece, .count = team->count};
    for (int i = 0; i < team->count; i++) c->device[i] = team->device[i], c->run[i] = run[i];
  }
  give_runs(cut, team, c->run);
}

/* What all members want in the same panels. Of two products it would be another one of each. */
static enum tb_operand operand_of_all(const struct tb_call *call) {
  if (call->recipe != TB_MULTIPLY || call->twice) return TB_NO_OPERAND;
  return tb_share_by_columns(call) ? TB_OPERAND_A : TB_OPERAND_B;
}

/* What of it the GPUs have is proven before any of them begins. */
static void find_kept(struct team_work *w, const struct tb_call *call, const struct tb_places *places, bool may_keep) {
  const bool common_is_a = call->recipe != TB_MULTIPLY || tb_share_by_columns(call);
  for (int i = 0; i < w->cut.members; i++) {
    struct tb_keep_member *const m = &w->member[i];
    *m = (struct tb_keep_member){.keep = &w->parts[i].keep, .device = w->cut.device[i]};
    m->call = run_as_call(call, w->cut.first[i], w->cut.size[i]);
    m->ways = ways_of(&m->call, places);
    if (!may_keep) m->ways.kept = TB_NOT_TO_BE_KEPT;
    const double peak = tb_device_peak_flops_per_s(m->device, call->type);
    m->device->patience_seconds = tb_wait_seconds(tb_call_flops(&m->call), peak); /* with copies */
  }
  tb_keep_begin_shared(w->member, w->cut.members, common_is_a ? TB_KEEP_COMMON_A : TB_KEEP_COMMON_B, tb_gpus_drivers());
}

int tb_team_compute(struct tb_part *parts, const struct tb_gpus_team *team, const struct tb_call *call,
                    const struct tb_places *places, bool timed, bool may_keep) {
  const bool by_columns = tb_share_by_columns(call);
  static struct team_work w; /* one call at a time, and stacks may be small */
  w = (struct team_work){.parts = parts, .shared = operand_of_all(call), .timed = timed};
  w.whole = choose_for_team(team, call, tb_part_ways(call, places)); /* as one GPU would */
  cut_as_before(&w.cut, team, by_columns ? call->n : call->m, piece_of(call, &w.whole, by_columns));
  const bool passes = w.shared != TB_NO_OPERAND && team->connected && w.cut.members > 1;
  find_kept(&w, call, places, may_keep);
  tb_exchange_open(&w.exchange, w.cut.members, passes);
  tb_team_run(&w.cut, drive_part, &w);
  tb_exchange_close(&w.exchange);
  return w.cut.members;
}
