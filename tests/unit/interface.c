/* SPDX-License-Identifier: BSD-3-Clause */
/* A library of which the name alone counts: one of NVIDIA's interfaces, for test_tracking.c. */
int tst_interface(void);
int tst_interface(void) { return 0; }
