/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "libraries.h"

#include <pthread.h>

static pthread_rwlock_t visiting = PTHREAD_RWLOCK_INITIALIZER; /* written to by forks */

void tb_libraries_visit(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context) {
  pthread_rwlock_rdlock(&visiting);
  dl_iterate_phdr(visit, context);
  pthread_rwlock_unlock(&visiting);
}

void tb_libraries_before_fork(void) { pthread_rwlock_wrlock(&visiting); }

void tb_libraries_after_fork(void) { pthread_rwlock_unlock(&visiting); }
