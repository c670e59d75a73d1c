/* SPDX-License-Identifier: BSD-3-Clause */
/* A test program that runs itself, for settings are read once in a process. One thread. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include "test_context.h"

/* Runs this program with the argument `what` and the settings ("NAME=value ...") and gives its exit status, or minus
 * the signal that ended it. */
int run_child(const char *what, const char *settings);

#endif
