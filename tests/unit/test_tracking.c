/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's word that pages were not written: every way in which a page can come to have other bytes is seen, and
 * what leaves them alone is none of them. Who could write without a fault is seen, too. Left out where the kernel has
 * no such word to give (before Linux 6.7), or does not let us have it.
 *
 * Seen to fail when: written pages are asked for, in the place of those that are protected; a part of a range is asked
 * about; ranges with pages in common are both believed behind a write; the files are not known again; shared mappings,
 * pins, rings or memory of CUDA's are overlooked, be it that the kernel answers what is mapped or has a file of it; a
 * long line of the kernel's is not read to its end; a terminal or a timer counts as one who writes, or a driver, or
 * a socket's family, that nobody knows as none; one of NVIDIA's other interfaces is overlooked when it is loaded behind
 * a look, or apart; a file that is of no use alone stays open, or a place that was of no use stays taken; pages that
 * were written, or are gone, count as another mapping's.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/ioctl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/track.h"
#include "cache/writers.h"
#include "cuda/driver.h"
#include "placed.h"
#include "process.h"

#define PAGE ((size_t)4096)
#define BYTES ((size_t)8 << 20)
/* Of headers younger than some: MADV_COLLAPSE and the like. */
#define DONTNEED_LOCKED 24
#define COLLAPSE 25
#define GUARD_INSTALL 102
#define GUARD_REMOVE 103
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* The kernel answers what is mapped since Linux 6.11; the library's questions are the executable's here. */
#define QUERY_MAP 0xC0686611UL
static bool answers_nothing;
static int answers;

int ioctl(int file, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *const argument = va_arg(arguments, void *);
  va_end(arguments);
  if (request == QUERY_MAP && answers_nothing) {
    errno = ENOTTY;
    return -1;
  }
  const int result = (int)syscall(SYS_ioctl, file, request, argument);
  answers += request == QUERY_MAP && result == 0;
  return result;
}

/* A socket's family that is told in place of its own; 0: none. */
static int family_told;

int getsockopt(int file, int level, int name, void *restrict value, socklen_t *restrict size) {
  if (family_told > 0 && level == SOL_SOCKET && name == SO_DOMAIN) return memcpy(value, &family_told, sizeof(int)), 0;
  return (int)syscall(SYS_getsockopt, file, level, name, value, size);
}

static char *memory;
static struct tb_tracked pages;

static struct tb_tracked pages_at(const char *at, size_t bytes) {
  return tb_track_pages((uintptr_t)at, (uintptr_t)at + bytes);
}

static void begin(bool huge) {
  memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  if (huge) madvise(memory, BYTES, MADV_HUGEPAGE);
  memset(memory, 1, BYTES);
  pages = pages_at(memory, BYTES);
  if (!tb_track_begin(&pages, pages)) {
    munmap(memory, BYTES);
    TST_LEAVE_OUT("the kernel tracks no writes");
  }
  assert_true(tb_track_is_clean(pages));
}

static void end(void) {
  tb_track_end(&pages);
  munmap(memory, BYTES);
}

/* ---- who writes ---- */

static void write_plainly(char *at) { *at = 7; }
static void write_the_same(char *at) { *(volatile char *)at = *at; }

static void *write_in_thread(void *at) {
  *(char *)at = 7;
  return NULL;
}

static void write_by_thread(char *at) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, write_in_thread, at), 0);
  pthread_join(thread, NULL);
}

static void write_by_read(char *at) {
  const int zero = open("/dev/zero", O_RDONLY);
  assert_int_equal(read(zero, at, 1), 1);
  close(zero);
}

static void write_by_pipe(char *at) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], "x", 1), 1);
  assert_int_equal(read(ends[0], at, 1), 1);
  close(ends[0]), close(ends[1]);
}

static void write_by_recv(char *at) {
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  assert_int_equal(send(ends[1], "x", 1, 0), 1);
  assert_int_equal(recv(ends[0], at, 1, 0), 1);
  close(ends[0]), close(ends[1]);
}

static void write_by_file(char *at) {
  const int file = open(tst_temporary_file(), O_RDWR);
  assert_int_equal(write(file, "x", 1), 1);
  assert_int_equal(pread(file, at, 1, 0), 1);
  close(file);
}

static void write_directly(char *at) { /* O_DIRECT: the device writes, while the call lasts */
  const int file = open(tst_temporary_file(), O_RDWR | O_DIRECT);
  char *const page = (char *)((uintptr_t)at & ~(PAGE - 1));
  if (file < 0 || write(file, page, PAGE) != (ssize_t)PAGE || pread(file, page, PAGE, 0) != (ssize_t)PAGE) *at = 7;
  if (file >= 0) close(file);
}

static void write_from_outside(char *at) {
  struct iovec from = {(char[]){7}, 1}, to = {at, 1};
  if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 1) *at = 7;
}

static void write_by_proc(char *at) {
  const int file = open("/proc/self/mem", O_RDWR);
  if (file < 0 || pwrite(file, "x", 1, (off_t)(uintptr_t)at) != 1) *at = 7;
  if (file >= 0) close(file);
}

static void write_behind_fork(char *at) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  *at = 7;
  waitpid(child, NULL, 0);
}

static void write_while_child_lives(char *at) {
  int ends[2];
  char nothing;
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    _exit(read(ends[0], &nothing, 1) == 0 ? 0 : 1);
  }
  *at = 7;
  close(ends[1]);
  waitpid(child, NULL, 0);
  close(ends[0]);
}

/* ---- who does what to the mapping ---- */

static char *page_of(char *at) { return (char *)((uintptr_t)at & ~(PAGE - 1)); }

static void discard(char *at) { madvise(page_of(at), PAGE, MADV_DONTNEED); }

static void discard_and_read(char *at) {
  madvise(page_of(at), PAGE, MADV_DONTNEED);
  assert_int_equal(*(volatile char *)at, 0);
}

static void discard_all(char *at) {
  (void)at;
  madvise(memory, BYTES, MADV_DONTNEED);
}

/* Where the kernel is older than an advice it is the oldest one's work. */
static void advise_or_discard(char *at, int advice) {
  if (madvise(page_of(at), PAGE, advice) != 0) discard(at);
}

static void discard_locked(char *at) { advise_or_discard(at, DONTNEED_LOCKED); }

static void guard(char *at) {
  advise_or_discard(at, GUARD_INSTALL);
  madvise(page_of(at), PAGE, GUARD_REMOVE);
}

/* Its pages go elsewhere, and it stays. */
static void move_away(char *at) {
  if (mremap(page_of(at), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL) == MAP_FAILED) discard(at);
  assert_int_equal(*(volatile char *)at, 0);
}

static void free_and_reclaim(char *at) {
  madvise(page_of(at), PAGE, MADV_FREE);
  if (madvise(page_of(at), PAGE, MADV_PAGEOUT) != 0) madvise(page_of(at), PAGE, MADV_DONTNEED);
}

static void free_and_write(char *at) {
  madvise(page_of(at), PAGE, MADV_FREE);
  *at = 7;
}

static void unmap_page(char *at) { munmap(page_of(at), PAGE); }

static void map_page(char *at) {
  mmap(page_of(at), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
}

static void map_all(char *at) {
  (void)at;
  munmap(memory, BYTES);
  mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
}

static void map_file(char *at) {
  const int file = open(tst_temporary_file(), O_RDWR);
  assert_int_equal(ftruncate(file, (off_t)PAGE), 0);
  mmap(page_of(at), PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  close(file);
}

static void move_there_and_back(char *at) {
  char *const other = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *const moved = mremap(memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, other);
  moved[at - memory] = 7;
  mremap(moved, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, memory);
}

static void move_other_there(char *at) {
  char *const other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  other[0] = 9;
  mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page_of(at));
}

static void protect_and_write(char *at) {
  mprotect(memory, BYTES, PROT_READ);
  mprotect(memory, BYTES, PROT_READ | PROT_WRITE);
  *at = 7;
}

/* Where the processor has none the key is -1, and this what mprotect does. */
static void set_key(void) {
  const int key = pkey_alloc(0, 0);
  pkey_mprotect(memory, BYTES, PROT_READ | PROT_WRITE, key);
  if (key >= 0) pkey_mprotect(memory, BYTES, PROT_READ | PROT_WRITE, 0);
  if (key >= 0) pkey_free(key);
}

static void set_key_and_write(char *at) {
  set_key();
  *at = 7;
}

static void (*const changes[])(char *) = {
    write_plainly,
    write_the_same,
    write_by_thread,
    write_by_read,
    write_by_pipe,
    write_by_recv,
    write_by_file,
    write_directly,
    write_from_outside,
    write_by_proc,
    write_behind_fork,
    write_while_child_lives,
    discard,
    discard_and_read,
    discard_all,
    free_and_reclaim,
    free_and_write,
    unmap_page,
    map_page,
    map_all,
    map_file,
    move_there_and_back,
    move_other_there,
    protect_and_write,
    set_key_and_write,
    discard_locked,
    guard,
    move_away,
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void every_change_shows(void **state) {
  (void)state;
  const size_t places[] = {0, PAGE - 1, 3 * PAGE + 8, ((size_t)2 << 20) - 1, (size_t)2 << 20, BYTES - 1};
  for (int huge = 0; huge < 2; huge++)
    for (int change = 0; change < CHANGES; change++)
      for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
        begin(huge);
        changes[change](memory + places[place]);
        if (tb_track_is_clean(pages)) fail_msg("change %d at %zu is not seen (huge %d)", change, places[place], huge);
        end();
      }
}

/* ---- what changes nothing ---- */

static void read_all(char *at) {
  char *const copy = malloc(BYTES);
  (void)at;
  memcpy(copy, memory, BYTES);
  free(copy);
}

static void only_fork(char *at) {
  const pid_t child = fork();
  if (child == 0) {
    *at = 9; /* of its own copy */
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void protect_twice(char *at) {
  (void)at;
  mprotect(memory, BYTES, PROT_READ);
  mprotect(memory, BYTES, PROT_READ | PROT_WRITE);
}

static void set_key_only(char *at) {
  (void)at;
  set_key();
}

static void page_out(char *at) { /* where there is swap it goes there, and comes back when it is read */
  madvise(memory, BYTES, MADV_PAGEOUT);
  assert_int_equal(*(volatile char *)at, 1);
}

static void collapse(char *at) {
  (void)at;
  madvise(memory, BYTES, COLLAPSE);
}

static void merge(char *at) {
  (void)at;
  madvise(memory, BYTES, MADV_MERGEABLE);
}

static void what_changes_nothing_does_not_show(void **state) {
  (void)state;
  void (*const harmless[])(char *) = {read_all, only_fork, protect_twice, set_key_only, page_out, collapse, merge};
  for (int huge = 0; huge < 2; huge++)
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
      begin(huge);
      harmless[i](memory + 5 * PAGE);
      if (!tb_track_is_clean(pages)) fail_msg("%zu counts as a change (huge %d)", i, huge);
      memory[5 * PAGE] = 3; /* and behind it a change still shows */
      assert_false(tb_track_is_clean(pages));
      end();
    }
}

/* A program that uses userfaultfd itself, as a collector or a manager of pages does. */
static int open_programs_faults(void) {
  const int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  struct uffdio_api api = {.api = UFFD_API};
  assert_true(faults >= 0);
  assert_int_equal(ioctl(faults, UFFDIO_API, &api), 0);
  return faults;
}

static int register_pages(int faults) {
  struct uffdio_register enrolled = {.range = {pages.start, pages.end - pages.start},
                                     .mode = UFFDIO_REGISTER_MODE_MISSING};
  return ioctl(faults, UFFDIO_REGISTER, &enrolled) == 0 ? 0 : errno;
}

/* What the program has is not ours to watch; what was ours it is refused, until the memory is mapped anew or the watch
 * of everything has ended. */
static void a_userfaultfd_of_the_programs(void **state) {
  (void)state;
  begin(false);
  const int faults = open_programs_faults();
  assert_int_equal(register_pages(faults), EBUSY);
  assert_true(tb_track_is_clean(pages));
  tb_track_end(&pages);
  assert_int_equal(register_pages(faults), EBUSY);
  assert_true(mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
  assert_int_equal(register_pages(faults), 0);
  assert_false(tb_track_begin(&pages, pages));
  assert_int_equal(pages.number, 0);
  close(faults);
  assert_true(tb_track_begin(&pages, pages));
  tb_track_close();
  const int later = open_programs_faults();
  assert_int_equal(register_pages(later), 0);
  close(later);
  end();
}

/* Of all changes, the ones by which a page is another mapping's. */
static void what_is_replaced_is_told(void **state) {
  (void)state;
  for (int huge = 0; huge < 2; huge++)
    for (int change = 0; change < CHANGES; change++) {
      begin(huge);
      char *const at = memory + 5 * PAGE;
      struct tb_tracked page = pages_at(page_of(at), PAGE);
      assert_false(tb_track_is_replaced(&page));
      changes[change](at);
      errno = EPERM; /* the program's own says nothing */
      const bool replaced = changes[change] == map_page || changes[change] == map_all || changes[change] == map_file ||
                            changes[change] == move_other_there;
      const bool moved = changes[change] == move_there_and_back; /* as the kernel likes */
      if (!moved && tb_track_is_replaced(&page) != replaced) fail_msg("%d: %s", change, replaced ? "not" : "it is");
      end();
    }
}

/* And of two in one mapping, both of which are others by now, or written, when the first one is tracked anew, by which
 * the mapping is enrolled. */
static void what_was_replaced_beside_is_told(void **state) {
  (void)state;
  for (int replaced = 0; replaced < 2; replaced++) {
    begin(false);
    tb_track_end(&pages);
    struct tb_tracked first = pages_at(memory, 4 * PAGE), second = pages_at(memory + 8 * PAGE, 4 * PAGE);
    assert_true(tb_track_begin(&first, pages) && tb_track_begin(&second, pages));
    if (replaced) map_all(memory);
    memset(memory, 3, BYTES);
    tb_track_end(&first);
    assert_true(tb_track_begin(&first, pages));
    assert_false(tb_track_is_clean(second));
    assert_int_equal(tb_track_is_replaced(&second), replaced);
    assert_false(tb_track_is_replaced(&first));
    tb_track_end(&second);
    /* In the same place of the table, where nothing is known of the one before. */
    assert_true(tb_track_begin(&second, pages));
    assert_false(tb_track_is_replaced(&second));
    tb_track_end(&first), tb_track_end(&second);
    end();
  }
}

static void pages_that_nobody_has_touched(void **state) {
  (void)state;
  begin(false);
  end();
  memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pages = pages_at(memory, BYTES);
  assert_true(tb_track_begin(&pages, pages));
  assert_true(tb_track_is_clean(pages));
  assert_int_equal(*(volatile char *)(memory + PAGE), 0);
  assert_true(tb_track_is_clean(pages));
  memory[PAGE] = 1;
  assert_false(tb_track_is_clean(pages));
  end();
}

/* ---- ranges ---- */

static void of_ranges_with_common_pages_the_latest_counts(void **state) {
  (void)state;
  begin(false);
  struct tb_tracked second = pages_at(memory + BYTES / 2, BYTES / 4), apart = pages_at(memory + PAGE, PAGE);
  memory[BYTES / 2] = 9; /* a write that the second's protection would hide from the first */
  assert_true(tb_track_begin(&second, pages));
  assert_false(tb_track_holds(&pages));
  assert_true(tb_track_holds(&second) && tb_track_is_clean(second));
  tb_track_end(&pages); /* which takes nothing from the second */
  assert_true(tb_track_begin(&apart, pages));
  assert_true(tb_track_holds(&second) && tb_track_is_clean(second));
  memory[BYTES / 2] = 9;
  assert_false(tb_track_is_clean(second));
  assert_true(tb_track_is_clean(apart));
  tb_track_end(&second);
  tb_track_end(&apart);
  end();
}

/* So it does of those that came later. */
static void of_what_was_extended_too(void **state) {
  (void)state;
  begin(false);
  tb_track_end(&pages);
  struct tb_tracked half = pages_at(memory, BYTES / 2), second = pages_at(memory + 5 * BYTES / 8, BYTES / 4);
  assert_true(tb_track_begin(&half, pages));
  assert_true(tb_track_extend(&half, (uintptr_t)memory + BYTES, pages));
  assert_true(half.end == (uintptr_t)memory + BYTES && tb_track_is_clean(half));
  memory[3 * BYTES / 4] = 9;
  assert_false(tb_track_is_clean(half));
  assert_true(tb_track_begin(&second, pages));
  assert_false(tb_track_holds(&half));
  tb_track_end(&second);
  end();
}

/* The same pages, or some of them, twice, as two operands in one square have them: a write shows in both, and the end
 * of one takes nothing from the other. But not where there was a write: they would be protected anew. */
static void the_same_pages_twice(void **state) {
  (void)state;
  for (int some = 0; some < 2; some++)
    for (int first_ends = 0; first_ends < 2; first_ends++) {
      begin(false);
      const struct tb_tracked wanted = some ? pages_at(memory + PAGE, BYTES / 2) : pages_at(memory, BYTES);
      struct tb_tracked second = wanted, third = wanted;
      assert_true(tb_track_begin(&second, pages));
      assert_true(tb_track_holds(&pages) && tb_track_holds(&second) && pages.number != second.number);
      assert_true(tb_track_is_clean(pages) && tb_track_is_clean(second));
      tb_track_end(first_ends ? &pages : &second);
      assert_true(tb_track_is_clean(wanted));
      assert_true(tb_track_begin(&third, wanted) && tb_track_is_clean(third));
      memory[2 * PAGE] = 9;
      assert_false(tb_track_is_clean(wanted));
      struct tb_tracked fourth = wanted;
      assert_true(tb_track_begin(&fourth, wanted) && tb_track_is_clean(fourth));
      assert_false(tb_track_holds(&third) || tb_track_holds(first_ends ? &second : &pages));
      tb_track_end(&fourth);
      assert_false(tb_track_is_clean(wanted)); /* nobody has them any more: they cost no faults */
      munmap(memory, BYTES);
    }
}

/* A program may move its memory as before, and make it larger, as realloc does. */
static void the_program_moves_it(void **state) {
  (void)state;
  struct tb_tracked mapping;
  begin(false);
  tb_track_end(&pages);
  pages = pages_at(memory + PAGE, BYTES - 3 * PAGE);
  assert_true(tb_writers_find_mapping(pages, &mapping));
  assert_true(mapping.start <= (uintptr_t)memory && mapping.end >= (uintptr_t)memory + BYTES);
  assert_true(tb_track_begin(&pages, mapping) && tb_track_is_clean(pages));
  memory = mremap(memory, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
  assert_true(memory != MAP_FAILED);
  for (size_t i = 0; i < BYTES; i += PAGE) assert_int_equal(memory[i], 1);
  memory[0] = memory[PAGE] = memory[2 * BYTES - 1] = 2;
  assert_false(tb_track_is_clean(pages));
  munmap(memory + BYTES, BYTES);
  end();
}

static void mappings_are_found(void **state) {
  (void)state;
  struct tb_tracked mapping;
  begin(false);
  munmap(memory + BYTES / 2, PAGE);
  assert_true(tb_writers_find_mapping(pages_at(memory, BYTES / 2), &mapping));
  assert_true(mapping.end == (uintptr_t)memory + BYTES / 2);
  assert_false(tb_writers_find_mapping(pages_at(memory, BYTES / 2 + PAGE), &mapping));
  assert_false(tb_writers_find_mapping(pages_at(memory + BYTES / 2, PAGE), &mapping));
  end();
}

/* Memory that nobody has is not tracked, and takes no place: there are 256. */
static void memory_that_is_not_there(void **state) {
  enum { PAGES = 300 };
  (void)state;
  begin(false);
  char *const gone = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(gone != MAP_FAILED);
  munmap(gone, PAGES * PAGE);
  tb_track_end(&pages);
  for (int i = 0; i < PAGES; i++) {
    struct tb_tracked nothing = pages_at(gone + (size_t)i * PAGE, PAGE);
    assert_false(tb_track_begin(&nothing, nothing));
    assert_false(tb_track_holds(&nothing));
  }
  assert_true(tb_track_begin(&pages, pages) && tb_track_is_clean(pages));
  end();
}

static void whole_pages(void **state) {
  (void)state;
  struct tb_tracked inside = tb_track_pages(4096, 12288), around = tb_track_pages_around(4096, 12288);
  assert_true(inside.start == 4096 && inside.end == 12288 && around.start == 4096 && around.end == 12288);
  inside = tb_track_pages(4097, 12287), around = tb_track_pages_around(4097, 12289);
  assert_true(inside.start == 8192 && inside.end == 8192 && around.start == 4096 && around.end == 16384);
  assert_false(tb_track_begin(&inside, inside));
}

/* ---- files ---- */

/* A program that closes whatever is open, and then opens files of its own under their numbers. */
static int close_files(void *unused) {
  struct tb_tracked mine = pages_at(memory, BYTES);
  (void)unused;
  tb_track_after_fork();
  if (!tb_track_begin(&mine, mine) || !tb_track_is_clean(mine)) return 2;
  for (int fd = 3; fd < 64; fd++) close(fd);
  for (int fd = 3; fd < 19; fd++)
    if (open("/dev/null", O_RDONLY) != fd) return 3;
  if (tb_track_is_clean(mine)) return 4;
  tb_track_close();
  for (int fd = 3; fd < 19; fd++)
    if (fcntl(fd, F_GETFD) < 0) return 5; /* it was none of ours */
  return tb_track_begin(&mine, mine) && tb_track_is_clean(mine) ? 0 : 6;
}

static void files_that_are_closed(void **state) {
  (void)state;
  struct tst_output o;
  begin(false);
  tst_fork(&o, close_files, NULL);
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);
  end();
}

/* A process that may have so many files and no more: of the two that are wanted none, or one, which is not left behind.
 * It is not asked again. */
static int no_more_files(void *more) {
  struct tb_tracked mine = pages_at(memory, BYTES);
  struct rlimit limit;
  tb_track_after_fork();
  const int first = open("/dev/null", O_RDONLY);
  close(first);
  if (first < 0 || fcntl(first + 1, F_GETFD) >= 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  const struct rlimit tight = {(rlim_t)(first + *(const int *)more), limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &tight) != 0) return 2;
  errno = 7;
  if (tb_track_may_begin() || errno != 7) return 3;
  if (fcntl(first, F_GETFD) >= 0) return 4;
  if (tb_track_begin(&mine, mine) || mine.number != 0) return 3;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 && !tb_track_may_begin() ? 0 : 5;
}

static void files_that_are_not_to_be_had(void **state) {
  (void)state;
  begin(false);
  for (int more = 0; more < 2; more++) {
    struct tst_output o;
    tst_fork(&o, no_more_files, &more);
    if (o.status != 0) fail_msg("%d more files: status %d", more, o.status);
    tst_output_destroy(&o);
  }
  end();
}

static int child_has_none(void *unused) {
  (void)unused;
  tb_track_after_fork();
  return tb_track_holds(&pages) || tb_track_is_clean(pages);
}

static void children(void **state) {
  (void)state;
  struct tst_output o;
  begin(false);
  tst_fork(&o, child_has_none, NULL);
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);
  assert_true(tb_track_holds(&pages) && tb_track_is_clean(pages));
  end();
}

/* ---- who could write without a fault ---- */

static bool all_fault(struct tb_tracked pages) { return tb_writers_of_runs_all_fault(&pages, 1); }

static void ordinary_memory(void **state) {
  (void)state;
  begin(false);
  const int event = eventfd(0, 0), file = open("/proc/self/exe", O_RDONLY), null = open("/dev/null", O_RDWR);
  const int udp = socket(AF_INET, SOCK_DGRAM, 0);
  assert_true(all_fault(pages));
  close(event), close(file), close(null);
  if (udp >= 0) close(udp);
  end();
}

/* What a program has open that holds no pages: asked about one by one, for one is enough. */
static void harmless_files(void **state) {
  (void)state;
  sigset_t signals;
  sigemptyset(&signals);
  begin(false);
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  const bool has_terminals = master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0;
  const int files[] = {master,
                       has_terminals ? open(ptsname(master), O_RDWR | O_NOCTTY) : -1,
                       open("/dev/zero", O_RDWR),
                       open("/dev/urandom", O_RDONLY),
                       open("/tmp", O_RDONLY | O_DIRECTORY),
                       epoll_create1(0),
                       timerfd_create(CLOCK_MONOTONIC, 0),
                       signalfd(-1, &signals, 0),
                       inotify_init(),
                       (int)syscall(SYS_pidfd_open, getpid(), 0),
                       socket(AF_UNIX, SOCK_STREAM, 0),
                       socket(AF_INET6, SOCK_STREAM, 0),
                       socket(AF_NETLINK, SOCK_RAW, 0),
                       socket(AF_PACKET, SOCK_DGRAM, 0),
                       socket(AF_VSOCK, SOCK_STREAM, 0)};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (files[i] < 0) continue; /* there is none such here */
    if (!all_fault(pages)) fail_msg("file %d counts as somebody who writes", (int)i);
    if (files[i] != master) close(files[i]);
  }
  if (master >= 0) close(master);
  end();
}

/* A device of a driver that nobody knows may have pinned anything. */
static void unknown_devices(void **state) {
  static const char *const devices[] = {"/dev/fuse",        "/dev/net/tun",   "/dev/kvm",
                                        "/dev/rtc0",        "/dev/hpet",      "/dev/loop-control",
                                        "/dev/userfaultfd", "/dev/vhost-net", "/dev/uinput"};
  int found = 0;
  (void)state;
  begin(false);
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    const int file = open(devices[i], O_RDONLY | O_NONBLOCK);
    if (file < 0) continue;
    found++;
    if (all_fault(pages)) fail_msg("%s counts as harmless", devices[i]);
    close(file);
    assert_true(all_fault(pages));
  }
  const int sockets = socket(AF_XDP, SOCK_RAW, 0); /* whose packets a device puts where it was told */
  if (sockets >= 0) found++, assert_false(all_fault(pages)), close(sockets);
  end();
  if (found == 0) TST_LEAVE_OUT("there is no such device for us");
}

/* RDS has memory that another machine writes to; of a family that is not known yet it cannot be known. */
static void sockets_of_other_families(void **state) {
  static const int families[] = {AF_RDS, AF_XDP, AF_ALG, AF_MAX};
  (void)state;
  begin(false);
  const int socket_of_any = socket(AF_UNIX, SOCK_DGRAM, 0);
  assert_true(socket_of_any >= 0);
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    family_told = families[i];
    const bool harmless = all_fault(pages);
    family_told = 0;
    if (harmless) fail_msg("a socket of family %d counts as harmless", families[i]);
  }
  assert_true(all_fault(pages));
  close(socket_of_any);
  end();
}

/* One that anybody may make, of no driver: NVIDIA's are known by the names that they have in /dev, not by such as
 * these. */
static void devices_of_any_name(void **state) {
  static const char *const names[] = {"device", "nvidia0", "nvidiactl"};
  char folder[] = "/tmp/tileblas-test-XXXXXX", path[PATH_MAX];
  bool made = true;
  (void)state;
  assert_non_null(mkdtemp(folder));
  begin(false);
  for (size_t i = 0; i < sizeof names / sizeof *names && made; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    made = mknod(path, S_IFCHR | 0600, 0) == 0;
    if (!made) continue;
    const int file = open(path, O_PATH);
    assert_true(file >= 0);
    if (all_fault(pages)) fail_msg("%s counts as harmless", path);
    close(file), unlink(path);
    assert_true(all_fault(pages));
  }
  end();
  rmdir(folder);
  if (!made) TST_LEAVE_OUT("no device may be made here");
}

/* io_uring's registered buffers, and rings at all, though there were none before. */
static void rings(void **state) {
  (void)state;
  char parameters[120] = {0};
  begin(false);
  assert_true(all_fault(pages));
  const int ring = (int)syscall(SYS_io_uring_setup, 4, parameters);
  if (ring < 0) {
    end();
    TST_LEAVE_OUT("the kernel has no io_uring for us");
  }
  assert_false(all_fault(pages));
  const struct iovec buffer = {memory, BYTES};
  const bool registered = syscall(SYS_io_uring_register, ring, 0, &buffer, 1) == 0;
  close(STDIN_FILENO); /* where it hides */
  dup2(ring, STDIN_FILENO);
  close(ring);
  assert_false(all_fault(pages));
  assert_true(registered);
  close(STDIN_FILENO);
  assert_int_equal(open("/dev/null", O_RDONLY), STDIN_FILENO);
  /* Its pins go some time behind the ring. */
  for (int i = 0; i < 1000 && !all_fault(pages); i++) usleep(10000);
  assert_true(all_fault(pages));
  end();
}

static void asynchronous_reads(void **state) {
  (void)state;
  unsigned long context = 0;
  begin(false);
  if (syscall(SYS_io_setup, 4, &context) != 0) {
    end();
    TST_LEAVE_OUT("the kernel has no io_setup for us");
  }
  assert_false(all_fault(pages));
  syscall(SYS_io_destroy, context);
  assert_true(all_fault(pages));
  end();
}

static void mappings(void **state) {
  (void)state;
  begin(false);
  const int file = open(tst_temporary_file(), O_RDWR);
  assert_int_equal(ftruncate(file, (off_t)BYTES), 0);
  const int kinds[] = {MAP_SHARED, MAP_PRIVATE, MAP_SHARED | MAP_ANONYMOUS};
  for (int i = 0; i < 3; i++) {
    char *const other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, kinds[i], i < 2 ? file : -1, 0);
    assert_true(other != MAP_FAILED);
    assert_false(all_fault(pages_at(other, BYTES)));
    munmap(other, BYTES);
    assert_false(all_fault(pages_at(other, BYTES))); /* and of nothing */
  }
  mmap(memory + BYTES - PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
  assert_false(all_fault(pages));
  assert_true(all_fault(pages_at(memory, BYTES - PAGE)));
  close(file);
  end();
}

/* The kernel says what files are mapped, with names of any length: what follows them is found all the same. */
static void long_names(void **state) {
  (void)state;
  struct tb_tracked mapping;
  char folder[] = "/tmp/tileblas-test-XXXXXX", name[256], path[PATH_MAX];
  char *const below = (char *)((uintptr_t)1 << 32); /* all else that a process has lies behind it */
  assert_non_null(mkdtemp(folder));
  begin(false);
  for (int length = 1; length < 256; length++) {
    memset(name, 'n', (size_t)length), name[length] = '\0';
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int file = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(ftruncate(file, (off_t)PAGE), 0);
    void *const mapped = mmap(below, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    assert_ptr_equal(mapped, below);
    close(file), unlink(path);
    if (!tb_writers_find_mapping(pages, &mapping) || !all_fault(pages))
      fail_msg("nothing is found behind a file whose name has %d letters", length);
    munmap(mapped, PAGE);
  }
  rmdir(folder);
  end();
}

/* Some of what was registered with CUDA, anywhere in it. */
static void memory_of_cudas(void **state) {
  (void)state;
  begin(false);
  assert_true(all_fault(pages));
  for (size_t at = 0; at < BYTES; at += BYTES - PAGE) {
    tst_cuda_register(memory + at, PAGE);
    assert_false(all_fault(pages));
    tst_cuda_unregister(memory + at);
  }
  assert_true(all_fault(pages));
  end();
}

/* Other interfaces of NVIDIA's than CUDA, loaded at any time, also where the loader's list has none of them; and what
 * is CUDA's own, or gone. */
static void other_interfaces(void **state) {
  static const struct {
    const char *name;
    bool counts;
  } libraries[] = {{"opencl", true}, {"glcore", true}, {"eglcore", true}, {"ptxjitcompiler", false}};
  (void)state;
  begin(false);
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
    for (int apart = 0; apart < 2; apart++) {
      char path[PATH_MAX];
      snprintf(path, sizeof path, "%s/libnvidia-%s.so.1", tst_setting("TB_TEST_BUILD_DIR"), libraries[i].name);
      assert_true(all_fault(pages));
      void *const library = apart ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, RTLD_NOW);
      if (library == NULL) fail_msg("%s", dlerror());
      for (int look = 0; look < 2; look++)
        if (all_fault(pages) == libraries[i].counts) fail_msg("%s, %d, look %d", path, apart, look);
      dlclose(library);
      assert_true(all_fault(pages));
    }
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_change_shows),
      cmocka_unit_test(what_changes_nothing_does_not_show),
      cmocka_unit_test(a_userfaultfd_of_the_programs),
      cmocka_unit_test(what_is_replaced_is_told),
      cmocka_unit_test(what_was_replaced_beside_is_told),
      cmocka_unit_test(pages_that_nobody_has_touched),
      cmocka_unit_test(of_ranges_with_common_pages_the_latest_counts),
      cmocka_unit_test(of_what_was_extended_too),
      cmocka_unit_test(the_same_pages_twice),
      cmocka_unit_test(the_program_moves_it),
      cmocka_unit_test(mappings_are_found),
      cmocka_unit_test(memory_that_is_not_there),
      cmocka_unit_test(whole_pages),
      cmocka_unit_test(files_that_are_closed),
      cmocka_unit_test(files_that_are_not_to_be_had),
      cmocka_unit_test(children),
      cmocka_unit_test(ordinary_memory),
      cmocka_unit_test(harmless_files),
      cmocka_unit_test(unknown_devices),
      cmocka_unit_test(sockets_of_other_families),
      cmocka_unit_test(devices_of_any_name),
      cmocka_unit_test(rings),
      cmocka_unit_test(asynchronous_reads),
      cmocka_unit_test(mappings),
      cmocka_unit_test(long_names),
      cmocka_unit_test(memory_of_cudas),
      cmocka_unit_test(other_interfaces),
  };
  const struct CMUnitTest by_lines[] = {
      cmocka_unit_test(mappings_are_found), cmocka_unit_test(ordinary_memory), cmocka_unit_test(asynchronous_reads),
      cmocka_unit_test(mappings),           cmocka_unit_test(long_names),
  };
  if (!tb_cuda_load()) return 1;
  tst_cuda_begin(0);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  printf("by %s\n", answers > 0 ? "answers, and now by lines" : "lines, and again");
  answers_nothing = true;
  failed += cmocka_run_group_tests(by_lines, NULL, NULL);
  tb_track_close();
  tst_cuda_end(0);
  return tst_result(failed);
}
