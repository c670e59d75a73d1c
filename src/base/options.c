/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/options.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

#include "base/log.h"
#include "base/options_internal.h"

extern char **environ;

atomic_llong tb_option_numbers[TB_OPTION_COUNT];
static char texts[TB_OPTION_COUNT][TB_OPTION_TEXT_MAX];
static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;

/* *number is the word's place among the others, from 0 on. */
static bool parse_choice(const struct tb_option_row *o, const char *value, long long *number) {
  size_t length = strlen(value);
  const char *word = o->choices;
  for (long long index = 0; word != NULL && length > 0; index++) {
    size_t word_length = strcspn(word, "|");
    if (word_length == length && strncasecmp(word, value, length) == 0) {
      *number = index;
      return true;
    }
    word = word[word_length] == '|' ? word + word_length + 1 : NULL;
  }
  return false;
}

static long long count_choices(const char *choices) {
  long long count = choices[0] != '\0';
  for (const char *c = choices; *c != '\0'; c++) count += *c == '|';
  return count;
}

/* In a number's place: the last of its words stands for 0, the one before for -1. */
static bool parse_word(const struct tb_option_row *o, const char *value, long long *number) {
  if (!parse_choice(o, value, number)) return false;
  *number -= count_choices(o->choices) - 1;
  return true;
}

static bool parse_flag(const char *value, long long *number) {
  static const char *const no[] = {"0", "no", "off", "false"}, *const yes[] = {"1", "yes", "on", "true"};
  for (int i = 0; i < 4; i++) {
    if (strcasecmp(value, no[i]) == 0 || strcasecmp(value, yes[i]) == 0) {
      *number = strcasecmp(value, yes[i]) == 0;
      return true;
    }
  }
  return false;
}

/* A decimal number; for BYTES with an optional K, M, G or T (powers of 1024), an optional i and an optional B behind
 * it. */
static bool parse_integer(const struct tb_option_row *o, const char *value, long long *number) {
  char *end;
  errno = 0;
  long long n = strtoll(value, &end, 10);
  if (end == value || errno == ERANGE) return false;
  if (o->type == BYTES && *end != '\0') {
    static const char suffix[] = "KMGT";
    const char *s = strchr(suffix, *end >= 'a' ? *end - 'a' + 'A' : *end);
    int shift = s ? 10 * (int)(s - suffix + 1) : 0;
    if (s) end++;
    if (s && *end == 'i') end++;
    if (*end == 'B') end++;
    if (n < 0 || n > (INT64_MAX >> shift)) return false;
    n <<= shift;
  }
  if (*end != '\0' || n < o->min || n > o->max) return false;
  *number = n;
  return true;
}

/* Stores a value. Returns false, and changes nothing, when it is not one of the option. */
static bool store(int index, const char *value) {
  const struct tb_option_row *o = &tb_option_rows[index];
  long long number = 0;
  switch (o->type) {
    case CHOICE:
      if (!parse_choice(o, value, &number)) return false;
      break;
    case FLAG:
      if (!parse_flag(value, &number)) return false;
      break;
    case INTEGER:
    case BYTES:
      if (!parse_word(o, value, &number) && !parse_integer(o, value, &number)) return false;
      break;
    case TEXT:
      if (strlen(value) >= TB_OPTION_TEXT_MAX) return false;
      strcpy(texts[index], value);
      number = value[0] != '\0';
      break;
  }
  atomic_store_explicit(&tb_option_numbers[index], number, memory_order_relaxed);
  return true;
}

/* What a value may be, for the warning. */
static void describe_values(const struct tb_option_row *o, char *out, size_t size) {
  switch (o->type) {
    case CHOICE:
      snprintf(out, size, "%s", o->choices);
      break;
    case FLAG:
      snprintf(out, size, "0|1");
      break;
    case INTEGER:
      snprintf(out, size, "%lld to %lld", (long long)o->min, (long long)o->max);
      break;
    case BYTES:
      snprintf(out, size, "%s%sa number of bytes, or one with K, M, G or T", o->choices, *o->choices ? "|" : "");
      break;
    case TEXT:
      snprintf(out, size, "text of less than %d bytes", TB_OPTION_TEXT_MAX);
      break;
  }
}

static int find_option(const char *name, size_t length) {
  for (int i = 0; i < TB_OPTION_COUNT; i++)
    if (strlen(tb_option_rows[i].name) == length && memcmp(tb_option_rows[i].name, name, length) == 0) return i;
  return -1;
}

/* What environment modules set for a package of this name, beside its options. */
static const char *const modules[] = {"ROOT", "DIR", "HOME", "VERSION", "PREFIX", "BASE", "LIB", "INC", "BIN"};

#define OPTION_PREFIX "TILEBLAS_"

static bool is_of_modules(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (length == strlen(OPTION_PREFIX) + strlen(modules[i]) &&
        memcmp(name + strlen(OPTION_PREFIX), modules[i], strlen(modules[i])) == 0)
      return true;
  return false;
}

/* Variables to be complained of, as they stood in the environment: when the first call comes, for most processes into
 * which the library is loaded make none. */
#define COMPLAINT_MAX 256
static char complaints[TB_WARNINGS_MAX][COMPLAINT_MAX];
static int complaint_count;

static void load_variable(const char *variable) {
  const size_t length = strcspn(variable, "=");
  const char *value = variable[length] == '=' ? variable + length + 1 : "";
  const int index = find_option(variable, length);
  if (index < 0 ? is_of_modules(variable, length) : value[0] == '\0' || store(index, value)) return;
  if (complaint_count < TB_WARNINGS_MAX) snprintf(complaints[complaint_count++], COMPLAINT_MAX, "%s", variable);
}

static void complain(const char *variable) {
  const size_t length = strcspn(variable, "=");
  const int index = find_option(variable, length);
  if (index < 0) {
    tb_warn("%.*s is no option of TileBLAS; tileblas(7) and docs/options.md list them", (int)length, variable);
  } else {
    char allowed[128];
    describe_values(&tb_option_rows[index], allowed, sizeof allowed);
    tb_warn("%s=%.200s is not one of: %s; using \"%s\"", tb_option_rows[index].name, variable + length + 1, allowed,
            tb_option_rows[index].standard);
  }
}

void tb_options_complain(void) {
  for (int i = 0; i < complaint_count; i++) complain(complaints[i]);
  complaint_count = 0;
}

void tb_options_load(void) {
  pthread_mutex_lock(&texts_lock);
  complaint_count = 0;
  for (int i = 0; i < TB_OPTION_COUNT; i++) store(i, tb_option_rows[i].standard);
  /* A program that runs with more rights than its caller takes no libraries and writes no files at the caller's word.
   */
  char **variables = getauxval(AT_SECURE) ? NULL : environ;
  for (char **e = variables; e != NULL && *e != NULL; e++)
    if (strncmp(*e, OPTION_PREFIX, strlen(OPTION_PREFIX)) == 0) load_variable(*e);
  pthread_mutex_unlock(&texts_lock);
}

void tb_options_after_fork(void) { pthread_mutex_init(&texts_lock, NULL); }

void tb_option_text(enum tb_option option, char text[TB_OPTION_TEXT_MAX]) {
  pthread_mutex_lock(&texts_lock);
  memcpy(text, texts[option], TB_OPTION_TEXT_MAX);
  pthread_mutex_unlock(&texts_lock);
}

int tb_option_set(const char *name, const char *value) {
  int index = name && value ? find_option(name, strlen(name)) : -1;
  if (index < 0) return -1;
  pthread_mutex_lock(&texts_lock);
  bool stored = store(index, value);
  pthread_mutex_unlock(&texts_lock);
  return stored ? 0 : -1;
}

static void print_choice(const struct tb_option_row *o, long long number, char *out, size_t size) {
  const char *word = o->choices;
  for (long long i = 0; i < number; i++) word += strcspn(word, "|") + 1;
  snprintf(out, size, "%.*s", (int)strcspn(word, "|"), word);
}

int tb_option_get(const char *name, char *buffer, size_t size) {
  int index = name && buffer ? find_option(name, strlen(name)) : -1;
  if (index < 0) return -1;
  const struct tb_option_row *o = &tb_option_rows[index];
  char value[TB_OPTION_TEXT_MAX];
  long long number = tb_option_number((enum tb_option)index);
  if (o->type == TEXT) {
    tb_option_text((enum tb_option)index, value);
  } else if (o->type == CHOICE) {
    print_choice(o, number, value, sizeof value);
  } else if (*o->choices && number <= 0) {
    print_choice(o, number + count_choices(o->choices) - 1, value, sizeof value);
  } else {
    snprintf(value, sizeof value, "%lld", number);
  }
  if (strlen(value) >= size) return -1;
  strcpy(buffer, value);
  return 0;
}
