/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What operands of a random call hold. Values come from pools, line by line from a random place: to make each anew
 * would take longer than the product. Not thread safe.
 */
#ifndef FUZZ_VALUES_H
#define FUZZ_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

enum fuzz_values {
  FUZZ_INTEGERS,  /* parts as large as leave every sum exact in the type: the answer's bits are known */
  FUZZ_SIGNED,    /* uniform in (-1, 1) */
  FUZZ_POSITIVE,  /* uniform in [0, 1) */
  FUZZ_WIDE,      /* of either sign, exponents from -40 to 40, or of doubles from -300 to 300 */
  FUZZ_SUBNORMAL, /* A and C subnormal, B uniform in (-1, 1) */
  FUZZ_SPECIAL,   /* FUZZ_SIGNED with zeros, Inf, -Inf and NaN here and there */
  FUZZ_VALUES
};

extern const char *const fuzz_value_names[FUZZ_VALUES];

struct fuzz_filling {
  enum fuzz_values values;
  enum tst_type type;
  int64_t amplitude; /* of FUZZ_INTEGERS */
  bool normal;       /* not subnormal where others are */
};

/* Lines of so many elements, `ld` from one to the next. */
void fuzz_fill(char *image, const struct fuzz_filling *filling, int64_t len, int64_t lines, int64_t ld, uint64_t *rng);

#endif
