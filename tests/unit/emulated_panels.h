/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of panels for the tensor cores share (test_emulated_panels.c, test_emulated_cuts.c): two GPUs of the
 * fake driver, products of whole numbers, and one run of a part. Helpers fail the test. One thread, but for split_run,
 * of which each GPU may have one.
 */
#ifndef TST_EMULATED_PANELS_H
#define TST_EMULATED_PANELS_H

#include "fake.h"
#include "base/options.h"
#include "offload/part.h"
#include "rng.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
#define GPUS 2
/* Spans of the products that have some: much shorter than the library's, which multiply a thousand k. */
#define SPAN_K 96

extern const struct tb_ways staged;
extern const struct tst_fake *fake;
extern struct tb_device gpu[GPUS];
extern struct tb_part part[GPUS];
extern int64_t span_k; /* of all products; 0: they are not cut into spans */

void open_gpu(int number);

/* Of a group of tests. */
int open_all(void **state);
int close_all(void **state);

/* Whole numbers; or numbers whose sums are rounded, of which some rows and columns want more than fp16 has. */
enum values { WHOLE, GRADED };

struct product {
  struct tb_call call;
  enum values values;
  float *a, *b, *c, *before; /* as stored */
};

/* transposes: 1 A, 2 B. */
struct product make(int transposes, int64_t m, int64_t n, int64_t k, float beta, enum values values);
void destroy(struct product *p);

/* Its element (i, j) by a plain loop. */
float element(const struct tb_call *call, float before, int64_t i, int64_t j);

/* All of C, and its padding. */
void expect_right(const struct product *p);

void run(int number, const struct tb_call *call, struct tb_ways ways, int splits, struct tb_pass *pass);
void expect_emulated(int number);

/* A product of whole numbers, from making to comparing. */
void check(int transposes, int64_t m, int64_t n, int64_t k, float beta, int splits);

/* On the first GPU, with the operands that are in place on the device. */
void compute_in_place(struct product *p, struct tb_ways ways);

#endif
