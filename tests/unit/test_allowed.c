/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which GPUs a process may use: the list that a user wrote, MPI's rank on the node, or all.
 *
 * Seen to fail when: a GPU that does not exist is allowed; one that is named twice counts twice; a rank outlives a
 * list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "cuda/allowed.h"

static void lists(void **state) {
  (void)state;
  static const struct {
    const char *list;
    int count, rank;
    const char *allowed;
  } cases[] = {
      {"", 3, -1, "0 1 2 "},
      {"", 1, -1, "0 "},
      {"", 0, -1, ""},
      {"", 0, 3, ""},
      {"2", 3, -1, "2 "},
      {"2,0", 3, -1, "2 0 "},
      {" 1 , 2", 3, -1, "1 2 "},
      {"7,1", 3, -1, "1 "},
      {"1,1,0,1", 3, -1, "1 0 "},
      {"3", 3, -1, ""},
      {"none", 3, -1, ""},
      {"0,x,1", 3, -1, "0 "},
      {"-1", 3, -1, ""},
      {"99999999999", 3, -1, ""},
      {" ", 3, -1, ""},
      {"0 2", 3, -1, "0 2 "},
      {"", 4, 0, "0 "},
      {"", 4, 3, "3 "},
      {"", 4, 4, "0 "},
      {"", 4, 11, "3 "},
      {"2,0", 4, 1, "2 0 "}, /* who names GPUs means them */
      {"", 20, -1, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 "},
      {"19,18", 20, -1, "19 18 "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int ordinals[TB_GPUS_MAX];
    char text[128] = "";
    const int count = tb_allowed(cases[i].list, cases[i].count, cases[i].rank, ordinals);
    assert_in_range(count, 0, TB_GPUS_MAX);
    for (int j = 0; j < count; j++) sprintf(text + strlen(text), "%d ", ordinals[j]);
    if (strcmp(text, cases[i].allowed) != 0)
      fail_msg("list \"%s\", rank %d of %d GPUs: %s", cases[i].list, cases[i].rank, cases[i].count, text);
  }
}

static const char *const *environment; /* names and values in turn, ended by NULL */

static char *get(const char *name) {
  for (const char *const *e = environment; *e != NULL; e += 2)
    if (strcmp(e[0], name) == 0) return (char *)e[1];
  return NULL;
}

static void ranks(void **state) {
  (void)state;
  static const struct {
    const char *environment[5];
    int rank;
    const char *variable;
  } cases[] = {
      {{NULL}, -1, NULL},
      {{"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, 3, "OMPI_COMM_WORLD_LOCAL_RANK"},
      {{"MV2_COMM_WORLD_LOCAL_RANK", "0"}, 0, "MV2_COMM_WORLD_LOCAL_RANK"},
      {{"MPI_LOCALRANKID", "12"}, 12, "MPI_LOCALRANKID"},
      {{"SLURM_LOCALID", "1"}, 1, "SLURM_LOCALID"},
      {{"SLURM_LOCALID", "0", "OMPI_COMM_WORLD_LOCAL_RANK", "2"}, 2, "OMPI_COMM_WORLD_LOCAL_RANK"},
      {{"SLURM_LOCALID", ""}, -1, NULL},
      {{"SLURM_LOCALID", "-1"}, -1, NULL},
      {{"SLURM_LOCALID", "2x"}, -1, NULL},
      {{"OMPI_COMM_WORLD_LOCAL_RANK", "none", "SLURM_LOCALID", "1"}, 1, "SLURM_LOCALID"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    environment = cases[i].environment;
    const struct tb_local_rank found = tb_local_rank(get);
    assert_int_equal(found.rank, cases[i].rank);
    if (cases[i].variable)
      assert_string_equal(found.variable, cases[i].variable);
    else
      assert_null(found.variable);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lists), cmocka_unit_test(ranks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
