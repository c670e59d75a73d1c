/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operand of so many pages that CUDA is asked about them beside products: until that is done it goes up as any
 * other, and is right; its copy is used behind that, and not if CUDA has one of its pages, nor if it is written
 * meanwhile. A thread that shuts itself in then has nothing asked any more, of CUDA nor of the kernel.
 *
 * Each case is a process of its own. Seen to fail when: a copy is used before CUDA is asked about all of it, or its
 * bytes are not looked at behind that; nobody goes on asking; what was written meanwhile is neither found nor mended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "kept_array.h"
#include "placed.h"
#include "process.h"
#include "sanitized.h"

/* Two sights, and a third at which the kernel begins to watch: behind these there is nothing to be asked any more. */
enum { SIGHTS = 3, USES = 3 };

static bool begin(const char *cache, uint64_t *seed, int ups) {
  tst_array_begin(cache, seed);
  tst_array_map(seed);
  return tst_array_ups_are("the first sights", tst_array_ups(SIGHTS), ups);
}

static int goes_up_until_asked(void *unused) {
  uint64_t seed = 1;
  (void)unused;
  tst_set_option("TILEBLAS_VERBOSE", "1");
  bool right = begin("auto", &seed, SIGHTS);
  return right && tst_array_ups_are("its uses", tst_array_ups(USES), 0) ? 0 : 1;
}

/* So many pages that looks alone, of 8 MiB each, have asked about them all in the eighth call. */
#define UPS_BY_LOOKS_ALONE 7

static int is_asked_beside_products(void *unused) {
  uint64_t seed = 5;
  int ups = 0;
  (void)unused;
  tst_array_set_rows(TST_ARRAY_M_MOST);
  tst_array_begin("auto", &seed);
  tst_array_map(&seed);
  for (bool up = true; up && ups < UPS_BY_LOOKS_ALONE; ups += up)
    if (!tst_array_call(&up)) return 1;
  if (ups >= UPS_BY_LOOKS_ALONE) printf("%d ways up\n", ups);
  return ups < UPS_BY_LOOKS_ALONE ? 0 : 1;
}

/* Where all bytes may be looked at it is used meanwhile. */
static int is_used_by_hash(void *unused) {
  uint64_t seed = 2;
  (void)unused;
  tst_set_option("TILEBLAS_VERBOSE", "1");
  bool right = begin("8G", &seed, 2);
  return right && tst_array_ups_are("its uses", tst_array_ups(USES), 0) ? 0 : 1;
}

/* Of so many pages as above CUDA is asked beside the digests: there are as many as there have to be, and a few. */
#define DIGESTS_MOST 4

static int is_asked_beside_digests(void *unused) {
  uint64_t seed = 8;
  (void)unused;
  tst_array_set_rows(TST_ARRAY_M_MOST);
  tst_set_option("TILEBLAS_VERBOSE", "1");
  tst_array_begin("8G", &seed);
  tst_array_map(&seed);
  return tst_array_ups(2 + DIGESTS_MOST + 1) == 2 ? 0 : 1;
}

/* A page that is asked about last. */
static char *last_page(void) { return tst_array_mapping() + TST_ARRAY_BYTES / TST_PAGE * TST_PAGE - TST_PAGE; }

/* By the hash what was written goes up alone where the kernel is tried again in that call, which it is in the one or
 * the next, as the caller has found CUDA's page beside the third call's digests or not. */
static int cuda_has_the_last(void *cache) {
  const bool hash = strcmp(cache, "auto") != 0;
  uint64_t seed = 3;
  bool right = true;
  tst_cuda_begin(0);
  tst_array_begin(cache, &seed);
  tst_array_map(&seed);
  tst_cuda_register(last_page(), TST_PAGE);
  right &= tst_array_ups_are("CUDA's", tst_array_ups(SIGHTS + USES), hash ? 2 : SIGHTS + USES);
  tst_array()[(last_page() - (char *)tst_array()) / (long)sizeof(float)] += 1; /* a GPU might, unseen */
  const int ups = tst_array_ups(1);
  right &= hash ? ups >= 0 : tst_array_ups_are("written", ups, 1);
  tst_cuda_unregister(last_page());
  tst_cuda_end(0);
  return right ? 0 : 1;
}

/* What is written when all bytes are looked at behind that: an element, also in the page that is looked at first, which
 * is mended; or all. */
static int is_written_meanwhile(void *what) {
  const bool all = strcmp(what, "all") == 0, midst = strcmp(what, "midst") == 0;
  uint64_t seed = 4;
  bool right = begin("auto", &seed, SIGHTS);
  if (all)
    tst_array_fill(&seed);
  else
    tst_array()[midst ? TST_ARRAY_ELEMS / 2 : TST_ARRAY_ELEMS / 5] += 1;
  right &= tst_array_ups_are(what, tst_array_ups(1), all ? 1 : 0);
  right &= tst_array_ups(USES) >= 0;
  return right ? 0 : 1;
}

/* Any further question to the kernel ends the process: while CUDA is asked, and when it is used. The CPU answers. */
static int shuts_itself_in(void *when) {
  const bool used = strcmp(when, "used") == 0;
  uint64_t seed = 7;
  bool right = begin("auto", &seed, SIGHTS);
  if (used) right &= tst_array_ups_are("its uses", tst_array_ups(USES), 0);
  tst_forbid_ioctl();
  right &= tst_array_ups_are(when, tst_array_ups(2), 0);
  tst_array()[TST_ARRAY_ELEMS / 5] += 1;
  right &= tst_array_ups_are(when, tst_array_ups(2), 0);
  return right ? 0 : 1;
}

static void asked(void **state) {
  struct tst_output o;
  (void)state;
  tst_fork(&o, goes_up_until_asked, NULL);
  const int later = tst_count_lines(o.err, "A=kept (not proven yet)"), hash = tst_count_lines(o.err, "A=kept (hash)");
  const int tracked = tst_count_lines(o.err, "A=kept (tracked)"), status = o.status;
  tst_output_destroy(&o);
  assert_int_equal(status, 0);
  assert_int_equal(later, 1);
  assert_int_equal(hash, 1);
  assert_int_equal(tracked, USES - 1);
}

static void by_hash(void **state) {
  struct tst_output o;
  (void)state;
  tst_fork(&o, is_used_by_hash, NULL);
  const int hash = tst_count_lines(o.err, "A=kept (hash)"), tracked = tst_count_lines(o.err, "A=kept (tracked)");
  const int status = o.status;
  tst_output_destroy(&o);
  assert_int_equal(status, 0);
  assert_int_equal(hash, 2);
  assert_int_equal(tracked, USES - 1);
}

/* Calls by the kernel's word. */
static size_t tracked_beside_digests(void) {
  struct tst_output o;
  tst_fork(&o, is_asked_beside_digests, NULL);
  const size_t hash = tst_count_lines(o.err, "A=kept (hash)"), tracked = tst_count_lines(o.err, "A=kept (tracked)");
  const int status = o.status;
  tst_output_destroy(&o);
  assert_int_equal(status, 0);
  assert_int_equal(hash + tracked, DIGESTS_MOST + 1);
  return tracked;
}

/* Where other programs have the cores the caller may have no time to ask; by looks alone there are more digests always.
 */
static void beside_digests(void **state) {
  enum { ATTEMPTS = 4 };
  size_t tracked = 0;
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver does not count");
  for (int attempt = 0; attempt < ATTEMPTS && tracked == 0; attempt++) tracked = tracked_beside_digests();
  if (tracked == 0) fail_msg("digests alone, %d times", ATTEMPTS);
}

static void beside(void **state) {
  (void)state;
  if (tst_fake() == NULL) TST_LEAVE_OUT("a real driver does not count");
  tst_array_case(is_asked_beside_products, "beside products");
}

static void cudas(void **state) {
  (void)state;
  tst_array_case(cuda_has_the_last, "auto");
  tst_array_case(cuda_has_the_last, "8G");
}

static void shut_in(void **state) {
  (void)state;
  tst_array_case(shuts_itself_in, "asked");
  tst_array_case(shuts_itself_in, "used");
}

static void written(void **state) {
  (void)state;
  tst_array_case(is_written_meanwhile, "an element");
  tst_array_case(is_written_meanwhile, "all");
  tst_array_case(is_written_meanwhile, "midst");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(asked), cmocka_unit_test(beside),  cmocka_unit_test(beside_digests), cmocka_unit_test(by_hash),
      cmocka_unit_test(cudas), cmocka_unit_test(written), cmocka_unit_test(shut_in),
  };
  if (!tst_array_stays()) return printf("skipped: this kernel does not say who writes\n"), 77;
  return tst_result(cmocka_run_group_tests(tests, NULL, NULL));
}
