/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tb_sgemm_gather alone: partial sums that are far apart in size, so that any other order gives other bits, against
 * plain loops in the order of kernels/common/sgemm_args.h. Chunks' sums and groups', from one to more than a thread
 * asks for at once, with whole and cut groups; few elements and more than a grid has threads; vectors and single words;
 * D new and continued, with and without alpha. Words of D that are not the product's keep their bits.
 *
 * Seen to fail when: chunks' sums are added to D's one by one; the first sum is added to no zero; alpha multiplies
 * bare sums; a row is stepped over; a unit that is missing is added.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "first_gpu.h"
#include "rng.h"
#include "common/sgemm_args.h"

extern const unsigned char tb_sgemm_fatbin[];

static CUfunction gather;
static size_t step = 1; /* --quick: of the cases, only each so many-th */

static int open_device(void **state) {
  (void)state;
  tst_gpu_open();
  gather = tst_gpu_kernel(tb_sgemm_fatbin, "tb_sgemm_gather");
  return 0;
}

struct problem {
  int64_t m, n, units;
  int group_k, unit_k;
  int64_t ldd, skip; /* D starts `skip` words behind an address that is aligned */
  bool first, last;
  unsigned blocks;
};

static const float alpha = -1.7f;

/* The contract's order, element by element. d has what stood there before. */
static float expected_element(const struct problem *p, const float *partials, int64_t element, float d) {
  const int64_t elements = p->m * p->n, group_units = p->group_k / p->unit_k;
  float sum = p->first ? 0 : d;
  for (int64_t first = 0; first < p->units; first += group_units) {
    float group = partials[first * elements + element];
    for (int64_t u = first + 1; u < first + group_units && u < p->units; u++) group += partials[u * elements + element];
    sum += group;
  }
  return p->last ? alpha * sum : sum;
}

/* Between 2^-12 and 2^12, of either sign, or a zero of either sign: 0 + -0 is 0. */
static float random_sum(uint64_t *rng) {
  const float size = tst_random_below(rng, 4) ? tst_random_unit(rng) : 0;
  return ldexpf(tst_random_below(rng, 2) ? size : -size, (int)tst_random_below(rng, 25) - 12);
}

static CUdeviceptr upload(const float *from, size_t count) {
  CUdeviceptr to;
  OK(tb_cuda.cuMemAlloc(&to, count * sizeof *from));
  OK(tb_cuda.cuMemcpyHtoDAsync(to, from, count * sizeof *from, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  return to;
}

static void check(const struct problem *p, uint64_t seed) {
  const size_t elements = (size_t)(p->m * p->n), units = (size_t)p->units;
  const size_t words = (size_t)(p->skip + (p->n - 1) * p->ldd + p->m);
  float *partials = malloc(units * elements * sizeof *partials), *d = malloc(words * sizeof *d);
  float *got = malloc(words * sizeof *got);
  assert_true(partials && d && got);
  uint64_t rng = seed;
  for (size_t i = 0; i < units * elements; i++) partials[i] = random_sum(&rng);
  memset(d, 0xff, words * sizeof *d); /* NaN */
  for (int64_t e = 0; e < p->m * p->n && !p->first; e++) d[p->skip + e % p->m + e / p->m * p->ldd] = random_sum(&rng);
  CUdeviceptr device_partials = upload(partials, units * elements), device_d = upload(d, words);
  struct tb_sgemm_args args = {.d = (float *)(uintptr_t)device_d + p->skip,
                               .ldd = p->ldd,
                               .m = p->m,
                               .n = p->n,
                               .k = (p->units - 1) * p->unit_k + 1 + tst_random_below(&rng, p->unit_k),
                               .partials = (float *)(uintptr_t)device_partials,
                               .group_k = p->group_k,
                               .unit_k = p->unit_k,
                               .alpha = alpha,
                               .first = p->first,
                               .last = p->last};
  void *parameters[] = {&args};
  OK(tb_cuda.cuLaunchKernel(gather, p->blocks, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
  OK(tb_cuda.cuMemcpyDtoHAsync(got, device_d, words * sizeof *got, NULL));
  OK(tb_cuda.cuStreamSynchronize(NULL));
  for (int64_t e = 0; e < p->m * p->n; e++) {
    float *const to = &d[p->skip + e % p->m + e / p->m * p->ldd];
    *to = expected_element(p, partials, e, *to);
  }
  for (size_t i = 0; i < words; i++)
    if (memcmp(&got[i], &d[i], sizeof *d) != 0)
      fail_msg("%ld x %ld, %ld units of %d in groups of %d, ldd %ld, skip %ld, first %d, last %d, %u blocks: word %zu "
               "is %a, not %a",
               (long)p->m, (long)p->n, (long)p->units, p->unit_k, p->group_k, (long)p->ldd, (long)p->skip, p->first,
               p->last, p->blocks, i, (double)got[i], (double)d[i]);
  OK(tb_cuda.cuMemFree(device_partials));
  OK(tb_cuda.cuMemFree(device_d));
  free(partials);
  free(d);
  free(got);
}

/* Three ways for D to lie: as vectors want it; with columns that start anywhere; from an odd address on. */
static void check_layouts(struct problem p, uint64_t seed) {
  for (int layout = 0; layout < 3; layout++) {
    p.ldd = layout == 1 ? p.m + 3 - p.m % 2 : (p.m + 3) / 4 * 4 + 4;
    p.skip = layout == 2;
    check(&p, seed + (uint64_t)layout);
  }
}

static void any_number_of_units(void **state) {
  (void)state;
  static const int group_k[] = {512, 256, 1920}; /* of four chunks, of two, and of more than are asked for at once */
  static const int64_t units[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 25, 63, 64, 70};
  for (size_t i = 0; i < sizeof units / sizeof *units; i += step)
    for (int variant = 0; variant < 16; variant++) {
      const bool vectors = variant & 8; /* more elements than threads, columns of whole vectors */
      check_layouts((struct problem){.m = vectors ? 36 : 7,
                                     .n = vectors ? 9 : 5,
                                     .units = units[i],
                                     .group_k = group_k[i % 3],
                                     .unit_k = variant & 1 ? TB_SGEMM_CHUNK_K : group_k[i % 3],
                                     .first = variant & 2,
                                     .last = variant & 4,
                                     .blocks = 1},
                    100 * i + (uint64_t)variant);
    }
}

/* Rows and columns below, at and above what a grid's threads take at a time. */
static void any_shape(void **state) {
  (void)state;
  static const int64_t sides[] = {1, 2, 4, 5, 64, 255, 256, 257, 1024, 1028};
  enum { SIDES = sizeof sides / sizeof *sides };
  for (int i = 0; i < SIDES * SIDES; i++) {
    const int64_t m = sides[i / SIDES], n = sides[i % SIDES];
    if (m * n > 20000 || (size_t)i % step != 0) continue;
    for (unsigned blocks = 1; blocks <= 5; blocks += 2)
      check_layouts((struct problem){.m = m,
                                     .n = n,
                                     .units = 3,
                                     .group_k = TB_SGEMM_GROUP_K,
                                     .unit_k = i % 2 ? TB_SGEMM_CHUNK_K : TB_SGEMM_GROUP_K,
                                     .first = true,
                                     .last = true,
                                     .blocks = blocks},
                    (uint64_t)i);
  }
}

/* --quick: for compute-sanitizer, under which a launch takes some 40 ms. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_number_of_units), cmocka_unit_test(any_shape)};
  if (argc == 2 && strcmp(argv[1], "--quick") == 0) step = 3; /* which meets every side, of ten */
  return cmocka_run_group_tests(tests, open_device, NULL);
}
