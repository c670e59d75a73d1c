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
  const bool is_real = x.structure == TB_HERMITIAN && i - j == x.diagonal;
  if (tb_view_is_mirrored(&x) && !tb_view_stores(&x, i, j)) x = tb_view_mirrored(x);
  struct OF(element) e = *(const struct OF(element) *)tb_view_at(x, i, j).data;
  if (x.conjugated) e.part[COMPLEX] = -e.part[COMPLEX];
  if (is_real) e.part[COMPLEX] = 0;
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

/* ---- triangles ---- */

/* By a scaled divisor, whose square neither overflows nor vanishes. */
static struct OF(element) OF(quotient)(struct OF(element) x, struct OF(element) y) {
#if COMPLEX
  const REAL re = y.part[0], im = y.part[1];
  const bool turned = (re < 0 ? -re : re) < (im < 0 ? -im : im);
  const REAL ratio = turned ? re / im : im / re, whole = turned ? im + re * ratio : re + im * ratio;
  if (turned)
    return (struct OF(element)){{(x.part[0] * ratio + x.part[1]) / whole, (x.part[1] * ratio - x.part[0]) / whole}};
  return (struct OF(element)){{(x.part[0] + x.part[1] * ratio) / whole, (x.part[1] - x.part[0] * ratio) / whole}};
#else
  return (struct OF(element)){{x.part[0] / y.part[0]}};
#endif
}

/* Element i of a vector, `step` elements apart, of which those from `first` on are still, or already, as they are
 * wanted; end is not counted. */
static void OF(triangular_element)(const struct tb_call *call, struct tb_view t, struct OF(element) * v, int64_t step,
                                   int64_t i, int64_t first, int64_t end) {
  const bool solves = call->recipe == TB_TRIANGULAR_SOLVE;
  struct OF(element) alpha, sum = {{0}};
  memcpy(&alpha, &call->alpha, sizeof alpha);
  for (int64_t l = first; l < end; l++) OF(add)(&sum, OF(product)(OF(at)(t, i, l), v[l * step]));
  const struct OF(element) own = v[i * step];
  if (solves) {
    struct OF(element) rest = OF(product)(alpha, own);
    for (int part = 0; part < 1 + COMPLEX; part++) rest.part[part] -= sum.part[part];
    v[i * step] = t.unit ? rest : OF(quotient)(rest, OF(at)(t, i, i));
  } else {
    OF(add)(&sum, t.unit ? own : OF(product)(OF(at)(t, i, i), own));
    v[i * step] = OF(product)(alpha, sum);
  }
}

/* By columns, or with the triangle on the right by rows, to which it is its transpose on the left. */
static void OF(triangular)(const struct tb_call *call) {
  struct tb_view t = call->a;
  if (call->on_right) t.transposed = !t.transposed;
  const bool upper = (t.uplo == TB_UPPER) != t.transposed, zero = tb_scalar_is_zero(call->type, call->alpha);
  const bool ascending = upper == (call->recipe == TB_TRIANGULAR_MULTIPLY);
  const int64_t vectors = call->on_right ? call->m : call->n, step = call->on_right ? call->ldc : 1;
  for (int64_t j = 0; j < vectors; j++) {
    struct OF(element) *v = call->on_right ? tb_call_c(call, j, 0) : tb_call_c(call, 0, j);
    for (int64_t l = 0; l < call->k; l++) {
      const int64_t i = ascending ? l : call->k - 1 - l;
      if (zero)
        v[i * step] = (struct OF(element)){{0}};
      else
        OF(triangular_element)(call, t, v, step, i, upper ? i + 1 : 0, upper ? call->k : i);
    }
  }
}

#undef REAL
#undef COMPLEX
#undef OF
