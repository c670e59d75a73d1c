/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands of which a half is stored, and that come back: symm's and hemm's, trmm's and trsm's A, in all types, on both
 * sides, of both triangles. The same bits as without TILEBLAS_CACHE, with memory for the copy and without; A does not
 * go up again; an element that is changed in the stored half shows in the next result; one of the other half does not,
 * and costs nothing; that half is never read, and is NaN, or no memory at all. Two halves of one square are two
 * operands. A GPU that fails in the midst leaves the program's own to the CPU.
 *
 * Each case is a process of its own, with TILEBLAS_CACHE=8G.
 *
 * Seen to fail when: the other half is in the cells, or goes up; the two halves of a square count as one; columns or
 * pieces go up to a wrong place; a solve with a copy is not proven; a panel is not formed, or without a module for it;
 * a copy does not make way for B, or is beside TILEBLAS_MEMORY_LIMIT; a copy is handed to the CPU.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"
#include "process.h"
#include "rng.h"
#include "sanitized.h"
#include "sided_call.h"
#include "tileblas.h"

#define CUDA_ERROR_UNKNOWN 999
#define PAGE ((size_t)4096)

/* Some of sided_call.h's numbers. */
enum {
  SSYMM,
  DSYMM,
  ZHEMM = 5,
  STRMM = TST_SIDED_MIRRORED,
  DTRMM,
  STRSM = TST_SIDED_MIRRORED + 4,
  DTRSM,
  CTRSM,
  ZTRSM
};

static void set(const char *option, const char *value) {
  if (tileblas_option_set(option, value) != 0) exit(3);
}

static uint64_t count_of(enum fake_cuda_count what) { return tst_fake() == NULL ? 0 : tst_fake()->get(what); }
static uint64_t bytes_up(void) { return count_of(FAKE_CUDA_BYTES_UP); }

/* ---- a call, with an A of its own ---- */

struct subject {
  int number; /* sided_call.h's, in cblas's spelling */
  struct tst_sided_call call;
  char *a, *mapping; /* what is multiplied with, in whole pages of its own */
  size_t mapping_bytes;
  bool upper; /* what A has in memory, by columns */
};

static int64_t real_bytes(const struct subject *s) {
  return s->call.name.type == 'd' || s->call.name.type == 'z' ? sizeof(double) : sizeof(float);
}
static int64_t element_bytes(const struct subject *s) {
  return real_bytes(s) << (s->call.name.type == 'c' || s->call.name.type == 'z');
}

/* `lead`: bytes from the beginning of a page. */
static struct subject make(int number, const char *letters, int64_t order, int64_t other, size_t lead, uint64_t *seed) {
  struct subject s = {.number = number};
  tst_sided_create_as(&s.call, number, letters, order, other, seed);
  s.mapping_bytes = (lead + s.call.a.bytes + PAGE - 1) / PAGE * PAGE;
  s.mapping = mmap(NULL, s.mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (s.mapping == MAP_FAILED) exit(4);
  s.a = s.mapping + lead;
  memcpy(s.a, s.call.a.data, s.call.a.bytes);
  s.upper = (letters[1] == 'U') != s.call.row_major;
  return s;
}

static void drop(struct subject *s) {
  tst_sided_destroy(&s->call);
  munmap(s->mapping, s->mapping_bytes);
}

static void run(struct subject *s) {
  tst_sided_restore(&s->call);
  tst_sided_make_on(&s->call, s->a, s->call.b.data, s->call.c.data);
}

static bool complain(const struct subject *s, const char *what) {
  const struct tst_sided_call *const p = &s->call;
  printf("%s%s %c%c%c%c m=%d n=%d lda=%d: %s\n", p->name.name, p->row_major ? " row-major" : "", p->side, p->uplo,
         p->trans, p->diag, (int)p->m, (int)p->n, (int)p->lda, what);
  return false;
}

static bool is_right(const struct subject *s) {
  const char *const wrong = tst_sided_wrong(&s->call);
  if (wrong != NULL) printf("%s\n", wrong);
  return wrong == NULL;
}

static char *result_of(const struct subject *s) {
  char *const c = malloc(s->call.c.bytes);
  memcpy(c, s->call.c.data, s->call.c.bytes);
  return c;
}
static bool is_as(const struct subject *s, const char *c) { return memcmp(s->call.c.data, c, s->call.c.bytes) == 0; }

/* C by the library that keeps nothing. To be freed. */
static char *without(struct subject *s) {
  set("TILEBLAS_CACHE", "off");
  run(s);
  set("TILEBLAS_CACHE", "8G");
  return result_of(s);
}

/* Whether nothing as large as A has gone up: what it is multiplied with is narrow; twice, where a call is computed
 * anew.
 */
static bool went_without_a(const struct subject *s, uint64_t before, int times) {
  const int64_t order = tst_sided_order(&s->call), half_bytes = order * order * element_bytes(s) / 2;
  return bytes_up() - before <= (uint64_t)(times * half_bytes / 2);
}

/* ---- changes ---- */

/* Of a fraction. */
static void change(char *element, const struct subject *s) { element[real_bytes(s) - 3] ^= 0x40; }

/* An element of one half of A in memory, off the diagonal. */
static int64_t place_in(const struct subject *s, bool upper, int64_t few, int64_t many) {
  return (upper ? few + many * s->call.lda : many + few * s->call.lda) * element_bytes(s);
}

/* Of the stored half, wherever in it; in what the result is held against, too. */
static void change_stored(struct subject *s, uint64_t *seed) {
  const int64_t many = 1 + tst_random_below(seed, tst_sided_order(&s->call) - 1), few = tst_random_below(seed, many);
  const int64_t at = place_in(s, s->upper, few, many);
  change(s->a + at, s), change((char *)s->call.a.data + at, s), change((char *)s->call.a.before + at, s);
}

/* Of the other half, beside the diagonal: on pages, and in cells, that the stored one has, too. */
static void change_other(struct subject *s, uint64_t *seed) {
  const int64_t few = tst_random_below(seed, tst_sided_order(&s->call) - 1);
  change(s->a + place_in(s, !s->upper, few, few + 1), s);
}

/* ---- the same bits ---- */

/* `limit`: TILEBLAS_MEMORY_LIMIT in MiB, or 0; then copies may have no room. */
static bool check_bits(struct subject *s, uint64_t limit, uint64_t *seed) {
  bool right = true;
  char *const wanted = without(s);
  if (!is_right(s)) right = complain(s, "wrong without copies");
  for (int i = 0; i < 5 && right; i++) {
    if (i == 4) change_other(s, seed);
    const uint64_t before = bytes_up();
    run(s);
    if (!is_as(s, wanted)) right = complain(s, i < 4 ? "other bits" : "the other half shows");
    if (i >= 3 && limit == 0 && !went_without_a(s, before, i < 4 ? 1 : 2)) right = complain(s, "A goes up again");
  }
  change_stored(s, seed);
  run(s);
  char *const kept = result_of(s), *const changed = without(s);
  if (memcmp(changed, wanted, s->call.c.bytes) == 0) right = complain(s, "nothing was changed");
  if (memcmp(kept, changed, s->call.c.bytes) != 0) right = complain(s, "a changed element is not seen");
  if (limit > 0 && count_of(FAKE_CUDA_PEAK_BYTES) > limit << 20)
    right = complain(s, "more memory than TILEBLAS_MEMORY_LIMIT");
  free(wanted), free(kept), free(changed);
  return right;
}

/* Of a half of a MiB and more, in cblas's spelling; the routine's number is sided_call.h's. */
static int64_t order_of(int number) {
  struct tst_typed_name name;
  tst_sided_find(number, &name);
  return name.type == 's' ? 740 : name.type == 'z' ? 370 : 520;
}

enum { MIRRORED_CASES = 2 * TST_SIDED_MIRRORED, TRIANGULAR_CASES = 12, CASES = MIRRORED_CASES + 2 * TRIANGULAR_CASES };

/* Each routine and type, and with them each side, triangle, transpose and diagonal, by twos in every pair. */
static int routine_of(int number, char letters[5]) {
  const bool mirrored = number < MIRRORED_CASES, solves = number >= MIRRORED_CASES + TRIANGULAR_CASES;
  const int of_kind = mirrored ? number : (number - MIRRORED_CASES) % TRIANGULAR_CASES;
  const int side = of_kind % 2, uplo = (of_kind / 2 + (mirrored ? side : 0)) % 2;
  const char all[] = {"LR"[side], "UL"[uplo], "NTC"[of_kind % 3], "NU"[of_kind * 5 / 3 % 2], '\0'};
  memcpy(letters, all, sizeof all);
  if (mirrored) return of_kind / 2;
  return solves ? ZTRSM - of_kind / 3 : STRMM + of_kind / 3;
}

/* limit_text: MiB, or NULL. */
static int same_bits(void *limit_text) {
  const uint64_t limit = limit_text == NULL ? 0 : strtoull(limit_text, NULL, 10);
  bool right = true;
  uint64_t seed = 1;
  set("TILEBLAS_ROUTE", "gpu");
  if (limit_text != NULL) set("TILEBLAS_MEMORY_LIMIT", tst_format("%sM", (const char *)limit_text));
  for (int i = 0; i<CASES; i += limit> 0 ? 3 : TST_UNLESS_SANITIZED(1, 5)) {
    char letters[5];
    const int number = routine_of(i, letters);
    /* Each elsewhere, for of what was seen at an address before a copy is made later. */
    struct subject s = make(number, letters, order_of(number), 17, (size_t)(40 + 16 * i), &seed);
    right &= check_bits(&s, limit, &seed);
    drop(&s);
  }
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  return right && stats.cpu_calls == 0 ? 0 : 1;
}

/* ---- what is never read ---- */

static bool is_stored(const struct subject *s, int64_t row, int64_t column) {
  return s->upper ? row <= column : row >= column;
}

/* Takes away all pages that have nothing of the stored half. Their number. */
static int take_other_pages(const struct subject *s) {
  const int64_t order = tst_sided_order(&s->call), size = element_bytes(s), ld = s->call.lda;
  bool *const stays = calloc(s->mapping_bytes / PAGE, sizeof *stays);
  int taken = 0;
  for (int64_t column = 0; column < order; column++)
    for (int64_t row = 0; row < order; row++) {
      const size_t at = (size_t)(s->a - s->mapping) + (size_t)((row + column * ld) * size);
      if (is_stored(s, row, column)) stays[at / PAGE] = stays[(at + (size_t)size - 1) / PAGE] = true;
    }
  for (size_t page = 0; page < s->mapping_bytes / PAGE; page++)
    if (!stays[page]) taken += mprotect(s->mapping + page * PAGE, PAGE, PROT_NONE) == 0;
  free(stays);
  return taken;
}

/* From the second sight on, which brings A up by itself; panels may have some of the other half. */
static int no_other_half(void *unused) {
  static const struct {
    int number;
    const char *letters;
    int64_t order; /* of columns with whole pages of the other half */
  } cases[] = {{DSYMM, "LUNN", 1100}, {ZHEMM, "RLNN", 550}, {DTRMM, "LLTN", 1100}, {ZTRSM, "RUNU", 550}};
  (void)unused;
  bool right = true;
  uint64_t seed = 2;
  set("TILEBLAS_ROUTE", "gpu");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct subject s = make(cases[i].number, cases[i].letters, cases[i].order, 5, 16 * i, &seed);
    run(&s);
    char *const wanted = result_of(&s);
    if (take_other_pages(&s) < 50) right = complain(&s, "there is no such page");
    for (int sight = 2; sight <= 5; sight++) {
      const uint64_t before = bytes_up();
      run(&s);
      if (!is_as(&s, wanted)) right = complain(&s, "other bits");
      if (sight >= 3 && !went_without_a(&s, before, 1)) right = complain(&s, "A goes up again");
    }
    free(wanted);
    drop(&s);
  }
  return right ? 0 : 1;
}

/* ---- two halves of one square ---- */

/* Another call with an A that is stored likewise. */
static struct subject make_alike(const struct subject *s, const char *letters, int64_t other, uint64_t *seed) {
  const int64_t order = tst_sided_order(&s->call);
  struct subject t = make(s->number, letters, order, other, 8, seed);
  while (t.call.row_major != s->call.row_major || t.call.lda != s->call.lda) {
    drop(&t);
    t = make(s->number, letters, order, other, 8, seed);
  }
  return t;
}

/* As of a factorization: the first is unit, so that the diagonal is the second's. In the first one's memory. */
static void make_halves(struct subject both[2], uint64_t *seed) {
  both[0] = make(DTRSM, "LLNU", order_of(DTRSM), 9, 8, seed);
  both[1] = make_alike(&both[0], "LUNN", 9, seed);
  const int64_t order = tst_sided_order(&both[0].call), size = element_bytes(&both[0]);
  for (int64_t column = 0; column < order; column++)
    for (int64_t row = 0; row < order; row++) {
      const int64_t at = (row + column * both[0].call.lda) * size;
      if (is_stored(&both[1], row, column)) memcpy(both[0].a + at, both[1].a + at, (size_t)size);
    }
  both[1].a = both[0].a;
}

static int two_halves(void *unused) {
  (void)unused;
  struct subject both[2];
  uint64_t seed = 3;
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  make_halves(both, &seed);
  for (int sight = 1; sight <= 6; sight++)
    for (int half = 0; half < 2; half++) {
      const uint64_t before = bytes_up();
      run(&both[half]);
      if (!is_right(&both[half])) right = complain(&both[half], "wrong beside the other half");
      if (sight >= 3 && !went_without_a(&both[half], before, 1)) right = complain(&both[half], "it does not stay");
    }
  char *wanted[2] = {NULL, NULL};
  for (int half = 0; half < 2; half++) {
    run(&both[half]);
    wanted[half] = result_of(&both[half]);
  }
  change_stored(&both[1], &seed);
  for (int half = 0; half < 2; half++) {
    const uint64_t before = bytes_up();
    run(&both[half]);
    if (!is_right(&both[half]) || is_as(&both[half], wanted[half]) != (half == 0))
      right = complain(&both[half], "wrong behind a change of the second half");
    if (tst_fake() != NULL && went_without_a(&both[half], before, 1) != (half == 0)) /* a real driver does not count */
      right = complain(&both[half], "another goes up than changed");
    free(wanted[half]);
  }
  drop(&both[0]), drop(&both[1]);
  return right ? 0 : 1;
}

/* ---- little memory ---- */

/* A is halved, for with what is made of it there is no room for B; its halves are large enough to stay. */
static int by_halves(void *unused) {
  (void)unused;
  bool right = true;
  uint64_t seed = 4;
  set("TILEBLAS_ROUTE", "gpu"), set("TILEBLAS_MEMORY_LIMIT", "7M");
  for (int solves = 0; solves < 2; solves++) {
    struct subject s = make(solves ? STRSM : STRMM, solves ? "RUTN" : "LLNU", 1500, 3, 8, &seed);
    right &= check_bits(&s, 7, &seed);
    drop(&s);
  }
  return right ? 0 : 1;
}

/* A copy that the call itself would use makes way for its memory, where there is not enough for both. */
static int room_for_a_wider_b(void *unused) {
  (void)unused;
  uint64_t seed = 5;
  set("TILEBLAS_ROUTE", "gpu"), set("TILEBLAS_MEMORY_LIMIT", "8M");
  struct subject narrow = make(DTRSM, "LUNN", order_of(DTRSM), 9, 8, &seed);
  struct subject wide = make_alike(&narrow, "LUNN", 700, &seed);
  memcpy(narrow.a, wide.a, wide.call.a.bytes);
  wide.a = narrow.a;
  bool right = true;
  for (int sight = 1; sight <= 4; sight++) run(&narrow);
  const uint64_t before = bytes_up();
  run(&narrow);
  if (!went_without_a(&narrow, before, 1)) right = complain(&narrow, "it does not stay");
  run(&wide);
  char *const kept = result_of(&wide), *const wanted = without(&wide);
  if (memcmp(kept, wanted, wide.call.c.bytes) != 0) right = complain(&wide, "other bits where a copy makes way");
  if (count_of(FAKE_CUDA_PEAK_BYTES) > 8 << 20) right = complain(&wide, "more memory than TILEBLAS_MEMORY_LIMIT");
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  free(kept), free(wanted), drop(&narrow), drop(&wide);
  return right && stats.cpu_calls == 0 && stats.gpu_failures == 0 ? 0 : 1;
}

/* ---- a GPU that fails ---- */

struct failure {
  const char *function;
  unsigned long nth;
  int number;
  const char *letters;
  bool rewritten;
};

/* The CPU has what the program has, in as much of B as is its own. Several pieces come down. */
static int fail_gpu(void *opaque) {
  const struct failure *const f = opaque;
  uint64_t seed = f->nth;
  bool right = true;
  set("TILEBLAS_ROUTE", "gpu");
  struct subject s = make(f->number, f->letters, order_of(f->number), 150, 40, &seed);
  for (int i = 0; i < 4; i++) run(&s);
  if (f->rewritten) change_stored(&s, &seed);
  if (tst_fake()->inject(f->function, f->nth, CUDA_ERROR_UNKNOWN, 0) != 0) return 4;
  run(&s);
  if (count_of(FAKE_CUDA_FAILURES) != 1) right = complain(&s, "nothing failed");
  tst_fake()->clear_failures();
  right &= is_right(&s) || complain(&s, "wrong behind a failure");
  run(&s);
  right &= is_right(&s) || complain(&s, "wrong after a failure");
  tileblas_stats stats;
  tileblas_stats_get(&stats);
  drop(&s);
  return right && stats.gpu_failures == 1 ? 0 : 1;
}

static void failing_gpus(void **state) {
  static const struct failure failures[] = {
      {"cuMemcpyDtoHAsync", 2, DTRSM, "LLNN", false}, {"cuMemcpyDtoHAsync", 3, DTRSM, "LUNN", true},
      {"cuLaunchKernel", 9, DTRSM, "RUTN", false},    {"cuMemcpyDtoHAsync", 2, STRMM, "LLTN", false},
      {"cuLaunchKernel", 1, CTRSM, "RLCU", true},     {"cuMemcpyDtoHAsync", 2, DSYMM, "LUNN", false},
      {"cuMemcpyDtoHAsync", 1, DSYMM, "RLNN", true},  {"cuLaunchKernel", 1, ZHEMM, "LLNN", true}};
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real GPU does not fail at our word");
  for (size_t i = 0; i < sizeof failures / sizeof *failures; i += TST_UNLESS_SANITIZED(1, 3))
    tst_in_a_process(fail_gpu, (void *)(uintptr_t)&failures[i], failures[i].function);
}

/* ---- each in a process ---- */

static void bits(void **state) {
  (void)state;
  tst_in_a_process(same_bits, NULL, "room for all");
}

enum { TENSOR_CASES = 4, TENSOR_STEP = TST_UNLESS_SANITIZED(1, 2) };

/* Emulated fp32, which packs panels: of a symmetric A behind the kernel that forms them. */
static int on_tensor_cores(void *unused) {
  static const struct {
    int number;
    const char *letters;
  } cases[TENSOR_CASES] = {{SSYMM, "LUNN"}, {SSYMM, "RLNN"}, {STRSM, "RUTN"}, {STRMM, "LLNU"}};
  (void)unused;
  bool right = true;
  uint64_t seed = 6;
  set("TILEBLAS_ROUTE", "gpu"), set("TILEBLAS_VERBOSE", "1");
  for (int i = 0; i < TENSOR_CASES; i += TENSOR_STEP) {
    struct subject s = make(cases[i].number, cases[i].letters, order_of(cases[i].number), 100, (size_t)(16 * i), &seed);
    right &= check_bits(&s, 0, &seed);
    drop(&s);
  }
  return right ? 0 : 1;
}

static void bits_of_tensor_cores(void **state) {
  (void)state;
  struct tst_output o;
  tst_fork(&o, on_tensor_cores, NULL);
  const size_t emulated = tst_count_lines(o.err, " emulated "), kept = tst_count_lines(o.err, "A=kept (");
  if (o.status != 0) fail_msg("status %d\n%s%s", o.status, o.out, o.err);
  const size_t cases = TENSOR_CASES / TENSOR_STEP; /* of 8 calls each, 4 of them with a copy */
  if (tst_fake() != NULL && (emulated < 7 * cases || kept < 4 * cases))
    fail_msg("%zu emulated, %zu kept", emulated, kept);
  tst_output_destroy(&o);
}

static void bits_where_memory_is_short(void **state) {
  (void)state;
  tst_in_a_process(same_bits, "5", "5 MiB"); /* for none, and for some */
  tst_in_a_process(same_bits, "7", "7 MiB");
  tst_in_a_process(room_for_a_wider_b, NULL, "a wider B");
  if (!TST_SANITIZED) tst_in_a_process(by_halves, NULL, "halves");
}
static void the_other_half_is_not_read(void **state) {
  (void)state;
  tst_in_a_process(no_other_half, NULL, "no memory");
}
static void two_halves_of_a_square(void **state) {
  (void)state;
  tst_in_a_process(two_halves, NULL, "a factorization's");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits),
      cmocka_unit_test(bits_where_memory_is_short),
      cmocka_unit_test(the_other_half_is_not_read),
      cmocka_unit_test(two_halves_of_a_square),
      cmocka_unit_test(failing_gpus),
  };
  const struct CMUnitTest tensor[] = {cmocka_unit_test(bits_of_tensor_cores)};
  if (argc > 1 && strcmp(argv[1], "tensor") == 0) return tst_result(cmocka_run_group_tests(tensor, NULL, NULL));
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
