/* SPDX-License-Identifier: BSD-3-Clause */
/* A library whose constructor calls back into the program, with the loader's lock in hand. */
#include "loaded.h"

__attribute__((constructor)) static void begin(void) { loaded_constructor(); }
