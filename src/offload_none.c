/* SPDX-License-Identifier: BSD-3-Clause */
/* The offload of a build without GPU kernels: it never takes a call. */
#include <stdio.h>

#include "offload.h"

enum tb_status tb_offload_status(void) { return TB_STATUS_no_kernels; }

bool tb_offload_is_open(void) { return false; }

bool tb_offload_gemm(const struct tb_gemm *call, bool timed, struct tb_outcome *outcome) {
  (void)call;
  (void)timed;
  *outcome = (struct tb_outcome){.why = TB_STATUS_no_kernels};
  return false;
}

void tb_offload_describe(char *text, size_t size) { snprintf(text, size, "%s", tb_status_text(TB_STATUS_no_kernels)); }

void tb_offload_after_fork(void) {}
