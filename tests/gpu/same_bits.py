#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Products that several real GPUs compute together have the bits of one GPU's, and are right; and those of one GPU in parts.

    tests/gpu/same_bits.py libtileblas.so.0             several GPUs, and one
    tests/gpu/same_bits.py --limits libtileblas.so.0    less and less memory of one GPU, and all of it

Status 0: they have; 1: not; 77: there are no two GPUs. Python's standard library only. Each set of GPUs, and each limit, has
a process of its own; some elements of each result are compared with a sum in fp64.
"""

import ctypes
import hashlib
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
from scaling import check_report, counts_up_to, gpu_count  # noqa: E402

COLUMN_MAJOR, TRANSPOSE = 102, {"N": 111, "T": 112}
# op(A) and op(B), m, n, k, alpha, beta. Each is long enough to be shared, and longer along m or n; the last has spans of k.
CASES = [("N", "N", 6000, 5000, 2000, 1, 0), ("T", "N", 3003, 6001, 1511, -0.5, 2), ("N", "T", 2000, 7345, 1030, 1, 1),
         ("T", "T", 4001, 3999, 2099, 2, 0), ("N", "N", 4001, 3999, 8300, 1, 1)]
# Precision, and a memory limit for each GPU.
SETTINGS = [("fp32", None), ("ieee", None), ("fp32", "100M")]
# For one GPU: k in chunks of a span; in one stream, and C in two blocks of columns, two of rows, and four. Where there are two
# in a row, A's panels of the first chunk stay for the second. Which of them bring up more than the one before:
LIMITED_CASES = [("N", "T", 5000, 5000, 10000, 1, 1)]
LIMITS = {"500M": False, "440M": True, "400M": True, "300M": True}
SIGNED = bytes(0x3f if i % 2 else 0xbf for i in range(256))  # upper bytes of a float
PROBES = 5


def random_floats(rng, count):
    """Of either sign, from 1/2 to 2."""
    data = bytearray(rng.randbytes(4 * count))
    data[3::4] = rng.randbytes(count).translate(SIGNED)
    return data


def at(data, i):
    return struct.unpack_from("<f", data, 4 * i)[0]


def expected(case, a, b, c, i, j):
    """An element of C in fp64, and the sum of the sizes of what was added."""
    ta, tb, m, n, k, alpha, beta = case
    terms = [alpha * at(a, i + l * m if ta == "N" else l + i * k) * at(b, l + j * k if tb == "N" else j + l * n)
             for l in range(k)]
    terms.append(beta * at(c, i + j * m))
    return sum(terms), sum(map(abs, terms))


def compute(library, cases):
    """Prints a line for each case: a hash of C."""
    sgemm = ctypes.CDLL(library).cblas_sgemm
    f, i, p = ctypes.c_float, ctypes.c_int, ctypes.c_void_p
    sgemm.argtypes, sgemm.restype = [i, i, i, i, i, i, f, p, i, p, i, f, p, i], None
    for number, case in enumerate(cases):
        ta, tb, m, n, k, alpha, beta = case
        rng = random.Random(number)
        a, b, before = (random_floats(rng, count) for count in (m * k, k * n, m * n))
        c = bytearray(before)
        pa, pb, pc = ((ctypes.c_char * len(x)).from_buffer(x) for x in (a, b, c))
        sgemm(COLUMN_MAJOR, TRANSPOSE[ta], TRANSPOSE[tb], m, n, k, alpha, pa, m if ta == "N" else k, pb, k if tb == "N" else n,
              beta, pc, m)
        for _ in range(PROBES):
            row, column = rng.randrange(m), rng.randrange(n)
            want, size = expected(case, a, b, before, row, column)
            if abs(at(c, row + column * m) - want) > (k + 2) * 2**-24 * size:
                print(f"{case}: C({row},{column}) is {at(c, row + column * m)}, not {want}")
        print(case, hashlib.sha256(c).hexdigest())


def run(library, gpus, precision, limit, what="--compute"):
    """What the child printed, and its report."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as report:
        env = dict(os.environ, TILEBLAS_ROUTE="gpu", TILEBLAS_SHARE="always", TILEBLAS_REPORT=report.name, TILEBLAS_PRECISION=precision,
                   TILEBLAS_DEVICES=",".join(map(str, range(gpus))))
        if limit:
            env["TILEBLAS_MEMORY_LIMIT"] = limit
        child = subprocess.run([sys.executable, __file__, what, library], env=env, stdout=subprocess.PIPE, text=True,
                               check=True)
        said = report.read()
        check_report(said, gpus)
    return child.stdout, said


def moved_megabytes(report):
    return float(re.search(r"^tileblas: +gpu\S* +\S.*? {2,}\d+ +[\d.]+ +([\d.]+) ", report, re.M).group(1))


def limits(library):
    whole, report = run(library, 1, "fp32", None, "--compute-limited")
    wrong, before = 0, moved_megabytes(report)
    for limit, brings_more in LIMITS.items():
        parts, report = run(library, 1, "fp32", limit, "--compute-limited")
        same, moved = parts == whole and len(whole.splitlines()) == len(LIMITED_CASES), moved_megabytes(report)
        print(f"memory limit {limit}: {moved:.0f} MB moved, {before:.0f} with more: {'the same bits' if same else 'WRONG'}")
        wrong += not same or (moved > before) != brings_more
        before = moved
    return 1 if wrong else 0


def main(library):
    most = gpu_count()
    if most < 2:
        print(f"skipped: it takes two GPUs, and this machine has {most}")
        return 77
    wrong = 0
    for precision, limit in SETTINGS:
        one, _ = run(library, 1, precision, limit)
        for gpus in counts_up_to(most)[1:]:
            several, _ = run(library, gpus, precision, limit)
            same = several == one and len(one.splitlines()) == len(CASES)
            print(f"{gpus} GPUs, {precision}, memory limit {limit}: {'the same bits' if same else 'WRONG'}")
            if not same:
                wrong += 1
                print(f"one:\n{one}several:\n{several}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("--compute", "--compute-limited"):
        compute(sys.argv[2], CASES if sys.argv[1] == "--compute" else LIMITED_CASES)
    elif len(sys.argv) == 3 and sys.argv[1] == "--limits":
        sys.exit(limits(sys.argv[2]))
    else:
        sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else 2)
