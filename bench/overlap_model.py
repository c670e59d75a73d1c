#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a call from ordinary memory may take, by a model of its overlap: bench/overlap_model.py [--split] [N...]

Four servers, each of which does one thing after another but all of which work at once: the copying threads, the link up,
the link down, and the GPU, whose launches share it. Their figures are one H200 host's, with 16 cores (see below). For each
N cubed, and for kernels of 46, 50 and 200 TFLOP/s, the lines give the share of the floor, max(A and B up, C down, the
product), that a choice of tiles, slices of k and leading panels reaches; the first line is what src/plan/plan.c and
src/plan/schedule.c choose. With --split for the kernels on the tensor cores, at 100 and 205 TFLOP/s, which want whole spans of
k: a choice of tiles, streams and slices; what a launch takes beside its products is assumed there. What it leaves out: driver calls, waking of threads, the kernels' own start and end. It is for
comparing choices, not for predicting times.
"""

import sys
from collections import namedtuple

LINK = 55.5e9  # bytes/s, one way alone, for the floor
LINK_ALONE, LINK_BOTH = 52e9, 46e9  # through slots, out of caches that threads write to; each way, when both are busy
GAP = 1.5e-6  # seconds between two copies of the link
COPY_IN, COMMIT = 90e9, 90e9  # bytes/s of all copying threads
SLOTS, SLOT, LEAST = 16, 2 << 20, 256 << 10  # per direction; bytes; of the first and last pieces
LARGE, PIECE_SLOTS = 64e6, 2  # bytes up and down of a call whose pieces have so many slots
SPAN, SLICED_SPANS = 4096, 4  # k of a span on the tensor cores; spans from which on there are two slices
SM, BLOCK, ALONE = 132, 128, 0.62  # two blocks an SM; an SM with one reaches this share of its rate
STRIPS_TIMES, FLOPS_PER_BYTE, EMULATED_FLOPS_PER_BYTE = 1.05, 1050.0, 4100.0  # strips of C; src/select/rates.def at 45 GB/s
SPLIT_M, SPLIT_N = 128, 192  # on the tensor cores: one block an SM
SPLIT_LAUNCH = 14e-6  # seconds: packing the panel that completed a tile, and launches that find nothing to do

Way = namedtuple("Way", "tile_m tile_n slice_k lead streams split")


def ceil_div(a, b):
    return -(-a // b)


def round_up(a, b):
    return ceil_div(a, b) * b


def tile_of(n, piece, least, wish, most, enough):
    tile = min(max(round_up(ceil_div(n, 3), piece), least), wish)
    tile = max(tile, min(round_up(ceil_div(n, enough), piece), most))
    return min(round_up(ceil_div(n, ceil_div(n, tile)), piece), n)


def in_strips(n, flops_per_byte):
    return 2.0 * n**3 / flops_per_byte <= STRIPS_TIMES * 4 * n * n


def strip_of(n, piece, wish):
    wish = max(wish, round_up(ceil_div(min(max(n * n // 8, 256 << 10), SLOT // 4), n), piece))
    return tile_of(n, piece, wish, wish, 3072, 32)


def chosen(n):
    """As plan.c and schedule.c; slices end where groups do, by src/select/order.c for squares from 2048 on."""
    if in_strips(n, FLOPS_PER_BYTE):
        return Way(n, strip_of(n, 128, 256), n, 3, 8, False)
    tile = tile_of(n, 128, 512, 1024, 2048, 8)
    return Way(tile, tile, min(n, round_up(ceil_div(n, 3), 1408 if n > 2816 else 1024)), min(ceil_div(n, tile) // 2 + 1, 3), 8, False)


def chosen_emulated(n):
    if in_strips(n, EMULATED_FLOPS_PER_BYTE):
        tile_n = strip_of(n, SPLIT_N, 384)
        return Way(n, tile_n, n, ceil_div(n, tile_n), 8, True)
    spans = ceil_div(n, SPAN) if n > 2 * SPAN else 1
    wish = 1024 if spans == 1 else 1536
    slice_k = n if spans < SLICED_SPANS else ceil_div(spans, 2) * round_up(ceil_div(n, spans), 1024)
    tile_m = tile_of(n, SPLIT_M, 512, wish, 3072, 11)
    tile_n = tile_of(n, SPLIT_N, 576, 1152 if spans == 1 else wish, 3072, 11)
    return Way(tile_m, tile_n, slice_k, ceil_div(n, min(tile_m, tile_n)), 8, True)


def schedule(rows, columns, slices, lead):
    steps = [(op, p, s) for s in range(slices) for p in range(lead) for op in "AB" if p < (rows if op == "A" else columns)]
    rest = [(op, p) for p in range(lead, max(rows, columns)) for op in "AB" if p < (rows if op == "A" else columns)]
    return steps + [(op, p, s) for op, p in rest for s in range(slices)]


def parts(side, step):
    return [min(step, side - i) for i in range(0, side, step)]


def piece_slots(n):
    return PIECE_SLOTS if 12 * n * n >= LARGE else 1


def pieces_up(steps, rows, columns, ks, most):
    """[bytes, the step that it ends or None]"""
    pieces, sent = [], 0
    for step in steps:
        rest = 4 * (rows if step[0] == "A" else columns)[step[1]] * ks[step[2]]
        while rest:
            size = min(rest, most, max(LEAST, sent))
            rest -= size
            sent += size
            pieces.append((size, None if rest else step))
    return pieces


def share_of_gpu(m, n):
    blocks = ceil_div(m, BLOCK) * ceil_div(n, BLOCK)
    return ALONE * blocks / SM if blocks <= SM else min(1.0, ALONE + (1 - ALONE) * (blocks - SM) / SM)


def split_work(m, n, k, rate):
    """Flops that a launch takes the time of, and its share of the GPU. What is free in its last round other launches
    fill."""
    blocks = ceil_div(m, SPLIT_M) * ceil_div(n, SPLIT_N)
    share = min(1.0, blocks / SM)
    return 2.0 * blocks * SPLIT_M * SPLIT_N * k + SPLIT_LAUNCH * rate * share, share


class Call:
    def __init__(self, n, rate, way):
        self.n, self.rate, self.split = n, rate, way.split
        self.rows, self.columns, self.ks = parts(n, way.tile_m), parts(n, way.tile_n), parts(n, way.slice_k)
        steps = schedule(len(self.rows), len(self.columns), len(self.ks), way.lead)
        self.piece = SLOT * piece_slots(n)
        self.up = pieces_up(steps, self.rows, self.columns, self.ks, self.piece)
        self.threads, self.link_up, self.link_down = [], [], []  # queues: [work left, what]
        self.streams = [[] for _ in range(way.streams)]  # [flops left, share of the GPU, bytes of a complete tile]
        self.there, self.launched, self.tiles_down = set(), {}, []
        self.slots_up = self.slots_down = SLOTS // piece_slots(n)
        self.begun = 0
        self.to_fetch, self.to_commit = 4 * n * n, 4 * n * n

    def arrive(self, step):
        """A slice of a panel is there: the launches for which it was the last thing missing."""
        self.there.add(step)
        op, p, s = step
        for other in range(len(self.columns if op == "A" else self.rows)):
            if ("B" if op == "A" else "A", other, s) not in self.there:
                continue
            i, j = (p, other) if op == "A" else (other, p)
            m, n = self.rows[i], self.columns[j]
            self.launched[i, j] = self.launched.get((i, j), 0) + 1
            last = self.launched[i, j] == len(self.ks)
            flops, share = 2.0 * m * n * self.ks[s], share_of_gpu(m, n)
            if self.split:
                flops, share = split_work(m, n, self.ks[s], self.rate)
            self.streams[(3 * i + j) % len(self.streams)].append([flops, share, 4 * m * n * last])

    def ask(self):
        while self.begun < len(self.up) and self.slots_up:
            self.threads.append([self.up[self.begun][0] / COPY_IN, "in", self.up[self.begun]])
            self.begun += 1
            self.slots_up -= 1
        while self.tiles_down and self.slots_down:
            size = min(self.tiles_down[0], self.piece, max(LEAST, self.to_fetch // 2))
            self.tiles_down[0] -= size
            self.to_fetch -= size
            if not self.tiles_down[0]:
                self.tiles_down.pop(0)
            self.link_down.append([size + GAP * LINK_ALONE, size])
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
                self.link_up.append([job[2][0] + GAP * LINK_ALONE, job[2][1]])
            else:
                self.to_commit -= job[2]
                self.slots_down += 1
        rate = LINK_BOTH if self.link_up and self.link_down else LINK_ALONE
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
        dt, steps = min(2e-6, max(1e-6, floor / 3000)), 0  # a slot takes the link 38 us
        while self.to_commit > 0:
            self.step(dt)
            steps += 1
        return steps * dt


def floor_seconds(n, rate):
    return max(8.0 * n * n / LINK, 2.0 * n**3 / rate)


def tried(n):
    way = chosen(n)
    tile = way.tile_n
    return [way, way._replace(slice_k=n, lead=0), way._replace(lead=ceil_div(n, tile)),
            way._replace(tile_m=min(n, 2 * tile), tile_n=min(n, 2 * tile)),
            way._replace(tile_m=max(256, tile // 2), tile_n=max(256, tile // 2))]


def tried_split(n):
    way = chosen_emulated(n)
    tiles = [(n, 192), (n, 384), (n, 768), (512, 576), (768, 768), (1024, 1152), (1408, 1344), (2048, 2112)]
    return [way._replace(streams=streams) for streams in (8, 4, 2)] + [
        way._replace(slice_k=slices * SPAN) for slices in (1, 2, 4) if n > 2 * SPAN and slices * SPAN != way.slice_k] + [
        way._replace(tile_m=m, tile_n=n) for m, n in tiles if (m, n) != (way.tile_m, way.tile_n)]


def main():
    split = "--split" in sys.argv
    for n in [int(word) for word in sys.argv[1:] if word != "--split"] or [1024, 2048, 4096, 8192, 16384]:
        for way in tried_split(n) if split else tried(n):
            most = max(ceil_div(n, way.tile_m), ceil_div(n, way.tile_n))
            way = way._replace(lead=most if split else min(way.lead, most))
            row = []
            for rate in (100e12, 205e12) if split else (46e12, 50e12, 200e12):
                seconds = Call(n, rate, way).seconds()
                row.append(f"{floor_seconds(n, rate) / seconds:5.2f} ({seconds * 1e3:.2f} ms)")
            print(f"{n:6d}  tile {way.tile_m:5d} x {way.tile_n:5d}  slice {way.slice_k:6d}  leading {way.lead:2d} "
                  f" streams {way.streams} ", " ".join(row), flush=True)


if __name__ == "__main__":
    main()
