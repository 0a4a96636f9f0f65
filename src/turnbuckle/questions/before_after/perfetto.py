"""A run before and after as a trace-event file, for the Perfetto UI (ui.perfetto.dev) and
chrome://tracing.

    Moved -> metadata, slices, flows, critical paths, accumulated delay -> JSON

Measured and projected tracks of a process stand one below the other, both with the run's start at
0.  A track of nested slices can show no others, so activities that overlap without nesting stand on
tracks of their own.  Times are microseconds with three decimals: nanoseconds, exactly as recorded.
The file is written piece by piece, in UTF-8: names pass through `text.clean`, so that only quotes
and backslashes need escaping, and Perfetto shows ``\\u`` escapes as they stand.

Format: Trace Event Format, Google 2016; flows are its second version (``bind_id`` on the slices
themselves).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, cast

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.model import Model
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.formats.steps import changes_of
from turnbuckle.questions.before_after.question import KINDS, Moved, moved
from turnbuckle.show.text import clean, terms
from turnbuckle.trace.ids import process_number, process_of, thread_number

#: Events turned to text at once.
_AT_ONCE: Final = 50_000
#: A colour of the format's own list, for what lies on the critical path (chrome://tracing shows it,
#: Perfetto colours by name).
_CRITICAL: Final = "terrible"
PATHS: Final = 1
"""Process number of the critical paths; those of the recording's processes follow."""
_FIRST_TRACK: Final = 1000
"""Track numbers lie above all process numbers: one that equals its process's is taken for its main thread."""

_KINDS: Final = terms("activity without a name")
"""Names of activities that have none."""

_EDGES: Final = terms("step of the critical path")
"""Names of the steps of the critical path that lie inside no activity."""


def asked(
    run: Run,
    target: Machine,
    model: Model,
    network: OnNetwork | None = None,
    apply: Sequence[str] = (),
) -> tuple[Moved, Answer]:
    """Return a run before and after, and the answer behind it; with changes to the program, by the
    end of most gain.

    Raises
    ------
    UsageError : A440, both changes and a network; as `questions.whatif.question.of_run` for the
        changes.
    """
    model = replace(model, replay="timeline")
    changes = changes_of(run, apply, model, network)
    before_and_after = moved(
        run.profile,
        run.source,
        target,
        model,
        ready=run.prepared(model),
        network=network,
        edited=changes,
    )
    return before_and_after, Answer(
        run, model, (target,), [before_and_after.projection], draws=0, network=network
    )


def stream(run: Moved, answer: Answer, sink: BinaryIO) -> int:
    """Write the JSON to an open file, a piece at a time, and return the number of events.

    Parameters
    ----------
    run : before and after, from `turnbuckle.questions.before_after.question.moved`.
    answer : the same question's answer; its contract of ``project`` becomes the file's
        ``otherData``.
    """
    about = {**answer.as_dict(), "critical_path_explained": run.explained}
    if run.edits:
        about["edits"] = list(run.edits)
    sink.write(b'{"displayTimeUnit":"ns","otherData":' + _json(about) + b',"traceEvents":[\n')
    count = 0
    for events in _events(run, about):
        if len(events):
            sink.write((b",\n" if count else b"") + ",\n".join(events).encode("utf-8"))
            count += len(events)
    sink.write(b"\n]}\n")
    return count


def _ns(seconds: pl.Series) -> Int:
    """Round projected times to the nanosecond."""
    out: Int = np.rint(seconds.to_numpy() * 1e9).astype(np.int64)
    return out


def _json(value: Any) -> bytes:
    return json.dumps(_harmless(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _harmless(value: Any) -> Any:
    """Return a value with harmless texts, and without infinity and NaN, which JSON does not
    have.
    """
    if isinstance(value, Mapping):
        return {clean(k): _harmless(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(v) for v in value]
    if isinstance(value, str):
        return clean(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Side:
    """One half of the file: its times [ns] and the lane of each activity."""

    word: str
    machine: str
    start_ns: Int
    end_ns: Int
    lane: Int
    after: bool


def sides(run: Moved) -> list[Side]:
    """Return the measured and the projected half of a run, activities on lanes where they overlap
    without nesting.
    """
    table = run.table
    before = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    after = _ns(table["projected_start"]), _ns(table["projected_end"])
    track = table["track"].to_numpy()
    target = clean(
        ", with ".join([run.target.name, *([" and ".join(run.edits)] if run.edits else [])])
    )
    return [
        Side("measured", clean(run.source.name), *before, lanes(track, *before), False),
        Side("projected", target, *after, lanes(track, *after), True),
    ]


def _events(run: Moved, about: dict[str, Any]) -> Iterator[list[str]]:
    """Yield all events as JSON texts, metadata first."""
    halves = sides(run)
    track = run.table["track"].to_numpy()
    placed = [places(run.profile, side, track) for side in halves]
    yield _metadata(run, halves, placed)
    names = labels(run)
    for side, place in zip(halves, placed, strict=True):
        frame = slices(run, names, side, place)
        for first_row in range(0, frame.height, _AT_ONCE):
            yield _slice_texts(frame.slice(first_row, _AT_ONCE), side)
    for side, path in zip(halves, (run.path_before, run.path_after), strict=True):
        steps = shown(run, path)
        if steps.height:
            yield [_run_text(about, side, steps)]
        for first_row in range(0, steps.height, _AT_ONCE):
            yield _path_texts(steps.slice(first_row, _AT_ONCE), names, side)
        if side.after:
            yield from _delay_texts(steps)


def lanes(track: Int, start_ns: Int, end_ns: Int) -> Int:
    """Return the lane of each activity on its track.

    The lane is 0 unless activities overlap and neither contains the other.

    >>> lanes(np.zeros(4, np.int64), np.array([0, 1, 2, 9]), np.array([5, 3, 8, 10])).tolist()
    [0, 0, 1, 0]
    """
    order = np.lexsort((-end_ns, start_ns, track))
    lane = np.zeros(len(order), dtype=np.int64)
    starts, ends, tracks = start_ns[order], end_ns[order], track[order]
    open_ends: list[list[int]] = []
    current_track = reach = -1
    for i in _crowded(tracks, starts, ends).tolist():
        start, end = int(starts[i]), int(ends[i])
        if tracks[i] != current_track or start >= reach:
            current_track, reach, open_ends = int(tracks[i]), end, []
        reach = max(reach, end)
        for number, stack in enumerate(open_ends):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or end <= stack[-1]:
                stack.append(end)
                lane[order[i]] = number
                break
        else:
            lane[order[i]] = len(open_ends)
            open_ends.append([end])
    return lane


def _crowded(track: Int, start: Int, end: Int) -> Int:
    """Return the sorted activities that share time with another of their track.

    Most runs have few of them, and the others need no search.
    """
    if not len(start):
        return np.zeros(0, dtype=np.int64)
    first = np.diff(track, prepend=track[0] - 1) != 0
    span = int(end.max()) + 1 - int(start.min())
    # tracks one behind the other on one axis, so that one running maximum serves all
    if int(first.sum()) * span > 1 << 62:
        start, end = np.unique(np.stack([start, end]), return_inverse=True)[1].reshape(2, -1)
        span = 2 * len(start)
    offset = np.cumsum(first) * span
    reach = np.maximum.accumulate(end + offset)
    joined = np.concatenate([[False], (start + offset)[1:] < reach[:-1]]) & ~first
    inside: Int = np.flatnonzero(joined | np.concatenate([joined[1:], [False]]))
    return inside


def places(profile: Profile, side: Side, track: Int) -> dict[tuple[int, int], int]:
    """Return the number in the file of each (track, lane), in display order: host threads, then
    streams, each by its numbers.

    The two sides take alternate numbers, so that no number is used twice.
    """
    tracks = {row["track"]: row for row in profile.tracks.iter_rows(named=True)}

    def place(pair: tuple[int, int]) -> tuple[bool, int, int, int, int, int]:
        row = tracks[pair[0]]
        return (
            row["what"] == "stream",
            row["process"] or 0,
            row["thread"] or 0,
            row["device"] or 0,
            row["stream"] or 0,
            pair[1],
        )

    pairs = {(int(t), int(n)) for t, n in np.unique(np.stack([track, side.lane]), axis=1).T}
    return {
        pair: _FIRST_TRACK + 2 * k + side.after for k, pair in enumerate(sorted(pairs, key=place))
    }


def _processes(run: Moved, side: Side) -> dict[int | None, int]:
    """Return the process number of each recorded process on one side; measured and projected
    alternate.
    """
    used = run.profile.tracks.filter(pl.col("track").is_in(run.table["track"].unique().implode()))
    distinct = used["process"].unique(maintain_order=True).to_list()
    return {process: PATHS + 1 + 2 * k + side.after for k, process in enumerate(distinct)}


def _metadata(
    run: Moved, halves: list[Side], placed: list[dict[tuple[int, int], int]]
) -> list[str]:
    """Return the events that name and order all tracks."""
    out: list[str] = []

    def say(event_name: str, pid: int, tid: int, **args: str | int) -> None:
        event = {"ph": "M", "name": event_name, "pid": pid, "tid": tid, "args": args}
        out.append(json.dumps(event, ensure_ascii=False, separators=(",", ":")))

    say("process_name", PATHS, 0, name="critical path")
    say("process_sort_index", PATHS, 0, sort_index=0)
    for side, place in zip(halves, placed, strict=True):
        say("thread_name", PATHS, path_track(side), name=f"{side.word} on {side.machine}")
        say("thread_sort_index", PATHS, path_track(side), sort_index=int(side.after))
        for pid, name in process_names(run, halves, side):
            say("process_name", pid, 0, name=name)
            say("process_sort_index", pid, 0, sort_index=pid)
        for tid, pid, name in track_names(run, side, place):
            say("thread_name", pid, tid, name=name)
            say("thread_sort_index", pid, tid, sort_index=tid)
    return out


def process_names(run: Moved, halves: list[Side], side: Side) -> Iterator[tuple[int, str]]:
    """Yield number and name of each process of one side."""
    ranks = {
        process_of(thread): rank
        for thread, rank in run.profile.trace.mpi_ranks.select("thread", "rank").iter_rows()
    }
    several = len(_processes(run, halves[0])) > 1
    for process, pid in _processes(run, side).items():
        rank = f", rank {ranks[process]}" if process in ranks else ""
        process_words = (
            f", process {thread_number(process_number(process))}"
            if several and process is not None
            else ""
        )
        yield pid, f"{side.word} on {side.machine}{process_words}{rank}"


def track_names(
    run: Moved, side: Side, place: dict[tuple[int, int], int]
) -> Iterator[tuple[int, int, str]]:
    """Yield number, process and name of each track of one side."""
    tracks = {row["track"]: row for row in run.profile.tracks.iter_rows(named=True)}
    numbers = _processes(run, side)
    for (track, lane), tid in place.items():
        row = tracks[track]
        name = {
            "thread": f"host thread {thread_number(row['thread'] or 0)}",
            "stream": f"GPU {row['device']} stream {row['stream']}",
        }
        yield (
            tid,
            numbers[row["process"]],
            name.get(row["what"], "host") + (f" ({lane + 1})" if lane else ""),
        )


def path_track(side: Side) -> int:
    """Return the number of the track that holds the critical path of one side."""
    return PATHS + 100 + side.after


def labels(run: Moved) -> pl.Series:
    """Return the name of each activity as JSON with its quotes.

    Each distinct name is encoded once.
    """
    keys = run.table.select(
        "name", pl.col("kind").cast(pl.String), pl.col("memory").cast(pl.String)
    )
    named = keys.with_columns(
        kind=pl.when(pl.col("name").is_null()).then("kind"),
        memory=pl.when(pl.col("name").is_null()).then("memory"),
    )
    distinct = named.unique(maintain_order=True)
    texts = []
    for text, kind, memory in zip(
        run.profile.trace.text(distinct), distinct["kind"], distinct["memory"], strict=True
    ):
        plain = (
            text
            if text is not None
            else _KINDS.get(kind, kind or "nameless")
            + (f", {memory}" if memory not in (None, "unknown") else "")
        )
        texts.append(json.dumps(clean(plain) or "(no name)", ensure_ascii=False))
    labelled = named.join(
        distinct.with_columns(label=pl.Series(texts, dtype=pl.String)),
        on=named.columns,
        nulls_equal=True,
        maintain_order="left",
    )
    return labelled["label"]


def slices(
    run: Moved, names: pl.Series, side: Side, place: dict[tuple[int, int], int]
) -> pl.DataFrame:
    """Return one row per slice, track by track in time order, outer slices before those they
    contain.
    """
    table, numbers = run.table, _processes(run, side)
    of_track = {
        track: numbers.get(process, 0)
        for track, process in run.profile.tracks.select("track", "process").iter_rows()
    }
    where = pl.DataFrame(
        [(track, lane, of_track[track], tid) for (track, lane), tid in place.items()],
        schema={"track": pl.Int32, "lane": pl.Int64, "pid": pl.Int64, "tid": pl.Int64},
        orient="row",
    )
    placed = table.select("track", lane=pl.Series(side.lane)).join(
        where, on=["track", "lane"], how="left", maintain_order="left"
    )
    calls = table["caller"].drop_nulls().unique()
    frame = table.select(
        "number",
        "track",
        "size_bytes",
        "correlation",
        "moved",
        "longer",
        "added",
        "absorbed",
        "reason",
        "held_by",
        "ended_by",
        cat=pl.col("category").cast(pl.String),
        critical=pl.col("critical_after" if side.after else "critical_before"),
        flow_in=pl.when(pl.col("caller").is_in(table["number"].implode())).then("caller"),
        flow_out=pl.col("number").is_in(calls.implode()),
    ).with_columns(
        placed["pid"],
        placed["tid"],
        label=names,
        ts=pl.Series(side.start_ns),
        end=pl.Series(side.end_ns),
    )
    return frame.sort("tid", "ts", pl.col("end"), descending=[False, False, True])


def _microseconds(ns: pl.Expr) -> pl.Expr:
    """Convert nanoseconds to microseconds with three decimals, which is exact."""
    size = ns.abs()
    return pl.concat_str(
        pl.when(ns < 0).then(pl.lit("-")).otherwise(pl.lit("")),
        (size // 1000).cast(pl.String),
        pl.lit("."),
        (size % 1000).cast(pl.String).str.zfill(3),
    )


def _slice_texts(frame: pl.DataFrame, side: Side) -> list[str]:
    nothing = pl.lit("")
    parts: list[pl.Expr] = []

    def arg(key: str, value: pl.Expr, when: pl.Expr) -> None:
        parts.append(
            pl.when(when)
            .then(pl.concat_str(pl.lit(f',"{key}":'), value.cast(pl.String)))
            .otherwise(nothing)
        )

    arg("bytes", pl.col("size_bytes"), pl.col("size_bytes").is_not_null())
    arg("correlation", pl.col("correlation"), pl.col("correlation").is_not_null())
    arg("critical", pl.lit("true"), pl.col("critical"))
    if side.after:
        for column in ("moved", "longer", "added", "absorbed"):
            ns = (pl.col(column) * 1e9).round().cast(pl.Int64)
            arg(f"{column}_us", _microseconds(ns), ns != 0)
        for column in ("reason", "held_by", "ended_by"):
            arg(
                column,
                pl.concat_str(pl.lit('"'), pl.col(column).cast(pl.String), pl.lit('"')),
                pl.col(column).is_not_null(),
            )
    flow = (2 * pl.coalesce("flow_in", "number") + 1 + side.after).cast(pl.String)
    text = frame.select(
        pl.concat_str(
            pl.lit('{"ph":"X","pid":'),
            pl.col("pid").cast(pl.String),
            pl.lit(',"tid":'),
            pl.col("tid").cast(pl.String),
            pl.lit(',"ts":'),
            _microseconds(pl.col("ts")),
            pl.lit(',"dur":'),
            _microseconds(pl.col("end") - pl.col("ts")),
            pl.lit(',"name":'),
            "label",
            pl.lit(',"cat":"'),
            "cat",
            pl.when("critical")
            .then(pl.lit(f',critical","cname":"{_CRITICAL}"'))
            .otherwise(pl.lit('"')),
            pl.when(pl.col("flow_in").is_not_null())
            .then(pl.concat_str(pl.lit(',"bind_id":"'), flow, pl.lit('","flow_in":true')))
            .when("flow_out")
            .then(pl.concat_str(pl.lit(',"bind_id":"'), flow, pl.lit('","flow_out":true')))
            .otherwise(nothing),
            pl.lit(',"args":{'),
            pl.concat_str(*parts).str.strip_prefix(","),
            pl.lit("}}"),
        )
    )
    return cast(list[str], text.to_series().to_list())


def shown(run: Moved, path: pl.DataFrame) -> pl.DataFrame:
    """Return the edges of a critical path that take time [ns] and lead to an activity of the table;
    `at` is its row there.
    """
    rows = run.table.select("number").with_row_index("at")
    return (
        path.join(rows, on="number", how="inner", maintain_order="left")
        .with_columns(
            ts=(pl.col("start") * 1e9).round().cast(pl.Int64),
            end=(pl.col("end") * 1e9).round().cast(pl.Int64),
            moved_ns=(pl.col("moved") * 1e9).round().cast(pl.Int64),
        )
        .filter(pl.col("end") > pl.col("ts"))
    )


def run_words(about: dict[str, Any], side: Side) -> tuple[str, dict[str, Any]]:
    """Return the name of the slice that contains the critical path of one side, and the answer
    behind it.
    """
    projection, made = about["projections"][0], about["provenance"]
    seconds = projection["seconds" if side.after else "measured_seconds"]
    args = {
        "run_time_s": seconds,
        "penalty": projection["penalty"] if side.after else 1.0,
        "recording": made["profile"]["file"],
        "sha256": made["profile"]["sha256"],
        "tool": f"{made['tool']} {made['version']}",
        "model": projection["model"],
        "replay": projection["replay"],
        "explained": about["critical_path_explained"],
        "findings": [
            f"{f['code']} {f['meaning']}" for f in [*about["findings"], *projection["findings"]]
        ],
    }
    return f"{side.word} run time {show(seconds, 's', 4)}", args


def _run_text(about: dict[str, Any], side: Side, steps: pl.DataFrame) -> str:
    """Return the slice that contains the critical path of one side."""
    name, args = run_words(about, side)
    first, last = int(steps["ts"][0]), int(steps["end"][-1])
    event = {
        "ph": "X",
        "pid": PATHS,
        "tid": path_track(side),
        "ts": first / 1000,
        "dur": (last - first) / 1000,
    }
    return _json({**event, "name": name, "cat": "run", "args": args}).decode("utf-8")


def step_names(steps: pl.DataFrame, names: pl.Series) -> list[str]:
    """Return the name of each step of a critical path: of its activity, or of the wait."""
    activities = [unquoted(label) for label in names.gather(steps["at"])]
    return [
        name if kind in ("run", "call") else _EDGES[kind]
        for kind, name in zip(steps["kind"].cast(pl.String), activities, strict=True)
    ]


def unquoted(label: str) -> str:
    """Return a name from its JSON text."""
    name: str = json.loads(label)
    return name


def _path_texts(steps: pl.DataFrame, names: pl.Series, side: Side) -> list[str]:
    """Return the steps of a critical path: activities by their names, and the waits between
    them.
    """
    waits = {kind: json.dumps(_EDGES[kind]) for kind in KINDS if kind not in ("run", "call")}
    words = pl.col("kind").cast(pl.String).replace_strict(waits, default=None)
    text = steps.with_columns(label=names.gather(steps["at"])).select(
        pl.concat_str(
            pl.lit(f'{{"ph":"X","pid":{PATHS},"tid":{path_track(side)},"ts":'),
            _microseconds(pl.col("ts")),
            pl.lit(',"dur":'),
            _microseconds(pl.col("end") - pl.col("ts")),
            pl.lit(',"name":'),
            pl.coalesce(words, "label"),
            pl.lit(f',"cat":"critical","cname":"{_CRITICAL}","args":{{"leads_to":'),
            "label",
            pl.lit(',"delay_us":'),
            _microseconds(pl.col("moved_ns")),
            pl.lit("}}"),
        )
    )
    return cast(list[str], text.to_series().to_list())


def _delay_texts(steps: pl.DataFrame) -> Iterator[list[str]]:
    """Yield how much later than recorded the critical path is, wherever that changes."""
    changed = steps.filter((pl.col("moved_ns") != pl.col("moved_ns").shift(1)).fill_null(True))
    for first_row in range(0, changed.height, _AT_ONCE):
        text = changed.slice(first_row, _AT_ONCE).select(
            pl.concat_str(
                pl.lit(f'{{"ph":"C","pid":{PATHS},"tid":{PATHS + 101},"ts":'),
                _microseconds(pl.col("end")),
                pl.lit(',"name":"accumulated delay","cat":"delay","args":{"us":'),
                _microseconds(pl.col("moved_ns")),
                pl.lit("}}"),
            )
        )
        yield cast(list[str], text.to_series().to_list())
