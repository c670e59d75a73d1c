# SPDX-License-Identifier: BSD-3-Clause
"""The tests of a build, as ctest lists them: which files each one needs, and one run of it within a time limit."""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

PASSED, FAILED, SKIPPED, TIMEOUT = "passed", "failed", "skipped", "timeout"

# A test may take so many times what it takes without a fault, and no less than so many seconds.
TIMEOUT_TIMES, TIMEOUT_LEAST = 3, 20
# While nobody knows yet what it takes.
TIMEOUT_AT_FIRST = 600
OUTPUT_BYTES_MAX = 1 << 30

# What CMake writes for ctest: names and words in brackets, or in quotes (names, since 4).
ADD_TEST = r'^add_test\((?:\[(=*)\[(.*?)\]\1\]|"?([^\s"]+)"?) (.*)\)$'
WORD = r'"((?:[^"\\]|\\.)*)"|(\[=*\[)(.*?)\]=*\]'

running = set()  # processes, of all threads


class Test:
    def __init__(self, entry, command, build):
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        self.name, self.command = entry["name"], command
        self.folder = properties.get("WORKING_DIRECTORY", build)
        self.settings = dict(s.split("=", 1) for s in properties.get("ENVIRONMENT", []))
        self.pass_patterns = properties.get("PASS_REGULAR_EXPRESSION", [])
        self.fail_patterns = properties.get("FAIL_REGULAR_EXPRESSION", [])
        self.skip_status = properties.get("SKIP_RETURN_CODE")
        self.fixtures = {kind: properties.get("FIXTURES_" + kind, []) for kind in ("REQUIRED", "SETUP", "CLEANUP")}
        self.seconds = None  # without a fault

    def paths(self):
        """Of files and folders of the build that it names, in its command and its settings."""
        for word in self.command + list(self.settings.values()):
            yield from re.findall(r"/[^:;= ]+", word)

    def folders_below(self):
        """Of the build, in which the test looks for what it loads."""
        return [v for k, v in self.settings.items() if k == "TB_TEST_BUILD_DIR"]

    def limit(self):
        return TIMEOUT_AT_FIRST if self.seconds is None else max(TIMEOUT_LEAST, TIMEOUT_TIMES * self.seconds)

    def judge(self, status, output):
        if self.skip_status is not None and status == self.skip_status:
            return SKIPPED
        if any(finds(p, output) for p in self.fail_patterns):
            return FAILED
        if self.pass_patterns:
            return PASSED if any(finds(p, output) for p in self.pass_patterns) else FAILED
        return PASSED if status == 0 else FAILED

    def run(self, log):
        """(PASSED or another, seconds); its output goes to the file `log`."""
        begun = time.monotonic()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TILEBLAS_") and k != "LD_PRELOAD"}
        environment.update(self.settings)
        with open(log, "wb") as output:
            process = subprocess.Popen(self.command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                                       preexec_fn=limit_resources)
            running.add(process)
            try:
                status = process.wait(self.limit())
            except subprocess.TimeoutExpired:
                status = None
            finally:
                kill_group(process)
                running.discard(process)
        text = pathlib.Path(log).read_text(errors="replace")
        result = TIMEOUT if status is None else self.judge(status, text)
        return result, time.monotonic() - begun


def finds(pattern, output):
    """As CMake's expressions do, whose dot is any character, the end of a line, too."""
    return re.search(pattern, output, re.DOTALL)


def limit_resources():
    """No cores, and no endless outputs, of programs that went wrong."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_BYTES_MAX, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def kill_group(process):
    """The test and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def kill_running():
    for process in list(running):
        kill_group(process)


def commands(build):
    """{name: command} from the files that CMake wrote for ctest, which itself keeps silent of what is not built yet."""
    found = {}
    for file in pathlib.Path(build).rglob("CTestTestfile.cmake"):
        for _, bracketed, plain, words in re.findall(ADD_TEST, file.read_text(), re.MULTILINE):
            found[bracketed or plain] = [inside if mark else re.sub(r"\\(.)", r"\1", quoted)
                                         for quoted, mark, inside in re.findall(WORD, words)]
    return found


def list_tests(build):
    """{name: Test} of a configured build folder, whether it is built or not."""
    done = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, text=True,
                          stdout=subprocess.PIPE)
    command_of = commands(build)
    entries = json.loads(done.stdout)["tests"]
    return {entry["name"]: Test(entry, command_of[entry["name"]], str(build)) for entry in entries}


def beside(tests, name, kind):
    """The tests that set up what this one wants (SETUP), or look at what it left (CLEANUP)."""
    return [t for t in tests.values() if any(f in tests[name].fixtures["REQUIRED"] for f in t.fixtures[kind])]


def run_with_fixtures(tests, name, log):
    """As Test.run; what its fixtures find counts as the test's."""
    for test in beside(tests, name, "SETUP"):
        test.run(log)
    result, seconds = tests[name].run(log)
    if result == PASSED:
        for test in beside(tests, name, "CLEANUP"):
            result = max(result, test.run(log)[0], key=(PASSED, FAILED, TIMEOUT).index)
    return result, seconds


def matching(tests, patterns):
    """The names that the patterns mean, in the patterns' order. Not every build has every test, but one of them it must
    have."""
    names = []
    for pattern in patterns:
        names += [name for name in tests if re.fullmatch(pattern, name) and name not in names]
    if patterns and not names:
        raise ValueError("there is no test " + " ".join(patterns))
    return names


def meaning_nothing(tests, patterns):
    return {p for p in patterns if not any(re.fullmatch(p, name) for name in tests)}
