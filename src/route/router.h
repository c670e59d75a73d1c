/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process knows of the machine: a model for each element type, where their figures came from, and what calls
 * taught it. Asks route.c for decisions. Thread-safe; calls that are small (tb_route_small_terms) never come here.
 *
 * The first call that is not small looks for measurements that an earlier process kept. The first that is to go to the
 * GPU opens it and, if there are none for just this GPU, measures both sides (calibrate.h), keeps the figures and
 * decides anew. No thread waits for another's measuring: meanwhile it goes by what is known.
 *
 * Of short calls of one shape, one behind the other in a thread, for which the CPU is clearly sooner, one in eight is
 * weighed and teaches; the others follow it, unless somebody observes.
 */
#ifndef TB_ROUTER_H
#define TB_ROUTER_H

#include "route/route.h"

/* Whether a call on pageable memory follows an earlier one to the CPU, of which nobody wants to know more: without a
 * lock, arithmetic or a question. */
bool tb_router_follows(const struct tb_call *call, enum tb_route_mode mode, struct tb_decision *decision);

/* For a call that tb_route_settled, tb_route_resident and tb_router_follows do not decide. */
struct tb_decision tb_router_decide(const struct tb_call *call, const struct tb_places *places,
                                    enum tb_route_mode mode);

/* A call that was decided for the GPU is back, whatever became of it there. Every such call must come here. */
void tb_router_leave(struct tb_decision *decision);

/* What a call took that is over `now`, on the side where it was answered. Only a call that was weighed teaches
 * anything, not a forced one. */
void tb_router_learn(const struct tb_call *call, const struct tb_places *places, const struct tb_decision *decision,
                     enum tb_where where, double seconds, double now);

/* The rates by which products of a type are predicted now, found out as for a call through `symbol`. */
struct tb_rates tb_router_rates(enum tb_type type, enum tb_symbol symbol);

/* The child of a fork starts with what its parent knew. */
void tb_router_after_fork(void);

#endif
