/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How one product is shared by several GPUs: pure arithmetic, tested without one.
 *
 *          device 0   device 1
 *      +------------+---------+      C is cut along its longer side, one run of columns or rows a device, in whole
 *      |            |         |      pieces. Each run is a product of its own, of all of one operand and a part of the
 *    m |            |         |      other; what a run's elements are does not depend on the cut, for they are sums
 *      |            |         |      over k in the kernels' order, and on the tensor cores pieces are whole tiles.
 *      +------------+---------+
 *                 n
 *
 * The runs are as long as the devices were fast in the calls that they shared before; at first, as their peaks are. So
 * a GPU that is slower, or that somebody else uses too, gets less, and all end at about the same time.
 */
#ifndef TB_SHARE_H
#define TB_SHARE_H

#include <stdbool.h>

#include "blas/call.h"

/* The largest kernel's block of C: cut there, no device has a block of it more to compute than is its share. */
#ifndef TB_SHARE_PIECE_ELEMS /* a build for fuzz_kept has smaller ones */
#define TB_SHARE_PIECE_ELEMS 128
#endif

/* With TILEBLAS_SHARE=auto a product is shared if one GPU needs at least so long for it: the threads that drive the
 * others have to wake, and a part has an up and a down of its own that nothing overlaps. Two H200 are 1.27 times as
 * fast as one at 4096 cubed, for which one needs 3.8 ms, and four 1.11 times (2026-11-22, commit 33a5989). */
#define TB_SHARE_SECONDS 0.002

/* The part of that time that sharing saves, at least: what all GPUs of a host have in common, the cores and the memory
 * that the operands lie in, bounds them together (0.2 at 4096 and 8192 cubed, 0.3 at 16384, 0.5 to 0.6 at 32768). */
#define TB_SHARE_SAVES 0.2

/* What one GPU may take, for what sharing divides, whose kernels reach this rate on large products: by that, or over
 * the link, whichever is longer. link_bytes_per_s as it was measured; 0: it was not (rates.h). */
double tb_share_alone_seconds(const struct tb_call *call, double flops_per_s, double link_bytes_per_s);

/* The same of products whose operations and bytes are known. */
double tb_share_bytes_seconds(double flops, double up_bytes, double down_bytes, double flops_per_s,
                              double link_bytes_per_s);

/* What each of several has to do for itself: of trmm and trsm A's way up. Memory from
 * which one GPU's link is filled has little left for another's, so what they divide must take each of them longer. */
double tb_share_common_seconds(const struct tb_call *call, double link_bytes_per_s);

/* Whether to share a call for which one GPU needs so long. While the others are not open (open_seconds > 0: what
 * opening the first took), what they would have saved is put by, and they are opened when it makes up for that: at
 * worst twice the best that hindsight could have done. */
bool tb_share_pays(double alone_seconds, int gpus, double open_seconds, double *saved_seconds);

/* The side of C that is cut: its columns unless it has more rows. trmm's and trsm's B is cut between its sides
 * (blas/triangular.h). */
static inline bool tb_share_by_columns(const struct tb_call *call) {
  return call->recipe == TB_MULTIPLY ? call->n >= call->m : !call->on_right;
}

/* What it is cut into, where kernels do not want other pieces; and how many there are. 1: nothing to share. */
int64_t tb_share_piece(const struct tb_call *call);
int64_t tb_share_pieces(const struct tb_call *call);

/* A device as the shared calls so far showed it. */
struct tb_pace {
  double flops_per_s; /* only its ratio to the others' means anything */
  int left_out;       /* calls since it last had a share */
};

/* One slower than this part of all together is left out, for even the least piece would keep the others waiting; and
 * tried again every so many calls. */
#define TB_SHARE_LEAST (1.0 / 64)
#define TB_SHARE_RETRY_CALLS 64

/* What each of `count` devices should get, in any unit; 0: nothing. At least one is greater than 0. */
void tb_share_weigh(const struct tb_pace *const pace[], int count, double weight[]);

/* Cuts `side` into runs proportional to the weights, whole pieces of so many elements but for the last. Some may be
 * empty. */
void tb_share_cut(int64_t side, int64_t piece, const double weight[], int count, int64_t run[]);

/* Whether a cut is so little different from one before that it need not be another: what devices keep of operands are
 * these runs. */
bool tb_share_is_near(const int64_t run[], const int64_t before[], int count, int64_t piece);

/* After a call: device i did flops[i] in seconds[i]. 0: it had no share, or did not finish it. */
void tb_share_learn(struct tb_pace *const pace[], int count, const double flops[], const double seconds[]);

#endif
