/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of any routine, from any thread, that are checked. */
#ifndef STRESS_CALLS_H
#define STRESS_CALLS_H

#include <stdint.h>

/* NULL: the answer is right; else what was called. */
const char *stress_any_call(uint64_t *seed);

#endif
