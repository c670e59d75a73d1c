/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of a triangular call share: triangular_up.c, triangular_products.c and triangular_down.c, driven by
 * triangular.c as pipeline.c drives its own. Under offload.c's lock, with the device entered.
 */
#ifndef TB_PIPELINE_TRIANGULAR_INTERNAL_H
#define TB_PIPELINE_TRIANGULAR_INTERNAL_H

#include "pipeline/keep.h"
#include "pipeline/rounds.h"
#include "pipeline/staging.h"
#include "pipeline/triangular.h"

/* How products of one size are computed. A call has few sizes and many products of each, in turns, and to choose takes
 * some microseconds. */
struct tb_triangular_product {
  int64_t m, n, k; /* m = 0: none yet */
  int64_t whole_m; /* rows of what it is a part of: as that is, it is computed */
  bool units;      /* fp64: as struct tb_fp64_product has it */
  int64_t columns; /* at once, on the tensor cores; elsewhere all n */
  int64_t group_k;
  struct tb_choice choice;
  struct tb_fp64_plan fp64;
};
#define TB_TRIANGULAR_PRODUCTS 64

/* A piece on its way up, in the ring as pipeline_internal.h has it. Jobs are A's panels and B's portions: the first
 * block may be ahead of the panels, and with bands each panel is ahead of the portions that need it. */
struct tb_triangular_up_entry {
  int64_t job;
  bool last; /* of its job */
  struct tb_copy copy;
  struct tb_piece piece;
};

struct tb_triangular_up {
  int64_t job; /* that goes up now; those before have all their pieces begun */
  bool within; /* some of its pieces are begun */
  struct tb_upload upload;
  struct tb_triangular_up_entry entry[TB_SLOTS];
  uint64_t begun, sent, freed;
  int64_t sent_job;    /* of the latest piece that was sent; -1: none */
  int64_t begun_bytes; /* in the whole call */
};

/* Stored columns of a portion on their way down. */
struct tb_triangular_down_entry {
  int64_t columns, bytes;
  bool last; /* of their portion */
  struct tb_copy copy;
};

struct tb_triangular_down {
  int64_t complete, fetched, emptied; /* portions that are computed, wholly asked for, and no longer in their place */
  int64_t fetched_columns;            /* of portion `fetched` */
  struct tb_triangular_down_entry entry[TB_SLOTS];
  uint64_t asked, arrived, committed;
  int64_t rest_bytes; /* of B, not yet asked for */
};

struct tb_triangular {
  struct tb_device *d;
  const struct tb_call *call;
  const struct tb_triangular_plan *plan;
  struct tb_keep *keep; /* B may stay, as it will be */
  struct tb_triangular_progress *progress;
  bool timed, marked_up, marked_compute, marked_down;
  bool is_large;
  int64_t formed, awaited; /* panels of A' that are formed, or will be; and those behind which the streams of the
                              portion, or of the blocks, at hand are */
  CUstream forming;        /* A' comes to be here; where anything is in place, behind the program's work */
  int64_t precision;       /* TILEBLAS_PRECISION */
  struct tb_rounds rounds;
  struct tb_triangular_up up;
  struct tb_triangular_down down;
  int64_t arrived, computed, step; /* portions that are up; those of them all of whose steps are enqueued; and the next
                                      one's next step */
  struct tb_triangular_product product[TB_TRIANGULAR_PRODUCTS];
  const char *kernel; /* of the largest product; and its terms, for a column of B */
  int64_t kernel_terms;
};

/* ---- triangular_up.c ---- */

/* Sends what is copied, has launched what that was missing for, and begins further pieces. */
CUresult tb_triangular_up_turn(struct tb_triangular *t, bool *something);
bool tb_triangular_up_is_over(const struct tb_triangular *t);
/* After a failure: until no thread copies any more. */
void tb_triangular_up_abandon(struct tb_triangular *t);

/* ---- triangular.c ---- */

/* The next portion of B is in its place behind what was sent. */
CUresult tb_triangular_take_portion(struct tb_triangular *t);

/* The call's computing begins in a stream. */
CUresult tb_triangular_mark_begin(struct tb_triangular *t, CUstream stream);

/* A portion that goes by slots, as B is stored: what of B it is, and where that lies on the device. */
struct tb_triangular_stored {
  struct tb_block of_b;
  struct tb_matrix there;
};
struct tb_triangular_stored tb_triangular_stored(const struct tb_triangular *t, int64_t portion);

/* What a stream has behind it, and others wait for: a portion that is sent, or whose steps are enqueued; or the panels
 * of A' up to this one. */
enum tb_triangular_event { TB_TRIANGULAR_ARRIVED, TB_TRIANGULAR_DONE, TB_TRIANGULAR_FORMED };
CUresult tb_triangular_record(struct tb_triangular *t, enum tb_triangular_event kind, int64_t number, CUstream stream);
CUresult tb_triangular_await(struct tb_triangular *t, enum tb_triangular_event kind, int64_t number, CUstream stream);

/* ---- triangular_a.c ---- */

/* The next panel of A is there behind `arrived`, in its buffer; or all of it is where it lies, and so many of the first
 * panels are to be formed by now. */
CUresult tb_triangular_take_panel(struct tb_triangular *t, int64_t number, CUevent arrived);
CUresult tb_triangular_form_in_place(struct tb_triangular *t, int64_t panels);

/* To bring into form what a panel has, whose first element `from` has. */
struct tb_triangle_form_args tb_triangular_form_args(const struct tb_triangular *t, struct tb_triangular_panel panel,
                                                     CUdeviceptr from, int64_t from_ld);

/* ---- triangular_products.c ---- */

/* A block as it is computed: `sides` columns, all rows. */
struct tb_triangular_columns {
  CUdeviceptr address;
  int64_t ld, sides;
};

static inline CUdeviceptr tb_triangular_row_of_block(const struct tb_triangular *t,
                                                     const struct tb_triangular_columns *b, int64_t row) {
  return b->address + (CUdeviceptr)(row * tb_call_bytes(t->call));
}

/* A stream's own memory. */
struct tb_triangular_room {
  CUdeviceptr workspace, apart;
};

/* What the bits depend on, which must not depend on how B is cut: a product with all columns of B. */
struct tb_product tb_triangular_product(const struct tb_call *call, int64_t m, int64_t k, int64_t precision);

/* Element (i, j) of A'. */
CUdeviceptr tb_triangular_element_of_a(const struct tb_triangular *t, int64_t i, int64_t j);

/* Enqueues a step. */
CUresult tb_triangular_launch(struct tb_triangular *t, const struct tb_triangular_columns *b,
                              const struct tb_triangular_step *step, struct tb_triangular_room room, CUstream stream);

/* ---- triangular_whole.c ---- */

/* Whether A is read as the program has it, and no panel of it is formed ahead. */
bool tb_triangular_reads_stored(const struct tb_triangular *t);

/* All of A' into planes, behind what forms it. */
CUresult tb_triangular_pack_a(struct tb_triangular *t);

/* Enqueues all of a block as one product, made `apart` from it, with plan->apart_ld, and copied back. On the right it
 * stays apart, and is turned from there. See kernels/triangle/solve_args.h. */
CUresult tb_triangular_launch_whole(struct tb_triangular *t, const struct tb_triangular_columns *b, CUdeviceptr apart,
                                    CUstream stream);

/* ---- triangular_down.c ---- */

CUresult tb_triangular_down_turn(struct tb_triangular *t, bool *something);
bool tb_triangular_down_is_over(const struct tb_triangular *t);
/* With no copy under way: counts those that are done. After a failure: finishes those that were begun, first. */
void tb_triangular_down_count(struct tb_triangular *t);
void tb_triangular_down_abandon(struct tb_triangular *t);

#endif
