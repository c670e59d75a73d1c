/* SPDX-License-Identifier: BSD-3-Clause */
/* Between test_loader.c and the library that it loads. */
#ifndef GUEST_LOADED_H
#define GUEST_LOADED_H

/* The program's, called by the library's constructor. */
void loaded_constructor(void);

#endif
