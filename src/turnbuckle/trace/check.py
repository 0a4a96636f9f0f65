"""Flaws of a recording, counted, and the join of device records to the host calls that started
them.

`check` counts flaws and changes nothing; what cannot be was set aside before
(`turnbuckle.trace.bounds`).  `launch_pairs` is the only join between host and device.  Both work on
the tables of ``schema/trace.csv`` alone, so that they treat the output of every reader alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int, filled
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import tables as schema_tables
from turnbuckle.foundation.schema import words
from turnbuckle.trace.bounds import DEVICE_TABLES, Tables, beyond_all, by_name

#: Codes of the copies that are migrations of pages.
MIGRATIONS: Final = [
    code for code, word in enumerate(words("directions")) if word.startswith("migration")
]
#: Kinds of overhead that the profiler does not cause: the driver's JIT, module and function
#: loading, a full command buffer, and a delay that the user made the recorder insert
#: (`turnbuckle.trace.readers.recorded.reader.DELAY`).
DRIVER_OVERHEAD: Final = [2, 6, 7, 8, 100]
_PROFILER_SHARE: Final = 0.10


# --- which call started which record --------------------------------------------------------------


def launch_pairs(tables: Tables) -> pl.DataFrame:
    """Join every device record to the host call that started it, by process and correlation id.

    Correlation ids repeat from process to process, so the id alone is never enough.  Records of old
    schemas carry no process; they belong to the process of the calls if all calls come from one.
    An id of 0 means none, as in CUPTI.

    Returns at most one row per device record: ``table`` (kernels, copies, memsets, graphs), ``row``
    (its index in that table), ``api_row`` (index into api), ``call_start_ns``, ``call_end_ns`` and
    ``thread`` of the call.  Of several calls with the same id the outermost counts: the one with
    the earliest start, then the latest end.  Records without a call are absent.
    """
    api = tables.get("api", pl.DataFrame())
    parts = []
    if api.height:
        call_of = _call_index(api)
        for code, name in enumerate(DEVICE_TABLES):
            if name not in tables or not tables[name].height:
                continue
            call_rows = call_of(tables[name])
            row = np.flatnonzero(call_rows >= 0)
            parts.append((np.full(len(row), code, np.uint8), row, call_rows[row]))
    if not parts:
        return pl.DataFrame(schema=_PAIR)
    table, row, api_row = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    calls = pl.DataFrame(
        [api["start_ns"].alias("call_start_ns"), api["end_ns"].alias("call_end_ns"), api["thread"]]
    )
    of_table = pl.lit(pl.Series("table", table)).cat.to(_TABLE)
    return calls[api_row].select(
        of_table, pl.Series("row", row), pl.Series("api_row", api_row), pl.all()
    )


def by_table(pairs: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the pairs of each device table; those of one table lie together, in the order of
    `DEVICE_TABLES`.
    """
    codes = pairs["table"].to_physical().to_numpy()
    bounds = np.searchsorted(codes, np.arange(len(DEVICE_TABLES) + 1)).tolist()
    return {
        name: pairs[first:last]
        for name, first, last in zip(DEVICE_TABLES, bounds[:-1], bounds[1:], strict=True)
    }


_TABLE: Final = pl.Enum(DEVICE_TABLES)
_PAIR: Final[dict[str, Any]] = {
    "table": _TABLE,
    **dict.fromkeys(("row", "api_row", "call_start_ns", "call_end_ns", "thread"), pl.Int64),
}


def _call_index(api: pl.DataFrame) -> Callable[[pl.DataFrame], Int]:
    """Return a function that gives, for each row of a device table, its row in `api`, or -1.

    Correlation ids count up inside a process, so one array over all ids is the fastest exact index.
    Where ids are spread too thinly for that, a hash join does the same.
    """
    only_process = api["process"][0] if api["process"].n_unique() == 1 else None
    spans = _id_spans(api, only_process)
    # in Python's integers: a hostile id may be 2^63 - 1
    total = sum(
        high - low + 1 for low, high in zip(spans[1].tolist(), spans[2].tolist(), strict=True)
    )
    lookup = _by_position(api, spans, total) if total <= 8 * api.height + 2**20 else _by_hash(api)

    def call_of(frame: pl.DataFrame) -> Int:
        process = frame["process"]
        correlation = filled(frame["correlation"], 0)
        if process.null_count() and only_process is None:
            correlation = np.where(process.is_null().to_numpy(), 0, correlation)
        return lookup(filled(process, 0 if only_process is None else only_process), correlation)

    return call_of


def _id_spans(api: pl.DataFrame, only_process: int | None) -> tuple[Int, Int, Int]:
    """Return the processes whose calls have ids, in rising order, with the lowest and the highest
    id of each.
    """
    if only_process is not None:
        ids = filled(api["correlation"], 0)
        ids = ids[ids != 0]
        low, high = ([ids.min()], [ids.max()]) if len(ids) else ([], [])
        return (
            np.array([only_process] * len(low), np.int64),
            np.array(low, np.int64),
            np.array(high, np.int64),
        )
    id = pl.col("correlation")
    spans = (
        api.filter(id.fill_null(0) != 0)
        .group_by("process")
        .agg(low=id.min(), high=id.max())
        .sort("process")
    )
    return spans["process"].to_numpy(), spans["low"].to_numpy(), spans["high"].to_numpy()


_Lookup = Callable[[Int, Int], Int]


def _by_position(api: pl.DataFrame, spans: tuple[Int, Int, Int], total: int) -> _Lookup:
    processes, low, high = spans
    offset = np.concatenate(([0], np.cumsum(high - low + 1)))[:-1]

    def slots(owner: Int, ids: Int) -> tuple[Bool, Int]:
        """Return whether a call of each process and id can be in the array at all, and its place
        there.
        """
        if processes.size == 0:
            return np.zeros(ids.size, np.bool_), np.zeros(ids.size, np.int64)
        if processes.size == 1:
            inside = (owner == processes[0]) & (ids >= low[0]) & (ids <= high[0]) & (ids != 0)
            return inside, np.where(inside, ids - low[0], 0)
        number = np.minimum(np.searchsorted(processes, owner), processes.size - 1)
        inside = (
            (processes[number] == owner) & (ids >= low[number]) & (ids <= high[number]) & (ids != 0)
        )
        return inside, np.where(inside, offset[number] + ids - low[number], 0)

    # 0 is "no call", so that untouched pages of the array cost nothing; rows are stored one higher
    index = np.zeros(total, np.int32 if api.height < 2**31 - 1 else np.int64)
    inside, slot = slots(api["process"].to_numpy(), filled(api["correlation"], 0))
    row = np.flatnonzero(inside)
    slot = slot[row]
    index[slot] = row + 1
    beaten = row[index[slot] != row + 1]
    if beaten.size:
        rivals = np.union1d(beaten, index[slot[np.searchsorted(row, beaten)]] - 1)
        # the last write stands, so the outermost call is written last
        rivals = _outer_first(api, rivals)[::-1]
        index[slot[np.searchsorted(row, rivals)]] = rivals + 1

    def lookup(process: Int, correlation: Int) -> Int:
        inside, slot = slots(process, correlation)
        return (
            np.where(inside, index[slot].astype(np.int64) - 1, -1)
            if total
            else np.full(len(process), -1, np.int64)
        )

    return lookup


def _by_hash(api: pl.DataFrame) -> _Lookup:
    keys = ["process", "correlation"]
    outer_first = _outer_order(api)
    calls = (
        api[outer_first]
        .select(*keys, api_row=pl.Series(outer_first))
        .filter(pl.col("correlation").fill_null(0) != 0)
        .unique(keys, keep="first", maintain_order=True)
    )

    def lookup(process: Int, correlation: Int) -> Int:
        wanted = pl.DataFrame({"process": process, "correlation": correlation})
        return (
            wanted.join(calls, on=keys, how="left", maintain_order="left")["api_row"]
            .fill_null(-1)
            .to_numpy()
        )

    return lookup


def _outer_first(api: pl.DataFrame, row: Int) -> Int:
    """Return these rows of api by earliest start, then latest end, then as recorded, so that a call
    comes before the calls inside it.
    """
    start, end = (api[c].to_numpy()[row] for c in ("start_ns", "end_ns"))
    return row[np.lexsort((row, -end, start))]


def _outer_order(api: pl.DataFrame) -> Int:
    """Return all rows of api in the order of `_outer_first`; where they are sorted by start already
    only ties are sorted.
    """
    start = api["start_ns"].to_numpy()
    order = (
        np.arange(api.height)
        if bool((start[1:] >= start[:-1]).all())
        else np.argsort(start, kind="stable")
    )
    same = np.diff(start[order]) == 0
    if same.any():
        tied = np.flatnonzero(np.concatenate((same, [False])) | np.concatenate(([False], same)))
        order[tied] = _outer_first(api, order[tied])
    return order


# --- flaws that are counted -----------------------------------------------------------------------


def check(
    tables: Tables,
    facts: Mapping[str, Any],
    names: pl.Series | None = None,
    pairs: pl.DataFrame | None = None,
    inner: Bool | None = None,
) -> list[Finding]:
    """Count the flaws of sound tables (`turnbuckle.trace.bounds.sound`), and change nothing.

    Parameters
    ----------
    tables : tables of ``schema/trace.csv`` by name, without the rows that `sound` sets aside.
    names : texts that the name columns index; without them, graph launches that left no record
        cannot be counted.
    pairs, inner : `launch_pairs` and `nested_calls` of these tables, where the caller has them;
        else they are computed.

    Returns findings P104, P109, P111, P115 to P118, P122, P124 to P126, P132, P133 and P242, those
    that occur, in that order.
    """
    complete = {
        name: tables[name] for name in schema_tables() if name in tables and tables[name].height
    }
    pairs = launch_pairs(complete) if pairs is None else pairs
    launched = by_table(pairs)
    migrations = (
        np.isin(complete["copies"]["direction"].to_numpy(), MIGRATIONS)
        if "copies" in complete
        else np.zeros(0, np.bool_)
    )
    part = facts.get("part") or {}
    findings = [
        *_zero_durations(complete),
        *_orphans(complete, launched, migrations, part.get("launched_before", {})),
        *_two_clocks(complete, launched, pairs.height),
        *_whole_graphs(complete, pairs, names, part.get("graph_launches_beyond", 0)),
        *_diagnostics(complete),
        *_stream_overlaps(complete, migrations),
        *_profiler_share(complete),
        *_shared_ids(complete),
        *_failed_calls(complete),
    ]
    if "api" in complete and (
        count := int((nested_calls(complete["api"]) if inner is None else inner).sum())
    ):
        findings.append(finding("P126", count))
    if count := int(migrations.sum()):
        findings.append(finding("P132", count))
    if count := pairs.height - pairs["api_row"].n_unique():
        findings.append(finding("P133", count))
    if (reach := beyond_all(tables)) is not None:
        findings.append(finding("P242", 1, f"{reach[0]}, by {reach[1] * 1e-9:.3g} s"))
    return findings


def _zero_durations(tables: Tables) -> Iterator[Finding]:
    counts = {
        t: int((tables[t]["end_ns"] == tables[t]["start_ns"]).sum())
        for t in (*DEVICE_TABLES, "api", "mpi")
        if t in tables
    }
    if counts.get("mpi"):
        zero = pl.col("end_ns") == pl.col("start_ns")
        # a Sendrecv is two rows: only the receiving one has the call's length, so the sending one
        # is no flaw
        counts["mpi"] = _count(
            tables["mpi"],
            zero
            & (pl.col("end_ns").max().over("thread", "start_ns", "name") == pl.col("start_ns")),
        )
    if total := sum(counts.values()):
        yield finding("P104", total, by_name(counts))


def _orphans(
    tables: Tables, launched: Tables, migrations: Bool, before: Mapping[str, int]
) -> Iterator[Finding]:
    """Yield P109 with the number of device records without a call, except those whose call lies
    before the part (`before`, by table).
    """
    counts = {t: tables[t].height - launched[t].height for t in DEVICE_TABLES if t in tables}
    if "copies" in counts:
        # a migration has no call, but one that carries an id is in the pairs: subtracting totals
        # would miscount
        called = np.zeros(tables["copies"].height, np.bool_)
        called[launched["copies"]["row"].to_numpy()] = True
        counts["copies"] = int((~called & ~migrations).sum())
    counts = {table: max(count - before.get(table, 0), 0) for table, count in counts.items()}
    if total := sum(counts.values()):
        yield finding("P109", total, by_name(counts))


def _two_clocks(tables: Tables, launched: Tables, total: int) -> Iterator[Finding]:
    early, most = 0, 0
    for name, pairs in launched.items():
        if pairs.height:
            lead: Int = (
                pairs["call_start_ns"].to_numpy()
                - tables[name]["start_ns"].to_numpy()[pairs["row"].to_numpy()]
            )
            early, most = early + int((lead > 0).sum()), max(most, int(lead.max()))
    if early:
        yield finding(
            "P111", early, f"{early / total:.2%} of the records with a call, by up to {most} ns"
        )


def _whole_graphs(
    tables: Tables, pairs: pl.DataFrame, names: pl.Series | None, after_end: int
) -> Iterator[Finding]:
    """Count graph launches that show no kernels (P115).  `after_end` counts launches whose work
    lies behind the end of the cut-out part.
    """
    whole = tables["graphs"].height if "graphs" in tables else 0
    silent = (
        max(_silent_graph_launches(tables["api"], pairs, names) - after_end, 0)
        if "api" in tables and names is not None
        else 0
    )
    if whole or silent:
        yield finding(
            "P115",
            whole + silent,
            f"{whole} recorded as one row, {silent} not recorded on the device at all",
        )


def _silent_graph_launches(api: pl.DataFrame, pairs: pl.DataFrame, names: pl.Series) -> int:
    """Count successful graph launches without any device record; a driver call inside a runtime
    call is the same launch.
    """
    texts = names.cast(pl.String).to_frame("text")
    is_launch = texts.select(
        pl.col("text").str.contains("GraphLaunch", literal=True).fill_null(False)
    ).to_series()
    if not is_launch.any():
        return 0
    launch_names = is_launch.arg_true()
    launched = pl.col("name").is_in(launch_names.cast(pl.Int32).implode()) & (
        pl.col("result").fill_null(0) == 0
    )
    launches = api.with_row_index("api_row").filter(launched)
    if not launches.height:
        return 0
    started = launches["api_row"].is_in(pairs["api_row"].cast(launches["api_row"].dtype).implode())
    order = ["thread", "start_ns", "end_ns"]
    in_order = launches.with_columns(started=started).sort(
        order, descending=[False, False, True], maintain_order=True
    )
    outer = ~_inside_earlier().over("thread")
    return (
        in_order.with_columns(launch=outer.cum_sum())
        .group_by("launch")
        .agg(pl.col("started").any())
        .filter(~pl.col("started"))
        .height
    )


def _diagnostics(tables: Tables) -> Iterator[Finding]:
    if "diagnostics" in tables:
        errors, warnings = (_count(tables["diagnostics"], pl.col("severity") == s) for s in (3, 2))
        if errors or warnings:
            yield finding("P116", errors + warnings, f"{errors} errors, {warnings} warnings")
    if "page_faults" in tables and (
        count := _count(tables["page_faults"], pl.col("device").is_not_null())
    ):
        yield finding("P117", count)


def _stream_overlaps(tables: Tables, migrations: Bool) -> Iterator[Finding]:
    keys = ["process", "device", "stream"]
    parts = []
    for name in (t for t in DEVICE_TABLES if t in tables):
        rows = tables[name][[*keys, "start_ns", "end_ns"]]
        if name == "copies" and migrations.any():
            rows = rows.filter(pl.Series(~migrations))
        parts.append(rows.drop_nulls("stream") if rows["stream"].null_count() else rows)
    if not parts:
        return
    rows = pl.concat(parts).sort("start_ns", maintain_order=True)
    overlaps = (pl.col("start_ns") < _reach().over(keys)) & (pl.col("end_ns") > pl.col("start_ns"))
    if count := _count(rows, overlaps):
        yield finding("P118", count)


def _profiler_share(tables: Tables) -> Iterator[Finding]:
    """Report the thread that lost most of the run to the profiler (P122); overhead that names no
    thread counts as one more thread's.
    """
    activities = [tables[t] for t in (*DEVICE_TABLES, "api", "mpi") if t in tables]
    if "overheads" not in tables or not activities:
        return
    first = min(f.select(pl.col("start_ns").min()).item() for f in activities)
    last = max(f.select(pl.col("end_ns").max()).item() for f in activities)
    callers = tables["api"]["thread"].unique() if "api" in tables else pl.Series([], dtype=pl.Int64)
    start, end = pl.col("start_ns").clip(first, last), pl.col("end_ns").clip(first, last)
    of_callers = pl.col("thread").is_null() | pl.col("thread").is_in(callers.implode())
    rows = (
        tables["overheads"]
        .filter(of_callers & ~pl.col("kind").is_in(DRIVER_OVERHEAD).fill_null(False))
        .select("thread", start, end)
        .sort("start_ns", maintain_order=True)
    )
    fresh = pl.max_horizontal(
        pl.col("end_ns") - pl.max_horizontal("start_ns", _reach().over("thread")), 0
    )
    worst = (
        rows.with_columns(fresh=fresh)
        .group_by("thread")
        .agg(pl.col("fresh").sum())
        .select(pl.col("fresh").max())
        .item()
    )
    share = (worst or 0) / max(last - first, 1)
    if share > _PROFILER_SHARE:
        yield finding("P122", rows.height, f"{share:.1%} of the run time of one thread")


def _shared_ids(tables: Tables) -> Iterator[Finding]:
    keyed = [tables[t][["process", "correlation"]] for t in ("api", *DEVICE_TABLES) if t in tables]
    ends = [
        end
        for f in keyed
        if f["process"].null_count() < f.height
        for end in (f["process"].min(), f["process"].max())
    ]
    if len(set(ends)) < 2:
        return
    ids = (
        pl.concat(keyed)
        .filter(pl.col("process").is_not_null() & (pl.col("correlation").fill_null(0) != 0))
        .unique()
    )
    if count := ids.group_by("correlation").len().filter(pl.col("len") > 1).height:
        yield finding("P124", count)


def _failed_calls(tables: Tables) -> Iterator[Finding]:
    if "api" in tables and (count := int((tables["api"]["result"] != 0).sum())):
        codes = (
            tables["api"].select(pl.col("result").filter(pl.col("result") != 0).n_unique()).item()
        )
        yield finding("P125", count, f"{codes} distinct {'code' if codes == 1 else 'codes'}")


def nested_calls(api: pl.DataFrame) -> Bool:
    """Return which calls lie inside another call of their thread, shape (rows of api,).

    Of two calls with the same start and end the later row is the inner one.
    """
    start, end = api["start_ns"].to_numpy(), api["end_ns"].to_numpy()
    if api["thread"].n_unique() == 1 and ((start[1:] >= end[:-1]) & (start[1:] > start[:-1])).all():
        return np.zeros(api.height, np.bool_)
    order = _outer_order(api)
    inside = api[order].select(_inside_earlier().over("thread")).to_series().to_numpy()
    nested = np.empty(api.height, np.bool_)
    nested[order] = inside
    return nested


def _reach() -> pl.Expr:
    """Return the latest end among the rows before each row."""
    return pl.col("end_ns").cum_max().shift(1)


def _inside_earlier() -> pl.Expr:
    return ((pl.col("start_ns") < _reach()) & (pl.col("end_ns") <= _reach())).fill_null(False)


def _count(frame: pl.DataFrame, condition: pl.Expr) -> int:
    return int(frame.select(condition.sum()).item() or 0)
