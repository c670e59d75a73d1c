#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The errors of accuracy.csv as a Markdown table, and where ours are larger than the peers'.

    bench/accuracy.py accuracy.csv [--k K,K...]    # all k if none are named

`bench/run accuracy` measures them and says the same. Python's standard library only.
"""

import argparse
import math

from common import markdown, read_csv

OURS = "TileBLAS fp32"
# Who stands in the table, under which heading.
COLUMNS = {OURS: "fp32", "TileBLAS ieee": "ieee", "TileBLAS fast": "fast", "cuBLAS fp32": "cuBLAS fp32",
           "OpenBLAS sgemm": "OpenBLAS"}
# Each peer by all its fp32 modes, of which the better one counts.
PEERS = {"cuBLAS fp32": ["cuBLAS fp32 pedantic", "cuBLAS fp32"], "OpenBLAS": ["OpenBLAS sgemm"]}
MEASURES = {"max_err_u": "max", "mean_err_u": "mean"}
N = 768  # six by four of the tensor cores' tiles
TEXT = ("Error over |A||B| in units of 2^-24: largest, mean (mean away from zero); |A||B| counts as 2^-126 at least. fp32 and "
        "fast are the tensor cores', also where the library would take the other kernels, whose errors are those of ieee. The "
        "last column: the planes that fp32's tiles come from; as fast: those that fast takes, fp16 where words have room in "
        "them, else bf16; fp32: from none, but from the operands themselves.")


def cells(rows):
    """{(kind, k): {who: row}}, in the file's order."""
    found = {}
    for row in rows:
        found.setdefault((row["kind"], int(row["k"])), {})[row["who"]] = row
    return found


def cell(row):
    if row is None:
        return ""
    return f"{float(row['max_err_u']):.2f}, {float(row['mean_err_u']):.3f} ({float(row['bias_u']):+.3f})"


def planes(row):
    """What the tiles of fp32's answer were computed from, as far as bits tell (accuracy.c)."""
    if row is None or not row["tiles_as_ieee"]:
        return ""
    if float(row["max_err_u"]) == 0:
        return "any: exact"
    plain, half = float(row["tiles_as_ieee"]), float(row["tiles_as_fast"])
    parts = {"as fast": half, "bf16": 1 - plain - half, "fp32": plain}
    return ", ".join(what if share > 0.999 else f"{what} {share:.0%}" for what, share in parts.items() if share > 0.0005)


def table(rows, depths=()):
    found = cells(rows)
    columns = {who: title for who, title in COLUMNS.items() if any(who in by for by in found.values())}
    lines = [[kind, k, *(cell(by.get(who)) for who in columns), planes(by.get(OURS))]
             for (kind, k), by in found.items() if not depths or k in depths]
    return markdown(["data", "k", *columns.values(), "fp32 from"], lines)


def factor(ours, theirs):
    """How many times larger; NaN is larger than anything."""
    if ours == theirs:
        return 1.0
    return ours / theirs if theirs and not math.isnan(ours) else math.inf


def worse(rows, ours, peer):
    """[(factor, data, k, measure, our error, theirs)] where ours is larger than the peer's, the largest factor first; and
    how many errors were compared."""
    found, compared = [], 0
    for (kind, k), by in cells(rows).items():
        for column, measure in MEASURES.items():
            theirs = [float(by[who][column]) for who in PEERS[peer] if who in by]
            if not theirs or ours not in by:
                continue
            compared += 1
            our_error = float(by[ours][column])
            if not our_error <= min(theirs):
                found.append((factor(our_error, min(theirs)), kind, k, measure, our_error, min(theirs)))
    return sorted(found, key=lambda cell: -cell[0]), compared


def comparison(rows, ours=OURS):
    """Lines of text: for each peer how many errors are larger than its, and which."""
    lines = []
    for peer in PEERS:
        found, compared = worse(rows, ours, peer)
        if compared:
            lines.append(f"{ours}: {len(found)} of {compared} errors (max and mean, by data and k) are larger than {peer}'s"
                         + (f", at most {found[0][0]:.2f} times:" if found else "."))
        lines += [f"- {kind}, k = {k}: {measure} {our_error:g}, {peer} {theirs:g}, {times:.2f} times"
                  for times, kind, k, measure, our_error, theirs in found]
    return "\n".join(lines) + "\n"


def accuracy(bench):
    path = bench.out / "accuracy.csv"
    n = max(bench.sizes, default=N)
    command = [bench.place.program("bench/kernels"), "--accuracy", str(n), "--csv", path.name, *bench.peers_option(),
               *["--short"] * bench.short]
    if not bench.step("accuracy", command):
        return
    rows = read_csv(path)
    text = f"n = {n}. {TEXT}\n\n{comparison(rows)}\n{comparison(rows, 'TileBLAS ieee')}"
    bench.add("Accuracy", text, table(rows), last=False)
    bench.summary.append(comparison(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--k", type=lambda text: [int(k) for k in text.split(",")], default=[])
    options = parser.parse_args()
    rows = read_csv(options.csv)
    print(f"n = {rows[0]['n']}. {TEXT}\n\n{table(rows, options.k)}\n{comparison(rows)}", end="")


if __name__ == "__main__":
    main()
