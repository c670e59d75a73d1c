/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of options.def: parsed from the environment once, when the library is loaded, and changed by
 * tileblas_option_set. Reading a number is one relaxed atomic load, fit for the path of the smallest call.
 */
#ifndef TB_OPTIONS_H
#define TB_OPTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tb_option {
#define TB_OPTION(id, ...) TB_OPTION_##id,
#include "base/options.def"
#undef TB_OPTION
  TB_OPTION_COUNT
};

/* Values of the CHOICE options, in the order of their words. */
enum tb_route_mode { TB_ROUTE_AUTO, TB_ROUTE_GPU, TB_ROUTE_CPU };
enum tb_calibration_mode { TB_CALIBRATION_KEEP, TB_CALIBRATION_AGAIN, TB_CALIBRATION_OFF };
enum tb_open_mode { TB_OPEN_AUTO, TB_OPEN_ALWAYS, TB_OPEN_FOLLOW };
enum tb_share_mode { TB_SHARE_AUTO, TB_SHARE_ALWAYS, TB_SHARE_NEVER };
enum tb_bind_mode { TB_BIND_AUTO, TB_BIND_ALWAYS, TB_BIND_NEVER };
/* What words stand for in TILEBLAS_CACHE. */
enum { TB_CACHE_AUTO = -1, TB_CACHE_OFF };
enum tb_precision { TB_PRECISION_IEEE, TB_PRECISION_FP32, TB_PRECISION_FAST };

#define TB_OPTION_TEXT_MAX 1024

/* Numbers of CHOICE (index of the word), FLAG, INTEGER and BYTES options. */
extern atomic_llong tb_option_numbers[TB_OPTION_COUNT];

static inline int64_t tb_option_number(enum tb_option option) {
  return atomic_load_explicit(&tb_option_numbers[option], memory_order_relaxed);
}

/* Copies the text of a TEXT option, at most TB_OPTION_TEXT_MAX bytes with its zero. */
void tb_option_text(enum tb_option option, char text[TB_OPTION_TEXT_MAX]);

/* Reads the environment: an invalid value leaves the default. */
void tb_options_load(void);

/* Warns of what was wrong then: invalid values, and unknown TILEBLAS_* variables but for those that environment modules
 * set (TILEBLAS_ROOT and the like). Once, at the first call. */
void tb_options_complain(void);

/* The child of a fork starts with an unlocked table. */
void tb_options_after_fork(void);

/* tileblas_option_set and _get. */
int tb_option_set(const char *name, const char *value);
int tb_option_get(const char *name, char *buffer, size_t size);

#endif
