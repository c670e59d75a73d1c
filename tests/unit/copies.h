/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one GPU has of a program's matrices, by a copy of the test's own, of what the cache (src/cache/) says is to go
 * up; and somebody who writes as pages are protected. For one test in a process.
 */
#ifndef TST_COPIES_H
#define TST_COPIES_H

#include "cache/cache.h"

#define PAGE ((size_t)4096)
#define MEMORY ((size_t)72 << 20)
#define NO_LIMIT (INT64_MAX / 2)

/* Of the program's matrices; and the same places, as the GPU has them. */
extern char *memory, *copy;
extern struct tb_cache *cache;

/* Bytes that are written once, as pages are about to be protected, and as they are. The kernel protects none; and how
 * often it was asked to, for how many pages in all. */
extern char *written_before, *written_behind;
extern bool protects_nothing;
extern int protections;
extern uint64_t pages_protected;

/* To mend the latest copy, or to have it grow. */
extern int64_t cells_brought_up;

/* New memory, of which so many bytes are random numbers, and an empty cache, where a digest in each call does not pay.
 */
void begin(size_t bytes);
void end(void);
void fill(size_t bytes);

struct tb_stored matrix(size_t at, int64_t column_bytes, int64_t columns, int64_t pitch_bytes);

/* A call that mends begins; and inside, it looks for an operand, and brings up what it is to. A question that there is,
 * is the caller's to ask. */
void enter(int user);
struct tb_cached look(int user, struct tb_stored operand, struct tb_question *later);

/* A call of one operand; and of it again and again, until the kernel watches it. */
struct tb_cached call(struct tb_stored operand);
enum tb_proof see(struct tb_stored operand);
struct tb_kept *keep(struct tb_stored operand);

/* That the GPU has what the program has. */
void expect_copy(struct tb_stored s);

/* Around all tests, of which so many failed, as is returned: a GPU. Skips where the kernel does not tell which pages
 * were written. */
bool begin_group(void);
int end_group(int failed);

#endif
