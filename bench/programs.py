#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real jobs: bench/run programs, and the tables that README and docs have of it.

    bench/programs.py DIR [--into FILE]...

DIR holds programs.csv, programs_products.csv and results.md of a run. Prints the tables, or renews those of a Markdown
file: what stands between <!-- programs WHAT --> and <!-- end -->, WHAT being `brief`, `jobs` or
`products`. The jobs themselves are in jobs.py and jobs.cpp. Python's standard library only.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

from common import ROOT, SKIPPED, markdown, origin, read_csv, renew

FILES = ["programs.csv", "programs_products.csv"]
PROGRAMS = ["numpy_s", "numpy_d", "faiss", "sklearn", "cpp"]
NEEDED = {"numpy": "numpy>=2", "faiss": "faiss-cpu", "scipy": "scipy", "sklearn": "scikit-learn", "joblib": "joblib", "cloudpickle": "cloudpickle",
          "threadpoolctl": "threadpoolctl", "narwhals": "narwhals", "packaging": "packaging"}  # module: what pip is asked for
SECONDS = {False: "5", True: "0.1"}  # for the repetitions of one job; for --short False and True
WARM_SECONDS = {False: "0.4", True: "0.01"}  # for those of one product on the bench
LIMIT_S = 580  # of one program
COVERED = 0.95  # of a job's time in products on the GPU: the shapes that make it up are measured on the bench
MOST_SHAPES = 6
SHOWN_SIZE = 8192  # in the brief table
SLOWER = 1.02  # than without: named
# How far results may differ between two sums in another order. A k-means moves points between clusters.
TOLERANCE = {"k-means": 1e-2, "KMeans": 1e-2, "MLPClassifier": 1e-2, "training": 1e-3}
COMMON_TOLERANCE = 2e-3  # of some elements, which are sums of both signs


# ---- running the jobs ----


def interpreter(bench):
    """The Python of the jobs, and what its environment wants: the kit's own, or one that has the packages."""
    own = bench.place.kit / "python" if bench.place.kit else None
    if own and own.exists():
        return str(own / "bin" / "python3"), {"PYTHONHOME": own, "PYTHONPATH": own / "site", "PYTHONNOUSERSITE": 1}
    venv = ROOT / "build" / "venv" / "bin" / "python3"
    return os.environ.get("TILEBLAS_PYTHON") or (str(venv) if venv.exists() else sys.executable), {}


def install(bench):
    """On a machine of its own, as bench/demo does. What cannot be had is named where it is missed."""
    if bench.place.given or os.environ.get("TILEBLAS_PYTHON"):
        return
    wanted = " ".join(f"'{module}:{package}'" for module, package in NEEDED.items())
    script = f"set -eu; . tools/setup.sh; tb_packages python3-venv; tb_python_packages {wanted}"
    subprocess.run(["bash", "-c", script], cwd=ROOT, check=False)


def command_of(bench, program, python):
    options = ["--budget", SECONDS[bench.short], *["--short"] * bench.short]
    if program == "cpp":
        return [bench.place.program("bench/jobs"), *options]
    return [python, "-B", str(ROOT / "bench" / "jobs.py"), *options, program]


def run_program(bench, program, way, env):
    """The results of its jobs as they were printed, and what it said on stderr. ([], ""): something is missing, and named."""
    python, python_env = interpreter(bench)
    said = bench.out / "said.tmp"
    print(f"-- {program} {way}", flush=True)
    shell = ["sh", "-c", 'said=$1; shift; exec "$@" 2>"$said"', "sh", str(said)]
    environment = bench.place.environment(**env, **(python_env if program != "cpp" else {}))
    status, text, seconds = bench.log.run([*shell, *command_of(bench, program, python)], environment, LIMIT_S, cwd=bench.out)
    errors = said.read_text(errors="replace")
    said.unlink()
    print(f"   {seconds:.0f} s", flush=True)
    lines = text.splitlines()
    if status == SKIPPED:
        bench.missing.append(f"{program}: {lines[-1] if lines else 'no reason given'}")
        return [], ""
    if status != 0:
        bench.failed.append(f"FAILED: {program} {way}: status {status}\n{text[-1000:]}\n{errors[-3000:]}")
    return [json.loads(line) for line in lines if line.startswith("{")], errors


def ways(bench):
    """The libraries that are preloaded, in turn."""
    libraries = {"without": None, "before": bench.before, "with": bench.place.library}
    return {way: library for way, library in libraries.items() if library or way == "without"}


def environment_of(bench, library, report):
    """Each library has a cache of its own: what one has measured is not for the other."""
    if not library:
        return {}
    cache = bench.out / f"cache_{'before' if library == bench.before else 'with'}"
    env = {"LD_PRELOAD": library, "TILEBLAS_REPORT": report, "XDG_CACHE_HOME": cache}
    return dict(env, TILEBLAS_ROUTE=bench.route) if bench.route else env


def run_jobs(bench, program):
    """{job: {way: result}}, and the rows of its products."""
    results, products = {}, []
    for way, library in ways(bench).items():
        report = bench.out / "report.tmp"
        report.unlink(missing_ok=True)
        jobs, errors = run_program(bench, program, way, environment_of(bench, library, report))
        if report.exists():
            bench.log.write(report.read_text())
            report.unlink()
        for job in jobs:
            results.setdefault(job["job"], {})[way] = job
        if way == "with":
            products = products_of(errors, {job["job"]: job["callers"] for job in jobs})
    return results, products


def check(bench, results):
    """Whoever computed a job, it is the same job."""
    for name, by_way in results.items():
        allowed = next((t for part, t in TOLERANCE.items() if part in name), COMMON_TOLERANCE)
        numbers = [job["check"] for job in by_way.values()]
        for other in numbers[1:]:
            for mine, theirs in zip(numbers[0], other):
                if not abs(mine - theirs) <= allowed * max(1, abs(mine)):
                    bench.failed.append(f"FAILED: {name}: {mine!r} without the library, {theirs!r} with it")


# ---- products, by the verbose lines ----


GEMM = re.compile(r"tileblas: (\w+)( row-major)? ([NTC])([NTC]) m=(\d+) n=(\d+) k=(\d+) .*?-> (gpu|cpu)\S* .*total ([\d.]+) ms")
OTHER = re.compile(r"tileblas: (\w+)(?: row-major)? (.*?) ld.*?-> (gpu|cpu)\S* .*total ([\d.]+) ms")
NAME = re.compile(r"([sdcz])(gemm|gemmt|symm|hemm|syrk|herk|syr2k|her2k|trmm|trsm)")


def shape_of(line):
    """(type, routine, shape, side) and the milliseconds of a verbose line; None: it is another. Of a gemm its shape is
    TRANSPOSES:MxNxK as a column-major call has it; of another routine what the line says."""
    gemm = GEMM.match(line)
    if gemm:
        symbol, row_major, ta, tb, m, n, k, side, ms = gemm.groups()
        (ta, m), (tb, n) = ((tb, n), (ta, m)) if row_major else ((ta, m), (tb, n))
        shape = f"{ta}{tb}:{m}x{n}x{k}"
    else:
        other = OTHER.match(line)
        if not other:
            return None
        symbol, shape, side, ms = other.groups()
    element, routine = NAME.search(symbol).groups()
    return (element, routine, shape, side), float(ms)


def products_of(errors, callers):
    """A row for each shape of each job, the longest first."""
    times, job = {}, None
    for line in errors.splitlines():
        found = shape_of(line)
        if line.startswith("job "):
            job = line[4:]
        elif found and job:
            times.setdefault((job, *found[0]), []).append(found[1])
    rows = [{"job": job, "type": element, "routine": routine, "shape": shape, "side": side, "callers": callers.get(job, 1),
             "calls": len(ms), "total_ms": f"{sum(ms):.3f}", "mean_ms": f"{statistics.mean(ms):.4f}",
             "median_ms": f"{statistics.median(ms):.4f}", "bench_ms": ""}
            for (job, element, routine, shape, side), ms in times.items()]
    order = list(dict.fromkeys(row["job"] for row in rows))
    return sorted(rows, key=lambda row: (order.index(row["job"]), -float(row["total_ms"])))


def measured_shapes(rows):
    """(type, shape) of the gemms on the GPU that make up most of the time of their jobs."""
    wanted = []
    for job in dict.fromkeys(row["job"] for row in rows):
        mine = [row for row in rows if row["job"] == job and row["side"] == "gpu"]
        whole, so_far = sum(float(row["total_ms"]) for row in mine), 0
        for row in mine[:MOST_SHAPES]:
            if so_far < COVERED * whole and row["routine"] == "gemm":
                wanted.append((row["type"], row["shape"]))
            so_far += float(row["total_ms"])
    return list(dict.fromkeys(wanted))


def warm_times(bench, shapes):
    """{(type, shape): ms} of whole calls on the bench: memory that was used before, cores that have nothing else to do."""
    found, groups = {}, {}
    for element, shape in shapes:
        transposes, size = shape.replace("C", "T").split(":")
        groups.setdefault((element, transposes), []).append((shape, size))
    for (element, transposes), sizes in groups.items():
        path = bench.out / "warm.tmp"
        path.unlink(missing_ok=True)
        command = [bench.place.program("bench/e2e"), "--csv", path.name, "--label", "warm", "--symbol", f"{element}gemm_",
                   "--ta", transposes[0], "--tb", transposes[1], "--budget", WARM_SECONDS[bench.short], *(size for _, size in sizes)]
        print(f"-- {element}gemm {transposes} on the bench", flush=True)
        environment = bench.place.environment(LD_PRELOAD=bench.place.library, TILEBLAS_ROUTE="gpu", TILEBLAS_CACHE="off",
                                              XDG_CACHE_HOME=bench.out / "cache_with")
        status, text, _ = bench.log.run(command, environment, LIMIT_S, cwd=bench.out)
        if status != 0:  # the jobs' own figures are worth having
            bench.failed.append(f"FAILED: {' '.join(command)}: status {status}\n{text[-1000:]}")
        by_size = {"x".join(row[side] for side in "mnk"): row for row in (read_csv(path) if path.exists() else [])}
        for shape, size in sizes:
            if size in by_size:
                found[element, shape] = 1e3 * float(by_size[size]["median_s"])
        path.unlink(missing_ok=True)
    return found


# ---- tables ----


def over_bench(rows, column="median_ms"):
    """How many times as long the products of a job on the GPU take as on the bench, of those measured there, by medians;
    by "mean_ms" the sum of all calls, to which those that bring up what stays belong. Threads that call at once share the
    time. None: none is measured."""
    mine = [row for row in rows if row["side"] == "gpu" and row["bench_ms"]]
    there = sum(int(row["calls"]) * float(row[column]) / int(row["callers"]) for row in mine)
    bench = sum(int(row["calls"]) * float(row["bench_ms"]) for row in mine)
    return there / bench if bench else None


def cell(value, digits=3):
    """So many digits that say something: 0.0123, 1.23, 123."""
    if value is None:
        return ""
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def share_on_gpu(rows):
    whole = sum(float(row["total_ms"]) for row in rows)
    return sum(float(row["total_ms"]) for row in rows if row["side"] == "gpu") / whole if whole else None


def seconds(row, way):
    return float(row[f"{way}_s"]) if row.get(f"{way}_s") else None


class Run:
    """What a folder has."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.jobs, self.products = map(self.read, FILES)

    def read(self, name):
        path = self.folder / name
        return read_csv(path) if path.exists() else []

    def products_of(self, job):
        return [row for row in self.products if row["job"] == job]


def jobs_table(run):
    before = any(seconds(job, "before") for job in run.jobs)
    header = ["job", "without, s", *["before, s"] * before, "with, s", "times as fast", "in products", "of it on the GPU", "over the bench", "summed"]
    rows = []
    for job in run.jobs:
        without, ours, products = seconds(job, "without"), seconds(job, "with"), run.products_of(job["job"])
        on_gpu = share_on_gpu(products)
        rows.append([job["job"], cell(without), *[cell(seconds(job, "before"))] * before, cell(ours),
                     cell(without / ours if without and ours else None), f"{float(job['share']):.0%}" if job["share"] else "",
                     f"{on_gpu:.0%}" if on_gpu is not None else "", cell(over_bench(products)),
                     cell(over_bench(products, "mean_ms"))])
    return markdown(header, rows)


def products_table(run):
    rows = []
    for row in run.products:
        shown = float(row["total_ms"]) >= 0.05 * sum(float(other["total_ms"]) for other in run.products_of(row["job"]))
        if shown:
            warm = float(row["bench_ms"]) if row["bench_ms"] else None
            there = float(row["median_ms"])
            rows.append([row["job"], f"`{row['type']}{row['routine']}` {row['shape']}", row["side"], row["calls"], cell(there),
                         cell(float(row["mean_ms"])), cell(warm), cell(there / int(row["callers"]) / warm if warm else None)])
    return markdown(["job", "product", "by", "calls", "median, ms", "mean, ms", "bench, ms", "over the bench"], rows)


def of_one_size(jobs):
    """Of jobs that differ by their size alone the one of SHOWN_SIZE; where there is none the largest."""
    kept = {}
    for job in jobs:
        prefix, _, size = job["job"].rpartition(", ")
        if prefix not in kept or not kept[prefix]["job"].endswith(f", {SHOWN_SIZE}"):
            kept[prefix if size.isdigit() else job["job"]] = job
    return list(kept.values())


GROUPS = ["NumPy float32", "NumPy float64", "FAISS", "scikit-learn", "C++"]  # what the names of jobs begin with


def brief_table(run):
    """Few lines: one for each group of jobs."""
    shown = of_one_size(run.jobs)
    rows = []
    for group in GROUPS:
        jobs = []
        for job in shown:
            name = job["job"].removeprefix(group + " ")
            over = cell(over_bench(run.products_of(job["job"]))) or "-"
            if name != job["job"]:
                jobs.append(f"{name}: {cell(seconds(job, 'without'))} / {cell(seconds(job, 'with'))} / {over}")
        rows.append([group, "; ".join(jobs)])
    if sum(row[1].count(": ") for row in rows) != len(shown):
        sys.exit("FAILED: a job's name begins with none of GROUPS")
    return markdown(["program", "job: seconds without / with / over the bench"], rows)


TABLES = {"brief": brief_table, "jobs": jobs_table, "products": products_table}
LEGEND = {
    "brief": "Inside programs. Over the bench: how many times as long the products on the GPU take there as alone, from memory that was used before, operands going up each time; by medians of calls.",
    "jobs": ("Medians after a first run. In products: the share of the time. Over the bench: how many times as long the products on the GPU take as "
             "alone, from memory that was used before, operands going up each time, in the same run. By medians of calls; of threads that call at once by the number of threads. Summed: all calls' time "
             "over that, so with those that bring up what stays."),
    "products": ("Shapes as column-major calls have them, TRANSPOSES:MxNxK; those of 5 % of a job's time in products or more. Median and mean of the "
                 "calls of one run of the job. Bench: the same product alone, from memory that was used before, operands going up each time, by `bench/e2e`."),
}


# ---- the mode of bench/run ----


def job_row(name, by_way):
    ours = by_way.get("with")
    row = {"job": name, "callers": next(iter(by_way.values()))["callers"]}
    for way in ("without", "before", "with"):
        row[f"{way}_s"] = f"{by_way[way]['wall_s']:.6f}" if way in by_way else ""
        row[f"{way}_first_s"] = f"{by_way[way]['first_s']:.6f}" if way in by_way else ""
        row[f"{way}_runs"] = by_way[way]["runs"] if way in by_way else ""
    row["share"] = f"{ours['products_s'] / ours['callers'] / ours['wall_s']:.4f}" if ours else ""
    return row


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def slower(run):
    """A line for the jobs that the library makes slower."""
    named = [f"{job['job']} ({seconds(job, 'with') / seconds(job, 'without'):.2f})" for job in run.jobs
             if seconds(job, "with") and seconds(job, "without") and seconds(job, "with") > SLOWER * seconds(job, "without")]
    return f"Slower than without by more than 2 %: {', '.join(named) or 'none'}."


def wanted_programs(bench):
    return [p for p in PROGRAMS if not bench.only or any(p.startswith(only) for only in bench.only)]


def programs(bench):
    install(bench)
    for name in FILES:
        (bench.out / name).unlink(missing_ok=True)
    jobs, products = [], []
    for program in wanted_programs(bench):
        results, rows = run_jobs(bench, program)
        check(bench, results)
        jobs += [job_row(name, by_way) for name, by_way in results.items()]
        products += rows
    if not jobs:
        return
    warm = warm_times(bench, measured_shapes(products))
    for row in products:
        row["bench_ms"] = f"{warm[row['type'], row['shape']]:.4f}" if row["side"] == "gpu" and (row["type"], row["shape"]) in warm else ""
    for name, rows in zip(FILES, (jobs, products)):
        if rows:
            write_csv(bench.out / name, rows)
    for folder in bench.out.glob("cache_*"):
        shutil.rmtree(folder)
    run = Run(bench.out)
    on_gpu = any(row["side"] == "gpu" for row in run.products)
    said = slower(run) if on_gpu else "The GPU computed no product here: OpenBLAS answered all of them."
    bench.add("Jobs", f"{LEGEND['jobs']} {said}", jobs_table(run))
    bench.add("Products of the jobs", LEGEND["products"], products_table(run))
    bench.summary.append(said + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--into", action="append", default=[], metavar="FILE")
    options = parser.parse_args()
    run = Run(options.folder.resolve())
    if not run.jobs:
        sys.exit(f"{options.folder} has no programs.csv")
    for path in options.into:
        if not renew(path, r"programs (\w+)", lambda found: f"{LEGEND[found[1]]}\n{origin(run.folder, path, 'programs')}\n\n{TABLES[found[1]](run)}"):
            sys.exit(f"{path} has no <!-- programs ... -->")
    for what in TABLES if not options.into else []:
        print(f"{LEGEND[what]}\n\n{TABLES[what](run)}")


if __name__ == "__main__":
    main()
