/* SPDX-License-Identifier: BSD-3-Clause */
/* The same kernels, compiled so that they tell the race detector (races.cpp) of each access. Constant data. */
#include "kernels_on_cpu.cpp"
