/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that stay packed for the tensor cores (kernels/emulated/). They are made by a call that would pack all the
 * same, and are true as long as the copy is: whatever changes the copy ends them. */
#include <stdatomic.h>

#include "cache/cache_internal.h"

/* Uses of a copy before it has memory for planes: to allocate takes as long as to pack once or twice. */
#define USES_UNTIL_PLANES 4
/* And by which it was to be packed otherwise before its planes give way. */
#define OTHERS_ENOUGH 4
/* Of the free memory they may have such a part. */
#define PLANES_OF_FREE 4

void tb_planes_forget(struct tb_cache *cache, struct tb_sighting *s, bool frees) {
  struct tb_kept_planes *const planes = &s->kept.planes;
  if (planes->at != 0 && frees) tb_cuda.cuMemFree(planes->at);
  cache->bytes -= planes->bytes;
  *planes = (struct tb_kept_planes){.at = 0};
}

bool tb_planes_give_back_one(struct tb_cache *cache) {
  for (int i = 0; i < OPERANDS_MOST; i++) {
    struct tb_sighting *const s = &cache->sighting[i];
    if (cache->end[i] == NULL || s->kept.planes.at == 0 || tb_is_in_use(s)) continue;
    tb_planes_forget(cache, s, true);
    return true;
  }
  return false;
}

static bool is_packed_alike(const struct tb_planes_shape *x, const struct tb_planes_shape *y) {
  return x->of_b == y->of_b && x->along_k == y->along_k && x->sides == y->sides && x->k == y->k &&
         x->panel_sides == y->panel_sides && x->span_k == y->span_k;
}

/* In the place of others that nobody else's call reads; these stay if there is no room for more. */
static bool have_planes(struct tb_cache *cache, struct tb_sighting *s, int64_t bytes, int64_t free_bytes,
                        int64_t limit_bytes) {
  const int64_t had_bytes = s->kept.planes.bytes;
  CUdeviceptr at = 0;
  if (bytes > (free_bytes + had_bytes) / PLANES_OF_FREE || cache->bytes - had_bytes + bytes > limit_bytes) return false;
  tb_planes_forget(cache, s, true);
  if (tb_cuda.cuMemAlloc(&at, (size_t)bytes) != CUDA_SUCCESS) return false;
  s->kept.planes.at = at;
  s->kept.planes.bytes = bytes;
  cache->bytes += bytes;
  return true;
}

/* Whether they may be packed, or replaced: no other call has the copy. One that gets it meanwhile does without them. */
static bool is_ours_alone(const struct tb_sighting *s, int user) { return atomic_load(&s->users) == 1U << user; }

static bool they_fit(const struct tb_kept_planes *planes, const struct tb_planes_shape *shape, int64_t bytes) {
  return planes->at != 0 && is_packed_alike(&planes->shape, shape) && planes->bytes == bytes;
}

/* Who has the copy keeps all others from replacing them. */
struct tb_planes tb_cache_packed_planes(struct tb_kept *kept, const struct tb_planes_shape *shape, int64_t bytes) {
  struct tb_kept_planes *const planes = &kept->planes;
  if (!they_fit(planes, shape, bytes) || !atomic_load_explicit(&planes->packed, memory_order_acquire))
    return (struct tb_planes){0, false};
  atomic_store_explicit(&planes->others, 0, memory_order_relaxed);
  return (struct tb_planes){planes->at, true};
}

struct tb_planes tb_cache_planes(struct tb_cache *cache, int user, struct tb_kept *kept,
                                 const struct tb_planes_shape *shape, int64_t bytes, int64_t free_bytes,
                                 int64_t limit_bytes) {
  static const struct tb_planes none = {0, false};
  struct tb_sighting *const s = tb_sighting_of(kept);
  struct tb_kept_planes *const planes = &kept->planes;
  const bool there = they_fit(planes, shape, bytes);
  if ((!there && s->uses < USES_UNTIL_PLANES) || !is_ours_alone(s, user)) return none;
  if (!there && planes->at != 0 && ++planes->others < OTHERS_ENOUGH) return none;
  planes->others = 0;
  if (!there && !have_planes(cache, s, bytes, free_bytes, limit_bytes)) return none;
  planes->shape = *shape;
  atomic_store(&planes->packed, false);
  return (struct tb_planes){planes->at, false};
}

bool tb_cache_drop_planes(struct tb_cache *cache, int user, struct tb_kept *kept) {
  struct tb_sighting *const s = tb_sighting_of(kept);
  if (kept->planes.at == 0 || !is_ours_alone(s, user)) return false;
  tb_planes_forget(cache, s, true);
  return true;
}

void tb_cache_finish_planes(struct tb_kept *kept) {
  atomic_store_explicit(&kept->planes.packed, true, memory_order_release);
}
