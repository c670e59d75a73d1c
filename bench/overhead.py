# SPDX-License-Identifier: BSD-3-Clause
"""bench/run overhead: what TileBLAS costs a small call that it leaves to the CPU BLAS.

Instructions are counted by callgrind: the difference of CALLS and 2 CALLS calls, so that start and end of the process do
not count. Nanoseconds are medians of batches, in processes that take turns, on one thread of OpenBLAS.
"""

import csv
import re
import shutil
import statistics

from common import SKIPPED, markdown

SIZES = [1, 8, 32, 64]
SYMBOLS = ["cblas_sgemm", "sgemm_"]
CALLS = 200
ROUNDS = 3
# Of a program that has opened CUDA itself: where its operands lie.
PLACES = ["heap", "static", "mapped"]
COLUMNS = ["n", "symbol", "cuda", "where", "openblas_instructions", "more_instructions", "openblas_ns", "tileblas_ns", "more_ns"]


def ours(bench):
    return {"OPENBLAS_NUM_THREADS": "1", "LD_PRELOAD": bench.place.library}


def run(bench, command, env):
    status, text, _ = bench.log.run(command, bench.place.environment(**env), timeout=120)
    if status not in (0, SKIPPED):
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}: status {status}\n{text[-2000:]}")
    return text if status == 0 else None


def instructions(bench, arguments, env):
    """Of one call."""
    counts = []
    for calls in (CALLS, 2 * CALLS):
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", bench.place.program("bench/overhead")]
        text = run(bench, [*command, *arguments, "--calls", str(calls)], env)
        counts.append(int(re.search(r"Collected : (\d+)", text).group(1)))
    return (counts[1] - counts[0]) / CALLS


def nanoseconds(bench, arguments):
    """Medians of one call, by OpenBLAS and by TileBLAS; None: there is no driver to open."""
    times = ([], [])
    for _ in range(1 if bench.short else ROUNDS):
        for side, env in zip(times, ({"OPENBLAS_NUM_THREADS": "1"}, ours(bench))):
            text = run(bench, [bench.place.program("bench/overhead"), *arguments], env)
            if text is None:
                return None
            side.append(float(text))
    return [statistics.median(side) for side in times]


def row(bench, n, symbol, where, cuda, count):
    arguments = ["--symbol", symbol, "--where", where, *["--cuda"] * cuda, str(n)]
    print(f"-- overhead {' '.join(arguments)}", flush=True)
    times = nanoseconds(bench, arguments)
    if times is None:
        return None
    cells = ["", ""]
    if count:
        plain = instructions(bench, arguments, {"OPENBLAS_NUM_THREADS": "1"})
        cells = [f"{plain:.0f}", f"{instructions(bench, arguments, ours(bench)) - plain:.0f}"]
    return [n, symbol, "yes" if cuda else "no", where, *cells, *(f"{t:.0f}" for t in times), f"{times[1] - times[0]:.0f}"]


def overhead(bench):
    count = shutil.which("valgrind") is not None
    if not count:
        bench.missing.append("instructions of small calls: no valgrind")
    rows = [row(bench, n, symbol, "heap", False, count) for n in bench.sizes or SIZES for symbol in SYMBOLS]
    # callgrind and a driver do not go together.
    with_cuda = [row(bench, 8, symbol, where, True, False) for where in PLACES for symbol in SYMBOLS]
    if None in with_cuda:
        bench.missing.append("small calls of a program with CUDA: no CUDA driver")
        with_cuda = []
    with open(bench.out / "overhead.csv", "w", newline="", encoding="utf-8") as f:
        csv.writer(f).writerows([COLUMNS, *rows, *with_cuda])
    text = ("C = A B, n cubed, decided for the CPU. Instructions of a call by callgrind; nanoseconds on one thread; \"cuda\": in a "
            "program that has opened CUDA itself, with operands in malloc's heap, in static variables, or in pages of their own.")
    bench.add("Small calls", text, markdown(COLUMNS, rows + with_cuda))
