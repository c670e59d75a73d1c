/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

static void die(const char *what) {
  perror(what);
  abort();
}

struct text {
  char *data;
  size_t length;
};

/* Appends what the descriptor has. False at its end. */
static bool take(int fd, struct text *t) {
  t->data = realloc(t->data, t->length + 4096 + 1);
  if (!t->data) die("realloc");
  ssize_t n = read(fd, t->data + t->length, 4096);
  if (n < 0 && errno == EINTR) return true;
  if (n > 0) t->length += (size_t)n;
  t->data[t->length] = '\0';
  return n > 0;
}

/* Reads both pipes until both end: reading one after the other would hang a child that fills the other. */
static void collect(struct tst_output *o, int out, int err) {
  struct text texts[2] = {{NULL, 0}, {NULL, 0}};
  struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) die("poll");
    for (int i = 0; i < 2; i++) {
      if (fds[i].fd >= 0 && fds[i].revents != 0 && !take(fds[i].fd, &texts[i])) {
        close(fds[i].fd);
        fds[i].fd = -1;
      }
    }
  }
  o->out = texts[0].data;
  o->err = texts[1].data;
}

static void start(struct tst_output *o, int (*body)(void *), void *argument) {
  int out[2], err[2], status;
  if (pipe(out) != 0 || pipe(err) != 0) die("pipe");
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    close(out[0]), close(out[1]), close(err[0]), close(err[1]);
    exit(body(argument));
  }
  close(out[1]), close(err[1]);
  collect(o, out[0], err[0]);
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) die("waitpid");
  o->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void tst_fork(struct tst_output *o, int (*body)(void *), void *argument) { start(o, body, argument); }

struct command {
  const char *const *argv, *const *env;
};

static int run_command(void *argument) {
  const struct command *c = argument;
  for (const char *const *e = c->env; e && *e; e++) {
    const char *equals = strchr(*e, '=');
    if (equals) {
      char *name = strndup(*e, (size_t)(equals - *e));
      setenv(name, equals + 1, 1);
      free(name);
    } else {
      unsetenv(*e);
    }
  }
  execvp(c->argv[0], (char *const *)c->argv);
  perror(c->argv[0]);
  _exit(127);
}

void tst_run(struct tst_output *o, const char *const *argv, const char *const *env) {
  struct command c = {argv, env};
  start(o, run_command, &c);
}

void tst_output_destroy(struct tst_output *o) {
  free(o->out);
  free(o->err);
}

void tst_in_a_process(int (*body)(void *), void *argument, const char *what) {
  struct tst_output o;
  tst_fork(&o, body, argument);
  const int status = o.status;
  if (status != 0) print_error("%s: status %d\n%s%s", what, status, o.out, o.err);
  tst_output_destroy(&o); /* what leaks here is reported again by each process that is forked later */
  assert_int_equal(status, 0);
}

size_t tst_count_lines(const char *text, const char *part) {
  size_t count = 0;
  for (const char *hit = strstr(text, part); hit; hit = strstr(hit, part)) {
    count++;
    hit += strcspn(hit, "\n");
    if (*hit) hit++;
  }
  return count;
}

static char temporary[64];
static pid_t temporary_owner;

/* A forked child inherits the handler, but the file is its parent's. */
static void remove_temporary(void) {
  if (getpid() == temporary_owner) unlink(temporary);
}

unsigned long long tst_number_after(const char *text, const char *key) {
  const char *hit = strstr(text, key);
  return hit ? strtoull(hit + strlen(key), NULL, 10) : 0;
}

const char *tst_temporary_file(void) {
  if (temporary[0])
    remove_temporary();
  else
    atexit(remove_temporary);
  temporary_owner = getpid();
  strcpy(temporary, "/tmp/tileblas-test-XXXXXX");
  int fd = mkstemp(temporary);
  if (fd < 0) die("mkstemp");
  close(fd);
  return temporary;
}

char *tst_read_file(const char *path) {
  struct text t = {NULL, 0};
  FILE *file = fopen(path, "r");
  if (!file) die(path);
  while (take(fileno(file), &t)) {
  }
  fclose(file);
  return t.data;
}

const char *tst_setting(const char *name) {
  const char *value = getenv(name);
  if (!value) {
    fprintf(stderr, "%s is not set; run this test through ctest\n", name);
    exit(1);
  }
  return value;
}

/* In a list, so that a leak check finds them. */
struct formatted {
  struct formatted *next;
  char *text;
};

const char *tst_format(const char *format, ...) {
  static struct formatted *all;
  struct formatted *entry = malloc(sizeof *entry);
  va_list arguments;
  va_start(arguments, format);
  if (!entry || vasprintf(&entry->text, format, arguments) < 0) die("tst_format");
  va_end(arguments);
  entry->next = all;
  all = entry;
  return entry->text;
}

static bool left_out;

void tst_say_left_out(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("left out: ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  left_out = true;
}

int tst_result(int failed) { return failed ? failed : left_out ? 77 : 0; }

void tst_skip(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("skipped: ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  exit(77);
}

static void forbid(unsigned number) {
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) tst_skip("the kernel filters no system calls");
}

void tst_forbid_userfaultfd(void) { forbid(SYS_userfaultfd); }

void tst_forbid_ioctl(void) { forbid(SYS_ioctl); }
