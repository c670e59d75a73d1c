# SPDX-License-Identifier: BSD-3-Clause
"""FAISS trains and searches: its PCA has the covariance of what it learns from ssyrk, and what it makes
of the points is a product of sgemm. Each is checked against NumPy in double. Prints lines "products ROUTINE N": at least so many.
"""

import sys

try:
    import faiss
    import numpy as np
except ImportError as reason:
    print(reason)
    sys.exit(77)  # counted as skipped

DIMENSIONS, KEPT, POINTS, QUERIES, CLUSTERS = 48, 12, 1500, 100, 16


def expect(right, what):
    if not right:
        sys.exit(f"{what} is wrong")


rng = np.random.default_rng(4)
scales = np.linspace(4, 0.2, DIMENSIONS)
points = (rng.normal(size=(POINTS, DIMENSIONS)) * scales).astype(np.float32)

# PCA: the covariance's eigenvalues, and the points in its axes.
pca = faiss.PCAMatrix(DIMENSIONS, KEPT)
pca.train(points)
centered = points.astype(np.float64) - points.astype(np.float64).mean(0)
eigenvalues = np.linalg.eigvalsh(centered.T @ centered)[::-1]
found = faiss.vector_to_array(pca.eigenvalues)[:KEPT].astype(np.float64)
ratio = found / eigenvalues[:KEPT]  # FAISS may leave out the division by the number of points
expect(np.all(np.abs(ratio / ratio[0] - 1) < 1e-3), "the spectrum of a PCA")
moved = pca.apply(points).astype(np.float64)
expect(np.all(np.abs((moved**2).sum(0) / eigenvalues[:KEPT] - 1) < 1e-3), "what a PCA makes of the points")

# Exact search: the neighbours, and their distances.
index = faiss.IndexFlatL2(DIMENSIONS)
index.add(points)
distances, _ = index.search(points[:QUERIES] + np.float32(0.01), 3)
wide, queries = points.astype(np.float64), (points[:QUERIES] + np.float32(0.01)).astype(np.float64)
exact = np.sort(((queries[:, None] - wide[None]) ** 2).sum(2), 1)[:, :3]
expect(np.all(np.abs(distances - exact) < 1e-2 * (1 + exact)), "a distance")

# k-means: its objective must be that of its own centroids.
kmeans = faiss.Kmeans(DIMENSIONS, CLUSTERS, niter=4, seed=1, verbose=False)
kmeans.train(points)
nearest = ((wide[:, None] - kmeans.centroids.astype(np.float64)[None]) ** 2).sum(2).min(1).sum()
expect(nearest <= kmeans.obj[-1] * 1.001, "the clustering")

print("products ssyrk 1")
print("products sgemm 1")
