/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who calls an exported function in a thread that is inside the CPU BLAS, as far as we know: that BLAS itself, which
 * calls its own exported symbols and meets ours; or the program, whose signal handler has left the CPU BLAS by
 * siglongjmp. Thread-safe and lock-free; asks the loader for nothing that makes one wait.
 */
#ifndef TB_CALLER_H
#define TB_CALLER_H

#include <stdbool.h>

/* `caller`: an address in its code. */
bool tb_caller_is_cpu_blas(const void *caller);

#endif
