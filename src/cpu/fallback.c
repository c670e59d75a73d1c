/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "cpu/fallback_internal.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/guest.h"
#include "process/libraries.h"
#include "base/log.h"
#include "base/options.h"

static struct tb_target storage[TB_SYMBOL_COUNT];
static _Atomic(const struct tb_target *) targets[TB_SYMBOL_COUNT];
static pthread_mutex_t fallback_lock = PTHREAD_MUTEX_INITIALIZER; /* guards storage and fallback_text; see resolve */
static char fallback_text[256];

_Atomic(void *) tb_fallback_direct[TB_SYMBOL_COUNT];
_Atomic(void *) tb_fallback_direct_wide[TB_SYMBOL_COUNT];

/* Of a plain name: enum width. */
enum width { NOT_KNOWN, NARROW, WIDE };
static atomic_int callers_width[TB_SYMBOL_COUNT];

/* ---- finding ---- */

/* Adopts `name` from a library, or from the search order when the library is RTLD_NEXT. */
static bool adopt(struct tb_target *target, void *library, enum tb_symbol symbol, const char *how) {
  void *function = dlsym(library, tb_symbols[symbol].name);
  *target = (struct tb_target){.as = symbol, .how = how};
  return function != NULL && tb_behind_look(function, &target->behind);
}

/* Without the loader, unless the definition has come since we were loaded. */
static bool adopt_next(struct tb_target *target, enum tb_symbol symbol) {
  *target = (struct tb_target){.behind = *tb_behind_next(symbol), .as = symbol, .how = ""};
  return target->behind.function != NULL || adopt(target, RTLD_NEXT, symbol, "");
}

/* From a symbol to another that computes the same; FAR: it does not. */
enum { NEAR = 4, FAR = 3 * NEAR };
static int distance_of(enum tb_symbol wanted, enum tb_symbol other) {
  const struct tb_symbol_info *w = &tb_symbols[wanted], *i = &tb_symbols[other];
  int away = (i->abi != w->abi ? 2 : 0) + (i->wide != w->wide ? 1 : 0);
  for (enum tb_routine r = w->routine, last = TB_ROUTINE_COUNT; r != last;
       last = r, r = tb_routines[r].stand_in, away += NEAR)
    if (i->routine == r) return away;
  return FAR;
}

/* Any symbol of the routine, the wanted ABI first, then those whose arguments are nearest to it; or else of the routine
 * that may stand in, in the same order. */
static bool adopt_any(struct tb_target *target, void *library, enum tb_symbol wanted, const char *how) {
  for (int distance = 0; distance < FAR; distance++) {
    for (int s = 0; s < TB_SYMBOL_COUNT; s++) {
      const enum tb_symbol other = (enum tb_symbol)s;
      if (distance_of(wanted, other) == distance && adopt(target, library, other, how)) return true;
    }
  }
  return false;
}

struct library_list {
  char **paths;
  size_t count;
};

static int collect_library(struct dl_phdr_info *info, size_t size, void *opaque) {
  (void)size;
  struct library_list *list = opaque;
  if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0') return 0;
  char **grown = realloc(list->paths, (list->count + 1) * sizeof *grown);
  if (grown == NULL) return 1;
  list->paths = grown;
  list->paths[list->count] = strdup(info->dlpi_name);
  if (list->paths[list->count] != NULL) list->count++;
  return 0;
}

/* The loaded libraries, in the order in which they were loaded, until one will do. dlopen must not be called from
 * within dl_iterate_phdr, which holds the loader's lock; so the names are copied first. */
static bool adopt_loaded(struct tb_target *target, enum tb_symbol symbol,
                         bool (*adopt_from)(struct tb_target *, void *, enum tb_symbol, const char *)) {
  struct library_list list = {0};
  tb_libraries_visit(collect_library, &list);
  bool found = false;
  for (size_t i = 0; i < list.count; i++) {
    void *library = found ? NULL : dlopen(list.paths[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
      found = adopt_from(target, library, symbol, ", loaded by the program");
      dlclose(library);
    }
    free(list.paths[i]);
  }
  free(list.paths);
  return found;
}

static bool adopt_opened(struct tb_target *target, enum tb_symbol symbol, const char *path, const char *how) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return false;
  bool found = adopt_any(target, library, symbol, how);
  dlclose(library); /* adopt keeps a reference of its own */
  return found;
}

/* What TILEBLAS_FALLBACK named at load, and what was found there. */
static char path_at_load[TB_OPTION_TEXT_MAX];
static struct tb_target named_at_load[TB_SYMBOL_COUNT];

static const char by_name[] = ", TILEBLAS_FALLBACK";

static bool has_blas_at_load(void) {
  for (int s = 0; s < TB_SYMBOL_COUNT; s++)
    if (tb_behind_next((enum tb_symbol)s)->function != NULL) return true;
  return false;
}

/* A program without a BLAS may never call one, as most that a preload reaches: none is opened for it. */
void tb_fallback_at_load(void) {
  tb_behind_at_load();
  tb_option_text(TB_OPTION_fallback, path_at_load);
  if (path_at_load[0] == '\0' || !has_blas_at_load()) return;
  void *library = dlopen(path_at_load, RTLD_NOW | RTLD_LOCAL);
  for (int s = 0; library != NULL && s < TB_SYMBOL_COUNT; s++)
    if (!adopt_any(&named_at_load[s], library, (enum tb_symbol)s, by_name)) named_at_load[s] = (struct tb_target){0};
  if (library != NULL) dlclose(library); /* what was found is kept */
  (void)dlerror();
}

static bool adopt_named(struct tb_target *target, enum tb_symbol symbol) {
  char path[TB_OPTION_TEXT_MAX];
  tb_option_text(TB_OPTION_fallback, path);
  if (path[0] == '\0') return false;
  if (named_at_load[symbol].behind.function != NULL && strcmp(path, path_at_load) == 0) {
    *target = named_at_load[symbol];
    return true;
  }
  if (adopt_opened(target, symbol, path, by_name)) return true;
  static atomic_flag told = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&told))
    tb_warn("TILEBLAS_FALLBACK=%.400s cannot be loaded or has no %s", path, tb_routine_of(symbol)->name);
  return false;
}

static bool adopt_openblas(struct tb_target *target, enum tb_symbol symbol) {
  static const char *const wide[] = {"libopenblas64_.so.0", "libopenblas64.so.0", "libopenblas.so.0", "libblas.so.3"};
  const char *const *files = wide;
  size_t count = sizeof wide / sizeof *wide;
  if (!tb_symbols[symbol].wide) {
    files += 2;
    count -= 2;
  }
  for (size_t i = 0; i < count; i++)
    if (adopt_opened(target, symbol, files[i], ", opened by TileBLAS")) return true;
  return false;
}

/* That of a routine that may stand in, where there is no other. */
static bool adopt_next_of_any(struct tb_target *target, enum tb_symbol symbol) {
  for (enum tb_symbol s = symbol, last = TB_SYMBOL_COUNT; s != last; last = s, s = tb_stand_in(s))
    if (adopt_next(target, s)) return true;
  return false;
}

static struct tb_target search(enum tb_symbol symbol) {
  struct tb_target target;
  if (adopt_named(&target, symbol)) return target;
  for (enum tb_symbol s = symbol, last = TB_SYMBOL_COUNT; s != last; last = s, s = tb_stand_in(s))
    if (adopt_next(&target, s) || adopt_loaded(&target, s, adopt)) return target;
  if (adopt_openblas(&target, symbol) || adopt_loaded(&target, symbol, adopt_any)) return target;
  return (struct tb_target){.as = symbol, .how = ""};
}

static void describe_target(const struct tb_target *target, char *text, size_t size) {
  if (target->behind.function == NULL)
    snprintf(text, size, "no CPU BLAS found: plain loops, slow");
  else
    snprintf(text, size, "%.180s (%s%s)", target->behind.file, tb_symbols[target->as].name, target->how);
}

/* ---- 64-bit integers under plain names ---- */

static bool is_wide(const struct tb_target *target) {
  return tb_symbols[target->as].wide || tb_behind_is_wide(&target->behind);
}

/* The program was made for the BLAS that it would have had, in its search order: not for one that TILEBLAS_FALLBACK
 * names, nor for one that is loaded for somebody else, as by us for the 64-bit names. Where that BLAS lacks the symbol,
 * the one that may stand in tells. */
static enum width width_of_callers(enum tb_symbol symbol) {
  struct tb_guest guest;
  struct tb_target target;
  const bool entered = tb_thread.guest == NULL; /* the first call may be on its way to the CPU BLAS already */
  if (entered) tb_guest_enter(&guest);
  const bool wide = adopt_next_of_any(&target, symbol) && is_wide(&target);
  if (entered) tb_guest_leave(&guest);
  return wide ? WIDE : NARROW;
}

bool tb_fallback_callers_are_wide(enum tb_symbol symbol) {
  int width = atomic_load_explicit(&callers_width[symbol], memory_order_relaxed);
  if (tb_symbols[symbol].wide) return true;
  if (width == NOT_KNOWN) atomic_store(&callers_width[symbol], width = (int)width_of_callers(symbol));
  return width == WIDE;
}

/* With the lock held. What stands in may be called directly, too, if it takes the same arguments: the short way takes
 * valid calls alone. */
static void publish_target(const struct tb_target *target, enum tb_symbol symbol, bool wide_callers) {
  const bool beyond = !tb_symbols[symbol].wide && (wide_callers || target->wide);
  if (target->behind.function != NULL && tb_takes_the_same(target->as, symbol))
    atomic_store_explicit(beyond ? &tb_fallback_direct_wide[symbol] : &tb_fallback_direct[symbol],
                          target->behind.function, memory_order_release);
}

/* The search runs without the lock: it waits for the loader, and the loader may be waiting for us, in a constructor
 * that calls BLAS. Threads that search at once find the same, and the first to be done is believed. */
static const struct tb_target *resolve_as_guest(enum tb_symbol symbol) {
  struct tb_target found = search(symbol);
  found.wide = is_wide(&found);
  const bool wide_callers = tb_fallback_callers_are_wide(symbol);
  char text[sizeof fallback_text];
  describe_target(&found, text, sizeof text);
  pthread_mutex_lock(&fallback_lock);
  const struct tb_target *target = atomic_load(&targets[symbol]);
  if (target == NULL) {
    target = &storage[symbol];
    storage[symbol] = found;
    atomic_store_explicit(&targets[symbol], target, memory_order_release);
    publish_target(target, symbol, wide_callers);
    if (fallback_text[0] == '\0') memcpy(fallback_text, text, sizeof fallback_text);
  }
  pthread_mutex_unlock(&fallback_lock);
  return target;
}

/* The caller is on its way to the CPU BLAS, in its own state, but for calls that we make ourselves. */
static const struct tb_target *resolve(enum tb_symbol symbol) {
  struct tb_guest guest;
  if (tb_thread.guest != NULL) return resolve_as_guest(symbol);
  tb_guest_enter(&guest);
  const struct tb_target *target = resolve_as_guest(symbol);
  tb_guest_leave(&guest);
  return target;
}

const struct tb_target *tb_fallback_target(enum tb_symbol symbol) {
  const struct tb_target *target = atomic_load_explicit(&targets[symbol], memory_order_acquire);
  return target != NULL ? target : resolve(symbol);
}

void *tb_fallback_function(enum tb_symbol symbol) { return tb_fallback_target(symbol)->behind.function; }

void tb_fallback_describe(char *text, size_t size) {
  pthread_mutex_lock(&fallback_lock);
  snprintf(text, size, "%s", fallback_text[0] ? fallback_text : "not needed so far");
  pthread_mutex_unlock(&fallback_lock);
}

void tb_fallback_after_fork(void) { pthread_mutex_init(&fallback_lock, NULL); }
