/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes argv[1] small calls of each kind that follows, for small_calls.sh to count: between the two calls of mark()
 * that belong to a kind, and after a few that are not counted. A kind is "SYMBOL LAYOUT TRANSPOSES PLACE SIDE", as in
 * "cblas_sgemm r NT heap 8"; where the operands lie is part of it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mark(void);
__attribute__((noinline)) void mark(void) { __asm__ volatile(""); }

enum {
  ROW_MAJOR = 101,
  COL_MAJOR = 102,
  NO_TRANS = 111,
  TRANS = 112,
  CONJ_TRANS = 113,
  UPPER = 121,
  UNIT = 132,
  LEFT = 141,
  SIDE_MAX = 64,
  ELEMS = SIDE_MAX * SIDE_MAX
};
enum { ELEM_BYTES_MAX = 2 * sizeof(double), NOT_COUNTED = 3 };

struct kind {
  char symbol[32], layout, trans[2], place[16];
  int side;
};

/* alpha and beta, and the operands one behind the other; as the type of the symbol has them. */
struct data {
  const void *alpha, *beta;
  const char *a, *b;
  char *c;
};

#define SYMBOLS(cblas, fortran)                                                                                   \
  cblas('s', float, OF_FLOAT, cblas_sgemm) cblas('d', double, OF_DOUBLE, cblas_dgemm)                             \
      cblas('c', const void *, BY_ADDRESS, cblas_cgemm) cblas('z', const void *, BY_ADDRESS, cblas_zgemm)         \
          cblas('c', const void *, BY_ADDRESS, cblas_cgemm3m) cblas('z', const void *, BY_ADDRESS, cblas_zgemm3m) \
              fortran('s', sgemm_) fortran('d', dgemm_) fortran('c', cgemm_) fortran('z', zgemm_)                 \
                  fortran('c', cgemm3m_) fortran('z', zgemm3m_)

/* A function for each symbol, so that what is counted is the same of all: one call, and no choice. */
#define OF_FLOAT(x) (*(const float *)(x))
#define OF_DOUBLE(x) (*(const double *)(x))
#define BY_ADDRESS(x) (x)
#define CALLS_CBLAS(type, scalar, scalar_of, symbol)                                                            \
  void symbol(int, int, int, int, int, int, scalar, const void *, int, const void *, int, scalar, void *, int); \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                       \
    const int layout = kind->layout == 'r' ? ROW_MAJOR : COL_MAJOR, n = kind->side;                             \
    const int ta = kind->trans[0] == 'N' ? NO_TRANS : TRANS, tb = kind->trans[1] == 'N' ? NO_TRANS : TRANS;     \
    for (; calls > 0; calls--)                                                                                  \
      symbol(layout, ta, tb, n, n, n, scalar_of(x->alpha), x->a, n, x->b, n, scalar_of(x->beta), x->c, n);      \
  }
#define CALLS_FORTRAN(type, symbol)                                                                          \
  void symbol(const char *, const char *, const int *, const int *, const int *, const void *, const void *, \
              const int *, const void *, const int *, const void *, void *, const int *);                    \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                    \
    const int n = kind->side;                                                                                \
    for (; calls > 0; calls--)                                                                               \
      symbol(&kind->trans[0], &kind->trans[1], &n, &n, &n, x->alpha, x->a, &n, x->b, &n, x->beta, x->c, &n); \
  }
SYMBOLS(CALLS_CBLAS, CALLS_FORTRAN)

/* Those of a triangle: the upper one; the transpose is the first. Not gemmt's: few BLAS have it. */
#define TRIANGLES(cblas, fortran)                                                              \
  cblas('d', double, OF_DOUBLE, cblas_dsyrk) cblas('c', const void *, BY_ADDRESS, cblas_csyrk) \
      cblas('c', float, OF_FLOAT, cblas_cherk) fortran('s', ssyrk_) fortran('z', zherk_)
#define CALLS_CBLAS_SYRK(type, scalar, scalar_of, symbol)                                            \
  void symbol(int, int, int, int, int, scalar, const void *, int, scalar, void *, int);              \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {            \
    const int layout = kind->layout == 'r' ? ROW_MAJOR : COL_MAJOR, n = kind->side;                  \
    const int trans = kind->trans[0] == 'N' ? NO_TRANS : kind->trans[0] == 'C' ? CONJ_TRANS : TRANS; \
    for (; calls > 0; calls--)                                                                       \
      symbol(layout, UPPER, trans, n, n, scalar_of(x->alpha), x->a, n, scalar_of(x->beta), x->c, n); \
  }
#define CALLS_FORTRAN_SYRK(type, symbol)                                                                     \
  void symbol(const char *, const char *, const int *, const int *, const void *, const void *, const int *, \
              const void *, void *, const int *);                                                            \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                    \
    const int n = kind->side;                                                                                \
    for (; calls > 0; calls--) symbol("U", &kind->trans[0], &n, &n, x->alpha, x->a, &n, x->beta, x->c, &n);  \
  }
TRIANGLES(CALLS_CBLAS_SYRK, CALLS_FORTRAN_SYRK)

#define SYR2K(cblas, fortran)                                \
  cblas('s', float, float, OF_FLOAT, OF_FLOAT, cblas_ssyr2k) \
      cblas('z', const void *, double, BY_ADDRESS, OF_DOUBLE, cblas_zher2k) fortran('d', dsyr2k_)
#define CALLS_CBLAS_SYR2K(type, scalar, real, scalar_of, real_of, symbol)                                   \
  void symbol(int, int, int, int, int, scalar, const void *, int, const void *, int, real, void *, int);    \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                   \
    const int layout = kind->layout == 'r' ? ROW_MAJOR : COL_MAJOR, n = kind->side;                         \
    const int trans = kind->trans[0] == 'N' ? NO_TRANS : kind->trans[0] == 'C' ? CONJ_TRANS : TRANS;        \
    for (; calls > 0; calls--)                                                                              \
      symbol(layout, UPPER, trans, n, n, scalar_of(x->alpha), x->a, n, x->b, n, real_of(x->beta), x->c, n); \
  }
#define CALLS_FORTRAN_SYR2K(type, symbol)                                                                             \
  void symbol(const char *, const char *, const int *, const int *, const void *, const void *, const int *,          \
              const void *, const int *, const void *, void *, const int *);                                          \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                             \
    const int n = kind->side;                                                                                         \
    for (; calls > 0; calls--) symbol("U", &kind->trans[0], &n, &n, x->alpha, x->a, &n, x->b, &n, x->beta, x->c, &n); \
  }
SYR2K(CALLS_CBLAS_SYR2K, CALLS_FORTRAN_SYR2K)
#define SYMM(cblas, fortran)                                                                                      \
  cblas('s', float, OF_FLOAT, cblas_ssymm) cblas('z', const void *, BY_ADDRESS, cblas_zhemm) fortran('d', dsymm_) \
      fortran('c', chemm_)
#define CALLS_CBLAS_SYMM(type, scalar, scalar_of, symbol)                                                    \
  void symbol(int, int, int, int, int, scalar, const void *, int, const void *, int, scalar, void *, int);   \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                    \
    const int layout = kind->layout == 'r' ? ROW_MAJOR : COL_MAJOR, n = kind->side;                          \
    for (; calls > 0; calls--)                                                                               \
      symbol(layout, LEFT, UPPER, n, n, scalar_of(x->alpha), x->a, n, x->b, n, scalar_of(x->beta), x->c, n); \
  }
#define CALLS_FORTRAN_SYMM(type, symbol)                                                                     \
  void symbol(const char *, const char *, const int *, const int *, const void *, const void *, const int *, \
              const void *, const int *, const void *, void *, const int *);                                 \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                    \
    const int n = kind->side;                                                                                \
    for (; calls > 0; calls--) symbol("R", "L", &n, &n, x->alpha, x->a, &n, x->b, &n, x->beta, x->c, &n);    \
  }
SYMM(CALLS_CBLAS_SYMM, CALLS_FORTRAN_SYMM)

#define TRMM(cblas, fortran)                                                                                        \
  cblas('d', double, OF_DOUBLE, cblas_dtrsm) cblas('c', const void *, BY_ADDRESS, cblas_ctrmm) fortran('s', strmm_) \
      fortran('z', ztrsm_)
#define CALLS_CBLAS_TRMM(type, scalar, scalar_of, symbol)                                                             \
  void symbol(int, int, int, int, int, int, int, scalar, const void *, int, void *, int);                             \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                             \
    const int layout = kind->layout == 'r' ? ROW_MAJOR : COL_MAJOR, n = kind->side;                                   \
    const int trans = kind->trans[0] == 'N' ? NO_TRANS : kind->trans[0] == 'C' ? CONJ_TRANS : TRANS;                  \
    for (; calls > 0; calls--) symbol(layout, LEFT, UPPER, trans, UNIT, n, n, scalar_of(x->alpha), x->a, n, x->c, n); \
  }
#define CALLS_FORTRAN_TRMM(type, symbol)                                                                      \
  void symbol(const char *, const char *, const char *, const char *, const int *, const int *, const void *, \
              const void *, const int *, void *, const int *);                                                \
  static void calls_##symbol(const struct kind *kind, const struct data *x, long calls) {                     \
    const int n = kind->side;                                                                                 \
    for (; calls > 0; calls--) symbol("R", "L", &kind->trans[0], "U", &n, &n, x->alpha, x->a, &n, x->c, &n);  \
  }
TRMM(CALLS_CBLAS_TRMM, CALLS_FORTRAN_TRMM)

#define ROW_CBLAS_SYR2K(type, scalar, real, scalar_of, real_of, symbol) {#symbol, type, calls_##symbol},

#define ROW_CBLAS(type, scalar, scalar_of, symbol) {#symbol, type, calls_##symbol},
#define ROW_FORTRAN(type, symbol) {#symbol, type, calls_##symbol},
static const struct {
  const char *symbol;
  char type;
  void (*calls)(const struct kind *, const struct data *, long);
} symbols[] = {SYMBOLS(ROW_CBLAS, ROW_FORTRAN) TRIANGLES(ROW_CBLAS, ROW_FORTRAN) SYR2K(ROW_CBLAS_SYR2K, ROW_FORTRAN)
                   SYMM(ROW_CBLAS, ROW_FORTRAN) TRMM(ROW_CBLAS, ROW_FORTRAN)};

static char variables[3 * ELEMS * ELEM_BYTES_MAX] __attribute__((aligned(16)));

static void count(const struct kind *kind, int symbol, long calls) {
  static const float floats[4] = {1};
  static const double doubles[4] = {1};
  const char type = symbols[symbol].type;
  const bool is_double = type == 'd' || type == 'z';
  const size_t parts = type == 'c' || type == 'z' ? 2 : 1;
  const size_t numbers = parts * (size_t)(kind->side * kind->side);
  const size_t bytes = numbers * (is_double ? sizeof(double) : sizeof(float));
  char on_stack[sizeof variables] __attribute__((aligned(16)));
  char *const x = strcmp(kind->place, "heap") == 0    ? malloc(3 * bytes)
                  : strcmp(kind->place, "stack") == 0 ? on_stack
                                                      : variables;
  if (x == NULL) exit(2);
  for (size_t i = 0; i < 3 * numbers; i++)
    if (is_double)
      ((double *)(void *)x)[i] = (double)(i % 7);
    else
      ((float *)(void *)x)[i] = (float)(i % 7);
  const struct data data = {is_double ? (const void *)doubles : floats,
                            is_double ? (const void *)(doubles + 2) : floats + 2, x, x + bytes, x + 2 * bytes};
  symbols[symbol].calls(kind, &data, NOT_COUNTED);
  mark();
  symbols[symbol].calls(kind, &data, calls);
  mark();
}

int main(int argc, char **argv) {
  for (int i = 2; i < argc; i++) {
    struct kind kind;
    int symbol = 0;
    if (sscanf(argv[i], "%31s %c %2c %15s %d", kind.symbol, &kind.layout, kind.trans, kind.place, &kind.side) != 5 ||
        kind.side < 1 || kind.side > SIDE_MAX)
      return 2;
    while (strcmp(symbols[symbol].symbol, kind.symbol) != 0)
      if (++symbol == sizeof symbols / sizeof *symbols) return 2;
    count(&kind, symbol, atol(argv[1]));
  }
  return argc > 2 ? 0 : 2;
}
