#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What OpenCL writes to an operand in the program's memory goes into the next product, though no page of it takes a fault.

    tests/gpu/opencl_writes.py libtileblas.so.0

An operand is used until it stays on the GPU; then a buffer of OpenCL's has its memory (CL_MEM_USE_HOST_PTR), in which a GPU writes
before each further product. Status 0: each is of what was written last; 1: not, or nothing stayed; 77: there is no GPU, or no OpenCL
for it. Python's standard library only.

Seen to fail when: nobody looks for OpenCL's library (a5f10ad: all products but the first are of what was there before).
"""

import ctypes
import mmap
import os
import re
import struct
import subprocess
import sys

SKIPPED = 77
COLUMN_MAJOR, NO_TRANSPOSE = 102, 111
N = 2048  # A has 16 MiB; whole numbers, so that sums are exact
BYTES = 4 * N * N
CALLS_UNTIL_KEPT, WRITES, CALLS_BETWEEN = 8, 6, 5
GPU, READ_WRITE, USE_HOST_PTR, MAP_READ, BLOCKING = 4, 1, 8, 1, 1  # of CL/cl.h


class OpenCL:
    """A buffer that is the program's memory."""

    def __init__(self, address):
        self.cl = ctypes.CDLL("libOpenCL.so.1")
        p, failed = ctypes.c_void_p, ctypes.c_int(0)
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clEnqueueMapBuffer"):
            getattr(self.cl, name).restype = p
        platform, device, found = p(), p(), ctypes.c_uint(0)
        self.there = (self.cl.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(found)) == 0 and found.value > 0
                      and self.cl.clGetDeviceIDs(platform, ctypes.c_ulong(GPU), 1, ctypes.byref(device), None) == 0)
        if not self.there:
            return
        context = p(self.cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(failed)))
        self.queue = p(self.cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), ctypes.byref(failed)))
        self.buffer = p(self.cl.clCreateBuffer(context, ctypes.c_ulong(READ_WRITE | USE_HOST_PTR), ctypes.c_size_t(BYTES),
                                               p(address), ctypes.byref(failed)))
        self.address = address
        self.there = failed.value == 0

    def fill(self, value):
        """By the GPU; in the program's memory when this returns."""
        pattern, failed, nothing = ctypes.c_float(value), ctypes.c_int(0), ctypes.c_size_t(0)
        failures = self.cl.clEnqueueFillBuffer(self.queue, self.buffer, ctypes.byref(pattern), ctypes.c_size_t(4), nothing,
                                               ctypes.c_size_t(BYTES), 0, None, None)
        mapped = self.cl.clEnqueueMapBuffer(self.queue, self.buffer, BLOCKING, ctypes.c_ulong(MAP_READ), nothing, ctypes.c_size_t(BYTES),
                                            0, None, None, ctypes.byref(failed))
        failures |= failed.value | self.cl.clFinish(self.queue)
        if failures != 0 or mapped != self.address:
            sys.exit(f"FAILED: OpenCL's {failures}, the buffer is not in the program's memory, or cannot be filled")

    def give_back(self):
        self.cl.clEnqueueUnmapMemObject(self.queue, self.buffer, ctypes.c_void_p(self.address), 0, None, None)
        self.cl.clFinish(self.queue)


def operand(value):
    """A square matrix in anonymous memory of its own, and its address."""
    memory = mmap.mmap(-1, BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = struct.pack("f", value) * (N * N)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def compute(library):
    i, p, real = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
    gemm = ctypes.CDLL(library).cblas_sgemm
    gemm.argtypes, gemm.restype = [i, i, i, i, i, i, real, p, i, p, i, real, p, i], None
    (a, a_at), (b, b_at), (c, c_at) = operand(1), operand(1), operand(0)

    def multiply():
        gemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, N, N, N, 1, a_at, N, b_at, N, 0, c_at, N)
        return struct.unpack("f", c[4 * N:4 * N + 4])[0]

    for _ in range(CALLS_UNTIL_KEPT):
        multiply()
    opencl = OpenCL(a_at)
    if not opencl.there:
        return SKIPPED
    wrong = 0
    for value in range(2, 2 + WRITES):
        opencl.fill(value)
        found = multiply()
        seen = struct.unpack("f", a[:4])[0]
        wrong += seen != value or found != N * value
        print(f"OpenCL wrote {value}, the program reads {seen:g}, the product is of {found / N:g}", flush=True)
        opencl.give_back()
        for _ in range(CALLS_BETWEEN):
            multiply()
    b.flush()  # it has to be there until now
    return 1 if wrong else 0


def main(library):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TILEBLAS_")}
    env.update(TILEBLAS_ROUTE="gpu", TILEBLAS_OPEN="always", TILEBLAS_VERBOSE="1", TILEBLAS_SHARE="never")
    env.update(OCL_ICD_FILENAMES="libnvidia-opencl.so.1", OCL_ICD_VENDORS="libnvidia-opencl.so.1")
    for needed in ("libnvidia-opencl.so.1", "libOpenCL.so.1"):
        if subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{needed}')"], stderr=subprocess.DEVNULL, check=False).returncode:
            print(f"skipped: no {needed}")
            return SKIPPED
    child = subprocess.run([sys.executable, __file__, "--compute", library], env=env, capture_output=True, text=True, check=False)
    print(child.stdout, end="")
    if child.returncode == SKIPPED or not re.search("-> gpu", child.stderr):
        print("skipped: no GPU, or none for OpenCL")
        return SKIPPED
    tracked, digested = (len(re.findall(rf"A=kept \({way}\)", child.stderr)) for way in ("tracked", "hash"))
    stayed = tracked > 0 and digested > 0
    print(f"A stayed {tracked} times by the kernel's word, {digested} times by a digest{'' if stayed else ': too few'}")
    if child.returncode != 0:
        print(child.stderr[-4000:])
    return 0 if child.returncode == 0 and stayed else 1


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--compute":
        sys.exit(compute(sys.argv[2]))
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else 2)
