/* SPDX-License-Identifier: BSD-3-Clause */
/* trsm on either side and a batch, of whole numbers, which are exact whoever computes: for GPUs that share them and
 * fail. */
#ifndef TST_OTHER_CALLS_H
#define TST_OTHER_CALLS_H

#include "offload_call.h"

/* Calls of them; each prints what is wrong. */
enum { TST_OTHER_CALLS = 3 };
bool tst_other_calls(const struct tst_library *library);

#endif
