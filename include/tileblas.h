/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TileBLAS: GPU answers for programs that know only the CPU BLAS.
 *
 * A program needs nothing from this header. It links TileBLAS, or is started with LD_PRELOAD=libtileblas.so.0, and goes
 * on calling its BLAS: cblas_sgemm or ztrsm_, say (declared in OpenBLAS's cblas.h). Calls of level 3 that a GPU
 * finishes sooner are computed there, and all others by the CPU BLAS that would have answered without TileBLAS.
 *
 * What is here lets a program look and steer:
 *   1. version and options    tileblas_version, tileblas_option_set, tileblas_option_get
 *   2. what happened          tileblas_stats_get, tileblas_stats_reset, tileblas_report
 *   3. what stays on the GPU  tileblas_keep, tileblas_forget
 *
 * Every function may be called from any thread, at any time, and never ends the process. Options set here count from
 * the next call on; a program's own setting wins over the environment.
 */
#ifndef TILEBLAS_H
#define TILEBLAS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TILEBLAS_API __attribute__((visibility("default")))
#else
#define TILEBLAS_API
#endif

/*
 * The version of this header. A program compares with TILEBLAS_MAKE_VERSION: #if TILEBLAS_VERSION >=
 * TILEBLAS_MAKE_VERSION(0, 2, 0). docs/abi.md says what a change of each number means.
 */
#define TILEBLAS_VERSION_MAJOR 0
#define TILEBLAS_VERSION_MINOR 2
#define TILEBLAS_VERSION_PATCH 0
#define TILEBLAS_MAKE_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define TILEBLAS_VERSION TILEBLAS_MAKE_VERSION(TILEBLAS_VERSION_MAJOR, TILEBLAS_VERSION_MINOR, TILEBLAS_VERSION_PATCH)
#define TILEBLAS_VERSION_STRING         \
  TILEBLAS_TEXT(TILEBLAS_VERSION_MAJOR) \
  "." TILEBLAS_TEXT(TILEBLAS_VERSION_MINOR) "." TILEBLAS_TEXT(TILEBLAS_VERSION_PATCH)
#define TILEBLAS_TEXT(number) TILEBLAS_TEXT_OF(number)
#define TILEBLAS_TEXT_OF(text) #text

/* Version of the library as "major.minor.patch". The text lives as long as the library is loaded. */
TILEBLAS_API const char *tileblas_version(void);

/*
 * Sets an option as the environment would: name is the variable's, for instance "TILEBLAS_ROUTE", value its text.
 * Returns 0, or -1 when there is no such option or the value is not one of it (then nothing changes and nothing is
 * printed). Note 1: TILEBLAS_FALLBACK, TILEBLAS_DEVICES and TILEBLAS_CALIBRATION take effect only before the library
 * first looks for a CPU BLAS or a GPU. Of TILEBLAS_IDLE the first value above 0 counts with which a GPU was used.
 */
TILEBLAS_API int tileblas_option_set(const char *name, const char *value);

/*
 * Writes an option's current value as text, with its terminating zero, into buffer[0 .. size).
 * Returns 0, or -1 when there is no such option or the buffer is too small (then the buffer is untouched).
 */
TILEBLAS_API int tileblas_option_get(const char *name, char *buffer, uint64_t size);

/*
 * Sums over the calls since the library was loaded, or since tileblas_stats_reset or a fork. Later versions add fields
 * at the end.
 */
typedef struct tileblas_stats {
  uint64_t gpu_calls;    /* answered by a GPU, wholly or with the CPU's help after a failure */
  uint64_t cpu_calls;    /* answered by the CPU BLAS, calls that it refuses included */
  uint64_t gpu_failures; /* calls during which a GPU failed; the answers are right nevertheless */
  double gpu_flops;      /* floating-point operations: 2 for each term of an element that is computed, of complex
                            types 8; so of gemm 2 m n k, of syrk n (n + 1) k */
  double cpu_flops;
  double gpu_bytes; /* bytes moved over the link, both ways */
  double gpu_seconds;
  double cpu_seconds; /* of the calls that were timed: small ones, and seven of eight short ones in a row that are
                         clearly the CPU's, are only when TILEBLAS_REPORT or TILEBLAS_VERBOSE is set */
} tileblas_stats;

/*
 * Copies the sums into *stats. A call that is under way in another thread is in it or not.
 * Note 2: a library may be newer or older than the header that a program was compiled with. So the caller's size goes
 * along, by a macro: fields that the library does not know are zero, and nothing is written behind the caller's struct.
 * The function of this name, which a function pointer or dlsym finds, fills the eight fields of version 0.1.
 */
TILEBLAS_API void tileblas_stats_get(tileblas_stats *stats);
#define tileblas_stats_get(stats) ((void)tileblas_stats_get_sized((stats), sizeof(tileblas_stats)))

/*
 * The same with the struct's size in bytes. Writes stats[0 .. size) and returns the size of the library's own struct: a
 * field that ends behind that is not known to it.
 */
TILEBLAS_API uint64_t tileblas_stats_get_sized(tileblas_stats *stats, uint64_t size);

/* Sets every sum to zero. */
TILEBLAS_API void tileblas_stats_reset(void);

/* Writes the report that TILEBLAS_REPORT prints at exit to a file descriptor, now. */
TILEBLAS_API void tileblas_report(int fd);

/*
 * Says that matrices in [address, address + bytes) come back in many products: weights, a data base. TileBLAS finds out
 * by itself, a few calls later; who knows need not wait for that. A copy of such an operand is made on the GPU in the
 * first product that goes there; products of a few rows, which without it are the CPU's, go there at once; the copy
 * makes way for no other, and stays through seconds without calls. It goes where a product has no room otherwise. One
 * that was rewritten before its copy was used twice waits for the next copy, each time twice as long.
 * Nothing is promised: that the matrix still has the same bytes is proven in each call, by all of them where the kernel
 * cannot watch. What is kept, and TILEBLAS_CACHE, which rules this too, are in docs/residency.md.
 * Returns 0, or -1 for no bytes, for an end behind that of all addresses, and for more than 4096 ranges apart from each
 * other.
 */
TILEBLAS_API int tileblas_keep(const void *address, uint64_t bytes);

/*
 * Takes the choice back, for all of that memory or a part of it, and gives back what the GPU keeps of it, whoever chose
 * that. Waits for calls that are under way; in a callback of a CUDA stream, which they may wait for, nothing is given
 * back. Good before a matrix is rewritten again and again, or freed; not needed for a right result. Returns as above.
 */
TILEBLAS_API int tileblas_forget(const void *address, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
