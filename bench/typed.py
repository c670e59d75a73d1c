# SPDX-License-Identifier: BSD-3-Clause
"""What bench/run makes of bench/types: dgemm, cgemm and zgemm on resident data, and their errors. Standard library only."""

import re

from common import markdown, read_csv

ACCURACY_N = 256  # a sample of 64 x 64 elements is looked at
UNITS = {"d": "2^-53", "z": "2^-53", "c": "2^-24"}
OURS = "TileBLAS"
PEERS = ("cuBLAS", "OpenBLAS")


SHOWN = ["precision", "ta", "tb", "m", "n", "k", "way", "us", "tflops", "prepare_us", "cublas_us", "ratio", "ratio_3m",
         "max_err_u", "cublas_max_err_u"]


def kernels(bench):
    path = bench.out / f"kernels_{bench.type}.csv"
    command = [bench.place.program("bench/types"), "--type", bench.type, "--csv", path.name, *bench.peers_option()]
    sizes = [word for n in bench.sizes for word in ("--shape", f"NN:{n}x{n}x{n}")]
    if not bench.step(f"{bench.type}gemm beside cuBLAS", command + sizes + ["--short"] * bench.short, timeout=580):
        return
    rows = read_csv(path)
    fixed = rows if bench.sizes or bench.short else rows[:FIXED_SHAPES * len({r["precision"] for r in rows})]
    sums = [line for line in bench.said.splitlines() if re.match(r"\w+.*: .*: geometric mean", line)]
    text = ("Resident data. us: median of CUDA-event times, in which complex operands are made real (prepare_us); ratio: cuBLAS's "
            f"time over ours; errors in units of {UNITS[bench.type]} of |A||B|.")
    if sums:
        text += f" Over all shapes ({path.name}):\n\n" + "\n".join(f"- {line}" for line in sums)
    bench.add(f"{bench.type}gemm", text, markdown(SHOWN, [[r[c] for c in SHOWN] for r in fixed]))
    bench.summary += ["\n".join(sums) + "\n"] * bool(sums)
    if bench.type == "c":
        wide_kernels(bench)


def wide_kernels(bench):
    """Of data whose exponents ask for more planes."""
    path = bench.out / f"kernels_{bench.type}_wide.csv"
    sizes = [word for n in bench.sizes or (4096, 8192) for word in ("--shape", f"NN:{n}x{n}x{n}")]
    command = [bench.place.program("bench/types"), "--type", bench.type, "--csv", path.name, "--wide", *bench.peers_option(), *sizes]
    if bench.step(f"{bench.type}gemm of wide exponents", command, timeout=120):
        bench.add(f"{bench.type}gemm of wide exponents", "Parts are 2^e with e from -20 to 20, of either sign; else as above.",
                  markdown(SHOWN, [[r[c] for c in SHOWN] for r in read_csv(path)]))


FIXED_SHAPES = 21  # of the list, ahead of the random ones (bench/shapes.c)


def error(row):
    if row is None:
        return ""
    return f"{float(row['max_err_u']):.2f}, {float(row['mean_err_u']):.3f} ({float(row['bias_u']):+.3f})"


def worse(found, peer):
    """Lines: where ours are larger than the peer's, and of how many."""
    larger, compared = [], 0
    for (kind, k), by in found.items():
        for measure in ("max_err_u", "mean_err_u"):
            if peer not in by:
                continue
            ours, theirs = float(by[OURS][measure]), float(by[peer][measure])
            compared += 1
            if not ours <= theirs:
                larger.append(f"- {kind}, k = {k}: {measure} {ours:g}, {peer} {theirs:g}")
    if not compared:
        return []
    return [f"{len(larger)} of {compared} errors (max and mean, by data and k) are larger than {peer}'s", *larger]


def accuracy(bench):
    path = bench.out / f"accuracy_{bench.type}.csv"
    n = max(bench.sizes, default=ACCURACY_N)
    command = [bench.place.program("bench/types"), "--type", bench.type, "--accuracy", str(n), "--csv", path.name,
               *bench.peers_option(), *["--short"] * bench.short]
    if not bench.step(f"{bench.type}gemm's errors", command, timeout=580):
        return
    found = {}
    for row in read_csv(path):
        found.setdefault((row["kind"], int(row["k"])), {})[row["who"]] = row
    columns = list(dict.fromkeys(who for by in found.values() for who in by))
    table = markdown(["data", "k", *columns], [[kind, k, *(error(by.get(who)) for who in columns)]
                                               for (kind, k), by in found.items()])
    lines = "\n".join(line for peer in PEERS for line in worse(found, peer))
    text = (f"n = {n}. Error over |A||B| in units of {UNITS[bench.type]}, of complex elements by parts: largest, mean (mean away "
            f"from zero), of a sample of rows and columns.\n\n{lines}\n")
    bench.add(f"{bench.type}gemm's errors", text, table, last=False)
    bench.summary.append(lines + "\n")
