/* SPDX-License-Identifier: BSD-3-Clause */
/* One step of the ladder through the driver API; see ladder_run.h. */
#include "ladder_run.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64 }; /* floats before and after each matrix; a multiple of four keeps an aligned matrix aligned */

static const uint32_t canary = 0x7fcabada; /* a NaN that no computation makes */

/* A matrix in device memory, between margins. */
struct fenced {
  CUdeviceptr base, matrix;
  size_t before, elems, total; /* in floats */
  float *image;                /* all of it, in host memory */
};

static void fill_with_canary(float *to, size_t count) {
  for (size_t i = 0; i < count; i++) memcpy(&to[i], &canary, sizeof canary);
}

static struct fenced fence(const struct tb_gpu *gpu, const float *from, size_t elems, enum tst_place place) {
  struct fenced f = {
      .before = MARGIN + (size_t)place, .elems = elems, .total = MARGIN + (size_t)place + elems + MARGIN};
  f.image = malloc(f.total * sizeof(float));
  if (!f.image) {
    perror("ladder_run");
    abort();
  }
  fill_with_canary(f.image, f.total);
  if (from) memcpy(f.image + f.before, from, elems * sizeof(float));
  f.base = tb_gpu_alloc(f.total * sizeof(float));
  f.matrix = f.base + f.before * sizeof(float);
  tb_gpu_upload(gpu, f.base, f.image, f.total * sizeof(float));
  return f;
}

static void unfence(struct fenced *f) {
  tb_gpu_free(f->base);
  free(f->image);
}

static void check_margins(const struct fenced *f, const char *step, const struct tst_product *p) {
  for (size_t i = 0; i < f->total; i++) {
    int inside = i >= f->before && i < f->before + f->elems;
    if (!inside && memcmp(&f->image[i], &canary, sizeof canary) != 0) {
      fprintf(stderr, "%s wrote outside of C: element %ld of %dx%d, k %d\n", step, (long)i - (long)f->before, p->m,
              p->n, p->k);
      abort();
    }
  }
}

struct tst_ladder tst_ladder_open(const char *fatbin) {
  struct tst_ladder ladder = {.gpu = tb_gpu_open(0)};
  ladder.module = tb_gpu_load(fatbin);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  ladder.counts = driver ? dlsym(driver, "tb_ladder_counts") : NULL;
  return ladder;
}

void tst_ladder_close(struct tst_ladder *ladder) {
  TB_GPU(cuModuleUnload(ladder->module));
  tb_gpu_close(&ladder->gpu);
}

struct tb_ladder_counts tst_ladder_multiply(struct tst_ladder *ladder, const struct tb_ladder_step *step,
                                            const struct tst_product *p, enum tst_place place, unsigned stride_blocks) {
  size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
  struct fenced a = fence(&ladder->gpu, p->a, m * k, place), b = fence(&ladder->gpu, p->b, k * n, place);
  struct fenced c = fence(&ladder->gpu, NULL, m * n, place);
  unsigned grid_x, grid_y;
  tb_ladder_grid_size(step, p->m, p->n, stride_blocks, &grid_x, &grid_y);
  if (step->grid == TB_GRID_STRIDE) grid_x = stride_blocks; /* more blocks than tiles, too, when the test says so */

  int sizes[] = {p->m, p->n, p->k};
  void *arguments[] = {&a.matrix, &b.matrix, &c.matrix, &sizes[0], &sizes[1], &sizes[2]};
  struct tb_ladder_counts counted = {0};
  if (ladder->counts) *ladder->counts = counted;
  TB_GPU(cuLaunchKernel(tb_gpu_function(ladder->module, step->name), grid_x, grid_y, 1, (unsigned)step->block_x,
                        (unsigned)step->block_y, 1, 0, ladder->gpu.stream, arguments, NULL));
  tb_gpu_download(&ladder->gpu, c.image, c.base, c.total * sizeof(float));
  if (ladder->counts) counted = *ladder->counts;

  check_margins(&c, step->name, p);
  memcpy(p->c, c.image + c.before, m * n * sizeof(float));
  unfence(&a);
  unfence(&b);
  unfence(&c);
  return counted;
}
