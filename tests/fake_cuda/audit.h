/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who made what, and what is left of it: each resource remembers the call that made it and the library or program that
 * called. What one of them made, no other may release; and at the end of the process nothing may be left. Called with
 * the driver's lock held, except audit_at_end.
 */
#ifndef FAKE_CUDA_AUDIT_H
#define FAKE_CUDA_AUDIT_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace fake {

/* Where a call came from. */
struct Origin {
  const char *object =
      nullptr;          /* the library or program, as it was loaded; equal pointers for equal names; null: unknown */
  uintptr_t offset = 0; /* in it, of the instruction behind the call */
  const char *function = ""; /* of the driver */

  bool same_object(const Origin &other) const { return !object || !other.object || object == other.object; }
  std::string text() const; /* "cuMemAlloc in libx.so+0x12" */
};
Origin origin_of(const void *caller, const char *function);

/* A misuse when another than the maker releases. */
void check_owner(const char *what, const Origin &made, const Origin &released);

/* A misuse: what is to be released is not there, or not any more. The driver refuses that, and nobody looks. */
void released_nothing(const char *what, const Origin &released);

/* Says on stderr what is alive, one line a kind with the first one's maker; gives the number of lines. */
int tell_what_is_left();

/* The same at the end of the process, which ends by abort if FAKE_CUDA_LEAKS wants that and something is left, or if
 * expected misuses did not come to pass. */
void audit_at_end();

/* Appends what ends the process to the file FAKE_CUDA_TOLD, for one who never sees the process's status. */
void tell_in_file(const char *line);

} // namespace fake

#endif
