/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of src/base/options.def as an array, for what documents them: options_table.c and manual_page.c. */
#ifndef TB_OPTION_ROWS_H
#define TB_OPTION_ROWS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum type { CHOICE, FLAG, INTEGER, BYTES, TEXT };

struct option {
  const char *name;
  enum type type;
  const char *standard;
  int64_t min, max;
  const char *choices, *unit, *help;
};

#define TB_OPTION(id, name, type, standard, min, max, choices, unit, help) \
  {name, type, standard, min, max, choices, unit, help},
static const struct option options[] = {
#include "base/options.def"
};
enum { OPTION_COUNT = sizeof options / sizeof options[0] };

#endif
