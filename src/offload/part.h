/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call, or a part of one, on one GPU: cut for the memory there is, computed, and what a failure left undone. Products
 * are part.c's own; trmm and trsm are triangular.c's. Thread-safe for different devices; nothing is printed, and no
 * device is given up here.
 */
#ifndef TB_PART_H
#define TB_PART_H

#include "pipeline/keep.h"
#include "pipeline/pipeline.h"
#include "pipeline/triangular.h"
#include "base/status.h"

/* Of trmm and trsm. */
struct tb_triangular_part {
  struct tb_triangular_plan plan;
  struct tb_triangular_progress progress;
  bool too_large; /* not even the narrowest blocks fit beside A, and nothing was done */
};

struct tb_part {
  struct tb_call call;
  struct tb_device *device;
  struct tb_choice whole; /* as it was given */
  struct tb_plan plan;    /* of a product; and its progress */
  struct tb_progress progress;
  struct tb_keep keep; /* of a product: as the GPU computes it */
  struct tb_triangular_part triangular;
  enum tb_status why;                /* TB_STATUS_ok: it is complete; else why it is not */
  char failure[160];                 /* in words, when it is not */
  const char *kernel;                /* name of the tile in registry.def, or "skinny" or "scale" */
  bool committed;                    /* some of C is */
  double bytes;                      /* moved over the link, both ways */
  double up_ms, compute_ms, down_ms; /* 0 unless `timed` was asked */
  bool handed_out;                   /* all of the rest was */
  bool crowded;                      /* others have the memory: it was not begun, and is to be run alone */
};

/* The ways of a call's operands. */
struct tb_ways tb_part_ways(const struct tb_call *call, const struct tb_places *places);

/* Whether a product is for the tensor cores, and how: TB_FAMILY_EMULATED if so, when this device has the whole of it,
 * and as much memory as it likes; anything else if not. That goes for all its parts: the bits of the result shall not
 * depend on how it is shared. Of trmm and trsm, which choose for each of their products, the largest one's. */
struct tb_choice tb_part_choose(struct tb_device *device, const struct tb_call *call, struct tb_ways ways);

/* Whether much goes by slots, with its operands in ordinary memory. */
bool tb_part_is_large(const struct tb_call *call);

/* What a link to a GPU was measured at, upwards: plans are made for it from the next call on. 0: not measured.
 * Lock-free. */
void tb_part_set_link(double up_bytes_per_s);
double tb_part_link(void);

/* What the kernels of such a choice reach on large products, roughly. */
double tb_part_flops_per_s(const struct tb_device *device, const struct tb_choice *whole);

/* Computes `call` on the device as far as that goes, with panels from and for other GPUs if `pass` is not NULL; then
 * part->keep has begun (tb_keep_begin_shared). `ways` are tb_part_ways', or staged more than these. `whole`: of the
 * call that it is, or is a part of, what tb_part_choose said. Nothing is under way on return, but for what other GPUs
 * fetch. */
void tb_part_run(struct tb_part *part, struct tb_device *device, const struct tb_call *call, struct tb_ways ways,
                 const struct tb_choice *whole, bool timed, struct tb_pass *pass);

/* Hands out what C does not have yet as calls, to be computed by others one behind another: of a product its
 * rectangles, of trmm and trsm what plan/triangular.h says. They are parts of `call`: of part->call, or of the same
 * with operands elsewhere. False when there is no more. */
bool tb_part_take_rest(struct tb_part *part, const struct tb_call *call, struct tb_call *rest);

/* Whether nobody can compute what is left of a call with operands in GPU memory, of which these are the parts. Says so,
 * and why. */
bool tb_parts_are_lost(const struct tb_part *parts, int count);

/* Behind a call: gives device memory back that is not to stay from call to call, and orders the slots that the call has
 * earned. */
void tb_part_tidy(struct tb_device *device);

/* Milliseconds between two marks of a device that is entered, or 0. */
double tb_part_elapsed_ms(const struct tb_device *device, enum tb_mark begin, enum tb_mark end);

/* How a call ended on a device, in words for a failure (of failure_size bytes; else they are empty). */
enum tb_status tb_part_judge(const struct tb_device *device, CUresult result, char *failure, size_t failure_size);

/* ---- triangular.c, for part.c ---- */

/* Runs part->call with the device entered. shared: by several GPUs, and what is kept of its A was found before. */
CUresult tb_triangular_part_run(struct tb_part *part, struct tb_device *device, struct tb_ways ways, bool timed,
                                bool shared);

#endif
