"""Calls that carry the latency: the cost of added distance along the critical path, by group of calls.

The run time at an added latency s is T(0) plus the integral of the slope up to s, and the slope is a sum over the edges of the
critical path.  Each edge belongs to a group of calls.  The sums by group are exact: together they are the whole penalty.  If a curve
has very many pieces, only the pieces that add most are walked, and the others are taken to have the same mix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.fields import Declared
from turnbuckle.profile.dependencies.dependencies import EDGE, Index
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.sensitivity import Curve
from turnbuckle.replay.timeline import Change, TimelineReplay

#: Carriers named, and counterfactuals asked, at most.
NAMED: Final = 12
_ASKED: Final = 3
#: Sizes of copies by one kind of call that are told apart one by one.
_SIZES: Final = 6
#: Pieces of the curve walked one by one; of more, those that add most, and the others share their mix.
_WALKED: Final = 48
#: Parts of the latency that a carrier can pay for, and the part that belongs to each kind of edge.
_PAID: Final = ("call", "command", "host work", "return", "transfer")
_PAY_OF: Final = {"deliver": "command", "stream": "command", "run": "transfer", "fault": "transfer", "sync": "return", "host": "host work"}
_PAY_OF_EDGE: Final = np.array([_PAID.index(_PAY_OF.get(word, "call")) for word in EDGE])
_TO: Final = {"copy_h2d": "to the device", "copy_d2h": "to the host", "copy_d2d": "inside the device", "copy_p2p": "to another device"}


@dataclass(frozen=True)
class Carrier(Declared):
    """One group of like calls and the time it adds to the run.

    Attributes
    ----------
    call : name of the host call; "memory moved by the driver" for migrations, "call not recorded" where the trace lacks it.
    what : the group in words: "59 blocking copies of 8 B to the host".
    count : how many of them are on the critical path.
    of : how many there are in all.
    size_bytes : bytes of each copy; None where it copies nothing, or where many sizes are counted together.
    seconds : time that they add to the run [s].
    share : `seconds` as a share of the whole penalty.
    pays : the parts of the latency that they pay for: command, transfer, return, call.
    asynchronous : run time [s] if none of them waited for the device; None where they do not wait, or it was not asked.
    batched : run time [s] if those that follow each other without another crossing call between them paid for the distance once.
    batches : the number of calls left if so batched.
    """

    call: str
    what: str
    count: int
    of: int
    size_bytes: int | None
    seconds: float
    share: float
    pays: tuple[str, ...]
    asynchronous: float | None = None
    batched: float | None = None
    batches: int | None = None


def carriers(profile: Profile, replay: TimelineReplay, curve: Curve, change: Callable[[Float], Change], slack: float) -> list[Carrier]:
    """Return the groups of calls that carry the penalty at an added latency, the largest first.

    Parameters
    ----------
    profile, replay : the run.
    curve, change : its run time along the added latency, and what changes there.
    slack : the added latency [s].
    """
    penalty = float(curve(slack)) - float(curve.seconds[0])
    if penalty <= 0:
        return []
    groups = _Groups.of(profile, replay)
    seconds, callers, pays = _walked(replay, curve, change, slack, groups)
    if not seconds.sum():
        return []
    seconds *= penalty / seconds.sum()
    # break ties by name: the numbers of groups depend on names, which may be hashes
    carrying = np.flatnonzero(seconds > 0).tolist()
    order = sorted(carrying, key=lambda g: (-round(float(seconds[g]) / penalty, 9), str(groups.labels[g])))[:NAMED]
    values = change(np.array([[slack]])).values
    largest = []
    for rank, g in enumerate(order):
        carrier = groups.named(g, float(seconds[g]), float(seconds[g] / penalty), int(callers[g]), pays[g])
        if rank < _ASKED:
            carrier = _counterfactual(carrier, groups, g, profile, replay, values)
        largest.append(carrier)
    return largest


def _walked(
    replay: TimelineReplay, curve: Curve, change: Callable[[Float], Change], slack: float, groups: _Groups
) -> tuple[Float, Int, list[tuple[str, ...]]]:
    """Return the seconds that each group adds up to `slack`, its number of calls on the critical path, and what they pay for."""
    ends = np.minimum(curve.at[1:], slack)
    lengths = np.maximum(ends - curve.at[:-1], 0.0)
    rises = lengths * curve.slopes
    pieces = np.argsort(-rises, kind="stable")[:_WALKED]
    pieces = pieces[rises[pieces] > 0]
    seconds = np.zeros(groups.count)
    called = np.zeros(len(groups.caller), dtype=np.bool_)
    paid = np.zeros((groups.count, len(_PAID)), dtype=np.bool_)
    for k in pieces:
        low, high = curve.at[k], ends[k]
        middle, step = (low + high) / 2, (high - low) * 1e-3
        # close to the middle, so that no kink of the price lies between the points
        values = change(np.array([[middle - step], [middle], [middle + step]])).values
        direction = (values[2] - values[0]) / (2 * step)
        _, path = replay.replayed(values[1])
        # if no delivery and no return is delayed, the calls themselves take longer
        in_calls = not direction[2 * len(replay.run) : 4 * len(replay.run)].any()
        slope = replay.slopes(path, direction)
        path, slope = path[slope > 0], slope[slope > 0]
        group = groups.of_edge(path)
        share = np.bincount(group, weights=slope, minlength=groups.count)
        if share.sum():
            seconds += rises[k] * share / share.sum()
        called[groups.caller_of(path)] = True
        paid[group, _PAID.index("call") if in_calls else _PAY_OF_EDGE[replay.graph.kind[path]]] = True
    pays = [tuple(word for word, is_paid in zip(_PAID, row, strict=True) if is_paid) for row in paid.tolist()]
    # a call and all that it started are of one group
    return seconds, np.bincount(groups.group[called], minlength=groups.count), pays


def _among(numbers: Int, count: int) -> Bool:
    """Return which of so many numbers from zero occur."""
    occurs = np.zeros(count, dtype=np.bool_)
    occurs[numbers] = True
    return occurs


@dataclass(frozen=True)
class _Groups:
    """Groups of calls of one name that copy the same; every activity that can carry latency belongs to one."""

    replay: TimelineReplay
    caller: Int
    group: Int
    labels: list[tuple[str, str, tuple[int, int] | None, bool]]
    sizes: Int

    @property
    def count(self) -> int:
        return len(self.labels)

    @classmethod
    def of(cls, profile: Profile, replay: TimelineReplay) -> _Groups:
        """Group activities: each counts as the call that started it, and each call as what it copies."""
        graph, n = replay.graph, len(replay.graph.activity)
        caller = np.arange(n)
        started = np.full(n, -1, dtype=np.int64)
        deliver = graph.kind == EDGE["deliver"]
        call, work = (graph.source[deliver] - 1) // 2, (graph.target[deliver] - 1) // 2
        caller[work] = call
        started[call] = work
        rows = profile.activities[graph.activity]
        carried = np.where(started[caller] >= 0, started[caller], caller)
        waits = np.zeros(n, dtype=np.bool_)
        waits[(graph.target[graph.kind == EDGE["sync"]] - 1) // 2] = True
        kind = rows["kind"].cast(pl.String)
        page = kind == "migration"
        unnamed = pl.when(page).then(pl.lit("memory moved by the driver")).otherwise(pl.lit("call not recorded"))
        given = pl.col("given").replace("", None)
        name = pl.DataFrame({"given": profile.trace.text(rows)}).select(pl.coalesce(given, unnamed).alias("name"))["name"]
        copies = kind[carried].is_in(list(_TO)) | page[caller]
        keys = pl.DataFrame(
            {
                "name": name[caller],
                "to": kind[carried].replace_strict(_TO, default=""),
                "size": rows["size_bytes"][carried].fill_null(0).set((~copies).fill_null(True), None),
                "waits": waits[caller],
            }
        )
        # sizes of a call with many sizes are grouped by their power of ten
        several = pl.col("size").n_unique().over("name", "to", "waits") > _SIZES
        decade = pl.when(several).then(pl.col("size").log10().floor()).otherwise(pl.col("size"))
        keys = keys.with_columns(decade=decade).with_columns(group=pl.struct("name", "to", "decade", "waits").rank("dense") - 1)
        labels = keys.group_by("group").agg(
            pl.col("name", "to", "waits").first(), pl.col("size").min().alias("low"), pl.col("size").max().alias("high")
        )
        group = keys["group"].to_numpy().astype(np.int64)
        words = [
            (name, to, None if low is None else (low, high), waits)
            for name, to, waits, low, high in labels.sort("group").drop("group").iter_rows()
        ]
        return cls(replay, caller, group, words, np.bincount(group[_among(caller, n)], minlength=len(words)))

    def _activity(self, edges: Int) -> Index:
        """Return the activity that each edge charges."""
        return self.replay.graph.payers(edges)

    def of_edge(self, edges: Int) -> Int:
        """Return the group of each edge."""
        return self.group[self._activity(edges)]

    def caller_of(self, edges: Int) -> Int:
        """Return the call of each edge."""
        return self.caller[self._activity(edges)]

    def calls(self, group: int) -> Int:
        """Return the host calls of a group."""
        return np.flatnonzero(_among(self.caller[self.group == group], len(self.caller)))

    def named(self, group: int, seconds: float, share: float, count: int, pays: tuple[str, ...]) -> Carrier:
        """Describe a group in words."""
        name, to, sizes, waits = self.labels[group]
        plural = "" if count == 1 else "s"
        size_words = "" if sizes is None else f"{sizes[0]:,} B" if sizes[0] == sizes[1] else f"{sizes[0]:,} to {sizes[1]:,} B"
        if to:
            # a blocking call that returned early, because the driver staged the data, is neither
            manner = "blocking " if waits else "asynchronous " if "Async" in name else ""
            words = f"{count:,} {manner}cop{'y' if count == 1 else 'ies'} of {size_words} {to}"
        elif waits:
            words = f"{count:,} wait{plural} for the device"
        elif sizes is not None:
            words = f"{count:,} move{plural} of {size_words} by the driver"
        else:
            words = f"{count:,} call{plural} of {name}"
        size = sizes[0] if sizes is not None and sizes[0] == sizes[1] else None
        return Carrier(name, words, count, int(self.sizes[group]), size, seconds, share, pays)


def _counterfactual(carrier: Carrier, groups: _Groups, group: int, profile: Profile, replay: TimelineReplay, values: Float) -> Carrier:
    """Replay the run with these calls not waiting, and with uninterrupted rows of them made one call."""
    graph, calls = replay.graph, groups.calls(group)
    beyond = profile.seconds - float(graph.time_ns.max()) * 1e-9
    in_group = np.zeros(len(graph.activity), dtype=np.bool_)
    in_group[calls] = True
    returns = np.isin(graph.kind, [EDGE["sync"], EDGE["queue"]]) & in_group[(graph.target - 1) // 2]
    asynchronous = None
    if returns.any():
        asynchronous = float(replay.without(returns).seconds_at(values)[0]) + beyond
    later = _later_in_row(groups, calls, profile, replay)
    batched = batches = None
    if len(later):
        batches = len(calls) - len(later)
        silent = np.zeros(len(graph.activity), dtype=np.bool_)
        silent[later] = True
        silent |= silent[groups.caller]
        batched = float(replay.sparing(silent).seconds_at(values)[0]) + beyond
    return replace(carrier, asynchronous=asynchronous, batched=batched, batches=batches)


def _later_in_row(groups: _Groups, calls: Int, profile: Profile, replay: TimelineReplay) -> Int:
    """Return the calls of a group that follow another call of it on the same thread.

    Between the two there is no other call that crosses to the device.
    """
    rows = profile.activities[replay.graph.activity]
    host = np.flatnonzero((rows["category"].cast(str) == "api").to_numpy())
    crossing = host[replay.run.crosses[replay.piece[host]]]
    track = rows["track"].to_numpy()
    order = crossing[np.lexsort((replay.graph.time_ns[2 * crossing + 1], track[crossing]))]
    in_group = np.isin(order, calls)
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = in_group[1:] & in_group[:-1] & (track[order][1:] == track[order][:-1])
    return order[follows]
