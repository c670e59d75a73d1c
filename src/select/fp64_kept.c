/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts that are kept, for the process: programs have loops of a few products, and to weigh all ways of one and of its
 * pieces takes 20 to 80 us. Thread safe, in signal handlers and behind a fork, too; waits for nobody. Knows nothing of
 * CUDA. */
#include <stdatomic.h>
#include <stddef.h>

#include "select/fp64_plan.h"

enum { KEPT_SETS = 32, KEPT_WAYS = 4 }; /* of a set: a call from ordinary memory has a dozen products or more */

struct kept_cut {
  struct tb_fp64_device device;
  struct tb_fp64_product product;
  int64_t partials_bytes;
  struct tb_fp64_cut cut; /* of no pieces: none is kept */
};

/* A product's set follows from its sides; in a set the oldest makes room. Who finds the table taken does without: it
 * may be by a call that this one has interrupted, or by a thread that this process does not have since its fork. */
static struct kept_set {
  unsigned oldest;
  struct kept_cut of[KEPT_WAYS];
} kept_sets[KEPT_SETS];
static atomic_flag kept_cuts_taken = ATOMIC_FLAG_INIT;

static bool take_kept_cuts(void) { return !atomic_flag_test_and_set_explicit(&kept_cuts_taken, memory_order_acquire); }
static void give_kept_cuts(void) { atomic_flag_clear_explicit(&kept_cuts_taken, memory_order_release); }

static struct kept_set *kept_set_of(const struct tb_fp64_product *x) {
  const uint64_t hash = (uint64_t)x->m * 0x9e3779b97f4a7c15u ^ (uint64_t)x->n * 0xc2b2ae3d27d4eb4fu ^
                        (uint64_t)x->k * 0x165667b19e3779f9u;
  return &kept_sets[(hash >> 32) % KEPT_SETS];
}

static bool same_device(const struct tb_fp64_device *x, const struct tb_fp64_device *y) {
  return x->sm_count == y->sm_count && x->block_shared_bytes == y->block_shared_bytes &&
         x->sm_shared_bytes == y->sm_shared_bytes && x->flops_per_second == y->flops_per_second &&
         x->bytes_per_second == y->bytes_per_second;
}

/* Of a result that is wanted as a whole, each tile of a call has a diagonal of its own, which is not looked at. */
static bool same_wanted(const struct tb_tiles_wanted *x, const struct tb_tiles_wanted *y) {
  return x->of == y->of && (x->of == TB_TILES_ALL || x->diagonal == y->diagonal);
}

static bool same_product(const struct tb_fp64_product *x, const struct tb_fp64_product *y) {
  return x->complex == y->complex && x->units == y->units && x->m == y->m && x->n == y->n && x->k == y->k &&
         x->group_k == y->group_k && same_wanted(&x->wanted, &y->wanted);
}

static bool is_kept_for(const struct kept_cut *kept, const struct tb_fp64_device *device,
                        const struct tb_fp64_product *product, int64_t partials_bytes) {
  return kept->partials_bytes == partials_bytes && same_product(&kept->product, product) &&
         same_device(&kept->device, device);
}

/* With the table taken. NULL: none is. */
static const struct kept_cut *kept_for(const struct kept_set *set, const struct tb_fp64_device *device,
                                       const struct tb_fp64_product *product, int64_t partials_bytes) {
  for (int way = 0; way < KEPT_WAYS; way++)
    if (is_kept_for(&set->of[way], device, product, partials_bytes)) return &set->of[way];
  return NULL;
}

bool tb_fp64_cut_find(struct tb_fp64_cut *cut, const struct tb_fp64_device *device,
                      const struct tb_fp64_product *product, int64_t partials_bytes) {
  struct kept_set *const set = kept_set_of(product);
  cut->count = 0;
  if (take_kept_cuts()) {
    const struct kept_cut *const kept = kept_for(set, device, product, partials_bytes);
    if (kept != NULL) *cut = kept->cut;
    give_kept_cuts();
  }
  if (cut->count > 0) return true;
  if (!tb_fp64_cut_make(cut, device, product, partials_bytes)) return false;
  if (take_kept_cuts()) { /* another thread may have been sooner */
    if (kept_for(set, device, product, partials_bytes) == NULL)
      set->of[set->oldest++ % KEPT_WAYS] = (struct kept_cut){*device, *product, partials_bytes, *cut};
    give_kept_cuts();
  }
  return true;
}
