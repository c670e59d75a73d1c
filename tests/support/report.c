/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "report.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

static const char prefix[] = "tileblas: ";
enum { LINE = 4096 }; /* one line has all symbols */

/* The next line that starts with the prefix, its text behind the prefix copied into line[]; NULL at the end. */
static const char *next_line(const char *text, char line[LINE]) {
  while (*text) {
    size_t length = strcspn(text, "\n");
    const char *next = text + length + (text[length] == '\n');
    if (strncmp(text, prefix, strlen(prefix)) == 0) {
      snprintf(line, LINE, "%.*s", (int)(length - strlen(prefix)), text + strlen(prefix));
      return next;
    }
    text = next;
  }
  return NULL;
}

/* A row is "  route  why  calls  ...", its columns two or more blanks apart. */
static bool parse_row(char *line, char **route, char **why, unsigned long long *calls) {
  if (strncmp(line, "  ", 2) != 0) return false;
  *route = line + 2;
  char *gap = strstr(*route, "  ");
  if (!gap) return false;
  *gap = '\0';
  *why = gap + 2 + strspn(gap + 2, " ");
  gap = strstr(*why, "  ");
  if (!gap) return false;
  *gap = '\0';
  char *end;
  *calls = strtoull(gap + 2, &end, 10);
  return end != gap + 2;
}

unsigned long long tst_report_calls(const char *text, const char *route, const char *why) {
  unsigned long long sum = 0, calls;
  char line[LINE], *row_route, *row_why;
  while (text && (text = next_line(text, line)) != NULL)
    if (parse_row(line, &row_route, &row_why, &calls) && strcmp(row_route, route) == 0 &&
        (!why || strcmp(row_why, why) == 0))
      sum += calls;
  return sum;
}

unsigned long long tst_report_symbol(const char *text, const char *symbol) {
  unsigned long long sum = 0;
  char line[LINE], key[128];
  snprintf(key, sizeof key, " %s=", symbol);
  while (text && (text = next_line(text, line)) != NULL) {
    if (strncmp(line, "symbols ", 8) != 0) continue;
    const char *hit = strstr(line, key);
    if (hit) sum += strtoull(hit + strlen(key), NULL, 10);
  }
  return sum;
}

char *tst_report_read(void (*report)(int)) {
  const char *path = tst_temporary_file();
  FILE *file = fopen(path, "w");
  if (file == NULL) abort();
  report(fileno(file));
  fclose(file);
  return tst_read_file(path);
}
