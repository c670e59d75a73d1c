# SPDX-License-Identifier: BSD-3-Clause
"""sgemm through scipy.linalg.blas, that is through the BLAS inside SciPy's wheel. Same checks as numpy_sgemm.py."""

import sys

import numpy as np

try:
    from scipy.linalg.blas import sgemm
except ImportError as reason:
    print(reason)
    sys.exit(77)  # counted as skipped

U = 2.0**-24
rng = np.random.default_rng(2)
count = 0
for m, n, k in [(40, 50, 60), (33, 65, 31), (5, 129, 64)]:
    for trans_a in (0, 1, 2):
        for trans_b in (0, 1):
            a = np.asfortranarray(rng.uniform(-1, 1, (k, m) if trans_a else (m, k)).astype(np.float32))
            b = np.asfortranarray(rng.uniform(-1, 1, (n, k) if trans_b else (k, n)).astype(np.float32))
            c = np.asfortranarray(rng.uniform(-1, 1, (m, n)).astype(np.float32))
            got = sgemm(-1.5, a, b, beta=0.5, c=c, trans_a=trans_a, trans_b=trans_b)
            x = (a.T if trans_a else a).astype(np.float64)
            y = (b.T if trans_b else b).astype(np.float64)
            error = np.abs(got - (-1.5 * (x @ y) + 0.5 * c.astype(np.float64)))
            bound = U * ((k + 3) * 1.5 * (np.abs(x) @ np.abs(y)) + 3 * 0.5 * np.abs(c))
            if got.dtype != np.float32 or not np.all(error <= bound):
                print(f"{m}x{n}x{k} {trans_a}{trans_b}: error {error.max()}, bound {bound.max()}, {got.dtype}")
                sys.exit(1)
            count += 1
print("products", count)
