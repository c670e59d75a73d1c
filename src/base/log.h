/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one way in which TileBLAS prints: whole lines on stderr, prefixed "tileblas: ". Thread-safe; a line is one
 * write(), and ends no process whatever becomes of it. Nothing here allocates, and a message that would arise while
 * another is being printed by the same thread is dropped.
 */
#ifndef TB_LOG_H
#define TB_LOG_H

/* Room for the longest text that a line holds with some words around it. */
#define TB_LOG_TEXT_MAX 900

/* A line for somebody who asked (TILEBLAS_VERBOSE, TILEBLAS_REPORT). */
void tb_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same line to another file descriptor. */
void tb_say_to(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "warning: ..." for what a user must know though nobody asked. After TB_WARNINGS_MAX lines a process says no more. */
#define TB_WARNINGS_MAX 16
void tb_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
