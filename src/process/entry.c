/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/entry.h"

/* A place whose call has not been heard of for so long is another's. */
#define PLACE_KEPT_SECONDS 1.0

static bool there_is_room(const struct tb_entry *e, int room) {
  int taken = 0;
  for (int lane = 0; lane < TB_LANES; lane++) taken += e->room[lane];
  return taken + room <= TB_LANES;
}

static bool is_heard_of(const struct tb_entry_waiting *w, double now) {
  return w->ticket != 0 && now - w->seen <= TB_ENTRY_PATIENCE_SECONDS;
}

/* Whether one that waits goes before the call with this ticket. */
static bool goes_before(const struct tb_entry_waiting *w, uint64_t ticket, double now) {
  if (!is_heard_of(w, now)) return false;
  return ticket == 0 ? now - w->since >= TB_ENTRY_PASS_SECONDS : w->ticket < ticket;
}

bool tb_entry_may(const struct tb_entry *e, int room, uint64_t ticket, double now) {
  if (!there_is_room(e, room)) return false;
  for (int i = 0; e->waiting_count > 0 && i < TB_ENTRY_WAITING; i++)
    if (goes_before(&e->waiting[i], ticket, now)) return false;
  return true;
}

int tb_entry_place(const struct tb_entry *e, uint64_t ticket) {
  for (int i = 0; ticket != 0 && i < TB_ENTRY_WAITING; i++)
    if (e->waiting[i].ticket == ticket) return i;
  return -1;
}

static int free_place(const struct tb_entry *e, double now) {
  for (int i = 0; i < TB_ENTRY_WAITING; i++)
    if (e->waiting[i].ticket == 0 || now - e->waiting[i].seen > PLACE_KEPT_SECONDS) return i;
  return -1;
}

uint64_t tb_entry_wait(struct tb_entry *e, uint64_t ticket, int room, const void *who, double now) {
  int place = tb_entry_place(e, ticket);
  if (place < 0) {
    if ((place = free_place(e, now)) < 0) return 0;
    if (e->waiting[place].ticket == 0) e->waiting_count++;
    e->waiting[place] = (struct tb_entry_waiting){.ticket = ++e->tickets, .who = who, .room = room, .since = now};
  }
  e->waiting[place].seen = now;
  return e->waiting[place].ticket;
}

void tb_entry_end_wait(struct tb_entry *e, uint64_t ticket) {
  const int place = tb_entry_place(e, ticket);
  if (place < 0) return;
  e->waiting[place].ticket = 0;
  e->waiting_count--;
}

void tb_entry_forget(struct tb_entry *e, const void *who) {
  for (int i = 0; e->waiting_count > 0 && i < TB_ENTRY_WAITING; i++)
    if (e->waiting[i].who == who) tb_entry_end_wait(e, e->waiting[i].ticket);
}

int tb_entry_next(const struct tb_entry *e, double now) {
  int first = -1;
  for (int i = 0; e->waiting_count > 0 && i < TB_ENTRY_WAITING; i++)
    if (is_heard_of(&e->waiting[i], now) && (first < 0 || e->waiting[i].ticket < e->waiting[first].ticket)) first = i;
  return first >= 0 && there_is_room(e, e->waiting[first].room) ? first : -1;
}
