/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be seen of a fat binary, see fatbin.h. Reads no byte that the header does not promise. */
#include "fatbin.h"

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

bool fatbin_suits(const std::string &image, int compute_major, int compute_minor) {
  return any_entry(image, [&](uint16_t kind, uint32_t architecture, bool, const std::string &) {
    const int major = static_cast<int>(architecture) / 10, minor = static_cast<int>(architecture) % 10;
    const bool not_newer = major < compute_major || (major == compute_major && minor <= compute_minor);
    return not_newer && (kind == PTX || (kind == ELF && major == compute_major));
  });
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
