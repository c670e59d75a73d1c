#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Products have the bits that they had when the file of bits/ was written: the same call gives the same bits in every version.

    tests/gpu/bits.py libtileblas.so.0             compares with the file of this kind of GPU (bits/CAPABILITY_MULTIPROCESSORS_SMs.txt)
    tests/gpu/bits.py --write libtileblas.so.0     makes that file
    tests/gpu/bits.py --prove libtileblas.so.0     writes, compares, and must notice a hash that is changed; small products
                                                   alone, and no file is kept

Status 0: the same; 1: not, or an answer is wrong; 77: there is no file for this kind of GPU, no GPU or no NumPy. Each of SETTINGS has a
process of its own. Some elements of each result are compared with a sum in fp64, so that no wrong product is written down. A line of
the file holds a product, the SHA-256 of its C, and the kernel, which is not compared.

Seen to fail when: one hash of the file is changed (--prove); C is what another seed gives.
"""

import argparse
import ctypes
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "bits"
SKIPPED = 77
COLUMN_MAJOR, TRANSPOSE = 102, {"N": 111, "T": 112}

# TT m n k alpha beta, elements between columns, memory, data. `plain`: of either sign, below 1/2; `wide`: times 2^-30 to 2^30, for
# which fp16 planes have no room.
COMMON = """
NN   64   64   64  1    0  0 host plain
TT   64   64   64  1    0  0 device plain
NN  256  256  256  1    0  0 host plain
TN  257  131   77 -0.5  1  3 host plain
NT  100  100  100  2    2  1 device plain
TT   33   65  129  1    1  0 device wide
NN    1 3000  500  1    0  0 device plain
TN 3000    1 2000  1    2  0 device plain
NT    7 4000  900  1    1  5 device plain
NN 2000    4 3000 -1    0  0 host plain
TT    5    5 9000  1    0  0 device plain
NN  128  128 8192  1    0  0 device plain
NT  256  128 4096  1    1  0 device plain
TN  100   90 5000  2    2  1 device wide
NN  512  512  512  1    0  0 device plain
TT  640  500  384  1    1  0 host plain
NN 1024 1024 1024  1    0  0 host plain
NT 1000 1100  900 -1    2  1 pinned plain
TN 1536 1024  700  1    1  0 device plain
TT 1500 1400 1300  1    0  2 device wide
NN 2048 2048 2048  1    0  0 host plain
TN 2000 2100 1900  0.5  2  0 host wide
NT 3000  300 2000  1    0  0 device plain
""".strip().splitlines()
LARGE = """
NN 4096 4096 1024  1    0  0 device plain
TT 3000 3100 3200  1    1  0 host plain
NT 1500 1600 9000  1    0  0 host wide
""".strip().splitlines()
CUT = """
NN 2500 2400 2300  1    0  0 host plain
TN 3000 2000 1500 -1    1  0 host plain
NT 1300 1200 6000  1    2  0 host wide
TT 1501 1403 1307  2    0  1 host plain
""".strip().splitlines()
# Precision, memory limit, products.
SETTINGS = [("fp32", "0", COMMON + LARGE), ("ieee", "0", COMMON + LARGE), ("fast", "0", LARGE), ("fp32", "60M", CUT),
            ("ieee", "20M", CUT)]
QUICK_TERMS = 3e6  # of --prove's products at most
POOL_ELEMS = 1 << 25
PROBES = 4


class Product:
    def __init__(self, text):
        transposes, m, n, k, alpha, beta, pad, self.memory, self.data = text.split()
        self.text = " ".join(text.split())
        self.ta, self.tb = transposes
        self.m, self.n, self.k, pad = int(m), int(n), int(k), int(pad)
        self.alpha, self.beta = float(alpha), float(beta)
        self.shapes = [(self.m, self.k) if self.ta == "N" else (self.k, self.m),
                       (self.k, self.n) if self.tb == "N" else (self.n, self.k), (self.m, self.n)]  # rows, columns as stored
        self.ld = [rows + pad for rows, _ in self.shapes]


def pools(np):
    """Floats that are the same everywhere: NumPy promises the raw numbers of a bit generator."""
    raw = np.random.PCG64(20261124).random_raw(POOL_ELEMS // 2).view(np.uint32)
    plain = (raw >> np.uint32(9) | np.uint32(0x3f800000)).view(np.float32) - np.float32(1.5)
    exponents = (raw % np.uint32(61)).astype(np.int32) - 30
    return {"plain": plain, "wide": np.ldexp(plain, exponents)}


def operands(product, pool, number):
    """Flat arrays, padding included."""
    first, found = 4096 * number, []
    for (_, columns), ld in zip(product.shapes, product.ld):
        found.append(pool[first:first + ld * columns].copy())
        assert len(found[-1]) == ld * columns
        first += ld * columns
    return found


def as_matrices(product, flat):
    """Views of op(A), op(B) and C."""
    a, b, c = (x.reshape(columns, ld)[:, :rows].T for x, (rows, columns), ld in zip(flat, product.shapes, product.ld))
    return a if product.ta == "N" else a.T, b if product.tb == "N" else b.T, c


def wrong_element(np, product, before, after, precision):
    """A text, or None. A chain's bound, and for `fast` what its planes lose."""
    a, b, c = as_matrices(product, before)
    result = as_matrices(product, [*before[:2], after])[2]
    part = (product.k + 3) * 2.0**-24 + (2.0**-20 if precision == "fast" else 0)
    for probe in range(PROBES):
        i, j = (probe * 7919 + 5) % product.m, (probe * 104729 + 3) % product.n
        terms = product.alpha * a[i].astype(np.float64) * b[:, j]
        want, size = terms.sum() + product.beta * float(c[i, j]), abs(terms).sum() + abs(product.beta * float(c[i, j]))
        largest = abs(product.alpha) * product.k * float(abs(a[i]).max()) * float(abs(b[:, j]).max())
        if not abs(float(result[i, j]) - want) <= part * size + (2.0**-39 * largest if precision == "fast" else 0):
            return f"C({i},{j}) is {result[i, j]}, not {want}"
    return None


class Driver:
    """The CUDA driver, as a program has it that keeps operands there."""

    def __init__(self):
        self.library, context, self.device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
        self.ok("cuInit", 0)
        self.ok("cuDeviceGet", ctypes.byref(self.device), 0)
        self.ok("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.ok("cuCtxSetCurrent", context)

    def close(self):
        self.ok("cuCtxSetCurrent", None)
        self.ok("cuDevicePrimaryCtxRelease_v2", self.device)

    def ok(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name}: CUDA error {status}"

    def allocate(self, memory, size):
        address = ctypes.c_void_p()
        if memory == "pinned":
            self.ok("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        else:
            self.ok("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def call(self, product, flat, sgemm):
        """Calls with copies in this memory; C comes back to flat[2]."""
        there = [self.allocate(product.memory, x.nbytes) for x in flat]
        for address, x in zip(there, flat):
            self.ok("cuMemcpyHtoD_v2", address, ctypes.c_void_p(x.ctypes.data), ctypes.c_size_t(x.nbytes))
        sgemm(*there)
        self.ok("cuMemcpyDtoH_v2", ctypes.c_void_p(flat[2].ctypes.data), there[2], ctypes.c_size_t(flat[2].nbytes))
        for address in there:
            self.ok("cuMemFreeHost" if product.memory == "pinned" else "cuMemFree_v2", address)


def compute(library, precision, products):
    """Prints a line for each product: hash, and what is wrong with it."""
    import numpy as np
    cblas_sgemm, pool, driver = ctypes.CDLL(library).cblas_sgemm, pools(np), Driver()
    f, i, p = ctypes.c_float, ctypes.c_int, ctypes.c_void_p
    cblas_sgemm.argtypes, cblas_sgemm.restype = [i, i, i, i, i, i, f, p, i, p, i, f, p, i], None
    for number, product in enumerate(products):
        def sgemm(a, b, c, x=product):
            cblas_sgemm(COLUMN_MAJOR, TRANSPOSE[x.ta], TRANSPOSE[x.tb], x.m, x.n, x.k, x.alpha, a, x.ld[0], b, x.ld[1], x.beta, c, x.ld[2])
        before = operands(product, pool[product.data], number)
        flat = [before[0], before[1], before[2].copy()]
        if product.memory == "host":
            sgemm(*(x.ctypes.data for x in flat))
        else:
            driver.call(product, flat, sgemm)
        wrong = wrong_element(np, product, before, flat[2], precision)
        c = np.ascontiguousarray(as_matrices(product, flat)[2].T)
        print(hashlib.sha256(c.tobytes()).hexdigest(), wrong or "right", flush=True)
    driver.close()


def lines(library, setting, quick):
    """(name, hash, kernel) of each product of a setting; ends the program when an answer is wrong or the CPU's."""
    precision, limit, texts = setting
    products = [x for x in map(Product, texts) if not quick or x.m * x.n * x.k <= QUICK_TERMS]
    if not products:
        return []
    env = {k: v for k, v in os.environ.items() if not k.startswith("TILEBLAS_")}
    env.update(TILEBLAS_ROUTE="gpu", TILEBLAS_OPEN="always", TILEBLAS_PRECISION=precision, TILEBLAS_MEMORY_LIMIT=limit,
               TILEBLAS_VERBOSE="1", TILEBLAS_SHARE="never")
    command = [sys.executable, __file__, "--compute", precision, library, *(x.text for x in products)]
    child = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    kernels = re.findall(r"-> (?:gpu\S* ([^\s,]+)|cpu)", child.stderr)
    answers = [line.split(" ", 1) for line in child.stdout.splitlines()]
    if child.returncode != 0 or len(answers) != len(products) or len(kernels) != len(products) or "warning" in child.stderr:
        sys.exit(f"FAILED: {precision} {limit}: status {child.returncode}, {len(answers)} answers, {len(kernels)} lines\n{child.stderr}")
    for product, (_, said), kernel in zip(products, answers, kernels):
        if said != "right" or not kernel:
            sys.exit(f"FAILED: {precision} {limit}: {product.text} by {kernel or 'the CPU'}: {said}")
    return [(f"{precision} {limit}: {x.text}", digest, kernel) for x, (digest, _), kernel in zip(products, answers, kernels)]


def kind_of_gpu():
    """Compute capability and multiprocessors, by which kernels and tiles are chosen; None: there is no GPU. Asked in a process of
    its own: nothing of CUDA shall live in this one."""
    probe = ("import ctypes; d = ctypes.CDLL('libcuda.so.1'); g = ctypes.c_int(); v = [ctypes.c_int() for _ in range(3)]; "
             "assert d.cuInit(0) == 0 and d.cuDeviceGet(ctypes.byref(g), 0) == 0; "
             "assert all(d.cuDeviceGetAttribute(ctypes.byref(x), n, g) == 0 for x, n in zip(v, (75, 76, 16))); "
             "print('%d.%d_%d_SMs' % tuple(x.value for x in v))")
    child = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    return child.stdout.strip() if child.returncode == 0 else None


def write(path, found):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{name} | {digest} {kernel}\n" for name, digest, kernel in found))


def compare(path, found, quick):
    """How many differ. Products that the file has and this run has not count, too."""
    kept = {name: rest.split()[0] for name, rest in (line.split(" | ") for line in path.read_text().splitlines())}
    wrong = [(name, kernel) for name, digest, kernel in found if kept.get(name) != digest]
    for name, kernel in wrong:
        print(f"OTHER BITS: {name} by {kernel}" if name in kept else f"not in {path.name}: {name}")
    missing = [] if quick else sorted(set(kept) - {name for name, _, _ in found})
    for name in missing:
        print(f"not computed: {name}")
    return len(wrong) + len(missing)


def prove(found):
    """Whether compare notices what it must."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bits.txt"
        write(path, found)
        same = compare(path, found, False)
        write(path, [(found[0][0], "0" * 64, found[0][2]), *found[1:]])
        return same == 0 and compare(path, found, False) == 1 and compare(path, found[1:], False) == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--prove", action="store_true")
    parser.add_argument("library")
    options = parser.parse_args()
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: no NumPy")
        return SKIPPED
    name = kind_of_gpu()
    if name is None:
        print("skipped: no GPU")
        return SKIPPED
    path = FOLDER / f"{name}.txt"
    if not (options.write or options.prove or path.exists()):
        print(f"skipped: no bits/{path.name}; --write makes it")
        return SKIPPED
    found = [line for setting in SETTINGS for line in lines(options.library, setting, options.prove)]
    kernels = {kernel: sum(k == kernel for _, _, k in found) for kernel in sorted({k for _, _, k in found})}
    print(f"{len(found)} products by " + ", ".join(f"{kernel} ({count})" for kernel, count in kernels.items()))
    if options.prove:
        return 0 if prove(found) and prove(lines(options.library, SETTINGS[0], True)) else 1
    if options.write:
        write(path, found)
        return 0
    wrong = compare(path, found, False)
    print("the same bits" if wrong == 0 else f"WRONG: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--compute":
        compute(sys.argv[3], sys.argv[2], [Product(text) for text in sys.argv[4:]])
    else:
        sys.exit(main())
