/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A triangle of C by products that are none: what a GPU left of one, and gemmt on a BLAS that lacks it. The longer side
 * is halved until a piece lies on one side of the diagonal, or is a single column, so most of the work is in large
 * products and nothing outside the triangle is touched. Thread-safe; allocates nothing.
 */
#include "base/integers.h"
#include "cpu/fallback_internal.h"

/* Of its own, so that the recursion takes little of the stack. */
static __attribute__((noinline)) void compute_rectangle(const struct tb_call *call, int64_t i, int64_t m, int64_t j,
                                                        int64_t n) {
  struct tb_call product = tb_call_part(call, i, m, j, n);
  product.region = (struct tb_region){.of = TB_WHOLE};
  tb_fallback_compute(&product);
}

static void compute_part(const struct tb_call *call, int64_t i, int64_t m, int64_t j, int64_t n) {
  const struct tb_region region = tb_region_at(call->region, i, j);
  const int64_t half_m = m / 2, half_n = n / 2;
  if (m == 0 || n == 0 || tb_region_misses(region, m, n)) return;
  if (tb_region_covers(region, m, n)) {
    compute_rectangle(call, i, m, j, n);
  } else if (n == 1) {
    const struct tb_region_rows rows = tb_region_rows(region, m, 0);
    compute_rectangle(call, i + rows.first, rows.end - rows.first, j, 1);
  } else if (n >= m) {
    compute_part(call, i, m, j, half_n);
    compute_part(call, i, m, j + half_n, n - half_n);
  } else {
    compute_part(call, i, half_m, j, n);
    compute_part(call, i + half_m, m - half_m, j, n);
  }
}

/* Numbers, real and imaginary ones alike. */
static void scale_numbers(enum tb_type type, void *numbers, int64_t n, union tb_scalar beta) {
  for (int64_t i = 0; i < n; i++)
    if (tb_type_is_double(type))
      ((double *)numbers)[i] *= beta.d;
    else
      ((float *)numbers)[i] *= beta.s;
}

/* Of a Hermitian triangle: by a real beta; then imaginary parts on the diagonal become zero. */
static void scale_hermitian(const struct tb_call *call, bool scales) {
  for (int64_t j = 0; j < call->n; j++) {
    const struct tb_region_rows rows = tb_region_rows(call->region, call->m, j);
    const int64_t diagonal = j + call->region.diagonal;
    if (scales) scale_numbers(call->type, tb_call_c(call, rows.first, j), 2 * (rows.end - rows.first), call->beta);
    if (diagonal < 0 || diagonal >= call->m) continue;
    char *const imaginary = (char *)tb_call_c(call, diagonal, j) + tb_call_bytes(call) / 2;
    memset(imaginary, 0, (size_t)tb_call_bytes(call) / 2);
  }
}

static void compute_triangle(const struct tb_call *call) {
  struct tb_call plain = *call;
  const bool overwrites = tb_call_overwrites(call), keeps = tb_scalar_is_one(call->type, call->beta);
  plain.symbol = tb_gemm_of(call->symbol);
  if (tb_call_is_trivial(call) && keeps) return; /* the reference, too, leaves a Hermitian diagonal as it is */
  if (call->region.hermitian && !overwrites) {
    scale_hermitian(call, !keeps);
    plain.beta = tb_scalar_of(call->type, 1);
  }
  compute_part(&plain, 0, call->m, 0, call->n);
  if (call->region.hermitian) scale_hermitian(call, false);
}

void tb_fallback_triangle(const struct tb_call *call) {
  const struct tb_call once = tb_call_once(call), again = tb_call_again(call);
  compute_triangle(&once);
  if (call->twice && !tb_call_is_trivial(call)) compute_triangle(&again);
}
