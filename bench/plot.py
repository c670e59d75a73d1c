#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws whole-call TFLOP/s over n from the calls.csv of `bench/run calls`: bench/plot.py calls.csv calls.svg

Needs Matplotlib. Settings of one peer (NVBLAS's tiles, cuBLASXt's blocks) become one line, the best at each n.
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tileblas"  # the same input gives the same file
import matplotlib.pyplot as plt  # noqa: E402

# Label prefix, legend, colour (Okabe and Ito's, distinguishable without colour vision), marker.
LINES = [
    ("TileBLAS", "TileBLAS (preloaded, auto)", "#0072b2", "o"),
    ("cuBLASXt", "cuBLASXt, best block", "#009e73", "s"),
    ("copy-cuBLAS-copy", "copy, cuBLAS, copy", "#e69f00", "^"),
    ("NVBLAS", "NVBLAS autopin, best tile", "#cc79a7", "v"),
    ("OpenBLAS", "OpenBLAS, all cores", "#555555", "x"),
]


def best_tflops(rows, prefix):
    """{n: TFLOP/s} of the label itself, or of its best setting."""
    best = {}
    for row in rows:
        same = row["label"] == prefix or (prefix in ("NVBLAS", "cuBLASXt") and row["label"].startswith(prefix))
        cube = row["m"] == row["n"] == row["k"]
        if same and cube:
            n = int(row["n"])
            best[n] = max(best.get(n, 0.0), float(row["tflops"]))
    return best


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    drawn = 0
    for prefix, legend, colour, marker in LINES:
        best = sorted(best_tflops(rows, prefix).items())
        if best:
            axes.plot(*zip(*best), color=colour, marker=marker, label=legend)
            drawn += 1
    if not drawn:
        sys.exit(f"{sys.argv[1]} has no line that can be drawn")
    sizes = sorted({int(row["n"]) for row in rows if row["m"] == row["n"] == row["k"]})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_yticks([y for y in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100) if axes.get_ylim()[0] <= y <= axes.get_ylim()[1]])
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xlabel("n (C = A B, n cubed, operands in plain host memory)")
    axes.set_ylabel("TFLOP/s of the whole call")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
