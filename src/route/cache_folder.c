/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "route/cache_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder ---- */

#define PATH_BYTES 1024 /* with the name of the folder; a longer path is none */

static bool begins(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

static bool ends(const char *text, const char *end) {
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Where something of ours belongs: the user's own, or everybody's, as /tmp is. */
static bool may_hold_ours(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && (s.st_uid == geteuid() || (s.st_mode & S_ISVTX));
}

static bool cut_last_name(char *path) {
  char *slash = strrchr(path, '/');
  if (slash == NULL || slash == path) return false;
  *slash = '\0';
  return true;
}

/* The folder around it, which is made in a third that may hold it. ~/.cache counts only in a home of the user's own. */
static bool has_place(const char *folder, bool make) {
  char parent[PATH_BYTES], home[PATH_BYTES];
  struct stat s;
  if ((size_t)snprintf(parent, sizeof parent, "%s", folder) >= sizeof parent || !cut_last_name(parent)) return false;
  strcpy(home, parent);
  const bool missing = stat(parent, &s) != 0;
  if ((missing || ends(parent, "/.cache")) && (!cut_last_name(home) || !may_hold_ours(home))) return false;
  if (missing && make) (void)mkdir(parent, 0700);
  return may_hold_ours(parent);
}

int tb_cache_folder_open(const char *folder, bool make) {
  struct stat s;
  if (!has_place(folder, make)) return -1;
  if (make) (void)mkdir(folder, 0700);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  if (fstat(fd, &s) == 0 && s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0) return fd;
  close(fd);
  return -1;
}

/* ---- its files ---- */

int tb_cache_file_open(int folder, const char *name) {
  struct stat s;
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe would keep us waiting */
  if (fd < 0) return -1;
  if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid()) return fd;
  close(fd);
  return -1;
}

static bool is_younger(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Those whose names begin and end so: how many, and the youngest or the oldest. */
static int find_file(int folder, const char *prefix, const char *suffix, bool youngest, char *name, size_t size) {
  struct timespec best = {0};
  int count = 0;
  int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* closedir takes it along */
  DIR *d = own >= 0 ? fdopendir(own) : NULL;
  for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
    struct stat s;
    if (!begins(e->d_name, prefix) || !ends(e->d_name, suffix) || strlen(e->d_name) >= size ||
        fstatat(folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (count++ > 0 && (youngest ? !is_younger(&s.st_mtim, &best) : !is_younger(&best, &s.st_mtim))) continue;
    best = s.st_mtim;
    strcpy(name, e->d_name);
  }
  if (d != NULL)
    closedir(d);
  else if (own >= 0)
    close(own);
  return count;
}

bool tb_cache_file_youngest(int folder, const char *prefix, const char *suffix, char *name, size_t size) {
  return find_file(folder, prefix, suffix, true, name, size) > 0;
}

static void remove_oldest(int folder, const char *prefix) {
  char name[NAME_MAX + 1];
  for (int tries = 0; tries < 2 * TB_CACHE_FILES_MOST; tries++) {
    if (find_file(folder, prefix, "", false, name, sizeof name) <= TB_CACHE_FILES_MOST) return;
    if (unlinkat(folder, name, 0) != 0 && errno != ENOENT) return;
  }
}

bool tb_cache_file_write(int folder, const char *prefix, const char *name, const char *text, size_t length) {
  static atomic_uint written_so_far;
  char temporary[NAME_MAX + 1];
  if (snprintf(temporary, sizeof temporary, "%s.%d.%u", name, (int)getpid(), atomic_fetch_add(&written_so_far, 1)) >=
      (int)sizeof temporary)
    return false;
  (void)unlinkat(folder, temporary, 0); /* of a process that had this number before */
  int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  bool written = write(fd, text, length) == (ssize_t)length;
  written = close(fd) == 0 && written && renameat(folder, temporary, folder, name) == 0;
  if (!written) unlinkat(folder, temporary, 0);
  remove_oldest(folder, prefix);
  return written;
}
