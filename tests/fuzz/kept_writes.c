/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "kept_writes.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rng.h"

#define PAGE ((size_t)4096)
#define COLLAPSE 25 /* MADV_COLLAPSE */

enum memory { ANONYMOUS, NEIGHBOUR, HUGE, FILE_SHARED, FILE_PRIVATE, HEAP, ANONYMOUS_SHARED };

struct kept_matrix kept_matrices[KEPT_ALL];

static const struct {
  const char *name;
  enum memory memory;
  bool tall;
  int sides, pad, shift; /* 0 sides: a square; elements between columns, and ahead of the first */
} rows[KEPT_ALL] = {
    {"anonymous", ANONYMOUS, true, 3, 5, 3},
    {"its neighbour", NEIGHBOUR, false, 2, 0, 1},
    {"huge", HUGE, true, 4, 0, 16},
    {"file", FILE_SHARED, false, 3, 1, 2},
    {"file's copy", FILE_PRIVATE, true, 2, 0, 5},
    {"heap", HEAP, false, 2, 1, 1},
    {"wide", ANONYMOUS, false, 3, 0, 7},
    {"shared", ANONYMOUS_SHARED, true, 2, 3, 1},
    {"huge square", HUGE, true, 0, 3, 9},
    {"heap's square", HEAP, true, 0, 0, 2},
    {"file's square", FILE_SHARED, true, 0, 1, 4},
    {"dense", ANONYMOUS, true, KEPT_DENSE_SIDES, 3, 6},
    {"file's dense", FILE_PRIVATE, false, KEPT_DENSE_SIDES, 0, 2},
};

static void close_ring(void);

/* ---- memory ---- */

static void *map(size_t bytes, int flags, int file) {
  void *const at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (at == MAP_FAILED) exit(3);
  return at;
}

static void give_memory(struct kept_matrix *m, enum memory memory) {
  m->file = -1;
  m->is_private = memory != FILE_SHARED && memory != ANONYMOUS_SHARED;
  if (memory == FILE_SHARED || memory == FILE_PRIVATE) {
    m->file = memfd_create("fuzz_kept", MFD_CLOEXEC);
    if (m->file < 0 || ftruncate(m->file, (off_t)m->mapping_bytes) != 0) exit(3);
    m->mapping = map(m->mapping_bytes, m->is_private ? MAP_PRIVATE : MAP_SHARED, m->file);
    if (!m->is_private) m->other = map(m->mapping_bytes, MAP_SHARED, m->file);
  } else if (memory == HEAP) {
    m->mapping = aligned_alloc(PAGE, m->mapping_bytes);
    m->is_private = true;
  } else {
    m->mapping = map(m->mapping_bytes, (m->is_private ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1);
  }
  if (memory == HUGE) madvise(m->mapping, m->mapping_bytes, MADV_HUGEPAGE);
}

static int64_t elems(const struct kept_matrix *m) { return m->ld * (m->tall ? m->sides : m->k); }

/* 2, 3, 4, 6 and their negatives, of which all of one sign differ by the third byte. */
static void set_element(char *at, uint64_t *rng) {
  const float value = (float)(2 + 2 * tst_random_below(rng, 2)) * (tst_random_below(rng, 2) ? 1 : 1.5f) *
                      (tst_random_below(rng, 2) ? 1 : -1);
  memcpy(at, &value, sizeof value);
}

#define LINE 64
#define PLACES 61 /* within a page */

void kept_begin(uint64_t *rng) {
  static size_t begun;
  const size_t first_line = LINE * (1 + begun++ % PLACES);
  for (int i = 0; i < KEPT_ALL; i++) {
    struct kept_matrix *const m = &kept_matrices[i];
    *m = (struct kept_matrix){.name = rows[i].name, .tall = rows[i].tall};
    m->sides = rows[i].sides > 0 ? rows[i].sides : KEPT_ORDER, m->k = rows[i].sides > 0 ? KEPT_K : KEPT_ORDER;
    if (rows[i].sides == KEPT_DENSE_SIDES) m->k = KEPT_DENSE_K;
    m->ld = (m->tall ? m->k : m->sides) + rows[i].pad;
    size_t ahead = first_line + (size_t)(rows[i].shift * 4);
    m->mapping_bytes = (ahead + (size_t)(elems(m) * 4) + 2 * PAGE) / PAGE * PAGE;
    if (rows[i].memory == ANONYMOUS) m->mapping_bytes *= 2; /* with room for a neighbour */
    if (rows[i].memory == NEIGHBOUR) {                      /* right behind the last element of the one before */
      const struct kept_matrix *const before = m - 1;
      m->mapping = before->mapping, m->mapping_bytes = before->mapping_bytes;
      m->file = -1, m->is_private = true;
      ahead = (size_t)(before->data - before->mapping) + (size_t)(elems(before) * 4) + 64;
    } else {
      give_memory(m, rows[i].memory);
    }
    m->data = m->mapping + ahead;
    for (int64_t e = 0; e < elems(m); e++) set_element(m->data + e * 4, rng);
  }
}

void kept_end(void) {
  close_ring();
  for (int i = 0; i < KEPT_ALL; i++) {
    struct kept_matrix *const m = &kept_matrices[i];
    if (rows[i].memory == HEAP) free(m->mapping);
    if (rows[i].memory != HEAP && rows[i].memory != NEIGHBOUR) munmap(m->mapping, m->mapping_bytes);
    if (m->other != NULL) munmap(m->other, m->mapping_bytes);
    if (m->file >= 0) close(m->file);
  }
}

/* ---- a ring of io_uring's, whose buffer is a matrix ---- */

static struct {
  int fd;
  const struct kept_matrix *of;
  char *rings;
  struct io_uring_sqe *entries;
  struct io_uring_params parameters;
  size_t rings_bytes;
} ring = {.fd = -1};

static void close_ring(void) {
  if (ring.fd < 0) return;
  munmap(ring.rings, ring.rings_bytes);
  munmap(ring.entries, ring.parameters.sq_entries * sizeof *ring.entries);
  close(ring.fd);
  ring.fd = -1;
}

static bool open_ring(const struct kept_matrix *m) {
  if (ring.fd >= 0 && ring.of == m) return true;
  close_ring();
  memset(&ring.parameters, 0, sizeof ring.parameters);
  ring.fd = (int)syscall(SYS_io_uring_setup, 2, &ring.parameters);
  if (ring.fd < 0) return false;
  const struct io_uring_params *const p = &ring.parameters;
  ring.of = m;
  ring.rings_bytes = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
  if (ring.rings_bytes < p->sq_off.array + p->sq_entries * 4) ring.rings_bytes = p->sq_off.array + p->sq_entries * 4;
  ring.rings = mmap(NULL, ring.rings_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
  ring.entries =
      mmap(NULL, p->sq_entries * sizeof *ring.entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
  const struct iovec buffer = {m->mapping, m->mapping_bytes};
  if (ring.rings == MAP_FAILED || ring.entries == MAP_FAILED) exit(3);
  if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &buffer, 1) == 0) return true;
  close_ring();
  return false;
}

static unsigned *in_ring(unsigned offset) { return (unsigned *)(void *)(ring.rings + offset); }

/* Reads a byte from a file into the pinned buffer: no page table is asked. */
static bool read_by_ring(int file, char *at) {
  const struct io_uring_params *const p = &ring.parameters;
  const unsigned tail = atomic_load((atomic_uint *)in_ring(p->sq_off.tail)), mask = *in_ring(p->sq_off.ring_mask);
  ring.entries[tail & mask] = (struct io_uring_sqe){
      .opcode = IORING_OP_READ_FIXED, .fd = file, .addr = (uint64_t)(uintptr_t)at, .len = 1, .off = 0};
  in_ring(p->sq_off.array)[tail & mask] = tail & mask;
  atomic_store((atomic_uint *)in_ring(p->sq_off.tail), tail + 1);
  if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) return false;
  const unsigned head = *in_ring(p->cq_off.head);
  const struct io_uring_cqe *const done = (const void *)(ring.rings + p->cq_off.cqes);
  const bool read = done[head & *in_ring(p->cq_off.ring_mask)].res == 1;
  atomic_store((atomic_uint *)in_ring(p->cq_off.head), head + 1);
  return read;
}

/* ---- ways to write a byte ---- */

/* Where it is, what it becomes, and its page as it was. */
struct byte {
  struct kept_matrix *m;
  char *at, *page, value;
  char before[PAGE];
};

static void put_page_back(const struct byte *b) { memcpy(b->page, b->before, PAGE); }

static void *store_in_thread(void *byte) {
  const struct byte *const b = byte;
  *b->at = b->value;
  return NULL;
}

static bool by_thread(struct byte *b) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, store_in_thread, b) != 0) return false;
  pthread_join(thread, NULL);
  return true;
}

static bool through(const int ends[2], const struct byte *b, bool as_vector) {
  const struct iovec to = {b->at, 1};
  const bool sent = write(ends[1], &b->value, 1) == 1;
  const bool done = sent && (as_vector ? readv(ends[0], &to, 1) : read(ends[0], b->at, 1)) == 1;
  close(ends[0]), close(ends[1]);
  return done;
}

static bool by_pipe(struct byte *b) {
  int ends[2];
  return pipe(ends) == 0 && through(ends, b, false);
}

static bool by_vector(struct byte *b) {
  int ends[2];
  return pipe(ends) == 0 && through(ends, b, true);
}

static bool by_socket(struct byte *b) {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && through(ends, b, false);
}

static int file_with(const char *bytes, size_t count) {
  const int file = memfd_create("fuzz_kept", MFD_CLOEXEC);
  if (file >= 0 && write(file, bytes, count) == (ssize_t)count) return file;
  if (file >= 0) close(file);
  return -1;
}

static bool by_file(struct byte *b) {
  const int file = file_with(&b->value, 1);
  const bool done = file >= 0 && pread(file, b->at, 1, 0) == 1;
  if (file >= 0) close(file);
  return done;
}

/* The disk writes, where the temporary folder is on one. */
static bool directly(struct byte *b) {
  char name[] = "/var/tmp/fuzz_keptXXXXXX";
  const int file = mkostemp(name, O_DIRECT);
  if (file < 0) return false;
  unlink(name);
  static char aligned[PAGE] __attribute__((aligned(4096)));
  memcpy(aligned, b->before, PAGE);
  aligned[b->at - b->page] = b->value;
  const bool done = write(file, aligned, PAGE) == (ssize_t)PAGE && pread(file, b->page, PAGE, 0) == (ssize_t)PAGE;
  close(file);
  if (!done) put_page_back(b);
  return done;
}

static bool from_outside(struct byte *b) {
  const struct iovec from = {&b->value, 1}, to = {b->at, 1};
  return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == 1;
}

static bool by_proc(struct byte *b) {
  const int file = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  const bool done = file >= 0 && pwrite(file, &b->value, 1, (off_t)(uintptr_t)b->at) == 1;
  if (file >= 0) close(file);
  return done;
}

static bool by_other_mapping(struct byte *b) {
  if (b->m->other == NULL) return false;
  b->m->other[b->at - b->m->mapping] = b->value;
  return true;
}

static bool into_its_file(struct byte *b) {
  return b->m->other != NULL && pwrite(b->m->file, &b->value, 1, b->at - b->m->mapping) == 1;
}

/* Of shared memory a child's write is everybody's; of private memory it is its own, and the parent's comes later. */
static bool by_child(struct byte *b) {
  const pid_t child = fork();
  if (child == 0) {
    *b->at = b->value;
    _exit(0);
  }
  return child > 0 && waitpid(child, NULL, 0) == child && *b->at == b->value;
}

static bool while_child_lives(struct byte *b) {
  int ends[2];
  char nothing;
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    _exit(read(ends[0], &nothing, 1) == 0 ? 0 : 1);
  }
  *b->at = b->value;
  close(ends[1]);
  waitpid(child, NULL, 0);
  close(ends[0]);
  return true;
}

static bool by_page_moved_there(struct byte *b) {
  if (!b->m->is_private || strcmp(b->m->name, "wide") == 0) return false;
  char *const page = map(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  memcpy(page, b->before, PAGE);
  page[b->at - b->page] = b->value;
  return mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, b->page) == b->page;
}

static void *map_at(void *place, size_t bytes) {
  return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static bool by_page_mapped_anew(struct byte *b) {
  if (!b->m->is_private || strcmp(b->m->name, "wide") == 0) return false;
  munmap(b->page, PAGE);
  if (map_at(b->page, PAGE) != b->page) exit(3);
  put_page_back(b);
  *b->at = b->value;
  return true;
}

bool kept_map_anew(const struct kept_matrix *m) {
  char *const before = m->is_private ? malloc(m->mapping_bytes) : NULL;
  if (before == NULL) return false;
  memcpy(before, m->mapping, m->mapping_bytes);
  munmap(m->mapping, m->mapping_bytes);
  if (map_at(m->mapping, m->mapping_bytes) != m->mapping) exit(3);
  memcpy(m->mapping, before, m->mapping_bytes);
  free(before);
  return true;
}

static bool by_all_mapped_anew(struct byte *b) {
  if (!kept_map_anew(b->m)) return false;
  *b->at = b->value;
  return true;
}

static bool behind_advice(struct byte *b, int advice) {
  if (madvise(b->page, PAGE, advice) != 0) return false;
  put_page_back(b);
  *b->at = b->value;
  return true;
}

static bool behind_discarding(struct byte *b) { return behind_advice(b, MADV_DONTNEED); }
static bool behind_freeing(struct byte *b) { return behind_advice(b, MADV_FREE); }

static bool behind_moving_all(struct byte *b) {
  struct kept_matrix *const m = b->m;
  if (strcmp(m->name, "wide") != 0) return false; /* one mapping, of nobody else */
  char *const other = map(m->mapping_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (mremap(m->mapping, m->mapping_bytes, m->mapping_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, other) != other) {
    printf("%s cannot be moved\n", m->name);
    exit(3);
  }
  other[b->at - m->mapping] = b->value;
  if (mremap(other, m->mapping_bytes, m->mapping_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, m->mapping) != m->mapping)
    exit(3);
  return true;
}

static bool behind_protecting(struct byte *b) {
  mprotect(b->page, PAGE, PROT_READ);
  mprotect(b->page, PAGE, PROT_READ | PROT_WRITE);
  *b->at = b->value;
  return true;
}

static bool behind_collapsing(struct byte *b) {
  madvise(b->m->mapping, b->m->mapping_bytes, COLLAPSE);
  *b->at = b->value;
  return true;
}

static bool behind_paging_out(struct byte *b) {
  madvise(b->page, PAGE, MADV_PAGEOUT);
  *b->at = b->value;
  return true;
}

static bool by_ring(struct byte *b) {
  const int file = file_with(&b->value, 1);
  const bool done = file >= 0 && open_ring(b->m) && read_by_ring(file, b->at);
  if (file >= 0) close(file);
  return done;
}

/* A ring that is gone, whose pins follow it. */
static bool behind_a_ring(struct byte *b) {
  if (!open_ring(b->m)) return false;
  close_ring();
  *b->at = b->value;
  return true;
}

/* A program that watches its pages itself, for a while. */
static bool behind_own_watching(struct byte *b) {
  const int own = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.range = {(uint64_t)(uintptr_t)b->page, PAGE}, .mode = UFFDIO_REGISTER_MODE_WP};
  if (own >= 0 && ioctl(own, UFFDIO_API, &api) == 0) ioctl(own, UFFDIO_REGISTER, &range);
  *b->at = b->value;
  if (own >= 0) close(own);
  return true;
}

static const struct {
  const char *name;
  bool (*write)(struct byte *b);
} ways[] = {
    {"thread", by_thread},
    {"pipe", by_pipe},
    {"readv", by_vector},
    {"socket", by_socket},
    {"file", by_file},
    {"O_DIRECT", directly},
    {"process_vm_writev", from_outside},
    {"/proc/self/mem", by_proc},
    {"other mapping", by_other_mapping},
    {"pwrite", into_its_file},
    {"child", by_child},
    {"child lives", while_child_lives},
    {"mremap of a page", by_page_moved_there},
    {"munmap, mmap", by_page_mapped_anew},
    {"munmap, mmap of all", by_all_mapped_anew},
    {"MADV_DONTNEED", behind_discarding},
    {"MADV_FREE", behind_freeing},
    {"mremap of all", behind_moving_all},
    {"mprotect", behind_protecting},
    {"MADV_COLLAPSE", behind_collapsing},
    {"MADV_PAGEOUT", behind_paging_out},
    {"io_uring", by_ring},
    {"a ring that is gone", behind_a_ring},
    {"own userfaultfd", behind_own_watching},
};
enum { WAYS = sizeof ways / sizeof *ways, LATEST = 6 };

static const char *latest_ways[LATEST];
static uint64_t writes;

const char *kept_latest_writes(void) {
  static char text[400];
  text[0] = '\0';
  for (uint64_t i = writes > LATEST ? writes - LATEST : 0; i < writes; i++) {
    strncat(text, latest_ways[i % LATEST], sizeof text - strlen(text) - 3);
    strcat(text, "; ");
  }
  return text;
}

/* ---- a write ---- */

/* Elements at the ends and at borders of pages as often as all others. */
static int64_t choose_element(const struct kept_matrix *m, uint64_t *rng) {
  const int64_t columns = m->tall ? m->sides : m->k, in_column = m->tall ? m->k : m->sides;
  int64_t column = tst_random_below(rng, columns), row = tst_random_below(rng, in_column);
  const int64_t kind = tst_random_below(rng, 6);
  if (kind == 0) column = row = 0;
  if (kind == 1) column = columns - 1, row = in_column - 1;
  if (kind == 2) { /* the last or the first of a page */
    const uintptr_t at = (uintptr_t)(m->data + (row + column * m->ld) * 4), border = at / PAGE * PAGE;
    const int64_t back = (int64_t)(at - border) / 4 + tst_random_below(rng, 2);
    const int64_t element = row + column * m->ld - back;
    if (element >= 0) column = element / m->ld, row = element % m->ld;
    if (row >= in_column) row = in_column - 1;
  }
  return row + column * m->ld;
}

void kept_write(struct kept_matrix *m, uint64_t *rng) {
  static struct byte b;
  char *const element = m->data + choose_element(m, rng) * 4;
  b.m = m;
  b.at = element + 2;
  b.page = (char *)((uintptr_t)b.at / PAGE * PAGE);
  memcpy(b.before, b.page, PAGE);
  do {
    char fresh[4];
    set_element(fresh, rng);
    b.value = fresh[2];
  } while (b.value == *b.at);
  if (tst_random_below(rng, 4) == 0) close_ring();     /* while there is one nothing can be watched */
  const int64_t way = tst_random_below(rng, 2 * WAYS); /* half are plain stores */
  bool done = false;
  const bool pinned = ring.fd >= 0 && ring.of == m && tst_random_below(rng, 2);
  if (pinned) done = by_ring(&b);
  if (!pinned && way < WAYS) done = ways[way].write(&b);
  if (!done) *b.at = b.value;
  latest_ways[writes++ % LATEST] = !done ? "store" : pinned ? "io_uring" : ways[way].name;
}

/* ---- who writes beside ---- */

static atomic_bool disturbs;
static pthread_t disturber;

static void *write_beside(void *unused) {
  (void)unused;
  while (atomic_load(&disturbs))
    for (int i = 0; i < KEPT_ALL; i++) {
      const struct kept_matrix *const m = &kept_matrices[i];
      volatile char *const before = m->data - 1, *const behind = m->data + elems(m) * 4 + 1;
      if (rows[i].memory != NEIGHBOUR) (*before)++;
      if (rows[i].memory != ANONYMOUS || !rows[i].tall) (*behind)++;
    }
  return NULL;
}

void kept_disturb(bool begins) {
  atomic_store(&disturbs, begins);
  if (!begins)
    pthread_join(disturber, NULL);
  else if (pthread_create(&disturber, NULL, write_beside, NULL) != 0)
    exit(3);
}
