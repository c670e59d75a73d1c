/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "route/kept.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "process/background.h"
#include "process/libraries.h"

/* All that the thread needs is its own: the call may be over. */
struct kept_job {
  sem_t done;
  atomic_int state;
  bool writes, succeeded;
  struct tb_machine_key key; /* of copies */
  struct tb_calibration calibration;
  char folder[TB_CALIBRATION_PATH_MAX], path[TB_CALIBRATION_PATH_MAX];
};
enum { UNDER_WAY, FINISHED, LEFT_ALONE };

static atomic_bool dead; /* the file system did not answer in time */

static void destroy(struct kept_job *job) {
  sem_destroy(&job->done);
  free((char *)job->key.cpu);
  free((char *)job->key.blas);
  free((char *)job->key.gpu);
  free(job);
}

static void *kept_thread_main(void *opaque) {
  struct kept_job *job = opaque;
  job->succeeded = job->writes ? tb_calibration_write(job->folder, &job->key, &job->calibration, job->path)
                               : tb_calibration_read(job->folder, &job->key, &job->calibration);
  if (atomic_exchange(&job->state, FINISHED) == LEFT_ALONE)
    destroy(job);
  else
    sem_post(&job->done);
  return NULL;
}

static struct kept_job *create(const char *folder, const struct tb_machine_key *key) {
  struct kept_job *job = strlen(folder) < TB_CALIBRATION_PATH_MAX ? calloc(1, sizeof *job) : NULL;
  if (job == NULL) return NULL;
  sem_init(&job->done, 0, 0);
  strcpy(job->folder, folder);
  job->key = (struct tb_machine_key){strdup(key->cpu), strdup(key->blas), key->gpu != NULL ? strdup(key->gpu) : NULL,
                                     key->type};
  if (job->key.cpu != NULL && job->key.blas != NULL && (job->key.gpu != NULL || key->gpu == NULL)) return job;
  destroy(job);
  return NULL;
}

/* Whether it is finished in time. */
static bool wait_for(struct kept_job *job) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (long)(TB_KEPT_SECONDS * 1e9);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  int result;
  do result = sem_timedwait(&job->done, &until);
  while (result != 0 && errno == EINTR);
  return result == 0 || atomic_exchange(&job->state, LEFT_ALONE) == FINISHED;
}

/* False: it is the thread's from now on, or gone. */
static bool do_in_time(struct kept_job *job) {
  pthread_t thread;
  if (!tb_background_start_roomy(&thread, kept_thread_main, job)) {
    destroy(job);
    return false;
  }
  if (wait_for(job)) {
    pthread_join(thread, NULL);
    return true;
  }
  atomic_store(&dead, true);
  pthread_detach(thread);
  tb_library_stays(); /* to which the thread returns some day */
  return false;
}

bool tb_kept_read(const char *folder, const struct tb_machine_key *key, struct tb_calibration *calibration) {
  struct kept_job *job = atomic_load(&dead) ? NULL : create(folder, key);
  if (job == NULL || !do_in_time(job)) return false;
  const bool succeeded = job->succeeded;
  if (succeeded) *calibration = job->calibration;
  destroy(job);
  return succeeded;
}

bool tb_kept_write(const char *folder, const struct tb_machine_key *key, const struct tb_calibration *calibration,
                   char path[TB_CALIBRATION_PATH_MAX]) {
  struct kept_job *job = atomic_load(&dead) ? NULL : create(folder, key);
  if (job == NULL) return false;
  job->writes = true;
  job->calibration = *calibration;
  if (!do_in_time(job)) return false;
  const bool succeeded = job->succeeded;
  strcpy(path, job->path);
  destroy(job);
  return succeeded;
}
