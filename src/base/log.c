/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"

#define TB_LINE_MAX 1024

static _Thread_local bool writing;
static atomic_int warnings;

/* False: it is closed, full or beyond a limit, which is the program's business. */
static bool write_all(int fd, const char *text, size_t length) {
  while (length > 0) {
    ssize_t n = write(fd, text, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text += n;
    length -= (size_t)n;
  }
  return true;
}

/* To a pipe that nobody reads any more, or beyond the limit of a file's size, a write ends the process by a signal to
 * the thread. It waits instead, and is taken off again, unless one of the program's own was waiting before. */
static void write_quietly(int fd, const char *text, size_t length) {
  static const int endings[] = {SIGPIPE, SIGXFSZ};
  sigset_t set, before, waiting, came;
  sigemptyset(&set);
  for (int i = 0; i < 2; i++) sigaddset(&set, endings[i]);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  sigemptyset(&waiting);
  sigpending(&waiting);
  if (!write_all(fd, text, length)) {
    for (int i = 0; i < 2; i++) {
      sigemptyset(&came);
      sigaddset(&came, endings[i]);
      if (!sigismember(&waiting, endings[i])) sigtimedwait(&came, NULL, &(struct timespec){0});
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void print(int fd, const char *prefix, const char *format, va_list arguments) {
  if (writing) return;
  writing = true;
  int saved_errno = errno; /* BLAS calls do not change errno */
  struct tb_cancel cancel;
  tb_cancel_hold(&cancel); /* nor are they where a thread ends, locks in hand */
  char line[TB_LINE_MAX];
  int head = snprintf(line, sizeof line, "tileblas: %s", prefix);
  int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
  if (body < 0) body = 0;
  size_t length = strnlen(line, sizeof line - 1);
  line[length++] = '\n';
  write_quietly(fd, line, length);
  tb_cancel_release(&cancel);
  errno = saved_errno;
  writing = false;
}

void tb_say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print(STDERR_FILENO, "", format, arguments);
  va_end(arguments);
}

void tb_say_to(int fd, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print(fd, "", format, arguments);
  va_end(arguments);
}

void tb_warn(const char *format, ...) {
  int earlier = atomic_fetch_add(&warnings, 1);
  if (earlier >= TB_WARNINGS_MAX) return;
  va_list arguments;
  va_start(arguments, format);
  print(STDERR_FILENO, "warning: ", format, arguments);
  va_end(arguments);
  if (earlier == TB_WARNINGS_MAX - 1) tb_say("warning: no further warnings will be printed");
}
