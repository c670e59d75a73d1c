/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* A large model has some hundred matrices. */
#define RANGES_MOST 4096

/* In order, none touching the next. */
static struct range { uintptr_t start, end; } ranges[RANGES_MOST];
static atomic_int range_count;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

/* What another thread was changing may be out of order in the child, which can cost it a choice, and no proof. */
void tb_ranges_after_fork(void) { pthread_mutex_init(&ranges_lock, NULL); }

/* The first range that ends at `address` or behind it. */
static int first_ending_at(uintptr_t address) {
  int low = 0, high = range_count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ranges[middle].end < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Puts `count` ranges in the place of those from `first` to before `last`. */
static bool replace(int first, int last, const struct range *by, int count) {
  const int left = range_count - last;
  if (first + count + left > RANGES_MOST) return false;
  memmove(&ranges[first + count], &ranges[last], (size_t)left * sizeof *ranges);
  for (int i = 0; i < count; i++) ranges[first + i] = by[i];
  atomic_store(&range_count, first + count + left);
  return true;
}

bool tb_ranges_keep(uintptr_t start, uintptr_t end) {
  pthread_mutex_lock(&ranges_lock);
  struct range all = {start, end};
  const int first = first_ending_at(start);
  int last = first;
  for (; last < range_count && ranges[last].start <= end; last++) {
    if (ranges[last].start < all.start) all.start = ranges[last].start;
    if (ranges[last].end > all.end) all.end = ranges[last].end;
  }
  const bool kept = replace(first, last, &all, 1);
  pthread_mutex_unlock(&ranges_lock);
  return kept;
}

bool tb_ranges_forget(uintptr_t start, uintptr_t end) {
  pthread_mutex_lock(&ranges_lock);
  struct range rests[2];
  int rest_count = 0, first = first_ending_at(start), last = first;
  for (; last < range_count && ranges[last].start < end; last++) {
    if (ranges[last].start < start) rests[rest_count++] = (struct range){ranges[last].start, start};
    if (ranges[last].end > end) rests[rest_count++] = (struct range){end, ranges[last].end};
  }
  const bool forgotten = replace(first, last, rests, rest_count);
  pthread_mutex_unlock(&ranges_lock);
  return forgotten;
}

bool tb_ranges_have(const struct tb_stored *operand) {
  if (atomic_load(&range_count) == 0) return false;
  const uintptr_t start = (uintptr_t)operand->data, end = start + (uintptr_t)tb_stored_span_bytes(operand);
  pthread_mutex_lock(&ranges_lock);
  const int i = first_ending_at(end);
  const bool has = i < range_count && ranges[i].start <= start;
  pthread_mutex_unlock(&ranges_lock);
  return has;
}
