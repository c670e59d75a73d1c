/* SPDX-License-Identifier: BSD-3-Clause */
#include "ending.h"

#include <semaphore.h>
#include <stdlib.h>

/* The C library's, which runs what belongs to no library when the process ends alone. */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *library);

/* Posted when the process ends. On the heap, and posted by a function of the C library's, for by then this library may
 * be gone. */
static sem_t *ends;

bool tb_process_is_ending(void) {
  int posted = 1;
  return ends == NULL || (sem_getvalue(ends, &posted) == 0 && posted > 0);
}

void tb_process_watch(void) {
  sem_t *const end = malloc(sizeof *end);
  if (end == NULL) return;
  sem_init(end, 0, 0);
  if (__cxa_atexit((void (*)(void *))(void (*)(void))sem_post, end, NULL) == 0)
    ends = end;
  else
    free(end);
}
