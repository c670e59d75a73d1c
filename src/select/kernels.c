/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/kernels.h"

#include "select/commit.h"

/* ---- loading ---- */

/* The fp32 cores of an SM, each of which finishes one multiply-add a cycle (CUDA C++ Programming Guide, the appendix on
 * compute capabilities). */
static int cores_per_sm(int major, int minor) { return major == 7 || (major == 8 && minor == 0) ? 64 : 128; }

/* What the selector asks of a device: its peaks. */
static CUresult look_at(struct tb_select_device *d, CUdevice device) {
  int major, minor, clock_khz, memory_khz, bus_bits;
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&d->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&memory_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device));
  TB_TRY(tb_cuda.cuDeviceGetAttribute(&bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device));
  d->fma_per_us = cores_per_sm(major, minor) * (clock_khz * 1e-3);
  d->bytes_per_us = 2 * (memory_khz * 1e-3) * (bus_bits / 8.0); /* two transfers a cycle */
  return CUDA_SUCCESS;
}

static CUresult load_families(struct tb_kernels *kernels, CUdevice device) {
  TB_TRY(tb_shared_load(&kernels->shared, device)); /* first: the families take what they need from there */
  for (int family = TB_FAMILY_FIRST; family < TB_FAMILY_COUNT; family++)
    TB_TRY(tb_families[family].load(kernels, device));
  return CUDA_SUCCESS;
}

CUresult tb_kernels_load(struct tb_kernels *kernels, CUdevice device) {
  *kernels = (struct tb_kernels){0};
  TB_TRY(look_at(&kernels->device, device));
  CUresult result = load_families(kernels, device);
  if (result != CUDA_SUCCESS) tb_kernels_unload(kernels);
  return result;
}

CUresult tb_kernels_ready(struct tb_kernels *kernels, enum tb_type type) {
  if (tb_type_is_double(type)) TB_TRY(tb_fp64_load(&kernels->fp64, type == TB_Z));
  return tb_type_is_complex(type) ? tb_complex_load(&kernels->complex) : CUDA_SUCCESS;
}

void tb_kernels_unload(struct tb_kernels *kernels) {
  for (int family = TB_FAMILY_FIRST; family < TB_FAMILY_COUNT; family++)
    if (tb_families[family].unload != NULL) tb_families[family].unload(kernels);
  tb_complex_unload(&kernels->complex);
  tb_triangle_unload(&kernels->triangle);
  tb_solve_unload(&kernels->solve);
  tb_batch_unload(&kernels->batch);
  tb_shared_unload(&kernels->shared);
}

/* ---- choosing ---- */

struct tb_choice tb_kernels_choose(const struct tb_kernels *kernels, bool transpose_a, bool transpose_b,
                                   const struct tb_sgemm_args *args, int64_t workspace_bytes,
                                   enum tb_precision precision) {
  struct tb_product product = {.m = args->m,
                               .n = args->n,
                               .k = args->k,
                               .group_k = args->group_k,
                               .transpose_a = transpose_a,
                               .transpose_b = transpose_b,
                               .vectors = tb_kernels_vectors(transpose_a, transpose_b, args),
                               .emulated = precision != TB_PRECISION_IEEE && args->first && args->last,
                               .fast = precision == TB_PRECISION_FAST,
                               .workspace_bytes = workspace_bytes};
  return tb_select(&kernels->device, &product);
}

/* ---- launching ---- */

static CUresult launch_single(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                              bool transpose_b, const struct tb_sgemm_args *args, struct tb_tiles_wanted wanted,
                              CUdeviceptr workspace, CUstream stream) {
  const struct tb_launch launch = {.shared = &kernels->shared,
                                   .device = &kernels->device,
                                   .choice = choice,
                                   .transpose_a = transpose_a,
                                   .transpose_b = transpose_b,
                                   .args = args,
                                   .wanted = wanted,
                                   .workspace = workspace,
                                   .stream = stream};
  return tb_family_of(choice)->launch(kernels, &launch);
}

CUresult tb_kernels_launch(const struct tb_kernels *kernels, const struct tb_choice *choice, bool transpose_a,
                           bool transpose_b, const struct tb_sgemm_args *args, CUdeviceptr workspace, CUstream stream) {
  const struct tb_tiles_wanted all = {.of = TB_TILES_ALL};
  return launch_single(kernels, choice, transpose_a, transpose_b, args, all, workspace, stream);
}

struct tb_sgemm_args tb_sgemm_args_of(const struct tb_multiply *x) {
  return (struct tb_sgemm_args){.a = (const float *)x->a,
                                .b = (const float *)x->b,
                                .d = (float *)x->d,
                                .lda = x->lda,
                                .ldb = x->ldb,
                                .ldd = x->ldd,
                                .m = x->m,
                                .n = x->n,
                                .k = x->k,
                                .group_k = (int32_t)x->group_k,
                                .alpha = x->alpha.s,
                                .first = x->first,
                                .last = x->last,
                                .padded = x->padded};
}

struct tb_fp64_args tb_fp64_args_of(const struct tb_multiply *x) {
  double alpha[2] = {x->alpha.d, 0};
  if (x->type == TB_Z) tb_scalar_parts(TB_Z, x->alpha, alpha);
  return (struct tb_fp64_args){.a = (const double *)x->a,
                               .b = (const double *)x->b,
                               .d = (double *)x->d,
                               .lda = x->lda,
                               .ldb = x->ldb,
                               .ldd = x->ldd,
                               .m = x->m,
                               .n = x->n,
                               .k = x->k,
                               .group_k = (int32_t)x->group_k,
                               .wanted = x->wanted,
                               .alpha = alpha[0],
                               .alpha_im = alpha[1],
                               .conjugate_a = x->conjugate_a,
                               .conjugate_b = x->conjugate_b,
                               .first = x->first,
                               .last = x->last};
}

CUresult tb_kernels_multiply(const struct tb_kernels *kernels, const struct tb_choice *choice,
                             const struct tb_multiply *x, CUdeviceptr workspace, CUstream stream) {
  if (x->type == TB_S) {
    const struct tb_sgemm_args args = tb_sgemm_args_of(x);
    return launch_single(kernels, choice, x->transpose_a, x->transpose_b, &args, x->wanted, workspace, stream);
  }
  const struct tb_fp64_args args = tb_fp64_args_of(x);
  const struct tb_launch launch = {.shared = &kernels->shared,
                                   .device = &kernels->device,
                                   .choice = choice,
                                   .transpose_a = x->transpose_a,
                                   .transpose_b = x->transpose_b,
                                   .args_fp64 = &args,
                                   .complex = x->type == TB_Z,
                                   .workspace = workspace,
                                   .stream = stream};
  return tb_family_of(choice)->launch(kernels, &launch);
}

static CUresult commit_complex(const struct tb_kernels *kernels, const struct tb_commit *x, CUstream stream) {
  struct tb_complex_commit_args args = {
      .c = (void *)x->c, .d = (const void *)x->d, .ldc = x->ldc, .ldd = x->ldd, .m = x->m, .n = x->n};
  tb_scalar_parts(x->type, x->beta, args.beta);
  return tb_complex_commit(&kernels->complex, x->type, &args, stream);
}

static CUresult commit_triangle(const struct tb_kernels *kernels, const struct tb_commit *x, CUstream stream) {
  struct tb_triangle_commit_args args = {.c = (void *)x->c,
                                         .d = (const void *)x->d,
                                         .ldc = x->ldc,
                                         .ldd = x->ldd,
                                         .m = x->m,
                                         .n = x->n,
                                         .diagonal = x->region.diagonal,
                                         .lower = x->region.of == TB_LOWER_TRIANGLE,
                                         .hermitian = x->region.hermitian};
  if (tb_type_is_complex(x->type))
    tb_scalar_parts(x->type, x->beta, args.beta);
  else
    args.beta[0] = x->type == TB_D ? x->beta.d : (double)x->beta.s;
  return tb_triangle_commit(&kernels->triangle, x->type, &args, stream);
}

CUresult tb_kernels_commit(const struct tb_kernels *kernels, CUfunction commit, const struct tb_commit *x,
                           CUstream stream) {
  if (x->region.of != TB_WHOLE) return commit_triangle(kernels, x, stream);
  if (tb_type_is_complex(x->type)) return commit_complex(kernels, x, stream);
  if (x->type == TB_D) {
    struct tb_fp64_commit_args args = {(double *)x->c, (const double *)x->d, x->ldc, x->ldd, x->m, x->n, x->beta.d};
    return tb_fp64_commit(&kernels->fp64, &args, stream);
  }
  struct tb_commit_args args = {(float *)x->c, (const float *)x->d, x->ldc, x->ldd, x->m, x->n, x->beta.s};
  return tb_commit_launch(commit, &args, stream);
}
