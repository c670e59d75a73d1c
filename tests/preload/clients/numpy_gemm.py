# SPDX-License-Identifier: BSD-3-Clause
"""Products of plain NumPy in four types, each checked against long double with the bound of a sum of k terms.

Prints a line "products ROUTINE N" for each type, and exits with 1 at the first wrong one. Whole numbers must come out
exactly. NumPy has no BLAS for long double.
"""

import sys

import numpy as np

TYPES = {"sgemm": np.float32, "dgemm": np.float64, "cgemm": np.complex64, "zgemm": np.complex128}


def terms_of(k, dtype):
    """Roundings of a sum of k terms. A complex one has two parts of 2k terms each, together sqrt(2) 2k < 3k."""
    return 3 * k + 3 if np.issubdtype(dtype, np.complexfloating) else k + 3


def check(name, got, a, b):
    wide = np.result_type(a.dtype, np.longdouble)
    a, b = a.astype(wide), b.astype(wide)
    bound = terms_of(a.shape[-1], got.dtype) * np.finfo(got.dtype).eps / 2 * (np.abs(a) @ np.abs(b))
    if np.all(a == np.round(a)) and np.all(b == np.round(b)):
        bound[...] = 0
    error = np.abs(got - a @ b)
    if not np.all(error <= bound):
        print(f"{name}: error {error.max()}, bound {bound.max()}")
        sys.exit(1)


def random(shape, dtype, whole):
    x = rng.uniform(-1, 1, shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.uniform(-1, 1, shape)
    return (np.round(4 * x) if whole else x).astype(dtype)


def products(routine, dtype):
    count = 0
    for m, n, k in [(40, 50, 60), (33, 65, 31), (128, 3, 129), (2, 70, 70)]:
        for whole in (False, True):
            a, b = random((m, k), dtype, whole), random((k, n), dtype, whole)
            # Contiguous, transposed and sliced operands reach the BLAS with other transposes and leading dimensions.
            wide = np.zeros((k, 2 * n), dtype)
            wide[:, :n] = b
            for form, x, y in [
                ("A @ B", a, b),
                ("A.T.T @ B", np.asfortranarray(a), b),
                ("A @ B.T.T", a, np.asfortranarray(b)),
                ("both Fortran", np.asfortranarray(a), np.asfortranarray(b)),
                ("sliced B", a, wide[:, :n]),
            ]:
                got = x @ y
                if got.dtype != dtype:
                    sys.exit(f"{routine}: a product is of type {got.dtype}")
                check(f"{routine} {form} {m}x{n}x{k}", got, x, y)
                count += 1
    print("products", routine, count)


def products_with_itself(routine, dtype):
    """A matrix times its own transpose: NumPy asks for one triangle, and copies it to the other side."""
    count = 0
    for m, k in [(40, 60), (65, 31), (3, 129)]:
        for whole in (False, True):
            a = random((m, k), dtype, whole)
            for form, x, y in [("A @ A.T", a, a.T), ("A.T @ A", a.T, a)]:
                check(f"{routine} {form} {m}x{k}", x @ y, x, y)
                count += 1
    print("products", routine, count)


rng = np.random.default_rng(1)
for item in TYPES.items():
    products(*item)
    products_with_itself(item[0].replace("gemm", "syrk"), item[1])
