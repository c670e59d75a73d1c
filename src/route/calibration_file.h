/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measurements kept from one process to the next: one small text file for each element type, CPU side and GPU, in
 * $XDG_CACHE_HOME/tileblas or ~/.cache/tileblas.
 *
 *   tileblas calibration 2                  the format; another number is another format
 *   type s                                  of the elements
 *   cpu ...    blas ...    gpu ...          what the measurements hold for, in words
 *   open_ns 231200000                       and so on for the single figures, all of them whole numbers
 *   cpu 9 9 9 314                           side, m, n, k, nanoseconds
 *   checksum 0123456789abcdef               FNV-1a of every byte above
 *
 * A file that is not exactly like this, whoever wrote it, counts as none; so does one of another machine, and one that
 * is older than TB_CALIBRATION_DAYS: the machine may have been busy when it was measured, and is another one since the
 * last update. Writing
 * replaces the whole file at once, so a reader sees the old one or the new one. There are at most 32, and the folder is
 * the user's own (cache_folder.h). No failure is an error: without a file, or a place for it, each process measures for
 * itself. Thread-safe.
 */
#ifndef TB_CALIBRATION_FILE_H
#define TB_CALIBRATION_FILE_H

#include <stddef.h>

#include "route/model.h"

/* What measurements hold for. Each is one line, compared to the letter. */
struct tb_machine_key {
  const char *cpu, *blas;
  const char *gpu; /* NULL, for reading alone: whichever was measured last */
  enum tb_type type;
};

#define TB_CALIBRATION_DAYS 14
#define TB_CALIBRATION_TEXT_MAX 16384
#define TB_CALIBRATION_PATH_MAX 1024

/* The folder for this user, which need not exist; false: there is none. A program that runs with more rights than its
 * caller has none. */
bool tb_calibration_folder(char folder[TB_CALIBRATION_PATH_MAX]);

/* Reads the measurements for this machine from the folder. */
bool tb_calibration_read(const char *folder, const struct tb_machine_key *key, struct tb_calibration *calibration);

/* Writes them there, making the folder if only its last two names are missing. `path` tells where they are. */
bool tb_calibration_write(const char *folder, const struct tb_machine_key *key,
                          const struct tb_calibration *calibration, char path[TB_CALIBRATION_PATH_MAX]);

/* ---- the text itself ---- */

/* Returns its length, without the terminating zero; 0: it does not fit. */
size_t tb_calibration_print(char *text, size_t size, const struct tb_machine_key *key,
                            const struct tb_calibration *calibration);
bool tb_calibration_parse(const char *text, size_t length, const struct tb_machine_key *key,
                          struct tb_calibration *calibration);

#endif
