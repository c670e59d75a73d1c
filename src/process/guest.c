/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "process/guest.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

/* ---- floating point ---- */

/* By instructions of the processor: what the C library has for it is in libm, which programs need not have. */
#if defined(__x86_64__)
/* The x87's own part as a process begins with it, no flag raised. Most calls find it so and leave it so: to look takes
 * a twentieth of the 80 ns for which it is saved, set and loaded again. */
static bool x87_is_default(void) {
  uint16_t control, status;
  __asm__ volatile("fnstcw %0\n\tfnstsw %1" : "=m"(control), "=a"(status));
  return control == 0x37f && status == 0;
}

static void read_floats(struct tb_floats *f) {
  f->control = _mm_getcsr();
  f->x87_is_default = x87_is_default();
  if (!f->x87_is_default) __asm__ volatile("fnstenv %0" : "=m"(f->x87));
}

static void write_floats(const struct tb_floats *f) {
  if (!f->x87_is_default)
    __asm__ volatile("fldenv %0" : : "m"(f->x87));
  else if (!x87_is_default())
    __asm__ volatile("fninit");
  _mm_setcsr(f->control);
}

static void set_default_floats(void) {
  if (!x87_is_default()) __asm__ volatile("fninit");
  _mm_setcsr(TB_DEFAULT_CONTROL);
}
#elif defined(__aarch64__)
static void read_floats(struct tb_floats *f) {
  uint64_t control, status;
  __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
  f->control = (uint32_t)control;
  f->x87[0] = (uint32_t)status;
}

static void write_floats(const struct tb_floats *f) {
  const uint64_t control = f->control, status = f->x87[0];
  __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control), "r"(status));
}

static void set_default_floats(void) {
  const uint64_t none = 0;
  __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %0" : : "r"(none));
}
#else
static void read_floats(struct tb_floats *f) { (void)f; }
static void write_floats(const struct tb_floats *f) { (void)f; }
static void set_default_floats(void) {}
#endif

void tb_floats_begin(struct tb_floats *before) {
  read_floats(before);
  set_default_floats();
}

void tb_floats_end(const struct tb_floats *before) { write_floats(before); }

/* ---- signals ---- */

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

void tb_guest_block_signals(sigset_t *before) {
  sigset_t others;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
  pthread_sigmask(SIG_SETMASK, &others, before);
}

bool tb_guest_is_wanted(void) {
  const struct tb_guest *guest = tb_thread.guest;
  sigset_t pending;
  if (guest == NULL || guest->elsewhere || sigpending(&pending) != 0) return false;
  for (int number = 1; number < NSIG; number++)
    if (sigismember(&pending, number) == 1 && sigismember(&guest->signals, number) == 0) return true;
  return false;
}

/* ---- one call ---- */

/* The handler of a fault may have left an earlier call by siglongjmp, and with it what that call should have given
 * back. What the program has changed since, it has changed on purpose. */
static void take_over_from_abandoned(struct tb_guest *guest) {
  guest->cancel = tb_thread.cancel;
#if defined(__SSE__)
  if (guest->floats.control == TB_DEFAULT_CONTROL) guest->floats.control = tb_thread.float_control;
#endif
}

void tb_guest_enter(struct tb_guest *guest) {
  guest->error_number = errno;
  tb_cancel_hold(&guest->cancel);
  tb_guest_block_signals(&guest->signals);
  tb_floats_begin(&guest->floats);
  guest->elsewhere = false;
  if (tb_thread.guest != NULL) take_over_from_abandoned(guest);
  tb_thread.cancel = guest->cancel;
  tb_thread.float_control = guest->floats.control;
  tb_thread.guest = guest;
}

/* Signals last: the thread may leave there. */
void tb_guest_leave(struct tb_guest *guest) {
  tb_thread.guest = NULL;
  tb_floats_end(&guest->floats);
  const sigset_t signals = guest->signals;
  const struct tb_cancel cancel = guest->cancel;
  errno = guest->error_number;
  tb_cancel_release(&cancel);
  pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

void tb_guest_stand_in(struct tb_guest *guest) {
  guest->elsewhere = true;
  tb_thread.guest = guest;
}

void tb_guest_pause(struct tb_guest **paused) {
  *paused = tb_thread.guest;
  if (*paused == NULL) return;
  if ((*paused)->elsewhere)
    tb_floats_end(&(*paused)->floats);
  else
    tb_guest_leave(*paused);
}

/* What came to stand in errno meanwhile is ours: who looks whether a handler took long asks the clock. */
void tb_guest_resume(struct tb_guest *paused) {
  if (paused == NULL) return;
  const int error_number = paused->error_number;
  if (paused->elsewhere)
    tb_floats_begin(&paused->floats);
  else
    tb_guest_enter(paused);
  paused->error_number = error_number;
}

void tb_guest_pause_floats(struct tb_guest **paused) {
  *paused = tb_thread.guest;
  if (*paused != NULL) tb_floats_end(&(*paused)->floats);
}

void tb_guest_resume_floats(struct tb_guest *paused) {
  if (paused != NULL) tb_floats_begin(&paused->floats);
}
