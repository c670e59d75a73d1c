/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of reasons, as codes and as text. Pure. */
#ifndef TB_STATUS_H
#define TB_STATUS_H

enum tb_status {
#define TB_STATUS(id, text) TB_STATUS_##id,
#include "status.def"
#undef TB_STATUS
  TB_STATUS_COUNT
};

/* The reason as a reader wants it. Never NULL. */
const char *tb_status_text(enum tb_status status);

#endif
