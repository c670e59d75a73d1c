/* SPDX-License-Identifier: BSD-3-Clause */
/* What batch_blas.c was called with. For one thread. */
#ifndef TST_BATCH_BLAS_H
#define TST_BATCH_BLAS_H

struct batch_blas {
  int batches, products_alone;  /* calls */
  int layout, groups, products; /* of the latest batch; the first group's */
  const void *m;                /* its array */
  const void *last[3];          /* the first group's last A, B and C */
  void *nested;                 /* a cblas_sgemm_batch that the next batch calls before it returns; NULL: none */
};

#endif
