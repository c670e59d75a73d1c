/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/batch.h"

#include <stdlib.h>

#include "cpu/fallback_internal.h"
#include "cpu/reference.h"
#include "cpu/signatures.h"

/* Whether its integers are as wide as we think. A library that does not tell may have others under plain names than
 * these say, as the BLAS inside NumPy's wheels has; names that only such libraries have do not lie. */
static bool is_certain(const struct tb_target *t) {
  return tb_symbols[t->as].wide || t->behind.index_of_max != NULL || strncmp(tb_symbols[t->as].name, "scipy_", 6) == 0;
}

/* The function with groups that takes arrays such as the caller's; NULL: there is none. */
static void *groups_function(enum tb_symbol symbol, bool wide) {
  const struct tb_target *const t = tb_fallback_target(tb_batch_groups(symbol));
  if (t->behind.function == NULL || !tb_is_batch(tb_routine_of(t->as)->signature)) return NULL;
  return is_certain(t) && tb_symbols[t->as].abi == tb_symbols[symbol].abi && t->wide == wide ? t->behind.function
                                                                                             : NULL;
}

static void call_groups(void *function, enum tb_abi abi, const struct tb_batch_arguments *x) {
  if (abi == TB_ABI_CBLAS)
    ((tb_cblas_batch *)function)(x->layout, x->transa, x->transb, x->m, x->n, x->k, x->alpha, x->a, x->lda, x->b,
                                 x->ldb, x->beta, x->c, x->ldc, x->groups, x->group_size);
  else
    ((tb_fortran_batch *)function)(x->transa, x->transb, x->m, x->n, x->k, x->alpha, x->a, x->lda, x->b, x->ldb,
                                   x->beta, x->c, x->ldc, &x->groups, x->group_size, 1, 1);
}

static void call_counted(void *function, const struct tb_batch *batch, const struct tb_batch_arguments *x) {
  tb_thread.cpu_depth++;
  call_groups(function, tb_symbols[batch->symbol].abi, x);
  tb_thread.cpu_depth--;
}

/* A single group, as the program would have passed it. */
static bool call_strided(void *function, const struct tb_batch *batch) {
  struct tb_batch_arguments x = *batch->made;
  const size_t count = (size_t)batch->products;
  const void **const addresses = malloc(3 * count * sizeof *addresses);
  if (addresses == NULL) return false;
  for (int64_t i = 0; i < batch->products; i++) {
    addresses[i] = tb_elements_behind(batch->type, x.a, i * x.stride_a);
    addresses[count + (size_t)i] = tb_elements_behind(batch->type, x.b, i * x.stride_b);
    addresses[2 * count + (size_t)i] = tb_elements_behind(batch->type, x.c, i * x.stride_c);
  }
  x.a = addresses, x.b = addresses + count, x.c = addresses + 2 * count;
  call_counted(function, batch, &x);
  free(addresses);
  return true;
}

static bool call_as_batch(const struct tb_batch *batch) {
  void *const function = batch->plain ? groups_function(batch->symbol, batch->made->wide) : NULL;
  if (function == NULL) return false;
  if (batch->made->strided) return call_strided(function, batch);
  call_counted(function, batch, batch->made);
  return true;
}

void tb_fallback_batch(const struct tb_batch *batch) {
  struct tb_batch_cursor cursor;
  if (call_as_batch(batch)) return;
  tb_batch_begin(&cursor, batch);
  while (tb_batch_next(&cursor))
    if (cursor.call.m > 0 && cursor.call.n > 0) tb_fallback_compute(&cursor.call);
}

void tb_fallback_refuse_batch(enum tb_symbol symbol, int refused, const struct tb_batch_arguments *x) {
  void *const function = x->strided ? NULL : groups_function(symbol, x->wide);
  if (function != NULL)
    call_groups(function, tb_symbols[symbol].abi, x);
  else
    tb_reference_xerbla_batch(symbol, refused);
}
