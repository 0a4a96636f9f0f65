"""What a longer or shorter link does to a closed loop of calls: benefit and penalty as SSI defines them (Austin et al. 2021, 4.4, 5.6).

    benefit = delta / alpha      penalty = omega / delta

alpha, delta and omega are the run times over a link without propagation, over the link as it is, and over the longest one.
The report's seven pairs all lie on T(x) = A (1 + r x), so one number was measured for each, not two (`papers.models.bound.affine`);
a loop of blocking calls is affine, one with calls under way is flat until its queue no longer hides the link.  What the affine
law says stands beside every ratio.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.foundation.units import parse
from turnbuckle.machine.hops import hops
from turnbuckle.papers.models.bound.affine import penalty_from_benefit
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import summary
from turnbuckle.projection.run import SCHEMA_VERSION
from turnbuckle.replay.contention.loop import Link, Loop, Looped, Quantum, run

#: Light in vacuum [m/s], exact.
LIGHT: Final = 299_792_458.0
_METRES: Final = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3}
_LENGTH: Final = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(mm|cm|m|km)\s*", re.ASCII)
_FARTHEST: Final = 3600.0  # [s]
#: A loss that differs by less than this share of itself from what the affine law says lies on it.
ON_THE_LINE: Final = 1e-4
#: Ratios closer to 1 than this cannot be told from it.
_ROUNDING: Final = 1e-11


@dataclass(frozen=True)
class Distance:
    """How far the device is.

    Attributes
    ----------
    name : as it was asked for.
    propagation_seconds : one way [s].
    beyond : whether it comes on top of the link as it is, as a switch or a rack does.
    length : whether a length was given, which a signal takes its time for.
    """

    name: str
    propagation_seconds: float
    beyond: bool = False
    length: bool = False


def distance(text: str, speed: float = 1.0) -> Distance:
    """A length, a time, or a class of link of `turnbuckle.machine.hops`.

    Parameters
    ----------
    text : ``2 cm``, ``0.7 us`` or ``rack``.
    speed : of the signal over that of light in vacuum, as the report takes it; 0.67 in glass.

    Raises
    ------
    UsageError : A088.

    >>> round(distance("2 cm").propagation_seconds * 1e12, 2), distance("1 us").propagation_seconds
    (66.71, 1e-06)
    """
    if not 0 < speed <= 1:
        raise UsageError("A088", "the speed of a signal is a share of that of light", found=f"{speed:g}", fix="1 in vacuum, 0.67 in glass")
    name = " ".join(text.split())
    length = _LENGTH.fullmatch(text) if len(text) <= 64 else None
    if length is not None:
        return Distance(name, float(length[1]) * _METRES[length[2]] / (speed * LIGHT), length=True)
    known = {hop.name.lower(): hop for hop in hops()}
    if name.lower() in known:
        hop = known[name.lower()]
        # what is measured of a coupling already there is all of it; what a machine of the catalogue adds comes on top
        added = hop.source.startswith("machine ")
        return Distance(f"{'+ ' if added else ''}{hop.name}", hop.one_way, added)
    if name[:1].isalpha():
        raise UsageError("A088", "no such distance", found=name[:40], fix=f"a length as 2 cm, a time as 1 us, or one of {', '.join(known)}")
    seconds = parse(text, "s")
    if not 0 <= seconds <= _FARTHEST:
        raise UsageError("A088", "a distance is out of range", found=name[:40], fix=f"0 to {_FARTHEST:g} s one way")
    return Distance(name, seconds)


@dataclass(frozen=True)
class Row:
    """One link length.

    Attributes
    ----------
    distance : its name.
    propagation_seconds : one way [s].
    seconds : run time of the loop [s].
    ratio : over the run time of today.
    affine_ratio : what the affine law makes of alpha and delta.
    busy_to_device, busy_to_host, busy_workers : share of the run time in which link and workers were taken.
    """

    distance: str
    propagation_seconds: float
    seconds: float
    ratio: float
    affine_ratio: float
    busy_to_device: float
    busy_to_host: float
    busy_workers: float


@dataclass(frozen=True)
class Answered:
    """A loop over links of several lengths.

    Attributes
    ----------
    none, now : without propagation, and as it is.
    longer : the others, in the order asked for; the last is the longest link of the penalty.
    """

    loop: Loop
    link: Link
    quantum: Quantum
    none: Row
    now: Row
    longer: tuple[Row, ...]

    @property
    def benefit(self) -> float:
        """Delta over alpha: what a link without length gains."""
        return self.now.seconds / self.none.seconds

    @property
    def penalty(self) -> float:
        """Omega over delta: what the longest link loses."""
        return max(self.longer, key=lambda r: r.propagation_seconds).ratio

    @property
    def off_the_line(self) -> float:
        """The largest deviation from the affine law, as a share of what distance costs by either."""
        return max(abs(r.ratio - r.affine_ratio) / max(r.ratio - 1.0, r.affine_ratio - 1.0, _ROUNDING) for r in self.longer)

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``model ssi``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "link": asdict(self.link),
            "loop": asdict(self.loop),
            "quantum": self.quantum,
            "alpha_seconds": self.none.seconds,
            "delta_seconds": self.now.seconds,
            "benefit": self.benefit,
            "penalty": self.penalty,
            "affine": self.off_the_line <= ON_THE_LINE,
            "off_the_affine_law": self.off_the_line,
            "rows": [r.__dict__ for r in (self.none, self.now, *self.longer)],
        }


def answer(loop: Loop, link: Link, now: Distance, longer: Sequence[Distance], quantum: Quantum = "message") -> Answered:
    """Replay a loop over a link without length, as it is, and longer.

    Raises
    ------
    UsageError : A087, a loop or link that cannot be; A088, a link that is not longer than today's.
    """
    if not longer or not now.propagation_seconds > 0:
        fix = "say how long the link is now, and how long it might be: --now 2cm --far 16cm"
        raise UsageError("A088", "a benefit and a penalty need a link now and a longer one", found=now.name[:40], fix=fix)
    if now.beyond:
        raise UsageError("A088", "that is no link, it comes on top of one", found=f"now {now.name}", fix="--now 2cm, or --now PCIe")
    longer = [replace(one, propagation_seconds=one.propagation_seconds + now.propagation_seconds) if one.beyond else one for one in longer]
    for one in longer:
        if not one.propagation_seconds > now.propagation_seconds:
            raise UsageError("A088", "a longer link is no longer", found=f"{one.name[:40]}, now {now.name[:40]}", fix="--far beyond --now")
    none, today = (run(loop, link, x, quantum) for x in (0.0, now.propagation_seconds))
    if not none.seconds > 0:
        raise UsageError("A087", "the loop or its link cannot be", found="a loop that takes no time", fix="give bytes or a kernel time")
    benefit = today.seconds / none.seconds

    def row(at: Distance, done: Looped) -> Row:
        affine = float(penalty_from_benefit(benefit, at.propagation_seconds / now.propagation_seconds))
        busy = (done.busy_to_device, done.busy_to_host, done.busy_workers)
        return Row(at.name, at.propagation_seconds, done.seconds, done.seconds / today.seconds, affine, *busy)

    others = tuple(row(one, run(loop, link, one.propagation_seconds, quantum)) for one in longer)
    return Answered(loop, link, quantum, row(Distance("no length", 0.0), none), row(now, today), others)


@dataclass(frozen=True)
class Simulated:
    """What a recording says of its loop, as Table 7 of the report does.

    Attributes
    ----------
    kernel : whose calls these are; all kernels where it is empty.
    calls : of it.
    kernel_seconds : mean of one [s].
    to_device_bytes, to_host_bytes : all copies of the recording over the calls [B].
    recorded_seconds : run time of the recording [s].
    devices : GPUs that these calls ran on.
    migrated_bytes : moved on demand, page by page, in both directions [B]; no loop holds them.
    """

    kernel: str
    calls: int
    kernel_seconds: float
    to_device_bytes: float
    to_host_bytes: float
    recorded_seconds: float
    devices: int = 1
    migrated_bytes: int = 0

    def loop(self, **other: Any) -> Loop:
        """As a loop; the rest, and what is to differ from the recording, by name as `turnbuckle.replay.contention.loop.Loop` has it."""
        names = ("calls", "to_device_bytes", "to_host_bytes", "kernel_seconds")
        return Loop(**{name: getattr(self, name) for name in names} | other)


def recorded(profile: Profile, kernel: str = "") -> Simulated:
    """Bytes, kernel time and calls of a recording.

    Parameters
    ----------
    kernel : part of a name; empty takes the kernel with the most time, as the report does, and ``all`` takes all of them.

    Raises
    ------
    CannotAnswer : A169, no such kernel, or none at all; A139, the bytes of copies are not recorded.
    """
    rows = profile.of("kernel")
    named = rows.with_columns(called=profile.trace.text(rows).fill_null(summary.UNNAMED))
    groups = (
        named.group_by("called")
        .agg(pl.len().alias("calls"), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
        .sort("ns", "called")
    )
    if kernel not in ("", "all"):
        groups = groups.filter(pl.col("called").str.contains(kernel, literal=True))
    if not groups.height or not groups["ns"].sum():
        found = f'none whose name holds "{kernel[:40]}"' if kernel not in ("", "all") else "none"
        raise CannotAnswer(
            "A169", "no kernel to make a loop of", found=found, fix="turnbuckle model functions names the kernels of a recording"
        )
    taken = groups if kernel == "all" else groups.tail(1)
    calls = int(taken["calls"].sum())
    called = "" if kernel == "all" else str(taken["called"][0])
    into, out = (summary.moved_bytes(profile, way) / calls for way in ("h2d", "d2h"))
    ran = named.join(taken.select("called"), on="called", how="semi").join(profile.tracks.select("track", "device"), on="track")
    paged = sum(summary.moved_bytes(profile, way) for way in ("migration_h2d", "migration_d2h"))
    seconds = float(taken["ns"].sum()) * 1e-9 / calls
    return Simulated(called, calls, seconds, into, out, profile.seconds, max(ran["device"].n_unique(), 1), paged)
