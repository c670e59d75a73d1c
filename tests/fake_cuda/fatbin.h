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

namespace fake {

constexpr unsigned FATBIN_MAGIC = 0xba55ed50;

/* The whole fat binary at this address, empty when there is none. */
std::string read_fatbin(const void *image);

/* Whether a device can run one of its entries: machine code of its own generation, or PTX that is not newer. */
bool fatbin_suits(const std::string &image, int compute_major, int compute_minor);

/* The virtual architecture, such as 80, of the entry that a device runs: machine code where there is some, else the
 * newest PTX. 0: none suits. */
int fatbin_compiled_for(const std::string &image, int compute_major, int compute_minor);

/* Whether it holds that kernel; true too when compression hides it. */
bool fatbin_may_have(const std::string &image, const std::string &kernel);

} // namespace fake

#endif
