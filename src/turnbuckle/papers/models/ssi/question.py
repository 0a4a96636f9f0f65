"""Benefit and penalty of a link's length for a closed loop of calls, as SSI defines them (Austin et
al. 2021, 4.4, 5.6).

    benefit = delta / alpha      penalty = omega / delta

alpha, delta and omega are the run times over a link without propagation, over the link as it is,
and over the longest one. The report's seven pairs all lie on T(x) = A (1 + r x), so each pair holds
one measured number, not two (`papers.models.bound.affine`). A loop of blocking calls is affine; a
loop with calls in flight is flat until its queue no longer hides the link.  Each ratio has the
ratio of the affine law beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import polars as pl

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.units import parse
from turnbuckle.machine.hops import hops
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import summary
from turnbuckle.replay.contention.loop import Link, Loop, Looped, Quantum, run

#: Light in vacuum [m/s], exact.
LIGHT: Final = 299_792_458.0
_METRES: Final = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}
_LENGTH: Final = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(mm|cm|m|km)\s*", re.ASCII)
_FARTHEST: Final = 3600.0  # [s]
#: Relative deviation from the loss of the affine law below which a loop counts as affine.
ON_THE_LINE: Final = 1e-4
#: Ratios closer to 1 than this are rounding.
_ROUNDING: Final = 1e-11


@dataclass(frozen=True)
class Distance:
    """Length of the link between host and device."""

    name: str
    propagation_seconds: float  #: propagation time, one way [s]
    beyond: bool = (
        False  #: whether the distance is added to the link as it is, as for a switch or a rack
    )
    length: bool = False  #: whether it was given as a length, so that the signal speed applies


def distance(text: str, speed: float = 1.0) -> Distance:
    """Return the propagation time of a length, of a time, or of a class of link of
    `turnbuckle.machine.hops`.  Raises A088.

    Parameters
    ----------
    text : ``2 cm``, ``0.7 us`` or ``rack``.
    speed : speed of the signal over that of light in vacuum; the report takes 1, glass has 0.67.

    >>> round(distance("2 cm").propagation_seconds * 1e12, 2), distance("1 us").propagation_seconds
    (66.71, 1e-06)
    """
    if not 0 < speed <= 1:
        raise error_of("A088.speed", found=f"{speed:g}")
    name = " ".join(text.split())
    length = _LENGTH.fullmatch(text) if len(text) <= 64 else None
    if length is not None:
        return Distance(name, float(length[1]) * _METRES[length[2]] / (speed * LIGHT), length=True)
    classes = {hop.name.lower(): hop for hop in hops()}
    if name.lower() in classes:
        hop = classes[name.lower()]
        # a measured coupling is a whole link, while a machine of the catalogue adds to the link
        # that is there
        added = hop.source.startswith("machine ")
        return Distance(f"{'+ ' if added else ''}{hop.name}", hop.one_way, added)
    if name[:1].isalpha():
        raise error_of("A088.word", found=name[:40], classes=", ".join(classes))
    seconds = parse(text, "s")
    if not 0 <= seconds <= _FARTHEST:
        raise error_of("A088.range", found=name[:40], farthest=_FARTHEST)
    return Distance(name, seconds)


@dataclass(frozen=True)
class Row:
    """Run time of the loop at one link length."""

    distance: str
    propagation_seconds: float  #: propagation time, one way [s]
    seconds: float  #: run time of the loop [s]
    ratio: float
    affine_ratio: float
    busy_to_device: float
    busy_to_host: float
    busy_workers: float


@dataclass(frozen=True)
class Answered(Declared):
    """Loop over links of several lengths."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    loop: Loop
    link: Link
    quantum: Quantum
    #: none, now: results for the link without propagation, and for the link as it is
    none: Row
    now: Row
    #: results for the longer links, in the order asked for; the longest link gives the penalty
    longer: tuple[Row, ...]

    @property
    def benefit(self) -> float:
        """Return delta over alpha: the gain of a link without length."""
        return self.now.seconds / self.none.seconds

    @property
    def penalty(self) -> float:
        """Return omega over delta: the loss of the longest link."""
        return max(self.longer, key=lambda r: r.propagation_seconds).ratio

    @property
    def off_the_line(self) -> float:
        """Return the largest deviation from the affine law, relative to the larger of both
        losses.
        """
        return max(
            abs(r.ratio - r.affine_ratio) / max(r.ratio - 1.0, r.affine_ratio - 1.0, _ROUNDING)
            for r in self.longer
        )

    @property
    def affine(self) -> bool:
        """Return whether the loop counts as affine."""
        return self.off_the_line <= ON_THE_LINE

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows in order of the table: no length, today's, the longer ones."""
        return self.none, self.now, *self.longer


def answer(
    loop: Loop, link: Link, now: Distance, longer: Sequence[Distance], quantum: Quantum = "message"
) -> Answered:
    """Replay a loop over a link without length, as it is, and longer.

    Raises A087 for a loop or link out of range; A088 for a link that is not longer than today's.
    """
    if not longer or not now.propagation_seconds > 0:
        raise error_of("A088.ends", found=now.name[:40])
    if now.beyond:
        raise error_of("A088.added", found=f"now {now.name}")
    start = now.propagation_seconds
    longer = [
        replace(far, propagation_seconds=far.propagation_seconds + start) if far.beyond else far
        for far in longer
    ]
    for far in longer:
        if not far.propagation_seconds > start:
            raise error_of("A088.order", found=f"{far.name[:40]}, now {now.name[:40]}")
    none, today = (run(loop, link, x, quantum) for x in (0.0, start))
    if not none.seconds > 0:
        raise error_of("A087.idle", found="a loop that takes no time")
    benefit = today.seconds / none.seconds

    def row(length: Distance, done: Looped) -> Row:
        # `bound_on` without its rounding: a loop of blocking calls lies on the line to the last
        # digit
        affine = (1.0 + (benefit - 1.0) * (length.propagation_seconds / start)) / benefit
        busy = (done.busy_to_device, done.busy_to_host, done.busy_workers)
        return Row(
            length.name,
            length.propagation_seconds,
            done.seconds,
            done.seconds / today.seconds,
            affine,
            *busy,
        )

    others = tuple(row(far, run(loop, link, far.propagation_seconds, quantum)) for far in longer)
    return Answered(
        loop, link, quantum, row(Distance("no length", 0.0), none), row(now, today), others
    )


@dataclass(frozen=True)
class Simulated:
    """Loop as a recording shows it, with the columns of Table 7 of the report."""

    kernel: str  #: name of the kernel; empty for all kernels
    calls: int
    kernel_seconds: float  #: mean time of one call [s]
    #: to_device_bytes, to_host_bytes: bytes of all copies of the recording, divided by the calls
    #: [B]
    to_device_bytes: float
    to_host_bytes: float
    recorded_seconds: float  #: run time of the recording [s]
    devices: int = 1
    migrated_bytes: int = (
        0  #: bytes moved on demand, page by page, in both directions [B]; the loop leaves them out
    )

    def loop(self, **other: Any) -> Loop:
        """Return the loop of the recording; `other` sets its further parameters, or replaces
        recorded ones.
        """
        names = ("calls", "to_device_bytes", "to_host_bytes", "kernel_seconds")
        return Loop(**{name: getattr(self, name) for name in names} | other)


def recorded(profile: Profile, kernel: str = "") -> Simulated:
    """Return bytes, kernel time and calls of a recording.

    Raises A169 where no kernel matches; A139 where the bytes of copies are not recorded.

    Parameters
    ----------
    kernel : part of a name; empty or ``all`` takes all kernels, ``largest`` the one with the most
        time, as the report does.
    """
    rows = profile.of("kernel")
    named = rows.with_columns(called=profile.trace.text(rows).fill_null(summary.UNNAMED))
    groups = (
        named.group_by("called")
        .agg(pl.len().alias("calls"), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
        .sort("ns", "called")
    )
    every, named_so = kernel in ("", "all"), kernel not in ("", "all", "largest")
    if named_so:
        groups = groups.filter(pl.col("called").str.contains(kernel, literal=True))
    if not groups.height or not groups["ns"].sum():
        raise error_of(
            "A169", found=f'none whose name holds "{kernel[:40]}"' if named_so else "none"
        )
    taken = groups if every else groups.tail(1)
    calls = int(taken["calls"].sum())
    called = "" if every else str(taken["called"][0])
    into, out = (summary.moved_bytes(profile, direction) / calls for direction in ("h2d", "d2h"))
    ran = named.join(taken.select("called"), on="called", how="semi").join(
        profile.tracks.select("track", "device"), on="track"
    )
    paged = sum(
        summary.moved_bytes(profile, direction) for direction in ("migration_h2d", "migration_d2h")
    )
    seconds = float(taken["ns"].sum()) * 1e-9 / calls
    return Simulated(
        called, calls, seconds, into, out, profile.seconds, max(ran["device"].n_unique(), 1), paged
    )
