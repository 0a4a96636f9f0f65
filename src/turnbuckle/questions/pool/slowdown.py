"""How much longer the jobs of a class run in a pool: by a recording, by a curve that is declared,
or between two ends that are published.

A class with a recording takes as much longer as `project` says of the recording on that machine,
with its range.  A class without one takes from nothing longer to what Shorts and Grant print as the
worst of two programs at that delay (``slowdown.csv``): an assumption, and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.fields import Declared, Ranged
from turnbuckle.foundation.findings import Finding
from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine import Machine
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.admission import require_numbers
from turnbuckle.projection.run import Run
from turnbuckle.trace.bounds import DEVICE_TABLES
from turnbuckle.trace.intervals import union_ns

Basis = Literal["recording", "declared", "published", "no GPU", "fixed"]
#: Ways of a copy that cross the fabric between a host and a pool; a copy inside a device, or to a
#: peer in the pool, does not.
ACROSS: Final = ("h2d", "d2h", "migration_h2d", "migration_d2h")


@dataclass(frozen=True)
class Tie:
    """What is known of a class of jobs.

    Attributes
    ----------
    run : a recording of it.
    curve : run time over that without delay at added one-way latencies [s], from the nearest on.
    span : least and most run time over that on fixed nodes, on every fabric.
    bandwidth : what each GPU moves to and from its host on average [B/s]; None is that of the
        recording, or nothing.
    exposed, moving : share of the run time in which nothing but such copies runs, and in which any
        runs; None as above.
    """

    run: Run | None = None
    curve: Sequence[tuple[float, float]] = ()
    span: tuple[float, float] | None = None
    bandwidth: float | None = None
    exposed: float | None = None
    moving: float | None = None


@dataclass(frozen=True)
class Slowdown(Ranged, Declared):
    """How much longer the jobs of a class run on one machine.

    Attributes
    ----------
    value, low, high : run time over that on fixed nodes.
    bandwidth, exposed, moving : as of `Tie`.
    findings : what `project` says of the recording and of its projection.
    """

    value: float
    low: float
    high: float
    basis: Basis
    bandwidth: float = 0.0
    exposed: float = 0.0
    moving: float = 0.0
    findings: tuple[Finding, ...] = ()


#: Jobs where they were recorded.
UNCHANGED = Slowdown(1.0, 1.0, 1.0, "fixed")


def one_way(machine: Machine) -> tuple[float, float]:
    """Return the added one-way latency of a machine and its largest value within the stated error
    [s].  Raises A207.
    """
    given = {str(c.parameter): c.set for c in machine.changes if c.set is not None} | {
        str(n): p for n, p in machine.parameters.items()
    }
    trips = 1.0 if "slack.link" in given else 2.0
    delay = given.get("slack.link") or given.get("remoting.round_trip")
    if delay is None:
        raise error_of("A207", found=machine.name)
    return delay.value / trips, delay.value * (1.0 + delay.error) / trips


def slowdowns(
    classes: Sequence[str],
    uses_gpu: Sequence[bool],
    ties: Mapping[str, Tie],
    machine: Machine,
    draws: int,
    seed: int,
) -> list[Slowdown]:
    """Return how much longer each class runs on a machine.

    Parameters
    ----------
    uses_gpu : whether any job of the class has a GPU; one without is where it was.
    draws, seed : of the ranges of recordings, as of `Run.project`.

    Raises
    ------
    UsageError : A449, a class that no job has.  CannotAnswer : A207, a machine without a delay.
    """
    for name in ties:
        if name not in classes:
            fix = did_you_mean(name, classes) or None
            raise error_of(
                "A449",
                found=clipped(name, 60),
                fix=fix,
                names=", ".join(clipped(c, 30) for c in classes[:24]),
            )
    return [
        _of(ties.get(name), gpu, machine, draws, seed)
        for name, gpu in zip(classes, uses_gpu, strict=True)
    ]


def _of(tie: Tie | None, gpu: bool, machine: Machine, draws: int, seed: int) -> Slowdown:
    if not gpu:
        return Slowdown(1.0, 1.0, 1.0, "no GPU")
    if tie is not None and tie.run is not None:
        return _recorded(tie, tie.run, machine, draws, seed)
    moved = (
        (0.0, 0.0, 0.0)
        if tie is None
        else (tie.bandwidth or 0.0, tie.exposed or 0.0, tie.moving or 0.0)
    )
    if tie is not None and tie.span is not None:
        return Slowdown(sum(tie.span) / 2, *tie.span, "declared", *moved)
    delay, most = one_way(machine)
    if tie is not None and tie.curve:
        delays, times = np.array([(0.0, 1.0), *tie.curve]).T
        value, low, high = (
            float(np.interp(x, delays, times)) for x in (delay, max(0.0, 2 * delay - most), most)
        )
        return Slowdown(value, min(low, value), max(high, value), "declared", *moved)
    high = published(most)
    return Slowdown((1.0 + high) / 2, 1.0, high, "published", *moved)


def _recorded(tie: Tie, run: Run, machine: Machine, draws: int, seed: int) -> Slowdown:
    answer = run.project([machine], draws=draws, seed=seed)
    (projected,) = answer.projections
    require_numbers(projected)
    now, value = projected.measured_seconds, projected.penalty
    low, high = (end / now if now else value for end in projected.ends)
    recorded = crossing(answer.run.profile)
    declared = (tie.bandwidth, tie.exposed, tie.moving)
    both = zip(declared, recorded, strict=True)
    bandwidth, exposed, moving = (shown if given is None else given for given, shown in both)
    findings = (*answer.findings, *projected.findings)
    ends = min(low, value), max(high, value)
    return Slowdown(value, *ends, "recording", bandwidth, exposed, moving, findings)


def crossing(profile: Profile) -> tuple[float, float, float]:
    """Return what each GPU of a run moves to and from its host, and when.

    Returns
    -------
    Average over the run [B/s], share of the run time in which nothing but such copies runs, and in
    which any runs.
    """
    if not profile.run_time_ns:
        return 0.0, 0.0, 0.0
    devices = pl.concat([profile.trace.table(name)["device"] for name in DEVICE_TABLES]).n_unique()
    copies = profile.activities.filter(pl.col("direction").cast(pl.String).is_in(ACROSS))
    busy_ns = union_ns(copies["start_ns"].to_numpy(), copies["end_ns"].to_numpy())
    bandwidth = float(copies["size_bytes"].sum()) / profile.seconds / max(devices, 1)
    exposed = float(copies["exposed_ns"].sum()) / profile.run_time_ns
    return bandwidth, exposed, max(busy_ns / profile.run_time_ns, exposed)


@cache
def _table() -> tuple[list[float], list[float]]:
    rows = table_rows("questions/pool/slowdown.csv")
    return [float(r["slack_seconds"]) for r in rows], [float(r["upper"]) for r in rows]


def published(delay: float) -> float:
    """Return the most that a program was published to take longer at an added one-way latency [s],
    straight between the printed delays.

    >>> published(0.0), published(1e-6), round(published(2.2e-6), 4)
    (1.0, 1.011, 1.0114)
    """
    return float(np.interp(delay, *_table()))
