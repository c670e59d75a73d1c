/* SPDX-License-Identifier: BSD-3-Clause */
/* Stacks and the switch between them, see fibers.h. On x86-64 the switch is sixteen instructions; elsewhere ucontext.
 */
#include "fibers.h"

#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace fake {

static constexpr size_t STACK_BYTES = 128 * 1024; /* a kernel's arrays in "registers", with the sanitizer's red zones */

#if defined(__SANITIZE_ADDRESS__)
static Fiber *switched_from, *switched_to;

static void sanitizer_leaves(Fiber &from, Fiber &to, bool last) {
  switched_from = &from;
  switched_to = &to;
  __sanitizer_start_switch_fiber(last ? nullptr : &from.sanitizer_frames, to.stack_bottom, to.stack_bytes);
}
static void sanitizer_arrives() {
  const void *bottom;
  size_t bytes;
  __sanitizer_finish_switch_fiber(switched_to->sanitizer_frames, &bottom, &bytes);
  switched_from->stack_bottom = const_cast<void *>(bottom); /* how the OS thread's own stack becomes known */
  switched_from->stack_bytes = bytes;
}
/* A thread abandoned in a failed launch leaves the red zones of its frames behind. */
static void sanitizer_forgets(Fiber &fiber) {
  __asan_unpoison_memory_region(fiber.stack_bottom, fiber.stack_bytes);
  fiber.sanitizer_frames = nullptr;
}
#else
static void sanitizer_leaves(Fiber &, Fiber &, bool) {}
static void sanitizer_arrives() {}
static void sanitizer_forgets(Fiber &) {}
#endif

#if defined(__x86_64__)

/* Saves what the System V ABI asks a function to preserve, and goes on where the other fiber did the same. */
extern "C" __attribute__((visibility("hidden"))) void fake_cuda_switch_stack(void **save, void *load);
__asm__(R"(
  .text
  .p2align 4
  .hidden fake_cuda_switch_stack
  .globl fake_cuda_switch_stack
  .type fake_cuda_switch_stack, @function
fake_cuda_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size fake_cuda_switch_stack, . - fake_cuda_switch_stack
)");

static void prepare_stack(Fiber &fiber, void (*entry)(), size_t colour_bytes) {
  void **top = reinterpret_cast<void **>(static_cast<char *>(fiber.stack_bottom) + fiber.stack_bytes - colour_bytes);
  *--top = nullptr; /* the entry's return address: backtraces end here */
  *--top = reinterpret_cast<void *>(entry);
  for (int saved_registers = 0; saved_registers < 6; ++saved_registers) *--top = nullptr;
  fiber.stack_pointer = top;
}

static void switch_stack(Fiber &from, Fiber &to) { fake_cuda_switch_stack(&from.stack_pointer, to.stack_pointer); }

#else

static void prepare_stack(Fiber &fiber, void (*entry)(), size_t colour_bytes) {
  if (!fiber.stack_pointer) fiber.stack_pointer = new ucontext_t;
  ucontext_t *context = static_cast<ucontext_t *>(fiber.stack_pointer);
  getcontext(context);
  context->uc_stack.ss_sp = fiber.stack_bottom;
  context->uc_stack.ss_size = fiber.stack_bytes - colour_bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
}

static void switch_stack(Fiber &from, Fiber &to) {
  static ucontext_t os_thread; /* of the one OS thread that runs blocks now */
  if (!from.stack_pointer) from.stack_pointer = &os_thread;
  swapcontext(static_cast<ucontext_t *>(from.stack_pointer), static_cast<ucontext_t *>(to.stack_pointer));
}

#endif

void fiber_switch(Fiber &from, Fiber &to, bool last) {
  sanitizer_leaves(from, to, last);
  switch_stack(from, to);
  sanitizer_arrives();
}

void fiber_entered() { sanitizer_arrives(); }

Fiber *FiberPool::create() {
  const size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void *memory =
      mmap(nullptr, guard + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  mprotect(memory, guard, PROT_NONE);
  Fiber *fiber = new Fiber;
  fiber->stack_bottom = static_cast<char *>(memory) + guard;
  fiber->stack_bytes = STACK_BYTES;
  return fiber;
}

Fiber *FiberPool::start(void (*entry)()) {
  Fiber *fiber;
  if (idle_.empty()) {
    fiber = create();
    if (!fiber) return nullptr;
    /* Equal frames of neighbouring threads must not all fall into one set of the first-level cache. */
    const size_t line = 64, colours = 61;
    fiber->colour_bytes = created_++ % colours * line;
  } else {
    fiber = idle_.back();
    idle_.pop_back();
  }
  prepare_stack(*fiber, entry, fiber->colour_bytes);
  return fiber;
}

void FiberPool::recycle(Fiber *fiber, bool abandoned) {
  if (abandoned) sanitizer_forgets(*fiber);
  idle_.push_back(fiber);
}

} // namespace fake
