/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/sandbox.h"

#include <errno.h>
#include <sys/prctl.h>

#include "base/thread.h"

/* A filter, as prctl says it (2); and whether no program that is run gains rights. */
#define FILTERED 2
static int filter_at_load, confined_at_load;

static int ask_kernel(int what) {
  const int saved_errno = errno;
  const int answer = prctl(what, 0, 0, 0, 0);
  errno = saved_errno;
  return answer;
}

void tb_sandbox_at_load(void) {
  filter_at_load = ask_kernel(PR_GET_SECCOMP);
  confined_at_load = ask_kernel(PR_GET_NO_NEW_PRIVS);
}

/* No thread gets out again. Every call on the GPU asks, so the question that mostly decides comes first. */
bool tb_sandboxed(void) {
  if (tb_thread.sandboxed) return true;
  if (filter_at_load == FILTERED && (confined_at_load != 0 || ask_kernel(PR_GET_NO_NEW_PRIVS) != 1)) return false;
  tb_thread.sandboxed = ask_kernel(PR_GET_SECCOMP) == FILTERED;
  return tb_thread.sandboxed;
}
