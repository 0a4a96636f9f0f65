"""Before and after: the place of every activity of a run as recorded and as projected, and what
moved it.

An activity begins when the last of what it waits for has happened, so the move of its begin is
exactly

    moved = handed + added - absorbed

where `handed` is the move of what it waits for on the target, `added` the change of the lag between
the two, and `absorbed` the time that lag was waited for in vain in the recording, because something
else was later then.  The move of its end is that of its begin plus how much `longer` it takes.

Errors (`turnbuckle.foundation.errors.CannotAnswer`), where the target is another machine:

    A121  the profile holds no host-device activity
    A122  its order cannot be trusted
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.machine import Machine, Pair
from turnbuckle.profile.dependencies.graph import EDGE, EDGES, Graph
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.admission import (
    require,
    require_calls,
    require_numbers,
    trusted_timeline,
)
from turnbuckle.projection.elsewhere.network import Between, OnNetwork
from turnbuckle.projection.model import Model
from turnbuckle.projection.order import Prepared, changed, on_network, prepared, timeline_of
from turnbuckle.projection.project import answered, priced
from turnbuckle.projection.projection import Projection
from turnbuckle.replay.timeline import Change, TimelineReplay

#: What an activity does to the move that it is handed: it did not move at all; it follows what it
#: waits for; it absorbs some of the move, because it had waited for something else; the lag before
#: it changes; it takes longer or shorter itself; or it is a call, and what it waits for inside ends
#: at another time.  Where several do, the largest.
REASONS: Final = ("still", "follows", "absorbs", "lag", "own", "waits")
#: Kinds of edge; an edit of the program can make some that keep their lag.
KINDS: Final = (*EDGES, "order")
#: Moves below this are rounding of the projected times [ns].
_STILL_NS: Final = 0.5
#: How far two sums of the same lags may differ by rounding [ns].
_ROUNDING_NS: Final = 0.01


@dataclass(frozen=True)
class Moved:
    """A run before and after.

    Attributes
    ----------
    profile, projection : the recording, and what it would take on the target.
    source, target : the machines, the target resolved.
    table : one row an activity, in time order of the recording; columns as `moved` says.
    path_before, path_after : the critical path, first to last; columns as `moved` says.
    activities : how many activities the graph has, whether in `table` or not.
    explained : share of the recorded critical path that the dependency rules explain.
    edits : names of the changes to the program that the second side has.
    """

    profile: Profile
    projection: Projection
    source: Machine
    target: Machine
    table: pl.DataFrame
    path_before: pl.DataFrame
    path_after: pl.DataFrame
    activities: int
    explained: float
    edits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Both:
    """A run compiled as recorded, and what another machine, network or order of work changes in it.

    Attributes
    ----------
    pair, model : the machines, resolved, and the price list, whose replay is the timeline.
    recorded : the run as recorded, compiled.
    ready : the run that is changed: the same, or the edited one.
    timeline, change : its graph, and what the target changes in that.
    """

    pair: Pair
    model: Model
    recorded: TimelineReplay
    ready: Prepared
    timeline: TimelineReplay
    change: Change


def on_both(
    profile: Profile,
    source: Machine,
    target: Machine,
    model: Model,
    *,
    ready: Prepared | None = None,
    network: OnNetwork | None = None,
    edited: tuple[Prepared, tuple[str, ...]] | None = None,
) -> Both:
    """Return a run on its own machine and on another, ready for the replay.  Parameters and errors
    as for `moved`.
    """
    pair = Pair(source, target)
    require(profile, pair)
    if target is not source:
        require_calls(profile)
    model = replace(model, replay="timeline")
    ready = ready or prepared(profile, model)
    if network is not None:
        ready = on_network(Between.of(profile), ready, network)
    another = target is not source or network is not None or edited is not None
    recorded = trusted_timeline(ready) if another else timeline_of(ready)
    if edited is not None:
        ready = edited[0]
    return Both(
        pair, model, recorded, ready, timeline_of(ready), changed(ready, priced(ready, pair, model))
    )


def moved(
    profile: Profile,
    source: Machine,
    target: Machine,
    model: Model,
    *,
    ready: Prepared | None = None,
    network: OnNetwork | None = None,
    edited: tuple[Prepared, tuple[str, ...]] | None = None,
) -> Moved:
    """Replay a run on its own machine and on another, and set the two beside each other.

    Parameters
    ----------
    profile : the recorded run.
    source, target : where it ran, as observed, and where it might run.
    model : price list; its replay is the timeline here, whatever it names.
    ready : the profile, compiled already.
    network : the network that messages between ranks are replayed on; None keeps their recorded
        time.
    edited : the run with changes to the program, and their names; None for the program as it is.

    Returns
    -------
    Moved.  Columns of its table:

    - ``number``: index of the activity in the graph; ``activity``: its row in
      ``profile.activities``;
    - ``kind``, ``category``, ``direction``, ``memory``, ``size_bytes`` [B], ``name`` (index into
      the trace's names), ``track``;
    - ``caller``: number of the host call that started it; ``correlation``: the id of that call, or
      its own if it is one;
    - ``start_ns``, ``end_ns``: as recorded [ns after the run's start];
    - ``projected_start``, ``projected_end``: on the target [s after the run's start], to 1e-12 s;
    - ``moved``, ``longer``, ``handed``, ``added``, ``absorbed`` [s]: see the head of this module;
    - ``reason``: one of `REASONS`; ``held_by``, ``ended_by``: kind of edge (`KINDS`) that decides
      its begin and its end on the target, null where none does; ``held_by_number``: the activity
      waited for, null for the run's start;
    - ``critical_before``, ``critical_after``: whether its begin or its end lies on the critical
      path.

    Columns of the paths: ``kind`` of edge, ``number`` of the activity whose begin or end it leads
    to, ``start``, ``end`` [s], and ``moved`` [s], how much later than recorded its end is.  Each
    edge begins where the one before it ends.

    Raises
    ------
    CannotAnswer : A121, A122; A190, a number that decides is not stated.
    """
    both = on_both(profile, source, target, model, ready=ready, network=network, edited=edited)
    pair, recorded, timeline, change = both.pair, both.recorded, both.timeline, both.change
    projection = answered(profile, both.ready, pair, both.model)
    require_numbers(projection)
    graph = timeline.graph
    seconds, edges_after = timeline.path(change)
    edges_before = recorded.unchanged_path[1]
    after_ns = np.round(seconds * 1e9, 3)
    table = _described(profile, graph).hstack(_moves(timeline, change, after_ns))
    table = table.with_columns(
        critical_before=pl.Series(_on_path(recorded.graph, edges_before)),
        critical_after=pl.Series(_on_path(graph, edges_after)),
    ).sort("start_ns", pl.col("end_ns"), "number", descending=[False, True, False])
    return Moved(
        profile,
        projection,
        pair.source,
        pair.target,
        table,
        _path(recorded.graph, edges_before, graph.time_ns.astype(np.float64), graph.time_ns),
        _path(graph, edges_after, after_ns, graph.time_ns),
        len(graph.activity),
        1.0 if both.ready.trust is None else both.ready.trust.explained,
        () if edited is None else edited[1],
    )


def _described(profile: Profile, graph: Graph) -> pl.DataFrame:
    """Return the description of each activity, and the call that started it."""
    rows = profile.activities[graph.activity].select(
        "kind",
        "category",
        "direction",
        "memory",
        "size_bytes",
        "name",
        "track",
        row=pl.col("row").fill_null(-1),
    )
    caller = np.full(len(graph.activity), -1, dtype=np.int64)
    delivers = np.flatnonzero((graph.kind == EDGE["deliver"]) & (graph.source > 0))
    caller[graph.owner[delivers]] = (graph.source[delivers] - 1) // 2
    number = np.arange(len(caller), dtype=np.int64)
    call_number = np.where((rows["category"] == "api").to_numpy(), number, caller)
    call_rows = profile.activities["row"].fill_null(-1).to_numpy()[graph.activity]
    ids = profile.trace.api["correlation"]
    return rows.drop("row").with_columns(
        number=pl.Series(number),
        activity=pl.Series(graph.activity),
        caller=_indices(caller),
        correlation=ids.gather(_indices(np.where(call_number >= 0, call_rows[call_number], -1)))
        if len(ids)
        else pl.lit(None, pl.Int64),
        start_ns=pl.Series(graph.time_ns[1::2]),
        end_ns=pl.Series(graph.time_ns[2::2]),
    )


def _indices(values: Int) -> pl.Series:
    """Return indices as a column, null where negative."""
    return (
        pl.Series(values, dtype=pl.Int64)
        .to_frame("i")
        .select(pl.when(pl.col("i") >= 0).then("i"))["i"]
    )


def _moves(timeline: TimelineReplay, change: Change, after_ns: Float) -> pl.DataFrame:
    """Return the place of each activity on the target, and the parts of its move."""
    graph = timeline.graph
    before_ns, lag, new_lag = graph.time_ns, graph.lag_ns, lags_ns(timeline, change)
    free_before = (
        before_ns[graph.target] - graph.residual_ns[graph.target] - before_ns[graph.source] - lag
    )
    free_after = (
        after_ns[graph.target] - graph.residual_ns[graph.target] - after_ns[graph.source] - new_lag
    )
    by = np.full(len(before_ns), -1, dtype=np.int64)
    deciding = np.flatnonzero(free_after <= _ROUNDING_NS)[::-1]
    by[graph.target[deciding]] = deciding  # of several the first, as on the critical path
    count = len(graph.activity)
    start, end = np.arange(1, 2 * count, 2), np.arange(2, 2 * count + 1, 2)
    held, ended = by[start], by[end]
    parts = np.zeros((3, count))
    has = held >= 0
    edge = held[has]
    parts[0, has] = after_ns[graph.source[edge]] - before_ns[graph.source[edge]]
    parts[1, has] = new_lag[edge] - lag[edge]
    parts[2, has] = free_before[edge]
    shift = after_ns[start] - before_ns[start]
    longer = np.round(after_ns[end] - before_ns[end] - shift, 3)
    held_kind, ended_kind = (
        np.where(e >= 0, graph.kind[e], -1) if len(graph.kind) else e for e in (held, ended)
    )
    waits = (ended >= 0) & ~np.isin(ended_kind, [EDGE["run"], EDGE["call"]])
    handed, added, absorbed = np.round(parts, 3)
    sizes = np.abs(
        [
            np.full(count, _STILL_NS),
            absorbed * (handed != 0),
            added,
            np.where(waits, 0.0, longer),
            np.where(waits, longer, 0.0),
        ]
    )
    still = np.maximum(np.abs(shift), np.abs(longer)) < _STILL_NS
    before_it = (
        np.where(has, (graph.source[np.maximum(held, 0)] + 1) // 2 - 1, -1)
        if len(graph.kind)
        else held
    )
    kinds = pl.Enum(KINDS)

    def word(codes: Int, words: pl.Enum) -> pl.Series:
        return pl.Series(words.categories, dtype=words).gather(_indices(codes)).alias("word")

    return pl.DataFrame(
        {
            "projected_start": after_ns[start] * 1e-9,
            "projected_end": after_ns[end] * 1e-9,
            "moved": shift * 1e-9,
            "longer": longer * 1e-9,
            "handed": handed * 1e-9,
            "added": added * 1e-9,
            "absorbed": absorbed * 1e-9,
            "reason": word(np.where(still, 0, 1 + np.argmax(sizes, axis=0)), pl.Enum(REASONS)),
            "held_by": word(held_kind, kinds),
            "held_by_number": _indices(before_it),
            "ended_by": word(ended_kind, kinds),
        }
    )


def lags_ns(timeline: TimelineReplay, change: Change) -> Float:
    """Return the lag of every edge after a change [ns]."""
    lag = timeline.graph.lag_ns
    more = timeline.slopes(np.arange(len(lag), dtype=np.int64), change.values) * 1e9
    out: Float = np.maximum(lag + more, 0.0)
    return out


def _on_path(graph: Graph, edges: Int) -> Bool:
    """Return for each activity whether its begin or its end lies on the path."""
    instants = np.concatenate([graph.source[edges], graph.target[edges]])
    out = np.zeros(len(graph.activity), dtype=np.bool_)
    out[(instants[instants > 0] - 1) // 2] = True
    return out


def _path(graph: Graph, edges: Int, instants_ns: Float, before_ns: Int) -> pl.DataFrame:
    ordered = edges[::-1]
    source, target = graph.source[ordered], graph.target[ordered]
    kinds = pl.Series(KINDS, dtype=pl.Enum(KINDS))
    return pl.DataFrame(
        {
            "kind": kinds.gather(pl.Series(graph.kind[ordered], dtype=pl.Int64)),
            "number": ((target - 1) // 2).astype(np.int64),
            "start": instants_ns[source] * 1e-9,
            "end": instants_ns[target] * 1e-9,
            "moved": (instants_ns[target] - before_ns[target]) * 1e-9,
        }
    )


# --- a stretch worth looking at -------------------------------------------------------------------

#: Device activities looked at for a period, and the longest period looked for.
_LOOKED_AT: Final = 1 << 14
_LONGEST_PERIOD: Final = 1 << 12
#: Share of activities that must repeat one period later.
_REPEATS: Final = 0.8
#: Iterations shown at most.
_ITERATIONS: Final = 3


@dataclass(frozen=True)
class Window:
    """A stretch of a run that stands for the rest.

    Attributes
    ----------
    first_ns, last_ns : as recorded [ns after the run's start].
    projected_first : when what stands first in it begins on the target [s after the run's start].
    rows : rows of `Moved.table` recorded in it, in time order; at most the number asked for.
    chosen : ``whole`` run, ``iterations`` of a repeating sequence of device work, or where the most
        ``change`` is.
    iterations, period : how many iterations it shows, and device activities of one; 0 where nothing
        repeats.
    """

    first_ns: int
    last_ns: int
    projected_first: float
    rows: Int
    chosen: str
    iterations: int = 0
    period: int = 0


#: A stretch of the repeating part is shown if it changes by this share of what the stretch of the
#: whole run does that changes most.
_MATTERS: Final = 0.25


def window(run: Moved, most: int = 400) -> Window:
    """Choose a part of `run` that represents the rest, of `most` activities at most.

    A run that is short enough is shown whole. If the sequence of device work repeats, the window
    holds up to three iterations, from the first call that starts their work. They are around the
    iteration whose change is the median of all, and each begins where the device idles longest. For
    an iteration that is too long, and for a run that does not repeat, the window holds most of the
    change on the critical path.
    """
    table = run.table
    starts, ends = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    if len(starts) <= most:
        return _cut(run, 0, int(ends.max(initial=0)) + 1, most, "whole")
    device = np.flatnonzero(table["category"].is_in(["kernel", "copy"]).to_numpy())
    tokens = table.select(pl.struct(pl.col("kind").to_physical(), "name").rank("dense"))[
        "kind"
    ].to_numpy()[device]
    bounds = 0, int(ends.max()) + 1
    for first, last, period in _repeated(tokens):
        begin, end, iterations = _iterations(run, device, first, last, period, most)
        if iterations:
            return _cut(run, begin, end, most, "iterations", iterations, period)
        bounds = begin, end
    change, begin, end = _most_change(run, *bounds, most)
    most_of_all = _most_change(run, 0, int(ends.max()) + 1, most)
    # an iteration that hides the change stands for nothing of it
    begin, end = most_of_all[1:] if change < _MATTERS * most_of_all[0] else (begin, end)
    return _cut(run, begin, end, most, "change")


def _cut(
    run: Moved, first: int, last: int, most: int, chosen: str, iterations: int = 0, period: int = 0
) -> Window:
    starts, ends = run.table["start_ns"].to_numpy(), run.table["end_ns"].to_numpy()
    last = max(last, first + 1)
    rows: Int = np.flatnonzero((starts < last) & ((ends > first) | (starts >= first)))
    if len(rows) > most:
        rows = rows[:most]
        last = int(starts[rows[-1]]) + 1
    inside = rows[starts[rows] >= first]
    # of a stretch of the critical path the moment is the path's own: a call that waits for it may
    # begin late
    leads = inside[run.table["critical_after"].to_numpy()[inside]] if chosen == "change" else inside
    anchor = next((some[0] for some in (leads, inside, rows) if len(some)), None)
    projected_first = first * 1e-9
    if anchor is not None:
        projected_first = (
            float(run.table["projected_start"][int(anchor)]) - (int(starts[anchor]) - first) * 1e-9
        )
    return Window(first, last, projected_first, rows, chosen, iterations, period)


def _most_change(run: Moved, first: int, last: int, most: int) -> tuple[float, int, int]:
    """Return the most by which the critical path changes in a part between two times [s], and the
    bounds of that part [ns].
    """
    table = run.table.filter(pl.col("start_ns").is_between(first, last, closed="left"))
    starts = table["start_ns"].to_numpy()
    if len(starts) <= most:
        return np.inf, first, last
    # by how much the critical path runs late so far, which leaves an activity at its end; a delay
    # that something else hides is none
    late = table["projected_end"].to_numpy() - table["end_ns"].to_numpy() * 1e-9
    critical = table["critical_after"].to_numpy()
    stays = critical & table["critical_before"].to_numpy()
    if (critical := stays if stays.any() else critical).any():
        latest = np.maximum.accumulate(
            np.where(critical, np.arange(len(late)), int(np.argmax(critical)))
        )
        late = late[latest]
    late = np.concatenate([[float(table["projected_start"][0]) - int(starts[0]) * 1e-9], late])
    changes = (late[most:] - late[:-most]) * (1.0 if late[-1] >= late[0] else -1.0)
    # without any change every part is as good, so take the middle
    place = int(np.argmax(changes)) if changes.max() > _STILL_NS * 1e-9 else len(changes) // 2
    return (
        float(changes[place]),
        int(starts[place]),
        int(starts[place + most]) if place + most < len(starts) else last,
    )


def _repeated(tokens: Int) -> list[tuple[int, int, int]]:
    """Return parts of the tokens that repeat exactly, as (first, last, period).

    The best period comes first, then shorter ones that are nearly as good.
    """
    middle = max((len(tokens) - _LOOKED_AT) // 2, 0)
    seen = tokens[middle : middle + _LOOKED_AT]
    shares = np.array(
        [
            float((seen[p:] == seen[:-p]).mean())
            for p in range(1, min(len(seen) // 3, _LONGEST_PERIOD) + 1)
        ]
    )
    out: list[tuple[int, int, int]] = []
    if not len(shares) or shares.max() < _REPEATS:
        return out
    for period in dict.fromkeys(
        1 + int(np.argmax(shares >= max(least, _REPEATS)))
        for least in shares.max() * np.array([0.99, 0.9])
    ):
        same = np.concatenate([[False], tokens[period:] == tokens[:-period], [False]])
        bounds = np.flatnonzero(same[1:] != same[:-1])
        lengths = bounds[1::2] - bounds[::2]
        if len(lengths) and lengths.max() >= period:
            first = int(bounds[::2][np.argmax(lengths)])
            out.append((first, first + int(lengths.max()) + period, period))
    return out


def _iterations(
    run: Moved, device: Int, first: int, last: int, period: int, most: int
) -> tuple[int, int, int]:
    """Return the bounds [ns] of iterations that represent all, and their number; 0 if a single one
    is too long to show.
    """
    table = run.table
    starts, ends = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    projected = table["projected_start"].to_numpy()
    inside = device[first:last]
    idle = starts[inside] - np.concatenate(
        [starts[inside[:1]], np.maximum.accumulate(ends[inside])[:-1]]
    )
    count = len(inside) // period
    phase = int(np.argmax(np.median(idle[: count * period].reshape(count, period)[1:], axis=0)))
    begins = inside[phase::period]
    if len(begins) < 2:
        begins = inside[::period]
    took, takes = np.diff(starts[begins]), np.diff(projected[begins])
    change = takes - took * 1e-9
    far = np.abs(change - np.median(change))
    # of equals, the one nearest the middle
    chosen = min(np.flatnonzero(far <= far.min()), key=lambda k: abs(int(k) - len(took) // 2))
    caller = table["caller"].fill_null(-1).to_numpy()
    row_of = np.full(run.activities + 1, -1, dtype=np.int64)
    row_of[table["number"].to_numpy()] = np.arange(table.height)
    begin = end = 0
    for shown in range(min(_ITERATIONS, len(took)), 0, -1):
        low = min(max(int(chosen) - (shown - 1) // 2, 0), len(took) - shown)
        begin, end = int(starts[begins[low]]), int(starts[begins[low + shown]])
        calls = row_of[caller[device[(device >= begins[low]) & (device < begins[low + shown])]]]
        called = starts[calls[calls >= 0]]
        begin = max(min(begin, int(called.min(initial=begin))), begin - int(took[low]))
        if int(((starts < end) & (ends > begin)).sum()) <= most:
            return begin, end, shown
    return begin, end, 0
