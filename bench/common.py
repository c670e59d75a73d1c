# SPDX-License-Identifier: BSD-3-Clause
"""What bench/run, tests/gpu/run and the plot share: where the programs and libraries are, what machine this is, running
a program with everything it says kept in a log, and tables.

Python's standard library only. A build comes either from build/release or, on a machine without the tools to build, from
a kit (tests/gpu/make_kit), whose folders `build`, `lib` and `netlib` stand in for the build folder and the system's.
"""

import csv
import datetime
import glob
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77  # exit status of a program that lacks a GPU or a peer's library


def unpacked(kit):
    """A kit's folder. Of one that comes packed (bench/make_programs_kit) below the system's folder for temporary files."""
    packed = kit / "packed.tar.xz"
    if not packed.exists():
        return kit
    folder = pathlib.Path(tempfile.gettempdir()) / f"tileblas-kit-{packed.stat().st_size}-{packed.stat().st_mtime_ns}"
    if not folder.exists():
        begun = pathlib.Path(f"{folder}.part")
        shutil.rmtree(begun, ignore_errors=True)
        with tarfile.open(packed) as archive:
            archive.extractall(begun)
        begun.rename(folder)
    shutil.copytree(kit / "build", folder / "build", dirs_exist_ok=True)
    shutil.copy(kit / "COMMIT", folder)
    return folder


class Place:
    """Where things are: the build, the libraries that are brought along, NVIDIA's libraries."""

    def __init__(self, kit=None, build=None):
        self.kit = unpacked(pathlib.Path(kit).resolve()) if kit else None
        self.given = kit or build
        self.build = self.kit / "build" if kit else pathlib.Path(build or ROOT / "build" / "release").resolve()
        self.library = self.build / "libtileblas.so.0"
        self.nvidia = nvidia_folder()

    def require_build(self):
        """Builds build/release when no other build was named. Ends the program when there is nothing to measure."""
        if not self.given:
            for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release"]):
                if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode != 0:
                    sys.exit(f"{' '.join(command)} failed; tests/run installs what the build needs")
        if not self.library.exists():
            sys.exit(f"{self.library} does not exist")

    def program(self, relative):
        path = self.build / relative
        if not path.exists():
            sys.exit(f"{path} does not exist; was the build made with CUDA and with the benchmarks?")
        return str(path)

    def kit_lib(self, name):
        """Path of a library in the kit, else its bare name, for the dynamic linker to find."""
        path = self.kit / "lib" / name if self.kit else None
        return str(path) if path and path.exists() else name

    def environment(self, **extra):
        """The caller's environment without any TILEBLAS option or preload, with the libraries above on the path."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("TILEBLAS_") and k != "LD_PRELOAD"}
        folders = [str(self.kit / "lib"), str(self.build)] if self.kit else []
        folders += [self.nvidia] if self.nvidia else []
        folders += [f for f in env.get("LD_LIBRARY_PATH", "").split(":") if f]
        if folders:
            env["LD_LIBRARY_PATH"] = ":".join(folders)
        env.update({k: str(v) for k, v in extra.items()})
        return env

    @staticmethod
    def scratch(name):
        """A folder for a test's leavings, removed after the `with`."""
        return tempfile.TemporaryDirectory(prefix=f"tileblas-{name}-")

    def commit(self):
        if self.kit:
            return (self.kit / "COMMIT").read_text().strip()
        out = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
        return out.stdout.strip() or "unknown"


def nvidia_folder():
    """The folder with libcublas.so.13 (or 12): CUDA's own, or NVIDIA's wheels for Python. None: there is none."""
    folders = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), lib) for lib in ("lib64", "lib")]
    folders += ["/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/x86_64-linux-gnu"]
    for entry in sys.path:
        folders += sorted(glob.glob(os.path.join(entry, "nvidia", "cu*", "lib")), reverse=True)
        folders += glob.glob(os.path.join(entry, "nvidia", "cublas", "lib"))
    for version in ("13", "12"):
        for folder in folders:
            if os.path.exists(os.path.join(folder, f"libcublas.so.{version}")):
                return folder
    return None


def output_of(command):
    if not shutil.which(command[0]):
        return ""
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    return out.stdout.strip() if out.returncode == 0 else ""


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def machine(place):
    """What a figure must be read with, as (name, value) pairs."""
    smi = output_of(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).splitlines()
    name, driver = (smi[0].split(", ", 1) if smi else ("none that nvidia-smi sees", "none"))
    return [
        ("GPU", name),
        ("driver", driver),
        ("CPU", f"{cpu_name()}, {len(os.sched_getaffinity(0))} cores usable"),
        ("system", f"{platform.system()} {platform.release().split('-')[0]}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}"),
        ("cuBLAS", place.nvidia or "peer missing"),
        ("TileBLAS", place.commit()),
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("command", " ".join([os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])),
    ]


def add_place_options(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--kit", help="folder that tests/gpu/make_kit or bench/make_programs_kit made; nothing is built")
    group.add_argument("--build", help="build folder to use as it is, instead of building build/release")


class Log:
    """Runs programs and keeps everything they print in one file. May be used by several threads."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.file = open(path, "w", encoding="utf-8", errors="replace")

    def run(self, command, env, timeout, cwd=None):
        """Returns (exit status, text of both outputs, seconds); status 124 when the time was over."""
        begun = time.monotonic()
        try:
            done = subprocess.run(command, env=env, cwd=cwd, timeout=timeout, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            status, raw = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            status, raw = 124, (late.stdout or b"") + b"\n(the time was over)\n"
        text, seconds = raw.decode("utf-8", "replace"), time.monotonic() - begun
        self.write(f"$ {' '.join(map(str, command))}\n{text}(status {status}, {seconds:.1f} s)\n\n")
        return status, text, seconds

    def write(self, text):
        with self.lock:
            self.file.write(text)
            self.file.flush()


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


# Of elements: bytes; and operations of a multiplication and an addition.
ELEMENT_BYTES = {"s": 4, "d": 8, "c": 8, "z": 16}
FLOPS = {"s": 2, "d": 2, "c": 8, "z": 8}


def link_seconds(link, n, element_type="s"):
    """Of n cubed, by a row of link.csv: A's and B's way up, and C's way down."""
    matrix_gb = 1e-9 * ELEMENT_BYTES[element_type] * n * n
    return 2 * matrix_gb / float(link["up_gb_s"]), matrix_gb / float(link["down_gb_s"])


def origin(folder, target, mode):
    """Date, commit and run, for below a table in the file `target`, of the run by bench/run in that folder."""
    path = folder / "results.md"
    found = dict(re.findall(r"^\| (TileBLAS|date|GPU) +\| (.*?) +\|$", path.read_text(), re.M)) if path.exists() else {}
    link = os.path.relpath(path, pathlib.Path(target).resolve().parent)
    inside = path.resolve().is_relative_to(ROOT)
    where = f"([run]({link}))" if inside else "(run not kept)"
    return (f"{found.get('date', 'no date')[:10]}, commit {found.get('TileBLAS', 'unknown')}, one {found.get('GPU', 'GPU')}, "
            f"`bench/run {mode}` {where}.")


def renew(path, mark, text):
    """Puts text(match) between <!-- MARK --> and <!-- end --> of a Markdown file. False: the file has no such mark."""
    new, count = re.subn(rf"<!-- {mark} -->\n.*?<!-- end -->",
                         lambda found: f"{found[0].splitlines()[0]}\n{text(found)}<!-- end -->", pathlib.Path(path).read_text(), flags=re.S)
    pathlib.Path(path).write_text(new)
    return count > 0


def markdown(header, rows):
    """A Markdown table, padded so that it can be read as it is."""
    table = [header, *[[str(cell) for cell in row] for row in rows]]
    width = [max(len(row[i]) for row in table) for i in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, width)) + " |" for row in table]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in width) + "|")
    return "\n".join(lines) + "\n"
