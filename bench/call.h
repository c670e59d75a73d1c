/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One product timed end to end the same way for everybody: plain malloc'd random operands in, the finished C out.
 *
 * The programs that use it (e2e.c, peers/copy_cublas.c, peers/cublasxt.c) differ in what makes the call, never in what
 * is timed, checked or written down. A wrong result is reported and never enters the CSV. Not thread-safe.
 */
#ifndef TB_BENCH_CALL_H
#define TB_BENCH_CALL_H

#include "problem.h"

/* The memory of C at a call: what an earlier call wrote to; or had of malloc for this one, without a page yet, in huge
 * pages if the system has such for who asks, as NumPy does. */
enum tb_c_memory { TB_C_WARM, TB_C_FRESH, TB_C_HUGE };

struct tb_call {
  /* Computes a product of the call's type; returns when C is complete in host memory. */
  void (*gemm)(const struct tb_call *call, const struct tb_problem *problem);
  enum tb_type type;
  void *ctx;
  const char *label;  /* who is measured, with which setting */
  const char *symbol; /* what was called */
  const char *owner;  /* the library that it belongs to */
  const char *csv;    /* appended to; NULL: none */
  enum tb_c_memory c_memory;
  double budget_s; /* seconds to spend on repetitions; at least two are made */
  int first_calls; /* so many before them, one right behind another, each of whose times is printed; 0: one */
  int ta, tb;
};

/* The defaults, then the common options: --label --csv --budget --ta --tb --c --first, and either --setting N and
 * --type, where the program passes a place for the setting, or --symbol. Returns the index of the first SIZE; exits
 * with 2 and a usage text when it makes no sense. */
int tb_call_parse(struct tb_call *call, int argc, char **argv, int *setting);

/*
 * Measures one size ("n" or "MxNxK"), prints a line and appends it to the CSV. One first call, or several (--first),
 * then repetitions into a C filled with NaN. Returns 1, or 0 after a message when the result was wrong.
 */
int tb_call_run(const struct tb_call *call, const char *size);

#endif
