/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether what runs at a library's end runs because the process ends, or because the library is unloaded. */
#ifndef TB_ENDING_H
#define TB_ENDING_H

#include <stdbool.h>

/* From here on tb_process_is_ending knows; before, a process counts as ending. Once, of any one
 * thread. */
void tb_process_watch(void);

/* For handlers that were registered before the watch. */
bool tb_process_is_ending(void);

#endif
