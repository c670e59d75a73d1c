/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that uses us, for a program that loads and unloads it. */
#include <stdbool.h>

#include "guest.h"

bool stress_user_product(int n);

bool stress_user_product(int n) { return tst_guest_product(n); }
