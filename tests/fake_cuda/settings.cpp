/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment, read once at the first call. A value that makes no sense ends the process: a test with a typing
 * error must not pass.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "calls.h"
#include "turns.h"
#include "watch.h"

namespace fake {

[[noreturn]] static void bad_value(const char *name, const char *value) {
  fprintf(stderr, "fake_cuda: %s=%s makes no sense, see tests/fake_cuda/README.md\n", name, value);
  abort();
}

static unsigned long long number(const char *name, unsigned long long otherwise) {
  const char *value = getenv(name);
  if (!value || !*value) return otherwise;
  char *end;
  const unsigned long long n = strtoull(value, &end, 0);
  if (*end || *value == '-') bad_value(name, value);
  return n;
}

static void read_compute_capability(Settings &s) {
  const char *value = getenv("FAKE_CUDA_CC");
  char rest;
  if (value && sscanf(value, "%d.%d%c", &s.compute_major, &s.compute_minor, &rest) != 2)
    bad_value("FAKE_CUDA_CC", value);
}

/* Whether it is "abort" and not "count". */
static bool read_abort(const char *name) {
  const char *value = getenv(name);
  if (!value || !strcmp(value, "count")) return false;
  if (strcmp(value, "abort")) bad_value(name, value);
  return true;
}

static void read_order() {
  const char *value = getenv("FAKE_CUDA_ORDER");
  unsigned long long seed = 0;
  char rest;
  if (!value || !strcmp(value, "lazy")) return;
  if (!strcmp(value, "eager"))
    driver().order = FAKE_CUDA_EAGER;
  else if (sscanf(value, "random:%llu%c", &seed, &rest) == 1)
    driver().order = FAKE_CUDA_RANDOM;
  else if (sscanf(value, "uneven:%llu%c", &seed, &rest) == 1)
    driver().order = FAKE_CUDA_UNEVEN;
  else
    bad_value("FAKE_CUDA_ORDER", value);
  driver().random_state = seed;
}

static void read_warps() {
  const char *value = getenv("FAKE_CUDA_WARPS");
  unsigned long long seed = 0;
  char rest;
  if (!value || !strcmp(value, "turn")) return;
  if (sscanf(value, "ahead:%llu%c", &seed, &rest) == 1)
    set_warps(FAKE_CUDA_ONE_AHEAD, seed);
  else if (sscanf(value, "behind:%llu%c", &seed, &rest) == 1)
    set_warps(FAKE_CUDA_ONE_BEHIND, seed);
  else if (!strcmp(value, "last"))
    set_warps(FAKE_CUDA_LAST_FIRST, 0);
  else if (sscanf(value, "random:%llu%c", &seed, &rest) == 1)
    set_warps(FAKE_CUDA_AT_RANDOM, seed);
  else
    bad_value("FAKE_CUDA_WARPS", value);
}

static CUresult parse_code(const char *text) {
  char *end;
  const unsigned long n = strtoul(text, &end, 10);
  if (!*end) return static_cast<CUresult>(n);
  for (int code = 1; code <= CUDA_ERROR_UNKNOWN; ++code) {
    const char *name = error_name(static_cast<CUresult>(code));
    if (name && !strcmp(name, text)) return static_cast<CUresult>(code);
  }
  return CUDA_SUCCESS;
}

/* function:nth[:code[:sticky|:async ...]] */
static bool read_failure(char *text) {
  char *rest, *function = strtok_r(text, ":", &rest), *nth = strtok_r(nullptr, ":", &rest);
  if (!nth) return false;
  char *end, *code = strtok_r(nullptr, ":", &rest);
  const unsigned long n = strtoul(nth, &end, 10);
  if (*end) return false;
  unsigned flags = 0;
  while (const char *word = strtok_r(nullptr, ":", &rest)) {
    if (!strcmp(word, "sticky"))
      flags |= FAKE_CUDA_STICKY;
    else if (!strcmp(word, "async"))
      flags |= FAKE_CUDA_ASYNC;
    else
      return false;
  }
  return fake_cuda_fail(function, n, code ? parse_code(code) : CUDA_ERROR_UNKNOWN, flags) == 0;
}

/* When the library is loaded: before any call, so that "the nth call" is counted from the start. */
__attribute__((constructor)) static void read_failures() {
  const char *value = getenv("FAKE_CUDA_FAIL");
  if (!value) return;
  char *copy = strdup(value), *rest, *one = strtok_r(copy, ",", &rest);
  for (; one; one = strtok_r(nullptr, ",", &rest))
    if (!read_failure(one)) bad_value("FAKE_CUDA_FAIL", value);
  free(copy);
}

static Settings read_settings() {
  Settings s;
  s.devices = static_cast<int>(number("FAKE_CUDA_DEVICES", 1));
  if (s.devices > DEVICES_MAX) bad_value("FAKE_CUDA_DEVICES", getenv("FAKE_CUDA_DEVICES"));
  s.memory_bytes = number("FAKE_CUDA_MEMORY", 1ull << 30);
  s.multiprocessors = static_cast<int>(number("FAKE_CUDA_SMS", 132));
  s.clock_khz = static_cast<int>(number("FAKE_CUDA_KHZ", 1980000));
  s.shared_memory_bytes = number("FAKE_CUDA_SHARED_MEMORY", 227 * 1024);
  s.registers_per_thread = static_cast<int>(number("FAKE_CUDA_REGISTERS", 128));
  s.abort_on_misuse = read_abort("FAKE_CUDA_MISUSE");
  s.abort_on_leaks = read_abort("FAKE_CUDA_LEAKS");
  s.peers = number("FAKE_CUDA_PEERS", 1) != 0;
  s.pooled = number("FAKE_CUDA_POOLED", 0) != 0;
  s.compute_major = 9;
  s.compute_minor = 0;
  read_compute_capability(s);
  return s;
}

static void read_watch() {
  const char *value = getenv("FAKE_CUDA_WATCH");
  if (!value || !strcmp(value, "off")) return;
  if (!strcmp(value, "order"))
    set_watch(Watch::ORDER);
  else if (!strcmp(value, "extents"))
    set_watch(Watch::EXTENTS);
  else
    bad_value("FAKE_CUDA_WATCH", value);
}

__attribute__((constructor)) static void read_modes() {
  read_order();
  read_watch();
  set_shuffle(number("FAKE_CUDA_SHUFFLE", 0));
  read_warps();
}

const Settings &settings() {
  static const Settings s = read_settings();
  return s;
}

} // namespace fake
