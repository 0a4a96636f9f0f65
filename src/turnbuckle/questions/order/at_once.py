"""Which kernels of a program may run at once, from the order that several runs have in common, and whether a second device would be used.

This is what NVDAG asks of FENATE's poger (sections 4.5.2 and 6.5 of Austin et al. 2021).  Two kernels of different streams may run at
once where neither ended before the other began in every run.  Whether a device has room for both is not asked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.units import show
from turnbuckle.questions.order.poset import Runs

#: Pairs of names and streams that the JSON lists.
_MOST_LISTED = 1000
#: Share of the kernels' time below which a second device counts as not used.
_WORTH = 0.01


@dataclass(frozen=True)
class AtOnce:
    """Kernels that may run beside one of another stream.

    Attributes
    ----------
    kernels : how many there are.
    streams : those that have kernels.
    devices : how many these belong to.
    beside : whether each kernel may run beside another.
    streams_beside : those whose kernels may.
    pairs : kernel, stream, kernel, stream, and how many pairs of them; the most first.
    least, most : so many may run at once: so many are of one level; no kernel has partners on more streams.
    seconds : of each kernel, the median over the runs [s].
    chain_seconds : the longest chain of kernels that must follow each other [s].
    """

    kernels: int
    streams: tuple[str, ...]
    devices: int
    beside: Bool
    streams_beside: tuple[str, ...]
    pairs: tuple[tuple[str, str, str, str, int], ...]
    least: int
    most: int
    seconds: Float
    chain_seconds: float

    @property
    def second_share(self) -> float | None:
        """Share of the kernels' time that a second device could save at most; None where no kernel takes time.

        On one device one kernel after the other; on two no less than half of it, and no less than the longest chain.
        """
        total = float(self.seconds.sum())
        return 1.0 - max(self.chain_seconds, total / 2) / total if total > 0 else None

    def words(self) -> list[str]:
        """The answer in sentences."""
        if not self.kernels:
            return ["No kernel is in all recordings: what may run at once on a device cannot be told."]
        where = f"{len(self.streams)} stream{'s' if len(self.streams) > 1 else ''}"
        out = []
        if not self.beside.any():
            why = "" if len(self.streams) == 1 else ": each ended before the next began, in every recording"
            out.append(f"The {self.kernels:,} kernels run on {where}, and none may run beside another{why}.")
        else:
            named = ", ".join(self.streams_beside[:6]) + (
                f" and {len(self.streams_beside) - 6} more" if len(self.streams_beside) > 6 else ""
            )
            number = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
            out.append(
                f"{int(self.beside.sum()):,} of {self.kernels:,} kernels may run beside one of another stream, {number} at once: {named}."
            )
        if self.devices > 1:
            out.append(f"The kernels run on {self.devices} devices already.")
        share, which = self.second_share, "second" if self.devices == 1 else "further"
        if share is None or share < _WORTH:
            out.append(f"A {which} device would not be used: the kernels stand in one chain.")
        else:
            total = float(self.seconds.sum())
            chained = self.chain_seconds * 2 > total
            why = f"their longest chain takes {show(self.chain_seconds, 's')}" if chained else "no chain of them is longer than half"
            out.append(f"A {which} device could save {share:.0%} of the kernels' {show(total, 's')} at most: {why}.")
        return out

    @property
    def listed(self) -> list[dict[str, Any]]:
        """The first `_MOST_LISTED` pairs, a row each."""
        return [dict(zip(("first", "first_track", "then", "then_track", "pairs"), pair, strict=True)) for pair in self.pairs[:_MOST_LISTED]]

    @property
    def beside_seconds(self) -> float:
        """Time of the kernels that may run beside another [s]."""
        return float(self.seconds[self.beside].sum())

    @property
    def second_device_used(self) -> bool | None:
        """Whether a second device would save enough to be used; None where no kernel takes time."""
        return None if self.second_share is None else self.second_share >= _WORTH


def at_once(runs: Runs, clock: Int, level: Int, chain_seconds: float) -> AtOnce:
    """Find the kernels that may run at once.

    Parameters
    ----------
    clock : as `turnbuckle.questions.order.poset.clocks` gives it.
    level : of each activity.
    chain_seconds : the longest chain of kernels [s].
    """
    kernel = _kernels(runs)
    track = runs.track[kernel]
    present = np.unique(track)
    # the tracks of a clock's columns, and the place of each activity on its own
    columns = {int(t): n for n, t in enumerate(dict.fromkeys(runs.track.tolist()))}
    head = {int(t): int(np.flatnonzero(runs.track == t)[0]) for t in present}
    beside, partners = np.zeros(len(kernel), dtype=np.bool_), np.ones(len(kernel), dtype=np.int64)
    pairs: Counter[tuple[str, str, str, str]] = Counter()
    for here in present.tolist():
        mine = np.flatnonzero(track == here)
        for there in present.tolist():
            if there == here:
                continue
            theirs = np.flatnonzero(track == there)
            # over before each of mine begins, in every run; not yet begun when each of mine ends, in every run
            ended = 2 * (kernel[theirs] - head[there]) + 1
            first = np.searchsorted(ended, clock[2 * kernel[mine], columns[there]], side="left")
            seen = clock[2 * kernel[theirs], columns[here]]
            after = np.searchsorted(seen, 2 * (kernel[mine] - head[here]) + 1, side="right")
            free = after > first
            beside[mine[free]] = True
            partners[mine[free]] += 1
            if here < there:
                _count(runs, kernel[mine[free]], kernel[theirs], first[free], after[free], pairs)
    listed = tuple((*key, number) for key, number in pairs.most_common())
    streams = [runs.tracks[t] for t in present.tolist()]
    together = np.bincount(level[kernel]).max(initial=0) if len(kernel) else 0
    return AtOnce(
        len(kernel), tuple(streams), len({_device(stream) for stream in streams}), beside,
        tuple(runs.tracks[t] for t in present.tolist() if beside[track == t].any()), listed, int(together), int(partners.max(initial=0)),
        kernel_seconds(runs)[kernel], chain_seconds,
    )  # fmt: skip


def _count(runs: Runs, mine: Int, theirs: Int, first: Int, after: Int, pairs: Counter[tuple[str, str, str, str]]) -> None:
    """Count pairs by their names: each of `mine` with those of `theirs` from `first` to before `after`."""
    names = [runs.names[i] for i in theirs.tolist()]
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    upto = np.zeros((len(theirs) + 1, len(number)), dtype=np.int64)
    upto[np.arange(1, len(theirs) + 1), [number[name] for name in names]] = 1
    upto = upto.cumsum(0)
    for one, begin, end in zip(mine.tolist(), first.tolist(), after.tolist(), strict=True):
        for name, count in zip(number, (upto[end] - upto[begin]).tolist(), strict=True):
            if count:
                pairs[runs.names[one], runs.tracks[runs.track[one]], name, runs.tracks[runs.track[theirs[0]]]] += count


def _device(stream: str) -> str:
    """The rank and device of a stream's name.

    >>> _device("rank 0 device 1 stream 3")
    'rank 0 device 1'
    """
    return stream.rpartition(" stream ")[0]


def kernel_seconds(runs: Runs) -> Float:
    """Length of each activity that is a kernel, the median over the runs; 0 of any other [s]."""
    out = np.zeros(len(runs))
    kernel = _kernels(runs)
    out[kernel] = np.median(runs.time_ns[:, 2 * kernel + 1] - runs.time_ns[:, 2 * kernel], axis=0) * 1e-9
    return out


def _kernels(runs: Runs) -> Int:
    return np.flatnonzero(np.array([kind == "kernel" for kind in runs.kinds], dtype=np.bool_))
