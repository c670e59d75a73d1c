/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the calls that ask or say which cores a thread may use. A program that names the counter has its own
 * pthread_setaffinity_np and pthread_getaffinity_np, which pass on what they are asked. */
#ifndef TST_AFFINITIES_H
#define TST_AFFINITIES_H

#include <stdatomic.h>

extern atomic_int tst_affinities; /* of all threads */

#endif
