/* SPDX-License-Identifier: BSD-3-Clause */
/* See extents.h. */
#include "extents.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "batch/batch_args.h"
#include "fma/commit_args.h"
#include "emulated/emulated_args.h"
#include "complex/complex_args.h"
#include "triangle/solve_args.h"
#include "triangle/triangle_args.h"
#include "fp64/fp64_args.h"
#include "kept/digest_args.h"
#include "skinny/skinny_args.h"

namespace fake {
namespace {

constexpr size_t WORD = 4, DOUBLE = 8;

bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }
bool ends(const char *name, const char *with) {
  const size_t length = strlen(name), behind = strlen(with);
  return length >= behind && strcmp(name + length - behind, with) == 0;
}

size_t divided(int64_t n, int64_t by) { return static_cast<size_t>((n + by - 1) / by); }
size_t rounded(int64_t n, int64_t to) { return divided(n, to) * static_cast<size_t>(to); }

class Touches {
public:
  std::vector<Touch> list;

  /* `columns` columns of `rows` words, `ld` words apart. */
  void matrix(const void *p, size_t rows, size_t columns, size_t ld, bool writes) {
    if (rows > 0 && columns > 0)
      list.push_back({reinterpret_cast<uintptr_t>(p), ld * WORD, rows * WORD, columns, writes});
  }
  void bytes(const void *p, size_t count, bool writes) {
    if (p != nullptr && count > 0) list.push_back({reinterpret_cast<uintptr_t>(p), count, count, 1, writes});
  }
  /* Sides by k, along either. */
  void operand(const float *p, bool along_k, int64_t sides, int64_t k, int64_t ld) {
    matrix(p, static_cast<size_t>(along_k ? k : sides), static_cast<size_t>(along_k ? sides : k),
           static_cast<size_t>(ld), false);
  }
};

template <class Args> const Args &read(void *const *parameters, size_t i = 0) {
  return *static_cast<const Args *>(parameters[i]);
}

void write_d(Touches &t, const tb_sgemm_args &a) {
  t.matrix(a.d, static_cast<size_t>(a.m), static_cast<size_t>(a.n), static_cast<size_t>(a.ldd), true);
}

void partials(Touches &t, const tb_sgemm_args &a, bool writes) {
  t.bytes(a.partials, divided(a.k, a.unit_k) * static_cast<size_t>(a.m * a.n) * WORD, writes);
}

void operands(Touches &t, const tb_sgemm_args &a, const char *variant) {
  t.operand(a.a, variant[0] == 't', a.m, a.k, a.lda);
  t.operand(a.b, variant[1] == 'n', a.n, a.k, a.ldb);
}

/* tb_sgemm_<tile>_<variant> and tb_sgemm_packed<tile>. */
void tile(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_sgemm_args>(parameters);
  if (strncmp(name, "tb_sgemm_packed", 15) == 0) {
    const size_t rows = static_cast<size_t>(a.lda);
    t.bytes(a.a, rounded(a.m, 2 * TB_SGEMM_PANEL) * rows * WORD, false);
    t.bytes(a.b, rounded(a.n, 2 * TB_SGEMM_PANEL) * rows * WORD, false);
  } else {
    operands(t, a, strchr(name + strlen("tb_sgemm_"), '_') + 1);
  }
  if (a.partials != nullptr)
    partials(t, a, true);
  else
    write_d(t, a);
}

void pack(Touches &t, void *const *parameters) {
  const auto &p = read<tb_sgemm_pack_args>(parameters);
  for (const tb_sgemm_pack_operand *x : {&p.a, &p.b}) {
    t.operand(x->from, x->along_k != 0, x->sides, p.k, x->ld);
    t.bytes(x->to, rounded(x->sides, 2 * TB_SGEMM_PANEL) * static_cast<size_t>(p.rows) * WORD, true);
  }
}

void gather(Touches &t, void *const *parameters) {
  const auto &a = read<tb_sgemm_args>(parameters);
  partials(t, a, false);
  write_d(t, a);
}

void commit(Touches &t, void *const *parameters) {
  const auto &a = read<tb_commit_args>(parameters);
  const size_t m = static_cast<size_t>(a.m), n = static_cast<size_t>(a.n);
  t.matrix(a.c, m, n, static_cast<size_t>(a.ldc), true);
  if (a.d != nullptr) t.matrix(a.d, m, n, static_cast<size_t>(a.ldd), false);
}

void digest(Touches &t, void *const *parameters) {
  const auto &a = read<tb_digest_args>(parameters);
  const int64_t first = a.first / a.in_column * a.columns_each;
  const int64_t end = std::min(a.columns, ((a.first + a.count - 1) / a.in_column + 1) * a.columns_each);
  const int64_t words = a.column_bytes / static_cast<int64_t>(WORD);
  t.matrix(a.copy + first * a.pitch, static_cast<size_t>(words), static_cast<size_t>(end - first),
           static_cast<size_t>(a.pitch) / WORD, false);
  const size_t key_words = 2 * static_cast<size_t>(a.cell_bytes) / 16 + 2;
  t.bytes(a.key, sizeof(uint64_t) * key_words, false);
  t.bytes(a.digests, 4 * sizeof(uint64_t) * static_cast<size_t>(a.count), true);
}

/* Of a triangle what its tiles have, up to the edges of those on the diagonal. */
void triangle(Touches &t, const float *a, int64_t ld, int64_t order, bool lower) {
  constexpr int64_t block = TB_EMULATED_TILE_M;
  for (int64_t row = 0; row < order; row += block) {
    const int64_t end = std::min(order, row + block), k = lower ? 0 : row, k_end = lower ? end : order;
    t.matrix(a + row + k * ld, static_cast<size_t>(end - row), static_cast<size_t>(k_end - k), static_cast<size_t>(ld),
             false);
  }
}

void again(Touches &t, const char *variant, void *const *parameters) {
  const auto &a = read<tb_sgemm_args>(parameters);
  const auto &which = read<tb_emulated_again>(parameters, 1);
  if (which.triangle.parts == 0) {
    operands(t, a, variant);
  } else {
    triangle(t, a.a, a.lda, a.m, which.triangle.lower != 0);
    t.operand(a.b, true, a.n, a.k, a.ldb);
  }
  write_d(t, a);
  t.bytes(which.left, static_cast<size_t>(which.left_words) * WORD, false);
  t.bytes(which.marks, divided(a.m, TB_EMULATED_TILE_M) * divided(a.n, TB_EMULATED_TILE_N) * WORD, false);
}

/* ---- for the tensor cores ---- */

void seen(Touches &t, const uint32_t *at, size_t padded, size_t groups, bool writes) {
  t.bytes(at, padded / TB_EMULATED_PACK_SIDES * groups * WORD, writes);
}

void packed(Touches &t, const tb_emulated_packed &p, size_t padded, int64_t k, size_t planes, bool writes) {
  const size_t groups = divided(k, TB_EMULATED_GROUP_K);
  t.bytes(p.planes, padded * rounded(k, TB_EMULATED_CHUNK_K) * planes * sizeof(uint16_t), writes);
  t.bytes(p.scale, padded * groups * WORD, writes);
  seen(t, p.seen, padded, groups, writes);
}

void emulated_pack(Touches &t, size_t planes, void *const *parameters) {
  const auto &p = read<tb_emulated_pack_args>(parameters);
  for (const tb_emulated_pack_operand &x : p.x) {
    if (x.sides == 0) continue;
    if (x.triangle.parts != 0)
      triangle(t, x.from, x.ld, x.sides, (x.triangle.lower != 0) != (x.along_k != 0));
    else
      t.operand(x.from, x.along_k != 0, x.sides, p.k, x.ld);
    packed(t, x.to, static_cast<size_t>(x.padded_sides), p.k, planes, true);
    t.bytes(x.unfit, static_cast<size_t>(x.padded_sides) * divided(p.k, TB_EMULATED_GROUP_K) * sizeof *x.unfit, true);
  }
  t.bytes(p.left, static_cast<size_t>(p.left_words) * WORD, false);
}

/* Marks, sums and D, of all kernels that have them. */
void split_results(Touches &t, const tb_emulated_args &a, bool half, bool gathers) {
  const size_t tiles = divided(a.m, TB_EMULATED_TILE_M) * divided(a.n, TB_EMULATED_TILE_N);
  const size_t tile_bytes = TB_EMULATED_TILE_M * TB_EMULATED_TILE_N * WORD, groups = divided(a.k, TB_EMULATED_GROUP_K);
  const size_t left_words = static_cast<size_t>(a.left_words);
  t.bytes(a.left, left_words * WORD, half);
  t.bytes(a.again, tiles * WORD, !gathers);
  if (!gathers) t.bytes(a.taken, tiles * WORD, half);
  if (!half && !gathers && groups > 1) t.bytes(a.sums, left_words * tile_bytes, true);
  t.bytes(a.partials, static_cast<size_t>(a.tiles - a.whole) * groups * tile_bytes, !gathers);
  t.matrix(a.d, static_cast<size_t>(a.m), static_cast<size_t>(a.n), static_cast<size_t>(a.ldd), true);
}

void split_multiply(Touches &t, size_t planes, void *const *parameters) {
  const auto &a = read<tb_emulated_args>(parameters);
  const size_t rows = rounded(a.m, TB_EMULATED_TILE_M), columns = rounded(a.n, TB_EMULATED_TILE_N);
  packed(t, a.a, rows, a.k, planes, false);
  packed(t, a.b, columns, a.k, planes, false);
  split_results(t, a, planes == 2, false);
}

/* ---- thin ---- */

/* Element (i, j) of `from` is from[i * i_apart + j * j_apart]; one of the two is 1. */
void strided(Touches &t, const float *from, int64_t i, int64_t i_apart, int64_t j, int64_t j_apart, bool writes) {
  if (i_apart == 1)
    t.matrix(from, static_cast<size_t>(i), static_cast<size_t>(j), static_cast<size_t>(j_apart), writes);
  else
    t.matrix(from, static_cast<size_t>(j), static_cast<size_t>(i), static_cast<size_t>(i_apart), writes);
}

void thin(Touches &t, bool along_k, void *const *parameters) {
  const auto &a = read<tb_skinny_args>(parameters);
  t.operand(a.x, along_k, a.rows, a.k, a.x_ld);
  strided(t, a.y, a.k, a.y_k, a.columns, a.y_column, false);
  const size_t sums = a.d_group == 0 ? 1 : divided(a.k, TB_SGEMM_GROUP_K);
  for (size_t i = 0; i < sums; i++)
    strided(t, a.d + static_cast<int64_t>(i) * a.d_group, a.rows, a.d_row, a.columns, a.d_column, true);
}

/* ---- double precision ---- */

/* tb_<letter>gemm_gather_<tile>, tb_<letter>gemm_<tile>_<variant> and the tile's sides in its name. */
void fp64(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_fp64_args>(parameters);
  const size_t words = begins(name, "tb_zgemm_") ? 4 : 2; /* of an element */
  const char *const behind = name + strlen("tb_dgemm_");
  const bool gathers = begins(behind, "gather_");
  const char *const tile = behind + (gathers ? strlen("gather_") : 0);
  const int64_t block_m = atoi(tile), block_n = atoi(strchr(tile, 'x') + 1);
  const size_t m = static_cast<size_t>(a.m), n = static_cast<size_t>(a.n), k = static_cast<size_t>(a.k);
  const size_t groups = divided(a.k, a.group_k);
  const size_t split = a.partials == nullptr ? 0 : static_cast<size_t>(a.tiles - a.whole);
  t.bytes(a.partials, split * groups * static_cast<size_t>(block_m * block_n) * words / 2 * DOUBLE, !gathers);
  t.matrix(a.d, m * words, n, static_cast<size_t>(a.ldd) * words, true);
  if (gathers) return;
  const char *const variant = strchr(tile, '_') + 1;
  const bool ta = variant[0] == 't', tb = variant[1] == 't';
  t.matrix(a.a, (ta ? k : m) * words, ta ? m : k, static_cast<size_t>(a.lda) * words, false);
  t.matrix(a.b, (tb ? n : k) * words, tb ? k : n, static_cast<size_t>(a.ldb) * words, false);
}

/* tb_<letter>trmm_<tile>: of A' all that its tiles have, up to the edges of those on the diagonal. */
void fp64_triangle(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_fp64_args>(parameters);
  const size_t words = begins(name, "tb_ztrmm_") ? 4 : 2, n = static_cast<size_t>(a.n);
  const int64_t block = atoi(name + strlen("tb_dtrmm_"));
  for (int64_t row = 0; row < a.m; row += block) {
    const int64_t end = std::min(a.m, row + block), k = a.lower ? 0 : row, k_end = a.lower ? end : a.k;
    t.matrix(a.a + (row + k * a.lda) * static_cast<int64_t>(words / 2), static_cast<size_t>(end - row) * words,
             static_cast<size_t>(k_end - k), static_cast<size_t>(a.lda) * words, false);
  }
  t.matrix(a.b, static_cast<size_t>(a.k) * words, n, static_cast<size_t>(a.ldb) * words, false);
  t.matrix(a.d, static_cast<size_t>(a.m) * words, n, static_cast<size_t>(a.ldd) * words, true);
  t.bytes(a.unfit, n * sizeof *a.unfit, true);
}

void fp64_commit(Touches &t, void *const *parameters) {
  const auto &a = read<tb_fp64_commit_args>(parameters);
  const size_t m = static_cast<size_t>(a.m) * 2, n = static_cast<size_t>(a.n);
  t.matrix(a.c, m, n, static_cast<size_t>(a.ldc) * 2, true);
  if (a.d != nullptr) t.matrix(a.d, m, n, static_cast<size_t>(a.ldd) * 2, false);
}

/* ---- complex products made real ---- */

void expand(Touches &t, void *const *parameters) {
  const auto &a = read<tb_complex_expand_args>(parameters);
  const size_t rows = static_cast<size_t>(a.rows) * 2, columns = static_cast<size_t>(a.columns);
  t.matrix(a.from, rows, columns, static_cast<size_t>(a.from_ld) * 2, false);
  t.matrix(a.to, rows, columns * 2, static_cast<size_t>(a.to_ld), true);
}

void part(Touches &t, void *const *parameters) {
  const auto &a = read<tb_complex_part_args>(parameters);
  const size_t rows = static_cast<size_t>(a.rows), columns = static_cast<size_t>(a.columns);
  t.matrix(a.from, rows * 2, columns, static_cast<size_t>(a.from_ld) * 2, false);
  t.matrix(a.to, rows, columns * 2, static_cast<size_t>(a.to_ld), true);
}

/* `real`: words of this file that a part of an element has. */
void complex_commit(Touches &t, size_t real, void *const *parameters) {
  const auto &a = read<tb_complex_commit_args>(parameters);
  const size_t rows = static_cast<size_t>(a.m) * 2 * real, columns = static_cast<size_t>(a.n);
  t.matrix(a.c, rows, columns, static_cast<size_t>(a.ldc) * 2 * real, true);
  if (a.d != nullptr) t.matrix(a.d, rows, columns, static_cast<size_t>(a.ldd) * 2 * real, false);
}

void of_complex(Touches &t, const char *name, void *const *parameters) {
  const size_t real = begins(name, "tb_z") ? DOUBLE / WORD : 1;
  if (ends(name, "_expand"))
    expand(t, parameters);
  else if (ends(name, "_part"))
    part(t, parameters);
  else
    complex_commit(t, real, parameters);
}

/* ---- commits of a triangle ---- */

/* Column by column: what lies outside is nobody's. */
void triangle_commit(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_commit_args>(parameters);
  const char type = name[strlen(name) - 1];
  const int64_t bytes = (type == 's' ? 1 : type == 'z' ? 4 : 2) * static_cast<int64_t>(WORD);
  for (int64_t j = 0; j < a.n; j++) {
    const int64_t row = std::max<int64_t>(0, std::min(a.m, j + a.diagonal + (a.lower ? 0 : 1)));
    const int64_t first = a.lower ? row : 0, rows = a.lower ? a.m - row : row;
    if (rows == 0) continue;
    t.bytes(static_cast<const char *>(a.c) + (first + j * a.ldc) * bytes, static_cast<size_t>(rows * bytes), true);
    if (a.d != nullptr)
      t.bytes(static_cast<const char *>(a.d) + (first + j * a.ldd) * bytes, static_cast<size_t>(rows * bytes), false);
  }
}

/* What is read of a panel's matrix: of each column the stored run, and that in which the others' images lie. */
void triangle_mirror(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_mirror_args>(parameters);
  const char type = name[strlen(name) - 1];
  const int64_t bytes = (type == 's' ? 1 : type == 'z' ? 4 : 2) * static_cast<int64_t>(WORD);
  const char *const from = static_cast<const char *>(a.from);
  for (int64_t j = 0; j < a.n; j++) {
    t.bytes(static_cast<char *>(a.to) + j * a.to_ld * bytes, static_cast<size_t>(a.m * bytes), true);
    const int64_t row = std::max<int64_t>(0, std::min(a.m, j + a.diagonal + (a.lower ? 0 : 1)));
    const int64_t first = a.lower ? row : 0, rows = a.lower ? a.m - row : row;
    t.bytes(from + (first + j * a.from_ld) * bytes, static_cast<size_t>(rows * bytes), false);
  }
  for (int64_t i = 0; i < a.m; i++) {
    const int64_t column = std::max<int64_t>(0, std::min(a.n, i - a.diagonal + (a.lower ? 1 : 0)));
    const int64_t first = a.lower ? column : 0, columns = a.lower ? a.n - column : column;
    t.bytes(from + (first + a.diagonal + (i - a.diagonal) * a.from_ld) * bytes, static_cast<size_t>(columns * bytes),
            false);
  }
}

/* ---- triangles that multiply and divide ---- */

/* Words of an element, by the last letter of a kernel's name. */
size_t words_of(const char *name) {
  const char type = name[strlen(name) - 1];
  return type == 's' ? 1 : type == 'z' ? 4 : 2;
}

/* What is formed, of real elements or pairs of them, by columns of squares. */
void formed(Touches &t, const tb_triangle_form_args &a, size_t words, int64_t edge) {
  const int64_t row = a.transposed ? a.first_column : a.first_row, rows = a.transposed ? a.columns : a.rows;
  const int64_t column = a.transposed ? a.first_row : a.first_column, columns = a.transposed ? a.rows : a.columns;
  const bool lower = (a.lower != 0) != (a.transposed != 0);
  for (int64_t from = column, end; from < column + columns; from = end) {
    end = std::min(column + columns, from / edge * edge + edge);
    const int64_t top = a.squares && lower ? std::max(row, from / edge * edge) : row;
    const int64_t bottom = a.squares && !lower ? std::min(row + rows, from / edge * edge + edge) : row + rows;
    if (top < bottom)
      t.matrix(static_cast<char *>(a.to) + (top + from * a.to_ld) * static_cast<int64_t>(words * WORD),
               static_cast<size_t>(bottom - top) * words, static_cast<size_t>(end - from),
               static_cast<size_t>(a.to_ld) * words, true);
  }
}

/* Of the stored triangle what the columns have, without a diagonal that is not read. */
void triangle_form(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_form_args>(parameters);
  const size_t words = words_of(name);
  const int64_t size = static_cast<int64_t>(words * WORD);
  for (int64_t c = 0; c < a.columns; c++) {
    const int64_t diagonal = a.first_column + c - a.first_row;
    int64_t first = a.lower ? diagonal + (a.unit ? 1 : 0) : 0, end = a.lower ? a.rows : diagonal + (a.unit ? 0 : 1);
    first = std::max<int64_t>(first, 0), end = std::min(end, a.rows);
    if (first < end)
      t.bytes(static_cast<const char *>(a.from) + (first + c * a.from_ld) * size,
              static_cast<size_t>((end - first) * size), false);
  }
  t.bytes(a.left, static_cast<size_t>(a.left_words) * WORD, false);
  tb_triangle_form_args to = a;
  if (name[strlen(name) - 1] == 'c') { /* of twice the rows and columns, of one word */
    to.first_row *= 2, to.first_column *= 2, to.rows *= 2, to.columns *= 2;
    formed(t, to, 1, 2 * TB_FP64_TRIANGLE_EDGE);
  } else {
    formed(t, to, words, TB_FP64_TRIANGLE_EDGE);
  }
}

void triangle_turn(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_turn_args>(parameters);
  const size_t words = words_of(name), rows = static_cast<size_t>(a.rows), columns = static_cast<size_t>(a.columns);
  t.matrix(a.from, rows * words, columns, static_cast<size_t>(a.from_ld) * words, false);
  t.matrix(a.to, columns * words, rows, static_cast<size_t>(a.to_ld) * words, true);
}

/* The block's square: of its other side nothing is read, which the kernel's tests see. */
void triangle_leaf(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_leaf_args>(parameters);
  const size_t words = words_of(name), m = static_cast<size_t>(a.m);
  t.matrix(a.a, m * words, m, static_cast<size_t>(a.lda) * words, false);
  t.matrix(a.b, m * words, static_cast<size_t>(a.n), static_cast<size_t>(a.ldb) * words, true);
}

void triangle_copy(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_copy_args>(parameters);
  const size_t words = words_of(name), rows = static_cast<size_t>(a.rows), columns = static_cast<size_t>(a.columns);
  t.matrix(a.from, rows * words, columns, static_cast<size_t>(a.from_ld) * words, false);
  t.matrix(a.to, rows * words, columns, static_cast<size_t>(a.to_ld) * words, true);
}

/* As if all columns were to be repaired. */
void triangle_repair(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_repair_args>(parameters);
  const size_t words = words_of(name), rows = static_cast<size_t>(a.rows), columns = static_cast<size_t>(a.columns);
  t.matrix(a.a, rows * words, rows, static_cast<size_t>(a.lda) * words, false);
  t.matrix(a.b, rows * words, columns, static_cast<size_t>(a.ldb) * words, false);
  for (int part = 0; part < a.unfit_parts; part++)
    t.bytes(a.unfit + part * a.unfit_ld, columns * sizeof *a.unfit, false);
  t.matrix(a.product, rows * words, columns, static_cast<size_t>(a.product_ld) * words, true);
}

/* All of A' that there is, not the corners alone. */
void triangle_corner(Touches &t, const char *name, void *const *parameters) {
  const auto &a = read<tb_triangle_corner_args>(parameters);
  const size_t words = words_of(name), rows = static_cast<size_t>(a.rows), columns = static_cast<size_t>(a.columns);
  const int64_t order = a.rows * static_cast<int64_t>(words);
  triangle(t, static_cast<const float *>(a.a), a.lda, order, (a.lower != 0) != (a.transposed != 0));
  t.matrix(a.b, rows * words, columns, static_cast<size_t>(a.ldb) * words, false);
  t.bytes(a.again, divided(order, TB_EMULATED_TILE_M) * divided(a.columns, TB_EMULATED_TILE_N) * WORD, false);
  t.matrix(a.product, rows * words, columns, static_cast<size_t>(a.product_ld) * words, true);
}

/* ---- batches ---- */

/* What their lists say lies in device memory, and may not be there yet: the arguments say between what it lies. A list
 * of addresses says nothing. */
void batch(Touches &t, void *const *parameters) {
  const auto &a = read<tb_batch_args>(parameters);
  t.bytes(a.products, static_cast<size_t>(a.count) * sizeof *a.products, false);
  if (a.base == nullptr) return;
  t.bytes(a.base, static_cast<size_t>(a.read_bytes), false);
  t.bytes(a.base + a.write_at, static_cast<size_t>(a.write_bytes), true);
}

/* Of the fake's own tests: one that keeps to it, one that need not, and one that does not. */
bool of_a_test(Touches &t, const char *name, void *const *parameters) {
  if (strcmp(name, "test_scale") == 0) {
    struct Scale {
      const float *from;
      float *to;
      int count;
    };
    const auto &a = read<Scale>(parameters);
    t.bytes(a.from, static_cast<size_t>(a.count) * WORD, false);
    t.bytes(a.to, static_cast<size_t>(a.count) * WORD, true);
  } else if (strcmp(name, "test_write_at") == 0) {
    t.bytes(read<float *>(parameters), WORD, true);
  } else if (strcmp(name, "test_warp_sum") == 0) {
    t.bytes(read<float *>(parameters), 16 * WORD, true);
  } else {
    return false;
  }
  return true;
}

/* ---- vectors ---- */

constexpr int64_t VECTOR = 4;

/* Lines of `length` words, read in whole vectors. */
struct Vectors {
  const float *from;
  int64_t length, lines, ld;
};

std::vector<Vectors> vectors_of(const char *name, void *const *parameters) {
  std::vector<Vectors> all;
  if (ends(name, "_any")) return all;
  if (begins(name, "tb_skinny_")) {
    const auto &a = read<tb_skinny_args>(parameters);
    const bool along_k = begins(name, "tb_skinny_k_");
    all.push_back({a.x, along_k ? a.k : a.rows, along_k ? a.rows : a.k, a.x_ld});
  } else if (begins(name, "tb_emulated_pack_")) {
    for (const tb_emulated_pack_operand &x : read<tb_emulated_pack_args>(parameters).x)
      if (x.sides > 0 && x.vectors != 0)
        all.push_back({x.from, 0, x.sides, x.ld}); /* the rest of a line word by word */
  } else if (begins(name, "tb_sgemm_") && (ends(name, "_nn") || ends(name, "_nt") || ends(name, "_tt")) &&
             !begins(name, "tb_sgemm_again_")) {
    const auto &a = read<tb_sgemm_args>(parameters);
    const char *const variant = name + strlen(name) - 2;
    if (variant[0] == 'n') all.push_back({a.a, a.m, a.k, a.lda});
    if (variant[1] == 't') all.push_back({a.b, a.n, a.k, a.ldb});
  }
  return all;
}

} // namespace

std::vector<Touch> touches_of(const Kernel &kernel, void *const *parameters, const std::vector<Range> &uses) {
  Touches t;
  const char *const name = kernel.name;
  if (begins(name, "tb_skinny_"))
    thin(t, begins(name, "tb_skinny_k_"), parameters);
  else if (begins(name, "tb_emulated_pack_"))
    emulated_pack(t, begins(name, "tb_emulated_pack_half") ? 2 : 3, parameters);
  else if (begins(name, "tb_emulated_multiply_"))
    split_multiply(t, begins(name, "tb_emulated_multiply_half") ? 2 : 3, parameters);
  else if (strcmp(name, "tb_emulated_gather") == 0)
    split_results(t, read<tb_emulated_args>(parameters), false, true);
  else if (begins(name, "tb_sgemm_again_"))
    again(t, name + strlen("tb_sgemm_again_"), parameters);
  else if (strcmp(name, "tb_sgemm_commit") == 0)
    commit(t, parameters);
  else if (strcmp(name, "tb_digest") == 0)
    digest(t, parameters);
  else if (strcmp(name, "tb_sgemm_gather") == 0)
    gather(t, parameters);
  else if (strcmp(name, "tb_sgemm_pack") == 0)
    pack(t, parameters);
  else if (begins(name, "tb_triangle_form_"))
    triangle_form(t, name, parameters);
  else if (begins(name, "tb_triangle_turn_"))
    triangle_turn(t, name, parameters);
  else if (begins(name, "tb_triangle_copy_"))
    triangle_copy(t, name, parameters);
  else if (begins(name, "tb_triangle_repair_"))
    triangle_repair(t, name, parameters);
  else if (begins(name, "tb_triangle_corner_"))
    triangle_corner(t, name, parameters);
  else if (begins(name, "tb_trmm_") || begins(name, "tb_trsm_") || begins(name, "tb_trsm64_"))
    triangle_leaf(t, name, parameters);
  else if (begins(name, "tb_dtrmm_") || begins(name, "tb_ztrmm_"))
    fp64_triangle(t, name, parameters);
  else if (strcmp(name, "tb_dgemm_commit") == 0)
    fp64_commit(t, parameters);
  else if (begins(name, "tb_cgemm_") || strcmp(name, "tb_zgemm_commit") == 0)
    of_complex(t, name, parameters);
  else if (begins(name, "tb_dgemm_") || begins(name, "tb_zgemm_"))
    fp64(t, name, parameters);
  else if (begins(name, "tb_triangle_mirror_"))
    triangle_mirror(t, name, parameters);
  else if (begins(name, "tb_batch_"))
    batch(t, parameters);
  else if (begins(name, "tb_triangle_"))
    triangle_commit(t, name, parameters);
  else if (begins(name, "tb_sgemm_"))
    tile(t, name, parameters);
  else if (!of_a_test(t, name, parameters))
    for (const Range &use : uses) t.bytes(reinterpret_cast<const void *>(use.start), use.bytes, true);
  return std::move(t.list);
}

std::string broken_vectors(const Kernel &kernel, void *const *parameters, const std::vector<Range> &uses) {
  for (const Vectors &v : vectors_of(kernel.name, parameters)) {
    const auto start = reinterpret_cast<uintptr_t>(v.from);
    const size_t words = static_cast<size_t>((v.lines - 1) * v.ld) + rounded(v.length, VECTOR);
    if (start % (VECTOR * WORD) != 0 || (v.lines > 1 && v.ld % VECTOR != 0))
      return std::string(kernel.name) + " reads vectors from where none begin";
    for (const Range &use : uses)
      if (start >= use.start && start < use.start + use.bytes && start + words * WORD > use.start + use.bytes)
        return std::string(kernel.name) + " reads a vector beyond the end of its memory";
  }
  return "";
}

} // namespace fake
