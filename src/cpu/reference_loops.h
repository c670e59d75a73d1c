/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference's loops for one element type: included by reference.c for each, with REAL defined as float or double,
 * COMPLEX as 0 or 1, and OF(name) as the name for this type. Complex numbers are multiplied by parts, as Fortran does:
 * C's own multiplication would make infinities of NaNs.
 */
struct OF(element) {
  REAL part[1 + COMPLEX]; /* real, imaginary */
};

static struct OF(element) OF(product)(struct OF(element) x, struct OF(element) y) {
#if COMPLEX
  return (struct OF(element)){
      {x.part[0] * y.part[0] - x.part[1] * y.part[1], x.part[0] * y.part[1] + x.part[1] * y.part[0]}};
#else
  return (struct OF(element)){{x.part[0] * y.part[0]}};
#endif
}

static void OF(add)(struct OF(element) * sum, struct OF(element) x) {
  for (int i = 0; i < 1 + COMPLEX; i++) sum->part[i] += x.part[i];
}

/* Element (i, j) of op(X). */
static struct OF(element) OF(at)(struct tb_view x, int64_t i, int64_t j) {
  struct OF(element) e = *(const struct OF(element) *)tb_view_at(x, i, j).data;
  if (x.conjugated) e.part[COMPLEX] = -e.part[COMPLEX];
  return e;
}

static void OF(gemm)(const struct tb_call *call) {
  struct OF(element) alpha, beta;
  memcpy(&alpha, &call->alpha, sizeof alpha);
  memcpy(&beta, &call->beta, sizeof beta);
  const bool overwrites = tb_call_overwrites(call), keeps = tb_scalar_is_one(call->type, call->beta);
  for (int64_t j = 0; j < call->n; j++) {
    struct OF(element) *c = tb_call_c(call, 0, j);
    /* beta = 0 overwrites: C need not hold numbers. */
    for (int64_t i = 0; i < call->m && !keeps; i++)
      c[i] = overwrites ? (struct OF(element)){{0}} : OF(product)(beta, c[i]);
    if (tb_scalar_is_zero(call->type, call->alpha)) continue;
    for (int64_t l = 0; l < call->k; l++) {
      const struct OF(element) scaled = OF(product)(alpha, OF(at)(call->b, l, j));
      for (int64_t i = 0; i < call->m; i++) OF(add)(&c[i], OF(product)(scaled, OF(at)(call->a, i, l)));
    }
  }
}

#undef REAL
#undef COMPLEX
#undef OF
