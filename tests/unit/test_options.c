/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option parser: what each type takes and refuses, and that a refused value changes nothing; and who may say
 * anything at all.
 *
 * Seen to fail when: a suffix is shifted wrongly; a number too large wraps; the prefix of a word is taken for the word;
 * a word comes back as the number that it stands for; the environment counts for a program with more rights.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/options.h"
#include "base/options_internal.h"
#include "process.h"
#include "process/environment.h"
#include "tileblas.h"

/* `becomes`: what tb_option_get says afterwards; NULL: the value is refused. */
static const struct {
  const char *name, *value, *becomes;
} table[] = {
    {"TILEBLAS_ROUTE", "gpu", "gpu"},
    {"TILEBLAS_ROUTE", "CPU", "cpu"},
    {"TILEBLAS_ROUTE", "auto", "auto"},
    {"TILEBLAS_ROUTE", "gp", NULL},
    {"TILEBLAS_ROUTE", "gpus", NULL},
    {"TILEBLAS_ROUTE", "gpu|cpu", NULL},
    {"TILEBLAS_ROUTE", "|", NULL},
    {"TILEBLAS_ROUTE", "", NULL},
    {"TILEBLAS_ROUTE", " gpu", NULL},
    {"TILEBLAS_PRECISION", "ieee", "ieee"},
    {"TILEBLAS_PRECISION", "tf32", NULL},
    {"TILEBLAS_VERBOSE", "1", "1"},
    {"TILEBLAS_VERBOSE", "off", "0"},
    {"TILEBLAS_VERBOSE", "YES", "1"},
    {"TILEBLAS_VERBOSE", "False", "0"},
    {"TILEBLAS_VERBOSE", "2", NULL},
    {"TILEBLAS_VERBOSE", "", NULL},
    {"TILEBLAS_CACHE", "off", "off"},
    {"TILEBLAS_CACHE", "Auto", "auto"},
    {"TILEBLAS_CACHE", "0", "off"},
    {"TILEBLAS_CACHE", "1", "1"},
    {"TILEBLAS_CACHE", "-1", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "0", "0"},
    {"TILEBLAS_MEMORY_LIMIT", "12345", "12345"},
    {"TILEBLAS_MEMORY_LIMIT", "3K", "3072"},
    {"TILEBLAS_MEMORY_LIMIT", "3k", "3072"},
    {"TILEBLAS_MEMORY_LIMIT", "5MB", "5242880"},
    {"TILEBLAS_MEMORY_LIMIT", "2GiB", "2147483648"},
    {"TILEBLAS_MEMORY_LIMIT", "1T", "1099511627776"},
    {"TILEBLAS_MEMORY_LIMIT", "17B", "17"},
    {"TILEBLAS_MEMORY_LIMIT", "9223372036854775807", "9223372036854775807"},
    {"TILEBLAS_MEMORY_LIMIT", "8388607T", "9223370937343148032"},
    {"TILEBLAS_MEMORY_LIMIT", "9223372036854775808", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "8388608T", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "-1", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "-1K", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "K", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "1KK", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "1P", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "1.5G", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "1 G", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "0x10", NULL},
    {"TILEBLAS_MEMORY_LIMIT", "", NULL},
    {"TILEBLAS_FALLBACK", "/some/where.so", "/some/where.so"},
    {"TILEBLAS_FALLBACK", "", ""},
    {"TILEBLAS_DEVICES", "0,2", "0,2"},
    {"TILEBLAS_REPORT", "1", "1"},
    {"TILEBLAS_RUOTE", "gpu", NULL},
    {"TILEBLAS_", "1", NULL},
    {"ROUTE", "gpu", NULL},
    {"", "gpu", NULL},
};

static void set_and_get(void **state) {
  (void)state;
  char before[TB_OPTION_TEXT_MAX], after[TB_OPTION_TEXT_MAX];
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    bool known = tileblas_option_get(table[i].name, before, sizeof before) == 0;
    int taken = tileblas_option_set(table[i].name, table[i].value);
    if (taken != (table[i].becomes ? 0 : -1)) fail_msg("%s=%s gives %d", table[i].name, table[i].value, taken);
    if (!known) continue;
    assert_int_equal(tileblas_option_get(table[i].name, after, sizeof after), 0);
    const char *expected = table[i].becomes ? table[i].becomes : before;
    if (strcmp(after, expected) != 0) fail_msg("%s=%s becomes %s", table[i].name, table[i].value, after);
  }
}

/* ---- sizes ---- */

#define LIMIT "TILEBLAS_MEMORY_LIMIT"

/* n, up to 2^69, followed by a suffix of 2^shift bytes: taken exactly when all of it is at most 2^63 - 1, and then it
 * becomes that many bytes. */
/* Of every option every word, and what it is without being told. */
static void words_come_back(void **state) {
  (void)state;
  char text[TB_OPTION_TEXT_MAX], word[64];
  for (int i = 0; i < TB_OPTION_COUNT; i++) {
    const struct tb_option_row *const o = &tb_option_rows[i];
    for (const char *next = o->choices; *next != '\0'; next += strcspn(next, "|"), next += *next == '|') {
      snprintf(word, sizeof word, "%.*s", (int)strcspn(next, "|"), next);
      assert_int_equal(tb_option_set(o->name, word), 0);
      assert_int_equal(tb_option_get(o->name, text, sizeof text), 0);
      if (strcmp(text, word) != 0) fail_msg("%s: \"%s\" came back as \"%s\"", o->name, word, text);
    }
    assert_int_equal(tb_option_set(o->name, o->standard), 0);
    assert_int_equal(tb_option_get(o->name, text, sizeof text), 0);
    assert_string_equal(text, o->standard);
  }
}

static void check_size(unsigned __int128 n, const char *suffix, int shift) {
  char text[64], digits[48], before[TB_OPTION_TEXT_MAX], after[TB_OPTION_TEXT_MAX], *first = digits + sizeof digits - 1;
  *first = '\0';
  unsigned __int128 rest = n;
  do *--first = (char)('0' + (int)(rest % 10));
  while ((rest /= 10) != 0);
  snprintf(text, sizeof text, "%s%s", first, suffix);
  assert_int_equal(tileblas_option_get(LIMIT, before, sizeof before), 0);
  const bool fits = n << shift <= (unsigned __int128)INT64_MAX; /* 2^69 shifted by 40 stays below 2^128 */
  const int taken = tileblas_option_set(LIMIT, text);
  assert_int_equal(tileblas_option_get(LIMIT, after, sizeof after), 0);
  if (taken != (fits ? 0 : -1)) fail_msg("%s gives %d", text, taken);
  const char *expected = fits ? tst_format("%lld", (long long)(n << shift)) : before;
  if (strcmp(after, expected) != 0) fail_msg("%s becomes %s, not %s", text, after, expected);
}

/* Every suffix, around every power of two: what wraps, to a negative number or to one that looks right, is refused. */
static void sizes_around_powers_of_two(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int shift;
  } suffixes[] = {{"", 0},    {"B", 0},  {"K", 10},   {"k", 10},  {"KB", 10}, {"KiB", 10}, {"Ki", 10},
                  {"M", 20},  {"m", 20}, {"MiB", 20}, {"MB", 20}, {"G", 30},  {"g", 30},   {"GiB", 30},
                  {"GB", 30}, {"T", 40}, {"t", 40},   {"TB", 40}, {"TiB", 40}};
  for (size_t s = 0; s < sizeof suffixes / sizeof suffixes[0]; s++)
    for (int power = 0; power < 70; power++)
      for (int off = -2; off <= 2; off++) {
        const unsigned __int128 n = (unsigned __int128)1 << power;
        if (off < 0 && n < (unsigned)-off) continue;
        check_size(off < 0 ? n - (unsigned)-off : n + (unsigned)off, suffixes[s].text, suffixes[s].shift);
        check_size(3 * n + (unsigned)(off + 2), suffixes[s].text, suffixes[s].shift);
      }
  assert_int_equal(tileblas_option_set(LIMIT, "0"), 0);
}

static void null_and_short_buffers(void **state) {
  (void)state;
  char small[3] = "??";
  assert_int_equal(tileblas_option_set(NULL, "gpu"), -1);
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", NULL), -1);
  assert_int_equal(tileblas_option_get(NULL, small, sizeof small), -1);
  assert_int_equal(tileblas_option_get("TILEBLAS_ROUTE", NULL, 10), -1);
  assert_int_equal(tileblas_option_set("TILEBLAS_ROUTE", "gpu"), 0);
  assert_int_equal(tileblas_option_get("TILEBLAS_ROUTE", small, sizeof small), -1); /* no room for the zero */
  assert_string_equal(small, "??");
  char exact[4];
  assert_int_equal(tileblas_option_get("TILEBLAS_ROUTE", exact, sizeof exact), 0);
  assert_string_equal(exact, "gpu");
}

static void text_of_any_length(void **state) {
  (void)state;
  char text[TB_OPTION_TEXT_MAX + 1];
  memset(text, 'x', sizeof text);
  text[TB_OPTION_TEXT_MAX - 1] = '\0';
  assert_int_equal(tileblas_option_set("TILEBLAS_FALLBACK", text), 0);
  text[TB_OPTION_TEXT_MAX - 1] = 'x', text[TB_OPTION_TEXT_MAX] = '\0';
  assert_int_equal(tileblas_option_set("TILEBLAS_FALLBACK", text), -1);
}

/* A program's own setting wins over the environment. */
static int set_before_first_use(void) {
  char value[16];
  if (tileblas_option_set("TILEBLAS_ROUTE", "gpu") != 0) return 1;
  if (tileblas_option_get("TILEBLAS_ROUTE", value, sizeof value) != 0 || strcmp(value, "gpu") != 0) return 2;
  return tileblas_option_get("TILEBLAS_VERBOSE", value, sizeof value) == 0 && strcmp(value, "1") == 0 ? 0 : 3;
}

static void program_wins(void **state) {
  (void)state;
  struct tst_output o;
  const char *const command[] = {"/proc/self/exe", "set", NULL};
  const char *const environment[] = {"TILEBLAS_ROUTE=cpu", "TILEBLAS_VERBOSE=1", NULL};
  tst_run(&o, command, environment);
  assert_int_equal(o.status, 0);
  assert_string_equal(o.err, "");
  tst_output_destroy(&o);
}

/* ---- more rights than the caller has ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* In place of the C library's: a process that is started with this variable is one of such rights. */
static bool is_privileged(void) {
  static const char mark[] = "TST_PRIVILEGED=1";
  for (char **e = environ; *e != NULL; e++)
    if (strcmp(*e, mark) == 0) return true;
  return false;
}

unsigned long getauxval(unsigned long type) {
  unsigned long (*real)(unsigned long);
  *(void **)&real = dlsym(RTLD_NEXT, "getauxval");
  return type == AT_SECURE && is_privileged() ? 1 : real(type);
}

char *secure_getenv(const char *name) { return is_privileged() ? NULL : getenv(name); }
#endif

/* A program that runs with more rights than who starts it takes nothing at that one's word: neither options nor where
 * to write. */
static int what_is_heard(void) {
  char route[16], fallback[TB_OPTION_TEXT_MAX];
  tileblas_option_get("TILEBLAS_ROUTE", route, sizeof route);
  tileblas_option_get("TILEBLAS_FALLBACK", fallback, sizeof fallback);
  const char *const folder = tb_environment("XDG_CACHE_HOME");
  printf("%s,%s,%s", route, fallback, folder != NULL ? folder : "none");
  return 0;
}

static void nothing_is_heard_with_more_rights(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TST_LEAVE_OUT("rights: the sanitizer asks the same questions");
#endif
  for (int privileged = 0; privileged < 2; privileged++) {
    struct tst_output o;
    const char *const command[] = {"/proc/self/exe", "heard", NULL};
    const char *const environment[] = {"TILEBLAS_ROUTE=cpu", "TILEBLAS_FALLBACK=/tmp/mine.so",
                                       "XDG_CACHE_HOME=/tmp/mine", privileged ? "TST_PRIVILEGED=1" : NULL, NULL};
    tst_run(&o, command, environment);
    assert_int_equal(o.status, 0);
    assert_string_equal(o.out, privileged ? "auto,,none" : "cpu,/tmp/mine.so,/tmp/mine");
    assert_string_equal(o.err, "");
    tst_output_destroy(&o);
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "heard") == 0) return what_is_heard();
  if (argc == 2 && strcmp(argv[1], "set") == 0) return set_before_first_use();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(program_wins),
      cmocka_unit_test(set_and_get),
      cmocka_unit_test(words_come_back),
      cmocka_unit_test(sizes_around_powers_of_two),
      cmocka_unit_test(null_and_short_buffers),
      cmocka_unit_test(text_of_any_length),
      cmocka_unit_test(nothing_is_heard_with_more_rights),
  };
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
