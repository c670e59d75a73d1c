#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a call from ordinary memory may take, by a model of its overlap: bench/overlap_model.py [N...]

Four servers, each of which does one thing after another but all of which work at once: the copying threads, the link up,
the link down, and the GPU, whose launches share it. Their figures are one H200 host's, with 16 cores (see below). For each
N cubed, and for kernels of 46, 50 and 200 TFLOP/s, the lines give the share of the floor, max(A and B up, C down, the
product), that a choice of tiles, slices of k and leading panels reaches; the first line is what src/plan.c and
src/schedule.c choose. What it leaves out: driver calls, waking of threads, the kernels' own start and end. It is for
comparing choices, not for predicting times.
"""

import sys

LINK = 55.5e9  # bytes/s, one way alone
LINK_BOTH = 50.8e9  # each way, both at once
GAP = 1.5e-6  # seconds between two copies of the link
COPY_IN, COMMIT = 78e9, 54e9  # bytes/s of all copying threads
SLOTS, SLOT, LEAST = 8, 2 << 20, 256 << 10  # per direction; bytes; of the first and last pieces
STREAMS = 8
SM, BLOCK, ALONE = 132, 128, 0.62  # two blocks an SM; an SM with one reaches this share of its rate


def ceil_div(a, b):
    return -(-a // b)


def round_up(a, b):
    return ceil_div(a, b) * b


def chosen(n):
    """As plan.c and schedule.c: tile, slice of k, leading panels of each side."""
    tile = min(max(round_up(ceil_div(n, 3), 128), 512), 1024)
    tile = max(tile, min(round_up(ceil_div(n, 8), 128), 2048))
    tile = min(round_up(ceil_div(n, ceil_div(n, tile)), 128), n)
    return tile, min(n, round_up(ceil_div(n, 3), 512)), min(ceil_div(n, tile) // 2 + 1, 3)


def schedule(panels, slices, lead):
    steps = [(op, p, s) for s in range(slices) for p in range(lead) for op in "AB"]
    return steps + [(op, p, s) for p in range(lead, panels) for op in "AB" for s in range(slices)]


def parts(side, step):
    return [min(step, side - i) for i in range(0, side, step)]


def pieces_up(steps, sides, ks):
    """[bytes, the step that it ends or None]"""
    pieces, sent = [], 0
    for step in steps:
        rest = 4 * sides[step[1]] * ks[step[2]]
        while rest:
            size = min(rest, SLOT, max(LEAST, sent))
            rest -= size
            sent += size
            pieces.append((size, None if rest else step))
    return pieces


def share_of_gpu(m, n):
    blocks = ceil_div(m, BLOCK) * ceil_div(n, BLOCK)
    return ALONE * blocks / SM if blocks <= SM else min(1.0, ALONE + (1 - ALONE) * (blocks - SM) / SM)


class Call:
    def __init__(self, n, rate, tile, slice_k, lead):
        self.n, self.rate = n, rate
        self.sides, self.ks = parts(n, tile), parts(n, slice_k)
        self.up = pieces_up(schedule(len(self.sides), len(self.ks), lead), self.sides, self.ks)
        self.threads, self.link_up, self.link_down = [], [], []  # queues: [work left, what]
        self.streams = [[] for _ in range(STREAMS)]  # [flops left, share of the GPU, bytes of a complete tile]
        self.there, self.launched, self.tiles_down = set(), {}, []
        self.slots_up, self.slots_down, self.begun = SLOTS, SLOTS, 0
        self.to_fetch, self.to_commit = 4 * n * n, 4 * n * n

    def arrive(self, step):
        """A slice of a panel is there: the launches for which it was the last thing missing."""
        self.there.add(step)
        op, p, s = step
        for other in range(len(self.sides)):
            if ("B" if op == "A" else "A", other, s) not in self.there:
                continue
            i, j = (p, other) if op == "A" else (other, p)
            m, n = self.sides[i], self.sides[j]
            self.launched[i, j] = self.launched.get((i, j), 0) + 1
            last = self.launched[i, j] == len(self.ks)
            self.streams[(3 * i + j) % STREAMS].append([2.0 * m * n * self.ks[s], share_of_gpu(m, n), 4 * m * n * last])

    def ask(self):
        while self.begun < len(self.up) and self.slots_up:
            self.threads.append([self.up[self.begun][0] / COPY_IN, "in", self.up[self.begun]])
            self.begun += 1
            self.slots_up -= 1
        while self.tiles_down and self.slots_down:
            size = min(self.tiles_down[0], SLOT, max(LEAST, self.to_fetch // 2))
            self.tiles_down[0] -= size
            self.to_fetch -= size
            if not self.tiles_down[0]:
                self.tiles_down.pop(0)
            self.link_down.append([size + GAP * LINK, size])
            self.slots_down -= 1

    def step(self, dt):
        self.ask()
        left = dt
        while self.threads and left > 0:
            job = self.threads[0]
            spent = min(left, job[0])
            left -= spent
            job[0] -= spent
            if job[0] > 1e-12:
                break
            self.threads.pop(0)
            if job[1] == "in":
                self.link_up.append([job[2][0] + GAP * LINK, job[2][1]])
            else:
                self.to_commit -= job[2]
                self.slots_down += 1
        rate = LINK_BOTH if self.link_up and self.link_down else LINK
        for queue in (self.link_up, self.link_down):
            if not queue:
                continue
            queue[0][0] -= rate * dt
            if queue[0][0] > 0:
                continue
            what = queue.pop(0)[1]
            if queue is self.link_up:
                self.slots_up += 1
                if what:
                    self.arrive(what)
            else:
                self.threads.append([what / COMMIT, "commit", what])
        running = [stream for stream in self.streams if stream]
        crowd = max(1.0, sum(stream[0][1] for stream in running))
        for stream in running:
            stream[0][0] -= self.rate * stream[0][1] / crowd * dt
            if stream[0][0] <= 0:
                done = stream.pop(0)
                if done[2]:
                    self.tiles_down.append(done[2])

    def seconds(self):
        floor = floor_seconds(self.n, self.rate)
        dt, steps = max(1e-6, floor / 3000), 0
        while self.to_commit > 0:
            self.step(dt)
            steps += 1
        return steps * dt


def floor_seconds(n, rate):
    return max(8.0 * n * n / LINK, 2.0 * n**3 / rate)


def main():
    for n in [int(word) for word in sys.argv[1:]] or [1024, 2048, 4096, 8192, 16384]:
        tile, slice_k, lead = chosen(n)
        panels = ceil_div(n, tile)
        tried = [(tile, slice_k, lead), (tile, n, 0), (tile, slice_k, panels), (min(n, 2 * tile), slice_k, lead),
                 (max(256, tile // 2), slice_k, lead)]
        for tile, slice_k, lead in tried:
            lead = min(lead, ceil_div(n, tile))
            row = []
            for rate in (46e12, 50e12, 200e12):
                seconds = Call(n, rate, tile, slice_k, lead).seconds()
                row.append(f"{floor_seconds(n, rate) / seconds:5.2f} ({seconds * 1e3:.2f} ms)")
            print(f"{n:6d}  tile {tile:5d}  slice {slice_k:6d}  leading {lead:2d} ", " ".join(row), flush=True)


if __name__ == "__main__":
    main()
