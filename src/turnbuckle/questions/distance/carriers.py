"""Calls that carry the latency: the cost of added distance along the critical path, by group of
calls.

The run time at an added latency s is T(0) plus the integral of the slope up to s, and the slope is
a sum over the edges of the critical path.  Each edge belongs to a group of calls.  The sums by
group are exact: together they are the whole penalty.  If a curve has very many pieces, only the
pieces that add most are walked, and the others are taken to have the same mix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.fields import Declared
from turnbuckle.profile.alike import alike
from turnbuckle.profile.dependencies.graph import EDGE, Index
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.sensitivity import Curve
from turnbuckle.replay.timeline import Change, TimelineReplay

#: Carriers named, and counterfactuals asked, at most.
NAMED: Final = 12
_ASKED: Final = 3
#: Sizes of copies by one kind of call that are told apart one by one.
_SIZES: Final = 6
#: Stands for the size of what copies nothing.
_NO_SIZE: Final = -2
#: Pieces of the curve walked one by one; of more, those that add most, and the others share their
#: mix.
_WALKED: Final = 48
#: Parts of the latency that a carrier can pay for, and the part that belongs to each kind of edge.
_PAID: Final = ("call", "command", "host work", "return", "transfer")
_PAY_OF: Final = {
    "deliver": "command",
    "stream": "command",
    "run": "transfer",
    "fault": "transfer",
    "sync": "return",
    "host": "host work",
}
_PAY_OF_EDGE: Final = np.array([_PAID.index(_PAY_OF.get(word, "call")) for word in EDGE])
_TO: Final = {
    "copy_h2d": "to the device",
    "copy_d2h": "to the host",
    "copy_d2d": "inside the device",
    "copy_p2p": "to another device",
}


@dataclass(frozen=True)
class Carrier(Declared):
    """One group of like calls and the time it adds to the run.

    Attributes
    ----------
    call : name of the host call; "memory moved by the driver" for migrations, "call not recorded"
        where the trace lacks it.
    asynchronous : run time [s] if none of them waited for the device; None where they do not wait,
        or it was not asked.
    batched : run time [s] if those that follow each other without another crossing call between
        them paid for the distance once.
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


def carriers(
    profile: Profile,
    replay: TimelineReplay,
    curve: Curve,
    change: Callable[[Float], Change],
    slack: float,
) -> list[Carrier]:
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
    order = sorted(
        carrying, key=lambda g: (-round(float(seconds[g]) / penalty, 9), str(groups.labels[g]))
    )[:NAMED]
    values = change(np.array([[slack]])).values
    largest = []
    for rank, g in enumerate(order):
        carrier = groups.named(
            g, float(seconds[g]), float(seconds[g] / penalty), int(callers[g]), pays[g]
        )
        if rank < _ASKED:
            carrier = _counterfactual(carrier, groups, g, profile, replay, values)
        largest.append(carrier)
    return largest


def _walked(
    replay: TimelineReplay,
    curve: Curve,
    change: Callable[[Float], Change],
    slack: float,
    groups: _Groups,
) -> tuple[Float, Int, list[tuple[str, ...]]]:
    """Return the seconds that each group adds up to `slack`, its number of calls on the critical
    path, and what they pay for.
    """
    ends = np.minimum(curve.at[1:], slack)
    lengths = np.maximum(ends - curve.at[:-1], 0.0)
    rises = lengths * curve.slopes
    pieces = np.argsort(-rises, kind="stable")[:_WALKED]
    pieces = pieces[rises[pieces] > 0]
    seconds = np.zeros(groups.count)
    called = np.zeros(len(groups.caller), dtype=np.bool_)
    paid = np.zeros((groups.count, len(_PAID)), dtype=np.bool_)
    low, high = curve.at[pieces], ends[pieces]
    middle, step = (low + high) / 2, (high - low) * 1e-3
    # close to the middle, so that no kink of the price lies between the points
    before, at_middle, beyond = (
        change(slacks[:, None]).values for slacks in (middle - step, middle, middle + step)
    )
    for number, k in enumerate(pieces.tolist()):
        direction = (beyond[number] - before[number]) / (2 * step[number])
        path = replay.path_at(at_middle[number])
        # if no delivery and no return is delayed, the calls themselves take longer
        in_calls = not direction[2 * len(replay.run) : 4 * len(replay.run)].any()
        slope = replay.slopes(path, direction)
        path, slope = path[slope > 0], slope[slope > 0]
        group = groups.of_edge(path)
        share = np.bincount(group, weights=slope, minlength=groups.count)
        if share.sum():
            seconds += rises[k] * share / share.sum()
        called[groups.caller_of(path)] = True
        paid[group, _PAID.index("call") if in_calls else _PAY_OF_EDGE[replay.graph.kind[path]]] = (
            True
        )
    pays = [
        tuple(word for word, is_paid in zip(_PAID, row, strict=True) if is_paid)
        for row in paid.tolist()
    ]
    # a call and all that it started are of one group
    return seconds, np.bincount(groups.group[called], minlength=groups.count), pays


def _among(numbers: Int, count: int) -> Bool:
    """Return which of so many numbers from zero occur."""
    occurs = np.zeros(count, dtype=np.bool_)
    occurs[numbers] = True
    return occurs


@dataclass(frozen=True, eq=False)
class _Groups:
    """Groups of calls of one name that copy the same; every activity that can carry latency belongs
    to one.
    """

    profile: Profile
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
        """Group activities: each counts as the call that started it, and each call as what it
        copies.
        """
        graph, n = replay.graph, len(replay.graph.activity)
        caller = np.arange(n)
        started = np.full(n, -1, dtype=np.int64)
        deliver = graph.kind == EDGE["deliver"]
        call, work = (graph.source[deliver] - 1) // 2, (graph.target[deliver] - 1) // 2
        caller[work] = call
        started[call] = work
        carried = np.where(started[caller] >= 0, started[caller], caller)
        waits = np.zeros(n, dtype=np.bool_)
        waits[(graph.target[graph.kind == EDGE["sync"]] - 1) // 2] = True
        words = profile.activities["kind"].dtype.categories.to_list()  # type: ignore[attr-defined]
        kind = profile.activities["kind"].to_physical().to_numpy()[graph.activity]
        page = kind == words.index("migration")
        names, name = _named_calls(profile, graph.activity, page)
        copies = np.isin(kind[carried], [words.index(word) for word in _TO]) | page[caller]
        size = np.where(
            copies,
            profile.activities["size_bytes"].fill_null(0).to_numpy()[graph.activity][carried],
            _NO_SIZE,
        )
        one_call, _ = alike(name[caller], kind[carried] * copies, waits[caller])
        _, first_of_size = alike(one_call, size)
        # sizes of a call with many sizes are grouped by their power of ten
        several = np.bincount(one_call[first_of_size]) > _SIZES
        decade = np.floor(
            np.log10(np.maximum(size, 1), where=size > 0, out=np.full(n, -1.0))
        ).astype(np.int64)
        group, first = alike(
            one_call, np.where(several[one_call] & (size != _NO_SIZE), decade, size)
        )
        sizes: list[list[int]] = [[] for _ in first]
        for k, size_bytes in zip(
            group[first_of_size].tolist(), size[first_of_size].tolist(), strict=True
        ):
            sizes[k].append(size_bytes)
        labels = [
            (
                names[called],
                _TO.get(words[moved], ""),
                None if of[0] == _NO_SIZE else (min(of), max(of)),
                waiting,
            )
            for called, moved, of, waiting in zip(
                name[caller[first]].tolist(),
                kind[carried[first]].tolist(),
                sizes,
                waits[caller[first]].tolist(),
                strict=True,
            )
        ]
        return cls(
            profile,
            replay,
            caller,
            group,
            labels,
            np.bincount(group[_among(caller, n)], minlength=len(labels)),
        )

    @cached_property
    def crossing(self) -> tuple[Int, Bool]:
        """Return the calls that cross to the device, in the order of their threads and times, and
        which begin a thread.
        """
        profile, replay = self.profile, self.replay
        category, row = profile.activities["category"], replay.graph.activity
        words = category.dtype.categories.to_list()  # type: ignore[attr-defined]
        host = np.flatnonzero(category.to_physical().to_numpy()[row] == words.index("api"))
        crossing = host[replay.run.crosses[replay.piece[host]]]
        track = profile.activities["track"].to_numpy()[row[crossing]]
        order = np.lexsort((replay.graph.time_ns[2 * crossing + 1], track))
        return crossing[order], np.concatenate([[True], np.diff(track[order]) != 0])

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

    def named(
        self, group: int, seconds: float, share: float, count: int, pays: tuple[str, ...]
    ) -> Carrier:
        """Describe a group in words."""
        name, to, sizes, waits = self.labels[group]
        plural = "" if count == 1 else "s"
        size_words = (
            ""
            if sizes is None
            else f"{sizes[0]:,} B"
            if sizes[0] == sizes[1]
            else f"{sizes[0]:,} to {sizes[1]:,} B"
        )
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


def _counterfactual(
    carrier: Carrier,
    groups: _Groups,
    group: int,
    profile: Profile,
    replay: TimelineReplay,
    values: Float,
) -> Carrier:
    """Replay the run with these calls not waiting, and with uninterrupted rows of them made one
    call.
    """
    graph, calls = replay.graph, groups.calls(group)
    beyond = profile.seconds - float(graph.time_ns.max()) * 1e-9
    in_group = np.zeros(len(graph.activity), dtype=np.bool_)
    in_group[calls] = True
    returns = np.isin(graph.kind, [EDGE["sync"], EDGE["queue"]]) & in_group[(graph.target - 1) // 2]
    asynchronous = None
    if returns.any():
        asynchronous = replay.seconds_without(values[0], returns) + beyond
    later = _later_in_row(groups, calls)
    batched = batches = None
    if len(later):
        batches = len(calls) - len(later)
        silent = np.zeros(len(graph.activity), dtype=np.bool_)
        silent[later] = True
        silent |= silent[groups.caller]
        batched = replay.seconds_sparing(values[0], silent) + beyond
    return replace(carrier, asynchronous=asynchronous, batched=batched, batches=batches)


def _later_in_row(groups: _Groups, calls: Int) -> Int:
    """Return the calls of a group that follow another call of it on the same thread.

    Between the two there is no other call that crosses to the device.
    """
    order, heads = groups.crossing
    in_group = _among(calls, len(groups.caller))[order]
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = in_group[1:] & in_group[:-1] & ~heads[1:]
    return order[follows]


def _named_calls(profile: Profile, rows: Int, page: Bool) -> tuple[list[str], Int]:
    """Return texts, and for each activity the number of the text that names its call."""
    column = profile.activities["name"]
    texts = ["call not recorded", "memory moved by the driver"]
    number_of: dict[str, int] = {}
    count = len(profile.trace.names)
    number = np.zeros(count + 1, dtype=np.int64)
    used = column.drop_nulls().unique()
    given = [] if not count else profile.trace.names.gather(used).to_list()
    for index, text in zip(used.to_list(), given, strict=False):
        if text:
            number[index] = number_of.setdefault(text, len(number_of) + len(texts))
    named = number[
        column.fill_null(count).to_numpy() if count else np.zeros(len(column), dtype=np.int64)
    ][rows]
    return [*texts, *number_of], np.where(named, named, page)
