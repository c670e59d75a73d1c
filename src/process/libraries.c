/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/libraries.h"

#include <pthread.h>

static pthread_mutex_t visiting = PTHREAD_MUTEX_INITIALIZER;

void tb_libraries_visit(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context) {
  pthread_mutex_lock(&visiting);
  dl_iterate_phdr(visit, context);
  pthread_mutex_unlock(&visiting);
}

void tb_libraries_before_fork(void) { pthread_mutex_lock(&visiting); }

/* In the child, too, the thread that forked owns it. */
void tb_libraries_after_fork(void) { pthread_mutex_unlock(&visiting); }
