"""Transfers recorded on one node, projected on the data sheet of another (AHEAD, Abdelhafez et
al.).

    projected   as `turnbuckle project` prices copies: anchored in what was recorded, with what no file says (decision D21)
    packets     T = (L+O) + n / BW_eff(n)       packets of the link; staging of pageable memory       eqs 2, 4 to 10
    peak        T = (L+O) + n / BW              the paper's Peak Bandwidth
    envelope    T = n / BW                      the paper's back of the envelope

The last three are the paper's: (L+O) is that of a one-byte copy on the first node, bandwidths are
the sheet's.  Copies inside a device read n bytes and write n; the paper counts n once, which is the
peak's answer here.  Where times on the second node are known, each approach is judged by its
absolute percentage errors and by WMAPE (D7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from turnbuckle.cost.packet import copy_seconds, on_device_seconds
from turnbuckle.cost.wire import Way
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.machine import Machine, Pair
from turnbuckle.profile.pieces import UNSIZED
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.elsewhere.priors import COPY_LATENCY_SD, MOST_SHARERS, other_host
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.projection import CopyClass
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import (
    DRAWS,
    LEVEL,
    SEED,
    Uncertain,
    copy_question,
    copy_seconds_of,
    copy_times,
)
from turnbuckle.questions.transfers.question import (
    HOST,
    PRICED,
    Class,
    Compared,
    Latency,
    Transfers,
    compared,
    distribution,
    each_copy,
    latencies,
    recorded,
    words,
)
from turnbuckle.questions.transfers.sheet import DEFAULT_LINKS, Sheet, sheet

APPROACHES: Final = ("projected", "packets", "peak", "envelope")
_WAYS: Final[dict[str, Way]] = {"h2d": "read", "d2h": "write", "p2p": "write"}


def percentage_errors(actual: ArrayLike, predicted: ArrayLike) -> Float:
    """Return the absolute percentage error of each transfer, 100 |A - P| / A [%]; shape (n,).

    Parameters
    ----------
    actual : measured times A, above zero [s], shape (n,).
    predicted : predicted times P, zero or more [s], shape (n,).

    Raises
    ------
    UsageError : A024 where the times cannot be compared.

    >>> percentage_errors([1.0, 10.0], [2.0, 9.0])
    array([100.,  10.])
    """
    a, p = np.asarray(actual, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if a.ndim != 1 or a.shape != p.shape or not a.size:
        raise error_of("A024.length", found=f"{a.size} measured, {p.size} predicted")
    if not (np.isfinite(a).all() and np.isfinite(p).all() and (a > 0).all() and (p >= 0).all()):
        raise error_of("A024.zero", found="a time that is negative, zero or not finite")
    return np.asarray(100.0 * np.abs(a - p) / a)


def wmape(actual: ArrayLike, predicted: ArrayLike) -> float:
    """Return the weighted mean absolute percentage error, 100 sum |A - P| / sum A [%].

    AHEAD, section VI-C: each transfer's absolute percentage error weighs as much as its share of
    the time.  The text then asks for the average of those n products, which would divide by n once
    more; the sum is meant and is taken here (D7).

    Raises
    ------
    UsageError : A024 as `percentage_errors`.

    >>> wmape([1.0, 9.0], [2.0, 9.0])
    10.0
    """
    a = np.asarray(actual, dtype=np.float64)
    errors = percentage_errors(a, predicted)
    return float((errors * a).sum() / a.sum())


def weighted_spread(actual: ArrayLike, predicted: ArrayLike) -> float:
    """Return the standard deviation of the absolute percentage errors about `wmape`, weighted like
    it by measured time [%] (D7).

    >>> weighted_spread([1.0, 1.0], [1.5, 2.0])
    25.0
    """
    a = np.asarray(actual, dtype=np.float64)
    errors = percentage_errors(a, predicted)
    return float(np.sqrt((a * (errors - wmape(a, predicted)) ** 2).sum() / a.sum()))


def on_sheet(
    rows: pl.DataFrame, latency: Mapping[Class, Latency], on: Sheet
) -> tuple[pl.DataFrame, tuple[Finding, ...]]:
    """Price every transfer by what the papers know of a node: packets, peak, back of the envelope.

    Parameters
    ----------
    rows : direction, memory, size_bytes [B], one a transfer; more columns are kept.
    latency : (L+O) by class.
    on : the data sheet.

    Returns
    -------
    The rows with columns packets, peak and envelope [s], nan where the sheet gives no such link;
    and what was assumed.
    """
    parts, findings = [], []
    for (direction, memory), group in rows.group_by("direction", "memory", maintain_order=True):
        which = (str(direction), str(memory))
        if which[0] in on.peaks and which in latency and not group["size_bytes"].null_count():
            columns = _columns(group["size_bytes"].to_numpy(), which, latency[which].seconds, on)
            findings += _assumed(which, group.height, latency[which], on)
        else:
            columns = {
                n: pl.repeat(None, group.height, dtype=pl.Float64, eager=True) for n in SHEET
            }
            if which[0] in PRICED and which[1] != UNSIZED:
                why = "needs --device-memory" if which[0] == "d2d" else "its sheet has no such link"
                findings.append(
                    finding(
                        "A333",
                        group.height,
                        (
                            f"{group.height:,} transfers {words(which)} without packets on "
                            f"{on.name}: {why}"
                        ),
                    )
                )
        parts.append(group.with_columns(**columns))
    return pl.concat(parts), tuple(merge(findings))


#: What the papers know of a node.
SHEET: Final = ("packets", "peak", "envelope")


def _columns(size: Float, which: Class, latency: float, on: Sheet) -> dict[str, pl.Series]:
    direction, memory = which
    peak, over = on.peaks[direction], on.links.get(direction)
    staged = on.host_memory if memory == "pageable" and direction in HOST else None
    if direction == "d2d":
        packets = on_device_seconds(2.0 * size, peak, latency=latency)
    elif over is None:
        packets = latency + size / peak + (0.0 if staged is None else 2.0 * size / staged)
    else:
        packets = copy_seconds(
            size, over, _WAYS[direction], latency=latency, host_memory_bandwidth=staged
        )
    return {
        name: pl.Series(np.asarray(v, dtype=np.float64))
        for name, v in zip(SHEET, (packets, latency + size / peak, size / peak), strict=True)
    }


def _assumed(which: Class, count: int, latency: Latency, on: Sheet) -> list[Finding]:
    direction, memory = which
    out = []
    if direction in HOST and memory == "unknown":
        out.append(f"{words(which)}: packets as of pinned memory")
    elif direction in HOST and memory not in ("pinned", "pageable"):
        out.append(f"{direction} of {memory} memory: packets as of pinned memory")
    elif memory == "pageable" and on.host_memory is None:
        out.append(
            "pageable copies: packets as of pinned memory, because the host memory's "
            "bandwidth is not known (--host-memory)"
        )
    if latency.borrowed:
        out.append(f"(L+O) of {words(which)} taken from: {latency.source}")
    if on.assumed and direction in on.assumed:
        out += on.assumed[direction].split("; ")
    return [finding("A334", count, detail) for detail in out]


@dataclass(frozen=True)
class Total(CopyClass):
    """Transfers of one class, added up [s]: the price that every question gives, and beside it what
    the papers know of the node.
    """

    packets: float | None = None
    peak: float | None = None
    envelope: float | None = None
    drivers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Error(Declared):
    """Error of one approach over some transfers: WMAPE and its spread [%], median error [%],
    predicted over actual time.
    """

    direction: str
    memory: str
    approach: str
    count: int
    actual: float
    predicted: float
    wmape: float
    spread: float
    median: float


@dataclass(frozen=True)
class Projected(Declared):
    """One application on one node.

    Attributes
    ----------
    judged : the transfers behind the errors, with actual [s] and every approach's time [s]; empty
        without them.
    latency : (L+O) by class.
    """

    application: str
    target: str
    link: str
    transfers_of: str
    totals: list[Total]
    errors: list[Error]
    judged: pl.DataFrame
    latency: Mapping[Class, Latency]
    findings: tuple[Finding, ...]

    @property
    def total(self) -> Total:
        """Return the sum of all classes."""
        return self.totals[-1]

    def latencies(self) -> list[dict[str, Any]]:
        """Return the (L+O) of each class: seconds, bytes of the copies it was seen in, their
        number, where it is from.
        """
        return [
            {
                "direction": d,
                "memory": m,
                "seconds": v.seconds,
                "size_bytes": v.size_bytes,
                "copies": v.copies,
                "source": v.source,
            }
            for (d, m), v in self.latency.items()
        ]


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """Applications on nodes, and the transfers of each application under its name."""

    question: ClassVar[str] = "transfers"

    projected: list[Projected]
    subjects: list[Transfers]

    level: ClassVar[float] = LEVEL
    latency_sd: ClassVar[float] = COPY_LATENCY_SD

    def distributions(self) -> list[dict[str, Any]]:
        """Return how the transfers of each application are spread over sizes."""
        return [{"application": s.name, "decades": distribution(s)} for s in self.subjects]

    def table(self) -> pl.DataFrame:
        """Return a row for each class of transfers on each node, as `rows`."""
        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def headline(self) -> str:
        """Return which applications were priced on which nodes, in one line."""
        names, nodes = (
            {getattr(p, what): None for p in self.projected} for what in ("application", "target")
        )
        return f"Transfers of {', '.join(names)} on {', '.join(nodes)}"

    def rows(self) -> list[dict[str, Any]]:
        """Return the totals as a flat table."""
        return [
            {"application": p.application, "target": p.target, "link": p.link}
            | {k: v for k, v in t.as_dict().items() if k not in ("drivers", "interval")}
            for p in self.projected
            for t in p.totals
        ]


def project(
    baseline: Transfers,
    on: Sheet,
    there: Transfers | None = None,
    *,
    all_of_there: bool = False,
    latency: float | None = None,
) -> Projected:
    """Project the transfers of one application on a node, and judge the projection where times
    there are known.

    Parameters
    ----------
    baseline : on A.
    on : B.
    there : measured on B, or None.
    all_of_there : price B's own transfers instead of A's; A gives what a copy costs beyond its
        link.
    latency : (L+O) for all classes [s], instead of A's.

    Raises
    ------
    CannotAnswer : A146 where nothing can be priced.
    """
    if latency is not None:
        baseline = baseline.with_latency(latency)
    seen = subject(baseline, there, all_of_there)
    fixed = latencies(baseline, seen.classes, latency)
    copies = copy_times(
        _question(seen, baseline, DRAWS),
        on.machine,
        Pair(baseline.source, on.machine),
        MODEL,
        drivers=True,
    )
    every, sheet_findings = on_sheet(seen.rows, fixed, on)
    if copies is None or not copies.count:
        raise error_of(
            "A146.price",
            where=seen.name,
            found="; ".join(f.detail for f in sheet_findings)[:200],
            name=on.name,
        )
    totals = [_total(part, _of(every, (part.direction, part.memory))) for part in copies.classes]
    # shares of a range that has no width are noise
    drivers = copies.drivers if copies.high > copies.low else {}
    totals.append(replace(_total(copies, every), drivers=drivers))
    if lost := seen.rows.height - copies.count:
        why = f"{lost:,} transfers not priced on {on.name}: neither node's bandwidth is known"
        sheet_findings = (*sheet_findings, finding("A333", lost, why))
    if seen.sharers > 1 and other_host(Pair(baseline.source, on.machine)):
        often = (
            f"{seen.sharers} devices or ranks may share the link: 1 to "
            f"{min(seen.sharers, MOST_SHARERS)} times longer is allowed for"
        )
        sheet_findings = (*sheet_findings, finding("A334", copies.count, often))
    all_found = [
        *baseline.findings,
        *(there.findings if there is not None else ()),
        *sheet_findings,
    ]
    errors: list[Error] = []
    judged = pl.DataFrame()
    if there is not None:
        pairs = compared(baseline, there, all_of_there=all_of_there)
        judged, errors = _judged(pairs, baseline, seen.sharers, fixed, on)
        all_found += pairs.findings
    return Projected(
        baseline.name,
        on.name,
        on.link_name,
        seen.name,
        totals,
        errors,
        judged,
        fixed,
        tuple(merge(all_found)),
    )


#: Model and replay of `project`: the same question gets the same answer.
MODEL: Final = nething()


def _question(transfers: Transfers, baseline: Transfers, draws: int) -> Uncertain:
    return copy_question(
        transfers.ready, baseline.source, baseline.fits, draws, SEED, recorded=transfers is baseline
    )


def subject(baseline: Transfers, there: Transfers | None, all_of_there: bool = False) -> Transfers:
    """Return the transfers to price: those of B if asked for, or if B is a recording and A a table
    of measured copies; else those of A.
    """
    return (
        there
        if there is not None and (all_of_there or (baseline.curves and not there.curves))
        else baseline
    )


def _of(rows: pl.DataFrame, which: Class) -> pl.DataFrame:
    return rows.filter((pl.col("direction") == which[0]) & (pl.col("memory") == which[1]))


def _total(copies: CopyClass, rows: pl.DataFrame) -> Total:
    """Return sums of one class; those of the sheet are None where it leaves out a copy."""
    whole = rows.height == copies.count and rows.height
    packets, peak, envelope = (
        float(rows[n].sum()) if whole and not rows[n].null_count() else None for n in SHEET
    )
    return Total(
        **{f.name: getattr(copies, f.name) for f in fields(CopyClass)},
        packets=packets,
        peak=peak,
        envelope=envelope,
    )


def _judged(
    pairs: Compared, baseline: Transfers, sharers: int, latency: Mapping[Class, Latency], on: Sheet
) -> tuple[pl.DataFrame, list[Error]]:
    rows, _ = on_sheet(pairs.rows, latency, on)
    recorded = "seconds" in rows.columns
    question = Uncertain(
        Prepared(each_copy(rows), 0.0, sharers=sharers),
        baseline.source,
        {},
        0,
        SEED,
        recorded=recorded,
    )
    each = copy_seconds_of(question, on.machine, Pair(baseline.source, on.machine), MODEL)
    rows = rows.with_columns(projected=pl.Series(each))
    classes = [
        (str(d), str(m))
        for d, m in rows.select("direction", "memory").unique(maintain_order=True).rows()
    ]
    out = []
    for which, group in [*((c, _of(rows, c)) for c in classes), (("all", "all"), rows)]:
        for approach in APPROACHES:
            priced = group.filter(pl.col(approach).is_not_null() & pl.col(approach).is_not_nan())
            if not priced.height:
                continue
            actual, predicted = priced["actual"].to_numpy(), priced[approach].to_numpy()
            total, off = (
                (float(actual.sum()), float(predicted.sum())),
                float(np.median(percentage_errors(actual, predicted))),
            )
            judged = (wmape(actual, predicted), weighted_spread(actual, predicted), off)
            out.append(Error(*which, approach, priced.height, *total, *judged))
    return rows.select("direction", "memory", "size_bytes", "actual", *APPROACHES), out


def study(
    pairs: Sequence[tuple[Transfers, Transfers | None]],
    sheets: Sequence[Sequence[Sheet]],
    *,
    all_of_there: bool = False,
    latency: float | None = None,
) -> Study:
    """Return the transfers of each application on each of its nodes.

    Parameters
    ----------
    pairs : transfers on A, and on B where measured; one an application.
    sheets : per application, the nodes.
    all_of_there, latency : as `project`.
    """
    projected = [
        project(baseline, on, there, all_of_there=all_of_there, latency=latency)
        for (baseline, there), nodes in zip(pairs, sheets, strict=True)
        for on in nodes
    ]
    return Study(
        projected,
        [
            replace(subject(baseline, there, all_of_there), name=baseline.name)
            for baseline, there in pairs
        ],
    )


def of_run(
    run: Run,
    on: Sequence[str | Machine] | str | Machine = DEFAULT_LINKS,
    *,
    measured: Run | None = None,
    transfers_of_measured: bool = False,
    latency: float | None = None,
    host_memory: float | None = None,
    device_memory: float | None = None,
    peer: str | None = None,
) -> Study:
    """Return the copies of a run on data sheets of other nodes: ``turnbuckle transfers``.

    Parameters
    ----------
    on : links by name, machines by name, file or object.
    measured : the same program recorded on such a node; then errors are told.
    transfers_of_measured : price the copies of `measured` instead.
    latency : fixed cost of a copy [s]; from the smallest copies if left out.
    host_memory, device_memory, peer : as `turnbuckle.questions.transfers.sheet.sheet`.
    """
    names = [on] if isinstance(on, str | Machine) else on
    sheets = [
        sheet(
            name, source=run.source, host_memory=host_memory, device_memory=device_memory, peer=peer
        )
        for name in names
    ]
    beyond = recorded(measured) if measured is not None else None
    return study(
        [(recorded(run), beyond)], [sheets], all_of_there=transfers_of_measured, latency=latency
    )
