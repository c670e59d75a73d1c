/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that is not cancelled for a while. Both what POSIX asks for, the state, and the type: in a glibc whose
 * signal handler looks at the type alone (2.39, and before 2.34) pthread_cancel may find cancellation enabled, and the
 * signal may arrive when it is not any more. A thread whose type is asynchronous is then ended whatever its state is.
 */
#ifndef TB_CANCEL_H
#define TB_CANCEL_H

#include <pthread.h>

struct tb_cancel {
  int state, type;
};

static inline void tb_cancel_hold(struct tb_cancel *before) {
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before->type);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->state);
}

/* The thread may end here, by what came meanwhile. */
static inline void tb_cancel_release(const struct tb_cancel *before) {
  pthread_setcancelstate(before->state, NULL);
  pthread_setcanceltype(before->type, NULL);
}

#endif
