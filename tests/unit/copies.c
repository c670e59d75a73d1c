/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copies.h"
#include "placed.h"
#include "process.h"
#include "rng.h"

char *memory, *copy;
struct tb_cache *cache;

/* ---- the kernel, and who writes meanwhile ---- */

char *written_before, *written_behind;
bool protects_nothing;
int protections;
uint64_t pages_protected;

int ioctl(int file, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *const argument = va_arg(arguments, void *);
  va_end(arguments);
  const struct uffdio_writeprotect *const range = argument;
  const bool protects = request == UFFDIO_WRITEPROTECT && range->mode != 0;
  protections += protects;
  if (protects) pages_protected += range->range.len / PAGE;
  if (protects && protects_nothing) {
    errno = ENOENT;
    return -1;
  }
  if (protects && written_before != NULL) *written_before ^= 1;
  const int result = (int)syscall(SYS_ioctl, file, request, argument);
  if (protects && written_behind != NULL) *written_behind ^= 1;
  if (protects) written_before = written_behind = NULL;
  return result;
}

/* ---- a program and its calls ---- */

struct tb_stored matrix(size_t at, int64_t column_bytes, int64_t columns, int64_t pitch_bytes) {
  return (struct tb_stored){memory + at, column_bytes, columns, pitch_bytes, TB_STORED_ALL};
}

static char *map(void) {
  char *const m = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(m != MAP_FAILED);
  return m;
}

void fill(size_t bytes) {
  uint64_t seed = 1;
  for (size_t i = 0; i < bytes; i += 8) memcpy(memory + i, &(uint64_t){tst_random(&seed)}, 8);
}

void begin(size_t bytes) {
  memory = map(), copy = map();
  fill(bytes);
  cache = tb_cache_open(true);
  assert_non_null(cache);
  tb_cache_allow_hash(cache, false);
}

void end(void) {
  tb_cache_close(cache, true);
  tb_track_close();
  munmap(memory, MEMORY), munmap(copy, MEMORY);
}

static void bring_up(struct tb_kept *kept, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; i++) {
    const struct tb_stored cell = tb_cell(&kept->stored, &kept->cells, i);
    kept->digests[i] = tb_hash_cell(&cell);
    for (int64_t c = 0; c < cell.columns; c++) {
      const char *const from = cell.data + c * cell.pitch_bytes;
      memcpy(copy + (from - memory), from, (size_t)cell.column_bytes);
    }
  }
}

int64_t cells_brought_up;

static void mend(struct tb_kept *kept) {
  assert_non_null(kept->stale);
  cells_brought_up = 0;
  for (int i = 0; i < kept->stale->runs; i++) {
    bring_up(kept, kept->stale->run[i].first, kept->stale->run[i].count);
    cells_brought_up += kept->stale->run[i].count;
  }
  tb_kept_end_mending(kept);
}

/* What it had of the operand is in `copy` already. */
static struct tb_cached grow(struct tb_kept *kept, struct tb_stored operand) {
  struct tb_outgrown old;
  const bool grown = tb_cache_grow(cache, kept, &operand, NO_LIMIT, NO_LIMIT, &old);
  tb_cache_end_outgrown(cache, &old);
  if (!grown && kept->stale != NULL) tb_cache_drop(cache, kept);
  if (!grown && kept->stale == NULL) tb_cache_leave_operand(cache, 0, kept);
  if (!grown) return (struct tb_cached){.proof = TB_NOT_KEPT};
  mend(kept);
  return tb_cache_found_grown(kept, &operand);
}

struct tb_cached look(int user, struct tb_stored operand, struct tb_question *later) {
  struct tb_cached found;
  struct tb_kept *const worth = tb_cache_look(cache, user, &operand, NULL, &found, later);
  if (worth != NULL && tb_cache_make(cache, user, worth, NO_LIMIT, NO_LIMIT)) {
    bring_up(worth, 0, worth->cells.count);
    found = (struct tb_cached){.proof = TB_KEPT_ANEW, .kept = worth};
  }
  if (found.grows) return grow(found.kept, operand);
  if (found.proof == TB_MENDED) mend(found.kept);
  return found;
}

void enter(int user) {
  assert_true(tb_cache_enter());
  tb_cache_begin_call(cache, user);
  tb_cache_allow_mending(cache);
}

struct tb_cached call(struct tb_stored operand) {
  enter(0);
  const struct tb_cached found = look(0, operand, NULL);
  tb_cache_leave();
  tb_cache_end_call(cache, 0);
  return found;
}

enum tb_proof see(struct tb_stored operand) { return call(operand).proof; }

struct tb_kept *keep(struct tb_stored operand) {
  for (int i = 0; i < 8 && see(operand) != TB_BY_TRACKING; i++) continue;
  const struct tb_cached found = call(operand);
  assert_int_equal(found.proof, TB_BY_TRACKING);
  return found.kept;
}

void expect_copy(struct tb_stored s) {
  for (int64_t c = 0; c < s.columns; c++) {
    const char *const column = s.data + c * s.pitch_bytes;
    if (memcmp(column, copy + (column - memory), (size_t)s.column_bytes) == 0) continue;
    fail_msg("column %d of %d with %d bytes is not as the program's", (int)c, (int)s.columns, (int)s.column_bytes);
  }
}

/* ---- all tests ---- */

static void see_if_it_is_possible(void) {
  const char *const memory_of_one = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct tb_tracked page = tb_track_pages((uintptr_t)memory_of_one, (uintptr_t)memory_of_one + PAGE);
  if (!tb_track_begin(&page, page)) tst_skip("the kernel does not tell which pages were written");
  tb_track_end(&page);
  munmap((void *)(uintptr_t)memory_of_one, PAGE);
  tb_track_close();
}

bool begin_group(void) {
  see_if_it_is_possible();
  if (!tb_cuda_load()) return false;
  tst_cuda_begin(0);
  return true;
}

int end_group(int failed) {
  tst_cuda_end(0);
  return failed;
}
