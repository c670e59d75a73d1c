/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "route/calibration_file.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "route/cache_folder.h"
#include "process/environment.h"

#define HEAD "tileblas calibration 2\n"
#define CHECKSUM "checksum "
#define CHECKSUM_DIGITS 16
/* No product of the grid and no opening takes longer; a file that says so is wrong. */
#define SECONDS_MOST 1e4
#define FIGURE_MOST 1e18

#define SECONDS_A_DAY 86400

static const char *const side_names[TB_WHERE_COUNT] = {[TB_CPU] = "cpu", [TB_GPU] = "gpu"};

static uint64_t fnv1a(const char *text, size_t length) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return hash;
}

/* "cpu 9 9 9" */
#define NODE_NAME_MAX 64
static void node_name(char name[NODE_NAME_MAX], int where, int node) {
  const struct tb_node_sizes s = tb_node_sizes(node);
  snprintf(name, NODE_NAME_MAX, "%s %d %d %d", side_names[where], (int)s.m, (int)s.n, (int)s.k);
}

/* ---- writing the text ---- */

struct writer {
  char *text;
  size_t size, length;
  bool full;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = w->full ? -1 : vsnprintf(w->text + w->length, w->size - w->length, format, arguments);
  va_end(arguments);
  if (n < 0 || (size_t)n >= w->size - w->length)
    w->full = true;
  else
    w->length += (size_t)n;
}

/* Whole numbers, which no locale spells differently. */
static void put_figure(struct writer *w, const char *name, double x) {
  put(w, "%s %lld\n", name, x > 0 && x < FIGURE_MOST ? (long long)(x + 0.5) : 0);
}

size_t tb_calibration_print(char *text, size_t size, const struct tb_machine_key *key, const struct tb_calibration *c) {
  struct writer w = {.text = text, .size = size};
  put(&w, HEAD "type %c\ncpu %s\nblas %s\ngpu %s\n", tb_type_letter(key->type), key->cpu, key->blas, key->gpu);
  put_figure(&w, "open_ns", 1e9 * c->open_seconds);
  put_figure(&w, "link_up_bytes_per_s", c->link_up_bytes_per_s);
  put_figure(&w, "link_down_bytes_per_s", c->link_down_bytes_per_s);
  put_figure(&w, "gpu_peak_flops_per_s", c->gpu_peak_flops_per_s);
  put_figure(&w, "cpu_threads", c->cpu_threads);
  for (int where = 0; where < TB_WHERE_COUNT; where++)
    for (int node = 0; node < TB_NODES; node++) {
      if (!(c->seconds[where][node] > 0)) continue;
      char name[NODE_NAME_MAX];
      node_name(name, where, node);
      put_figure(&w, name, 1e9 * c->seconds[where][node]);
    }
  const uint64_t checksum = fnv1a(w.text, w.length);
  put(&w, CHECKSUM "%0*llx\n", CHECKSUM_DIGITS, (unsigned long long)checksum);
  return w.full ? 0 : w.length;
}

/* ---- reading it ---- */

/* Takes `word` from the front of the rest of the text. */
static bool take_word(const char **rest, const char *word) {
  const size_t length = strlen(word);
  if (strncmp(*rest, word, length) != 0) return false;
  *rest += length;
  return true;
}

static bool take_line(const char **rest, const char *name, const char *value) {
  if (!take_word(rest, name)) return false;
  if (value != NULL) return take_word(rest, value) && take_word(rest, "\n");
  *rest += strcspn(*rest, "\n"); /* any */
  return take_word(rest, "\n");
}

/* A whole number from 0 to FIGURE_MOST, in the unit given. */
static bool take_figure(const char **rest, const char *name, double unit, double *x) {
  char *end;
  if (!take_word(rest, name) || !take_word(rest, " ") || **rest < '0' || **rest > '9') return false;
  const double value = (double)strtoll(*rest, &end, 10);
  *rest = end;
  *x = value * unit;
  return value <= FIGURE_MOST && take_word(rest, "\n");
}

static bool take_node(const char **rest, struct tb_calibration *c, int where, int node) {
  char name[NODE_NAME_MAX], next;
  node_name(name, where, node);
  const size_t length = strlen(name);
  next = strncmp(*rest, name, length) == 0 ? (*rest)[length] : '\0';
  if (next != ' ') return true; /* it was not measured */
  double *seconds = &c->seconds[where][node];
  return take_figure(rest, name, 1e-9, seconds) && *seconds > 0 && *seconds < SECONDS_MOST;
}

static bool take_nodes(const char **rest, struct tb_calibration *c) {
  for (int where = 0; where < TB_WHERE_COUNT; where++)
    for (int node = 0; node < TB_NODES; node++)
      if (!take_node(rest, c, where, node)) return false;
  return true;
}

static bool take_all(const char *rest, const struct tb_machine_key *key, struct tb_calibration *c) {
  double threads;
  const char type[] = {tb_type_letter(key->type), '\0'};
  bool right = take_word(&rest, HEAD) && take_line(&rest, "type ", type) && take_line(&rest, "cpu ", key->cpu) &&
               take_line(&rest, "blas ", key->blas) && take_line(&rest, "gpu ", key->gpu) &&
               take_figure(&rest, "open_ns", 1e-9, &c->open_seconds) &&
               take_figure(&rest, "link_up_bytes_per_s", 1, &c->link_up_bytes_per_s) &&
               take_figure(&rest, "link_down_bytes_per_s", 1, &c->link_down_bytes_per_s) &&
               take_figure(&rest, "gpu_peak_flops_per_s", 1, &c->gpu_peak_flops_per_s) &&
               take_figure(&rest, "cpu_threads", 1, &threads) && threads < INT_MAX && take_nodes(&rest, c) &&
               *rest == '\0';
  if (right) c->cpu_threads = (int)threads;
  return right;
}

bool tb_calibration_parse(const char *text, size_t length, const struct tb_machine_key *key, struct tb_calibration *c) {
  const size_t tail = strlen(CHECKSUM) + CHECKSUM_DIGITS + 1;
  char expected[64];
  *c = (struct tb_calibration){0};
  if (length < tail || length > TB_CALIBRATION_TEXT_MAX) return false;
  const size_t body_length = length - tail;
  snprintf(expected, sizeof expected, CHECKSUM "%0*llx\n", CHECKSUM_DIGITS,
           (unsigned long long)fnv1a(text, body_length));
  if (memcmp(text + body_length, expected, tail) != 0) return false;
  char *const body = strndup(text, body_length);
  const bool right = body != NULL && take_all(body, key, c);
  free(body);
  if (!right) *c = (struct tb_calibration){0};
  return right;
}

/* ---- files ---- */

bool tb_calibration_folder(char folder[TB_CALIBRATION_PATH_MAX]) {
  const char *cache = tb_environment("XDG_CACHE_HOME"), *home = tb_environment("HOME");
  int n = -1;
  if (cache != NULL && cache[0] == '/')
    n = snprintf(folder, TB_CALIBRATION_PATH_MAX, "%s/tileblas", cache);
  else if (home != NULL && home[0] == '/')
    n = snprintf(folder, TB_CALIBRATION_PATH_MAX, "%s/.cache/tileblas", home);
  return n > 0 && n < TB_CALIBRATION_PATH_MAX;
}

#define NAME_MAX_LENGTH 64

#define FILE_PREFIX "calibration-"

/* "calibration-<type>-<CPU side>-", and with a GPU "<GPU>.txt" behind it. */
static void file_name(char name[NAME_MAX_LENGTH], const struct tb_machine_key *key) {
  const uint64_t cpu = fnv1a(key->cpu, strlen(key->cpu)) * 31 + fnv1a(key->blas, strlen(key->blas));
  int n =
      snprintf(name, NAME_MAX_LENGTH, FILE_PREFIX "%c-%016llx-", tb_type_letter(key->type), (unsigned long long)cpu);
  if (key->gpu != NULL)
    snprintf(name + n, NAME_MAX_LENGTH - (size_t)n, "%016llx.txt",
             (unsigned long long)fnv1a(key->gpu, strlen(key->gpu)));
}

static bool read_file(int folder, const char *name, const struct tb_machine_key *key,
                      struct tb_calibration *calibration) {
  int fd = tb_cache_file_open(folder, name);
  if (fd < 0) return false;
  struct stat s;
  const bool old = fstat(fd, &s) != 0 || time(NULL) - s.st_mtim.tv_sec > TB_CALIBRATION_DAYS * SECONDS_A_DAY;
  char *const text = malloc(TB_CALIBRATION_TEXT_MAX); /* a thread's stack may be as small */
  size_t length = 0;
  ssize_t n = -1;
  while (text != NULL && (n = read(fd, text + length, TB_CALIBRATION_TEXT_MAX - length)) > 0) length += (size_t)n;
  close(fd);
  const bool right = n == 0 && !old && tb_calibration_parse(text, length, key, calibration);
  free(text);
  return right;
}

/* Without a GPU the youngest file of this CPU side, whatever its GPU. */
bool tb_calibration_read(const char *folder, const struct tb_machine_key *key, struct tb_calibration *calibration) {
  char name[NAME_MAX_LENGTH], found[NAME_MAX_LENGTH];
  file_name(name, key);
  int opened = tb_cache_folder_open(folder, false);
  if (opened < 0) return false;
  const char *wanted = key->gpu != NULL                                                    ? name
                       : tb_cache_file_youngest(opened, name, ".txt", found, sizeof found) ? found
                                                                                           : NULL;
  const bool right = wanted != NULL && read_file(opened, wanted, key, calibration);
  close(opened);
  return right;
}

/* A process with a limit on its files is ended by a signal when it writes beyond. */
static bool may_write(size_t length) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= length);
}

static bool write_text(const char *folder, const char *name, const char *text, size_t length) {
  if (length == 0 || !may_write(length)) return false;
  int opened = tb_cache_folder_open(folder, true);
  if (opened < 0) return false;
  const bool written = tb_cache_file_write(opened, FILE_PREFIX, name, text, length);
  close(opened);
  return written;
}

bool tb_calibration_write(const char *folder, const struct tb_machine_key *key,
                          const struct tb_calibration *calibration, char path[TB_CALIBRATION_PATH_MAX]) {
  char name[NAME_MAX_LENGTH];
  file_name(name, key);
  if (snprintf(path, TB_CALIBRATION_PATH_MAX, "%s/%s", folder, name) >= TB_CALIBRATION_PATH_MAX) return false;
  char *const text = malloc(TB_CALIBRATION_TEXT_MAX);
  const bool written =
      text != NULL &&
      write_text(folder, name, text, tb_calibration_print(text, TB_CALIBRATION_TEXT_MAX, key, calibration));
  free(text);
  return written;
}
