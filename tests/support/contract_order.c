/* SPDX-License-Identifier: BSD-3-Clause */
#include "contract_order.h"

#include <math.h>

/* The contract's numbers, written out here: a change in kernels/common/sgemm_args.h must fail a test. */
enum { CHUNK_K = 128, GROUP_K = 512 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* One chain of FMAs over the products of element (i, j) from `from` to `end`. */
static float chunk_sum(const struct tst_contract *p, int64_t i, int64_t j, int64_t from, int64_t end) {
  float sum = 0;
  for (int64_t l = from; l < end; l++)
    sum = fmaf(p->a[p->transpose_a ? l + i * p->lda : i + l * p->lda],
               p->b[p->transpose_b ? j + l * p->ldb : l + j * p->ldb], sum);
  return sum;
}

/* Of the chunks of `chunk_k` products, the last one shorter; backward: the last one first. */
static float group_sum(const struct tst_contract *p, int64_t i, int64_t j, int64_t from, int64_t end, int64_t chunk_k,
                       bool backward) {
  const int64_t chunks = (end - from + chunk_k - 1) / chunk_k;
  float sum = 0;
  for (int64_t c = 0; c < chunks; c++) {
    const int64_t l = from + (backward ? chunks - 1 - c : c) * chunk_k;
    const float chunk = chunk_sum(p, i, j, l, smaller(l + chunk_k, end));
    sum = c == 0 ? chunk : sum + chunk;
  }
  return sum;
}

/* How sums are added. */
struct order {
  int64_t group_k, chunk_k;
  bool d_behind, groups_backward, chunks_backward;
};

static void add_in_order(const struct tst_contract *p, const struct order *o, float *d) {
  const int64_t groups = (p->k + o->group_k - 1) / o->group_k;
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      float *at = &d[i + j * p->ldd], sum = p->first || o->d_behind ? 0 : *at;
      for (int64_t g = 0; g < groups; g++) {
        const int64_t l = (o->groups_backward ? groups - 1 - g : g) * o->group_k;
        sum += group_sum(p, i, j, l, smaller(l + o->group_k, p->k), o->chunk_k, o->chunks_backward);
      }
      if (o->d_behind && !p->first) sum += *at;
      *at = p->last ? p->alpha * sum : sum;
    }
}

static int64_t group_of(const struct tst_contract *p) { return p->group_k > 0 ? p->group_k : GROUP_K; }

void tst_contract_product(const struct tst_contract *p, float *d) {
  add_in_order(p, &(struct order){.group_k = group_of(p), .chunk_k = CHUNK_K}, d);
}

const char *const tst_wrong_order_name[TST_WRONG_ORDERS] = {"D behind", "groups backward", "chunks backward",
                                                            "long chains", "one group"};

void tst_contract_wrong_product(const struct tst_contract *p, enum tst_wrong_order wrong, float *d) {
  const struct order order = {.group_k = wrong == TST_ONE_GROUP ? p->k : group_of(p),
                              .chunk_k = wrong == TST_LONG_CHAINS ? group_of(p) : CHUNK_K,
                              .d_behind = wrong == TST_D_BEHIND,
                              .groups_backward = wrong == TST_GROUPS_BACKWARD,
                              .chunks_backward = wrong == TST_CHUNKS_BACKWARD};
  add_in_order(p, &order, d);
}
