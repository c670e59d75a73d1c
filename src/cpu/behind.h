/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BLAS that the program would have had: the next definition of each symbol in its search order, found when the
 * library is loaded, so that no call waits for the loader; and whether that BLAS has 64-bit integers under plain names
 * (MKL's ilp64, Debian's libblas64), for then the program's integers, too, have 64 bits. Thread-safe after
 * tb_behind_at_load.
 */
#ifndef TB_BEHIND_H
#define TB_BEHIND_H

#include <stdbool.h>

#include "blas/symbols.h"

struct tb_behind {
  void *function;     /* NULL: there is none */
  const char *file;   /* of its library, which is never unloaded */
  void *index_of_max; /* its isamax_; NULL: it has none */
};

/* In the library's constructor. Leaves no dlerror. */
void tb_behind_at_load(void);

/* The next definition as it was found at load; with no function where there was none, or a copy of TileBLAS. */
const struct tb_behind *tb_behind_next(enum tb_symbol symbol);

/* Fills *behind for a function, whose library is kept loaded from now on. False: it is TileBLAS's, this one's or
 * another copy's. Waits for the loader. */
bool tb_behind_look(void *function, struct tb_behind *behind);

/* Whether a function that was found has 64-bit integers, by what its library does with a vector of one element. Calls
 * that library, which must have been initialised. Waits for nobody. */
bool tb_behind_is_wide(const struct tb_behind *behind);

#endif
