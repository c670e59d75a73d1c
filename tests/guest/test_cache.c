/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Number 12: the folder of kept figures is the user's own, or it is left alone: nothing is made in another's home, no
 * symbolic link is followed, no folder that others may write to is used, and the files are bounded in number.
 *
 * Seen to fail when: the owner of a home is not looked at; O_NOFOLLOW is left out, for the folder or a file; the oldest
 * files stay.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "route/calibration_file.h"
#include "process.h"

#define FILES_MOST 32
#define SOMEBODY 12345

static const char *base;
static const struct tb_calibration figures = {.open_seconds = 1};

static int make_base(void **state) {
  (void)state;
  char name[] = "/tmp/tst_guest_cache.XXXXXX";
  base = tst_format("%s", mkdtemp(name));
  return 0;
}

static int remove_base(void **state) {
  (void)state;
  return system(tst_format("rm -rf '%s'", base));
}

static struct tb_machine_key key_of(int number) {
  return (struct tb_machine_key){"A processor", tst_format("/lib/libblas.so.%d", number), "A GPU", TB_S};
}

static bool writes(const char *folder, int number) {
  char path[TB_CALIBRATION_PATH_MAX];
  const struct tb_machine_key key = key_of(number);
  return tb_calibration_write(folder, &key, &figures, path);
}

static bool reads(const char *folder, int number) {
  struct tb_calibration back;
  const struct tb_machine_key key = key_of(number);
  return tb_calibration_read(folder, &key, &back);
}

static int files_in(const char *folder) {
  int count = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) count += e->d_name[0] != '.';
  if (d) closedir(d);
  return count;
}

/* As root with sudo has it. Who is not root has no home but his own to try: root's. */
static void another_s_home(void **state) {
  (void)state;
  const char *home = tst_format("%s/home", base), *folder = tst_format("%s/.cache/tileblas", home);
  assert_int_equal(mkdir(home, 0755), 0);
  if (geteuid() == 0) assert_int_equal(chown(home, SOMEBODY, SOMEBODY), 0);
  assert_int_equal(writes(geteuid() == 0 ? folder : "/.cache/tileblas", 1), false);
  if (geteuid() != 0) return;
  assert_int_not_equal(access(tst_format("%s/.cache", home), F_OK), 0);
  assert_int_equal(mkdir(tst_format("%s/.cache", home), 0700), 0); /* by an earlier root */
  assert_false(writes(folder, 1));
  assert_int_equal(chown(home, 0, 0), 0);
  assert_true(writes(folder, 1) && reads(folder, 1));
  assert_int_equal(chown(folder, SOMEBODY, SOMEBODY), 0);
  assert_false(writes(folder, 1) || reads(folder, 1));
}

static void no_symbolic_link(void **state) {
  (void)state;
  const char *real = tst_format("%s/real", base), *link = tst_format("%s/link", base);
  const struct tb_machine_key key = key_of(1);
  char path[TB_CALIBRATION_PATH_MAX];
  assert_true(tb_calibration_write(real, &key, &figures, path));
  assert_int_equal(symlink(real, link), 0);
  assert_false(writes(link, 2) || reads(link, 1));
  assert_int_equal(files_in(real), 1);
  const char *away = tst_format("%s/away", base); /* the file itself */
  assert_int_equal(rename(path, away), 0);
  assert_int_equal(symlink(away, path), 0);
  assert_false(reads(real, 1));
}

static void nobody_else_may_write_there(void **state) {
  (void)state;
  const char *folder = tst_format("%s/open", base);
  assert_true(writes(folder, 1) && reads(folder, 1));
  assert_int_equal(chmod(folder, 0770), 0);
  assert_false(writes(folder, 1) || reads(folder, 1));
}

static void a_bounded_number(void **state) {
  (void)state;
  const char *folder = tst_format("%s/many", base);
  for (int i = 0; i < 3 * FILES_MOST; i++) {
    assert_true(writes(folder, i));
    usleep(11000); /* the clock of files */
  }
  assert_int_equal(files_in(folder), FILES_MOST);
  for (int i = 0; i < 3 * FILES_MOST; i++) assert_int_equal(reads(folder, i), i >= 2 * FILES_MOST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(another_s_home),
      cmocka_unit_test(no_symbolic_link),
      cmocka_unit_test(nobody_else_may_write_there),
      cmocka_unit_test(a_bounded_number),
  };
  return cmocka_run_group_tests_name("cache", tests, make_base, remove_base);
}
