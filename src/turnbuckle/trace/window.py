"""A part of a recording: a stretch of time, an NVTX range, one rank; a `Trace` like any other.

What straddles an edge of the stretch is cut there, so that the part is exactly as long as the stretch: a kernel keeps the time
that lies inside; a copy loses its size, since nothing tells which of its bytes moved inside.  What says how things are, and not
when something happens (devices, streams, ranks, communicators, nodes of graphs), is kept; memory that was allocated before and
not freed is allocated at the first instant, and a thread that was on a core is put there then.  What one side of the edge shows of
an exchange has no communicator any more, so that it is not taken for half of the next one; work whose call lies before the stretch
has no correlation id, which a later call may have again.

Errors:

    A070  a stretch without anything in it
    A421  no NVTX range of that name
    A422  a name that several ranges have
    A423  a rank that the recording does not have, or does not name
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.errors import UsageError, clipped, did_you_mean
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import tables
from turnbuckle.trace.check import DEVICE_TABLES, sound
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.recorders import what_to_record
from turnbuckle.trace.trace import Trace

#: What runs, as far as a run's begin and end are concerned.
_RUNS: Final = ("api", "kernels", "copies", "memsets", "graphs", "mpi")
_HOST: Final = ("os_calls", "ranges")
#: What says how things are; times in them say since when.
_LASTING: Final = ("mpi_communicators", "graph_nodes")
_MOST_NAMES: Final = 5
_LONGEST_NAME: Final = 200

Numbers = Callable[[Trace], NDArray[np.int64]]
"""For every row of the table ``mpi`` the numbers of the exchanges it is a side of: (send or collective, receive), -1 for none."""


@dataclass(frozen=True)
class Part:
    """Which part of a recording is meant; all that is given must hold.

    Attributes
    ----------
    window_ns : begin and end [ns after the first instant of the run]; of an NVTX range if one is named.
    span : name of an NVTX range; ``NAME#3`` is its third, ``NAME#3-5`` from the begin of the third to the end of the fifth.
    rank : one rank.
    """

    window_ns: tuple[int, int] | None = None
    span: str | None = None
    rank: int | None = None

    def __bool__(self) -> bool:
        return self != Part()


def cut(trace: Trace, part: Part, exchanges: Numbers | None = None) -> Trace:
    """The part of a recording, with its bounds in ``facts["part"]``.

    Parameters
    ----------
    trace : the recording; rows whose times cannot be trusted (`turnbuckle.trace.check.sound`) have no say in where it begins.
    part : what is asked for.
    exchanges : which MPI calls belong together; None takes each for itself.

    Raises
    ------
    UsageError : A070, A421, A422, A423.
    """
    if part.rank is not None:
        trace = of_rank(trace, part.rank)
    if part.span is None and part.window_ns is None:
        return trace
    believed, set_aside = sound(trace.tables, trace.facts)
    trace = replace(trace, tables={n: f for n, f in believed.items() if f.height}, findings=[*trace.findings, *set_aside])
    first, last = run_ns(trace)
    bounds = (first, last)
    if part.span is not None:
        bounds = span_ns(trace, part.span)
    if part.window_ns is not None:
        bounds = max(bounds[0], bounds[0] + part.window_ns[0]), min(bounds[1], bounds[0] + part.window_ns[1])
    about = {"begin_ns": bounds[0] - first, "end_ns": bounds[1] - first, "of_ns": last - first, "bounds_ns": list(bounds)}
    about |= {"nvtx": True} if part.span else {}
    cut_to = _within(trace, *bounds, bounds[1] >= last, about, exchanges) if bounds[0] < bounds[1] else None
    if cut_to is None or not any(name in cut_to.has for name in (*_RUNS, *_HOST)):
        raise UsageError(
            "A070", "nothing was recorded in the window", where=trace.name, found=f"the run takes {(last - first) * 1e-9:.9g} s",
            fix="a window reads START:END in time after the first instant of the run (of the NVTX range): 1.2s:1.3s",
        )  # fmt: skip
    return cut_to


def run_ns(trace: Trace) -> tuple[int, int]:
    """First and last instant of what a recording holds [ns]; (0, 0) where it holds nothing."""
    frames = [f for f in (trace.table(name) for name in _RUNS) if f.height] or [
        f.drop_nulls("end_ns") for f in (trace.table(name) for name in _HOST) if f.height
    ]
    frames = [f for f in frames if f.height]
    if not frames:
        return 0, 0
    return min(int(f["start_ns"].to_numpy().min()) for f in frames), max(int(f["end_ns"].to_numpy().max()) for f in frames)


# --- ranks ------------------------------------------------------------------------------------------------------------


def processes_by_rank(trace: Trace) -> dict[int, list[int]]:
    """Processes of each rank, as far as the recording names ranks: by MPI, by the tables of merged recordings, by the file's own rank."""
    known: dict[int, set[int]] = {}
    for thread, rank in trace.mpi_ranks.select("thread", "rank").iter_rows():
        known.setdefault(rank, set()).add(process_of(thread))
    if "processes" in tables("trace"):
        for process, rank in trace.table("processes").select("process", "rank").drop_nulls().iter_rows():
            known.setdefault(rank, set()).add(process)
    if not known and trace.facts.get("rank") is not None:
        known[int(trace.facts["rank"])] = _processes(trace)
    return {rank: sorted(some) for rank, some in sorted(known.items())}


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
    """What one rank did.

    Rows that name no process stay where there is no other process.  Where there is, they are set aside (P198), as those of
    processes without a rank are.
    """
    known = processes_by_rank(trace)
    if rank not in known:
        told = f"ranks {', '.join(map(str, list(known)[:8]))}{', ...' if len(known) > 8 else ''}" if known else "no ranks are recorded"
        raise UsageError(
            "A423", f"the recording has no rank {rank}", where=trace.name, found=told,
            cause="" if known else "it was made without MPI and does not say which rank it is of",
            fix="one of these ranks" if known else "leave --rank out, or merge the ranks' recordings with turnbuckle merge",
        )  # fmt: skip
    mine = known[rank]
    ranked = sorted({process for some in known.values() for process in some})
    alone = _processes(trace) <= set(mine)
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
        kept[name] = frame.filter(process.is_in(mine) | (process.is_null() & alone))
    if "mpi_communicators" in kept:
        kept["mpi_communicators"] = trace.mpi_communicators
    found = [finding("P198", aside, f"rank {rank} kept")] if aside else []
    return _with(trace, kept, found, {"rank": rank})


# --- NVTX ranges ------------------------------------------------------------------------------------------------------


def span_ns(trace: Trace, asked: str) -> tuple[int, int]:
    """Begin and end of an NVTX range [ns]; where every thread has one of that number, from the first begin to the last end."""
    rows = trace.ranges.filter(pl.col("end_ns").is_not_null())
    rows = rows.with_columns(text=trace.text(rows))
    name, first, last = asked, None, None
    numbered = re.fullmatch(r"(?s)(.*)#(\d{1,9})(?:-(\d{1,9}))?", asked)
    if numbered and not rows.filter(pl.col("text") == asked).height:
        name, first = numbered[1], int(numbered[2])
        last = int(numbered[3]) if numbered[3] else first
    mine = rows.filter(pl.col("text") == name).sort("start_ns")
    if not mine.height:
        names = rows["text"].drop_nulls().value_counts(sort=True)["text"].to_list()
        near = did_you_mean(name[:_LONGEST_NAME], [n[:_LONGEST_NAME] for n in names[:10_000]])
        listed = ", ".join(clipped(n, 40) for n in names[:_MOST_NAMES])
        raise UsageError(
            "A421", "no NVTX range has that name", where="--nvtx",
            found=clipped(name) + (f"; there are {listed}" if names else "; none at all"),
            fix=near or ("one of the names in the recording" if names else f"{what_to_record('named', trace.facts)}, or give --window"),
        )  # fmt: skip
    mine = mine.with_columns(number=pl.int_range(1, pl.len() + 1).over("thread"))
    most = int(mine["number"].max())  # type: ignore[arg-type]
    if first is None and most > 1:
        raise UsageError(
            "A422", "several NVTX ranges have that name", where="--nvtx", found=f"{most:,} on one thread",
            fix=f'"{clipped(name, 40)}#1" is the first, "{clipped(name, 40)}#1-{most}" reaches from the first to the last',
        )  # fmt: skip
    first, last = 1 if first is None else first, most if last is None else last
    chosen = mine.filter(pl.col("number").is_between(first, last))
    if first > last or first < 1 or not chosen.height:
        raise UsageError(
            "A421", "no NVTX range has that number", where="--nvtx", found=clipped(asked), fix=f"numbers reach from 1 to {most:,}"
        )
    return int(chosen["start_ns"].min()), int(chosen["end_ns"].max())  # type: ignore[arg-type]


# --- a stretch of time ------------------------------------------------------------------------------------------------


def _within(trace: Trace, first: int, last: int, closed: bool, about: dict[str, Any], exchanges: Numbers | None) -> Trace:
    """What happened from `first` to `last` [ns on the recording's clock], cut at both; an instant at `last` only if `closed`."""
    kept: dict[str, pl.DataFrame] = {}
    inside: dict[str, NDArray[np.bool_]] = {}
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
            here = frame.select(_is_inside(first, last, until)).to_series()
            inside[name] = here.to_numpy()
            kept[name], count = _clipped(frame.filter(here), first, last)
            cut_rows += count * (name in _RUNS)
        else:
            kept[name] = frame.filter(pl.col("time_ns").is_null() | pl.col("time_ns").is_between(first, until))
    ahead, beyond = _parted(trace, kept, inside)
    alone = _apart(trace, kept, inside, exchanges(trace)) if exchanges is not None and "mpi" in inside else 0
    about |= {name: told for name, told in (("launched_before", ahead), ("graph_launches_beyond", beyond)) if told}
    said = (
        (cut_rows, "cut at an edge"), (sum(ahead.values()), "whose call lies before the window: their launch cost is not in it"),
        (alone, "MPI calls whose other side lies outside"),
    )  # fmt: skip
    count = sum(n for n, _ in said)
    found = [finding("P197", count, "; ".join(f"{n:,} {what}" for n, what in said if n))] if count else []
    return _with(trace, {n: _in_order(f) for n, f in kept.items()}, found, about)


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Tables are in ascending order of their first times, before a cut and after."""
    if "start_ns" not in frame.columns or frame["start_ns"].is_sorted():
        return frame
    return frame.sort("start_ns", maintain_order=True)


def _is_inside(first: int, last: int, until: int) -> pl.Expr:
    start, end = pl.col("start_ns"), pl.col("end_ns")
    instant = end.is_null() | (end <= start)
    return pl.when(instant).then(start.is_between(first, until)).otherwise((start < last) & (end > first))


def _clipped(frame: pl.DataFrame, first: int, last: int) -> tuple[pl.DataFrame, int]:
    """Rows cut at the edges, in the order they had, and how many were cut."""
    start, end = pl.col("start_ns"), pl.col("end_ns")
    over = ((start < first) | (end > last)).fill_null(False)
    count = int(frame.select(over.sum()).item())
    if not count:
        return frame, 0
    sizes = [c for c in ("size_bytes", "receive_bytes") if c in frame.columns]
    # a mark has no end, and gets none
    begin, until = pl.max_horizontal(start, first), pl.when(end.is_not_null()).then(pl.min_horizontal(end, last))
    kept = (pl.when(~over).then(c).alias(c) for c in sizes)
    return frame.with_columns(*kept, begin.alias("start_ns"), until.alias("end_ns")), count


def _parted(trace: Trace, kept: dict[str, pl.DataFrame], inside: dict[str, NDArray[np.bool_]]) -> tuple[dict[str, int], int]:
    """Work whose call lies before the stretch loses the call's id; and graph launches of the stretch whose work lies all behind it.

    Returns how many there are, of the first by table.
    """
    if "api" not in inside:
        return {}, 0
    call_inside = inside["api"]
    ahead: dict[str, int] = {}
    started, starts_here = np.zeros(len(call_inside), dtype=np.bool_), np.zeros(len(call_inside), dtype=np.bool_)
    pairs = trace.launch_pairs
    for name in DEVICE_TABLES:
        if name not in inside:
            continue
        row, call = (pairs.filter(pl.col("table") == name)[c].to_numpy() for c in ("row", "api_row"))
        started[call] = True
        starts_here[call[inside[name][row]]] = True
        lone = np.zeros(len(inside[name]), dtype=np.bool_)
        lone[row[~call_inside[call]]] = True
        lone = lone[inside[name]]
        if lone.any():
            ahead[name] = int(lone.sum())
            kept[name] = kept[name].with_columns(correlation=pl.when(~pl.lit(pl.Series(lone))).then("correlation"))
    behind = trace.api.filter(pl.Series(started & call_inside & ~starts_here))
    return ahead, int(trace.text(behind).str.contains("GraphLaunch", literal=True).sum()) if behind.height else 0


def _apart(trace: Trace, kept: dict[str, pl.DataFrame], inside: dict[str, NDArray[np.bool_]], numbers: NDArray[np.int64]) -> int:
    """Sides of exchanges that are not all inside lose their communicator; returns how many."""
    known = numbers >= 0
    whole = inside["mpi"].copy()
    while True:
        outside = np.unique(numbers[known & ~whole[:, None]])
        # a Sendrecv that lost its message has no message to send either
        lost = whole & (known & np.isin(numbers, outside)).any(axis=1)
        if not lost.any():
            break
        whole &= ~lost
    alone = ~whole[inside["mpi"]]
    if alone.any():
        kept["mpi"] = kept["mpi"].with_columns(communicator=pl.when(~pl.lit(pl.Series(alone))).then("communicator"))
    return int(alone.sum())


def _held(frame: pl.DataFrame, first: int, until: int) -> pl.DataFrame:
    """Allocations and releases inside, and memory that was held when the stretch began, as if allocated then."""
    before = frame.filter(pl.col("time_ns") < first)
    state = before.group_by("process", "address", maintain_order=True).last().filter(pl.col("operation") == 0)
    carried = state.select(frame.columns).with_columns(time_ns=pl.lit(first, pl.Int64), correlation=pl.lit(None, pl.Int64))
    return pl.concat([carried, frame.filter(pl.col("time_ns").is_between(first, until))])


def _on_core(frame: pl.DataFrame, first: int, last: int, until: int) -> pl.DataFrame:
    """Switches inside; a thread that was on a core when the stretch began is put on it there, one that stays is taken off at its end."""
    frame = frame.sort("time_ns", maintain_order=True)
    running = pl.col("running") == 1
    before = frame.filter(pl.col("time_ns") < first).group_by("thread", maintain_order=True).last().filter(running)
    carried = before.select(frame.columns).with_columns(time_ns=pl.lit(first, pl.Int64))
    mine = pl.concat([carried, frame.filter(pl.col("time_ns").is_between(first, until))])
    left = mine.group_by("thread", maintain_order=True).last().filter(running)
    later = frame.filter(pl.col("time_ns") > until).select("thread").unique()
    taken = left.join(later, on="thread", how="semi", maintain_order="left").select(frame.columns)
    return pl.concat([mine, taken.with_columns(time_ns=pl.lit(last, pl.Int64), running=pl.lit(0, pl.Int32))])


def _with(trace: Trace, kept: dict[str, pl.DataFrame], found: list[Finding], part: dict[str, Any]) -> Trace:
    filled = {name: frame for name, frame in kept.items() if frame.height}
    about = {**trace.facts.get("part", {}), **part}
    return replace(trace, tables=filled, findings=[*trace.findings, *found], facts={**trace.facts, "part": about})
