/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "cache/track.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/integers.h"

/* Of headers younger than those that we are compiled with: linux/userfaultfd.h, linux/fs.h. */
#define USER_MODE_ONLY 1
#define FEATURE_WP_UNPOPULATED ((uint64_t)1 << 13)
#define FEATURE_WP_ASYNC ((uint64_t)1 << 15)

struct scan_region {
  uint64_t start, end, categories;
};

struct scan {
  uint64_t size, flags, start, end, walk_end, regions, regions_most, pages_most;
  uint64_t category_inverted, category_mask, category_anyof, return_mask;
};
#define SCAN_PAGES _IOWR('f', 16, struct scan)
#define SCAN_CHECK_WPASYNC ((uint64_t)1 << 1)
enum { PAGE_WPALLOWED = 1, PAGE_WRITTEN = 2, PAGE_PRESENT = 8, PAGE_SWAPPED = 16 };

/* Edges of ranges and the digests of what is beside them are for pages of this size. */
#define TRACKED_PAGE_BYTES 4096

/* ---- files ---- */

/* A file of ours, by which it is known again: a program may close files that it did not open, and then have others of
 * the same number. */
struct own_file {
  int fd; /* -1: closed */
  dev_t device;
  ino_t inode;
};

static struct own_file faults_file = {.fd = -1}, pagemap_file = {.fd = -1};
static bool refused; /* the kernel does not have it, or does not let us */

static bool keep_file(struct own_file *file, int fd) {
  struct stat found;
  if (fd < 0) return false;
  if (fstat(fd, &found) != 0) {
    close(fd);
    return false;
  }
  *file = (struct own_file){fd, found.st_dev, found.st_ino};
  return true;
}

static bool is_there(const struct own_file *file) {
  struct stat found;
  return file->fd >= 0 && fstat(file->fd, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode;
}

static void close_file(struct own_file *file) {
  if (is_there(file)) close(file->fd);
  file->fd = -1;
}

static bool open_faults(void) {
  if (!keep_file(&faults_file, (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY))) return false;
  struct uffdio_api api = {.api = UFFD_API, .features = FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED};
  return ioctl(faults_file.fd, UFFDIO_API, &api) == 0;
}

static bool open_files(void) {
  if (is_there(&faults_file) && is_there(&pagemap_file)) return true;
  tb_track_close();
  if (refused || sysconf(_SC_PAGESIZE) != TRACKED_PAGE_BYTES) return false;
  if (open_faults() && keep_file(&pagemap_file, open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC))) return true;
  refused = true;
  tb_track_close();
  return false;
}

/* All that are tracked, for any GPU. */
#define TRACKED_MOST 256
static struct tb_tracked tracked[TRACKED_MOST]; /* number 0: a free place */
static bool gave_way[TRACKED_MOST];             /* to other memory, before the mapping there now was enrolled */
static uint64_t latest_number;

/* Single pages, in none of those. */
#define PROBES_MOST 64
static struct tb_tracked probes[PROBES_MOST];
static int next_probe; /* the place that is used again next */

void tb_track_close(void) {
  close_file(&faults_file);
  close_file(&pagemap_file);
  memset(tracked, 0, sizeof tracked);
  memset(probes, 0, sizeof probes);
}

void tb_track_after_fork(void) {
  const int saved_errno = errno;
  tb_track_close(); /* they speak of the parent's memory */
  errno = saved_errno;
}

/* ---- pages ---- */

struct tb_tracked tb_track_pages(uintptr_t from, uintptr_t to) {
  const uintptr_t mask = TRACKED_PAGE_BYTES - 1;
  return (struct tb_tracked){(from + mask) & ~mask, to & ~mask, 0};
}

struct tb_tracked tb_track_pages_around(uintptr_t from, uintptr_t to) {
  const uintptr_t mask = TRACKED_PAGE_BYTES - 1;
  return (struct tb_tracked){from & ~mask, (to + mask) & ~mask, 0};
}

static struct uffdio_range range_of(const struct tb_tracked *pages) {
  return (struct uffdio_range){.start = pages->start, .len = pages->end - pages->start};
}

static struct tb_tracked *find_number(uint64_t number) {
  for (int i = 0; i < TRACKED_MOST; i++)
    if (tracked[i].number == number) return &tracked[i];
  return NULL;
}

bool tb_track_holds(const struct tb_tracked *pages) { return pages->number != 0 && find_number(pages->number) != NULL; }

/* One with pages in common with these; NULL: there is none. */
static struct tb_tracked *find_common(const struct tb_tracked *pages) {
  for (int i = 0; i < TRACKED_MOST; i++)
    if (tracked[i].number != 0 && tracked[i].start < pages->end && pages->start < tracked[i].end) return &tracked[i];
  return NULL;
}

/* Its mapping stays enrolled, which costs nothing: others may be in it. Where others have some of the pages all stay
 * protected. */
static void unprotect(struct tb_tracked *place) {
  struct uffdio_writeprotect open = {.range = range_of(place), .mode = 0};
  if (place->number == 0) return;
  place->number = 0;
  if (find_common(place) == NULL && is_there(&faults_file)) ioctl(faults_file.fd, UFFDIO_WRITEPROTECT, &open);
}

void tb_track_end(struct tb_tracked *pages) {
  const int saved_errno = errno;
  if (tb_track_holds(pages)) unprotect(find_number(pages->number));
  pages->number = 0;
  errno = saved_errno;
}

static bool protect(const struct tb_tracked *pages, const struct tb_tracked *mapping) {
  struct uffdio_register enrolled = {.range = range_of(mapping), .mode = UFFDIO_REGISTER_MODE_WP};
  struct uffdio_writeprotect protected = {.range = range_of(pages), .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  if (ioctl(faults_file.fd, UFFDIO_REGISTER, &enrolled) != 0) return false;
  return ioctl(faults_file.fd, UFFDIO_WRITEPROTECT, &protected) == 0;
}

/* Whether they are all protected already, among others' pages, and not written since. */
static bool are_protected(const struct tb_tracked *pages) {
  for (int i = 0; i < TRACKED_MOST; i++)
    if (tracked[i].number != 0 && tracked[i].start <= pages->start && pages->end <= tracked[i].end)
      return tb_track_is_clean(*pages);
  return false;
}

/* A question about some pages, of which one region of those that fit is told. They must be enrolled. */
static struct scan question_about(const struct tb_tracked *pages, struct scan_region *region) {
  return (struct scan){.size = sizeof(struct scan),
                       .flags = SCAN_CHECK_WPASYNC,
                       .start = pages->start,
                       .end = pages->end,
                       .regions = (uint64_t)(uintptr_t)region,
                       .regions_most = 1,
                       .return_mask = PAGE_WPALLOWED};
}

/* A mapping that is not enrolled is refused an answer. */
static bool is_another_mapping(const struct tb_tracked *pages) {
  const uintptr_t midst = pages->start + (pages->end - pages->start) / 2;
  const struct tb_tracked page = tb_track_pages_around(midst, midst + 1);
  struct scan_region region = {0, 0, 0};
  struct scan scan = question_about(&page, &region);
  return is_there(&pagemap_file) && ioctl(pagemap_file.fd, SCAN_PAGES, &scan) < 0 && errno == EPERM;
}

/* What else is tracked in a mapping that is about to be enrolled: behind that nobody could tell whether it is new. */
static void note_replaced(const struct tb_tracked *mapping) {
  for (int i = 0; i < TRACKED_MOST; i++)
    if (tracked[i].number != 0 && tracked[i].start >= mapping->start && tracked[i].end <= mapping->end)
      gave_way[i] = gave_way[i] || is_another_mapping(&tracked[i]);
}

static void take_from_others(const struct tb_tracked *pages) {
  for (struct tb_tracked *common; (common = find_common(pages)) != NULL;) unprotect(common);
  for (int i = 0; i < PROBES_MOST; i++)
    if (probes[i].start >= pages->start && probes[i].end <= pages->end) probes[i].number = 0;
}

bool tb_track_may_begin(void) {
  const int saved_errno = errno;
  const bool may = open_files();
  errno = saved_errno;
  return may;
}

bool tb_track_begin(struct tb_tracked *pages, struct tb_tracked mapping) {
  const int saved_errno = errno;
  pages->number = 0;
  const bool may = pages->start < pages->end && open_files(), shares = may && are_protected(pages);
  if (may && !shares) note_replaced(&mapping);
  if (may && !shares) take_from_others(pages);
  struct tb_tracked *const place = may ? find_number(0) : NULL;
  if (place != NULL) {
    *place = *pages;
    place->number = ++latest_number;
    gave_way[place - tracked] = false;
    if (shares || protect(pages, &mapping))
      pages->number = place->number;
    else
      unprotect(place);
  }
  errno = saved_errno;
  return pages->number != 0;
}

bool tb_track_extend(struct tb_tracked *pages, uintptr_t end, struct tb_tracked mapping) {
  const int saved_errno = errno;
  const struct tb_tracked more = {pages->end, end, 0};
  bool may = open_files() && tb_track_holds(pages);
  if (may && more.start < more.end && !are_protected(&more)) {
    note_replaced(&mapping);
    take_from_others(&more);
    may = protect(&more, &mapping);
  }
  if (may) {
    struct tb_tracked *const place = find_number(pages->number);
    place->end = pages->end = end;
    place->number = pages->number = ++latest_number;
  }
  errno = saved_errno;
  return may;
}

/* Asked for are the pages that are protected and there, not those that were written: a page that was unmapped, or given
 * back by madvise, is none of either. */
static struct scan clean_question(const struct tb_tracked *pages, struct scan_region *region) {
  struct scan scan = question_about(pages, region);
  scan.category_inverted = PAGE_WRITTEN;
  scan.category_mask = PAGE_WRITTEN | PAGE_WPALLOWED;
  scan.category_anyof = PAGE_PRESENT | PAGE_SWAPPED;
  return scan;
}

/* They must be one region that is all of the range. */
bool tb_track_is_clean(struct tb_tracked pages) {
  const int saved_errno = errno;
  struct scan_region region = {0, 0, 0};
  struct scan scan = clean_question(&pages, &region);
  const bool clean = is_there(&pagemap_file) && ioctl(pagemap_file.fd, SCAN_PAGES, &scan) == 1 &&
                     region.start == pages.start && region.end == pages.end;
  errno = saved_errno;
  return clean;
}

/* What is clean comes in regions, and what is between these was written. */
int tb_track_find_written(struct tb_tracked pages, struct tb_tracked run[], int most) {
  const int saved_errno = errno;
  struct scan_region clean[TB_TRACK_RUNS_MOST + 1];
  struct scan scan = clean_question(&pages, clean);
  scan.regions_most = (uint64_t)tb_min(most, TB_TRACK_RUNS_MOST) + 1;
  const long regions = is_there(&pagemap_file) ? ioctl(pagemap_file.fd, SCAN_PAGES, &scan) : -1;
  errno = saved_errno;
  if (regions <= 0 || scan.walk_end < pages.end) return -1;
  int runs = 0;
  uintptr_t at = pages.start;
  for (long i = 0; i <= regions; i++) {
    const uintptr_t next = i < regions ? (uintptr_t)clean[i].start : pages.end;
    if (next > at && runs == most) return -1;
    if (next > at) run[runs++] = (struct tb_tracked){at, next, 0};
    if (i < regions) at = (uintptr_t)clean[i].end;
  }
  return runs;
}

bool tb_track_renew(const struct tb_tracked *pages, struct tb_tracked run) {
  const int saved_errno = errno;
  struct uffdio_writeprotect protected = {.range = range_of(&run), .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  for (int i = 0; i < TRACKED_MOST; i++)
    if (tracked[i].number != pages->number && tracked[i].start < run.end && run.start < tracked[i].end)
      tracked[i].number = 0;
  const bool renewed = is_there(&faults_file) && ioctl(faults_file.fd, UFFDIO_WRITEPROTECT, &protected) == 0;
  errno = saved_errno;
  return renewed;
}

bool tb_track_is_replaced(const struct tb_tracked *pages) {
  const int saved_errno = errno;
  const struct tb_tracked *const place = pages->number != 0 ? find_number(pages->number) : NULL;
  const bool replaced = (place != NULL && gave_way[place - tracked]) || is_another_mapping(pages);
  errno = saved_errno;
  return replaced;
}

/* ---- probes ---- */

static struct tb_tracked *find_probe(const struct tb_tracked *page) {
  for (int i = 0; i < PROBES_MOST; i++)
    if (page->number != 0 && probes[i].number == page->number) return &probes[i];
  return NULL;
}

/* Of what is tracked no page is protected again: what was written there would no longer show. */
void tb_probe_begin(struct tb_tracked *page, struct tb_tracked mapping) {
  const int saved_errno = errno;
  page->number = 0;
  if (open_files() && find_common(page) == NULL) {
    struct tb_tracked *const place = &probes[next_probe];
    next_probe = (next_probe + 1) % PROBES_MOST;
    unprotect(place);
    *place = *page;
    note_replaced(&mapping);
    if (protect(page, &mapping)) page->number = place->number = ++latest_number;
  }
  errno = saved_errno;
}

bool tb_probe_is_written(const struct tb_tracked *page) {
  return find_probe(page) != NULL && !tb_track_is_clean(*page);
}

void tb_probe_end(struct tb_tracked *page) {
  const int saved_errno = errno;
  if (find_probe(page) != NULL) unprotect(find_probe(page));
  page->number = 0;
  errno = saved_errno;
}
