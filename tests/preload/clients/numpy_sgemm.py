# SPDX-License-Identifier: BSD-3-Clause
"""float32 products of plain NumPy, each checked against float64 with the bound of a k-term sum in fp32.

Prints one line, "products N", and exits with 1 at the first wrong one. Whole numbers must come out exactly.
"""

import sys

import numpy as np

U = 2.0**-24


def check(name, got, a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    bound = (a.shape[-1] + 3) * U * (np.abs(a) @ np.abs(b))
    if np.all(a == np.round(a)) and np.all(b == np.round(b)):
        bound[...] = 0
    error = np.abs(got - a @ b)
    if got.dtype != np.float32 or not np.all(error <= bound):
        print(f"{name}: error {error.max()}, bound {bound.max()}, {got.dtype}")
        sys.exit(1)


rng = np.random.default_rng(1)
count = 0
for m, n, k in [(40, 50, 60), (33, 65, 31), (128, 3, 129), (2, 70, 70)]:
    for whole in (False, True):
        a = rng.uniform(-1, 1, (m, k)).astype(np.float32)
        b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
        if whole:
            a, b = np.round(4 * a), np.round(4 * b)
        # Contiguous, transposed and sliced operands reach the BLAS with different transposes and leading dimensions.
        wide = np.zeros((k, 2 * n), np.float32)
        wide[:, :n] = b
        for form, x, y in [
            ("A @ B", a, b),
            ("A.T.T @ B", np.asfortranarray(a), b),
            ("A @ B.T.T", a, np.asfortranarray(b)),
            ("both Fortran", np.asfortranarray(a), np.asfortranarray(b)),
            ("sliced B", a, wide[:, :n]),
        ]:
            check(f"{form} {m}x{n}x{k}", x @ y, x, y)
            count += 1
print("products", count)
