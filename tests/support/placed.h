/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operands in memory that CUDA gives, as a program with CUDA code of its own would have them: through libcuda.so.1
 * itself, the fake or a real one, in a primary context. A test's matrices are copied there, and what a call left there
 * comes back to be verified. Not thread safe.
 */
#ifndef TST_PLACED_H
#define TST_PLACED_H

#include "product.h"

enum tst_kind { TST_PAGEABLE, TST_PINNED, TST_MANAGED, TST_DEVICE, TST_KINDS };

/* Loads the driver and makes the primary context of a device current in this thread. Ends the program on failure. */
void tst_cuda_begin(int device);
/* Gives that context back. */
void tst_cuda_end(int device);

/* The same, and behind it a context of the program's own on that device: what is allocated then belongs there. The end
 * of it comes before tst_cuda_end. */
void tst_cuda_begin_own(int device);
void tst_cuda_end_own(int device);

/* Memory of a kind, and its end; not for TST_PAGEABLE. */
void *tst_cuda_allocate(enum tst_kind kind, size_t bytes);
void tst_cuda_free(enum tst_kind kind, void *memory);

/* Pins whole memory of the program's own, and lets it go again. */
void tst_cuda_register(void *memory, size_t bytes);
void tst_cuda_unregister(void *memory);

/* To and from memory of any kind; what is the host's, too, is copied by the host. */
void tst_cuda_write(enum tst_kind kind, void *to, const void *from, size_t bytes);
/* To device memory, by what the program has enqueued in the default stream and nobody has waited for. Returns device
 * memory that is to be freed when somebody has. */
void *tst_cuda_write_later(void *to, const void *from, size_t bytes);
/* False: CUDA cannot. */
bool tst_cuda_read(enum tst_kind kind, void *to, const void *from, size_t bytes);

/* Begins both devices, and lets the first reach the other's memory, as a program does that has its own use for it. */
void tst_cuda_enable_peer(int device, int peer);

struct tst_placed {
  struct tst_matrix *matrix; /* with TST_PAGEABLE the operand itself, else what it is filled from and read back to */
  enum tst_kind kind;
  void *memory; /* the allocation, exactly as large as `lead` and the matrix take together */
  float *data;  /* what to pass to the BLAS; not at the start of the allocation */
  size_t bytes; /* of the matrix, padding between its lines included */
};

/* Puts a copy of the matrix into memory of that kind; `lead` floats of canary stand before it. */
void tst_place(struct tst_placed *placed, struct tst_matrix *matrix, enum tst_kind kind, int64_t lead);

/* Copies it back into the matrix and frees the memory. Returns false, and leaves the matrix, when CUDA cannot. */
bool tst_take_back(struct tst_placed *placed);

/* Whether any canary before the matrix was overwritten. */
bool tst_lead_is_intact(const struct tst_placed *placed);

#endif
