/* SPDX-License-Identifier: BSD-3-Clause */
#include "spinners.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "data.h"

static pthread_t spinner[TB_SPINNERS_MAX];
static int spinners;
static bool offer;
static atomic_int spinning;
static atomic_bool over;

int tb_cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int tb_spinner_counts(int counts[4]) {
  const int cores = tb_cores(), all[] = {0, cores / 2, cores - 1, cores};
  int length = 0;
  for (int i = 0; i < 4; i++)
    if (length == 0 || all[i] > counts[length - 1]) counts[length++] = all[i];
  return length;
}

static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static void *spin(void *unused) {
  atomic_fetch_add(&spinning, 1);
  while (!atomic_load_explicit(&over, memory_order_relaxed))
    if (offer)
      sched_yield();
    else
      pause_briefly();
  return unused;
}

static void start_spinners(int count, bool offering) {
  offer = offering;
  atomic_store(&over, false);
  atomic_store(&spinning, 0);
  for (spinners = 0; spinners < count && spinners < TB_SPINNERS_MAX; spinners++)
    if (pthread_create(&spinner[spinners], NULL, spin, NULL) != 0) {
      perror("a spinning thread");
      exit(EXIT_FAILURE);
    }
  while (atomic_load(&spinning) < spinners) usleep(1000);
  usleep(spinners > 0 ? 50000 : 0); /* until they are spread */
}

static double own_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time that each of them has had on average. */
static double spinners_seconds(void) {
  double sum = 0;
  for (int i = 0; i < spinners; i++) {
    clockid_t clock;
    struct timespec t;
    if (pthread_getcpuclockid(spinner[i], &clock) != 0 || clock_gettime(clock, &t) != 0) continue;
    sum += (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  }
  return spinners > 0 ? sum / spinners : 0;
}

static void stop_spinners(void) {
  atomic_store(&over, true);
  for (int i = 0; i < spinners; i++) pthread_join(spinner[i], NULL);
  spinners = 0;
}

static void work_for(double seconds) {
  for (const double begun = tb_now_s(); tb_now_s() - begun < seconds;) pause_briefly();
}

void tb_among_measure(struct tb_among *among) {
  static double took[TB_ROUNDS_MAX];
  const int rounds = among->rounds;
  start_spinners(among->spinners, among->offering);
  for (int round = 0; round < 10 && round < rounds; round++) among->round_seconds(among->ctx);
  const double begun = tb_now_s(), had = spinners_seconds();
  among->mean_s = among->callers_s = 0;
  for (int round = 0; round < rounds; round++) {
    work_for(among->between_s);
    const double own = own_seconds();
    took[round] = among->round_seconds(among->ctx);
    among->callers_s += (own_seconds() - own) / rounds;
    among->mean_s += took[round] / rounds;
  }
  among->theirs = (spinners_seconds() - had) / (tb_now_s() - begun);
  stop_spinners();
  among->median_s = tb_median(took, rounds); /* and they are sorted now */
  among->late_s = took[rounds * 9 / 10];
  among->worst_s = took[rounds - 1];
}

void tb_among_print(const struct tb_among *a, double quiet_s, FILE *csv) {
  printf("%3d spinning%s: median %8.3f ms, mean %8.3f, 90 %% %8.3f, worst %8.3f; %5.2f of quiet; theirs %.2f; "
         "the caller's own %.3f ms\n",
         a->spinners, a->offering ? ", offering" : "", a->median_s * 1e3, a->mean_s * 1e3, a->late_s * 1e3,
         a->worst_s * 1e3, a->median_s / quiet_s, a->theirs, a->callers_s * 1e3);
  if (csv)
    fprintf(csv, "%d,%d,%.6f,%.6f,%.6f,%.6f,%.3f,%.6f\n", a->spinners, a->offering, a->median_s, a->mean_s, a->late_s,
            a->worst_s, a->theirs, a->callers_s);
}
