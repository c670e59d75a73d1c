/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where figures are kept, which GPUs there are to be, and who among a node's processes this one is. */
static const char *const names[] = {"HOME",
                                    "XDG_CACHE_HOME",
                                    "CUDA_VISIBLE_DEVICES",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "MV2_COMM_WORLD_LOCAL_RANK",
                                    "MPI_LOCALRANKID",
                                    "SLURM_LOCALID"};
enum { NAMES = sizeof names / sizeof *names };

static char values[NAMES][TB_ENVIRONMENT_TEXT_MAX];
static bool is_set[NAMES];

void tb_environment_read(void) {
  for (int i = 0; i < NAMES; i++) {
    const char *value = secure_getenv(names[i]);
    is_set[i] = value != NULL && strlen(value) < TB_ENVIRONMENT_TEXT_MAX;
    if (is_set[i]) strcpy(values[i], value);
  }
}

char *tb_environment(const char *name) {
  for (int i = 0; i < NAMES; i++)
    if (strcmp(names[i], name) == 0) return is_set[i] ? values[i] : NULL;
  return NULL;
}
