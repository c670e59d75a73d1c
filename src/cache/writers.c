/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "cache/writers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cuda/place.h"
#include "process/libraries.h"

bool tb_writers_may_ask(void) {
  const int saved_errno = errno;
  const bool unfiltered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
  errno = saved_errno;
  return unfiltered;
}

/* ---- mappings ---- */

/* As far as it counts. */
struct mapping {
  uintptr_t start, end;
  bool is_private, is_anonymous, is_of_aio;
};

/* Of headers younger than those that we are compiled with: linux/fs.h of Linux 6.11. */
struct map_query {
  uint64_t size, flags, address;
  uint64_t start, end, rights, page_bytes, offset, inode; /* the answer */
  uint32_t device_major, device_minor, name_bytes, id_bytes;
  uint64_t name, id;
};
#define QUERY_MAP _IOWR('f', 17, struct map_query)
enum { MAP_IS_SHARED = 8, COVERING_OR_NEXT = 16 };

/* /proc/self/maps, which is asked, or read where the kernel does not answer: of a process with a thousand mappings that
 * takes half a millisecond. */
struct maps {
  FILE *lines;
  bool answers;
  struct mapping latest; /* that was read, for the next address may be in it, too */
};

static struct maps open_maps(void) { return (struct maps){.lines = fopen("/proc/self/maps", "re"), .answers = true}; }

static void close_maps(const struct maps *maps) {
  if (maps->lines != NULL) fclose(maps->lines);
}

/* Reads a line of whatever length. False: there is none, or it is not understood. */
static bool read_mapping(FILE *lines, struct mapping *mapping) {
  char line[256], rights[8];
  unsigned long start, end, inode;
  int path = 0;
  if (fgets(line, sizeof line, lines) == NULL) return false;
  for (int c = 0; strchr(line, '\n') == NULL && c != '\n' && c != EOF;) c = fgetc(lines);
  if (sscanf(line, "%lx-%lx %7s %*x %*x:%*x %lu %n", &start, &end, rights, &inode, &path) != 4) return false;
  *mapping = (struct mapping){.start = start,
                              .end = end,
                              .is_private = strlen(rights) == 4 && rights[3] == 'p',
                              .is_anonymous = inode == 0,
                              .is_of_aio = strncmp(line + path, "/[aio]", 6) == 0};
  return true;
}

/* The mapping that has the address, or the next one; addresses grow from call to call. False: there is none. */
static bool find_mapping(struct maps *maps, uintptr_t address, struct mapping *mapping) {
  struct map_query query = {.size = sizeof query, .flags = COVERING_OR_NEXT, .address = address};
  if (maps->lines == NULL) return false;
  if (maps->answers && ioctl(fileno(maps->lines), QUERY_MAP, &query) == 0) {
    *mapping = (struct mapping){.start = query.start,
                                .end = query.end,
                                .is_private = (query.rights & MAP_IS_SHARED) == 0,
                                .is_anonymous = query.inode == 0};
    return true;
  }
  maps->answers = false;
  while (maps->latest.end <= address)
    if (!read_mapping(maps->lines, &maps->latest)) return false;
  *mapping = maps->latest;
  return true;
}

bool tb_writers_find_mapping(struct tb_tracked pages, struct tb_tracked *mapping) {
  const int saved_errno = errno;
  struct maps maps = open_maps();
  struct mapping m = {.end = 0};
  const bool found = find_mapping(&maps, pages.start, &m);
  close_maps(&maps);
  errno = saved_errno;
  *mapping = (struct tb_tracked){m.start, m.end, 0};
  return found && m.start <= pages.start && m.end >= pages.end && m.is_private && m.is_anonymous;
}

static bool is_private(struct maps *maps, struct tb_tracked pages) {
  struct mapping m;
  for (uintptr_t known = pages.start; known < pages.end; known = m.end)
    if (!find_mapping(maps, known, &m) || m.start > known || !m.is_private || !m.is_anonymous) return false;
  return true;
}

static bool are_private(const struct tb_tracked runs[], int count) {
  struct maps maps = open_maps();
  bool fine = true;
  for (int i = 0; fine && i < count; i++) fine = is_private(&maps, runs[i]);
  close_maps(&maps);
  return fine;
}

/* ---- asynchronous reads ---- */

/* The events of all processes' contexts (io_setup); -1: that is not to be had. */
static long events_of_all(void) {
  FILE *file = fopen("/proc/sys/fs/aio-nr", "re");
  long events = -1;
  if (file == NULL) return -1;
  if (fscanf(file, "%ld", &events) != 1) events = -1;
  fclose(file);
  return events;
}

/* Whether the process has no context by which something begun earlier might still arrive: each shows as a mapping. */
static bool has_no_contexts(void) {
  if (events_of_all() == 0) return true;
  struct maps maps = open_maps();
  struct mapping m;
  bool fine = maps.lines != NULL;
  while (fine && read_mapping(maps.lines, &m)) fine = !m.is_of_aio;
  close_maps(&maps);
  return fine;
}

/* ---- pins ---- */

/* Pages that io_uring's registered buffers, RDMA and their like hold: the kernel counts them for the whole process. */
static bool has_no_pins(void) {
  FILE *status = fopen("/proc/self/status", "re");
  char line[128];
  long pinned_kb = -1;
  while (status != NULL && pinned_kb < 0 && fgets(line, sizeof line, status) != NULL)
    if (sscanf(line, "VmPin: %ld kB", &pinned_kb) == 1) break;
  if (status != NULL) fclose(status);
  return pinned_kb == 0;
}

/* What the kernel has behind a name without a file. */
static bool is_harmless_name(int folder, const char *number) {
  static const char *const harmless[] = {"[eventfd]",  "[eventpoll]",   "[timerfd]",    "[signalfd]",
                                         "[pidfd]",    "[userfaultfd]", "[perf_event]", "inotify",
                                         "[fanotify]", "bpf-prog",      "bpf-map"};
  static const char head[] = "anon_inode:";
  char name[64];
  const ssize_t length = readlinkat(folder, number, name, sizeof name - 1);
  if (length < 0) return false;
  name[length] = '\0';
  if (strncmp(name, "pidfd:", 6) == 0) return true;
  if (strncmp(name, head, sizeof head - 1) != 0) return false;
  for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
    if (strcmp(name + sizeof head - 1, harmless[i]) == 0) return true;
  return false;
}

/* Of the kernel's memory devices (null, zero, random), terminals; and NVIDIA's, whose driver is asked about pages. */
static bool is_harmless_device(int folder, const char *number, dev_t device) {
  static const char head[] = "/dev/nvidia";
  char name[64];
  const unsigned kind = major(device);
  if (kind == 1 || kind == 4 || kind == 5 || (kind >= 136 && kind <= 143)) return true;
  const ssize_t length = readlinkat(folder, number, name, sizeof name - 1);
  return length >= (ssize_t)sizeof head - 1 && strncmp(name, head, sizeof head - 1) == 0;
}

/* Sockets of these families copy. Those of AF_XDP have packets put where they were told, those of AF_RDS what another
 * machine writes; of further ones nothing is known. */
static bool is_harmless_socket(int fd) {
  static const int copying[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK};
  int domain;
  socklen_t size = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return false;
  for (size_t i = 0; i < sizeof copying / sizeof *copying; i++)
    if (domain == copying[i]) return true;
  return false;
}

/* Whether what is open there cannot have pinned memory that it still writes to. */
static bool is_harmless(int folder, const char *number) {
  struct stat found;
  if (fstatat(folder, number, &found, 0) != 0) return errno == ENOENT; /* closed meanwhile, or by us */
  if (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode) || S_ISFIFO(found.st_mode) || S_ISBLK(found.st_mode))
    return true;
  if (S_ISSOCK(found.st_mode)) return is_harmless_socket(atoi(number));
  if (S_ISCHR(found.st_mode)) return is_harmless_device(folder, number, found.st_rdev);
  return is_harmless_name(folder, number);
}

/* More files than so many are not looked through. */
#define FILES_MAX 4096

static bool are_files_harmless(void) {
  DIR *files = opendir("/proc/self/fd");
  bool fine = files != NULL;
  int count = 0;
  const struct dirent *entry;
  while (fine && (entry = readdir(files)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    fine = ++count <= FILES_MAX && is_harmless(dirfd(files), entry->d_name);
  }
  if (files != NULL) closedir(files);
  return fine;
}

/* ---- NVIDIA's other interfaces ---- */

/* What OpenCL and Vulkan are on NVIDIA's driver. They may write to memory that the program has given them, which counts
 * nowhere, and CUDA does not know of it. */
static bool is_another_interface(const char *line) {
  static const char *const libraries[] = {"libnvidia-opencl.so", "libnvidia-glcore.so", "libnvidia-eglcore.so"};
  const char *const slash = strrchr(line, '/');
  for (size_t i = 0; slash != NULL && i < sizeof libraries / sizeof *libraries; i++)
    if (strncmp(slash + 1, libraries[i], strlen(libraries[i])) == 0) return true;
  return false;
}

/* By what is mapped, for the loader's list has one namespace alone. */
static bool are_others_mapped(void) { return tb_libraries_may_map(is_another_interface); }

static int count_loaded(struct dl_phdr_info *info, size_t size, void *loaded) {
  (void)size;
  *(unsigned long long *)loaded = info->dlpi_adds;
  return 1;
}

/* A library is mapped before it counts as loaded, in whatever namespace, and works behind that: so the maps need be
 * read only when there are more than at the latest look. */
static bool has_no_other_interface(void) {
  static _Atomic unsigned long long looked_at; /* none, or 1 more than were loaded when there was no other */
  unsigned long long loaded = 0;
  if (!tb_libraries_visit(count_loaded, &loaded)) return !are_others_mapped();
  if (atomic_load(&looked_at) == loaded + 1) return true;
  if (are_others_mapped()) return false;
  atomic_store(&looked_at, loaded + 1);
  return true;
}

/* ---- all of it ---- */

/* Memory that the program has registered with CUDA is the GPUs' to write, and they are many pages' owners. */
bool tb_writers_have_cudas(struct tb_tracked pages) {
  const uintptr_t page_bytes = 4096;
  for (uintptr_t page = pages.start; page < pages.end; page += page_bytes)
    if (tb_places_is_cudas((const void *)page)) return true;
  return false;
}

static bool nobody_pins(void) {
  return has_no_pins() && are_files_harmless() && has_no_contexts() && has_no_other_interface();
}

static atomic_bool lately; /* nobody did, when it was asked last */

bool tb_writers_seem_to_fault(void) {
  const int saved_errno = errno;
  const bool all = atomic_load(&lately) || nobody_pins();
  errno = saved_errno;
  return all;
}

bool tb_writers_fault_but_cuda(const struct tb_tracked runs[], int count) {
  const int saved_errno = errno;
  const bool nobody = nobody_pins(), all = nobody && are_private(runs, count);
  atomic_store(&lately, nobody);
  errno = saved_errno;
  return all;
}

bool tb_writers_of_runs_all_fault(const struct tb_tracked runs[], int count) {
  bool all = tb_writers_fault_but_cuda(runs, count);
  for (int i = 0; all && i < count; i++) all = !tb_writers_have_cudas(runs[i]);
  return all;
}
