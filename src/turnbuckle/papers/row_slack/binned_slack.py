"""Slack as published, by bins: Shorts and Grant, *Examining the Viability of Row-Scale
Disaggregation for Production Applications*, SC24-W.

    (1) T_noslack = T - calls s                          `seed_S`: post-processing only (decision D10)
    (2) SP_total  = 1 + sum share (SP - 1)               `total_penalty`, normalised (decision D11)
    (3) SP        = sum over bins of SP(size) count / total count

The method compares an application with a proxy.  It bins kernels by duration and copies by size.
Each bin takes the penalty of the next larger matrix (lower value) or the next smaller one (upper
value), weighted by shares of run time.  `binned` applies the method to a profile, `beside` compares
it with the timeline replay.  The paper's numbers ship as ``numbers.csv``;
`turnbuckle.papers.row_slack.numbers` recomputes each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.units import parse, show
from turnbuckle.papers.numbers import Paper
from turnbuckle.papers.row_slack.proxy import Proxy, slack_change
from turnbuckle.papers.row_slack.surface import Surface, modelled_surface, read_surface
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.compared import bin_counts
from turnbuckle.projection.admission import trusted_timeline
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import prepared
from turnbuckle.trace.intervals import union_ns
from turnbuckle.trace.recorders import what_to_record

Equation = Literal["run time", "seed_S"]


#: Numbers that the paper prints (``numbers.csv``).
PAPER = Paper("row_slack/numbers")


def table_two() -> list[Proxy]:
    """Return the four matrix sizes of Table II as proxies.

    The paper does not print the time of a copy.  It is taken as a third of the time of one loop
    iteration beyond its kernel, which gives 12.0 to 14.8 GB/s.  Calls take no time by themselves,
    because that third includes it.
    """
    sizes, kernels = PAPER.texts("proxy", "matrix size"), PAPER.texts("proxy", "kernel run time")
    counts, loops = (
        PAPER.texts("proxy", "serial kernels N"),
        PAPER.texts("proxy", "compute loop run time"),
    )
    out = []
    for size in sizes:
        kernel, iterations = parse(f"{kernels[size]} us", "s"), int(counts[size])
        out.append(
            Proxy(
                parse(f"{sizes[size]} MiB", "B"),
                kernel,
                (float(loops[size]) / iterations - kernel) / 3,
                iterations,
            )
        )
    return out


def published_surface(
    slack_seconds: Sequence[float], threads: Sequence[int] = (1, 2, 4, 8)
) -> Surface:
    """Return the surface of the modelled proxy at the paper's sizes and on its 40 GiB device, at
    some slacks [s].
    """
    return modelled_surface(table_two(), threads, slack_seconds, device_bytes=parse("40 GiB", "B"))


def seed_S(seconds: Float | float, calls: float, slack_seconds: Float | float) -> Float:
    """Return equation 1: run time less the slack of every call [s].

    It also subtracts hidden slack: a thread that hides slack gets less than its run time without
    slack.

    >>> float(seed_S(2.5, 1000, 1e-3))
    1.5
    """
    return np.asarray(seconds - calls * np.asarray(slack_seconds))


def total_penalty(shares: Mapping[str, float], penalties: Mapping[str, float]) -> float:
    """Return equation 2, normalised (decision D11): 1 + sum share (SP - 1), so that no penalty
    gives 1 for any shares.

    >>> total_penalty({"kernel": 0.5, "memory": 0.1}, {"kernel": 1.2, "memory": 1.0})
    1.1
    """
    return 1.0 + sum(share * (penalties[name] - 1.0) for name, share in shares.items())


def binned_penalty(counts: Int, penalties: Float) -> tuple[float, float]:
    """Return equation 3 with sizes rounded up, and rounded down.

    Parameters
    ----------
    counts : elements below the first size, between sizes, and above the last; shape (sizes + 1,).
    penalties : SP of each size, shape (sizes,).

    Returns SP with each element at the next larger size, and at the next smaller one; 1 and 1
    without elements.  Elements beyond either end take the size at that end, so the second value is
    too low for elements below the first size.

    >>> binned_penalty(np.array([0, 3, 1, 0]), np.array([3.0, 2.0, 1.0]))
    (1.75, 2.75)
    """
    total = counts.sum()
    if not total:
        return 1.0, 1.0
    up, down = np.append(penalties, penalties[-1]), np.insert(penalties, 0, penalties[0])
    return float(counts @ up / total), float(counts @ down / total)


@dataclass(frozen=True)
class Bins:
    """Elements of one kind, binned."""

    share: float  #: share of run time in which at least one element is active
    edges: Float  #: edges of the bins: matrix sizes [B], or the kernel time at each size [s]
    counts: Int  #: elements below the first edge, between edges, from the last on
    rounded_up: float
    rounded_down: float


@dataclass(frozen=True)
class Bounds:
    """Total slack penalty by bins, between two values."""

    #: lower, upper: equation 2 with sizes rounded up and down, the smaller value first
    lower: float
    upper: float
    kernel: Bins
    memory: Bins
    #: slack_seconds, threads, equation, label: delay of each call [s], threads and equation of the
    #: question, and label of the surface
    slack_seconds: float
    threads: int
    equation: Equation
    label: str
    #: findings on elements outside the surface, for which a value is no bound
    findings: tuple[Finding, ...]


def binned(
    profile: Profile,
    surface: Surface,
    slack_seconds: float,
    *,
    threads: int = 1,
    equation: Equation = "run time",
) -> Bounds:
    """Return the prediction of the paper's method for a profile.

    Raises A131 for slack or threads outside the surface; A132 where it lacks kernel times or call
    counts; A133 where the profile holds neither kernels nor copies.

    Parameters
    ----------
    profile : recording whose kernels and copies between host and device are binned.
    surface : measured or modelled, on the GPU of the profile: kernel durations of another GPU fall
        into wrong bins.
    slack_seconds : delay of each call [s].
    threads : number of streams of work that the application keeps ready; 1 is pessimistic (the
        paper takes 8 and 4 by hand).
    equation : ``"run time"`` bins T(s)/T(0); ``"seed_S"`` subtracts the slack first, as the paper
        does.
    """
    if not profile.has & {"kernel", "copy_h2d", "copy_d2h"}:
        raise error_of("A133", fix=what_to_record("gpu", profile.trace.facts))
    sizes, kernels = surface.sizes(threads), surface.kernel_seconds(threads)
    penalties = np.array(
        [_penalty(surface, float(size), threads, slack_seconds, equation) for size in sizes]
    )
    kernel = _bins(profile, ("kernel",), "seconds", kernels, penalties)
    memory = _bins(profile, ("copy_h2d", "copy_d2h"), "size_bytes", sizes, penalties)
    shares = {"kernel": kernel.share, "memory": memory.share}
    up = total_penalty(shares, {"kernel": kernel.rounded_up, "memory": memory.rounded_up})
    down = total_penalty(shares, {"kernel": kernel.rounded_down, "memory": memory.rounded_down})
    findings = []
    for name, bins in (("kernels", kernel), ("copies", memory)):
        for end, count, edge in (
            ("below", bins.counts[0], bins.edges[0]),
            ("from", bins.counts[-1], bins.edges[-1]),
        ):
            if count:
                reach = show(float(edge), "s" if name == "kernels" else "B")
                findings.append(
                    finding(
                        "A321",
                        int(count),
                        f"{count / bins.counts.sum():.1%} of {name} {end} {reach}",
                    )
                )
    return Bounds(
        min(up, down),
        max(up, down),
        kernel,
        memory,
        slack_seconds,
        threads,
        equation,
        surface.label,
        tuple(findings),
    )


def _penalty(
    surface: Surface, size_bytes: float, threads: int, slack_seconds: float, equation: Equation
) -> float:
    at_rest, slowed = (
        surface.seconds(size_bytes, threads, 0.0),
        surface.seconds(size_bytes, threads, slack_seconds),
    )
    if equation == "seed_S":
        slowed = float(seed_S(slowed, surface.calls(size_bytes, threads), slack_seconds))
    return slowed / at_rest


def _bins(
    profile: Profile, kinds: tuple[str, ...], column: str, edges: Float, penalties: Float
) -> Bins:
    rows = profile.of(*kinds)
    counts = bin_counts(rows[column].fill_null(0).cast(float).to_numpy(), edges)
    under_way = union_ns(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
    return Bins(
        under_way / max(profile.run_time_ns, 1), edges, counts, *binned_penalty(counts, penalties)
    )


@dataclass(frozen=True)
class Beside:
    """Answers of the timeline replay and of the bins to one slack."""

    slack_seconds: float  #: delay of each call [s]
    seconds: float  #: recorded run time [s]
    causal: float
    calls: int
    exposed_seconds: float  #: T(s) - T(0) [s]
    binned: Bounds

    @property
    def felt(self) -> float:
        """Return the number of calls whose slack lengthens the timeline; nan without slack."""
        return self.exposed_seconds / self.slack_seconds if self.slack_seconds else math.nan

    @property
    def implied(self) -> tuple[float, float]:
        """Return the numbers of calls whose slack equals the lower and the upper binned value; nan
        without slack.

        Values above `calls` are impossible: the run has no more calls to delay.
        """
        calls_of_one = self.seconds / self.slack_seconds if self.slack_seconds else math.nan
        return (self.binned.lower - 1.0) * calls_of_one, (self.binned.upper - 1.0) * calls_of_one


def beside(
    profile: Profile,
    slack_seconds: Sequence[float],
    surface: Surface | None = None,
    *,
    threads: int = 1,
    equation: Equation = "run time",
) -> list[Beside]:
    """Return the timeline's answer (each call delayed, as in the paper) and the binned one, for
    some slacks [s].

    Raises A122 where the recorded order cannot be trusted; and those of `binned`.

    Parameters
    ----------
    surface : None takes the modelled surface at these slacks.
    threads, equation : see `binned`.
    """
    surface = surface or published_surface(slack_seconds, (threads,))
    guesses = [
        binned(profile, surface, s, threads=threads, equation=equation) for s in slack_seconds
    ]
    ready = prepared(profile, replace(nething("hold"), replay="timeline"))
    seconds = trusted_timeline(ready).seconds(
        slack_change(ready.run, np.array([0.0, *slack_seconds]))
    )
    calls, at_rest = int(ready.run.count[ready.run.crosses].sum()), profile.seconds
    return [
        Beside(s, at_rest, 1.0 + felt / at_rest, calls, felt, guess)
        for s, felt, guess in zip(
            slack_seconds, (seconds[1:] - seconds[0]).tolist(), guesses, strict=True
        )
    ]


def besides(profile: Profile, surface: str) -> list[Beside]:
    """Return the binned answers beside the timeline's: for one thread, and for as many as the
    surface has.

    Raises what `turnbuckle.papers.row_slack.surface.read_surface` and `beside` raise.

    Parameters
    ----------
    surface : ``modelled``, the proxy in our replay, or the CSV of a measured surface.
    """
    slacks = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    if surface == "modelled":
        return [*beside(profile, slacks, threads=1), *beside(profile, slacks, threads=8)]
    measured = read_surface(Path(surface))
    measured_slacks = [s for s in sorted({p.slack_seconds for p in measured.points}) if s > 0]
    ends = dict.fromkeys((measured.threads[0], measured.threads[-1]))
    return [
        row
        for threads in ends
        for row in beside(profile, measured_slacks, measured, threads=threads)
    ]
