/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the options as a Markdown table, from the rows of options.def. tools/options-table compiles and runs this.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options_internal.h"

static void print_choices(const char *choices) {
  for (const char *word = choices; *word;) {
    size_t length = strcspn(word, "|");
    printf("%s`%.*s`", word == choices ? "" : ", ", (int)length, word);
    word += length + (word[length] == '|');
  }
}

static void print_range(const struct tb_option_row *o) {
  if (o->max == INT64_MAX)
    printf("from %" PRId64, o->min);
  else
    printf("%" PRId64 " to %" PRId64, o->min, o->max);
  if (*o->unit) printf(" %s", o->unit);
  if (o->type == BYTES) printf("; `K`, `M`, `G` or `T` may follow the number");
}

static void print_values(const struct tb_option_row *o) {
  switch (o->type) {
    case CHOICE:
      print_choices(o->choices);
      break;
    case FLAG:
      printf("`0`, `1`");
      break;
    case INTEGER:
    case BYTES:
      print_choices(o->choices);
      if (*o->choices) printf(", or ");
      print_range(o);
      break;
    case TEXT:
      printf("%s", *o->unit ? o->unit : "text");
      break;
  }
}

int main(void) {
  printf("| variable | values | default | what it does |\n|---|---|---|---|\n");
  for (size_t i = 0; i < sizeof tb_option_rows / sizeof *tb_option_rows; i++) {
    const struct tb_option_row *o = &tb_option_rows[i];
    printf("| `%s` | ", o->name);
    print_values(o);
    printf(*o->standard ? " | `%s` | " : " | none%s | ", o->standard);
    /* A bare bar would end the table's cell. */
    for (const char *c = o->help; *c; c++) printf(*c == '|' ? "\\%c" : "%c", *c);
    printf(" |\n");
  }
  return 0;
}
