"""Partial order of a program's activities: what came first in every one of its runs (poger, PNNL
FENATE).

One recording shows one order of everything; which of it is needed, and which happened to be so, it
cannot say.  Several recordings of one program that were disturbed differently can: an instant
precedes another if it did so in *every* run (the intersection of the runs' linear orders).  A true
dependency is never lost; two independent instants of which one comes first with probability q are
still taken for dependent after R runs with probability q^R + (1-q)^R.

Order on one track (a host thread, a stream) is known and kept, so that instants form chains, and
what precedes an instant on a track is a prefix of that chain.  An instant's clock holds the length
of each prefix: the least over the runs.  The cover relation follows from clocks alone, without
looking at pairs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.profile.dependencies.graph import EDGE, Graph
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.profile import Profile


@dataclass(frozen=True)
class Runs:
    """One program in several runs, activity by activity.

    Attributes
    ----------
    track : of each activity, shape (activities,); activities of a track follow each other, in its
        order.
    tracks : what each track is.
    names : of each activity.
    rows : of each activity in each run, as in `Graph.activity`'s numbering of that run, shape
        (runs, activities).
    time_ns : begin and end of each activity after the run's start, shape (runs, 2 activities): 2i
        begins, 2i+1 ends activity i.
    unmatched : activities of each run without a counterpart in every other, shape (runs,).
    disordered : activities set aside because they changed places on their own track.
    kinds : of each activity; empty where they are not known.
    """

    track: Int
    tracks: tuple[str, ...]
    names: tuple[str, ...]
    rows: Int
    time_ns: Int
    unmatched: Int
    disordered: int
    kinds: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.track)

    @property
    def chain(self) -> Int:
        """Return the track of each instant, shape (2 activities,)."""
        return np.repeat(self.track, 2)

    def some(self, runs: Sequence[int]) -> Runs:
        """Return the same activities in only some of the runs."""
        chosen = list(runs)
        return replace(
            self,
            rows=self.rows[chosen],
            time_ns=self.time_ns[chosen],
            unmatched=self.unmatched[chosen],
        )


def matched(profiles: Sequence[Profile]) -> Runs:
    """Match the activities of several recordings of one program.

    Processes and threads are matched by the order in which they first appear, streams by the order
    of their numbers. An activity is matched by its track, kind, name, and how often that occurred
    on the track before. Activities that one run lacks are left out of all and counted.

    Raises
    ------
    CannotAnswer : A162, fewer than two recordings; A163, they have no track or too little in common
        to be one program.
    """
    if len(profiles) < 2:
        raise error_of("A162", found=str(len(profiles)))
    frames = [_named(p) for p in profiles]
    keys = ["track", "kind", "name", "nth"]
    joined = frames[0]
    for number, frame in enumerate(frames[1:], 1):
        joined = joined.join(frame, on=keys, suffix=f"_{number}", maintain_order="left")
    if joined.height < 0.5 * min(f.height for f in frames) or not joined.height:
        least = min(f.height for f in frames)
        raise error_of("A163", found=f"{joined.height} of {least} activities are in all of them")
    joined = joined.sort("track", "start_ns", "end_ns", maintain_order=True)
    suffixes = ["", *(f"_{n}" for n in range(1, len(frames)))]
    starts = np.stack([joined[f"start_ns{s}"].to_numpy() for s in suffixes])
    places, words = (
        joined["track"].to_numpy(),
        joined["track"].unique(maintain_order=True).to_list(),
    )
    kept = _in_one_order(np.unique(places, return_inverse=True)[1], starts)
    joined, places = joined.filter(pl.Series(kept)), places[kept]
    number_of = {word: i for i, word in enumerate(words)}
    track = np.array([number_of[w] for w in places], dtype=np.int64)
    instants = [
        np.stack(
            [joined[f"start_ns{s}"].to_numpy(), joined[f"end_ns{s}"].to_numpy()], axis=1
        ).reshape(-1)
        for s in suffixes
    ]
    rows = np.stack([joined[f"i{s}"].to_numpy() for s in suffixes]).astype(np.int64)
    return Runs(
        track,
        tuple(words),
        tuple(joined["name"].to_list()),
        rows,
        np.stack(instants).astype(np.int64),
        np.array([f.height - len(kept) for f in frames], dtype=np.int64),
        int((~kept).sum()),
        tuple(joined["kind"].to_list()),
    )


def _named(profile: Profile) -> pl.DataFrame:
    """Return activities with names that hold across runs: i, track, kind, name, nth, start_ns,
    end_ns.

    Calls inside calls are left out.
    """
    rows = activities(profile).with_row_index("i")
    words = _places(rows)
    # Polars returns the numbers themselves for an empty mapping
    track = (
        pl.col("track").replace_strict(words, return_dtype=pl.String)
        if words
        else pl.lit(None, dtype=pl.String).alias("track")
    )
    named = rows.select(
        "i",
        track,
        pl.col("kind").cast(pl.String),
        pl.coalesce(profile.trace.names.gather(rows["name"]), pl.col("kind").cast(pl.String)).alias(
            "name"
        ),
        pl.col("start_ns") - profile.first_ns,
        pl.col("end_ns") - profile.first_ns,
    ).sort("track", "start_ns", "end_ns", descending=[False, False, True], maintain_order=True)
    # a call and the calls inside it are one activity
    named = named.filter(
        pl.col("end_ns") > pl.col("end_ns").cum_max().shift(1, fill_value=-1).over("track")
    )
    return named.with_columns(nth=pl.int_range(pl.len()).over("track", "kind", "name"))


def _places(rows: pl.DataFrame) -> dict[int, str]:
    """Return names of tracks that hold across runs.

    Ranks and threads are numbered as they first appear, streams as they were made. Numbers of
    streams ascend as they are made. Which stream has work first is what the runs are asked about.
    """
    place = ["process", "thread", "device", "stream"]
    seen = rows.group_by("track", *place).agg(at=pl.col("start_ns").min()).sort("at", "track")
    rank = {p: n for n, p in enumerate(seen["process"].unique(maintain_order=True).to_list())}
    words: dict[int, str] = {}
    count: dict[tuple[int, int | None], int] = {}
    for row in seen.sort("stream", "at", "track", nulls_last=False).iter_rows(named=True):
        device = None if row["stream"] is None else row["device"]
        nth = count[rank[row["process"]], device] = (
            count.get((rank[row["process"]], device), -1) + 1
        )
        where = f"thread {nth}" if row["stream"] is None else f"device {device} stream {nth}"
        words[row["track"]] = f"rank {rank[row['process']]} {where}"
    return words


def _in_one_order(track: Int, starts: Int) -> Bool:
    """Return the mask of the activities that come in one order on their track in all runs: per
    track, the longest such sequence.
    """
    kept = np.ones(starts.shape[1], dtype=np.bool_)
    for number in np.unique(track):
        in_order = np.flatnonzero(track == number)
        for run in starts[1:]:
            in_order = in_order[_longest_rising(run[in_order])]
        outside = track == number
        outside[in_order] = False
        kept &= ~outside
    return kept


def _longest_rising(values: Int) -> Int:
    """Return the places of a longest non-decreasing subsequence (patience sorting)."""
    if not len(values) or (np.diff(values) >= 0).all():
        return np.arange(len(values))
    ends: list[int] = []
    last: list[int] = []
    before = np.full(len(values), -1, dtype=np.int64)
    for place, value in enumerate(values.tolist()):
        pile = bisect_right(ends, value)
        before[place] = last[pile - 1] if pile else -1
        if pile == len(ends):
            ends.append(value)
            last.append(place)
        else:
            ends[pile], last[pile] = value, place
    out = [last[-1]]
    while before[out[-1]] >= 0:
        out.append(int(before[out[-1]]))
    return np.array(out[::-1], dtype=np.int64)


# --- the order ------------------------------------------------------------------------------------


def ranks(runs: Runs) -> Int:
    """Return the place of every instant in each run's linear order, shape (runs, instants).

    Instants of one nanosecond are ordered by their time over all runs, so that a dependency without
    delay keeps its direction.
    """
    times = _rising(runs.chain, runs.time_ns)
    total, number = times.sum(0), np.arange(times.shape[1])
    out = np.empty_like(times)
    for run, time in enumerate(times):
        out[run, np.lexsort((number, total, time))] = number
    return out


def _rising(chain: Int, times: Int) -> Int:
    """Return times that do not fall along a chain; overlapping work on one stream counts as
    sequential.
    """
    heads = np.diff(chain, prepend=-1) != 0
    lift = np.cumsum(heads) * (int(times.max(initial=0)) + 1)
    raised: Int = np.maximum.accumulate(times + lift, axis=1) - lift
    return raised


def clocks(chain: Int, placed: Int) -> Int:
    """Count the instants of each track that precede an instant in every run, shape (instants,
    tracks).

    Parameters
    ----------
    chain : track of every instant, shape (instants,); the instants of a track follow each other, in
        its order.
    placed : place of every instant in each run, shape (runs, instants), as `ranks` returns it; it
        rises along each track.
    """
    first = np.flatnonzero(np.diff(chain, prepend=-1))
    bounds = np.append(first, len(chain))
    out = np.empty((len(chain), len(first)), dtype=np.int64)
    for column, (begin, end) in enumerate(pairwise(bounds.tolist())):
        before = [np.searchsorted(run[begin:end], run, side="left") for run in placed]
        out[:, column] = np.minimum.reduce(before)
    return out


def covers(chain: Int, clock: Int) -> tuple[Int, Int]:
    """Return the cover relation across tracks: pairs (source, target) of instants without any other
    instant between them.

    Parameters
    ----------
    chain, clock : as in `clocks`.

    Returns
    -------
    Instants, target ascending.  Neighbours of one track cover each other besides.
    """
    tracks = clock.shape[1]
    first = np.flatnonzero(np.diff(chain, prepend=-1))
    number = np.cumsum(np.diff(chain, prepend=-1) != 0) - 1
    after = np.arange(len(chain))
    inner = np.diff(chain, prepend=-1) == 0
    previous = np.where(inner, after - 1, -1)
    source: list[Int] = []
    target: list[Int] = []
    for from_track in range(tracks):
        length = clock[:, from_track]
        shown = (length > 0) & (number != from_track)
        # the previous instant of the track implies it already
        shown &= (previous < 0) | (clock[np.maximum(previous, 0), from_track] < length)
        for via_track in range(tracks):
            if via_track == from_track:
                continue
            through = first[via_track] + clock[:, via_track] - 1
            implied = (
                (clock[:, via_track] > 0)
                & (number != via_track)
                & (clock[np.maximum(through, 0), from_track] >= length)
            )
            shown &= ~implied
        source.append(first[from_track] + length[shown] - 1)
        target.append(after[shown])
    begin, end = np.concatenate(source), np.concatenate(target)
    order = np.lexsort((begin, end))
    return begin[order], end[order]


def ordered(graph: Graph, runs: Runs, source: Int, target: Int, run: int = 0) -> Graph:
    """Add the order found across tracks to a profile's graph, as edges of kind ``order`` without a
    delay.

    What is recorded stays what an unchanged replay gives: an edge can only explain what was left
    over.

    Parameters
    ----------
    graph : of the profile of `run`.
    source, target : pairs of instants, as `covers` gives them.
    """
    instants = 2 * np.repeat(runs.rows[run], 2) + 1 + np.tile([0, 1], len(runs))
    begin, end = instants[source], instants[target]
    held = graph.time_ns[begin] < graph.time_ns[end]
    begin, end = (instants[held].astype(np.int32) for instants in (begin, end))
    lag = np.zeros(len(begin), dtype=np.int64)
    latest = np.zeros(len(graph.time_ns), dtype=np.int64)
    every = (
        np.append(graph.source, begin),
        np.append(graph.target, end),
        np.append(graph.lag_ns, lag),
    )
    np.maximum.at(latest, every[1], graph.time_ns[every[0]] + every[2])
    paid = np.full(len(graph.kind), -1, dtype=np.int32) if graph.paid is None else graph.paid
    return replace(
        graph,
        source=every[0],
        target=every[1],
        lag_ns=every[2],
        kind=np.append(graph.kind, np.full(len(begin), EDGE["order"], dtype=graph.kind.dtype)),
        residual_ns=graph.time_ns - latest,
        paid=np.append(paid, np.full(len(begin), -1, dtype=np.int32)),
    )
