/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random calls of all of level 3 but gemm, which fuzz_gemm has: gemmt, syrk, herk, syr2k, her2k, symm, hemm, trmm,
 * trsm, and batches, in all four types, by every symbol and option, with operands in every kind of memory. Every
 * element against sums that are better than the type's, or what is solved by its residual; every other byte as it was.
 * Arguments: program.h.
 *
 * Seen to fail when: complex elements on the GPU are read as a whole wherever they begin; a commit leaves out no row of
 * a column; syr2k takes beta twice; her2k's second product has a transpose; hemm reads the imaginary parts of its
 * diagonal; a leaf of trmm multiplies by the zeros beside its triangle; a strided batch has B's stride for A; ctrsm of
 * a row-major call loses the conjugate.
 */
#include <complex.h>
#include <stdio.h>

#include "level3.h"

/* A batch goes to the GPU when one of its products must, and to the CPU when one of them has nothing to do. */
static const char *wrong_route(const struct fuzz_level3 *call, const struct fuzz_asked *asked) {
  bool every = call->products > 0, some = false, device = false;
  for (int i = 0; i < call->products; i++) {
    const struct fuzz_product *const p = &call->product[i];
    every = every && fuzz_has_work(p);
    some = some || fuzz_has_work(p);
    for (int o = 0; o < 3; o++) device = device || (p->x[o].block && p->x[o].block->kind == FUZZ_DEVICE);
  }
  const char *const wrong = fuzz_wrong_route(asked, every, device);
  return wrong && fuzz_is_batch(call->shape) && (device || some) && asked->gpu + asked->cpu == 1 &&
                 asked->after.gpu_failures == asked->before.gpu_failures
             ? NULL
             : wrong;
}

static const char *describe(const struct fuzz_level3 *call) {
  static char text[400];
  const struct fuzz_product *const p = &call->product[0];
  int at = snprintf(text, sizeof text, "%s%s", call->name, call->row_major ? " row-major" : "");
  if (fuzz_is_batch(call->shape))
    at += snprintf(text + at, sizeof text - (size_t)at, ", %d products in %d groups, the first", call->products,
                   call->groups);
  if (fuzz_has_side(call->shape)) at += snprintf(text + at, sizeof text - (size_t)at, " side %c", call->side);
  if (call->shape < FUZZ_BATCH) at += snprintf(text + at, sizeof text - (size_t)at, " uplo %c", call->uplo);
  if (fuzz_is_triangular(call->shape)) at += snprintf(text + at, sizeof text - (size_t)at, " diag %c", call->diag);
  snprintf(text + at, sizeof text - (size_t)at,
           " trans %c%c m=%lld n=%lld k=%lld alpha=%g%+gi lda=%lld ldb=%lld beta=%g%+gi ldc=%lld", p->ta, p->tb,
           (long long)p->m, (long long)p->n, (long long)p->k, creal(p->alpha), cimag(p->alpha), (long long)p->x[0].ld,
           (long long)p->x[1].ld, creal(p->beta), cimag(p->beta), (long long)p->x[2].ld);
  return text;
}

static void one_call(struct fuzz_answer *answer, uint64_t *rng, const struct fuzz_limits *limits) {
  static struct fuzz_level3 call;
  static char operands[160];
  struct fuzz_asked asked;
  fuzz_level3_draw(&call, rng, limits);
  fuzz_level3_place(&call, rng);
  fuzz_begin(&asked, &call.options, rng);
  fuzz_level3_make(&call);
  fuzz_end(&asked);
  const enum fuzz_kind *const kind = call.kind[0];
  snprintf(operands, sizeof operands, "A %s, B %s, C %s, %s%s%s values", fuzz_kind_names[kind[0]],
           fuzz_kind_names[kind[1]], fuzz_kind_names[kind[2]], call.together ? "in one matrix, " : "",
           call.grows ? "growing " : "", fuzz_value_names[call.values]);
  *answer = (struct fuzz_answer){.kind = {kind[0], kind[1], kind[2]},
                                 .gpu = asked.gpu,
                                 .cpu = asked.cpu,
                                 .wrong = fuzz_level3_verify(&call, &asked),
                                 .call = describe(&call),
                                 .operands = operands,
                                 .options = &call.options};
  if (!answer->wrong) answer->wrong = wrong_route(&call, &asked);
}

int main(int argc, char **argv) {
  static const struct fuzz_program program = {.name = "fuzz_level3",
                                              .begin = fuzz_level3_begin,
                                              .call = one_call,
                                              .compared = fuzz_level3_compared,
                                              .drop = fuzz_level3_drop};
  return fuzz_main(argc, argv, &program);
}
