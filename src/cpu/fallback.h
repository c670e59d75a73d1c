/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CPU BLAS that would have answered had TileBLAS not been there, found for each symbol at its first use, from what
 * was found when the library was loaded:
 *   1. the library that TILEBLAS_FALLBACK names, with any symbol of the routine;
 *   2. the next definition of the symbol in the program's search order;
 *   3. a loaded library that defines it, even one loaded privately (as Python loads the BLAS inside NumPy's wheel);
 *   4. 2 and 3 for the symbols that may stand in, where there are any (routines.def): cgemm_ for cgemm3m_;
 *   5. OpenBLAS, opened now;
 *   6. any loaded library with another symbol of the same routine;
 *   7. the plain loops of reference.c.
 * A library of 1, 5 or 6 without a symbol of the routine may have one of a routine that stands in. What stands in gets
 * valid calls alone, for it would report others under its own name; one with other arguments gets products
 * (triangle.c). Never TileBLAS itself, nor another copy of it. Thread-safe. While a CPU BLAS works for us, BLAS calls
 * that it makes through exported symbols (netlib's cblas_sgemm calls sgemm_) come back through our own:
 * tb_in_fallback() tells.
 */
#ifndef TB_FALLBACK_H
#define TB_FALLBACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "blas/call.h"
#include "base/thread.h"

/* True while the calling thread is inside the CPU BLAS on our behalf. */
static inline bool tb_in_fallback(void) { return tb_thread.cpu_depth != 0; }

/* What has been found to answer a symbol, if it is a function of the symbol's own ABI; otherwise, and before the first
 * use, NULL. It takes integers of 64 bits and, if it is one of 32 bits, looks at their lower halves: see tb_fits_int32.
 */
extern _Atomic(void *) tb_fallback_direct[TB_SYMBOL_COUNT];

/* The same for a plain name when its callers or the function have 64-bit integers; the other is NULL then. It is to be
 * given integers of 64 bits, and those of a plain name in the other have the width of that name's. */
extern _Atomic(void *) tb_fallback_direct_wide[TB_SYMBOL_COUNT];

/* Whether the integers of a symbol's callers have 64 bits: by its name, or because the BLAS that they would have had
 * has such integers under plain names. Finds out at the symbol's first call. */
bool tb_fallback_callers_are_wide(enum tb_symbol symbol);

/* In the library's constructor, with the options read: what can be found now need not wait for the loader in a call. */
void tb_fallback_at_load(void);

static inline bool tb_fits_int32(int64_t n) { return n >= INT32_MIN && n <= INT32_MAX; }

/*
 * The call exactly as the program made it, valid or not; an invalid one, of which argument number `refused` is not 0,
 * is reported by that BLAS as the program expects. (A valid one with alpha = 0 or k = 0 goes on with both zero, so that
 * no BLAS looks at A and B.) An error handler may leave by longjmp, so of an invalid one no state is kept.
 */
void tb_fallback_as_made(enum tb_symbol symbol, int refused, const struct tb_arguments *arguments);

/* A valid column-major call of any recipe, or a part of one, computed by the BLAS behind its symbol. */
void tb_fallback_compute(const struct tb_call *call);

/* The function that answers a symbol, of whatever ABI, found now if it was not before; NULL: plain loops do. */
void *tb_fallback_function(enum tb_symbol symbol);

/* Names the CPU BLAS in use, for the report: "/usr/lib/.../libopenblas.so.0 (next definition)". */
void tb_fallback_describe(char *text, size_t size);

/* The child of a fork starts with an unlocked table. */
void tb_fallback_after_fork(void);

#endif
