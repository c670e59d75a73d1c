/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks that a shared library has from malloc, calloc and realloc, counted by the place that called them: this
 * file puts itself before the C library's functions in the program that links it. What the C library allocates for the
 * library (strdup, fopen) is not seen. Under AddressSanitizer, which has its own place there, it counts nothing, and
 * the leak checker does the work. Any number of threads; at most 4096 blocks at a time.
 */
#ifndef TST_HEAP_H
#define TST_HEAP_H

#include <stddef.h>

/* Counts from now on what the library calls for that has this address in it. */
void tst_heap_watch(const void *in_library);

/* Blocks that are alive, and their bytes. */
size_t tst_heap_blocks(size_t *bytes);

#endif
