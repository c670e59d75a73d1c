/* SPDX-License-Identifier: BSD-3-Clause */
/* The offload of a build without GPU kernels: it never takes a call, and knows of no GPU memory. */
#include <stdio.h>

#include "offload/batch.h"
#include "offload/hosted.h"
#include "offload/offload.h"

enum tb_status tb_offload_status(void) { return TB_STATUS_no_kernels; }

bool tb_offload_is_open(void) { return false; }

void tb_offload_rest(void) {}

bool tb_offload_may_open_later(void) { return false; }

bool tb_offload_open(struct tb_gpu_identity *identity) {
  (void)identity;
  return false;
}

bool tb_offload_measure_link(double *up_bytes_per_s, double *down_bytes_per_s) {
  (void)up_bytes_per_s;
  (void)down_bytes_per_s;
  return false;
}

void tb_offload_set_link(double up_bytes_per_s) { (void)up_bytes_per_s; }

bool tb_offload_call(const struct tb_call *call, const struct tb_places *places, bool timed,
                     struct tb_outcome *outcome) {
  (void)call;
  (void)places;
  (void)timed;
  *outcome = (struct tb_outcome){.why = TB_STATUS_no_kernels};
  return false;
}

bool tb_offload_is_one_sum(const struct tb_call *call, const struct tb_places *places) {
  (void)call;
  (void)places;
  return false;
}

bool tb_offload_call_alone(const struct tb_call *call, struct tb_outcome *outcome) {
  return tb_offload_call(call, NULL, false, outcome);
}

void tb_offload_describe(char *text, size_t size) { snprintf(text, size, "%s", tb_status_text(TB_STATUS_no_kernels)); }

void tb_offload_after_fork(void) {}

void tb_offload_forget(uintptr_t start, uintptr_t end) {
  (void)start;
  (void)end;
}

/* Nobody asks a driver, so nothing is known to lie anywhere; all memory counts as our own. */
bool tb_places_find(const struct tb_call *call, struct tb_places *places) {
  (void)call;
  (void)places;
  return false;
}

bool tb_places_are_plain(const struct tb_call *call) {
  (void)call;
  return true;
}

static void *const end_of_all_memory = (void *)UINTPTR_MAX;
struct tb_own_memory tb_own_memory = {.heap_start = 0, .heap_end = &end_of_all_memory};

void tb_places_initialise(void) {}

const char *tb_place_text(enum tb_place place) {
  (void)place;
  return "host";
}

bool tb_hosted_begin(struct tb_hosted *hosted, const struct tb_call *call, const struct tb_places *places,
                     bool managed_too) {
  (void)hosted;
  (void)call;
  (void)places;
  (void)managed_too;
  return false;
}

bool tb_hosted_end(struct tb_hosted *hosted) {
  (void)hosted;
  return false;
}

enum tb_batch_state tb_offload_batch_way(const struct tb_call *call, const struct tb_places *places) {
  (void)places;
  return call->m == 0 || call->n == 0 ? TB_BATCH_DONE : TB_BATCH_ON_CPU;
}

bool tb_offload_batch(const struct tb_batch *batch, unsigned char *state, const struct tb_places *places, bool timed,
                      struct tb_outcome *outcome) {
  (void)batch;
  (void)state;
  (void)places;
  (void)timed;
  *outcome = (struct tb_outcome){.why = TB_STATUS_no_kernels};
  return false;
}
