/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* ---- the loops, for each element type ---- */

#define REAL float
#define COMPLEX 0
#define OF(name) s_##name
#include "cpu/reference_loops.h"

#define REAL double
#define COMPLEX 0
#define OF(name) d_##name
#include "cpu/reference_loops.h"

#define REAL float
#define COMPLEX 1
#define OF(name) c_##name
#include "cpu/reference_loops.h"

#define REAL double
#define COMPLEX 1
#define OF(name) z_##name
#include "cpu/reference_loops.h"

void tb_reference_gemm(const struct tb_call *call) {
  static void (*const loops[TB_TYPE_COUNT])(const struct tb_call *) = {s_gemm, d_gemm, c_gemm, z_gemm};
  loops[call->type](call);
}

void tb_reference_triangular(const struct tb_call *call) {
  static void (*const loops[TB_TYPE_COUNT])(const struct tb_call *) = {s_triangular, d_triangular, c_triangular,
                                                                       z_triangular};
  loops[call->type](call);
}

/* ---- the error report ---- */

/*
 * The program's own handlers, if it has any. A weak reference also makes the linker export a handler from a program
 * that is linked with us, so that the CPU BLAS behind us finds it as well.
 */
extern void xerbla_(const char *routine, const int *info, size_t length) __attribute__((weak));
extern void cblas_xerbla(int info, const char *routine, const char *format, ...) __attribute__((weak));

/* In Fortran's six letters "SGEMM "; a longer name, as "CGEMM3M", has none added. */
static void fortran_name_of(enum tb_symbol symbol, char *name, size_t size) {
  snprintf(name, size, "%-6s", tb_routine_of(symbol)->name);
  for (char *letter = name; *letter != '\0'; letter++) *letter = (char)toupper((unsigned char)*letter);
}

/* And "cblas_sgemm". */
static void name_of(enum tb_symbol symbol, char *name, size_t size) {
  if (tb_symbols[symbol].abi == TB_ABI_CBLAS)
    snprintf(name, size, "cblas_%s", tb_routine_of(symbol)->name);
  else
    fortran_name_of(symbol, name, size);
}

void tb_reference_xerbla(enum tb_symbol symbol, int number) {
  char name[24];
  const bool cblas = tb_symbols[symbol].abi == TB_ABI_CBLAS;
  name_of(symbol, name, sizeof name);
  if (cblas && cblas_xerbla != NULL)
    cblas_xerbla(number, name, "");
  else if (xerbla_ != NULL)
    xerbla_(name, &number, strlen(name));
  else
    tb_warn("On entry to %s parameter number %d had an illegal value", name, number);
}

void tb_reference_xerbla_batch(enum tb_symbol symbol, int number) {
  char name[24];
  fortran_name_of(symbol, name, sizeof name);
  if (xerbla_ != NULL)
    xerbla_(name, &number, strlen(name));
  else
    tb_warn("On entry to %s parameter number %d had an illegal value", name, number);
}
