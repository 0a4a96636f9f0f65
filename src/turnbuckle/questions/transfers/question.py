"""The transfers of an application, one by one: from a recording or from a measured curve, and which
of two runs belong together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.machine import Machine, Parameter
from turnbuckle.machine.measured.logs import Curve, Measured, listed
from turnbuckle.machine.parameter_names import LINK_WAYS, ParameterName, link_parameter
from turnbuckle.profile.pieces import UNSIZED, Pieces
from turnbuckle.profile.source import machine_of_copies
from turnbuckle.profile.transfers import MIN_SPAN, SMALL_BYTES, LinkFit
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.projection import copy_order
from turnbuckle.projection.run import Run

Class = tuple[str, str]

#: Directions a data sheet can price.
PRICED: Final = ("h2d", "d2h", "d2d", "p2p")
HOST: Final = ("h2d", "d2h")
#: Copies of so few bytes cost the same.
TINY_BYTES: Final = 64.0
#: A fixed part below this share of the smallest copies is lost in their scatter.
MIN_SHARE: Final = 0.1
_COLUMNS: Final = {
    "direction": pl.String,
    "memory": pl.String,
    "size_bytes": pl.Float64,
    "seconds": pl.Float64,
}


@dataclass(frozen=True)
class Transfers:
    """The copies of one application on one node.

    Attributes
    ----------
    name : of the application or of the file.
    rows : one a copy, in the order they began: direction, memory, size_bytes [B], seconds [s].
    curves : where they come from a measurement, its curves.
    findings : transfers that were left out, and a start-up that was.
    source, fits : the node as the copies show it, and the lines fitted to them.
    ready : the copies in pieces.
    """

    name: str
    rows: pl.DataFrame
    source: Machine
    fits: Mapping[Class, LinkFit]
    ready: Prepared
    curves: tuple[Curve, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def sharers(self) -> int:
        """Return the most devices or ranks that copied at once; 1 for one alone or where nothing
        tells.
        """
        return self.ready.sharers

    def with_latency(self, seconds: float) -> Transfers:
        """Return the same transfers on a node whose copies all have this fixed part [s]."""
        given = Parameter(
            value=seconds, error=0.0, unit="s", nature="assumption", source="as given"
        )
        fixed: list[ParameterName] = [
            link_parameter(direction, "latency") for direction in LINK_WAYS
        ]
        fixed += [
            n
            for n in self.source.parameters
            if n.startswith("observed.") and n.endswith(".latency")
        ]
        return replace(self, source=self.source.with_parameters(dict.fromkeys(fixed, given)))

    @property
    def classes(self) -> list[Class]:
        """Return the direction and memory kind of what there is, in the order of the directions."""
        kinds = self.rows.select("direction", "memory").unique().rows()
        return sorted(((str(d), str(m)) for d, m in kinds), key=lambda c: copy_order(*c))

    def of(self, which: Class) -> pl.DataFrame:
        """Return the rows of one class."""
        return self.rows.filter((pl.col("direction") == which[0]) & (pl.col("memory") == which[1]))


def words(which: Class) -> str:
    """Return a class in words.

    >>> words(("h2d", "pinned")), words(("d2d", "device")), words(("h2d", "unknown"))
    ('h2d pinned', 'd2d', 'h2d, memory unknown')
    """
    direction, memory = which
    if memory == "device" and direction not in HOST:
        return direction
    return f"{direction}, memory unknown" if memory == "unknown" else f"{direction} {memory}"


def recorded(run: Run, name: str = "") -> Transfers:
    """Return the copies of a recording.

    Raises
    ------
    CannotAnswer : A146 where it holds no copy.
    """
    run = run.judged
    profile = run.profile
    copies = profile.activities.filter(pl.col("category") == "copy").sort("start_ns")
    of_device = pl.col("direction").cast(pl.String).is_in(["d2d", "p2p"])
    kind = (
        pl.when(pl.col("size_bytes").is_null())
        .then(pl.lit(UNSIZED))
        .otherwise(pl.col("memory").cast(pl.String).fill_null("unknown"))
    )
    memory = pl.when(of_device).then(pl.lit("device")).otherwise(kind).alias("memory")
    rows = copies.select(
        pl.col("direction").cast(pl.String),
        memory,
        pl.col("size_bytes").cast(pl.Float64),
        "seconds",
    )
    called = name or profile.trace.name
    if not rows.height:
        raise error_of("A146.copies", where=called, found="no copy")
    unlike = rows.filter(
        ~(pl.col("direction").is_in(PRICED) & (pl.col("size_bytes") > 0) & (pl.col("seconds") > 0))
    ).height
    text = (
        f"{unlike:,} moves of unified memory, copies inside the host, or copies without size or "
        "duration: not in the packets"
    )
    findings = (*run.left_out, *([finding("A333", unlike, text)] if unlike else []))
    return Transfers(called, rows, run.source, run.fits, run.prepared(nething()), findings=findings)


def each_copy(rows: pl.DataFrame) -> Pieces:
    """Return copies as pieces of one activity each; of those that were not timed on the source, the
    duration is 0 [s].

    Parameters
    ----------
    rows : direction, memory, size_bytes [B], and seconds [s] where they are known.
    """
    many, direction = rows.height, np.array(rows["direction"].to_list(), dtype=object)
    seconds = rows["seconds"].to_numpy() if "seconds" in rows.columns else np.zeros(many)
    kind, memory = (
        np.array([f"copy_{d}" for d in direction], dtype=object),
        np.array(rows["memory"].to_list(), dtype=object),
    )
    words = {
        name: np.full(many, word, dtype=object)
        for name, word in (("category", "copy"), ("call_class", ""), ("kernel", None))
    }
    counts: dict[str, Any] = {
        "idle_device": np.zeros(many, dtype=np.bool_),
        "count": np.ones(many),
        "tail_count": np.zeros(many),
    }
    times: dict[str, Any] = {
        "size_bytes": rows["size_bytes"].to_numpy(),
        "seconds": seconds,
        "exposed_seconds": seconds,
    }
    return Pieces(kind=kind, direction=direction, memory=memory, **times, **words, **counts)


def measured(read: Measured, name: str = "") -> Transfers:
    """Return the points of measured curves as transfers, one each; messages between ranks of a host
    or over a network are left out.

    Raises
    ------
    CannotAnswer : A146 where no curve is a copy that a data sheet can price.
    UsageError : A021 where two curves are of one class.
    """
    usable = tuple(c for c in read.curves if c.direction in PRICED)
    gone = [c for c in read.curves if c.direction not in PRICED]
    left = sum(len(c.size_bytes) for c in gone)
    findings = [*read.findings] + (
        [finding("A333", left, f"{left} points of {', '.join(c.name for c in gone[:4])}")]
        if gone
        else []
    )
    if not usable:
        raise error_of("A146.measurement", where=read.name, found=listed(read.curves))
    classes = [(c.direction, c.memory) for c in usable]
    if twice := sorted({c for c in classes if classes.count(c) > 1}):
        raise error_of(
            "A021.several",
            where=read.name,
            found=listed(read.curves),
            measurement=words(twice[0]),
            name=read.name,
        )
    if streamed := [c for c in usable if c.streamed]:
        count = sum(len(c.size_bytes) for c in streamed)
        findings.append(
            finding("A334", count, "rates of many messages in flight stand for the time of one")
        )
    parts = [
        pl.DataFrame(
            {
                "direction": c.direction,
                "memory": c.memory,
                "size_bytes": c.size_bytes,
                "seconds": c.seconds,
            },
            schema=_COLUMNS,
        )
        for c in usable
    ]
    rows = pl.concat(parts)
    source, fits = machine_of_copies(
        rows, streamed={(c.direction, c.memory) for c in usable if c.streamed}
    )
    return Transfers(
        name or read.name,
        rows,
        source,
        fits,
        Prepared(each_copy(rows), 0.0),
        usable,
        tuple(findings),
    )


@dataclass(frozen=True)
class Latency:
    """Fixed cost of a copy (L+O) of one class, and its source.

    Attributes
    ----------
    seconds : (L+O) [s].
    size_bytes, copies : the copies it was read off: their largest size [B], how many; 0 where it
        was given.
    source : in words.
    borrowed : whether it is another class's, or the intercept of a fit.
    """

    seconds: float
    size_bytes: float
    copies: int
    source: str
    borrowed: bool = False


def latencies(
    transfers: Transfers, wanted: Sequence[Class], given: float | None = None
) -> dict[Class, Latency]:
    """Return the (L+O) of the classes wanted: the median time of its smallest copies (the paper's
    one-byte copy).

    Where a class has no copy of 4096 B or less it takes another's (the same direction first; host
    and device classes never mix), else what a line through its smallest and its largest copies
    leaves at no bytes, else that of the node's link; else it is not in the answer.

    Parameters
    ----------
    given : (L+O) to use for all [s].
    """
    if given is not None:
        return {c: Latency(given, 0.0, 0, "as given") for c in wanted}
    smallest = {
        c: latency for c in transfers.classes if (latency := _smallest(transfers, c)) is not None
    }
    either = {
        c: smallest.get(c) or _borrowed(transfers, c, smallest) or _of_link(transfers, c)
        for c in wanted
    }
    return {c: latency for c, latency in either.items() if latency is not None}


def _of_link(transfers: Transfers, which: Class) -> Latency | None:
    """Return the fixed part that the node's link is known or assumed to have."""
    direction = next((w for w in LINK_WAYS if w == which[0]), None)
    fixed = transfers.source.get(link_parameter(direction, "latency")) if direction else None
    return None if fixed is None else Latency(fixed.value, 0.0, 0, fixed.source, True)


def _points(transfers: Transfers, which: Class) -> tuple[Float, Float]:
    """Return the sizes and times of a class, where both are known; none of a rate with many
    messages in flight, which holds no latency.
    """
    if any(c.streamed and (c.direction, c.memory) == which for c in transfers.curves):
        return np.zeros(0), np.zeros(0)
    # a size may be missing, or set aside (P240)
    rows = transfers.of(which).drop_nulls(["size_bytes", "seconds"])
    return rows["size_bytes"].to_numpy(), rows["seconds"].to_numpy()


def _smallest(transfers: Transfers, which: Class) -> Latency | None:
    size, seconds = _points(transfers, which)
    if not len(size) or size.min() > SMALL_BYTES:
        return None
    near = size <= max(TINY_BYTES, float(size.min()))
    return Latency(
        float(np.median(seconds[near])),
        float(size[near].max()),
        int(near.sum()),
        f"smallest copies of {words(which)}",
    )


def _borrowed(
    transfers: Transfers, which: Class, smallest: Mapping[Class, Latency]
) -> Latency | None:
    alike = [c for c in smallest if (c[0] in HOST) == (which[0] in HOST)]
    alike.sort(key=lambda c: (c[0] != which[0], c[1] != which[1], smallest[c].seconds))
    if alike:
        return replace(smallest[alike[0]], borrowed=True)
    others = [c for c in transfers.classes if (c[0] in HOST) == (which[0] in HOST)]
    lines = (
        _intercept(transfers, other)
        for other in sorted(others, key=lambda c: (c != which, c[0] != which[0]))
    )
    return next((line for line in lines if line is not None), None)


def _intercept(transfers: Transfers, which: Class) -> Latency | None:
    """Return two points of LogGP (Boyer et al. 2013): the smallest copies and the largest, where
    they differ enough.
    """
    size, seconds = _points(transfers, which)
    if not len(size) or size.max() < MIN_SPAN * size.min():
        return None
    ends = [size == size.min(), size == size.max()]
    (small, large), (fast, slow) = [
        [float(np.median(values[end])) for end in ends] for values in (size, seconds)
    ]
    latency = fast - small * (slow - fast) / (large - small)
    if latency <= MIN_SHARE * fast:
        return None
    return Latency(
        latency,
        small,
        int(ends[0].sum()),
        f"line from the smallest to the largest copies of {words(which)}",
        True,
    )


@dataclass(frozen=True)
class Compared:
    """Transfers whose time on the other node is known.

    Attributes
    ----------
    rows : direction, memory, size_bytes [B], actual [s]; one a transfer.
    findings : transfers without a counterpart.
    """

    rows: pl.DataFrame
    findings: tuple[Finding, ...]


def compared(baseline: Transfers, there: Transfers, *, all_of_there: bool = False) -> Compared:
    """Return which transfers of one node have a measured time on the other.

    Against curves, each transfer takes the time of its size there, inside the measured sizes.  Two
    recordings are matched by class and size in the order of their copies, so that two runs of one
    program meet copy by copy.

    Parameters
    ----------
    baseline : transfers on A; of a curve only (L+O) is used where `there` is a recording.
    there : transfers or curves on B.
    all_of_there : take every transfer of B, whatever A copied: A then gives (L+O) alone.

    Raises
    ------
    CannotAnswer : A146 where nothing matches.
    """
    findings: list[Finding] = []
    timed = pl.col("direction").is_in(PRICED) & (pl.col("size_bytes") > 0) & (pl.col("seconds") > 0)
    baseline, there = (replace(side, rows=side.rows.filter(timed)) for side in (baseline, there))
    if all_of_there or (baseline.curves and not there.curves):
        rows = there.rows.rename({"seconds": "actual"})
        return Compared(rows, tuple(findings))
    parts, lost, assumed = [], 0, 0
    for which in baseline.classes:
        copies = baseline.of(which)
        other = _counterpart(which, there)
        if other is None:
            lost += copies.height
            continue
        assumed += copies.height if other != which else 0
        if there.curves:
            (curve,) = (c for c in there.curves if (c.direction, c.memory) == other)
            part = copies.with_columns(
                actual=pl.Series(curve.times(copies["size_bytes"].to_numpy()))
            ).filter(pl.col("actual").is_not_nan())
        else:
            turn = pl.int_range(pl.len()).over("size_bytes").alias("turn")
            theirs = there.of(other).select("size_bytes", pl.col("seconds").alias("actual"), turn)
            part = (
                copies.with_columns(turn)
                .join(theirs, on=["size_bytes", "turn"], how="inner", maintain_order="left")
                .drop("turn")
            )
        lost += copies.height - part.height
        parts.append(part)
    rows = pl.concat(parts) if parts else pl.DataFrame()
    if not rows.height:
        raise error_of(
            "A146.pair",
            where=f"{baseline.name} and {there.name}",
            found=f"{_kinds(baseline)} against {_kinds(there)}",
        )
    if lost:
        findings.append(
            finding(
                "A333",
                lost,
                (
                    f"{lost:,} transfers of {baseline.name} without a measured counterpart in "
                    f"{there.name}"
                ),
            )
        )
    if assumed:
        findings.append(
            finding(
                "A334", assumed, "host memory kind not recorded on one node: taken for the other's"
            )
        )
    return Compared(rows, tuple(merge(findings)))


def _counterpart(which: Class, there: Transfers) -> Class | None:
    """Return the same class on the other node; the only one of its direction where one of the two
    kinds of memory was not recorded.
    """
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
    """Return the share of the transfers and of their time by decade of size (the paper's Fig 1),
    smallest first, where sizes are known.

    Each: low_bytes, high_bytes [B] (low <= size < high), count, count_share, seconds, time_share.
    """
    sized = transfers.rows.drop_nulls("size_bytes")
    decade = (
        pl.col("size_bytes").clip(1.0).log10().add(1e-12).floor().cast(pl.Int64).alias("decade")
    )
    grouped = (
        sized.group_by(decade).agg(count=pl.len(), seconds=pl.col("seconds").sum()).sort("decade")
    )
    count, seconds = float(sized.height), float(sized["seconds"].sum()) or 1.0
    return [
        dict(
            low_bytes=10.0**d,
            high_bytes=10.0 ** (d + 1),
            count=n,
            count_share=n / count,
            seconds=s,
            time_share=s / seconds,
        )
        for d, n, s in grouped.iter_rows()
    ]
