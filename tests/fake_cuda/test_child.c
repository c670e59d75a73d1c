/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_child.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int run_child(const char *what, const char *settings) {
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    char text[300], *rest;
    snprintf(text, sizeof text, "%s", settings);
    for (char *one = strtok_r(text, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) putenv(one);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* what is provoked here need not be read */
    execl("/proc/self/exe", "test_child", what, (char *)NULL);
    _exit(99);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
