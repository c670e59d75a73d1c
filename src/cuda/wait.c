/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/wait.h"

#include <math.h>
#include <time.h>

#include "base/clock.h"
#include "base/options.h"
#include "process/busy.h"

/* Of its nominal speed, what a GPU has for a call at the least. */
#define LEAST_SHARE 0.02

/* Questions to the driver, some tenths of a microsecond each, between two looks at the clock and offers of the core:
 * more than a small call has. When a wait is so long that to wake late no longer counts, there is a pause in between.
 */
#define QUESTIONS 500
#define LONG_SECONDS 20e-3
#define PAUSE_NS 50000

double tb_wait_seconds(double flops, double peak_flops_per_s) {
  const int64_t timeout = tb_option_number(TB_OPTION_timeout);
  if (timeout == 0) return INFINITY;
  return (double)timeout + (peak_flops_per_s > 0 ? flops / (LEAST_SHARE * peak_flops_per_s) : 0);
}

CUresult tb_patience_try(struct tb_patience *patience) {
  const double now = tb_clock_seconds();
  if (patience->since == 0) patience->since = now;
  if (now - patience->since < patience->seconds) return CUDA_SUCCESS;
  tb_cuda_failed_call = "a wait for the GPU";
  return CUDA_ERROR_TIMEOUT;
}

CUresult tb_ask_event(CUevent event) {
  const CUresult result = tb_cuda.cuEventQuery(event);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) tb_cuda_failed_call = "cuEventQuery";
  return result;
}

/* CUDA_ERROR_NOT_READY: not yet. */
static CUresult ask_stream(CUstream stream) {
  for (int i = 0; i < QUESTIONS; i++) {
    const CUresult result = tb_cuda.cuStreamQuery(stream);
    if (result == CUDA_ERROR_NOT_READY) continue;
    if (result != CUDA_SUCCESS) tb_cuda_failed_call = "cuStreamQuery";
    return result;
  }
  return CUDA_ERROR_NOT_READY;
}

CUresult tb_wait_for_stream(CUstream stream, double seconds) {
  struct tb_patience patience = {.seconds = seconds};
  CUresult result;
  while ((result = ask_stream(stream)) == CUDA_ERROR_NOT_READY) {
    TB_TRY(tb_patience_try(&patience));
    if (tb_clock_seconds() - patience.since < LONG_SECONDS) {
      tb_busy_offer_core();
    } else if (isinf(seconds)) {
      TB_TRY(tb_cuda.cuStreamSynchronize(stream));
      return CUDA_SUCCESS;
    } else {
      nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
  }
  return result;
}
