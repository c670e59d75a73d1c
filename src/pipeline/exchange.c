/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/exchange.h"

#include "cuda/wait.h"

/* ---- between the members ---- */

void tb_exchange_open(struct tb_exchange *x, int members, bool on) {
  *x = (struct tb_exchange){.members = members, .on = on};
  pthread_mutex_init(&x->lock, NULL);
  pthread_cond_init(&x->all_arrived, NULL);
}

void tb_exchange_close(struct tb_exchange *x) {
  pthread_cond_destroy(&x->all_arrived);
  pthread_mutex_destroy(&x->lock);
}

/* With the lock held. */
static void arrive(struct tb_exchange *x, struct tb_panels panels) {
  if (x->arrived == 0) x->panels = panels;
  if (panels.count < 2 || panels.count != x->panels.count || panels.across != x->panels.across) x->on = false;
  x->panels.slices = tb_min(x->panels.slices, panels.slices);
  x->arrived++;
  pthread_cond_broadcast(&x->all_arrived);
}

struct tb_pass tb_pass_of(struct tb_exchange *x, int member, struct tb_device *device, enum tb_operand operand) {
  return (struct tb_pass){.exchange = x, .device = device, .member = member, .operand = operand};
}

void tb_pass_join(struct tb_pass *pass, struct tb_panels panels) {
  struct tb_exchange *x = pass->exchange;
  pthread_mutex_lock(&x->lock);
  arrive(x, panels);
  while (x->arrived < x->members) pthread_cond_wait(&x->all_arrived, &x->lock);
  if (!x->on) pass->operand = TB_NO_OPERAND;
  pthread_mutex_unlock(&x->lock);
  pass->joined = true;
}

void tb_pass_leave(struct tb_pass *pass) {
  struct tb_exchange *x = pass->exchange;
  pthread_mutex_lock(&x->lock);
  if (!pass->joined) arrive(x, (struct tb_panels){0, 0, 0});
  for (int64_t slice = 0; slice < TB_EMULATED_SLICES_MAX; slice++)
    for (int64_t panel = pass->member; panel < TB_TILES_MAX; panel += x->members)
      if (x->panel[slice][panel].state == TB_PANEL_AWAITED) x->panel[slice][panel].state = TB_PANEL_NEVER;
  pthread_mutex_unlock(&x->lock);
}

/* ---- whose turn ---- */

static bool passes_operand(const struct tb_pass *pass, enum tb_operand operand) {
  return pass != NULL && pass->operand == operand;
}

int64_t tb_pass_turn(const struct tb_pass *pass, enum tb_operand operand, int64_t turn) {
  if (!passes_operand(pass, operand)) return turn;
  const int64_t members = pass->exchange->members, group = turn / members * members;
  return group + (turn - group + pass->member) % tb_min(members, pass->exchange->panels.count - group);
}

bool tb_pass_is_own(const struct tb_pass *pass, enum tb_operand operand, int64_t panel) {
  return !passes_operand(pass, operand) || panel % pass->exchange->members == pass->member;
}

/* ---- on the way ---- */

CUresult tb_pass_sent(struct tb_pass *pass, int64_t panel, int64_t slice, CUdeviceptr address) {
  CUevent arrived;
  TB_TRY(tb_device_panel_event(pass->device, panel, slice, &arrived));
  TB_TRY(tb_cuda.cuEventRecord(arrived, pass->device->up));
  pass->exchange->panel[slice][panel].address = address; /* nobody reads it before it is offered */
  pass->exchange->panel[slice][panel].context = pass->device->context;
  pass->sent++;
  return CUDA_SUCCESS;
}

static void offer(struct tb_exchange *x, int64_t panel, int64_t slice) {
  pthread_mutex_lock(&x->lock);
  x->panel[slice][panel].state = TB_PANEL_OFFERED;
  pthread_mutex_unlock(&x->lock);
}

CUresult tb_pass_offer(struct tb_pass *pass, bool wait) {
  if (wait && pass->offered < pass->sent) TB_TRY(tb_device_wait(pass->device, pass->device->up));
  for (; pass->offered < pass->sent; pass->offered++) {
    const int64_t members = pass->exchange->members;
    const int64_t own = tb_ceil_div(pass->exchange->panels.count - pass->member, members); /* panels */
    const int64_t panel = pass->offered % own * members + pass->member, slice = pass->offered / own;
    CUevent arrived;
    TB_TRY(tb_device_panel_event(pass->device, panel, slice, &arrived));
    const CUresult result = tb_ask_event(arrived);
    if (result == CUDA_ERROR_NOT_READY) break;
    if (result != CUDA_SUCCESS) return result;
    offer(pass->exchange, panel, slice);
  }
  return CUDA_SUCCESS;
}

enum tb_panel_state tb_pass_look(struct tb_pass *pass, int64_t panel, int64_t slice) {
  struct tb_exchange *x = pass->exchange;
  pthread_mutex_lock(&x->lock);
  const enum tb_panel_state state = x->panel[slice][panel].state;
  pthread_mutex_unlock(&x->lock);
  return state;
}

CUresult tb_pass_fetch(struct tb_pass *pass, int64_t panel, int64_t slice, CUdeviceptr target, int64_t bytes) {
  struct tb_device *d = pass->device;
  TB_TRY(tb_device_open_fetching(d));
  TB_TRY(tb_cuda.cuMemcpyPeerAsync(target, d->context, pass->exchange->panel[slice][panel].address,
                                   pass->exchange->panel[slice][panel].context, (size_t)bytes, d->fetching));
  TB_TRY(tb_cuda.cuEventRecord(d->fetched, d->fetching));
  pass->fetched = true;
  return CUDA_SUCCESS;
}
