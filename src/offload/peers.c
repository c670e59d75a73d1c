/* SPDX-License-Identifier: BSD-3-Clause */
#include "offload/peers.h"

static CUresult enable(struct tb_peers *from, struct tb_device *device, int to, const struct tb_device *other) {
  int can = 0;
  TB_TRY(tb_cuda.cuDeviceCanAccessPeer(&can, device->handle, other->handle));
  if (!can) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  TB_TRY(tb_device_enter(device));
  CUresult enabled = tb_cuda.cuCtxEnablePeerAccess(other->context, 0);
  tb_device_leave();
  from->enabled[to] = enabled == CUDA_SUCCESS; /* else the program did before us, and it stays */
  return enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? CUDA_SUCCESS : enabled;
}

void tb_peers_connect(struct tb_peers *from, struct tb_device *device, int to, const struct tb_device *other) {
  if (!from->reaches[to]) from->reaches[to] = enable(from, device, to, other) == CUDA_SUCCESS;
}

void tb_peers_disconnect(struct tb_peers *from, struct tb_device *device, int to, const struct tb_device *other) {
  if (from->enabled[to] && tb_device_enter(device) == CUDA_SUCCESS) {
    tb_cuda.cuCtxDisablePeerAccess(other->context);
    tb_device_leave();
  }
  from->enabled[to] = from->reaches[to] = false;
}
