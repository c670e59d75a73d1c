/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all fuzz programs draw alike: sizes, scalars, amplitudes, options. Chances stand where they are used; together
 * they keep the work of a call bounded. The state is the caller's; thread safe beyond that.
 */
#ifndef FUZZ_CHANCE_H
#define FUZZ_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "rng.h"

#define FUZZ_BYTES_MAX 160000000 /* of a call's operands: they are filled, sent, widened and compared */

/* Of doubles, as most multiplications of parts: the product in twice their precision takes a core seconds then. */
#define FUZZ_MOST_OF_DOUBLES 4e8

struct fuzz_limits {
  double most;     /* of multiplications of parts */
  bool own_memory; /* of the program alone, none of CUDA's */
};

/* Options of a call. */
struct fuzz_options {
  const char *route, *precision, *share;
  char memory_limit[24];
  bool verbose;
};

static inline int64_t fuzz_below(uint64_t *rng, int64_t n) { return tst_random_below(rng, n); }
static inline bool fuzz_one_in(uint64_t *rng, int64_t n) { return fuzz_below(rng, n) == 0; }

/* From low to high, each binade as likely as the next. */
int64_t fuzz_between(uint64_t *rng, double low, double high);

/* m, n and k of a class: tiny ones, edges of tiles, middling, thin, a long k, the tensor cores', large. */
void fuzz_draw_sizes(uint64_t *rng, int64_t size[3]);

/* 0, 1 and NaN among them; `exact`: a whole number or a half. */
double fuzz_draw_real(uint64_t *rng, enum tst_type type, bool exact);
double _Complex fuzz_draw_scalar(uint64_t *rng, enum tst_type type, bool exact);

/* Of whole numbers. */
int64_t fuzz_draw_amplitude(uint64_t *rng, enum tst_type type);

/* The least limit of memory, in KiB, with which every call of a type has pieces that fit. */
int64_t fuzz_least_kib(enum tst_type type);

/* operand_bytes: what the operands take; least_kib: of device memory, so that pieces of them pass. */
void fuzz_draw_options(struct fuzz_options *options, uint64_t *rng, int64_t operand_bytes, int64_t least_kib);

#endif
