"""The transfers of an application, one by one: from a recording or from a measured curve, and which of two runs belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.machine.measured.logs import Curve, Measured, listed
from turnbuckle.profile.profile import DIRECTIONS, Profile
from turnbuckle.profile.transfers import MIN_SPAN, SMALL_BYTES

Class = tuple[str, str]

#: Directions a data sheet can price.
PRICED: Final = ("h2d", "d2h", "d2d", "p2p")
HOST: Final = ("h2d", "d2h")
#: Copies of so few bytes cost the same.
TINY_BYTES: Final = 64.0
#: A fixed part below this share of the smallest copies is lost in their scatter.
MIN_SHARE: Final = 0.1
_COLUMNS: Final = {"direction": pl.String, "memory": pl.String, "size_bytes": pl.Float64, "seconds": pl.Float64}


@dataclass(frozen=True)
class Transfers:
    """The copies of one application on one node.

    Attributes
    ----------
    name : of the application or of the file.
    rows : one a copy, in the order they began: direction, memory, size_bytes [B], seconds [s].
    curves : where they come from a measurement, its curves.
    findings : what was left out.
    sharers : devices that copied at the same time, or ranks of the run if they are more; 1 for one alone or where nothing tells.
    """

    name: str
    rows: pl.DataFrame
    curves: tuple[Curve, ...] = ()
    findings: tuple[Finding, ...] = ()
    sharers: int = 1

    @property
    def classes(self) -> list[Class]:
        """Direction and memory kind of what there is, in the order of the directions."""
        found = self.rows.select("direction", "memory").unique().rows()
        return sorted(((str(d), str(m)) for d, m in found), key=lambda c: (PRICED.index(c[0]), c[1]))

    def of(self, which: Class) -> pl.DataFrame:
        """The rows of one class."""
        return self.rows.filter((pl.col("direction") == which[0]) & (pl.col("memory") == which[1]))


def words(which: Class) -> str:
    """A class in words.

    >>> words(("h2d", "pinned")), words(("d2d", "device")), words(("h2d", "unknown"))
    ('h2d pinned', 'd2d', 'h2d, memory unknown')
    """
    direction, memory = which
    if memory == "device" and direction not in HOST:
        return direction
    return f"{direction}, memory unknown" if memory == "unknown" else f"{direction} {memory}"


def recorded(profile: Profile, name: str = "") -> Transfers:
    """The copies of a recording.  Unified memory moves by itself and is left out, as in the paper.

    Raises
    ------
    CannotAnswer : A146 where it holds no copy.
    """
    of_device = pl.col("direction").cast(pl.String).is_in(["d2d", "p2p"])
    all_copies = profile.activities.filter(pl.col("kind").cast(pl.String).str.starts_with("copy_") | (pl.col("kind") == "migration"))
    known = all_copies.sort("start_ns").select(
        pl.col("direction").cast(pl.String),
        pl.when(of_device).then(pl.lit("device")).otherwise(pl.col("memory").cast(pl.String).fill_null("unknown")).alias("memory"),
        pl.col("size_bytes").cast(pl.Float64),
        "seconds",
    )
    rows = known.filter(pl.col("direction").is_in(PRICED) & (pl.col("size_bytes") > 0) & (pl.col("seconds") > 0))
    moved = known.filter(pl.col("direction").str.starts_with("migration")).height
    other = known.height - rows.height - moved
    found = [finding("A333", moved, f"{moved:,} moves of unified memory")] if moved else []
    found += [finding("A333", other, f"{other:,} copies inside the host, or without size or duration")] if other else []
    called = name or profile.trace.name
    if not rows.height:
        raise error_of("A146.copies", where=called, found=f"{moved:,} moves of unified memory, {other:,} other copies")
    return Transfers(called, rows, findings=tuple(found), sharers=_sharers(profile))


def _sharers(profile: Profile) -> int:
    """Most devices whose copies from and to the host ran at one instant, or ranks of the run if they are more."""
    ranks = profile.trace.facts.get("world_size")
    crossing = pl.col("direction").is_in([DIRECTIONS.index(way) for way in HOST])
    spans = profile.trace.copies.filter(crossing).select("device", "start_ns", "end_ns")
    spans = spans.drop_nulls().filter(pl.col("end_ns") > pl.col("start_ns")).sort("device", "start_ns")
    # copies of one device that overlap are one span of it
    before = pl.col("end_ns").cum_max().shift(1).over("device")
    spans = spans.with_columns(part=(pl.col("start_ns") > before).fill_null(True).cum_sum().over("device"))
    spans = spans.group_by("device", "part").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    begun, ended = (spans.select(at=c, step=pl.lit(n)) for c, n in (("start_ns", 1), ("end_ns", -1)))
    most = pl.concat([begun, ended]).sort("at", "step")["step"].cum_sum().max()
    return max(int(most) if isinstance(most, int) else 1, ranks if isinstance(ranks, int) else 1, 1)


def measured(read: Measured, name: str = "") -> Transfers:
    """The points of measured curves as transfers, one each; messages between ranks of a host or over a network are left out.

    Raises
    ------
    CannotAnswer : A146 where no curve is a copy that a data sheet can price.
    UsageError : A021 where two curves are of one class.
    """
    usable = tuple(c for c in read.curves if c.direction in PRICED)
    gone = [c for c in read.curves if c.direction not in PRICED]
    left = sum(len(c.size_bytes) for c in gone)
    found = [*read.findings] + ([finding("A333", left, f"{left} points of {', '.join(c.name for c in gone[:4])}")] if gone else [])
    if not usable:
        raise error_of("A146.measurement", where=read.name, found=listed(read.curves))
    classes = [(c.direction, c.memory) for c in usable]
    if twice := sorted({c for c in classes if classes.count(c) > 1}):
        raise error_of("A021.several", where=read.name, found=listed(read.curves), measurement=words(twice[0]), name=read.name)
    if streamed := [c for c in usable if c.streamed]:
        count = sum(len(c.size_bytes) for c in streamed)
        found.append(finding("A334", count, "rates of many messages in flight stand for the time of one"))
    parts = [
        pl.DataFrame({"direction": c.direction, "memory": c.memory, "size_bytes": c.size_bytes, "seconds": c.seconds}, schema=_COLUMNS)
        for c in usable
    ]
    return Transfers(name or read.name, pl.concat(parts), usable, tuple(found))


@dataclass(frozen=True)
class Latency:
    """(L+O) of one class of copies, and where it is from.

    Attributes
    ----------
    seconds : (L+O) [s].
    size_bytes, copies : the copies it was read off: their largest size [B], how many; 0 where it was given.
    source : in words.
    borrowed : whether it is another class's, or the intercept of a fit.
    """

    seconds: float
    size_bytes: float
    copies: int
    source: str
    borrowed: bool = False


def latencies(transfers: Transfers, wanted: Sequence[Class], given: float | None = None) -> dict[Class, Latency]:
    """(L+O) of the classes wanted: the median time of its smallest copies (the paper's one-byte copy).

    Where a class has no copy of 4096 B or less it takes another's (the same direction first; host and device classes never
    mix), else what a line through its smallest and its largest copies leaves at no bytes; else it is not in the answer.

    Parameters
    ----------
    given : (L+O) to use for all [s].

    Raises
    ------
    CannotAnswer : A144 where no class has one.
    """
    if given is not None:
        return {c: Latency(given, 0.0, 0, "as given") for c in wanted}
    own = {c: found for c in transfers.classes if (found := _smallest(transfers, c)) is not None}
    either = {c: own.get(c) or _borrowed(transfers, c, own) for c in wanted}
    told = {c: latency for c, latency in either.items() if latency is not None}
    if wanted and not told:
        smallest = min((float(size.min()) for c in transfers.classes if len(size := _points(transfers, c)[0])), default=None)
        seen = "rates with many messages in flight alone" if smallest is None else f"the smallest is {smallest:,.0f} B"
        raise error_of("A144", where=transfers.name, found=seen, wanted=", ".join(words(c) for c in wanted))
    return told


def _points(transfers: Transfers, which: Class) -> tuple[Float, Float]:
    """Sizes and times of a class; none of a rate with many messages in flight, which holds no latency."""
    if any(c.streamed and (c.direction, c.memory) == which for c in transfers.curves):
        return np.zeros(0), np.zeros(0)
    rows = transfers.of(which)
    return rows["size_bytes"].to_numpy(), rows["seconds"].to_numpy()


def _smallest(transfers: Transfers, which: Class) -> Latency | None:
    size, seconds = _points(transfers, which)
    if not len(size) or size.min() > SMALL_BYTES:
        return None
    near = size <= max(TINY_BYTES, float(size.min()))
    return Latency(float(np.median(seconds[near])), float(size[near].max()), int(near.sum()), f"smallest copies of {words(which)}")


def _borrowed(transfers: Transfers, which: Class, own: Mapping[Class, Latency]) -> Latency | None:
    alike = [c for c in own if (c[0] in HOST) == (which[0] in HOST)]
    alike.sort(key=lambda c: (c[0] != which[0], c[1] != which[1], own[c].seconds))
    if alike:
        return replace(own[alike[0]], borrowed=True)
    others = [c for c in transfers.classes if (c[0] in HOST) == (which[0] in HOST)]
    lines = (_intercept(transfers, other) for other in sorted(others, key=lambda c: (c != which, c[0] != which[0])))
    return next((line for line in lines if line is not None), None)


def _intercept(transfers: Transfers, which: Class) -> Latency | None:
    """Two points of LogGP (Boyer et al. 2013): the smallest copies and the largest, where they differ enough."""
    size, seconds = _points(transfers, which)
    if not len(size) or size.max() < MIN_SPAN * size.min():
        return None
    ends = [size == size.min(), size == size.max()]
    (small, large), (fast, slow) = [[float(np.median(values[end])) for end in ends] for values in (size, seconds)]
    latency = fast - small * (slow - fast) / (large - small)
    if latency <= MIN_SHARE * fast:
        return None
    return Latency(latency, small, int(ends[0].sum()), f"line from the smallest to the largest copies of {words(which)}", True)


@dataclass(frozen=True)
class Compared:
    """Transfers whose time on the other node is known.

    Attributes
    ----------
    rows : direction, memory, size_bytes [B], actual [s]; one a transfer.
    findings : what found no counterpart.
    """

    rows: pl.DataFrame
    findings: tuple[Finding, ...]


def compared(here: Transfers, there: Transfers, *, all_of_there: bool = False) -> Compared:
    """Which transfers of one node have a measured time on the other.

    Against curves, each transfer takes the time of its size there, inside the measured sizes.  Two recordings are matched by
    class and size in the order of their copies, so that two runs of one program meet copy by copy.

    Parameters
    ----------
    here : transfers on A; of a curve only (L+O) is used where `there` is a recording.
    there : transfers or curves on B.
    all_of_there : take every transfer of B, whatever A copied: A then gives (L+O) alone.

    Raises
    ------
    CannotAnswer : A146 where nothing matches.
    """
    found: list[Finding] = []
    if all_of_there or (here.curves and not there.curves):
        rows = there.rows.rename({"seconds": "actual"})
        return Compared(rows, tuple(found))
    parts, lost, assumed = [], 0, 0
    for which in here.classes:
        mine = here.of(which)
        other = _counterpart(which, there)
        if other is None:
            lost += mine.height
            continue
        assumed += mine.height if other != which else 0
        if there.curves:
            (curve,) = (c for c in there.curves if (c.direction, c.memory) == other)
            part = mine.with_columns(actual=pl.Series(curve.at(mine["size_bytes"].to_numpy()))).filter(pl.col("actual").is_not_nan())
        else:
            turn = pl.int_range(pl.len()).over("size_bytes").alias("turn")
            theirs = there.of(other).select("size_bytes", pl.col("seconds").alias("actual"), turn)
            part = mine.with_columns(turn).join(theirs, on=["size_bytes", "turn"], how="inner", maintain_order="left").drop("turn")
        lost += mine.height - part.height
        parts.append(part.drop("seconds"))
    rows = pl.concat(parts) if parts else pl.DataFrame()
    if not rows.height:
        raise error_of("A146.pair", where=f"{here.name} and {there.name}", found=f"{_kinds(here)} against {_kinds(there)}")
    if lost:
        found.append(finding("A333", lost, f"{lost:,} transfers of {here.name} without a measured counterpart in {there.name}"))
    if assumed:
        found.append(finding("A334", assumed, "host memory kind not recorded on one node: taken for the other's"))
    return Compared(rows, tuple(merge(found)))


def _counterpart(which: Class, there: Transfers) -> Class | None:
    """The same class on the other node; the only one of its direction where one of the two kinds of memory was not recorded."""
    if which in there.classes:
        return which
    same = [c for c in there.classes if c[0] == which[0]]
    return same[0] if len(same) == 1 and "unknown" in (same[0][1], which[1]) else None


def _kinds(transfers: Transfers) -> str:
    out = []
    for which in transfers.classes:
        size = transfers.of(which)["size_bytes"].to_numpy()
        out.append(f"{words(which)} {size.min():,.0f} to {size.max():,.0f} B")
    return ", ".join(out)


def distribution(transfers: Transfers) -> list[dict[str, Any]]:
    """Share of the transfers and of their time by decade of size (the paper's Fig 1), smallest first.

    Each: low_bytes, high_bytes [B] (low <= size < high), count, count_share, seconds, time_share.
    """
    decade = pl.col("size_bytes").clip(1.0).log10().add(1e-12).floor().cast(pl.Int64).alias("decade")
    grouped = transfers.rows.group_by(decade).agg(count=pl.len(), seconds=pl.col("seconds").sum()).sort("decade")
    count, seconds = float(transfers.rows.height), float(transfers.rows["seconds"].sum())
    return [
        {
            "low_bytes": 10.0 ** row["decade"], "high_bytes": 10.0 ** (row["decade"] + 1), "count": row["count"],
            "count_share": row["count"] / count, "seconds": row["seconds"], "time_share": row["seconds"] / seconds,
        }
        for row in grouped.iter_rows(named=True)
    ]  # fmt: skip
