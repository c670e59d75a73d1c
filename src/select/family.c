/* SPDX-License-Identifier: BSD-3-Clause */
#include "select/family.h"

#include <stdio.h>

_Static_assert(TB_FMA_CANDIDATES_MAX + TB_SKINNY_CANDIDATES_MAX + TB_EMULATED_CANDIDATES_MAX + TB_FP64_CANDIDATES_MAX <=
                   TB_CANDIDATES_MAX,
               "room for the ways of all families");

void tb_choice_describe(const struct tb_choice *choice, char *text, size_t size) {
  const struct tb_family_row *row = tb_family_of(choice);
  if (row->describe != NULL)
    row->describe(choice, text, size);
  else
    snprintf(text, size, "%s", row->name(choice));
}

/* ---- none ---- */

static int64_t none_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  (void)m, (void)n, (void)k, (void)choice;
  return 0;
}

static const char *none_name(const struct tb_choice *choice) {
  (void)choice;
  return "none";
}

static CUresult none_launch(const struct tb_kernels *kernels, const struct tb_launch *launch) {
  (void)kernels, (void)launch;
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* ---- fma ---- */

static CUresult fma_load(struct tb_kernels *kernels, CUdevice device) {
  (void)device;
  return tb_fma_load(&kernels->fma, &kernels->shared, &kernels->device);
}

static CUresult fma_launch(const struct tb_kernels *kernels, const struct tb_launch *launch) {
  return tb_fma_launch(&kernels->fma, launch);
}

/* ---- skinny ---- */

static CUresult skinny_load(struct tb_kernels *kernels, CUdevice device) {
  TB_TRY(tb_skinny_load(&kernels->skinny, device));
  kernels->device.skinny = true;
  return CUDA_SUCCESS;
}

static void skinny_unload(struct tb_kernels *kernels) { tb_skinny_unload(&kernels->skinny); }

static CUresult skinny_launch(const struct tb_kernels *kernels, const struct tb_launch *launch) {
  return tb_skinny_launch(&kernels->skinny, launch);
}

/* ---- emulated ---- */

static CUresult emulated_load(struct tb_kernels *kernels, CUdevice device) {
  TB_TRY(tb_emulated_load(&kernels->emulated, &kernels->shared, device));
  kernels->device.emulated = kernels->emulated.there;
  return CUDA_SUCCESS;
}

static void emulated_unload(struct tb_kernels *kernels) { tb_emulated_unload(&kernels->emulated); }

static CUresult emulated_launch(const struct tb_kernels *kernels, const struct tb_launch *launch) {
  return tb_emulated_launch(&kernels->emulated, launch);
}

/* ---- fp64 ---- */

static CUresult fp64_load(struct tb_kernels *kernels, CUdevice device) {
  TB_TRY(tb_fp64_look(&kernels->fp64, device)); /* the kernels when they are wanted: tb_kernels_ready */
  kernels->device.fp64 = kernels->fp64.device;
  return CUDA_SUCCESS;
}

static void fp64_unload(struct tb_kernels *kernels) { tb_fp64_unload(&kernels->fp64); }

static CUresult fp64_launch(const struct tb_kernels *kernels, const struct tb_launch *launch) {
  return tb_fp64_launch_chosen(&kernels->fp64, launch);
}

/* ---- the table ---- */

#define ONLY(type) (1u << (type))

const struct tb_family_row tb_families[TB_FAMILY_COUNT] = {
    [TB_FAMILY_NONE] = {.workspace_bytes = none_workspace_bytes, .name = none_name, .launch = none_launch},
    [TB_FAMILY_EMULATED] = {.types = ONLY(TB_S),
                            .load = emulated_load,
                            .unload = emulated_unload,
                            .candidates = tb_emulated_candidates,
                            .offer = tb_emulated_offer,
                            .predict_us = tb_emulated_predict_us,
                            .workspace_bytes = tb_emulated_choice_bytes,
                            .name = tb_emulated_name,
                            .describe = tb_emulated_describe,
                            .launch = emulated_launch},
    [TB_FAMILY_SKINNY] = {.types = ONLY(TB_S),
                          .load = skinny_load,
                          .unload = skinny_unload,
                          .candidates = tb_skinny_candidates,
                          .offer = tb_skinny_offer,
                          .predict_us = tb_skinny_predict_us,
                          .workspace_bytes = tb_skinny_workspace_bytes,
                          .name = tb_skinny_name,
                          .launch = skinny_launch},
    [TB_FAMILY_FP64] = {.types = ONLY(TB_D) | ONLY(TB_Z),
                        .load = fp64_load,
                        .unload = fp64_unload,
                        .candidates = tb_fp64_candidates,
                        .offer = tb_fp64_offer,
                        .predict_us = tb_fp64_predict_us,
                        .workspace_bytes = tb_fp64_workspace_bytes,
                        .name = tb_fp64_name,
                        .launch = fp64_launch},
    [TB_FAMILY_FMA] = {.types = ONLY(TB_S),
                       .load = fma_load,
                       .candidates = tb_fma_candidates,
                       .offer = tb_fma_offer,
                       .predict_us = tb_fma_predict_us,
                       .workspace_bytes = tb_fma_workspace_bytes,
                       .name = tb_fma_name,
                       .describe = tb_fma_describe,
                       .launch = fma_launch},
};
