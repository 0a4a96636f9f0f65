"""A part of a recording (without start-up, a stretch of time, steps, an NVTX range or one rank) as
a `Trace` like any other.

An activity that crosses an edge of the stretch is cut there, so that the part is exactly as long as
the stretch.  A kernel keeps the time that lies inside.  A copy loses its size, since nothing tells
which of its bytes moved inside.  Tables that describe and do not record events (devices, streams,
ranks, communicators, nodes of graphs) are kept whole.  Memory that was allocated before the stretch
and not freed counts as allocated at its first instant.  A thread that ran on a core counts as put
there at that instant.  A side of an MPI exchange whose other side lies outside loses its
communicator, so that it cannot be paired with the next exchange.  Device work whose call lies
before the stretch loses its correlation id, because a later call may reuse the id.

Errors: A070, A421, A422, A423.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args, get_type_hints

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import tables, words
from turnbuckle.foundation.units import seconds_of
from turnbuckle.trace.bounds import DEVICE_TABLES, sound
from turnbuckle.trace.ids import process_number, process_of
from turnbuckle.trace.recorders import what_to_record
from turnbuckle.trace.trace import Trace

#: Tables that define the begin and end of a run.
_RUNS: Final = ("api", "kernels", "copies", "memsets", "graphs", "mpi")
_HOST: Final = ("os_calls", "ranges")
#: Tables whose times say since when something holds, so that no row leaves with the cut.
_LASTING: Final = ("mpi_communicators", "graph_nodes")
#: The fact that says how many bytes were copied between host and device before a part [B].
COPIED_BEFORE: Final = "copied_before_bytes"
_MOST_NAMES: Final = 5
_LONGEST_NAME: Final = 200

Numbers = Callable[[Trace], Int]
"""Function that numbers MPI exchanges: for every row of the table ``mpi``, shape (rows, 2), the exchanges (send or collective, receive)
that the row is a side of; -1 for none."""


Instant = Callable[[Trace], int | None]
"""Function that finds an instant of a recording [ns on its clock]; None where the recording does not show it."""

_STEPS: Final = ("ProfilerStep", "step", "iteration", "iter")
#: Numbered steps below which no time of a step is given.
MARKED: Final = 3

OPERATORS: Final = (1, 2)
"""Kinds of ranges that no program marks: operators of PyTorch, functions of Python."""


@dataclass(frozen=True)
class Part:
    """Selection of a part of a recording; all that is given must hold.

    Attributes
    ----------
    window_ns : begin and end [ns after the first instant of the run]; of the range, steps or `of`
        if one is given.
    span : name of an NVTX range; ``NAME#3`` is its third, ``NAME#3-5`` from the begin of the third
        to the end of the fifth.
    rank : one rank.
    steps : first and last number of the steps meant, as ``ProfilerStep#5`` of PyTorch's profiler or
        a range ``step 5``.
    of : ``whole``; ``steady``: without start-up; ``kernels``: from the first kernel's start to the
        last kernel's end; ``auto``: whole, and whoever asks may leave out a long start-up.
    """

    window_ns: tuple[int, int] | None = None
    span: str | None = None
    rank: int | None = None
    steps: tuple[int, int] | None = None
    of: Literal["auto", "whole", "steady", "kernels"] = "auto"

    @classmethod
    def parse(cls, text: str, rank: int | None = None) -> Part:
        """Return the part that ``--part`` names: ``auto``, ``whole``, ``steady``, ``kernels``,
        ``2s..3s``, ``step=5-9`` or ``nvtx=NAME``.

        Raises A070; U0xx for a time that cannot be parsed.

        >>> Part.parse("2s..3s").window_ns, Part.parse("step=5-9").steps, Part.parse("nvtx=solve#3").span, Part.parse("steady").of
        ((2000000000, 3000000000), (5, 9), 'solve#3', 'steady')
        """
        if text in get_args(get_type_hints(cls)["of"]):
            return cls(rank=rank, of=text)  # type: ignore[arg-type]  # one of these words
        key, equals, value = text.partition("=")
        if equals and key == "nvtx":
            return cls(span=value, rank=rank)
        if equals and key == "step":
            numbers = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", value)
            if numbers is None or int(numbers[2] or numbers[1]) < int(numbers[1]):
                raise error_of("A070.step", where="--part", found=clipped(text))
            return cls(steps=(int(numbers[1]), int(numbers[2] or numbers[1])), rank=rank)
        return cls(window_ns=_window_ns(text), rank=rank)

    @property
    def is_all(self) -> bool:
        """Return whether nothing of the time is left out."""
        stretch = (self.window_ns, self.span, self.steps)
        return stretch == (None, None, None) and self.of in ("auto", "whole")

    def __bool__(self) -> bool:
        return self.rank is not None or not self.is_all


def _window_ns(text: str) -> tuple[int, int]:
    """Return ``1.2s..1.3s`` as nanoseconds after the run's start.  Raises A070, and U0xx for a time
    that cannot be parsed.
    """
    first, dots, last = (end.strip() for end in text.partition(".."))
    if not (first and dots and last) or ".." in last:
        raise error_of("A070.form", where="--part", found=clipped(text))
    begin, end = (
        round(min(seconds_of(bound, "--part", "2s..3s"), 1e9) * 1e9) for bound in (first, last)
    )
    if begin < 0:
        raise error_of("A070.before", where="--part", found=clipped(text))
    if begin >= end:
        raise error_of("A070.order", where="--part", found=clipped(text))
    return begin, end


def cut(
    trace: Trace, part: Part, exchanges: Numbers | None = None, steady: Instant | None = None
) -> Trace:
    """Return a part of a recording, with its bounds in ``facts["part"]``.  Raises A070, A421, A422,
    A423.

    Parameters
    ----------
    trace : the recording; rows whose times cannot be trusted (`turnbuckle.trace.bounds.sound`) do
        not count for its begin.
    part : the selection.
    exchanges : function that numbers MPI exchanges; None treats each call alone.
    steady : function that finds the end of start-up; a part ``steady`` needs it.
    """
    if part.rank is not None:
        trace = of_rank(trace, part.rank)
    if part.is_all:
        return trace
    believed, set_aside = sound(trace.tables, trace.facts)
    trace = replace(
        trace,
        tables={n: f for n, f in believed.items() if f.height},
        findings=[*trace.findings, *set_aside],
    )
    first, last = run_ns(trace)
    bounds, kind = _bounds_ns(trace, part, (first, last), steady)
    if part.window_ns is not None:
        bounds = (
            max(bounds[0], bounds[0] + part.window_ns[0]),
            min(bounds[1], bounds[0] + part.window_ns[1]),
        )
    about = {
        "begin_ns": bounds[0] - first,
        "end_ns": bounds[1] - first,
        "of_ns": last - first,
        "bounds_ns": list(bounds),
        **kind,
    }
    stretch = (
        _within(trace, *bounds, bounds[1] >= last, about, exchanges)
        if bounds[0] < bounds[1]
        else None
    )
    if stretch is None or not any(name in stretch.has for name in (*_RUNS, *_HOST)):
        raise error_of(
            "A070.empty", where=trace.name, found=f"the run takes {(last - first) * 1e-9:.9g} s"
        )
    copied = _copied_bytes(trace, bounds[0]) + trace.facts.get(COPIED_BEFORE, 0)
    return replace(stretch, facts={**stretch.facts, COPIED_BEFORE: copied}) if copied else stretch


def _copied_bytes(trace: Trace, until_ns: int) -> int:
    """Return the bytes of the copies between host and device that begin before an instant."""
    between = pl.col("direction").is_in(
        [words("directions").index(word) for word in ("h2d", "d2h")]
    )
    return int(trace.copies.filter(between & (pl.col("start_ns") < until_ns))["size_bytes"].sum())


def _bounds_ns(
    trace: Trace, part: Part, run: tuple[int, int], steady: Instant | None
) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return begin and end of the stretch that a part names [ns], and its entry in
    ``facts["part"]``.
    """
    if part.of == "steady":
        end = None if steady is None else steady(trace)
        if end is None:
            raise error_of("A421.steady", where="--part", found="no kernel and no MPI_Init")
        return (end, run[1]), {"steady": True}
    if part.of == "kernels":
        bounds = kernels_ns(trace)
        if bounds is None:
            raise error_of(
                "A421.kernels", where="--part", found="none", fix=what_to_record("gpu", trace.facts)
            )
        return bounds, {"kernels": True}
    if part.steps is not None:
        return steps_ns(trace, *part.steps), {"steps": list(part.steps)}
    if part.span is not None:
        return span_ns(trace, part.span), {"nvtx": True}
    return run, {}


def kernels_ns(trace: Trace) -> tuple[int, int] | None:
    """Return the kernel window [ns]: first kernel's start, last kernel's end; None without
    kernels.
    """
    kernels = trace.kernels
    return (
        (int(kernels["start_ns"].to_numpy().min()), int(kernels["end_ns"].to_numpy().max()))
        if kernels.height
        else None
    )


def run_ns(trace: Trace) -> tuple[int, int]:
    """Return the first and last instant of a recording [ns]; (0, 0) where it holds no rows."""
    frames = [f for f in (trace.table(name) for name in _RUNS) if f.height] or [
        f.drop_nulls("end_ns") for f in (trace.table(name) for name in _HOST) if f.height
    ]
    frames = [f for f in frames if f.height]
    if not frames:
        return 0, 0
    return min(int(f["start_ns"].to_numpy().min()) for f in frames), max(
        int(f["end_ns"].to_numpy().max()) for f in frames
    )


# --- ranks ----------------------------------------------------------------------------------------


def processes_by_rank(trace: Trace) -> dict[int, list[int]]:
    """Return the processes of each rank.  Ranks come from MPI and from the tables of merged
    recordings, else from the file's own rank.
    """
    by_rank: dict[int, set[int]] = {}
    for thread, rank in trace.mpi_ranks.select("thread", "rank").iter_rows():
        by_rank.setdefault(rank, set()).add(process_of(thread))
    if "processes" in tables("trace"):
        for process, rank in (
            trace.table("processes").select("process", "rank").drop_nulls().iter_rows()
        ):
            by_rank.setdefault(rank, set()).add(process)
    if not by_rank and trace.facts.get("rank") is not None:
        by_rank[int(trace.facts["rank"])] = _processes(trace)
    return {rank: sorted(some) for rank, some in sorted(by_rank.items())}


def numbered_ranks(trace: Trace) -> dict[int, list[int]]:
    """Return `processes_by_rank`; of several processes without a rank, each by its place in the
    order of their numbers.
    """
    processes = sorted(_processes(trace))
    numbered = (
        {rank: [process] for rank, process in enumerate(processes)} if len(processes) > 1 else {}
    )
    return processes_by_rank(trace) or numbered


def _processes(trace: Trace) -> set[int]:
    out: set[int] = set()
    for name in trace.has:
        frame = trace.table(name)
        if "process" in frame.columns:
            out |= set(frame["process"].drop_nulls().unique().to_list())
        elif "thread" in frame.columns:
            out |= {process_of(t) for t in frame["thread"].drop_nulls().unique().to_list()}
    return out


def of_rank(trace: Trace, rank: int) -> Trace:
    """Return what one rank did.  Raises `UsageError` A423 where the recording does not name this
    rank.

    Where a recording of several processes names no rank, its processes are numbered (A551).  Rows
    that name no process stay where the recording holds no process of another rank.  Else they are
    set aside (P198), as are rows of processes without a rank.
    """
    stated = processes_by_rank(trace)
    by_rank = stated or numbered_ranks(trace)
    if rank not in by_rank:
        ranks = (
            f"ranks {', '.join(map(str, list(by_rank)[:8]))}{', ...' if len(by_rank) > 8 else ''}"
        )
        raise error_of(
            "A423.rank" if by_rank else "A423.alone",
            where=trace.name,
            found=ranks if by_rank else "no ranks are recorded",
            rank=rank,
        )
    processes = by_rank[rank]
    ranked = sorted({process for some in by_rank.values() for process in some})
    alone = _processes(trace) <= set(processes)
    kept, aside = {}, 0
    for name, frame in ((n, trace.table(n)) for n in trace.has):
        if "process" in frame.columns:
            process = pl.col("process")
        elif "thread" in frame.columns:
            process = process_of(pl.col("thread"))
        else:
            kept[name] = frame
            continue
        if not alone:
            aside += frame.select((~process.is_in(ranked)).fill_null(True).sum()).item()
        kept[name] = frame.filter(process.is_in(processes) | (process.is_null() & alone))
    if "mpi_communicators" in kept:
        kept["mpi_communicators"] = trace.mpi_communicators
    findings = [finding("P198", aside, f"rank {rank} kept")] if aside else []
    if not stated:
        findings.append(
            finding("A551", len(by_rank), f"rank {rank} is process {process_number(processes[0])}")
        )
    return _with(trace, kept, findings, {"rank": rank})


# --- NVTX ranges ----------------------------------------------------------------------------------


def span_ns(trace: Trace, selector: str) -> tuple[int, int]:
    """Return begin and end of an NVTX range [ns]; of ranges of one number on several threads, the
    first begin and the last end.

    Operators and functions are looked at only where the program marks nothing of that name.
    """
    ended = trace.ranges.filter(pl.col("end_ns").is_not_null())
    ended = ended.with_columns(text=trace.text(ended))
    by_program, meant = marked(ended), pl.col("text").is_in([selector, selector.rpartition("#")[0]])
    rows = next(
        (some for some in (by_program, ended) if some.filter(meant).height),
        by_program if by_program.height else ended,
    )
    name, first, last = selector, None, None
    numbered = re.fullmatch(r"(?s)(.*)#(\d{1,9})(?:-(\d{1,9}))?", selector)
    if numbered and not rows.filter(pl.col("text") == selector).height:
        name, first = numbered[1], int(numbered[2])
        last = int(numbered[3]) if numbered[3] else first
    ranges = rows.filter(pl.col("text") == name).sort("start_ns")
    if not ranges.height:
        names = rows["text"].drop_nulls().value_counts(sort=True)["text"].to_list()
        hint = did_you_mean(name[:_LONGEST_NAME], [n[:_LONGEST_NAME] for n in names[:10_000]])
        listed = ", ".join(clipped(n, 40) for n in names[:_MOST_NAMES])
        raise error_of(
            "A421.name",
            where="--part",
            found=clipped(name) + (f"; there are {listed}" if names else "; none at all"),
            fix=hint
            or (
                "one of the names in the recording"
                if names
                else f"{what_to_record('named', trace.facts)}, or give --part 2s..3s"
            ),
        )
    ranges = ranges.with_columns(number=pl.int_range(1, pl.len() + 1).over("thread"))
    most = int(ranges["number"].max())  # type: ignore[arg-type]
    if first is None and most > 1:
        raise error_of(
            "A422",
            where="--part",
            found=f"{most:,} on one thread",
            name=clipped(name, 40),
            most=most,
        )
    first, last = 1 if first is None else first, most if last is None else last
    chosen = ranges.filter(pl.col("number").is_between(first, last))
    if first > last or first < 1 or not chosen.height:
        raise error_of("A421.number", where="--part", found=clipped(selector), most=most)
    return int(chosen["start_ns"].min()), int(chosen["end_ns"].max())  # type: ignore[arg-type]


def marked(ranges: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges that the program marks, without the operators and functions that a profiler
    notes by itself.
    """
    return ranges.filter(~pl.col("kind").is_in(OPERATORS).fill_null(False))


def _step(word: str) -> str:
    return rf"(?i)^{word}[ #:_=-]*([0-9]{{1,9}})$"


def numbers_a_step(text: str) -> bool:
    """Return whether the name of a range numbers a step.

    >>> [numbers_a_step(text) for text in ("ProfilerStep#5", "Step 5", "step", "warm step 5")]
    [True, True, False, False]
    """
    return any(re.search(_step(word), text) for word in _STEPS)


def numbered_steps(trace: Trace) -> pl.DataFrame:
    """Return the ranges that number a step: number, start_ns, end_ns, name; empty where none does.

    A step is a range whose name is ``ProfilerStep``, ``step``, ``iteration`` or ``iter`` and a
    number: ``ProfilerStep#5``, ``Step 5``. The first of these words that occurs is taken, since a
    program that numbers steps and iterations counts two things.
    """
    rows = trace.ranges[["start_ns", "end_ns", "name"]]
    # most recordings number no step, and have fewer names than ranges
    if rows.height and trace.names.cast(pl.String).str.contains("|".join(map(_step, _STEPS))).any():
        texts = rows.with_columns(text=trace.text(rows)).drop_nulls("end_ns")
        for word in _STEPS:
            numbers = pl.col("text").str.extract(_step(word)).cast(pl.Int64)
            steps = texts.select("start_ns", "end_ns", "name", number=numbers).drop_nulls("number")
            if steps.height:
                return steps
    return rows.clear().with_columns(number=pl.lit(None, pl.Int64))


def step_times(trace: Trace) -> tuple[int, float, float] | None:
    """Return how many steps a recording numbers, the median and half the middle half of their times
    [s]; None where it numbers fewer than `MARKED`.
    """
    marked = numbered_steps(trace)
    if marked.height < MARKED:
        return None
    seconds = (marked["end_ns"] - marked["start_ns"]).to_numpy() * 1e-9
    low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75]).tolist()
    return marked.height, middle, (high - low) / 2


def steps_ns(trace: Trace, first: int, last: int) -> tuple[int, int]:
    """Return the begin of step `first` and the end of step `last` [ns]; of several threads, the
    first begin and the last end.
    """
    steps = numbered_steps(trace)
    if not steps.height:
        raise error_of(
            "A421.steps", where="--part", found="none", fix=what_to_record("named", trace.facts)
        )
    chosen = steps.filter(pl.col("number").is_between(first, last))
    if not chosen.height:
        lowest, highest = (int(n) for n in (steps["number"].min(), steps["number"].max()))  # type: ignore[arg-type]
        raise error_of(
            "A421.step",
            where="--part",
            found=f"steps {lowest} to {highest}",
            first=lowest,
            last=highest,
        )
    return int(chosen["start_ns"].min()), int(chosen["end_ns"].max())  # type: ignore[arg-type]


# --- a stretch of time ----------------------------------------------------------------------------


def _within(
    trace: Trace,
    first: int,
    last: int,
    closed: bool,
    about: dict[str, Any],
    exchanges: Numbers | None,
) -> Trace:
    """Return what happened from `first` to `last` [ns on the recording's clock], cut at both; an
    instant at `last` only if `closed`.
    """
    kept: dict[str, pl.DataFrame] = {}
    inside: dict[str, Bool] = {}
    cut_rows = 0
    until = last if closed else last - 1
    for name, frame in ((n, trace.table(n)) for n in trace.has):
        if name in _LASTING or not {"start_ns", "time_ns"} & set(frame.columns):
            kept[name] = frame
        elif name == "allocations":
            kept[name] = _held(frame, first, until)
        elif name == "scheduling":
            kept[name] = _on_core(frame, first, last, until)
        elif "start_ns" in frame.columns:
            overlaps = frame.select(_is_inside(first, last, until)).to_series()
            inside[name] = overlaps.to_numpy()
            kept[name], count = _clipped(frame.filter(overlaps), first, last)
            cut_rows += count * (name in _RUNS)
        else:
            kept[name] = frame.filter(
                pl.col("time_ns").is_null() | pl.col("time_ns").is_between(first, until)
            )
    ahead, beyond = _parted(trace, kept, inside)
    alone = (
        _apart(trace, kept, inside, exchanges(trace))
        if exchanges is not None and "mpi" in inside
        else 0
    )
    about |= {
        name: value
        for name, value in (("launched_before", ahead), ("graph_launches_beyond", beyond))
        if value
    }
    effects = {
        "cut at an edge": cut_rows,
        "whose call lies before the window: their launch cost is not in it": sum(ahead.values()),
        "MPI calls whose other side lies outside": alone,
    }
    count = sum(effects.values())
    findings = (
        [finding("P197", count, "; ".join(f"{n:,} {effect}" for effect, n in effects.items() if n))]
        if count
        else []
    )
    return _with(trace, {n: _in_order(f) for n, f in kept.items()}, findings, about)


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort a table by its start where the cut has changed the order: tables are in ascending order
    of their first times.
    """
    if "start_ns" not in frame.columns or frame["start_ns"].is_sorted():
        return frame
    return frame.sort("start_ns", maintain_order=True)


def _is_inside(first: int, last: int, until: int) -> pl.Expr:
    start, end = pl.col("start_ns"), pl.col("end_ns")
    instant = end.is_null() | (end <= start)
    return (
        pl.when(instant)
        .then(start.is_between(first, until))
        .otherwise((start < last) & (end > first))
    )


def _clipped(frame: pl.DataFrame, first: int, last: int) -> tuple[pl.DataFrame, int]:
    """Return the rows cut at the edges, in the order they had, and how many were cut."""
    start, end = pl.col("start_ns"), pl.col("end_ns")
    over = ((start < first) | (end > last)).fill_null(False)
    count = int(frame.select(over.sum()).item())
    if not count:
        return frame, 0
    sizes = [c for c in ("size_bytes", "receive_bytes") if c in frame.columns]
    # a mark has no end, and gets none
    begin, until = (
        pl.max_horizontal(start, first),
        pl.when(end.is_not_null()).then(pl.min_horizontal(end, last)),
    )
    kept = (pl.when(~over).then(c).alias(c) for c in sizes)
    return frame.with_columns(*kept, begin.alias("start_ns"), until.alias("end_ns")), count


def _parted(
    trace: Trace, kept: dict[str, pl.DataFrame], inside: dict[str, Bool]
) -> tuple[dict[str, int], int]:
    """Remove the correlation id of device work whose call lies before the stretch, and count graph
    launches whose work all lies behind it.

    Returns the number of rows that lost their id, by table, and the number of such graph launches.
    """
    if "api" not in inside:
        return {}, 0
    call_inside = inside["api"]
    ahead: dict[str, int] = {}
    started, starts_inside = (
        np.zeros(len(call_inside), dtype=np.bool_),
        np.zeros(len(call_inside), dtype=np.bool_),
    )
    pairs = trace.launch_pairs
    for name in DEVICE_TABLES:
        if name not in inside:
            continue
        row, call = (
            pairs.filter(pl.col("table") == name)[c].to_numpy() for c in ("row", "api_row")
        )
        started[call] = True
        starts_inside[call[inside[name][row]]] = True
        lone = np.zeros(len(inside[name]), dtype=np.bool_)
        lone[row[~call_inside[call]]] = True
        lone = lone[inside[name]]
        if lone.any():
            ahead[name] = int(lone.sum())
            kept[name] = kept[name].with_columns(
                correlation=pl.when(~pl.lit(pl.Series(lone))).then("correlation")
            )
    behind = trace.api.filter(pl.Series(started & call_inside & ~starts_inside))
    return ahead, int(
        trace.text(behind).str.contains("GraphLaunch", literal=True).sum()
    ) if behind.height else 0


def _apart(
    trace: Trace, kept: dict[str, pl.DataFrame], inside: dict[str, Bool], numbers: Int
) -> int:
    """Remove the communicator of MPI calls whose exchange does not lie inside as a whole; return
    how many there are.
    """
    numbered = numbers >= 0
    whole = inside["mpi"].copy()
    while True:
        outside = np.unique(numbers[numbered & ~whole[:, None]])
        # a Sendrecv that lost its message has no message to send either
        lost = whole & (numbered & np.isin(numbers, outside)).any(axis=1)
        if not lost.any():
            break
        whole &= ~lost
    alone = ~whole[inside["mpi"]]
    if alone.any():
        kept["mpi"] = kept["mpi"].with_columns(
            communicator=pl.when(~pl.lit(pl.Series(alone))).then("communicator")
        )
    return int(alone.sum())


def _held(frame: pl.DataFrame, first: int, until: int) -> pl.DataFrame:
    """Return allocations and releases inside; memory held when the stretch began counts as
    allocated then.
    """
    before = frame.filter(pl.col("time_ns") < first)
    state = (
        before.group_by("process", "address", maintain_order=True)
        .last()
        .filter(pl.col("operation") == 0)
    )
    carried = state.select(frame.columns).with_columns(
        time_ns=pl.lit(first, pl.Int64), correlation=pl.lit(None, pl.Int64)
    )
    return pl.concat([carried, frame.filter(pl.col("time_ns").is_between(first, until))])


def _on_core(frame: pl.DataFrame, first: int, last: int, until: int) -> pl.DataFrame:
    """Return thread switches inside; threads on a core when the stretch begins or ends get a switch
    there.
    """
    frame = frame.sort("time_ns", maintain_order=True)
    running = pl.col("running") == 1
    before = (
        frame.filter(pl.col("time_ns") < first)
        .group_by("thread", maintain_order=True)
        .last()
        .filter(running)
    )
    carried = before.select(frame.columns).with_columns(time_ns=pl.lit(first, pl.Int64))
    switches = pl.concat([carried, frame.filter(pl.col("time_ns").is_between(first, until))])
    left = switches.group_by("thread", maintain_order=True).last().filter(running)
    later = frame.filter(pl.col("time_ns") > until).select("thread").unique()
    taken = left.join(later, on="thread", how="semi", maintain_order="left").select(frame.columns)
    return pl.concat(
        [switches, taken.with_columns(time_ns=pl.lit(last, pl.Int64), running=pl.lit(0, pl.Int32))]
    )


def _with(
    trace: Trace, kept: dict[str, pl.DataFrame], findings: list[Finding], part: dict[str, Any]
) -> Trace:
    filled = {name: frame for name, frame in kept.items() if frame.height}
    about = {**trace.facts.get("part", {}), **part}
    return replace(
        trace,
        tables=filled,
        findings=[*trace.findings, *findings],
        facts={**trace.facts, "part": about},
    )
