/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes of a tensor map, copied to several blocks of a cluster; and which maps there are. */
#include "test_cluster.h"

#include <stdbool.h>

enum { SEEDS = 6, POISON = 0x7ff57ff5 };

/* Rows of words that tell where they are, and a map of them. */
static CUdeviceptr new_rows(CUtensorMap *map) {
  static unsigned words[ROWS][STRIDE];
  for (unsigned row = 0; row < ROWS; row++)
    for (unsigned column = 0; column < STRIDE; column++) words[row][column] = 1000 * (row + 1) + column;
  CUdeviceptr from = new_memory(sizeof words);
  OK(cuMemcpyHtoD(from, words, sizeof words));
  const struct map_request request = rows_at(from);
  OK(encode(&request, map));
  return from;
}

static unsigned word_of_box(int row, int column) {
  return row >= 0 && row < ROWS && column < COLUMNS ? (unsigned)(1000 * (row + 1) + column) : 0;
}

static unsigned boxes_shared_bytes(unsigned blocks) { return blocks * BOX * 4 + 8; }

static void boxes_reach_every_block_when_they_are_waited_for(void **state) {
  (void)state;
  enum { CLUSTERS = 2, MOST = 4 };
  static unsigned words[CLUSTERS * MOST * 2 * MOST * BOX];
  CUtensorMap map;
  new_rows(&map);
  CUdeviceptr to = new_memory(sizeof words);
  CUfunction function = find_for_clusters("test_boxes");
  for (unsigned blocks = 1; blocks <= MOST; blocks *= 2)
    for (int first = -2; first <= ROWS; first++)
      for (uint64_t seed = 0; seed < SEEDS; seed++) {
        void *parameters[] = {&map, &first, &blocks, &to};
        fake_cuda_set_shuffle(seed);
        OK(launch_clusters(function, in_a_row(CLUSTERS, blocks), BOX, boxes_shared_bytes(blocks), parameters));
        OK(cuMemcpyDtoH(words, to, sizeof words));
        for (unsigned i = 0; i < CLUSTERS * blocks * 2 * blocks * BOX; i++) {
          const bool waited = i / (blocks * BOX) % 2;
          const int rank = (int)(i / BOX % blocks);
          assert_int_equal(words[i], waited ? word_of_box(first + rank, (int)(i % BOX)) : POISON);
        }
      }
}

/* A launch is known to use what its parameter, a map, points to. */
static void memory_of_a_map_is_in_use(void **state) {
  (void)state;
  CUtensorMap map;
  CUdeviceptr from = new_rows(&map), to = new_memory(2 * BOX * 4);
  int first = 0;
  unsigned blocks = 1;
  void *parameters[] = {&map, &first, &blocks, &to};
  const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
  OK(launch_clusters(find_for_clusters("test_boxes"), in_a_row(1, 1), BOX, boxes_shared_bytes(1), parameters));
  fake_cuda_expect_misuses(1);
  cuMemFree(from);
  assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES), misuses + 1);
  renew_context();
}

static void maps_are_as_the_driver_wants_them(void **state) {
  (void)state;
  static unsigned char memory[64];
  const uintptr_t aligned = ((uintptr_t)memory + 15) / 16 * 16;
  const struct map_request good = rows_at(aligned);
  struct map_request r[48];
  CUresult expected[48];
  int count = 0;
#define CASE(result, change) r[count] = good, r[count].change, expected[count++] = CUDA_##result
  CASE(SUCCESS, offset_bytes = 64);
  CASE(ERROR_INVALID_VALUE, offset_bytes = 32);
  CASE(ERROR_INVALID_VALUE, address = aligned + 8);
  CASE(ERROR_INVALID_VALUE, dimensions = 0);
  CASE(ERROR_INVALID_VALUE, dimensions = 6);
  CASE(ERROR_INVALID_VALUE, size[0] = 0);
  CASE(ERROR_INVALID_VALUE, size[1] = 0);
  CASE(SUCCESS, size[1] = 1ull << 32);
  CASE(ERROR_INVALID_VALUE, size[1] = (1ull << 32) + 1);
  CASE(SUCCESS, strides[0] = (1ull << 40) - 16);
  CASE(ERROR_INVALID_VALUE, strides[0] = 1ull << 40);
  CASE(ERROR_INVALID_VALUE, strides[0] = STRIDE * 4 + 8);
  CASE(SUCCESS, strides[0] = COLUMNS * 4);
  CASE(ERROR_INVALID_VALUE, strides[0] = COLUMNS * 4 - 16);
  CASE(ERROR_INVALID_VALUE, box[0] = 0);
  CASE(ERROR_INVALID_VALUE, box[1] = 0);
  CASE(ERROR_INVALID_VALUE, box[0] = BOX + 2);
  CASE(SUCCESS, box[0] = 256);
  CASE(ERROR_INVALID_VALUE, box[0] = 260);
  CASE(SUCCESS, box[1] = 256);
  CASE(ERROR_INVALID_VALUE, box[1] = 257);
  CASE(SUCCESS, steps[0] = 8);
  CASE(ERROR_INVALID_VALUE, steps[1] = 0);
  CASE(ERROR_INVALID_VALUE, steps[1] = 9);
  CASE(ERROR_INVALID_VALUE, fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  const int known = count; /* from here on what a driver can and the fake cannot */
  CASE(ERROR_NOT_SUPPORTED, steps[1] = 2);
  CASE(ERROR_NOT_SUPPORTED, dimensions = 1);
  CASE(ERROR_NOT_SUPPORTED, dimensions = 3);
  CASE(ERROR_NOT_SUPPORTED, type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  CASE(ERROR_NOT_SUPPORTED, type = CU_TENSOR_MAP_DATA_TYPE_UINT8);
  CASE(ERROR_NOT_SUPPORTED, interleave = CU_TENSOR_MAP_INTERLEAVE_16B);
  CASE(ERROR_NOT_SUPPORTED, swizzle = CU_TENSOR_MAP_SWIZZLE_128B);
#undef CASE
  CUtensorMap map;
  for (int i = 0; i < count; i++) {
    const uint64_t misuses = fake_cuda_get(FAKE_CUDA_MISUSES);
    fake_cuda_expect_misuses(i >= known);
    const CUresult result = encode(&r[i], &map);
    if (result != expected[i]) fail_msg("request %d: %d, not %d", i, result, expected[i]);
    assert_int_equal(fake_cuda_get(FAKE_CUDA_MISUSES) - misuses, i >= known);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(boxes_reach_every_block_when_they_are_waited_for),
      TEST(memory_of_a_map_is_in_use),
      TEST(maps_are_as_the_driver_wants_them),
  };
  return cmocka_run_group_tests_name("fake_cuda_boxes", tests, NULL, NULL);
}
