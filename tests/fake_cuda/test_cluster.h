/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fake driver's tests of clusters share, beside test_context.h: launches in clusters, and requests for tensor
 * maps. Helpers fail the test when the driver refuses what they need. One thread. */
#ifndef TEST_CLUSTER_H
#define TEST_CLUSTER_H

#include "test_context.h"

/* Blocks of a grid and of a cluster. */
struct shape {
  unsigned grid[3], cluster[3];
};

/* Clusters exist in code for 9.0 and later. */
CUfunction find_for_clusters(const char *name);
CUresult launch_clusters(CUfunction function, struct shape s, unsigned threads, unsigned shared_bytes,
                         void **parameters);
/* So many clusters of so many blocks, in a row. */
struct shape in_a_row(unsigned clusters, unsigned blocks);

enum { BOX = 64, COLUMNS = 60, STRIDE = 80, ROWS = 5 }; /* words; the map's last columns are not there */

/* What cuTensorMapEncodeTiled is given. */
struct map_request {
  size_t offset_bytes; /* of the map's own address */
  uintptr_t address;
  CUtensorMapDataType type;
  cuuint32_t dimensions;
  cuuint64_t size[6], strides[5];
  cuuint32_t box[6], steps[6];
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

/* Plain rows of words, and boxes of a row. */
struct map_request rows_at(CUdeviceptr address);
CUresult encode(const struct map_request *r, CUtensorMap *map);

#endif
