/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands on the GPU: whole calls by the clock of the wall, from the call until its result is there; cuBLAS's call
 * with a wait for its stream. The operands are the same in each round; where B is overwritten it is copied anew,
 * outside the time. See level3.h.
 */
#include "gpu.h"
#include "level3.h"
#include "peers/cublas_level3.h"
#include "sides.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_US = 150000, LEAST_ROUNDS = 3, MOST_ROUNDS = 51 }; /* the pause: kernels.c says why */
enum by { BY_OURS, BY_CUBLAS, BY_CUBLAS_IN_PLACE, BY_COUNT };

struct session {
  const struct tb_level3_options *o;
  struct tb_gpu gpu;
  tb_cublas_handle cublas; /* NULL: peer missing */
  struct tb_level3 x;      /* with the host's memory */
  bool plain;              /* A and B are the uniform ones of every routine but trsm */
  CUdeviceptr a, b, c;
  double gemm_tflops; /* ours, of the size at hand */
  uint64_t calls;     /* of ours */
};

struct measured {
  double ms, error_u; /* 0: not measured */
};

/* ---- one call ---- */

static size_t element_bytes(const struct session *s) { return (size_t)tb_type_bytes(s->x.type); }
static size_t c_bytes(const struct session *s) { return (size_t)s->x.m * (size_t)s->x.n * element_bytes(s); }

static void copy_b_to_c(const struct session *s) {
  const size_t column = (size_t)s->x.m * element_bytes(s);
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = s->b,
                              .srcPitch = column,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = s->c,
                              .dstPitch = column,
                              .WidthInBytes = column,
                              .Height = (size_t)s->x.n};
  TB_GPU(cuMemcpy2DAsync(&copy, s->gpu.stream));
}

static double call_seconds(struct session *s, enum by by, bool first) {
  void *const a = (void *)s->a, *const b = (void *)s->b, *const c = (void *)s->c;
  if (tb_level3_in_place(&s->x) && by != BY_CUBLAS)
    copy_b_to_c(s);
  else if (first)
    TB_GPU(cuMemsetD8Async(s->c, 0xff, c_bytes(s), s->gpu.stream)); /* NaN */
  TB_GPU(cuStreamSynchronize(s->gpu.stream));
  tb_level3_function *const ours = tb_level3_find(RTLD_DEFAULT, &s->x);
  const double begun = tb_now_s();
  if (by == BY_OURS) {
    tb_level3_call(&s->x, ours, a, b, c);
    s->calls++;
  } else {
    TB_NV_GEMM(tb_nvidia_level3(s->cublas, &s->x, a, b, c, by == BY_CUBLAS_IN_PLACE));
    TB_GPU(cuStreamSynchronize(s->gpu.stream));
  }
  return tb_now_s() - begun;
}

/* The first call is checked, and not timed. */
static struct measured measure(struct session *s, enum by by) {
  double seconds[MOST_ROUNDS];
  const struct tb_level3_options *o = s->o;
  const int least = o->rounds > 0 ? o->rounds : LEAST_ROUNDS, most = o->rounds > 0 ? o->rounds : MOST_ROUNDS;
  call_seconds(s, by, true);
  tb_gpu_download(&s->gpu, s->x.c, s->c, c_bytes(s));
  const double error_u = tb_level3_error(&s->x).max_u;
  if (s->cublas != NULL) usleep(PAUSE_US);
  int rounds = 0;
  for (const double end = tb_now_s() + o->budget_s; rounds < least || (rounds < most && tb_now_s() < end); rounds++)
    seconds[rounds] = call_seconds(s, by, false);
  return (struct measured){1e3 * tb_median(seconds, rounds), error_u};
}

/* The better of cuBLAS's two modes for fp32; of doubles its default. */
static struct measured measure_cublas(struct session *s, enum by by) {
  static const int modes[] = {TB_MATH_DEFAULT, TB_MATH_PEDANTIC};
  struct measured best = {0, 0};
  for (int i = 0; i < (tb_type_is_double(s->x.type) ? 1 : 2); i++) {
    TB_NV(cublasSetMathMode(s->cublas, modes[i]));
    const struct measured found = measure(s, by);
    if (best.ms == 0 || found.ms < best.ms) best = found;
  }
  return best;
}

/* ---- one routine ---- */

static void upload(struct session *s) {
  const bool dominated = s->x.routine->form == TB_FORM_TRSM;
  if (!s->plain || dominated) tb_level3_fill(&s->x, TB_UNIFORM, 0);
  if (s->plain && !dominated) return;
  tb_gpu_upload(&s->gpu, s->a, s->x.a, tb_extent_elems(tb_level3_a(&s->x)) * element_bytes(s));
  tb_gpu_upload(&s->gpu, s->b, s->x.b, tb_extent_elems(tb_level3_b(&s->x)) * element_bytes(s));
  s->plain = !dominated && s->x.m == s->x.n && s->x.m == s->x.k && tb_extent_elems(tb_level3_b(&s->x)) > 0;
}

static double tflops(const struct session *s, double ms) { return 1e-9 * tb_level3_flops(&s->x) / ms; }

static void print_row(const struct session *s, const struct measured *by) {
  const struct tb_level3 *const x = &s->x;
  const double ms = by[BY_OURS].ms, other = by[BY_CUBLAS_IN_PLACE].ms;
  const double cublas = other > 0 && (by[BY_CUBLAS].ms == 0 || other < by[BY_CUBLAS].ms) ? other : by[BY_CUBLAS].ms;
  const int order = x->right ? x->n : x->m, sides = x->right ? x->m : tb_level3_region(x) == TB_WHOLE ? x->n : x->k;
  const char variant[] = {"LR"[x->right], "LU"[x->upper], x -> trans, "NU"[x->unit], '\0'};
  const double of_gemm = s->gemm_tflops > 0 ? tflops(s, ms) / s->gemm_tflops : 1;
  printf("%c%-5s %s %6d x %6d  %10.3f ms %8.2f TFLOP/s  of gemm %.3f  error %8.2f u", tb_type_letter(x->type),
         x->routine->name, variant, order, sides, ms, tflops(s, ms), of_gemm, by[BY_OURS].error_u);
  if (cublas > 0)
    printf("  cuBLAS %10.3f ms %8.2f TFLOP/s  error %8.2f u  ratio %.3f", cublas, tflops(s, cublas),
           fmax(by[BY_CUBLAS].error_u, by[BY_CUBLAS_IN_PLACE].error_u), cublas / ms);
  printf("\n");
  fflush(stdout);
  if (s->o->csv == NULL) return;
  fprintf(s->o->csv, "%c,%s,%s,%d,%d,%.6g,%.6g,%.4f,%.3f,", tb_type_letter(x->type), x->routine->name, variant, order,
          sides, ms, tflops(s, ms), of_gemm, by[BY_OURS].error_u);
  if (cublas > 0)
    fprintf(s->o->csv, "%.6g,%.6g,%.3f,%.4f,", cublas, tflops(s, cublas),
            fmax(by[BY_CUBLAS].error_u, by[BY_CUBLAS_IN_PLACE].error_u), cublas / ms);
  else
    fprintf(s->o->csv, ",,,,");
  if (other > 0) fprintf(s->o->csv, "%.6g", other);
  fprintf(s->o->csv, "\n");
  fflush(s->o->csv);
}

/* cuBLAS's trsm is in place, and its trmm may be; it counts by the faster way. */
static bool measure_routine(struct session *s, const struct tb_level3_routine *routine, int order, int sides) {
  const struct tb_level3 memory = s->x;
  struct measured by[BY_COUNT] = {{0, 0}};
  s->x = tb_level3_make(routine, memory.type, s->o->variant, order, sides);
  s->x.a = memory.a, s->x.b = memory.b, s->x.c = memory.c;
  upload(s);
  if (s->cublas != NULL && routine->form != TB_FORM_TRSM) by[BY_CUBLAS] = measure_cublas(s, BY_CUBLAS);
  if (s->cublas != NULL && tb_level3_in_place(&s->x)) by[BY_CUBLAS_IN_PLACE] = measure_cublas(s, BY_CUBLAS_IN_PLACE);
  by[BY_OURS] = measure(s, BY_OURS);
  if (routine->form == TB_FORM_GEMM) s->gemm_tflops = tflops(s, by[BY_OURS].ms);
  if (by[BY_OURS].error_u <= tb_level3_bound_u(&s->x)) return print_row(s, by), true;
  fprintf(stderr, "WRONG RESULT: %c%s: error %g u, a right one has at most %g\n", tb_type_letter(s->x.type),
          routine->name, by[BY_OURS].error_u, tb_level3_bound_u(&s->x));
  return false;
}

static bool measure_size(struct session *s, enum tb_type type, int order, int sides) {
  bool all_right = true;
  const size_t bytes = (size_t)order * (size_t)(order > sides ? order : sides) * (size_t)tb_type_bytes(type);
  s->x.type = type, s->plain = false, s->gemm_tflops = 0;
  tb_level3_alloc(&s->x, type, order, sides);
  s->a = tb_gpu_alloc(bytes), s->b = tb_gpu_alloc(bytes), s->c = tb_gpu_alloc(bytes);
  for (int i = 0; i < TB_LEVEL3_ROUTINES; i++) {
    const struct tb_level3_routine *const routine = &tb_level3_routines[i];
    if (routine->form == TB_FORM_GEMM || tb_level3_wants(s->o, routine, type))
      all_right &= measure_routine(s, routine, order, sides);
  }
  tb_gpu_free(s->a), tb_gpu_free(s->b), tb_gpu_free(s->c);
  tb_level3_free(&s->x);
  return all_right;
}

bool tb_level3_resident(const struct tb_level3_options *o) {
  struct session s = {.o = o, .gpu = tb_gpu_open(0)};
  bool all_right = true;
  tb_sides_find(TB_S);
  if (o->peers && tb_nvidia_load()) {
    TB_NV(cublasCreate_v2(&s.cublas));
    TB_NV(cublasSetStream_v2(s.cublas, s.gpu.stream));
  }
  if (!o->peers) fprintf(stderr, "peer missing: cuBLAS, by --peers none\n");
  printf("%s, %d SMs\n", s.gpu.name, s.gpu.sm_count);
  if (o->csv != NULL && o->fresh_csv)
    fputs("type,routine,variant,n,sides,ms,tflops,of_gemm,max_err_u,cublas_ms,cublas_tflops,cublas_max_err_u,"
          "over_cublas,cublas_in_place_ms\n",
          o->csv);
  for (const char *letter = o->types; *letter != '\0'; letter++) {
    const enum tb_type type = (enum tb_type)(strchr("sdcz", *letter) - "sdcz");
    for (int i = 0; i < o->sizes; i++)
      all_right &= measure_size(&s, type, o->size[i], o->sides > 0 ? o->sides : o->size[i]);
  }
  if (s.calls != tb_sides_gpu_calls()) {
    fprintf(stderr, "of %llu calls the GPU computed %llu\n", (unsigned long long)s.calls,
            (unsigned long long)tb_sides_gpu_calls());
    all_right = false;
  }
  if (s.cublas != NULL) TB_NV(cublasDestroy_v2(s.cublas));
  tb_gpu_close(&s.gpu);
  return all_right;
}
