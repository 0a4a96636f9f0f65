"""Variants of one program: a part of a recording prepared for both replays, and the costs of its
single activities.

Nothing here knows how long the part took: a cost is a mean over activities of one name, never a
span of the time line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Text
from turnbuckle.profile.classify import call_class
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGE, Graph, begin, finish
from turnbuckle.profile.pieces import Pieces, described
from turnbuckle.profile.profile import Profile, build
from turnbuckle.replay.sum import replay_sum
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change
from turnbuckle.trace.bounds import DEVICE_TABLES
from turnbuckle.trace.trace import Trace

#: What may change, in the order in which differences are taken over.
PARAMETERS = ("kernels", "copies", "calls", "gaps", "delivery", "return")

#: Calls of one name say what delivery takes if at least this share of them found the device idle.
_IDLE_SHARE = 0.1


@dataclass(frozen=True)
class Costs:
    """Mean costs [s]: of device work by key, of a host call by itself, of the host's own work
    between two calls, between a call and the start of its work on an idle device, and between the
    end of work and the return of the call that waited.
    """

    kernels: Mapping[str, float] = field(default_factory=dict)
    copies: Mapping[str, float] = field(default_factory=dict)
    calls: Mapping[str, float] = field(default_factory=dict)
    gaps: Mapping[str, float] = field(default_factory=dict)
    delivery: Mapping[str, float] = field(default_factory=dict)
    back: Mapping[str, float] = field(default_factory=dict)

    def of(self, parameter: str) -> Mapping[str, float]:
        """Return the costs of one of `PARAMETERS`."""
        costs_of: Mapping[str, float] = getattr(
            self, "back" if parameter == "return" else parameter
        )
        return costs_of


@dataclass(frozen=True)
class Part:
    """A part of a run and its dependency graph.

    Attributes
    ----------
    profile : the stretch.
    key : per activity, the name its cost goes by; copies and sets go by direction and the rank of
        their size.
    graph : its dependencies; `without` takes some out.
    replay : the graph compiled, each activity a piece of its own.
    unpriced : the run time of the recorded graph [s].
    gone : activities that are no longer part of the run.
    """

    profile: Profile
    key: Text
    graph: Graph
    replay: TimelineReplay
    unpriced: float
    gone: Bool

    @property
    def seconds(self) -> float:
        """Return the measured length [s]."""
        return self.profile.seconds


def cut(trace: Trace, phase: int | None = None) -> Trace:
    """Return the part of a run that uses the GPU: from the first call that starts device work to
    the end of the last work.

    Calls under way at that end belong to it whole. Contexts, allocations and files before and after
    do not.

    Parameters
    ----------
    phase : number of one phase, from 1: work that no call allocating or freeing memory interrupts.
        None is all of it.

    Raises
    ------
    ValueError : there is no such phase, or no device work.
    """
    pairs = trace.launch_pairs
    parts = []
    for table in DEVICE_TABLES:
        of_table = pairs.filter(pl.col("table") == table)
        parts.append(
            of_table.select("call_start_ns").with_columns(
                end_ns=trace.table(table)["end_ns"][of_table["row"].to_numpy()]
            )
        )
    work = pl.concat(parts).sort("call_start_ns")
    if phase is not None:
        names = trace.text(trace.api).fill_null("").to_list()
        allocates = trace.api.filter(
            pl.Series([call_class(n) == "alloc" for n in names], dtype=pl.Boolean)
        )["start_ns"].to_numpy()
        number = np.searchsorted(allocates, work["call_start_ns"].to_numpy())
        each = np.unique(number)
        if phase > len(each):
            raise ValueError(f"{trace.name} has {len(each)} phases, not {phase}")
        work = work.filter(pl.Series(number == each[phase - 1]))
    if not work.height:
        raise ValueError(f"{trace.name} holds no device work that a call started")
    first, last = int(work["call_start_ns"].to_numpy().min()), int(work["end_ns"].to_numpy().max())
    inside = (pl.col("start_ns") >= first) & (pl.col("start_ns") <= last)
    tables = {
        name: trace.table(name).filter(inside & (pl.col("end_ns") <= last))
        for name in DEVICE_TABLES
    }
    tables["api"] = trace.api.filter(inside)
    for name in ("syncs", "events"):
        tables[name] = trace.table(name).join(
            tables["api"], on=["process", "correlation"], how="semi"
        )
    return replace(
        trace, tables={**{n: f for n, f in tables.items() if f.height}, "streams": trace.streams}
    )


def prepare(trace: Trace) -> Part:
    """Build profile and graph of a part, each activity a piece of its own so that names can be
    priced.
    """
    profile = build(trace)
    graph = dependencies(profile)
    rows = profile.activities
    run = _one_each(rows)
    replay = TimelineReplay.compiled(graph, run, np.arange(rows.height))
    return Part(
        profile,
        _keys(profile),
        graph,
        replay,
        float(replay.seconds(no_change(len(run)))),
        np.zeros(rows.height, dtype=np.bool_),
    )


def _one_each(rows: pl.DataFrame) -> Pieces:
    seconds, exposed, tail = (
        rows[name].to_numpy() for name in ("seconds", "exposed_ns", "tail_exposed")
    )
    times = {
        "seconds": seconds,
        "exposed_seconds": exposed * 1e-9,
        "tail_count": tail.astype(np.float64),
    }
    return Pieces(**described(rows), count=np.ones(rows.height), **times)


def _keys(profile: Profile) -> Text:
    named = profile.table().with_columns(
        pl.col("kind", "category").cast(pl.String), pl.col("name").fill_null("(no name)")
    )
    rank = pl.col("size_bytes").fill_null(0).rank("dense").over("kind").cast(pl.String)
    moves = (pl.col("category") == "copy") | (pl.col("kind") == "memset")
    key = (
        pl.when(moves)
        .then(pl.col("kind") + " " + rank)
        .otherwise(pl.when(pl.col("kind") == "gap").then(pl.lit("gap")).otherwise("name"))
    )
    return np.asarray(named.select(key.alias("key"))["key"].to_list(), dtype=object)


def costs(part: Part) -> Costs:
    """Return the mean cost of each kind of activity of a part; activities taken out do not
    count.
    """
    graph, run = part.graph, part.replay.run
    # the host's work after a removed call is removed with it; the work before it now leads to the
    # next call
    work_stays = ~part.gone[graph.activity[np.maximum(graph.source - 1, 0) // 2]] | (
        graph.source == 0
    )
    stays = ~part.gone[graph.activity[graph.owner]]
    key = part.key[graph.activity]
    lag = graph.lag_ns * 1e-9
    called, caller = key[graph.owner], key[np.maximum(graph.source - 1, 0) // 2]
    # only the critical incoming edge of a wait measures its return latency
    binding = (
        graph.time_ns[graph.source] + graph.lag_ns + graph.residual_ns[graph.target]
        == graph.time_ns[graph.target]
    )
    waited = binding & (graph.time_ns[graph.source] > graph.time_ns[begin(graph.owner)])
    # only a call to an idle device measures its delivery latency; a few first calls out of
    # thousands are not typical
    idle = run.idle_device[graph.activity[np.maximum(graph.source - 1, 0) // 2]]
    for name in np.unique(caller[graph.kind == EDGE["deliver"]]):
        deliveries = (graph.kind == EDGE["deliver"]) & (caller == name)
        idle[deliveries] &= idle[deliveries].mean() >= _IDLE_SHARE
    kernel = run.kind == "kernel"
    device = np.isin(run.category, ["kernel", "copy"])
    host = work_stays & (graph.kind == EDGE["host"])
    chosen = {kind: stays & (graph.kind == EDGE[kind]) for kind in ("call", "deliver", "sync")}
    return Costs(
        kernels=_means(part.key[kernel], run.seconds[kernel]),
        copies=_means(part.key[device & ~kernel], run.seconds[device & ~kernel]),
        calls=_means(called[chosen["call"]], lag[chosen["call"]]),
        gaps={"gap": float(lag[host].mean())} if host.any() else {},
        delivery=_means(caller[chosen["deliver"] & idle], lag[chosen["deliver"] & idle]),
        back=_means(called[chosen["sync"] & waited], lag[chosen["sync"] & waited]),
    )


def _means(key: Text, seconds: Float) -> dict[str, float]:
    return {str(k): float(seconds[key == k].mean()) for k in sorted(set(key.tolist()))}


def line(first: Costs, second: Costs, first_size: float, second_size: float, size: float) -> Costs:
    """Return the costs of kernels and copies at `size`, on the straight lines through the costs at
    two other problem sizes.
    """
    step = (size - first_size) / (second_size - first_size)

    def interpolated(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
        return {k: max(a[k] + (b[k] - a[k]) * step, 0.0) for k in sorted(a.keys() & b.keys())}

    return Costs(
        kernels=interpolated(first.kernels, second.kernels),
        copies=interpolated(first.copies, second.copies),
    )


def changed(part: Part, old: Costs, new: Costs, parameters: frozenset[str]) -> Change:
    """Return the change that gives the activities of a part other costs; a key that either side
    lacks keeps its own.
    """
    run = part.replay.run
    device = np.isin(run.category, ["kernel", "copy"])
    ratio, delivery, back = np.ones(len(run)), np.zeros(len(run)), np.zeros(len(run))
    for parameter in parameters & {"kernels", "copies", "calls"}:
        rows = (
            device & (run.kind == "kernel"),
            device & (run.kind != "kernel"),
            run.category == "api",
        )[PARAMETERS.index(parameter)]
        keys = old.of(parameter).keys() & new.of(parameter).keys()
        scale = {
            k: new.of(parameter)[k] / old.of(parameter)[k] for k in keys if old.of(parameter)[k] > 0
        }
        ratio[rows] = [scale.get(k, 1.0) for k in part.key[rows]]
    for name, out in (("delivery", delivery), ("return", back)):
        if name in parameters:
            more = {
                k: new.of(name)[k] - old.of(name)[k]
                for k in old.of(name).keys() & new.of(name).keys()
            }
            out[:] = [more.get(k, 0.0) for k in part.key]
            out[device | (run.kind == "gap")] = 0.0
    host = (
        new.gaps["gap"] / old.gaps["gap"]
        if "gaps" in parameters and old.gaps.get("gap") and new.gaps
        else 1.0
    )
    return Change(ratio, np.zeros(len(run)), delivery, back, np.array([host]))


def by_timeline(part: Part, change: Change) -> float:
    """Return the length of a part after a change [s], ordered by its dependencies."""
    return part.seconds + float(part.replay.seconds(change)) - part.unpriced


def by_sum(part: Part, old: Costs, change: Change) -> tuple[float, float]:
    """Return the length of a part after a change [s] by the sum, and its length if nothing
    overlapped and every second counted.
    """
    run = part.replay.run
    device = np.isin(run.category, ["kernel", "copy"])
    call_seconds = np.array([old.calls.get(k, 0.0) for k in part.key])
    waits = np.isin(run.call_class, ["sync", "copy"])
    ratio = (
        np.where(device, change.ratio, np.where(run.kind == "gap", change.host[..., 0], 1.0))
        * ~part.gone
    )
    late = np.where(
        device | part.gone,
        0.0,
        call_seconds * (change.ratio - 1.0)
        + change.delivery * run.idle_device
        + change.back * waits,
    )
    result = replay_sum(
        part.seconds, run.seconds, run.exposed_seconds, run.tail_count, run.seconds * ratio, late
    )
    alone = run.seconds * (ratio - 1.0) + late
    return float(result.seconds), part.seconds + float(alone.sum())


def without(part: Part, name: str) -> Part:
    """Return the part without the calls of one name, and without the host's work between each and
    the next call.

    The work that such a call waited for stays; what comes after the call no longer waits.
    """
    graph = part.graph
    of = graph.activity
    out = (part.key[of] == name) & (part.replay.run.category[of] == "api")
    waits = (graph.kind == EDGE["sync"]) & out[graph.owner]
    after = (
        (graph.kind == EDGE["host"])
        & out[np.maximum(graph.source - 1, 0) // 2]
        & (graph.source > 0)
        & (graph.source % 2 == 0)
    )
    lag = np.where(after | ((graph.kind == EDGE["call"]) & out[graph.owner]), 0, graph.lag_ns)
    residual = graph.residual_ns.copy()
    residual[finish(np.flatnonzero(out))] = 0
    edited = replace(graph, lag_ns=lag, residual_ns=residual).kept(~waits)
    gone = np.zeros(len(part.key), dtype=np.bool_)
    gone[of[out]] = True
    rows = part.profile.activities
    returned = rows.filter(pl.Series(gone)).select("track", start_ns="end_ns").unique()
    follows = (
        rows.with_row_index("at")
        .filter(pl.col("kind") == "gap")
        .join(returned, on=["track", "start_ns"], how="semi")
    )
    gone[follows["at"].to_numpy()] = True
    return replace(
        part,
        graph=edited,
        replay=TimelineReplay.compiled(edited, part.replay.run, np.arange(rows.height)),
        gone=gone,
    )
