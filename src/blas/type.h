/* SPDX-License-Identifier: BSD-3-Clause */
/* The element types of BLAS, and scalars of them. Pure; thread-safe. */
#ifndef TB_TYPE_H
#define TB_TYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/inline.h"

/* By the first letter of a routine's name: float, double, and pairs of them, the real part first. */
enum tb_type { TB_S, TB_D, TB_C, TB_Z, TB_TYPE_COUNT };

TB_ALWAYS_INLINE bool tb_type_is_complex(enum tb_type type) { return type >= TB_C; }
TB_ALWAYS_INLINE bool tb_type_is_double(enum tb_type type) { return type == TB_D || type == TB_Z; }

/* The type of an element's parts, and how many it has. */
static inline enum tb_type tb_type_real(enum tb_type type) { return tb_type_is_double(type) ? TB_D : TB_S; }
static inline int tb_type_parts(enum tb_type type) { return tb_type_is_complex(type) ? 2 : 1; }

/* Of an element. */
TB_ALWAYS_INLINE int64_t tb_type_bytes(enum tb_type type) {
  return (int64_t)sizeof(float) << (tb_type_is_complex(type) + tb_type_is_double(type));
}

/* Floating-point operations of a multiplication and an addition of elements. */
static inline double tb_type_flops(enum tb_type type) { return tb_type_is_complex(type) ? 8 : 2; }

/* "sdcz". */
static inline char tb_type_letter(enum tb_type type) { return "sdcz"[type]; }

/* alpha or beta, as the program passed it: bits, for even to convert a signalling NaN would raise a flag. */
union tb_scalar {
  float s;
  double d;
  float c[2];
  double z[2];
};

TB_ALWAYS_INLINE union tb_scalar tb_scalar_at(enum tb_type type, const void *address) {
  union tb_scalar x = {.z = {0, 0}};
  memcpy(&x, address, (size_t)tb_type_bytes(type));
  return x;
}

/* A real number that a float holds exactly. */
static inline union tb_scalar tb_scalar_of(enum tb_type type, float real) {
  union tb_scalar x = {.z = {0, 0}};
  if (tb_type_is_double(type))
    x.d = (double)real;
  else
    x.s = real;
  return x;
}

static inline bool tb_scalars_are_equal(enum tb_type type, union tb_scalar x, union tb_scalar y) {
  return memcmp(&x, &y, (size_t)tb_type_bytes(type)) == 0;
}

/* Whether a float or double is 0 or -0: what a comparison would say, without a flag for a signalling NaN. */
TB_ALWAYS_INLINE bool tb_is_zero(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits << 1 == 0;
}
TB_ALWAYS_INLINE bool tb_is_zero_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits << 1 == 0;
}

/* The real and the imaginary part of a complex scalar. */
static inline void tb_scalar_parts(enum tb_type type, union tb_scalar x, double part[2]) {
  for (int i = 0; i < 2; i++) part[i] = tb_type_is_double(type) ? x.z[i] : (double)x.c[i];
}

/* Whether a complex scalar's imaginary part is 0 or -0. */
static inline bool tb_scalar_is_real(enum tb_type type, union tb_scalar x) {
  return tb_type_is_double(type) ? tb_is_zero_double(x.z[1]) : tb_is_zero(x.c[1]);
}

TB_ALWAYS_INLINE bool tb_scalar_is_zero(enum tb_type type, union tb_scalar x) {
  if (tb_type_is_double(type)) return tb_is_zero_double(x.d) && (type == TB_D || tb_is_zero_double(x.z[1]));
  return tb_is_zero(x.s) && (type == TB_S || tb_is_zero(x.c[1]));
}

/* 1, or 1 and an imaginary part of 0 or -0. */
static inline bool tb_scalar_is_one(enum tb_type type, union tb_scalar x) {
  const union tb_scalar one = tb_scalar_of(type, 1);
  if (type == TB_C && tb_is_zero(x.c[1])) x.c[1] = 0;
  if (type == TB_Z && tb_is_zero_double(x.z[1])) x.z[1] = 0;
  return tb_scalars_are_equal(type, x, one);
}

#endif
