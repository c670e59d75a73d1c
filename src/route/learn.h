/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the model follows what calls really take. Pure but for the model that it is given; under the same lock as that.
 *
 * Two estimates follow each timed call. The factors at the nodes around it move a little, for all calls of about its
 * size; and its own shape's time moves much. Both are robust and bounded:
 *   - an ordinary observation moves a shape's time by three per cent at most, so that it comes to be near the median of
 *     what the calls take;
 *   - one far off the estimate moves it by some per cent; only the third in a row in one direction is believed, and
 * then what all three agree on, and at most a factor of four at once (of calls beyond TB_LONG_SECONDS the second, and
 * the first where nothing was measured);
 *   - a factor stays within TB_LEARNED_MOST of what was measured, a shape's time within twice that;
 *   - a call that is not one of a row counts a quarter: behind one of the other side, or some time after any, threads
 *     that sleep are woken (OpenBLAS's, our copying ones) and a GPU's clocks are down, which can double what it takes,
 *     unless it is a long one of the CPU;
 *   - what is not confirmed fades: half of it is gone after the times below.
 *
 * Calls of a program whose threads call at once (queue.h) are learned from with care. One that found others on the GPU
 * and went there says nothing of the time alone. One that went to the CPU for that says what the CPU takes, and not
 * that its shape is the CPU's.
 *
 * Nor can the side that is not taken be lost for good by an estimate that is too high. What was learned of it fades
 * back to what was measured; and when a shape's other side has no recent time of its own, TB_PROBE_CALLS calls in a row
 * go there as soon as the loss that is predicted for them has been put by: TB_SHAPE_PROBE_SHARE of the time of this
 * shape's calls, and TB_PROBE_SHARE of the time of all. The first of them is cold; the second replaces what the class
 * and cold calls said; and of the CPU the shortest from there on counts, for one call in six takes a sixth longer on a
 * shared machine, and what comes behind it half of the times, too. They lose what they lose, and so does the call
 * behind them, which finds its own side cold: all of that is paid before the next trial, so that in the long run trying
 * costs no more than those shares, and TB_PROBE_MOST_SECONDS are put by at most; a shape that is called only once or
 * twice pays next to nothing. A side that was left is to be tried again once: a few slow calls may have been all that
 * spoke against it. Not tried is a side that is predicted to take more than TB_PROBE_MOST_TIMES the other's time:
 * measurements that are wrong by so much are replaced with the file that holds them, when it is old.
 */
#ifndef TB_LEARN_H
#define TB_LEARN_H

#include "route/model.h"

/* A factor that was learned is between this and its reciprocal. */
#define TB_LEARNED_MOST 4.0

/* A call that begins later than this after the one before is not one of a row: threads sleep by then. */
#define TB_ROW_SECONDS 0.001

#define TB_PROBE_SHARE 0.01
#define TB_SHAPE_PROBE_SHARE 0.05
#define TB_PROBE_MOST_SECONDS 0.1
#define TB_PROBE_MOST_TIMES 8.0

/* What wakes threads or holds them up, a few milliseconds at most, does not show in a call that is to take so long. */
#define TB_LONG_SECONDS 10e-3

/* A timed call of mode "auto", and why it was sent there. */
struct tb_observation {
  enum tb_where where;
  double seconds;                /* that it took */
  bool probe;                    /* it was sent there to be timed */
  double best_predicted_seconds; /* of the side that was thought to be sooner */
  int followers;                 /* calls of its shape since the one before, that were not timed */
  bool crowded;                  /* others' calls were on the GPU */
};

void tb_model_observe(struct tb_model *model, const struct tb_call *call, const struct tb_places *places,
                      const struct tb_observation *observation, double now);

/* The CPU BLAS has other threads now (0: unknown): what was learned of it holds no longer, nor does
 * tb_model_small_flops. False: they are what they were. */
bool tb_model_set_threads(struct tb_model *model, int threads);

#endif
