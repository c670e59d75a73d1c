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

/* Calls visit(kind, architecture, compressed, payload) for each entry until it gives true. */
template <class Visit> bool any_entry(const std::string &image, Visit visit) {
  size_t at = read_at<uint16_t>(image.data(), 6);
  while (at + ENTRY_BYTES <= image.size()) {
    const char *entry = image.data() + at;
    const size_t header = read_at<uint32_t>(entry, 4), payload = read_at<uint64_t>(entry, 8);
    if (header < ENTRY_BYTES || header > image.size() - at || payload > image.size() - at - header) return false;
    const bool compressed = read_at<uint32_t>(entry, 16) != 0;
    if (visit(read_at<uint16_t>(entry, 0), read_at<uint32_t>(entry, 28), compressed,
              image.substr(at + header, payload)))
      return true;
    at += header + payload;
  }
  return false;
}

} // namespace

std::string read_fatbin(const void *image) {
  const char *p = static_cast<const char *>(image);
  if (!p || read_at<uint32_t>(p, 0) != FATBIN_MAGIC || read_at<uint16_t>(p, 6) < HEADER_BYTES) return "";
  return std::string(p, read_at<uint16_t>(p, 6) + read_at<uint64_t>(p, 8));
}

int fatbin_compiled_for(const std::string &image, int compute_major, int compute_minor) {
  int machine_code = 0, ptx = 0;
  any_entry(image, [&](uint16_t kind, uint32_t entry, bool, const std::string &) {
    const int architecture = static_cast<int>(entry);
    if (architecture > 10 * compute_major + compute_minor) return false;
    if (kind == PTX) ptx = std::max(ptx, architecture);
    if (kind == ELF && architecture / 10 == compute_major) machine_code = std::max(machine_code, architecture);
    return false;
  });
  return machine_code ? machine_code : ptx;
}

bool fatbin_suits(const std::string &image, int compute_major, int compute_minor) {
  return fatbin_compiled_for(image, compute_major, compute_minor) != 0;
}

bool fatbin_may_have(const std::string &image, const std::string &kernel) {
  bool readable = false;
  const std::string section = ".text." + kernel + '\0';
  const bool found = any_entry(image, [&](uint16_t kind, uint32_t, bool compressed, const std::string &payload) {
    readable = readable || (kind == ELF && !compressed);
    return kind == ELF && !compressed && payload.find(section) != std::string::npos;
  });
  return found || !readable;
}

} // namespace fake
