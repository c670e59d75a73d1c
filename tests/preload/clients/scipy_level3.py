# SPDX-License-Identifier: BSD-3-Clause
"""The other routines of level 3 through scipy.linalg.blas, checked as scipy_gemm.py does; what is solved, by its residual.

What must not be read is NaN: the other triangle, and unit diagonals. Of a triangle of C the other one must stay.
"""

import itertools
import sys

import numpy as np

try:
    from scipy.linalg import blas
except ImportError as reason:
    print(reason)
    sys.exit(77)  # counted as skipped

TYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
APPLY = [lambda x: x, lambda x: x.T, lambda x: x.conj().T]  # trans: as it is, transpose, its conjugate


def random(shape, dtype):
    x = rng.uniform(-1, 1, shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.uniform(-1, 1, shape)
    return np.asfortranarray(x.astype(dtype))


def wide(x):
    return x.astype(np.result_type(x.dtype, np.longdouble))


def check(name, got, expected, size, terms, inside=None):
    """Within 3 terms + 20 roundings of what the terms come to: enough for complex ones, alpha and beta, too."""
    error = np.abs(got - expected)
    right = error <= (3 * terms + 20) * np.finfo(got.dtype).eps / 2 * size
    if not np.all(right if inside is None else right | ~inside):
        print(f"{name}: error {np.nanmax(error)}")
        sys.exit(1)


def scalars(dtype, real):
    return (-1.5 + 0.25j, 0.5 - 1j) if np.issubdtype(dtype, np.complexfloating) and not real else (-1.5, 0.5)


def triangles_of_c(letter, routine, n, k):
    """syrk, herk, syr2k and her2k."""
    dtype, hermitian, twice = TYPES[letter], routine.startswith("he"), routine.endswith("2k")
    turn = (lambda x: x.conj().T) if hermitian else (lambda x: x.T)
    alpha, beta = scalars(dtype, routine == "herk")
    beta = beta.real if hermitian else beta
    for trans, lower in itertools.product((0, 2 if hermitian else 1), (0, 1)):
        shape = (k, n) if trans else (n, k)
        a, b, c = random(shape, dtype), random(shape, dtype), random((n, n), dtype)
        inside = np.tril(np.ones((n, n), bool)) if lower else np.triu(np.ones((n, n), bool))
        c[~inside] = np.nan
        operands = (a, b) if twice else (a,)
        got = getattr(blas, letter + routine)(alpha, *operands, beta=beta, c=c, trans=trans, lower=lower)
        x, y, kept = wide(APPLY[trans](a)), wide(APPLY[trans](b)), wide(c)
        if hermitian:
            np.fill_diagonal(kept, kept.diagonal().real)
        other = np.conj(alpha) if hermitian else alpha
        product = alpha * (x @ turn(y)) + other * (y @ turn(x)) if twice else alpha * (x @ turn(x))
        size = np.abs(x) @ np.abs(y).T + np.abs(y) @ np.abs(x).T if twice else np.abs(x) @ np.abs(x).T
        check(letter + routine, got, product + beta * kept, 2 * (size + np.abs(kept)), 2 * k, inside)
        if not np.all(np.isnan(got[~inside])):
            sys.exit(f"{letter}{routine}: the other triangle was written")
    return 4


def mirrored(letter, routine, m, n):
    """symm and hemm."""
    dtype = TYPES[letter]
    alpha, beta = scalars(dtype, False)
    for side, lower in itertools.product((0, 1), (0, 1)):
        order = n if side else m
        stored, b, c = random((order, order), dtype), random((m, n), dtype), random((m, n), dtype)
        part = np.tril(stored, -1) if lower else np.triu(stored, 1)
        diagonal = stored.diagonal().real if routine == "hemm" else stored.diagonal()
        a = wide(part + (part.conj().T if routine == "hemm" else part.T) + np.diag(diagonal))
        stored[np.triu_indices(order, 1) if lower else np.tril_indices(order, -1)] = np.nan
        got = getattr(blas, letter + routine)(alpha, stored, b, beta=beta, c=c, side=side, lower=lower)
        x, y = (wide(b), a) if side else (a, wide(b))
        size = 2 * (np.abs(x) @ np.abs(y) + np.abs(c))
        check(letter + routine, got, alpha * (x @ y) + beta * wide(c), size, order)
    return 4


def triangular(letter, routine, m, n):
    """trmm and trsm."""
    dtype, count = TYPES[letter], 0
    alpha, _ = scalars(dtype, False)
    for side, lower, trans, unit in itertools.product((0, 1), (0, 1), (0, 1, 2), (0, 1)):
        order = n if side else m
        stored = random((order, order), dtype) / order
        stored[np.diag_indices(order)] += 1
        part = np.tril(stored, -1) if lower else np.triu(stored, 1)
        a = wide(part + np.diag(np.ones(order, dtype) if unit else stored.diagonal()))
        stored[np.triu_indices(order, 1) if lower else np.tril_indices(order, -1)] = np.nan
        if unit:
            stored[np.diag_indices(order)] = np.nan
        b, op = random((m, n), dtype), APPLY[trans](a)
        got = getattr(blas, letter + routine)(alpha, stored, b, side=side, lower=lower, trans_a=trans, diag=unit)
        known, unknown = (b, got) if routine == "trmm" else (got, b)
        x, y = (wide(known), op) if side else (op, wide(known))
        size = 2 * (np.abs(x) @ np.abs(y) + np.abs(unknown))
        if routine == "trmm":
            check(letter + routine, got, alpha * (x @ y), size, order)
        else:
            check(letter + routine, (x @ y).astype(np.result_type(dtype, np.complex128 if letter in "cz" else np.float64)),
                  alpha * wide(b), size * np.finfo(dtype).eps / np.finfo(np.float64).eps, order)
        count += 1
    return count


rng = np.random.default_rng(3)
for letter, dtype in TYPES.items():
    hermitian = ["herk", "her2k", "hemm"] if letter in "cz" else []
    for routine in ["syrk", "syr2k", "symm", "trmm", "trsm", *hermitian]:
        run = triangular if routine.startswith("tr") else mirrored if routine.endswith("mm") else triangles_of_c
        print("products", letter + routine, sum(run(letter, routine, *shape) for shape in [(40, 30), (33, 65)]))
