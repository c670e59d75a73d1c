#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Products whose operands stay on the GPU have the bits of those whose operands go up each time, whatever was written in between.

    tests/gpu/kept_bits.py libtileblas.so.0             on a GPU
    tests/gpu/kept_bits.py --quick libtileblas.so.0     the same of small products

Status 0: they have; 1: not, or an answer is wrong, or hardly any operand stayed; 77: there is no GPU or no NumPy, or the kernel watches
nothing here. Operands that stay, and those that do not, have a process of their own, which makes the same calls; some elements of each
result are compared with a sum in fp64.

Seen to fail when: an element is written in one of the two processes alone; what was written does not go up again; copies end
where they could be mended.
"""

import ctypes
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter

SKIPPED = 77
COLUMN_MAJOR, TRANSPOSE = 102, {"N": 111, "T": 112}
# Type, op(A) and op(B), m, n, k. A has 32 MiB or more, and is mended as often as it is written; but one's. C of the last is so large
# that its tiles come down as the GPU ends them. Of the small ones A and B are more than a slot, which is the least that stays.
CASES = [("s", "N", "N", 4100, 1000, 2100), ("s", "T", "N", 1500, 1100, 6000), ("s", "N", "T", 2500, 2300, 1900),
         ("d", "N", "N", 2100, 1100, 2100), ("d", "T", "T", 3100, 2900, 3000)]
QUICK_CASES = [("s", "N", "N", 301, 40, 1900), ("d", "T", "N", 150, 40, 1900)]
# What is written before each call: nothing, few elements of A, some, all of B, all of A.
STEPS = ["nothing"] * 8 + ["few"] * 6 + ["nothing"] * 6 + ["some"] * 3 + ["nothing"] * 3 + ["b"] * 2 + ["nothing"] * 3 + ["a"] + ["nothing"] * 5
FEW, SOME, PROBES, FRACTION = 3, 64, 12, {"s": 2.0**-24, "d": 2.0**-53}


def write(np, rng, step, a, b):
    """Columns of a matrix are rows of an array: a is k x m or m x k, as it is stored."""
    if step in ("few", "some"):
        places = rng.integers(0, a.size, FEW if step == "few" else SOME)
        a.reshape(-1)[places] = rng.random(places.size).astype(a.dtype)
    elif step in ("a", "b"):
        x = a if step == "a" else b
        x[:] = rng.random(x.shape).astype(x.dtype) - x.dtype.type(0.5)


def wrong_element(np, rng, case, a, b, c):
    letter, ta, tb, m, n, k = case
    for i, j in zip(rng.integers(0, m, PROBES), rng.integers(0, n, PROBES)):
        row = (a[:, i] if ta == "N" else a[i]).astype(np.longdouble)
        column = (b[j] if tb == "N" else b[:, j]).astype(np.longdouble)
        want, size = (row * column).sum(), abs(row * column).sum()
        if abs(c[j, i] - want) > (k + 2) * FRACTION[letter] * size:
            return f"C({i},{j}) is {c[j, i]}, not {want}"
    return None


def compute(library, cases):
    """Prints a line for each call: case, step, a hash of C, and whether it is right."""
    import numpy as np
    blas = ctypes.CDLL(library)
    i, p = ctypes.c_int, ctypes.c_void_p
    for number, case in enumerate(cases):
        letter, ta, tb, m, n, k = case
        real, kind = (ctypes.c_float, np.float32) if letter == "s" else (ctypes.c_double, np.float64)
        gemm = getattr(blas, f"cblas_{letter}gemm")
        gemm.argtypes, gemm.restype = [i, i, i, i, i, i, real, p, i, p, i, real, p, i], None
        rng, probes = np.random.default_rng(number), np.random.default_rng(number + 100)
        a, b, c = np.empty((k, m) if ta == "N" else (m, k), kind), np.empty((n, k) if tb == "N" else (k, n), kind), np.zeros((n, m), kind)
        write(np, rng, "a", a, b)
        write(np, rng, "b", a, b)
        for step in STEPS:
            write(np, rng, step, a, b)
            gemm(COLUMN_MAJOR, TRANSPOSE[ta], TRANSPOSE[tb], m, n, k, 1, a.ctypes.data, a.shape[1], b.ctypes.data, b.shape[1], 0,
                 c.ctypes.data, m)
            print(*case, step, hashlib.sha256(c.tobytes()).hexdigest(), wrong_element(np, probes, case, a, b, c) or "right", flush=True)


def run(library, cache, quick):
    """What the child printed, and how often each word of its verbose lines was said of an operand."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TILEBLAS_")}
    env.update(TILEBLAS_ROUTE="gpu", TILEBLAS_OPEN="always", TILEBLAS_CACHE=cache, TILEBLAS_VERBOSE="1", TILEBLAS_SHARE="never")
    child = subprocess.run([sys.executable, __file__, "--compute-quick" if quick else "--compute", library], env=env,
                           capture_output=True, text=True, check=False)
    if child.returncode != 0 or "warning" in child.stderr:
        sys.exit(f"FAILED: TILEBLAS_CACHE={cache}: status {child.returncode}\n{child.stderr[-4000:]}")
    sides = Counter(re.findall(r"-> (gpu|cpu)", child.stderr))
    if not sides["gpu"]:
        print("skipped: no GPU")
        sys.exit(SKIPPED)
    if sides["cpu"]:
        sys.exit(f"FAILED: TILEBLAS_CACHE={cache}: the CPU answered {sides['cpu']} calls\n{child.stderr[-4000:]}")
    return child.stdout, Counter(re.findall(r"[AB]=(kept \(\w+\))", child.stderr))


def main(library, quick):
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: no NumPy")
        return SKIPPED
    without, _ = run(library, "off", quick)
    kept, words = run(library, "auto", quick)
    if not words:
        print("skipped: nothing stays here")
        return SKIPPED
    cases = QUICK_CASES if quick else CASES
    wrong = [line for line in kept.splitlines() + without.splitlines() if not line.endswith(" right")]
    wrong += [f"other bits: {x}\n      than {y}" for x, y in zip(kept.splitlines(), without.splitlines()) if x != y]
    print("\n".join(wrong), end="\n" * bool(wrong))
    stayed = words["kept (tracked)"] >= 8 * len(cases) and words["kept (mended)"] >= 3 * len(cases)
    calls = len(kept.splitlines())
    print(f"{calls} calls, {dict(words)}: {'the same bits' if not wrong else 'WRONG'}{'' if stayed else ', but too few'}")
    return 0 if not wrong and stayed and calls == len(cases) * len(STEPS) else 1


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1].startswith("--compute"):
        compute(sys.argv[2], QUICK_CASES if sys.argv[1] == "--compute-quick" else CASES)
    elif len(sys.argv) == 3 and sys.argv[1] == "--quick":
        sys.exit(main(sys.argv[2], True))
    else:
        sys.exit(main(sys.argv[1], False) if len(sys.argv) == 2 else 2)
