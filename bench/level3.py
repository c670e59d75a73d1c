#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""All of level 3: bench/run level3, and the tables that README and docs have of it.

    bench/level3.py DIR [--into FILE]...

DIR holds level3_resident.csv, level3_calls.csv and results.md of a run. Prints the tables of every size, or renews those
of a Markdown file: what stands between <!-- level3 WHAT N --> and <!-- end -->, WHAT being `ratios` (routines by
types), `types` (types by routines), `shares` or `errors`, and N an order. Python's standard library only.
"""

import argparse
import os
import pathlib
import re
import sys

from common import markdown, origin, read_csv, renew

ROUTINES = ["gemm", "symm", "hemm", "syrk", "herk", "syr2k", "her2k", "gemmt", "trmm", "trsm"]
TYPES = "sdcz"
PARTS = {"resident": "level3_resident.csv", "errors": "level3_errors.csv", "calls": "level3_calls.csv"}  # and what they write
SIZES = [4096, 8192]
SHORT_SIZES = [2048]
SOLVED = 16384  # dtrsm alone
ERRORS_N = 1000
NVBLAS_TILES = [2048, 4096]
OPENBLAS_MOST_FLOPS = 8 * 4096**3  # of a call; what takes more is left out
UNITS = {"s": "2^-24", "c": "2^-24", "d": "2^-53", "z": "2^-53"}
PEERS = ("cuBLAS", "OpenBLAS")
OURS = "TileBLAS"


def name(row):
    return row["type"] + row["routine"]


def key(row):
    return row["type"], row["routine"], int(row["n"])


def number(row, column, digits):
    return f"{float(row[column]):.{digits}f}" if row and row.get(column) else ""


# ---- measuring ----


def command(bench, part, csv, sizes, *more):
    return [bench.place.program("bench/level3"), part, "--csv", csv, "--types", bench.types, "--routines", bench.routines,
            *more, *map(str, sizes)]


def ours(bench, report=None):
    env = {"LD_PRELOAD": bench.place.library, "TILEBLAS_ROUTE": "gpu", "XDG_CACHE_HOME": bench.out / "cache"}
    return dict(env, TILEBLAS_REPORT=report) if report else env


def resident(bench, sizes):
    quick = ["--rounds", "1"] if bench.short else []
    if not bench.step("resident operands", command(bench, "resident", PARTS["resident"], sizes, *bench.peers_option(), *quick),
                      timeout=580, **ours(bench)):
        return
    wanted = bench.routines == "all" or "trsm" in bench.routines.split(",")
    if not bench.sizes and not bench.short and "d" in bench.types and wanted:
        solve = [bench.place.program("bench/level3"), "resident", "--csv", PARTS["resident"], "--types", "d", "--routines", "trsm",
                 *bench.peers_option(), str(SOLVED)]
        bench.step(f"dtrsm of {SOLVED}", solve, **ours(bench))


def gemm_alone(bench, sizes):
    """Its rate, which the floors of whole calls want."""
    line = [bench.place.program("bench/level3"), "resident", "--csv", PARTS["resident"], "--types", bench.types, "--routines", "gemm",
            "--peers", "none", *map(str, sizes)]
    bench.step("gemm on resident operands", line, timeout=580, **ours(bench))


def errors(bench):
    n = max(bench.sizes, default=ERRORS_N)
    draws = "1" if bench.short else "2"
    bench.step("errors", command(bench, "errors", PARTS["errors"], [n], "--draws", draws, *bench.peers_option()), timeout=580,
               **ours(bench))


def peer(bench, what, size, *more, **env):
    """A peer that fails leaves its cells empty: what was measured of others is kept."""
    print(f"-- {what} {size}", flush=True)
    line = command(bench, "calls", PARTS["calls"], [size], "--label", what, *more)
    status, text, _ = bench.log.run(line, bench.place.environment(TILEBLAS_CACHE="off", **env), 300, cwd=bench.out)
    said = [part for part in text.splitlines() if part.startswith("peer missing")]
    bench.missing += [part for part in said if part not in bench.missing]
    if status != 0:
        bench.missing.append(f"{what} {size}: status {status}")


def of_openblas(routines, element, n):
    """Those of the routines that OpenBLAS finishes in some seconds."""
    half = ("syrk", "herk", "gemmt", "trmm", "trsm")
    flops = {r: (1 if r in half else 2) * (4 if element in "cz" else 1) * n**3 for r in routines}
    return [r for r in routines if flops[r] <= OPENBLAS_MOST_FLOPS]


def calls(bench, sizes):
    report = bench.out / "report.tmp"
    line = command(bench, "calls", PARTS["calls"], sizes, "--label", OURS, *(["--rounds", "1"] if bench.short else []))
    report.unlink(missing_ok=True)
    bench.step("whole calls", line, timeout=580, **ours(bench, report))
    if re.search(r"^tileblas:   cpu ", report.read_text(), re.M):
        sys.exit(f"FAILED: whole calls: not all by the GPU\n{report.read_text()}")
    report.unlink()
    routines = ROUTINES if bench.routines == "all" else bench.routines.split(",")
    for n in sizes:
        for element in bench.types:
            some = of_openblas(routines, element, n)
            if some:
                peer(bench, "OpenBLAS", n, "--types", element, "--routines", ",".join(some), "--rounds", "0")
    if bench.peers:
        nvblas(bench, sizes, [r for r in routines if r != "gemmt"])


def host_calls(bench, sizes):
    """With what their floors want."""
    if bench.peers and not (bench.out / PARTS["resident"]).exists():
        gemm_alone(bench, sizes)
    if bench.peers:
        bench.step("link", [bench.place.program("bench/link"), "--csv", "link.csv"])
    calls(bench, sizes)


def nvblas(bench, sizes, routines):
    folder = bench.place.nvidia or ""
    found = [p for p in (os.path.join(folder, "libnvblas.so.13"), bench.place.kit_lib("libnvblas.so.13")) if os.path.exists(p)]
    if not found:
        bench.missing.append("NVBLAS: no libnvblas.so.13")
        return
    config = bench.out / "nvblas.tmp"
    for tile in NVBLAS_TILES:
        config.write_text(f"NVBLAS_LOGFILE /dev/null\nNVBLAS_CPU_BLAS_LIB {bench.place.kit_lib('libopenblas.so.0')}\n"
                          f"NVBLAS_GPU_LIST 0\nNVBLAS_TILE_DIM {tile}\nNVBLAS_AUTOPIN_MEM_ENABLED\n")
        for n in sizes:
            peer(bench, f"NVBLAS tile={tile}", n, "--routines", ",".join(routines), "--rounds", "2", LD_PRELOAD=found[0],
                 NVBLAS_CONFIG_FILE=config)
    config.unlink()


# ---- tables of one run ----


class Run:
    """What a folder has."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.resident = {key(row): row for row in self.read(PARTS["resident"])}
        self.calls = self.read(PARTS["calls"])
        self.errors = self.read(PARTS["errors"])
        link = self.read("link.csv")
        self.link = link[0] if link else None

    def read(self, file):
        path = self.folder / file
        return read_csv(path) if path.exists() else []

    def call(self, who, owner, where):
        """The fastest call by a label that starts so, of those that the library of this name answered; None: there is none."""
        mine = [r for r in self.calls if r["label"].startswith(who) and r["owner"].startswith(owner) and key(r) == where]
        return min(mine, key=lambda r: float(r["ms"]), default=None)

    def by_ours(self, where):
        return self.call(OURS, "libtileblas", where)

    def by_nvblas(self, where):
        return self.call("NVBLAS", "libnvblas", where)

    def by_openblas(self, where):
        return self.call("OpenBLAS", "libopenblas", where)

    def floor_ms(self, row):
        """The longest of the operands' way up, the result's way down and the product at our gemm's rate. None: unknown."""
        gemm = self.resident.get((row["type"], "gemm", int(row["n"])))
        if not gemm or not self.link:
            return None
        seconds = [float(row["up_gb"]) / float(self.link["up_gb_s"]), float(row["down_gb"]) / float(self.link["down_gb_s"]),
                   1e-3 * float(row["gflop"]) / float(gemm["tflops"])]
        return 1e3 * max(seconds)

    def sizes(self):
        return sorted({int(r["n"]) for r in [*self.resident.values(), *self.calls]})


def times(peer_row, ours_row):
    return float(peer_row["ms"]) / float(ours_row["ms"]) if peer_row and ours_row else None


def resident_table(run):
    header = ["routine", "n", "ms", "TFLOP/s", "of gemm", "error, u", "cuBLAS ms", "TFLOP/s", "error, u", "cuBLAS's time over ours",
              "cuBLAS in place, ms"]
    rows = [[name(r), r["n"], number(r, "ms", 3), number(r, "tflops", 2), number(r, "of_gemm", 3), number(r, "max_err_u", 2),
             number(r, "cublas_ms", 3), number(r, "cublas_tflops", 2), number(r, "cublas_max_err_u", 2), number(r, "over_cublas", 3),
             number(r, "cublas_in_place_ms", 3)] for r in run.resident.values()]
    return markdown(header, rows)


def calls_table(run):
    rows = []
    for row in [r for r in run.calls if r["label"] == OURS]:
        where, floor = key(row), run.floor_ms(row)
        nvblas_row, openblas_row = run.by_nvblas(where), run.by_openblas(where)
        over = [times(nvblas_row, row), times(openblas_row, row)]
        rows.append([name(row), row["n"], number(row, "ms", 2), f"{floor:.2f}" if floor else "",
                     f"{floor / float(row['ms']):.2f}" if floor else "", number(nvblas_row, "ms", 1),
                     nvblas_row["label"].split("=")[-1] if nvblas_row else "", f"{over[0]:.2f}" if over[0] else "",
                     number(openblas_row, "ms", 0), f"{over[1]:.1f}" if over[1] else ""])
    return markdown(["routine", "n", "ms", "floor, ms", "of the floor", "NVBLAS, ms", "its tile", "over ours", "OpenBLAS, ms", "over ours"],
                    rows)


def error_cell(row):
    if row is None:
        return ""
    return f"{float(row['max_err_u']):.2f}, {float(row['mean_err_u']):.3f} ({float(row['bias_u']):+.3f})"


def by_draws(run):
    found = {}
    for row in run.errors:
        found.setdefault((name(row), row["kind"]), {})[row["who"]] = row
    return found


def errors_table(run):
    return markdown(["routine", "data", OURS, *PEERS],
                    [[routine, kind, *(error_cell(by.get(who)) for who in (OURS, *PEERS))] for (routine, kind), by in by_draws(run).items()])


def over_peer(run, routine, who):
    """Our errors over the peer's, largest and mean, by kinds of data. Where the peer's is zero: 1 if ours is, too, else infinite."""
    over = []
    for (named, _), by in by_draws(run).items():
        for measure in ("max_err_u", "mean_err_u") if named == routine and who in by else ():
            mine, other = float(by[OURS][measure]), float(by[who][measure])
            over.append(mine / other if other else 1 if mine == 0 else float("inf"))
    return over


def larger_errors(run):
    """A line for each peer and routine: how many of our errors are larger, and by how much at most."""
    lines = []
    for who in PEERS:
        for routine in dict.fromkeys(routine for routine, _ in by_draws(run)):
            over = over_peer(run, routine, who)
            more = [x for x in over if x > 1]
            if over:
                lines.append(f"- {routine}: {len(more)} of {len(over)} errors (max and mean, by data) are larger than {who}'s"
                             + (f", by at most {max(more):.2f}" if more else ""))
    return "\n".join(lines)


RESIDENT_TEXT = ("Operands on the GPU; A B of order n, square, left, lower, not transposed, not unit. Median milliseconds from the call until "
                 "its result is there. Flops as BLAS counts them, 2 a term and 8 of complex types: m n k terms of gemm, symm and hemm; "
                 "n^2 k / 2 of gemmt, syrk and herk; n^2 k of syr2k and her2k; n^2 m / 2 of trmm and trsm. of gemm: our rate over our own "
                 "gemm's, in this run. cuBLAS: the faster of its modes for fp32; gemmt is its syrkx; trmm out of place or in place, "
                 "whichever is faster. Errors: the largest of a sample, over |A||B|, of trsm the residual over |A||X|, in u.")
CALLS_TEXT = ("From and to plain malloc'd memory that was used before. Median milliseconds; TileBLAS forced to the GPU; NVBLAS with autopin, the "
              "better of its tiles; OpenBLAS's first call, on all cores. The floor is the longest of the operands' way up, the result's way down "
              "(of a triangle half a matrix), each alone at the link's rate, and the product at our gemm's rate on resident data.")
ERRORS_TEXT = ("Error over |A||B|, of trsm the residual over |A||X|, in u (2^-24 in s and c, 2^-53 in d and z), of complex elements by parts: "
               "largest, mean (mean away from zero), of a sample of rows and columns. trsm's triangle is diagonally dominant.")


def level3(bench):
    """The parts that are wanted, and their tables."""
    sizes = bench.sizes or (SHORT_SIZES if bench.short else SIZES)
    for part in bench.parts:
        (bench.out / PARTS[part]).unlink(missing_ok=True)
    measures = {"resident": lambda: resident(bench, sizes), "errors": lambda: errors(bench), "calls": lambda: host_calls(bench, sizes)}
    for part in [part for part in PARTS if part in bench.parts]:
        try:
            measures[part]()
        except SystemExit as failed:  # the other parts are worth having
            bench.failed.append(str(failed))
    run = Run(bench.out)
    if run.resident:
        bench.add("Level 3, resident", RESIDENT_TEXT, resident_table(run))
    if run.calls:
        bench.add("Level 3, whole calls", CALLS_TEXT, calls_table(run))
    if run.errors:
        lines = larger_errors(run)
        bench.add("Level 3, errors", f"n = {run.errors[0]['n']}. {ERRORS_TEXT}\n\n{lines}", errors_table(run), last=False)
        bench.summary.append(lines + "\n")
    for n in run.sizes():
        bench.add(f"Level 3, order {n}", LEGEND["ratios"], ratios(run, n))
        bench.add(f"Level 3, order {n}, shares", LEGEND["shares"], shares(run, n))


# ---- routine x precision ----


LEGEND = {
    "ratios": "Times as fast as: cuBLAS on resident data / NVBLAS with autopin / OpenBLAS on all cores, both from ordinary memory.",
    "shares": "Our rate on resident data over our own gemm's / share of the floor, from ordinary memory.",
    "errors": "How many of our errors, largest and mean on each kind of data, are larger than cuBLAS's / than OpenBLAS's, and by at most how "
              "many times; of trsm residuals.",
}
LEGEND["types"] = LEGEND["ratios"]
NONE = "-"


def short(value):
    """Three digits, or fewer: 1.05, 12.3, 130."""
    if value is None:
        return NONE
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_cell(run, where):
    """cuBLAS / NVBLAS / OpenBLAS; OpenBLAS with a star: of the largest order below at which it was measured."""
    row = run.resident.get(where)
    cublas = float(row["over_cublas"]) if row and row["over_cublas"] else None
    parts = [short(cublas), short(times(run.by_nvblas(where), run.by_ours(where)))]
    smaller = [n for n in reversed(run.sizes()) if n <= where[2]]
    measured = next((n for n in smaller if run.by_openblas((*where[:2], n))), where[2])
    at = (*where[:2], measured)
    over = times(run.by_openblas(at), run.by_ours(at))
    parts.append(short(over) + "*" * (over is not None and measured != where[2]))
    return " / ".join(parts) if parts != [NONE] * 3 else ""


def share_cell(run, where):
    row, call = run.resident.get(where), run.by_ours(where)
    floor = run.floor_ms(call) if call else None
    parts = [short(float(row["of_gemm"])) if row and row["of_gemm"] else NONE, short(floor / float(call["ms"])) if floor else NONE]
    return " / ".join(parts) if parts != [NONE] * 2 else ""


def larger_cell(run, where):
    parts = []
    for who in PEERS:
        over = over_peer(run, where[0] + where[1], who)
        more = [x for x in over if x > 1]
        parts.append(NONE if not over else f"{len(more)} of {len(over)}" + (f", {max(more):.2f}" if more else ""))
    return " / ".join(parts) if parts != [NONE] * 2 else ""


def exists(element, routine):
    return element in "cz" or not routine.startswith("he")


def by_routine(cell):
    """A table whose cells name their routine."""
    def table(run, n):
        rows = []
        for routine in ROUTINES:
            cells = [cell(run, (t, routine, n)) if exists(t, routine) else "" for t in TYPES]
            if any(cells):
                rows.append([f"`{routine}`", *(f"`{t}{routine}` {c}" if c else "" for t, c in zip(TYPES, cells))])
        return markdown(["", "single", "double", "complex", "double complex"], rows)
    return table


def by_type(run, n):
    columns = [r for r in ROUTINES if any(ratio_cell(run, (t, r, n)) for t in TYPES if exists(t, r))]
    rows = [[f"`{t}`", *(ratio_cell(run, (t, r, n)) if exists(t, r) else "" for r in columns)] for t in TYPES]
    return markdown(["", *(f"`{r}`" for r in columns)], rows)


ratios, shares = by_routine(ratio_cell), by_routine(share_cell)
TABLES = {"ratios": ratios, "types": by_type, "shares": shares, "errors": by_routine(larger_cell)}


def between_marks(run, path, found):
    """What stands between the marks in that file."""
    table = TABLES[found[1]](run, int(found[2]))
    star = " \\*: at a smaller order." if "*" in table else ""
    if table.count("\n") == 2:
        table = "Not measured.\n"
    return f"{LEGEND[found[1]]} Order {found[2]}.{star}\n{origin(run.folder, path, 'level3')}\n\n{table}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--into", action="append", default=[], metavar="FILE")
    options = parser.parse_args()
    run = Run(options.folder.resolve())
    if not run.resident and not run.calls:
        sys.exit(f"{options.folder} has no level3_resident.csv and no level3_calls.csv")
    for path in options.into:
        if not renew(path, r"level3 (\w+) (\d+)", lambda found: between_marks(run, path, found)):
            sys.exit(f"{path} has no <!-- level3 ... -->")
    for n in run.sizes() if not options.into else []:
        print(f"Order {n}. {LEGEND['ratios']}\n\n{ratios(run, n)}\n{LEGEND['shares']}\n\n{shares(run, n)}")


if __name__ == "__main__":
    main()
