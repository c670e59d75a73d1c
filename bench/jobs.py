# SPDX-License-Identifier: BSD-3-Clause
"""
The Python jobs of bench/run programs: what people do with NumPy, FAISS and scikit-learn, on data made from a seed.

    jobs.py [--short] [--budget SECONDS] [--only TEXT] [--files] PROGRAM    PROGRAM: numpy_s, numpy_d, faiss or sklearn

A job runs once to warm up and then several times; each result goes to stdout as a line of JSON. Where TileBLAS is
preloaded its sums say how long products took, and the job runs once more with TILEBLAS_VERBOSE=1, behind a line "job
NAME" on stderr. Without it, a first run that takes longer than LONG_S counts, and is the only one. --files prints the
extension modules and libraries that are loaded at the end, for bench/make_programs_kit. --only: the jobs whose names
have the text. No job knows of TileBLAS.
"""
import argparse
import ctypes
import json
import statistics
import sys
import time
import traceback
import warnings

RUNS = 5  # behind the first, as far as the budget lasts
LEAST_RUNS = 2
LONG_S = 3  # for a job that takes as long one run behind the first is enough


class Stats(ctypes.Structure):
    """tileblas_stats of include/tileblas.h, as of version 0.1."""
    _fields_ = [("gpu_calls", ctypes.c_uint64), ("cpu_calls", ctypes.c_uint64), ("gpu_failures", ctypes.c_uint64),
                ("gpu_flops", ctypes.c_double), ("cpu_flops", ctypes.c_double), ("gpu_bytes", ctypes.c_double),
                ("gpu_seconds", ctypes.c_double), ("cpu_seconds", ctypes.c_double)]


class Library:
    """TileBLAS in this process, if it is there."""

    def __init__(self):
        everything = ctypes.CDLL(None)
        self.library = everything if hasattr(everything, "tileblas_stats_get") else None

    def product_seconds(self):
        stats = Stats()
        self.library.tileblas_stats_get(ctypes.byref(stats))
        return stats.gpu_seconds + stats.cpu_seconds

    def verbose(self, on):
        self.library.tileblas_option_set(b"TILEBLAS_VERBOSE", b"1" if on else b"0")


def measure(name, run, callers, budget_s, library):
    """Runs a job; run() returns numbers by which its result can be told."""
    walls, products = [], []
    begun = time.perf_counter()
    while True:
        before = library.product_seconds() if library.library else 0
        started = time.perf_counter()
        check = run()
        now = time.perf_counter()
        walls.append(now - started)
        products.append(library.product_seconds() - before if library.library else 0)
        only = not library.library and walls[0] > LONG_S
        least = 1 if walls[0] > LONG_S else LEAST_RUNS
        if only or len(walls) > RUNS or (len(walls) > least and now - begun > budget_s):
            break
    if library.library:
        print(f"job {name}", file=sys.stderr, flush=True)
        library.verbose(True)
        run()
        library.verbose(False)
    kept = slice(None if len(walls) == 1 else 1, None)
    return {"job": name, "first_s": walls[0], "runs": len(walls[kept]), "wall_s": statistics.median(walls[kept]),
            "products_s": statistics.median(products[kept]), "callers": callers, "check": [float(x) for x in check]}


def uniform(shape, dtype, seed):
    import numpy as np
    x = np.random.default_rng(seed).random(shape, dtype=dtype)
    x -= dtype(0.5)
    return x


# ---- NumPy ----


def some(c):
    """Of a result, a few numbers that all of k went into."""
    n = min(c.shape[-2:])
    return [c[..., i % c.shape[-2], (7 * i) % c.shape[-1]].sum() for i in (0, n // 3, n - 1)]


def fresh(dtype, n, times):
    """Every expression is a new matrix."""
    a, b = uniform((n, n), dtype, 1), uniform((n, n), dtype, 2)

    def run():
        for _ in range(times):
            c = a @ b
        return some(c)
    return run


def given(dtype, n, times):
    """The same into a matrix that is used again."""
    import numpy as np
    a, b = uniform((n, n), dtype, 1), uniform((n, n), dtype, 2)
    c = np.zeros_like(a)

    def run():
        for _ in range(times):
            np.matmul(a, b, out=c)
        return some(c)
    return run


def batched(dtype, count, n):
    a, b = uniform((count, n, n), dtype, 1), uniform((count, n, n), dtype, 2)
    return lambda: some(a @ b)


def training(dtype, rows, sizes, steps):
    """Steps of an MLP's training: forward, cross entropy, backward, plain descent."""
    import numpy as np
    x, target = uniform((rows, sizes[0]), dtype, 1), np.arange(rows) % sizes[-1]
    first = [uniform(pair, dtype, 2 + i) * dtype(2 / pair[0] ** 0.5) for i, pair in enumerate(zip(sizes, sizes[1:]))]

    def step(weights):
        layers = [x]
        for w in weights[:-1]:
            layers.append(np.maximum(layers[-1] @ w, 0))
        out = layers[-1] @ weights[-1]
        out -= out.max(axis=1, keepdims=True)
        np.exp(out, out=out)
        out /= out.sum(axis=1, keepdims=True)
        loss = -np.log(out[np.arange(rows), target]).mean()
        out[np.arange(rows), target] -= 1
        out /= rows
        for i in reversed(range(len(weights))):
            descent = layers[i].T @ out
            if i:
                out = (out @ weights[i].T) * (layers[i] > 0)
            weights[i] -= dtype(0.1) * descent
        return loss

    def run():
        weights = [w.copy() for w in first]
        return [step(weights) for _ in range(steps)]
    return run


def randomized_svd(dtype, rows, columns, rank, rounds):
    """The largest singular values by power iteration (Halko, Martinsson, Tropp 2011, algorithms 4.4 and 5.1)."""
    import numpy as np
    a, start = uniform((rows, columns), dtype, 1), uniform((columns, rank), dtype, 2)
    a[:, :4] *= dtype(4)  # so that there is something to be found

    def run():
        y = a @ start
        for _ in range(rounds):
            z, _ = np.linalg.qr(a.T @ np.linalg.qr(y)[0])
            y = a @ z
        return np.linalg.svd(np.linalg.qr(y)[0].T @ a, compute_uv=False)[:4]
    return run


def numpy_jobs(dtype, short):
    import numpy as np
    letter, kind = ("s", np.float32) if dtype == "s" else ("d", np.float64)
    cubes = [(48, 3)] if short else [(4096, 10), (8192, 4)] + [(16384, 1)] * (letter == "s")
    for n, times in cubes:
        yield f"NumPy {kind.__name__} a @ b, {n}", lambda: fresh(kind, n, times), 1
        yield f"NumPy {kind.__name__} out=, {n}", lambda: given(kind, n, times), 1
    count, n = (3, 40) if short else (32, 1024)
    yield f"NumPy {kind.__name__} batch of {count}, {n}", lambda: batched(kind, count, n), 1
    # As many steps as a figure of calls behind the first ones wants: the first of a process are not like the others.
    rows, sizes, steps = (30, (20, 30, 30, 10), 2) if short else (4096, (2048, 4096, 4096, 1024), 12)
    yield f"NumPy {kind.__name__} training", lambda: training(kind, rows, sizes, steps), 1
    tall = (80, 30, 6, 1) if short else (200_000, 2000, 110, 6)
    yield f"NumPy {kind.__name__} randomized SVD", lambda: randomized_svd(kind, *tall), 1


# ---- FAISS ----


def flat_search(points, dimensions, queries):
    import faiss
    import numpy as np
    index = faiss.IndexFlatL2(dimensions)
    index.add(uniform((points, dimensions), np.float32, 1))
    asked = uniform((queries, dimensions), np.float32, 2)

    def run():
        distances, _ = index.search(asked, 10)
        return [distances[:, 0].sum(), distances.sum()]
    return run


def faiss_kmeans(points, dimensions, clusters, rounds):
    import faiss
    import numpy as np
    x = uniform((points, dimensions), np.float32, 1)

    def run():
        kmeans = faiss.Kmeans(dimensions, clusters, niter=rounds, seed=1, max_points_per_centroid=points)
        kmeans.train(x)
        return [kmeans.obj[-1]]
    return run


def faiss_jobs(short):
    # The short ones are just large enough that FAISS asks the BLAS: queries times dimensions.
    search = (500, 220, 600) if short else (300_000, 768, 8192)
    yield "FAISS flat search", lambda: flat_search(*search), 1
    kmeans = (700, 200, 8, 2) if short else (131_072, 768, 1024, 4)
    yield "FAISS k-means", lambda: faiss_kmeans(*kmeans), 1


# ---- scikit-learn ----


def fitted(make, of, *data):
    """Fits a new estimator each time; of(estimator) tells the result."""
    def run():
        estimator = make()
        estimator.fit(*data)
        return of(estimator)
    return run


def neighbours(x, queries):
    from sklearn.neighbors import NearestNeighbors
    search = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(x)
    return lambda: [search.kneighbors(queries)[0].sum()]


def sklearn_jobs(short):
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.decomposition import NMF, PCA, TruncatedSVD
    from sklearn.neural_network import MLPClassifier
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    cores = _openmp_effective_n_threads()
    rows, width = (300, 24) if short else (60_000, 1024)
    kept, hidden, batch = (4, 8, 100) if short else (64, 512, 4096)
    x = uniform((rows, width), np.float32, 1)
    x[:, :kept] *= 4  # so that there is something to be found

    def pca(solver):
        return fitted(lambda: PCA(kept, svd_solver=solver, random_state=0), lambda e: [e.explained_variance_.sum()], x)

    yield "scikit-learn PCA, randomized", lambda: pca("randomized"), 1
    yield "scikit-learn PCA, covariance", lambda: pca("covariance_eigh"), 1
    yield "scikit-learn TruncatedSVD", lambda: fitted(
        lambda: TruncatedSVD(kept, random_state=0), lambda e: [e.explained_variance_.sum()], x), 1
    yield "scikit-learn KMeans", lambda: fitted(
        lambda: KMeans(kept * 4, init="random", n_init=1, max_iter=10, tol=0, random_state=0), lambda e: [e.inertia_], x), cores
    yield "scikit-learn neighbours", lambda: neighbours(x, uniform((rows // 15, width), np.float32, 2)), cores
    yield "scikit-learn NMF", lambda: fitted(
        lambda: NMF(kept, init="random", max_iter=20, tol=0, random_state=0), lambda e: [e.reconstruction_err_], np.abs(x)), 1
    labels = x[:, :kept].argmax(axis=1)
    yield "scikit-learn MLPClassifier", lambda: fitted(
        lambda: MLPClassifier((hidden, hidden), batch_size=batch, max_iter=8, n_iter_no_change=100, random_state=0),
        lambda e: [e.loss_], x, labels), 1


PROGRAMS = {"numpy_s": lambda short: numpy_jobs("s", short), "numpy_d": lambda short: numpy_jobs("d", short),
            "faiss": faiss_jobs, "sklearn": sklearn_jobs}


def loaded_files():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sorted({line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--budget", type=float, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--files", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # of estimators that were not given the time to converge
    library, failed = Library(), False
    try:
        for name, make, callers in PROGRAMS[options.program](options.short):
            if options.only not in name:
                continue
            try:
                done = measure(name, make(), callers, options.budget, library)
            except ImportError:
                raise
            except Exception:  # the other jobs are worth having
                failed = True
                traceback.print_exc()
                continue
            print(json.dumps(done), flush=True)
    except ImportError as missing:
        print(missing)
        sys.exit(77)  # bench/common.py: SKIPPED
    for file in loaded_files() if options.files else []:
        print(json.dumps({"file": file}))
    sys.exit(failed)


if __name__ == "__main__":
    main()
