/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routines whose name and type are known when a test runs: by which spelling, elements and scalars of the type, and
 * operands' memory, of which what must not be read is NaN.
 */
#ifndef TST_TYPED_H
#define TST_TYPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "terms.h"

struct tst_typed_name {
  char name[32];
  const char *routine; /* as the reference names it, without underscores */
  char type;           /* s, d, c or z */
  int shape;           /* of the routines that are called alike: theirs to say */
  bool cblas, wide;
  void *function;
};

enum { TST_TYPED_SPELLINGS = 10 };

/* Of so many routines in each spelling the one with a number, all but its shape. Ends the process if the program has no
 * such symbol. */
void tst_typed_find(struct tst_typed_name *name, const char *const routines[], int count, int number);

static inline bool tst_typed_is_double(const struct tst_typed_name *n) { return n->type == 'd' || n->type == 'z'; }
static inline bool tst_typed_is_complex(const struct tst_typed_name *n) { return n->type == 'c' || n->type == 'z'; }
static inline size_t tst_typed_bytes(const struct tst_typed_name *n) {
  return (tst_typed_is_double(n) ? sizeof(double) : sizeof(float)) << tst_typed_is_complex(n);
}

/* Number `part`, 0 or 1, of element `at`; and both. */
double tst_typed_get(const struct tst_typed_name *name, const void *data, int64_t at, int part);
void tst_typed_set(const struct tst_typed_name *name, void *data, int64_t at, int part, double x);
struct tst_number tst_typed_number(const struct tst_typed_name *name, const void *data, int64_t at);

/* Memory of an operand, and what it was before a call. */
struct tst_typed_memory {
  void *data, *before;
  size_t bytes;
};

/* Numbers where `len` of `ld` are the operand's, NaN in the padding; a line more than there are is padding, too.
 * `poisoned`: NaN everywhere. */
void tst_typed_fill(const struct tst_typed_name *name, struct tst_typed_memory *x, int64_t lines, int64_t len,
                    int64_t ld, bool poisoned, uint64_t *rng);

/* Three operands, of which some may lie nowhere: they are what they were before a call; and their end. */
void tst_typed_keep(struct tst_typed_memory *const all[3]);
void tst_typed_free(struct tst_typed_memory *const all[3]);

bool tst_typed_is_as_it_was(const struct tst_typed_name *name, const struct tst_typed_memory *x, int64_t at);

/* One of the letters; of a Fortran routine a small one at times. */
char tst_typed_letter(const struct tst_typed_name *name, const char *letters, uint64_t *rng);

/* A complex scalar in its two parts. */
static inline bool tst_is_zero(const double x[2]) { return x[0] == 0 && x[1] == 0; }
static inline struct tst_number tst_number_of(const double x[2]) { return (struct tst_number){x[0], x[1]}; }

union tst_scalar {
  float s[2];
  double d[2];
};
union tst_scalar tst_typed_scalar(const struct tst_typed_name *name, const double x[2]);

/* Integers are passed with 64 bits, of which a function of 32 looks at the lower half: so that this half alone is
 * right, the upper one is none of the number. */
int64_t tst_typed_passed(const struct tst_typed_name *name, int64_t x);

#endif
