/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tb_digest: of a copy on the GPU it has what tb_hash_cell has of the matrix, word by word, for all cells and for some.
 * Columns of part of a step, of whole ones, of a cell and more; cells of one column, of many, of all; more cells than
 * blocks. Between columns lies what is nothing of the matrix; behind the digests nothing is written.
 *
 * Seen to fail when: the last step is not filled up with zeros; a column's key begins anew; a carry is lost; the second
 * sum has the first one's key; a cell's last columns, or those of another one, are added.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/integers.h"
#include "cache/hash.h"
#include "first_gpu.h"
#include "rng.h"
#include "kept/digest_args.h"

extern const unsigned char tb_sgemm_fatbin[];

static CUfunction digest;
static bool quick;

static int open_device(void **state) {
  (void)state;
  tst_gpu_open();
  digest = tst_gpu_kernel(tb_sgemm_fatbin, "tb_digest");
  return tb_hash_begin() ? 0 : -1;
}

static CUdeviceptr to_device(const void *from, size_t bytes) {
  CUdeviceptr there;
  OK(tb_cuda.cuMemAlloc(&there, bytes));
  OK(tb_cuda.cuMemcpyHtoDAsync(there, from, bytes, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  return there;
}

/* Bytes of every value, and many of 255: of sums of products of such words nearly each carries. */
static unsigned char *random_bytes(size_t bytes, uint64_t *seed) {
  unsigned char *const x = malloc(bytes);
  for (size_t i = 0; i < bytes; i++)
    x[i] = (unsigned char)(tst_random_below(seed, 3) == 0 ? 255 : tst_random_below(seed, 256));
  return x;
}

/* Of `count` cells from `first` on; 0: of all. */
static void check(int64_t column_bytes, int64_t columns, int64_t pitch, int64_t first, int64_t count, unsigned blocks) {
  uint64_t seed = (uint64_t)(column_bytes + columns);
  unsigned char *const bytes = random_bytes((size_t)(pitch * columns), &seed);
  const struct tb_stored s = {
      .data = (const char *)bytes, .column_bytes = column_bytes, .columns = columns, .pitch_bytes = pitch};
  const struct tb_cells cells = tb_cells_of(&s);
  if (count == 0) count = cells.count;
  const size_t found_bytes = (size_t)(count + 1) * sizeof(struct tb_digest); /* one that stays as it is */
  struct tb_digest *const found = malloc(found_bytes);
  memset(found, 0x5a, found_bytes);
  const struct tb_digest untouched = found[count];
  int64_t key_bytes;
  const uint64_t *const key = tb_hash_key(&key_bytes);
  const CUdeviceptr copy = to_device(bytes, (size_t)(pitch * columns)), keys = to_device(key, (size_t)key_bytes);
  const CUdeviceptr digests = to_device(found, found_bytes);
  struct tb_digest_args args = {(const unsigned char *)copy,
                                (const uint64_t *)keys,
                                (uint64_t *)digests,
                                pitch,
                                column_bytes,
                                columns,
                                cells.in_column,
                                cells.columns_each,
                                TB_CELL_BYTES,
                                first,
                                count};
  void *parameters[] = {&args};
  OK(tb_cuda.cuLaunchKernel(digest, blocks, 1, 1, TB_DIGEST_THREADS, 1, 1, 0, NULL, parameters, NULL));
  OK(tb_cuda.cuMemcpyDtoHAsync(found, digests, found_bytes, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  for (int64_t i = 0; i < count; i++) {
    const struct tb_stored cell = tb_cell(&s, &cells, first + i);
    const struct tb_digest wanted = tb_hash_cell(&cell);
    if (!tb_digests_are_equal(&found[i], &wanted))
      fail_msg("cell %lld of %lld bytes by %lld columns", (long long)(first + i), (long long)column_bytes,
               (long long)columns);
  }
  assert_true(tb_digests_are_equal(&found[count], &untouched));
  tb_cuda.cuMemFree(copy), tb_cuda.cuMemFree(keys), tb_cuda.cuMemFree(digests);
  free(bytes), free(found);
}

static void all_shapes(void **state) {
  (void)state;
  static const int64_t heights[] = {4, 8, 12, 16, 20, 100, 1000, 2048, 8192, 8196, 16380, 16384, 16388, 40000, 65536};
  static const int64_t widths[] = {1, 2, 7, 40};
  for (size_t i = 0; i < sizeof heights / sizeof *heights; i += quick ? 4 : 1)
    for (size_t j = 0; j < sizeof widths / sizeof *widths; j += quick ? 2 : 1) {
      check(heights[i], widths[j], tb_round_up(heights[i], 16), 0, 0, 3);
      check(heights[i], widths[j], tb_round_up(heights[i], 16) + 48, 0, 0, 100);
    }
}

static void some_cells(void **state) {
  (void)state;
  check(40000, 9, 40000, 5, 11, 2);
  check(1000, 77, 1008, 1, 2, 5);
  check(4, 9000, 64, 1, 3, 5); /* with some columns in the last one */
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_shapes), cmocka_unit_test(some_cells)};
  quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  return cmocka_run_group_tests(tests, open_device, NULL);
}
