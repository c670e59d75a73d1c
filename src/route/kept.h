/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading and writing of kept figures (calibration_file.h) for calls that must not be held up: a home may lie on a slow
 * or dead network file system. A thread of ours does it; after TB_KEPT_SECONDS the call goes on without, and nothing is
 * read or written in this process any more. Thread-safe.
 */
#ifndef TB_KEPT_H
#define TB_KEPT_H

#include "route/calibration_file.h"

#define TB_KEPT_SECONDS 0.05

bool tb_kept_read(const char *folder, const struct tb_machine_key *key, struct tb_calibration *calibration);
bool tb_kept_write(const char *folder, const struct tb_machine_key *key, const struct tb_calibration *calibration,
                   char path[TB_CALIBRATION_PATH_MAX]);

#endif
