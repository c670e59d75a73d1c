/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

_Thread_local struct tb_thread tb_thread;
