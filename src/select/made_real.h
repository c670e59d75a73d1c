/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of alpha where a complex product of floats is computed as a real one (kernels/complex/complex_args.h).
 * Pure; thread-safe. */
#ifndef TB_MADE_REAL_H
#define TB_MADE_REAL_H

#include "blas/call.h"

/* What multiplies a sum when it is complete. Of other types alpha. */
union tb_scalar tb_real_alpha(const struct tb_call *call);

/* What multiplies A when it is made real, if alpha is not real. */
void tb_expand_alpha(const struct tb_call *call, double alpha[2]);

#endif
