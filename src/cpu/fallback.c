/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "cpu/fallback.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/behind.h"
#include "process/guest.h"
#include "base/integers.h"
#include "process/libraries.h"
#include "base/log.h"
#include "base/options.h"
#include "cpu/reference.h"
#include "cpu/signatures.h"

/* What answers a symbol: a function of some ABI, or the loops of reference.c. */
struct target {
  struct tb_behind behind; /* no function: reference.c */
  enum tb_symbol as;       /* the symbol whose ABI the function has */
  const char *how;         /* it was found, for the report */
  bool wide;               /* the function's integers have 64 bits; known once the search is over */
};

static struct target storage[TB_SYMBOL_COUNT];
static _Atomic(const struct target *) targets[TB_SYMBOL_COUNT];
static pthread_mutex_t fallback_lock = PTHREAD_MUTEX_INITIALIZER; /* guards storage and fallback_text; see resolve */
static char fallback_text[256];

_Atomic(void *) tb_fallback_direct[TB_SYMBOL_COUNT];
_Atomic(void *) tb_fallback_direct_wide[TB_SYMBOL_COUNT];

/* Of a plain name: enum width. */
enum width { NOT_KNOWN, NARROW, WIDE };
static atomic_int callers_width[TB_SYMBOL_COUNT];

/* ---- finding ---- */

/* Adopts `name` from a library, or from the search order when the library is RTLD_NEXT. */
static bool adopt(struct target *target, void *library, enum tb_symbol symbol, const char *how) {
  void *function = dlsym(library, tb_symbols[symbol].name);
  *target = (struct target){.as = symbol, .how = how};
  return function != NULL && tb_behind_look(function, &target->behind);
}

/* Without the loader, unless the definition has come since we were loaded. */
static bool adopt_next(struct target *target, enum tb_symbol symbol) {
  *target = (struct target){.behind = *tb_behind_next(symbol), .as = symbol, .how = ""};
  return target->behind.function != NULL || adopt(target, RTLD_NEXT, symbol, "");
}

/* From a symbol to another that computes the same; FAR: it does not. */
enum { FAR = 8 };
static int distance_of(enum tb_symbol wanted, enum tb_symbol other) {
  const struct tb_symbol_info *w = &tb_symbols[wanted], *i = &tb_symbols[other];
  int away = (i->abi != w->abi ? 2 : 0) + (i->wide != w->wide ? 1 : 0);
  if (i->routine == w->routine) return away;
  return i->routine == tb_routine_of(wanted)->stand_in ? FAR / 2 + away : FAR;
}

/* Any symbol of the routine, the wanted ABI first, then those whose arguments are nearest to it; or else of the routine
 * that may stand in, in the same order. */
static bool adopt_any(struct target *target, void *library, enum tb_symbol wanted, const char *how) {
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
static bool adopt_loaded(struct target *target, enum tb_symbol symbol,
                         bool (*adopt_from)(struct target *, void *, enum tb_symbol, const char *)) {
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

static bool adopt_opened(struct target *target, enum tb_symbol symbol, const char *path, const char *how) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return false;
  bool found = adopt_any(target, library, symbol, how);
  dlclose(library); /* adopt keeps a reference of its own */
  return found;
}

/* What TILEBLAS_FALLBACK named at load, and what was found there. */
static char path_at_load[TB_OPTION_TEXT_MAX];
static struct target named_at_load[TB_SYMBOL_COUNT];

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
    if (!adopt_any(&named_at_load[s], library, (enum tb_symbol)s, by_name)) named_at_load[s] = (struct target){0};
  if (library != NULL) dlclose(library); /* what was found is kept */
  (void)dlerror();
}

static bool adopt_named(struct target *target, enum tb_symbol symbol) {
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

static bool adopt_openblas(struct target *target, enum tb_symbol symbol) {
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

static struct target search(enum tb_symbol symbol) {
  struct target target;
  const enum tb_symbol other = tb_stand_in(symbol);
  if (adopt_named(&target, symbol) || adopt_next(&target, symbol) || adopt_loaded(&target, symbol, adopt) ||
      (other != symbol && (adopt_next(&target, other) || adopt_loaded(&target, other, adopt))) ||
      adopt_openblas(&target, symbol) || adopt_loaded(&target, symbol, adopt_any))
    return target;
  return (struct target){.as = symbol, .how = ""};
}

static void describe_target(const struct target *target, char *text, size_t size) {
  if (target->behind.function == NULL)
    snprintf(text, size, "no CPU BLAS found: plain loops, slow");
  else
    snprintf(text, size, "%.180s (%s%s)", target->behind.file, tb_symbols[target->as].name, target->how);
}

/* ---- 64-bit integers under plain names ---- */

static bool is_wide(const struct target *target) {
  return tb_symbols[target->as].wide || tb_behind_is_wide(&target->behind);
}

/* The program was made for the BLAS that it would have had, in its search order: not for one that TILEBLAS_FALLBACK
 * names, nor for one that is loaded for somebody else, as by us for the 64-bit names. Where that BLAS lacks the symbol,
 * the one that may stand in tells. */
static enum width width_of_callers(enum tb_symbol symbol) {
  struct tb_guest guest;
  struct target target;
  const bool entered = tb_thread.guest == NULL; /* the first call may be on its way to the CPU BLAS already */
  if (entered) tb_guest_enter(&guest);
  const bool wide = (adopt_next(&target, symbol) || adopt_next(&target, tb_stand_in(symbol))) && is_wide(&target);
  if (entered) tb_guest_leave(&guest);
  return wide ? WIDE : NARROW;
}

bool tb_fallback_callers_are_wide(enum tb_symbol symbol) {
  int width = atomic_load_explicit(&callers_width[symbol], memory_order_relaxed);
  if (tb_symbols[symbol].wide) return true;
  if (width == NOT_KNOWN) atomic_store(&callers_width[symbol], width = (int)width_of_callers(symbol));
  return width == WIDE;
}

/* With the lock held. What stands in may be called directly, too: the short way takes valid calls alone. */
static void publish_target(const struct target *target, enum tb_symbol symbol, bool wide_callers) {
  const bool beyond = !tb_symbols[symbol].wide && (wide_callers || target->wide);
  if (target->behind.function != NULL && tb_symbols[target->as].abi == tb_symbols[symbol].abi)
    atomic_store_explicit(beyond ? &tb_fallback_direct_wide[symbol] : &tb_fallback_direct[symbol],
                          target->behind.function, memory_order_release);
}

/* The search runs without the lock: it waits for the loader, and the loader may be waiting for us, in a constructor
 * that calls BLAS. Threads that search at once find the same, and the first to be done is believed. */
static const struct target *resolve_as_guest(enum tb_symbol symbol) {
  struct target found = search(symbol);
  found.wide = is_wide(&found);
  const bool wide_callers = tb_fallback_callers_are_wide(symbol);
  char text[sizeof fallback_text];
  describe_target(&found, text, sizeof text);
  pthread_mutex_lock(&fallback_lock);
  const struct target *target = atomic_load(&targets[symbol]);
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
static const struct target *resolve(enum tb_symbol symbol) {
  struct tb_guest guest;
  if (tb_thread.guest != NULL) return resolve_as_guest(symbol);
  tb_guest_enter(&guest);
  const struct target *target = resolve_as_guest(symbol);
  tb_guest_leave(&guest);
  return target;
}

static inline const struct target *target_of(enum tb_symbol symbol) {
  const struct target *target = atomic_load_explicit(&targets[symbol], memory_order_acquire);
  return target != NULL ? target : resolve(symbol);
}

/* ---- calling ---- */

/*
 * Always by 64-bit integers, which a BLAS with 32-bit ones takes as well: it looks at the lower half of a register, a
 * stack slot or a little-endian variable. So a BLAS that has 64-bit integers under the plain names (libblas64,
 * libopenblas64, MKL's ilp64) gets numbers that it can read, too.
 */
_Static_assert(sizeof(void *) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "integer arguments of either width are passed alike");

static void call_function(const struct target *t, const struct tb_arguments *x) {
  const enum tb_type type = tb_routine_of(t->as)->type;
  if (tb_symbols[t->as].abi == TB_ABI_CBLAS)
    tb_call_cblas_gemm(t->behind.function, type, x, &x->alpha, &x->beta);
  else
    tb_call_fortran_gemm(t->behind.function, x);
}

static bool all_fit(const struct target *t, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  return t->wide || (tb_fits_int32(m) && tb_fits_int32(n) && tb_fits_int32(k) && tb_fits_int32(lda) &&
                     tb_fits_int32(ldb) && tb_fits_int32(ldc));
}

/*
 * The reference reads neither A nor B when alpha or k is zero. OpenBLAS's kernels for small matrices (which
 * it has for processors with AVX-512) multiply all the same: 0 * NaN comes in from A and B, and alpha = NaN in spite of
 * k = 0. With both zero nothing is left to multiply. For valid calls alone: what is wrong with another may lie in k.
 */
static void read_nothing_needless(enum tb_type type, struct tb_arguments *x) {
  if (!tb_scalar_is_zero(type, x->alpha) && x->k != 0) return;
  x->alpha = tb_scalar_of(type, 0);
  x->k = 0;
}

/* A view as the option of a call, in CBLAS's numbering or Fortran's letters. */
static int trans_of(enum tb_abi abi, struct tb_view x) {
  static const int said[2][3] = {
      [TB_ABI_CBLAS] = {TB_NO_TRANS, TB_TRANS, TB_CONJ_TRANS}, [TB_ABI_FORTRAN] = {'N', 'T', 'C'}};
  return said[abi][x.transposed + x.conjugated];
}

/* A valid column-major call that the target's integers can express. */
static void call_gemm(const struct target *t, const struct tb_call *g) {
  const enum tb_abi abi = tb_symbols[t->as].abi;
  struct tb_arguments x = {.layout = TB_COL_MAJOR,
                           .transa = trans_of(abi, g->a),
                           .transb = trans_of(abi, g->b),
                           .m = g->m,
                           .n = g->n,
                           .k = g->k,
                           .alpha = g->alpha,
                           .beta = g->beta,
                           .a = g->a.data,
                           .b = g->b.data,
                           .c = g->c,
                           .lda = g->a.ld,
                           .ldb = g->b.ld,
                           .ldc = g->ldc};
  read_nothing_needless(g->type, &x);
  tb_thread.cpu_depth++;
  call_function(t, &x);
  tb_thread.cpu_depth--;
}

/* Sizes beyond 32 bits in pieces that a 32-bit BLAS can express; leading dimensions beyond them by the plain loops. */
static void call_in_pieces(const struct target *t, const struct tb_call *g) {
  const int64_t step = (int64_t)1 << 30;
  if (!tb_fits_int32(g->a.ld) || !tb_fits_int32(g->b.ld) || !tb_fits_int32(g->ldc)) {
    tb_reference_gemm(g);
    return;
  }
  for (int64_t j = 0; j < g->n; j += step) {
    for (int64_t i = 0; i < g->m; i += step) {
      struct tb_call part = tb_call_part(g, i, tb_min(step, g->m - i), j, tb_min(step, g->n - j));
      for (int64_t l = 0; l == 0 || l < g->k; l += step) {
        struct tb_call piece = part;
        piece.k = tb_min(step, g->k - l);
        piece.a = tb_view_at(part.a, 0, l);
        piece.b = tb_view_at(part.b, l, 0);
        piece.beta = l == 0 ? g->beta : tb_scalar_of(g->type, 1);
        call_gemm(t, &piece);
      }
    }
  }
}

void tb_fallback_gemm(const struct tb_call *g) {
  const struct target *t = target_of(g->symbol);
  if (t->behind.function == NULL)
    tb_reference_gemm(g);
  else if (all_fit(t, g->m, g->n, g->k, g->a.ld, g->b.ld, g->ldc))
    call_gemm(t, g);
  else
    call_in_pieces(t, g);
}

/* Of its own, so that its arguments do not lie on the stack while a target is searched for. */
static __attribute__((noinline)) void call_as_made(const struct target *t, bool valid,
                                                   const struct tb_arguments *made) {
  struct tb_arguments x = *made;
  if (valid) read_nothing_needless(tb_routine_of(t->as)->type, &x);
  tb_thread.cpu_depth += valid;
  call_function(t, &x);
  tb_thread.cpu_depth -= valid;
}

static __attribute__((noinline)) void call_as_gemm(enum tb_symbol symbol, const struct tb_arguments *made) {
  struct tb_call call;
  tb_call_from(&call, symbol, made);
  tb_fallback_gemm(&call);
}

/* Whether the target can be handed the arguments as they are, and says of wrong ones what the program expects. */
static bool takes(const struct target *t, enum tb_symbol symbol, int refused, const struct tb_arguments *x) {
  return t->behind.function != NULL && tb_symbols[t->as].abi == tb_symbols[symbol].abi &&
         (refused == 0 || tb_symbols[t->as].routine == tb_symbols[symbol].routine) &&
         all_fit(t, x->m, x->n, x->k, x->lda, x->ldb, x->ldc);
}

void tb_fallback_as_made(enum tb_symbol symbol, int refused, const struct tb_arguments *x) {
  const struct target *t = target_of(symbol);
  if (takes(t, symbol, refused, x))
    call_as_made(t, refused == 0, x);
  else if (refused == 0)
    call_as_gemm(symbol, x);
  else
    tb_reference_xerbla(symbol, refused);
}

void *tb_fallback_function(enum tb_symbol symbol) { return target_of(symbol)->behind.function; }

void tb_fallback_describe(char *text, size_t size) {
  pthread_mutex_lock(&fallback_lock);
  snprintf(text, size, "%s", fallback_text[0] ? fallback_text : "not needed so far");
  pthread_mutex_unlock(&fallback_lock);
}

void tb_fallback_after_fork(void) { pthread_mutex_init(&fallback_lock, NULL); }
