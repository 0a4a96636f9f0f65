"""Transfers recorded on one node, projected on the data sheet of another (AHEAD, Abdelhafez et al.).

    projected   T = (L+O) + n / BW_eff(n)       packets of the link; staging of pageable memory       eqs 2, 4 to 10
    peak        T = (L+O) + n / BW              the paper's Peak Bandwidth
    envelope    T = n / BW                      the paper's back of the envelope

(L+O) is that of a one-byte copy on the first node.  What it is on the second, which share of the link a node reaches, how fast its
host stages, and who else copies over the same link, no data sheet says: priors make the interval (decision 0018).  Copies inside
a device read n bytes and write n; the paper counts n once, which is the peak's answer here.  Where times on the second node are
known, each approach is judged by its absolute percentage errors and by WMAPE (D7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from turnbuckle.cost.loggp import read_limited_bandwidth
from turnbuckle.cost.packet import copy_seconds, on_device_seconds
from turnbuckle.cost.wire import Way
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.machine import Machine
from turnbuckle.projection.priors import COPY_LATENCY_SD, MOST_SHARERS
from turnbuckle.projection.run import Run
from turnbuckle.projection.shown import Shown
from turnbuckle.projection.uncertainty import LEVEL
from turnbuckle.questions.transfers.datasheet_interval import reach
from turnbuckle.questions.transfers.question import (
    HOST,
    Class,
    Compared,
    Latency,
    Transfers,
    compared,
    distribution,
    latencies,
    recorded,
    words,
)
from turnbuckle.questions.transfers.sheet import DEFAULT_LINKS, Sheet, sheet

APPROACHES: Final = ("projected", "peak", "envelope")
_WAYS: Final[dict[str, Way]] = {"h2d": "read", "d2h": "write", "p2p": "write"}


def percentage_errors(actual: ArrayLike, predicted: ArrayLike) -> Float:
    """Absolute percentage error of each transfer, 100 |A - P| / A [%]; shape (n,).

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
    """Weighted mean absolute percentage error, 100 sum |A - P| / sum A [%].

    AHEAD, section VI-C: each transfer's absolute percentage error weighs as much as its share of the time.  The text then asks
    for the average of those n products, which would divide by n once more; the sum is meant and is taken here (D7).

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
    """Standard deviation of the absolute percentage errors about `wmape`, weighted like it by measured time [%] (D7).

    >>> weighted_spread([1.0, 1.0], [1.5, 2.0])
    25.0
    """
    a = np.asarray(actual, dtype=np.float64)
    errors = percentage_errors(a, predicted)
    return float(np.sqrt((a * (errors - wmape(a, predicted)) ** 2).sum() / a.sum()))


def priced(rows: pl.DataFrame, latency: Mapping[Class, Latency], on: Sheet) -> tuple[pl.DataFrame, tuple[Finding, ...]]:
    """Every transfer's time on a node, by each approach.

    Parameters
    ----------
    rows : direction, memory, size_bytes [B], one a transfer; more columns are kept.
    latency : (L+O) by class.
    on : the data sheet.

    Returns
    -------
    The rows that could be priced with columns projected, peak, envelope, read_limited (nan without it), and of the first its fixed
    part and its time on the link alone, fixed and wire [s]; and what was assumed or left out.
    """
    parts, found = [], []
    for (direction, memory), group in rows.group_by("direction", "memory", maintain_order=True):
        which = (str(direction), str(memory))
        if which[0] not in on.peaks or which not in latency:
            what = "no small copy tells (L+O) (--latency)"
            if which[0] not in on.peaks:
                what = "needs --device-memory" if which[0] == "d2d" else "its sheet gives no such link"
            found.append(finding("A333", group.height, f"{group.height:,} transfers {words(which)} not priced on {on.name}: {what}"))
            continue
        parts.append(group.with_columns(**_columns(group["size_bytes"].to_numpy(), which, latency[which].seconds, on)))
        found += _assumed(which, group.height, latency[which], on)
    empty = rows.clear().with_columns(**{n: pl.Series([], dtype=pl.Float64) for n in _PRICES})
    return (pl.concat(parts) if parts else empty), tuple(merge(found))


_PRICES: Final = (*APPROACHES, "read_limited", "fixed", "wire")


def _columns(size: Float, which: Class, latency: float, on: Sheet) -> dict[str, pl.Series]:
    direction, memory = which
    peak, over, none = on.peaks[direction], on.links.get(direction), np.zeros(len(size))
    staged = on.host_memory if memory == "pageable" and direction in HOST else None
    out = {"peak": latency + size / peak, "envelope": size / peak, "read_limited": none + np.nan, "fixed": none + latency}
    if direction == "d2d":
        out["projected"] = on_device_seconds(2.0 * size, peak, latency=latency)
        out["wire"] = 2.0 * size / peak
    elif over is None:
        out["projected"] = out["peak"] + (0.0 if staged is None else 2.0 * size / staged)
        out["wire"] = size / peak
    else:
        way = _WAYS[direction]
        out["projected"] = copy_seconds(size, over, way, latency=latency, host_memory_bandwidth=staged)
        out["wire"] = copy_seconds(size, over, way, latency=0.0)
    if direction == "h2d" and on.reads is not None:
        free = over.bandwidth(size, "read") if over is not None else none + peak
        out["read_limited"] = out["projected"] + size / read_limited_bandwidth(free, *on.reads) - size / free
    return {name: pl.Series(np.asarray(out[name], dtype=np.float64)) for name in _PRICES}


def _assumed(which: Class, count: int, latency: Latency, on: Sheet) -> list[Finding]:
    direction, memory = which
    out = []
    if direction in HOST and memory == "unknown":
        out.append(f"{words(which)}: priced as pinned")
    elif direction in HOST and memory not in ("pinned", "pageable"):
        out.append(f"{direction} of {memory} memory: priced as pinned")
    elif memory == "pageable" and on.host_memory is None:
        out.append("pageable copies priced as pinned: the host memory's bandwidth is not known (--host-memory)")
    if latency.borrowed:
        out.append(f"(L+O) of {words(which)} taken from: {latency.source}")
    if on.assumed and direction in on.assumed:
        out += on.assumed[direction].split("; ")
    return [finding("A334", count, detail) for detail in out]


@dataclass(frozen=True)
class Total(Declared):
    """Transfers of one class, added up [s]; `measured` is their time on A, None where they are B's own.

    `drivers` is the share of the interval's variance by unknown, largest first.
    """

    direction: str
    memory: str
    count: int
    size_bytes: int
    measured: float | None
    projected: float
    low: float
    high: float
    peak: float
    envelope: float
    read_limited: float | None
    drivers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Error(Declared):
    """How far one approach is off over some transfers: WMAPE and its spread [%], median error [%], predicted over actual time."""

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
    application, target, link : names.
    transfers_of : whose transfers were priced: the application's own, or those measured on B.
    totals : by class; the last is all of them.
    errors : by class and approach, then over all; empty without measured times.
    judged : the transfers behind the errors, with actual [s] and every approach's time [s]; empty without them.
    latency : (L+O) by class.
    findings : what was assumed or left out.
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

    def latencies(self) -> list[dict[str, Any]]:
        """Return (L+O) of each class: seconds, bytes of the copies it was seen in, their number, where it is from."""
        return [
            {"direction": d, "memory": m, "seconds": v.seconds, "size_bytes": v.size_bytes, "copies": v.copies, "source": v.source}
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
        names, nodes = ({getattr(p, what): None for p in self.projected} for what in ("application", "target"))
        return f"Transfers of {', '.join(names)} on {', '.join(nodes)}"

    def rows(self) -> list[dict[str, Any]]:
        """Totals as a flat table."""
        return [
            {"application": p.application, "target": p.target, "link": p.link, **{k: v for k, v in t.as_dict().items() if k != "drivers"}}
            for p in self.projected
            for t in p.totals
        ]


def project(
    here: Transfers, on: Sheet, there: Transfers | None = None, *, all_of_there: bool = False, latency: float | None = None
) -> Projected:
    """Project the transfers of one application on a node, and judge the projection where times there are known.

    Parameters
    ----------
    here : on A.
    on : data sheet of B.
    there : measured on B, or None.
    all_of_there : price B's own transfers instead of A's; A gives (L+O).
    latency : (L+O) for all classes [s], instead of A's smallest copies.

    Raises
    ------
    CannotAnswer : A144, A146.
    """
    seen = subject(here, there, all_of_there)
    fixed = latencies(here, [c for c in seen.classes if c[0] in on.peaks], latency)
    every, found = priced(seen.rows, fixed, on)
    if not every.height:
        raise error_of("A146.price", where=seen.name, found="; ".join(f.detail for f in found)[:200], name=on.name)
    totals = [_total(which, rows, seen is here, seen.sharers) for which in seen.classes if (rows := _of(every, which)).height]
    totals.append(_total(("all", "all"), every, seen is here, seen.sharers))
    if seen.sharers > 1:
        often = (
            f"{seen.sharers} devices or ranks may share the link: up to {min(seen.sharers, MOST_SHARERS)} times longer is in the interval"
        )
        found = (*found, finding("A334", every.height, often))
    all_found = [*here.findings, *(there.findings if there is not None else ()), *found]
    errors: list[Error] = []
    judged = pl.DataFrame()
    if there is not None:
        pairs = compared(here, there, all_of_there=all_of_there)
        judged, errors = _judged(pairs, fixed, on)
        all_found += pairs.findings
    return Projected(here.name, on.name, on.link_name, seen.name, totals, errors, judged, fixed, tuple(merge(all_found)))


def subject(here: Transfers, there: Transfers | None, all_of_there: bool = False) -> Transfers:
    """Whose transfers are priced: A's, or B's where that is asked for or only B's are an application."""
    return there if there is not None and (all_of_there or (here.curves and not there.curves)) else here


def _of(rows: pl.DataFrame, which: Class) -> pl.DataFrame:
    return rows.filter((pl.col("direction") == which[0]) & (pl.col("memory") == which[1]))


def _total(which: Class, rows: pl.DataFrame, own: bool, sharers: int) -> Total:
    """Sums of one class."""
    sums = {n: float(rows[n].sum()) for n in ("size_bytes", *_PRICES)}
    limited = rows.filter(pl.col("read_limited").is_not_nan())
    slower = sums["projected"] + float((limited["read_limited"] - limited["projected"]).sum()) if limited.height else None
    found = reach(rows, sharers)
    return Total(
        *which, rows.height, round(sums["size_bytes"]), float(rows["seconds"].sum()) if own else None, sums["projected"], found.low,
        found.high, sums["peak"], sums["envelope"], slower, found.drivers,
    )  # fmt: skip


def _judged(pairs: Compared, latency: Mapping[Class, Latency], on: Sheet) -> tuple[pl.DataFrame, list[Error]]:
    rows, _ = priced(pairs.rows, latency, on)
    if not rows.height:
        return rows, []
    classes = [(str(d), str(m)) for d, m in rows.select("direction", "memory").unique(maintain_order=True).rows()]
    out = []
    for which, group in [*((c, _of(rows, c)) for c in classes), (("all", "all"), rows)]:
        actual = group["actual"].to_numpy()
        for approach in APPROACHES:
            predicted = group[approach].to_numpy()
            total, off = (float(actual.sum()), float(predicted.sum())), float(np.median(percentage_errors(actual, predicted)))
            judged = (wmape(actual, predicted), weighted_spread(actual, predicted), off)
            out.append(Error(*which, approach, group.height, *total, *judged))
    return rows.select("direction", "memory", "size_bytes", "actual", *APPROACHES), out


def study(
    pairs: Sequence[tuple[Transfers, Transfers | None]],
    sheets: Sequence[Sequence[Sheet]],
    *,
    all_of_there: bool = False,
    latency: float | None = None,
) -> Study:
    """Every application on every node asked for.

    Parameters
    ----------
    pairs : transfers on A, and on B where measured; one an application.
    sheets : per application, the nodes.
    all_of_there, latency : as `project`.
    """
    found = [
        project(here, on, there, all_of_there=all_of_there, latency=latency)
        for (here, there), nodes in zip(pairs, sheets, strict=True)
        for on in nodes
    ]
    return Study(found, [replace(subject(here, there, all_of_there), name=here.name) for here, there in pairs])


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
    sheets = [sheet(name, source=run.source, host_memory=host_memory, device_memory=device_memory, peer=peer) for name in names]
    beyond = recorded(measured.profile) if measured is not None else None
    return study([(recorded(run.profile), beyond)], [sheets], all_of_there=transfers_of_measured, latency=latency)
