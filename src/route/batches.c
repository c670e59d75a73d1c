/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/batches.h"

#include <pthread.h>
#include <stddef.h>

#include "base/clock.h"
#include "offload/offload.h"
#include "route/router.h"

/* Of a product on either side, beside what its operations and bytes take: a call of the CPU's routine within a batch,
 * and our own work for its place in a piece. */
#define CPU_PRODUCT_SECONDS 0.5e-6
#define GPU_PRODUCT_SECONDS 0.3e-6

/* A form of batches, and what the latest of them took on each side. Two are of one form when all of this is the same.
 */
struct form {
  enum tb_type type;
  int64_t products;
  double flops, up_bytes;
  double seconds[TB_WHERE_COUNT]; /* 0: not known */
  double predicted[TB_WHERE_COUNT];
  int since_trial; /* calls since the side that is thought slower was tried */
};

#define FORMS 64
static struct form forms[FORMS];
static double factor[TB_TYPE_COUNT][TB_WHERE_COUNT];             /* observed over predicted, of all forms; 0: 1 */
static double saved_by_batches;                                  /* seconds that a GPU would have saved, were it open */
static pthread_mutex_t batches_lock = PTHREAD_MUTEX_INITIALIZER; /* guards them; held for some hundred nanoseconds */

void tb_batch_router_after_fork(void) { pthread_mutex_init(&batches_lock, NULL); }

/* The formula alone. */
static void predict_batch(const struct tb_batch *batch, const struct tb_rates *r, double seconds[TB_WHERE_COUNT]) {
  const double products = (double)batch->products;
  const double cpu_flops = batch->flops / r->cpu_flops_per_s;
  const double cpu_bytes = (batch->up_bytes + 2 * batch->down_bytes) / r->cpu_bytes_per_s;
  seconds[TB_CPU] =
      r->cpu_call_seconds + (cpu_flops > cpu_bytes ? cpu_flops : cpu_bytes) + products * CPU_PRODUCT_SECONDS;
  double gpu = batch->up_bytes / r->up_bytes_per_s;
  const double down = batch->down_bytes / r->down_bytes_per_s, flops = batch->flops / r->gpu_flops_per_s;
  if (down > gpu) gpu = down;
  if (flops > gpu) gpu = flops;
  seconds[TB_GPU] = r->gpu_latency_seconds + gpu + products * GPU_PRODUCT_SECONDS;
}

static bool is_form(const struct form *f, const struct tb_batch *batch) {
  return f->type == batch->type && f->products == batch->products && f->flops == batch->flops &&
         f->up_bytes == batch->up_bytes;
}

/* Its place, taken from whoever was there. With the lock held. */
static struct form *form_of(const struct tb_batch *batch) {
  uint64_t h = (uint64_t)batch->products * 0x9e3779b97f4a7c15u ^ (uint64_t)batch->flops * 0xbf58476d1ce4e5b9u;
  h ^= h >> 29 ^ (uint64_t)batch->type;
  struct form *const f = &forms[h % FORMS];
  if (!is_form(f, batch))
    *f = (struct form){
        .type = batch->type, .products = batch->products, .flops = batch->flops, .up_bytes = batch->up_bytes};
  return f;
}

/* A side whose time is not known is tried when it may be so much slower, and one that is known anew after so many
 * calls, for either may have changed. */
#define TRY_TIMES 2.0
#define CALLS_TO_TRIAL 64

static bool should_try(const struct form *f, enum tb_where other, double here, double there) {
  return there < TRY_TIMES * here && (f->seconds[other] == 0 || f->since_trial >= CALLS_TO_TRIAL);
}

/* With the lock held. */
static struct tb_decision weigh_batch(const struct tb_batch *batch, const struct tb_rates *rates) {
  struct form *const f = form_of(batch);
  double seconds[TB_WHERE_COUNT];
  predict_batch(batch, rates, f->predicted);
  for (int where = 0; where < TB_WHERE_COUNT; where++) {
    const double known = factor[batch->type][where];
    seconds[where] = f->seconds[where] > 0 ? f->seconds[where] : f->predicted[where] * (known > 0 ? known : 1);
  }
  struct tb_decision d = {.cpu_seconds = seconds[TB_CPU], .gpu_seconds = seconds[TB_GPU]};
  d.where = d.gpu_seconds < d.cpu_seconds ? TB_GPU : TB_CPU;
  d.why = d.where == TB_GPU ? TB_STATUS_gpu_sooner : TB_STATUS_cpu_sooner;
  if (!tb_offload_is_open()) {
    const double saving = d.cpu_seconds - d.gpu_seconds;
    if (d.where == TB_CPU || saved_by_batches + saving >= rates->open_seconds) return d;
    d.where = TB_CPU, d.why = TB_STATUS_not_yet;
    return d;
  }
  const enum tb_where other = d.where == TB_GPU ? TB_CPU : TB_GPU;
  f->since_trial++;
  if (!should_try(f, other, seconds[d.where], seconds[other])) return d;
  f->since_trial = 0;
  d.where = other, d.why = TB_STATUS_tried;
  return d;
}

struct tb_decision tb_batch_decide(const struct tb_batch *batch, enum tb_route_mode mode) {
  const enum tb_status gpu = tb_offload_status();
  struct tb_decision d = {.where = TB_CPU, .why = TB_STATUS_forced_cpu};
  if (mode == TB_ROUTE_CPU) return d;
  d.why = TB_STATUS_small;
  if (mode == TB_ROUTE_AUTO && batch->flops < tb_route_small_flops(batch->type)) return d;
  d.why = gpu;
  if (gpu != TB_STATUS_ok) return d;
  if (mode == TB_ROUTE_GPU) return (struct tb_decision){.where = TB_GPU, .why = TB_STATUS_forced_gpu};
  const struct tb_rates rates = tb_router_rates(batch->type, tb_gemm_of(batch->symbol));
  pthread_mutex_lock(&batches_lock);
  d = weigh_batch(batch, &rates);
  pthread_mutex_unlock(&batches_lock);
  d.at = tb_clock_seconds();
  return d;
}

/* The latest counts half. */
static double followed(double before, double now) { return before > 0 ? (before + now) / 2 : now; }

void tb_batch_learn(const struct tb_batch *batch, const struct tb_decision *d, enum tb_where where, int gpus,
                    double seconds) {
  if (!(d->cpu_seconds > 0 && d->gpu_seconds > 0 && seconds > 0)) return;
  pthread_mutex_lock(&batches_lock);
  struct form *const f = form_of(batch);
  f->seconds[where] = followed(f->seconds[where], seconds);
  if (f->predicted[where] > 0 && (where == TB_CPU || gpus == 1))
    factor[batch->type][where] = followed(factor[batch->type][where], seconds / f->predicted[where]);
  if (d->why == TB_STATUS_not_yet) saved_by_batches += seconds - d->gpu_seconds;
  pthread_mutex_unlock(&batches_lock);
}
