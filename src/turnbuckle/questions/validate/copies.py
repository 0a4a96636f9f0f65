"""Copies, migrations and messages of a validation case: predicted from a data sheet, a machine
file, or the line fitted to A.

Nothing is fitted to an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.units import parse, show
from turnbuckle.profile.transfers import LinkFit, fit_class
from turnbuckle.projection.elsewhere.priors import (
    COPY_LATENCY_SD,
    DEVICE,
    DEVICE_SHARE,
    LATENCY,
    LINK,
    NODE_SHARE,
    PEER,
    PEER_SHARE,
    STAGED,
    STAGED_SPREAD,
    half_normal,
    normals,
    of_pair,
)
from turnbuckle.projection.uncertainty import DRAWS, LEVEL, SEED
from turnbuckle.questions.transfers.datasheet import project, wmape
from turnbuckle.questions.transfers.question import words
from turnbuckle.questions.transfers.sheet import sheet
from turnbuckle.questions.validate.cases import Ask, Case, Number
from turnbuckle.questions.validate.rows import Data, Row

#: Quantiles of a 90 % interval.
_TAILS: Final = ((1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2)


def on_node(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield the copies of B on its data sheet or its machine file, as every question prices them,
    with the lines that A's copies show.
    """
    size = question.number("copied_size")
    baseline, machine = data.transfers(data.path(case, case.a.file), case.a.machine, size)
    there, _ = data.transfers(data.path(case, case.b.file), case.b.machine, size)
    host, device = (question.number(name) for name in ("host_memory", "device_memory"))
    on = sheet(
        question.text("on"), source=machine, host_memory=host, device_memory=device, node=True
    )
    answer = project(baseline, on, there, all_of_there=True)
    judged, peaks = (
        {(e.direction, e.memory): e for e in answer.errors if e.approach == which}
        for which in ("projected", "peak")
    )
    for total in answer.totals[:-1]:
        which, moved = (total.direction, total.memory), float(total.size_bytes)
        row, what = partial(Row, case.name, _kind(total.memory)), f"{words(which)} on {on.name}"
        if (off := judged.get(which)) is not None:
            ends = total.low, total.high
            yield row(
                question.model,
                what,
                "s",
                total.seconds,
                off.actual,
                *ends,
                off.wmape / 100.0,
                total.count,
                moved,
            )
        if (peak := peaks.get(which)) is not None:
            yield row(
                "peak",
                what,
                "s",
                peak.predicted,
                peak.actual,
                wmape=peak.wmape / 100.0,
                count=peak.count,
                size_bytes=moved,
            )


def _kind(memory: str) -> str:
    """Return the kind of question; copies that the host stages are one of their own, because no
    data sheet says how fast it is.
    """
    return "pageable" if memory == "pageable" else "transfers"


def fitted_line(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield B's copies, migrations or messages on the line fitted to A's, or the larger ones of a
    file on the line of the smaller ones.

    A line that is carried to another machine (``on_other = "machine"``) has its priors in the
    interval as well.
    """
    if question.text("on_other") not in ("", "machine"):
        raise error_of(
            "A417.machine", where=case.name, found=clipped(question.text("on_other"), 40)
        )
    points = data.points(data.path(case, case.a.file))
    from_class = tuple(
        question.text(f"from_{k}") or question.text(k) for k in ("direction", "memory")
    )
    fitted_points = _chosen(points, *from_class)
    limit = question.number("up_to")
    if limit is not None:
        fitted_points = fitted_points.filter(pl.col("size_bytes") <= limit)
    if fitted_points.height < 2:
        raise error_of(
            "A192.line",
            where=case.name,
            found=f"{fitted_points.height} points of {' '.join(from_class)}",
        )
    fit = fit_class(
        from_class[0],
        from_class[1],
        fitted_points["size_bytes"].to_numpy(),
        fitted_points["seconds"].to_numpy(),
    )
    kind = question.text("group") or (
        "messages"
        if fitted_points["direction"][0] in ("h2h", "network")
        else _kind(question.text("memory"))
    )
    if case.measured:
        for number in case.measured:
            if number.direction == question.text("direction"):
                yield _numbered(case, question, fit, number, kind)
        return
    theirs = _chosen(
        data.points(data.path(case, case.b.file or case.a.file)),
        question.text("direction"),
        question.text("memory"),
    )
    if limit is not None:
        theirs = theirs.filter(pl.col("size_bytes") > limit)
    if not theirs.height:
        raise error_of("A192.compared", where=case.name)
    size, actual = theirs["size_bytes"].to_numpy(), theirs["seconds"].to_numpy()
    by_decade = [
        np.bincount(_decades(size), weights=w, minlength=32) for w in (np.ones(len(size)), size)
    ]
    low, high = _line_interval(
        fit, by_decade[0], by_decade[1], _carried(question, question.text("direction"))
    )
    what = f"{question.text('direction')} {question.text('memory')}".strip()
    what += f", larger than {show(limit, 'B')}" if limit is not None else ""
    row, fitted, took_there, all_of = (
        partial(Row, case.name, kind),
        fit.seconds(size),
        float(actual.sum()),
        float(size.sum()),
    )
    off = wmape(actual, fitted) / 100.0
    yield row(
        question.model,
        what,
        "s",
        float(fitted.sum()),
        took_there,
        low,
        high,
        off,
        len(size),
        all_of,
    )
    moved, took = (
        float(fitted_points[column].to_numpy().sum()) for column in ("size_bytes", "seconds")
    )
    if moved > 0:
        mean = size * (took / moved)
        off = wmape(actual, mean) / 100.0
        yield row(
            "mean",
            what,
            "s",
            float(mean.sum()),
            took_there,
            wmape=off,
            count=len(size),
            size_bytes=all_of,
        )


def _chosen(points: pl.DataFrame, direction: str, memory: str) -> pl.DataFrame:
    rows = points.filter(pl.col("direction") == direction)
    return rows.filter(pl.col("memory") == memory) if memory else rows


def _decades(size: Float) -> Int:
    return np.floor(np.log10(np.maximum(size, 1.0))).astype(np.int64)


def _carried(question: Ask, direction: str) -> str:
    """Return what decides on another machine: its link, its host's staging, its devices; empty on
    the machine that the line is of.
    """
    if not question.text("on_other"):
        return ""
    if direction in ("d2d", "p2p"):
        return DEVICE if direction == "d2d" else PEER
    return (
        STAGED
        if question.text("memory") == "pageable" or direction.startswith("migration")
        else LINK
    )


def _line_interval(
    fit: LinkFit, count: NDArray[Any], size_bytes: NDArray[Any], carried: str = ""
) -> tuple[float, float]:
    """Return the 90 % interval of a sum over copies by size decade, from the errors of the fitted
    line, its scatter and another machine.
    """
    bandwidth = max(fit.bandwidth or 0.0, 0.0)
    latency = (
        fit.latency_s
        * np.exp(
            min(fit.latency_error / fit.latency_s, 1.0) * normals("validate/latency", DRAWS, SEED)
        )
        if fit.latency_s
        else 0.0
    )
    total = np.zeros(DRAWS)
    spread = min(fit.residual_spread, 0.7)
    per_byte = (
        0.0
        if not bandwidth
        else np.exp(
            min((fit.bandwidth_error or 0.0) / bandwidth, 0.7)
            * normals("validate/bandwidth", DRAWS, SEED)
        )
        / bandwidth
    )
    for decade in np.flatnonzero(count):
        scatter = np.exp(spread * normals(f"validate/form/1e{decade}", DRAWS, SEED))
        total = total + scatter * (count[decade] * latency + size_bytes[decade] * per_byte)
    if carried:
        z, fixed, moved = (
            normals(carried, DRAWS, SEED),
            count.sum() * latency,
            size_bytes.sum() * per_byte,
        )
        shares: dict[str, float] = {DEVICE: DEVICE_SHARE, PEER: PEER_SHARE, LINK: NODE_SHARE}
        share = shares.get(carried)
        # the fixed and the moving part become longer each in its own way; the line's scatter is on
        # top
        longer = np.exp(of_pair(STAGED_SPREAD) * z) if share is None else half_normal(z, share)
        late = np.exp(COPY_LATENCY_SD * normals(LATENCY, DRAWS, SEED))
        total = total * (fixed * late + moved * longer) / (fixed + moved)
    low, high = (float(q) for q in np.quantile(total, _TAILS))
    # a link is never faster than its line, so that the quantiles alone may leave out the line
    # itself
    stated = float(
        count.sum() * fit.latency_s + (size_bytes.sum() / bandwidth if bandwidth else 0.0)
    )
    return min(low, stated), max(high, stated)


def _numbered(case: Case, question: Ask, fit: LinkFit, number: Number, kind: str) -> Row:
    """Return a sum of copies that is known by its count, its bytes and its time alone: what a line
    needs.
    """
    if not number.count or not number.size_bytes:
        raise error_of("A192.copies", where=case.name, found=number.what)
    mean = np.array([number.size_bytes / number.count])
    decade = _decades(mean)
    count, total = (
        np.bincount(decade, weights=np.array([w]), minlength=32)
        for w in (float(number.count), number.size_bytes)
    )
    low, high = _line_interval(fit, count, total, _carried(question, number.direction))
    predicted = float(fit.seconds(mean)[0]) * number.count
    return Row(
        case.name,
        kind,
        question.model,
        number.what,
        "s",
        predicted,
        parse(number.value, "s"),
        low,
        high,
        None,
        number.count,
        number.size_bytes,
    )
