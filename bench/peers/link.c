/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link between host and GPU: GB/s up, down and both ways at once, with pinned memory. From it follows the floor of
 * any product of host matrices: A and B must go up once and C must come down once.
 *
 *   link [--csv FILE]
 */
#include "../data.h"
#include "nvidia.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPS = 7 };

struct buffers {
  void *up_host, *down_host, *up_gpu, *down_gpu, *up_stream, *down_stream;
  size_t bytes;
};

static void copy(const struct buffers *b, int up, int down) {
  if (up) TB_NV(cudaMemcpyAsync(b->up_gpu, b->up_host, b->bytes, TB_HOST_TO_DEVICE, b->up_stream));
  if (down) TB_NV(cudaMemcpyAsync(b->down_host, b->down_gpu, b->bytes, TB_DEVICE_TO_HOST, b->down_stream));
  TB_NV(cudaStreamSynchronize(b->up_stream));
  TB_NV(cudaStreamSynchronize(b->down_stream));
}

static double gb_per_s(const struct buffers *b, int up, int down) {
  double took[REPS];
  copy(b, up, down);
  for (int r = 0; r < REPS; r++) {
    double start = tb_now_s();
    copy(b, up, down);
    took[r] = tb_now_s() - start;
  }
  return 1e-9 * (double)b->bytes * (up + down) / tb_median(took, REPS);
}

int main(int argc, char **argv) {
  if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--csv") == 0)) {
    fprintf(stderr, "usage: link [--csv FILE]\n");
    return 2;
  }
  if (!tb_nvidia_load()) return TB_PEER_MISSING;
  struct buffers b = {.bytes = (size_t)256 << 20};
  TB_NV(cudaMallocHost(&b.up_host, b.bytes));
  TB_NV(cudaMallocHost(&b.down_host, b.bytes));
  TB_NV(cudaMalloc(&b.up_gpu, b.bytes));
  TB_NV(cudaMalloc(&b.down_gpu, b.bytes));
  TB_NV(cudaStreamCreate(&b.up_stream));
  TB_NV(cudaStreamCreate(&b.down_stream));
  memset(b.up_host, 1, b.bytes);
  double up = gb_per_s(&b, 1, 0), down = gb_per_s(&b, 0, 1), both = gb_per_s(&b, 1, 1);
  printf("link, pinned, %zu MiB: up %.1f GB/s, down %.1f GB/s, both ways %.1f GB/s\n", b.bytes >> 20, up, down, both);
  if (argc == 3) {
    FILE *f = fopen(argv[2], "w");
    if (!f || fprintf(f, "up_gb_s,down_gb_s,both_gb_s\n%.3f,%.3f,%.3f\n", up, down, both) < 0 || fclose(f)) {
      perror(argv[2]);
      return EXIT_FAILURE;
    }
  }
  return EXIT_SUCCESS;
}
