# SPDX-License-Identifier: BSD-3-Clause
"""bench/run scaling: whole calls on host data by one GPU, by two, and so on.

Every call is shared (TILEBLAS_SHARE=always), for left to itself TileBLAS opens further GPUs only when the calls so far
would have paid for it. One process a figure, so that its first call shows what opening all of them costs.
"""

import csv
import ctypes
import re
import sys

from common import markdown

SIZES = [8192, 16384, 32768]
BYTES_OF_CUBE = 3 * 4  # times n^2: A, B and C


def gpu_count():
    """As the driver counts them; 0: there is no driver."""
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def counts_up_to(most):
    """1, 2, 4, ... and all of them."""
    counts = [1]
    while 2 * counts[-1] < most:
        counts.append(2 * counts[-1])
    return counts + [most] * (most > 1)


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith("MemAvailable:"))


def check_report(report, gpus):
    """Ends the run if other GPUs than the wanted ones computed, or anything failed."""
    said = next((line for line in report.splitlines() if line.startswith("tileblas: gpu:")), "")
    opened = len(re.findall(r"\bGPU \d+, ", said))
    if opened != gpus or "given up" in said or "a GPU failed" in report or re.search(r"^tileblas:   cpu ", report, re.M):
        sys.exit(f"FAILED: scaling on {gpus} GPUs: the report says\n{report}")


def measure(bench, gpus, n):
    report = bench.out / "report.tmp"
    env = {"LD_PRELOAD": bench.place.library, "TILEBLAS_ROUTE": "gpu", "TILEBLAS_SHARE": "always", "TILEBLAS_REPORT": report,
           "TILEBLAS_DEVICES": ",".join(map(str, range(gpus)))}
    command = [bench.place.program("bench/e2e"), "--csv", "scaling.csv", "--label", f"{gpus} GPU{'s' * (gpus > 1)}", str(n)]
    bench.step(f"scaling, {gpus} of the GPUs, {n}", command, **env)
    check_report(report.read_text(), gpus)
    report.unlink()


def scaling(bench):
    most = gpu_count()
    if most < 2:
        bench.missing.append(f"scaling: it takes two GPUs, and this machine has {most or 'none that a driver tells of'}")
        return
    path = bench.out / "scaling.csv"
    path.unlink(missing_ok=True)
    counts = counts_up_to(most)
    sizes = bench.sizes or (SIZES[:2] if bench.short else SIZES)
    for n in sizes:
        if BYTES_OF_CUBE * n * n > available_bytes():
            bench.missing.append(f"scaling at {n}: the operands do not fit into this machine's memory")
            continue
        for gpus in counts:
            measure(bench, gpus, n)
    if not path.exists():
        return
    table, alone = [], {}
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if not row["owner"].startswith("libtileblas"):
                sys.exit(f"FAILED: scaling was answered by {row['owner']}")
            seconds = float(row["median_s"])
            alone.setdefault(row["n"], seconds)
            table.append([row["n"], row["label"], f"{float(row['first_s']):.4f}", f"{seconds:.5f}", row["tflops"],
                          f"{alone[row['n']] / seconds:.2f}"])
    text = ("C = A B, n cubed, plain malloc'd memory; every call shared by all the GPUs named. Median seconds, and how many times "
            "as fast as one GPU; the first call of a process opens the GPUs. Uniform random operands, every result checked.")
    bench.add("Scaling", text, markdown(["n", "GPUs", "first call", "median s", "TFLOP/s", "speedup"], table))
