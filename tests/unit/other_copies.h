/* SPDX-License-Identifier: BSD-3-Clause */
/* Another call's copies, of which there are more until they are ended: some 3 s for two threads if nobody does. */
#ifndef TST_OTHER_COPIES_H
#define TST_OTHER_COPIES_H

#include <stdbool.h>

#include "process/pool.h"

/* One job of a pool at a time. */
void tst_other_copies_begin(struct tb_pool *pool);

/* Until one has begun. */
void tst_other_copies_await(void);

/* Whether there were still some to be begun; they are all done now. */
bool tst_other_copies_end(void);

#endif
