/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of reasons, as codes and as text; and the two sides that a call may go to. Pure. */
#ifndef TB_STATUS_H
#define TB_STATUS_H

enum tb_where { TB_CPU, TB_GPU, TB_WHERE_COUNT };

enum tb_status {
#define TB_STATUS(id, text) TB_STATUS_##id,
#include "base/status.def"
#undef TB_STATUS
  TB_STATUS_COUNT
};

/* The reason as a reader wants it. Never NULL. */
const char *tb_status_text(enum tb_status status);

#endif
