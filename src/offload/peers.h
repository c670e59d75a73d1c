/* SPDX-License-Identifier: BSD-3-Clause */
/* Which GPUs reach each other's memory directly: asked for when they are first to work together, and taken back when
 * one is closed. The caller is alone with the GPUs. */
#ifndef TB_PEERS_H
#define TB_PEERS_H

#include "cuda/allowed.h"
#include "pipeline/device.h"

/* Of one GPU: others' memory that it reaches, and that we let it reach. */
struct tb_peers {
  bool reaches[TB_GPUS_MAX], enabled[TB_GPUS_MAX];
};

/* Lets a GPU reach the memory of number `to`, if the machine can. */
void tb_peers_connect(struct tb_peers *from, struct tb_device *device, int to, const struct tb_device *other);

/* Takes back what was let. */
void tb_peers_disconnect(struct tb_peers *from, struct tb_device *device, int to, const struct tb_device *other);

#endif
