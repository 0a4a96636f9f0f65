"""Common parts of the readers of measurements: curves, single quantities, the text of a file, the
rounding of printed numbers.

Errors:

    A023  an impossible line
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding

#: A value printed to no better than this share of itself says nothing.
COARSEST: Final = 0.25
#: Sizes up to which a float counts single bytes, and times that a copy may have [B], [s].
LARGEST_COPY: Final = 2.0**53
SHORTEST, LONGEST = 1e-12, 1e9

_LONGEST_LINE = 4096


@dataclass(frozen=True)
class Curve:
    """Measured time of one copy over its size.

    Attributes
    ----------
    direction, memory : class of the copies, in the words of a recording; ``network`` for messages
        that leave the node, ``mapped_h2d`` and ``mapped_d2h`` where the host itself reads or writes
        device memory, ``collective``, ``several`` for messages of several pairs at once, and
        ``kernel`` for kernels by their bytes.
    size_bytes : sizes [B], ascending, shape (n,).
    seconds : time of one copy of each size [s], shape (n,).
    name : name of the measurement in its file.
    resolution : rounding of the printed number, as a share of the value, shape (n,).
    streamed : whether many messages were in flight at once, so that a time is the time per message
        and includes no latency.
    means : means of the transfer: ``copy``, ``mpi``, ``nccl``, ``cpu`` or ``kernel``; for our own
        program also the timing of a copy: ``event`` between two events, ``queued`` behind a busy
        kernel, ``period`` from copy to copy, ``host`` as the host sees it, ``call`` until the call
        returns.
    lines : first and last line in the file, counted from 1; (0, 0) where they are unknown.
    """

    direction: str
    memory: str
    size_bytes: Float
    seconds: Float
    name: str
    resolution: Float = field(default_factory=lambda: np.zeros(0), repr=False)
    streamed: bool = False
    means: str = "copy"
    lines: tuple[int, int] = (0, 0)

    def times(self, size_bytes: Float) -> Float:
        """Return the time of copies of other sizes [s]: straight lines between the measured points
        in log-log; nan outside them.

        >>> curve = Curve("h2d", "pinned", np.array([1e3, 1e5]), np.array([2e-6, 8e-6]), "")
        >>> [float(round(t * 1e6, 3)) for t in curve.times(np.array([1e3, 1e4, 1e6]))]
        [2.0, 4.0, nan]
        """
        size = np.asarray(size_bytes, dtype=np.float64)
        inside = (size >= self.size_bytes[0]) & (size <= self.size_bytes[-1])
        safe = np.where(inside, np.maximum(size, 1e-9), self.size_bytes[0])
        line = np.exp(np.interp(np.log(safe), np.log(self.size_bytes), np.log(self.seconds)))
        return np.where(inside, line, np.nan)


@dataclass(frozen=True)
class Quantity:
    """Single number that a file states, or samples of it.

    Attributes
    ----------
    what : name of the quantity in `turnbuckle.questions.calibrate.calibration.QUANTITIES`, for
        example ``rate.h2d.pinned``.
    value : median of the samples, in SI.
    unit : SI unit.
    error : relative standard error of the median, from the samples; 0 for one sample.
    count : number of samples.
    where : lines, section or row of the file, in words.
    note : caveats.
    unsized : whether it is a rate of copies whose size the file does not state.
    """

    what: str
    value: float
    unit: str
    error: float
    count: int
    where: str
    note: str = ""
    unsized: bool = False


@dataclass(frozen=True)
class Measured:
    """Contents of one file of measurements.

    Attributes
    ----------
    name, format : name and format of the file.
    device : device that the file names, or an empty text.
    curves : one curve for each measurement, in the order of the file.
    findings : findings on values that were left out.
    quantities : single numbers.
    driver : version of the driver that the file names, or an empty text.
    surface : run times of the slack proxy, one for each point: size, threads, slack_s, seconds.
    """

    name: str
    format: str
    curves: tuple[Curve, ...]
    device: str = ""
    findings: tuple[Finding, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    driver: str = ""
    surface: tuple[dict[str, float], ...] = ()


@dataclass
class Points:
    """Points of one measurement while it is read."""

    direction: str
    memory: str
    name: str
    streamed: bool = False
    size: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    resolution: list[float] = field(default_factory=list)
    means: str = "copy"
    lines: list[int] = field(default_factory=list)

    def add(self, size: float, seconds: float, resolution: float, line: int = 0) -> None:
        self.size.append(size)
        self.seconds.append(seconds)
        self.resolution.append(resolution)
        self.lines.append(line)

    def check(self, file: str) -> None:
        """Raise A023 for a size or a time that no copy has."""
        for size, seconds in zip(self.size, self.seconds, strict=True):
            if not (1.0 <= size <= LARGEST_COPY and SHORTEST <= seconds <= LONGEST):
                raise error_of(
                    "A023.impossible", where=file, found=f"{self.name}: {size:g} B in {seconds:g} s"
                )

    def curve(self) -> Curve:
        """Return the curve by ascending size; repeated sizes become their median."""
        size, seconds, coarse = (
            np.array(x, dtype=np.float64) for x in (self.size, self.seconds, self.resolution)
        )
        order = np.lexsort((seconds, size))
        sizes, first, count = np.unique(size[order], return_index=True, return_counts=True)
        low, high = (seconds[order][first + half] for half in ((count - 1) // 2, count // 2))
        worst = np.maximum.reduceat(coarse[order], first)
        lines = (min(self.lines), max(self.lines))
        return Curve(
            self.direction,
            self.memory,
            sizes,
            (low + high) / 2,
            self.name,
            worst,
            self.streamed,
            self.means,
            lines,
        )


class Left:
    """Lines and numbers left out, counted by reason."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def out(self, why: str, count: int = 1) -> None:
        self.counts[why] = self.counts.get(why, 0) + count

    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding("A333", count, f"{count} {why}") for why, count in self.counts.items())


@dataclass(frozen=True)
class Text:
    """A file, its text, the size of its copies where the file does not state it, and whether its
    ranks were on several nodes.
    """

    path: Path
    text: str
    size_bytes: float | None
    between_nodes: bool = False

    @property
    def name(self) -> str:
        return self.path.name

    def lines(self) -> list[str]:
        """Return the lines; a line longer than any of these tests' counts as empty, because
        patterns would take long on it.
        """
        return [line if len(line) <= _LONGEST_LINE else "" for line in self.text.splitlines()]


@dataclass
class Found:
    """Contents of one text, as its reader returns them."""

    points: list[Points] = field(default_factory=list)
    device: str = ""
    driver: str = ""
    quantities: list[Quantity] = field(default_factory=list)
    surface: list[dict[str, float]] = field(default_factory=list)


Reader = Callable[[Text, Left], Found]


def rounding(text: str) -> float:
    """Return half a unit of the last digit printed, as a share of the value; infinite for a zero.

    >>> round(rounding("12.5"), 6), rounding("0.00")
    (0.004, inf)
    """
    value = float(text)
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return half / value if value > 0 else math.inf


def clean(text: str) -> str:
    """Return one printable line of 80 letters at most."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:80]


def number(text: str, name: str) -> str:
    """Return the text itself if it is a number.  Raises A023."""
    try:
        if math.isfinite(float(text)):
            return text
    except ValueError:
        pass
    raise error_of("A023.text", where=name, found=clean(text))


def way_words(direction: str, memory: str) -> str:
    """Return ``h2d pinned``, or the direction alone where the memory is unknown."""
    return direction if memory in ("device", "unknown") else f"{direction} {memory}"


def points_of(
    group: dict[tuple[str, ...], Points],
    direction: str,
    memory: str,
    name: str,
    streamed: bool = False,
) -> Points:
    """Return the measurement of that class and name, started if new."""
    return group.setdefault((direction, memory, name), Points(direction, memory, name, streamed))


def sampled(
    what: str, values: list[float], unit: str, where: str, note: str = "", unsized: bool = False
) -> Quantity:
    """Return the median of several numbers with its standard error: 1.2533 sigma / sqrt(n), sigma
    from their quartiles.

    >>> sampled("rate.h2d.pinned", [9.0, 10.0, 11.0], "B/s", "line 1").value
    10.0
    """
    sample = np.array(values, dtype=np.float64)
    middle = float(np.median(sample))
    low, high = np.quantile(sample, [0.25, 0.75])
    error = (
        1.2533 * float(high - low) / 1.349 / math.sqrt(len(sample)) / abs(middle) if middle else 0.0
    )
    return Quantity(what, middle, unit, error, len(sample), where, note, unsized)


def lines_words(lines: list[int]) -> str:
    """Return ``line 7`` or ``lines 7 to 90``."""
    first, last = min(lines), max(lines)
    return f"line {first}" if first == last else f"lines {first} to {last}"
