/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The variables of the environment that the library goes by, beside its options: read once, when it is loaded. A
 * program may change its environment at any time, and while one of its threads does, nobody may read it. Written once,
 * before other threads of ours read it.
 */
#ifndef TB_ENVIRONMENT_H
#define TB_ENVIRONMENT_H

/* A longer value counts as none. */
#define TB_ENVIRONMENT_TEXT_MAX 1024

/* Reads them all. To be called by tb_run_initialise, and by tests that have changed some. */
void tb_environment_read(void);

/* As getenv would have it when the library was loaded; NULL: it is not set, not one of ours, or belongs to somebody
 * with fewer rights than the process has. */
char *tb_environment(const char *name);

#endif
