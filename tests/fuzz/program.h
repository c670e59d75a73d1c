/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz programs have in common:
 *
 *   PROGRAM [--calls N] [--seed S] [--seconds T] [--most MNK] [--own-memory] [--alone] [--keep-options]
 *
 * N calls (300) from seed S (1) on, or as many as T seconds allow; m n k is at most MNK, of complex numbers a fourth.
 * --own-memory: ordinary memory alone. --alone: each call in a process of its own, as the first that it makes. Options
 * are drawn for each call, but for those that the environment has; with --keep-options all stay as they are. A wrong
 * call is told with the command that repeats it alone. Last the calls by mixture of memory and by route. Status 1: an
 * answer was wrong. Not thread safe.
 */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#include "blocks.h"
#include "chance.h"
#include "tileblas.h"

/* Parts of elements that were compared, and those that were not. */
struct fuzz_compared {
  unsigned long long parts, overflowing;
};

/* What became of a call. */
struct fuzz_answer {
  enum fuzz_kind kind[3]; /* of A, B and C */
  unsigned long long gpu, cpu;
  const char *wrong; /* NULL: nothing; in static memory, as all of them */
  const char *call, *operands;
  const struct fuzz_options *options;
};

struct fuzz_program {
  const char *name;
  void (*begin)(void);
  void (*call)(struct fuzz_answer *answer, uint64_t *rng, const struct fuzz_limits *limits);
  struct fuzz_compared (*compared)(void);
  void (*drop)(void); /* gives all memory back */
};

int fuzz_main(int argc, char **argv, const struct fuzz_program *program);

/* Around the call itself: sets the options and the fake driver's order, and asks what is in force and who answers. */
struct fuzz_asked {
  bool gpu_expected;
  char route[16], precision[16];
  tileblas_stats before, after;
  unsigned long long gpu, cpu;
};
void fuzz_begin(struct fuzz_asked *asked, const struct fuzz_options *options, uint64_t *rng);
void fuzz_end(struct fuzz_asked *asked);

/* Who must have answered, as options and memory have it; NULL: so it was. work: there is something to multiply; device:
 * an operand is out of the CPU's reach. */
const char *fuzz_wrong_route(const struct fuzz_asked *asked, bool work, bool device);

extern const char *const fuzz_kind_names[FUZZ_KINDS];

#endif
