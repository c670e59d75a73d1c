/* SPDX-License-Identifier: BSD-3-Clause */
/* What a small call passes is part of each exported function. There are hundreds, and a compiler that is left to itself
 * stops making copies for so many callers: 60 instructions more a call. */
#ifndef TB_INLINE_H
#define TB_INLINE_H

#define TB_ALWAYS_INLINE static inline __attribute__((always_inline))

#endif
