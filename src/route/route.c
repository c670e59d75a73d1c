/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/route.h"

#include <stddef.h>

#include "route/learn.h"

/* The side that was taken for a shape before is left when the other is sooner by this share: less is noise. Less is
 * needed to go back to the CPU, which the program would have without us. */
#define GPU_CLEARLY_SOONER 0.95
#define CPU_CLEARLY_SOONER 0.97

atomic_llong tb_route_small_terms[TB_TYPE_COUNT] = {TB_SMALL_TERMS_AT_FIRST, TB_SMALL_TERMS_AT_FIRST,
                                                    TB_SMALL_TERMS_AT_FIRST, TB_SMALL_TERMS_AT_FIRST};

bool tb_route_resident(const struct tb_call *call, const struct tb_places *p, enum tb_route_mode mode,
                       struct tb_decision *decision) {
  if (p == NULL) return false;
  bool all = p->a.place != TB_PAGEABLE && p->b.place != TB_PAGEABLE && p->c.place != TB_PAGEABLE;
  bool managed = p->a.place == TB_MANAGED || p->b.place == TB_MANAGED || p->c.place == TB_MANAGED;
  if (!tb_places_need_gpu(p) && !(all && managed && !tb_call_is_trivial(call))) return false;
  bool gpu = mode != TB_ROUTE_CPU;
  *decision =
      (struct tb_decision){.where = gpu ? TB_GPU : TB_CPU, .why = gpu ? TB_STATUS_resident : TB_STATUS_forced_cpu};
  return true;
}

bool tb_route_settled(const struct tb_call *call, enum tb_route_mode mode, struct tb_decision *decision) {
  enum tb_status why;
  if (tb_call_is_trivial(call))
    why = TB_STATUS_trivial;
  else if (mode == TB_ROUTE_CPU)
    why = TB_STATUS_forced_cpu;
  else if (mode == TB_ROUTE_AUTO && tb_call_flops(call) < tb_route_small_flops(call->type))
    why = TB_STATUS_small;
  else
    return false;
  *decision = (struct tb_decision){.where = TB_CPU, .why = why};
  return true;
}

/* A call for which it is clear that it is the CPU's: the GPU takes so many times as long or more. */
#define CLEAR_TIMES 1.25

/* Whether the GPU is predicted to finish sooner. Numbers that are none leave the call to the CPU. */
static bool gpu_is_sooner(const struct tb_prediction *p) {
  const double cpu = p->seconds[TB_CPU], gpu = p->seconds[TB_GPU];
  if (!p->decided) return gpu < cpu;
  return p->last == TB_GPU ? CPU_CLEARLY_SOONER * gpu <= cpu : gpu < GPU_CLEARLY_SOONER * cpu;
}

/* Whether the side that is thought to be slower should be tried: a trial has begun, or its own time is not known, and
 * the loss that is predicted for a trial has been put by (learn.h). */
static bool should_try_other(const struct tb_prediction *p, enum tb_where sooner) {
  const enum tb_where other = sooner == TB_GPU ? TB_CPU : TB_GPU;
  const double here = p->seconds[sooner], there = p->seconds[other];
  if (!(there < TB_PROBE_MOST_TIMES * here)) return false;
  return p->trying[other] || (!p->known[other] && TB_PROBE_CALLS * (there - here) < p->probe_seconds);
}

/* A CPU BLAS of one thread a call: a thread that waits for the GPU leaves its core with nothing to do, and its call
 * makes others wait that come later. So its wait counts as much again. */
#define WAIT_WEIGHT_OF_ONE_THREAD 2.0

/* The GPU would be sooner if it were free: where is the call finished first? Nothing is tried on a GPU that others use,
 * since it would say little, nor is it clear for calls to come. */
static struct tb_decision weigh_wait(const struct tb_prediction *p, double wait_seconds, bool one_thread) {
  const double weight = one_thread ? WAIT_WEIGHT_OF_ONE_THREAD : 1;
  const double cpu = p->seconds[TB_CPU], gpu = p->seconds[TB_GPU] + wait_seconds;
  const bool gpu_alone = gpu_is_sooner(p), waits = gpu_alone && p->seconds[TB_GPU] + weight * wait_seconds < cpu;
  return (struct tb_decision){.where = waits ? TB_GPU : TB_CPU,
                              .why = waits       ? TB_STATUS_gpu_sooner
                                     : gpu_alone ? TB_STATUS_gpu_taken
                                                 : TB_STATUS_cpu_sooner,
                              .cpu_seconds = cpu,
                              .gpu_seconds = gpu,
                              .wait_seconds = wait_seconds};
}

static struct tb_decision weigh_sides(const struct tb_call *call, const struct tb_places *places,
                                      const struct tb_machine *machine) {
  struct tb_prediction p;
  tb_model_predict(machine->model, call, places, machine->now, &p);
  if (machine->wait_seconds > 0) return weigh_wait(&p, machine->wait_seconds, machine->model->threads == 1);
  struct tb_decision d = {.cpu_seconds = p.seconds[TB_CPU], .gpu_seconds = p.seconds[TB_GPU]};
  const bool gpu = gpu_is_sooner(&p);
  const double saving = d.cpu_seconds - d.gpu_seconds;
  d.where = gpu ? TB_GPU : TB_CPU;
  d.why = gpu ? TB_STATUS_gpu_sooner : TB_STATUS_cpu_sooner;
  d.clear = !gpu && p.known[TB_CPU] && d.gpu_seconds > CLEAR_TIMES * d.cpu_seconds;
  if (machine->gpu_open) {
    if (places == NULL && should_try_other(&p, d.where)) {
      d.clear = false;
      d.where = gpu ? TB_CPU : TB_GPU;
      d.why = TB_STATUS_tried;
    }
  } else if (gpu && !(machine->saved_seconds + saving >= machine->model->rates.open_seconds)) {
    /* Rent until the rent equals the price: at worst twice the best that hindsight could have done. */
    d.where = TB_CPU;
    d.why = TB_STATUS_not_yet;
  }
  return d;
}

struct tb_decision tb_route(const struct tb_call *call, const struct tb_places *places,
                            const struct tb_machine *machine) {
  struct tb_decision d;
  if (tb_route_settled(call, machine->mode, &d)) return d;
  if (machine->gpu != TB_STATUS_ok) return (struct tb_decision){.where = TB_CPU, .why = machine->gpu};
  if (machine->mode == TB_ROUTE_GPU) return (struct tb_decision){.where = TB_GPU, .why = TB_STATUS_forced_gpu};
  return weigh_sides(call, places, machine);
}
