"""What each question of a validation case predicts, beside what was measured.  One function a model; nothing is fitted to an answer.

datasheet    copies of B on B's data sheet, with (L+O) of A (AHEAD)                          `study.datasheet`
machine      copies of B on B's machine file, with A's staging of pageable memory (LogGP)    `model.nething`
line         copies, migrations or messages of B on the line fitted to A (LogGP)             `profile.transfers`
projection   A's run on B's machine: run time, kernels as a ratio, launches                  `study.study`
variant      a variant of a program from another, after one stated change                    `study.variants`
counts       variants of a program from one of them: its costs, their counts                 additive model
repeat       a run from a run of the same configuration: the floor of every error
rate         what a machine file says against what others measured there
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.errors import CannotAnswer, UsageError, clipped
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.machine.measured import LARGEST_BYTES, format_of, read_measured, split_part
from turnbuckle.model import Charge, nething
from turnbuckle.profile.pieces import Pieces
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.source import CALL_ERROR
from turnbuckle.profile.transfers import LinkFit, fit_class
from turnbuckle.study.cases import Ask, Case, Number
from turnbuckle.study.datasheet import project as on_sheet
from turnbuckle.study.datasheet import wmape
from turnbuckle.study.sheet import sheet
from turnbuckle.study.study import Answer, ask, inspect
from turnbuckle.study.transfers import Transfers, measured, recorded, words
from turnbuckle.study.uncertainty import DRAWS, LEVEL, SEED, alpha_spread, drawn_source, drawn_target, normals
from turnbuckle.study.variants import Costs, Part, by_sum, by_timeline, changed, costs, cut, line, prepare, without
from turnbuckle.trace.read import read
from turnbuckle.units import parse, show

Float = NDArray[np.float64]

#: Kinds of question, in the order of the card; words for people stand in `turnbuckle.study.validate`.
KINDS: Final = (
    "run time", "slack", "transfers", "pageable", "migrations", "messages", "rates", "launches", "launch counts", "kernels", "replay",
    "variants", "ranking", "noise",
)  # fmt: skip
#: Quantiles of a 90 % interval.
_TAILS: Final = ((1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2)
#: Standard normal quantile of the same.
_REACH: Final = 1.6448536269514722
#: Copies of so many bytes on average show a bandwidth rather than a latency.
LARGE_BYTES: Final = 1e6
_POINTS: Final = {"direction": pl.String, "memory": pl.String, "size_bytes": pl.Float64, "seconds": pl.Float64}


@dataclass(frozen=True)
class Row:
    """One quantity, predicted and measured.

    Attributes
    ----------
    case, kind, model, quantity : where it belongs and what it is.
    unit : of the values; empty for counts and ratios.
    predicted, measured : values; None for an order.
    low, high : the prediction's 90 % interval; None where the model states none.
    wmape : share of the measured time by which single activities are off, added up without sign; None where there is one value.
    count : activities, points or runs behind it.
    size_bytes : bytes behind a time of copies [B]; 0 otherwise.
    tau, p_value : of an order.
    """

    case: str
    kind: str
    model: str
    quantity: str
    unit: str
    predicted: float | None
    measured: float | None
    low: float | None = None
    high: float | None = None
    wmape: float | None = None
    count: int = 1
    size_bytes: float = 0.0
    tau: float | None = None
    p_value: float | None = None

    @property
    def error(self) -> float | None:
        """Predicted over measured, less 1."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1.0

    @property
    def off(self) -> float | None:
        """How far off, without sign: WMAPE where there are many activities, else the relative error."""
        return self.wmape if self.wmape is not None else None if self.error is None else abs(self.error)

    @property
    def covered(self) -> bool | None:
        """Whether the interval holds the measured value; None without an interval."""
        if self.low is None or self.high is None or self.measured is None:
            return None
        return self.low <= self.measured <= self.high


class Data:
    """The files of the cases, each read once."""

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self.seen = cache(self._seen)
        self.transfers = cache(self._transfers)
        self.points = cache(self._points)

    def path(self, case: Case, file: str) -> Path:
        """Where a file lies.  Raises CannotAnswer A192 where the case names none."""
        place = case.place(file, self.root) if file else None
        if place is None:
            raise CannotAnswer(
                "A192", "the case names no file for this question", where=case.name, fix='give [a] and [b] their file = "..."'
            )
        return place

    def _seen(self, path: Path, machine: str) -> Answer:
        return inspect(path, source=machine or None, use_cache=False)

    def _transfers(self, path: Path, machine: str, copied_size: float | None) -> tuple[Transfers, Machine | None]:
        """Copies of a recording, or of measured curves: the text tells."""
        if self._measured(path):
            return measured(read_measured(path, size_bytes=copied_size)), None
        seen = self.seen(path, machine)
        return recorded(seen.profile), seen.source

    def _measured(self, path: Path) -> bool:
        place, _ = split_part(path)
        if not place.is_file() or place.stat().st_size > LARGEST_BYTES:
            return False
        raw = place.read_bytes()
        return b"\x00" not in raw[:4096] and not raw.startswith(b"\x1f\x8b") and format_of(raw.decode("utf-8", "replace")) is not None

    def _points(self, path: Path) -> pl.DataFrame:
        """Direction, memory, size [B] and time [s] of every copy, migration, measured point, or turn of a ping-pong."""
        if self._measured(path):
            parts = [
                pl.DataFrame(
                    {"direction": c.direction, "memory": c.memory, "size_bytes": c.size_bytes, "seconds": c.seconds}, schema=_POINTS
                )
                for c in read_measured(path).curves
            ]
            return pl.concat(parts)
        profile = self.seen(path, "").profile
        if profile.trace.mpi.height and not profile.trace.copies.height:
            return ping_pong(profile)
        moved = pl.col("kind").cast(pl.String).str.starts_with("copy_") | (pl.col("kind") == "migration")
        return (
            profile.activities.filter(moved & (pl.col("size_bytes") > 0) & (pl.col("seconds") > 0))
            .sort("start_ns")
            .select(
                pl.col("direction").cast(pl.String), pl.col("memory").cast(pl.String).fill_null("unknown"),
                pl.col("size_bytes").cast(pl.Float64), "seconds",
            )
        )  # fmt: skip


def ping_pong(profile: Profile) -> pl.DataFrame:
    """Half the time from each send of the first rank to the end of its receive of as many bytes right after: one way of a ping-pong.

    Raises
    ------
    CannotAnswer : A192 where no send is answered so.
    """
    calls = profile.trace.mpi
    names = profile.trace.text(calls).to_list()
    frame = calls.with_columns(called=pl.Series([(n or "").removeprefix("P") for n in names])).sort("start_ns")
    first = frame.filter(pl.col("thread") == frame["thread"].min())
    turn = first.with_columns(
        then=pl.col("called").shift(-1),
        then_bytes=pl.coalesce("receive_bytes", "size_bytes").shift(-1),
        returned_ns=pl.col("end_ns").shift(-1),
    )
    pairs = turn.filter((pl.col("called") == "MPI_Send") & (pl.col("then") == "MPI_Recv") & (pl.col("size_bytes") == pl.col("then_bytes")))
    if not pairs.height:
        raise CannotAnswer(
            "A192", "no ping-pong in the recording", where=profile.trace.name, found=f"{calls.height} MPI calls",
            cause="a send of the first rank, then its receive of as many bytes, was looked for", fix="record a ping-pong between two ranks",
        )  # fmt: skip
    return pairs.select(
        direction=pl.lit("h2h"), memory=pl.lit("unknown"), size_bytes=pl.col("size_bytes").cast(pl.Float64),
        seconds=(pl.col("returned_ns") - pl.col("start_ns")) * 0.5e-9,
    ).filter(pl.col("size_bytes") > 0)  # fmt: skip


# --- transfers ----------------------------------------------------------------------------------------------------------


def datasheet(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Copies of B on its data sheet, with (L+O) of A; the interval is what (L+O) may be there and does not judge the method."""
    size = question.number("copied_size")
    here, machine = data.transfers(data.path(case, case.a.file), case.a.machine, size)
    there, _ = data.transfers(data.path(case, case.b.file), case.b.machine, size)
    on = sheet(
        question.text("on"), source=machine, host_memory=question.number("host_memory"), device_memory=question.number("device_memory")
    )
    found = on_sheet(here, on, there, all_of_there=True)
    for total in found.totals[:-1]:
        which = (total.direction, total.memory, "projected")
        error = next(e for e in found.errors if (e.direction, e.memory, e.approach) == which)
        yield Row(
            case.name, _kind(total.memory), question.model, f"{words((total.direction, total.memory))} on {on.name}", "s", total.projected,
            error.actual, total.low, total.high, error.wmape / 100.0, total.count, float(total.size_bytes),
        )  # fmt: skip


def machine_file(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Copies of B priced on B's machine file: the link's own line, and what pageable memory cost beyond its link on A.

    The interval is from the errors of both machines' numbers and the scatter of A's copies about their line.
    """
    seen = data.seen(data.path(case, case.a.file), case.a.machine)
    there, _ = data.transfers(data.path(case, case.b.file), case.b.machine, None)
    declared = load(question.text("on"))
    pair = Pair(seen.source, declared)
    source = drawn_source(seen.source)
    target = drawn_target(declared, pair.target, source)
    found = False
    for which in there.classes:
        charge = _copies_charge(which[0])
        run = _as_pieces(there.of(which))
        single = charge.seconds(run, pair.target, seen.source) if charge else None
        drawn = charge.seconds(run, target, source) if charge else None
        if single is None or drawn is None:
            continue
        found = True
        drawn = np.broadcast_to(drawn, (DRAWS, len(run))) * _form(seen.fits.get(which), which, run.size_bytes, DRAWS)
        low, high = (float(q) for q in np.quantile((drawn * run.count).sum(axis=-1), _TAILS))
        actual = there.of(which)["seconds"].to_numpy()
        yield Row(
            case.name, _kind(which[1]), question.model, f"{words(which)} on {declared.name}", "s", float(single.sum()), float(actual.sum()),
            low, high, wmape(actual, single) / 100.0, len(actual), float(run.size_bytes.sum()),
        )  # fmt: skip
    if not found:
        raise CannotAnswer(
            "A192", "no copies that both machines can price", where=case.name, found=", ".join(words(c) for c in there.classes),
            cause="the method needs the link's bandwidth on both sides and a fixed part of a copy on A", fix="ask another model",
        )  # fmt: skip


def _kind(memory: str) -> str:
    """Copies that the host stages are a question of their own: no data sheet says how fast it does."""
    return "pageable" if memory == "pageable" else "transfers"


def _copies_charge(direction: str) -> Charge | None:
    return next((c for c in nething().charges if c.name == f"copy_{direction}"), None)


def _as_pieces(rows: pl.DataFrame) -> Pieces:
    """Copies as pieces of one activity each."""
    many, direction = rows.height, rows["direction"].to_list()
    text = np.full(many, "", dtype=object)
    return Pieces(
        kind=np.array([f"copy_{d}" for d in direction], dtype=object), category=np.full(many, "copy", dtype=object), call_class=text,
        direction=np.array(direction, dtype=object), memory=np.array(rows["memory"].to_list(), dtype=object),
        idle_device=np.zeros(many, dtype=np.bool_), size_bytes=rows["size_bytes"].to_numpy(), count=np.ones(many),
        seconds=rows["seconds"].to_numpy(), exposed_seconds=rows["seconds"].to_numpy(), tail_count=np.zeros(many),
    )  # fmt: skip


def _form(fit: LinkFit | None, which: tuple[str, str], size_bytes: Float, draws: int) -> Float:
    """Factors of the line's own scatter, one a size decade as in `study.uncertainty`, shape (draws, copies)."""
    if fit is None:
        return np.ones((draws, 1))
    decade = np.floor(np.log10(np.maximum(size_bytes, 1.0))).astype(int)
    spread = min(fit.residual_spread, 0.7)
    one = {d: np.exp(spread * normals(f"form/copy_{which[0]}/{which[1]}/1e{d}", draws, SEED)) for d in np.unique(decade).tolist()}
    return np.stack([one[d] for d in decade.tolist()], axis=1)


def fitted_line(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """B's copies, migrations or messages on the line fitted to A's, or the larger ones of a file on the line of the smaller ones."""
    points = data.points(data.path(case, case.a.file))
    from_class = tuple(question.text(f"from_{k}") or question.text(k) for k in ("direction", "memory"))
    mine = _chosen(points, *from_class)
    limit = question.number("up_to")
    if limit is not None:
        mine = mine.filter(pl.col("size_bytes") <= limit)
    if mine.height < 2:
        raise CannotAnswer(
            "A192", "nothing to fit a line to", where=case.name, found=f"{mine.height} points of {' '.join(from_class)}",
            fix="name another direction or memory",
        )  # fmt: skip
    fit = fit_class(from_class[0], from_class[1], mine["size_bytes"].to_numpy(), mine["seconds"].to_numpy())
    kind = question.text("group") or ("messages" if mine["direction"][0] in ("h2h", "network") else _kind(question.text("memory")))
    if case.measured:
        for number in case.measured:
            if number.direction == question.text("direction"):
                yield _numbered(case, question, fit, number, kind)
        return
    theirs = _chosen(data.points(data.path(case, case.b.file or case.a.file)), question.text("direction"), question.text("memory"))
    if limit is not None:
        theirs = theirs.filter(pl.col("size_bytes") > limit)
    if not theirs.height:
        raise CannotAnswer("A192", "nothing to compare the line with", where=case.name, fix="name another direction or memory")
    size, actual = theirs["size_bytes"].to_numpy(), theirs["seconds"].to_numpy()
    low, high = _line_interval(fit, np.bincount(_decades(size), minlength=32), np.bincount(_decades(size), weights=size, minlength=32))
    what = f"{question.text('direction')} {question.text('memory')}".strip()
    what += f", larger than {show(limit, 'B')}" if limit is not None else ""
    yield Row(
        case.name, kind, question.model, what, "s", float(fit.seconds(size).sum()), float(actual.sum()), low, high,
        wmape(actual, fit.seconds(size)) / 100.0, len(size), float(size.sum()),
    )  # fmt: skip


def _chosen(points: pl.DataFrame, direction: str, memory: str) -> pl.DataFrame:
    rows = points.filter(pl.col("direction") == direction)
    return rows.filter(pl.col("memory") == memory) if memory else rows


def _decades(size: Float) -> NDArray[np.int64]:
    return np.floor(np.log10(np.maximum(size, 1.0))).astype(np.int64)


def _line_interval(fit: LinkFit, count: NDArray[Any], size_bytes: NDArray[Any]) -> tuple[float, float]:
    """90 % interval of a sum over copies, given by size decade, from the errors of the fitted line and its scatter."""
    known = max(fit.bandwidth or 0.0, 0.0)
    latency = (
        fit.latency_s * np.exp(min(fit.latency_error / fit.latency_s, 1.0) * normals("validate/latency", DRAWS, SEED))
        if fit.latency_s
        else 0.0
    )
    total = np.zeros(DRAWS)
    spread = min(fit.residual_spread, 0.7)
    per_byte = (
        0.0 if not known else np.exp(min((fit.bandwidth_error or 0.0) / known, 0.7) * normals("validate/bandwidth", DRAWS, SEED)) / known
    )
    for decade in np.flatnonzero(count):
        scatter = np.exp(spread * normals(f"validate/form/1e{decade}", DRAWS, SEED))
        total = total + scatter * (count[decade] * latency + size_bytes[decade] * per_byte)
    low, high = (float(q) for q in np.quantile(total, _TAILS))
    return low, high


def _numbered(case: Case, question: Ask, fit: LinkFit, number: Number, kind: str) -> Row:
    """A sum of copies that is known by its count, its bytes and its time alone: what a line needs."""
    if not number.count or not number.size_bytes:
        raise CannotAnswer(
            "A192", "a sum of copies needs its count and its size", where=case.name, found=number.what, fix="count = ..., size = ..."
        )
    mean = np.array([number.size_bytes / number.count])
    decade = _decades(mean)
    count, total = (np.bincount(decade, weights=np.array([w]), minlength=32) for w in (float(number.count), number.size_bytes))
    low, high = _line_interval(fit, count, total)
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


# --- runs ---------------------------------------------------------------------------------------------------------------


def projection(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """A's run on B's machine, as `turnbuckle project` says it: run time, kernels as a stated ratio, launches."""
    here = data.seen(data.path(case, case.a.file), case.a.machine)
    there = data.seen(data.path(case, case.b.file), case.b.machine)
    word = question.text("alpha") or "flop"
    if word not in _ALPHAS:
        raise UsageError(
            "A417", "no ratio of kernels is called that", where=case.name, found=clipped(word, 40), fix=f"one of {', '.join(_ALPHAS)}"
        )
    model = replace(nething(word), replay="auto")
    answer = ask(here, [question.text("on")], model=model)
    (found,), (declared,) = answer.projections, answer.targets
    low, high = (found.interval.low, found.interval.high) if found.interval else (None, None)
    by = "" if word == "flop" else f", kernels by {word}"
    called = question.model + by
    yield Row(case.name, "run time", called, f"run time{by}", "s", found.seconds, there.profile.seconds, low, high)
    kernels = [float(side.profile.of("kernel")["seconds"].sum()) for side in (here, there)]
    if found.alpha and kernels[1] > 0:
        spread = float(np.exp(_REACH * alpha_spread(Pair(here.source, declared), model)))
        name = f"kernel time, A over B{by}"
        yield Row(
            case.name, "kernels", called, name, "", found.alpha, kernels[0] / kernels[1], found.alpha / spread, found.alpha * spread,
            count=there.profile.of("kernel").height,
        )  # fmt: skip
    if word != "flop":
        return
    target = Pair(here.source, declared).target
    for name in ("launch.call", "launch.latency"):
        told, seen = target.get(name) or here.source.get(name), there.source.get(name)
        if told is None or seen is None or seen.source.partition(":")[0] != "this profile":
            continue
        reach = float(np.exp(_REACH * max(told.error, CALL_ERROR)))
        kept = "" if target.get(name) else ", kept from A"
        yield Row(
            case.name, "launches", question.model, f"{_LAUNCHES[name]}{kept}", "s", told.value, seen.value,
            told.value / reach, told.value * reach,
            count=there.profile.of("launch").height,
        )  # fmt: skip
    yield Row(
        case.name, "launch counts", question.model, "number of launches", "", float(here.profile.of("launch").height),
        float(there.profile.of("launch").height),
    )  # fmt: skip


_ALPHAS: Final = ("flop", "memory", "hold")
_LAUNCHES: Final = {"launch.call": "length of a launch call, median", "launch.latency": "launch to kernel on an idle device, median"}


def variant(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """The part of B that uses the GPU from that of A, after one stated change (`docs/validation.md`).

    Where the change takes mean times of single activities from B, only the replay is tested; the kind says so.
    """
    number = question.given.get("phase")
    first, second = (data.path(case, side.file) for side in (case.a, case.b))

    def part_of(path: Path) -> Part:
        try:
            return prepare(cut(read(path, use_cache=False), int(number) if number is not None else None))
        except ValueError as error:
            raise CannotAnswer(
                "A192", "no such part of the recording", where=case.name, found=str(error), fix="another phase, or none"
            ) from None

    part, target = part_of(first), part_of(second)
    removed = question.text("removed")
    if removed:
        if removed not in part.key:
            raise CannotAnswer("A192", "no call of that name to take out", where=case.name, found=clipped(removed), fix="a host call of A")
        part = without(part, removed)
    old = costs(part)
    taken = bool(question.words("states")) and not question.text("other")
    new = costs(target) if taken else Costs()
    if question.text("other"):
        sizes = [float(parse(s, "1")) for s in question.words("sizes")]
        if len(sizes) != 3 or len(set(sizes[:2])) != 2:
            raise UsageError(
                "A417", "a line needs the sizes of the other run, of A and of B", where=case.name, fix='sizes = ["1", "2", "4"]'
            )
        new = line(costs(part_of(data.path(case, question.text("other")))), old, *sizes)
    change = changed(part, old, new, frozenset(question.words("states")))
    timeline, summed = by_timeline(part, change), by_sum(part, old, change)[0]
    phase = f", phase {number}" if number is not None else ""
    kind = "replay" if taken else "variants"
    for name, seconds in (("timeline", timeline), ("sum", summed)):
        yield Row(case.name, kind, name, f"part that uses the GPU{phase}, {name}", "s", seconds, target.seconds)


def counts(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Variants of a program: A's exposed time per activity of each kind, times the variant's count; then their order."""
    first = data.seen(data.path(case, case.a.file), case.a.machine).profile
    price = {kind: exposed / many for kind, (many, exposed) in _by_kind(first).items() if many}
    predicted, actual = [_priced(first, price)], [_priced(first, price)]
    for file in question.words("variants"):
        profile = data.seen(data.path(case, file), case.a.machine).profile
        seconds, measured_seconds = _priced(profile, price), sum(s for k, (_, s) in _by_kind(profile).items())
        predicted.append(seconds)
        actual.append(measured_seconds)
        name = f"{Path(file).parent.name}: run time without allocations"
        yield Row(case.name, "variants", question.model, name, "s", seconds, measured_seconds)
    if len({*predicted}) < 2 or len({*actual}) < 2 or len(actual) < 3:
        return  # two, or all alike, are in no order
    from scipy.stats import kendalltau

    tau = kendalltau(predicted, actual)
    yield Row(
        case.name, "ranking", question.model, f"order of {len(actual)} variants by run time", "", None, None, count=len(actual),
        tau=float(tau.statistic), p_value=float(tau.pvalue),
    )  # fmt: skip


def _by_kind(profile: Profile) -> dict[str, tuple[int, float]]:
    """Count and exposed time [s] by kind; allocations set a run up and are left out."""
    rows = profile.activities.filter(pl.col("kind") != "alloc").group_by("kind").agg(pl.len(), pl.col("exposed_ns").sum())
    return {str(kind): (int(many), float(exposed) * 1e-9) for kind, many, exposed in rows.rows()}


def _priced(profile: Profile, price: Mapping[str, float]) -> float:
    return sum(many * price.get(kind, 0.0) for kind, (many, _) in _by_kind(profile).items())


def repeat(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """A run of one configuration as the prediction of another: what no model can beat."""
    first = data.seen(data.path(case, case.a.file), case.a.machine).profile
    for file in (*([case.b.file] if case.b.file else []), *question.words("others")):
        second = data.seen(data.path(case, file), case.a.machine).profile
        which = f" ({Path(file.rpartition('::')[2]).name.partition('.')[0]})" if question.words("others") else ""
        yield Row(case.name, "noise", question.model, f"run time{which}", "s", first.seconds, second.seconds)
        for kind, name in (("kernel", "kernel time"), ("launch", "time of launch calls"), ("copy_h2d", "time of h2d copies")):
            mine, theirs = (p.of(kind) for p in (first, second))
            if mine.height and mine.height == theirs.height:
                yield Row(
                    case.name, "noise", question.model, f"{name}{which}", "s", float(mine["seconds"].sum()), float(theirs["seconds"].sum()),
                    count=theirs.height,
                )  # fmt: skip


def rate(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """A machine file's bandwidth, times the share of it that is reached, against what others measured there."""
    machine = load(question.text("on"))
    for number in case.measured:
        parts = [machine.get(f"{_RATES[number.direction]}{word}") for word in _WORDS] if number.direction in _RATES else []
        known = [p for p in parts if p is not None]
        if len(known) != len(_WORDS):
            raise CannotAnswer(
                "A192", "the machine file does not say that", where=machine.name, found=number.direction or "no direction",
                cause=f"directions: {', '.join(_RATES)}", fix="name another machine or direction",
            )  # fmt: skip
        value = float(np.prod([p.value for p in known]))
        reach = float(np.exp(_REACH * np.sqrt(sum(p.error**2 for p in known))))
        yield Row(
            case.name, "rates", question.model, f"{number.what} on {machine.name}", "B/s", value, parse(number.value, "B/s"), value / reach,
            value * reach,
        )  # fmt: skip


_RATES: Final = {"h2d": "link.h2d.", "d2h": "link.d2h.", "p2p": "link.p2p.", "memory": "gpu.memory_"}
_WORDS: Final = ("bandwidth", "efficiency")

MODELS: Final[dict[str, Callable[[Case, Ask, Data], Iterator[Row]]]] = {
    "datasheet": datasheet, "machine": machine_file, "line": fitted_line, "projection": projection, "variant": variant, "counts": counts,
    "repeat": repeat, "rate": rate,
}  # fmt: skip
