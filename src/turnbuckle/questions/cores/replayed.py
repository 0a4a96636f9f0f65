"""How many CPU cores one recording needs: its threads as they ran, with fewer cores.

A recording with context switches says when each thread was on a core.  With n cores and k threads
that want one, they share: each advances n / k as fast.  Two bounds hold the run time, whatever the
order in which the system lets threads run:

    at least   max(T, W / n)                       no thread ever waits for a core that is free
    at most    T + sum of (k(t) / n - 1) dt        over instants with k(t) > n: everything stands still for as long, the GPU as well

T is the recorded run time, k(t) the threads on a core, W the time that all threads were on one.
With as many cores as threads ran at once both are T, and neither ever falls with fewer cores.  A
thread that polls in a wait needs its core here; what a thread would have done on a core that it did
not get while it was recorded is not in the recording.

On another CPU, `speed` times as fast, work takes 1 / speed of its time.  The run takes at least
max(T - U (1 - 1 / speed), W / (n speed)), with U the time in which any thread ran.  It takes at
most what the sum above gives with max(k / n, 1) / speed in place of k / n, wherever a thread runs
and that is more than 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.trace.bounds import DEVICE_TABLES

if TYPE_CHECKING:
    from turnbuckle.show.figures.figure import Figure

#: Numbers of cores that are shown at most.
_MOST_ROWS: Final = 64


@dataclass(frozen=True)
class Fewer(Declared):
    """A number of cores, and the bounds of the run time with it [s]."""

    cores: int
    cores_per_gpu: float
    least_seconds: float
    most_seconds: float


@dataclass(frozen=True, repr=False)
class Replayed(Shown):
    """One recording with fewer cores.

    Attributes
    ----------
    seconds : recorded run time.
    threads, at_once : threads that ran, and the most of them at once.
    busy_seconds : time that all threads were on a core.
    enough : the fewest cores with which the efficiency is sure; None where none is.
    fewest : the fewest with which it is possible; None where none is.
    """

    recording: str
    seconds: float
    gpus: int
    threads: int
    at_once: int
    busy_seconds: float
    speed: float
    efficiency: float
    counts: tuple[Fewer, ...]
    fewest: int | None
    enough: int | None
    findings: tuple[Finding, ...]

    def table(self) -> pl.DataFrame:
        """Return a row for each number of cores: bounds of the run time [s]."""
        return pl.DataFrame([count.as_dict() for count in self.counts], infer_schema_length=None)

    def figures(self) -> list[Figure]:
        """Return the figure of both bounds over the number of cores."""
        # a verb without figures does not load them
        from turnbuckle.questions.cores.figures import bounds_figure

        return [bounds_figure(self)]

    def headline(self) -> str:
        """Return the answer in one line."""
        share = f"{self.efficiency * 100:.3g} % of the recorded speed"
        if self.fewest is None or self.enough is None:
            return f"Cores: no number of cores of this CPU is sure to keep {share}"
        each = "" if self.gpus == 1 else f" for {self.gpus} GPUs"
        if self.fewest == self.enough:
            return (
                f"Cores: {self.enough:,} core{'s' * (self.enough != 1)}{each} "
                f"keep{'s' * (self.enough == 1)} {share}"
            )
        return (
            f"Cores: {self.fewest:,} to {self.enough:,} cores{each} keep {share}; measure with "
            f"{self.fewest:,}"
        )


def replayed(profile: Profile, *, efficiency: float = 0.9, speed: float = 1.0) -> Replayed:
    """Return the bounds of a recording's run time with fewer cores.

    Parameters
    ----------
    efficiency : share of the recorded speed that is to be kept, 0.5 to 0.999.
    speed : of another CPU, over that of the recorded one; 0.01 to 100.

    Raises
    ------
    UsageError : A031 for an efficiency, A471 for a speed out of range.
    CannotAnswer : A152 without GPU activity, A208 without context switches.
    """
    trace = profile.trace
    if not 0.5 <= efficiency <= 0.999:
        raise error_of(
            "A031.quantity",
            found=f"{efficiency:g}",
            subject="--efficiency",
            least=0.5,
            most=0.999,
            example="--efficiency 0.9",
        )
    if not 0.01 <= speed <= 100:
        raise error_of("A471.speed", found=f"{speed:g}")
    gpus = pl.concat([trace.table(t)["device"].fill_null(-1) for t in DEVICE_TABLES]).n_unique()
    if not gpus:
        raise error_of("A152", where=trace.name, missing="GPU activity")
    if not trace.scheduling.height:
        raise error_of(
            "A208",
            where=trace.name,
            found=f"{trace.api['thread'].n_unique():,} threads with calls, no context switches",
        )
    seconds, running = _running(profile)
    at_once = int(running.max(initial=0))
    whole = profile.seconds
    busy = float((seconds * running).sum())
    any_seconds = float(seconds[running > 0].sum())
    counts = []
    for cores in range(1, max(at_once, 1) + 1):
        slower = np.where(
            running > 0, np.maximum(np.maximum(running / cores, 1.0) / speed, 1.0), 1.0
        )
        most = whole + float((seconds * (slower - 1.0)).sum())
        least = max(whole - any_seconds * max(1.0 - 1.0 / speed, 0.0), busy / (cores * speed))
        counts.append(Fewer(cores, cores / gpus, min(least, most), most))
    allowed = whole / efficiency * (1 + 1e-12)
    fewest = next((c.cores for c in counts if c.least_seconds <= allowed), None)
    enough = next((c.cores for c in counts if c.most_seconds <= allowed), None)
    shown = {0, len(counts) - 1, *np.linspace(0, len(counts) - 1, _MOST_ROWS).astype(int).tolist()}
    threads, rows = trace.scheduling["thread"].n_unique(), tuple(counts[k] for k in sorted(shown))
    answer = (rows, fewest, enough, tuple(profile.findings))
    return Replayed(trace.name, whole, gpus, threads, at_once, busy, speed, efficiency, *answer)


def _running(profile: Profile) -> tuple[Float, Float]:
    """Return lengths of stretches of the run [s] and how many threads were on a core in each.

    A thread whose first row takes it off was on one before; one that is never taken off stays on
    it.
    """
    first, last = profile.first_ns, profile.last_ns
    times: list[np.ndarray] = []
    for rows in (
        profile.trace.scheduling.drop_nulls("running")
        .sort("time_ns", maintain_order=True)
        .partition_by("thread")
    ):
        times_ns, on = (
            np.clip(rows["time_ns"].to_numpy(), first, last),
            rows["running"].to_numpy() != 0,
        )
        change = np.diff(on.astype(np.int64), prepend=0 if on[0] else 1)
        before = [] if on[0] else [(first, 1)]
        times.append(
            np.array(
                [
                    *before,
                    *zip(times_ns[change != 0].tolist(), change[change != 0].tolist(), strict=True),
                ]
            ).reshape(-1, 2)
        )
    every = np.concatenate(times) if times else np.zeros((0, 2), dtype=np.int64)
    every = every[np.argsort(every[:, 0], kind="stable")]
    edges = np.concatenate([[first], every[:, 0], [last]])
    running = np.concatenate([[0], np.cumsum(every[:, 1])])
    length = np.diff(edges) * 1e-9
    return length[length > 0], running[length > 0].astype(np.float64)
