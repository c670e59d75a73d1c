# SPDX-License-Identifier: BSD-3-Clause
"""Products with every floating-point flag an error, as numpy.errstate has it: of clean data none is raised."""
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

products = 0
with np.errstate(all="raise"):
    for n in (8, 100, 200, 301):
        a = np.ones((n, n), dtype=np.float32)
        for _ in range(3):
            c = a @ a
            products += 1
            assert (c == n).all(), n
print(f"products {products}")
