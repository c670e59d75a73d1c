/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/status.h"

const char *tb_status_text(enum tb_status status) {
  static const char *const text[] = {
#define TB_STATUS(id, words) words,
#include "base/status.def"
#undef TB_STATUS
  };
  return (unsigned)status < TB_STATUS_COUNT ? text[status] : "unknown";
}
