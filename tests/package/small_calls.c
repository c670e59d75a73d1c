/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes argv[2] small calls of the kind argv[1], for small_calls.sh to count. Where the operands lie is part of a kind.
 */
#include <stdlib.h>
#include <string.h>

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
            const int *, const float *, const int *, const float *, float *, const int *);
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

enum { ROW_MAJOR = 101, COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112, SIDE_MAX = 64, ELEMS = SIDE_MAX * SIDE_MAX };

static float variables[3 * ELEMS];

/* SYMBOL LAYOUT TRANSPOSES PLACE SIDE, as in "c r NT heap 8": a letter each, but for the last two. */
struct kind {
  char symbol, layout, trans[2];
  const char *place;
  int side;
};

static void call(const struct kind *kind, float *x) {
  const float one = 1, zero = 0, *a = x, *b = x + ELEMS;
  float *c = x + 2 * ELEMS;
  const int n = kind->side;
  if (kind->symbol == 'f')
    sgemm_(&kind->trans[0], &kind->trans[1], &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
  else
    cblas_sgemm(kind->layout == 'r' ? ROW_MAJOR : COL_MAJOR, kind->trans[0] == 'N' ? NO_TRANS : TRANS,
                kind->trans[1] == 'N' ? NO_TRANS : TRANS, n, n, n, one, a, n, b, n, zero, c, n);
}

int main(int argc, char **argv) {
  if (argc != 7) return 2;
  const struct kind kind = {argv[1][0], argv[2][0], {argv[3][0], argv[3][1]}, argv[4], atoi(argv[5])};
  float on_stack[3 * ELEMS];
  float *x = strcmp(kind.place, "heap") == 0    ? malloc(sizeof variables)
             : strcmp(kind.place, "stack") == 0 ? on_stack
                                                : variables;
  if (x == NULL || kind.side < 1 || kind.side > SIDE_MAX) return 2;
  for (int i = 0; i < 3 * ELEMS; i++) x[i] = (float)(i % 7);
  for (long calls = atol(argv[6]); calls > 0; calls--) call(&kind, x);
  return 0;
}
