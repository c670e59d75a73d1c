/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the pipeline share: up.c, compute.c, down.c and one_slot.c, driven by pipeline.c. Each part's
 * functions do what can be done at the moment and return; pipeline.c goes round them until nothing is left. Under
 * offload.c's lock, with the device entered.
 */
#ifndef TB_PIPELINE_INTERNAL_H
#define TB_PIPELINE_INTERNAL_H

#include "pipeline/copy.h"
#include "pipeline/lanes.h"
#include "pipeline/pages.h"
#include "pipeline/pipeline.h"
#include "plan/schedule.h"
#include "pipeline/staging.h"

/*
 * One piece on its way up. Pieces are numbered as they are begun, and go round the ring (device.h): each has the entry
 * of its first slot:
 *
 *      [freed]   GPU copies   [sent]   threads copy into slots   [begun]
 *
 * A step of which nothing is to be copied is a piece, too, an empty one, so that steps end in their order. But twins
 * end with the step before them.
 */
struct tb_up_entry {
  struct tb_step step;
  enum tb_way way; /* in place: nothing to be done */
  bool from_other; /* fetched from another GPU, which has offered it */
  int64_t steps;   /* that end with it: its own and its twins'; 0: it is not the last of its step */
  struct tb_copy copy;
  struct tb_piece piece;
  struct tb_upload whole; /* of what needs no slot */
};

struct tb_up {
  struct tb_schedule schedule; /* of the current chunk */
  struct {
    bool there;  /* the operand's panels need not go up */
    bool packed; /* they need not be packed, or made real: they are, or it is not that kind of plan */
  } operand[2];  /* by of_b, as all such arrays */
  int64_t begun_steps, ended_steps, computed_steps;
  bool ahead;             /* of a block that is not the one which comes down: nothing is computed yet */
  bool must_hold;         /* pieces replace panels that launches may still read */
  bool must_hold_packing; /* packing does, though uploads, for which it waits, need not be held up */
  /* Where one operand goes up first: panels of it that the latest launches have nothing to do with, from d->half on;
   * and those of the chunk that is computed, so far. */
  int64_t free_panels, freed_panels;
  bool awaited_half;
  bool within_step;
  struct tb_upload upload; /* of the step within which it is */
  struct tb_up_entry entry[TB_SLOTS];
  uint64_t begun, sent, freed;
  int64_t begun_bytes; /* in the whole call */
};

/*
 * A run of columns of a tile on its way down; numbered and placed like pieces going up:
 *
 *      [committed]   threads commit   [arrived]   GPU copies   [asked]
 */
struct tb_down_entry {
  int64_t tile, columns, bytes;
  struct tb_copy copy;
};

struct tb_down {
  struct tb_layout layout;                    /* of the block that comes down */
  int16_t order[TB_TILES_MAX * TB_TILES_MAX]; /* tiles as they were fetched, behind those as they were launched last */
  int64_t complete, fetched;                  /* how many have had their last launch; how many are wholly asked for */
  int64_t fetched_columns;                    /* of tile order[fetched] */
  struct tb_down_entry entry[TB_SLOTS];
  uint64_t asked, arrived, committed;
  int64_t all_bytes, rest_bytes; /* in the whole call; those that are not yet asked for */
};

struct tb_pipeline {
  struct tb_device *d;
  const struct tb_choice *choice;
  struct tb_pass *pass; /* panels that other GPUs want, too; NULL: this one computes alone */
  struct tb_keep *keep; /* of operands that stay; NULL: of none */
  int64_t staged_bytes; /* of the operands, that go up by slots */
  bool cleans_lines;    /* it is of a size by which lines leave the caches at once (lines.h) */
  bool is_large;        /* in what goes by slots, up and down */
  bool timed, marked_up, marked_compute, marked_down;
  struct tb_rounds rounds;
  struct tb_upward_wait turn; /* to go up, beside other calls */
  struct tb_progress *progress;
  const CUstream *streams; /* the launches are spread over these */
  int stream_count;
  CUstream packing;        /* panels are packed here for the tensor cores */
  bool packed;             /* one was: d->packed is recorded */
  CUevent uploaded;        /* behind the latest slice of a panel; NULL: nothing has gone up */
  struct tb_layout layout; /* of the block that goes up and is computed */
  struct tb_call again;    /* of a call that is two products, the second */
  int64_t resident[2];     /* first row, first column of the operands' parts on the device; -1: none */
  struct tb_pages pages;   /* of a C that was just allocated */
  bool began_pages;
  struct tb_up up;
  struct tb_down down;
  int64_t slices[2][TB_TILES_MAX]; /* of each panel of the chunk, that are there */
  int64_t next_launch;             /* of the step that is computed; 0: none of it was yet */
};

/* What a part could do. */
enum tb_turn { TB_NOTHING, TB_SOMETHING };

/* ---- up.c ---- */

/* Gets ready for the chunk that the layout is at; ahead: its panels may go up, but nothing is computed before
 * tb_up_catch_up. */
void tb_up_enter_chunk(struct tb_pipeline *p, bool ahead);
void tb_up_catch_up(struct tb_pipeline *p);

/* What a step has to bring up, and how; nothing if it is in place. */
enum tb_way tb_up_of_step(const struct tb_pipeline *p, const struct tb_step *step, struct tb_upload *upload);

/* A step's slice of a panel, from the program's memory to where the kernels read it. */
struct tb_upload tb_up_panel(const struct tb_layout *layout, const struct tb_step *step);

/* Sends pieces that are copied, launches what their steps were the last to be missing for, and begins further pieces.
 * *turn becomes TB_SOMETHING if anything was done. */
CUresult tb_up_turn(struct tb_pipeline *p, enum tb_turn *turn);
bool tb_up_is_over(const struct tb_pipeline *p);

/* After a failure: until no thread copies any more. */
void tb_up_abandon(struct tb_pipeline *p);

/* ---- compute.c ---- */

/* The next of the launches for which a slice of a panel is the last thing that was missing. *over: it was the last. */
CUresult tb_compute_step(struct tb_pipeline *p, const struct tb_step *step, bool *over);

/* The launch of a tile for a slice of k. */
CUresult tb_compute_launch(struct tb_pipeline *p, int64_t row, int64_t column, struct tb_extent k);

/* A panel of a symmetric or Hermitian operand that is on the GPU. Of the program's own in the launches' one stream, so
 * that it replaces nothing that they still read. */
CUresult tb_compute_form(struct tb_pipeline *p, const struct tb_upload *panel, CUstream stream);

/* A slice of a panel of a complex product that is there, as a real one. Of others nothing is to be done. */
CUresult tb_compute_make_real(struct tb_pipeline *p, bool of_b, int64_t index, struct tb_extent k, CUstream stream);

/* Has the copies up wait until no launch reads the panels that they are going to replace: for all launches so far, or
 * for those up to the latest mark. */
CUresult tb_compute_hold_uploads(struct tb_pipeline *p);
CUresult tb_compute_mark(struct tb_pipeline *p);
CUresult tb_compute_hold_until_mark(struct tb_pipeline *p);

/* ---- down.c ---- */

void tb_down_enter_block(struct tb_pipeline *p);

/* A tile's last launch is enqueued in `stream`. */
CUresult tb_down_add(struct tb_pipeline *p, int64_t tile, CUstream stream);

/* Has columns that have arrived committed, counts those that are, and asks for further ones. */
CUresult tb_down_turn(struct tb_pipeline *p, enum tb_turn *turn);
bool tb_down_is_over(const struct tb_pipeline *p);

/* With no copy under way: counts those that are done. */
void tb_down_count_committed(struct tb_pipeline *p);

/* After a failure: until every commit that was begun is finished and counted. */
void tb_down_abandon(struct tb_pipeline *p);

/* Of `tile`, `columns` more are committed. */
void tb_down_count(struct tb_pipeline *p, int64_t tile, int64_t columns);

/* ---- one_slot.c ---- */

/* A product whose plan is packed, by the fewest calls of the driver: one copy up, a launch, one copy down. */
CUresult tb_one_slot_run(struct tb_pipeline *p);

#endif
