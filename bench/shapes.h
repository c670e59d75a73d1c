/* SPDX-License-Identifier: BSD-3-Clause */
/* The shapes on which kernels are compared with cuBLAS: fixed ones that people use, and random ones from a fixed seed.
 */
#ifndef TB_BENCH_SHAPES_H
#define TB_BENCH_SHAPES_H

struct tb_shape {
  int ta, tb; /* 1: transposed */
  int m, n, k;
};

enum { TB_SHAPES_MAX = 256 };

/* Writes the fixed list and 100 random shapes (short_list: without 8192 and 16384 cubed, 12 random ones); returns how
 * many. */
int tb_shapes(struct tb_shape shape[TB_SHAPES_MAX], int short_list);

/* Parses "NT:MxNxK"; returns 0 when the text is something else. */
int tb_shape_parse(const char *text, struct tb_shape *shape);

#endif
