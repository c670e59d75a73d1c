#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What CUDA and OpenCL write to an operand in the program's memory goes into the next product, though pages may take no fault.

    tests/gpu/foreign_writes.py WRITER libtileblas.so.0

WRITER, which writes behind the program's back, though for it:

    copies        CUDA's copies from the GPU, whole and in part, at once and by a stream
    registered    a GPU, in half of it, which is registered with CUDA
    opencl        a GPU, in a buffer of OpenCL's that has the memory (CL_MEM_USE_HOST_PTR)

An operand is used until it stays on the GPU, then written before each further product. Status 0: each product is of what was written
last; 1: not, or nothing stayed; 77: there is no GPU, or no OpenCL for it. Python's standard library only.

Seen to fail when: nobody looks for OpenCL's library (5c4b245: all products but the first are of what was there before).
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
CALLS_UNTIL_KEPT, WRITES, CALLS_BETWEEN = 8, 8, 60  # so many, that A stays again though it was written
GPU, READ_WRITE, USE_HOST_PTR, MAP_READ, BLOCKING = 4, 1, 8, 1, 1  # of CL/cl.h


class Cuda:
    """The first GPU's memory, as a program has it."""

    def __init__(self, address):
        self.cuda, self.address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(address)
        device, context, self.memory = ctypes.c_int(0), ctypes.c_void_p(), ctypes.c_uint64(0)
        self.there = self.cuda.cuInit(0) == 0 and self.cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
        if self.there:
            self.ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.ask("cuCtxSetCurrent", context)
            self.begin()

    def ask(self, name, *arguments):
        failure = getattr(self.cuda, name)(*arguments)
        if failure != 0:
            sys.exit(f"FAILED: {name}: {failure}")

    def end(self):
        pass


class Copies(Cuda):
    # First element and count, and whether a stream copies.
    PARTS = [(0, N * N, False), (0, N * N, True), (0, 16, False), (0, 16, True), (N * 7, 3 * N, False), (0, 1 << 20, True)]

    def begin(self):
        self.ask("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(BYTES))

    def write(self, value, number):
        self.first, count, by_stream = self.PARTS[number % len(self.PARTS)]
        to, size = ctypes.c_void_p(self.address.value + 4 * self.first), ctypes.c_size_t(4 * count)
        self.ask("cuMemsetD32_v2", self.memory, struct.unpack("I", struct.pack("f", value))[0], ctypes.c_size_t(count))
        self.ask("cuCtxSynchronize")
        if by_stream:
            self.ask("cuMemcpyDtoHAsync_v2", to, self.memory, size, None)
            self.ask("cuStreamSynchronize", None)
        else:
            self.ask("cuMemcpyDtoH_v2", to, self.memory, size)


class Registered(Cuda):
    first, count = N * N // 4, N * N // 2

    def begin(self):
        half = ctypes.c_void_p(self.address.value + 4 * self.first)
        self.ask("cuMemHostRegister_v2", half, ctypes.c_size_t(4 * self.count), 0)
        self.ask("cuMemHostGetDevicePointer_v2", ctypes.byref(self.memory), half, 0)

    def write(self, value, number):
        count = self.count if number % 2 == 0 else 16
        self.ask("cuMemsetD32_v2", self.memory, struct.unpack("I", struct.pack("f", value))[0], ctypes.c_size_t(count))
        self.ask("cuCtxSynchronize")


class OpenCL:
    first = 0

    def __init__(self, address):
        self.cl, self.address = ctypes.CDLL("libOpenCL.so.1"), address
        p, failed = ctypes.c_void_p, ctypes.c_int(0)
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clEnqueueMapBuffer"):
            getattr(self.cl, name).restype = p
        platform, device, found = p(), p(), ctypes.c_uint(0)
        self.there = (self.cl.clGetPlatformIDs(1, ctypes.byref(platform), ctypes.byref(found)) == 0 and found.value > 0
                      and self.cl.clGetDeviceIDs(platform, ctypes.c_ulong(GPU), 1, ctypes.byref(device), None) == 0)
        if self.there:
            context = p(self.cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(failed)))
            self.queue = p(self.cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), ctypes.byref(failed)))
            self.buffer = p(self.cl.clCreateBuffer(context, ctypes.c_ulong(READ_WRITE | USE_HOST_PTR), ctypes.c_size_t(BYTES),
                                                   p(address), ctypes.byref(failed)))
            self.there = failed.value == 0

    def write(self, value, _):
        pattern, failed, nothing = ctypes.c_float(value), ctypes.c_int(0), ctypes.c_size_t(0)
        failures = self.cl.clEnqueueFillBuffer(self.queue, self.buffer, ctypes.byref(pattern), ctypes.c_size_t(4), nothing,
                                               ctypes.c_size_t(BYTES), 0, None, None)
        mapped = self.cl.clEnqueueMapBuffer(self.queue, self.buffer, BLOCKING, ctypes.c_ulong(MAP_READ), nothing, ctypes.c_size_t(BYTES),
                                            0, None, None, ctypes.byref(failed))
        failures |= failed.value | self.cl.clFinish(self.queue)
        if failures != 0 or mapped != self.address:
            sys.exit(f"FAILED: OpenCL's {failures}, the buffer is not in the program's memory, or cannot be filled")

    def end(self):
        """The program has read what it wanted."""
        self.cl.clEnqueueUnmapMemObject(self.queue, self.buffer, ctypes.c_void_p(self.address), 0, None, None)
        self.cl.clFinish(self.queue)


WRITERS = {"copies": Copies, "registered": Registered, "opencl": OpenCL}
LIBRARIES = {"opencl": ["libnvidia-opencl.so.1", "libOpenCL.so.1"]}


def operand(value):
    """A square matrix in anonymous memory of its own, and its address."""
    memory = mmap.mmap(-1, BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = struct.pack("f", value) * (N * N)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def compute(writer, library):
    """A by a matrix of ones, so that C's first column has the sums of A's rows."""
    i, p, real = ctypes.c_int, ctypes.c_void_p, ctypes.c_float
    gemm = ctypes.CDLL(library).cblas_sgemm
    gemm.argtypes, gemm.restype = [i, i, i, i, i, i, real, p, i, p, i, real, p, i], None
    matrices = [operand(1), operand(1), operand(0)]
    (a, a_at), (_, b_at), (c, c_at) = matrices

    def multiply():
        gemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, N, N, N, 1, a_at, N, b_at, N, 0, c_at, N)

    for _ in range(CALLS_UNTIL_KEPT):
        multiply()
    foreign = WRITERS[writer](a_at)
    if not foreign.there:
        return SKIPPED
    print("writes begin", file=sys.stderr, flush=True)
    wrong = 0
    for number in range(WRITES):
        foreign.write(number + 2, number)
        multiply()
        for row in (0, 9, N - 1):
            found, = struct.unpack_from("f", c, 4 * row)
            expected = sum(struct.unpack_from("f", a, 4 * (column * N + row))[0] for column in range(N))
            if found != expected:
                wrong += 1
                print(f"write {number}, row {row}: {found:g} instead of {expected:g}", flush=True)
        foreign.end()
        if struct.unpack_from("f", a, 4 * foreign.first)[0] != number + 2:
            sys.exit(f"FAILED: write {number} is not in the program's memory")
        for _ in range(CALLS_BETWEEN):
            multiply()
    return 1 if wrong else 0


def main(writer, library):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TILEBLAS_")}
    env.update(TILEBLAS_ROUTE="gpu", TILEBLAS_OPEN="always", TILEBLAS_VERBOSE="1", TILEBLAS_SHARE="never")
    env.update(OCL_ICD_FILENAMES="libnvidia-opencl.so.1", OCL_ICD_VENDORS="libnvidia-opencl.so.1")
    for needed in LIBRARIES.get(writer, []):
        if subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL('{needed}')"], stderr=subprocess.DEVNULL, check=False).returncode:
            print(f"skipped: no {needed}")
            return SKIPPED
    child = subprocess.run([sys.executable, __file__, "--compute", writer, library], env=env, capture_output=True, text=True, check=False)
    print(child.stdout, end="")
    if child.returncode == SKIPPED or not re.search("-> gpu", child.stderr):
        print("skipped: no GPU, or none for OpenCL")
        return SKIPPED
    before, _, since = child.stderr.partition("writes begin")
    words = {word: since.count(f"A={word}") for word in dict.fromkeys(re.findall(r"A=(kept \(\w+\))", since))}
    stayed = "A=kept (tracked)" in before and (writer != "copies" or "kept (tracked)" in words)
    print(f"{WRITES} writes, then {words}: {'all seen' if child.returncode == 0 else 'WRONG'}{'' if stayed else ', but too little stayed'}")
    if child.returncode != 0 or not stayed:
        print(child.stderr[-4000:])
    return 0 if child.returncode == 0 and stayed else 1


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--compute":
        sys.exit(compute(*sys.argv[2:]))
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 3 and sys.argv[1] in WRITERS else 2)
