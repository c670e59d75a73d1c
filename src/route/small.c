/* SPDX-License-Identifier: BSD-3-Clause */
#include "route/small.h"

#include <pthread.h>

#include "base/options.h"
#include "route/route.h"

struct tb_small tb_small = {.terms = {1, 1, 1, 1}};
static pthread_mutex_t small_lock = PTHREAD_MUTEX_INITIALIZER;

/* With a lock, so that of two threads that change something the last to write has seen both changes. */
void tb_small_update(void) {
  pthread_mutex_lock(&small_lock);
  const int64_t route = tb_option_number(TB_OPTION_route);
  bool observed = tb_option_number(TB_OPTION_verbose) || tb_option_number(TB_OPTION_report);
  atomic_store_explicit(&tb_small.which, route == TB_ROUTE_CPU, memory_order_relaxed);
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    const long long terms = atomic_load_explicit(&tb_route_small_terms[type], memory_order_relaxed);
    atomic_store_explicit(&tb_small.terms[type], route == TB_ROUTE_GPU || observed ? 1 : (unsigned long long)terms,
                          memory_order_relaxed);
  }
  pthread_mutex_unlock(&small_lock);
}

void tb_small_after_fork(void) { pthread_mutex_init(&small_lock, NULL); }
