/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The families of kernels, a row each of one table: all that the selector (select.c) and the launcher (kernels.c) know
 * of them. A new family is its own files, a member of struct tb_choice and of struct tb_kernels, and a row. Pure but
 * for load, unload and launch, which are under offload.c's lock.
 */
#ifndef TB_FAMILY_H
#define TB_FAMILY_H

#include "select/batch.h"
#include "select/complex.h"
#include "select/emulated.h"
#include "select/fma.h"
#include "select/fp64.h"
#include "select/skinny.h"
#include "select/solve.h"
#include "select/triangle.h"

/* What is loaded on a GPU. */
struct tb_kernels {
  struct tb_select_device device;
  struct tb_shared shared;
  struct tb_fma fma;
  struct tb_skinny skinny;
  struct tb_emulated_kernels emulated;
  struct tb_fp64_kernels fp64;
  struct tb_complex_kernels complex;
  struct tb_triangle_kernels triangle; /* no family's: of commits; */
  struct tb_solve_kernels solve;       /* of trmm and trsm */
  struct tb_batch_kernels batch;       /* nor these, of many products at once */
};

struct tb_family_row {
  unsigned types; /* of elements that it takes: a bit for each enum tb_type */

  /* Loads the family's kernels behind the shared ones, if they are for all or for single precision, and says in
   * kernels->device what the device has of them. Nothing of its own is left behind on failure. */
  CUresult (*load)(struct tb_kernels *kernels, CUdevice device);
  /* NULL: nothing to unload. Does nothing where nothing is loaded. */
  void (*unload)(struct tb_kernels *kernels);

  /* Writes every way that the device has for the product, at most TB_CANDIDATES_MAX of all families; returns how many.
   */
  int (*candidates)(const struct tb_select_device *device, const struct tb_product *product,
                    struct tb_choice candidate[]);
  /* Takes the place of `best` with the quickest of them, if that is sooner. */
  void (*offer)(const struct tb_select_device *device, const struct tb_product *product, struct tb_best *best);

  /* Of a way of this family: microseconds from launch to result; device memory that it needs; what it is called,
   * "128x128" or "skinny"; and with the parts of k, "128x128/4" (NULL: the same). */
  double (*predict_us)(const struct tb_select_table *table, const struct tb_select_device *device,
                       const struct tb_product *product, const struct tb_choice *choice);
  int64_t (*workspace_bytes)(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice);
  const char *(*name)(const struct tb_choice *choice);
  void (*describe)(const struct tb_choice *choice, char *text, size_t size);

  /* Enqueues the product (kernels.h). */
  CUresult (*launch)(const struct tb_kernels *kernels, const struct tb_launch *launch);
};

/* By enum tb_family, which has them in the order of preference. TB_FAMILY_NONE has a name, and a launch that fails. */
extern const struct tb_family_row tb_families[TB_FAMILY_COUNT];
#define TB_FAMILY_FIRST (TB_FAMILY_NONE + 1) /* of those that have all */

static inline bool tb_family_takes(int family, enum tb_type type) { return tb_families[family].types >> type & 1; }

/* The row of a choice. */
static inline const struct tb_family_row *tb_family_of(const struct tb_choice *choice) {
  return &tb_families[(unsigned)choice->family < TB_FAMILY_COUNT ? choice->family : TB_FAMILY_NONE];
}

/* Device memory for an m x n x k product; the choice's name; and the name with the parts of k. */
static inline int64_t tb_workspace_bytes(int64_t m, int64_t n, int64_t k, const struct tb_choice *choice) {
  return tb_family_of(choice)->workspace_bytes(m, n, k, choice);
}
static inline const char *tb_choice_name(const struct tb_choice *choice) { return tb_family_of(choice)->name(choice); }
void tb_choice_describe(const struct tb_choice *choice, char *text, size_t size);

#endif
