/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random calls of gemm in all four types and gemm3m, by every symbol, option and size, with operands in ordinary
 * memory, fenced or not, and in pinned, registered, managed and device memory, in any mixture: every element against
 * sums that are better than the type's, every other byte as it was.
 *
 *   fuzz_gemm [--calls N] [--seed S] [--seconds T] [--most MNK] [--own-memory] [--alone] [--keep-options]
 *
 * N calls (300) from seed S (1) on, or as many as T seconds allow; m n k is at most MNK, of complex numbers a fourth.
 * --own-memory: ordinary memory alone. --alone: each call in a process of its own, as the first that it makes. Options
 * are drawn for each call, but for those that the environment has; with
 * --keep-options all stay as they are. A wrong call is told with the command that repeats it alone. Last the calls by
 * mixture of memory and by route. Status 1: an answer was wrong.
 *
 * Seen to fail when: a pinned C is fetched with the tile's leading dimension; beta is 2 and the commit takes 1; copies
 * of device memory to the host ignore its leading dimension; the commit on the GPU leaves out beta; fp16 planes serve
 * two sides of 12-bit words; a conjugate transpose of B is a transpose; zgemm's commit takes beta's real part alone;
 * dgemm's alpha is rounded to a float; an element behind a complex C is written; a copy reads before an operand's first
 * element, or behind its last.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "balanced.h"
#include "call.h"
#include "expected.h"
#include "fake.h"
#include "placed.h"
#include "rng.h"
#include "tileblas.h"

extern char **environ;

#define WRONG_MAX 10 /* then it ends: more of the same teach nothing */

static struct {
  unsigned long long calls, seed;
  double seconds;
  struct fuzz_limits limits;
  bool keep_options, alone;
} wanted = {.calls = 300, .seed = 1, .seconds = 1e9, .limits = {.most = 4e10}};

static bool gpu_expected; /* the build has its code, and a driver is there */

/* Of a mixture of kinds; registered memory counts as pinned, fenced as pageable. */
static struct { unsigned long long gpu, cpu, wrong; } totals[TST_KINDS][TST_KINDS][TST_KINDS];
static unsigned long long calls_made, wrong_calls;

static const enum tst_kind counted_as[FUZZ_KINDS] = {TST_PAGEABLE, TST_PAGEABLE, TST_PAGEABLE, TST_PINNED,
                                                     TST_PINNED,   TST_MANAGED,  TST_DEVICE};
static const char *const fuzz_names[FUZZ_KINDS] = {"pageable",   "fenced before", "fenced behind", "pinned",
                                                   "registered", "managed",       "device"};
static const char *const names[TST_KINDS] = {"pageable", "pinned", "managed", "device"};
static const char *const layouts[FUZZ_LAYOUTS] = {"apart", "A over B", "one block", "submatrices"};
static const char *const values[FUZZ_VALUES] = {"integers", "signed", "positive", "wide", "subnormal", "special"};

/* ---- telling ---- */

static char repeat[1024]; /* the command that repeats the call under way; ready for a signal's handler */
static size_t repeat_end; /* where the seed stands in it */

static void begin_repeat(const char *program) {
  int end = snprintf(repeat, sizeof repeat, "repeat it alone with: ");
  for (char **e = environ; *e && end < 700; e++)
    if (strncmp(*e, "TILEBLAS_", 9) == 0 || strncmp(*e, "FAKE_CUDA_", 10) == 0 || strncmp(*e, "OPENBLAS_", 9) == 0)
      end += snprintf(repeat + end, sizeof repeat - (size_t)end, "%.80s ", *e);
  end += snprintf(repeat + end, sizeof repeat - (size_t)end, "%.200s%s%s --most %.0f --calls 1 --seed ", program,
                  wanted.keep_options ? " --keep-options" : "", wanted.limits.own_memory ? " --own-memory" : "",
                  wanted.limits.most);
  repeat_end = (size_t)end;
}

/* A crash, or a time limit's end, while a call is under way. */
static void on_signal(int number) {
  static const char what[] = "FAILED: a signal ended the process during a call\n";
  ssize_t written = write(STDOUT_FILENO, what, sizeof what - 1);
  written += write(STDOUT_FILENO, repeat, strlen(repeat));
  signal(number, SIG_DFL);
  raise(number);
}

static void tell_wrong(const struct fuzz_call *call, const char *what) {
  printf("FAILED: %s: %s\n", tst_describe(call->symbol, &call->p), what);
  printf("  A %s, B %s, C %s, %s, %s values, route %s, precision %s, share %s, memory limit %s\n",
         fuzz_names[call->kind[0]], fuzz_names[call->kind[1]], fuzz_names[call->kind[2]], layouts[call->layout],
         values[call->values], call->route, call->precision, call->share, call->memory_limit);
  printf("%s", repeat);
  fflush(stdout);
}

static void tell_totals(double seconds) {
  unsigned long long gpu = 0, cpu = 0;
  for (int a = 0; a < TST_KINDS; a++)
    for (int b = 0; b < TST_KINDS; b++)
      for (int c = 0; c < TST_KINDS; c++) {
        gpu += totals[a][b][c].gpu, cpu += totals[a][b][c].cpu;
        printf("mixture %s %s %s: %llu gpu, %llu cpu, %llu wrong\n", names[a], names[b], names[c], totals[a][b][c].gpu,
               totals[a][b][c].cpu, totals[a][b][c].wrong);
      }
  const struct fuzz_compared compared = fuzz_compared();
  printf("%llu parts of C's elements compared, %llu not, for they may overflow\n",
         compared.parts - compared.overflowing, compared.overflowing);
  printf("fuzz_gemm: %llu calls in %.0f s, %llu by the GPU, %llu by the CPU BLAS, %llu wrong\n", calls_made, seconds,
         gpu, cpu, wrong_calls);
}

/* ---- a call ---- */

static void must_set(const char *name, const char *value) {
  if (getenv(name) != NULL) return;
  if (tileblas_option_set(name, value) == 0) return;
  printf("FAILED: %s cannot be %s\n", name, value);
  exit(1);
}

static void set_options(const struct fuzz_call *call) {
  if (wanted.keep_options) return;
  must_set("TILEBLAS_ROUTE", call->route);
  must_set("TILEBLAS_PRECISION", call->precision);
  must_set("TILEBLAS_SHARE", call->share);
  must_set("TILEBLAS_MEMORY_LIMIT", call->memory_limit);
  must_set("TILEBLAS_VERBOSE", call->verbose ? "1" : "0");
}

/* The order in which the fake driver does its work. */
static void set_driver(uint64_t *rng) {
  const struct tst_fake *fake = tst_fake();
  if (!fake) return;
  fake->set_shuffle(tst_random_below(rng, 3) ? 0 : tst_random(rng));
  fake->set_order((enum fake_cuda_order)tst_random_below(rng, 4), tst_random(rng));
}

/* Who must have answered, as options and memory have it; NULL: so it was. */
static const char *wrong_route(const struct fuzz_call *call, const tileblas_stats *before, const tileblas_stats *after,
                               const char *route) {
  const struct tst_problem *p = &call->p;
  const unsigned long long gpu = after->gpu_calls - before->gpu_calls, cpu = after->cpu_calls - before->cpu_calls;
  const bool work = p->m > 0 && p->n > 0 && p->k > 0 && p->alpha != 0;
  const bool forbidden = !gpu_expected || strcmp(route, "cpu") == 0;
  bool device = false;
  for (int i = 0; i < 3; i++) device = device || call->kind[i] == FUZZ_DEVICE;
  if (after->gpu_failures != before->gpu_failures) return "the GPU failed";
  if (gpu + cpu != 1) return "the statistics do not have the call once";
  if (gpu && (forbidden || !(work || device))) return "the GPU answered"; /* it scales C where C lies */
  if (cpu && work && !forbidden && (device || strcmp(route, "gpu") == 0)) return "no GPU answered";
  return NULL;
}

static void one_call(unsigned long long seed) {
  uint64_t rng = seed;
  struct fuzz_call call;
  struct fuzz_operands x;
  char route[16], precision[16];
  tileblas_stats before, after;
  fuzz_draw(&call, &rng, &wanted.limits);
  snprintf(repeat + repeat_end, sizeof repeat - repeat_end, "%llu\n", seed);
  fuzz_place(&x, &call, &rng);
  set_options(&call);
  set_driver(&rng);
  tileblas_option_get("TILEBLAS_ROUTE", route, sizeof route);
  tileblas_option_get("TILEBLAS_PRECISION", precision, sizeof precision);
  tileblas_stats_get(&before);
  tst_call_balanced(call.symbol, tst_resolve(call.symbol), &call.p, x.block[0]->memory + x.at[0],
                    x.block[1]->memory + x.at[1], x.block[2]->memory + x.at[2]);
  tileblas_stats_get(&after);
  const char *wrong = fuzz_verify(&call, &x, precision, after.cpu_calls != before.cpu_calls);
  if (!wrong) wrong = wrong_route(&call, &before, &after, route);
  if (wrong) tell_wrong(&call, wrong);
  __typeof__(totals[0][0][0]) *total =
      &totals[counted_as[call.kind[0]]][counted_as[call.kind[1]]][counted_as[call.kind[2]]];
  total->gpu += after.gpu_calls - before.gpu_calls;
  total->cpu += after.cpu_calls - before.cpu_calls;
  total->wrong += wrong != NULL;
  wrong_calls += wrong != NULL;
  calls_made++;
}

/* ---- the program ---- */

static void read_arguments(int argc, char **argv) {
  static const struct option known[] = {
      {"calls", required_argument, NULL, 'c'},   {"seed", required_argument, NULL, 's'},
      {"seconds", required_argument, NULL, 't'}, {"most", required_argument, NULL, 'm'},
      {"keep-options", no_argument, NULL, 'k'},  {"own-memory", no_argument, NULL, 'o'},
      {"alone", no_argument, NULL, 'a'},         {0}};
  for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (c == 'c') wanted.calls = strtoull(optarg, NULL, 10);
    if (c == 's') wanted.seed = strtoull(optarg, NULL, 10);
    if (c == 't') wanted.seconds = strtod(optarg, NULL);
    if (c == 'm') wanted.limits.most = strtod(optarg, NULL);
    if (c == 'k') wanted.keep_options = true;
    if (c == 'a') wanted.alone = true;
    if (c == 'o') wanted.limits.own_memory = true;
    if (c == '?') exit(2);
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make_calls(unsigned long long seed, unsigned long long calls, double end) {
  if (!wanted.limits.own_memory) tst_cuda_begin(0);
  for (unsigned long long i = 0; i < calls && now() < end && wrong_calls < WRONG_MAX; i++) one_call(seed + i);
  fuzz_drop_blocks();
  const struct tst_fake *fake = tst_fake();
  if (fake && fake->get(FAKE_CUDA_MISUSES) != 0) wrong_calls++, puts("FAILED: the driver was misused");
  if (!wanted.limits.own_memory) tst_cuda_end(0);
}

/* In a child of this process, which itself calls nothing. */
static int every_call_alone(void) {
  int wrong = 0;
  for (unsigned long long i = 0; i < wanted.calls && wrong < WRONG_MAX; i++) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      make_calls(wanted.seed + i, 1, 1e18);
      exit(wrong_calls > 0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) wrong++;
  }
  printf("fuzz_gemm: %llu calls, each alone, %d wrong\n", wanted.calls, wrong);
  return wrong > 0;
}

int main(int argc, char **argv) {
  static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM};
  const double begun = now();
  read_arguments(argc, argv);
  begin_repeat(argv[0]);
  for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], on_signal);
  fuzz_expected_begin();
  const char *expected = getenv("TB_TEST_EXPECT");
  gpu_expected = !expected || strcmp(expected, "gpu") == 0;
  if (wanted.alone) return every_call_alone();
  make_calls(wanted.seed, wanted.calls, begun + wanted.seconds);
  tell_totals(now() - begun);
  return wrong_calls > 0 ? 1 : 0;
}
