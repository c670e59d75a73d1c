/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/learn.h"

#include <stddef.h>
#include <stdlib.h>

/* An observation off by more than this factor surprises: the noise of calls on a shared machine is less. */
#define SURPRISE 1.5
/* How many in a row are believed. Of what was only assumed, the first. A machine's other work holds up two calls
 * running often enough, by some milliseconds: with two believed, one such pair in a thousand calls of a millisecond
 * sent a shape to the slower side for its next hundred. */
static int surprises_believed(const struct tb_model *model, double predicted_seconds) {
  return model->assumed ? 1 : predicted_seconds > TB_LONG_SECONDS ? 2 : 3;
}
/* Each before them moves the estimate as if it had been so far off. */
#define SURPRISE_HEARD 1.15
/* And those move it at most as if it had been so far off. */
#define SURPRISE_BELIEVED 4.0

/* Share of the way that an estimate goes, by ordinary observations and by surprises. A shape's own time is the same
 * each time but for noise, which mostly adds: one call in six takes a tenth or more longer, in streaks (H200's hosts).
 * So an ordinary observation counts as a tenth off at most, and the estimate comes to be near the median; near the
 * mean, it took shapes to the slower side and back. Calls of one class differ. */
struct gains {
  double ordinary, ordinary_most, surprised;
};
static const struct gains shape_gains = {0.3, 1.1, 0.6}, class_gains = {0.1, SURPRISE, 0.3};

/* Of a call that is not one of a row on its side. */
#define COLD_TRUST 0.25

/* Less than any call counts: the side's time is known no longer, and the next call of a row there replaces it. */
#define LEFT_SEEN 0.01

#define SEEN_MOST 8.0

/* How much a call counts: the part of the gains that it moves estimates by, and how many surprises in a row are
 * believed. */
struct weight {
  double trust;
  int believed;
};

static double bounded(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

/* The factor by which an estimate has to move after an observation that was `off` times it. */
static double step(struct tb_follower *f, double off, struct gains gains, struct weight weight) {
  const int surprise = off > SURPRISE ? 1 : off < 1 / SURPRISE ? -1 : 0;
  if (surprise == 0) {
    f->surprises = 0;
    return 1 + weight.trust * gains.ordinary * (bounded(off, 1 / gains.ordinary_most, gains.ordinary_most) - 1);
  }
  if (surprise * f->surprises <= 0) f->surprises = 0, f->agreed = off;
  f->surprises += surprise;
  if (surprise > 0 ? off < f->agreed : off > f->agreed) f->agreed = off;
  const double most = abs(f->surprises) < weight.believed ? SURPRISE_HEARD : SURPRISE_BELIEVED;
  return 1 + weight.trust * gains.surprised * (bounded(f->agreed, 1 / most, most) - 1);
}

static void fade(struct tb_follower *f, double now) {
  f->value = 1 + (f->value - 1) * tb_faded(now - f->at, TB_CLASS_HALF_SECONDS);
  f->at = now;
}

static void move_factor(struct tb_follower *f, double factor, double now) {
  fade(f, now);
  f->value = bounded(f->value * factor, 1 / TB_LEARNED_MOST, TB_LEARNED_MOST);
}

/* The nodes around the call, each by its weight, so that the prediction goes the whole step. */
static void observe_class(struct tb_model *model, enum tb_where where, const struct tb_cell *cell, double off,
                          struct weight weight, double now) {
  int nearest = 0;
  double squares = 0;
  for (int i = 0; i < 8; i++) {
    squares += cell->weight[i] * cell->weight[i];
    if (cell->weight[i] > cell->weight[nearest]) nearest = i;
  }
  const double change = step(&model->learned[where][cell->node[nearest]], off, class_gains, weight) - 1;
  for (int i = 0; i < 8; i++)
    if (cell->weight[i] > 0)
      move_factor(&model->learned[where][cell->node[i]], 1 + bounded(change * cell->weight[i] / squares, -0.9, 3), now);
}

/* ---- shapes ---- */

/* What was put by for trying, after one more call. */
static void put_by(double *seconds, double share, const struct tb_observation *o, bool of_trial) {
  const double lost = o->seconds - o->best_predicted_seconds;
  if (!of_trial)
    *seconds += share * o->seconds * (1 + o->followers);
  else if (lost > 0)
    *seconds -= lost;
  if (*seconds > TB_PROBE_MOST_SECONDS) *seconds = TB_PROBE_MOST_SECONDS;
}

/* A shape that was never seen on this side starts from its class; what cold calls made of that, the first one of a row
 * replaces. Of a trial of the CPU the shortest call counts from there on. */
static void follow(struct tb_shape_memory *s, const struct tb_observation *o, double class_seconds,
                   struct weight weight) {
  struct tb_follower *f = &s->seconds[o->where];
  double *seen = &s->seen[o->where];
  if (!(*seen > 0)) *f = (struct tb_follower){.value = class_seconds};
  const bool known = *seen >= 1, replaces = weight.trust == 1 && *seen > 0 && !known;
  if (replaces)
    *f = (struct tb_follower){.value = o->seconds};
  else if (o->probe && o->where == TB_CPU && known)
    *f = (struct tb_follower){.value = o->seconds < f->value ? o->seconds : f->value};
  else
    f->value *= step(f, o->seconds / f->value, shape_gains, weight);
  const double most = 2 * TB_LEARNED_MOST;
  f->value = bounded(f->value, class_seconds / most, class_seconds * most);
  *seen = bounded(*seen + weight.trust, 0, SEEN_MOST);
}

static void observe_shape(struct tb_model *model, const struct tb_call *call, const struct tb_observation *o,
                          double class_seconds, struct weight weight, bool of_trial, double now) {
  struct tb_shape_memory *s = tb_model_remember(model, call);
  follow(s, o, class_seconds, weight);
  s->seconds[o->where].at = s->used = now;
  if (o->crowded) return; /* it may have been the other side's */
  put_by(&s->probe_seconds, TB_SHAPE_PROBE_SHARE, o, of_trial);
  if (o->probe) {
    model->trial_calls = s == model->trying ? model->trial_calls + 1 : 1;
    model->trying = s;
    return;
  }
  model->trying = NULL;
  /* A streak of slow calls may be all that spoke against the side that is left. */
  if (s->decided && s->last != o->where) s->seen[s->last] = bounded(s->seen[s->last], 0, LEFT_SEEN);
  s->decided = true;
  s->last = o->where;
}

/* ---- one call ---- */

void tb_model_observe(struct tb_model *model, const struct tb_call *call, const struct tb_places *places,
                      const struct tb_observation *o, double now) {
  const struct tb_cell cell = tb_model_cell(call);
  const double class_seconds = tb_model_class_seconds(model, o->where, call, &cell, places, now);
  if (!(o->seconds > 0) || !(class_seconds > 0)) return;
  const bool in_a_row = (o->where == model->latest && now - o->seconds - model->ended < TB_ROW_SECONDS) ||
                        (o->where == TB_CPU && class_seconds > TB_LONG_SECONDS);
  const bool of_trial = o->probe || model->trying != NULL; /* the call behind a trial finds its own side cold */
  const struct weight weight = {in_a_row ? 1 : COLD_TRUST, surprises_believed(model, class_seconds)};
  const double off = o->seconds / class_seconds;
  model->latest = o->where;
  model->ended = now;
  if (o->crowded && o->where == TB_GPU) return;
  put_by(&model->probe_seconds, TB_PROBE_SHARE, o, of_trial);
  if (places == NULL) {
    /* Of a triangle only its own shape is learned: a class is of whole products. */
    if (call->region.of == TB_WHOLE) observe_class(model, o->where, &cell, off, weight, now);
    observe_shape(model, call, o, class_seconds, weight, of_trial, now);
    return;
  }
  model->trying = NULL;
  if (o->where == TB_GPU) move_factor(&model->placed, step(&model->placed, off, class_gains, weight), now);
}

bool tb_model_set_threads(struct tb_model *model, int threads) {
  if (threads == model->threads) return false;
  model->threads = threads;
  for (int node = 0; node < TB_NODES; node++) model->learned[TB_CPU][node] = (struct tb_follower){.value = 1};
  for (int s = 0; s < TB_SHAPES_REMEMBERED; s++) {
    model->shape[s].seconds[TB_CPU] = (struct tb_follower){0};
    model->shape[s].seen[TB_CPU] = 0;
    model->shape[s].decided = false;
  }
  return true;
}
