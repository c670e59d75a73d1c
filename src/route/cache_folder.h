/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder in which figures are kept: it is the effective user's own, or it is left alone. A root that runs with
 * somebody's HOME makes nothing there; a folder that is a symbolic link, another's, or writable to others is not used.
 * Thread-safe.
 */
#ifndef TB_CACHE_FOLDER_H
#define TB_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* More are not kept; the oldest go. Each holds for a CPU BLAS, its threads and a GPU. */
#define TB_CACHE_FILES_MOST 32

/* Its descriptor; make: it and the folder around it are made if they are missing. -1: not to be used. */
int tb_cache_folder_open(const char *folder, bool make);

/* Opens a file in it for reading if it is one of the effective user's, not a symbolic link; -1 otherwise. */
int tb_cache_file_open(int folder, const char *name);

/* Replaces the whole file at once, and removes the oldest of those whose names begin with the prefix. */
bool tb_cache_file_write(int folder, const char *prefix, const char *name, const char *text, size_t length);

/* The youngest file there whose name begins and ends so, in a buffer of `size`. */
bool tb_cache_file_youngest(int folder, const char *prefix, const char *suffix, char *name, size_t size);

#endif
