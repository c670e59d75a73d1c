/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "interface/run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "process/background.h"
#include "base/clock.h"
#include "process/environment.h"
#include "interface/caller.h"
#include "cpu/fallback.h"
#include "level3/products.h"
#include "process/guest.h"
#include "offload/hosted.h"
#include "process/libraries.h"
#include "base/log.h"
#include "offload/offload.h"
#include "base/options.h"
#include "route/batches.h"
#include "route/router.h"
#include "process/sandbox.h"
#include "route/small.h"
#include "route/staying.h"
#include "process/stack.h"
#include "interface/stats.h"

/* ---- once a process ---- */

static pthread_once_t loaded = PTHREAD_ONCE_INIT, run_once = PTHREAD_ONCE_INIT;

static void after_fork(void) {
  tb_libraries_after_fork();
  tb_fallback_after_fork();
  tb_options_after_fork();
  tb_offload_after_fork();
  tb_router_after_fork();
  tb_batch_router_after_fork();
  tb_small_after_fork();
  tb_stats_reset(); /* the parent reports its own calls */
}

/* All that is asked of the surroundings: later another thread may be changing its environment, the program may have
 * shut itself in, or its threads may be bound. */
static void load(void) {
  /* First: a fork from here on finds every lock mended. */
  pthread_atfork(tb_libraries_before_fork, tb_libraries_after_fork, after_fork);
  tb_environment_read();
  tb_options_load();
  tb_fallback_at_load();
  tb_sandbox_at_load();
  tb_background_at_load();
  tb_small_update();
  tb_places_initialise();
}

/* A program's constructor that calls before ours has run comes by tb_run_initialise. */
__attribute__((constructor)) static void load_once(void) { pthread_once(&loaded, load); }

static atomic_bool initialised;

static void initialise_once(void) {
  load_once();
  tb_options_complain();
  atomic_store(&initialised, true);
}

/* Nobody leaves it by siglongjmp: others would wait for its end. */
void tb_run_initialise(void) {
  struct tb_guest guest;
  if (atomic_load_explicit(&initialised, memory_order_acquire)) return;
  tb_guest_enter(&guest);
  pthread_once(&run_once, initialise_once);
  tb_guest_leave(&guest);
}

__attribute__((destructor)) static void report_at_end(void) {
  struct tb_floats floats;
  tb_floats_begin(&floats);
  tb_stats_report_at_exit();
  tb_floats_end(&floats);
}

/* ---- deciding ---- */

/* A call under way on the CPU. */
struct cpu_call {
  struct tb_decision decision;
  double started; /* seconds; 0 when the call is not timed */
};

static bool observed(void) { return tb_option_number(TB_OPTION_verbose) || tb_option_number(TB_OPTION_report); }

static struct tb_decision decide(const struct tb_call *call, const struct tb_places *places) {
  enum tb_route_mode mode = (enum tb_route_mode)tb_option_number(TB_OPTION_route);
  struct tb_decision decision;
  if (tb_route_resident(call, places, mode, &decision) || tb_route_settled(call, mode, &decision)) return decision;
  return tb_router_decide(call, places, mode);
}

/* ---- the verbose line ---- */

static double rate(double flops, double seconds) { return seconds > 0 ? flops / seconds * 1e-12 : 0; }

#define SCALAR_TEXT_MAX 40

/* "2.5", and of a complex number "2.5+0.5i". */
static void describe_scalar(enum tb_type type, union tb_scalar x, char text[SCALAR_TEXT_MAX]) {
  const double re = tb_type_is_double(type) ? x.d : (double)x.s;
  const double im = type == TB_Z ? x.z[1] : (double)x.c[1];
  if (tb_type_is_complex(type))
    snprintf(text, SCALAR_TEXT_MAX, "%g%+gi", re, im);
  else
    snprintf(text, SCALAR_TEXT_MAX, "%g", re);
}

static char trans_letter(const struct tb_view *x) { return x->conjugated ? 'C' : x->transposed ? 'T' : 'N'; }

/* Whether what the program named A is the call's B. */
static bool is_exchanged(const struct tb_call *g) {
  return tb_has_side(tb_routine_of(g->symbol)->signature) ? tb_view_is_mirrored(&g->b) : g->row_major;
}

/* "LU m=.. n=.. lda=.. ldb=..", with a triangular A "LUNN". The other one of a row-major call's sides and triangles. */
static void describe_sided(const struct tb_call *g, const struct tb_view *a, const struct tb_view *b, char *text,
                           size_t size) {
  const long long m = g->row_major ? g->n : g->m, n = g->row_major ? g->m : g->n;
  const bool second = tb_view_is_mirrored(&g->b);
  char letters[] = {(second || g->on_right) != g->row_major ? 'R' : 'L',
                    (a->uplo == TB_LOWER) != g->row_major ? 'L' : 'U', 0, 0, 0};
  if (g->recipe != TB_MULTIPLY) letters[2] = trans_letter(a), letters[3] = a->unit ? 'U' : 'N';
  snprintf(text, size, "%s m=%lld n=%lld lda=%lld ldb=%lld", letters, m, n, (long long)a->ld, (long long)b->ld);
}

/* "UN" and "m=.. n=.. k=.. lda=.. ldb=..", as far as the routine has them. */
static void describe_sizes(const struct tb_call *g, const struct tb_view *a, const struct tb_view *b, char *text,
                           size_t size) {
  const long long m = g->row_major ? g->n : g->m, n = g->row_major ? g->m : g->n, k = g->k;
  const enum tb_signature signature = tb_routine_of(g->symbol)->signature;
  const char uplo = (g->region.of == TB_UPPER_TRIANGLE) != g->row_major ? 'U' : 'L';
  const char ta = trans_letter(a), tb = trans_letter(b);
  const long long lda = a->ld, ldb = b->ld;
  if (tb_has_side(signature))
    describe_sided(g, a, b, text, size);
  else if (signature == TB_SIGNATURE_gemm)
    snprintf(text, size, "%c%c m=%lld n=%lld k=%lld lda=%lld ldb=%lld", ta, tb, m, n, k, lda, ldb);
  else if (signature == TB_SIGNATURE_gemmt)
    snprintf(text, size, "%c%c%c n=%lld k=%lld lda=%lld ldb=%lld", uplo, ta, tb, n, k, lda, ldb);
  else if (tb_is_of_rank_2k(signature))
    snprintf(text, size, "%c%c n=%lld k=%lld lda=%lld ldb=%lld", uplo, ta, n, k, lda, ldb);
  else
    snprintf(text, size, "%c%c n=%lld k=%lld lda=%lld", uplo, ta, n, k, lda);
}

/* The call in the program's own words: a row-major product has changed places with its transpose, and changes back
 * here. */
static void describe_call(const struct tb_call *g, char *text, size_t size) {
  const struct tb_view *a = is_exchanged(g) ? &g->b : &g->a, *b = is_exchanged(g) ? &g->a : &g->b;
  char sizes[160];
  char alpha[SCALAR_TEXT_MAX], beta[SCALAR_TEXT_MAX];
  describe_scalar(g->type, g->alpha, alpha);
  describe_scalar(g->type, g->beta, beta);
  describe_sizes(g, a, b, sizes, sizeof sizes);
  const char *const name = tb_symbols[g->symbol].name, *const layout = g->row_major ? " row-major" : "";
  if (g->recipe != TB_MULTIPLY)
    snprintf(text, size, "%s%s %s alpha=%s", name, layout, sizes, alpha);
  else
    snprintf(text, size, "%s%s %s ldc=%lld alpha=%s beta=%s", name, layout, sizes, (long long)g->ldc, alpha, beta);
}

static void describe_reason(const struct tb_decision *d, enum tb_status why, char *text, size_t size) {
  if (d->cpu_seconds > 0)
    snprintf(text, size, "%s: cpu %.3f ms, gpu %.3f ms", tb_status_text(why), d->cpu_seconds * 1e3,
             d->gpu_seconds * 1e3);
  else
    snprintf(text, size, "%s", tb_status_text(why));
}

static bool is_any_kept(const struct tb_outcome *o) { return o->proof[0] != TB_NOT_KEPT || o->proof[1] != TB_NOT_KEPT; }

static const char *operand_text(const struct tb_places *p, const struct tb_outcome *o, bool of_b) {
  if (o->proof[of_b] != TB_NOT_KEPT) return tb_proof_text(o->proof[of_b]);
  return tb_place_text(p == NULL ? TB_PAGEABLE : of_b ? p->b.place : p->a.place);
}

/* "A=device B=pinned C=host ", A and B as the program named them; nothing when all are the host's alone. */
static void describe_places(const struct tb_call *g, const struct tb_places *p, const struct tb_outcome *o, char *text,
                            size_t size) {
  const bool exchanged = is_exchanged(g);
  text[0] = '\0';
  if (p == NULL && !is_any_kept(o)) return;
  const int length = snprintf(text, size, "A=%s B=%s C=%s ", operand_text(p, o, exchanged),
                              operand_text(p, o, !exchanged), tb_place_text(p == NULL ? TB_PAGEABLE : p->c.place));
  if (o->saved_bytes > 0) snprintf(text + length, size - (size_t)length, "saved %.3f MB ", o->saved_bytes * 1e-6);
}

static void say_gpu(const struct tb_call *g, const struct tb_places *p, const struct tb_decision *d,
                    const struct tb_outcome *o, double seconds) {
  char call[320], reason[192], places[128];
  describe_call(g, call, sizeof call);
  describe_reason(d, o->failed ? o->why : d->why, reason, sizeof reason);
  describe_places(g, p, o, places, sizeof places);
  tb_say("%s -> gpu%s %s (%s) %sup %.3f ms compute %.3f ms down %.3f ms total %.3f ms %.3f TFLOP/s%s", call, o->gpus,
         o->kernel ? o->kernel : "", reason, places, o->up_ms, o->compute_ms, o->down_ms, seconds * 1e3,
         rate(tb_call_flops(g), seconds),
         o->lost     ? ", lost"
         : o->by_cpu ? ", completed by the cpu"
         : o->failed ? ", completed by another gpu"
                     : "");
}

static void say_cpu(const struct tb_call *g, const struct tb_decision *d, double seconds) {
  char call[320], reason[192];
  describe_call(g, call, sizeof call);
  describe_reason(d, d->why, reason, sizeof reason);
  tb_say("%s -> cpu (%s) total %.3f ms %.3f TFLOP/s", call, reason, seconds * 1e3, rate(tb_call_flops(g), seconds));
}

/* ---- one call ---- */

/* Of a call that begins now. The clock need not be read again for one that has just been decided. */
static double started_at(const struct tb_decision *decision) {
  return decision->at > 0 ? decision->at : tb_clock_seconds();
}

static bool try_offload(const struct tb_call *call, const struct tb_places *places, struct tb_decision *decision) {
  struct tb_outcome outcome;
  const double started = started_at(decision);
  const bool taken = tb_level3_offload(call, places, tb_option_number(TB_OPTION_verbose), &outcome);
  tb_router_leave(decision);
  if (!taken) {
    tb_staying_learn(call, decision->stays, TB_NOT_KEPT, 0);
    *decision = (struct tb_decision){.where = TB_CPU, .why = outcome.why};
    return false;
  }
  double seconds = tb_clock_seconds() - started;
  enum tb_where where = outcome.committed ? TB_GPU : TB_CPU;
  double flops = tb_call_is_trivial(call) ? 0 : tb_call_flops(call);
  tb_stats_add(call->symbol, where, outcome.failed ? outcome.why : decision->why, flops, outcome.bytes, seconds);
  if (outcome.saved_bytes > 0) tb_stats_add_kept(outcome.saved_bytes, outcome.proof);
  tb_staying_learn(call, decision->stays, outcome.proof[decision->stays == TB_B_STAYS], seconds);
  if (outcome.failed)
    tb_stats_add_failure();
  else if (decision->stays == TB_NONE_STAYS && outcome.gpu_count == 1 &&
           !is_any_kept(&outcome)) /* others are no measure of what the next call takes */
    tb_router_learn(call, places, decision, TB_GPU, seconds, started + seconds); /* with the wait for others' calls */
  if (tb_option_number(TB_OPTION_verbose)) {
    if (outcome.committed)
      say_gpu(call, places, decision, &outcome, seconds);
    else
      say_cpu(call, &(struct tb_decision){.where = TB_CPU, .why = outcome.why}, seconds);
  }
  return true;
}

static __attribute__((noinline)) void count_cpu(const struct tb_call *call, const struct cpu_call *cpu) {
  const struct tb_decision *d = &cpu->decision;
  double flops = tb_call_is_trivial(call) ? 0 : tb_call_flops(call);
  double seconds = cpu->started > 0 ? tb_clock_seconds() - cpu->started : 0;
  tb_stats_add(call->symbol, TB_CPU, d->why, flops, 0, seconds);
  if (seconds > 0) tb_router_learn(call, NULL, d, TB_CPU, seconds, cpu->started + seconds);
  if (tb_option_number(TB_OPTION_verbose)) say_cpu(call, d, seconds);
}

/* By copies of what lies on a GPU: the way for a call whose device memory our GPU, if there is one, does not reach. */
static void run_hosted(const struct tb_call *call, const struct tb_places *places, enum tb_status why) {
  struct tb_hosted hosted;
  struct cpu_call cpu = {.decision = {.where = TB_CPU, .why = why}};
  if (!tb_hosted_begin(&hosted, call, places, false)) {
    cpu.decision.why = TB_STATUS_unreachable;
    count_cpu(call, &cpu);
    return;
  }
  struct tb_decision decision = decide(&hosted.call, NULL);
  if (decision.where == TB_CPU || !try_offload(&hosted.call, NULL, &decision)) {
    cpu.started = tb_clock_seconds();
    struct tb_guest *paused;
    tb_guest_pause_floats(&paused);
    tb_fallback_compute(&hosted.call);
    tb_guest_resume_floats(paused);
    count_cpu(call, &cpu);
  }
  tb_hosted_end(&hosted);
}

/* ---- in the program's thread ---- */

/* Calls of most programs that come the long way: decided without a lock, the driver or a file, on little of the stack.
 */
static __attribute__((noinline)) bool is_plain(const struct tb_call *call, struct tb_decision *decision) {
  const enum tb_route_mode mode = (enum tb_route_mode)tb_option_number(TB_OPTION_route);
  if (!tb_places_are_plain(call)) return false;
  return tb_route_settled(call, mode, decision) || (!observed() && tb_router_follows(call, mode, decision));
}

static __attribute__((noinline)) void start_cpu(const struct tb_call *call, struct cpu_call *cpu) {
  if (cpu->decision.why == TB_STATUS_tried) {
    tb_offload_rest();
    cpu->decision.at = 0; /* some time ago */
  }
  /* Small calls are timed only when somebody looks: two clock readings are a good part of the smallest. */
  const bool timed = (tb_call_flops(call) >= tb_route_small_flops(call->type) && !cpu->decision.follows) || observed();
  cpu->started = timed ? started_at(&cpu->decision) : 0;
}

/* Who has shut itself in gets what it needs no file for; but the CPU cannot reach what lies on a GPU. */
static bool is_shut_in(const struct tb_places *places, struct tb_decision *decision) {
  if ((places != NULL && tb_places_need_gpu(places)) || !tb_sandboxed()) return false;
  *decision = (struct tb_decision){.where = TB_CPU, .why = TB_STATUS_sandboxed};
  return true;
}

static bool run_gpu(const struct tb_call *call, struct cpu_call *cpu) {
  struct tb_places found;
  const struct tb_places *places = tb_places_find(call, &found) ? &found : NULL;
  if (!is_shut_in(places, &cpu->decision)) cpu->decision = decide(call, places);
  if (cpu->decision.where == TB_GPU && try_offload(call, places, &cpu->decision)) return true;
  if (places != NULL && tb_places_need_gpu(places)) {
    run_hosted(call, places, cpu->decision.why);
    return true;
  }
  start_cpu(call, cpu);
  return false;
}

struct own_thread {
  const struct tb_call *call;
  struct cpu_call *cpu;
  struct tb_thread *caller;
  bool done;
};

/* The caller's rows of calls go on there. */
static void run_gpu_in_own_thread(void *context) {
  struct own_thread *own = context;
  tb_thread.followed = own->caller->followed;
  own->done = run_gpu(own->call, own->cpu);
  own->caller->followed = tb_thread.followed;
}

static bool run_gpu_with_room(const struct tb_call *call, struct cpu_call *cpu) {
  struct own_thread own = {.call = call, .cpu = cpu, .caller = &tb_thread};
  /* A thread that has shut itself in may not start another. Where none can be had, the caller's must do. */
  if (tb_stack_has_room() || tb_sandboxed() || !tb_stack_run(run_gpu_in_own_thread, &own)) return run_gpu(call, cpu);
  return own.done;
}

/*
 * Answers the call on the GPU and returns true; or returns false, and the CPU BLAS is to be asked between this function
 * and cpu_done. Either way the call is counted exactly once.
 */
static __attribute__((noinline)) bool gpu_answers(const struct tb_call *call, struct cpu_call *cpu) {
  const uint32_t control = tb_arithmetic_begin();
  const bool plain = is_plain(call, &cpu->decision);
  if (plain) start_cpu(call, cpu);
  tb_arithmetic_end(control);
  if (plain) return false;
  struct tb_guest guest;
  tb_guest_enter(&guest);
  const bool done = run_gpu_with_room(call, cpu);
  tb_guest_leave(&guest);
  return done;
}

/* Without a lock where nothing was timed and nobody looks. */
static __attribute__((noinline)) void cpu_done(const struct tb_call *call, const struct cpu_call *cpu) {
  if (cpu->started > 0 || tb_option_number(TB_OPTION_verbose)) {
    struct tb_guest guest;
    tb_guest_enter(&guest);
    count_cpu(call, cpu);
    tb_guest_leave(&guest);
  } else {
    const uint32_t control = tb_arithmetic_begin();
    count_cpu(call, cpu);
    tb_arithmetic_end(control);
  }
}

/* Counts a call that the CPU BLAS is about to refuse. Takes no lock. */
static void count_refused(enum tb_symbol symbol) {
  const uint32_t control = tb_arithmetic_begin();
  tb_stats_add(symbol, TB_CPU, TB_STATUS_refused, 0, 0, 0);
  if (tb_option_number(TB_OPTION_verbose))
    tb_say("%s -> cpu (%s)", tb_symbols[symbol].name, tb_status_text(TB_STATUS_refused));
  tb_arithmetic_end(control);
}

void tb_run(enum tb_symbol symbol, const void *caller, const struct tb_arguments *arguments) {
  struct tb_call call;
  struct cpu_call cpu;
  tb_run_initialise();
  const int refused = tb_call_from(&call, symbol, arguments);
  const bool ours = !tb_in_fallback() || !tb_caller_is_cpu_blas(caller);
  if (ours) tb_thread.cpu_depth = 0; /* a handler may have left the CPU BLAS */
  if (refused && ours) count_refused(symbol);
  if (!refused && ours && gpu_answers(&call, &cpu)) return;
  tb_fallback_as_made(symbol, refused, arguments);
  if (!refused && ours) cpu_done(&call, &cpu);
}
