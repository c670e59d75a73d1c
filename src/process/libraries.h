/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libraries that the process has loaded. While they are visited the thread has a lock of the C library's, which a
 * fork by another thread would leave locked in the child for good: forks wait until nobody here visits. Thread-safe.
 */
#ifndef TB_LIBRARIES_H
#define TB_LIBRARIES_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* dl_iterate_phdr. `visit` must load no library, and fork no process. False: nothing is visited any more, but by a
 * thread that has left a visit by a jump, or was ended in it. */
bool tb_libraries_visit(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context);

/* Whether a line of /proc/self/maps is such a one, or nobody can read them. For who cannot visit, or looks for a
 * library in whatever namespace. */
bool tb_libraries_may_map(bool (*is)(const char *line));

/* A visit that ends at the object in which an address lies, and notes where that begins and ends. */
struct tb_library_look {
  uintptr_t address, start, end;
};
int tb_libraries_look(struct dl_phdr_info *info, size_t size, void *look);

/* Ours is not unloaded any more: a thread has code of it to go on with that nobody can wait for. */
void tb_library_stays(void);

/* Around a fork: in its parent before, and in both after. */
void tb_libraries_before_fork(void);
void tb_libraries_after_fork(void);

#endif
