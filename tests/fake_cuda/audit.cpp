/* SPDX-License-Identifier: BSD-3-Clause */
/* See audit.h. */
#include "audit.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include "calls.h"
#include "state.h"

namespace fake {
namespace {

const char *interned(const char *name) {
  static std::set<std::string> *const names = new std::set<std::string>;
  return names->insert(name).first->c_str();
}

/* What is alive of one kind. */
struct Left {
  uint64_t count = 0, bytes = 0;
  Origin first;
  void add(const Origin &made, uint64_t more_bytes = 0) {
    if (count++ == 0) first = made;
    bytes += more_bytes;
  }
};

/* What FAKE_CUDA_KEPT says of a kind, for all devices. */
uint64_t kept(const char *kind) {
  const char *list = getenv("FAKE_CUDA_KEPT"), *row = list ? strstr(list, kind) : nullptr;
  return row ? strtoull(row + strcspn(row, "=") + 1, nullptr, 10) * driver().devices.size() : 0;
}

int visit_library(dl_phdr_info *info, size_t, void *wanted) {
  const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
  return !strcmp(*name ? name : "the program", static_cast<const char *>(wanted));
}

bool is_still_there(const Origin &maker) {
  return maker.object && dl_iterate_phdr(visit_library, const_cast<char *>(maker.object));
}

bool at_end; /* of the process */

int tell(const char *kind, const Left &left) {
  if (left.count == 0 || (at_end && is_still_there(left.first) && left.count <= kept(kind))) return 0;
  char line[300], bytes[40] = "";
  if (left.bytes > 0) snprintf(bytes, sizeof bytes, " of %llu bytes", static_cast<unsigned long long>(left.bytes));
  snprintf(line, sizeof line, "fake_cuda: left: %llu %s%s, the first by %s",
           static_cast<unsigned long long>(left.count), kind, bytes, left.first.text().c_str());
  fprintf(stderr, "%s\n", line);
  tell_in_file(line);
  return 1;
}

template <class Handle, class T> Left left_of(const Handles<Handle, T> &handles) {
  Left left;
  handles.each([&](const T &object) { left.add(object.made); });
  return left;
}

Left left_memory(bool device) {
  Left left;
  for (const auto &[start, allocation] : driver().memory)
    if (is_on_device(allocation.kind) == device) left.add(allocation.made, allocation.bytes);
  return left;
}

Left left_contexts() {
  Left left;
  for (const Device &device : driver().devices)
    for (const Origin &made : device.references) left.add(made);
  return left;
}

Left left_peers() {
  Left left;
  for (const Device &device : driver().devices)
    if (device.primary)
      for (const auto &[peer, made] : device.primary->peers) left.add(made);
  return left;
}

/* Counts without a maker each. */
Left counted(fake_cuda_count what, const Origin &first) {
  Left left;
  left.count = driver().happened[what];
  left.first = first;
  return left;
}

} // namespace

std::string Origin::text() const {
  char text[200];
  snprintf(text, sizeof text, "%s in %s+0x%llx", function, object ? object : "an unknown place",
           static_cast<unsigned long long>(offset));
  return text;
}

/* By a function of the loader that takes no lock: the caller may be one whom the loader's own lock waits for. */
Origin origin_of(const void *caller, const char *function) {
  Origin origin;
  origin.function = function;
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
  dl_find_object found;
  if (_dl_find_object(const_cast<void *>(caller), &found) == 0) {
    const char *path = found.dlfo_link_map->l_name, *slash = strrchr(path, '/');
    origin.object = interned(!*path ? "the program" : slash ? slash + 1 : path);
    origin.offset = reinterpret_cast<uintptr_t>(caller) - found.dlfo_link_map->l_addr;
  }
#endif
#endif
  return origin;
}

void check_owner(const char *what, const Origin &made, const Origin &released) {
  if (made.same_object(released)) return;
  misuse("%s made by %s is released by %s", what, made.text().c_str(), released.text().c_str());
}

void released_nothing(const char *what, const Origin &released) {
  misuse("%s is released that is not there: %s", what, released.text().c_str());
}

int tell_what_is_left() {
  const Driver &d = driver();
  return tell("allocations", left_memory(true)) + tell("pinned buffers", left_memory(false)) +
         tell("streams", left_of(d.streams)) + tell("events", left_of(d.events)) + tell("modules", left_of(d.modules)) +
         tell("contexts", left_contexts()) + tell("peers enabled", left_peers()) +
         tell("contexts pushed",
              counted(FAKE_CUDA_PUSHED, context_stack().empty() ? d.last_pushed : context_stack().pusher())) +
         tell("resources abandoned in a context that could be entered",
              counted(FAKE_CUDA_ABANDONED, d.first_abandoned));
}

/* Without the lock: a thread that the process's end overtakes inside the driver keeps it. */
void audit_at_end() {
  if (driver().misuses_expected > 0) {
    fprintf(stderr, "fake_cuda: misuse: %lu that were expected did not come to pass\n", driver().misuses_expected);
    tell_in_file("expected misuses did not come to pass");
    abort();
  }
  at_end = true;
  if (settings().abort_on_leaks && driver().initialised && tell_what_is_left() > 0) abort();
}

void tell_in_file(const char *line) {
  const char *path = getenv("FAKE_CUDA_TOLD");
  const int file = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
  if (file < 0) return;
  char text[600];
  const int length = snprintf(text, sizeof text, "%s (%d): %s\n", program_invocation_short_name, getpid(), line);
  const ssize_t written = write(file, text, std::min(static_cast<size_t>(length), sizeof text - 1));
  (void)written; /* nobody is left to tell */
  close(file);
}

} // namespace fake
