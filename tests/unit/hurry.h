/* SPDX-License-Identifier: BSD-3-Clause */
/* The monotonic clock of this program and of the library in it, 200 times as fast: a GPU that hangs is waited for a
 * minute. Thread-safe. */
#ifndef TST_HURRY_H
#define TST_HURRY_H

#include <stdbool.h>

void tst_hurry(bool hurries);

#endif
