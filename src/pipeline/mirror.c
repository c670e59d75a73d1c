/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/mirror.h"

#include <stdint.h>

/* An element is moved as a whole; a conjugate's sign bit is turned. */
struct element_of_16 {
  uint64_t part[2];
};

/* As the program has it: an element of two floats is aligned to one. */
typedef uint64_t tb_mirror_word __attribute__((aligned(4)));

#define TURN(name, element, stored, columns_most)                                                           \
  static void turn_##name(element *restrict to, const stored *restrict from, int64_t from_ld, int64_t rows, \
                          int64_t columns) {                                                                \
    if (columns == (columns_most)) { /* of a known number, so that the compiler unrolls them */             \
      for (int64_t i = 0; i < rows; i++)                                                                    \
        for (int64_t j = 0; j < (columns_most); j++) to[i + j * TB_MIRROR_ROWS] = from[j + i * from_ld];    \
      return;                                                                                               \
    }                                                                                                       \
    for (int64_t i = 0; i < rows; i++)                                                                      \
      for (int64_t j = 0; j < columns; j++) to[i + j * TB_MIRROR_ROWS] = from[j + i * from_ld];             \
  }
TURN(4, uint32_t, uint32_t, 16)
TURN(8, uint64_t, tb_mirror_word, 8)
TURN(16, struct element_of_16, struct element_of_16, 4)
#undef TURN

/* The sign of an imaginary part, in the elements of the buffer. */
static void conjugate_c(uint64_t *to, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < rows; i++) to[i + j * TB_MIRROR_ROWS] ^= UINT64_C(1) << 63;
}

static void conjugate_z(struct element_of_16 *to, int64_t rows, int64_t columns) {
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < rows; i++) to[i + j * TB_MIRROR_ROWS].part[1] ^= UINT64_C(1) << 63;
}

void tb_mirror_turn(enum tb_type type, bool conjugated, void *to, const void *from, int64_t from_ld, int64_t rows,
                    int64_t columns) {
  switch (type) {
    case TB_S:
      turn_4(to, from, from_ld, rows, columns);
      break;
    case TB_D:
    case TB_C:
      turn_8(to, from, from_ld, rows, columns);
      break;
    default:
      turn_16(to, from, from_ld, rows, columns);
  }
  if (conjugated && type == TB_C) conjugate_c(to, rows, columns);
  if (conjugated && type == TB_Z) conjugate_z(to, rows, columns);
}
