"""Merging of several recordings of one run, one file per process or machine: processes kept apart,
names listed once, one clock.

Clocks are first taken as the files state them, then checked and corrected by the collectives that
the recordings share (`turnbuckle.trace.merge.alignment`).  Where nothing can be checked, or the
remaining error exceeds the bound, the merge is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from turnbuckle.foundation import schema
from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.findings import merge as merged_findings
from turnbuckle.foundation.units import show
from turnbuckle.trace.bounds import DEVICE_TABLES, sound
from turnbuckle.trace.ids import id_of, process_of, thread_number
from turnbuckle.trace.merge.alignment import QUANTILES, Clocks, align
from turnbuckle.trace.merge.shared_collectives import groups, lanes
from turnbuckle.trace.trace import Trace, dtypes

Clock = Literal["collectives", "recorded"]

MAX_SKEW_NS: Final = 100_000
"""Largest error of a merged clock [ns]: the time of a collective of few bytes.  With more, waits between ranks are errors of the clocks."""

_HOUR_NS: Final = 3_600_000_000_000
_NAMES: Final = ("name", "short_name")
_TIMES: Final = ("start_ns", "end_ns", "time_ns")
_BUSY: Final = (*DEVICE_TABLES, "api", "mpi")


@dataclass(frozen=True)
class Merged:
    """Result of a merge."""

    trace: Trace
    clocks: Clocks  #: corrections of each recording's clock, and how well the clocks agree
    #: one row per recording: file, name, ranks, processes, and the figures of `clocks`
    rows: list[dict[str, Any]]


def merge(
    traces: Sequence[Trace],
    *,
    clock: Clock = "collectives",
    max_skew_ns: int = MAX_SKEW_NS,
    name: str = "merged",
) -> Merged:
    """Make one recording of several.

    Parameters
    ----------
    traces : the recordings, each with processes of its own.
    clock : ``collectives``: correct clocks by the collectives that the recordings share;
        ``recorded``: take them as the files state them.
    max_skew_ns : largest remaining error of a clock [ns]; beyond it the merge is refused.
    name : name of the merged recording.

    Raises
    ------
    UsageError : A405 fewer than two recordings, or one twice, A407 a bound below 1 ns.
    ProfileError : P062 one of them is merged already.
    CannotAnswer : A176 clocks that cannot be aligned within the bound, A177 no collectives that tie
        them together, A178 they are not of one run, A179 they do not state their clocks.
    """
    if len(traces) < 2:
        raise error_of("A405.alone", found=f"{len(traces)} recording")
    if max_skew_ns < 1:
        raise error_of("A407.positive", found=f"{max_skew_ns} ns")
    for trace in traces:
        if trace.table("processes").height:
            raise error_of("P062", where=trace.name, found="a table of processes with their files")
    _distinct(traces)
    parts, flaws = [], []
    for trace in traces:
        kept, set_aside = sound({n: trace.table(n) for n in trace.has}, trace.facts)
        parts.append(Trace(kept, trace.names, trace.facts, trace.findings, trace.name))
        flaws += [*trace.findings, *set_aside]
    numbers = [_processes(part) for part in parts]
    renumbered = _apart(numbers)
    ranks, assigned = _ranks(parts, numbers)
    _one_run(parts, ranks)
    clock_of, first = _clock_of(parts)
    offsets = _offsets(parts, clock, first)
    stated = [part.facts.get("session_start_utc_ns") is not None for part in parts]
    shared = [
        replace(group, file=clock_of[group.file]) for group in groups(lanes(parts, offsets, stated))
    ]
    between = [group for group in shared if len(np.unique(group.file)) > 1]
    of_clocks = [stated[file] for file in dict.fromkeys(first)]
    clocks = align(between, len(of_clocks), stated=of_clocks, keep=clock == "recorded").of(clock_of)
    if clock == "collectives":
        _tied(parts, clocks)
        _within(parts, clocks, max_skew_ns)
    names, indices = _merged_names(parts)
    tables = _tables(parts, indices, renumbered, offsets, clocks)
    tables["processes"] = _processes_table(numbers, renumbered, ranks, indices, offsets, clocks)
    flaws += _flaws(clocks, clock if len(of_clocks) > 1 else "collectives", assigned)
    trace = Trace(tables, names, _facts(parts, offsets), merged_findings(flaws), name)
    return Merged(trace, clocks, _rows(parts, numbers, ranks, offsets, clocks))


def _distinct(traces: Sequence[Trace]) -> None:
    """Raise A405 where two recordings hold the same rows: a copy of a file, or of its folder, would
    count as one more rank.
    """
    seen: dict[tuple[Any, ...], list[Trace]] = {}
    for trace in traces:
        tables = tuple(sorted(trace.has))
        key = (
            trace.facts.get("session_start_utc_ns"),
            tables,
            *(trace.table(name).height for name in tables),
        )
        for other in seen.setdefault(key, []):
            if tables and all(trace.table(name).equals(other.table(name)) for name in tables):
                raise error_of(
                    "A405.copy",
                    found=f"{clipped(other.name)} and {clipped(trace.name)} hold the same rows",
                )
        seen[key].append(trace)


# --- processes and ranks --------------------------------------------------------------------------


def _processes(trace: Trace) -> list[int]:
    processes: set[int] = set()
    for frame in trace.tables.values():
        if "process" in frame.columns:
            processes |= set(frame["process"].drop_nulls().unique().to_list())
        if "thread" in frame.columns:
            processes |= set(
                frame.select(process_of(pl.col("thread")).drop_nulls().unique())
                .to_series()
                .to_list()
            )
    return sorted(processes)


def _apart(numbers: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """Return, for each recording, the new id of each of its processes: its own, or the next free
    one where that is taken.
    """
    taken: set[int] = set()
    recorded = {process for some in numbers for process in some}
    free = 1
    out = []
    for some in numbers:
        renumbered = {}
        for process in some:
            number = process
            while number in taken:
                number, free = id_of(free), free + 1
                if number in recorded:
                    number = process
            renumbered[process] = number
            taken.add(number)
        out.append(renumbered)
    return out


def _ranks(
    traces: Sequence[Trace], numbers: Sequence[Sequence[int]]
) -> tuple[list[dict[int, int]], int]:
    """Return the rank of each busy process, by recording, and how many ranks no recording states:
    those follow the order of the files.
    """
    by_file: list[dict[int, int]] = []
    busy: list[list[int]] = []
    for trace, processes in zip(traces, numbers, strict=True):
        by_mpi = {
            process_of(thread): rank
            for thread, rank in trace.mpi_ranks.select("thread", "rank").drop_nulls().iter_rows()
        }
        work: Counter[int] = Counter()
        for table in _BUSY:
            frame = trace.table(table)
            process = (
                frame["process"] if "process" in frame.columns else process_of(frame["thread"])
            )
            work.update(dict(process.drop_nulls().value_counts().iter_rows()))
        if not by_mpi and trace.facts.get("rank") is not None and (work or processes):
            by_mpi = {
                max(
                    work, key=lambda p: (work[p], -p), default=processes[0] if processes else 0
                ): int(trace.facts["rank"])
            }
        by_file.append(by_mpi)
        busy.append(sorted(work) if not by_mpi else [])
    taken = {rank for by_mpi in by_file for rank in by_mpi.values()}
    rank, assigned = 0, 0
    for stated, unranked in zip(by_file, busy, strict=True):
        for number in unranked:
            while rank in taken:
                rank += 1
            stated[number] = rank
            taken.add(rank)
            assigned += 1
    return by_file, assigned


def _one_run(traces: Sequence[Trace], ranks: Sequence[Mapping[int, int]]) -> None:
    """Raise A178 where recordings state worlds of different sizes, or one rank twice."""
    worlds = {
        trace.facts["world_size"]: trace.name
        for trace in traces
        if trace.facts.get("world_size") is not None
    }
    if len(worlds) > 1:
        sizes = "; ".join(
            f"{clipped(name)}: {size} ranks" for size, name in sorted(worlds.items())[:2]
        )
        raise _not_one_run(sizes, "each states how many ranks its run had")
    first: dict[int, int] = {}
    for file, by_process in enumerate(ranks):
        for rank in by_process.values():
            if rank in first:
                where = " and ".join(
                    dict.fromkeys(clipped(traces[f].name) for f in (first[rank], file))
                )
                raise _not_one_run(
                    f"rank {rank} twice: {where}", "a rank of a run is recorded once"
                )
            first[rank] = file


def _not_one_run(evidence: str, cause: str) -> TurnbuckleError:
    return error_of("A178", found=evidence, cause=cause)


# --- clocks ---------------------------------------------------------------------------------------


def _span(trace: Trace) -> tuple[int, int] | None:
    """Return the first begin and the last end of a recording [ns]; None where it holds no rows with
    times.
    """
    frames = [trace.table(name) for name in (*_BUSY, "ranges") if trace.table(name).height]
    if not frames:
        return None
    first = min(frame["start_ns"][0] for frame in frames)
    last = max(
        frame.select(pl.max_horizontal("start_ns", "end_ns").max()).item() for frame in frames
    )
    return int(first), int(last)


def _clock_of(traces: Sequence[Trace]) -> tuple[Int, list[int]]:
    """Return the number of each recording's clock, shape (recordings,), and the first recording
    that reads it.

    Recordings of one start of one machine read one clock, which counts from that start.
    """
    begun: dict[Any, int] = {}
    keys = [
        boot
        if (boot := trace.facts.get("boot")) and trace.facts.get("base_ns") is not None
        else file
        for file, trace in enumerate(traces)
    ]
    first = [begun.setdefault(key, file) for file, key in enumerate(keys)]
    number = {file: place for place, file in enumerate(dict.fromkeys(first))}
    return np.array([number[file] for file in first]), first


def _offsets(traces: Sequence[Trace], clock: Clock, first: Sequence[int]) -> list[int]:
    """Return the begin of each recording after the first one [ns], which puts all on one clock as
    the files state it.

    The `first` recording that reads a clock states it for all that do: the time of day is looked at
    anew by each, and is a little off.

    Raises A178 one recording begins after all before it ended (with ``collectives`` an hour after);
    A179 ``recorded`` without a stated clock.
    """
    began = [trace.facts.get("session_start_utc_ns") for trace in traces]
    stated = [
        utc
        for trace, utc in zip(traces, began, strict=True)
        if utc is not None and _span(trace) is not None
    ]
    if None in began and clock == "recorded":
        lacking = next(trace.name for trace, utc in zip(traces, began, strict=True) if utc is None)
        raise error_of("A179", where=clipped(lacking), found="no time of day")
    zero = min(stated, default=0)
    offsets = [
        0 if utc is None or _span(trace) is None else utc - zero
        for trace, utc in zip(traces, began, strict=True)
    ]
    for file, other in enumerate(first):
        if other != file:
            offsets[file] = (
                offsets[other]
                + int(traces[file].facts["base_ns"])
                - int(traces[other].facts["base_ns"])
            )
    offsets = [offset - min(0, *offsets) for offset in offsets]
    spans = sorted(
        (offset + span[0], offset + span[1], trace.name)
        for trace, offset, utc in zip(traces, offsets, began, strict=True)
        if utc is not None and (span := _span(trace)) is not None
    )
    until = None
    for start, end, name in spans:
        if until is not None and start - until > (_HOUR_NS if clock == "collectives" else 0):
            raise _not_one_run(
                f"{clipped(name)} begins {_time(start - until)} after the one before it ended",
                "each states when it was made",
            )
        until = end if until is None else max(until, end)
    return offsets


def _tied(traces: Sequence[Trace], clocks: Clocks) -> None:
    """Raise A177 where no collectives tie a recording to the first."""
    loose = [trace.name for trace, linked in zip(traces, clocks.linked, strict=True) if not linked]
    if loose:
        raise error_of(
            "A177",
            where=clipped(traces[0].name),
            found=(
                f"{len(loose)} of {len(traces)} recordings share none with it: "
                f"{', '.join(clipped(name) for name in loose[:3])}"
            ),
        )


def _within(traces: Sequence[Trace], clocks: Clocks, max_skew_ns: int) -> None:
    """Raise A176 where a clock may be off by more than the bound."""
    uncertain = clocks.uncertain_ns
    worst = int(uncertain.argmax())
    if clocks.contradiction_ns <= max_skew_ns and uncertain[worst] <= max_skew_ns:
        return
    least = _time(_above(max(clocks.contradiction_ns, float(uncertain[worst]))))
    if clocks.contradiction_ns > max_skew_ns:
        doubt = f"collectives contradict each other by {_time(clocks.contradiction_ns)}"
    else:
        doubt = (
            f"{clipped(traces[worst].name)}: its clock may be off by {_time(uncertain[worst])}, "
            "by what ends and bounds tell"
        )
    raise error_of("A176", found=f"{doubt}; allowed {_time(max_skew_ns)}", least=least)


def _above(value: float) -> float:
    """Return the next value of 1, 2 or 5 times a power of ten."""
    step = 1.0
    while step < value:
        step *= 2 if str(step)[0] in "15" else 2.5
    return step


_DAY_NS: Final = 86_400 * 10**9


def _time(value: float) -> str:
    return show(value * 1e-9, "s") if value < 2 * _DAY_NS else f"{value / _DAY_NS:,.0f} days"


# --- tables ---------------------------------------------------------------------------------------


def _merged_names(traces: Sequence[Trace]) -> tuple[pl.Series, list[pl.Series]]:
    """Return all texts once, and for each recording the new index of each of its texts, with the
    name of its file last.
    """
    number: dict[str, int] = {}
    indices = []
    for trace in traces:
        texts = [*trace.names.to_list(), trace.name]
        indices.append(
            pl.Series([number.setdefault(text, len(number)) for text in texts], dtype=pl.Int32)
        )
    return pl.Series("name", list(number), dtype=pl.String), indices


def _tables(
    traces: Sequence[Trace],
    indices: Sequence[pl.Series],
    numbers: Sequence[Mapping[int, int]],
    offsets: Sequence[int],
    clocks: Clocks,
) -> dict[str, pl.DataFrame]:
    """Return all rows, with new numbers of processes and names and on one clock, in the order of
    their begins.
    """
    out = {}
    for name in schema.tables("trace"):
        frames = []
        for file, trace in enumerate(traces):
            frame = trace.table(name)
            if frame.height:
                frame = frame.with_columns(
                    _on_one_clock(column, file, offsets, clocks)
                    for column in frame.columns
                    if column in _TIMES
                )
                frames.append(_renamed(_renumbered(frame, numbers[file]), name, indices[file]))
        if not frames:
            continue
        whole = pl.concat(frames)
        order = next(
            (column for column in ("start_ns", "time_ns") if column in whole.columns), None
        )
        if order is not None:
            whole = whole.sort(order, maintain_order=True)
        elif name == "devices":
            whole = whole.unique(maintain_order=True)
        out[name] = whole
    return out


def _on_one_clock(column: str, file: int, offsets: Sequence[int], clocks: Clocks) -> pl.Expr:
    """Return times of a recording on the merged clock."""
    stated = pl.col(column) + offsets[file]
    moved = stated + int(clocks.shift_ns[file])
    if not clocks.drift[file]:
        return moved
    return moved + ((stated - clocks.at_ns) * float(clocks.drift[file])).round().cast(pl.Int64)


def _renumbered(frame: pl.DataFrame, number: Mapping[int, int]) -> pl.DataFrame:
    changed = {old: new for old, new in number.items() if old != new}
    if not changed:
        return frame
    if "process" in frame.columns:
        frame = frame.with_columns(pl.col("process").replace(changed))
    if "thread" in frame.columns:
        frame = frame.with_columns(
            thread=process_of(pl.col("thread")).replace(changed) | thread_number(pl.col("thread"))
        )
    return frame


def _renamed(frame: pl.DataFrame, table: str, index: pl.Series) -> pl.DataFrame:
    types = dtypes(table)
    return frame.with_columns(
        index.gather(frame[c]).alias(c)
        for c in frame.columns
        if c in _NAMES and types[c] == pl.Int32
    )


_Maps = Sequence[Mapping[int, int]]


def _processes_table(
    numbers: Sequence[Sequence[int]],
    renumbered: _Maps,
    ranks: _Maps,
    indices: Sequence[pl.Series],
    offsets: Sequence[int],
    clocks: Clocks,
) -> pl.DataFrame:
    rows = []
    for file, processes in enumerate(numbers):
        about = {
            "file": file,
            "name": int(indices[file][-1]),
            "offset_ns": offsets[file],
            **_of_clock(clocks, file),
        }
        rows += [
            {"process": renumbered[file][process], "rank": ranks[file].get(process), **about}
            for process in processes
        ]
    types = dtypes("processes")
    return pl.DataFrame({c: [row[c] for row in rows] for c in types}, schema=types)


def _of_clock(clocks: Clocks, file: int) -> dict[str, Any]:
    """Return the figures of one recording's clock, by the columns of ``processes``."""
    checked = bool(clocks.collectives[file])
    return {
        "shift_ns": int(clocks.shift_ns[file]),
        "shift_low_ns": clocks.low_ns[file] if checked else None,
        "shift_high_ns": clocks.high_ns[file] if checked else None,
        "drift_ns_per_s": round(float(clocks.drift[file]) * 1e9),
        "skew_ns": round(float(clocks.skew_ns[file, 1])) if checked else None,
        "collectives": int(clocks.collectives[file]),
    }


# --- facts, findings and rows ---------------------------------------------------------------------


def _facts(traces: Sequence[Trace], offsets: Sequence[int]) -> dict[str, Any]:
    def common(fact: str) -> Any:
        values = list(dict.fromkeys(trace.facts.get(fact) for trace in traces))
        return values[0] if len(values) == 1 else None

    began = [trace.facts.get("session_start_utc_ns") for trace in traces]
    lasts = [trace.facts.get("analysis_duration_ns") for trace in traces]
    counts: Counter[str] = Counter()
    nodes: dict[str, Any] = {}
    for trace in traces:
        counts.update(trace.facts.get("tables") or {})
        nodes |= trace.facts.get("node_of_rank") or {}
    sources = [
        {
            "name": t.name,
            "format": str(t.facts.get("format") or ""),
            "sha256": str(t.facts.get("sha256") or ""),
        }
        for t in traces
    ]
    digests = "".join(f"{source['name']} {source['sha256']}\n" for source in sources)
    files = {str(trace.facts.get("sha256")): trace.facts.get("size_bytes") or 0 for trace in traces}
    worlds = [
        trace.facts["world_size"] for trace in traces if trace.facts.get("world_size") is not None
    ]
    return {
        "format": common("format") or "turnbuckle",
        "schema_version": common("schema_version"),
        "product_version": common("product_version"),
        "session_start_utc_ns": None
        if None in began
        else min(utc for utc in began if utc is not None),
        "analysis_duration_ns": None
        if None in lasts
        else max(o + last for o, last in zip(offsets, lasts, strict=True) if last is not None),
        "rank": None,
        "world_size": worlds[0] if worlds else None,
        "tables": dict(counts),
        "size_bytes": sum(files.values()),
        "sha256": hashlib.sha256(digests.encode()).hexdigest(),
        "sources": sources,
        **({"node_of_rank": nodes} if nodes else {}),
        **({"processor": processor} if (processor := common("processor")) else {}),
        **(
            {"record_shapes": True}
            if any(trace.facts.get("record_shapes") for trace in traces)
            else {}
        ),
    }


def _flaws(clocks: Clocks, clock: Clock, assigned: int) -> Iterable[Finding]:
    files = len(clocks.shift_ns)
    shared = clocks.skew_ns[clocks.collectives > 0, 1]
    left = (
        f"ends of collectives agree within {_time(shared.max())} in nine of ten"
        if shared.size
        else ""
    )
    if clock == "recorded":
        checked = int((clocks.collectives > 0).sum())
        doubt = f", and contradict them by {_time(clocks.early_ns)}" if clocks.early_ns else ""
        yield finding(
            "P187",
            files,
            f"collectives tie {checked} of {files} together{doubt}; {left}" if checked else "",
        )
    if moved := int((clocks.shift_ns != 0).sum()):
        yield finding("P188", moved, f"by up to {_time(abs(clocks.shift_ns).max())}; {left}")
    if assigned:
        yield finding("P189", assigned)
    if drifting := int((clocks.drift != 0).sum()):
        yield finding(
            "P190", drifting, f"by up to {abs(clocks.drift).max() * 1e6:.3g} parts in a million"
        )


def _rows(
    traces: Sequence[Trace],
    numbers: Sequence[Sequence[int]],
    ranks: Sequence[Mapping[int, int]],
    offsets: Sequence[int],
    clocks: Clocks,
) -> list[dict[str, Any]]:
    """Return one row per recording, as tables and JSON show it."""
    out = []
    for file, trace in enumerate(traces):
        checked = bool(clocks.collectives[file])
        quantiles = zip(QUANTILES, clocks.skew_ns[file], strict=True)
        skew = {
            f"skew_p{q * 100:.0f}_ns": round(float(value)) if checked else None
            for q, value in quantiles
        }
        figures = _of_clock(clocks, file)
        figures.pop("skew_ns")
        about = {
            "file": file,
            "name": trace.name,
            "format": trace.facts.get("format"),
            "sha256": trace.facts.get("sha256"),
        }
        members = {
            "ranks": sorted(ranks[file].values()),
            "processes": len(numbers[file]),
            "offset_ns": offsets[file],
        }
        out.append(
            about | members | figures | skew | {"bounding_collectives": int(clocks.bounding[file])}
        )
    return out
