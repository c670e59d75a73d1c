/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What several GPUs that share a call keep: each the operand that all want, as a whole, and the block that is its own.
 *
 *                 +-----------+-----------+
 *                 |  block 0  |  block 1  |     B is cut as C is: GPU 0 has A and block 0, GPU 1 A and block 1.
 *                 +-----------+-----------+     Of A either all GPUs use their copies, and none of it goes up, or none
 *      +-------+  +-----------+-----------+     does, and its panels are passed on between them (exchange.h).
 *      |   A   |  |   C on 0  |   C on 1  |
 *      +-------+  +-----------+-----------+     Blocks that are rows of what is stored are left alone: they lie in
 *                                               the same pages, which one of them would have watched at a time.
 *
 * Copies are looked up and proven one GPU after another, before any of them begins; what is proven of A on one goes for
 * the others, if their copies have the same digests, or have been watched as long. New copies are filled by all GPUs at
 * once. By the one thread that has the GPUs.
 */
#include "base/options.h"
#include "pipeline/keep_internal.h"

static const struct tb_cached nothing = {.proof = TB_NOT_KEPT};

/* Its block, too, if that is whole columns of what is stored. */
static struct tb_kept_operands operands_of(const struct tb_keep_member *m, bool common) {
  struct tb_kept_operands x = tb_keep_operands(&m->call, &m->ways);
  const bool block = !common;
  if (m->call.recipe == TB_MULTIPLY && !tb_runs_along_k(&m->call, block)) x.may[block] = false;
  if (m->call.twice) x.may[TB_OF_A] = x.may[TB_OF_B] = false;
  if (tb_keep_are_same(&x)) x.may[block] = false;
  return x;
}

/* Whether any member may look for anything; not inside, for what is not to be kept any more is given back. */
static bool may_any(struct tb_keep_member members[], int count, bool common) {
  bool any = false;
  for (int i = 0; i < count; i++) {
    struct tb_keep_member *const m = &members[i];
    const struct tb_kept_operands x = operands_of(m, common);
    if (tb_device_enter(m->device) != CUDA_SUCCESS) continue; /* its part will find out */
    m->looks = tb_keep_may_begin(m->device, &m->call, &m->ways, &x);
    tb_device_leave();
    any = any || m->looks;
  }
  return any;
}

/* Inside, with the device entered. `first`: what another member has of the operand that all want, or NULL. */
static void look_up_member(struct tb_keep_member *m, bool common, const struct tb_cached *first) {
  struct tb_device *const d = m->device;
  const struct tb_kept_operands x = operands_of(m, common);
  m->looks = tb_keep_enter_cache(d);
  for (int of_b = 0; of_b < 2 && m->looks; of_b++) {
    if (!x.may[of_b]) continue;
    struct tb_cache *const cache = tb_device_cache(d);
    tb_cache_compare(cache, (bool)of_b == common ? first : NULL);
    struct tb_kept *const worth = tb_cache_look(cache, d->lane, &x.stored[of_b], d->pool, &m->found[of_b], NULL);
    if (worth == NULL || !tb_keep_make(d, worth, TB_KEEP_OPERAND)) continue;
    tb_kept_await(worth);
    m->made[of_b] = worth;
  }
}

static void look_up_all(struct tb_keep_member members[], int count, bool common) {
  const struct tb_cached *first = NULL;
  for (int i = 0; i < count; i++) {
    struct tb_keep_member *const m = &members[i];
    if (!m->looks || tb_device_enter(m->device) != CUDA_SUCCESS) continue;
    look_up_member(m, common, first);
    tb_device_leave();
    if (first == NULL && tb_proof_is_kept(m->found[common].proof)) first = &m->found[common];
  }
}

static void fill_member(void *context, int number) {
  struct tb_keep_member *const m = (struct tb_keep_member *)context + number;
  if ((m->made[0] == NULL && m->made[1] == NULL) || tb_device_enter(m->device) != CUDA_SUCCESS) return;
  for (int of_b = 0; of_b < 2; of_b++)
    m->filled[of_b] = m->made[of_b] != NULL && !m->device->hangs && tb_keep_fill(m->device, m->made[of_b]);
  tb_device_leave();
}

/* What was made is found, or lost. */
static void settle_member(struct tb_keep_member *m) {
  for (int of_b = 0; of_b < 2; of_b++) {
    struct tb_kept *const made = m->made[of_b];
    if (made == NULL) continue;
    if (m->filled[of_b]) {
      tb_kept_is_whole(made);
      m->found[of_b] = tb_keep_found_anew(made);
    } else if (tb_device_enter(m->device) == CUDA_SUCCESS) {
      const CUresult dropped = tb_keep_drop(m->device, made);
      if (dropped != CUDA_SUCCESS) m->keep->failed = dropped;
      tb_device_leave();
    }
  }
}

static bool have_all(const struct tb_keep_member members[], int count, bool common) {
  for (int i = 0; i < count; i++)
    if (members[i].found[common].proof == TB_NOT_KEPT) return false;
  return true;
}

/* What has gone up to stay counts, whether it is used or not. */
static void take_found(struct tb_keep_member *m) {
  const struct tb_kept_operands x = tb_keep_operands(&m->call, &m->ways);
  for (int of_b = 0; of_b < 2; of_b++) tb_keep_take(m->keep, of_b, &x.stored[of_b], &m->found[of_b]);
  m->keep->call.again_a = m->keep->call.b.data, m->keep->call.again_b = m->keep->call.a.data;
}

static void take_nothing(struct tb_keep_member *m) {
  const CUresult failed = m->keep->failed;
  const double made_bytes = m->keep->made_bytes;
  tb_keep_end(m->keep, m->device);
  tb_keep_nothing(m->keep, &m->call, m->ways);
  m->keep->failed = failed;
  m->keep->made_bytes = made_bytes;
}

static double bytes_of(const struct tb_keep_member *m, bool of_b) {
  const struct tb_kept_operands x = tb_keep_operands(&m->call, &m->ways);
  return (double)tb_stored_bytes(&x.stored[of_b]);
}

/* Nothing of it is passed on where all have it; and where it is passed on all cut it alike, as without copies. */
static void decide_all(struct tb_keep_member members[], int count, bool common) {
  const bool all = have_all(members, count, common);
  bool sooner_without = false;
  for (int i = 0; i < count; i++) {
    struct tb_keep_member *const m = &members[i];
    if (!all) m->found[common] = nothing;
    take_found(m);
    if (!all && m->filled[common]) m->keep->made_bytes += bytes_of(m, common);
    if (all) m->keep->ways.passed = false;
    sooner_without = sooner_without || tb_keep_is_sooner_without(m->keep, &m->call);
  }
  for (int i = 0; i < count; i++)
    if (sooner_without)
      take_nothing(&members[i]);
    else
      tb_keep_say_copies(members[i].keep, &members[i].ways);
}

void tb_keep_begin_shared(struct tb_keep_member members[], int count, enum tb_keep_common which,
                          struct tb_pool *drivers) {
  const bool common = which == TB_KEEP_COMMON_B;
  bool any = false;
  for (int i = 0; i < count; i++) {
    struct tb_keep_member *const m = &members[i];
    tb_keep_nothing(m->keep, &m->call, m->ways);
    m->found[0] = m->found[1] = nothing;
    m->made[0] = m->made[1] = NULL;
    m->looks = m->filled[0] = m->filled[1] = false;
  }
  if (!may_any(members, count, common) || !tb_cache_enter()) return;
  look_up_all(members, count, common);
  for (int i = 0; i < count; i++) any = any || members[i].made[0] != NULL || members[i].made[1] != NULL;
  if (any) tb_pool_run(drivers, fill_member, members, count);
  for (int i = 0; i < count; i++) settle_member(&members[i]);
  tb_cache_leave();
  decide_all(members, count, common);
}
