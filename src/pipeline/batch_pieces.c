/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/options.h"
#include "pipeline/batch_internal.h"
#include "select/order.h"

static int64_t result_bytes(const struct tb_call *call) {
  return tb_round_up(tb_leading(call->type, call->m) * call->n * tb_call_bytes(call), TB_LINE_BYTES);
}

/* Made real, A has twice the columns of reals, and so has a B whose memory does not run along k. */
static int64_t real_ld(const struct tb_call *call, bool of_b) {
  return tb_leading(TB_S, of_b ? call->n : 2 * (call->a.transposed ? call->k : call->m));
}

static int64_t real_bytes(const struct tb_call *call, bool of_b) {
  if (!tb_is_made_real(call->type) || (of_b && !call->b.transposed)) return 0;
  const int64_t columns = 2 * (of_b || !call->a.transposed ? call->k : call->m);
  return tb_round_up(real_ld(call, of_b) * columns * tb_type_bytes(TB_S), TB_LINE_BYTES);
}

bool tb_batch_fits(const struct tb_call *call) {
  const int64_t bytes = tb_batch_stored(call, false).bytes + tb_batch_stored(call, true).bytes;
  return bytes + (int64_t)sizeof(struct tb_batch_product) + TB_LINE_BYTES <= TB_SLOT_BYTES &&
         tb_plan_fits_one_slot(call, tb_plan_ways(call, NULL));
}

struct tb_batch_pipeline *tb_batch_pipeline_of(struct tb_device *d) {
  if (d->batch == NULL) d->batch = malloc(sizeof *d->batch);
  return d->batch;
}

/* A part of what a region has of something, if it has any. */
static int64_t part_of_room(int64_t bytes, int64_t part) {
  return bytes == 0 ? 0 : tb_max(TB_BATCH_LEAST_BYTES, bytes / part);
}

CUresult tb_batch_reserve(struct tb_device *d, struct tb_batch_room *room, int *regions, int most) {
  const int64_t limit = tb_option_number(TB_OPTION_memory_limit), budget = limit > 0 ? limit : INT64_MAX;
  const struct tb_batch_room whole = *room;
  const int64_t largest = tb_max(whole.up_bytes, tb_max(whole.real_bytes, whole.down_bytes));
  tb_device_trim(d, budget);
  if (limit > 0) tb_device_trim_others(d);
  for (int64_t part = 1; largest / part >= TB_BATCH_LEAST_BYTES; part *= 2) {
    *room = (struct tb_batch_room){part_of_room(whole.up_bytes, part), part_of_room(whole.real_bytes, part),
                                   part_of_room(whole.down_bytes, part)};
    /* Rather two smaller ones than one, which has nothing beside it. */
    const int least = largest / part < 2 * TB_BATCH_LEAST_BYTES ? 1 : (int)tb_min(most, 2);
    for (*regions = most; *regions >= least; *regions /= 2) {
      const int64_t bytes = *regions * tb_batch_region_bytes(room);
      if (bytes > budget) continue;
      if (limit > 0 && !tb_device_keep_within(d, limit - tb_max(bytes, d->arena_bytes))) continue;
      const CUresult result = tb_device_reserve(d, bytes);
      if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
      tb_cuda_failed_call = NULL; /* no failure yet: there is another try */
    }
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

bool tb_batch_seek(struct tb_batch_cursor *cursor, const struct tb_batch_progress *progress,
                   enum tb_batch_state state) {
  while (cursor->number + 1 < progress->end && tb_batch_next(cursor))
    if (cursor->number >= progress->first && progress->state[cursor->number] == (unsigned char)state) return true;
  return false;
}

/* Whether two views are the same matrix of memory, as far as it is read. */
static bool is_same(const struct tb_view *x, const struct tb_view *y) {
  return x->data == y->data && x->ld == y->ld && x->transposed == y->transposed;
}

/* A product as it follows the one before; of the same group, it is added in the same order. */
static void begin_item(struct tb_batch_item *item, const struct tb_batch_item *before,
                       const struct tb_batch_cursor *cursor) {
  item->call = cursor->call;
  item->number = cursor->number;
  const struct tb_call *const last = before != NULL ? &before->call : NULL;
  const bool alike = last != NULL && last->m == item->call.m && last->n == item->call.n && last->k == item->call.k;
  item->call.group_k = alike ? last->group_k : tb_gemm_group_k(&item->call);
  item->shares_a = alike && is_same(&last->a, &item->call.a);
  item->shares_b = alike && is_same(&last->b, &item->call.b);
}

/* Where it lies in a piece that has so much so far, which grows. False: there is no room. */
static bool place_item(struct tb_batch_piece *piece, const struct tb_batch_room *room, struct tb_batch_item *item,
                       const struct tb_batch_item *before, bool in_place) {
  const struct tb_call *const call = &item->call;
  const struct tb_batch_stored a = tb_batch_stored(call, false), b = tb_batch_stored(call, true);
  int64_t up = piece->up_bytes, real = piece->real_bytes;
  struct tb_batch_place *const p = &item->place;
  *p = (struct tb_batch_place){.lda = a.ld, .ldb = b.ld, .ldd = tb_leading(call->type, call->m), .padded = true};
  p->a = item->shares_a ? before->place.a : up;
  if (!item->shares_a && !in_place) up += a.bytes;
  p->b = item->shares_b ? before->place.b : up;
  if (!item->shares_b && !in_place) up += b.bytes;
  p->real_a = room->up_bytes + real, p->real_lda = real_ld(call, false);
  real += real_bytes(call, false);
  p->real_b = room->up_bytes + real, p->real_ldb = real_ld(call, true);
  real += real_bytes(call, true);
  p->d = room->up_bytes + room->real_bytes + piece->down_bytes;
  const bool has_result = !in_place || !tb_call_overwrites(call);
  const int64_t down = piece->down_bytes + (has_result ? result_bytes(call) : 0);
  const int64_t list_bytes = (piece->count + 1) * (int64_t)sizeof(struct tb_batch_product);
  if (up + list_bytes > room->up_bytes || real > room->real_bytes || down > room->down_bytes) return false;
  piece->up_bytes = up, piece->real_bytes = real, piece->down_bytes = down;
  return true;
}

/* In place, what the list has are addresses. */
static void place_there(struct tb_batch_item *item, uint64_t region) {
  struct tb_batch_place *const p = &item->place;
  const struct tb_call *const call = &item->call;
  p->real_a += (int64_t)region, p->real_b += (int64_t)region, p->d += (int64_t)region;
  p->a = (int64_t)(uintptr_t)call->a.data, p->b = (int64_t)(uintptr_t)call->b.data;
  p->lda = call->a.ld, p->ldb = call->b.ld;
  p->padded = false;
  if (tb_call_overwrites(call)) p->d = (int64_t)(uintptr_t)call->c, p->ldd = call->ldc;
}

bool tb_batch_add(struct tb_batch_piece *piece, const struct tb_batch_room *room, const struct tb_batch_cursor *cursor,
                  bool in_place, uint64_t region) {
  if (piece->count == TB_BATCH_PIECE_PRODUCTS) return false;
  struct tb_batch_item *const item = &piece->item[piece->count];
  const struct tb_batch_item *const before = piece->count > 0 ? item - 1 : NULL;
  begin_item(item, before, cursor);
  if (!place_item(piece, room, item, before, in_place)) return false;
  if (in_place) place_there(item, region);
  item->place.base = in_place ? 0 : region;
  item->variant = tb_batch_variant_of(&item->call, &item->place);
  piece->count++;
  return true;
}

static struct tb_batch_product *list_of(const struct tb_batch_piece *piece) {
  return (struct tb_batch_product *)(piece->slot_up + piece->list_at);
}

void tb_batch_write_list(struct tb_batch_piece *piece) {
  struct tb_batch_product *next = list_of(piece);
  for (int variant = 0; variant < TB_BATCH_VARIANTS; variant++)
    for (int i = 0; i < piece->count; i++) {
      const struct tb_batch_item *const item = &piece->item[i];
      if (item->variant != variant) continue;
      tb_batch_product_of(next, &item->call, &item->place);
      if (item->place.base == 0 && !tb_call_overwrites(&item->call))
        next->c = (int64_t)(uintptr_t)item->call.c, next->ldc = item->call.ldc;
      next++;
    }
}

/* The commit of a C counts when it is enqueued: should it fail, so does all memory there. */
static void count_commits(const struct tb_batch_piece *piece, int variant, struct tb_batch_progress *progress) {
  for (int i = 0; i < piece->count; i++)
    if (piece->item[i].variant == variant && !tb_call_overwrites(&piece->item[i].call))
      progress->state[piece->item[i].number] = TB_BATCH_DONE;
}

CUresult tb_batch_launch_piece(struct tb_device *d, const struct tb_batch_piece *piece,
                               const struct tb_batch_room *room, uint64_t region, struct tb_batch_progress *in_place,
                               CUstream stream) {
  int count[TB_BATCH_VARIANTS] = {0};
  for (int i = 0; i < piece->count; i++) count[piece->item[i].variant]++;
  const struct tb_batch_product *const list = list_of(piece);
  for (int variant = 0, first = 0; variant < TB_BATCH_VARIANTS; first += count[variant], variant++) {
    if (count[variant] == 0) continue;
    const struct tb_batch_product *const there = (const struct tb_batch_product *)(region + (uint64_t)piece->list_at);
    struct tb_batch_run run = {.type = piece->item[0].call.type, .variant = variant, .list = list + first};
    run.args = (struct tb_batch_args){.products = there + first, .base = in_place != NULL ? NULL : (char *)region};
    run.args.count = count[variant];
    run.args.read_bytes = run.args.write_at = room->up_bytes; /* made real */
    run.args.write_bytes = piece->real_bytes;
    TB_TRY(tb_batch_make_real(&d->kernels.batch, &run, stream));
    run.args.read_bytes = run.args.write_at = room->up_bytes + room->real_bytes;
    run.args.write_bytes = piece->down_bytes;
    TB_TRY(tb_batch_multiply(&d->kernels.batch, &run, stream));
    if (in_place == NULL || piece->down_bytes == 0) continue;
    TB_TRY(tb_batch_commit(&d->kernels.batch, &run, stream));
    count_commits(piece, variant, in_place);
  }
  return CUDA_SUCCESS;
}
