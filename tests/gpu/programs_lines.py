# SPDX-License-Identifier: BSD-3-Clause
"""What bench/programs.py reads out of verbose lines: products as a column-major call has them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from programs import over_bench, products_of, shape_of  # noqa: E402

WHY = "(the GPU is predicted to finish sooner: cpu 9.000 ms, gpu 1.000 ms)"
LINES = {
    f"tileblas: scipy_cblas_dgemm64_ row-major NT m=2 n=3 k=4 lda=4 ldb=4 ldc=3 alpha=1 beta=0 -> gpu0 64x32/4 {WHY} up 1.000 ms "
    "compute 1.000 ms down 1.000 ms total 2.500 ms 0.100 TFLOP/s": (("d", "gemm", "TN:3x2x4", "gpu"), 2.5),
    "tileblas: sgemm_ TN m=2 n=3 k=4 lda=4 ldb=4 ldc=2 alpha=1 beta=0 -> cpu (too small for a GPU) total 0.125 ms 0.100 TFLOP/s":
        (("s", "gemm", "TN:2x3x4", "cpu"), 0.125),
    f"tileblas: scipy_cblas_ssyrk64_ row-major UT n=24 k=300 lda=24 ldc=24 alpha=1 beta=0 -> gpu0+1 emulated {WHY} up 1.000 ms "
    "compute 1.000 ms down 1.000 ms total 3.000 ms 0.100 TFLOP/s, lost": (("s", "syrk", "UT n=24 k=300", "gpu"), 3.0),
    "tileblas: the report cannot be written": None,
}
for line, meant in LINES.items():
    assert shape_of(line) == meant, (line, shape_of(line))

first, second = list(LINES)[:2]
rows = products_of("\n".join([first, "job a", first, first, "job b", second]), {"a": 2, "b": 1})
assert [(row["job"], row["calls"], row["total_ms"]) for row in rows] == [("a", 2, "5.000"), ("b", 1, "0.125")], rows
rows[0]["bench_ms"] = "1"
assert over_bench(rows) == 2.5 / 2, "two threads that call at once share the time"
rows[0]["mean_ms"] = "6"
assert over_bench(rows, "mean_ms") == 6 / 2 * 2 / 2, "the sum of two calls of two threads"
print("verbose lines are read right")
