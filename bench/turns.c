/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In how many turns shared memory serves a warp's float4s, by which lanes read the same one: what the kernels' lanes
 * are laid out by (kernels/fma/sgemm_internal.cuh, Lanes).
 *
 *   turns [FATBIN]     turns.cu's fat binary, where it is not the build's
 *
 * Prints cycles of a multiprocessor for each load of a warp. Status 77: no GPU.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"
#include "turns.h"

enum { LANES = 32, PATTERNS = 7 };

/* Bits of the lane's number that say which float4 it reads, the lowest first. */
static const struct pattern {
  const char *what;
  int bits, bit[5];
} patterns[PATTERNS] = {{"all lanes the same", 0, {0}},
                        {"8, by bits 0, 1, 2: A's, lanes along m", 3, {0, 1, 2}},
                        {"4, by bits 3, 4: B's, lanes along m", 2, {3, 4}},
                        {"8, by bits 0, 3, 4: A's", 3, {0, 3, 4}},
                        {"4, by bits 1, 2: B's", 2, {1, 2}},
                        {"16, by bits 1, 2, 3, 4", 4, {1, 2, 3, 4}},
                        {"32", 5, {0, 1, 2, 3, 4}}};

static double cycles_of(const struct tb_gpu *gpu, CUfunction turns, const struct pattern *p, CUdeviceptr memory) {
  int place[LANES] = {0};
  for (int lane = 0; lane < LANES; lane++)
    for (int b = 0; b < p->bits; b++) place[lane] |= (lane >> p->bit[b] & 1) << b;
  CUdeviceptr cycles_at = memory + sizeof place, sink = cycles_at + sizeof(long long);
  void *parameters[] = {&memory, &cycles_at, &sink};
  long long cycles = 0;
  tb_gpu_upload(gpu, memory, place, sizeof place);
  for (int run = 0; run < 2; run++) /* the first one fetches the code */
    TB_GPU(cuLaunchKernel(turns, 1, 1, 1, TB_TURNS_THREADS, 1, 1, 0, gpu->stream, parameters, NULL));
  tb_gpu_download(gpu, &cycles, cycles_at, sizeof cycles);
  return (double)cycles / ((double)TB_TURNS_ROUNDS * TB_TURNS_LOADS * TB_TURNS_THREADS / LANES);
}

int main(int argc, char **argv) {
  struct tb_gpu gpu = tb_gpu_open(0);
  CUmodule module = tb_gpu_load(argc > 1 ? argv[1] : TB_TURNS_FATBIN);
  CUfunction turns = tb_gpu_function(module, "tb_turns");
  CUdeviceptr memory = tb_gpu_alloc(sizeof(int) * LANES + sizeof(long long) + sizeof(float) * TB_TURNS_THREADS);
  printf("%s\n", gpu.name);
  for (int p = 0; p < PATTERNS; p++)
    printf("%-40s %.2f cycles\n", patterns[p].what, cycles_of(&gpu, turns, &patterns[p], memory));
  tb_gpu_free(memory);
  TB_GPU(cuModuleUnload(module));
  tb_gpu_close(&gpu);
  return EXIT_SUCCESS;
}
