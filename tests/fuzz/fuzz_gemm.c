/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random calls of gemm in all four types and gemm3m, by every symbol, option and size, with operands in ordinary
 * memory, fenced or not, and in pinned, registered, managed and device memory, in any mixture: every element against
 * sums that are better than the type's, every other byte as it was. Arguments: program.h.
 *
 * Seen to fail when: a pinned C is fetched with the tile's leading dimension; beta is 2 and the commit takes 1; copies
 * of device memory to the host ignore its leading dimension; the commit on the GPU leaves out beta; fp16 planes serve
 * two sides of 12-bit words; a conjugate transpose of B is a transpose; zgemm's commit takes beta's real part alone;
 * dgemm's alpha is rounded to a float; an element behind a complex C is written; a copy reads before an operand's first
 * element, or behind its last.
 */
#include <stdio.h>

#include "balanced.h"
#include "call.h"
#include "expected.h"
#include "product.h"
#include "program.h"

static const char *const layouts[FUZZ_LAYOUTS] = {"apart", "A over B", "one block", "submatrices"};

static const char *wrong_route(const struct fuzz_call *call, const struct fuzz_asked *asked) {
  const struct tst_problem *p = &call->p;
  bool device = false;
  for (int i = 0; i < 3; i++) device = device || call->kind[i] == FUZZ_DEVICE;
  return fuzz_wrong_route(asked, p->m > 0 && p->n > 0 && p->k > 0 && p->alpha != 0, device);
}

static void one_gemm(struct fuzz_answer *answer, uint64_t *rng, const struct fuzz_limits *limits) {
  static struct fuzz_call call;
  static char operands[160];
  struct fuzz_operands x;
  struct fuzz_asked asked;
  fuzz_draw(&call, rng, limits);
  fuzz_place(&x, &call, rng);
  fuzz_begin(&asked, &call.options, rng);
  tst_call_balanced(call.symbol, tst_resolve(call.symbol), &call.p, x.block[0]->memory + x.at[0],
                    x.block[1]->memory + x.at[1], x.block[2]->memory + x.at[2]);
  fuzz_end(&asked);
  snprintf(operands, sizeof operands, "A %s, B %s, C %s, %s, %s values", fuzz_kind_names[call.kind[0]],
           fuzz_kind_names[call.kind[1]], fuzz_kind_names[call.kind[2]], layouts[call.layout],
           fuzz_value_names[call.values]);
  *answer = (struct fuzz_answer){.kind = {call.kind[0], call.kind[1], call.kind[2]},
                                 .gpu = asked.gpu,
                                 .cpu = asked.cpu,
                                 .wrong = fuzz_verify(&call, &x, asked.precision, asked.cpu != 0),
                                 .call = tst_describe(call.symbol, &call.p),
                                 .operands = operands,
                                 .options = &call.options};
  if (!answer->wrong) answer->wrong = wrong_route(&call, &asked);
}

int main(int argc, char **argv) {
  static const struct fuzz_program program = {.name = "fuzz_gemm",
                                              .begin = fuzz_expected_begin,
                                              .call = one_gemm,
                                              .compared = fuzz_compared,
                                              .drop = fuzz_drop_blocks};
  return fuzz_main(argc, argv, &program);
}
