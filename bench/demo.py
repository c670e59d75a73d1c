# SPDX-License-Identifier: BSD-3-Clause
"""
The job of bench/demo: vector quantisation of a photograph, as plain NumPy float32 knows it.

Every 32 x 32 RGB patch of one photograph (3072 numbers) is replaced by the nearest of 4096 patches drawn from another,
mean colour aside. With X the patches (one a row), C the codebook, and C's patches free of their mean colour,

    |x - mean(x) - c|^2 = |x - mean(x)|^2 - 2 x.c + |c|^2        so the work is the product X C^T.

    demo.py probe              succeeds when this interpreter has what the job needs
    demo.py run NAME           does the job; leaves NAME.npz (times and results) and NAME.png (the coded picture)
    demo.py compare FOLDER     compares FOLDER/plain.npz with FOLDER/preloaded.npz, reads FOLDER/report.txt, prints the
                               table; fails when the results differ by more than rounding can explain

No step knows of TileBLAS, except that `compare` reads its report.
"""
import importlib.util
import os
import re
import sys
import time

SIDE = 32          # of a patch, in pixels
STRIDE = 2         # between patches, in pixels
CODES = 4096       # patches in the codebook
ROWS_A_BATCH = 27  # rows of patches per product: 27 x 305 = 8235 patches
CHECKED_CODES = 64  # columns of each product that are kept to be compared
EPS = 2.0 ** -24   # unit roundoff of float32
# A sum of k rounded products errs by more than LAMBDA sqrt(k) EPS (|x||c|) with a probability of 2 k exp(-LAMBDA^2 / 2)
# at most when roundings are independent (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM
# J. Sci. Comput. 41, 2019): 2e-14 for each of the 4 million sums checked.
LAMBDA = 9
ALLOWED = LAMBDA * (SIDE * SIDE * 3) ** 0.5
CODED, BOOK = "flower.jpg", "china.jpg"


def photo_path(name):
    """Of scikit-learn only the sample photographs are used; it need not be importable."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("scikit-learn")
    return os.path.join(spec.submodule_search_locations[0], "datasets", "images", name)


def load_photo(name):
    from PIL import Image
    with Image.open(photo_path(name)) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float32) / 255


def patches_of(image, stride):
    """All patches as a view: [row, column, y, x, channel]."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE, 3))
    return windows[::stride, ::stride, 0]


def make_codebook(image):
    patches = patches_of(image, 1)
    drawn = np.random.default_rng(seed=1).choice(patches.shape[0] * patches.shape[1], CODES, replace=False)
    chosen = patches[drawn // patches.shape[1], drawn % patches.shape[1]].reshape(CODES, SIDE * SIDE, 3)
    return (chosen - chosen.mean(axis=1, keepdims=True)).reshape(CODES, -1)


def checked_columns(batch):
    """Other columns in every batch, so that all of the product's width is looked at."""
    return (np.arange(CHECKED_CODES) * (CODES // CHECKED_CODES) + 5 * batch) % CODES


def batches_of(image):
    """Yields (batch number, first row, X)."""
    patches = patches_of(image, STRIDE)
    for batch, row in enumerate(range(0, patches.shape[0], ROWS_A_BATCH)):
        yield batch, row, patches[row:row + ROWS_A_BATCH].reshape(-1, SIDE * SIDE * 3)


def say_progress(text, last=False):
    """One line that is written over on a terminal, and one line a step elsewhere."""
    terminal = sys.stderr.isatty()
    sys.stderr.write(("\r\033[K" if terminal else "") + "   " + text + ("" if terminal and not last else "\n"))
    sys.stderr.flush()


def code_picture(image, codebook):
    """The job itself. Returns what is kept of it, as a dictionary of arrays."""
    half_norms = 0.5 * np.einsum("ij,ij->i", codebook, codebook)
    total_batches = -(-patches_of(image, STRIDE).shape[0] // ROWS_A_BATCH)
    codes, samples, seconds, flops = [], [], [], []
    begun = time.perf_counter()
    for batch, _, x in batches_of(image):
        t = time.perf_counter()
        product = x @ codebook.T
        seconds.append(time.perf_counter() - t)
        flops.append(2.0 * x.shape[0] * x.shape[1] * CODES)
        samples.append(product[:, checked_columns(batch)])
        product -= half_norms  # |x - mean|^2 is the same for all codes: the nearest has the largest x.c - |c|^2 / 2
        codes.append(product.argmax(axis=1))
        say_progress(f"batch {batch + 1} of {total_batches}: {len(x)} patches against {CODES} codes, "
                     f"product {seconds[-1]:.3f} s, {flops[-1] / seconds[-1] / 1e12:.2f} TFLOP/s",
                     last=batch + 1 == total_batches)
    return {"codes": np.concatenate(codes), "samples": np.concatenate(samples), "seconds": np.array(seconds),
            "flops": np.array(flops), "job_seconds": np.array(time.perf_counter() - begun)}


def decode(image, codebook, codes):
    """The coded picture: every pixel the mean of what the patches over it say."""
    patches = patches_of(image, STRIDE)
    out = np.zeros_like(image)
    weight = np.zeros(image.shape[:2] + (1,), np.float32)
    means = patches.mean(axis=(2, 3))
    for number, code in enumerate(codes):
        row, column = divmod(number, patches.shape[1])
        area = np.s_[row * STRIDE:row * STRIDE + SIDE, column * STRIDE:column * STRIDE + SIDE]
        out[area] += codebook[code].reshape(SIDE, SIDE, 3) + means[row, column]
        weight[area] += 1
    return out / np.maximum(weight, 1), weight[..., 0] > 0


def psnr(image, coded, covered):
    return 10 * np.log10(1 / np.mean((image - coded)[covered].astype(np.float64) ** 2))


def run(name):
    from PIL import Image
    image, codebook = load_photo(CODED), make_codebook(load_photo(BOOK))
    result = code_picture(image, codebook)
    coded, covered = decode(image, codebook, result["codes"])
    Image.fromarray(np.uint8(np.clip(coded, 0, 1) * 255 + 0.5)).save(name + ".png")
    np.savez(name + ".npz", psnr=psnr(image, coded, covered), **result)


def compare_products(image, codebook, results):
    """
    The largest |difference| of the kept products, between the two runs and of each from float64, in units of
    EPS * (|X| |C|^T).
    """
    wide = codebook.astype(np.float64)
    worst = np.zeros(3)
    done = 0
    for batch, _, x in batches_of(image):
        x = x.astype(np.float64)
        c = wide[checked_columns(batch)]
        exact, scale = x @ c.T, EPS * (np.abs(x) @ np.abs(c).T)
        plain, preloaded = (r["samples"][done:done + len(x)].astype(np.float64) for r in results)
        done += len(x)
        # maximum keeps a NaN, which then fails the comparison.
        worst = np.maximum(worst, [np.max(np.abs(d) / scale)
                                   for d in (preloaded - plain, plain - exact, preloaded - exact)])
    return worst


def compare_codes(image, codebook, results):
    """
    How many patches got another code, and by how much the two codes' true distances differ at most, once relative and
    once in units of EPS * |X| |C|^T. Codes that are equally near up to rounding may come out either way.
    """
    wide = codebook.astype(np.float64)
    a, b = (r["codes"] for r in results)
    other = np.flatnonzero(a != b)
    patches = patches_of(image, STRIDE)
    relative = units = 0.0
    for number in other:
        x = patches[divmod(number, patches.shape[1])].reshape(-1, 3).astype(np.float64)
        free = (x - x.mean(axis=0)).ravel()
        d = [np.sum((free - wide[code]) ** 2) for code in (a[number], b[number])]
        scale = max(np.abs(x).ravel() @ np.abs(wide[code]) for code in (a[number], b[number]))
        relative = np.maximum(relative, abs(d[0] - d[1]) / max(d))
        units = np.maximum(units, abs(d[0] - d[1]) / (2 * EPS * scale))
    return len(other), relative, units


def read_report(path):
    """What TileBLAS wrote at exit: {"gpu": text, "cpu": text, "symbols": text, "rows": [(route, why, calls)]}."""
    report = {"gpu": "", "cpu": "", "symbols": "", "rows": []}
    if not os.path.exists(path):
        return report
    with open(path) as file:
        lines = [line.rstrip("\n").removeprefix("tileblas: ") for line in file]
    for line in lines:
        for key in ("gpu", "cpu"):
            if line.startswith(key + ": "):
                report[key] = line[len(key) + 2:]
        if line.startswith("symbols "):
            report["symbols"] = (report["symbols"] + line[len("symbols"):]).lstrip()
        columns = re.split(r"\s{2,}", line.strip())
        if len(columns) >= 3 and re.fullmatch(r"gpu\d*|cpu", columns[0]):
            report["rows"].append((columns[0], columns[1], columns[2]))
    return report


def print_table(results, report):
    print(f"\n{'':20}{'job':>9}{'products':>11}{'TFLOP/s':>9}{'steady':>9}{'warm-up':>11}  route and why")
    for name, result in zip(("without TileBLAS", "with TileBLAS"), results):
        seconds, flops = result["seconds"], result["flops"]
        full = seconds[flops == flops[0]]
        answers = [f"{route}: {why} ({calls} calls)" for route, why, calls in report["rows"]]
        why = "; ".join(answers) if name.startswith("with ") else "cpu: the program's own BLAS"
        print(f"{name:20}{float(result['job_seconds']):7.2f} s{seconds.sum():9.2f} s"
              f"{flops.sum() / seconds.sum() / 1e12:9.2f}{flops[0] / np.median(full) / 1e12:9.2f}"
              f"{full.max() - np.median(full):9.2f} s  {why}")
    print("job: all but reading and writing files. products: its matrix products, warm-up included, and their rate.\n"
          "steady: the rate of the median product. warm-up: how much longer than the median the slowest product took\n"
          "(the one that opens a GPU: context, kernels, pinned memory; on a CPU: threads and fresh memory).\n")


def print_routes(report):
    print(f"Calls TileBLAS answered, by symbol: {report['symbols'] or 'none'}")
    if any(route.startswith("gpu") for route, _, _ in report["rows"]):
        print(f"GPU: {report['gpu']}")
    else:
        name = "OpenBLAS" if "openblas" in report["cpu"].lower() else "The CPU BLAS"
        print(f"{name} answered every product, as it would have without TileBLAS. GPU: {report['gpu']}")
    print(f"CPU BLAS: {report['cpu']}")


def compare(folder):
    image, codebook = load_photo(CODED), make_codebook(load_photo(BOOK))
    results = [np.load(os.path.join(folder, name + ".npz")) for name in ("plain", "preloaded")]
    report = read_report(os.path.join(folder, "report.txt"))
    between, plain, preloaded = compare_products(image, codebook, results)
    other, relative, units = compare_codes(image, codebook, results)
    patches = len(results[0]["codes"])

    print_table(results, report)
    print_routes(report)
    print(f"Largest error of a product, in units of 2^-24 (|X||C|): {plain:.2f} without TileBLAS, {preloaded:.2f} with "
          f"it, {between:.2f} between the two;\n  rounding explains {ALLOWED:.0f} "
          f"({patches * CHECKED_CODES} of {patches * CODES} elements compared with float64).")
    print(f"Patches with another code: {other} of {patches}" +
          (f"; the two codes' true distances differ by {relative:.1e} of themselves at most." if other else "."))
    print(f"PSNR of the coded {CODED}: {float(results[0]['psnr']):.3f} dB without, {float(results[1]['psnr']):.3f} dB "
          f"with; see {folder}/preloaded.png")

    failures = []
    if not report["rows"]:
        failures.append(f"TileBLAS answered nothing: {folder}/report.txt has no row")
    if not np.max([plain, preloaded]) <= ALLOWED:  # false for NaN too
        failures.append("a product errs by more than rounding explains")
    # Two products and two norms, each with its own error, decide which of two codes is nearer.
    if not units <= 4 * ALLOWED:
        failures.append("a patch got a code that is farther away than rounding explains")
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


def main():
    verb, argument = (sys.argv[1:] + ["", ""])[:2]
    if verb == "probe":
        load_photo(CODED)
        return 0
    if verb == "run":
        return run(argument)
    if verb == "compare":
        return compare(argument)
    print(__doc__)
    return 2


try:
    import numpy as np
except ImportError:
    sys.exit("demo.py: this python3 has no NumPy")
if __name__ == "__main__":
    sys.exit(main())
