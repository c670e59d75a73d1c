# SPDX-License-Identifier: BSD-3-Clause
"""A copy of the sources with a build of its own, in which faults are put. Never touches the sources themselves.

Fat binaries stay what they are in the release build: the kernels that tests run are the sources, compiled for the CPU
in the fake driver, and of a fat binary that looks for nothing but names.
"""
import os
import pathlib
import re
import shutil
import subprocess

import suite

# Of the top folder, what the build and the tests read.
PARTS = (".clang-format", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "CONTRIBUTING.md",
         "CHANGELOG.md", "SECURITY.md", "examples", "bench",
         "cmake", "docs", "include", "kernels", "src", "tests", "tools")
LEFT_OUT = ("__pycache__", "results")

# Stands in for nvcc: a fat binary that is there stays, one of the release build is taken over, and others are compiled.
NVCC = """#!/bin/sh
out= deps= previous=
for word in "$@"; do
  case $previous in -o) out=$word ;; -MF) deps=$word ;; esac
  previous=$word
done
[ -z "$deps" ] || printf '%s:\\n' "$out" >"$deps"
if [ -s "$out" ]; then touch "$out"; exit 0; fi
kept=@KEPT@/${out#@BUILD@/}
if [ -s "$kept" ]; then cp "$kept" "$out"; exit 0; fi
[ -z "$deps" ] || rm -f "$deps"
exec @NVCC@ "$@"
"""


# Before the compilers. What takes minutes the release build has: without a fault in the sources its objects are taken
# over, with the files that each was made from.
COMPILER = """#!/bin/sh
out= deps= previous=
for word in "$@"; do
  case $previous in -o) out=$word ;; -MF) deps=$word ;; esac
  previous=$word
done
kept=@KEPT@/$out
if [ -n "$deps" ] && [ -s "$kept" ] && [ -s "@BUILD@/kept/$out.d" ] && [ ! -e @BUILD@/kept/faulty ]; then
  cp "@BUILD@/kept/$out.d" "$deps" && cp "$kept" "$out" && exit 0
fi
exec @CACHE@ "$@"
"""


class BuildError(Exception):
    """Its text is the compiler's."""


def cached(build, name):
    """What CMake keeps under this name in a build folder; '' for nothing."""
    for line in pathlib.Path(build, "CMakeCache.txt").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.split("=", 1)[1]
    return ""


def source_files(root):
    for part in PARTS:
        path = root / part
        if path.is_file():
            yield path
        for folder, folders, files in os.walk(path):
            folders[:] = [f for f in folders if f not in LEFT_OUT]
            yield from (pathlib.Path(folder, file) for file in files)


class Tree:
    def __init__(self, root, release, folder, jobs):
        self.root, self.release, self.folder = root, release, folder
        self.build = folder / "build" / "mutants"
        self.jobs = jobs
        self.faulty = []  # files that hold a fault now
        self.cached = shutil.which("ccache") is not None

    # ---- sources ----

    def write(self, file, text):
        (self.folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())

    def synchronise(self):
        """Has the sources as they are. Untouched files keep their times, so that nothing is built for them."""
        wanted = set()
        for path in source_files(self.root):
            file = path.relative_to(self.root)
            wanted.add(file)
            copy = self.folder / file
            text = path.read_bytes()
            if not copy.is_file() or copy.read_bytes() != text:
                copy.parent.mkdir(parents=True, exist_ok=True)
                self.write(file, text)
            shutil.copymode(path, copy)
        for path in list(source_files(self.folder)):
            if path.relative_to(self.folder) not in wanted:
                path.unlink()

    def put_in(self, texts):
        self.kept("faulty").touch()
        for file, text in texts.items():
            self.write(file, text)
            self.faulty.append(file)

    def restore(self):
        """With times of now: what was built with the fault is older, and is built again."""
        for file in self.faulty:
            self.write(file, (self.root / file).read_bytes())
        self.faulty = []
        self.kept("faulty").unlink(missing_ok=True)

    # ---- building ----

    def kept(self, name):
        return self.build / "kept" / name

    def keep_objects(self):
        """For COMPILER: what each of the release build's objects was made from, if these are the sources."""
        shutil.rmtree(self.kept(""), ignore_errors=True)
        self.kept("").mkdir(parents=True)
        release = ["ninja", "-C", str(self.release)]
        if cached(self.release, "CMAKE_HOME_DIRECTORY") != str(self.root):
            return
        objects = [line.split(":")[0] for line in self.call(release + ["-t", "targets", "all"]).splitlines()
                   if re.search(r"\.dir/.*\.o:", line)]
        if not objects or "no work to do" not in self.call(release + ["-n"] + objects):
            return
        for text in self.call(release + ["-t", "deps"] + objects).split("\n\n"):
            name, _, rest = text.partition(":")
            files = [line.strip() for line in rest.splitlines()[1:]]
            if not files or "VALID" not in rest.splitlines()[0]:
                continue
            files = [str(self.folder) + f[len(str(self.root)):] if f.startswith(str(self.root) + "/") else f for f in files]
            deps = self.kept(name.split("\n")[-1] + ".d")
            deps.parent.mkdir(parents=True, exist_ok=True)
            deps.write_text(name.split("\n")[-1] + ": " + " ".join(files) + "\n")

    def environment(self):
        return {**os.environ, "CCACHE_BASEDIR": str(self.folder), "CCACHE_NOHASHDIR": "1"}

    def call(self, command):
        done = subprocess.run(command, cwd=self.folder, env=self.environment(), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, errors="replace")
        if done.returncode != 0:
            raise BuildError(done.stdout)
        return done.stdout

    def configure(self):
        self.synchronise()
        self.build.mkdir(parents=True, exist_ok=True)
        nvcc = self.build / "nvcc-or-kept"
        nvcc.write_text(NVCC.replace("@KEPT@", str(self.release)).replace("@BUILD@", str(self.build))
                        .replace("@NVCC@", cached(self.release, "TILEBLAS_NVCC")))
        nvcc.chmod(0o755)
        settings = {"CMAKE_BUILD_TYPE": "", "CMAKE_C_FLAGS": "-O1 -DNDEBUG", "CMAKE_CXX_FLAGS": "-O1 -DNDEBUG",
                    "TILEBLAS_TESTS": "ON", "TILEBLAS_BENCH": "ON", "TILEBLAS_NVCC": nvcc,
                    "TILEBLAS_CUDA_INCLUDE": cached(self.release, "TILEBLAS_CUDA_INCLUDE"),
                    "TILEBLAS_VENV_PYTHON": cached(self.release, "TILEBLAS_VENV_PYTHON")}
        compiler = self.build / "compiler-or-kept"
        compiler.write_text(COMPILER.replace("@KEPT@", str(self.release)).replace("@BUILD@", str(self.build))
                            .replace("@CACHE@", "ccache" if self.cached else ""))
        compiler.chmod(0o755)
        self.keep_objects()
        settings["CMAKE_CXX_COMPILER_LAUNCHER"] = settings["CMAKE_C_COMPILER_LAUNCHER"] = compiler
        self.call(["cmake", "-S", ".", "-B", str(self.build), "-G", "Ninja"] +
                  [f"-D{name}={value}" for name, value in settings.items()])
        listed = self.call(["ninja", "-C", str(self.build), "-t", "targets", "all"])
        self.outputs = {line.split(":")[0] for line in listed.splitlines() if not line.endswith(": phony")}
        self.libraries = [o for o in self.outputs if ".so" in pathlib.PurePath(o).name]

    def files_for(self, tests):
        """What is to be built for these tests, as ninja calls it."""
        files = set()
        for test in tests:
            for path in test.paths():
                if not path.startswith(str(self.build)):
                    continue
                file = os.path.relpath(path, self.build)
                if file == ".":
                    return ["all"]
                if file in self.outputs:
                    files.add(file)
                else:  # a folder: the libraries in it
                    files.update(o for o in self.libraries if os.path.dirname(o) == file)
            for folder in (os.path.relpath(f, self.build) for f in test.folders_below()):
                files.update(o for o in self.libraries if o.startswith(folder + "/"))
        return sorted(files)

    def make(self, files):
        """Whether there was anything to do."""
        if not files:
            return False
        said = self.call(["ninja", "-C", str(self.build), "-j", str(self.jobs)] + list(files))
        return "ninja: no work to do." not in said

    def make_for(self, texts, tests):
        """After a change of these sources: whether that was built. Of kernels' code the fake driver alone is made."""
        files = self.files_for(tests)
        if all(file.startswith("kernels/") and file.endswith((".cu", ".cuh")) for file in texts) and files != ["all"]:
            files = [f for f in files if os.path.basename(f).startswith("libcuda.so.")]
        return self.make(files)

    def tests(self):
        return suite.list_tests(self.build)
