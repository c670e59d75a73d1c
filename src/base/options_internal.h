/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of options.def as an array: for the parser (options.c), and for what documents them (tools/). */
#ifndef TB_OPTIONS_INTERNAL_H
#define TB_OPTIONS_INTERNAL_H

#include <stdint.h>

enum tb_option_type { CHOICE, FLAG, INTEGER, BYTES, TEXT };

struct tb_option_row {
  const char *name;
  enum tb_option_type type;
  const char *standard; /* the default, as text */
  int64_t min, max;
  const char *choices; /* "a|b|c" */
  const char *unit, *help;
};

static const struct tb_option_row tb_option_rows[] = {
#define TB_OPTION(id, name, type, standard, min, max, choices, unit, help) \
  {name, type, standard, min, max, choices, unit, help},
#include "base/options.def"
#undef TB_OPTION
};

#endif
