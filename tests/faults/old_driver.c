/* SPDX-License-Identifier: BSD-3-Clause */
/* A libcuda.so.1 from before the functions that TileBLAS needs: it has the first two of them. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }

int cuDriverGetVersion(int *version) {
  *version = 5050;
  return 0;
}
