/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children for tests: another program with its own environment, or a function in a fork of this one; in both cases with
 * everything that the child prints. Call from one thread at a time.
 */
#ifndef TST_PROCESS_H
#define TST_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

struct tst_output {
  int status; /* exit status, or 128 + the signal that ended the child */
  char *out;  /* what it wrote to stdout and stderr, zero-terminated */
  char *err;
};

/* Runs argv (searched in PATH). `env` is a list, ended by NULL, of "NAME=value" to set and "NAME" to unset over this
 * process's environment; NULL changes nothing. The output is the caller's to tst_output_destroy. */
void tst_run(struct tst_output *o, const char *const *argv, const char *const *env);

/* Runs body(argument) in a forked child, whose exit status is the body's value. Destructors and atexit functions run.
 */
void tst_fork(struct tst_output *o, int (*body)(void *), void *argument);

void tst_output_destroy(struct tst_output *o);

/* Within a cmocka test: likewise, and the test fails, with what the child has printed, unless its status is 0. */
void tst_in_a_process(int (*body)(void *), void *argument, const char *what);

/* Lines of `text` that contain `part`. */
size_t tst_count_lines(const char *text, const char *part);

/* The number that stands behind `key` in `text`; 0: the key does not stand there. */
unsigned long long tst_number_after(const char *text, const char *key);

/* A new empty file for the test's use, removed at exit. The path is in static memory until the next call. */
const char *tst_temporary_file(void);

/* The file's text, zero-terminated, to be freed. Ends the test program when it cannot be read. */
char *tst_read_file(const char *path);

/* The environment variable that the build sets for tests (TB_TEST_...); ends the test program when it is missing. */
const char *tst_setting(const char *name);

/* A formatted text that lives as long as the process. */
const char *tst_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Within a cmocka test: leaves the rest of it out, and says why. The program's main must then return tst_result: ctest
 * counts a program that left something out as skipped, and as failed if it says so and claims to have passed. */
#define TST_LEAVE_OUT(...)         \
  do {                             \
    tst_say_left_out(__VA_ARGS__); \
    skip();                        \
  } while (0)
void tst_say_left_out(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* main's value: `failed`, what cmocka_run_group_tests returned, or 77 where that is 0 and something was left out. */
int tst_result(int failed);

/* As in a container: userfaultfd ends this process and all that it starts. The library finds the filter when it is
 * loaded; a kernel without filters makes this a skipped test. */
void tst_forbid_userfaultfd(void);

/* The same of ioctl, and of the calling thread, as one does that shuts itself in when all is set up. */
void tst_forbid_ioctl(void);

/* Prints why and exits with 77, which ctest counts as skipped. */
void tst_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
