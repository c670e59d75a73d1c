/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Panels that several GPUs want, for each has a part of C and all of one operand: each panel goes up over one link, and
 * from there to the other GPUs by copies between them.
 *
 * Of D members, member i uploads the panels i, i + D, i + 2 D, ... and offers each when it has arrived for certain; the
 * others then fetch it. All go through the panels in groups of D, each beginning a group with its own:
 *
 *      panel        0  1  2  3 | 4  5          the numbers: in which turn each member has the panel;
 *      member 0    [1] 2  3  4 |[5] 6          in brackets: it uploads it
 *      member 1     4 [1] 2  3 | 6 [5]
 *      member 2     3  4 [1] 2 | 5  6
 *      member 3     2  3  4 [1]| 6  5
 *
 * so that the links share the operand, and nobody waits for anything that its owner does not have in hand: the owner of
 * a panel of some group has all earlier groups, and begins with this panel. Where panels go up in slices of k, all of
 * them do for one slice after the other, and what is said here of panels is said of a slice of them. An owner that
 * fails, or whose panels are others than the rest's, leaves its panels to everyone's own upload.
 *
 * A member never waits on the GPU for another member's: what is offered has arrived, so that no failure of one GPU can
 * hold up another, or send it anything but the panel.
 *
 * Thread-safe. The memory of a panel that was offered must stay until all members have left.
 */
#ifndef TB_EXCHANGE_H
#define TB_EXCHANGE_H

#include <pthread.h>

#include "cuda/allowed.h"
#include "pipeline/device.h"

enum tb_operand { TB_NO_OPERAND, TB_OPERAND_A, TB_OPERAND_B };

/* What an operand's panels must have in common to be passed on; and slices, of which all have as many as he who has
 * fewest. */
struct tb_panels {
  int64_t count, across; /* how many; rows of op(A) or columns of op(B) in each but the last */
  int64_t slices;        /* 1 to TB_EMULATED_SLICES_MAX */
};

struct tb_exchange {
  pthread_mutex_t lock;
  pthread_cond_t all_arrived; /* signalled by each who does; panels are asked for in turns, not waited for */
  int members;
  int arrived;             /* members that have said what their panels are, or will not */
  bool on;                 /* panels are passed */
  struct tb_panels panels; /* of all members, when `on` */
  struct {
    enum tb_panel_state { TB_PANEL_AWAITED, TB_PANEL_OFFERED, TB_PANEL_NEVER } state;
    CUdeviceptr address;
    CUcontext context;
  } panel[TB_EMULATED_SLICES_MAX][TB_TILES_MAX];
};

/* Between one caller and the threads of the members. `on` false: nothing is passed. */
void tb_exchange_open(struct tb_exchange *exchange, int members, bool on);
void tb_exchange_close(struct tb_exchange *exchange);

/* One member's end of it. Of one thread. */
struct tb_pass {
  struct tb_exchange *exchange;
  struct tb_device *device;
  int member;
  enum tb_operand operand; /* that is passed; TB_NO_OPERAND: none is */
  bool joined;
  int64_t sent, offered; /* of its own panels' slices, in their order: on their way up; arrived and offered */
  bool fetched;          /* something was: device->fetched is recorded */
};

/* A pass of `member` that wants to pass panels of `operand`; every pass must be left. */
struct tb_pass tb_pass_of(struct tb_exchange *exchange, int member, struct tb_device *device, enum tb_operand operand);

/* Says what this member's panels are; count 0: it has none to pass. Waits until all have said it or left. The panels
 * are passed if all have the same, and two or more; else pass->operand becomes TB_NO_OPERAND. */
void tb_pass_join(struct tb_pass *pass, struct tb_panels panels);

/* This member offers nothing more. */
void tb_pass_leave(struct tb_pass *pass);

/* The panel that is the member's next, of the order in the picture: its number, for turn 0, 1, 2, ... Of an operand
 * that is not passed, the turn itself. pass may be NULL. */
int64_t tb_pass_turn(const struct tb_pass *pass, enum tb_operand operand, int64_t turn);

/* Whether the panel is this member's to upload, for itself or for all. */
bool tb_pass_is_own(const struct tb_pass *pass, enum tb_operand operand, int64_t panel);

/* Remembers that the upload of a slice of an own panel, to `address`, is enqueued. */
CUresult tb_pass_sent(struct tb_pass *pass, int64_t panel, int64_t slice, CUdeviceptr address);

/* Offers what has arrived; with `wait`, all that was sent. */
CUresult tb_pass_offer(struct tb_pass *pass, bool wait);

/* What became of another member's panel. */
enum tb_panel_state tb_pass_look(struct tb_pass *pass, int64_t panel, int64_t slice);

/* Enqueues the copy of what is offered; device->fetched is recorded behind it. */
CUresult tb_pass_fetch(struct tb_pass *pass, int64_t panel, int64_t slice, CUdeviceptr target, int64_t bytes);

#endif
