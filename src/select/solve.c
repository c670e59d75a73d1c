/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/solve.h"

#include <stdio.h>

#include "base/integers.h"
#include "cuda/launch.h"
#include "emulated/emulated_args.h"
#include "select/embed.h"

TB_EMBED(tb_solve_fatbin, TB_SOLVE_FATBIN); /* kernels/triangle/solve.cu */

static CUresult load_solve_function(struct tb_solve_kernels *solve, CUfunction *function, const char *what, int type) {
  char name[40];
  snprintf(name, sizeof name, "tb_%s_%c", what, tb_type_letter((enum tb_type)type));
  TB_TRY(tb_cuda.cuModuleGetFunction(function, solve->module, name));
  return CUDA_SUCCESS;
}

static CUresult load_solve_functions(struct tb_solve_kernels *solve) {
  static const char *const leaf[2][2] = {{"trmm_upper", "trmm_lower"}, {"trsm_upper", "trsm_lower"}};
  static const char *const in_doubles[2] = {"trsm64_upper", "trsm64_lower"};
  for (int type = 0; type < TB_TYPE_COUNT; type++) {
    TB_TRY(load_solve_function(solve, &solve->form[type], "triangle_form", type));
    TB_TRY(load_solve_function(solve, &solve->turn[type], "triangle_turn", type));
    TB_TRY(load_solve_function(solve, &solve->copy[type], "triangle_copy", type));
    TB_TRY(load_solve_function(solve, &solve->repair[type], "triangle_repair", type));
    const bool is_double = tb_type_is_double((enum tb_type)type);
    const char *const *const trsm = !is_double && solve->fast ? in_doubles : leaf[true];
    for (int lower = 0; lower < 2; lower++) {
      if (!is_double) TB_TRY(load_solve_function(solve, &solve->leaf[type][false][lower], leaf[false][lower], type));
      TB_TRY(load_solve_function(solve, &solve->leaf[type][true][lower], trsm[lower], type));
    }
    if (!is_double) TB_TRY(load_solve_function(solve, &solve->corner[type], "triangle_corner", type));
  }
  return CUDA_SUCCESS;
}

const int tb_fp64_triangle_tiles[TB_FP64_TRIANGLE_COUNT] = {
#define TB_FP64_TRIANGLE(letter, name, ...) TB_FP64_##letter##name,
#include "fp64/triangles.def"
#undef TB_FP64_TRIANGLE
};

static CUresult load_triangle(struct tb_solve_kernels *solve, const struct tb_fp64_device *device, int number) {
  const struct tb_fp64_tile *const tile = &tb_fp64_tiles[tb_fp64_triangle_tiles[number]];
  const int64_t shared_bytes = tb_min(tile->stage_bytes + tile->sum_bytes, device->block_shared_bytes);
  const char letter = "dz"[tile->complex];
  for (int units = 0; units < 2; units++) {
    char name[40];
    CUfunction *const function = &solve->triangle[number][units];
    snprintf(name, sizeof name, "tb_%ctrmm_%s%s", letter, tile->name, units ? "" : "_any");
    TB_TRY(tb_cuda.cuModuleGetFunction(function, solve->module, name));
    TB_TRY(tb_cuda.cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes));
  }
  return CUDA_SUCCESS;
}

static int solve64_shared_bytes(enum tb_type type, int64_t rows) {
  const int real_bytes = tb_type_is_double(type) ? 8 : 4;
  return tb_type_is_complex(type) ? (int)TB_TRIANGLE_SOLVE64_SHARED_BYTES(real_bytes, 2, rows)
                                  : (int)TB_TRIANGLE_SOLVE64_SHARED_BYTES(real_bytes, 1, rows);
}

/* All rows of a leaf, or as many halves of them as a block has room for. */
int64_t tb_solve64_rows(const struct tb_fp64_device *device, enum tb_type type) {
  int64_t rows = tb_type_is_complex(type) ? TB_TRIANGLE_SOLVE64_ROWS(2) : TB_TRIANGLE_SOLVE64_ROWS(1);
  while (rows > TB_TRIANGLE_SOLVE64_STEP && solve64_shared_bytes(type, rows) > device->block_shared_bytes) rows /= 2;
  return rows;
}

static CUresult allow_solves(struct tb_solve_kernels *solve, const struct tb_fp64_device *device, enum tb_type type) {
  const int bytes = solve64_shared_bytes(type, tb_solve64_rows(device, type));
  for (int lower = 0; lower < 2; lower++)
    TB_TRY(tb_cuda.cuFuncSetAttribute(solve->leaf[type][true][lower], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      bytes));
  return CUDA_SUCCESS;
}

CUresult tb_solve_load(struct tb_solve_kernels *solve, const struct tb_fp64_device *device) {
  if (solve->module != NULL) return CUDA_SUCCESS;
  TB_TRY(tb_cuda.cuModuleLoadData(&solve->module, tb_solve_fatbin));
  solve->fast = device->fast;
  CUresult result = load_solve_functions(solve);
  for (int type = 0; type < TB_TYPE_COUNT && result == CUDA_SUCCESS; type++)
    if (tb_solves_in_doubles(solve->fast, (enum tb_type)type)) result = allow_solves(solve, device, (enum tb_type)type);
  for (int i = 0; i < TB_FP64_TRIANGLE_COUNT && result == CUDA_SUCCESS; i++) result = load_triangle(solve, device, i);
  if (result != CUDA_SUCCESS) tb_solve_unload(solve);
  return result;
}

void tb_solve_unload(struct tb_solve_kernels *solve) {
  if (solve->module != NULL) tb_cuda.cuModuleUnload(solve->module);
  solve->module = NULL;
}

/* What a block may have without being asked for more. */
_Static_assert(TB_TRIANGLE_LEAF_SHARED_BYTES(4, 1) <= 49152 && TB_TRIANGLE_LEAF_SHARED_BYTES(4, 2) <= 49152, "leaves");
/* A leaf of one step has room on every GPU. */
_Static_assert(TB_TRIANGLE_SOLVE64_SHARED_BYTES(8, 1, TB_TRIANGLE_SOLVE64_STEP) <= 65536 &&
                   TB_TRIANGLE_SOLVE64_SHARED_BYTES(8, 2, TB_TRIANGLE_SOLVE64_STEP) <= 65536,
               "solves in doubles");

/* A block a tile, of a grid that strides over columns of tiles, with at most so many of them. */
static CUresult launch_tiles(CUfunction function, enum tb_type type, int64_t rows, int64_t columns, int64_t most,
                             void *args, CUstream stream) {
  const int64_t x = tb_ceil_div(rows, TB_TRIANGLE_TILE), y = tb_ceil_div(columns, TB_TRIANGLE_TILE);
  const int64_t shared_bytes = TB_TRIANGLE_TILE * (TB_TRIANGLE_TILE + 1) * tb_type_bytes(type);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(function, (unsigned)x, (unsigned)tb_min(y, most), 1, TB_TRIANGLE_TILE,
                                TB_TRIANGLE_TILE_THREADS, 1, (unsigned)shared_bytes, stream, parameters, NULL));
  return CUDA_SUCCESS;
}

/* Where mostly nothing is formed, fewer blocks find that out sooner. */
#define COLUMNS_OF_TILES_SELDOM 8

CUresult tb_solve_form(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_form_args *args,
                       CUstream stream) {
  const int64_t most = args->left == NULL ? TB_GRID_Y_MAX : COLUMNS_OF_TILES_SELDOM;
  return launch_tiles(solve->form[type], type, args->rows, args->columns, most, args, stream);
}

CUresult tb_solve_turn(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_turn_args *args,
                       CUstream stream) {
  return launch_tiles(solve->turn[type], type, args->rows, args->columns, TB_GRID_Y_MAX, args, stream);
}

static CUresult launch_solve64(const struct tb_solve_kernels *solve, enum tb_type type, bool lower,
                               struct tb_triangle_leaf_args *args, CUstream stream) {
  const int64_t blocks = tb_ceil_div(args->n, TB_TRIANGLE_SOLVE64_COLUMNS);
  const int64_t rows = tb_ceil_div(args->m, TB_TRIANGLE_SOLVE64_STEP) * TB_TRIANGLE_SOLVE64_STEP;
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(solve->leaf[type][true][lower], (unsigned)blocks, 1, 1, TB_TRIANGLE_SOLVE64_THREADS, 1,
                                1, (unsigned)solve64_shared_bytes(type, rows), stream, parameters, NULL));
  return CUDA_SUCCESS;
}

CUresult tb_solve_leaf_launch(const struct tb_solve_kernels *solve, enum tb_type type, bool solves, bool lower,
                              struct tb_triangle_leaf_args *args, CUstream stream) {
  if (solves && tb_solves_in_doubles(solve->fast, type)) return launch_solve64(solve, type, lower, args, stream);
  const int64_t blocks = tb_ceil_div(args->n, TB_TRIANGLE_LEAF_COLUMNS);
  const int shared_bytes =
      tb_type_is_complex(type) ? TB_TRIANGLE_LEAF_SHARED_BYTES(4, 2) : TB_TRIANGLE_LEAF_SHARED_BYTES(4, 1);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(solve->leaf[type][solves][lower], (unsigned)blocks, 1, 1,
                                (unsigned)TB_TRIANGLE_LEAF_THREADS(args->m), 1, 1, (unsigned)shared_bytes, stream,
                                parameters, NULL));
  return CUDA_SUCCESS;
}

CUresult tb_solve_copy(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_copy_args *args,
                       CUstream stream) {
  const int64_t blocks = tb_ceil_div(args->columns, TB_TRIANGLE_COPY_THREADS / 32);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(solve->copy[type], (unsigned)blocks, 1, 1, TB_TRIANGLE_COPY_THREADS, 1, 1, 0, stream,
                                parameters, NULL));
  return CUDA_SUCCESS;
}

/* Rows that a thread of a repair has: mostly there is nothing to repair, and fewer blocks find that out sooner. */
#define REPAIRS_OF_BLOCK 4

CUresult tb_solve_repair(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_repair_args *args,
                         CUstream stream) {
  const int64_t x = tb_ceil_div(args->columns, TB_TRIANGLE_REPAIR_COLUMNS);
  const int64_t y = tb_ceil_div(args->rows, REPAIRS_OF_BLOCK * TB_TRIANGLE_REPAIR_ROWS);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(solve->repair[type], (unsigned)x, (unsigned)tb_min(y, TB_GRID_Y_MAX), 1,
                                TB_TRIANGLE_REPAIR_ROWS, 1, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}

CUresult tb_solve_corner(const struct tb_solve_kernels *solve, enum tb_type type, struct tb_triangle_corner_args *args,
                         CUstream stream) {
  const int parts = type == TB_C ? 2 : 1;
  const int64_t x = tb_ceil_div(args->columns, TB_TRIANGLE_CORNER_COLUMNS);
  const int64_t corners = tb_ceil_div(parts * args->rows, TB_EMULATED_GROUP_K);
  void *parameters[] = {args};
  TB_TRY(tb_cuda.cuLaunchKernel(solve->corner[type], (unsigned)x, (unsigned)corners, 1,
                                (unsigned)TB_TRIANGLE_CORNER_THREADS(parts), 1, 1, 0, stream, parameters, NULL));
  return CUDA_SUCCESS;
}

/* ---- triangles of doubles as products ---- */

/* What is formed of the other triangle is enough for these, too. */
_Static_assert(TB_EMULATED_TILE_M <= TB_FP64_TRIANGLE_EDGE, "tiles from planes are within squares");

bool tb_solve_plan_triangle(struct tb_fp64_plan *plan, const struct tb_fp64_device *device,
                            const struct tb_fp64_product *product) {
  struct tb_fp64_plan best = {.blocks = 0};
  for (int i = 0; i < TB_FP64_TRIANGLE_COUNT; i++) {
    struct tb_fp64_plan p = tb_fp64_plan_of(product);
    if (tb_fp64_tiles[tb_fp64_triangle_tiles[i]].complex != product->complex) continue;
    if (tb_fp64_plan_way(&p, device, tb_fp64_triangle_tiles[i], 0, 1) && (best.blocks == 0 || p.seconds < best.seconds))
      best = p;
  }
  *plan = best;
  return best.blocks != 0;
}

/* Of bands of TB_FP64_BAND columns to half as many more: the narrowest whose last band has TB_FP64_BAND; if none has,
 * those whose last band is widest. */
int tb_solve_band(int64_t tile_columns) {
  const int64_t most = TB_FP64_BAND + TB_FP64_BAND / 2;
  int64_t best = 0, of_last = 0;
  if (tile_columns <= most) return (int)tile_columns;
  for (int64_t band = most; band >= TB_FP64_BAND; band--) {
    const int64_t last = tb_min((tile_columns - 1) % band + 1, TB_FP64_BAND);
    if (last >= of_last) best = band, of_last = last;
  }
  return (int)best;
}

CUresult tb_solve_multiply(const struct tb_solve_kernels *solve, const struct tb_fp64_plan *plan,
                           const struct tb_fp64_args *args, CUstream stream) {
  int which = 0;
  while (tb_fp64_triangle_tiles[which] != plan->tile) which++;
  const CUfunction function = solve->triangle[which][plan->units];
  struct tb_fp64_args arguments = *args;
  tb_fp64_arguments(&arguments, plan);
  arguments.partials = NULL;
  arguments.band = tb_solve_band(tb_ceil_div(args->n, tb_fp64_tiles[plan->tile].block_n));
  void *parameters[] = {&arguments};
  /* A block for each tile, as tiles have more or less to do: by those that take one after another dtrmm of 4096
   * took 1.88 ms on an H100. */
  TB_TRY(tb_cuda.cuLaunchKernel(function, (unsigned)plan->jobs, 1, 1, (unsigned)tb_fp64_tiles[plan->tile].threads, 1, 1,
                                (unsigned)plan->shared_bytes, stream, parameters, NULL));
  return CUDA_SUCCESS;
}
