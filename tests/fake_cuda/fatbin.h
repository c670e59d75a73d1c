/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can be seen of a fat binary without its compressed parts. Pure functions.
 *
 * Layout, as nvcc 11 to 13 write it and as `cuobjdump` shows it: a header {u32 magic, u16 version, u16 header bytes,
 * u64 bytes of all entries}, then entries {u16 kind: 1 PTX or 2 ELF, u16, u32 header bytes, u64 payload bytes,
 * u32 compressed bytes, ..., at byte 28 u32 architecture such as 80, ...} each followed by its payload.
 */
#ifndef FAKE_CUDA_FATBIN_H
#define FAKE_CUDA_FATBIN_H

#include <string>
#include <vector>

namespace fake {

constexpr unsigned FATBIN_MAGIC = 0xba55ed50;

struct FatbinEntry {
  bool is_ptx, is_machine_code, compressed;
  int architecture;    /* such as 80 */
  std::string payload; /* of machine code that is not compressed */
};

/* What is kept of the fat binary at this address: all that can be seen of it. False: there is none. */
bool read_fatbin(const void *image, std::vector<FatbinEntry> &entries);

/* The virtual architecture, such as 80, of the entry that a device runs: machine code where there is some of its own
 * generation, else the newest PTX that is not newer than the device. 0: none suits. */
int fatbin_compiled_for(const std::vector<FatbinEntry> &entries, int compute_major, int compute_minor);

/* Whether it holds that kernel; true too when compression hides it. */
bool fatbin_may_have(const std::vector<FatbinEntry> &entries, const std::string &kernel);

} // namespace fake

#endif
