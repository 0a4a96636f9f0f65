"""Streams of jobs, and an independent simulation of them: plain Python, every event looked at
anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turnbuckle.questions.pool.fleet import Fleet
from turnbuckle.questions.pool.stream import Stream


def stream_of(
    rows: Sequence[tuple[float, float, int, float]], limits: Sequence[float] | None = None
) -> Stream:
    """Return jobs of one part from (arrival, work, cores, GPUs)."""
    arrival, work, cores, gpus = (
        np.array([row[k] for row in rows], dtype=np.float64) for k in range(4)
    )
    ones, milli = np.ones(len(rows), dtype=np.int64), 1000
    limit = work if limits is None else np.array(limits, dtype=np.float64)
    zeros = np.zeros(len(rows), dtype=np.int64)
    whole = (np.round(cores * milli).astype(np.int64), np.round(gpus * milli).astype(np.int64))
    return Stream("by hand", arrival, work, limit, ones, *whole, zeros, zeros, ("jobs",))


@dataclass
class _Free:
    cores: list[float]
    gpus: list[float]
    pool: list[int]

    def best(self, cores: float, gpus: float) -> int | None:
        """Return the host whose pool has the fewest free GPUs that are enough, then the one with
        the fewest free cores.
        """
        fit = [
            h
            for h in range(len(self.cores))
            if self.cores[h] >= cores and self.gpus[self.pool[h]] >= gpus
        ]
        return min(fit, key=lambda h: (self.gpus[self.pool[h]], self.cores[h], h), default=None)

    def add(self, host: int, cores: float, gpus: float, sign: int) -> None:
        self.cores[host] += sign * cores
        self.gpus[self.pool[host]] += sign * gpus

    def copy(self) -> _Free:
        return _Free(list(self.cores), list(self.gpus), list(self.pool))


def started(stream: Stream, fleet: Fleet, *, backfill: bool, slowdown: float = 1.0) -> list[float]:
    """Return when each job of one part and whole GPUs starts [s]; nan where it never does."""
    free = _Free(
        (fleet.cores / 1000).tolist(), fleet.gpus.astype(float).tolist(), fleet.pool.tolist()
    )
    need = [
        (c / 1000, g / 1000)
        for c, g in zip(stream.cores.tolist(), stream.gpus.tolist(), strict=True)
    ]
    start = [math.nan] * len(need)
    never = {k for k, (c, g) in enumerate(need) if free.best(c, g) is None}
    queue: list[int] = []
    running: dict[int, tuple[int, float, float]] = {}  # job -> host, end, expected end
    coming = [k for k in range(len(need)) if k not in never]

    def begin(job: int, now: float) -> bool:
        host = free.best(*need[job])
        if host is None:
            return False
        free.add(host, *need[job], -1)
        running[job] = (host, now + stream.work[job] * slowdown, now + stream.limit[job] * slowdown)
        start[job] = now
        return True

    while coming or running:
        now = min(
            [
                *(float(stream.arrival[k]) for k in coming[:1]),
                *(end for _, end, _ in running.values()),
            ]
        )
        for job in [j for j, (_, end, _) in running.items() if end <= now]:
            free.add(running.pop(job)[0], *need[job], 1)
        while coming and stream.arrival[coming[0]] <= now:
            queue.append(coming.pop(0))
        while queue and begin(queue[0], now):
            queue.pop(0)
        if not backfill or not queue:
            continue
        head = queue[0]
        for job in queue[1:]:
            later, when = free.copy(), math.inf
            for other, (host, _, expected) in sorted(
                running.items(), key=lambda item: (item[1][2], item[0])
            ):
                later.add(host, *need[other], 1)
                if later.best(*need[head]) is not None:
                    when = max(expected, now)
                    break
            host = free.best(*need[job])
            if host is None:
                continue
            if now + stream.limit[job] * slowdown > when:
                later.add(host, *need[job], -1)
                if min(later.cores) < 0 or min(later.gpus) < 0 or later.best(*need[head]) is None:
                    continue
            begin(job, now)
            queue.remove(job)
    return start
