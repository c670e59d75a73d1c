# SPDX-License-Identifier: BSD-3-Clause
"""Products through scipy.linalg.blas, that is through the BLAS inside SciPy's wheel. Checked as numpy_gemm.py does."""

import sys

import numpy as np

try:
    from scipy.linalg import blas
except ImportError as reason:
    print(reason)
    sys.exit(77)  # counted as skipped

TYPES = {"sgemm": np.float32, "dgemm": np.float64, "cgemm": np.complex64, "zgemm": np.complex128}
APPLY = [lambda x: x, lambda x: x.T, lambda x: x.conj().T]  # trans_a and trans_b: as it is, transpose, its conjugate


def random(shape, dtype):
    x = rng.uniform(-1, 1, shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.uniform(-1, 1, shape)
    return np.asfortranarray(x.astype(dtype))


def check(routine, dtype, shape, trans_a, trans_b):
    m, n, k = shape
    is_complex = np.issubdtype(dtype, np.complexfloating)
    alpha, beta = (-1.5 + 0.25j, 0.5 - 1j) if is_complex else (-1.5, 0.5)
    a = random((k, m) if trans_a else (m, k), dtype)
    b = random((n, k) if trans_b else (k, n), dtype)
    c = random((m, n), dtype)
    got = getattr(blas, routine)(alpha, a, b, beta=beta, c=c, trans_a=trans_a, trans_b=trans_b)
    wide = np.result_type(dtype, np.longdouble)
    x, y, c = APPLY[trans_a](a).astype(wide), APPLY[trans_b](b).astype(wide), c.astype(wide)
    error = np.abs(got - (alpha * (x @ y) + beta * c))
    # Of complex sums numpy_gemm.py; a complex alpha or beta is worth three roundings, and the sum one.
    of_product, of_c = (3 * k + 8, 5) if is_complex else (k + 3, 3)
    bound = of_product * np.abs(alpha) * (np.abs(x) @ np.abs(y)) + of_c * np.abs(beta) * np.abs(c)
    if got.dtype != dtype or not np.all(error <= np.finfo(dtype).eps / 2 * bound):
        print(f"{routine} {m}x{n}x{k} {trans_a}{trans_b}: error {error.max()}, {got.dtype}")
        sys.exit(1)


rng = np.random.default_rng(2)
for routine, dtype in TYPES.items():
    count = 0
    for shape in [(40, 50, 60), (33, 65, 31), (5, 129, 64)]:
        for trans_a in (0, 1, 2):
            for trans_b in (0, 1, 2):
                check(routine, dtype, shape, trans_a, trans_b)
                count += 1
    print("products", routine, count)
