/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVIDIA's runtime and cuBLAS for the peer measurements, loaded at run time: nothing here is linked, and no header of
 * theirs is needed. Prototypes and numbers are those of CUDA 12 and 13 (cuda_runtime_api.h, cublas_api.h, cublasXt.h).
 *
 * A missing library means "peer missing" (status 77); anything that fails afterwards is fatal (status 1).
 * Not thread-safe.
 */
#ifndef TB_BENCH_NVIDIA_H
#define TB_BENCH_NVIDIA_H

#include <stdbool.h>
#include <stddef.h>

#include "../problem.h"

enum { TB_PEER_MISSING = 77 };
enum { TB_HOST_TO_DEVICE = 1, TB_DEVICE_TO_HOST = 2 };                /* cudaMemcpyKind */
enum { TB_OP_N = 0, TB_OP_T = 1 };                                    /* cublasOperation_t */
enum { TB_MATH_DEFAULT = 0, TB_MATH_PEDANTIC = 2, TB_MATH_TF32 = 3 }; /* cublasMath_t */

typedef struct cublasContext *tb_cublas_handle;
typedef struct cublasXtContext *tb_cublasxt_handle;

/* The products of all types: handle, transposes, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc. */
#define TB_NVIDIA_GEMM                                                                                          \
  (tb_cublas_handle, int, int, int, int, int, const void *, const void *, int, const void *, int, const void *, \
   void *, int)
#define TB_NVIDIA_XT_GEMM                                                                                          \
  (tb_cublasxt_handle, int, int, size_t, size_t, size_t, const void *, const void *, size_t, const void *, size_t, \
   const void *, void *, size_t)

/* TB_NVIDIA(library, name, parameters): every function used; all return a status, 0 for success. */
#define TB_NVIDIA_FUNCTIONS(TB_NVIDIA)                                                                                \
  TB_NVIDIA(cudart, cudaMalloc, (void **, size_t))                                                                    \
  TB_NVIDIA(cudart, cudaFree, (void *))                                                                               \
  TB_NVIDIA(cudart, cudaMallocHost, (void **, size_t))                                                                \
  TB_NVIDIA(cudart, cudaFreeHost, (void *))                                                                           \
  TB_NVIDIA(cudart, cudaMemcpy, (void *, const void *, size_t, int))                                                  \
  TB_NVIDIA(cudart, cudaMemcpyAsync, (void *, const void *, size_t, int, void *))                                     \
  TB_NVIDIA(cudart, cudaStreamCreate, (void **))                                                                      \
  TB_NVIDIA(cudart, cudaStreamSynchronize, (void *))                                                                  \
  TB_NVIDIA(cudart, cudaStreamDestroy, (void *))                                                                      \
  TB_NVIDIA(cudart, cudaDeviceSynchronize, (void))                                                                    \
  TB_NVIDIA(cublas, cublasCreate_v2, (tb_cublas_handle *))                                                            \
  TB_NVIDIA(cublas, cublasDestroy_v2, (tb_cublas_handle))                                                             \
  TB_NVIDIA(cublas, cublasGetVersion_v2, (tb_cublas_handle, int *))                                                   \
  TB_NVIDIA(cublas, cublasSetStream_v2, (tb_cublas_handle, void *))                                                   \
  TB_NVIDIA(cublas, cublasSetMathMode, (tb_cublas_handle, int))                                                       \
  TB_NVIDIA(cublas, cublasSgemm_v2, TB_NVIDIA_GEMM)                                                                   \
  TB_NVIDIA(cublas, cublasDgemm_v2, TB_NVIDIA_GEMM)                                                                   \
  TB_NVIDIA(cublas, cublasCgemm_v2, TB_NVIDIA_GEMM)                                                                   \
  TB_NVIDIA(cublas, cublasZgemm_v2, TB_NVIDIA_GEMM)                                                                   \
  TB_NVIDIA(cublas, cublasCgemm3m, TB_NVIDIA_GEMM)                                                                    \
  TB_NVIDIA(cublas, cublasZgemm3m, TB_NVIDIA_GEMM)                                                                    \
  TB_NVIDIA(cublas, cublasGemmEx,                                                                                     \
            (tb_cublas_handle, int, int, int, int, int, const void *, const void *, int, int, const void *, int, int, \
             const void *, void *, int, int, int, int))                                                               \
  TB_NVIDIA(cublas, cublasXtCreate, (tb_cublasxt_handle *))                                                           \
  TB_NVIDIA(cublas, cublasXtDestroy, (tb_cublasxt_handle))                                                            \
  TB_NVIDIA(cublas, cublasXtDeviceSelect, (tb_cublasxt_handle, int, int *))                                           \
  TB_NVIDIA(cublas, cublasXtSetBlockDim, (tb_cublasxt_handle, int))                                                   \
  TB_NVIDIA(cublas, cublasXtSetPinningMemMode, (tb_cublasxt_handle, int))                                             \
  TB_NVIDIA(cublas, cublasXtSgemm, TB_NVIDIA_XT_GEMM)                                                                 \
  TB_NVIDIA(cublas, cublasXtDgemm, TB_NVIDIA_XT_GEMM)                                                                 \
  TB_NVIDIA(cublas, cublasXtCgemm, TB_NVIDIA_XT_GEMM)                                                                 \
  TB_NVIDIA(cublas, cublasXtZgemm, TB_NVIDIA_XT_GEMM)

struct tb_nvidia_functions {
#define TB_NVIDIA(library, name, parameters) int(*name) parameters;
  TB_NVIDIA_FUNCTIONS(TB_NVIDIA)
#undef TB_NVIDIA
};
extern struct tb_nvidia_functions tb_nvidia;

/* Loads both libraries by their names for CUDA 13 and 12; returns 0 after "peer missing: ..." on stderr. */
int tb_nvidia_load(void);

/* A function of cuBLAS that is not among these; NULL: it has none of that name. The libraries are loaded. */
void *tb_nvidia_cublas_symbol(const char *name);

/* C = op(A) op(B) by the type's function, or by the one of three real products that complex types have. */
struct tb_nvidia_product {
  enum tb_type type;
  bool by_three;
  int ta, tb, m, n, k; /* TB_OP_N or TB_OP_T */
  const void *a, *b;   /* on the GPU; for cuBLASXt on the host */
  void *c;
  int lda, ldb, ldc;
};
/* A problem's, with its matrices there. */
struct tb_nvidia_product tb_nvidia_product_of(const struct tb_problem *problem, const void *a, const void *b, void *c);

int tb_nvidia_gemm(tb_cublas_handle handle, const struct tb_nvidia_product *product);
int tb_nvidia_xt_gemm(tb_cublasxt_handle handle, const struct tb_nvidia_product *product);

/* TB_NV(cudaMalloc(...)): calls it; on an error tells the call, the place and the status, and exits with 1. */
#define TB_NV(call) tb_nvidia_check(tb_nvidia.call, #call, __FILE__, __LINE__)
/* The same of a function above. */
#define TB_NV_GEMM(call) tb_nvidia_check(call, #call, __FILE__, __LINE__)
void tb_nvidia_check(int status, const char *call, const char *file, int line);

#endif
