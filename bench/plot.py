#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws what `bench/run` measured: bench/plot.py calls.csv calls.svg, and so ladder.csv and accuracy.csv

calls.csv: whole-call TFLOP/s over n. Settings of one peer (NVBLAS's tiles, cuBLASXt's blocks) become one line, the best
at each n; with the floor, if floor.csv lies beside it, or the link's part of it from link.csv. ladder.csv: TFLOP/s by step, with the roofline and cuBLAS as lines. accuracy.csv: largest and mean error over k, one
panel for each kind of data. Needs Matplotlib.
"""

import pathlib
import re
import sys

import matplotlib

from common import link_seconds, read_csv

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tileblas"  # the same input gives the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # words, and not the outlines of their letters, which were most of a file
import matplotlib.pyplot as plt  # noqa: E402

# Label prefix, legend, colour (Okabe and Ito's, distinguishable without colour vision), marker, line.
LINES = [
    ("TileBLAS", "TileBLAS, a process's first calls", "#0072b2", "o", "-"),
    ("TileBLAS forced", "TileBLAS, all on the GPU", "#0072b2", "o", ":"),
    ("cuBLASXt", "cuBLASXt, best block", "#009e73", "s", "-"),
    ("copy-cuBLAS-copy", "copy, cuBLAS, copy", "#e69f00", "^", "-"),
    ("NVBLAS", "NVBLAS autopin, best tile", "#cc79a7", "v", "-"),
    ("OpenBLAS", "OpenBLAS, all cores", "#555555", "x", "-"),
]


def shorten(path):
    """A tenth of a point is enough for a place, and a font's name need not come with its substitutes: half of a file."""
    text = re.sub(r"(?<![>\d.])\d+\.\d{4,}", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), path.read_text())
    path.write_text(re.sub(r"font-family: [^;\"]*sans-serif", "font-family: sans-serif", text))


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


def draw_floor(axes, folder, sizes):
    """As TFLOP/s, which no call can pass."""
    if (folder / "floor.csv").exists():
        seconds = {int(row["n"]): float(row["floor_s"]) for row in read_csv(folder / "floor.csv")}
        legend = "what link and kernels allow"
    elif (folder / "link.csv").exists():
        link = read_csv(folder / "link.csv")[0]
        seconds = {n: max(link_seconds(link, n)) for n in sizes}
        legend = "what the link allows"
    else:
        return
    axes.plot(sizes, [2e-12 * n**3 / seconds[n] for n in sizes], color="black", linestyle="--", linewidth=1, label=legend)


def draw_calls(axes, rows, folder):
    drawn = 0
    sizes = sorted({int(row["n"]) for row in rows if row["m"] == row["n"] == row["k"]})
    for prefix, legend, colour, marker, line in LINES:
        best = sorted(best_tflops(rows, prefix).items())
        if best:
            axes.plot(*zip(*best), color=colour, marker=marker, linestyle=line, label=legend)
            drawn += 1
    if not drawn:
        sys.exit(f"{sys.argv[1]} has no line that can be drawn")
    draw_floor(axes, folder, sizes)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_yticks([y for y in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300) if axes.get_ylim()[0] <= y <= axes.get_ylim()[1]])
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xlabel("n (C = A B, n cubed, operands in plain host memory)")
    axes.set_ylabel("TFLOP/s of the whole call")
    axes.grid(True, alpha=0.3)
    axes.figure.legend(fontsize=8, ncols=3, loc="outside lower center")


def draw_ladder(figure, axes, rows):
    steps = [row for row in rows if row["kernel"] != "cublasSgemm"]
    cublas = [float(row["tflops"]) for row in rows if row["kernel"] == "cublasSgemm"]
    height = range(len(steps))
    tflops = [float(row["tflops"]) for row in steps]
    ours = [row["kernel"].startswith("tb_sgemm_") for row in steps]
    axes.barh(height, tflops, color=["#0072b2" if production else "#56b4e9" for production in ours])
    for y, value in zip(height, tflops):
        axes.text(value + 0.5, y, f"{value:.1f}", va="center", fontsize=8)
    # Each step's own roof, from the bytes that it asks of global memory; caches let the first steps through it.
    roof = [float(row["roofline_tflops"]) for row in steps]
    peak = float(rows[0]["peak_tflops"])
    label = f"roofline: memory bandwidth times the step's flop/byte, at most the peak of {peak:.1f}"
    axes.plot([r for r in roof for _ in range(2)], [y + half for y in height for half in (-0.5, 0.5)], color="#d55e00",
              linewidth=1.2, label=label)
    if cublas:
        axes.axvline(cublas[0], color="#555555", linestyle="--", linewidth=1.2, label=f"cuBLAS fp32, {cublas[0]:.1f}")
    axes.set_yticks(height, [row["step"] for row in steps], fontsize=8)
    axes.set_ylim(len(steps) - 0.4, -0.6)  # the first step on top
    axes.set_xlim(0, 1.08 * max([*roof, *tflops]))
    axes.set_xlabel(f"TFLOP/s ({rows[0]['gpu']}, fp32, m n k about {steps[0]['m']} {steps[0]['n']} {steps[0]['k']})")
    axes.grid(True, axis="x", alpha=0.3)
    figure.legend(fontsize=8, loc="outside lower center")


# Who in accuracy.csv, legend, colour, marker.
ERRORS = [
    ("TileBLAS fp32", "TileBLAS fp32, tensor cores", "#0072b2", "o"),
    ("TileBLAS fast", "TileBLAS fast, tensor cores", "#56b4e9", "^"),
    ("TileBLAS ieee", "TileBLAS ieee", "#009e73", "s"),
    ("cuBLAS fp32", "cuBLAS fp32", "#e69f00", "v"),
    ("OpenBLAS sgemm", "OpenBLAS", "#555555", "x"),
]
PANELS_ACROSS = 5


def draw_errors(axes, rows, kind, depths):
    of_kind = [row for row in rows if row["kind"] == kind]
    for who, legend, colour, marker in ERRORS:
        for column, style in (("max_err_u", "-"), ("mean_err_u", ":")):
            line = [(int(r["k"]), float(r[column])) for r in of_kind if r["who"] == who and float(r[column]) > 0]
            if line:
                axes.plot(*zip(*sorted(line)), color=colour, linestyle=style, marker=marker, markersize=3, linewidth=1,
                          label=legend if style == "-" else None)
    if all(float(row["max_err_u"]) == 0 for row in of_kind):
        axes.text(0.5, 0.5, "no errors", transform=axes.transAxes, ha="center")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(depths[0] / 1.5, depths[-1] * 1.5)
    axes.set_xticks(depths, [str(k) for k in depths], fontsize=6)
    axes.tick_params(axis="y", labelsize=6)
    axes.minorticks_off()
    axes.set_title(kind, fontsize=8)
    axes.grid(True, alpha=0.3)


def draw_accuracy(figure, rows):
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    down = -(-len(kinds) // PANELS_ACROSS)
    figure.set_size_inches(11, 0.7 + 2.4 * down)
    panels = figure.subplots(down, PANELS_ACROSS, sharey=True, squeeze=False).ravel()
    depths = sorted({int(row["k"]) for row in rows})
    for kind, axes in zip(kinds, panels):
        draw_errors(axes, rows, kind, depths)
    # A fast product of data that fp16 does not suit leaves by the top; the others' differences are to be seen.
    shown = [float(row["max_err_u"]) for row in rows if row["who"] in [who for who, *_ in ERRORS] and "fast" not in row["who"]]
    panels[0].set_ylim(top=2 * max(shown))
    for axes in panels[len(kinds):]:
        axes.set_visible(False)
    figure.supylabel("error over |A||B| in units of 2^-24, by k: largest (solid), mean (dotted)", fontsize=8)
    handles = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), fontsize=8, ncols=len(ERRORS), loc="outside lower center")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows = read_csv(sys.argv[1])
    figure = plt.figure(figsize=(7.2, 4.4), layout="constrained")
    if "mean_err_u" in rows[0] and "kind" in rows[0]:
        draw_accuracy(figure, rows)
    elif "roofline_tflops" in rows[0]:
        draw_ladder(figure, figure.subplots(), rows)
    else:
        draw_calls(figure.subplots(), rows, pathlib.Path(sys.argv[1]).parent)
    figure.savefig(sys.argv[2], metadata={"Date": None})
    shorten(pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
