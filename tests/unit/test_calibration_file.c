/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of measurements: what is written is read, and nothing else is believed: a file cut at any byte, with any
 * byte changed, of another machine, another format, or no file at all. Writers at the same time leave a whole file.
 *
 * Seen to fail when: the checksum is not looked at; a line of the key is not compared; a figure is not checked; the
 * file is written in place; what cannot be put in place stays about; a file stays open; a figure that is none is
 * written as one.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "route/calibration_file.h"
#include "process/environment.h"
#include "process.h"
#include "synthetic.h"

static const struct tb_machine_key key = {"A processor, 16 cores", "/lib/libblas.so, 16 threads", "A GPU, PCI 1", TB_S};
static char folder[TB_CALIBRATION_PATH_MAX];

static void expect_same(const struct tb_calibration *a, const struct tb_calibration *b) {
  assert_float_equal(a->open_seconds, b->open_seconds, 1e-9);
  assert_float_equal(a->link_up_bytes_per_s, b->link_up_bytes_per_s, 1);
  assert_float_equal(a->link_down_bytes_per_s, b->link_down_bytes_per_s, 1);
  assert_float_equal(a->gpu_peak_flops_per_s, b->gpu_peak_flops_per_s, 1);
  assert_int_equal(a->cpu_threads, b->cpu_threads);
  for (int where = 0; where < TB_WHERE_COUNT; where++)
    for (int node = 0; node < TB_NODES; node++)
      assert_float_equal(a->seconds[where][node], b->seconds[where][node], 1e-9);
}

/* Some nodes without a measurement, as they often are. */
static struct tb_calibration sample(void) {
  struct tb_calibration c = tst_synthetic_calibration(&tst_synthetic, TB_NODES);
  for (int node = 0; node < TB_NODES; node += 7) c.seconds[TB_CPU][node] = 0;
  for (int node = 100; node < TB_NODES; node++) c.seconds[TB_GPU][node] = 0;
  return c;
}

static void there_and_back(void **state) {
  (void)state;
  static const struct tb_calibration none;
  const struct tb_calibration c = sample();
  const struct tb_calibration *both[] = {&c, &none};
  for (int i = 0; i < 2; i++) {
    char text[TB_CALIBRATION_TEXT_MAX];
    struct tb_calibration back;
    const size_t length = tb_calibration_print(text, sizeof text, &key, both[i]);
    assert_true(length > 0);
    assert_true(tb_calibration_parse(text, length, &key, &back));
    expect_same(&back, both[i]);
    assert_int_equal(tb_calibration_print(text, length, &key, both[i]), 0); /* no room for the terminating zero */
  }
}

static void cut_and_changed(void **state) {
  (void)state;
  const struct tb_calibration c = sample();
  char text[TB_CALIBRATION_TEXT_MAX], changed[TB_CALIBRATION_TEXT_MAX];
  struct tb_calibration back;
  const size_t length = tb_calibration_print(text, sizeof text, &key, &c);
  for (size_t cut = 0; cut < length; cut++) assert_false(tb_calibration_parse(text, cut, &key, &back));
  for (size_t at = 0; at < length; at++) {
    memcpy(changed, text, length);
    changed[at] ^= (char)(1 << at % 8);
    assert_false(tb_calibration_parse(changed, length, &key, &back));
    assert_true(back.seconds[TB_GPU][1] == 0 && back.open_seconds == 0);
  }
  text[length] = '\n';
  assert_false(tb_calibration_parse(text, length + 1, &key, &back));
}

static void foreign(void **state) {
  (void)state;
  const struct tb_calibration c = sample();
  const struct tb_machine_key others[] = {
      {"A processor, 8 cores", key.blas, key.gpu, TB_S},      {"A processor, 16 core", key.blas, key.gpu, TB_S},
      {key.cpu, "/lib/libblas.so, 1 threads", key.gpu, TB_S}, {key.cpu, key.blas, "A GPU, PCI 2", TB_S},
      {key.cpu, key.blas, "A GPU, PCI 1\nopen_ns 1", TB_S},   {key.cpu, key.blas, key.gpu, TB_D}};
  char text[TB_CALIBRATION_TEXT_MAX];
  struct tb_calibration back;
  const size_t length = tb_calibration_print(text, sizeof text, &key, &c);
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    assert_false(tb_calibration_parse(text, length, &others[i], &back));
  const struct tb_machine_key any_gpu = {key.cpu, key.blas, NULL, TB_S};
  assert_true(tb_calibration_parse(text, length, &any_gpu, &back));
  expect_same(&back, &c);
}

/* A right checksum does not make sense of nonsense. */
static void nonsense(void **state) {
  (void)state;
  const struct tb_machine_key odd[] = {{key.cpu, key.blas, "A GPU, PCI 1\nx", TB_S}, {"", "", "", TB_S}};
  char text[TB_CALIBRATION_TEXT_MAX];
  struct tb_calibration c = sample(), back;
  for (size_t i = 0; i < 2; i++) {
    const size_t length = tb_calibration_print(text, sizeof text, &odd[i], &c);
    assert_false(tb_calibration_parse(text, length, &key, &back));
  }
  c.seconds[TB_CPU][3] = 1e7; /* four months */
  const size_t length = tb_calibration_print(text, sizeof text, &key, &c);
  assert_false(tb_calibration_parse(text, length, &key, &back));
}

/* What is no measurement is read as none. */
static void figures_that_are_none(void **state) {
  (void)state;
  const double odd[] = {-1, -1e30, 1e30, INFINITY, NAN};
  char text[TB_CALIBRATION_TEXT_MAX];
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    struct tb_calibration c = sample(), back;
    c.open_seconds = c.link_up_bytes_per_s = c.gpu_peak_flops_per_s = odd[i];
    const size_t length = tb_calibration_print(text, sizeof text, &key, &c);
    assert_true(tb_calibration_parse(text, length, &key, &back));
    assert_true(back.open_seconds == 0 && back.link_up_bytes_per_s == 0 && back.gpu_peak_flops_per_s == 0);
    assert_float_equal(back.link_down_bytes_per_s, c.link_down_bytes_per_s, 1);
  }
  struct tb_calibration c = sample(), back;
  c.open_seconds = 1.6e-9, c.cpu_threads = 3; /* rounded to the nearest nanosecond */
  assert_true(tb_calibration_parse(text, tb_calibration_print(text, sizeof text, &key, &c), &key, &back));
  assert_float_equal(back.open_seconds, 2e-9, 1e-15);
}

/* ---- files ---- */

static int open_at_first;

static int count_open(void) {
  int count = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d && readdir(d)) count++;
  if (d) closedir(d);
  return count;
}

static int make_folder(void **state) {
  (void)state;
  open_at_first = count_open();
  snprintf(folder, sizeof folder, "%s.d", tst_temporary_file());
  setenv("XDG_CACHE_HOME", folder, 1);
  tb_environment_read();
  return tb_calibration_folder(folder) ? 0 : -1;
}

static void remove_files(void) { (void)!system(tst_format("rm -rf '%s'", getenv("XDG_CACHE_HOME"))); }

static int tidy(void **state) {
  (void)state;
  remove_files();
  return 0;
}

static void kept(void **state) {
  (void)state;
  const struct tb_calibration c = sample();
  struct tb_calibration back;
  char path[TB_CALIBRATION_PATH_MAX];
  assert_false(tb_calibration_read(folder, &key, &back));
  assert_true(tb_calibration_write(folder, &key, &c, path));
  assert_true(tb_calibration_read(folder, &key, &back));
  expect_same(&back, &c);
  /* Cut on disk, it is none; the next writer replaces it. */
  for (off_t length = 0; length < 4000; length += 331) {
    assert_int_equal(truncate(path, length), 0);
    assert_false(tb_calibration_read(folder, &key, &back));
    assert_true(tb_calibration_write(folder, &key, &c, path));
    assert_true(tb_calibration_read(folder, &key, &back));
  }
  assert_int_equal(truncate(path, 10 * TB_CALIBRATION_TEXT_MAX), 0);
  assert_false(tb_calibration_read(folder, &key, &back));
  remove_files();
}

/* Nothing is believed for ever. */
static void too_old(void **state) {
  (void)state;
  const struct tb_calibration c = sample();
  struct tb_calibration back;
  char path[TB_CALIBRATION_PATH_MAX];
  assert_true(tb_calibration_write(folder, &key, &c, path));
  const long day = 24 * 3600, ages[] = {0, TB_CALIBRATION_DAYS * day - 60, TB_CALIBRATION_DAYS * day + 60, -day};
  for (int i = 0; i < 4; i++) {
    const struct timespec then = {time(NULL) - ages[i], 0}, both[2] = {then, then};
    assert_int_equal(utimensat(AT_FDCWD, path, both, 0), 0);
    assert_int_equal(tb_calibration_read(folder, &key, &back), i != 2);
  }
  remove_files();
}

/* Without a GPU's name, the one that was measured last. */
static void youngest(void **state) {
  (void)state;
  struct tb_calibration c = sample(), back;
  const struct tb_machine_key other = {key.cpu, key.blas, "A GPU, PCI 2", TB_S}, any = {key.cpu, key.blas, NULL, TB_S};
  const struct tb_machine_key stranger = {"Another processor", key.blas, NULL, TB_S};
  char path[TB_CALIBRATION_PATH_MAX];
  assert_true(tb_calibration_write(folder, &key, &c, path));
  c.open_seconds = 7;
  usleep(20000); /* a file system's clock ticks */
  assert_true(tb_calibration_write(folder, &other, &c, path));
  assert_true(tb_calibration_read(folder, &any, &back));
  assert_float_equal(back.open_seconds, 7, 1e-9);
  assert_true(tb_calibration_read(folder, &key, &back));
  assert_float_equal(back.open_seconds, 0.2, 1e-9);
  assert_false(tb_calibration_read(folder, &stranger, &back));
  remove_files();
}

/* Sides that differ in one word of the key are kept beside each other, and each has its own figures back. */
static void beside_each_other(void **state) {
  (void)state;
  const struct tb_machine_key keys[] = {key,
                                        {key.cpu, key.blas, "A GPU, PCI 2", TB_S},
                                        {key.cpu, "another BLAS", key.gpu, TB_S},
                                        {"another CPU", key.blas, key.gpu, TB_S},
                                        {key.cpu, key.blas, key.gpu, TB_Z}};
  enum { KEYS = sizeof keys / sizeof *keys };
  char path[TB_CALIBRATION_PATH_MAX];
  struct tb_calibration c = sample(), back;
  for (int i = 0; i < KEYS; i++) {
    c.open_seconds = i + 1;
    assert_true(tb_calibration_write(folder, &keys[i], &c, path));
  }
  for (int i = 0; i < KEYS; i++) {
    assert_true(tb_calibration_read(folder, &keys[i], &back));
    assert_float_equal(back.open_seconds, i + 1, 1e-9);
  }
  remove_files();
}

/* The youngest whichever was written first, in another second or in the same one. */
static void youngest_of_two(void **state) {
  (void)state;
  const struct tb_machine_key keys[] = {key, {key.cpu, key.blas, "A GPU, PCI 2", TB_S}},
                              any = {key.cpu, key.blas, NULL, TB_S};
  struct tb_calibration c = sample(), back;
  char path[2][TB_CALIBRATION_PATH_MAX];
  for (int i = 0; i < 2; i++) {
    c.open_seconds = i + 1;
    assert_true(tb_calibration_write(folder, &keys[i], &c, path[i]));
  }
  const time_t now = time(NULL) - 10;
  for (int young = 0; young < 2; young++)
    for (int same_second = 0; same_second < 2; same_second++) {
      const struct timespec old[2] = {{now, 100}, {now, 100}}, new[2] = {{now + !same_second, same_second ? 200 : 50},
                                                                         {now + !same_second, same_second ? 200 : 50}};
      assert_int_equal(utimensat(AT_FDCWD, path[young], new, 0), 0);
      assert_int_equal(utimensat(AT_FDCWD, path[!young], old, 0), 0);
      assert_true(tb_calibration_read(folder, &any, &back));
      assert_float_equal(back.open_seconds, young + 1, 1e-9);
    }
  remove_files();
}

static int writes_under_a_limit(void *argument) {
  (void)argument;
  const struct tb_calibration c = sample();
  const struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
  char path[TB_CALIBRATION_PATH_MAX];
  setrlimit(RLIMIT_FSIZE, &none);
  const int written = tb_calibration_write(folder, &key, &c, path);
  setrlimit(RLIMIT_FSIZE, &all); /* what counts lines writes its own when the process ends */
  return written;
}

/* No folder can be made, a file is in its place, it is not writable, the process may write no files: false, and that is
 * all. (The superuser writes anywhere.) */
static void nowhere(void **state) {
  (void)state;
  const struct tb_calibration c = sample();
  struct tb_calibration back;
  char path[TB_CALIBRATION_PATH_MAX], file[TB_CALIBRATION_PATH_MAX];
  const char *const nowheres[] = {"/nonexistent/cache/tileblas", "/dev/null/tileblas", "/proc/tileblas"};
  for (size_t i = 0; i < sizeof nowheres / sizeof nowheres[0]; i++) {
    assert_false(tb_calibration_write(nowheres[i], &key, &c, path));
    assert_false(tb_calibration_read(nowheres[i], &key, &back));
  }
  snprintf(file, sizeof file, "%s", tst_temporary_file());
  assert_false(tb_calibration_write(file, &key, &c, path));
  assert_true(tb_calibration_write(folder, &key, &c, path));
  if (geteuid() != 0) {
    unlink(path);
    chmod(folder, 0500);
    assert_false(tb_calibration_write(folder, &key, &c, path));
    chmod(folder, 0700);
  }
  remove_files();
  struct tst_output o;
  tst_fork(&o, writes_under_a_limit, NULL);
  assert_int_equal(o.status, 0);
  tst_output_destroy(&o);
  remove_files();
}

static int entries_of(const char *path) {
  int count = 0;
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) count += e->d_name[0] != '.';
  if (d) closedir(d);
  return count;
}

/* A folder has the file's name, so that it cannot be put in place: what was written for it does not stay about. */
static void nothing_is_left_about(void **state) {
  (void)state;
  const struct tb_calibration c = sample();
  char path[TB_CALIBRATION_PATH_MAX];
  assert_true(tb_calibration_write(folder, &key, &c, path));
  assert_int_equal(entries_of(folder), 1);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_false(tb_calibration_write(folder, &key, &c, path));
  assert_int_equal(entries_of(folder), 1);
  remove_files();
}

/* XDG's rules, and no home at all. */
static void folders(void **state) {
  (void)state;
  char found[TB_CALIBRATION_PATH_MAX];
  const char *cache = tst_format("%s", getenv("XDG_CACHE_HOME")), *home = getenv("HOME");
  home = home ? tst_format("%s", home) : NULL;
  setenv("HOME", "/home/somebody", 1);
  setenv("XDG_CACHE_HOME", "relative", 1);
  tb_environment_read();
  assert_true(tb_calibration_folder(found));
  assert_string_equal(found, "/home/somebody/.cache/tileblas");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  tb_environment_read();
  assert_false(tb_calibration_folder(found));
  char *deep = malloc(2 * TB_CALIBRATION_PATH_MAX);
  assert_non_null(deep);
  memset(deep, '/', 2 * TB_CALIBRATION_PATH_MAX);
  deep[2 * TB_CALIBRATION_PATH_MAX - 1] = '\0';
  setenv("XDG_CACHE_HOME", deep, 1);
  tb_environment_read();
  assert_false(tb_calibration_folder(found));
  free(deep);
  setenv("XDG_CACHE_HOME", cache, 1);
  if (home) setenv("HOME", home, 1);
  tb_environment_read();
}

/* Four processes write in turns as fast as they can, and a reader finds a whole file every time. */
static void at_the_same_time(void **state) {
  (void)state;
  const struct tb_calibration c = sample();
  struct tb_calibration back;
  char path[TB_CALIBRATION_PATH_MAX];
  pid_t writers[4];
  assert_true(tb_calibration_write(folder, &key, &c, path));
  for (int i = 0; i < 4; i++) {
    writers[i] = fork();
    assert_true(writers[i] >= 0);
    if (writers[i] > 0) continue;
    int written = 0;
    for (int n = 0; n < 100; n++) written += tb_calibration_write(folder, &key, &c, path);
    _exit(written == 100 ? 0 : 1);
  }
  for (int n = 0; n < 300; n++) assert_true(tb_calibration_read(folder, &key, &back));
  for (int i = 0; i < 4; i++) {
    int status;
    assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
    assert_int_equal(status, 0);
  }
  remove_files();
}

/* Behind all the others, whatever went wrong in them. */
static void no_file_stays_open(void **state) {
  (void)state;
  assert_int_equal(count_open(), open_at_first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(there_and_back),
      cmocka_unit_test(cut_and_changed),
      cmocka_unit_test(foreign),
      cmocka_unit_test(nonsense),
      cmocka_unit_test(figures_that_are_none),
      cmocka_unit_test(kept),
      cmocka_unit_test(youngest),
      cmocka_unit_test(youngest_of_two),
      cmocka_unit_test(beside_each_other),
      cmocka_unit_test(nowhere),
      cmocka_unit_test(nothing_is_left_about),
      cmocka_unit_test(folders),
      cmocka_unit_test(at_the_same_time),
      cmocka_unit_test(too_old),
      cmocka_unit_test(no_file_stays_open),
  };
  return cmocka_run_group_tests(tests, make_folder, tidy);
}
