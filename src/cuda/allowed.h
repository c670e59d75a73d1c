/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of a machine's GPUs a process may use, and in which order: by TILEBLAS_DEVICES, else by its rank among the MPI
 * processes of its node, each of which takes a GPU of its own, else all. Pure but for the environment.
 */
#ifndef TB_ALLOWED_H
#define TB_ALLOWED_H

/* Most GPUs that one process uses; what a machine has beyond them stays unused unless TILEBLAS_DEVICES names it. */
#define TB_GPUS_MAX 16

/* This process among those that an MPI launcher started on the same node. */
struct tb_local_rank {
  int rank;             /* from 0; -1: no launcher tells */
  const char *variable; /* the environment's, that tells; NULL: none does */
};

/* Looks into the environment by `get`, which is tb_environment or stands in for it. */
struct tb_local_rank tb_local_rank(char *(*get)(const char *name));

/*
 * The numbers of the GPUs that may be used, most preferred first, of a machine with `count` of them. `list` is
 * TILEBLAS_DEVICES: numbers separated by commas, of which those that do not exist are passed over, and read as far as
 * it is a list of numbers. If it is empty, rank `local_rank` takes the one GPU that is its rank modulo the count; with
 * a negative rank, all may be used. Returns how many there are; 0: the list names none.
 */
int tb_allowed(const char *list, int count, int local_rank, int ordinals[TB_GPUS_MAX]);

#endif
