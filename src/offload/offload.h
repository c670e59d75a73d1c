/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call on the GPU, from the program's memory to the program's memory. The one place where a CUDA failure is
 * handled: C is written tile by tile, each when it is certain, and whatever a failure left unwritten is computed by the
 * fallback from A, B and the still original C. Nothing here shows that CUDA exists. Thread-safe: products are on a GPU
 * beside each other, as beside.h has it, and other calls take turns.
 *
 * Two files define these functions: offload.c, and offload_none.c for a build without kernels.
 */
#ifndef TB_OFFLOAD_H
#define TB_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/proof.h"
#include "cuda/place.h"
#include "base/status.h"

/* How a call went. Times are from the first to the last operation of a kind, in milliseconds; kinds overlap. */
struct tb_outcome {
  enum tb_status why;                /* set when the GPU failed or could not be opened */
  bool failed;                       /* a GPU failed; others, or the fallback, computed all or some of C */
  bool by_cpu;                       /* the fallback did */
  bool committed;                    /* a GPU computed all or some of C */
  bool too_large;                    /* of a triangle: not even a part of B fits beside it, and nothing was done */
  bool lost;                         /* C lies in memory that nobody reaches any more: it is not computed */
  int gpu_count;                     /* that shared the call; 1: one computed alone */
  char gpus[64];                     /* CUDA's numbers of them: "0", or "0+1" */
  const char *kernel;                /* name of the tile in registry.def, or "skinny" */
  double bytes;                      /* moved over the link, both ways */
  enum tb_proof proof[2];            /* of A, of B: whether it was kept on the GPU */
  double saved_bytes;                /* that therefore need not be moved */
  double seconds;                    /* waiting for other calls and opening the GPU not counted */
  double up_ms, compute_ms, down_ms; /* 0 unless `timed` was asked */
};

/* Whether a GPU can answer: TB_STATUS_ok when it can or has not been tried, else why not. Lock-free. */
enum tb_status tb_offload_status(void);

/* True once a GPU is open, so that no call has to pay for that any more. Lock-free. */
bool tb_offload_is_open(void);

/* A call of the CPU BLAS is about to be timed: no thread of ours is to look for work meanwhile. Lock-free. */
void tb_offload_rest(void);

/* The open GPU, as far as measurements hold for it alone. */
struct tb_gpu_identity {
  char text[256];                         /* name, SMs, place on the bus, driver, our speed; one line */
  double peak_flops_per_s[TB_TYPE_COUNT]; /* nominal, of each type */
  double open_seconds;                    /* that opening it took; 0: it was not timed */
};

/* After tb_offload_open said that there is none: whether there may be one yet. */
bool tb_offload_may_open_later(void);

/* Opens a GPU if none is open. False: there is none; tb_offload_status says why. */
bool tb_offload_open(struct tb_gpu_identity *identity);

/* Bytes a second between pinned memory and the GPU that is open, up and down, by copies of a slot's size. False: it
 * failed, and is given up. */
bool tb_offload_measure_link(double *up_bytes_per_s, double *down_bytes_per_s);

/* Has calls planned for a link of this rate, which was measured now or by an earlier process. 0: not measured.
 * Lock-free.
 */
void tb_offload_set_link(double up_bytes_per_s);

/*
 * Computes the call: a product, or C = beta C where C is in device or managed memory; or trmm and trsm, whose B is
 * overwritten, of a triangle that fits into device memory. By one GPU or several; what those that fail leave is
 * finished by others or the CPU: of a triangle in an order from which anyone can (plan/triangular.h). `places` as
 * tb_places_find filled it; NULL: all pageable. True: C is complete, or lost. False: no GPU could be opened, or an
 * operand lies on another one than ours, or the triangle is too large (outcome->why), and C is untouched.
 */
bool tb_offload_call(const struct tb_call *call, const struct tb_places *places, bool timed,
                     struct tb_outcome *outcome);

/* Whether tb_offload_call takes a call that is two products, as one sum: where their operands come by the same way in
 * either's place. */
bool tb_offload_is_one_sum(const struct tb_call *call, const struct tb_places *places);

/* The same for a call that is to be timed: none of another thread's is on the GPU beside it. */
bool tb_offload_call_alone(const struct tb_call *call, struct tb_outcome *outcome);

/* Gives back what GPUs keep of [start, end), behind the calls that are under way. Nothing is said of a failure: what
 * cannot be given back now is proven before each use, and goes with the GPU. */
void tb_offload_forget(uintptr_t start, uintptr_t end);

/* The GPUs in words, of at most TB_LOG_TEXT_MAX bytes, or why there is none, for the report. */
void tb_offload_describe(char *text, size_t size);

/* In the child of a fork: what the parent opened cannot be used here. */
void tb_offload_after_fork(void);

#endif
