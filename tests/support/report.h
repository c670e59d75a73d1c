/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the report that TILEBLAS_REPORT makes, as a user reads it. The text may hold reports of several processes:
 * sums. */
#ifndef TST_REPORT_H
#define TST_REPORT_H

/* What `report`, tileblas_report or its like, writes to a descriptor. The caller frees it. */
char *tst_report_read(void (*report)(int));

/* Calls in the rows of a route ("gpu", "cpu"), of one reason or, with NULL, of all. */
unsigned long long tst_report_calls(const char *text, const char *route, const char *why);

/* Calls through a symbol. */
unsigned long long tst_report_symbol(const char *text, const char *symbol);

#endif
