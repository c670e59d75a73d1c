/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "program.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"
#include "placed.h"

extern char **environ;

#define WRONG_MAX 10 /* then it ends: more of the same teach nothing */

static struct {
  unsigned long long calls, seed;
  double seconds;
  struct fuzz_limits limits;
  bool keep_options, alone;
} wanted = {.calls = 300, .seed = 1, .seconds = 1e9, .limits = {.most = 4e10}};

static const struct fuzz_program *program;
static bool gpu_expected; /* the build has its code, and a driver is there */

/* Of a mixture of kinds; registered memory counts as pinned, fenced as pageable. */
static struct { unsigned long long gpu, cpu, wrong; } totals[TST_KINDS][TST_KINDS][TST_KINDS];
static unsigned long long calls_made, wrong_calls;

static const enum tst_kind counted_as[FUZZ_KINDS] = {TST_PAGEABLE, TST_PAGEABLE, TST_PAGEABLE, TST_PINNED,
                                                     TST_PINNED,   TST_MANAGED,  TST_DEVICE};
const char *const fuzz_kind_names[FUZZ_KINDS] = {"pageable",   "fenced before", "fenced behind", "pinned",
                                                 "registered", "managed",       "device"};
static const char *const names[TST_KINDS] = {"pageable", "pinned", "managed", "device"};
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

static void tell_wrong(const struct fuzz_answer *answer) {
  printf("FAILED: %s: %s\n  %s, route %s, precision %s, share %s, memory limit %s\n%s", answer->call, answer->wrong,
         answer->operands, answer->options->route, answer->options->precision, answer->options->share,
         answer->options->memory_limit, repeat);
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
  const struct fuzz_compared compared = program->compared();
  printf("%llu parts of C's elements compared, %llu not, for they may overflow\n",
         compared.parts - compared.overflowing, compared.overflowing);
  printf("%s: %llu calls in %.0f s, %llu by the GPU, %llu by the CPU BLAS, %llu wrong\n", program->name, calls_made,
         seconds, gpu, cpu, wrong_calls);
}

/* ---- a call ---- */

static void must_set(const char *name, const char *value) {
  if (getenv(name) != NULL) return;
  if (tileblas_option_set(name, value) == 0) return;
  printf("FAILED: %s cannot be %s\n", name, value);
  exit(1);
}

static void set_options(const struct fuzz_options *options) {
  if (wanted.keep_options) return;
  must_set("TILEBLAS_ROUTE", options->route);
  must_set("TILEBLAS_PRECISION", options->precision);
  must_set("TILEBLAS_SHARE", options->share);
  must_set("TILEBLAS_MEMORY_LIMIT", options->memory_limit);
  must_set("TILEBLAS_VERBOSE", options->verbose ? "1" : "0");
}

/* The order in which the fake driver does its work. */
static void set_driver(uint64_t *rng) {
  const struct tst_fake *fake = tst_fake();
  if (!fake) return;
  fake->set_shuffle(tst_random_below(rng, 3) ? 0 : tst_random(rng));
  fake->set_order((enum fake_cuda_order)tst_random_below(rng, 4), tst_random(rng));
}

void fuzz_begin(struct fuzz_asked *asked, const struct fuzz_options *options, uint64_t *rng) {
  set_options(options);
  set_driver(rng);
  asked->gpu_expected = gpu_expected;
  tileblas_option_get("TILEBLAS_ROUTE", asked->route, sizeof asked->route);
  tileblas_option_get("TILEBLAS_PRECISION", asked->precision, sizeof asked->precision);
  tileblas_stats_get(&asked->before);
}

void fuzz_end(struct fuzz_asked *asked) {
  tileblas_stats_get(&asked->after);
  asked->gpu = asked->after.gpu_calls - asked->before.gpu_calls;
  asked->cpu = asked->after.cpu_calls - asked->before.cpu_calls;
}

const char *fuzz_wrong_route(const struct fuzz_asked *asked, bool work, bool device) {
  const bool forbidden = !asked->gpu_expected || strcmp(asked->route, "cpu") == 0;
  if (asked->after.gpu_failures != asked->before.gpu_failures) return "the GPU failed";
  if (asked->gpu + asked->cpu != 1) return "the statistics do not have the call once";
  if (asked->gpu && (forbidden || !(work || device))) return "the GPU answered"; /* it scales C where C lies */
  if (asked->cpu && work && !forbidden && (device || strcmp(asked->route, "gpu") == 0)) return "no GPU answered";
  return NULL;
}

static void one_call(unsigned long long seed) {
  uint64_t rng = seed;
  struct fuzz_answer answer = {0};
  snprintf(repeat + repeat_end, sizeof repeat - repeat_end, "%llu\n", seed);
  program->call(&answer, &rng, &wanted.limits);
  if (answer.wrong) tell_wrong(&answer);
  __typeof__(totals[0][0][0]) *total =
      &totals[counted_as[answer.kind[0]]][counted_as[answer.kind[1]]][counted_as[answer.kind[2]]];
  total->gpu += answer.gpu;
  total->cpu += answer.cpu;
  total->wrong += answer.wrong != NULL;
  wrong_calls += answer.wrong != NULL;
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
  program->drop();
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
  printf("%s: %llu calls, each alone, %d wrong\n", program->name, wanted.calls, wrong);
  return wrong > 0;
}

int fuzz_main(int argc, char **argv, const struct fuzz_program *what) {
  static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM};
  const double begun = now();
  program = what;
  read_arguments(argc, argv);
  begin_repeat(argv[0]);
  for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) signal(deadly[i], on_signal);
  program->begin();
  const char *expected = getenv("TB_TEST_EXPECT");
  gpu_expected = !expected || strcmp(expected, "gpu") == 0;
  if (wanted.alone) return every_call_alone();
  make_calls(wanted.seed, wanted.calls, begun + wanted.seconds);
  tell_totals(now() - begun);
  return wrong_calls > 0 ? 1 : 0;
}
