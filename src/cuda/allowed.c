/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/allowed.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* The next number of a list such as "0,2", or INT_MAX for one that is larger; -1 at the list's end or where it is not a
 * list of numbers. */
static int next_number(const char **list) {
  while (**list == ',' || isspace((unsigned char)**list)) (*list)++;
  if (!isdigit((unsigned char)**list)) return -1;
  char *end;
  const long number = strtol(*list, &end, 10);
  *list = end;
  return number <= INT_MAX ? (int)number : INT_MAX;
}

/* A whole number and nothing else; -1: it is none. */
static int rank_of(const char *text) {
  const int rank = text != NULL ? next_number(&text) : -1;
  return rank >= 0 && *text == '\0' ? rank : -1;
}

struct tb_local_rank tb_local_rank(char *(*get)(const char *name)) {
  /* Open MPI; MVAPICH2; Intel MPI and MPICH's Hydra; Slurm's srun, last, because the others may run under it. */
  static const char *const variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                          "SLURM_LOCALID"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const int rank = rank_of(get(variables[i]));
    if (rank >= 0) return (struct tb_local_rank){rank, variables[i]};
  }
  return (struct tb_local_rank){-1, NULL};
}

static bool has(const int *numbers, int count, int number) {
  for (int i = 0; i < count; i++)
    if (numbers[i] == number) return true;
  return false;
}

int tb_allowed(const char *list, int count, int local_rank, int ordinals[TB_GPUS_MAX]) {
  int allowed = 0;
  if (list[0] == '\0' && local_rank >= 0 && count > 0) {
    ordinals[allowed++] = local_rank % count;
  } else if (list[0] == '\0') {
    while (allowed < count && allowed < TB_GPUS_MAX) ordinals[allowed] = allowed, allowed++;
  } else {
    for (int next; allowed < TB_GPUS_MAX && (next = next_number(&list)) >= 0;)
      if (next < count && !has(ordinals, allowed, next)) ordinals[allowed++] = next;
  }
  return allowed;
}
