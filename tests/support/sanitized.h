/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether AddressSanitizer looks on. It watches what the code touches, and the release build sees to what comes out:
 * under it a test makes each kind of call that it makes, but not as often, and none for the sake of another number.
 */
#ifndef TST_SANITIZED_H
#define TST_SANITIZED_H

#ifdef __SANITIZE_ADDRESS__
#define TST_SANITIZED 1
#else
#define TST_SANITIZED 0
#endif

/* How often, or in which steps. */
#define TST_UNLESS_SANITIZED(usually, sanitized) (TST_SANITIZED ? (sanitized) : (usually))

#endif
