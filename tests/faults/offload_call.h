/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole life of the library in a forked child: opened by dlopen, asked for products in many pieces, closed, and
 * looked at afterwards for anything left behind in the driver. Not thread safe.
 */
#ifndef TST_OFFLOAD_CALL_H
#define TST_OFFLOAD_CALL_H

#include "fake.h"
#include "product.h"
#include "sanitized.h"
#include "tileblas.h"

struct tst_library {
  void *handle;
  void *cblas_sgemm;
  __typeof__(tileblas_option_set) *option_set;
  __typeof__(tileblas_stats_get) *stats_get;
};

/* Opens TB_TEST_LIBRARY; exits with 1 when that fails. */
void tst_library_open(struct tst_library *library);

/* Closes it, and exits with 1 if it stays in the process. */
void tst_library_close(struct tst_library *library);

/* One product with beta = 2 and whole numbers: committing twice, not at all, or to the wrong place gives other numbers.
 * Prints what is wrong and returns false. */
bool tst_call_exactly(const struct tst_library *library, struct tst_problem problem, uint64_t seed);

/*
 * One product of a shape that the seed picks, three in turn. With the memory limit below, the shapes take several
 * blocks, tiles and chunks of k.
 */
#define TST_PIECES_LIMIT "178K"
bool tst_call_in_pieces(const struct tst_library *library, uint64_t seed);

/* The same for a C of several tiles, of which the last ones come down in parts (1792 x 1000, k = 1, no memory limit).
 */
bool tst_call_with_large_tiles(const struct tst_library *library);

/*
 * Prints what the library left in the fake driver or, where malloc is counted (heap.h), in the heap, and returns false.
 * What a context took with it counts, unless the library could not enter it any more (FAKE_CUDA_ABANDONED).
 */
bool tst_nothing_left(const struct tst_fake *fake);

/* Of a function's `count` calls that are to fail one after another, the one to fail after number `nth`: every one of
 * the first twelve, then every seventh, for what is called more often is called for each kernel in turn, and the last;
 * under AddressSanitizer, where a life takes four times as long, of the first three, then every 31st. */
static inline unsigned long tst_next_position(unsigned long nth, unsigned long count) {
  const unsigned long next = nth + (nth < TST_UNLESS_SANITIZED(12, 3) ? 1 : TST_UNLESS_SANITIZED(7, 31));
  return next > count && nth < count ? count : next;
}

/* Whether `name` is one of the list's `count`. */
bool tst_is_listed(const char *name, const char *const *list, size_t count);

#endif
