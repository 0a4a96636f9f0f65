"""Kernels that may run at once, by the order that several runs have in common, and the use of a
second device.

This is what NVDAG asks of FENATE's poger (sections 4.5.2 and 6.5 of Austin et al. 2021).  Two
kernels of different streams may run at once where neither ended before the other began in every
run.  Whether a device has room for both is not asked.
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
    """Kernels that may run beside a kernel of another stream.

    Attributes
    ----------
    kernels : how many there are.
    streams : those that have kernels.
    devices : how many these belong to.
    beside : whether each kernel may run beside another.
    streams_beside : those whose kernels may.
    pairs : kernel, stream, kernel, stream, and how many pairs of them; the most first.
    least, most : so many may run at once: so many are of one level; no kernel has partners on more
        streams.
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
        """Return the share of the kernels' time that a second device could save at most; None where
        no kernel takes time.

        On one device kernels run one after the other. On two they take no less than half of that,
        and no less than the longest chain.
        """
        total = float(self.seconds.sum())
        return 1.0 - max(self.chain_seconds, total / 2) / total if total > 0 else None

    def words(self) -> list[str]:
        """Return the answer in sentences."""
        if not self.kernels:
            return [
                "No kernel is in all recordings, so it is unknown which kernels may run at once."
            ]
        where = f"{len(self.streams)} stream{'s' if len(self.streams) > 1 else ''}"
        out = []
        if not self.beside.any():
            why = (
                ""
                if len(self.streams) == 1
                else ": each ended before the next began, in every recording"
            )
            out.append(
                f"The {self.kernels:,} kernels run on {where}, and none may run beside "
                f"another{why}."
            )
        else:
            named = ", ".join(self.streams_beside[:6]) + (
                f" and {len(self.streams_beside) - 6} more" if len(self.streams_beside) > 6 else ""
            )
            number = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
            out.append(
                f"{int(self.beside.sum()):,} of {self.kernels:,} kernels may run beside one "
                f"of another stream, {number} at once: {named}."
            )
        if self.devices > 1:
            out.append(f"The kernels run on {self.devices} devices already.")
        share, ordinal = self.second_share, "second" if self.devices == 1 else "further"
        if share is None or share < _WORTH:
            out.append(f"A {ordinal} device would not be used: the kernels stand in one chain.")
        else:
            total = float(self.seconds.sum())
            chained = self.chain_seconds * 2 > total
            why = (
                f"their longest chain takes {show(self.chain_seconds, 's')}"
                if chained
                else "no chain of them is longer than half"
            )
            out.append(
                f"A {ordinal} device could save {share:.0%} of the kernels' "
                f"{show(total, 's')} at most: {why}."
            )
        return out

    @property
    def listed(self) -> list[dict[str, Any]]:
        """Return the first `_MOST_LISTED` pairs, one row each."""
        return [
            dict(zip(("first", "first_track", "then", "then_track", "pairs"), pair, strict=True))
            for pair in self.pairs[:_MOST_LISTED]
        ]

    @property
    def beside_seconds(self) -> float:
        """Return the time of the kernels that may run beside another [s]."""
        return float(self.seconds[self.beside].sum())

    @property
    def second_device_used(self) -> bool | None:
        """Return whether a second device would save enough to be used; None where no kernel takes
        time.
        """
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
    for stream_track in present.tolist():
        of_stream = np.flatnonzero(track == stream_track)
        for other_track in present.tolist():
            if other_track == stream_track:
                continue
            of_other = np.flatnonzero(track == other_track)
            # index of the first that has not ended before each begins, and of the first that has
            # not begun when each ends, in every run
            ended = 2 * (kernel[of_other] - head[other_track]) + 1
            first = np.searchsorted(
                ended, clock[2 * kernel[of_stream], columns[other_track]], side="left"
            )
            seen = clock[2 * kernel[of_other], columns[stream_track]]
            after = np.searchsorted(
                seen, 2 * (kernel[of_stream] - head[stream_track]) + 1, side="right"
            )
            free = after > first
            beside[of_stream[free]] = True
            partners[of_stream[free]] += 1
            if stream_track < other_track:
                _count(
                    runs, kernel[of_stream[free]], kernel[of_other], first[free], after[free], pairs
                )
    listed = tuple((*key, number) for key, number in pairs.most_common())
    streams = tuple(runs.tracks[t] for t in present.tolist())
    free_streams = tuple(runs.tracks[t] for t in present.tolist() if beside[track == t].any())
    least, most = (
        int(np.bincount(level[kernel]).max(initial=0)) if len(kernel) else 0,
        int(partners.max(initial=0)),
    )
    devices, each = len({_device(stream) for stream in streams}), kernel_seconds(runs)[kernel]
    return AtOnce(
        len(kernel),
        streams,
        devices,
        beside,
        free_streams,
        listed,
        least,
        most,
        each,
        chain_seconds,
    )


def _count(
    runs: Runs,
    of_stream: Int,
    of_other: Int,
    first: Int,
    after: Int,
    pairs: Counter[tuple[str, str, str, str]],
) -> None:
    """Count pairs by their names: each kernel of `of_stream` with those of `of_other` from `first`
    to before `after`.
    """
    names = [runs.names[i] for i in of_other.tolist()]
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    upto = np.zeros((len(of_other) + 1, len(number)), dtype=np.int64)
    upto[np.arange(1, len(of_other) + 1), [number[name] for name in names]] = 1
    upto = upto.cumsum(0)
    for kernel, begin, end in zip(of_stream.tolist(), first.tolist(), after.tolist(), strict=True):
        for name, count in zip(number, (upto[end] - upto[begin]).tolist(), strict=True):
            if count:
                pairs[
                    runs.names[kernel],
                    runs.tracks[runs.track[kernel]],
                    name,
                    runs.tracks[runs.track[of_other[0]]],
                ] += count


def _device(stream: str) -> str:
    """Return rank and device from a stream's name.

    >>> _device("rank 0 device 1 stream 3")
    'rank 0 device 1'
    """
    return stream.rpartition(" stream ")[0]


def kernel_seconds(runs: Runs) -> Float:
    """Return the median length over the runs of each activity that is a kernel; 0 of any other
    [s].
    """
    out = np.zeros(len(runs))
    kernel = _kernels(runs)
    out[kernel] = (
        np.median(runs.time_ns[:, 2 * kernel + 1] - runs.time_ns[:, 2 * kernel], axis=0) * 1e-9
    )
    return out


def _kernels(runs: Runs) -> Int:
    return np.flatnonzero(np.array([kind == "kernel" for kind in runs.kinds], dtype=np.bool_))
