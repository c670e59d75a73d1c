# SPDX-License-Identifier: BSD-3-Clause
"""Products with every floating-point flag an error, as numpy.errstate has it: of clean data none is raised."""
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

TYPES = {"sgemm": np.float32, "dgemm": np.float64, "cgemm": np.complex64, "zgemm": np.complex128}

for routine, dtype in TYPES.items():
    products = 0
    with np.errstate(all="raise"):
        for n in (8, 100, 200, 301)[: 3 if routine[0] in "cz" else 4]:  # a complex product counts as four real ones
            a = np.ones((n, n), dtype=dtype)
            for _ in range(3):
                c = a @ a
                products += 1
                assert (c == n).all(), (routine, n)
    print(f"products {routine} {products}")
