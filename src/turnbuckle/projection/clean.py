"""A recording freed of what recording cost: the same run with host calls as short as its run time
without profiler asks for.

A profiler spends its time where the program calls: it notes every call as it begins and as it ends,
and writes full buffers away in between.  What it wrote of its own work (flushes, instrumentation)
is taken out of the gaps it lies in, all of it or the share that is enough.  The rest is taken out
of the host calls, from each the same time (none below nothing), until the timeline of the run ends
with the run time that was measured without profiler.  Kernels, copies, and the application's own
work between calls keep what was recorded; waiting is found again.  What a recording cannot tell:
overhead of the device (kernels that a profiler ran one after the other), and overhead in proportion
to other things than calls.

Errors:

    A424  a time without profiler that is none, or longer than the recorded one
    A198  a time so short that calls and the profiler's own records cannot explain it: a call would cost more than `MOST_PER_CALL`
    A122  the recorded order cannot be trusted, so that the timeline cannot say it
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.foundation.units import show
from turnbuckle.profile.dependencies.graph import EDGE, Graph
from turnbuckle.profile.dependencies.sides import TABLE, UNKNOWN, Device, Host, activities
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.admission import trusted_timeline
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import prepared
from turnbuckle.replay.timeline import no_change
from turnbuckle.trace.check import DRIVER_OVERHEAD
from turnbuckle.trace.intervals import covered_ns
from turnbuckle.trace.intervals import merge as merge_intervals
from turnbuckle.trace.trace import Trace

#: A profiler that takes longer for one call does something else than note it [s].  A bound of ours,
#: ten times what notes of calls are seen to cost.
MOST_PER_CALL: Final = 20e-6
#: The run time is met to this many nanoseconds, or after so many trials as well as calls of whole
#: nanoseconds can.
_NEAR_NS: Final = 1.0
#: Findings of `turnbuckle.trace.bounds.sound`.
SET_ASIDE: Final = ("P101", "P102", "P103", "P241")
_TRIALS: Final = 60


def cleaned(profile: Profile, seconds: float) -> Profile:
    """Return the profile of the same run without its profiler.

    Parameters
    ----------
    profile : the recorded run.
    seconds : its run time without profiler [s], over the same stretch (of the window, if one was
        cut out).

    Returns
    -------
    A profile whose run time is `seconds` (to a nanosecond for every call in a row at most), with
    finding P199; the profile itself where `seconds` is what was recorded.

    Raises
    ------
    UsageError : A424.
    CannotAnswer : A122, A198.
    """
    longer = seconds * 1e9 >= profile.run_time_ns + 0.5
    if longer or not math.isfinite(seconds) or round(seconds * 1e9) <= 0:
        raise error_of(
            "A424.longer" if longer else "A424.empty",
            where="--clean-time",
            found=f"{seconds:.9g} s; recorded are {profile.seconds:.9g} s",
        )
    wanted_ns = float(round(seconds * 1e9))
    if wanted_ns == profile.run_time_ns:
        return profile
    timeline = trusted_timeline(prepared(profile, replace(nething(), replay="timeline")))
    nothing = no_change(len(timeline.run))

    # a part of a recording may end after its last activity; what lies there is the program's own
    tail_ns = profile.run_time_ns - int(timeline.recorded_ns().max(initial=0))

    def ends(graph: Graph) -> float:
        return float(timeline.on(graph).seconds(nothing)) * 1e9 + tail_ns

    taken = _records(profile, timeline.graph)
    calls = _calls(profile, timeline.graph)
    most = min(float(timeline.graph.lag_ns[calls].max(initial=0)), MOST_PER_CALL * 1e9)
    least = ends(_shortened(timeline.graph, taken, 1.0, calls, most))
    if wanted_ns < least - _NEAR_NS:
        raise error_of(
            "A198",
            where="--clean-time",
            found=(
                f"{seconds:.9g} s; with {show(MOST_PER_CALL, 's')} less for every call the "
                f"recorded run takes {least * 1e-9:.9g} s"
            )
            if calls.any()
            else f"{seconds:.9g} s; the recording holds no host calls of the GPU runtime or of MPI",
        )
    share = _solved(
        lambda x: ends(_shortened(timeline.graph, taken, x, calls, 0.0)), wanted_ns, 1.0
    )
    per_call = (
        0.0
        if share < 1.0
        else _solved(
            lambda x: ends(_shortened(timeline.graph, taken, 1.0, calls, x)), wanted_ns, most
        )
    )
    shorter = _shortened(timeline.graph, taken, share, calls, per_call)
    after = np.rint(timeline.on(shorter).replayed(nothing.values)[0] * 1e9).astype(np.int64)
    flushed = int((taken * share).sum())
    detail = (
        f"{per_call:.4g} ns a call, {flushed * 1e-6:.4g} ms that the profiler wrote of itself; "
        f"{profile.seconds:.9g} s were recorded"
    )
    if spent := int(((shorter.lag_ns == 0) & (timeline.graph.lag_ns > 0))[calls].sum()):
        detail += (
            f"; {spent:,} of {int(calls.sum()):,} calls took less than that, and take no time of "
            "their own now"
        )
    return _rebuilt(profile, timeline.graph, after, tail_ns, detail)


def _calls(profile: Profile, graph: Graph) -> Bool:
    """Return the edges whose lag is the time that a host call of the GPU runtime or of MPI takes
    itself.
    """
    host = (
        profile.activities["category"]
        .cast(pl.String)
        .is_in(["api", "mpi"])
        .to_numpy()[graph.activity]
    )
    out: Bool = (graph.kind == EDGE["call"]) & host[graph.owner]
    return out


def _shortened(graph: Graph, taken: Int, share: float, calls: Bool, per_call: float) -> Graph:
    """Shorten gaps by `share` of the profiler's own records and each call by `per_call` [ns],
    rounded so that the sum is exact.
    """
    lag = graph.lag_ns - np.floor(taken * share).astype(np.int64)
    steps = np.diff(np.floor(np.arange(int(calls.sum()) + 1) * per_call)).astype(np.int64)
    lag[calls] = np.maximum(lag[calls] - steps, 0)
    return replace(graph, lag_ns=lag)


def _records(profile: Profile, graph: Graph) -> Int:
    """Return per edge how much of a gap between two calls of a thread the profiler's own records
    cover [ns].
    """
    taken = np.zeros(len(graph.lag_ns), dtype=np.int64)
    overheads = profile.trace.overheads.filter(
        ~pl.col("kind").fill_null(-1).is_in(DRIVER_OVERHEAD), pl.col("end_ns") > pl.col("start_ns")
    )
    if not overheads.height:
        return taken
    thread = activities(profile)["thread"].fill_null(-1).to_numpy()
    gaps = np.flatnonzero((graph.kind == EDGE["host"]) & (graph.source > 0) & (graph.lag_ns > 0))
    for number, rows in overheads.group_by("thread"):
        # work that names no thread was done on the thread that was profiled
        thread_gaps = gaps if number[0] is None else gaps[thread[graph.owner[gaps]] == number[0]]
        busy = merge_intervals(
            rows["start_ns"].to_numpy() - profile.first_ns,
            rows["end_ns"].to_numpy() - profile.first_ns,
        )
        covered = covered_ns(
            graph.time_ns[graph.source[thread_gaps]],
            graph.time_ns[graph.target[thread_gaps]],
            *busy,
        )
        taken[thread_gaps] = np.minimum(taken[thread_gaps] + covered, graph.lag_ns[thread_gaps])
    return taken


def _solved(ends: Callable[[float], float], wanted: float, longest: float) -> float:
    """Find how much must be taken out, at most `longest`, until the run ends as measured; `ends`
    decreases with it.
    """
    low, high = 0.0, longest
    at_low, at_high = ends(low), ends(high)
    if at_high >= wanted:
        return high
    if at_low <= wanted:
        return low
    middle = high
    for trial in range(_TRIALS):
        # the run time falls in ever flatter pieces: the chord first, then halves, so that neither
        # end stays for ever
        chord = low + (at_low - wanted) / (at_low - at_high) * (high - low)
        middle = chord if trial % 2 == 0 and low < chord < high else 0.5 * (low + high)
        end = ends(middle)
        if abs(end - wanted) <= _NEAR_NS or high - low <= 1e-9 * longest:
            break
        if end > wanted:
            low, at_low = middle, end
        else:
            high, at_high = middle, end
    return middle


# --- the recording, moved -------------------------------------------------------------------------


def _rebuilt(profile: Profile, graph: Graph, after: Int, tail_ns: int, detail: str) -> Profile:
    """Return the profile of the moved recording, with its flaws: what was set aside before it was
    moved is not found again.
    """
    trace = profile.trace
    first = profile.first_ns
    rows = activities(profile)
    starts, ends = rows["start_ns"].to_numpy() - first, rows["end_ns"].to_numpy() - first
    table = Device(rows, starts, ends, Host(rows, trace, first), trace).table
    host = {name: (rows["category"] == name).to_numpy() for name in ("api", "mpi")}
    device = ~(host["api"] | host["mpi"])
    row, single = rows["row"].fill_null(-1).to_numpy(), rows["polled_ns"].is_null().to_numpy()
    moved: dict[str, pl.DataFrame] = {}
    clocks = _Clocks(rows, graph.time_ns, after)
    for name in trace.has:
        frame = trace.table(name)
        if not {"start_ns", "time_ns"} & set(frame.columns) or name == "mpi_communicators":
            moved[name] = frame
            continue
        moved[name] = clocks.moved(frame, trace, first)
        in_table = host[name] if name in host else device & (table == TABLE.get(name, UNKNOWN))
        activity = np.flatnonzero(in_table & (row >= 0))
        if len(activity):
            begun, done = (moved[name][c].to_numpy().copy() for c in ("start_ns", "end_ns"))
            begun[row[activity]] = after[2 * activity + 1] + first
            # a loop of queries stays queries: its calls lie between its begin and its end as they
            # did
            activity = activity[single[activity]]
            done[row[activity]] = after[2 * activity + 2] + first
            moved[name] = moved[name].with_columns(
                start_ns=pl.Series(begun), end_ns=pl.Series(np.maximum(begun, done))
            )
    order = {
        n: ["start_ns"]
        if "start_ns" in f.columns
        else ["time_ns"]
        if "time_ns" in f.columns
        else []
        for n, f in moved.items()
    }
    sorted_ = {
        n: f.sort(order[n], maintain_order=True) if order[n] else f for n, f in moved.items()
    }
    clean_ns = int(after.max()) + tail_ns if len(after) else profile.run_time_ns
    about = {**trace.facts.get("part", {}), "clean_ns": clean_ns}
    about.pop("bounds_ns", None)
    bounds = [first, first + clean_ns] if "bounds_ns" in trace.facts.get("part", {}) else None
    facts = {**trace.facts, "part": about | ({"bounds_ns": bounds} if bounds else {})}
    out = build(Trace(sorted_, trace.names, facts, trace.findings, trace.name))
    return replace(
        out, findings=merge([*out.findings, *_set_aside(profile, out), finding("P199", 1, detail)])
    )


def _set_aside(profile: Profile, moved: Profile) -> Iterator[Finding]:
    """Return the findings of rows that were set aside before, as far as the moved recording does
    not have them.
    """
    has = {f.code: f.count for f in moved.findings}
    for f in profile.findings:
        if f.code in SET_ASIDE and f.count > has.get(f.code, 0):
            yield finding(f.code, f.count - has.get(f.code, 0), f.detail)


def _groups(values: Int) -> Iterator[tuple[int, Int]]:
    """Yield each distinct value and the indices that hold it, in ascending order."""
    order = np.argsort(values, kind="stable")
    bounds = np.flatnonzero(np.diff(values[order])) + 1
    for places in np.split(order, bounds) if len(order) else ():
        yield int(values[places[0]]), places


class _Clocks:
    """Where a time that no activity has comes to lie: between the activities of its thread, as
    recorded times lie between them.
    """

    def __init__(self, rows: pl.DataFrame, before: Int, after: Int) -> None:
        threads = rows["thread"].fill_null(-1).to_numpy()
        self._of: dict[int, tuple[Int, Int]] = {}
        for thread, members in _groups(threads):
            instants = np.stack([2 * members + 1, 2 * members + 2], axis=1).reshape(-1)
            old, new = before[instants], after[instants]
            order = np.lexsort((new, old))
            old, new = old[order], np.maximum.accumulate(new[order])
            keep = np.append(np.diff(old) > 0, True)
            self._of[thread] = old[keep], new[keep]
        calls = {t: len(k[0]) for t, k in self._of.items() if t >= 0} or {
            t: len(k[0]) for t, k in self._of.items()
        }
        self._main = max(calls, key=lambda t: calls[t]) if calls else None

    def moved(self, frame: pl.DataFrame, trace: Trace, first: int) -> pl.DataFrame:
        """Return a table with its times on the moved clock of the thread that each row belongs
        to.
        """
        if self._main is None:
            return frame
        thread = self._threads(frame, trace)
        columns = []
        for name in ("start_ns", "end_ns", "time_ns"):
            if name not in frame.columns:
                continue
            recorded = frame[name].is_not_null().to_numpy()
            times = frame[name].fill_null(first).to_numpy() - first
            out = times.copy()
            for number, members in _groups(thread):
                old, new = self._of.get(number, self._of[self._main])
                shift = np.interp(times[members], old, new - old)
                out[members] = times[members] + np.rint(shift).astype(np.int64)
            columns.append(
                pl.Series(name, out + first)
                .to_frame()
                .select(pl.when(pl.Series(recorded)).then(name).alias(name))[name]
            )
        return frame.with_columns(columns)

    def _threads(self, frame: pl.DataFrame, trace: Trace) -> Int:
        """Return the thread of each row; a row without thread takes that of the call it
        belongs to.
        """
        if "thread" in frame.columns:
            return frame["thread"].fill_null(-1).to_numpy()
        if {"process", "correlation"} <= set(frame.columns):
            calls = (
                trace.api.select("process", "correlation", "thread")
                .drop_nulls()
                .unique(["process", "correlation"], keep="first")
            )
            joined = frame.select("process", "correlation").join(
                calls, on=["process", "correlation"], how="left", maintain_order="left"
            )
            return joined["thread"].fill_null(-1).to_numpy()
        return np.full(frame.height, -1, dtype=np.int64)
