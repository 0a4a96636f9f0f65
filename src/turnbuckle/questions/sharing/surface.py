"""Run time over initiation latency, link bandwidth and number of GPUs, for one recorded run
(AgoChart, Austin et al. 2021, 5.5, 7.5, 8.5).

Every point is a replay of its own.  Alone on its link a run is convex in the latency; together
nothing of that kind is promised (decision D18).  The report's three questions are three ratios of
points:

integration       run time at 100 us over that at 10 us, both at 16 GB/s
disaggregation    run time at 1 ms over that at 100 us (the report does not print which latency it took)
GPU to GPU        work done in a time on one GPU k times as large over that on k behind one link, at 10 us
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final

import polars as pl

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.units import show
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run
from turnbuckle.questions.sharing.differences import SEEDS, Difference, differences
from turnbuckle.questions.sharing.question import (
    FORMS,
    Form,
    Gain,
    Law,
    Shared,
    Sharer,
    core_count,
    counted,
    delay,
    link_rate,
    ready,
    require_work,
)

#: AgoChart's ranges.
LATENCIES: Final = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
BANDWIDTHS: Final = (1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 64e9)
#: What its comparisons stand at: latency of integration, of today, of disaggregation [s]; bandwidth
#: [B/s].
NEAR, NOW, FAR, RATE = 1e-5, 1e-4, 1e-3, 16e9
#: Activities replayed in all, some minutes of them.
_MOST_ACTIVITIES: Final = 200_000_000
#: Steps of the differences, as shares.
STEPS: Final = (0.02, 0.1)


@dataclass(frozen=True)
class Point(Declared):
    """One replay: latency [s], bandwidth [B/s] and the result."""

    latency: float
    bandwidth: float
    shared: Shared


@dataclass(frozen=True, repr=False)
class SharingSurface(Shown):
    """Run time over latency, bandwidth and number of GPUs.

    Attributes
    ----------
    run : the recorded run.
    law, gain : what copies and deliveries follow, and what kernels gain on a larger GPU, see
        `Sharer.together`.
    latencies, bandwidths, runs : the grid [s], [B/s].
    cores : host cores that all runs have between them; 0: as many as they ask for.
    """

    question: ClassVar[str] = "sharing surface"

    run: Sharer
    law: Law
    gain: Gain
    hop_seconds: float
    speed: float
    latencies: tuple[float, ...]
    bandwidths: tuple[float, ...]
    runs: tuple[int, ...]
    points: tuple[Point, ...]
    cores: int = 0

    @property
    def forms(self) -> tuple[Form, ...]:
        """Return the forms that were asked."""
        return tuple(f for f in FORMS if any(p.shared.form == f for p in self.points))

    def point(self, form: Form, runs: int, latency: float, bandwidth: float) -> Shared | None:
        """Return one point; None where it is not on the grid."""
        for p in self.points:
            if (
                (p.shared.form, p.shared.runs) == (form, runs)
                and math.isclose(p.latency, latency)
                and math.isclose(p.bandwidth, bandwidth)
            ):
                return p.shared
        return None

    def table(self) -> pl.DataFrame:
        """Return a row for each form, number of runs, latency [s] and bandwidth [B/s]: run time
        [s], penalty and gain.
        """
        return pl.DataFrame([point.as_dict() for point in self.points])

    def headline(self) -> str:
        """Return what was replayed, in one line."""
        ranges = (
            f"{len(self.latencies)} latencies, {len(self.bandwidths)} bandwidths, "
            f"{max(self.runs)} runs at most"
        )
        return (
            f"Sharing surface: runs of {show(self.run.measured, 's')}, {', '.join(self.forms)}; "
            f"{ranges}"
        )

    def comparisons(self) -> dict[str, float]:
        """Return the report's ratios for which the grid has the points; `gpu_gpu` for the most runs
        asked.
        """
        now, near, far = (
            self.point("loose", 1, latency, RATE) or self.point("tight", 1, latency, RATE)
            for latency in (NOW, NEAR, FAR)
        )
        out: dict[str, float] = {}
        if now is not None and near is not None:
            out["integration"] = now.seconds / near.seconds
        if now is not None and far is not None:
            out["disaggregation"] = far.seconds / now.seconds
        most = max(self.runs)
        loose = self.point("loose", most, NEAR, RATE)
        for form in ("tight", "pooled", "shared"):
            larger = self.point(form, most, NEAR, RATE)
            if loose is not None and larger is not None and most > 1:
                out[f"gpu_gpu_{form}"] = larger.gain / loose.gain
        return out


def sharing_surface(
    run: Sharer,
    forms: Sequence[Form] = ("loose",),
    runs: Sequence[int] = (1, 2, 4),
    latencies: Sequence[float] = LATENCIES,
    bandwidths: Sequence[float] = BANDWIDTHS,
    *,
    hop_seconds: float = 0.0,
    law: Law = "anchored",
    speed: float = 1.0,
    gain: Gain = "blocks",
    cores: int = 0,
    progress: Callable[[float], None] | None = None,
) -> SharingSurface:
    """Replay a run at every point of a grid.

    Raises
    ------
    CannotAnswer : A172, a larger GPU for a run without kernels; A173, a grid too large.
    UsageError : A075, a number of runs that is none; A096, latencies or bandwidths that cannot be;
        A097, a speed that cannot be.
    """
    counted(runs)
    require_work(run, forms, speed)
    latencies, bandwidths, runs = (
        _axis(latencies, delay),
        _axis(bandwidths, link_rate),
        sorted(set(runs)),
    )
    hop_seconds = delay(hop_seconds)
    chosen = [form for form in FORMS if form in forms]
    work = (
        sum(run.processes(form, count, cores) for form in chosen for count in runs)
        * len(latencies)
        * len(bandwidths)
    )
    _bounded(work, "a surface of that many points", "points")
    given: dict[str, Any] = {
        "hop_seconds": hop_seconds,
        "law": law,
        "speed": speed,
        "gain": gain,
        "cores": core_count(cores),
    }
    grid = [
        (form, count, latency, rate)
        for form in chosen
        for count in runs
        for latency in latencies
        for rate in bandwidths
    ]
    points: list[Point] = []
    for form, count, latency, bandwidth in grid:
        points.append(
            Point(
                latency,
                bandwidth,
                run.together(form, count, bandwidth=bandwidth, latency=latency, **given),
            )
        )
        if progress is not None:
            progress(len(points) / len(grid))
    return SharingSurface(
        run,
        law,
        gain,
        hop_seconds,
        speed,
        tuple(latencies),
        tuple(bandwidths),
        tuple(runs),
        tuple(points),
        cores,
    )


def _bounded(work: int, what: str, fewer: str) -> None:
    """Refuse what would take too long (A173)."""
    if work > _MOST_ACTIVITIES:
        raise error_of(
            "A173",
            found=f"{work:,} activities",
            subject=what,
            most_activities=_MOST_ACTIVITIES,
            fewer=fewer,
        )


def _axis(values: Sequence[float], check: Callable[[float], float]) -> list[float]:
    """Return the values of an axis in order; refuse a value that cannot be (A096)."""
    if not values:
        raise error_of("A096.surface", found="none")
    return sorted({check(v) for v in values})


def parameter_differences(
    run: Sharer,
    form: Form,
    runs: int,
    *,
    bandwidth: float | None = None,
    hop_seconds: float = 0.0,
    speed: float = 1.0,
    gain: Gain = "blocks",
    cores: int = 0,
) -> dict[str, Difference]:
    """Return the change of shared runs with each parameter: latency [s], bandwidth [B/s], cost of a
    copy, compute (as factors).

    Each is asked of the recorded run and of some scattered runs, with the same seeds on both sides.
    """
    counted([runs])
    require_work(run, [form], speed)
    rate = run.recorded_bandwidth if bandwidth is None else link_rate(bandwidth)
    _bounded(
        run.processes(form, runs, cores) * 4 * len(SEEDS) * (2 * len(STEPS) + 1),
        "steps of that many runs",
        "forms",
    )
    held: dict[str, Any] = {"hop_seconds": hop_seconds, "gain": gain, "cores": core_count(cores)}

    @cache  # what is asked unchanged is the same for most parameters
    def seconds(
        seed: int, latency: float | None, bandwidth: float, copy_cost: float, speed: float
    ) -> float:
        changed: dict[str, Any] = {
            "latency": latency,
            "bandwidth": bandwidth,
            "copy_cost": copy_cost,
            "speed": speed,
        }
        return run.together(form, runs, seed=seed, **changed, **held).seconds

    asked: dict[str, tuple[float, Callable[[float, int], float]]] = {
        "latency": (
            run.recorded_latency,
            lambda value, seed: seconds(seed, value, rate, 1.0, speed),
        ),
        "bandwidth": (rate, lambda value, seed: seconds(seed, None, value, 1.0, speed)),
        "copy cost": (1.0, lambda value, seed: seconds(seed, None, rate, value, speed)),
        "kernel time": (1.0, lambda value, seed: seconds(seed, None, rate, 1.0, speed / value)),
    }
    return {
        name: differences(
            [lambda v, s=seed, seconds_at=seconds_at: seconds_at(v, s) for seed in SEEDS],  # type: ignore[misc]
            center,
            STEPS,
            unit=center or 1e-6,
        )
        for name, (center, seconds_at) in asked.items()
    }


def of_run(run: Run, runs: Sequence[int], forms: Sequence[Form], **settings: Any) -> SharingSurface:
    """Replay a run at every point of a grid: ``turnbuckle model sharing --surface``.  Settings as
    in `sharing_surface`.
    """
    return sharing_surface(ready(run), forms, runs, **settings)
