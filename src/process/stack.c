/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/resource.h>

#include "process/background.h"
#include "process/guest.h"
#include "process/sandbox.h"
#include "base/thread.h"

extern void *__libc_stack_end __attribute__((weak)); /* glibc's: where the main thread's begins */

/* The kernel keeps as much below the main thread's stack's start free of what is not mapped by address. */
#define MAIN_BYTES_MAX ((uintptr_t)64 << 20)

/* The main thread's grows as far as its limit says; to ask pthread_getattr_np would read a file. */
static bool is_main_stack(uintptr_t here) {
  const uintptr_t end = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 0;
  struct rlimit limit;
  if (end - here >= MAIN_BYTES_MAX || getrlimit(RLIMIT_STACK, &limit) != 0) return false;
  const uintptr_t bytes = limit.rlim_cur < MAIN_BYTES_MAX ? (uintptr_t)limit.rlim_cur : MAIN_BYTES_MAX;
  tb_thread.stack_start = end - bytes;
  tb_thread.stack_end = end;
  return true;
}

static void look(uintptr_t here) {
  pthread_attr_t attributes;
  void *start;
  size_t bytes;
  tb_thread.stack_start = tb_thread.stack_end = 1; /* of which nothing is within */
  if (is_main_stack(here) || pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
    tb_thread.stack_start = (uintptr_t)start;
    tb_thread.stack_end = (uintptr_t)start + bytes;
  }
  pthread_attr_destroy(&attributes);
}

bool tb_stack_has_room(void) {
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (tb_thread.stack_end == 0) {
    if (tb_sandboxed()) return true; /* to look might end the process, and the caller's stack must do anyway */
    const int saved_errno = errno;
    look(here);
    errno = saved_errno;
  }
  return here < tb_thread.stack_end && here > tb_thread.stack_start && here - tb_thread.stack_start >= TB_STACK_BYTES;
}

struct stack_work {
  void (*function)(void *context);
  void *context;
  struct tb_guest *guest;
};

static void *stack_thread_main(void *opaque) {
  const struct stack_work *w = opaque;
  if (w->guest != NULL) tb_guest_stand_in(w->guest);
  w->function(w->context);
  tb_thread.guest = NULL;
  return NULL;
}

bool tb_stack_run(void (*function)(void *context), void *context) {
  struct stack_work w = {function, context, tb_thread.guest};
  pthread_t thread;
  if (!tb_background_start_roomy(&thread, stack_thread_main, &w)) return false;
  pthread_join(thread, NULL);
  if (w.guest != NULL) w.guest->elsewhere = false;
  return true;
}
