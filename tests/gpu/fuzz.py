# SPDX-License-Identifier: BSD-3-Clause
"""The full fuzz of tests/gpu/run: a program of tests/fuzz in many processes, each with seeds and a CUDA context of its own.

Each worker has other settings in its environment; those that keep them make every call with them. The totals are summed
and printed by mixture of memory. Python's standard library only.
"""

import collections
import concurrent.futures
import os
import re
import signal
import subprocess
import time

GRACE_SECONDS = 60  # for the call under way when the time is over
SEEDS_OF_WORKER = 10_000_000
MIXTURE = re.compile(r"^mixture (\w+ \w+ \w+): (\d+) gpu, (\d+) cpu, (\d+) wrong$", re.M)
LAST_LINE = re.compile(r"^fuzz_\w+: (\d+) calls in \d+ s, (\d+) by the GPU, (\d+) by the CPU BLAS, (\d+) wrong$", re.M)
COMPARED = re.compile(r"^(\d+) parts of C's elements compared, (\d+) not", re.M)

# A worker's environment; keeps: no option is set between its calls.
SETTINGS = [
    ({"TILEBLAS_CALIBRATION": "off"}, False),
    ({"TILEBLAS_CALIBRATION": "off"}, False),
    ({"TILEBLAS_CALIBRATION": "off", "TILEBLAS_REPORT": "1"}, False),
    ({"TILEBLAS_CALIBRATION": "again"}, False),
    ({"TILEBLAS_CALIBRATION": "off", "TILEBLAS_ROUTE": "gpu"}, True),
    ({"TILEBLAS_CALIBRATION": "off", "TILEBLAS_ROUTE": "gpu", "TILEBLAS_PRECISION": "ieee", "TILEBLAS_SHARE": "always",
      "TILEBLAS_MEMORY_LIMIT": "24M"}, True),
    ({"TILEBLAS_CALIBRATION": "off", "TILEBLAS_PRECISION": "fast", "TILEBLAS_SHARE": "auto"}, True),
    ({}, True),  # as a user has it
]


class Totals:
    def __init__(self):
        self.mixtures = collections.defaultdict(lambda: [0, 0, 0])  # calls by the GPU, by the CPU BLAS, wrong
        self.calls = self.gpu = self.cpu = self.wrong = self.parts = self.unchecked = 0
        self.complaints = []

    def add(self, worker, status, text, stopped):
        """A worker's whole output. One that did not reach its last line failed, whatever it found."""
        self.complaints += re.findall(r"^FAILED: .*\n(?:  A .*\n)?(?:repeat .*\n)?", text, re.M)
        for mixture, *counts in MIXTURE.findall(text):
            self.mixtures[mixture] = [a + int(b) for a, b in zip(self.mixtures[mixture], counts)]
        last, compared = LAST_LINE.search(text), COMPARED.search(text)
        if last and compared:
            calls, gpu, cpu, wrong = map(int, last.groups())
            self.calls, self.gpu, self.cpu, self.wrong = self.calls + calls, self.gpu + gpu, self.cpu + cpu, self.wrong + wrong
            self.parts, self.unchecked = self.parts + int(compared[1]), self.unchecked + int(compared[2])
        if not last or status not in (0, 1) or (status == 1 and not int(last[4])):
            why = "did not end in time" if stopped else f"ended with status {status}"
            self.complaints.append(f"FAILED: worker {worker} {why}; it said last: {text[-300:]}\n")

    def table(self):
        rows = [f"  {mixture:27} {sum(c[:2]):7} {c[0]:7} {c[1]:7} {c[2]:5}" for mixture, c in sorted(self.mixtures.items())]
        return "\n".join([f"  {'A, B and C lie in':27} {'calls':>7} {'GPU':>7} {'CPU':>7} wrong", *rows])


def run_worker(number, command, seconds, environment, scratch, log):
    settings, keeps = SETTINGS[number % len(SETTINGS)]
    command = command + (["--keep-options"] if keeps else [])
    env = dict(environment, **settings, XDG_CACHE_HOME=os.path.join(scratch, f"cache{number}"))
    begun, stopped = time.monotonic(), False
    process = subprocess.Popen(command, env=env, cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    try:
        raw = process.communicate(timeout=seconds + GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        stopped = True
        process.send_signal(signal.SIGTERM)  # it tells the call under way
        try:
            raw = process.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raw = process.communicate()[0]
    text = raw.decode("utf-8", "replace")
    log.write(f"$ {' '.join(f'{k}={v}' for k, v in settings.items())} {' '.join(command)}\n{text}"
              f"(status {process.returncode}, {time.monotonic() - begun:.1f} s)\n\n")
    return number, process.returncode, text, stopped


def full(place, log, name, program, calls, seconds, workers, seed, most):
    """Returns (what is wrong or "", text of the totals, which `name` begins)."""
    cores = len(os.sched_getaffinity(0))
    environment = place.environment(OPENBLAS_NUM_THREADS=max(1, cores // workers))
    command = [place.program(f"tests/fuzz/{program}"), "--calls", -(-calls // workers), "--seconds", seconds,
               "--most", most, "--seed"]
    totals, begun = Totals(), time.monotonic()
    with place.scratch(program) as scratch, concurrent.futures.ThreadPoolExecutor(workers) as pool:
        started = [pool.submit(run_worker, number, [*map(str, command), str(seed + number * SEEDS_OF_WORKER)], seconds,
                               environment, scratch, log) for number in range(workers)]
        for done in started:
            totals.add(*done.result())
    text = "".join(totals.complaints) + totals.table()
    text += (f"\n  {totals.parts} parts of C's elements compared, {totals.unchecked} not, for they may overflow"
             f"\n{name}: {totals.calls} calls by {workers} workers in {time.monotonic() - begun:.0f} s, {totals.gpu} by the GPU,"
             f" {totals.cpu} by the CPU BLAS, {totals.wrong} wrong answers")
    wrong = totals.complaints[0].strip() if totals.complaints else ""
    if not wrong and totals.wrong:
        wrong = f"{totals.wrong} wrong answers"
    if not wrong and totals.calls < calls:
        wrong = f"{totals.calls} calls in {seconds} s; {calls} are wanted"
    return wrong, text
