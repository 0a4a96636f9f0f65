"""Response surface: run time of the proxy application by matrix size, threads and slack (Shorts and
Grant, SC24-W, Fig 3).

The paper's surface exists only as a figure.  `read_surface` loads a surface that the user measured.
`modelled_surface` computes a surface from the modelled proxy, and its label states that.  A file
has one line per run::

    size [MiB], threads, slack [us], run time [s], kernel [us], calls
    1,          1,       0,          0.382,        120,         5000
    1,          1,       100,        0.89,         120,         5000

Units stand in the heading or after each number.  ``kernel`` (one kernel at that size) and ``calls``
(delayed calls of one thread) may be missing: without ``kernel`` no kernels can be binned, without
``calls`` equation 1 cannot be applied. Several lines for one point are averaged, as the paper
averages its runs.

Errors are those of `turnbuckle.foundation.table_file`, and A064: a size and thread count without a
run at slack 0, or no runs at all.

A131: a point outside the surface is not extrapolated.  A132.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.foundation.units import show
from turnbuckle.papers.row_slack.proxy import Proxy, modelled

#: Columns of a file.
COLUMNS: Final = (
    Column("size", "B", above=True),
    Column("threads", "1", above=True, whole=True, most=1e6),
    Column("slack", "s"),
    Column("run time", "s", above=True),
    Column("kernel", "s", needed=False, above=True),
    Column("calls", "1", needed=False, above=True, whole=True),
)
_LARGEST_BYTES: Final = 4 << 20
#: Slack of the paper's sweep, by orders of magnitude [s].
SLACK_SECONDS: Final = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


class Point(NamedTuple):
    """Run: matrix size [B], threads, slack [s], run time [s], one kernel [s], delayed calls per
    thread; nan where unknown.
    """

    size_bytes: float
    threads: int
    slack_seconds: float
    seconds: float
    kernel_seconds: float = math.nan
    calls: float = math.nan


@dataclass(frozen=True)
class Surface:
    """Run times by size, threads and slack."""

    points: tuple[Point, ...]
    #: origin of the surface, printed with every answer: ``modelled: ...`` or ``measured: ...``
    label: str

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """Return the thread counts of the runs."""
        return tuple(sorted({p.threads for p in self.points}))

    def sizes(self, threads: int) -> Float:
        """Return the matrix sizes run with so many threads [B], ascending.

        Raises A131 where the surface has no run with so many threads.
        """
        sizes = sorted({p.size_bytes for p in self.points if p.threads == threads})
        if not sizes:
            raise self._outside(
                f"{threads} threads", ", ".join(str(n) for n in self.threads) + " threads"
            )
        return np.array(sizes)

    def kernel_seconds(self, threads: int) -> Float:
        """Return the time of one kernel at each of `sizes` [s].  Raises A132, the surface does not
        say.
        """
        seconds = np.array(
            [self._column(size, threads)[0].kernel_seconds for size in self.sizes(threads)]
        )
        if np.isnan(seconds).any() or (np.diff(seconds) <= 0).any():
            raise error_of("A132.kernel", where=self.label)
        return seconds

    def seconds(self, size_bytes: float, threads: int, slack_seconds: float) -> float:
        """Return the run time at a size and thread count of the runs, linear in slack between runs
        [s].

        Raises A131, the point lies outside the surface.

        Run time in one order is convex in slack, so a straight line between two modelled runs lies
        above it.
        """
        line = self._column(size_bytes, threads)
        slack = np.array([p.slack_seconds for p in line])
        if not 0.0 <= slack_seconds <= slack[-1]:
            raise self._outside(
                f"a slack of {show(slack_seconds, 's')}",
                f"slack up to {show(float(slack[-1]), 's')} at {show(size_bytes, 'B')}",
            )
        return float(np.interp(slack_seconds, slack, [p.seconds for p in line]))

    def calls(self, size_bytes: float, threads: int) -> float:
        """Return the delayed calls of one thread, for equation 1.  Raises A132, the surface does
        not say.
        """
        calls = self._column(size_bytes, threads)[0].calls
        if math.isnan(calls):
            raise error_of("A132.calls", where=self.label)
        return calls

    def _column(self, size_bytes: float, threads: int) -> list[Point]:
        runs = self._runs.get((size_bytes, threads))
        if runs is None:
            sizes = ", ".join(show(float(n), "B") for n in self.sizes(threads))
            raise self._outside(f"{show(size_bytes, 'B')} with {threads} threads", sizes)
        return runs

    @cached_property
    def _runs(self) -> dict[tuple[float, int], list[Point]]:
        runs: dict[tuple[float, int], list[Point]] = {}
        for point in self.points:
            runs.setdefault((point.size_bytes, point.threads), []).append(point)
        return runs

    def _outside(self, asked: str, covered: str) -> TurnbuckleError:
        return error_of("A131", where=self.label, found=asked, covered=covered)


def modelled_surface(
    proxies: Sequence[Proxy],
    threads: Sequence[int] = (1, 2, 4, 8),
    slack_seconds: Sequence[float] = SLACK_SECONDS,
    *,
    device_bytes: float = math.inf,
) -> Surface:
    """Return the surface of the modelled proxy: each point is a separate replay, in the order that
    arises at its slack.

    Parameters
    ----------
    proxies : the matrix sizes (`turnbuckle.papers.row_slack.binned_slack.table_two`).
    threads, slack_seconds : the other two axes; slack 0 is always added [s].
    device_bytes : memory of the device [B]; runs that do not fit (three matrices per thread) are
        left out, as in the paper.
    """
    slacks = sorted({0.0, *slack_seconds})
    points = [
        _modelled_point(p, k, s)
        for p in proxies
        for k in set(threads)
        if 3 * k * p.size_bytes <= device_bytes
        for s in slacks
    ]
    return Surface(
        tuple(sorted(points)),
        "modelled: Table II of the paper through the timeline replay, not the paper's measurement",
    )


@lru_cache(1024)  # every recording is set beside the same few runs of the proxy
def _modelled_point(proxy: Proxy, threads: int, slack_seconds: float) -> Point:
    run = modelled(proxy, threads, served_at=slack_seconds)
    return Point(
        proxy.size_bytes,
        threads,
        slack_seconds,
        float(run.seconds(slack_seconds)),
        proxy.kernel_seconds,
        run.calls,
    )


def read_surface(path: str | Path) -> Surface:
    """Read a measured surface from a CSV file; the head of this module describes its form and
    errors.
    """
    table = read_table(path, COLUMNS, "the response surface", largest_bytes=_LARGEST_BYTES)
    runs: dict[tuple[float, int, float], list[tuple[float, float, float]]] = {}
    columns = [table.number(c.name).tolist() for c in COLUMNS]
    for size, threads, slack, *measured in zip(*columns, strict=True):
        runs.setdefault((size, int(threads), slack), []).append(
            (measured[0], measured[1], measured[2])
        )
    points = tuple(
        sorted(
            Point(*key, *(float(np.mean(values)) for values in zip(*same, strict=True)))
            for key, same in runs.items()
        )
    )
    started = {(p.size_bytes, p.threads) for p in points if p.slack_seconds == 0.0}
    without = next((p for p in points if (p.size_bytes, p.threads) not in started), None)
    if without is not None or not points:
        missing = (
            f"{show(without.size_bytes, 'B')} with {without.threads} threads"
            if without
            else "no runs"
        )
        raise error_of("A064", where=table.name, found=missing)
    return Surface(points, f"measured: {table.name}")
