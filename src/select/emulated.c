/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/emulated.h"

#include "select/embed.h"
#include "base/integers.h"
#include "cuda/launch.h"

TB_EMBED(tb_emulated_fatbin, TB_EMULATED_FATBIN); /* kernels/emulated/emulated.cu */

/* ---- loading ---- */

static CUresult load_emulated_functions(struct tb_emulated_kernels *s) {
  const int half_bytes = TB_EMULATED_SHARED_BYTES(TB_EMULATED_HALF_PLANES);
  const int bfloat_bytes = TB_EMULATED_SHARED_BYTES(TB_EMULATED_BFLOAT_PLANES);
  const struct {
    CUfunction *function;
    const char *name;
    int shared_bytes;
  } all[] = {{&s->pack_half[0], "tb_emulated_pack_half", 0},
             {&s->pack_half[1], "tb_emulated_pack_half_triangle", 0},
             {&s->pack_bfloat[0], "tb_emulated_pack_bfloat", 0},
             {&s->pack_bfloat[1], "tb_emulated_pack_bfloat_triangle", 0},
             {&s->gather, "tb_emulated_gather", 0},
             {&s->multiply_half[0], "tb_emulated_multiply_half", half_bytes},
             {&s->multiply_half[1], "tb_emulated_multiply_half_triangle", half_bytes},
             {&s->multiply_bfloat[0], "tb_emulated_multiply_bfloat", bfloat_bytes},
             {&s->multiply_bfloat[1], "tb_emulated_multiply_bfloat_triangle", bfloat_bytes}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    TB_TRY(tb_cuda.cuModuleGetFunction(all[i].function, s->module, all[i].name));
    if (all[i].shared_bytes > 0)
      TB_TRY(tb_cuda.cuFuncSetAttribute(*all[i].function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        all[i].shared_bytes));
  }
  return CUDA_SUCCESS;
}

/* The kernels of the shared module that compute by plain fp32 what is left. */
static CUresult find_again(struct tb_emulated_kernels *s, CUmodule module) {
  static const char *const names[2][2] = {{"tb_sgemm_again_nn", "tb_sgemm_again_nt"},
                                          {"tb_sgemm_again_tn", "tb_sgemm_again_tt"}};
  for (int ta = 0; ta < 2; ta++)
    for (int tb = 0; tb < 2; tb++) TB_TRY(tb_cuda.cuModuleGetFunction(&s->again[ta][tb], module, names[ta][tb]));
  return CUDA_SUCCESS;
}

/* Code for 9.0 with its own instructions (sm_90a) runs on nothing else; tensor maps came with CUDA 12. */
CUresult tb_emulated_load(struct tb_emulated_kernels *emulated, const struct tb_shared *shared, CUdevice device) {
  int major, minor;
  *emulated = (struct tb_emulated_kernels){.sm_count = shared->limits.sm_count};
  TB_TRY(find_again(emulated, shared->module));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  if (!shared->early || major != 9 || minor != 0 || tb_cuda.cuTensorMapEncodeTiled == NULL) return CUDA_SUCCESS;
  TB_TRY(tb_cuda.cuModuleLoadData(&emulated->module, tb_emulated_fatbin));
  CUresult result = load_emulated_functions(emulated);
  if (result != CUDA_SUCCESS) tb_emulated_unload(emulated);
  emulated->there = result == CUDA_SUCCESS;
  return result;
}

void tb_emulated_unload(struct tb_emulated_kernels *emulated) {
  if (emulated->module != NULL) tb_cuda.cuModuleUnload(emulated->module);
  emulated->module = NULL;
  emulated->there = false;
}

/* ---- packing ---- */

static struct tb_emulated_packed packed_at(CUdeviceptr at, const struct tb_emulated_room *r) {
  return (struct tb_emulated_packed){(void *)at, (float *)(at + (CUdeviceptr)r->planes_bytes),
                                     (uint32_t *)(at + (CUdeviceptr)(r->planes_bytes + r->scale_bytes))};
}

static struct tb_emulated_pack_operand pack_operand(const struct tb_emulated_operand *x, int planes, int64_t k,
                                                    CUdeviceptr to) {
  const struct tb_emulated_room r = tb_emulated_room_for(planes, x->of_b, x->sides, k);
  return (struct tb_emulated_pack_operand){.from = x->from,
                                           .to = packed_at(to, &r),
                                           .ld = x->ld,
                                           .sides = x->sides,
                                           .padded_sides = tb_emulated_padded_sides(x->of_b, x->sides),
                                           .along_k = x->along_k,
                                           .unfit = x->unfit,
                                           .triangle = x->triangle,
                                           .unit = x->unit,
                                           .vectors = x->along_k && (uintptr_t)x->from % 16 == 0 && x->ld % 4 == 0};
}

static CUresult launch_pack(CUfunction function, bool early, struct tb_emulated_pack_args *args, int64_t most_blocks,
                            CUstream stream) {
  const int64_t sides = args->x[0].padded_sides + args->x[1].padded_sides;
  const int64_t blocks = tb_min(sides / TB_EMULATED_PACK_SIDES * tb_emulated_groups(args->k), most_blocks);
  return tb_launch_behind(early, function, (struct tb_grid){blocks, 1, TB_EMULATED_PACK_THREADS, 0, 1}, args, NULL,
                          stream);
}

CUresult tb_emulated_pack(const struct tb_emulated_kernels *emulated, const struct tb_emulated_operand *a,
                          CUdeviceptr packed_a, const struct tb_emulated_operand *b, CUdeviceptr packed_b, int64_t k,
                          CUstream stream) {
  struct tb_emulated_pack_args args = {.k = k};
  args.x[0] = pack_operand(a, TB_EMULATED_HALF_PLANES, k, packed_a);
  if (b != NULL) args.x[1] = pack_operand(b, TB_EMULATED_HALF_PLANES, k, packed_b);
  return launch_pack(emulated->pack_half[a->triangle.parts > 0], true, &args, INT32_MAX, stream);
}

/* ---- multiplying ---- */

/* What is multiplied: packed operands, and the same as they are. */
struct packed_product {
  bool transpose_a, transpose_b;
  const struct tb_sgemm_args *args;
  struct tb_tiles_wanted wanted;
  struct tb_emulated_triangle triangle;
  CUdeviceptr a, b, workspace;
  const struct tb_emulated_way *way;
};

/* bf16 planes of both operands, if any tile is left. Beside other launches it does not begin early: its blocks would
 * wait for the tiles before it in places that the others' tiles could have. (H100, ms, two turns: csyr2k 8192 38.7 and
 * 34.7, ssyr2k 16.7 and 14.8, csyrk 4096 7.3 and 6.4; with no such launches at all 32.4, 14.2 and 6.5. Priorities for
 * these launches make it worse, for packing change nothing, nor do twice as many streams.) */
static CUresult pack_rest(const struct tb_emulated_kernels *emulated, const struct packed_product *product,
                          const struct tb_emulated_args *half, CUdeviceptr a, CUdeviceptr b, CUstream stream) {
  const struct tb_sgemm_args *const args = product->args;
  const bool triangle = product->triangle.parts > 0;
  struct tb_emulated_operand x =
      tb_emulated_operand_at((CUdeviceptr)args->a, args->lda, args->m, false, product->transpose_a);
  const struct tb_emulated_operand y =
      tb_emulated_operand_at((CUdeviceptr)args->b, args->ldb, args->n, true, !product->transpose_b);
  x.triangle = product->triangle;
  struct tb_emulated_pack_args p = {.k = args->k, .left = half->left, .left_words = half->left_words};
  p.x[0] = pack_operand(&x, TB_EMULATED_BFLOAT_PLANES, args->k, a);
  p.x[1] = pack_operand(&y, TB_EMULATED_BFLOAT_PLANES, args->k, b);
  return launch_pack(emulated->pack_bfloat[triangle], !product->way->beside, &p,
                     (int64_t)emulated->sm_count * TB_EMULATED_PACK_BLOCKS, stream);
}

/* op(B)'s planes as the boxes that a pair of blocks shares. */
static CUresult map_columns(int planes, const struct tb_emulated_args *args, CUtensorMap *map) {
  const struct tb_emulated_room r = tb_emulated_room_for(planes, true, args->n, args->k);
  const cuuint64_t size[2] = {TB_EMULATED_MAP_BYTES / sizeof(uint32_t),
                              (cuuint64_t)r.planes_bytes / TB_EMULATED_MAP_BYTES};
  const cuuint64_t stride = TB_EMULATED_MAP_BYTES;
  const cuuint32_t box[2] = {TB_EMULATED_MAP_BYTES / sizeof(uint32_t), (cuuint32_t)TB_EMULATED_MAP_ROWS(planes)};
  const cuuint32_t step[2] = {1, 1};
  TB_TRY(tb_cuda.cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, args->b.planes, size, &stride, box,
                                        step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return CUDA_SUCCESS;
}

static CUresult launch_multiply(CUfunction function, int planes, struct tb_emulated_args *args, CUstream stream) {
  CUtensorMap map;
  TB_TRY(map_columns(planes, args, &map));
  const struct tb_grid grid = {args->left_words, 1, TB_EMULATED_THREADS, TB_EMULATED_SHARED_BYTES(planes),
                               TB_EMULATED_CLUSTER};
  return args->whole > 0 ? tb_launch_result(true, function, grid, args, &map, stream)
                         : tb_launch_behind(true, function, grid, args, &map, stream); /* sums alone */
}

/* Plain fp32 for the tiles that are marked. */
static CUresult compute_again(CUfunction function, const struct tb_sgemm_args *product,
                              const struct tb_emulated_args *multiplied, CUstream stream) {
  struct tb_sgemm_args args = *product;
  struct tb_emulated_again again = {multiplied->left, multiplied->again, multiplied->wanted, multiplied->left_words,
                                    multiplied->triangle};
  const struct tb_grid grid = {multiplied->tiles, 1, TB_EMULATED_AGAIN_THREADS, TB_EMULATED_AGAIN_SHARED_BYTES, 1};
  return tb_launch_result(true, function, grid, &args, &again, stream);
}

/* Blocks that have something to do, in pairs. */
static int64_t blocks_of(const struct tb_emulated_kernels *emulated, const struct tb_emulated_args *p) {
  const int64_t rows = tb_ceil_div(p->m, TB_EMULATED_TILE_M), columns = tb_ceil_div(p->n, TB_EMULATED_TILE_N);
  const int64_t pairs = p->triangle.parts > 0 ? tb_ceil_div(rows, TB_EMULATED_CLUSTER) * columns
                                              : tb_ceil_div(p->whole, TB_EMULATED_CLUSTER) +
                                                    tb_ceil_div(p->tiles - p->whole, TB_EMULATED_CLUSTER) * p->splits;
  return tb_min(TB_EMULATED_CLUSTER * pairs, tb_emulated_blocks(emulated->sm_count));
}

/* Where everything stands in the workspace, and who does what. */
static struct tb_emulated_args args_of(const struct tb_emulated_kernels *emulated, const struct packed_product *product,
                                       const struct tb_emulated_workspace *w) {
  const struct tb_emulated_way *const way = product->way;
  const struct tb_sgemm_args *const args = product->args;
  const struct tb_tiles_wanted wanted = product->wanted;
  const struct tb_tile_bands bands = tb_emulated_bands(args->m, args->n, wanted);
  const int64_t tiles = tb_tiles_count(&bands), groups = tb_emulated_groups(args->k);
  const CUdeviceptr left_at = product->workspace + (CUdeviceptr)(w->a.bytes + w->b.bytes);
  const CUdeviceptr again_at = left_at + (CUdeviceptr)w->left_bytes,
                    sums_at = again_at + (CUdeviceptr)w->tile_marks_bytes;
  struct tb_emulated_args p = {.left = (uint32_t *)left_at,
                               .again = (uint32_t *)again_at,
                               .taken = (uint32_t *)again_at + tb_emulated_tiles(args->m, args->n),
                               .d = args->d,
                               .sums = (float *)sums_at,
                               .partials = (float *)(sums_at + (CUdeviceptr)w->sums_bytes),
                               .ldd = args->ldd,
                               .m = args->m,
                               .n = args->n,
                               .k = args->k,
                               .alpha = args->alpha,
                               .wanted = wanted,
                               .tiles = (int32_t)tiles,
                               .first = args->first,
                               .last = args->last,
                               .fast = way->fast,
                               .triangle = product->triangle};
  /* Which tiles are the last ones was counted of all of D: of a triangle they are split all, or none. */
  const bool split = way->splits > 1 && (way->whole == 0 || wanted.of == TB_TILES_ALL);
  p.whole = (int32_t)(split ? way->whole : tiles);
  p.groups_per_split = (int32_t)tb_ceil_div(groups, split ? way->splits : 1);
  p.splits = (int32_t)tb_ceil_div(groups, p.groups_per_split);
  p.left_words = (int32_t)blocks_of(emulated, &p);
  return p;
}

static struct tb_emulated_workspace workspace_of(const struct packed_product *product) {
  const struct tb_sgemm_args *const args = product->args;
  return tb_emulated_workspace_for(args->m, args->n, args->k, product->way);
}

/* What fp16 planes are enough for. */
static CUresult multiply_halves(const struct tb_emulated_kernels *emulated, const struct packed_product *product,
                                struct tb_emulated_marks *marks, CUstream stream) {
  const struct tb_sgemm_args *const args = product->args;
  const struct tb_emulated_room half_a = tb_emulated_room_for(TB_EMULATED_HALF_PLANES, false, args->m, args->k);
  const struct tb_emulated_room half_b = tb_emulated_room_for(TB_EMULATED_HALF_PLANES, true, args->n, args->k);
  const struct tb_emulated_workspace w = workspace_of(product);
  struct tb_emulated_args p = args_of(emulated, product, &w);
  p.a = packed_at(product->a, &half_a), p.b = packed_at(product->b, &half_b);
  *marks = (struct tb_emulated_marks){p.left, p.again, p.left_words};
  return launch_multiply(emulated->multiply_half[product->triangle.parts > 0], TB_EMULATED_HALF_PLANES, &p, stream);
}

/* What is left. */
static CUresult multiply_rest(const struct tb_emulated_kernels *emulated, const struct packed_product *product,
                              CUstream stream) {
  const struct tb_emulated_workspace w = workspace_of(product);
  const CUdeviceptr a_at = product->workspace, b_at = a_at + (CUdeviceptr)w.a.bytes;
  struct tb_emulated_args p = args_of(emulated, product, &w);
  TB_TRY(pack_rest(emulated, product, &p, a_at, b_at, stream));
  p.a = packed_at(a_at, &w.a), p.b = packed_at(b_at, &w.b);
  const CUfunction multiply = emulated->multiply_bfloat[product->triangle.parts > 0];
  TB_TRY(launch_multiply(multiply, TB_EMULATED_BFLOAT_PLANES, &p, stream));
  const int64_t split_tiles = p.tiles - p.whole;
  const struct tb_grid grid = {TB_EMULATED_GATHER_BLOCKS * split_tiles, 1, TB_EMULATED_GATHER_THREADS, 0, 1};
  if (split_tiles > 0) TB_TRY(tb_launch_result(true, emulated->gather, grid, &p, NULL, stream));
  return compute_again(emulated->again[product->transpose_a][product->transpose_b], product->args, &p, stream);
}

CUresult tb_emulated_multiply(const struct tb_emulated_kernels *emulated, bool transpose_a, bool transpose_b,
                              const struct tb_sgemm_args *args, struct tb_tiles_wanted wanted, CUdeviceptr packed_a,
                              CUdeviceptr packed_b, CUdeviceptr workspace, const struct tb_emulated_way *way,
                              CUstream stream) {
  const struct packed_product product = {.transpose_a = transpose_a,
                                         .transpose_b = transpose_b,
                                         .args = args,
                                         .wanted = wanted,
                                         .a = packed_a,
                                         .b = packed_b,
                                         .workspace = workspace,
                                         .way = way};
  struct tb_emulated_marks marks;
  TB_TRY(multiply_halves(emulated, &product, &marks, stream));
  return multiply_rest(emulated, &product, stream);
}

static struct packed_product triangle_product(const struct tb_emulated_triangle_product *x) {
  return (struct packed_product){.args = x->args,
                                 .triangle = x->triangle,
                                 .a = x->packed_a,
                                 .b = x->packed_b,
                                 .workspace = x->workspace,
                                 .way = x->way};
}

CUresult tb_emulated_multiply_triangle(const struct tb_emulated_kernels *emulated,
                                       const struct tb_emulated_triangle_product *x, struct tb_emulated_marks *marks,
                                       CUstream stream) {
  const struct packed_product product = triangle_product(x);
  return multiply_halves(emulated, &product, marks, stream);
}

CUresult tb_emulated_multiply_triangle_rest(const struct tb_emulated_kernels *emulated,
                                            const struct tb_emulated_triangle_product *x, CUstream stream) {
  const struct packed_product product = triangle_product(x);
  return multiply_rest(emulated, &product, stream);
}

/* Span after span of k, each packed and multiplied. The operands' planes come first in the workspace. */
CUresult tb_emulated_launch(const struct tb_emulated_kernels *emulated, const struct tb_launch *l) {
  const struct tb_emulated_way *way = &l->choice->emulated;
  const bool ta = l->transpose_a, tb = l->transpose_b;
  const int64_t span_k = tb_emulated_first_span(way, l->args->k);
  const CUdeviceptr b_at = l->workspace + (CUdeviceptr)tb_emulated_packed_bytes(false, l->args->m, span_k);
  const CUdeviceptr rest_at = b_at + (CUdeviceptr)tb_emulated_packed_bytes(true, l->args->n, span_k);
  for (int64_t start = 0; start < l->args->k; start += span_k) {
    const struct tb_sgemm_args args = tb_kernels_part_of_k(l->args, ta, tb, start, span_k);
    const struct tb_emulated_operand a = tb_emulated_operand_at((CUdeviceptr)args.a, args.lda, args.m, false, ta);
    const struct tb_emulated_operand b = tb_emulated_operand_at((CUdeviceptr)args.b, args.ldb, args.n, true, !tb);
    TB_TRY(tb_emulated_pack(emulated, &a, l->workspace, &b, b_at, args.k, l->stream));
    TB_TRY(tb_emulated_multiply(emulated, ta, tb, &args, l->wanted, l->workspace, b_at, rest_at, way, l->stream));
  }
  return CUDA_SUCCESS;
}
