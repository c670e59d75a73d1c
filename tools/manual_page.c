/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints tileblas(7). The options are the rows of src/base/options.def, the version is tileblas.h's; the rest stands
 * here.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/options_internal.h"
#include "tileblas.h"

/* Text as roff wants it: a backslash, a hyphen, and a dot or an apostrophe that would begin a request. */
static void print_text(const char *text) {
  for (const char *c = text; *c; c++) {
    if (*c == '\\')
      printf("\\e");
    else if (*c == '-')
      printf("\\-");
    else if (c == text && (*c == '.' || *c == '\''))
      printf("\\&%c", *c);
    else
      putchar(*c);
  }
}

static void print_values(const struct tb_option_row *o) {
  switch (o->type) {
    case CHOICE:
      for (const char *c = o->choices; *c; c++) printf(*c == '|' ? ", " : "%c", *c);
      break;
    case FLAG:
      printf("0, 1");
      break;
    case BYTES:
      for (const char *c = o->choices; *c; c++) printf(*c == '|' ? ", " : "%c", *c);
      if (*o->choices) printf(", or ");
      /* fall through */
    case INTEGER:
      printf("from %" PRId64, o->min);
      if (o->max != INT64_MAX) printf(" to %" PRId64, o->max);
      if (*o->unit) printf(" %s", o->unit);
      if (o->type == BYTES) printf("; K, M, G or T may follow the number");
      break;
    case TEXT:
      print_text(*o->unit ? o->unit : "text");
      break;
  }
}

static void print_option(const struct tb_option_row *o) {
  printf(".TP\n.B %s\n", o->name);
  print_text(o->help);
  printf(".\n.br\nValues: ");
  print_values(o);
  printf(".\nDefault: ");
  print_text(*o->standard ? o->standard : "none");
  printf(".\n");
}

static const char before[] =
    ".SH NAME\n"
    "tileblas \\- GPU level\\-3 BLAS for programs that know only the CPU BLAS\n"
    ".SH SYNOPSIS\n"
    ".nf\n"
    "\\fBLD_PRELOAD=libtileblas.so.0\\fR \\fIprogram\\fR\n"
    "\\fBcc\\fR \\fIprogram.c\\fR \\fB\\-ltileblas\\fR\n"
    ".fi\n"
    ".SH DESCRIPTION\n"
    "TileBLAS answers\n"
    "all routines of level 3, gemmt, gemm3m and batches of gemm, in single and double precision, real and complex,\n"
    "by their CBLAS and Fortran names, those for 64\\-bit integers and those of the wheels of NumPy and SciPy.\n"
    "A call that a GPU finishes sooner is computed there.\n"
    "The CPU BLAS that the program would have used anyway answers all others.\n"
    "The program needs no change, and nothing needs configuring.\n"
    ".PP\n"
    "To see that it engaged, set\n"
    ".BR TILEBLAS_REPORT=1 .\n"
    ".SH ENVIRONMENT\n"
    "The environment is read once, when the library is loaded.\n"
    "A value that is not one of those listed warns once on the standard error, and the default is used instead.\n"
    "A program sets the same options with\n"
    ".BR tileblas_option_set .\n";

static const char after[] = ".SH FILES\n"
                            ".TP\n"
                            ".I ~/.cache/tileblas\n"
                            "Measurements of this machine, kept for later processes. Safe to delete.\n"
                            ".B XDG_CACHE_HOME\n"
                            "moves it.\n"
                            ".TP\n"
                            ".I tileblas.h\n"
                            "The functions for a program that wants to look and steer.\n"
                            ".SH NOTES\n"
                            "What the library does in a process, and what it promises there, is in\n"
                            ".IR docs/guest.md ,\n"
                            "what may change between versions in\n"
                            ".IR docs/abi.md .\n"
                            ".SH SEE ALSO\n"
                            ".BR ld.so (8),\n"
                            ".BR pkg\\-config (1)\n";

int main(void) {
  printf(".\\\" SPDX-License-Identifier: BSD-3-Clause\n.\\\" Made from src/base/options.def by tools/manual_page.c.\n");
  printf(".TH TILEBLAS 7 \"\" \"TileBLAS %s\" \"TileBLAS\"\n%s", TILEBLAS_VERSION_STRING, before);
  for (size_t i = 0; i < sizeof tb_option_rows / sizeof *tb_option_rows; i++) print_option(&tb_option_rows[i]);
  printf("%s", after);
  return ferror(stdout) != 0;
}
