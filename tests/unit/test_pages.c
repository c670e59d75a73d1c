/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of a C that was just allocated: all that will be written are had before anything is written there, contents and
 * all other pages stay as they are; of a large C huge ones; of a C that has its pages, that is read, or that is small,
 * nothing is asked. What is to be copied comes before them, and the end of a call is their end. Who is to write has
 * them before, each region's by one thread, and who waits for that has another's. And a call on the GPU has them.
 *
 * The program's madvise is counted: the library's is the executable's here.
 *
 * Seen to fail when: pages between columns are touched, or those of the other triangle; the last columns' pages are
 * left out; a C is taken for new by its first page; no thread looks for copies between two steps; a call's end does not
 * wait for who is at it, or waits for others' copies; the pipeline begins nothing; two threads have one region's pages,
 * or one writes before they are there; a copy asks for none; of a region of several huge pages one is left to who
 * writes; a mapping of C's own is cut into pieces.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "other_copies.h"
#include "pipeline/copy.h"
#include "pipeline/pages.h"
#include "process.h"

#define PAGE ((int64_t)4096)
#define POPULATE_WRITE 23
#define PATIENCE_SECONDS 20
#define NOTED 1024

static atomic_int numbers, asked; /* calls of madvise for pages: begun, and noted */
static char *asked_for[1 << 12];  /* the first of each, as far as there is room */
static atomic_bool held, let;     /* such calls are to wait until they are let */
static atomic_bool idle;          /* they do nothing */
static atomic_int huge_asked;     /* calls for huge pages, and for which bytes */
static char *huge_first, *huge_end;

int madvise(void *address, size_t bytes, int advice) {
  if (advice == POPULATE_WRITE) {
    const int number = atomic_fetch_add(&numbers, 1);
    asked_for[number % NOTED] = address;
    atomic_fetch_add(&asked, 1);
    while (atomic_load(&held) && !atomic_load(&let)) sched_yield();
    if (atomic_load(&idle)) return 0;
  }
  if (advice == MADV_HUGEPAGE) {
    atomic_fetch_add(&huge_asked, 1);
    huge_first = address, huge_end = huge_first + bytes;
  }
  return (int)syscall(SYS_madvise, address, bytes, advice);
}

#define REGION ((int64_t)2 << 20) /* of a thread */

/* A C of doubles in memory of its own, `before` bytes behind the start of a region. */
struct c {
  char *memory, *mapped;
  int64_t bytes;
  struct tb_call call;
};

static struct c new_c(int64_t m, int64_t n, int64_t ldc, int64_t before) {
  struct c c = {.bytes = (before + ldc * n * 8 + PAGE) / PAGE * PAGE};
  c.mapped = mmap(NULL, (size_t)(c.bytes + REGION), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(c.mapped != MAP_FAILED);
  c.memory = c.mapped + (uintptr_t) - (uintptr_t)c.mapped % (uintptr_t)REGION;
  madvise(c.memory, (size_t)c.bytes, MADV_NOHUGEPAGE);
  c.call = (struct tb_call){.type = TB_D, .m = m, .n = n, .k = 1, .c = c.memory + before, .ldc = ldc};
  return c;
}

static void delete_c(struct c *c) { munmap(c->mapped, (size_t)(c->bytes + REGION)); }

static bool is_there(const struct c *c, int64_t page) {
  unsigned char there;
  assert_int_equal(mincore(c->memory + page * PAGE, 1, &there), 0);
  return there & 1;
}

/* Whether an element of C that is written lies in this page. */
static bool is_written(const struct c *c, int64_t page) {
  for (int64_t j = 0; j < c->call.n; j++) {
    const struct tb_region_rows rows = tb_region_rows(c->call.region, c->call.m, j);
    const int64_t first = (char *)tb_call_c(&c->call, rows.first, j) - c->memory;
    const int64_t end = (char *)tb_call_c(&c->call, rows.end, j) - c->memory;
    if (first < end && first < (page + 1) * PAGE && end > page * PAGE) return true;
  }
  return false;
}

static void expect_pages(const struct c *c) {
  for (int64_t page = 0; page < c->bytes / PAGE; page++) {
    if (is_there(c, page) != is_written(c, page))
      fail_msg("page %ld of %ld is %sthere", (long)page, (long)(c->bytes / PAGE), is_there(c, page) ? "" : "not ");
  }
}

static bool all_are_there(const struct c *c) {
  for (int64_t page = 0; page < c->bytes / PAGE; page++)
    if (is_written(c, page) && !is_there(c, page)) return false;
  return true;
}

static struct tb_pool *pool;

static int open_pool(void **state) {
  (void)state;
  pool = tb_pool_open(3, false);
  return pool == NULL;
}

static int close_pool(void **state) {
  (void)state;
  tb_pool_close(pool);
  return 0;
}

/* All but C's first column is new. */
static void check(struct c c, enum tb_region_of triangle, int64_t diagonal) {
  struct tb_pages pages;
  if (triangle == TB_WHOLE && c.call.n > 1) memset(c.call.c, 0, (size_t)c.call.m * 8);
  c.call.region = (struct tb_region){.of = triangle, .diagonal = diagonal};
  tb_pages_begin(&pages, pool, &c.call);
  for (double begun = tb_clock_seconds(); !all_are_there(&c) && tb_clock_seconds() < begun + PATIENCE_SECONDS;)
    sched_yield();
  tb_pages_end(&pages);
  expect_pages(&c);
  for (int64_t i = 0; i < c.bytes; i += 8) assert_true(*(double *)(c.memory + i) == 0);
  delete_c(&c);
}

static void those_that_are_written(void **state) {
  (void)state;
  check(new_c(1000, 700, 1000, 16), TB_WHOLE, 0);
  check(new_c(1300, 300, 1300 + PAGE / 8 - 1, 4088), TB_WHOLE, 0); /* every page has some of it */
  check(new_c(1300, 300, 1300 + 2 * PAGE / 8, 0), TB_WHOLE, 0);
  check(new_c(3, 200000, 3, 8), TB_WHOLE, 0);
  check(new_c(150000, 1, 150000, 0), TB_WHOLE, 0);
  check(new_c(3000, 400, 3001, 24), TB_LOWER_TRIANGLE, -100);
  check(new_c(3000, 400, 3001, 24), TB_UPPER_TRIANGLE, 2000);
}

static void expect_none(struct c c) {
  struct tb_pages pages;
  const int before = atomic_load(&asked);
  tb_pages_begin(&pages, pool, &c.call);
  usleep(2000);
  tb_pages_end(&pages);
  assert_int_equal(atomic_load(&asked), before);
  delete_c(&c);
}

static void none_without_need(void **state) {
  (void)state;
  struct c warm = new_c(1000, 700, 1000, 0), read = new_c(1000, 700, 1000, 0);
  memset(warm.memory, 0, (size_t)warm.bytes);
  expect_none(warm);
  read.call.beta.d = 1;
  expect_none(read);
  expect_none(new_c(100, 1000, 100, 0)); /* 800 kB */
  struct tb_pages pages;
  struct c alone = new_c(1000, 700, 1000, 0);
  tb_pages_begin(&pages, NULL, &alone.call);
  tb_pages_end(&pages);
  assert_false(is_there(&alone, 3));
  delete_c(&alone);
}

/* Large pages are asked for once, for the pages that have some of a large C. */
static void huge_ones_within(void **state) {
  (void)state;
  struct tb_pages pages;
  struct c c = new_c(1001, 5000, 1002, 3 * PAGE + 4088), small = new_c(1000, 3000, 1000, 0);
  struct c gaps = new_c(1000, 5000, 1000 + 2 * PAGE / 8, 0), triangle = new_c(3000, 3000, 3000, 0);
  const int before = atomic_load(&huge_asked); /* for memory of our own */
  triangle.call.region.of = TB_LOWER_TRIANGLE;
  tb_pages_begin(&pages, pool, &c.call);
  tb_pages_end(&pages);
  assert_int_equal(atomic_load(&huge_asked), before + 1);
  const char *const first = c.call.c, *const end = tb_call_c(&c.call, 1001, 4999);
  assert_true((uintptr_t)huge_first % PAGE == 0 && (uintptr_t)huge_end % PAGE == 0);
  assert_true(huge_first <= first && huge_first > first - PAGE && huge_end >= end && huge_end < end + PAGE);
  memset(c.memory, 0, (size_t)c.bytes); /* warm now */
  struct c *const none[] = {&c, &small, &gaps, &triangle};
  for (int i = 0; i < 4; i++) {
    tb_pages_begin(&pages, pool, &none[i]->call);
    tb_pages_end(&pages);
    delete_c(none[i]);
  }
  assert_int_equal(atomic_load(&huge_asked), before + 1);
}

/* As malloc and realloc have it: with its own bytes before C. */
static void a_mapping_stays_one(void **state) {
  (void)state;
  enum { M = 1000, N = 5000 };
  const size_t bytes = ((size_t)M * N * 8 + 16 + PAGE - 1) / PAGE * PAGE;
  char *const mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(mapped != MAP_FAILED);
  const struct tb_call call = {.type = TB_D, .m = M, .n = N, .k = 1, .c = mapped + 16, .ldc = M};
  const int before = atomic_load(&huge_asked);
  struct tb_pages pages;
  tb_pages_begin(&pages, pool, &call);
  tb_pages_end(&pages);
  assert_int_equal(atomic_load(&huge_asked), before + 1);
  char *const moved = mremap(mapped, bytes, 2 * bytes, MREMAP_MAYMOVE);
  assert_true(moved != MAP_FAILED);
  munmap(moved, 2 * bytes);
}

static atomic_int asked_by_then;

static void note(void *context, int index) {
  atomic_fetch_or((atomic_int *)context, 1 << index);
  atomic_store(&asked_by_then, atomic_load(&asked));
}

/* Both threads are at pages, and in no hurry: copies are done all the same. */
static void copies_come_first(void **state) {
  (void)state;
  struct c c = new_c(1000, 3000, 1000, 0);
  struct tb_pages pages;
  atomic_int done = 0;
  const int before = atomic_load(&asked);
  atomic_store(&let, false), atomic_store(&held, true);
  tb_pages_begin(&pages, pool, &c.call);
  while (atomic_load(&asked) < before + 2) sched_yield(); /* held */
  const uint64_t job = tb_pool_start(pool, note, &done, 4);
  atomic_store(&let, true);
  for (double begun = tb_clock_seconds(); !tb_pool_done(pool, job);) {
    assert_true(tb_clock_seconds() < begun + PATIENCE_SECONDS);
    sched_yield();
  }
  assert_int_equal(atomic_load(&done), 15);
  assert_true(atomic_load(&asked_by_then) <= before + 4); /* a region has eight steps */
  tb_pages_end(&pages);
  atomic_store(&held, false);
  delete_c(&c);
}

static void *let_them(void *unused) {
  usleep(20000);
  atomic_store(&let, true);
  return unused;
}

/* Whoever is at it when the call ends is waited for, and goes on with nothing. */
static void end_is_the_end(void **state) {
  (void)state;
  struct c c = new_c(1000, 3000, 1000, 0);
  struct tb_pages pages;
  pthread_t thread;
  const int before = atomic_load(&asked);
  atomic_store(&let, false), atomic_store(&held, true);
  tb_pages_begin(&pages, pool, &c.call);
  while (atomic_load(&asked) < before + 2) sched_yield(); /* held */
  assert_int_equal(pthread_create(&thread, NULL, let_them, NULL), 0);
  tb_pages_end(&pages);
  assert_true(atomic_load(&let));
  assert_int_equal(atomic_load(&asked), before + 2);
  pthread_join(thread, NULL);
  atomic_store(&held, false);
  delete_c(&c);
}

/* Nor is it put off for other calls' copies. */
static void end_does_not_wait_for_copies(void **state) {
  (void)state;
  struct c c = new_c(1000, 3000, 1000, 0);
  struct tb_pages pages;
  const int before = atomic_load(&asked);
  atomic_store(&let, false), atomic_store(&held, true);
  tb_pages_begin(&pages, pool, &c.call);
  while (atomic_load(&asked) < before + 2) sched_yield(); /* held */
  tst_other_copies_begin(pool);
  atomic_store(&let, true);
  tst_other_copies_await(); /* by who has pages between */
  tb_pages_end(&pages);
  assert_true(tst_other_copies_end());
  atomic_store(&held, false);
  delete_c(&c);
}

/* ---- one thread for a region ---- */

struct writer {
  struct tb_pages *pages;
  char *first;
  int64_t bytes;
  pthread_t thread;
  atomic_bool done;
};

static void *want_to_write(void *opaque) {
  struct writer *w = opaque;
  tb_pages_before_write(w->pages, w->first, w->bytes);
  atomic_store(&w->done, true);
  return NULL;
}

static void begin_to_write(struct writer *w) {
  assert_int_equal(pthread_create(&w->thread, NULL, want_to_write, w), 0);
}

static void await_asked(int count) {
  for (double begun = tb_clock_seconds(); atomic_load(&asked) < count; sched_yield())
    assert_true(tb_clock_seconds() < begun + PATIENCE_SECONDS);
}

/* Calls for C's pages since there were so many, and the first few of these. */
static int asked_of(const struct c *c, int before, char *first[], int most) {
  int count = 0;
  for (int i = before; i < atomic_load(&asked); i++)
    if (asked_for[i % NOTED] >= c->memory && asked_for[i % NOTED] < c->memory + c->bytes) {
      if (count < most) first[count] = asked_for[i % NOTED];
      count++;
    }
  return count;
}

static struct tb_pages others; /* the jobs behind all others are of these, and one that nobody begins */
static struct c others_c;
static int other_place;

static void nothing(void *context, int index) { (void)context, (void)index; }

/* From here on only who is to write has pages. */
static void occupy_behind(void) {
  const int before = atomic_load(&asked);
  others_c = new_c(1000, 300, 1000, 0);
  atomic_store(&let, false), atomic_store(&held, true);
  tb_pages_begin(&others, pool, &others_c.call);
  await_asked(before + 2); /* two regions, each with a thread that is held */
  other_place = tb_pool_start_behind(pool, nothing, NULL, 1);
  assert_true(other_place > 0);
}

static void end_occupied(void) {
  atomic_store(&let, true);
  tb_pool_end_behind(pool, other_place);
  tb_pages_end(&others);
  atomic_store(&held, false);
  delete_c(&others_c);
}

/* Three that are to write in one region, of two that there are: one has its pages, another the other's meanwhile, and
 * none writes before its own are there. */
static void one_thread_has_a_region(void **state) {
  (void)state;
  struct c c = new_c(1000, 500, 1000, 0);
  struct tb_pages pages;
  occupy_behind();
  tb_pages_begin(&pages, pool, &c.call);
  assert_false(pages.behind);
  assert_int_equal(pages.regions, 2);
  const int before = atomic_load(&asked);
  struct writer w[3];
  for (int i = 0; i < 3; i++) {
    w[i] = (struct writer){.pages = &pages, .first = c.memory + i * PAGE, .bytes = PAGE};
    begin_to_write(&w[i]);
  }
  await_asked(before + 2);
  usleep(20000);
  assert_int_equal(atomic_load(&asked), before + 2);
  const char *const first = asked_for[before % NOTED], *const second = asked_for[(before + 1) % NOTED];
  assert_true((first == c.memory && second == c.memory + REGION) || (second == c.memory && first == c.memory + REGION));
  for (int i = 0; i < 3; i++) assert_false(atomic_load(&w[i].done));
  atomic_store(&let, true);
  for (int i = 0; i < 3; i++) pthread_join(w[i].thread, NULL);
  assert_true(all_are_there(&c));
  assert_int_equal(asked_of(&c, before, NULL, 0), 9 + 9); /* 256 KiB each, the first one twice */
  tb_pages_end(&pages);
  end_occupied();
  delete_c(&c);
}

static atomic_int helped;

static void count_help(void *unused, int index) {
  (void)unused, (void)index;
  atomic_fetch_add(&helped, 1);
}

/* Who waits for pages copies what is to be copied, before it has others. */
static void who_waits_copies(void **state) {
  (void)state;
  struct c c = new_c(1000, 500, 1000, 0);
  struct tb_pages pages;
  occupy_behind(); /* both threads: nobody but who waits can copy */
  tb_pages_begin(&pages, pool, &c.call);
  const int before = atomic_load(&asked);
  struct writer w[2];
  for (int i = 0; i < 2; i++) w[i] = (struct writer){.pages = &pages, .first = c.memory, .bytes = PAGE};
  begin_to_write(&w[0]);
  await_asked(before + 1); /* it is held in the first region */
  atomic_store(&helped, 0);
  const uint64_t job = tb_pool_start(pool, count_help, NULL, 5);
  begin_to_write(&w[1]);
  for (double begun = tb_clock_seconds(); atomic_load(&helped) < 5; sched_yield())
    assert_true(tb_clock_seconds() < begun + PATIENCE_SECONDS);
  atomic_store(&let, true);
  for (int i = 0; i < 2; i++) pthread_join(w[i].thread, NULL);
  tb_pool_wait(pool, job);
  tb_pages_end(&pages);
  end_occupied();
  delete_c(&c);
}

/* What is written reaches into a second region; of a C that has its pages, and behind the end, nothing is asked. */
static void all_that_is_written(void **state) {
  (void)state;
  struct c c = new_c(1000, 500, 1000, 0);
  struct tb_pages pages;
  occupy_behind();
  tb_pages_begin(&pages, pool, &c.call);
  atomic_store(&let, true);
  const int before = atomic_load(&asked);
  tb_pages_before_write(&pages, c.memory + REGION - PAGE, 2 * PAGE);
  assert_true(all_are_there(&c));
  assert_true(asked_of(&c, before, NULL, 0) > 0);
  const int between = atomic_load(&asked);
  tb_pages_before_write(&pages, c.memory, c.bytes);
  assert_int_equal(asked_of(&c, between, NULL, 0), 0);
  tb_pages_end(&pages);
  tb_pages_begin(&pages, pool, &c.call);
  tb_pages_before_write(&pages, c.memory, c.bytes);
  tb_pages_before_write(NULL, c.memory, c.bytes);
  tb_pages_end(&pages);
  assert_int_equal(asked_of(&c, between, NULL, 0), 0);
  delete_c(&c);
  c = new_c(1000, 500, 1000, 0);
  tb_pages_begin(&pages, pool, &c.call);
  tb_pages_end(&pages);
  tb_pages_before_write(&pages, c.memory, c.bytes);
  assert_int_equal(asked_of(&c, between, NULL, 0), 0);
  end_occupied();
  delete_c(&c);
}

/* So do copies to it, each for what it writes. */
static void copies_have_them(void **state) {
  (void)state;
  struct c c = new_c(1000, 500, 1000, 0);
  struct tb_pages pages;
  double *const from = calloc(1000 * 500, sizeof *from);
  occupy_behind();
  tb_pages_begin(&pages, pool, &c.call);
  atomic_store(&let, true);
  const int before = atomic_load(&asked);
  struct tb_copy copy = {.type = TB_D, .to = c.call.c, .from = from, .to_ld = 1000, .from_ld = 1000, .rows = 30};
  copy.columns = 500;
  copy.pages = &pages;
  tb_copy_start(pool, &copy);
  tb_copy_wait(pool, &copy);
  assert_true(all_are_there(&c));
  assert_int_equal(asked_of(&c, before, NULL, 0), 9 + 9);
  tb_pages_end(&pages);
  end_occupied();
  free(from);
  delete_c(&c);
}

/* Regions of a C that has more of them than are counted are of several huge pages: all are had before one is written.
 */
static void several_huge_pages(void **state) {
  (void)state;
  const int64_t n = 3 * TB_PAGES_REGIONS_MAX * REGION / 2 / 8000;
  struct c c = {.bytes = 8000 * n};
  c.mapped = mmap(NULL, (size_t)(c.bytes + REGION), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
  assert_true(c.mapped != MAP_FAILED);
  c.memory = c.mapped + (uintptr_t) - (uintptr_t)c.mapped % (uintptr_t)REGION;
  c.call = (struct tb_call){.type = TB_D, .m = 1000, .n = n, .k = 1, .c = c.memory, .ldc = 1000};
  struct tb_pages pages;
  occupy_behind();
  atomic_store(&idle, true);
  tb_pages_begin(&pages, pool, &c.call);
  assert_int_equal(pages.region_bytes, 2 * REGION);
  const int before = atomic_load(&asked);
  struct writer w = {.pages = &pages, .first = c.memory + REGION, .bytes = PAGE};
  begin_to_write(&w);
  await_asked(before + 1);
  assert_false(atomic_load(&w.done));
  atomic_store(&let, true);
  pthread_join(w.thread, NULL);
  char *first[2] = {NULL, NULL};
  assert_int_equal(asked_of(&c, before, first, 2), 2 + 16); /* 256 KiB each */
  assert_ptr_equal(first[0], c.memory);
  assert_ptr_equal(first[1], c.memory + REGION);
  tb_pages_end(&pages);
  atomic_store(&idle, false);
  end_occupied();
  delete_c(&c);
}

/* A region whose first steps have no element of the triangle is not there behind them. */
static void triangle_begins_later(void **state) {
  (void)state;
  const int64_t m = 6 * (REGION / 4) / 8; /* a column is one and a half regions */
  struct c c = new_c(m, 2, m, 0);
  struct tb_pages pages;
  c.call.region = (struct tb_region){.of = TB_LOWER_TRIANGLE, .diagonal = m / 2};
  occupy_behind();
  tb_pages_begin(&pages, pool, &c.call);
  const int before = atomic_load(&asked);
  struct writer w[2];
  for (int i = 0; i < 2; i++) {
    w[i] = (struct writer){.pages = &pages, .first = c.memory + m * 4, .bytes = PAGE};
    begin_to_write(&w[i]);
  }
  await_asked(before + 1);
  usleep(20000);
  assert_false(atomic_load(&w[0].done) || atomic_load(&w[1].done));
  atomic_store(&let, true);
  for (int i = 0; i < 2; i++) pthread_join(w[i].thread, NULL);
  tb_pages_end(&pages);
  end_occupied();
  delete_c(&c);
}

void cblas_dgemm(int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, const void *, int64_t, double,
                 void *, int64_t);

static void call_has_them(void **state) {
  (void)state;
  enum { N = 520 };
  double *x = calloc(N * N, sizeof *x);
  const int before = atomic_load(&asked);
  struct c c = new_c(N, N, N, 0);
  for (int i = 0; i < N * N; i++) x[i] = i % 7;
  cblas_dgemm(102, 111, 111, N, N, N, 1, x, N, x, N, 0, c.call.c, N);
  assert_true(atomic_load(&asked) > before);
  const double *const result = c.call.c;
  for (int i = 0; i < N; i += 13) {
    double sum = 0;
    for (int l = 0; l < N; l++) sum += x[i + l * N] * x[l + 5 * N];
    assert_true(result[i + 5 * N] == sum);
  }
  const int between = atomic_load(&asked);
  cblas_dgemm(102, 111, 111, N, N, N, 1, x, N, x, N, 0, c.call.c, N); /* warm now */
  assert_int_equal(atomic_load(&asked), between);
  free(x);
  delete_c(&c);
}

enum { CALL_N = 520, CALL_K = 8 };

static double *call_x;

static void *call_into(void *c) {
  cblas_dgemm(102, 111, 111, CALL_N, CALL_N, CALL_K, 1, call_x, CALL_N, call_x, CALL_N, 0, c, CALL_N);
  return NULL;
}

/* Nothing is written of a result while its pages are being had. */
static void call_waits_for_them(void **state) {
  (void)state;
  struct c c = new_c(CALL_N, CALL_N, CALL_N, 0);
  pthread_t thread;
  call_x = calloc(CALL_N * CALL_N, sizeof *call_x);
  const int before = atomic_load(&asked);
  atomic_store(&let, false), atomic_store(&held, true);
  assert_int_equal(pthread_create(&thread, NULL, call_into, c.call.c), 0);
  await_asked(before + 1);
  usleep(400000); /* longer than the call takes */
  for (int64_t page = 0; page < c.bytes / PAGE; page++) assert_false(is_there(&c, page));
  atomic_store(&let, true);
  pthread_join(thread, NULL);
  assert_true(all_are_there(&c));
  atomic_store(&held, false);
  free(call_x);
  delete_c(&c);
}

void cblas_dgemm_batch_strided(int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, int64_t,
                               const void *, int64_t, int64_t, double, void *, int64_t, int64_t, int64_t);

enum { BATCH = 100, BATCH_N = 60, BATCH_K = 4, BATCH_GAP = 1 << 13 };

static int64_t batch_stride;

static void *batch_into(void *c) {
  cblas_dgemm_batch_strided(102, 111, 111, BATCH_N, BATCH_N, BATCH_K, 1, call_x, BATCH_N, BATCH_N * BATCH_K, call_x,
                            BATCH_K, BATCH_N * BATCH_K, 0, c, BATCH_N, batch_stride, BATCH);
  return NULL;
}

/* The results of a batch that lie behind one another are one: nothing is written while its pages are being had. */
static void batches_wait_for_them(void **state) {
  (void)state;
  pthread_t thread;
  call_x = calloc(BATCH * BATCH_N * BATCH_K, sizeof *call_x);
  for (int i = 0; i < BATCH * BATCH_N * BATCH_K; i++) call_x[i] = i % 5 + 1;
  for (int apart = 0; apart < 2; apart++) {
    batch_stride = BATCH_N * BATCH_N + apart * BATCH_GAP;
    struct c c = new_c(BATCH_N, BATCH * (batch_stride / BATCH_N + 1), BATCH_N, 0);
    const int before = atomic_load(&asked);
    atomic_store(&let, false), atomic_store(&held, true);
    assert_int_equal(pthread_create(&thread, NULL, batch_into, c.call.c), 0);
    if (!apart) await_asked(before + 1);
    if (!apart) usleep(400000); /* longer than the call takes */
    for (int64_t page = 0; !apart && page < c.bytes / PAGE; page++) assert_false(is_there(&c, page));
    atomic_store(&let, true);
    pthread_join(thread, NULL);
    atomic_store(&held, false);
    if (apart) assert_int_equal(asked_of(&c, before, NULL, 0), 0);
    for (int i = 0; i < BATCH; i += 33) {
      const double *const d = (const double *)c.call.c + i * batch_stride, *const x = call_x + i * BATCH_N * BATCH_K;
      double sum = 0;
      for (int l = 0; l < BATCH_K; l++) sum += x[7 + l * BATCH_N] * x[l + 9 * BATCH_K];
      assert_true(d[7 + 9 * BATCH_N] == sum);
    }
    delete_c(&c);
  }
  free(call_x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_that_are_written),
      cmocka_unit_test(none_without_need),
      cmocka_unit_test(copies_come_first),
      cmocka_unit_test(end_is_the_end),
      cmocka_unit_test(end_does_not_wait_for_copies),
      cmocka_unit_test(call_has_them),
      cmocka_unit_test(huge_ones_within),
      cmocka_unit_test(a_mapping_stays_one),
      cmocka_unit_test(one_thread_has_a_region),
      cmocka_unit_test(all_that_is_written),
      cmocka_unit_test(copies_have_them),
      cmocka_unit_test(several_huge_pages),
      cmocka_unit_test(call_waits_for_them),
      cmocka_unit_test(triangle_begins_later),
      cmocka_unit_test(who_waits_copies),
      cmocka_unit_test(batches_wait_for_them),
  };
  return tst_result(cmocka_run_group_tests(tests, open_pool, close_pool));
}
