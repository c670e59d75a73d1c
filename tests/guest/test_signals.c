/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ends processes does not end one for our sake: a line to a pipe that nobody reads, or beyond the limit of a
 * file's size, and a filter that kills who opens a file or a socket. The program's own signals stay its own.
 *
 * Seen to fail when: SIGPIPE and SIGXFSZ are not held; those of the program are taken off, too; files are opened
 * under a filter.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"
#include "process.h"
#include "tileblas.h"

/* ---- writing ---- */

static bool is_pending(int number) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, number) == 1;
}

/* Each call is a line, and the report at exit some more. */
static int closed_pipe(void) {
  int ends[2];
  if (pipe(ends) != 0) return 2;
  dup2(ends[1], STDERR_FILENO);
  close(ends[0]);
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  tileblas_option_set("TILEBLAS_REPORT", "1");
  return tst_guest_product(8) && tst_guest_product(200) && !is_pending(SIGPIPE) ? 0 : 3;
}

/* One of the program's waits, and goes on waiting. */
static int own_signal(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  sigprocmask(SIG_BLOCK, &set, NULL);
  pthread_kill(pthread_self(), SIGPIPE);
  const int status = closed_pipe();
  return status == 3 && is_pending(SIGPIPE) ? 0 : 4;
}

/* A library that counts its lines writes the counts at exit: it has the limit back by then, and the report fits. */
static void end_limit(const struct rlimit *before) {
  if (strcmp(tst_setting("TB_TEST_COUNTS"), "ON") == 0) setrlimit(RLIMIT_FSIZE, before);
}

static int limited_file(void) {
  struct rlimit before, limit;
  getrlimit(RLIMIT_FSIZE, &before);
  limit = (struct rlimit){10, before.rlim_max};
  int fd = open(tst_temporary_file(), O_WRONLY | O_APPEND);
  if (fd < 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
  dup2(fd, STDERR_FILENO);
  tileblas_option_set("TILEBLAS_VERBOSE", "1");
  tileblas_option_set("TILEBLAS_REPORT", "1");
  const bool well = tst_guest_product(8) && tst_guest_product(8) && !is_pending(SIGXFSZ);
  end_limit(&before);
  return well ? 0 : 3;
}

/* ---- shut in ---- */

#define KILL_IF(call) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* Who opens a file or a socket, or starts a thread or a process, is ended. */
static int shut_in(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_open
      KILL_IF(SYS_open),
#endif
      KILL_IF(SYS_openat),
      KILL_IF(SYS_socket),
      KILL_IF(SYS_clone),
      KILL_IF(SYS_clone3),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int all_sizes(void) {
  for (int n = 1; n <= 400; n += 57)
    if (!tst_guest_product(n)) return 3;
  return 0;
}

/* Before the first call: nothing but the CPU. */
static int sandbox(void) {
  if (!shut_in()) return 2;
  const int status = all_sizes();
  _exit(status != 0 ? status : tst_guest_gpu_calls() == 0 ? 0 : 4); /* the C library may open files at exit */
}

/* With the GPU open: it is left alone. */
static int sandbox_later(void) {
  if (!tst_guest_product(100)) return 2;
  const unsigned long long before = tst_guest_gpu_calls();
  if (!shut_in()) return 2;
  const int status = all_sizes();
  _exit(status != 0 ? status : tst_guest_gpu_calls() == before ? 0 : 4);
}

/* A filter that was there when the library was loaded, as a container's is, keeps nobody from anything. */
static int container(void) {
  struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {1, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 2;
  execl("/proc/self/exe", "test", "contained", NULL);
  return 3;
}

static int contained(void) {
  if (!tst_guest_product(100)) return 2;
  return tst_guest_gpu_calls() == tst_guest_expects_gpu() ? 0 : 4;
}

static const struct {
  const char *name;
  int (*body)(void);
} parts[] = {{"pipe", closed_pipe},
             {"own", own_signal},
             {"file", limited_file},
             {"sandbox", sandbox},
             {"sandbox later", sandbox_later},
             {"container", container},
             {"contained", contained}};

static void run(const char *part) {
  static const char *const routes[] = {"TILEBLAS_ROUTE=gpu", "TILEBLAS_ROUTE=auto"};
  for (size_t i = 0; i < 2; i++) {
    const bool forced = strcmp(part, "container") == 0;
    tst_guest_run(part, (const char *const[]){routes[forced ? 0 : i], NULL}, 0);
  }
}

static void lines_end_nobody(void **state) {
  (void)state;
  run("pipe"), run("own"), run("file");
}

static void filters_end_nobody(void **state) {
  (void)state;
#ifdef __SANITIZE_ADDRESS__
  TST_LEAVE_OUT("filters: AddressSanitizer's runtime opens files");
#endif
  run("sandbox"), run("sandbox later"), run("container");
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts && argc == 2; i++)
    if (strcmp(argv[1], parts[i].name) == 0) return parts[i].body();
  const struct CMUnitTest tests[] = {cmocka_unit_test(lines_end_nobody), cmocka_unit_test(filters_end_nobody)};
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
