/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be seen of a fat binary, see fatbin.h. Reads no byte that the header does not promise. */
#include "fatbin.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace fake {
namespace {

constexpr size_t HEADER_BYTES = 16, ENTRY_BYTES = 32;
constexpr uint16_t PTX = 1, ELF = 2;

template <class T> T read_at(const char *p, size_t offset) {
  T value;
  memcpy(&value, p + offset, sizeof value);
  return value;
}

} // namespace

bool read_fatbin(const void *image, std::vector<FatbinEntry> &entries) {
  const char *p = static_cast<const char *>(image);
  if (!p || read_at<uint32_t>(p, 0) != FATBIN_MAGIC || read_at<uint16_t>(p, 6) < HEADER_BYTES) return false;
  size_t at = read_at<uint16_t>(p, 6);
  const size_t end = at + read_at<uint64_t>(p, 8);
  while (at + ENTRY_BYTES <= end) {
    const char *entry = p + at;
    const uint16_t kind = read_at<uint16_t>(entry, 0);
    const size_t header = read_at<uint32_t>(entry, 4), payload = read_at<uint64_t>(entry, 8);
    if (header < ENTRY_BYTES || header > end - at || payload > end - at - header) break;
    const bool compressed = read_at<uint32_t>(entry, 16) != 0;
    entries.push_back({kind == PTX, kind == ELF, compressed, static_cast<int>(read_at<uint32_t>(entry, 28)),
                       kind == ELF && !compressed ? std::string(entry + header, payload) : ""});
    at += header + payload;
  }
  return true;
}

int fatbin_compiled_for(const std::vector<FatbinEntry> &entries, int compute_major, int compute_minor) {
  int machine_code = 0, ptx = 0;
  for (const FatbinEntry &entry : entries) {
    if (entry.architecture > 10 * compute_major + compute_minor) continue;
    if (entry.is_ptx) ptx = std::max(ptx, entry.architecture);
    if (entry.is_machine_code && entry.architecture / 10 == compute_major)
      machine_code = std::max(machine_code, entry.architecture);
  }
  return machine_code ? machine_code : ptx;
}

bool fatbin_may_have(const std::vector<FatbinEntry> &entries, const std::string &kernel) {
  bool readable = false;
  const std::string section = ".text." + kernel + '\0';
  for (const FatbinEntry &entry : entries) {
    if (!entry.is_machine_code || entry.compressed) continue;
    readable = true;
    if (entry.payload.find(section) != std::string::npos) return true;
  }
  return !readable;
}

} // namespace fake
