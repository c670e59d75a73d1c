/* SPDX-License-Identifier: BSD-3-Clause */
#include "factors.h"

#include <complex.h>

/* What stands on a side: which matrix, under which transpose, with side i of the factor as its row or its column. */
struct standing {
  const struct fuzz_matrix *x;
  char trans;
  bool by_columns, conjugate;
  char *memory;
};

static struct standing left_of(const struct fuzz_level3 *call, const struct fuzz_product *p, char *c) {
  const struct fuzz_matrix *const a = &p->x[FUZZ_A], *const b = &p->x[FUZZ_B];
  if (!fuzz_has_side(call->shape) || fuzz_is_left(call))
    return (struct standing){a, p->ta, false, false, a->block->image};
  if (fuzz_is_triangular(call->shape)) return (struct standing){&p->x[FUZZ_C], 'N', false, false, c};
  return (struct standing){b, 'N', false, false, b->block->image};
}

static struct standing right_of(const struct fuzz_level3 *call, const struct fuzz_product *p, char *c) {
  const struct fuzz_matrix *const a = &p->x[FUZZ_A], *const b = &p->x[FUZZ_B];
  if (fuzz_has_side(call->shape) && !fuzz_is_left(call))
    return (struct standing){a, p->ta, true, false, a->block->image};
  switch (call->shape) {
    case FUZZ_SYRK:
    case FUZZ_HERK:
      return (struct standing){a, p->ta, false, call->shape == FUZZ_HERK, a->block->image};
    case FUZZ_SYR2K:
    case FUZZ_HER2K:
      return (struct standing){b, p->tb, false, call->shape == FUZZ_HER2K, b->block->image};
    case FUZZ_SYMM:
    case FUZZ_HEMM:
      return (struct standing){b, 'N', true, false, b->block->image};
    case FUZZ_TRMM:
    case FUZZ_TRSM:
      return (struct standing){&p->x[FUZZ_C], 'N', true, false, c};
    default:
      return (struct standing){b, p->tb, true, false, b->block->image};
  }
}

static void put(struct fuzz_factor *f, bool left, const struct fuzz_level3 *call, const struct standing *s,
                int64_t sides, int64_t k) {
  const int parts = tst_parts(call->type);
  *f = fuzz_factor_make(left, parts, sides, k);
  for (int64_t side = 0; side < sides; side++)
    for (int64_t l = 0; l < k; l++) {
      const double complex x = s->by_columns ? fuzz_meant(call, s->x, s->trans, s->memory, l, side)
                                             : fuzz_meant(call, s->x, s->trans, s->memory, side, l);
      fuzz_factor_put(f, left, parts, side, l, s->conjugate ? conj(x) : x);
    }
  fuzz_factor_end(f);
}

void fuzz_factors(struct fuzz_real *real, const struct fuzz_level3 *call, const struct fuzz_product *p, char *c) {
  const struct standing left = left_of(call, p, c), right = right_of(call, p, c);
  put(&real->left, true, call, &left, p->m, p->k);
  put(&real->right, false, call, &right, p->n, p->k);
}
